package probe

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/blake2b"
)

const (
	aroundTrace    = 4 * (windowChars + 2*labelChars) // bytes around a place that is probed
	aroundEdit     = 2 * aroundTrace                  // bytes around what was undone that are looked at again
	partsGap       = 4 << 10                          // bytes between parts of a text, over which nothing is near
	startDigits    = 8                                // of an id, which an answer beside makes a trace
	fewestInSeries = 6                                // golds of a list: a folder has many lists, such as names of colours
	seriesGap      = 9                                // lines between two of them
	prefixBytes    = 6                                // of a digest that name it
	shortestDigest = 12                               // characters of one: of 6 bytes in hex
	shortestPacked = 16                               // the same in base64
	surveyBits     = 21                               // of the filters over runs of words and digests
)

// Survey looks for the traces of all tasks of a run in texts. A text is gone through once for all tasks: where an id, most of a
// question, or a digest of one of them stands, the task's [Prober] looks at what is around it. It never changes, and several
// goroutines may use it.
type Survey struct {
	tasks    []Target
	ids      idSet
	answers  *Answers // nil: fewer than three tasks have a gold
	runs     map[uint64][]surveyRun
	filter   surveyFilter // over the keys of runs
	lengths  []int        // of runs
	size     []int        // distinct runs of a question; 0 of one that is too short to be found
	digests  map[uint64][]surveyDigest
	digested surveyFilter // over the keys of digests
	probers  []func() *Prober
	standIns []func() *Prober // that know the gold, and standIn as the id
}

// surveyFilter tells most keys that are not in a map.
type surveyFilter []uint64

func (f surveyFilter) add(key uint64) { f[key>>6&(1<<surveyBits/64-1)] |= 1 << (key & 63) }

func (f surveyFilter) has(key uint64) bool {
	return f[key>>6&(1<<surveyBits/64-1)]&(1<<(key&63)) != 0
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
	s := &Survey{tasks: tasks, answers: NewAnswers(tasks), runs: map[uint64][]surveyRun{}, filter: make(surveyFilter, 1<<surveyBits/64),
		size: make([]int, len(tasks)), digests: map[uint64][]surveyDigest{}, digested: make(surveyFilter, 1<<surveyBits/64)}
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
		s.standIns = append(s.standIns, sync.OnceValue(func() *Prober { return New(Target{TaskID: standIn, Gold: t.Gold}) }))
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
	if !slices.Contains(s.lengths, length) {
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
			s.filter.add(r.key >> (64 - surveyBits))
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

// runFactors are the powers of runFactor, the weights of what leaves a run of so many words.
var runFactors = func() (f [shingleWords + 1]uint64) {
	f[0] = 1
	for i := range shingleWords {
		f[i+1] = f[i] * runFactor
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
				s.digested.add(key)
			}
		}
	}
}

func digestKey(sum []byte) uint64 {
	return uint64(binary.BigEndian.Uint16(sum))<<32 | uint64(binary.BigEndian.Uint32(sum[2:prefixBytes]))
}

// Look adds what a text has. It asks check between its steps, each of which takes some milliseconds, and returns its error. Check is
// told how many bytes the prober of a task looks at next: of a text that names many tasks over and over they are many times its size.
// What Look does not look at again are answers that were found.
func (s *Survey) Look(text string, found Sightings, check func(probed int) error) error {
	if err := s.lookForDigests(text, found, check); err != nil {
		return err
	}
	b := unescaped(text)
	var parts [][]byte
	for decoded, pass := b, 0; pass < decodePasses; pass++ {
		changed := false
		for _, undo := range []func([]byte) edit{percentsUndone, pairsUndone} {
			e := undo(decoded)
			if next := e.done(); next != nil {
				parts = append(parts, bytes.Join(around(next, e.places, aroundEdit, nil), bytes.Repeat([]byte("\n"), partsGap)))
				decoded, changed = next, true
			}
		}
		if !changed {
			break
		}
	}
	for _, b := range append(parts, b) {
		if err := s.look(b, found, check); err != nil {
			return err
		}
	}
	return nil
}

// around returns the parts of b that are at most so many bytes away from places, which are in order. Instead stands in them for
// the places; nil: they stay.
func around(b []byte, places []interval, reach int, instead []byte) (parts [][]byte) {
	for i := 0; i < len(places); {
		from, end := max(0, places[i].start-reach), places[i].end
		var part []byte
		for ; i < len(places) && places[i].start-reach <= end+reach; i++ {
			if p := places[i]; instead != nil && p.start >= from {
				part = append(append(part, b[from:p.start]...), instead...)
				from = p.end
			}
			end = max(end, places[i].end)
		}
		parts = append(parts, append(part, b[from:min(len(b), end+reach)]...))
	}
	return parts
}

// seenQuestion is what of a question a text has.
type seenQuestion struct {
	numbers map[int]bool
	places  []interval // of its runs, in order
}

func (s *Survey) look(b []byte, found Sightings, check func(int) error) error {
	if err := check(0); err != nil {
		return err
	}
	t := probeText{b: folded(b)} // no distance in it is asked for
	var read answerReading
	questions := map[int]*seenQuestion{}
	var recent [2 * shingleWords]struct {
		key   uint64 // of all words before it
		start int
	}
	n, all := 0, uint64(0)
	startOf := func(words int) int { return recent[(n-words)&(len(recent)-1)].start }
	w := wordScanner{b: t.b}
	meet := func(key uint64, words int) {
		for _, run := range s.runs[key] {
			q := questions[run.task]
			if q == nil {
				q = &seenQuestion{numbers: map[int]bool{}}
				questions[run.task] = q
			}
			q.numbers[run.number] = true
			q.places = addInterval(q.places, interval{startOf(words), w.end})
		}
	}
	for w.next() {
		last := &recent[n&(len(recent)-1)]
		last.key, last.start = all, w.start
		all = all*runFactor + uint64(w.hash)*wordFactor
		n++
		for _, length := range s.lengths {
			if n < length {
				continue
			}
			if key := all - recent[(n-length)&(len(recent)-1)].key*runFactors[length]; s.filter.has(key >> (64 - surveyBits)) {
				meet(key, length)
			}
		}
		if a := s.answers; a != nil && a.filter[w.hash>>6&uint32(len(a.filter)-1)]&(1<<(w.hash&63)) != 0 {
			a.match(&read, t, w.hash, n, startOf)
		}
	}
	traces := map[int][]interval{} // by task
	for task, q := range questions {
		if len(q.numbers)*1000 >= WholeQuestion*s.size[task] {
			found.Questions[task] = true
			traces[task] = q.places
		}
	}
	ids := s.ids.find(t)
	var keys []answerKey
	for _, k := range ids.keys {
		if bare, whole := bareID(nil, t.b[k.place.start:k.place.end]); whole && len(bare) < startDigits {
			continue
		}
		keys = append(keys, k)
		traces[k.task] = append(traces[k.task], k.place)
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
	for task, places := range traces {
		slices.SortFunc(places, func(a, b interval) int { return a.start - b.start })
		for _, part := range around(t.b, places, aroundTrace, nil) {
			if found.Answers[task] && found.IDs[task] {
				break
			}
			if err := check(len(part)); err != nil {
				return err
			}
			id, byID, byQuestion := s.probers[task]().beside(string(part))
			if id {
				found.IDs[task] = true
			}
			if byID || found.Questions[task] && byQuestion {
				found.Answers[task] = true
			}
		}
	}
	return nil
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

// sixBits are the values of the characters of both alphabets of base64, -1 for others.
var sixBits = func() (values [256]int8) {
	for i := range values {
		values[i] = -1
	}
	for _, alphabet := range []string{"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", "-_"} {
		for i := range len(alphabet) {
			values[alphabet[i]] = int8(64 - len(alphabet) + i)
			if len(alphabet) == 64 {
				values[alphabet[i]] = int8(i)
			}
		}
	}
	return values
}()

// fourBits returns the value of a hexadecimal digit, -1 for none.
func fourBits(c byte) int8 {
	switch {
	case digitByte(c):
		return int8(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int8(c|0x20-'a') + 10
	}
	return -1
}

// digestAt returns whose digests begin at a place of a run of hexadecimal digits or base64, and where they end.
func (s *Survey) digestAt(text string, start, end int) ([]surveyDigest, int) {
	key, n := uint64(0), 0
	for n < shortestDigest {
		v := fourBits(text[start+n])
		if v < 0 {
			break
		}
		key, n = key<<4|uint64(v), n+1
	}
	if n == shortestDigest && s.digested.has(key) && len(s.digests[key]) > 0 {
		stop := start + n
		for stop < end && fourBits(text[stop]) >= 0 {
			stop++
		}
		return s.digests[key], stop
	}
	if end-start < shortestPacked {
		return nil, 0
	}
	key = 0
	for i := range prefixBytes * 8 / 6 {
		key = key<<6 | uint64(sixBits[text[start+i]])
	}
	if !s.digested.has(key) {
		return nil, 0
	}
	return s.digests[key], end
}

// lookForDigests looks for the beginnings of digests in hex or base64.
func (s *Survey) lookForDigests(text string, found Sightings, check func(int) error) error {
	traces := map[int][]interval{} // by task
	at := func(start, end int) {
		of, stop := s.digestAt(text, start, end)
		for _, of := range of {
			if of.id {
				found.IDs[of.task] = true
			} else {
				found.Questions[of.task] = true
			}
			traces[of.task] = append(traces[of.task], interval{start, stop})
		}
	}
	for i := 0; i < len(text); {
		if sixBits[text[i]] < 0 {
			i++
			continue
		}
		end := i
		for end < len(text) && sixBits[text[end]] >= 0 {
			end++
		}
		for start := i; end-start >= shortestDigest; {
			at(start, end)
			if text[start] == '0' && text[start+1]|0x20 == 'x' && end-start-2 >= shortestDigest {
				at(start+2, end)
			}
			for start++; start < end && asciiAlnum(text[start-1]); start++ {
			}
		}
		i = end
	}
	for task, places := range traces {
		if s.tasks[task].Gold == "" {
			continue
		}
		for _, part := range around([]byte(text), places, aroundTrace, []byte(" "+standIn+" ")) {
			if found.Answers[task] {
				break
			}
			if err := check(len(part)); err != nil {
				return err
			}
			if _, near, _ := s.standIns[task]().beside(string(part)); near {
				found.Answers[task] = true
			}
		}
	}
	return nil
}
