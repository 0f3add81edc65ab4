// Package probe measures what a document tells of one task: its id, its question and its gold answer, near each
// other or apart, in whatever form the text is written.
//
// The measurements are integers and booleans ([trajectory.Probes]) that hold no text and no gold. They are taken of
// whole documents when a tool returns them, and again by the audit of what the journal shows. [Prober] documents
// the rules, whose [Version] is part of the plan. Every function is pure: the same input gives the same result
// (TestProbeIsStable).
//
// Package probe is not API: only this module imports it.
package probe

import (
	"strings"

	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
)

// Version names the rules by which documents are probed. It stands in the manifest and changes when a rule changes.
const Version = "probes.v2"

const (
	windowChars   = 400 // how far apart things that are near each other may stand
	besideChars   = 16  // the same for directly beside, with no word between
	labelChars    = 24  // a label begins at most so many characters before the gold
	lettersOfWord = 4   // about so many bytes for each word of a question, as it is and in rot13
	shortGold     = 4   // a gold of fewer characters needs a label or a neighbour
	shingleWords  = 8
	fewestWords   = 4 // a question of fewer words has no coverage
	fewestRuns    = 5 // of the question; fewer of them may stand in a document by chance
	echoWords     = 5
	mostHits      = 1000
)

// Target is a task whose traces are looked for. Gold is "" where none is known; SplitIDs are the ids of its split,
// its own among them or not (nil: none).
type Target struct {
	TaskID, Question, Gold string
	SplitIDs               *IDs
	Answers                *Answers // of the run; nil: none are looked for
}

// Prober measures documents for one task. It never changes once it is made, but by Renew, and may be used by several
// goroutines.
//
// A document is measured in up to four forms (see eachForm): in canonical text (see canonicalText), with encodings
// undone, with layout undone, and out of rot13. The graver of each probe counts. The arguments of the call go
// through the same forms, so that echo stays echo. Distances are in characters of the form. A word is a run of
// letters, digits and underscores. Two places are near when at most 400 characters lie between them, and directly
// beside each other when at most 16 do and none belongs to a word.
//
//   - An id is told by its letters and digits alone, so that hyphens may be left out or be underscores. It must be
//     a whole run of letters, digits, hyphens and underscores, or, from 16 letters and digits on, several runs with
//     at most 40 other ASCII bytes between two. Ids of fewer than 8 letters and digits, or without a digit, stand
//     anywhere and are never found.
//   - The question is its distinct runs of 8 words; a question of 4 to 7 words is one run, a shorter one none. Runs
//     inside quotation marks do not count, unless all of the question is: other pages quote the same. q_cov is how
//     many of them the document has, in thousandths rounded down. The echo is every run of at least 5 words that
//     also stands in the call's arguments, as they are or with percent escapes undone. q_cov_no_echo counts the
//     runs that stand somewhere without a word of the echo; those places, united, are the spans of the question.
//     q_edge: the first or the last run is among them, and one of the sentence that asks.
//   - Gold that is a numeral (see numeralValue) stands wherever one of the same value does. Other gold is cut at
//     semicolons and commas into such numerals and sequences of words, and stands where each of them does within
//     400 characters; places of one gold do not overlap. Gold without a word, and no gold, is never found.
//   - Gold has a label where one of the words for answers ends before it, or before one of its parts, and begins within the 24
//     characters before.
//   - gold_near and uuid_gold_near: gold near a span, or near the task's id, with all its parts outside of the echo
//     and of every place of the question. A name of an answer field near the id makes uuid_gold_near, too.
//   - gold_called: gold behind an answer label with a colon, a line break or a verb between them (see called), or
//     gold of at least 4 characters with a label. q_gold_called: the same near a place that has half of the
//     question and is no echo of a query above the results (see quotations). changed_question: the same with 60 %
//     of the words around it that the question is about.
//   - The beginning of an id is at least 6 of its letters and digits that no other id of the split begins with.
//     own_id_start: gold within 80 characters of that of the task's id.
//   - keyed_answers and listed_answers are counted over the tasks of the run, the own one included (see Answers).
//   - Gold of fewer than 4 characters counts, in all of gold_hits, gold_near and uuid_gold_near, only with a label,
//     or directly beside a span or the id.
//   - gold_hits stops at 1000.
//   - The names of fields are in fixedPhrases, and fieldReader says where a name counts; the instructions to graders
//     and agents are in markerPhrases.
type Prober struct {
	lexicon       *lexicon
	ids           idSet
	inQuestion    []wordUse       // by word
	shingles      map[shingle]int // by number, -1 for those in quotation marks
	shingleLen    int
	counted       int // of shingles
	first         int // of those that are counted
	last          int
	asks          []int // those of the sentence that asks
	bag           int   // words of what the question is about, see prepareQuestion
	questionBytes int
	gold          goldForm
	phrases       *phrases
	question      string
	answers       *Answers

	firstRotated, lastRotated uint32 // words in rot13

	words  []uint32   // of the question
	joined bool       // there are underscores in some
	places []interval // of these, while it is prepared

	rotated []byte // what the words in rot13 are of
}

// New prepares for one task, in time linear in the target.
func New(t Target) *Prober { return Renew(nil, t) }

// mostKept is how many words the lexicon of a prober may have whose memory another one gets: to clear it takes as long as it is
// large.
const mostKept = 1 << 12

// Renew is New in the memory of a prober of another task, which is not used any more; nil for none.
func Renew(old *Prober, t Target) *Prober {
	fixed := fixedPhrases()
	question, gold := canonicalText(t.Question).b, canonicalText(t.Gold).b
	p := old
	if p == nil || len(p.lexicon.ids) > mostKept {
		p = &Prober{lexicon: newLexicon(fixed.lexicon, (len(question)+len(gold))/lettersOfWord), shingles: map[shingle]int{}}
	}
	p.lexicon.reset()
	clear(p.shingles)
	*p = Prober{lexicon: p.lexicon, shingles: p.shingles, inQuestion: p.inQuestion[:0], asks: p.asks[:0], words: p.words[:0], places: p.places[:0], rotated: p.rotated[:0],
		ids: idSet{others: t.SplitIDs}, phrases: fixed, question: t.Question, answers: t.Answers}
	if t.SplitIDs == nil {
		p.ids.others = NewIDs(nil)
	}
	if bare, ok := bareID(nil, []byte(t.TaskID)); ok && len(bare) >= shortestID {
		p.ids.own = string(bare)
	}
	if t.Answers != nil {
		p.ids.tasks = t.Answers.tasks
	}
	p.prepareQuestion(question)
	p.gold = newGoldForm(gold, p.lexicon)
	p.prepareRotated(question, gold)
	return p
}

// Probe measures a whole document that a call with these arguments gave, and the addresses that it reached. It
// takes time and memory linear in the document.
func (p *Prober) Probe(document, args string, urls []string) trajectory.Probes {
	probes, _ := p.ProbeRuns(document, args, urls)
	return probes
}

// ProbeRuns also returns which runs of the question q_cov_no_echo counts.
func (p *Prober) ProbeRuns(document, args string, urls []string) (gravest trajectory.Probes, noEcho []bool) {
	said := p.newEcho(args)
	p.eachForm(document, func(text probeText) hints {
		ids := p.ids.find(text)
		read := p.read(text, said, ids.own, false)
		gold := p.readGold(text, read, ids)
		keyed, listed := 0, 0
		if p.answers != nil {
			keyed, listed = p.answers.count(text, read.answers, ids.keys)
		}
		gravest = gravest.Merge(trajectory.Probes{
			AnswerColumn:     read.answerColumn,
			AnswerKeys:       read.answerKeys,
			ChangedQuestion:  gold.changed,
			GoldCalled:       gold.called,
			GoldHits:         gold.hits,
			GoldLabelNear:    gold.labelled,
			GoldNear:         gold.nearQuestion,
			InjectionMarkers: read.markers,
			KeyedAnswers:     keyed,
			ListedAnswers:    listed,
			OtherIDStarts:    ids.starts,
			OtherUUIDs:       ids.others,
			OwnIDStart:       gold.nearStart,
			OwnUUID:          len(ids.own) > 0,
			QCov:             read.covered,
			QCovNoEcho:       read.coveredNoEcho,
			QEdge:            p.edge(read.noEcho),
			QGoldCalled:      gold.calledNearQuestion,
			SchemaKeys:       read.schemaKeys,
			UUIDGoldNear:     gold.nearID || read.answerKeyNearID,
		})
		noEcho = Union(noEcho, read.noEcho)
		return read.hints
	})
	for _, url := range urls {
		gravest.DenyClass = max(gravest.DenyClass, map[policy.Class]int{policy.ClassA: 2, policy.ClassB: 1}[policy.Classify(url)])
	}
	return gravest, noEcho
}

// Quotation is what a document has of the question.
type Quotation struct {
	Share    int  // of the question, in thousandths
	Edge     bool // its beginning or end, and its question word, are there (see Prober.edge)
	GoldNear bool
}

// Quoted returns how much of the question a document has, not counting runs that are echo from the first word to
// the last, and whether the gold is near to it. A few words of the question in a query take away many runs of what
// another has written; what is echoed of a query goes no further than it.
func (p *Prober) Quoted(document, args string) (q Quotation) {
	said := p.newEcho(args)
	p.eachForm(document, func(text probeText) hints {
		read := p.read(text, said, nil, true)
		q.Share = max(q.Share, read.coveredNoEcho)
		q.Edge = q.Edge || p.edge(read.noEcho)
		q.GoldNear = q.GoldNear || p.readGold(text, read, foundIDs{}).nearQuestion
		return read.hints
	})
	return q
}

// Names reports whether a text holds the task's id, or [WholeQuestion] of its question: what Probe has as OwnUUID and
// QCov, without a look for the answer.
func (p *Prober) Names(text string) bool {
	blind := *p
	blind.gold, blind.answers = goldForm{}, nil
	found := blind.Probe(text, "", nil)
	return found.OwnUUID || found.QCov >= WholeQuestion
}

// Few reports whether the question has so few runs that all of them can be in a document by chance.
func (p *Prober) Few() bool { return p.counted < fewestRuns }

// Short reports whether the gold answer is too short to be found without a label.
func (p *Prober) Short() bool { return p.gold.short }

// HasShortGold reports whether a gold answer that is too short to be found without a label stands in a text all the
// same.
func (p *Prober) HasShortGold(text string) bool {
	lenient := *p
	lenient.gold.short = false
	return p.gold.short && lenient.Probe(text, "", nil).GoldHits > 0
}

// OtherIDs returns how many other tasks of the split a text names, with its encoding undone up to three times.
func (p *Prober) OtherIDs(text string) (most int) {
	most = p.ids.find(canonicalText(text)).others
	if !strings.Contains(text, "%") {
		return most
	}
	for b, n := undoPercents([]byte(text)), 1; b != nil && n < 4; b, n = undoPercents(b), n+1 {
		most = max(most, p.ids.find(canonicalText(string(b))).others)
	}
	return most
}

// Records reports whether a text holds the id of a task with a field for its answer.
func (ids *IDs) Records(text string) bool {
	p := New(Target{SplitIDs: ids}).Probe(text, "", nil)
	return p.OtherUUIDs > 0 && p.AnswerKeys > 0
}

// Text returns a text in its canonical form: without markup and escapes, in NFKC and lower case (see
// canonicalText).
func Text(s string) string { return string(canonicalText(s).b) }

// IsWordRune reports whether a character of canonical text belongs to a word.
func IsWordRune(r rune) bool { return wordRune(r) }

// Numeral returns the value of a text that is a numeral, but for its sign, currency and percent signs and white
// space, so that equal values are equal texts.
func Numeral(s string) (value string, ok bool) {
	v, ok := goldNumeral([]byte(s))
	return string(v), ok
}

// interval is a place in canonical text, in bytes.
type interval struct{ start, end int }

// addInterval appends one that begins no earlier than the one before the last, and unites the two if they touch.
func addInterval(all []interval, next interval) []interval {
	for len(all) > 0 && next.start <= all[len(all)-1].end {
		last := all[len(all)-1]
		next = interval{min(last.start, next.start), max(last.end, next.end)}
		all = all[:len(all)-1]
	}
	return append(all, next)
}

// cursor looks around in intervals that are apart and in order. Looking at places one after the other costs one
// walk through them.
type cursor struct {
	all []interval
	i   int
}

// seek moves to the first interval that ends behind an offset.
func (c *cursor) seek(offset int) {
	for c.i > 0 && c.all[c.i-1].end > offset {
		c.i--
	}
	for c.i < len(c.all) && c.all[c.i].end <= offset {
		c.i++
	}
}

// overlaps says whether an interval has a part of a place.
func (c *cursor) overlaps(place interval) bool {
	c.seek(place.start)
	return c.i < len(c.all) && c.all[c.i].start < place.end
}

// near says whether an interval stands at most so many characters away, or overlaps the place.
func (c *cursor) near(t probeText, place interval, chars int) bool {
	return c.next(place, func(from, to int) bool { return t.chars(from, to) <= chars })
}

// beside says whether an interval stands directly beside a place.
func (c *cursor) beside(t probeText, place interval) bool { return c.next(place, t.adjoin) }

// next says whether what lies between a place and the interval before or behind it is as wanted.
func (c *cursor) next(place interval, is func(from, to int) bool) bool {
	if len(c.all) == 0 {
		return false
	}
	c.seek(place.start)
	return c.i < len(c.all) && is(place.end, c.all[c.i].start) || c.i > 0 && is(c.all[c.i-1].end, place.start)
}

// adjoin says whether at most 16 characters and no word lie between.
func (t probeText) adjoin(from, to int) bool {
	if from > to || t.chars(from, to) > besideChars {
		return false
	}
	s := wordScanner{b: t.b[from:to]}
	return !s.next()
}
