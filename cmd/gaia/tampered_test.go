package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
)

// TestTampered: verify and audit say of every tampered run which file is wrong
// and why, in one line, and nothing that could be taken for a result.
func TestTampered(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	all := runs.Good()
	dir, key := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "key.pub")
	if err := all["pair"].Write(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, []byte(runs.Key().Public().Line()+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	commands := [][]string{{"verify", "--trusted-key", key}, {"verify", "--json", "--trusted-key", key}, {"audit"}, {"audit", "--format", "json"}}
	for _, args := range commands {
		if code, stdout, stderr := trusting(t, append(args, dir)...); code != exit.OK || stdout == "" {
			t.Fatalf("%v of the run as it was: exit code %d\n%s%s", args, code, stdout, stderr)
		}
	}
	changes := runs.Tampered()
	for i, name := range slices.Sorted(maps.Keys(all)) {
		for j, change := range changes {
			dir := filepath.Join(t.TempDir(), "run")
			if err := all[name].Write(dir); err != nil {
				t.Fatal(err)
			}
			if err := change.Edit(dir); err != nil {
				t.Fatalf("%s: %s: %v", name, change.Name, err)
			}
			want := regexp.MustCompile(`\Agaia: error: ` + regexp.QuoteMeta(change.File) + `: [^\n]+\n\z`)
			for k, args := range commands {
				if (name != "pair" || !long.Thorough()) && (i+j+k)%len(commands) != 0 {
					continue // the commands take turns
				}
				code, stdout, stderr := command(t, append(args, dir)...)
				if code != exit.Evidence || stdout != "" || !want.MatchString(stderr) {
					t.Errorf("%v of %s with %s: exit code %d\n%s%s", args, name, change.Name, code, stdout, stderr)
				}
			}
		}
	}
	if len(changes) < 40 {
		t.Errorf("only %d changes", len(changes))
	}
}
