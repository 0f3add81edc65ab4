// Package visible writes text of others so that a reader sees every character
// of it. What models, pages, plans and keys say is printed through it on terminals, in
// Markdown, in SARIF, in tables and in JSON: control characters, zero widths, directions
// of writing, fillers and unusual spaces become escapes. It changes what is printed, and
// nothing that is recorded, digested or scored.
package visible

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Hidden reports whether a reader could miss r, or take what follows for
// something else: control and format characters, line separators, spaces other
// than U+0020, and what a program may ignore by Unicode, as variation selectors,
// fillers and tags.
func Hidden(r rune) bool {
	if r >= ' ' && r <= '~' { // most text
		return false
	}
	return !unicode.IsPrint(r) || r == 0x2800 || // the Braille pattern without a dot
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
		r >= 0x17b4 && r <= 0x17b5 || r == 0x180f || r == 0x16fe4 || r == 0x1d159 || r >= 0xe0000 && r <= 0xe0fff
}

// Line returns s on one line: each hidden character is an escape, \uXXXX or
// \UXXXXXXXX.
func Line(s string) string { return escape(s, "", writeLong) }

// Text is Line, but keeps newlines and tabs.
func Text(s string) string { return escape(s, "\n\t", writeLong) }

// JSON is Text for JSON: the escapes are those of its strings.
func JSON(s string) string { return escape(s, "\n\t", writeJSON) }

// Quote returns s in quotes as Go writes them, without a hidden character.
func Quote(s string) string { return Line(strconv.Quote(s)) }

func escape(s, kept string, write func(*strings.Builder, rune)) string {
	hidden := func(r rune) bool { return Hidden(r) && !strings.ContainsRune(kept, r) }
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			write(&b, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func writeLong(b *strings.Builder, r rune) {
	if r > 0xffff {
		fmt.Fprintf(b, `\U%08x`, r)
		return
	}
	fmt.Fprintf(b, `\u%04x`, r)
}

func writeJSON(b *strings.Builder, r rune) {
	if high, low := utf16.EncodeRune(r); r > 0xffff {
		fmt.Fprintf(b, `\u%04x\u%04x`, high, low)
		return
	}
	fmt.Fprintf(b, `\u%04x`, r)
}
