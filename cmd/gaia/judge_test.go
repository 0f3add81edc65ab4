package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/loader"
)

// babble is an endpoint whose judge writes other words about the question of
// one task, and else is the scripted one.
type babble struct {
	http.Handler
	question string
	words    atomic.Pointer[string] // nil: none
	asked    atomic.Int64           // about that task
}

func (b *babble) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if !bytes.Contains(body, []byte(`"model":"`+fixtures.JudgeModel+`"`)) || !bytes.Contains(body, []byte(b.question)) {
		b.Handler.ServeHTTP(w, r)
		return
	}
	b.asked.Add(1)
	words := b.words.Load()
	if words == nil {
		b.Handler.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	reply := map[string]any{"id": "1", "object": "chat.completion", "model": fixtures.JudgeModel,
		"choices": []any{map[string]any{"finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": *words}}},
		"usage":   map[string]any{"prompt_tokens": 500, "completion_tokens": 5, "total_tokens": 505}}
	_ = json.NewEncoder(w).Encode(reply) // the client may be gone
}

// TestJudgeBabbles: what is no verdict to the letter is none, however much it
// sounds like one. The answer is not judged, that is said, no score rises, and
// nothing is kept of it: a judge that came to its senses is asked again.
func TestJudgeBabbles(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	model, err := url.Parse(serveModel(t))
	if err != nil {
		t.Fatal(err)
	}
	set, _, err := loader.Load(t.Context(), loader.Dir(fixtures.Dataset(), "", ""), loader.Validation, loader.Filter{IDs: []string{"fab1e010-0000-4000-8000-000000000010"}})
	if err != nil {
		t.Fatal(err)
	}
	b := &babble{Handler: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: model.Scheme, Host: model.Host}), question: set.Tasks[0].Question}
	front := httptest.NewServer(b)
	defer front.Close()
	p := newProgram(t)
	if err := os.CopyFS(filepath.Join(p.dir, "data"), fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	judged := func(words *string, row string, asked int64) {
		t.Helper()
		b.words.Store(words)
		b.asked.Store(0)
		out := p.want(exit.OK, "run", "--dataset", "dir:data", "--base-url", front.URL+model.Path, "--model", fixtures.Model,
			"--judge-model", fixtures.JudgeModel, "--max-task-cost", "off", "--task", offlineTasks)
		if strings.Count(out, "this run cannot be submitted: it was planned without --submit-intent\n") != 2 {
			t.Errorf("a real run without --submit-intent does not say at its start and in its summary that it cannot be submitted:\n%s", out)
		}
		if !strings.Contains(out, row) {
			t.Errorf("%q is not in\n%s", row, out)
		}
		data, err := os.ReadFile(filepath.Join(p.newest(), rundir.SummaryFile))
		if err != nil {
			t.Fatal(err)
		}
		var s rundir.Summary
		if err := json.Unmarshal(data, &s); err != nil {
			t.Fatal(err)
		}
		if s.Scores == nil || *s.Scores.Judged != s.Scores.Official || s.Scores.Official.Correct != 2 || b.asked.Load() != asked {
			t.Errorf("scores %+v after %d requests about the answer", s.Scores, b.asked.Load())
		}
	}
	const unreadable = "judged 0 of 1 (0 from the cache), unreadable 1, errors 0"
	for i, words := range []string{
		"correct", "The candidate is correct.", `{"verdict":"correct","confidence":1}`, `{"verdict":"correct","verdict":"correct"}`,
		"```json\n{\"verdict\":\"correct\"}\n```", `{"verdict":"correct"} {"verdict":"correct"}`, `{"verdict":"Correct"}`, `{"verdict":true}`,
		`{"verdict":"cor`, strings.Repeat(`{"verdict":`, 2000),
	} {
		if i%long.Step(3) == 0 {
			judged(&words, unreadable, 2)
		}
	}
	judged(nil, "judged 1 of 1 (0 from the cache), unreadable 0, errors 0", 1)
	judged(nil, "judged 1 of 1 (1 from the cache), unreadable 0, errors 0", 0)
}

// TestGullibleJudgeIsSaid: whoever looks at a run whose judge pays for nothing is
// told, while it runs, at its end, by the audit and by the package.
func TestGullibleJudgeIsSaid(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	p := newProgram(t)
	if err := os.CopyFS(filepath.Join(p.dir, "data"), fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	out := p.want(exit.OK, "run", "--submit-intent", "--dataset", "dir:data", "--base-url", serveModel(t), "--model", fixtures.Model,
		"--judge-model", fixtures.GullibleJudgeModel, "--max-task-cost", "off", "--task", offlineTasks)
	dir := p.newest()
	for _, want := range []string{
		"level=WARN msg=\"no verdict of the judge counts: it accepted 2",
		": judged 0 of 1 (0 from the cache), unreadable 0, errors 0, kept from it 1; cost",
		"its verdicts do not count: it accepted 2", "thought-process",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "judged          95 %") || !strings.Contains(out, "official") {
		t.Errorf("a score of the judge is shown:\n%s", out)
	}
	if out := p.want(exit.OK, "audit", dir); !strings.Contains(out, "kept from it 1") || !strings.Contains(out, "its verdicts do not count") {
		t.Errorf("the audit says:\n%s", out)
	}
	if out := p.want(exit.OK, "audit", "--format", "json", dir); !strings.Contains(out, `"withheld":1`) {
		t.Errorf("the report says:\n%s", out)
	}
	p.want(exit.OK, "submit", dir)
	packages, err := filepath.Glob(filepath.Join(p.dir, "submission-*"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("packages: %v, %v", packages, err)
	}
	readme, err := os.ReadFile(filepath.Join(packages[0], "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(readme); !strings.Contains(text, "**No verdict of the judge counts:**") || !strings.Contains(text, "kept from it 1") || strings.Contains(text, "with the LLM judge:") {
		t.Errorf("the package says:\n%s", text)
	}
	p.want(exit.OK, "verify", packages[0])
}

// TestRunWithoutJudge: a run without an LLM judge has no judged value in any of its
// outputs, nor has its package.
func TestRunWithoutJudge(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	p := newProgram(t)
	if err := os.CopyFS(filepath.Join(p.dir, "data"), fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{"run": p.want(exit.OK, "run", "--submit-intent", "--dataset", "dir:data", "--base-url", serveModel(t), "--model", fixtures.Model,
		"--max-task-cost", "off", "--task", offlineTasks)}
	if strings.Contains(out["run"], "cannot be submitted") {
		t.Errorf("a run with --submit-intent says:\n%s", out["run"])
	}
	dir := p.runDir()
	out["run --json"] = p.want(exit.OK, "show", "--json", dir)
	out["show"] = p.want(exit.OK, "show", dir)
	for _, id := range strings.Split(offlineTasks, ",") {
		out["show "+id] = p.want(exit.OK, "show", dir, id)
	}
	for format, name := range map[string]string{"csv": "run.csv", "inspect": "run.eval", "leaderboard": "run.jsonl"} {
		p.want(exit.OK, "export", dir, "--format", format, "-o", name)
	}
	out["submit"] = p.want(exit.OK, "submit", dir, "--allow-dirty")
	found, err := filepath.Glob(filepath.Join(p.dir, "submission-*"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	out["verify"] = p.want(exit.OK, "verify", found[0])
	out["verify --json"] = p.want(exit.OK, "verify", "--json", found[0])
	for _, name := range []string{filepath.Join(dir, "events.jsonl"), filepath.Join(dir, "results.jsonl"), filepath.Join(dir, "summary.json"), filepath.Join(dir, "judgments.jsonl"),
		filepath.Join(p.dir, "run.csv"), filepath.Join(p.dir, "run.jsonl"), filepath.Join(found[0], "leaderboard.jsonl"), filepath.Join(found[0], "scorecard.json"), filepath.Join(found[0], "README.md")} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(data)
	}
	log, err := zip.OpenReader(filepath.Join(p.dir, "run.eval"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for _, f := range log.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out["run.eval: "+f.Name] = string(data)
	}
	nothing := strings.NewReplacer(`"judged":null`, "", `"judged_correct":null`, "", "is material to be judged", "")
	for what, text := range out {
		text = strings.ToLower(nothing.Replace(text))
		for _, word := range []string{"judged", "judge says", "llm judge"} {
			if i := strings.Index(text, word); i >= 0 {
				t.Errorf("%s speaks of a judge: …%s…", what, text[max(0, i-80):min(len(text), i+80)])
			}
		}
	}
	if s := out[filepath.Join(dir, "summary.json")]; !strings.Contains(s, `"judge":null`) || !strings.Contains(s, `"official":{`) {
		t.Errorf("summary.json: %s", s)
	}
	if n := strings.Count(out[filepath.Join(dir, "results.jsonl")], `"judged_correct":null`); n != 3 {
		t.Errorf("results.jsonl has %d null verdicts", n)
	}
	if !strings.Contains(out["run.eval: header.json"], `"official"`) || !strings.HasPrefix(out[filepath.Join(p.dir, "run.csv")], "task_id,level,outcome,attempt,attempts,official_correct,scoring_path,") {
		t.Error("the exports have no official verdict")
	}
}
