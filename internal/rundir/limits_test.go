package rundir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestLimitsOfPlans: the holder of the key signs plans that would cost their verifier
// too much. Each is refused before the journal is read.
func TestLimitsOfPlans(t *testing.T) {
	long.NotRaced(t)
	ids := func(n int) (ids []string) {
		for i := range n {
			ids = append(ids, fmt.Sprintf("t%d", i))
		}
		return ids
	}
	prompts := func(n, size int) (all []plan.Prompt) {
		text := strings.Repeat("x", size)
		for i := range n {
			all = append(all, plan.Prompt{ID: fmt.Sprintf("p%d", i), SHA256: canonical.Digest([]byte(text)), Text: text})
		}
		return all
	}
	with := func(tasks int, templates []plan.Prompt, tools int) plan.Plan {
		m := planOf(t, ids(tasks)...)
		m.Prompts = templates
		for i := range tools {
			m.Tools = append(m.Tools, plan.ToolPlan{Name: fmt.Sprintf("tool%d", i)})
		}
		return m
	}
	for what, tt := range map[string]struct {
		m   plan.Plan
		why string // "": it is not refused
	}{
		"many tasks":               {with(20_000, nil, 0), ""},
		"a task too many":          {with(plan.MaxTasks+1, nil, 0), "has 150001 tasks, and at most 150000 are verified"},
		"many templates":           {with(1, prompts(plan.MaxPrompts, 1), 0), ""},
		"a template too many":      {with(1, prompts(plan.MaxPrompts+1, 1), 0), "has 65 templates, and at most 64 are verified"},
		"a long template":          {with(100, prompts(1, plan.MaxTemplates), 0), ""},
		"too long a template":      {with(1, prompts(1, 7<<20), 0), "has 7340032 bytes of templates, and at most 1048576 are verified"},
		"templates that add up":    {with(1, prompts(2, plan.MaxTemplates/2+1), 0), "has 1048578 bytes of templates, and at most 1048576 are verified"},
		"templates times tasks":    {with(200, prompts(1, plan.MaxTemplates), 0), "has 208896000 bytes of templates above 4096, times tasks, and at most 134217728 are verified"},
		"many tools":               {with(1, nil, plan.MaxTools), ""},
		"a tool too many":          {with(1, nil, plan.MaxTools+1), "has 1025 tools, and at most 1024 are verified"},
		"a plan that is too large": {with(1, prompts(1, maxPlan), 0), "is larger than 33554432 bytes"},
	} {
		data := encodePlan(t, tt.m)
		key := testKey(t, 1)
		envelope, err := sign.Seal(key, plan.ManifestType, data)
		if err != nil {
			t.Fatal(err)
		}
		dir := directory(t, map[string][]byte{plan.ManifestFile: data, plan.EnvelopeFile: envelope})
		_, err = Verify(os.DirFS(dir), Options{})
		var fault *trajectory.Fault
		switch {
		case !errors.As(err, &fault):
			t.Errorf("%s: %v", what, err)
		case tt.why == "" && fault.File == plan.ManifestFile:
			t.Errorf("%s: %v", what, err)
		case tt.why != "" && (fault.File != plan.ManifestFile || fault.Reason != tt.why):
			t.Errorf("%s: %v; want %s", what, err, tt.why)
		}
	}
}

// TestLimitsOfFiles: the size of a file refuses it before a byte of it is read. The
// files are of 60 GiB and take no room on the disk.
func TestLimitsOfFiles(t *testing.T) {
	all := files(t, mixedPlan(t), mixed)
	for name := range all {
		dir := directory(t, all)
		if err := os.Truncate(filepath.Join(dir, name), 60<<30); err != nil {
			t.Skipf("no sparse files here: %v", err)
		}
		_, err := Verify(os.DirFS(dir), Options{})
		var fault *trajectory.Fault
		if !errors.As(err, &fault) || fault.File != name || !strings.HasPrefix(fault.Reason, "is larger than ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLimitOfOpenAttempts: what is held of attempts that have not ended is bounded.
// An attempt that has ended does not count.
func TestLimitOfOpenAttempts(t *testing.T) {
	dir := os.DirFS(directory(t, files(t, mixedPlan(t), mixed)))
	longest, open := int64(0), int64(0)
	if _, err := Verify(dir, Options{Sealed: func(f *Fold, task *Task) error {
		open = max(open, f.open)
		for _, a := range task.Attempts {
			longest = max(longest, a.bytes)
		}
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	if longest == 0 {
		t.Fatal("no attempt has a line")
	}
	_, err := Verify(dir, Options{maxOpen: longest / 2})
	var fault *trajectory.Fault
	if want := fmt.Sprintf("the attempts that have not ended here have more than %d bytes", longest/2); !errors.As(err, &fault) || fault.File != trajectory.JournalFile || fault.Line == 0 || fault.Reason != want {
		t.Errorf("%v", err)
	}
	if _, err := Verify(dir, Options{maxOpen: open + longest}); err != nil {
		t.Errorf("attempts that have ended count: %v", err)
	}
}

// TestLimitOfKeptTexts: what is held to the end of a journal is bounded: lines that are not
// of turns.
func TestLimitOfKeptTexts(t *testing.T) {
	dir := os.DirFS(directory(t, files(t, mixedPlan(t), mixed)))
	run, err := Verify(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(dir, Options{maxKept: run.kept}); err != nil {
		t.Error(err)
	}
	_, err = Verify(dir, Options{maxKept: run.kept - 1})
	var fault *trajectory.Fault
	if want := fmt.Sprintf("the events up to here that are not of turns have more than %d bytes", run.kept-1); !errors.As(err, &fault) || fault.File != trajectory.JournalFile || fault.Line != run.End.Events || fault.Reason != want {
		t.Errorf("%v; want line %d", err, run.End.Events)
	}
}

// TestLimitsOfLists: the lists of a journal are bounded where their members take more
// memory than text.
func TestLimitsOfLists(t *testing.T) {
	f := NewFold(planOf(t, "a"), "", nil)
	for i := range maxHarnesses + 1 {
		if reason := f.exceeds(Options{}); reason != "" {
			t.Fatal(reason)
		}
		f.harnesses = append(f.harnesses, trajectory.Harness{Version: fmt.Sprint(i)})
	}
	if want := fmt.Sprintf("more than %d programs resumed the run", maxHarnesses); f.exceeds(Options{}) != want {
		t.Errorf("%q", f.exceeds(Options{}))
	}
	a := &Attempt{CostMicroUSD: new(int64), underWay: new(underWay)}
	used := func(i int) string {
		return a.add(&trajectory.Event{Payload: trajectory.ToolExecuted{Name: fmt.Sprint("tool ", i)}})
	}
	for i := range plan.MaxTools {
		if reason := used(i); reason != "" {
			t.Fatal(reason)
		}
	}
	if reason := used(0); reason != "" {
		t.Errorf("a tool that was used before: %s", reason)
	}
	if want := fmt.Sprintf("uses more than %d tools", plan.MaxTools); used(plan.MaxTools) != want {
		t.Error("a tool too many is not refused")
	}
	const n = 1000
	for _, p := range []trajectory.Payload{trajectory.ContextCompiled{Messages: make([]trajectory.Message, n)}, trajectory.ModelCallCompleted{UnrecordedChannels: make([]string, n)},
		trajectory.PolicyDecision{RuleIDs: make([]string, n)}, trajectory.ToolExecuted{URLs: make([]trajectory.URL, n)}, trajectory.ToolProposed{ArgsTruncated: make([]string, n)}} {
		if a.listed(p) < 16*n {
			t.Errorf("%s: %d members count as %d bytes", p.Type(), n, a.listed(p))
		}
	}
}
