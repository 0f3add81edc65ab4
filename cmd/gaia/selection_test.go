package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
)

// TestVerifySelection: a run whose signed plan leaves out tasks that its label gives
// does not verify.
func TestVerifySelection(t *testing.T) {
	t.Parallel()
	const of = "-- split validation --\na\nb\nc\n-- task a --\nquestion: What is 2 + 2?\ngold: 4\n-- answer 4 --\nFrom memory.\n-- task b --\nquestion: What is 7 + 7?\ngold: 14\n-- answer 14 --\nFrom memory.\n"
	for label, want := range map[string]int{"limit=2": exit.OK, "all": exit.Evidence, "limit=1": exit.Evidence, "limit=3": exit.Evidence, "level=1": exit.Evidence, "task=a": exit.Evidence} {
		c, err := runs.Parse("Two of three tasks.\n-- plan --\n{\"dataset\":{\"selection\":\"" + label + "\"}}\n" + of)
		if err != nil {
			t.Fatal(err)
		}
		files, err := c.Files()
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		for name, data := range files {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		code, _, said := command(t, "verify", dir)
		if refused := strings.Contains(said, "the planned tasks are not those of selection "); refused != (want == exit.Evidence) || refused && code != exit.Evidence {
			t.Errorf("%s: exit code %d\n%s", label, code, said)
		}
	}
}
