package agentdir

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func place0(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestRead: every file is listed, hidden ones and those behind no link too, by content and not by time, and the list is the
// same wherever the folder is reached from.
func TestRead(t *testing.T) {
	agent := write(t, place0(t), map[string]string{"agent": "#!/bin/sh\n", "lib/b.py": "b", "lib/a.py": "", ".git/HEAD": "ref", "lib.py": "c"})
	if err := os.Chmod(filepath.Join(agent, "agent"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(agent, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	outside := write(t, place0(t), map[string]string{"secret": "gold", "x": "y"})
	for name, to := range map[string]string{"out": outside, "lib/self": "a.py"} {
		if err := os.Symlink(to, filepath.Join(agent, name)); err != nil {
			t.Fatal(err)
		}
	}
	other := write(t, place0(t), map[string]string{"site.py": "s"})
	folders, listed, err := Read(t.Context(), agent, []string{other})
	if err != nil {
		t.Fatal(err)
	}
	digest := func(text string) string { return canonical.Digest([]byte(text)) }
	first := strings.Join([]string{
		`{"bytes":3,"folder":0,"path":".git/HEAD","sha256":"` + digest("ref") + `"}`,
		`{"bytes":10,"executable":true,"folder":0,"path":"agent","sha256":"` + digest("#!/bin/sh\n") + `"}`,
		`{"bytes":1,"folder":0,"path":"lib.py","sha256":"` + digest("c") + `"}`,
		`{"bytes":0,"folder":0,"path":"lib/a.py","sha256":"` + digest("") + `"}`,
		`{"bytes":1,"folder":0,"path":"lib/b.py","sha256":"` + digest("b") + `"}`,
		`{"bytes":0,"folder":0,"link":"a.py","path":"lib/self"}`,
		`{"bytes":0,"folder":0,"link":"` + outside + `","path":"out"}`,
	}, "\n") + "\n"
	second := `{"bytes":1,"folder":1,"path":"site.py","sha256":"` + digest("s") + "\"}\n"
	if diff := cmp.Diff(first+second, string(listed)); diff != "" {
		t.Error(diff)
	}
	want := []plan.AgentFolder{{Bytes: 15, Files: 7, Path: agent, SHA256: digest(first)}, {Bytes: 1, Files: 1, Path: other, SHA256: digest(second)}}
	if diff := cmp.Diff(want, folders); diff != "" {
		t.Error(diff)
	}

	long := time.Unix(1, 0)
	if err := os.Chtimes(filepath.Join(agent, "lib.py"), long, long); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(place0(t), "link")
	if err := os.Symlink(agent, link); err != nil {
		t.Fatal(err)
	}
	again, twice, err := Read(t.Context(), link, []string{other + "/."})
	if err != nil || string(twice) != string(listed) || !cmp.Equal(again, folders) {
		t.Errorf("by a link: %v, %v, %s", err, again, twice)
	}

	write(t, agent, map[string]string{"lib/b.py": "B", "new.py": ""})
	if err := os.Remove(filepath.Join(agent, ".git/HEAD")); err != nil {
		t.Fatal(err)
	}
	_, now, err := Read(t.Context(), agent, []string{other})
	if got, want := Changes(listed, now), ".git/HEAD is missing, lib/b.py differs, new.py is new"; err != nil || got != want {
		t.Errorf("%v, %q, want %q", err, got, want)
	}
	if got := Changes(listed, listed); got != "" {
		t.Error(got)
	}
	if got, want := Changes(nil, listed), ".git/HEAD is new, agent is new, lib.py is new, lib/a.py is new, lib/b.py is new, and 3 further files"; got != want {
		t.Error(got)
	}
}

// TestReadRefuses: what cannot be listed as it is is refused, with the place and a hint.
func TestReadRefuses(t *testing.T) {
	fifo := write(t, place0(t), map[string]string{"agent": ""})
	if err := syscall.Mkfifo(filepath.Join(fifo, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	socket := place0(t)
	if l, err := net.Listen("unix", filepath.Join(socket, "s")); err == nil {
		defer l.Close()
	}
	named := place0(t)
	if err := os.WriteFile(filepath.Join(named, "\xff"), nil, 0o644); err != nil {
		t.Skip("this file system has UTF-8 names only:", err)
	}
	linked := place0(t)
	if err := os.Symlink("\xff", filepath.Join(linked, "link")); err != nil {
		t.Fatal(err)
	}
	good := write(t, place0(t), map[string]string{"agent": "", "lib/a": ""})
	large := place0(t)
	f, err := os.Create(filepath.Join(large, "model"))
	if err == nil {
		err = errors.Join(f.Truncate(plan.MaxAgentBytes+1), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		folder string
		others []string
		at     string
		want   string
	}{
		{fifo, nil, filepath.Join(fifo, "pipe"), "is neither a file, a folder nor a link"},
		{socket, nil, filepath.Join(socket, "s"), "is neither a file, a folder nor a link"},
		{named, nil, filepath.Join(named, "\xff"), "has a name that is not UTF-8"},
		{linked, nil, filepath.Join(linked, "link"), "points at a name that is not UTF-8"},
		{filepath.Join(good, "none"), nil, filepath.Join(good, "none"), "cannot be read: no such file or directory"},
		{filepath.Join(good, "agent"), nil, filepath.Join(good, "agent"), "is no folder"},
		{good, []string{good}, good, `is, holds or lies in "` + good + `", which it is given, too`},
		{good, []string{filepath.Join(good, "lib")}, filepath.Join(good, "lib"), `is, holds or lies in "` + good + `", which it is given, too`},
		{filepath.Join(good, "lib"), []string{good}, good, `is, holds or lies in "` + filepath.Join(good, "lib") + `", which it is given, too`},
		{"/", nil, "/", "lies where the sandbox has other files"},
		{"/proc/self", nil, "", "lies where the sandbox has other files"},
		{large, nil, large, "has, with what is listed before it, more than 2 GiB"},
		{good, []string{large}, large, "has, with what is listed before it, more than 2 GiB"},
	} {
		_, _, err := Read(t.Context(), tt.folder, tt.others)
		var refused *Error
		if !errors.As(err, &refused) || tt.at != "" && refused.Path != tt.at || refused.Reason != tt.want || refused.Hint == "" {
			t.Errorf("%s: %#v, want %q", tt.folder, err, tt.want)
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, _, err := Read(stopped, good, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

// TestCheckProgram: the program is in the folder and can be executed.
func TestCheckProgram(t *testing.T) {
	agent := write(t, place0(t), map[string]string{"agent": "", "bin/go": ""})
	if err := os.Chmod(filepath.Join(agent, "bin/go"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/usr/bin/python3", filepath.Join(agent, "python")); err != nil {
		t.Fatal(err)
	}
	_, listed, err := Read(t.Context(), agent, nil)
	if err != nil {
		t.Fatal(err)
	}
	for program, want := range map[string]string{"bin/go": "", "./bin//go": "", "python": "", "agent": "cannot be executed", "main": "is missing: it is the program that is run", "bin": "is missing: it is the program that is run"} {
		err := CheckProgram(agent, listed, program)
		var refused *Error
		if got := errors.As(err, &refused); got != (want != "") || got && (refused.Reason != want || refused.Hint == "") {
			t.Errorf("%s: %v, want %q", program, err, want)
		}
	}
}

// TestHidden: no folder holds or lies in what agents may not read.
func TestHidden(t *testing.T) {
	agent, secret := place0(t), place0(t)
	folders, link := []string{agent}, filepath.Join(place0(t), "link")
	if err := os.Symlink(agent, link); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		hidden []string
		want   string
	}{
		{[]string{secret}, ""},
		{[]string{secret, filepath.Join(agent, "runs")}, `holds "` + filepath.Join(agent, "runs") + `", which no agent may read`},
		{[]string{filepath.Join(link, "runs")}, `holds "` + filepath.Join(link, "runs") + `", which no agent may read`},
		{[]string{agent}, `holds "` + agent + `", which no agent may read`},
		{[]string{filepath.Dir(agent)}, `lies in "` + filepath.Dir(agent) + `", which no agent may read`},
		{[]string{agent + "-2"}, ""},
	} {
		err := checkHidden(folders, tt.hidden)
		var refused *Error
		if got := errors.As(err, &refused); got != (tt.want != "") || got && refused.Reason != tt.want {
			t.Errorf("%q: %v, want %q", tt.hidden, err, tt.want)
		}
	}
}

// BenchmarkRead lists a folder of 2,000 files of 8 KiB.
func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	for i := range 2000 {
		at := filepath.Join(dir, string(rune('a'+i%20)), strings.Repeat("f", 1+i/20))
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, make([]byte, 8<<10), 0o644)); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, _, err := Read(b.Context(), dir, nil); err != nil {
			b.Fatal(err)
		}
	}
}
