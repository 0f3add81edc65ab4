// Package secret finds credentials in text, by the forms that their issuers give them.
// Most forms are the rules of gitleaks (rules.json, see gen; licence in
// LICENSE.gitleaks), the others are in own.go.
//
// gitleaks reads source code, this package reads web pages, JSON and URLs. So a
// credential may begin after an escape such as \n or %2F and end before any character,
// and it must not look like a word.
package secret

import (
	_ "embed"
	"encoding/json"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
)

//go:generate go run ./gen

//go:embed rules.json
var rulesJSON []byte

// rule is the form of a kind of credential.
type rule struct {
	id       string
	keywords []string       // lower case: text without one of them has no such credential
	form     string         // the secret is the group, or all of it
	group    int            // 0: the first group that matches, else all
	entropy  float64        // least entropy of the secret, in bits per character
	open     bool           // the secret goes on to the end of its letters, digits, _ and -
	whole    bool           // a secret that goes on is none
	before   *regexp.Regexp // of what must precede a match; nil: of nothing
	anywhere bool           // the form itself says what may precede it
	starts   bool           // a match begins with a keyword
	check    func(secret string) bool

	once    sync.Once
	re      *regexp.Regexp
	longest int // bytes of a match; -1: no bound
}

// maxBefore is how many bytes rule.before sees.
const maxBefore = 24

// maxStarting bounds, in bytes, the match of a rule whose form has no bound and starts
// with a keyword.
const maxStarting = 16 << 10

// span is where a secret is, in bytes.
type span struct{ from, to int }

// Redact returns text with every credential replaced, and how many there were.
func Redact(text, replacement string) (string, int) {
	n := 0
	for { // what is left may read as a credential again
		found := find(text)
		if len(found) == 0 {
			return text, n
		}
		var b strings.Builder
		done := 0
		for _, s := range found {
			b.WriteString(text[done:s.from])
			b.WriteString(replacement)
			done = s.to
		}
		b.WriteString(text[done:])
		text = b.String()
		n += len(found)
	}
}

// find returns the credentials in text, in order and without overlaps.
func find(text string) []span {
	all := rules()
	var found []span
	for i, hits := range all.hits(text) {
		if len(hits) > 0 {
			found = all.rules[i].find(found, text, hits)
		}
	}
	if len(found) < 2 {
		return found
	}
	slices.SortFunc(found, func(a, b span) int { return a.from - b.from })
	merged := found[:1]
	for _, s := range found[1:] {
		if last := &merged[len(merged)-1]; s.from < last.to {
			last.to = max(last.to, s.to)
		} else {
			merged = append(merged, s)
		}
	}
	return merged
}

// find adds the credentials of one rule. hits are where its keywords are.
func (r *rule) find(found []span, text string, hits []int) []span {
	r.once.Do(r.compile)
	done := 0 // up to where the rule has been applied
	for _, hit := range hits {
		from, to := hit, len(text)
		switch {
		case r.starts && (hit < done || !r.begins(text, hit)):
			continue
		case r.starts:
			to = min(to, hit+maxStarting)
		case r.longest < 0:
			from = done
		default:
			from, to = max(done, hit-r.longest), min(to, hit+r.longest+1)
		}
		for from < to {
			at := r.re.FindStringSubmatchIndex(text[from:to])
			if at == nil {
				if r.starts && r.longest < 0 {
					done = valueEnd(text, from) // or each keyword in a long word would be searched to its end
				}
				break
			}
			group := r.group
			for g := 1; group == 0 && 2*g < len(at); g++ {
				if at[2*g] >= 0 {
					group = g
				}
			}
			start, s := from+at[0], span{from + at[2*group], from + at[2*group+1]}
			switch {
			case !r.begins(text, start): // on to the end of the word
				for from = start + 1; from < len(text) && isWord(text[from]); from++ {
				}
			case !r.accepts(text, &s):
				from = max(s.to, start+1)
			default:
				found = append(found, s)
				from = s.to
			}
			if done = from; r.starts {
				break
			}
		}
		if !r.starts && r.longest < 0 {
			break // the whole text has been searched
		}
	}
	return found
}

// accepts extends a match to the end of the secret and reports whether it is one.
func (r *rule) accepts(text string, s *span) bool {
	end := valueEnd(text, s.to)
	if r.whole && end > s.to {
		return false
	}
	if r.open {
		s.to = end
	}
	secret := text[s.from:s.to]
	return Entropy(secret) >= r.entropy && (r.check == nil || r.check(secret))
}

var escapeBefore = regexp.MustCompile(`(?:\\(?:[bfnrt]|u[0-9a-fA-F]{4})|%[0-9A-Fa-f]{2})$`)

// begins reports whether a match may begin here, by what precedes it.
func (r *rule) begins(text string, at int) bool {
	// A credential begins at the start of a word, or after an escape of JSON or of a URL, which may end in a letter.
	start := r.anywhere || at == 0 || !isWord(text[at-1]) || !isWord(text[at]) || escapeBefore.MatchString(text[max(0, at-6):at])
	return start && (r.before == nil || r.before.MatchString(text[max(0, at-maxBefore):at]))
}

// valueEnd returns where letters, digits, _ and - end.
func valueEnd(text string, at int) int {
	for at < len(text) && (isWord(text[at]) || text[at] == '-') {
		at++
	}
	return at
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// Entropy returns the bits per byte of s by the frequency of its bytes.
func Entropy[T string | []byte](s T) float64 {
	var count [256]int
	for i := range len(s) {
		count[s[i]]++
	}
	bits := 0.0
	for _, n := range count {
		if n > 0 {
			p := float64(n) / float64(len(s))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

// What gitleaks writes around the form of a credential, which this package replaces.
const (
	anyName    = `[\w.-]{0,50}?` // before the name of what the credential is for
	afterName  = `(?:[ \t\w.-]{0,20})`
	beforeSign = `[\s'"]{0,3}`
	sign       = `(?:=|>|:{1,3}=`
	afterSign  = `[\x60'"\s=]{0,5}`
	terminator = `(?:[\x60'"\s;]|\\[nr]|$)`
)

// wordEdge is what rule.begins replaces.
var wordEdge = regexp.MustCompile(`^(\(\?i\))?\\b`)

// escaped returns the quotes around a value as they are in JSON in JSON in JSON, too.
func escaped(quotes string) string {
	return strings.NewReplacer("]", `\\]`, ",3", ",9", ",5", ",11").Replace(quotes)
}

// How random the credentials of gitleaks must be. Its own bounds are for code, where a
// false finding costs a person's time; here it costs a few words of a page.
const maxEntropy = 3

// compile prepares a rule when its first keyword is found: most rules never match.
func (r *rule) compile() {
	form := r.form
	if name, _, assigned := strings.Cut(form, afterName); assigned {
		name = strings.TrimPrefix(strings.TrimPrefix(name, "(?i)"), "(?i:")
		r.starts = all(r.keywords, regexp.MustCompile("(?i)^(?:"+name+")$").MatchString)
	} else if re := regexp.MustCompile(form); !r.starts {
		literal, _ := re.LiteralPrefix()
		r.starts = all(r.keywords, func(k string) bool { return strings.HasPrefix(strings.ToLower(literal), k) })
	}
	if r.starts {
		form = "^(?:" + form + ")"
	}
	r.re = regexp.MustCompile(form)
	parsed, err := syntax.Parse(form, syntax.Perl)
	if err != nil {
		panic("secret: " + r.id + ": " + err.Error())
	}
	r.longest = longest(parsed)
}

func all(keywords []string, is func(string) bool) bool {
	return !slices.ContainsFunc(keywords, func(k string) bool { return !is(k) })
}

// longest returns the bytes of the longest match, -1 if there is no bound.
func longest(re *syntax.Regexp) int {
	sum, most := 0, 0
	for _, sub := range re.Sub {
		n := longest(sub)
		if n < 0 {
			return -1
		}
		sum, most = sum+n, max(most, n)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return 4 * len(re.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 4
	case syntax.OpStar, syntax.OpPlus:
		return -1
	case syntax.OpRepeat:
		if re.Max < 0 {
			return -1
		}
		return re.Max * sum
	case syntax.OpAlternate:
		return most
	}
	return sum
}

// set is all rules, and how their keywords are found.
type set struct {
	rules    []*rule
	keywords []keyword
	starting [1 << 16][]uint16 // by two bytes, the keywords that begin with them
}

type keyword struct {
	text  string
	rules []int
}

var rules = sync.OnceValue(load)

func load() *set {
	var file struct {
		Rules []struct {
			ID, Regex string
			Entropy   float64
			Group     int
			Keywords  []string
		}
	}
	if err := json.Unmarshal(rulesJSON, &file); err != nil {
		panic("secret: rules.json: " + err.Error())
	}
	all := &set{}
	for _, g := range file.Rules {
		r := &rule{id: g.ID, keywords: g.Keywords, group: g.Group, entropy: min(g.Entropy, maxEntropy), check: noWord}
		assigned := strings.Contains(g.Regex, anyName)
		r.form = strings.NewReplacer(anyName, "", terminator, "", beforeSign, escaped(beforeSign), afterSign, escaped(afterSign), sign, sign+"|%3D|%3A").Replace(g.Regex)
		if r.whole = assigned; !assigned {
			r.form = strings.TrimSuffix(wordEdge.ReplaceAllString(r.form, "$1"), `\b`)
			r.open = true
		}
		all.rules = append(all.rules, r)
	}
	all.rules = append(all.rules, own...)
	index := map[string]int{}
	for i, r := range all.rules {
		for _, k := range r.keywords {
			at, there := index[k]
			if !there {
				at = len(all.keywords)
				index[k] = at
				all.keywords = append(all.keywords, keyword{text: k})
				first := uint16(k[0])<<8 | uint16(k[1])
				all.starting[first] = append(all.starting[first], uint16(at))
			}
			all.keywords[at].rules = append(all.keywords[at].rules, i)
		}
	}
	return all
}

// hits returns where the keywords of each rule are, in order.
func (s *set) hits(text string) [][]int {
	var hits [][]int
	for i := 0; i+1 < len(text); i++ {
		for _, k := range s.starting[uint16(lower[text[i]])<<8|uint16(lower[text[i+1]])] {
			k := s.keywords[k]
			if end := i + len(k.text); end > len(text) || !strings.EqualFold(text[i:end], k.text) {
				continue
			}
			if hits == nil {
				hits = make([][]int, len(s.rules))
			}
			for _, r := range k.rules {
				hits[r] = append(hits[r], i)
			}
		}
	}
	return hits
}

// lower maps a byte to its small letter.
var lower = func() (table [256]byte) {
	for c := range table {
		table[c] = byte(c)
		if 'A' <= c && c <= 'Z' {
			table[c] += 'a' - 'A'
		}
	}
	return table
}()
