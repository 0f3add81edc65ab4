package probe

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/gaia-harness/gaia/internal/policy"
	"golang.org/x/crypto/blake2b"
)

const (
	aroundTrace    = 4 * (windowChars + 2*labelChars) // bytes around a place that is probed
	clusterGap     = 2 << 10                          // bytes between places of a question that are probed apart
	startDigits    = 8                                // of an id, which an answer beside makes a trace
	fewestInSeries = 6                                // golds of a list: a folder has many lists, such as names of colours
	seriesGap      = 9                                // lines between two of them
	prefixBytes    = 6                                // of a digest that name it
	surveyBits     = 21                               // of the filter over runs of words
)

// Survey looks for the traces of all tasks of a run in texts. A text is gone through once for all tasks: where an id, most of a
// question, or a digest of one of them stands, the task's [Prober] looks at what is around it. It never changes, and several
// goroutines may use it.
type Survey struct {
	tasks   []Target
	ids     idSet
	answers *Answers // nil: fewer than three tasks have a gold
	runs    map[uint64][]surveyRun
	filter  []uint64 // over the keys of runs
	lengths []int    // of runs that are shorter than shingleWords
	size    []int    // distinct runs of a question; 0 of one that is too short to be found
	digests map[uint64][]surveyDigest
	probers []func() *Prober
}

// surveyRun is a run of words of a question.
type surveyRun struct {
	task, number int
	rotated      bool // in rot13
}

// surveyDigest is what has a digest: the id or the question of a task.
type surveyDigest struct {
	task int
	id   bool
}

// Sightings are the tasks, by their numbers, of which something was found.
type Sightings struct {
	IDs       map[int]bool // the id, or a digest of it
	Questions map[int]bool // most of the question, or a digest of it
	Answers   map[int]bool // the gold by one of them, by the first 8 digits of the id, or by the beginnings of questions in several places
	Listed    map[int]bool // the gold as an entry of a list of several
}

// NewSightings returns none.
func NewSightings() Sightings {
	return Sightings{IDs: map[int]bool{}, Questions: map[int]bool{}, Answers: map[int]bool{}, Listed: map[int]bool{}}
}

// Add adds what others have.
func (s Sightings) Add(others Sightings) {
	maps.Copy(s.IDs, others.IDs)
	maps.Copy(s.Questions, others.Questions)
	maps.Copy(s.Answers, others.Answers)
	maps.Copy(s.Listed, others.Listed)
}

// NewSurvey prepares the tasks of a run, of which the id, the question and the gold are read; "" for none.
func NewSurvey(tasks []Target) *Survey {
	s := &Survey{tasks: tasks, answers: NewAnswers(tasks), runs: map[uint64][]surveyRun{}, filter: make([]uint64, 1<<surveyBits/64),
		size: make([]int, len(tasks)), digests: map[uint64][]surveyDigest{}}
	if s.answers != nil {
		s.answers.most = int(^uint(0) >> 1)
	}
	var ids []string
	s.ids = idSet{tasks: map[string]int{}, all: true}
	for i, t := range tasks {
		ids = append(ids, t.TaskID)
		if bare, ok := bareID(nil, []byte(t.TaskID)); ok && len(bare) >= shortestID {
			s.ids.tasks[string(bare)] = i
			s.addDigests(surveyDigest{i, true}, t.TaskID, strings.ReplaceAll(t.TaskID, "-", ""), string(bare))
		}
		s.addQuestion(i, t.Question)
	}
	s.ids.others = NewIDs(ids)
	for _, t := range tasks {
		s.probers = append(s.probers, sync.OnceValue(func() *Prober {
			return New(Target{TaskID: t.TaskID, Question: t.Question, Gold: t.Gold, SplitIDs: s.ids.others})
		}))
	}
	return s
}

func (s *Survey) addQuestion(task int, question string) {
	var words []uint32
	var rotated []uint32
	text := canonicalText(question).b
	for w := (wordScanner{b: text}); w.next(); {
		words = append(words, w.hash)
		r := wordScanner{b: bytes.Map(rot13, w.word())}
		r.next()
		rotated = append(rotated, r.hash)
	}
	if len(words) < fewestWords {
		return
	}
	length := min(len(words), shingleWords)
	if length < shingleWords && !slices.Contains(s.lengths, length) {
		s.lengths = append(s.lengths, length)
	}
	known := map[uint64]bool{}
	for i := range len(words) - length + 1 {
		key := runKey(words[i : i+length])
		if known[key] {
			continue
		}
		known[key] = true
		for _, r := range []struct {
			key     uint64
			rotated bool
		}{{key, false}, {runKey(rotated[i : i+length]), true}} {
			s.runs[r.key] = append(s.runs[r.key], surveyRun{task, s.size[task], r.rotated})
			bit := r.key >> (64 - surveyBits)
			s.filter[bit/64] |= 1 << (bit % 64)
		}
		s.size[task]++
	}
	trimmed := strings.TrimSpace(question)
	s.addDigests(surveyDigest{task, false}, question, trimmed, trimmed+"\n", strings.ToLower(trimmed), strings.Join(strings.Fields(question), " "),
		strings.ToLower(strings.Join(strings.Fields(question), " ")), string(bytes.Join(wordsIn(text), []byte(" "))))
}

const (
	runFactor  = 0x9e3779b97f4a7c15
	wordFactor = 0xd6e8feb86659fd93
)

// runKey is the polynomial of the words' hashes.
func runKey(words []uint32) (key uint64) {
	for _, w := range words {
		key = key*runFactor + uint64(w)*wordFactor
	}
	return key
}

// lastFactor is the weight of the word that leaves a run.
var lastFactor = func() uint64 {
	f := uint64(1)
	for range shingleWords {
		f *= runFactor
	}
	return f
}()

func (s *Survey) addDigests(of surveyDigest, texts ...string) {
	slices.Sort(texts)
	for _, text := range slices.Compact(texts) {
		b := []byte(text)
		a, c, d, e, f, g := sha256.Sum256(b), sha1.Sum(b), md5.Sum(b), sha512.Sum512(b), blake2b.Sum512(b), blake2b.Sum256(b)
		for _, sum := range [][]byte{a[:], c[:], d[:], e[:], f[:], g[:]} {
			key := digestKey(sum)
			if !slices.Contains(s.digests[key], of) {
				s.digests[key] = append(s.digests[key], of)
			}
		}
	}
}

func digestKey(sum []byte) uint64 {
	return uint64(binary.BigEndian.Uint16(sum))<<32 | uint64(binary.BigEndian.Uint32(sum[2:prefixBytes]))
}

// Look adds what a text has. A task whose answer was found is not looked at again.
func (s *Survey) Look(text string, found Sightings) {
	s.lookForDigests(text, found)
	b := unescaped(text)
	var decoded []byte
	for _, undo := range []func([]byte) []byte{undoPercents, undoPairs} {
		if next := undo(b); next != nil {
			decoded = bytes.Clone(next)
		}
	}
	s.look(b, found)
	if decoded != nil {
		s.look(decoded, found)
	}
}

// seenQuestion is what of a question a text has.
type seenQuestion struct {
	numbers map[int]bool
	places  []interval // apart
}

func (s *Survey) look(b []byte, found Sightings) {
	t := foldedText(b)
	var read answerReading
	questions := map[int]*seenQuestion{}
	var recent [16]struct {
		hash  uint32
		start int
	}
	n, key := 0, uint64(0)
	startOf := func(words int) int { return recent[(n-words)&15].start }
	w := wordScanner{b: t.b}
	meet := func(key uint64, words int) {
		if bit := key >> (64 - surveyBits); s.filter[bit/64]&(1<<(bit%64)) == 0 {
			return
		}
		for _, run := range s.runs[key] {
			q := questions[run.task]
			if q == nil {
				q = &seenQuestion{numbers: map[int]bool{}}
				questions[run.task] = q
			}
			q.numbers[run.number] = true
			place := interval{startOf(words), w.end}
			if last := len(q.places) - 1; last >= 0 && place.start-q.places[last].end < clusterGap {
				q.places[last].end = place.end
			} else {
				q.places = append(q.places, place)
			}
		}
	}
	for w.next() {
		key = key*runFactor + uint64(w.hash)*wordFactor
		if n >= shingleWords {
			key -= uint64(recent[(n-shingleWords)&15].hash) * wordFactor * lastFactor
		}
		recent[n&15].hash, recent[n&15].start = w.hash, w.start
		n++
		if n >= shingleWords {
			meet(key, shingleWords)
		}
		for _, length := range s.lengths {
			if n >= length {
				short := uint64(0)
				for i := n - length; i < n; i++ {
					short = short*runFactor + uint64(recent[i&15].hash)*wordFactor
				}
				meet(short, length)
			}
		}
		if a := s.answers; a != nil && a.filter[w.hash>>6&uint32(len(a.filter)-1)]&(1<<(w.hash&63)) != 0 {
			a.match(&read, t, w.hash, n, startOf)
		}
	}
	for task, q := range questions {
		if len(q.numbers)*1000 < WholeQuestion*s.size[task] {
			continue
		}
		found.Questions[task] = true
		for _, place := range q.places {
			s.probe(task, t.b, place, found)
		}
	}
	ids := s.ids.find(t)
	var keys []answerKey
	for _, k := range ids.keys {
		if bare, whole := bareID(nil, t.b[k.place.start:k.place.end]); whole && len(bare) < startDigits {
			continue
		}
		keys = append(keys, k)
		s.probe(k.task, t.b, k.place, found)
	}
	if s.answers != nil {
		s.answers.underKeys(t, keys, func(task int) { found.Answers[task] = true })
		var begun []int // six words of a question and its gold can be a chance, several are none
		s.answers.underKeys(t, read.keys, func(task int) { begun = append(begun, task) })
		if len(begun) >= ManyAnswers {
			for _, task := range begun {
				found.Answers[task] = true
			}
		}
		s.series(t, read.entries, found)
	}
}

// probe looks at a place where a task may be named, and around it.
func (s *Survey) probe(task int, b []byte, place interval, found Sightings) {
	if found.Answers[task] && found.IDs[task] {
		return
	}
	around := string(b[max(0, place.start-aroundTrace):min(len(b), place.end+aroundTrace)])
	id, byID, byQuestion := s.probers[task]().beside(around)
	if id {
		found.IDs[task] = true
	}
	if byID || found.Questions[task] && byQuestion {
		found.Answers[task] = true
	}
}

// beside reports whether a text has the task's id, and the gold itself by it or by its first digits, or by the question. Names of
// answer fields, which Probe takes for a gold by an id, are in the results of any agent.
func (p *Prober) beside(text string) (id, byID, byQuestion bool) {
	p.eachForm(text, func(t probeText) hints {
		ids := p.ids.find(t)
		read := p.read(t, echo{lexicon: p.lexicon}, ids.own, false)
		gold := p.readGold(t, read, ids)
		id, byID, byQuestion = id || len(ids.own) > 0, byID || gold.nearID || gold.nearStart, byQuestion || gold.nearQuestion || gold.calledNearQuestion
		return read.hints
	})
	return id, byID, byQuestion
}

// series adds the golds that are entries of a list of at least six of them: in a text that is one, or close together in a longer
// one, as Answers.count has it, or numbered as the tasks of the run are.
func (s *Survey) series(t probeText, entries []answerEntry, found Sightings) {
	entries = slices.DeleteFunc(entries, func(e answerEntry) bool { return !e.listed })
	slices.SortFunc(entries, func(a, b answerEntry) int { return a.place.start - b.place.start })
	add := func(series []answerEntry) bool {
		golds := map[string]bool{}
		for _, e := range series {
			golds[s.answers.texts[e.task]] = true
		}
		if len(golds) < fewestInSeries {
			return false
		}
		between := t.b[series[0].place.end:max(series[0].place.end, series[len(series)-1].place.start)]
		separators := bytes.Count(between, []byte("\n"))
		if separators == 0 {
			for _, c := range between {
				if c == ',' || c == ';' || c == '|' || c == '\t' {
					separators++
				}
			}
		}
		if 3*len(golds) < separators {
			return false
		}
		for _, e := range series {
			found.Listed[e.task] = true
		}
		return true
	}
	if len(entries) == 0 || add(entries) {
		return
	}
	from := 0
	for i := 1; i <= len(entries); i++ {
		if i < len(entries) && bytes.Count(t.b[entries[i-1].place.end:max(entries[i-1].place.end, entries[i].place.start)], []byte("\n")) <= seriesGap {
			continue
		}
		add(entries[from:i])
		from = i
	}
	ordered := map[int][]answerEntry{}
	for _, e := range entries {
		if e.number >= 0 {
			ordered[e.number-e.task] = append(ordered[e.number-e.task], e)
		}
	}
	for _, series := range ordered {
		golds := map[string]bool{}
		for _, e := range series {
			golds[s.answers.texts[e.task]] = true
		}
		for _, e := range series {
			if len(golds) >= fewestInSeries {
				found.Listed[e.task] = true
			}
		}
	}
}

// standIn is the id of a task where a digest stands.
const standIn = "0d16e57a-57a2-4d15-9e57-0d16e57a0001"

// lookForDigests looks for the beginnings of digests in hex or base64.
func (s *Survey) lookForDigests(text string, found Sightings) {
	var sum [prefixBytes]byte
	at := func(start, end int) {
		hits := []surveyDigest(nil)
		if n, err := hex.Decode(sum[:], []byte(text[start:start+2*prefixBytes])); err == nil && n == prefixBytes {
			hits = s.digests[digestKey(sum[:])]
		}
		if len(hits) == 0 && end-start >= 2*8 {
			if n, err := policy.DecodeBase64(sum[:], []byte(text[start:start+base64.RawStdEncoding.EncodedLen(prefixBytes)])); err == nil && n == prefixBytes {
				hits = s.digests[digestKey(sum[:])]
			}
		}
		for _, of := range hits {
			if of.id {
				found.IDs[of.task] = true
			} else {
				found.Questions[of.task] = true
			}
			if found.Answers[of.task] || s.tasks[of.task].Gold == "" {
				continue
			}
			around := text[max(0, start-aroundTrace):start] + " " + standIn + " " + text[end:min(len(text), end+aroundTrace)]
			if _, near, _ := New(Target{TaskID: standIn, Gold: s.tasks[of.task].Gold}).beside(around); near {
				found.Answers[of.task] = true
			}
		}
	}
	for i := 0; i < len(text); {
		if !policy.InBase64(text[i]) {
			i++
			continue
		}
		end := i
		for end < len(text) && policy.InBase64(text[end]) {
			end++
		}
		for start := i; end-start >= 2*prefixBytes; {
			at(start, end)
			next := strings.IndexAny(text[start:end], "-_/+")
			if next < 0 {
				break
			}
			start += next + 1
		}
		i = end
	}
}
