package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/goccy/go-yaml"
)

// on gives a script to sh in a folder of the program's, and wants it to succeed.
func (p program) on(dir, shell, script string, env ...string) string {
	p.t.Helper()
	cmd := exec.Command(shell, "-ec", script)
	cmd.Dir, cmd.Env = dir, append(append([]string{"HOME=" + p.dir, "PATH=" + os.Getenv("PATH")}, p.env...), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// mergedOf wants the one run in a folder to be whole, and made of so many shards.
func (p program) mergedOf(runs string, shards int) {
	p.t.Helper()
	found, err := filepath.Glob(filepath.Join(runs, "0*"))
	if err != nil || len(found) != 1 {
		p.t.Fatalf("runs %q, %v", found, err)
	}
	p.want(exit.OK, "verify", found[0])
	if kept, err := filepath.Glob(filepath.Join(found[0], "shards", "*", "events.jsonl")); err != nil || len(kept) != shards {
		p.t.Errorf("journals of shards %q, %v", kept, err)
	}
}

// TestSlurm submits a plan as examples/slurm does, to an executor on this machine.
func TestSlurm(t *testing.T) {
	t.Parallel()
	p, here := newProgram(t), root(t)
	p.want(exit.OK, "plan", "--limit", "5", "--submit-intent", "--shards", "2", "-o", "plan")
	executors := filepath.Join(here, "cmd", "gaia", "testdata", "executors")
	submit := filepath.Join(here, "examples", "slurm", "submit")
	p.on(p.dir, "sh", submit+" "+filepath.Join(p.dir, "plan"), "PATH="+executors+":"+os.Getenv("PATH"), "GAIA_RUNS="+filepath.Join(p.dir, "runs"))
	p.mergedOf(filepath.Join(p.dir, "runs"), 2)
}

// containers returns the command of the container of each resource in a file of examples/kubernetes, by kind.
func containers(t *testing.T, file string) map[string][]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root(t), "examples", "kubernetes", file))
	if err != nil {
		t.Fatal(err)
	}
	commands := map[string][]string{}
	for _, one := range strings.Split(string(data), "\n---\n") {
		var resource struct {
			Kind string
			Spec struct {
				Template struct {
					Spec struct{ Containers []struct{ Command []string } }
				}
			}
		}
		if err := yaml.Unmarshal([]byte(one), &resource); err != nil {
			t.Fatal(err)
		}
		for _, c := range resource.Spec.Template.Spec.Containers {
			commands[resource.Kind] = c.Command
		}
	}
	return commands
}

// TestKubernetesJob runs the command of each index of the Job in examples/kubernetes, with its volume in a folder.
func TestKubernetesJob(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	p.want(exit.OK, "plan", "--limit", "5", "--submit-intent", "--shards", "3", "-o", "plan")
	command := strings.ReplaceAll(strings.Join(containers(t, "shards.yaml")["Job"], " "), "/data", p.dir)
	for index := range 3 {
		p.on(p.dir, "sh", command, fmt.Sprintf("JOB_COMPLETION_INDEX=%d", index))
	}
	p.on(p.dir, "sh", "gaia merge --plan plan -o runs shards/*")
	p.mergedOf(filepath.Join(p.dir, "runs"), 3)
}

// TestKubernetesWorkers runs the server and a worker of examples/kubernetes with TLS and NKeys, each volume in a folder.
func TestKubernetesWorkers(t *testing.T) {
	long.OnlyThorough(t)
	t.Parallel()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl makes the certificate, and is not here")
	}
	p := newProgram(t)
	p.want(exit.OK, "plan", "--limit", "5", "--submit-intent", "-o", "data/plan")
	p.on(p.dir, "sh", `mkdir tls public worker
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=gaia-serve -addext subjectAltName=DNS:gaia-serve,IP:127.0.0.1 -keyout tls/tls.key -out tls/tls.crt 2>/dev/null
cp tls/tls.crt public/ca.crt
cp .config/gaia/keys/signing.pub public/plan-key.pub`)
	public := strings.TrimSpace(p.on(p.dir, "sh", "gaia worker --new-key worker/worker.nk"))
	address, commands := freeAddress(t), containers(t, "workers.yaml")
	command := func(kind string) *exec.Cmd {
		given := strings.NewReplacer("0.0.0.0:4222", address, "gaia-serve:4222", address, "$(WORKER_KEY)", public, "/signing/signing", p.dir+"/.config/gaia/keys/signing",
			"=/data", "="+p.dir+"/data", "=/tls", "="+p.dir+"/tls", "=/worker/", "="+p.dir+"/worker/", "=/public", "="+p.dir+"/public", "=/work/", "="+p.dir+"/work/")
		args := commands[kind][1:]
		for i, arg := range args {
			args[i] = given.Replace(arg)
		}
		return p.command(args...)
	}
	served := make(chan string)
	go func() {
		out, err := command("Job").CombinedOutput()
		served <- fmt.Sprintf("%v\n%s", err, out)
	}()
	out, err := command("Deployment").CombinedOutput()
	if err != nil {
		t.Errorf("the worker: %v\n%s", err, out)
	}
	if said := <-served; !strings.HasPrefix(said, "<nil>\n") {
		t.Fatalf("the server: %s\nthe worker: %s", said, out)
	}
	p.mergedOf(filepath.Join(p.dir, "data", "runs"), 1)
}

// TestMatrix follows the workflow in examples/ci job by job, each in another folder, with the dataset and the models
// of the tests. Artifacts are files of another folder.
func TestMatrix(t *testing.T) {
	long.OnlyThorough(t)
	t.Parallel()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl encrypts the artifacts, and is not here")
	}
	_, env := serveHub(t)
	p := newProgram(t)
	p.env = append(env, "OPENAI_BASE_URL="+serveModel(t), "OPENAI_API_KEY=invented-key-of-a-test", "HF_TOKEN="+hubToken,
		"ARTIFACT_PASSWORD=invented password", "MODEL="+fixtures.Model, "JUDGE="+fixtures.JudgeModel, "XDG_CONFIG_HOME="+filepath.Join(p.dir, "config"))
	data, err := os.ReadFile(filepath.Join(root(t), "examples", "ci", "gaia.yml"))
	if err != nil {
		t.Fatal(err)
	}
	type job struct {
		Steps []struct {
			Run  string
			Uses string
			With struct{ Name, Path string }
		}
		Strategy struct{ Matrix struct{ Shard []int } }
	}
	var workflow struct{ Jobs map[string]job }
	if err := yaml.Unmarshal(data, &workflow); err != nil {
		t.Fatal(err)
	}
	artifacts := t.TempDir()
	follow := func(name string, shard int) string {
		dir := t.TempDir()
		fill := strings.NewReplacer("${{ matrix.shard }}", fmt.Sprint(shard), " --max-cost 50", "").Replace // the scripted model has no price
		for _, step := range workflow.Jobs[name].Steps {
			action, _, _ := strings.Cut(step.Uses, "@")
			artifact := filepath.Join(artifacts, fill(step.With.Name))
			switch {
			case strings.HasPrefix(step.Run, "go install "), action == "actions/setup-go":
			case action == "actions/upload-artifact":
				p.on(dir, "sh", "mkdir -p "+artifact+" && cp -r "+step.With.Path+" "+artifact)
			case action == "actions/download-artifact":
				p.on(dir, "sh", "cp -r "+artifact+"/. .") // with a name its files, without one a folder of each
			case action != "":
				t.Fatalf("the action %q is not known here", step.Uses)
			default:
				p.on(dir, "bash", fill(step.Run))
			}
		}
		return dir
	}
	follow("plan", 0)
	shards := workflow.Jobs["shard"].Strategy.Matrix.Shard
	for _, shard := range shards {
		follow("shard", shard)
	}
	dir := follow("merge", 0)
	p.mergedOf(filepath.Join(dir, "runs"), len(shards))
	if packages, err := filepath.Glob(filepath.Join(artifacts, "package", "submission-*")); err != nil || len(shards) != 8 || len(packages) != 1 {
		t.Errorf("%d shards, packages %q, %v", len(shards), packages, err)
	}
}

// TestManyMachines runs the commands of docs/many-machines.md, each block in another folder.
func TestManyMachines(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(root(t), "docs", "many-machines.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(data), "```sh tested-by TestManyMachines\n")[1:]
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of commands", len(blocks))
	}
	for i, block := range blocks {
		p := newProgram(t)
		script, _, _ := strings.Cut(block, "```")
		p.on(p.dir, "sh", strings.ReplaceAll(script, "127.0.0.1:4222", freeAddress(t)))
		p.mergedOf(filepath.Join(p.dir, "runs"), 2-i)
	}
}

// freeAddress returns an address of this machine at which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestExampleScripts has ShellCheck read the scripts of the examples.
func TestExampleScripts(t *testing.T) {
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip("ShellCheck reads the scripts, and is not here")
	}
	scripts, err := filepath.Glob(filepath.Join(root(t), "examples", "slurm", "*"))
	if err != nil || len(scripts) != 3 {
		t.Fatalf("scripts %q, %v", scripts, err)
	}
	if out, err := exec.Command("shellcheck", append(scripts, "testdata/executors/sbatch")...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestInteropExampleSchemas has programs that have the published schemas read the files of the examples,
// workflows and issue forms.
func TestInteropExampleSchemas(t *testing.T) {
	python := os.Getenv("GAIA_SCHEMAS")
	if python == "" {
		t.Skip("needs kubernetes-validate and check-jsonschema, which make interop installs")
	}
	here := filepath.Join(root(t), "examples")
	manifests, err := filepath.Glob(filepath.Join(here, "kubernetes", "*.yaml"))
	if err != nil || len(manifests) == 0 {
		t.Fatalf("manifests %q, %v", manifests, err)
	}
	workflows, err := filepath.Glob(filepath.Join(root(t), ".github", "workflows", "*.yml"))
	if err != nil || len(workflows) == 0 {
		t.Fatalf("workflows %q, %v", workflows, err)
	}
	forms, err := filepath.Glob(filepath.Join(root(t), ".github", "ISSUE_TEMPLATE", "[^c]*.yml"))
	if err != nil || len(forms) == 0 {
		t.Fatalf("forms %q, %v", forms, err)
	}
	for _, args := range [][]string{
		append([]string{"-m", "check_jsonschema", "--builtin-schema", "vendor.github-issue-forms"}, forms...),
		{"-m", "check_jsonschema", "--builtin-schema", "vendor.github-issue-config", filepath.Join(root(t), ".github", "ISSUE_TEMPLATE", "config.yml")},
		append([]string{"-m", "kubernetes_validate", "--strict"}, manifests...),
		append([]string{"-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", filepath.Join(here, "ci", "gaia.yml")}, workflows...),
		{"-m", "check_jsonschema", "--builtin-schema", "vendor.github-actions", filepath.Join(root(t), actionDir, "action.yml")},
	} {
		if out, err := exec.Command(python, args...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
