package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/exit"
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

// TestKubernetesJob runs the command of each index of the Job in examples/kubernetes, with its volume in a folder.
func TestKubernetesJob(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	data, err := os.ReadFile(filepath.Join(root(t), "examples", "kubernetes", "shards.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var job struct {
		Spec struct {
			CompletionMode string `yaml:"completionMode"`
			Template       struct {
				Spec struct {
					Containers []struct {
						Command []string
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(strings.SplitN(string(data), "\n---\n", 2)[0]), &job); err != nil {
		t.Fatal(err)
	}
	if job.Spec.CompletionMode != "Indexed" || len(job.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("the Job is %+v", job)
	}
	p.want(exit.OK, "plan", "--limit", "5", "--submit-intent", "--shards", "3", "-o", "plan")
	command := strings.ReplaceAll(strings.Join(job.Spec.Template.Spec.Containers[0].Command, " "), "/data", p.dir)
	for index := range 3 {
		p.on(p.dir, "sh", command, fmt.Sprintf("JOB_COMPLETION_INDEX=%d", index))
	}
	p.on(p.dir, "sh", "gaia merge --plan plan -o runs shards/*")
	p.mergedOf(filepath.Join(p.dir, "runs"), 3)
}

// TestMatrix follows the workflow in examples/ci job by job, each in its own folder, with the dataset and the models
// of the tests. Artifacts are files of another folder.
func TestMatrix(t *testing.T) {
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

// TestInteropExampleSchemas has programs that have the published schemas read the files of the examples.
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
	for _, args := range [][]string{
		append([]string{"-m", "kubernetes_validate", "--strict"}, manifests...),
		{"-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", filepath.Join(here, "ci", "gaia.yml"), filepath.Join(root(t), ".github", "workflows", "ci.yml")},
	} {
		if out, err := exec.Command(python, args...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
