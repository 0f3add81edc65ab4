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

func TestSettleSearch(t *testing.T) {
	const here, there = "http://search.example/here", "http://search.example/there"
	all := map[string]string{"TAVILY_API_KEY": "t", "BRAVE_API_KEY": "b", "BRAVE_SEARCH_API_KEY": "b2", "SERPER_API_KEY": "s", "SEARXNG_URL": there}
	without := func(names ...string) map[string]string {
		env := map[string]string{}
		for name, value := range all {
			if !strings.Contains(strings.Join(names, " "), name) {
				env[name] = value
			}
		}
		return env
	}
	tests := []struct {
		name, search, searxng string
		env                   map[string]string
		want                  web.Engine
		says                  string
	}{
		{"nothing", "", "", nil, web.Engine{}, ""},
		{"all keys", "", "", all, web.Engine{Name: "tavily", Key: "t"}, "gaia: web_search asks tavily, though brave and serper and searxng could be asked, too; --search chooses\n"},
		{"three keys", "", "", without("TAVILY_API_KEY"), web.Engine{Name: "brave", Key: "b"}, "though serper and searxng"},
		{"the other name", "", "", map[string]string{"BRAVE_SEARCH_API_KEY": " b2\n"}, web.Engine{Name: "brave", Key: "b2"}, ""},
		{"an empty key", "", "", map[string]string{"TAVILY_API_KEY": " ", "SERPER_API_KEY": "s"}, web.Engine{Name: "serper", Key: "s"}, ""},
		{"an instance", "", "", map[string]string{"SEARXNG_URL": there}, web.Engine{Name: "searxng", URL: there}, ""},
		{"a flag before keys", "", here, all, web.Engine{Name: "searxng", URL: here}, "asks searxng, though tavily and brave and serper could be"},
		{"named", "serper", "", all, web.Engine{Name: "serper", Key: "s"}, ""},
		{"named with an instance given", "brave", here, all, web.Engine{Name: "brave", Key: "b"}, ""},
		{"named instance", "searxng", "", all, web.Engine{Name: "searxng", URL: there}, ""},
		{"none", "none", here, all, web.Engine{}, ""},
	}
	for _, test := range tests {
		var said bytes.Buffer
		a := &app{stderr: &said, getenv: func(name string) string { return test.env[name] }}
		s := runflags.Settings{Search: test.search, SearXNG: test.searxng}
		if err := a.settleSearch(&s); err != nil || s.Engine != test.want || !strings.Contains(said.String(), test.says) || (said.Len() > 0) != (test.says != "") {
			t.Errorf("%s: %+v, %v, says %q", test.name, s.Engine, err, said.String())
		}
		if (s.SearXNG != "") != (s.Engine.Name == web.SearXNG) {
			t.Errorf("%s: the address left is %q", test.name, s.SearXNG)
		}
	}
}

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
