package servers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
)

// TestServerFolders: no MCP server is given a folder in which answers may be, or
// the user's files as a whole.
func TestServerFolders(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"home/me/notes/server.py", "home/me/notes/events.jsonl", "home/me/notes/2023/metadata.json", "home/me/notes/metadata.jsonl",
		"here/project/lib.py", "elsewhere/runs/file",
		"old/a/b/judgments.jsonl", "package/p/manifest.dsse.json", "package/p/events.jsonl", "unlike/manifest.dsse.json",
		"copy/GAIA/2023/validation/metadata.parquet", "cache/hub/datasets--x/snapshots/abc/2023/test/metadata.jsonl",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"link": "old", "mine": "home/me"} {
		if err := os.Symlink(filepath.Join(dir, to), filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(filepath.Join(dir, "here"))
	home := func(name string) string { return map[string]string{"HOME": filepath.Join(dir, "mine")}[name] }
	v := Env{Getenv: home, Runs: filepath.Join(dir, "elsewhere/runs/not/yet")}
	for folder, want := range map[string]string{
		"home/me/notes": "", "home/me/notes/server.py": "", "here/project": "", "unlike": "", "home/me/notes/2023": "",
		"home/me": "your home folder", "home": "your home folder", "mine": "your home folder",
		"here": "the current folder", "elsewhere": "the folder of the runs", "elsewhere/runs": "the folder of the runs",
		"old": "verdicts of a run (a/b/judgments.jsonl)", "old/a/b": "verdicts of a run (judgments.jsonl)", "old/a/b/judgments.jsonl": "verdicts of a run (judgments.jsonl)",
		"link": "verdicts of a run (a/b/judgments.jsonl)", "package": "a run (p/manifest.dsse.json)",
		"copy":  "a copy of the dataset (GAIA/2023/validation/metadata.parquet)",
		"cache": "a copy of the dataset (hub/datasets--x/snapshots/abc/2023/test/metadata.jsonl)", "copy/GAIA/2023/validation": "a copy of the dataset (metadata.parquet)",
		"nowhere": "no such file or directory",
	} {
		abs, err := v.folder("notes", filepath.Join(dir, folder))
		switch {
		case want == "" && (err != nil || abs != filepath.Join(dir, folder)):
			t.Errorf("%s is refused: %q, %v", folder, abs, err)
		case want != "" && (err == nil || !strings.HasSuffix(err.Error(), want) || exit.Of(err).Code != exit.Usage):
			t.Errorf("%s: %v, not %q", folder, err, want)
		}
	}
	if _, err := v.folder("notes", "/"); err == nil {
		t.Error("a server is given everything")
	}
	if _, err := v.folder("notes", "project"); err != nil {
		t.Errorf("a folder below the current one is refused: %v", err)
	}
}
