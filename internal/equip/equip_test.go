package equip

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/gaia-harness/gaia/tools/web"
)

// TestConfigure: a rehearsal gets its tasks, models, tools and prices, and its server ends with it.
func TestConfigure(t *testing.T) {
	closed := false
	u := &User{Getenv: func(string) string { return "" }, Stderr: io.Discard, Began: time.Now(), Builtin: Builtin{Dataset: fixtures.Dataset, Prices: fixtures.Prices,
		Name: fixtures.Name, Revision: fixtures.Revision, Model: fixtures.Model, JudgeModel: fixtures.JudgeModel, SearchURL: fixtures.SearchURL, ArchiveURL: fixtures.ArchiveURL,
		Serve: func() (Served, error) {
			s, err := fixtures.Serve()
			return Served{s.ModelURL, s.Hosts, s.Roots, func() error { closed = true; return s.Close() }}, err
		}}}
	s := &runflags.Settings{Tasks: runflags.Tasks{Source: runflags.SourceFixtures, Split: "validation"}, Python: runflags.PythonNo, Vision: runflags.NoVision, Concurrency: "1", Dry: true}
	s.Plan = plan.New()
	s.Plan.Rehearsal, s.Plan.Model.Name, s.Plan.Judge = true, fixtures.Model, &plan.JudgePlan{Model: fixtures.JudgeModel}
	w, err := u.Configure(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range w.Tools {
		names = append(names, tool.Spec().Name)
	}
	slices.Sort(names)
	if len(w.Set.Tasks) == 0 || w.Model == nil || w.Judge.URL != "" || !w.Prices.Lookup(fixtures.Model) || s.Plan.Model.Origin != runflags.RehearsalHost+fixtures.Model ||
		!slices.Equal(names, []string{"calculate", "list_files", "read_file", "web_fetch", "web_search"}) {
		t.Errorf("%d tasks, origin %q, judge %+v, tools %q", len(w.Set.Tasks), s.Plan.Model.Origin, w.Judge, names)
	}
	if err := w.Close(); err != nil || !closed {
		t.Errorf("%v, closed: %v", err, closed)
	}
}

// TestPython: a new run goes on without python where it does not work, and one that was planned with it does not.
func TestPython(t *testing.T) {
	for _, c := range []struct {
		python        string
		resumed       bool
		fails, stderr string
	}{
		{runflags.PythonNo, true, "", ""},
		{runflags.PythonIfWorks, false, "", "gaia: python is not offered: bubblewrap is not installed ('gaia doctor' says more)\n"},
		{runflags.PythonConfined, true, "the run was planned with python in the sandbox, which does not work here: bubblewrap is not installed", ""},
		{runflags.PythonUnconfined, false, "--unsafe-local-python: bubblewrap is not installed", ""},
	} {
		var stderr bytes.Buffer
		w := &World{Programs: Programs{NoPython: &sandbox.Unusable{Why: "bubblewrap is not installed", Remedy: "install it"}}}
		err := (&User{Stderr: &stderr}).addPython(&runflags.Settings{Python: c.python, Resumed: c.resumed}, w)
		if (err == nil) != (c.fails == "") || err != nil && err.Error() != c.fails || stderr.String() != c.stderr || len(w.Tools) > 0 {
			t.Errorf("%q: %v, %q", c.python, err, stderr.String())
		}
	}
}

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
		u := &User{Stderr: &said, Getenv: func(name string) string { return test.env[name] }}
		s := runflags.Settings{Search: test.search, SearXNG: test.searxng}
		if err := u.SettleSearch(&s); err != nil || s.Engine != test.want || !strings.Contains(said.String(), test.says) || (said.Len() > 0) != (test.says != "") {
			t.Errorf("%s: %+v, %v, says %q", test.name, s.Engine, err, said.String())
		}
		if (s.SearXNG != "") != (s.Engine.Name == web.SearXNG) {
			t.Errorf("%s: the address left is %q", test.name, s.SearXNG)
		}
	}
}

// What holds answers, keys and runs is hidden, and so is this program.
func TestHidden(t *testing.T) {
	variables := map[string]string{"HOME": "/home/x", "HF_HOME": "/data/hf", "XDG_CONFIG_HOME": "/conf", "GAIA_SIGNING_KEY_FILE": "/keys/mine"}
	u := &User{Getenv: func(name string) string { return variables[name] }}
	s := &runflags.Settings{}
	s.Source, s.Runs, s.Key, s.Cassette = "dir:/data/copy", "/runs", "/keys/other", "record:/tape"
	got, err := u.hidden(s)
	if err != nil {
		t.Fatal(err)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{executable, "runs", "/runs", "/data/copy", "/keys/other", "/keys/mine", "/tape", filepath.Join("/data/hf", "hub"), "/conf/gaia", "/home/x/.cache/gaia", "/home/x/.local/share/gaia"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not hidden: %q", want, got)
		}
	}
}
