package export

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/submit"
	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

// python is a Python that has inspect_ai.
type python string

// newPython returns the one of GAIA_INSPECT.
func newPython(t *testing.T) python {
	t.Helper()
	if os.Getenv("GAIA_INTEROP") != "1" {
		t.Skip("exports are not read with other programs: set GAIA_INTEROP=1")
	}
	program := os.Getenv("GAIA_INSPECT")
	if program == "" {
		t.Skip("SKIPPED: no Python with inspect_ai was named, so no export was read with it: run make interop, or set GAIA_INSPECT")
	}
	return python(program)
}

// run runs a script of testdata, without a network.
func (p python) run(t *testing.T, script string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(string(p), append([]string{filepath.Join("testdata", script)}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "http_proxy=http://127.0.0.1:1", "https_proxy=http://127.0.0.1:1",
		"no_proxy=127.0.0.1", "PYTHONDONTWRITEBYTECODE=1"}
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, errors.String())
	}
	return out
}

// readSample is a sample as Inspect reads it.
type readSample struct {
	Calls      [][2]string           `json:"calls"`
	Completion string                `json:"completion"`
	Epoch      int                   `json:"epoch"`
	Error      *string               `json:"error"`
	Events     []string              `json:"events"`
	ID         string                `json:"id"`
	Input      string                `json:"input"`
	Inputs     []int                 `json:"inputs"` // messages of each model event
	Messages   [][2]string           `json:"messages"`
	Retries    []string              `json:"retries"`
	Scores     map[string][2]*string `json:"scores"`
	Target     string                `json:"target"`
	Tokens     int64                 `json:"tokens"`
}

// readLog is a log as Inspect reads it.
type readLog struct {
	Accuracy   map[string]float64 `json:"accuracy"`
	Inspect    string             `json:"inspect"`
	Model      string             `json:"model"`
	Packages   map[string]string  `json:"packages"`
	Reductions int                `json:"reductions"`
	SampleIDs  []string           `json:"sample_ids"`
	Samples    []readSample       `json:"samples"`
	Status     string             `json:"status"`
	Summaries  [][4]any           `json:"summaries"`
	Tags       []string           `json:"tags"`
	Unlike     []string           `json:"unlike"` // members that Inspect would write, and the log has not
	Usage      int64              `json:"usage"`
}

// stories are runs of all kinds.
func stories(t *testing.T) map[string]runs.Case {
	t.Helper()
	all := runs.Good()
	all["varied"], _ = runs.Varied()
	all["voted"] = parse(t, outvoted)
	all["full"] = parse(t, full())
	all["lost"] = parse(t, "-- task "+task+" --\nquestion: Which?\ngold: Ostrel\n-- error 504 --\nno reply\n-- error 503 --\nno reply again\n")
	all["hostile"] = parse(t, "-- task "+task+" --\nquestion: =1 \u009b31m?\ngold: Ostrel\n-- call web_fetch {\"url\":\"http://a.example/\",\"n\":"+strings.Repeat("9", 5000)+
		"} --\n\x1b[2J attachment://0123456789abcdef0123456789abcdef \u202e\n-- answer \"},{ --\n\x1b]0;x\x07 "+strings.Repeat("all the ferries ", 3000)+"\n")
	return all
}

// TestInteropInspect: Inspect's public API reads a log in all its ways, and finds
// in it what the run has.
func TestInteropInspect(t *testing.T) {
	py := newPython(t)
	for name, c := range stories(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, c)
			path := filepath.Join(t.TempDir(), name+".eval")
			log := inspect(t, s)
			if err := os.WriteFile(path, log, 0o644); err != nil {
				t.Fatal(err)
			}
			var read readLog
			if err := json.Unmarshal(py.run(t, "inspect_read.py", path), &read); err != nil {
				t.Fatal(err)
			}
			m, summary := s.Run.Manifest, s.Run.Summary()
			if read.Status != "success" || read.Model != m.Model.Name || read.Packages["gaia"] != m.Harness.Version || !slices.Contains(read.Tags, "rehearsal") {
				t.Errorf("Inspect %s reads %s of %s, %v, tags %q", read.Inspect, read.Status, read.Model, read.Packages, read.Tags)
			}
			if scores := summary.Scores; scores == nil {
				if len(read.Accuracy) > 0 {
					t.Errorf("an unscored run has the accuracy %v", read.Accuracy)
				}
			} else if n := float64(len(m.Tasks)); read.Accuracy["official"] != float64(scores.Official.Correct)/n || scores.Judged != nil && read.Accuracy["judged"] != float64(scores.Judged.Correct)/n {
				t.Errorf("accuracy %v, of scores %+v", read.Accuracy, scores)
			}
			if read.Usage < summary.Tokens.In+summary.Tokens.Out {
				t.Errorf("usage of %d tokens, of %+v", read.Usage, summary.Tokens)
			}
			if len(read.Unlike) > 0 {
				t.Errorf("Inspect would write also %q", read.Unlike)
			}
			compareSamples(t, s, members(t, log), read)
		})
	}
}

// compareSamples holds what Inspect reads of samples against the run and the log.
func compareSamples(t *testing.T, s Source, all map[string][]byte, read readLog) {
	t.Helper()
	var ids []string
	samples := map[string]readSample{}
	for _, one := range read.Samples {
		samples[fmt.Sprintf("samples/%s_epoch_%d.json", one.ID, one.Epoch)] = one
	}
	count := 0
	for _, planned := range s.Run.Tasks {
		ids = append(ids, planned.Plan.TaskID)
		for _, e := range epochs(planned) {
			count++
			name := fmt.Sprintf("samples/%s_epoch_%d.json", planned.Plan.TaskID, e.number)
			got, wrote := samples[name], decoded[sample](t, all, name)
			want := readSample{Calls: [][2]string{}, Completion: wrote.Output.Completion, Epoch: e.number, Events: kinds(wrote), ID: planned.Plan.TaskID, Input: wrote.Input,
				Inputs: got.Inputs, Messages: [][2]string{}, Retries: []string{}, Scores: map[string][2]*string{}, Tokens: got.Tokens}
			for _, m := range wrote.Messages {
				want.Messages = append(want.Messages, [2]string{m.Role, m.Content})
				for _, call := range m.ToolCalls {
					want.Calls = append(want.Calls, [2]string{call.ID, call.Function})
				}
			}
			for _, lost := range e.lost {
				want.Retries = append(want.Retries, failure(lost).Message)
			}
			if wrote.Error != nil {
				want.Error = &wrote.Error.Message
			}
			if a := e.attempt; a.Answer != nil || s.Run.Scored() {
				var answer *string
				if a.Answer != nil {
					answer = &a.Answer.Answer
				}
				for _, name := range s.scorers() {
					if verdict := s.verdict(name, planned, a); verdict != nil {
						want.Scores[name] = [2]*string{new(map[bool]string{true: "C", false: "I"}[*verdict]), answer}
					}
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-run +Inspect):\n%s", name, diff)
			}
			if tokens := e.attempt.Tokens; got.Tokens != tokens.In+tokens.Out {
				t.Errorf("%s has %d tokens, of %+v", name, got.Tokens, tokens)
			}
			for i, n := range got.Inputs {
				if n < 2 || i > 0 && n < got.Inputs[i-1] {
					t.Errorf("%s: the requests have %d messages", name, got.Inputs)
				}
			}
		}
	}
	if !slices.Equal(read.SampleIDs, ids) || len(read.Samples) != count || len(read.Summaries) != count {
		t.Errorf("%d samples and %d summaries of %d, ids %q", len(read.Samples), len(read.Summaries), count, read.SampleIDs)
	}
}

// TestInteropInspectView: 'inspect view' lists the logs, serves them, and makes a
// bundle of them.
func TestInteropInspectView(t *testing.T) {
	py := newPython(t)
	dir := t.TempDir()
	want := map[string]string{}
	for name, c := range stories(t) {
		want[name+".eval"] = "success"
		if err := os.WriteFile(filepath.Join(dir, name+".eval"), inspect(t, open(t, c)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var viewed struct {
		Listing map[string]string `json:"listing"`
		Served  map[string]struct {
			Samples int    `json:"samples"`
			Status  string `json:"status"`
		} `json:"served"`
	}
	if err := json.Unmarshal(py.run(t, "inspect_view.py", dir, filepath.Join(t.TempDir(), "bundle")), &viewed); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, viewed.Listing); diff != "" {
		t.Errorf("the bundle lists (-written +listed):\n%s", diff)
	}
	for name := range want {
		if got := viewed.Served[name]; got.Status != "success" || got.Samples == 0 {
			t.Errorf("%s is served as %+v", name, got)
		}
	}
	if viewed.Served["full.eval"].Samples != 165 || viewed.Served["voted.eval"].Samples != 3 {
		t.Errorf("served %+v", viewed.Served)
	}
}

// TestInteropLeaderboard: Python reads the leaderboard's lines as its app does.
func TestInteropLeaderboard(t *testing.T) {
	py := newPython(t)
	s := open(t, parse(t, full()))
	levels := map[string]int{}
	for _, planned := range s.Run.Tasks {
		levels[planned.Plan.TaskID] = planned.Plan.Level
	}
	lines, err := submit.Leaderboard(s.Run, s.Void)
	if err != nil {
		t.Fatal(err)
	}
	known, err := json.Marshal(levels)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{"leaderboard.jsonl": lines, "levels.json": known} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out := py.run(t, "leaderboard.py", filepath.Join(dir, "leaderboard.jsonl"), filepath.Join(dir, "levels.json")); strings.TrimSpace(string(out)) != "165" {
		t.Errorf("Python reads %s lines", out)
	}
}
