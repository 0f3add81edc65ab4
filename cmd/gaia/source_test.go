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
	"github.com/gaia-harness/gaia/loader"
)

// TestHubEnvironment: the token, the cache and the switches are found where the hub's own tools look for them.
func TestHubEnvironment(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	at := func(elem ...string) string { return filepath.Join(append([]string{dir}, elem...)...) }
	for name, content := range map[string]string{
		"home/.cache/huggingface/token": " hf_home\n", "hf/token": "hf_hf\n", "xdg/huggingface/token": "hf_xdg", "home/mine": "hf_mine\n", "empty": " \n", "folder/x": "",
	} {
		if err := os.MkdirAll(filepath.Dir(at(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	type env map[string]string
	home := at("home")
	cases := []struct {
		name         string
		env          env
		token, from  string
		cache, fails string
	}{
		{"nothing", env{}, "", "HF_TOKEN is not set, and there is no home to look in", "", ""},
		{"home", env{"HOME": home}, "hf_home", at("home/.cache/huggingface/token"), at("home/.cache/huggingface/hub"), ""},
		{"HF_TOKEN", env{"HOME": home, "HF_TOKEN": " hf_a\n", "HUGGING_FACE_HUB_TOKEN": "hf_b"}, "hf_a", "HF_TOKEN", at("home/.cache/huggingface/hub"), ""},
		{"HUGGING_FACE_HUB_TOKEN", env{"HOME": home, "HF_TOKEN": " ", "HUGGING_FACE_HUB_TOKEN": "hf_b"}, "hf_b", "HUGGING_FACE_HUB_TOKEN", at("home/.cache/huggingface/hub"), ""},
		{"HF_TOKEN_PATH", env{"HOME": home, "HF_TOKEN_PATH": at("hf/token"), "HF_HOME": at("xdg/huggingface")}, "hf_hf", at("hf/token"), at("xdg/huggingface/hub"), ""},
		{"HF_TOKEN_PATH below home", env{"HOME": home, "HF_TOKEN_PATH": "~/mine"}, "hf_mine", at("home/mine"), at("home/.cache/huggingface/hub"), ""},
		{"HF_HOME", env{"HOME": home, "HF_HOME": at("hf"), "XDG_CACHE_HOME": at("xdg")}, "hf_hf", at("hf/token"), at("hf/hub"), ""},
		{"HF_HOME below the working directory", env{"HOME": home, "HF_HOME": "hf"}, "hf_hf", at("hf/token"), at("hf/hub"), ""},
		{"HF_HOME below home", env{"HOME": at("hf"), "HF_HOME": "~"}, "hf_hf", at("hf/token"), at("hf/hub"), ""},
		{"a name that begins with ~", env{"HOME": home, "HF_HOME": "~hf"}, "", "neither in HF_TOKEN nor in '" + at("~hf/token") + "'", at("~hf/hub"), ""},
		{"XDG_CACHE_HOME", env{"HOME": home, "XDG_CACHE_HOME": at("xdg")}, "hf_xdg", at("xdg/huggingface/token"), at("xdg/huggingface/hub"), ""},
		{"HF_HUB_CACHE", env{"HOME": home, "HF_HUB_CACHE": "~/c", "HUGGINGFACE_HUB_CACHE": at("d")}, "hf_home", at("home/.cache/huggingface/token"), at("home/c"), ""},
		{"HUGGINGFACE_HUB_CACHE", env{"HOME": home, "HUGGINGFACE_HUB_CACHE": "d", "HF_HOME": at("hf")}, "hf_hf", at("hf/token"), at("d"), ""},
		{"a cache without a home", env{"HF_HUB_CACHE": at("c"), "HF_TOKEN": "hf_a"}, "hf_a", "HF_TOKEN", at("c"), ""},
		{"no token is wanted", env{"HOME": home, "HF_TOKEN": "hf_a", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}, "", "HF_HUB_DISABLE_IMPLICIT_TOKEN is set", at("home/.cache/huggingface/hub"), ""},
		{"a token is wanted", env{"HOME": home, "HF_TOKEN": "hf_a", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "0"}, "hf_a", "HF_TOKEN", at("home/.cache/huggingface/hub"), ""},
		{"an empty file", env{"HOME": home, "HF_TOKEN_PATH": at("empty")}, "", at("empty") + " is empty", at("home/.cache/huggingface/hub"), ""},
		{"a file that is none", env{"HOME": home, "HF_TOKEN_PATH": at("folder")}, "", "", at("home/.cache/huggingface/hub"), `reading the hub's token in "` + at("folder") + `": `},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a := &app{getenv: func(name string) string { return c.env[name] }}
			token, from, err := a.hubToken()
			if token != c.token || from != c.from || (err != nil) != (c.fails != "") || err != nil && !strings.HasPrefix(err.Error(), c.fails) {
				t.Errorf("token %q from %q, %v, want %q from %q, %q", token, from, err, c.token, c.from, c.fails)
			}
			if cache := a.hubCache(); cache != c.cache {
				t.Errorf("cache %q, want %q", cache, c.cache)
			}
		})
	}
	for value, want := range map[string]bool{"": false, "0": false, "no": false, "off": false, "2": false, "1": true, "on": true, "Yes": true, "TRUE": true} {
		a := &app{getenv: func(name string) string { return map[string]string{"HF_HUB_OFFLINE": value}[name] }}
		if got := a.isSet("HF_HUB_OFFLINE"); got != want || a.isSet("TRANSFORMERS_OFFLINE") {
			t.Errorf("%q is %v, want %v", value, got, want)
		}
	}
	for value, want := range map[string]string{"": "https://huggingface.co", "https://hub.example/x": "https://hub.example/x"} {
		a := &app{getenv: func(name string) string { return map[string]string{"HF_ENDPOINT": value}[name] }}
		if got := a.hubEndpoint(); got != want {
			t.Errorf("the hub is %q, want %q", got, want)
		}
	}
}

// TestHubOffline: either switch keeps everything from the hub.
func TestHubOffline(t *testing.T) {
	server, _ := serveHub(t)
	for _, name := range []string{"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"} {
		env := map[string]string{"HF_ENDPOINT": server.URL, "HF_HUB_CACHE": t.TempDir(), "HF_TOKEN": hubToken, name: "1"}
		var out, errs bytes.Buffer
		a := &app{stdout: &out, stderr: &errs, getenv: func(name string) string { return env[name] }, began: time.Now()}
		err := a.execute([]string{"tasks", "list", "--source", "hub"})
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
		s := runSettings{taskFlags: taskFlags{source: c.source}}
		err := a.plannedSource(&s, c.dataset)
		var wrong *failure
		switch {
		case err == nil && (s.source != c.want || c.dataset.Hub != "" && s.revision != hubCommit):
			t.Errorf("%q for %s: %q at %q, want %q", c.source, c.dataset.Name, s.source, s.revision, c.want)
		case err != nil && (!errors.As(err, &wrong) || wrong.Code != exit.Usage || len(wrong.Hints) == 0 || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%q for %s: %v, want %q", c.source, c.dataset.Name, err, c.want)
		}
	}
}

// TestOtherCounts: a directory that may be taken for GAIA and has other counts says so wherever its score is read.
func TestOtherCounts(t *testing.T) {
	const counts = "split validation has 40 tasks (14/17/9 by level), where GAIA has 165 (53/86/26)"
	p := newProgram(t)
	if err := os.CopyFS(filepath.Join(p.dir, "data"), fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	out := p.want(exit.OK, "run", "--submit-intent", "--source", "dir:data", "--base-url", serveModel(t), "--model", fixtures.Model, "--task", offlineTasks)
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
