package policy

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// pattern says whether one part of a URL is meant.
type pattern func(part string) bool

// compile reads one pattern of the list: literals separated by |, each with a star at its end if
// anything may follow, or one of the descriptions in angle brackets.
func (l denylist) compile(s string) (pattern, error) {
	switch s {
	case "<answer file>":
		return func(part string) bool { ok, _ := l.AnswerFiles.match(part); return ok }, nil
	case "<gaia answer file>":
		return func(part string) bool {
			if !strings.Contains(part, "gaia") {
				return false
			}
			ok, named := l.AnswerFiles.match(part)
			return ok && named
		}, nil
	case "<gaia word>":
		return gaiaWord, nil
	case "<gaia space>":
		return func(part string) bool { return strings.HasSuffix(part, ".hf.space") && gaiaWord(part) }, nil
	}
	var exact, prefixes []string
	for _, word := range strings.Split(s, "|") {
		bare, open := strings.CutSuffix(word, "*")
		switch {
		case bare == "" || bare != strings.ToLower(bare) || strings.ContainsFunc(bare, betweenParts):
			return nil, fmt.Errorf("bad pattern %q", s)
		case open:
			prefixes = append(prefixes, bare)
		default:
			exact = append(exact, bare)
		}
	}
	return func(part string) bool {
		return slices.Contains(exact, part) ||
			slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(part, p) })
	}, nil
}

// gaiaWord says whether gaia stands in a part as a word of its own.
func gaiaWord(part string) bool {
	if !strings.Contains(part, "gaia") {
		return false
	}
	return slices.Contains(words(part), "gaia")
}

// words are the runs of letters and digits of a part.
func words(part string) []string {
	return strings.FieldsFunc(part, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// answerFiles describes how files with answers are named.
type answerFiles struct {
	Names   []string `json:"names"`   // what the name begins with, in words; a star at the end of the last
	Fillers []string `json:"fillers"` // words that may stand around it, as may numbers and digests
	Endings []string `json:"endings"` // kinds of data file
	Packed  []string `json:"packed"`  // endings of compressed files
}

// match says whether part is the name of an answer file, and whether it has gaia in it.
func (f answerFiles) match(part string) (ok, named bool) {
	stem, ending := f.unpacked(part)
	if !slices.Contains(f.Endings, ending) {
		return false, false
	}
	rest := words(stem)
	return f.all(rest), slices.Contains(rest, "gaia")
}

// all says whether words are one of the names, or more of them, with nothing around but fillers.
func (f answerFiles) all(rest []string) (hit bool) {
	for len(rest) > 0 {
		switch n := f.name(rest); {
		case n > 0:
			hit = true
			rest = rest[n:]
		case slices.Contains(f.Fillers, rest[0]) || counter(rest[0]):
			rest = rest[1:]
		default:
			return false
		}
	}
	return hit
}

// unpacked cuts the name of a file before its ending, without those of compressed files.
func (f answerFiles) unpacked(part string) (stem, ending string) {
	stem, ending, found := cutLast(part)
	for range 2 {
		if found && slices.Contains(f.Packed, ending) {
			stem, ending, found = cutLast(stem)
		}
	}
	if !found {
		return stem, ""
	}
	return stem, ending
}

// name returns how many words at the beginning are one of the names.
func (f answerFiles) name(rest []string) int {
	for _, name := range f.Names {
		want := strings.Fields(name)
		if len(want) > len(rest) {
			continue
		}
		same := true
		for i, w := range want {
			prefix, open := strings.CutSuffix(w, "*")
			same = same && (rest[i] == w || open && strings.HasPrefix(rest[i], prefix))
		}
		if same {
			return len(want)
		}
	}
	return 0
}

// counter says whether a word is a number or a digest, as in validation-00000-of-00001-9f3ac2d1.
func counter(word string) bool {
	if strings.Trim(word, "0123456789") == "" {
		return true
	}
	return len(word) >= 8 && strings.Trim(word, "0123456789abcdef") == ""
}

func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// views returns s in every form that a server behind it may see, each cut into parts: decoded, with dot segments ignored and with dot segments resolved.
func views(s string) [][]string {
	var all [][]string
	for _, form := range decodings(s) {
		parts, resolved := cut(form)
		all = append(all, parts)
		if resolved != nil {
			all = append(all, resolved)
		}
	}
	return all
}

// cut brings s to one case and one form of each character and cuts it into parts. resolved is nil
// where it would be the same.
func cut(s string) (parts, resolved []string) {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f { // clients drop tabs and line ends
			return -1
		}
		return r
	}, s)
	s = strings.ToLower(norm.NFKC.String(s))
	dots := false
	for raw := range strings.FieldsFuncSeq(s, betweenParts) {
		raw = strings.Trim(raw, " ")
		if raw == ".." {
			dots = true
			resolved = resolved[:max(len(resolved)-1, 0)]
			continue
		}
		if part := trimPart(raw); part != "" {
			part = original(part)
			parts = append(parts, part)
			resolved = append(resolved, part)
		}
	}
	if !dots {
		resolved = nil
	}
	return parts, resolved
}

// trimPart drops the spaces around a part and the dots after it: a host may end in one.
func trimPart(s string) string { return strings.TrimRight(strings.Trim(s, " "), ". ") }

// betweenParts says whether a character separates parts of a URL.
func betweenParts(r rune) bool {
	return r < 0x80 && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-~+% ", r)
}

// original undoes the spelling of hosts at Google's translator: github-com.translate.goog.
func original(part string) string {
	host, ok := strings.CutSuffix(part, ".translate.goog")
	if !ok {
		return part
	}
	return strings.NewReplacer("--", "-", "-", ".").Replace(host)
}

// percentDecode undoes one layer of percent encoding; what is not an encoding stays as it is.
func percentDecode(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && hexDigit(s[i+1]) >= 0 && hexDigit(s[i+2]) >= 0 {
			out = append(out, byte(hexDigit(s[i+1])<<4|hexDigit(s[i+2])))
			i += 2
			continue
		}
		out = append(out, s[i])
	}
	return string(out)
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
