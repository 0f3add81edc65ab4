package main

import (
	"bytes"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/tools/web"
)

// A run that goes on asks the engine of its plan, whatever other keys there are.
func TestPlannedSearch(t *testing.T) {
	env := map[string]string{"TAVILY_API_KEY": "t", "SERPER_API_KEY": "s"}
	a := &app{stderr: &bytes.Buffer{}, getenv: func(name string) string { return env[name] }}
	for _, test := range []struct {
		planned *plan.SearchPlan
		want    web.Engine
		err     string
	}{
		{nil, web.Engine{}, ""},
		{&plan.SearchPlan{Engine: "serper"}, web.Engine{Name: "serper", Key: "s"}, ""},
		{&plan.SearchPlan{Engine: "brave"}, web.Engine{}, "there is no key to search with brave"},
		{&plan.SearchPlan{Engine: "searxng"}, web.Engine{}, "there is no address to search with searxng"},
		{&plan.SearchPlan{Engine: "lycos"}, web.Engine{}, `--search is "lycos"`},
	} {
		s := runflags.Settings{Tasks: runflags.Tasks{Source: "dir:data"}}
		s.Concurrency, s.OnLost = runflags.AutoConcurrency, runflags.GoOn
		err := a.goOn(&s, plan.Plan{Policy: policy.Policy{Mode: policy.Autonomous}, Search: test.planned, Tasks: []plan.PlannedTask{{TaskID: "fab1e001"}}})
		if test.err != "" {
			if err == nil || err.Error() != test.err {
				t.Errorf("%+v: %v", test.planned, err)
			}
			continue
		}
		if err != nil || s.Engine != test.want {
			t.Errorf("%+v: %+v, %v", test.planned, s.Engine, err)
		}
	}
}

// TestSearchIsPlanned: a run says which engine it asks, --like asks the same
// one, and the key of another stands nowhere.
func TestSearchIsPlanned(t *testing.T) {
	t.Parallel()
	engine := httptest.NewServer(http.NotFoundHandler())
	defer engine.Close()
	p, model := newProgram(t), serveModel(t)
	p.env = append(p.env, "TAVILY_API_KEY=fab1e-invented-key", "SEARXNG_URL="+engine.URL+"/search")
	if err := os.CopyFS(filepath.Join(p.dir, "data"), fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	for i, args := range [][]string{{"--model", fixtures.Model, "--max-task-cost", "off", "--task", "fab1e001-0000-4000-8000-000000000001", "--search", "searxng"}, {"--like"}} {
		if i == 1 {
			args = append(args, p.newest())
		}
		out := p.want(exit.OK, append([]string{"run", "--dataset", "dir:data", "--base-url", model}, args...)...)
		if !strings.Contains(out, "\ngaia: tools: calculate, list_files, ") || !strings.Contains(out, ", web_search; not offered: describe_image (--vision-model), ") || !strings.Contains(out, "transcribe_audio (--transcription-model)\n") {
			t.Errorf("%v: it is not said which tools there are:\n%s", args, out)
		}
		if signed := p.Plan(p.newest()); signed.Search == nil || *signed.Search != (plan.SearchPlan{Engine: "searxng", Origin: engine.URL}) {
			t.Errorf("%v: the plan has %+v", args, signed.Search)
		}
	}
	err := filepath.WalkDir(filepath.Join(p.dir, "runs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "fab1e-invented-key") {
			t.Errorf("the key stands in %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
