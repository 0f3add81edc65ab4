package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/examples/agents"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/go-json-experiment/json"
)

// interopTasks are the tasks that recipes are tried with: arithmetic, a table, two pages of the small web, an endpoint that
// fails twice, and a landing book with arithmetic.
var interopTasks = []string{"fab1e001", "fab1e002", "fab1e005", "fab1e016", "fab1e027"}

// TestAgentsInterop: each recipe, as it was installed below the folder GAIA_RECIPES, solves five tasks of the rehearsal. Its
// run is packaged; gaia, the shell lines of the package and each cosign of GAIA_COSIGN accept the package.
func TestAgentsInterop(t *testing.T) {
	recipes, err := filepath.Glob(filepath.Join(os.Getenv("GAIA_RECIPES"), "*", "agent"))
	if os.Getenv("GAIA_RECIPES") == "" || err != nil || len(recipes) == 0 {
		t.Skip("SKIPPED: no recipes were installed, so none was run: run make interop, or set GAIA_RECIPES")
	}
	for _, recipe := range recipes {
		folder := filepath.Dir(recipe)
		t.Run(filepath.Base(folder), func(t *testing.T) {
			p := confiningProgram(t)
			ids := "-0000-4000-8000-000000000"
			var tasks []string
			for _, id := range interopTasks {
				tasks = append(tasks, id+ids+id[len(id)-3:])
			}
			run := []string{"run", "--agent", folder, "--task", strings.Join(tasks, ","), "--submit-intent", "--concurrency", "2"}
			if settings := filepath.Join(folder, agents.SettingsFile); exists(settings) {
				run = append(run, "--settings", settings)
			}
			p.want(exit.OK, run...)
			results, err := os.ReadFile(filepath.Join(p.runDir(), rundir.ResultsFile))
			if err != nil {
				t.Fatal(err)
			}
			solved := 0
			for line := range strings.Lines(string(results)) {
				var r rundir.Result
				if err := json.Unmarshal([]byte(line), &r); err != nil {
					t.Fatal(err)
				}
				if r.OfficialCorrect != nil && *r.OfficialCorrect {
					solved++
				} else {
					t.Errorf("%s", line)
				}
			}
			t.Logf("%d of %d tasks solved", solved, len(tasks))
			p.want(exit.OK, "submit", p.runDir())
			packages, err := filepath.Glob(filepath.Join(p.dir, "submission-*"))
			if err != nil || len(packages) != 1 {
				t.Fatalf("packages %q, %v", packages, err)
			}
			p.want(exit.OK, "verify", packages[0])
			p.want(exit.OK, "key", "export", "-o", "KEY.pub")
			readme, err := os.ReadFile(filepath.Join(packages[0], "README.md"))
			if err != nil {
				t.Fatal(err)
			}
			p.shell(packages[0], fenced(string(readme)), "../KEY.pub")
			_, section, _ := strings.Cut(readFile(t, "docs/verifying.md"), "\n### cosign\n")
			section, _, _ = strings.Cut(section, "\n### ")
			for _, cosign := range filepath.SplitList(os.Getenv("GAIA_COSIGN")) {
				out := p.shell(packages[0], "cosign() { '"+cosign+"' \"$@\"; }\n"+fenced(section))
				if !strings.Contains(out, "Verified OK") {
					t.Errorf("%s does not verify the package:\n%s", cosign, out)
				}
			}
		})
	}
}

// fenced returns the lines of a page that are between fences.
func fenced(page string) string {
	var lines strings.Builder
	in := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "```") {
			in = !in
		} else if in {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

// shell runs lines of bash in a folder.
func (p program) shell(dir, lines string, args ...string) string {
	p.t.Helper()
	cmd := exec.Command("bash", append([]string{"-euc", lines, "bash"}, args...)...)
	cmd.Dir, cmd.Env = dir, []string{"HOME=" + p.dir, "PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("%v\n%s\n%s", err, lines, out)
	}
	return string(out)
}
