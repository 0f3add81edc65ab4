package run

import (
	"strings"
	"syscall"
	"testing"
)

// TestCacheOnFullDisk gives the judge cache a file system with room for one entry.
func TestCacheOnFullDisk(t *testing.T) {
	cold := earlierRun(t).cold
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4k,mode=0700"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmounting the small file system: %v", err)
		}
	})
	c, server := judged(t, dir)
	full := 0
	for _, warning := range unkept(t, c, server, func() {}, cold) {
		if !strings.HasPrefix(warning, "writing the judge cache: ") || !strings.HasSuffix(warning, syscall.ENOSPC.Error()) {
			t.Errorf("warned: %s", warning)
		}
		full++
	}
	if swept := c.env.Cache.Sweep(); len(swept.Bad) != 0 || full == 0 {
		t.Errorf("%d warnings; left behind: %+v", full, swept)
	}
}
