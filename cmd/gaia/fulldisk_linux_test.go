package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/long"
)

// smallDisk mounts a file system of some KiB, which root may.
func smallDisk(t *testing.T, kib int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dk", kib)); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		err := syscall.Unmount(dir, 0)
		for i := 0; i < 100 && err == syscall.EBUSY; i++ { // a process that another test starts has all open files until it is another program
			time.Sleep(50 * time.Millisecond)
			err = syscall.Unmount(dir, 0)
		}
		if err != nil {
			t.Errorf("unmounting the small file system: %v", err)
		}
	})
	return dir
}

// TestFullDisk fills a real file system up while a run is written to it: the run
// is marked and goes on or stops, what was recorded verifies, and when there is
// room again resume makes the evidence whole.
func TestFullDisk(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	own, err := sign.CreateKey(key, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		flag, intent string
		code         int
		error, hint  string
	}{
		{"continue", "--submit-intent", exit.Incomplete, "gaia: error: the results are not evidence: recording ended after event ", "gaia: hint: make room or repair the disk, then: gaia resume "},
		{"continue", "--submit-intent=false", exit.Incomplete, "gaia: error: the results are not evidence: recording ended after event ", "gaia: hint: make room or repair the disk, then: gaia resume "},
		{"stop", "--submit-intent", exit.Incomplete, "gaia: error: evidence could not be recorded: write events.jsonl: no space left on device", "gaia: hint: the run stays not submittable\n"},
	} {
		t.Run(tt.flag+tt.intent, func(t *testing.T) {
			disk := smallDisk(t, 120) // which nothing but the journal fills up: the tasks have no attachments
			out := filepath.Join(disk, "runs")
			code, stdout, stderr := command(t, "run", tt.intent, "--key", key, "--out", out, "--on-unsubmittable", tt.flag, "--no-judge-cache", "--task", strings.Join([]string{
				"fab1e005-0000-4000-8000-000000000005", "fab1e006-0000-4000-8000-000000000006", "fab1e016-0000-4000-8000-000000000016", "fab1e017-0000-4000-8000-000000000017"}, ","))
			if code != tt.code || !strings.Contains(stderr, tt.error) || !strings.Contains(stderr, tt.hint) {
				t.Errorf("exit code %d, want %d\n%s%s", code, tt.code, stdout, stderr)
			}
			found, err := filepath.Glob(filepath.Join(out, "01*"))
			if err != nil || len(found) != 1 {
				t.Fatal(found, err)
			}
			before, err := os.ReadFile(filepath.Join(found[0], "events.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			whole := before[:bytes.LastIndexByte(before, '\n')+1]
			if code, _, stderr := command(t, "verify", "--trusted-key", key+".pub", found[0]); code != exit.Incomplete {
				t.Errorf("verify: exit code %d\n%s", code, stderr)
			}
			if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
				t.Fatal(err)
			}
			if code, stdout, stderr := command(t, "resume", "--key", key, found[0]); code != exit.Incomplete || stdout != "" || !strings.Contains(stderr, "read-only file system\ngaia: hint: ") {
				t.Errorf("resume where nothing can be written: exit code %d\n%s%s", code, stdout, stderr)
			}
			if code, _, stderr := command(t, "run", "--key", key, "--out", filepath.Join(disk, "more")); code != exit.Failure || !strings.Contains(stderr, "read-only file system\ngaia: hint: ") {
				t.Errorf("run where nothing can be written: exit code %d\n%s", code, stderr)
			}
			if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, "size=8m"); err != nil {
				t.Fatal(err)
			}
			if code, _, stderr := command(t, "resume", "--key", key, found[0]); code != exit.Findings && tt.intent == "--submit-intent" || code != exit.OK && tt.intent != "--submit-intent" {
				t.Errorf("resume: exit code %d\n%s", code, stderr)
			}
			after, err := os.ReadFile(filepath.Join(found[0], "events.jsonl"))
			if err != nil || !bytes.HasPrefix(after, whole) || len(whole) == 0 {
				t.Errorf("what was recorded is not there any longer: %v", err)
			}
			if err := os.Remove(filepath.Join(found[0], "unsubmittable")); err != nil { // which hides nothing
				t.Fatal(err)
			}
			if code, _, stderr := command(t, "submit", "--key", key, "-o", disk, found[0]); code != exit.Findings || !strings.Contains(stderr, "gaia: reason: recording failed during the run, ") {
				t.Errorf("submit: exit code %d\n%s", code, stderr)
			}
			if code, stdout, stderr := command(t, "verify", "--trusted-key", key+".pub", found[0]); !strings.Contains(stdout, "unsubmittable  evidence could not be recorded: ") {
				t.Errorf("verify: exit code %d\n%s%s", code, stdout, stderr)
			}
			if code, _, stderr := trustingKey(t, own.Public(), "audit", found[0]); code != exit.Findings || !strings.Contains(stderr, "gaia: error: the audit is not clean: ") {
				t.Errorf("audit: exit code %d\n%s", code, stderr)
			}
		})
	}
}

// TestNoRoomAtAll: where a run cannot even be planned nothing is left behind.
func TestNoRoomAtAll(t *testing.T) {
	disk := smallDisk(t, 16)
	code, stdout, stderr := command(t, "run", "--out", filepath.Join(disk, "runs"))
	if code != exit.Failure || stdout != "" || !strings.Contains(stderr, "no space left on device") || !strings.Contains(stderr, "gaia: hint: ") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	if left, err := os.ReadDir(filepath.Join(disk, "runs")); err != nil && !errors.Is(err, os.ErrNotExist) || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestNoRoomForArchive: where there is no room to read an archive, nothing is known
// of it, and nothing is left of it.
func TestNoRoomForArchive(t *testing.T) {
	long.NotRaced(t)
	path := spilling(t)
	t.Setenv("TMPDIR", smallDisk(t, 256))
	code, stdout, stderr := command(t, "verify", path)
	if code != exit.Failure || stdout != "" || !strings.Contains(stderr, "no space left on device\ngaia: hint: make room there, or name another directory by TMPDIR\n") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestNoRoomToPack packages a run where there is room for less and less of it: the
// folder, the archive beside it, neither. There is then nothing of either.
func TestNoRoomToPack(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	key, runs := filepath.Join(t.TempDir(), "key"), t.TempDir()
	if _, err := sign.CreateKey(key, rand.Reader); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := command(t, "run", "--submit-intent", "--limit", "3", "--key", key, "--out", runs); code != exit.OK {
		t.Fatal(stderr)
	}
	found, err := filepath.Glob(filepath.Join(runs, "01*"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	full := 0
	for kib := 640; kib >= 16; kib -= 48 {
		disk := smallDisk(t, kib)
		code, stdout, stderr := command(t, "submit", "--archive", "--key", key, "--out", filepath.Join(disk, "out"), found[0])
		if code == exit.OK && full == 0 {
			continue
		}
		full++
		if code != exit.Failure || stdout != "" || !strings.Contains(stderr, "no space left on device\ngaia: hint: make room, or choose another place with --out\n") {
			t.Errorf("%d KiB: exit code %d\n%s%s", kib, code, stdout, stderr)
		}
		if left, err := os.ReadDir(disk); err != nil || len(left) != 0 {
			t.Errorf("%d KiB: %v is left, %v", kib, left, err)
		}
	}
	if full < 5 || full > 14 {
		t.Errorf("there was no room %d times", full)
	}
}

// TestNoRoomToMerge merges shards where there is room for less and less of the run: there is then nothing of it, or a run
// that is brought to its end when there is room.
func TestNoRoomToMerge(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	p := newProgram(t)
	p.shards("plan", "shards", "2")
	full := 0
	for kib := 320; kib >= 32; kib -= 48 {
		disk := smallDisk(t, kib)
		out, err := p.command("merge", "shards", "-o", filepath.Join(disk, "runs")).CombinedOutput()
		if err == nil && full == 0 {
			continue
		}
		full++
		if !strings.Contains(string(out), "no space left on device") || !strings.Contains(string(out), "gaia: hint: ") {
			t.Errorf("%d KiB: %v\n%s", kib, err, out)
		}
		found, err := filepath.Glob(filepath.Join(disk, "runs", "*"))
		if hidden, _ := filepath.Glob(filepath.Join(disk, "runs", ".*")); err != nil || len(hidden) != 0 || len(found) > 1 {
			t.Errorf("%d KiB: %v and %v are left, %v", kib, found, hidden, err)
		}
		if len(found) == 0 {
			continue
		}
		if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, "size=8m"); err != nil {
			t.Fatal(err)
		}
		p.want(exit.OK, "resume", found[0])
		p.want(exit.OK, "verify", found[0])
	}
	if full < 2 {
		t.Errorf("there was no room %d times", full)
	}
}
