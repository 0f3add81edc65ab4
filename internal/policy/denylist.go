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

	"github.com/go-json-experiment/json"
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
var builtin = sync.OnceValue(func() denylist {
	list, err := parseDenylist(denylistFile)
	if err != nil {
		panic("policy: the embedded denylist does not parse: " + err.Error())
	}
	return list
})

// denylist is denylist.json; its note says what the members mean.
type denylist struct {
	Version     string      `json:"version"`
	Note        string      `json:"note"`
	AnswerFiles answerFiles `json:"answer_files"`
	ReHosts     reHosts     `json:"re_hosts"`
	Honest      [][]string  `json:"honest"`
	HonestHosts []string    `json:"honest_hosts"`
	Entries     []entry     `json:"entries"`

	honest [][]pattern
}

type entry struct {
	ID           string     `json:"id"`
	Class        Class      `json:"class"`
	Title        string     `json:"title"`
	Match        [][]string `json:"match"`
	Then         string     `json:"then"`
	Within       int        `json:"within"`
	UnlessHonest bool       `json:"unless_honest"`
	ReHost       bool       `json:"re_host"`

	match [][]pattern
	then  pattern // nil if there is none
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
	var err error
	if list.honest, err = list.compileAll(list.Honest); err != nil {
		return denylist{}, fmt.Errorf("reading denylist: honest: %v", err)
	}
	last := ""
	for i := range list.Entries {
		e := &list.Entries[i]
		if e.ID <= last || !strings.HasPrefix(e.ID, string(e.Class)) || e.Class != ClassA && e.Class != ClassB {
			return denylist{}, fmt.Errorf("reading denylist: entry %q: ids start with their class and ascend", e.ID)
		}
		last = e.ID
		if e.match, err = list.compileAll(e.Match); err == nil && e.Then != "" {
			e.then, err = list.compile(e.Then)
		}
		if err != nil || len(e.match) == 0 || e.Within < 0 {
			return denylist{}, fmt.Errorf("reading denylist: entry %q: bad patterns (%v)", e.ID, err)
		}
	}
	return list, nil
}

func (l denylist) compileAll(sequences [][]string) ([][]pattern, error) {
	var all [][]pattern
	for _, sequence := range sequences {
		if len(sequence) == 0 {
			return nil, fmt.Errorf("an empty sequence")
		}
		var patterns []pattern
		for _, s := range sequence {
			p, err := l.compile(s)
			if err != nil {
				return nil, err
			}
			patterns = append(patterns, p)
		}
		all = append(all, patterns)
	}
	return all, nil
}

// classify returns the first entry that matches s, and its class. A path is matched without the
// entries that have honest exceptions: folders of a workspace may be called anything.
func (l denylist) classify(s string, path bool) (string, Class) {
	views := views(s)
	host := ownHost(s)
	honest, astronomy := l.honestHost(host), l.ReHosts.has(l.ReHosts.Astronomy, host)
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

// matches looks for an entry in one view. Without a bound on the distance the first place counts:
// what does not follow it does not follow a later one. astronomy says whether the URL's own host is named for it.
func (l denylist) matches(e entry, parts []string, astronomy bool) bool {
	for _, sequence := range e.match {
		for i := range parts {
			if !at(sequence, parts, i) || e.UnlessHonest && l.excused(parts, i) {
				continue
			}
			if e.then == nil {
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
				if at(sequence, parts, j) {
					between = j + len(sequence) // the nearest place counts
				}
				if !e.then(parts[j]) || e.UnlessHonest && l.excused(parts, j) {
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

// at says whether a sequence stands in parts from place i on.
func at(sequence []pattern, parts []string, i int) bool {
	if i < 0 || i+len(sequence) > len(parts) {
		return false
	}
	for k, p := range sequence {
		if !p(parts[i+k]) {
			return false
		}
	}
	return true
}

// excused says whether the part at place i belongs to an honest sequence.
func (l denylist) excused(parts []string, i int) bool {
	for _, sequence := range l.honest {
		for k := range sequence {
			if at(sequence, parts, i-k) {
				return true
			}
		}
	}
	return false
}

// ownHost returns the URL's own host, as a client would read it, in lower case; "" if it has none.
func ownHost(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
}

// honestHost says whether a host is one of the honest ones.
func (l denylist) honestHost(host string) bool {
	return slices.ContainsFunc(l.HonestHosts, func(honest string) bool {
		return host == honest || strings.HasSuffix(host, "."+honest)
	})
}
