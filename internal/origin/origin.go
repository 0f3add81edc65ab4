// Package origin says where the texts come from that an own agent sends to a model.
//
// An [Index] holds the texts that one attempt was witnessed to be given: the question, the files of the start workspace,
// replies of models, results of tools, and exchanges of the recorded network. [Index.Divide] parts a text among them; what
// nothing explains is the agent's. The proxy divides each message that the attempt has not sent before, and records the
// sums in context_compiled.origins. [Index.Seen] says where an answer stood.
//
// # How a text is divided
//
// A text is read as words: runs of letters and digits in lower case. Escapes of JSON, HTML and addresses are undone, and white space
// and punctuation part words. Scripts without spaces have a word a character; a word of more than 32 bytes is several.
//
//   - A stretch of words of at least 24 bytes that stands in a witnessed text is explained by it. The first 24 bytes or more
//     from each word are looked up, and the last 24 or more to each word, so that a stretch is found wherever it begins and
//     ends. Of a page of HTML the text without tags counts as well.
//   - A witnessed text that is shorter is explained where its words stand in order, as a whole.
//   - A text that is a witnessed one byte for byte is explained, also where it has no words.
//   - A word takes the bytes up to the next word with it; the first one also those before it. The sums are bytes of the
//     text that was divided.
//   - Where several sources hold a piece, the first of question, reply, result, exchange, workspace and
//     definition of a tool has it.
//
// So of "Observation: 42" with a result "42", two bytes are the result's and the rest is the agent's. Of a text whose words
// were changed, the words that were not changed are explained where they make 24 bytes. Words that are put between witnessed
// ones are always the agent's.
//
// # What it does not show
//
// A text put together from whole phrases of witnessed texts counts as witnessed.
//
// What an agent has something repeat is not witnessed by the echo: of the text that it asked with, stretches that nothing
// explains are not added with the result, and a short result is not added that stands in them. Neither is the result of a
// call that read files which were not there at the start, since the agent may have written them, nor that of a tool that
// computes, unless a reply holds each of the call's values. tool_executed.own and exchange_started.own hold probes over what
// nothing explains of the arguments or the request, and of such a result: where own holds gold that nothing held before, it
// is the agent's, and the result gives nothing.
//
// # Bounds
//
// An index holds up to 4 MiB of the question, the workspace and definitions for good, and of the rest the newest 4 to 8 MiB; of one text
// the first 4 MiB. It takes at most 36 MiB, which is 2.3 GiB for 64 attempts that are all full. What it does not hold (any
// longer) explains nothing, and counts as the agent's: [Index.Forgotten] counts its bytes, and the record has them, so that
// a reader can tell an agent that brings text along from one that was given too much. Whether an attempt was given gold
// is not lost: the probes of each result, reply and exchange are over all of it.
package origin

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
)

// Source is where a text was witnessed.
type Source string

// The sources.
const (
	Definition Source = "definition" // of a tool: it explains, and no answer stands in it
	Exchange   Source = "exchange"
	Question   Source = "question"
	Reply      Source = "reply"
	Result     Source = "result"
	Workspace  Source = "workspace"
)

// ranked are the sources: where several hold a piece, the first has it. The rank of a source is its place from 1.
var ranked = [...]Source{Question, Reply, Result, Exchange, Workspace, Definition}

const rankMask = 7 // the bits of a rank

// Bounds.
const (
	window     = 24      // bytes of words, with a space after each but the last
	MaxShelf   = 4 << 20 // bytes of one text, and of a shelf
	maxWindows = 3 << 19 // of a shelf, three quarters of the slots
)

// Index holds the texts that an attempt was given. It is safe for concurrent use.
type Index struct {
	seed maphash.Seed // so that an agent cannot look for texts with the same digest; it decides nothing else

	mu        sync.RWMutex
	start     *shelf // question, workspace and definitions
	recent    *shelf
	before    *shelf // is forgotten when recent is full
	forgotten int64
}

// shelf holds texts, and what finds their pieces.
type shelf struct {
	texts []given
	bytes int

	slots []uint32         // an open hash table of windows: 29 bits of the digest, and the rank; 0 is free
	used  int              // of the slots
	whole map[uint64]uint8 // ranks of the texts, by digest
	short map[uint64]uint8 // ranks of texts that are shorter than a window, by the digest of their words
	sizes uint32           // a bit for each length of the words of a short text
}

// given is a text that the attempt was given. Its windows with the digests in echo are not witnessed by it.
type given struct {
	rank uint8
	text string
	echo map[uint64]bool
}

// New returns the empty index of an attempt.
func New() *Index {
	return &Index{seed: maphash.MakeSeed(), start: newShelf(), recent: newShelf(), before: newShelf()}
}

func newShelf() *shelf { return &shelf{whole: map[uint64]uint8{}, short: map[uint64]uint8{}} }

func (x *Index) shelves() [3]*shelf { return [3]*shelf{x.start, x.recent, x.before} }

// Add adds a text that the attempt was given, and keeps a copy. Own are texts of the agent's by which it asked for it, such as
// [Index.Rest] returns: an echo of them is not witnessed.
func (x *Index) Add(s Source, text string, own ...string) {
	rank := uint8(slices.Index(ranked[:], s) + 1)
	if rank == 0 || text == "" {
		return
	}
	kept := strings.Clone(text[:min(len(text), MaxShelf)])
	digest := maphash.String(x.seed, kept)
	x.mu.RLock()
	old := first(x.start.whole[digest], x.recent.whole[digest])
	x.mu.RUnlock()
	if old != 0 && old <= rank {
		return
	}
	echo := map[uint64]bool{}
	for _, piece := range own {
		w := read(piece, false)
		if echoes(w, text) {
			return
		}
		w.batches(x.seed, func(batch []digested) {
			for _, b := range batch {
				echo[b.digest] = true
			}
		})
	}
	all, windows := count(kept)
	for windows > maxWindows {
		kept = kept[:len(kept)/2]
		all, windows = count(kept)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.forgotten += int64(len(text) - len(kept))
	to := x.recent
	if s == Question || s == Workspace || s == Definition {
		to = x.start
	}
	if to.bytes+len(kept) > MaxShelf || to.used+windows > maxWindows {
		if to == x.start {
			x.forgotten += int64(len(kept))
			return
		}
		x.forgotten += int64(x.before.bytes)
		x.before, x.recent = x.recent, newShelf()
		to = x.recent
	}
	to.bytes += len(kept)
	to.texts = append(to.texts, given{rank, kept, echo})
	to.whole[digest] = first(to.whole[digest], rank)
	if size := max(len(to.slots), 1<<8); to.used+windows > len(to.slots)*3/4 {
		for to.used+windows > size*3/4 {
			size *= 2
		}
		to.slots, to.used = make([]uint32, size), 0
		for _, g := range to.texts[:len(to.texts)-1] {
			for _, w := range readings(g.text) {
				x.put(to, g, w)
			}
		}
	}
	for _, w := range all {
		x.put(to, to.texts[len(to.texts)-1], w)
	}
}

// count returns the words of a text, and how many windows they have.
func count(text string) (all []*words, windows int) {
	all = readings(text)
	for _, w := range all {
		w.windows(func(_, _ int) { windows++ })
	}
	return all, windows
}

// first returns the rank that comes first; 0 is none.
func first(a, b uint8) uint8 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Forgotten returns how many bytes of the texts that were added the index does not hold.
func (x *Index) Forgotten() int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.forgotten
}

// echoes reports whether a text is shorter than a window and the words of another one hold it.
func echoes(own *words, text string) bool {
	w := read(text, false)
	if len(w.ends) == 0 || w.size() >= window {
		return false
	}
	said := w.between(0, len(w.ends)-1)
	for i := range own.ends {
		if rest, ok := bytes.CutPrefix(own.buf[own.start(i):], said); ok && rest[0] == ' ' {
			return true
		}
	}
	return false
}

// Rest returns what of texts nothing explains, as one text; "" if that is nothing with words in it.
func (x *Index) Rest(texts ...string) string {
	var all []string
	for _, text := range texts {
		_, rest := x.Divide(text)
		all = append(all, slices.DeleteFunc(rest, func(piece string) bool { return len(read(piece, false).ends) == 0 })...)
	}
	return Join(all)
}

// Join returns pieces that did not stand beside each other as one text, with a word between them, so that no probe takes them
// for one piece.
func Join(pieces []string) string { return strings.Join(pieces, "\n_\n") }

// put adds the windows of a text to the table, which has room for them.
func (x *Index) put(to *shelf, g given, w *words) {
	if n := w.size(); n > 0 && n < window {
		digest := maphash.Bytes(x.seed, w.between(0, len(w.ends)-1))
		to.short[digest] = first(to.short[digest], g.rank)
		to.sizes |= 1 << n
	}
	w.batches(x.seed, func(batch []digested) {
		to.load(batch)
		for _, b := range batch {
			if g.echo[b.digest] {
				continue
			}
			at, mark := to.slot(b.digest)
			old := to.slots[at]
			if old == 0 {
				to.used++
			}
			to.slots[at] = mark | uint32(first(uint8(old&rankMask), g.rank))
		}
	})
}

// load reads the first slots at which windows are looked for. The processor waits for memory once for many of them: the look-ups
// themselves depend on what they read.
func (s *shelf) load(batch []digested) {
	for i := range batch {
		batch[i].slot = s.slots[s.place(batch[i].digest)]
	}
}

// place returns where a window is looked for first.
func (s *shelf) place(digest uint64) int { return int(digest>>32) & (len(s.slots) - 1) }

// slot returns the slot of a window, which is free or holds it, and what marks it. Its place depends on other bits of the
// digest than the mark.
func (s *shelf) slot(digest uint64) (at int, mark uint32) {
	mark = uint32(digest) &^ rankMask
	at = s.place(digest)
	for s.slots[at] != 0 && s.slots[at]&^rankMask != mark {
		at = (at + 1) & (len(s.slots) - 1)
	}
	return at, mark
}

// Divide parts a text among the sources: by holds the bytes of each, and rest the pieces that none explains, in order.
func (x *Index) Divide(text string) (by map[Source]int64, rest []string) {
	by = map[Source]int64{}
	if text == "" {
		return by, nil
	}
	digest := maphash.String(x.seed, text)
	x.mu.RLock()
	whole := uint8(0)
	for _, s := range x.shelves() {
		whole = first(whole, s.whole[digest])
	}
	x.mu.RUnlock()
	if whole != 0 {
		by[ranked[whole-1]] = int64(len(text))
		return by, nil
	}
	w := read(text, false)
	if len(w.ends) == 0 {
		return by, []string{text}
	}
	from := 0 // of the piece
	ranks := x.explain(w)
	for i, r := range ranks {
		if i+1 < len(ranks) && ranks[i+1] == r {
			continue
		}
		to := len(text)
		if i+1 < len(ranks) {
			to = int(w.places[i+1])
		}
		if r == 0 {
			rest = append(rest, text[from:to])
		} else {
			by[ranked[r-1]] += int64(to - from)
		}
		from = to
	}
	return by, rest
}

// explain returns the rank of each word, 0 where nothing explains it.
func (x *Index) explain(w *words) []uint8 {
	ranks := make([]uint8, len(w.ends))
	x.mu.RLock()
	defer x.mu.RUnlock()
	take := func(begin, end int, rank uint8) {
		for i := begin; rank != 0 && i <= end; i++ {
			ranks[i] = first(ranks[i], rank)
		}
	}
	sizes := uint32(0)
	shelves := slices.DeleteFunc([]*shelf{x.start, x.recent, x.before}, func(s *shelf) bool {
		sizes |= s.sizes
		return len(s.slots) == 0
	})
	w.batches(x.seed, func(batch []digested) {
		for _, s := range shelves {
			s.load(batch)
			for _, b := range batch {
				if b.slot != 0 {
					at, _ := s.slot(b.digest)
					take(b.begin, b.end, uint8(s.slots[at]&rankMask))
				}
			}
		}
	})
	for begin := 0; sizes != 0 && begin < len(ranks); begin++ {
		for end := begin; end < len(ranks); end++ {
			piece := w.between(begin, end)
			if len(piece) >= window {
				break
			}
			if sizes&(1<<len(piece)) == 0 {
				continue
			}
			digest := maphash.Bytes(x.seed, piece)
			for _, s := range x.shelves() {
				take(begin, end, s.short[digest])
			}
		}
	}
	return ranks
}
