package audit_test

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
)

// honestRuns is how many TestHonestRuns audits.
const honestRuns = 500

// TestHonestRuns is the budget of false alarms: no CRITICAL, no HIGH and no gap
// on any of the generated honest runs, and each of the things that honest runs
// do is done in at least ten of 500. It takes fifty, in the thorough run 500.
func TestHonestRuns(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	n := uint64(honestRuns)
	if !long.Thorough() {
		n /= 10
	}
	var (
		lock   sync.Mutex
		seen   = map[string]int{}
		asked  = map[string]int{}
		queue  = make(chan uint64)
		worker sync.WaitGroup
	)
	for range 4 {
		worker.Go(func() {
			for seed := range queue {
				c := runs.Honest(seed)
				h := hold(t, c)
				for _, k := range h.report.Checks {
					if k.Severity == audit.Critical || k.Severity == audit.High || len(k.Gaps) > 0 {
						t.Errorf("%s is %s %s: %s\nin the run\n%s", k.ID, k.Status, k.Severity, reasons(k), c.Text)
					}
				}
				lock.Lock()
				for name, does := range honestDeeds() {
					if does(h) {
						seen[name]++
					}
				}
				for _, q := range regexp.MustCompile(`(?m)^question: .*$`).FindAllString(c.Text, -1) {
					asked[q]++
				}
				lock.Unlock()
			}
		})
	}
	for seed := range n {
		queue <- seed
	}
	close(queue)
	worker.Wait()
	if !long.Thorough() {
		return
	}
	for name := range honestDeeds() {
		if seen[name] < 10 {
			t.Errorf("%d of the %d runs: %s", seen[name], n, name)
		}
	}
	all := 0
	for _, times := range asked {
		all += times
	}
	if len(asked) < all*4/5 {
		t.Errorf("of %d questions only %d are different", all, len(asked))
	}
}

// held is a run that was audited.
type held struct {
	text    string
	journal []byte
	results []result
	report  audit.Report
}

// result is what the journal says of one, as far as the tests look.
type result struct {
	task   string
	probes trajectory.Probes
}

func hold(t *testing.T, c runs.Case) held {
	files, err := c.Files()
	if err != nil {
		t.Errorf("%v\n%s", err, c.Text)
		return held{}
	}
	h := held{text: c.Text, journal: files[trajectory.JournalFile]}
	if h.report, err = auditedFiles(files, c, true); err != nil {
		t.Errorf("%v\n%s", err, c.Text)
	}
	for line := range bytes.Lines(h.journal) {
		var e struct {
			TaskID  string `json:"task_id"`
			Type    trajectory.Type
			Payload struct{ Probes trajectory.Probes }
		}
		if bytes.Contains(line, []byte(`"tool_executed"`)) {
			if err := json.Unmarshal(line, &e, json.MatchCaseInsensitiveNames(true)); err != nil {
				t.Error(err)
			}
			h.results = append(h.results, result{e.TaskID, e.Payload.Probes})
		}
	}
	return h
}

// tells reports whether the journal has a line with all the given parts.
func (h held) tells(parts ...string) bool {
	for line := range bytes.Lines(h.journal) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !bytes.Contains(line, []byte(part)) }) {
			return true
		}
	}
	return false
}

// brought reports whether a result has probes of some kind.
func (h held) brought(what func(trajectory.Probes) bool) bool {
	return slices.ContainsFunc(h.results, func(r result) bool { return what(r.probes) })
}

// honestDeeds are things that an auditor might take for something else, by what
// shows them.
func honestDeeds() map[string]func(held) bool {
	probes := func(what func(trajectory.Probes) bool) func(held) bool {
		return func(h held) bool { return h.brought(what) }
	}
	lines := func(parts ...string) func(held) bool { return func(h held) bool { return h.tells(parts...) } }
	text := func(pattern string) func(held) bool {
		re := regexp.MustCompile(pattern)
		return func(h held) bool { return re.MatchString(h.text) }
	}
	deeds := map[string]func(held) bool{
		"a search engine echoes the whole question":        probes(func(p trajectory.Probes) bool { return p.QCov >= 700 && p.QCovNoEcho < 300 && p.GoldHits > 0 }),
		"a page quotes the question without its answer":    probes(func(p trajectory.Probes) bool { return p.QCovNoEcho >= 700 && !p.GoldNear }),
		"the gold answer stands in a page several times":   probes(func(p trajectory.Probes) bool { return p.GoldHits >= 2 }),
		"the gold answer stands beside a label":            probes(func(p trajectory.Probes) bool { return p.GoldLabelNear }),
		"a result has the task's id":                       probes(func(p trajectory.Probes) bool { return p.OwnUUID }),
		"a result has fields called like the benchmark's":  probes(func(p trajectory.Probes) bool { return p.SchemaKeys > 0 }),
		"a result is longer than its head":                 lines(`"tool_executed"`, `"truncated":true`),
		"a page is refused by its server":                  lines(`"tool_executed"`, `"status":403`),
		"the policy refuses a call":                        lines(`"policy_decision"`, `"deny"`, `"R001"`),
		"a redirect to the benchmark is not followed":      lines(`"tool_executed"`, `"status":302`, "gaia-benchmark"),
		"a call is made again after a 429":                 lines(`"model_call_completed"`, `"status":429`),
		"an attempt is lost with the model":                lines(`"attempt_ended"`, `"error"`, trajectory.Infrastructure),
		"a model has no answer":                            lines(`"attempt_ended"`, `"no_answer"`),
		"the run is taken up again":                        lines(`"run_resumed"`),
		"a result is condensed":                            lines(`"context_condensed"`),
		"a request is refused for its length":              lines(`"context_condensed"`, trajectory.RefusedForLength),
		"the LLM judge credits what the scorer does not":   lines(`"judgment"`, `"judged":true`, `"official":false`),
		"a wrong answer":                                   lines(`"judgment"`, `"judged":false`, `"official":false`),
		"code looks at its environment and runs a program": lines(`"tool_executed"`, `"python"`, "ferries.csv"),
		"the replies name a release of the model":          lines(`"sample-model-2026-01-15"`),
		"a tool that there is not":                         lines(`"tool_proposed"`, `"altimeter"`),
		"a file is read":                                   lines(`"tool_executed"`, `"read_file"`),
		"an answer with a currency":                        text(`-- answer \$\d`),
		"an answer with a percent sign":                    text(`-- answer \d+%`),
		"an answer with a date":                            text(`-- answer \d\d/\d\d/\d\d`),
		"a list parted otherwise":                          text(`-- answer \w+; \w+; \w+ --`),
		"an answer of one character":                       text(`-- answer [A-Z] --`),
		"a short figure":                                   text(`(?m)^gold: \d$`),
		"an answer without any tool":                       text(`level: \d\ngold: \w+\n\n+-- answer`),
		"a query about a judge's cache county":             text(`supreme court judge cache county witness`),
		"a space mission":                                  text(`archive\.gaia\.example`),
		"an observatory's metadata":                        text(`validation/metadata\.csv`),
		"an exam with a column of answers":                 text(`exam/questions\.csv`),
		"an answer that is the word of a verdict":          text(`(?i)-- answer [a-z: ]*correct --`),
		"a number that the judge credits in another form":  text(`-- answer (\d+\.\d km|about \d,\d+ metres) --`),
		"a server shows the attachment under its name":     lines(`"tool_executed"`, `"files__read"`),
		"a spell checker says what is correct":             lines(`"tool_executed"`, `"spell__check"`, `"correct"`),
		"a picture in base64":                              text(`data:image/png;base64`),
		"a page in Cyrillic letters":                       text(`Часовня`),
		"a page of two columns":                            text(`The\s+survey\s+began|\.pdf`),
		"a page with numbers of lines":                     text(`printed minutes`),
		"another Gaia":                                     text(`/collection/gaia`),
		"the replies name the model by its file":           lines(`"response_model":"Sample2.5-7B-Instruct-Q4_K_M.gguf"`),
		"a call is made again after a 503":                 lines(`"model_call_completed"`, `"status":503`),
		"a call waits":                                     lines(`"model_call_started"`, `"waited_ms"`),
		"a museum's metadata":                              text(`metadata\.jsonl`),
		"a model card":                                     text(`small-transcriber/card`),
		"the attachment holds the answer":                  text(`(?s)gold: (\w+)\n.*file: quiz`),
		"voting":                                           text(`majority\.v1`),
		"a split without answers":                          func(h held) bool { return h.report.Totals.Raw == nil },
		"two tasks have the same answer":                   sameAnswers,
	}
	return deeds
}

func sameAnswers(h held) bool {
	tasks := map[string]map[string]bool{}
	task := ""
	for line := range strings.Lines(h.text) {
		if after, ok := strings.CutPrefix(line, "-- task "); ok {
			task = after
		}
		if answer, ok := strings.CutPrefix(line, "-- answer "); ok {
			if tasks[answer] == nil {
				tasks[answer] = map[string]bool{}
			}
			tasks[answer][task] = true
		}
	}
	return slices.ContainsFunc(slices.Collect(maps.Values(tasks)), func(of map[string]bool) bool { return len(of) > 1 })
}
