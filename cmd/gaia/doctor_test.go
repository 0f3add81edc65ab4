package main

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/doctor"
	"github.com/gaia-harness/gaia/internal/equip"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
	"github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// patient is a home and an environment that doctor looks at.
type patient struct {
	*testing.T
	home string
	env  map[string]string
}

// newPatient has no program but gaia on its PATH: to try them takes its time.
func newPatient(t *testing.T) patient {
	t.Helper()
	gaia, err := exec.LookPath("gaia")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(gaia))
	home := t.TempDir()
	return patient{t, home, map[string]string{"HOME": home, "HF_ENDPOINT": noHub}}
}

// says runs doctor and returns its exit code and all it printed.
func (p patient) says(args ...string) (code int, stdout, stderr string) {
	p.Helper()
	var out, errs bytes.Buffer
	a := &app{began: time.Now(), stdout: &out, stderr: &errs, getenv: func(name string) string { return p.env[name] }}
	code = a.exit(a.executeHere(append([]string{"doctor"}, args...)...))
	return code, out.String(), errs.String()
}

// findings runs doctor and returns what it found, by name. The exit code must be
// that of the states, and what is failed or missing must have a remedy.
func (p patient) findings(args ...string) map[string]doctor.Finding {
	p.Helper()
	code, stdout, stderr := p.says(append(args, "--json")...)
	var c doctor.Report
	if err := json.Unmarshal([]byte(stdout), &c, json.RejectUnknownMembers(true)); err != nil {
		p.Fatalf("exit code %d: %v\n%s%s", code, err, stdout, stderr)
	}
	found := map[string]doctor.Finding{}
	failed := false
	for _, f := range c.Findings {
		found[f.Name] = f
		failed = failed || f.State == doctor.Failed
		if f.State == doctor.Failed || f.State == doctor.Missing {
			p.typeable(f)
		}
	}
	if want := map[bool]int{false: exit.OK, true: exit.Findings}[failed]; code != want || failed != (c.State == doctor.Failed) || len(found) != len(c.Findings) {
		p.Errorf("exit code %d, want %d; %s\n%s", code, want, stdout, stderr)
	}
	return found
}

// typeable wants a remedy whose flags and commands there are.
func (p patient) typeable(f doctor.Finding) {
	p.Helper()
	root, done := sharedCommands()
	defer done()
	commands := []*cobra.Command{root}
	flags := map[string]bool{}
	for len(commands) > 0 {
		c := commands[0]
		commands = append(commands[1:], c.Commands()...)
		c.Flags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
	}
	if len(f.Remedy) < len("set X") {
		p.Errorf("%s is %s and has the remedy %q: %s", f.Name, f.State, f.Remedy, f.Detail)
	}
	for _, m := range regexp.MustCompile("--([a-z][a-z-]*)").FindAllStringSubmatch(f.Remedy, -1) {
		if !flags[m[1]] {
			p.Errorf("the remedy of %s names --%s, which there is not: %s", f.Name, m[1], f.Remedy)
		}
	}
	for _, m := range regexp.MustCompile(`(?:^|[' ])gaia ([a-z]+)`).FindAllStringSubmatch(f.Remedy, -1) {
		if c, _, err := root.Find(m[1:]); err != nil || c == root {
			p.Errorf("the remedy of %s names gaia %s, which there is not: %s", f.Name, m[1], f.Remedy)
		}
	}
}

// wants holds a finding against its state and parts of its detail and remedy.
func (p patient) wants(f doctor.Finding, state, detail, remedy string) {
	p.Helper()
	if f.State != state || !strings.Contains(f.Detail, detail) || !strings.Contains(f.Remedy, remedy) || remedy == "" && state == doctor.OK && f.Remedy != "" {
		p.Errorf("%+v\nwant %s, %q, %q", f, state, detail, remedy)
	}
}

// onDisk writes a dataset of one task and a price table, and returns the flags that
// name them and the model of package endpoint.
func (p patient) onDisk() []string {
	p.Helper()
	data, prices := filepath.Join(p.TempDir(), "data"), filepath.Join(p.TempDir(), "prices.json")
	if err := (endpoint.Tasks{Count: 1}).Write(data); err != nil {
		p.Fatal(err)
	}
	p.write(prices, string(endpoint.Prices()), 0o644)
	return []string{"--dataset", "dir:" + data, "--prices", prices, "--model", endpoint.Model}
}

func (p patient) write(path, content string, mode fs.FileMode) {
	p.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(content), mode)
	}
	if err == nil {
		err = os.Chmod(path, mode)
	}
	if err != nil {
		p.Fatal(err)
	}
}

// untouched wants nothing to have been made in the home but what is named.
func (p patient) untouched(but ...string) {
	p.Helper()
	err := filepath.WalkDir(p.home, func(path string, d fs.DirEntry, err error) error {
		if name, _ := filepath.Rel(p.home, path); err == nil && !d.IsDir() && !slices.Contains(but, name) {
			p.Errorf("doctor made %s", name)
		}
		return err
	})
	entries, rerr := os.ReadDir(p.home)
	if err != nil || rerr != nil || len(but) == 0 && len(entries) > 0 {
		p.Errorf("the home holds %v: %v, %v", entries, err, rerr)
	}
}

// TestDoctorRehearsal: in an empty home all is looked at, nothing is asked and
// nothing is made.
func TestDoctorRehearsal(t *testing.T) {
	p := newPatient(t)
	found := p.findings()
	for _, name := range []string{"settings", "model key", "prices", "model", "judge", "transcription", "vision", "search", "dataset"} {
		p.wants(found[name], doctor.OK, "rehearsal: ", "")
	}
	for _, name := range []string{"signing key", "judge cache"} {
		p.wants(found[name], doctor.OK, "none yet: ", "")
	}
	p.wants(found["trusted keys"], doctor.OK, "0 trusted now; ", "")
	p.untouched()
}

// TestDoctorMissing: what is not there is optional, also where something else goes
// without it.
func TestDoctorMissing(t *testing.T) {
	programs := doctor.Programs{NoSandbox: &sandbox.Unusable{Why: "bubblewrap is not installed", Remedy: "install it"}, Python: equip.OnPath("python3")}
	if f := programs.CheckPython(t.Context()); f.State != doctor.Missing {
		t.Errorf("python without a sandbox: %+v", f)
	}
	wanted := newPatient(t)
	wanted.wants(wanted.findings("--unsafe-local-python")["python"], doctor.Failed, "--unsafe-local-python: ", "")
	t.Setenv("PATH", t.TempDir())
	code, stdout, stderr := command(t, "doctor", "--json")
	if code != exit.OK || stderr != "" || !strings.HasSuffix(stdout, `"rehearsal":true,"state":"missing"}`+"\n") || strings.Contains(stdout, doctor.Failed) {
		t.Errorf("with nothing on PATH: exit code %d\n%s%s", code, stdout, stderr)
	}
}

// TestDoctorRemedies: whatever doctor looks at has something that repairs it where it
// is missing or failed, however it came to that. [patient.findings] wants that each
// time; here each row is so at least once.
func TestDoctorRemedies(t *testing.T) {
	p := newPatient(t)
	file := filepath.Join(t.TempDir(), "file")
	p.write(file, "x", 0o600)
	settings := filepath.Join(t.TempDir(), "gaia.yaml")
	p.write(settings, "mcp:\n- name: notes\n  command: [no-such-program-of-notes]\n", 0o600)
	disk := p.onDisk()
	elsewhere := func(args ...string) []string {
		return slices.Concat(disk, []string{"--base-url", "https://models.example/v1"}, args)
	}
	here := func(args ...string) []string {
		return slices.Concat(disk, []string{"--base-url", "http://127.0.0.1:9/v1"}, args)
	}
	broken := filepath.Join(t.TempDir(), "bin")
	for _, name := range []string{"bwrap", "python3", "pdftotext", "pdftoppm"} {
		p.write(filepath.Join(broken, name), "#!/bin/sh\nexit 1\n", 0o755)
	}
	seen := map[string]bool{}
	for _, look := range []struct {
		env  map[string]string
		args []string
	}{
		{nil, nil},
		{map[string]string{"HOME": ""}, []string{"--submit-intent"}},
		{map[string]string{"HOME": file}, []string{"--submit-intent"}},
		{map[string]string{"GAIA_SIGNING_KEY": "no key"}, []string{"--out", filepath.Join(file, "runs"), "--unsafe-local-python"}},
		{map[string]string{"GAIA_SIGNING_KEY_FILE": file}, []string{"--settings", settings}},
		{map[string]string{"OPENAI_API_KEY": "sk-inventedInvented0123456789"}, nil},
		{map[string]string{"OPENAI_BASE_URL": "nowhere"}, []string{"--model", "m"}},
		{nil, elsewhere("--model", "m", "--search", "tavily")},
		{nil, here("--judge-model", "m", "--searxng-url", "nowhere")},
		{nil, here("--no-call", "--prices", file)},
		{nil, here("--no-call", "--prices", filepath.Join(file, "none"))},
		{nil, here("--no-call", "--policy", file)},
		{nil, here("--no-call", "--policy", broken)},
		{nil, here("--no-call", "--cassette", "replay:"+file)},
		{nil, here("--no-call", "--dataset", "dir:"+filepath.Join(file, "none"))},
		{nil, here("--no-call", "--dataset", "dir:"+broken)},
		{nil, here("--no-call", "--dataset", "hub", "--wait", "100ms")}, // it would be tried again for a while
		{map[string]string{"HF_HUB_OFFLINE": "1"}, here("--no-call", "--dataset", "hub")},
		{nil, here("--no-call", "--split", "training")},
		{map[string]string{"PATH": broken, "TMPDIR": filepath.Join(file, "none")}, nil},
		{map[string]string{"PATH": broken}, []string{"--unsafe-local-python"}},
		{map[string]string{"PATH": broken, "TMPDIR": filepath.Join(broken, "none")}, nil},
	} {
		q := patient{t, p.home, maps.Clone(p.env)}
		maps.Copy(q.env, look.env)
		for _, name := range []string{"PATH", "TMPDIR"} { // which the programs are looked for and tried by
			if value, given := look.env[name]; given {
				t.Setenv(name, value)
			}
		}
		for name, f := range q.findings(look.args...) {
			seen[name] = seen[name] || f.State == doctor.Failed || f.State == doctor.Missing
		}
	}
	for name, found := range seen {
		if !found {
			t.Errorf("%s was neither missing nor failed", name)
		}
	}
	p.untouched()
}

// TestDoctorPrints: all that is wrong with a run with a model is said at once, in
// the words of run, and no one is asked.
func TestDoctorPrints(t *testing.T) {
	p := newProgram(t) // without PATH
	first := p.want(exit.OK, "doctor")
	if !strings.Contains(first, " sandbox        missing  bubblewrap is not installed ") || strings.Contains(first, "gaia: ") {
		t.Errorf("in an empty home doctor says:\n%s", first)
	}
	if err := os.CopyFS(filepath.Join(p.dir, "data"), fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	args := []string{"--dataset", "dir:data", "--model", "berth-model", "--base-url", "https://models.example/v1", "--submit-intent"}
	said := p.want(exit.Findings, append([]string{"doctor"}, args...)...)
	for _, line := range []string{
		" settings       ok       berth-model at https://models.example, tasks of dir:data ",
		" model key      failed   there is no key for models.example ",
		` prices         failed   the price of model "berth-model" is not known, so its cost `,
		" model          unknown  not asked: see model key ",
		" judge          missing  none: the official verdict alone ",
		" dataset        ok       dir:data, split validation: 40 of 40 tasks; split test: 6 ",
		"model key: set OPENAI_API_KEY\n",
		"prices: give its price with --prices FILE, or --max-task-cost off to run without a cost budget\n",
		"gaia: error: checks failed: model key, prices\n",
	} {
		if !strings.Contains(said, line) {
			t.Errorf("doctor does not say %q:\n%s", line, said)
		}
	}
	for _, line := range strings.Split(first+said, "\n") {
		if n := len([]rune(line)); n > 120 && !strings.Contains(line, ": ") {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	refused := p.want(exit.Usage, append([]string{"run"}, args...)...)
	if !strings.Contains(refused, "gaia: error: the price of model") || !strings.Contains(refused, "gaia: hint: give its price with --prices FILE, or --max-task-cost off to run without a cost budget\n") {
		t.Errorf("run says:\n%s", refused)
	}
	if entries, err := os.ReadDir(p.dir); err != nil || len(entries) != 1 {
		t.Errorf("the home holds %v, %v", entries, err)
	}
}

// TestDoctorEnds: an interrupt ends doctor while it waits.
func TestDoctorEnds(t *testing.T) {
	s, err := endpoint.Serve(endpoint.Config{Tasks: endpoint.Tasks{Count: 1}, Faults: []endpoint.Kind{endpoint.Silent}, First: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cmd := newProgram(t).command(append([]string{"doctor", "--wait", "10m", "--base-url", s.URL}, newPatient(t).onDisk()...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for s.Counts().Requests == 0 && t.Context().Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	var ended *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &ended) || ended.ExitCode() != exit.Interrupted || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("%v\n%s", err, stderr.String())
	}
}

// TestDoctorIsDocumented: docs/doctor.md names every row, every state, every member
// of the JSON and the flags that run does not have.
func TestDoctorIsDocumented(t *testing.T) {
	doc := readFile(t, "docs/doctor.md")
	for name := range newPatient(t).findings() {
		if !regexp.MustCompile("(?m)^\\| (`[a-z ]+`, )*`" + name + "`[,|` a-z]* \\| ").MatchString(doc) {
			t.Errorf("docs/doctor.md has no row of %s", name)
		}
	}
	documented(t, "docs/doctor.md", doc, reflect.TypeFor[doctor.Report]())
	for _, word := range []string{doctor.OK, doctor.Missing, doctor.Unknown, doctor.Failed, "--no-call", "--wait"} {
		if !strings.Contains(doc, "`"+word+"`") {
			t.Errorf("docs/doctor.md does not name %s", word)
		}
	}
	flags := (&app{}).doctorCommand().Flags()
	for _, m := range regexp.MustCompile("--([a-z][a-z-]*)").FindAllStringSubmatch(doc, -1) {
		if flags.Lookup(m[1]) == nil && m[1] != "dry-run" && m[1] != "like" {
			t.Errorf("docs/doctor.md names --%s, which doctor does not have", m[1])
		}
	}
}
