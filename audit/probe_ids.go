package audit

import "unicode/utf8"

const (
	shortestID = 8   // letters and digits
	longestID  = 128 // letters and digits
	longestRun = 2 * longestID
	splitID    = 16 // letters and digits of an id that is found in pieces
	longestGap = 40 // bytes between two pieces of it
)

// IDs are the ids of a split, prepared to be found in documents.
type IDs struct {
	numbers map[string]int // by their letters and digits, in lower case; from 0
	lengths [longestID + 1]bool
	longest int
}

// NewIDs prepares the ids of a split, once for all its tasks.
func NewIDs(split []string) *IDs {
	s := &IDs{numbers: make(map[string]int, len(split))}
	var buf [longestID]byte
	for _, id := range split {
		bare, ok := bareID(buf[:0], []byte(id))
		if !ok {
			continue
		}
		if _, known := s.numbers[string(bare)]; !known {
			s.numbers[string(bare)] = len(s.numbers)
			s.lengths[len(bare)] = true
			s.longest = max(s.longest, len(bare))
		}
	}
	return s
}

// idSet knows a task's id, and those of its split.
type idSet struct {
	own    string
	others *IDs
}

func newIDSet(own string, split *IDs) idSet {
	s := idSet{others: split}
	if split == nil {
		s.others = NewIDs(nil)
	}
	var buf [longestID]byte
	if bare, ok := bareID(buf[:0], []byte(own)); ok {
		s.own = string(bare)
	}
	return s
}

// bareID returns an id's letters and digits; false if they say nothing.
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
	return out, digit && len(out) >= shortestID
}

// find returns where the task's id stands and how many others there are.
func (s *idSet) find(t probeText) (own []interval, others int) {
	if s.own == "" && len(s.others.numbers) == 0 {
		return nil, 0
	}
	var buf [longestID]byte
	seen := map[int]bool{}
	b := t.b
	for i := 0; i < len(b); {
		end := runEnd(b, i)
		if end == i {
			i++
			continue
		}
		bare, ok := []byte(nil), false
		if end-i >= shortestID && end-i <= longestRun {
			bare, ok = bareID(buf[:0], b[i:end])
		}
		whole := s.known(bare)
		if len(bare) < shortestID || !ok {
			whole = none
		}
		if whole == none && (ok || len(s.own) >= splitID && s.own[0] == b[i]) {
			var joined int
			if whole, joined = s.inPieces(b, i, ok); whole != none {
				end = joined
			}
		}
		switch {
		case whole == ownNumber:
			own = append(own, interval{i, end})
		case whole != none:
			seen[whole] = true
		}
		i = end
	}
	return own, len(seen)
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
		if n, ok := s.others.numbers[string(bare)]; ok {
			return n
		}
	}
	return none
}

// inPieces looks for an id of at least 16 letters and digits that begins at i and
// is written in several runs, with at most 40 ASCII bytes that are no letters or
// digits between two. It returns as known does, and where the id ends.
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
		if n < splitID || runEnd(b[:min(i+1+utf8.UTFMax, len(b))], i+1) > i+1 {
			continue
		}
		if number := s.known(buf[:n]); number != none {
			return number, i + 1
		}
	}
	return none, i
}

// runEnd returns where the run of letters, digits, underscores and hyphens ends
// that begins at i.
func runEnd(b []byte, i int) int {
	for i < len(b) {
		c := b[i]
		if wordByte(c) || c == '-' {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			break
		}
		r, size := utf8.DecodeRune(b[i:])
		if !wordRune(r) {
			break
		}
		i += size
	}
	return i
}
