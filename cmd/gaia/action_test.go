package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/goccy/go-yaml"
)

// actionDir has the composite action.
const actionDir = ".github/actions/gaia-audit"

// step is a step of a workflow or of a composite action.
type step struct {
	ID, Name, Uses, Run, If, Shell string
	With, Env                      map[string]any
}

// action is what of a composite action's file can be tried here.
type action struct {
	Inputs  map[string]struct{ Default string }
	Outputs map[string]struct{ Value string }
	Runs    struct{ Steps []step }
}

func readYAML[T any](t *testing.T, name string) (v T) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(readFile(t, name)), &v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

// acted is what a run of the action left.
type acted struct {
	code      int
	outputs   map[string]string
	summary   string
	log       string   // without the text in which GitHub looks for no command
	commands  []string // that GitHub carries out, the stopping of them left out
	workspace []string // files in the workspace afterwards
}

var inputExpression = regexp.MustCompile(`\$\{\{ inputs\.([a-z-]+) \}\}`)

// act runs the script of the action with inputs as GitHub's runner does: in a workspace, with what is written for the
// runner in files.
func (p program) act(inputs map[string]string) acted {
	p.t.Helper()
	a := readYAML[action](p.t, actionDir+"/action.yml")
	gaia, err := exec.LookPath("gaia")
	if err != nil {
		p.t.Fatal(err)
	}
	values := map[string]string{"gaia": gaia}
	for name, in := range a.Inputs {
		if _, ok := values[name]; !ok {
			values[name] = in.Default
		}
	}
	for name, value := range inputs {
		if _, ok := a.Inputs[name]; !ok {
			p.t.Fatalf("the action has no input %q", name)
		}
		values[name] = value
	}
	last := a.Runs.Steps[len(a.Runs.Steps)-1]
	temp := p.t.TempDir()
	file := func(name string) string {
		path := filepath.Join(temp, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			p.t.Fatal(err)
		}
		return path
	}
	output, summary, environment := file("output"), file("summary"), file("environment")
	cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", last.Run)
	cmd.Dir = p.dir
	cmd.Env = append([]string{"HOME=" + p.dir, "PATH=" + os.Getenv("PATH"), "RUNNER_TEMP=" + temp, "GITHUB_OUTPUT=" + output, "GITHUB_STEP_SUMMARY=" + summary,
		"GITHUB_ENV=" + environment, "GITHUB_ACTION_PATH=" + filepath.Join(root(p.t), actionDir), "GOPROXY=off", "GOFLAGS=-modcacherw"}, p.env...)
	for name, value := range last.Env {
		m := inputExpression.FindStringSubmatch(value.(string))
		if m == nil || m[0] != value {
			p.t.Fatalf("%s is %q, which is no input", name, value)
		}
		cmd.Env = append(cmd.Env, name+"="+values[m[1]])
	}
	out, err := cmd.CombinedOutput()
	if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) {
		p.t.Fatal(err)
	}
	done := acted{code: cmd.ProcessState.ExitCode(), outputs: map[string]string{}, summary: readAll(p.t, summary)}
	if set := readAll(p.t, environment); set != "" {
		p.t.Errorf("the action sets variables: %q", set)
	}
	for line := range strings.Lines(readAll(p.t, output)) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !ok || a.Outputs[name].Value != "${{ steps."+last.ID+".outputs."+name+" }}" {
			p.t.Errorf("%q is no output of the action", line)
		}
		done.outputs[name] = value
	}
	stopped := ""
	for line := range strings.Lines(strings.ReplaceAll(string(out), "\r", "\n")) { // the runner takes both for ends of lines
		switch text := strings.TrimSpace(line); { // GitHub takes a command behind blanks, too
		case stopped != "":
			if text == "::"+stopped+"::" {
				stopped = ""
			}
		case strings.HasPrefix(text, "::stop-commands::"):
			stopped = strings.TrimPrefix(text, "::stop-commands::")
		case strings.HasPrefix(text, "::"):
			done.commands = append(done.commands, text)
			fallthrough
		default:
			done.log += line
			if strings.Contains(line, "##[") { // the older form of a command, anywhere in a line
				done.commands = append(done.commands, text)
			}
		}
	}
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range entries {
		done.workspace = append(done.workspace, e.Name())
	}
	return done
}

func readAll(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func needBashAndJQ(t *testing.T) {
	t.Helper()
	long.NotRaced(t)
	for _, name := range []string{"bash", "jq"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
}

// TestAction runs the action on a run, a package of it, and what should fail.
func TestAction(t *testing.T) {
	t.Parallel()
	needBashAndJQ(t)
	p := newProgram(t)
	p.want(exit.OK, "run", "--submit-intent", "--limit", "6")
	run := p.runDir()
	p.want(exit.OK, "submit", "--out", "package", run)
	p.want(exit.OK, "submit", "--out", "package", "--public", run)
	packages, err := filepath.Glob(filepath.Join(p.dir, "package", "*"))
	if err != nil || len(packages) != 2 {
		t.Fatalf("packages %q, %v", packages, err)
	}
	p.want(exit.OK, "audit", "--json", run)
	changed := filepath.Join(p.dir, "changed")
	if err := os.CopyFS(changed, os.DirFS(run)); err != nil {
		t.Fatal(err)
	}
	journal := []byte(readAll(t, filepath.Join(changed, "events.jsonl")))
	journal[len(journal)/2] ^= 1
	if err := os.WriteFile(filepath.Join(changed, "events.jsonl"), journal, 0o600); err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(p.dir, "report.json") // of a clean audit, in the place of the run
	if err := os.WriteFile(report, []byte(p.want(exit.OK, "audit", "--json", run)), 0o600); err != nil {
		t.Fatal(err)
	}
	leak, key := foreignRun(t, "AUD-01/fires-uuid-json.txt")
	line := strings.TrimSpace(readAll(t, key))
	moved := filepath.Join(p.dir, "moved") // reads another run each time but the first, as if the run had been replaced
	if err := os.WriteFile(moved, []byte("#!/bin/sh\n[ $1 = verify ] || cd elsewhere\nexec gaia \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(p.dir, "elsewhere"), 0o700); err != nil {
		t.Fatal(err)
	}
	program{t, filepath.Join(p.dir, "elsewhere"), p.env}.want(exit.OK, "run", "--submit-intent", "--limit", "6")
	noGold := "5 gaps: AUD-1, AUD-3, AUD-5, AUD-12, AUD-19 could not see"
	for i, tt := range []struct {
		name               string
		inputs             map[string]string
		code               int
		clean, gaps, score string
		says               string // the last annotation
	}{
		{"a clean run", map[string]string{"path": "latest"}, exit.OK, "true", "0", "0.666667", "::notice title=gaia audit::run 0"},
		{"a package without", map[string]string{"path": packages[0]}, exit.Findings, "false", "5", "0.666667", noGold},
		{"a key as a line", map[string]string{"path": leak, "trusted-key": line}, exit.Findings, "false", "0", "0", "open findings of AUD-1%0Ahint: "},
		{"a changed journal", map[string]string{"path": changed}, exit.Evidence, "false", "", "", "the evidence does not verify. Get the files again"},
		{"a report, not a run", map[string]string{"path": report}, exit.Evidence, "false", "", "", "the evidence does not verify"},
		{"a run that changes", map[string]string{"path": "latest", "gaia": moved}, exit.Evidence, "false", "", "", "is not the one that was audited"},
		{"a package with gold", map[string]string{"path": packages[0], "dataset": "fixtures"}, exit.OK, "true", "0", "0.666667", "::notice title=gaia audit::run 0"},
		{"its gaps accepted", map[string]string{"path": packages[0], "fail-on": "findings"}, exit.Findings, "false", "5", "0.666667", "AUD-1, AUD-3, AUD-5, AUD-12 could not see"},
		{"only evidence asked", map[string]string{"path": packages[0], "fail-on": "evidence"}, exit.OK, "false", "5", "0.666667", "not clean (could not see: "},
		{"a public package", map[string]string{"path": packages[1]}, exit.Usage, "false", "", "", "a public package"},
		{"an unknown signer", map[string]string{"path": leak}, exit.Untrusted, "false", "0", "0", "set the input trusted-key"},
		{"a finding", map[string]string{"path": leak, "trusted-key": key}, exit.Findings, "false", "0", "0", "open findings of AUD-1%0Ahint: "},
		{"what is no run", map[string]string{"path": p.dir}, exit.Usage, "false", "", "", "hint: "},
		{"no path", map[string]string{"path": ""}, exit.Usage, "false", "", "", "the input path is empty"},
		{"another limit", map[string]string{"path": run, "fail-on": "all"}, exit.Usage, "false", "", "", "give evidence, findings, gaps or review"},
		{"no such version", map[string]string{"path": run, "gaia": "", "version": "v0.0.1"}, exit.Failure, "false", "", "", "gaia cannot be installed at version v0.0.1"},
	} {
		if i >= 5 && !long.Thorough() {
			break // one of each kind is quick
		}
		done := p.act(tt.inputs)
		if done.code != tt.code || done.outputs["clean"] != tt.clean || done.outputs["gaps"] != tt.gaps || done.outputs["score"] != tt.score {
			t.Errorf("%s: exit code %d, outputs %q\n%s", tt.name, done.code, done.outputs, done.log)
		}
		if len(done.commands) == 0 || !strings.Contains(done.commands[len(done.commands)-1], tt.says) {
			t.Errorf("%s: the last annotation is not %q: %q", tt.name, tt.says, done.commands)
		}
		if failed := strings.Contains(done.summary, "The job fails:"); failed != (tt.code != exit.OK) {
			t.Errorf("%s: the summary is %q", tt.name, done.summary)
		}
		if tt.gaps == "" {
			continue
		}
		wantAll(t, done.summary, "## gaia audit: ")
		for file, has := range map[string]string{"report.json": `"schema":"gaia.audit/1"`, "report.sarif": `"version": "2.1.0"`, "report.md": "## gaia audit: ", "verify.json": `"integrity":"ok"`} {
			wantAll(t, readAll(t, filepath.Join(done.outputs["reports"], file)), has)
		}
	}
}

// TestActionHostile gives the action names and texts that try to be commands of the shell or of GitHub.
func TestActionHostile(t *testing.T) {
	t.Parallel()
	needBashAndJQ(t)
	const evil = "`touch owned`$(touch owned)\";touch owned;'\n::error title=owned::x\n##[error]owned\nclean=true\n<b>owned\r<b>owned\r::error title=owned::x"
	c, err := runs.Parse(strings.NewReplacer("viewer?row=17", "$(touch${IFS}owned)%0A::error::owned?`touch%20owned`<b>owned</b>",
		"fab1e101-0000-4000-8000-000000000701", "x$(touch_owned)::error::%0A##[error]<b>owned</b>").Replace(readFile(t, "audit/testdata/AUD-01/fires-class-a-missing.txt")))
	if err != nil {
		t.Fatal(err)
	}
	p := newProgram(t)
	dir := "runs/" + evil
	if err := errors.Join(os.MkdirAll(filepath.Join(p.dir, "runs"), 0o755), c.Write(filepath.Join(p.dir, dir))); err != nil {
		t.Fatal(err)
	}
	key := runs.Key().Public().Line()
	for i, tt := range []struct {
		inputs map[string]string
		code   int
	}{
		{map[string]string{"path": dir, "trusted-key": key}, exit.Findings},
		{map[string]string{"path": dir, "trusted-key": key, "fail-on": evil}, exit.Usage},
		{map[string]string{"path": dir, "trusted-key": key, "dataset": "dir:" + evil}, exit.Usage},
		{map[string]string{"path": dir, "trusted-key": evil}, exit.Usage},
		{map[string]string{"path": dir, "trusted-key": "ssh-ed25519 " + evil}, exit.Usage},
		{map[string]string{"path": dir, "gaia": "", "version": evil}, exit.Failure},
		{map[string]string{"path": dir, "gaia": evil}, exit.Failure},
		{map[string]string{"path": evil}, exit.Usage},
		{map[string]string{"path": "--help"}, exit.Usage},
	} {
		if i >= 3 && !long.Thorough() {
			break
		}
		done := p.act(tt.inputs)
		if done.code != tt.code || done.outputs["clean"] != "false" || slices.Contains(done.workspace, "owned") {
			t.Errorf("%q: exit code %d, want %d, outputs %q, files %q\n%s", tt.inputs, done.code, tt.code, done.outputs, done.workspace, done.log)
		}
		for _, command := range done.commands {
			if !regexp.MustCompile(`^::(error|warning|notice) (file=[^:,]*,line=[0-9]+,)?title=(gaia audit|[A-Z]+ AUD-[0-9]+\.[a-z-]+|AUD-[0-9]+ could not see)::`).MatchString(command) {
				t.Errorf("%q: GitHub carries out %q", tt.inputs, command)
			}
		}
		for line := range strings.Lines(strings.ReplaceAll(done.summary, "\r", "\n")) { // both end lines
			if strings.Contains(line, "owned") && !strings.HasPrefix(line, "    ") && !strings.Contains(line, "`") {
				t.Errorf("%q: markup in the summary: %q", tt.inputs, line)
			}
		}
	}
}

// TestActionScript has ShellCheck read the script of the action.
func TestActionScript(t *testing.T) {
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip("ShellCheck reads the script, and is not here")
	}
	if out, err := exec.Command("shellcheck", filepath.Join(root(t), actionDir, "audit.sh")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestWorkflows: in the workflows and the action of this repository no expression stands in a script, where it would be
// text of strangers; actions of others are pinned by digest; no job may do more than it says.
func TestWorkflows(t *testing.T) {
	type job struct {
		Permissions map[string]string
		Steps       []step
	}
	type workflow struct {
		On          any
		Permissions map[string]string
		Jobs        map[string]job
	}
	careful := func(name string, steps []step) {
		for _, s := range steps {
			if strings.Contains(s.Run, "${{") {
				t.Errorf("%s: a script has an expression: %s", name, s.Run)
			}
			if s.Uses != "" && !strings.HasPrefix(s.Uses, "./") && !regexp.MustCompile(`^[a-z-]+/[a-z/-]+@[0-9a-f]{40}$`).MatchString(s.Uses) {
				t.Errorf("%s: %s is not pinned by digest", name, s.Uses)
			}
		}
	}
	a := readYAML[action](t, actionDir+"/action.yml")
	careful("the action", a.Runs.Steps)
	files, err := filepath.Glob(filepath.Join(root(t), ".github/workflows/*.yml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("workflows %q, %v", files, err)
	}
	may := map[string]string{}
	for _, file := range files {
		w := readYAML[workflow](t, ".github/workflows/"+filepath.Base(file))
		if w.Permissions == nil {
			t.Errorf("%s may do anything", file)
		}
		for name, j := range w.Jobs {
			careful(filepath.Base(file), j.Steps)
			for _, granted := range []map[string]string{w.Permissions, j.Permissions} {
				for what, how := range granted {
					if how == "write" {
						may[filepath.Base(file)+" "+name] += what
					}
				}
			}
		}
	}
	if want := map[string]string{"gaia-audit.yml audit": "security-events", "nightly.yml curve": "contents", "release.yml draft": "contents", "release.yml pypi": "id-token"}; !maps.Equal(may, want) {
		t.Errorf("jobs may write %v, want %v", may, want)
	}
	// What the reusable workflow gives to the action, and takes of it, is there, and the page names it.
	page := readFile(t, "docs/quickstart-ci.md")
	audit := readYAML[workflow](t, ".github/workflows/gaia-audit.yml")
	inputs := audit.On.(map[string]any)["workflow_call"].(map[string]any)["inputs"].(map[string]any)
	for name := range inputs {
		wantAll(t, page, "\n| `"+name+"` | ")
	}
	for name := range a.Outputs {
		wantAll(t, page, "`"+name+"`")
	}
	for _, m := range regexp.MustCompile(`(?:vars|secrets)\.([A-Z_]+)`).FindAllStringSubmatch(readFile(t, ".github/workflows/nightly.yml"), -1) {
		wantAll(t, page, "`"+m[1]+"`")
	}
	var steps []string
	for _, s := range audit.Jobs["audit"].Steps {
		name, _, _ := strings.Cut(s.Uses, "@")
		steps = append(steps, name)
		for with, value := range s.With {
			if s.ID == "audit" && with != "path" && !strings.HasPrefix(fmt.Sprint(value), "${{ inputs."+with+" ") {
				t.Errorf("the action is given %v as %s", value, with)
			} else if _, ok := a.Inputs[with]; s.ID == "audit" && (!ok || inputs[with] == nil) {
				t.Errorf("the action or the workflow has no input %s", with)
			}
			for _, m := range regexp.MustCompile(`steps\.audit\.outputs\.([a-z]+)`).FindAllStringSubmatch(fmt.Sprint(value)+s.If, -1) {
				if a.Outputs[m[1]].Value == "" {
					t.Errorf("the action has no output %s", m[1])
				}
			}
		}
	}
	if want := []string{"actions/checkout", "", "actions/checkout", "actions/download-artifact", "./.gaia-audit/.github/actions/gaia-audit", "github/codeql-action/upload-sarif", "actions/upload-artifact"}; !slices.Equal(steps, want) {
		t.Fatalf("the workflow has the steps %q, want %q", steps, want)
	}
	// An artifact is of a job that may run code of strangers. At the top of the workspace it could replace the action.
	const given = "${{ inputs.artifact != '' && format('.gaia-artifact/{0}', inputs.path) || inputs.path }}"
	if s := audit.Jobs["audit"].Steps; s[1].Run != "rm -rf .gaia-audit .gaia-artifact" || s[3].With["path"] != ".gaia-artifact" || s[4].With["path"] != given {
		t.Errorf("%q goes before an artifact, which goes to %v, and the action gets %v", s[1].Run, s[3].With["path"], s[4].With["path"])
	}
}

var settingExpression = regexp.MustCompile(`^\$\{\{ (?:vars|secrets)\.([A-Z_]+)(?: \|\| '([^']*)')? \}\}$`)

// TestNightly follows the nightly workflow for two nights, one without a key and one with: each job in a clone of a
// repository, with the models and the dataset of the tests.
func TestNightly(t *testing.T) {
	t.Parallel()
	long.OnlyThorough(t)
	needBashAndJQ(t)
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip(err)
	}
	w := readYAML[struct {
		Jobs map[string]struct {
			Env   map[string]any
			Steps []step
		}
	}](t, ".github/workflows/nightly.yml")
	p := newProgram(t)
	p.on(p.dir, "bash", `git init -q --bare origin && git clone -q origin made 2>/dev/null && cd made
git -c user.name=x -c user.email=x@x.example commit -q --allow-empty -m x && git push -q origin HEAD:main && git -C ../origin symbolic-ref HEAD refs/heads/main`)
	follow := func(job string, settings map[string]string) {
		t.Helper()
		here := program{t, filepath.Join(t.TempDir(), "workspace"), slices.Clone(p.env)}
		artifacts := filepath.Join(p.dir, "artifacts")
		here.env = append(here.env, "HOME="+filepath.Join(p.dir, job), "GITHUB_STEP_SUMMARY="+filepath.Join(p.dir, "summary"), "GITHUB_SERVER_URL=https://github.example", "GITHUB_REPOSITORY=x/y")
		fill := func(env map[string]any) (filled []string) {
			for name, value := range env {
				m := settingExpression.FindStringSubmatch(fmt.Sprint(value))
				if m == nil {
					t.Fatalf("%s is %v", name, value)
				}
				filled = append(filled, name+"="+cmp.Or(settings[m[1]], m[2]))
			}
			return filled
		}
		here.env = append(here.env, fill(w.Jobs[job].Env)...)
		for _, s := range w.Jobs[job].Steps {
			action, _, _ := strings.Cut(s.Uses, "@")
			switch {
			case action == "actions/checkout" && s.With["path"] != nil: // gaia, which is on the path here
			case action == "actions/checkout":
				p.on(p.dir, "bash", "mkdir -p "+filepath.Dir(here.dir)+" && git clone -q origin "+here.dir)
			case action == "actions/setup-go", s.Name == "Install":
			case action == "actions/upload-artifact":
				p.on(here.dir, "bash", "rm -rf "+artifacts+" && cp -r "+fmt.Sprint(s.With["path"])+" "+artifacts)
			case action == "actions/download-artifact":
				p.on(here.dir, "bash", "cp -r "+artifacts+" "+fmt.Sprint(s.With["path"]))
			case action == "./.gaia-nightly/"+actionDir:
				inputs := map[string]string{}
				for name, value := range s.With {
					inputs[name] = fmt.Sprint(value)
				}
				gate := here
				gate.env = append(slices.Clone(here.env), fill(s.Env)...)
				if done := gate.act(inputs); done.code != exit.OK || done.outputs["clean"] != "true" {
					t.Fatalf("the gate: exit code %d\n%s", done.code, done.log)
				}
			case action != "":
				t.Fatalf("the action %q is not known here", s.Uses)
			default:
				here.on(here.dir, "bash", s.Run, fill(s.Env)...)
			}
		}
	}
	_, p.env = serveHub(t)
	model := serveModel(t)
	for _, settings := range []map[string]string{{}, {"OPENAI_API_KEY": "invented-key-of-a-test", "HF_TOKEN": hubToken, "GAIA_MODEL": fixtures.Model, "GAIA_JUDGE_MODEL": fixtures.JudgeModel, "GAIA_SAMPLE": "5"}} {
		if settings["OPENAI_API_KEY"] != "" {
			const price = `{"input_microusd_per_mtok":1000000,"cached_input_microusd_per_mtok":1000000,"output_microusd_per_mtok":2000000}`
			p.on(p.dir, "bash", `cd made && echo prices: prices.json > gaia.yaml
echo '{"version":"x","note":"Invented prices.","models":{"`+fixtures.Model+`":`+price+`,"`+fixtures.JudgeModel+`":`+price+`}}' > prices.json
git add . && git -c user.name=x -c user.email=x@x.example commit -q -m x && git push -q origin HEAD:main`)
			p.env = append(p.env, "OPENAI_BASE_URL="+model)
		}
		follow("run", settings)
		follow("curve", settings)
	}
	branch := func(what string) string {
		return p.on(p.dir, "bash", "git -C origin "+what+" cost-curve"+map[bool]string{true: ":costs.jsonl"}[what == "show"])
	}
	costs, err := history.ReadCosts([]byte(branch("show")))
	if err != nil || len(costs) != 2 || !costs[0].Rehearsal || costs[1].Rehearsal || costs[1].Tasks != 5 || costs[1].CostMicroUSD == nil || costs[1].Solved == nil {
		t.Fatalf("the curve: %+v, %v", costs, err)
	}
	if log := branch("log --format=%s"); log != "Add the run "+costs[1].RunID+"\nAdd the run "+costs[0].RunID+"\n" {
		t.Errorf("the branch has the commits %q", log)
	}
	if svg := p.on(p.dir, "bash", "git -C origin show cost-curve:costs.svg"); !strings.HasPrefix(svg, "<svg ") || strings.Contains(svg, "rehearsals") {
		t.Errorf("the picture: %s", svg)
	}
	packages, err := filepath.Glob(filepath.Join(p.dir, "artifacts", "submission-*-public"))
	if err != nil || len(packages) != 1 || !strings.Contains(readAll(t, filepath.Join(packages[0], "metadata.json")), costs[1].ManifestSHA256) {
		t.Errorf("packages %q, %v", packages, err)
	}
	wantAll(t, readAll(t, filepath.Join(p.dir, "summary")), "(https://github.example/x/y/raw/cost-curve/costs.svg)")
}
