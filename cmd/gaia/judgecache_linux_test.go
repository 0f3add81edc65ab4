package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/testkit/long"
)

// TestReadOnlyJudgeCache: a cache that cannot be written to is read and stops no run.
// One that others can read is not used there,
// since it cannot be closed to them.
func TestReadOnlyJudgeCache(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	disk := smallDisk(t, 400)
	p := newProgram(t)
	p.env = append(p.env, "XDG_CACHE_HOME="+disk)
	remount := func(flags uintptr) {
		t.Helper()
		if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	says := func(out string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in:\n%s", want, out)
			}
		}
	}
	run := []string{"run", "--limit", "12"}
	says(p.want(exit.OK, run...), "judged 3 of 3 (0 from the cache)")
	remount(syscall.MS_RDONLY)
	says(p.want(exit.OK, run...), "judged 3 of 3 (3 from the cache)")
	remount(0)
	if err := os.Chmod(filepath.Join(disk, "gaia", "judgments"), 0o755); err != nil {
		t.Fatal(err)
	}
	remount(syscall.MS_RDONLY)
	says(p.want(exit.OK, run...), "judged 3 of 3 (0 from the cache)", `reason="a directory that cannot be closed to others"`)
}
