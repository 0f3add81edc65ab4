package policy

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/go-json-experiment/json"
	"golang.org/x/text/unicode/norm"
)

//go:embed denylist.json
var denylistFile []byte

// Class says what a URL is to the benchmark.
type Class string

const (
	ClassNone Class = ""  // nothing known
	ClassA    Class = "A" // a source of answers: refused
	ClassB    Class = "B" // near one: recorded for review, never refused
)

// Classify returns the class of a URL, or of any text that holds one.
func Classify(url string) Class {
	_, class := builtin().classify(url, false)
	return class
}

// DenylistDigest returns "sha256:" and the hex SHA-256 of the embedded denylist file.
func DenylistDigest() string {
	sum := sha256.Sum256(denylistFile)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// builtin is the embedded list, parsed at first use and never changed.
var builtin = sync.OnceValue(func() *denylist {
	list, err := parseDenylist(denylistFile)
	if err != nil {
		panic("policy: the embedded denylist does not parse: " + err.Error())
	}
	return &list
})

// denylist is denylist.json; its note says what the members mean.
type denylist struct {
	Version     string      `json:"version"`
	Note        string      `json:"note"`
	AnswerFiles answerFiles `json:"answer_files"`
	ReHosts     reHosts     `json:"re_hosts"`
	Honest      []sequence  `json:"honest"`
	HonestHosts []string    `json:"honest_hosts"`
	Entries     []entry     `json:"entries"`
}

// sequence is what parts of a URL are meant, one after another.
type sequence []pattern

type entry struct {
	ID           string     `json:"id"`
	Class        Class      `json:"class"`
	Title        string     `json:"title"`
	Match        []sequence `json:"match"`
	Then         pattern    `json:"then"` // nil if there is none
	Within       int        `json:"within"`
	UnlessHonest bool       `json:"unless_honest"`
	ReHost       bool       `json:"re_host"`
}

// parseDenylist reads a list: strict members, known classes, ids in order, no empty pattern. Class A
// comes first, so that the first match is the gravest.
func parseDenylist(b []byte) (denylist, error) {
	var list denylist
	if err := json.Unmarshal(b, &list, json.RejectUnknownMembers(true)); err != nil {
		return denylist{}, fmt.Errorf("reading denylist: %v", err)
	}
	if list.Version == "" || len(list.Entries) == 0 {
		return denylist{}, fmt.Errorf("reading denylist: version or entries are missing")
	}
	empty := func(s sequence) bool { return len(s) == 0 }
	if slices.ContainsFunc(list.Honest, empty) {
		return denylist{}, fmt.Errorf("reading denylist: honest: an empty sequence")
	}
	last := ""
	for _, e := range list.Entries {
		if e.ID <= last || !strings.HasPrefix(e.ID, string(e.Class)) || e.Class != ClassA && e.Class != ClassB {
			return denylist{}, fmt.Errorf("reading denylist: entry %q: ids start with their class and ascend", e.ID)
		}
		if last = e.ID; len(e.Match) == 0 || slices.ContainsFunc(e.Match, empty) || e.Within < 0 {
			return denylist{}, fmt.Errorf("reading denylist: entry %q: bad patterns", e.ID)
		}
	}
	return list, nil
}

// classify returns the first entry that matches s, and its class. A path is matched without the
// entries that have honest exceptions: folders of a workspace may be called anything.
func (l *denylist) classify(s string, path bool) (string, Class) {
	views := views(s)
	host := "" // of the URL itself, as a client would read it
	if u, err := url.Parse(s); err == nil {
		host = strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	}
	honest := slices.ContainsFunc(l.HonestHosts, func(h string) bool { return host == h || strings.HasSuffix(host, "."+h) })
	astronomy := l.ReHosts.has(l.ReHosts.Astronomy, host)
	for _, e := range l.Entries {
		if e.UnlessHonest && (honest || path) {
			continue
		}
		for _, parts := range views {
			if l.matches(e, parts, astronomy) {
				return e.ID, e.Class
			}
		}
	}
	return "", ClassNone
}

// source returns the first class A entry that matches s, or "".
func (l *denylist) source(s string, path bool) string {
	if id, class := l.classify(s, path); class == ClassA {
		return id
	}
	return ""
}

// matches looks for an entry in one view. Without a bound on the distance the first place counts:
// what does not follow it does not follow a later one. astronomy reports whether the URL's own host is named for it.
func (l *denylist) matches(e entry, parts []string, astronomy bool) bool {
	for _, sequence := range e.Match {
		for i := range parts {
			if !l.at(sequence, parts, i) || e.UnlessHonest && l.excused(parts, i) {
				continue
			}
			if e.Then == nil {
				return true
			}
			end := i + len(sequence)
			stop := len(parts)
			if e.Within > 0 {
				stop = min(stop, end+e.Within+1)
			}
			between, named := end, len(parts)
			if e.ReHost {
				named = slices.IndexFunc(parts, func(part string) bool { return l.ReHosts.has(l.ReHosts.Benchmark, part) })
			}
			for j := end; j < stop; j++ {
				if l.at(sequence, parts, j) {
					between = j + len(sequence) // the nearest place counts
				}
				if !e.Then(&l.AnswerFiles, parts[j]) || e.UnlessHonest && l.excused(parts, j) {
					continue
				}
				if !e.ReHost || l.lies(parts[j], parts[between:j], named >= 0 && named < j, astronomy) == e.Class {
					return true
				}
				between = j // each part is looked at once
			}
			if e.Within == 0 {
				break
			}
		}
	}
	return false
}

// at reports whether parts have a sequence from place i on.
func (l *denylist) at(sequence sequence, parts []string, i int) bool {
	if i < 0 || i+len(sequence) > len(parts) {
		return false
	}
	for k, p := range sequence {
		if !p(&l.AnswerFiles, parts[i+k]) {
			return false
		}
	}
	return true
}

// excused reports whether the part at place i belongs to an honest sequence.
func (l *denylist) excused(parts []string, i int) bool {
	for _, sequence := range l.Honest {
		for k := range sequence {
			if l.at(sequence, parts, i-k) {
				return true
			}
		}
	}
	return false
}

// pattern reports whether one part of a URL is meant. Some ask how files with answers are named.
type pattern func(files *answerFiles, part string) bool

// UnmarshalText reads one pattern of the list: literals separated by |, each with a star at its end if
// anything may follow, or one of the descriptions in angle brackets.
func (p *pattern) UnmarshalText(text []byte) error {
	switch string(text) {
	case "<answer file>":
		*p = func(files *answerFiles, part string) bool { ok, _ := files.match(part); return ok }
		return nil
	case "<gaia answer file>":
		*p = func(files *answerFiles, part string) bool {
			ok, named := strings.Contains(part, "gaia"), false
			if ok {
				ok, named = files.match(part)
			}
			return ok && named
		}
		return nil
	case "<gaia word>":
		*p = func(_ *answerFiles, part string) bool { return gaiaWord(part) }
		return nil
	case "<gaia space>":
		*p = func(_ *answerFiles, part string) bool { return strings.HasSuffix(part, ".hf.space") && gaiaWord(part) }
		return nil
	}
	var exact, prefixes []string
	for word := range strings.SplitSeq(string(text), "|") {
		bare, open := strings.CutSuffix(word, "*")
		switch {
		case bare == "" || bare != strings.ToLower(bare) || strings.ContainsFunc(bare, betweenParts):
			return fmt.Errorf("bad pattern %q", text)
		case open:
			prefixes = append(prefixes, bare)
		default:
			exact = append(exact, bare)
		}
	}
	*p = func(_ *answerFiles, part string) bool {
		return slices.Contains(exact, part) ||
			slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(part, p) })
	}
	return nil
}

// gaiaWord reports whether gaia is one of the words of a part.
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

// match reports whether part is the name of an answer file, and whether it has gaia in it.
func (f *answerFiles) match(part string) (ok, named bool) {
	stem, ending := f.unpacked(part)
	if !slices.Contains(f.Endings, ending) {
		return false, false
	}
	rest := words(stem)
	return f.all(rest), slices.Contains(rest, "gaia")
}

// all reports whether words are one of the names, or more of them, with nothing around but fillers.
func (f *answerFiles) all(rest []string) (hit bool) {
	for len(rest) > 0 {
		n := 0 // how many words at the beginning are one of the names
		for _, name := range f.Names {
			want := strings.Fields(name)
			if n == 0 && len(want) <= len(rest) && slices.EqualFunc(rest[:len(want)], want, func(word, want string) bool {
				prefix, open := strings.CutSuffix(want, "*")
				return word == want || open && strings.HasPrefix(word, prefix)
			}) {
				n = len(want)
			}
		}
		switch {
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
func (f *answerFiles) unpacked(part string) (stem, ending string) {
	stem = part
	for range 3 {
		i := strings.LastIndexByte(stem, '.')
		if i < 0 {
			return stem, ""
		}
		stem, ending = stem[:i], stem[i+1:]
		if !slices.Contains(f.Packed, ending) {
			break
		}
	}
	return stem, ending
}

// counter reports whether a word is a number or a digest, as in validation-00000-of-00001-9f3ac2d1.
func counter(word string) bool {
	if strings.Trim(word, "0123456789") == "" {
		return true
	}
	return len(word) >= 8 && strings.Trim(word, "0123456789abcdef") == ""
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
		if part := strings.TrimRight(raw, ". "); part != "" { // a host may end in a dot
			if host, ok := strings.CutSuffix(part, ".translate.goog"); ok { // github-com.translate.goog
				part = strings.NewReplacer("--", "-", "-", ".").Replace(host)
			}
			parts = append(parts, part)
			resolved = append(resolved, part)
		}
	}
	if !dots {
		resolved = nil
	}
	return parts, resolved
}

// betweenParts reports whether a character separates parts of a URL.
func betweenParts(r rune) bool {
	return r < 0x80 && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-~+% ", r)
}

// reHosts distinguishes copies of the benchmark from folders of other things called gaia; the note in denylist.json says how.
type reHosts struct {
	Note      string   `json:"note"`
	Sure      []string `json:"sure"`
	Weak      []string `json:"weak"`
	Benchmark []string `json:"benchmark"`
	Splits    []string `json:"splits"`
	Endings   []string `json:"endings"`
	Plain     []string `json:"plain"`
	Astronomy []string `json:"astronomy"`
}

// has reports whether a part, or a word of it, is on a list.
func (r reHosts) has(list []string, part string) bool {
	return slices.Contains(list, part) || slices.ContainsFunc(words(part), func(word string) bool { return slices.Contains(list, word) })
}

// lies returns the class of an answer file that lies below gaia, with parts between. benchmark reports whether a word of it
// stands before the file, astronomy whether the host is named for it.
func (l *denylist) lies(file string, between []string, benchmark, astronomy bool) Class {
	r := l.ReHosts
	stem, ending := l.AnswerFiles.unpacked(file)
	split := func(part string) bool { return r.has(r.Splits, part) }
	weak := !slices.ContainsFunc(words(stem), func(word string) bool {
		return !slices.Contains(r.Weak, word) && !slices.Contains(l.AnswerFiles.Fillers, word) && !counter(word)
	})
	switch {
	case r.has(r.Sure, stem):
		return ClassA
	case slices.ContainsFunc(between, func(part string) bool { return r.has(r.Astronomy, part) }):
		return ClassNone
	case !weak:
		return ClassA
	case astronomy:
		return ClassB
	case benchmark:
		return ClassA
	case slices.ContainsFunc(between, func(part string) bool { // that says something of what gaia is
		return slices.ContainsFunc(words(part), func(word string) bool {
			return !slices.Contains(r.Plain, word) && !slices.Contains(r.Splits, word) && !counter(word)
		})
	}):
		return ClassB
	case split(stem) || slices.Contains(r.Endings, ending) || slices.ContainsFunc(between, split):
		return ClassA
	}
	return ClassB
}
