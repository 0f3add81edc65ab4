package origin

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"iter"
	"strings"
	"sync"
)

// mostPassages bounds the passages of a run that are kept: the first.
const mostPassages = 1 << 16

// Passages are the passages that the attempts of a run have sent and nothing explains. It is safe for concurrent use.
type Passages struct {
	key  []byte
	seed maphash.Seed

	mu    sync.Mutex
	tasks map[string]int // numbers of tasks
	sent  map[uint64]*passage
}

// passage is one that was sent.
type passage struct {
	tasks []uint64 // a bit for each task that sent it
	gold  bool     // it holds the gold of one of them
}

// NewPassages returns those of a run, of which none is sent. Without the secret their digests cannot be guessed.
func NewPassages(secret []byte) *Passages {
	key := hmac.New(sha256.New, secret)
	key.Write([]byte("passages of an own agent"))
	return &Passages{key: key.Sum(nil), seed: maphash.MakeSeed(), tasks: map[string]int{}, sent: map[uint64]*passage{}}
}

// Sent takes a passage that was sent for a task and says whether it is to be recorded: it holds gold of the task, or is known
// to hold that of another one. The key is its digest and tasks counts the other tasks that have sent it before, as far as
// this process knows: a run that is resumed begins with none. The key is the same.
func (p *Passages) Sent(task, text string, gold bool) (key string, tasks int, report bool) {
	digest := maphash.String(p.seed, text)
	p.mu.Lock()
	defer p.mu.Unlock()
	number, known := p.tasks[task]
	if !known {
		number = len(p.tasks)
		p.tasks[task] = number
	}
	s := p.sent[digest]
	if s == nil {
		if s = (&passage{}); len(p.sent) < mostPassages {
			p.sent[digest] = s
		}
	}
	for i, word := range s.tasks {
		for bit := range 64 {
			if word>>bit&1 == 1 && i*64+bit != number {
				tasks++
			}
		}
	}
	for len(s.tasks) <= number/64 {
		s.tasks = append(s.tasks, 0)
	}
	s.tasks[number/64] |= 1 << (number % 64)
	s.gold = s.gold || gold
	if !s.gold {
		return "", tasks, false
	}
	sum := hmac.New(sha256.New, p.key)
	sum.Write([]byte(text))
	return hex.EncodeToString(sum.Sum(nil)[:16]), tasks, true
}

// Split yields the passages of a text: its lines, and of long ones the sentences, so that the same advice is the same also
// where it stands beside something else.
func Split(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.Lines(text) {
			for line != "" {
				passage := line
				if end := strings.Index(line, ". "); end >= 0 {
					passage = line[:end+len(". ")]
				}
				line = line[len(passage):]
				if passage = strings.TrimSpace(passage); passage != "" && !yield(passage) {
					return
				}
			}
		}
	}
}
