package audit_test

import (
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// section is a part of a case's text.
type section struct{ header, body string }

// story is the text of a case by its sections; the first has no header.
type story []section

func sections(text string) story {
	s := story{{}}
	for line := range strings.Lines(text) {
		if header, ok := strings.CutPrefix(strings.TrimSpace(line), "-- "); ok && strings.HasSuffix(header, " --") {
			s = append(s, section{header: strings.TrimSuffix(header, " --")})
			continue
		}
		s[len(s)-1].body += line
	}
	return s
}

func (s story) String() string {
	var b strings.Builder
	for _, part := range s {
		if part.header != "" {
			b.WriteString("-- " + part.header + " --\n")
		}
		b.WriteString(strings.TrimRight(part.body, "\n") + "\n\n")
	}
	return b.String()
}

// mapped returns the story with the sections that a function makes of each.
func (s story) mapped(of func(section) []section) (out story) {
	for _, part := range s {
		out = append(out, of(part)...)
	}
	return out
}

// documents changes what came of calls, but for the addresses that stand before it.
func documents(change func(string) string) func(section) []section {
	return func(s section) []section {
		if strings.HasPrefix(s.header, "call ") && strings.TrimSpace(s.body) != "" {
			addresses, document := checkPartedLeak(s.body)
			s.body = addresses + change(document)
		}
		return []section{s}
	}
}

// checkPartedLeak parts the lines about addresses from a document.
func checkPartedLeak(body string) (addresses, document string) {
	for strings.HasPrefix(body, "url: ") {
		line, rest, _ := strings.Cut(body, "\n")
		addresses, body = addresses+line+"\n", rest
	}
	return addresses, body
}

// addresses changes every address that a call asks for or reached.
func addresses(change func(string) string) func(section) []section {
	asked := regexp.MustCompile(`"url":"([^"]*)"`)
	reached := regexp.MustCompile(`(?m)^(url: \d+ )(\S+)$`)
	return func(s section) []section {
		if strings.HasPrefix(s.header, "call ") {
			s.header = asked.ReplaceAllStringFunc(s.header, func(m string) string { return `"url":"` + change(asked.FindStringSubmatch(m)[1]) + `"` })
			before, document := checkPartedLeak(s.body)
			s.body = reached.ReplaceAllStringFunc(before, func(m string) string {
				p := reached.FindStringSubmatch(m)
				return p[1] + change(p[2])
			}) + document
		}
		return []section{s}
	}
}

// throughProxy has a proxy asked for an address. Of what is behind a # it hears
// nothing.
func throughProxy(address string) string {
	address, fragment, _ := strings.Cut(address, "#")
	address = "http://reader.example/get?u=" + url.QueryEscape(address)
	if fragment != "" {
		address += "#" + fragment
	}
	return address
}

// lettersEncoded writes every third letter of an address after its host as its code.
func lettersEncoded(address string) string {
	scheme, rest, _ := strings.Cut(address, "://")
	host, path, _ := strings.Cut(rest, "/")
	var b strings.Builder
	for i := range len(path) {
		if c := path[i]; i%3 == 0 && (c >= 'a' && c <= 'z') && (i < 2 || path[i-1] != '%' && path[i-2] != '%') {
			fmt.Fprintf(&b, "%%%02x", c)
		} else {
			b.WriteByte(c)
		}
	}
	return scheme + "://" + host + "/" + b.String()
}

func asHTML(document string) string {
	var b strings.Builder
	b.WriteString("<html><head><title>notes</title></head><body><table>")
	for line := range strings.Lines(document) {
		b.WriteString(`<tr class="row"><td>` + strings.ReplaceAll(html.EscapeString(strings.TrimSpace(line)), "-", "&#45;") + "</td></tr>\n")
	}
	return b.String() + "</table></body></html>"
}

func asJSON(document string) string {
	b, err := json.Marshal(map[string]any{"page": 3, "text": document})
	if err != nil {
		panic(err) // a text
	}
	return strings.ReplaceAll(string(b), "-", `\u002d`)
}

// beside tells of an honest task before or after the others.
func beside(before bool) func(story) story {
	task := section{"task fab1e1ff-0000-4000-8000-00000000fff1", "question: A plum and a stone weigh as much as two stones. What does the plum weigh, in stones?\ngold: 1\n"}
	answer := section{"answer 1", "One is taken off both sides."}
	return func(s story) story {
		at := slices.IndexFunc(s, func(p section) bool { return p.header == "expect" })
		if before {
			at = slices.IndexFunc(s, func(p section) bool {
				return strings.HasPrefix(p.header, "task ") || strings.HasPrefix(p.header, "repeat ")
			})
		}
		return slices.Insert(slices.Clone(s), at, task, answer)
	}
}

// afterError makes every task's attempts come after one that was lost.
func afterError(s story) (out story) {
	waiting := false
	for _, p := range s {
		if waiting && !strings.HasPrefix(p.header, "workspace ") {
			out = append(out, section{"error 504", "no reply within 60 s"})
			waiting = false
		}
		out = append(out, p)
		waiting = waiting || strings.HasPrefix(p.header, "task ")
	}
	return out
}

// mutation is another way to do what a case does. The check that the case is of
// finds the same.
type mutation struct {
	name    string
	folders []string // of the cases; nil: all
	but     []string // cases that count tasks, or come before them: one more is another story
	change  func(story) story
	later   int // attempts are so much later
}

func mutations() []mutation {
	each := func(of func(section) []section) func(story) story { return func(s story) story { return s.mapped(of) } }
	leaks := []string{"AUD-01"}
	count := []string{"AUD-07/fires-foreign-task.txt", "AUD-07/fires-test-committed.txt", "AUD-07/fires-unlabelled-part.txt", "AUD-07/fires-errors-of-whole-split.txt",
		"AUD-11/fires-every-attempt-failed.txt", "AUD-11/fires-failed-after-replies.txt", "AUD-13/fires-totals-just-too-high.txt", "AUD-14/fires-preflight.txt"}
	later := append([]string{"AUD-06/fires-again-after-grading.txt", "AUD-06/fires-task-after-grading.txt"}, count...) // the task comes after grading, too
	return []mutation{
		{"through a proxy", leaks, nil, each(addresses(throughProxy)), 0},
		{"with letters of the address encoded", leaks, nil, each(addresses(lettersEncoded)), 0},
		{"by a host with a dot at its end", leaks, nil, each(addresses(func(u string) string { return strings.Replace(u, ".example/", ".example./", 1) })), 0},
		{"as HTML", leaks, nil, each(documents(asHTML)), 0},
		{"as JSON", leaks, nil, each(documents(asJSON)), 0},
		{"after an honest task", nil, count, beside(true), 0},
		{"before an honest task", nil, later, beside(false), 0},
		{"after a lost attempt", []string{"AUD-01", "AUD-04"}, nil, afterError, 1},
	}
}

// TestMutations: a case that fires does so by the same rule about the same task,
// however it is told. It takes one case in 40, in the thorough run
// all, or a third where commits take turns.
func TestMutations(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	all := reports(t)
	for _, m := range mutations() {
		t.Run(m.name, func(t *testing.T) {
			tried := 0
			written := texts(t, "*/"+fires+"*.txt")
			for _, name := range slices.Sorted(maps.Keys(written)) {
				text := written[name]
				folder, _, _ := strings.Cut(name, "/")
				changed := m.change(sections(text)).String()
				second := m.later > 0 && strings.Contains(text, "-- error ") || strings.Contains(text, "majority") // which has separate attempts
				if slices.Contains(m.but, name) || m.folders != nil && !slices.Contains(m.folders, folder) || changed == sections(text).String() || second {
					continue
				}
				if tried++; !long.Walk(tried-1, 40) {
					continue
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					sameFinding(t, parsed(t, name, text), all[name], parsed(t, name, changed), m.later)
				})
			}
			if tried < 10 {
				t.Errorf("only %d cases were changed", tried)
			}
		})
	}
}

// sameFinding holds what the check finds that a case is of against what it finds
// in another form of it.
func sameFinding(t *testing.T, c runs.Case, report audit.Report, other runs.Case, later int) {
	files, err := other.Files()
	if err != nil {
		t.Fatal(err)
	}
	changed, err := auditedFiles(files, other, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range c.Expect {
		if want.Severity != string(audit.Critical) && want.Severity != string(audit.High) {
			continue
		}
		findings := func(r audit.Report, later int) map[string]bool {
			by := map[string]bool{}
			for _, f := range check(t, r, want.Check).Findings {
				if f.RuleID == want.Check+"."+want.Rule {
					if f.Attempt > 0 {
						f.Attempt += later
					}
					by[fmt.Sprintf("task %s, attempt %d", f.TaskID, f.Attempt)] = true
				}
			}
			return by
		}
		if before, after := findings(report, later), findings(changed, 0); len(before) == 0 {
			t.Errorf("%s.%s finds nothing in\n%s", want.Check, want.Rule, c.Text)
		} else if !maps.Equal(before, after) {
			t.Errorf("%s.%s finds something about %v, want %v, in\n%s", want.Check, want.Rule, after, before, other.Text)
		}
	}
}

// TestHeadsOnly: with the probes gone and nothing but the heads of longer
// results left, no run is called clean of leaks, the honest ones neither. A leak
// that the head shows is still found. It takes one case in 12, in the thorough
// run all, or a third where commits take turns.
func TestHeadsOnly(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	var tried atomic.Int64
	eachCase(t, 12, func(t *testing.T, name string, c runs.Case) {
		files, err := c.Files()
		if err != nil {
			t.Fatal(err)
		}
		results := 0
		cut := forged(t, files, func(l runs.Line) {
			if l["type"] == "tool_executed" {
				results++
				delete(l.Payload(), "probes")
				l.Payload()["bytes"], l.Payload()["truncated"] = 90000, true
			}
		})
		if results == 0 {
			return
		}
		tried.Add(1)
		r, err := auditedFiles(cut, c, true)
		if err != nil {
			t.Fatal(err)
		}
		got := check(t, r, "AUD-1")
		skipped := got.Status == audit.Skip || got.Status == audit.Review || !strings.HasPrefix(name, honest) && got.Status == audit.Fail
		if !skipped || len(got.Gaps) == 0 || r.Attestation.Clean {
			t.Errorf("AUD-1 is %s %s: %s", got.Status, got.Severity, reasons(got))
		}
	})
	if tried.Load() < 300/int64(max(3, long.Step(12))) { // commits take turns
		t.Errorf("only %d cases were cut", tried.Load())
	}
}

// TestGoldSwapped: what is a leak of one town is none of another. Fields for an
// answer beside the task, and code that loads the benchmark, are leaks of any.
func TestGoldSwapped(t *testing.T) {
	gold := regexp.MustCompile(`(?m)^gold: .*$`)
	vanished := 0
	for name, text := range texts(t, "AUD-01/"+fires+"*.txt") {
		if strings.Contains(text, "-- patch tool_executed") {
			continue // its probes are not those of what it shows
		}
		c := parsed(t, name, gold.ReplaceAllString(text, "gold: Quennerby"))
		h := hold(t, c)
		bearing := h.brought(func(p trajectory.Probes) bool { return p.AnswerKeys > 0 || p.SchemaKeys >= 3 })
		if bearing || strings.Contains(name, "loader") || !h.brought(func(trajectory.Probes) bool { return true }) {
			continue
		}
		if got := check(t, h.report, "AUD-1"); got.Severity == audit.Critical {
			t.Errorf("%s with another gold answer: %s", name, reasons(got))
		} else {
			vanished++
		}
	}
	if vanished < 5 {
		t.Errorf("only %d cases are none with another gold answer", vanished)
	}
}
