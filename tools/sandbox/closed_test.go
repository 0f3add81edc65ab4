package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestClosedFoldersAreSeen: the listing of the python tool and the watch see what is in
// folders that are closed to their owner.
func TestClosedFoldersAreSeen(t *testing.T) {
	env := workspace(t, map[string][]byte{"a/b/notes.txt": []byte("one\n"), "a/table.csv": []byte("1,2\n")})
	for _, name := range []string{"a/b", "a"} {
		must(t, os.Chmod(filepath.Join(env.Root.Name(), name), 0))
	}
	t.Cleanup(func() {
		for _, name := range []string{"a", "a/b"} {
			_ = os.Chmod(filepath.Join(env.Root.Name(), name), 0o700)
		}
	})
	if got := (fileList{}).changed(listing(env.Root)); !slices.Equal(got, []string{"a/b/notes.txt (4 bytes)", "a/table.csv (4 bytes)"}) {
		t.Errorf("the listing is %q", got)
	}
	if files, size := filesOf(env.Root, pythonLimits()); files != 4 || size != 8 {
		t.Errorf("the watch counts %d files of %d bytes", files, size)
	}
}
