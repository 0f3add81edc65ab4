package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/testkit/long"
)

// archiveOf writes one file as if it were an archive's.
func archiveOf(t *testing.T, name, data string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "package.tar.gz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zipped := gzip.NewWriter(f)
	out := tar.NewWriter(zipped)
	date := time.Date(2031, 2, 3, 0, 0, 0, 0, time.UTC)
	if err := out.WriteHeader(&tar.Header{Name: name, Size: int64(len(data)), Mode: 0o644, ModTime: date}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(out, data); err != nil {
		t.Fatal(err)
	}
	for _, w := range []io.Closer{out, zipped} {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// TestHostileArchive: what an archive says of its files is quoted, and is never a
// place.
func TestHostileArchive(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for name, want := range map[string]string{
		"submission-2031-02-03-ABCDEFGH/\x1b[2J\x1b]0;owned\a": `gaia: error: "submission-2031-02-03-ABCDEFGH/\x1b[2J\x1b]0;owned\a": is not part of a package` + "\n",
		"submission-2031-02-03-ABCDEFGH/../../escaped":         `gaia: error: "submission-2031-02-03-ABCDEFGH/../../escaped": leads out of the package's folder` + "\n",
		"\x1b[31m/x": `gaia: error: "\x1b[31m/x": is not part of a package` + "\n",
	} {
		path := archiveOf(t, name, "")
		for _, args := range [][]string{{"verify", path}, {"audit", path}} {
			if code, stdout, stderr := command(t, args...); code != exit.Evidence || stdout != "" || stderr != want {
				t.Errorf("%q: exit code %d\n%s%s", args, code, stdout, stderr)
			}
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestWrongKinds: every command says what it was given instead of what it takes, and
// which commands take that.
func TestWrongKinds(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	p := newProgram(t)
	p.want(exit.OK, "run", "--limit", "1")
	for _, args := range [][]string{nil, {"--archive"}, {"--public"}} {
		p.want(exit.OK, append([]string{"submit", "--allow-dirty", "--date", "2031-02-03", p.runDir()}, args...)...)
	}
	p.want(exit.OK, "disclose", p.runDir(), "-o", "task.json")
	p.write("notes.tar.gz", "\x1f\x8bharbour")
	p.write("notes", "harbour")
	p.write("notes.zip", "PK\x03\x04harbour")
	p.write("notes.tar", strings.Repeat("\x00", 257)+"ustar\x00"+strings.Repeat("\x00", 249))
	p.write("empty", "")
	p.write("short.json", "{}")
	if err := errors.Join(os.Mkdir(filepath.Join(p.dir, "nothing"), 0o755), syscall.Mkfifo(filepath.Join(p.dir, "pipe"), 0o644)); err != nil {
		t.Fatal(err)
	}
	called := "submission-2031-02-03-" + filepath.Base(p.runDir())[18:] + "-dirty"
	const (
		packages = "packages are for 'gaia verify', 'gaia audit', 'gaia disclose' and 'gaia export'"
		files    = "evidence bundles are for 'gaia verify', and kept reports for 'gaia audit'"
		whole    = "ask for the package as 'gaia submit' wrote it, a folder or a .tar.gz"
		runs     = "run directories are in runs/"
		either   = "run directories are in runs/, packages by 'gaia submit'"
		anything = "give a run directory, a package, folder or archive, or an evidence bundle that 'gaia disclose' wrote"
		give     = "give a directory that 'gaia run' made, such as runs/01J…"
		decide   = "decide in the run directory and package it again with 'gaia submit'"
		public   = "use the run directory or the full package"
	)
	runOnly := [][]string{{"show"}, {"resume"}, {"submit"}, {"adjudicate", "--finding", "12345678", "--decision", "void", "--reason", "it was told"}}
	anyJournal := [][]string{{"disclose"}, {"export", "--format", "csv"}}
	for _, tt := range []struct {
		commands    [][]string
		given       string
		code        int
		says, hints string
	}{
		{runOnly[:3], called, exit.Usage, " is a package, not a run directory", packages},
		{runOnly[:3], called + "-public", exit.Usage, " is a package, not a run directory", packages},
		{runOnly[:3], called + ".tar.gz", exit.Usage, " is a compressed file, not a run directory", packages},
		{runOnly[:3], "notes.tar.gz", exit.Usage, " is a compressed file, not a run directory", packages},
		{runOnly[3:], called, exit.Usage, " is a package, not a run directory", decide},
		{runOnly[3:], called + ".tar.gz", exit.Usage, " is a compressed file, not a run directory", decide},
		{runOnly, "task.json", exit.Usage, " is a file, not a run directory", files},
		{runOnly, "pipe", exit.Usage, " is a file, not a run directory", files},
		{runOnly, "gone.tar.gz", exit.Usage, ": no such file or directory", runs},
		{runOnly, "nothing", exit.Usage, " is not a run directory: it has no manifest and no journal", give},
		{anyJournal, "task.json", exit.Usage, " is a file, not a run directory or package", files},
		{anyJournal, called + "-public", exit.Usage, " is a public package, whose journal is withheld", public},
		{append(anyJournal, []string{"audit"}), "notes.tar.gz", exit.Evidence, "notes.tar.gz: ends in the middle", ""},
		{append(anyJournal, []string{"audit"}), "gone.tar.gz", exit.Usage, ": no such file or directory", either},
		{[][]string{{"verify"}}, "gone.tar.gz", exit.Usage, ": no such file or directory", anything},
		{append(anyJournal, []string{"audit"}, []string{"verify"}), "nothing", exit.Usage, " is not a run directory or package: it has no manifest and no journal", give},
		{append(anyJournal, []string{"audit"}), "pipe", exit.Usage, " is a file, not a run directory or package", files},
		{[][]string{{"verify"}}, "notes.zip", exit.Evidence, "notes.zip: is a zip archive, and no evidence bundle", whole},
		{[][]string{{"verify"}}, "notes.tar", exit.Evidence, "notes.tar: is a tar archive, and no evidence bundle", whole},
		{[][]string{{"verify"}}, "notes", exit.Evidence, "notes: is not an evidence bundle", anything},
		{[][]string{{"verify"}}, "empty", exit.Evidence, "empty: is not an evidence bundle", anything},
		{[][]string{{"verify"}}, "short.json", exit.Evidence, "short.json: evidence bundle: not the canonical JSON of its type", anything},
		{[][]string{{"verify"}}, "pipe", exit.Usage, " is neither a directory nor a file", anything},
	} {
		for _, args := range tt.commands {
			code, stdout, stderr := command(t, append(args, filepath.Join(p.dir, tt.given))...)
			said, hint, _ := strings.Cut(strings.TrimSuffix(stderr, "\n"), "\n")
			if code != tt.code || stdout != "" || !strings.HasSuffix(strings.ReplaceAll(said, `"`, ""), tt.says) || strings.TrimPrefix(hint, "gaia: hint: ") != tt.hints {
				t.Errorf("%q of %s: exit code %d\n%s%s", args, tt.given, code, stdout, stderr)
			}
		}
	}
}

// TestUnreadableArchive: what cannot be read is called by its name, and no bundle.
func TestUnreadableArchive(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("SKIPPED: no file is closed to root")
	}
	path := archiveOf(t, "harbour", "")
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", path}, {"audit", path}, {"disclose", path}, {"export", "--format", "csv", path}} {
		want := "gaia: error: reading the archive " + strconv.Quote(path) + ": permission denied\ngaia: hint: check who owns the file or directory and its mode\n"
		if code, _, stderr := command(t, args...); code != exit.Failure || stderr != want {
			t.Errorf("%q: exit code %d\n%s", args, code, stderr)
		}
	}
}

// TestRenamedArchive: a package that is not for a leaderboard stays one in a folder
// of another name.
func TestRenamedArchive(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	p.want(exit.OK, "run", "--limit", "1")
	p.want(exit.OK, "submit", "--archive", "--allow-dirty", p.runDir())
	found, err := filepath.Glob(filepath.Join(p.dir, "submission-*-dirty.tar.gz"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	called := strings.TrimSuffix(filepath.Base(found[0]), ".tar.gz")
	renamed := filepath.Join(p.dir, "renamed")
	rename(t, found[0], renamed, called, strings.TrimSuffix(called, "-dirty"))
	for _, args := range [][]string{{"verify", renamed}, {"audit", renamed}, {"disclose", renamed}} {
		if out := p.want(exit.Evidence, args...); !strings.HasSuffix(out, `renamed: holds the folder "`+strings.TrimSuffix(called, "-dirty")+`", but its statement is that of "`+called+"\"\n") {
			t.Errorf("%q: %s", args, out)
		}
	}
	rename(t, found[0], renamed, called, called)
	p.want(exit.OK, "verify", renamed)
}

// rename writes an archive again, with another folder in it.
func rename(t *testing.T, from, to, old, called string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	unzipped, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zipped := gzip.NewWriter(f)
	out := tar.NewWriter(zipped)
	for r := tar.NewReader(unzipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		h.Name = called + strings.TrimPrefix(h.Name, old)
		if err := out.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(out, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(out.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
}

// spilling is an archive that is too much for memory.
func spilling(t *testing.T) string {
	t.Helper()
	data := make([]byte, 36<<20)
	noise := rand.NewChaCha8([32]byte{})
	for at := 0; at < len(data); at += 1 << 10 { // or it were a bomb
		noise.Read(data[at:][:64])
	}
	return archiveOf(t, "submission-2031-02-03-ABCDEFGH/events.jsonl", string(data))
}

// TestNoScratch: an archive that cannot be kept anywhere proves nothing.
func TestNoScratch(t *testing.T) {
	long.NotRaced(t)
	path := spilling(t)
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "gone"))
	code, stdout, stderr := command(t, "verify", path)
	if code != exit.Failure || stdout != "" || !strings.Contains(stderr, "no such file or directory\ngaia: hint: make room there, or name another directory by TMPDIR\n") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

// TestKilledWhilePacking kills gaia submit while it writes an archive: under the
// package's name there is nothing or all of it, and it can be packaged again.
func TestKilledWhilePacking(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	rounds := 8 / long.Step(3)
	p := newProgram(t)
	p.want(exit.OK, "run", "--submit-intent", "--limit", "3")
	dir, out, caught := p.runDir(), filepath.Join(p.dir, "out"), 0
	for range rounds {
		if err := os.RemoveAll(out); err != nil {
			t.Fatal(err)
		}
		cmd := p.command("submit", "--archive", "--date", "2031-02-03", "--out", out, dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			cmd.Wait() // it was killed, or not
		}()
		for packing(t, out) == nil && !isClosed(ended) {
		}
		if err := cmd.Process.Kill(); err != nil && !isClosed(ended) {
			t.Log(err) // it came to its end just now
		}
		<-ended
		entries, err := os.ReadDir(out)
		if err != nil {
			t.Fatal(err)
		}
		whole := ""
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".new-") {
				whole = filepath.Join(out, e.Name())
			}
		}
		if whole == "" {
			caught++
			p.want(exit.OK, "submit", "--archive", "--date", "2031-02-03", "--out", out, dir)
			continue
		}
		p.want(exit.OK, "verify", whole)
	}
	t.Logf("%d of %d were killed before the archive appeared", caught, rounds)
}

// packing returns the archives that are being written in a folder.
func packing(t *testing.T, out string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(out, ".new-*.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
