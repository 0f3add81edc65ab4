package render

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/audit"
)

// Checks returns docs/checks.md: what the audit looks for, check by check.
func Checks() []byte {
	var out strings.Builder
	out.WriteString(`# The checks of the audit

Written by ` + "`make generate`" + ` from the checks themselves. ` + "`gaia audit --explain AUD-5`" + ` says the same of one.

A run is *clean* if nothing CRITICAL or HIGH is found, or all such findings are closed, and no check of the gate has a gap: something that it
needed to see and could not. What is to be reviewed does not make a run unclean, except with ` + "`--strict`" + `. INFO is noted and no more.

| check | name | gate | gravest finding | a pass says |
|---|---|---|---|---|
`)
	for _, c := range audit.Checks() {
		gate := ""
		if c.Gate {
			gate = "yes"
		}
		fmt.Fprintf(&out, "| [%s](#%s) | %s | %s | %s | %s |\n", c.ID, anchor(c), c.Name, gate, c.Severity, cell(c.Title))
	}
	for _, c := range audit.Checks() {
		fmt.Fprintf(&out, "\n## %s\n\n%s\n\n| rule | severity | version | it finds |\n|---|---|--:|---|\n", heading(c), sentence(c.Why))
		for _, r := range c.Rules {
			fmt.Fprintf(&out, "| `%s.%s` | %s | %d | %s |\n", c.ID, r.ID, r.Severity, r.Version, cell(r.When))
		}
		out.WriteString("\n- **What to do**: " + sentence(c.Fix) + "\n")
		for _, more := range [][2]string{{"It skips", c.Skips}, {"It does not apply", c.Absent}} {
			if more[1] != "" {
				fmt.Fprintf(&out, "- **%s** when %s\n", more[0], ended(more[1]))
			}
		}
		for _, ref := range c.References {
			out.WriteString("- See " + ref + "\n")
		}
	}
	return []byte(out.String())
}

func heading(c audit.Check) string { return c.ID + " " + c.Name }

// anchor is what GitHub calls the heading of a check.
func anchor(c audit.Check) string {
	return url.PathEscape(strings.ReplaceAll(strings.ToLower(strings.TrimSpace(heading(c))), " ", "-"))
}

// sentence makes a sentence of a clause.
func sentence(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	if s == "" {
		return ""
	}
	return string(unicode.ToUpper(first)) + ended(s[size:])
}

// ended ends a sentence that has begun.
func ended(s string) string {
	if strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

// cell keeps a text within its cell of a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
