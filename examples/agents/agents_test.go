package agents

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
)

// TestRecipes: each recipe can be copied, whole, with its scripts executable, and its README.md names the version that it
// installs. Shell scripts parse.
func TestRecipes(t *testing.T) {
	all, err := List()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	pinned := regexp.MustCompile(`(?m)^([a-z_-]+)==(\S+)$|"(@[a-z/-]+)": "([0-9.]+)"`)
	for _, r := range all {
		names = append(names, r.Name)
		if !strings.HasSuffix(r.Summary, ".") || len(r.Summary) > 90 {
			t.Errorf("the summary of %s is %q", r.Name, r.Summary)
		}
		folder := filepath.Join(t.TempDir(), "mine")
		if next, err := Copy(r.Name, folder); err != nil || !strings.Contains(next, folder+"/install\n") || strings.Contains(next, "--settings "+folder+"/gaia.yaml\n") != (r.Name == "browser") {
			t.Fatalf("%q, %v", next, err)
		}
		var versions int
		readme, _ := os.ReadFile(filepath.Join(folder, "README.md"))
		source, err := os.ReadDir(r.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range source {
			if e.IsDir() { // installed here by hand
				continue
			}
			copied, err := os.ReadFile(filepath.Join(folder, e.Name()))
			if err != nil {
				t.Errorf("%s is not embedded: %v", e.Name(), err)
			}
			if e.Name() == "requirements.txt" || e.Name() == "package.json" {
				for _, m := range pinned.FindAllStringSubmatch(string(copied), -1) {
					if strings.Contains(string(readme), strings.ReplaceAll(m[1]+m[3], "_", "-")+" "+m[2]+m[4]) {
						versions++
					}
				}
			}
		}
		if versions == 0 {
			t.Errorf("README.md of %s names no version that is installed", r.Name)
		}
		for _, script := range []string{"agent", "install"} {
			path := filepath.Join(folder, script)
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
				t.Errorf("%s of %s is not executable: %v, %v", script, r.Name, info, err)
			}
			cmd := exec.Command("sh", "-n", path)
			cmd.Env = []string{}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s of %s does not parse: %v\n%s", script, r.Name, err, out)
			}
		}
		if _, err := Copy(r.Name, folder); exit.Of(err).Code != exit.Usage {
			t.Errorf("a second copy of %s: %v", r.Name, err)
		}
	}
	if want := []string{"browser", "claude-code", "codex", "inspect", "openai-agents", "smolagents"}; !slices.Equal(names, want) {
		t.Errorf("the recipes are %q, want %q", names, want)
	}
	if _, err := Copy("../agents", t.TempDir()); exit.Of(err).Code != exit.Usage {
		t.Errorf("a recipe that does not exist: %v", err)
	}
}

// TestQuickStart: the agents of docs/agents.md are those that tests run, and short.
func TestQuickStart(t *testing.T) {
	page, err := os.ReadFile("../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, language := range map[string]string{"python/agent": "python", "go/main.go": "go", "shell/agent": "shell"} {
		source, err := os.ReadFile(filepath.Join("testdata/quickstart", name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "\n```"+language+"\n"+string(source)+"```\n") {
			t.Errorf("docs/agents.md does not have %s as it is", name)
		}
		if lines := strings.Count(string(source), "\n"); lines > 15 && language != "go" || lines > 35 {
			t.Errorf("%s has %d lines", name, lines)
		}
	}
}
