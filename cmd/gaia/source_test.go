package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/loader"
)

// TestHubOffline: either switch keeps everything from the hub.
func TestHubOffline(t *testing.T) {
	server, _ := serveHub(t)
	for _, name := range []string{"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"} {
		env := map[string]string{"HF_ENDPOINT": server.URL, "HF_HUB_CACHE": t.TempDir(), "HF_TOKEN": hubToken, name: "1"}
		var out, errs bytes.Buffer
		a := &app{stdout: &out, stderr: &errs, getenv: func(name string) string { return env[name] }, began: time.Now()}
		err := a.executeHere("tasks", "list", "--dataset", "hub")
		if err == nil || !strings.Contains(err.Error(), "offline, and the cache has no revision main of "+loader.GAIA) || len(server.Requests()) > 0 {
			t.Errorf("%s: %v, %d requests", name, err, len(server.Requests()))
		}
	}
}

// TestPlannedSource: a run goes on with the dataset and the hub of its plan and with no other.
func TestPlannedSource(t *testing.T) {
	planned := plan.Dataset{Name: loader.GAIA, Hub: "https://huggingface.co", Revision: hubCommit}
	other := plan.Dataset{Name: "invented/tasks", Hub: "https://hub.example", Revision: hubCommit}
	directory := plan.Dataset{Name: "directory", Revision: loader.Unpinned}
	cases := []struct {
		dataset          plan.Dataset
		source, endpoint string
		want             string // the source, or the error where that is a matter of usage
	}{
		{planned, "", "", "hub:" + loader.GAIA},
		{planned, "hub", "", "hub:" + loader.GAIA},
		{planned, "hub:" + loader.GAIA, "https://huggingface.co/", "hub:" + loader.GAIA},
		{other, "", "https://hub.example/below", "hub:invented/tasks"},
		{other, "hub:invented/tasks", "https://hub.example", "hub:invented/tasks"},
		{planned, "hub:other/x", "", "the run is of " + loader.GAIA + " on the hub, not of hub:other/x"},
		{planned, "dir:data", "", "the run is of " + loader.GAIA + " on the hub, not of dir:data"},
		{planned, "fixtures", "", "not of fixtures"},
		{other, "hub", "https://hub.example", "the run is of invented/tasks on the hub, not of hub"},
		{directory, "hub", "", "the source of the tasks is not recorded in the run"},
		{directory, "", "", "the source of the tasks is not recorded in the run"},
		{directory, "dir:data", "", "dir:data"},
		{other, "", "", "the run is of a dataset of the hub https://hub.example, not of https://huggingface.co"},
		{planned, "", "https://hub.example", "the run is of a dataset of the hub https://huggingface.co, not of https://hub.example"},
		{other, "", "https://hub.example.other.example", "not of https://hub.example.other.example"},
	}
	for _, c := range cases {
		a := &app{getenv: func(name string) string { return map[string]string{"HF_ENDPOINT": c.endpoint}[name] }}
		s := runflags.Settings{Tasks: runflags.Tasks{Source: c.source}}
		err := s.PlannedSource(c.dataset, a.user().Hub().Endpoint())
		var wrong *failure
		switch {
		case err == nil && (s.Source != c.want || c.dataset.Hub != "" && s.Revision != hubCommit):
			t.Errorf("%q for %s: %q at %q, want %q", c.source, c.dataset.Name, s.Source, s.Revision, c.want)
		case err != nil && (!errors.As(err, &wrong) || wrong.Code != exit.Usage || len(wrong.Hints) == 0 || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%q for %s: %v, want %q", c.source, c.dataset.Name, err, c.want)
		}
	}
}

// TestOtherCounts: a directory that may be taken for GAIA and has other counts says so wherever its score is read.
func TestOtherCounts(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	const counts = "split validation has 40 tasks (14/17/9 by level), where GAIA has 165 (53/86/26)"
	p := newProgram(t)
	if err := os.CopyFS(filepath.Join(p.dir, "data"), fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	out := p.want(exit.OK, "run", "--submit-intent", "--dataset", "dir:data", "--base-url", serveModel(t), "--model", fixtures.Model, "--task", offlineTasks)
	if !strings.Contains(out, "gaia: warning: "+counts+"\n") || strings.Count(out, counts) != 2 {
		t.Errorf("run says:\n%s", out)
	}
	if out := p.want(exit.OK, "audit", p.runDir()); !strings.Contains(out, "AUD-7") || !strings.Contains(out, counts) {
		t.Errorf("audit says:\n%s", out)
	}
	p.want(exit.OK, "submit", p.runDir())
	packages, err := filepath.Glob(filepath.Join(p.dir, "submission-*", "README.md"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("packages %q, %v", packages, err)
	}
	if b, err := os.ReadFile(packages[0]); err != nil || !bytes.Contains(b, []byte("\n- counts: "+counts+"\n")) {
		t.Errorf("the package says %v:\n%s", err, b)
	}
}
