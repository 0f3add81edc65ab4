package probe

import (
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	shortestStart = 6   // letters and digits at the beginning of an id that name it by themselves
	startChars    = 80  // between them and the gold
	shortestID    = 8   // letters and digits
	longestID     = 128 // letters and digits
	longestRun    = 2 * longestID
	splitID       = 16 // letters and digits of an id that is found in pieces
	longestGap    = 40 // bytes between two pieces of it
)

// IDs are the ids of a split, prepared to be found in documents.
type IDs struct {
	sorted  []string // their letters and digits, in lower case
	lengths [longestID + 1]bool
	longest int
	filter  [256]uint64 // over what they begin with
}

// NewIDs prepares the ids of a split, once for all its tasks.
func NewIDs(split []string) *IDs {
	s := &IDs{sorted: make([]string, 0, len(split))}
	var buf [longestID]byte
	for _, id := range split {
		bare, ok := bareID(buf[:0], []byte(id))
		if !ok || len(bare) < shortestID {
			continue
		}
		s.sorted = append(s.sorted, string(bare))
		s.lengths[len(bare)] = true
		s.longest = max(s.longest, len(bare))
		i, bit := startBit(bare)
		s.filter[i] |= bit
	}
	slices.Sort(s.sorted)
	s.sorted = slices.Compact(s.sorted)
	return s
}

// startBit returns the bit of a filter over what ids begin with.
func startBit(bare []byte) (int, uint64) {
	hash := uint32(hashSeed)
	for _, c := range bare[:shortestStart] {
		hash = (hash ^ uint32(c)) * hashPrime
	}
	return filterBit(hash)
}

// idSet knows a task's id, and those of its split.
type idSet struct {
	own    string
	others *IDs
	tasks  map[string]int // see Answers
	all    bool           // and not only mostKeys of their places
}

// bareID returns an id's letters and digits; false if there is no digit among them.
func bareID(out, id []byte) ([]byte, bool) {
	digit := false
	for _, c := range id {
		if c == '-' || c == '_' {
			continue
		}
		if !asciiAlnum(c) || len(out) == longestID {
			return nil, false
		}
		if c <= '9' {
			digit = true
		} else {
			c |= 0x20
		}
		out = append(out, c)
	}
	return out, digit
}

// foundIDs is where ids stand in a document.
type foundIDs struct {
	own, ownStarts []interval  // the task's id; its first digits, where no other id has the same
	keys           []answerKey // ids of the run's tasks, and their first digits
	others, starts int         // ids of other tasks that are there, and those of which only the beginning is
}

// find looks for ids. The beginning of an id is at least 6 of its letters and digits, a digit among them, that no
// other id begins with.
func (s *idSet) find(t probeText) foundIDs {
	var f foundIDs
	if s.own == "" && len(s.others.sorted) == 0 {
		return f
	}
	var buf [longestID]byte
	seen, begun := map[int]bool{}, map[string]bool{}
	b := t.b
	for i := 0; i < len(b); {
		end, digit := runEnd(b, i)
		if end == i {
			i++
			continue
		}
		bare, ok := []byte(nil), false
		if digit && end-i >= shortestStart && end-i <= longestRun {
			bare, ok = bareID(buf[:0], b[i:end])
		}
		start := ok && len(bare) >= shortestStart
		ok = ok && len(bare) >= shortestID
		whole := none
		if ok {
			whole = s.known(bare)
		}
		if whole == none && (ok || len(s.own) >= splitID && s.own[0] == b[i]) {
			var joined int
			if whole, joined = s.inPieces(b, i, ok); whole != none {
				end = joined
			}
		}
		id := ""
		switch {
		case whole == ownNumber:
			id = s.own
			f.own = append(f.own, interval{i, end})
		case whole != none:
			id = string(bare)
			seen[whole] = true
		case start:
			if id = s.begun(bare); id != "" && id == s.own {
				f.ownStarts = append(f.ownStarts, interval{i, end})
			} else if id != "" {
				begun[id] = true
			}
		}
		if id != "" && (s.all || len(f.keys) < mostKeys) {
			if task, known := s.tasks[id]; known {
				f.keys = append(f.keys, answerKey{task, interval{i, end}})
			}
		}
		i = end
	}
	f.others, f.starts = len(seen), len(begun)
	return f
}

// begun returns the one id that begins so and has more letters and digits, "" if there is none or several.
func (s *idSet) begun(start []byte) (id string) {
	own := len(start) < len(s.own) && s.own[:len(start)] == string(start)
	if own {
		id = s.own
	}
	if i, bit := startBit(start); s.others.filter[i]&bit == 0 {
		return id
	}
	all := s.others.sorted
	for i, _ := slices.BinarySearch(all, string(start)); i < len(all) && strings.HasPrefix(all[i], string(start)); i++ {
		switch {
		case all[i] == s.own || len(all[i]) == len(start):
		case id != "":
			return ""
		default:
			id = all[i]
		}
	}
	return id
}

const (
	none      = -2
	ownNumber = -1
)

// known returns the number of an id among the others, ownNumber or none.
func (s *idSet) known(bare []byte) int {
	if string(bare) == s.own {
		return ownNumber
	}
	if s.others.lengths[len(bare)] {
		if n, ok := slices.BinarySearch(s.others.sorted, string(bare)); ok {
			return n
		}
	}
	return none
}

// inPieces looks for an id of at least 16 letters and digits that begins at i and is written in several runs, with
// at most 40 ASCII bytes that are no letters or digits between two. It returns as known does, and where the id
// ends.
func (s *idSet) inPieces(b []byte, i int, others bool) (number, end int) {
	var buf [longestID]byte
	n, gap, isOwn := 0, 0, len(s.own) >= splitID
	longest := len(s.own)
	if others {
		longest = max(longest, s.others.longest)
	}
	for ; i < len(b) && b[i] < utf8.RuneSelf; i++ {
		if !asciiAlnum(b[i]) {
			if gap++; gap > longestGap {
				break
			}
			continue
		}
		if n == longest {
			break
		}
		buf[n] = b[i]
		isOwn = isOwn && n < len(s.own) && s.own[n] == b[i]
		if !isOwn && !others {
			break
		}
		n, gap = n+1, 0
		if n < splitID {
			continue
		}
		if end, _ := runEnd(b[:min(i+1+utf8.UTFMax, len(b))], i+1); end > i+1 {
			continue
		}
		if number := s.known(buf[:n]); number != none {
			return number, i + 1
		}
	}
	return none, i
}

// runBytes are the ASCII characters of runs of letters, digits, underscores and hyphens: inRun, and aDigit where they are.
var runBytes = func() (of [256]uint8) {
	for c := range of {
		if wordByte(byte(c)) || c == '-' {
			of[c] = inRun
		}
		if digitByte(byte(c)) {
			of[c] |= aDigit
		}
	}
	return of
}()

const (
	inRun = 1 << iota
	aDigit
)

// runEnd returns where the run of letters, digits, underscores and hyphens ends that begins at i, and whether an ASCII
// digit is among them.
func runEnd(b []byte, i int) (end int, digit bool) {
	all := uint8(0)
	for i < len(b) {
		if kind := runBytes[b[i]]; kind != 0 {
			all |= kind
			i++
			continue
		}
		if b[i] < utf8.RuneSelf {
			break
		}
		r, size := utf8.DecodeRune(b[i:])
		if !wordRune(r) {
			break
		}
		i += size
	}
	return i, all&aDigit != 0
}
