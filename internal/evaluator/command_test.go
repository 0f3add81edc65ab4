//go:build unix

package evaluator

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/rundir"
)

// TestCommand: what a program prints is its verdict, and all that is none fails.
func TestCommand(t *testing.T) {
	event := rundir.RunEvent{ID: "01JAAAAAAAAAAAAAAAAAAAAAAA", TaskID: "fab1e001", ToolsUsed: []string{"web_search"}}
	line, err := canonical.Encode(event)
	if err != nil {
		t.Fatal(err)
	}
	got := filepath.Join(t.TempDir(), "got")
	for _, tt := range []struct {
		name, script string
		want         history.Evaluation
		fails        string
	}{
		{"passes", `echo '{"pass": true, "score": 0.5, "details": "half"}'`, history.Evaluation{Details: "half", Pass: true, Score: 0.5}, ""},
		{"passes, and says no more", `echo '{"pass":true}'`, history.Evaluation{Pass: true, Score: 1}, ""},
		{"fails", `echo '{"pass":false,"details":"no"}'`, history.Evaluation{Details: "no"}, ""},
		{"is given the event", `cat > ` + got + `; echo '{"pass":true}'`, history.Evaluation{Pass: true, Score: 1}, ""},
		{"reads nothing", `exec 0<&-; echo '{"pass":true}'`, history.Evaluation{Pass: true, Score: 1}, ""},
		{"has two variables", `env -u PWD -u SHLVL -u _ -u OLDPWD | sort | tr '\n' ' ' >&2; exit 1`, history.Evaluation{}, "exit status 1: HOME=/home PATH=" + os.Getenv("PATH")},
		{"exits with a verdict", `echo '{"pass":true}'; echo first >&2; echo last >&2; exit 3`, history.Evaluation{}, "exit status 3: last"},
		{"prints nothing", `:`, history.Evaluation{}, "it printed no verdict"},
		{"prints something", `echo yes`, history.Evaluation{}, "it printed no verdict"},
		{"prints two", `echo '{"pass":true}{"pass":true}'`, history.Evaluation{}, "it printed no verdict"},
		{"does not say", `echo '{"score":1}'`, history.Evaluation{}, "it printed no verdict"},
		{"says it otherwise", `echo '{"pass":"yes"}'`, history.Evaluation{}, "it printed no verdict"},
		{"says null", `echo '{"pass":null}'`, history.Evaluation{}, "it printed no verdict"},
		{"says it twice", `echo '{"pass":false,"pass":true}'`, history.Evaluation{}, "it printed no verdict"},
		{"says more", `echo '{"pass":true,"name":"other"}'`, history.Evaluation{}, "it printed no verdict"},
		{"scores too high", `echo '{"pass":true,"score":1.5}'`, history.Evaluation{}, "score 1.5 is not from 0 to 1"},
		{"scores too low", `echo '{"pass":true,"score":-1}'`, history.Evaluation{}, "score -1 is not from 0 to 1"},
		{"talks", `printf '{"pass":true,"details":"'; head -c 5000 /dev/zero | tr '\0' a; echo '"}'`, history.Evaluation{}, "longer than 4096 bytes"},
		{"floods", `yes`, history.Evaluation{}, "it printed more than 65536 bytes"},
		{"hangs", `echo waiting >&2; sleep 600`, history.Evaluation{}, "it took longer than 2s: waiting"},
		{"is killed", `kill -9 $$`, history.Evaluation{}, "signal: killed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := Command{Context: t.Context(), Label: "mine", Args: []string{"/bin/sh", "-c", tt.script}, Timeout: time.Minute, Environ: []string{"HOME=/home", "PATH=" + os.Getenv("PATH")}}
			if tt.name == "hangs" {
				c.Timeout = 2 * time.Second
			}
			e := c.Evaluate(event)
			if e.Name != "mine" {
				t.Errorf("it is called %q", e.Name)
			}
			e.Name = ""
			if tt.fails == "" && e != tt.want || tt.fails != "" && (e.Pass || e.Score != 0 || !strings.HasPrefix(e.Details, "failed: ") || !strings.Contains(e.Details, tt.fails)) {
				t.Errorf("%+v, want %+v or %q", e, tt.want, tt.fails)
			}
			if tt.name == "is given the event" {
				if b, err := os.ReadFile(got); err != nil || string(b) != string(line)+"\n" {
					t.Errorf("it got %q, %v", b, err)
				}
			}
		})
	}
	missing := Command{Context: t.Context(), Label: "mine", Args: []string{"/nowhere/at/all"}, Timeout: time.Minute}
	if e := missing.Evaluate(event); e.Pass || !strings.Contains(e.Details, "no such file") {
		t.Errorf("a program that is not there: %+v", e)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	stopped := Command{Context: ended, Label: "mine", Args: []string{"/bin/sh", "-c", `echo '{"pass":true}'`}, Timeout: time.Minute}
	if e := stopped.Evaluate(event); e.Pass {
		t.Errorf("after the end: %+v", e)
	}
}

// TestChildren: what a program starts does not outlive it.
func TestChildren(t *testing.T) {
	for name, script := range map[string]string{
		"ends":  `sleep 600 >/dev/null 2>&1 & echo $! > %s; echo '{"pass":true}'`,
		"hangs": `sleep 600 & echo $! > %s; wait`,
	} {
		file := filepath.Join(t.TempDir(), "pid")
		c := Command{Context: t.Context(), Label: "mine", Args: []string{"/bin/sh", "-c", fmt.Sprintf(script, file)}, Timeout: 2 * time.Second, Environ: []string{"PATH=" + os.Getenv("PATH")}}
		if e := c.Evaluate(rundir.RunEvent{}); e.Pass != (name == "ends") {
			t.Errorf("%s: %+v", name, e)
		}
		var pid int
		if b, err := os.ReadFile(file); err != nil {
			t.Fatal(err)
		} else if _, err := fmt.Sscan(string(b), &pid); err != nil {
			t.Fatal(err)
		}
		gone := func() bool { // a zombie is dead, too
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return syscall.Kill(pid, 0) == syscall.ESRCH || err == nil && strings.Contains(string(stat), ") Z ")
		}
		for range 500 {
			if gone() {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if !gone() {
			t.Errorf("%s: the process %d is there", name, pid)
		}
	}
}
