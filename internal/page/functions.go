package page

import (
	"cmp"
	"fmt"
	"html/template"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/transcript"
	"github.com/gaia-harness/gaia/internal/view"
)

// functions are what templates can call. Text comes to them visible, but not escaped.
var functions = template.FuncMap{
	"bar":        func(r stats.Rate) bar { return newBar(r) },
	"chip":       newChip,
	"clock":      clock,
	"comma":      comma,
	"count":      view.Count,
	"diff":       diff,
	"digestPath": digestPath,
	"dollars":    dollars,
	"duration":   duration,
	"fileCSP":    fileCSP,
	"first":      func(events [][2]string) [][2]string { return events[:min(len(events), firstEvents)] },
	"fold":       newFold,
	"join":       func(s []string) string { return strings.Join(s, ", ") },
	"kind":       kindLabel,
	"kinds":      func() []string { return kinds },
	"link":       func(text, path string) Link { return Link{text, path} },
	"list":       func(args ...any) []any { return args },
	"local":      local,
	"mark":       mark,
	"moment":     moment,
	"noticeKind": noticeKind,
	"numeric":    numeric,
	"percent":    func(ppm int64) string { return view.Percent(ppm) },
	"plotName":   plotName,
	"rest":       func(events [][2]string) [][2]string { return events[min(len(events), firstEvents):] },
	"script":     func() template.HTML { return template.HTML("<script type=\"module\">" + string(Script) + "</script>") },
	"share":      func(part, whole int) int { return 1000 * part / max(1, whole) },
	"siteCSP":    func() string { return siteCSP },
	"split":      split,
	"stack":      stack,
	"style":      func() template.HTML { return template.HTML("<style>" + string(Style) + "</style>") },
	"sum":        func(a, b int) int { return a + b },
	"turns":      turns,
}

// local returns a path of this server or of this file, and "#" for anything else: no model
// can make a link that leads elsewhere.
func local(path string) string {
	u, err := url.Parse(path)
	if err != nil || path == "" || u.Scheme != "" || u.Host != "" || strings.HasPrefix(path, "//") || strings.Contains(path, "\\") {
		return "#"
	}
	return path
}

var hexDigest = regexp.MustCompile(`^(sha256:)?[0-9a-f]{64}$`)

// digestPath returns where a picture or a whole text is, or "" for a name that is no digest.
func digestPath(folder, digest string) string {
	if folder == "" || !hexDigest.MatchString(digest) {
		return ""
	}
	return local(folder + digest)
}

var plainName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// plotName returns the name of a plot's files, or "plot" for one that package plot would
// not give.
func plotName(name string) string {
	if len(name) > 60 || !plainName.MatchString(name) {
		return "plot"
	}
	return name
}

// noticeKind returns one of the kinds that the style sheet knows.
func noticeKind(kind string) string {
	if kind == NoticeBad || kind == NoticeWarn {
		return kind
	}
	return NoticeNote
}

// chip is a word of the program's own with a sign and a colour; other words are shown
// without.
type chip struct{ Class, Sign, Text string }

var chips = map[string]chip{
	"solved": {"good", "✓", ""}, "complete": {"good", "✓", ""}, "committed": {"good", "✓", ""}, "pass": {"good", "✓", ""}, "better": {"good", "↑", ""}, "correct": {"good", "✓", ""}, "clean": {"good", "✓", ""},
	"failed": {"bad", "✗", ""}, "damaged": {"bad", "✗", ""}, "fail": {"bad", "✗", ""}, "worse": {"bad", "↓", ""}, "wrong": {"bad", "✗", ""}, "critical": {"bad", "▲", ""}, "high": {"bad", "▲", ""},
	"error": {"warn", "!", ""}, "interrupted": {"warn", "!", ""}, "stopped": {"warn", "■", ""}, "review": {"warn", "?", ""},
	"running": {"live", "●", ""}, "served": {"live", "●", ""}, "waiting": {"calm", "○", ""}, "graded later": {"calm", "○", ""}, "skipped": {"calm", "–", ""}, "unscored": {"calm", "–", ""},
	"skip": {"calm", "–", ""}, "n/a": {"calm", "–", ""}, "info": {"calm", "i", ""},
}

// newChip returns the chip of a word, which stays as it is written.
func newChip(word string) chip {
	c, ok := chips[strings.ToLower(word)]
	if !ok {
		c = chip{Class: "calm", Sign: "·"}
	}
	c.Text = word
	return c
}

// mark is the sign of a verdict; nil: there is none.
func mark(correct *bool) chip {
	switch {
	case correct == nil:
		return chip{"none", "–", "no verdict"}
	case *correct:
		return chip{"good", "✓", "correct"}
	}
	return chip{"bad", "✗", "wrong"}
}

// bar is a rate with its interval in parts per thousand.
type bar struct {
	stats.Rate
	Low, Wide, At int64
}

// newBar returns the bar of a rate, whose interval can be seen however narrow it is.
func newBar(r stats.Rate) bar {
	low, high := clamp(r.WilsonLowPPM/1000), clamp(r.WilsonHighPPM/1000)
	return bar{r, low, max(2, high-low), clamp(r.AccuracyPPM / 1000)}
}

func clamp(n int64) int64 { return min(1000, max(0, n)) }

// segment is a part of a stacked bar, in parts per thousand.
type segment struct {
	chip
	Count   int
	X, Wide float64
}

// stack returns the parts of outcomes whose values are counts, in their order; values that
// are no counts have no part.
func stack(outcomes [][2]string) []segment {
	var parts []segment
	sum := 0
	for _, o := range outcomes {
		if n, err := strconv.Atoi(strings.ReplaceAll(o[1], ",", "")); err == nil && n > 0 && n < 1e9 {
			parts = append(parts, segment{chip: newChip(o[0]), Count: n})
			sum += n
		}
	}
	x := 0.0
	for i := range parts {
		parts[i].X, parts[i].Wide = x, 1000*float64(parts[i].Count)/float64(sum)
		x += parts[i].Wide
	}
	return parts
}

// comma writes an integer in groups of three digits.
func comma(n any) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// dollars writes micro-USD with four decimals, rounded down: cells of a column line up.
func dollars(micro *int64) string {
	if micro == nil {
		return "unknown"
	}
	return fmt.Sprintf("$%s.%04d", comma(*micro/1e6), max(0, *micro%1e6)/100)
}

// duration writes milliseconds in the two units that fit.
func duration(ms int64) string {
	switch s := ms / 1000; {
	case ms < 1000:
		return fmt.Sprintf("%d ms", ms)
	case s < 60:
		return fmt.Sprintf("%d.%d s", s, ms%1000/100)
	case s < 3600:
		return fmt.Sprintf("%d min %02d s", s/60, s%60)
	default:
		return fmt.Sprintf("%d h %02d min", s/3600, s%3600/60)
	}
}

// clock shortens a time as RFC 3339 writes it to its time of the day.
func clock(t string) string {
	if at, err := time.Parse(time.RFC3339Nano, t); err == nil {
		return at.UTC().Format(time.TimeOnly)
	}
	return t
}

// moment shortens a time as RFC 3339 writes it to its day and time of the day.
func moment(t string) string {
	if at, err := time.Parse(time.RFC3339Nano, t); err == nil {
		return at.UTC().Format(time.DateTime)
	}
	return t
}

// number is a cell that is aligned to the right: a number, with its sign and unit.
var number = regexp.MustCompile(`^[-+−±]?[$]?[0-9][0-9,.]*( ?(%|ms|s|min|h|points|pp|USD|tokens|[kMGT]?B))?$`)

// numeric reports whether all cells of a column are numbers or empty: it is aligned to the
// right.
func numeric(rows [][]string, column int) bool {
	some := false
	for _, r := range rows {
		if column < len(r) && strings.Trim(r[column], "–- ") != "" {
			if !number.MatchString(r[column]) {
				return false
			}
			some = true
		}
	}
	return some
}

// kinds are those that a filter can ask for, in the order in which they happen; kindLabels are their names.
var kinds = []string{transcript.KindTask, transcript.KindPrompt, transcript.KindReply, transcript.KindCall, transcript.KindDecision, transcript.KindResult,
	transcript.KindExchange, transcript.KindAnswer, transcript.KindVerdict, transcript.KindEnd, transcript.KindOther}

var kindLabels = []string{"Task", "Prompt", "Model", "Tool call", "Rule", "Result", "Network", "Answer", "Verdict", "End", "Event"}

// kindLabel returns the word for a kind of items and the kind itself for its class, which
// is one of those that there are.
func kindLabel(kind string) chip {
	i := slices.Index(kinds, kind)
	if i < 0 {
		i = len(kinds) - 1
	}
	return chip{Class: kinds[i], Text: kindLabels[i]}
}

// turn is what belongs together in a chunk.
type turn struct {
	Number int
	Nodes  []node
}

// node is an item with what belongs to it: a call with its decisions and its result.
type node struct {
	transcript.Item
	Under []transcript.Item
}

// turns groups the items of a chunk by turn, and the decisions and results of a call under
// it where they are of the same turn.
func turns(items []transcript.Item) []turn {
	var all []turn
	for _, item := range items {
		if len(all) == 0 || all[len(all)-1].Number != item.Turn {
			all = append(all, turn{Number: item.Turn})
		}
		t := &all[len(all)-1]
		if item.Call != "" && (item.Kind == transcript.KindDecision || item.Kind == transcript.KindResult) {
			if i := slices.IndexFunc(t.Nodes, func(n node) bool { return n.Kind == transcript.KindCall && n.Call == item.Call }); i >= 0 {
				t.Nodes[i].Under = append(t.Nodes[i].Under, item)
				continue
			}
		}
		t.Nodes = append(t.Nodes, node{Item: item})
	}
	return all
}

// facts are names and values, divided by what a reader looks for first.
type facts struct{ Short, Long [][2]string }

// split puts digests and values that are longer than a line of a phone apart.
func split(all [][2]string) (f facts) {
	for _, fact := range all {
		if len(fact[1]) > 60 || strings.Contains(fact[1], "sha256:") {
			f.Long = append(f.Long, fact)
		} else {
			f.Short = append(f.Short, fact)
		}
	}
	return f
}

// fold is a text that is shown by its beginning where it is long.
type fold struct {
	Text, Head string
	Long       bool
	Size       string
	Diff       bool
}

// Bounds on what is shown before it is unfolded: of the limits and interruptions of a run, and of a text.
const (
	firstEvents = 6

	foldLines = 14
	foldChars = 1400
	headLines = 5
	headChars = 420
)

// newFold folds a text that is longer than the bounds, and says how long it is.
func newFold(text string, isDiff bool) fold {
	lines := strings.Count(text, "\n") + 1
	f := fold{Text: text, Diff: isDiff, Long: lines > foldLines || len(text) > foldChars, Size: comma(utf8.RuneCountInString(text)) + " characters"}
	if !f.Long {
		return f
	}
	if lines > 1 {
		f.Size = view.Count(lines, "line") + ", " + f.Size
	}
	head := text
	for i, n := 0, 0; i < len(text); i++ {
		if text[i] == '\n' {
			n++
		}
		if n == headLines || i >= headChars && utf8.RuneStart(text[i]) {
			head = text[:i]
			break
		}
	}
	f.Head = strings.TrimRight(head, "\n") + " …"
	return f
}

// diffLine is a line of a unified diff.
type diffLine struct{ Class, Text string }

// diff returns the lines of a unified diff. They keep their signs, so that colour says nothing alone.
func diff(text string) []diffLine {
	var lines []diffLine
	for line := range strings.Lines(text) {
		class := ""
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"), strings.HasPrefix(line, "diff "):
			class = "file"
		case strings.HasPrefix(line, "@@"):
			class = "at"
		case strings.HasPrefix(line, "+"):
			class = "add"
		case strings.HasPrefix(line, "-"):
			class = "del"
		}
		lines = append(lines, diffLine{class, strings.TrimRight(line, "\n")})
	}
	return lines
}

// ParseTaskFilter reads the filter of a run's tasks as the form of its page sends it, and
// From, the place of the first task to show.
func ParseTaskFilter(q url.Values) (f TaskFilter, from int) {
	f = TaskFilter{Outcome: q.Get("outcome"), Tool: q.Get("tool"), Check: q.Get("check"), Text: q.Get("text"), Level: natural(q.Get("level"))}
	return f, natural(q.Get("from"))
}

// ParseFilter reads the filter of a transcript as the form of its page sends it.
func ParseFilter(q url.Values) transcript.Filter {
	return transcript.Filter{Kind: q.Get("kind"), Tool: q.Get("tool"), Bad: q.Get("bad") != "", Text: q.Get("text")}
}

// set sets names to values, which alternate in pairs; an empty value is left out.
func set(q url.Values, pairs ...string) {
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			q.Set(pair[0], pair[1])
		}
	}
}

// natural reads a number from 0 to 10⁹; anything else is 0.
func natural(s string) int {
	n, err := strconv.ParseUint(s, 10, 30)
	if err != nil {
		return 0
	}
	return int(n)
}

// positive writes a number; of zero and less it is "".
func positive(n int) string {
	if n <= 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// pagePath returns the path of the tasks from a place on, with the filter.
func (p Run) pagePath(from int) string {
	// The filter as the form of its page sends it.
	q := url.Values{}
	set(q, "outcome", p.Filter.Outcome, "tool", p.Filter.Tool, "check", p.Filter.Check, "text", p.Filter.Text, "level", positive(p.Filter.Level))
	set(q, "from", positive(from))
	return p.Row.Path + "?" + q.Encode()
}

// SoFar returns the official rate over the tasks that have ended; nil: none was scored.
func (p Run) SoFar() *stats.Rate {
	if len(p.Levels) == 0 {
		return nil
	}
	return p.Levels[0].Official
}

// Answers reports whether an answer is shown of any task.
func (p Run) Answers() bool {
	return slices.ContainsFunc(p.Tasks, func(t TaskRow) bool { return t.Answer != "" })
}

// Pages returns the links to the tasks before and after those of the page; "" where there
// are none.
func (p Run) Pages() (l struct{ Prev, Next string }) {
	if p.File {
		return l
	}
	if p.From > 0 {
		l.Prev = p.pagePath(max(0, p.From-RowsSize))
	}
	if p.From+len(p.Tasks) < p.Found {
		l.Next = p.pagePath(p.From + len(p.Tasks))
	}
	return l
}

// ChunkPath returns the path of the chunk that begins at a place, as a page or as what
// TaskItems writes.
func (p Task) ChunkPath(from int, fragment bool) string {
	q := url.Values{}
	set(q, "attempt", positive(p.Attempt), "from", positive(from), "kind", p.Filter.Kind, "tool", p.Filter.Tool, "text", p.Filter.Text)
	if p.Filter.Bad {
		q.Set("bad", "1")
	}
	path := p.Path
	if fragment {
		path += "/chunk"
	}
	return path + "?" + q.Encode()
}

// LinePath returns the path of the page that has a line of the journal.
func (p Task) LinePath(line int64) string {
	if p.File {
		return fmt.Sprintf("#e%d", line)
	}
	return fmt.Sprintf("%s?attempt=%d&line=%d#e%d", p.Path, cmp.Or(p.Attempt, 1), line, line)
}
