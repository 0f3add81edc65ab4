package audit

import "unicode/utf8"

const (
	shortestID = 8   // letters and digits
	longestID  = 128 // letters and digits
	longestRun = 2 * longestID
)

// IDs are the ids of a split, prepared to be found in documents.
type IDs struct {
	numbers map[string]int // by their letters and digits, in lower case; from 0
	lengths [longestID + 1]bool
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
		if end-i >= shortestID && end-i <= longestRun {
			if bare, ok := bareID(buf[:0], b[i:end]); ok && string(bare) == s.own {
				own = append(own, interval{i, end})
			} else if ok && s.others.lengths[len(bare)] {
				if n, known := s.others.numbers[string(bare)]; known {
					seen[n] = true
				}
			}
		}
		i = max(end, i+1)
	}
	return own, len(seen)
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
