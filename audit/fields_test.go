package audit_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	planpkg "github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
)

// TestFields changes what one member of a clean run says, leaves it out, adds one
// that was left out, and swaps the elements of lists, one at a time, and forges
// the rest as only the holder of the key can. Either that is refused by
// verification, or the report of the audit differs, or the member stands in
// unheeded with just the changes that no one sees.
func TestFields(t *testing.T) {
	long.OnlyThorough(t)
	t.Parallel()
	w := newFieldWalk(t, "every-event.txt", true)
	w.journal(t)
	w.manifest(t)
	w.compare(t, unheeded())
	if len(w.passed) < 350 || w.tried < 1700 {
		t.Errorf("only %d changes of %d fields", w.tried, len(w.passed))
	}
}

// TestFieldsOfOwnAgent is TestFields for what a run of an own agent has besides.
func TestFieldsOfOwnAgent(t *testing.T) {
	long.OnlyThorough(t)
	long.NotRaced(t)
	t.Parallel()
	w := newFieldWalk(t, "every-event-own.txt", false)
	w.only = regexp.MustCompile(`^(?:request_refused|exchange_started|exchange_completed|model_call_started\.request|model_call_completed\.reply|context_compiled\.origins|attempt_ended\.agent|manifest\.agent)\b|\.(?:in_reply|rule|seen_in(?:\[\])?|shares_word|shown_as)$`)
	w.journal(t)
	w.manifest(t)
	w.compare(t, unheededOfOwnAgent())
	if len(w.passed) < 40 || w.tried < 200 {
		t.Errorf("only %d changes of %d fields", w.tried, len(w.passed))
	}
}

// compare compares the changes that no one saw with those that may be.
func (w *fieldWalk) compare(t *testing.T, unheeded map[string]string) {
	t.Helper()
	for _, field := range slices.Sorted(maps.Keys(w.passed)) {
		if got, want := strings.Join(slices.Sorted(maps.Keys(w.passed[field])), ", "), unheeded[field]; got != want {
			t.Errorf("no check sees that %s is %q, want %q: %v", field, got, want, w.passed[field])
		}
	}
	for _, field := range slices.Sorted(maps.Keys(unheeded)) {
		if w.passed[field] == nil {
			t.Errorf("there is no %s to be changed", field)
		}
	}
}

// fieldWalk is a run whose members are changed.
type fieldWalk struct {
	c      runs.Case
	files  map[string][]byte
	report any // of the run as it is
	types  map[string]reflect.Type
	only   *regexp.Regexp // fields that are changed; nil: all

	lock   sync.Mutex
	tried  int
	passed map[string]map[string][]int // changes that no one saw, and in which lines, by field
	worker chan struct{}
}

// newFieldWalk returns the walk over a case; every says that it has all types of events.
func newFieldWalk(t *testing.T, name string, every bool) *fieldWalk {
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	w := &fieldWalk{c: parsed(t, name, string(text)), passed: map[string]map[string][]int{}, types: map[string]reflect.Type{}, worker: make(chan struct{}, 4)}
	if w.files, err = w.c.Files(); err != nil {
		t.Fatal(err)
	}
	if every {
		all := w.lines(t)
		limit := maps.Clone(all[len(all)-1])
		limit["type"], limit["payload"] = "limit_changed", map[string]any{"from": 8, "origin": "https://models.example", "reason": "429", "to": 4}
		all = slices.Insert(all, len(all)-1, limit)
		if err := runs.Place(all); err != nil {
			t.Fatal(err)
		}
		if w.files, err = forgedLines(w.files, all); err != nil {
			t.Fatal(err)
		}
	}
	r, err := auditedFiles(w.files, w.c, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range r.Checks {
		if k.Status == audit.Fail || len(k.Gaps) > 0 {
			t.Fatalf("%s is %s: %s", k.ID, k.Status, reasons(k))
		}
	}
	w.report = outline(r)
	m, err := planpkg.Decode(w.files[planpkg.ManifestFile])
	if err != nil {
		t.Fatal(err)
	}
	journal := bytes.NewReader(w.files[trajectory.JournalFile])
	if _, _, err := trajectory.ReadJournal(journal, m.RunID, canonical.Digest(w.files[planpkg.ManifestFile]), func(e trajectory.Event, _ []byte) error {
		w.types[string(e.Payload.Type())] = reflect.TypeOf(e.Payload)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if every && len(w.types) < 26 {
		t.Fatalf("only %d types of events", len(w.types))
	}
	return w
}

func (w *fieldWalk) lines(t *testing.T) []runs.Line {
	t.Helper()
	all, err := runs.Lines(w.files[trajectory.JournalFile])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// outline is what a report says, but for what every other run makes differ.
func outline(r audit.Report) any {
	type line struct {
		Status   audit.Status
		Severity audit.Severity
		Gaps     []string
		Findings []string
	}
	all := map[string]line{}
	for _, k := range r.Checks {
		l := line{Status: k.Status, Severity: k.Severity, Gaps: k.Gaps}
		for _, f := range k.Findings {
			l.Findings = append(l.Findings, fmt.Sprint(f.RuleID, f.TaskID, f.Attempt, f.Outcome, f.Got, f.Want))
		}
		all[k.ID] = l
	}
	return []any{all, r.Totals, r.Rehearsal}
}

// try forges a run and notes the change as passed if no one sees it.
func (w *fieldWalk) try(t *testing.T, a alteration, line int, forge func() (map[string][]byte, error)) {
	seen := false
	files, err := forge()
	if err == nil {
		var r audit.Report
		r, err = auditedFiles(files, w.c, true)
		seen = !reflect.DeepEqual(outline(r), w.report)
	}
	var fault *trajectory.Fault
	refused := err != nil
	if refused && !errors.As(err, &fault) && !errors.Is(err, audit.ErrGold) && !errors.Is(err, audit.ErrIncomplete) {
		t.Errorf("line %d: %s is %s: refused, but not as a fault: %v", line, a.field, a.what, err)
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	w.tried++
	if w.passed[a.field] == nil {
		w.passed[a.field] = map[string][]int{}
	}
	if !seen && !refused {
		w.passed[a.field][a.what] = append(w.passed[a.field][a.what], line)
	}
}

// journal changes the members of the first two, the last and a middle one of the
// events that have them.
func (w *fieldWalk) journal(t *testing.T) {
	all := w.lines(t)
	of := func(l runs.Line) map[alteration]func() { return alterations(l, w.types[l["type"].(string)]) }
	at := map[alteration][]int{} // lines
	for i, l := range all {
		for a, make := range of(l) {
			if make != nil && (w.only == nil || w.only.MatchString(a.field)) {
				at[a] = append(at[a], i)
			}
		}
	}
	var tried sync.WaitGroup
	for a, lines := range at {
		for _, i := range slices.Compact([]int{lines[0], lines[min(1, len(lines)-1)], lines[len(lines)/2], lines[len(lines)-1]}) {
			w.worker <- struct{}{}
			tried.Go(func() {
				defer func() { <-w.worker }()
				changed := w.lines(t)
				of(changed[i])[a]()
				w.try(t, a, i, func() (map[string][]byte, error) { return forgedLines(w.files, changed) })
			})
		}
	}
	tried.Wait()
}

// manifest changes the members of the plan, which is signed again, and what
// repeats its digest.
func (w *fieldWalk) manifest(t *testing.T) {
	of := func() (map[string]any, altering) {
		var plan map[string]any
		if err := json.Unmarshal(w.files[planpkg.ManifestFile], &plan); err != nil {
			t.Error(err)
		}
		all := altering{}
		all.walk(plan, reflect.TypeFor[planpkg.Plan](), "manifest")
		return plan, all
	}
	var tried sync.WaitGroup
	_, all := of()
	for a, make := range all {
		if make == nil || w.only != nil && !w.only.MatchString(a.field) {
			continue
		}
		w.worker <- struct{}{}
		tried.Go(func() {
			defer func() { <-w.worker }()
			plan, all := of()
			all[a]()
			w.try(t, a, -1, func() (map[string][]byte, error) { return replanned(w.files, plan) })
		})
	}
	tried.Wait()
}

// replanned returns a run under another plan, to which its journal says to
// belong.
func replanned(files map[string][]byte, plan map[string]any) (map[string][]byte, error) {
	encoded, err := canonical.Encode(plan)
	if err != nil {
		return nil, err
	}
	envelope, err := sign.Seal(runs.Key(), planpkg.ManifestType, encoded)
	if err != nil {
		return nil, err
	}
	files = maps.Clone(files)
	files[planpkg.ManifestFile], files[planpkg.EnvelopeFile] = encoded, envelope
	all, err := runs.Lines(files[trajectory.JournalFile])
	if err != nil {
		return nil, err
	}
	all[0].Payload()["manifest_sha256"] = canonical.Digest(encoded)
	return forgedLines(files, all)
}

// forgedLines returns a run with another journal, and all that derives from it
// made and signed again.
func forgedLines(files map[string][]byte, all []runs.Line) (map[string][]byte, error) {
	journal, err := runs.Chain(files[planpkg.ManifestFile], all)
	if err != nil {
		return nil, err
	}
	key := runs.Key()
	return runs.Forge(files, journal, &key)
}

// forged returns the files of a run with each line of its journal changed.
func forged(t *testing.T, files map[string][]byte, change func(runs.Line)) map[string][]byte {
	t.Helper()
	all, err := runs.Lines(files[trajectory.JournalFile])
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		change(l)
	}
	out, err := forgedLines(files, all)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
