package audit_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/fixtures/runs"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
)

// TestFields changes what one member of a clean run says, one at a time, and
// forges the rest as only the holder of the key can. Either that is refused by
// verification, or the report of the audit differs, or the member stands in
// unheeded with the reason.
func TestFields(t *testing.T) {
	t.Parallel()
	w := newFieldWalk(t)
	w.journal(t)
	w.manifest(t)
	unheeded := unheeded()
	for _, field := range slices.Sorted(maps.Keys(w.passed)) {
		if changes := w.passed[field]; changes != "" && unheeded[field] == "" {
			t.Errorf("nobody sees that %s is changed: %s", field, changes)
		}
	}
	for _, field := range slices.Sorted(maps.Keys(unheeded)) {
		if changes, there := w.passed[field]; !there {
			t.Errorf("there is no %s to be changed", field)
		} else if changes == "" {
			t.Errorf("every change of %s is seen", field)
		}
	}
	if len(w.passed) < 250 {
		t.Errorf("only %d fields", len(w.passed))
	}
}

// fieldWalk is a run whose members are changed.
type fieldWalk struct {
	c      runs.Case
	files  map[string][]byte
	report any // of the run as it is

	lock   sync.Mutex
	passed map[string]string // changes that nobody saw, by field; "" where all were seen
	worker chan struct{}
}

func newFieldWalk(t *testing.T) *fieldWalk {
	text, err := os.ReadFile(filepath.Join("testdata", "every-event.txt"))
	if err != nil {
		t.Fatal(err)
	}
	w := &fieldWalk{c: parsed(t, "every-event.txt", string(text)), passed: map[string]string{}, worker: make(chan struct{}, 4)}
	if w.files, err = w.c.Files(); err != nil {
		t.Fatal(err)
	}
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
	seen := map[trajectory.Type]bool{}
	for _, l := range all {
		seen[trajectory.Type(l["type"].(string))] = true
	}
	if len(seen) < 26 {
		t.Fatalf("only %d types of events", len(seen))
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

// try forges a run and notes the field as passed if nobody sees the change.
func (w *fieldWalk) try(t *testing.T, field, what string, forge func() (map[string][]byte, error)) {
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
		t.Logf("%s %s: refused, but not as a fault: %v", field, what, err)
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	if _, there := w.passed[field]; !there {
		w.passed[field] = ""
	}
	if !seen && !refused {
		w.passed[field] = strings.TrimPrefix(w.passed[field]+"; "+what, "; ")
	}
}

// journal changes the members of the first two, the last and a middle one of the
// events that have them.
func (w *fieldWalk) journal(t *testing.T) {
	all := w.lines(t)
	at := map[string][]int{} // lines by field
	for i, l := range all {
		for _, field := range slices.Sorted(maps.Keys(fieldsOf(l))) {
			at[field] = append(at[field], i)
		}
	}
	var tried sync.WaitGroup
	for field, lines := range at {
		for _, i := range slices.Compact([]int{lines[0], lines[min(1, len(lines)-1)], lines[len(lines)/2], lines[len(lines)-1]}) {
			for what, change := range changes() {
				w.worker <- struct{}{}
				tried.Go(func() {
					defer func() { <-w.worker }()
					changed := w.lines(t)
					if fieldsOf(changed[i])[field](change) {
						w.try(t, field, fmt.Sprintf("line %d %s", i, what), func() (map[string][]byte, error) { return forgedLines(w.files, changed) })
					}
				})
			}
		}
	}
	tried.Wait()
}

// manifest changes the members of the plan, which is signed anew, and what
// repeats its digest.
func (w *fieldWalk) manifest(t *testing.T) {
	var plan map[string]any
	if err := json.Unmarshal(w.files[ledger.ManifestFile], &plan); err != nil {
		t.Fatal(err)
	}
	var tried sync.WaitGroup
	for field := range leaves(plan, "manifest") {
		for what, change := range changes() {
			w.worker <- struct{}{}
			tried.Go(func() {
				defer func() { <-w.worker }()
				var other map[string]any
				if err := json.Unmarshal(w.files[ledger.ManifestFile], &other); err != nil {
					t.Error(err)
				}
				if leaves(other, "manifest")[field](change) {
					w.try(t, field, what, func() (map[string][]byte, error) { return replanned(w.files, other) })
				}
			})
		}
	}
	tried.Wait()
}

// replanned returns a run under another plan, to which its journal says to
// belong.
func replanned(files map[string][]byte, plan map[string]any) (map[string][]byte, error) {
	encoded, err := sign.Canonical(plan)
	if err != nil {
		return nil, err
	}
	envelope, err := sign.Seal(runs.Key(), ledger.ManifestType, encoded)
	if err != nil {
		return nil, err
	}
	files = maps.Clone(files)
	files[ledger.ManifestFile], files[ledger.EnvelopeFile] = encoded, envelope
	all, err := runs.Lines(files[trajectory.JournalFile])
	if err != nil {
		return nil, err
	}
	all[0].Payload()["manifest_sha256"] = sign.Digest(encoded)
	return forgedLines(files, all)
}

// forgedLines returns a run with another journal, and all that derives from it
// made and signed anew.
func forgedLines(files map[string][]byte, all []runs.Line) (map[string][]byte, error) {
	journal, err := runs.Chain(files[ledger.ManifestFile], all)
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
