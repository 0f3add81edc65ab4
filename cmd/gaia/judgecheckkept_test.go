package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/testkit/long"
)

// TestJudgeCheckKeepsNothing: what would keep the outcome from being kept is said
// before anything is asked, and --no-judge-cache goes round it.
func TestJudgeCheckKeepsNothing(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	u := newUmpire(t, "incorrect", func() {})
	for _, c := range []struct {
		name string
		env  string
		harm func(p program)
		code int
		want []string
	}{
		{"an entry of another user", "", func(p program) {
			for _, name := range p.entries() {
				if err := os.WriteFile(name, []byte(`{"schema":"gaia.null-battery/1"}`), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}, exit.Evidence, []string{"gaia: error: the stored result of an earlier self-test of this judge does not verify\ngaia: reason: ", ": not the canonical JSON of a judgment\n", "--no-judge-cache tests it without the cache"}},
		{"a directory that others can write to", "", func(p program) {
			if err := os.Chmod(p.judgments(), 0o777); err != nil {
				t.Fatal(err)
			}
		}, exit.Evidence, []string{"gaia: error: the judge cache ", " is a directory that others can write to\ngaia: hint: chmod 700 ", "--no-judge-cache tests it without the cache"}},
		{"a key that is none", "GAIA_SIGNING_KEY=none", nil, exit.Failure, []string{"gaia: error: reading GAIA_SIGNING_KEY: ", "hint: fix that, or give --no-judge-cache"}},
		{"no place", "HOME=", nil, exit.Failure, []string{"gaia: error: no place for the signing key", "--no-judge-cache"}},
	} {
		p := newProgram(t)
		p.want(exit.OK, u.check()...)
		if c.harm != nil {
			c.harm(p)
		}
		if c.env != "" {
			p.env = append(p.env, c.env)
		}
		before := u.asked.Load()
		out := p.want(c.code, u.check()...)
		wantAll(t, out, c.want...)
		if now := u.asked.Load(); now != before || strings.Contains(out, "putting") {
			t.Errorf("%s: the judge was asked:\n%s", c.name, out)
		}
		wantAll(t, p.want(exit.OK, u.check("--no-judge-cache")...), "passed its self-test")
	}
}

// TestJudgeCheckNotKept: an outcome that cannot be kept is shown all the same.
func TestJudgeCheckNotKept(t *testing.T) {
	t.Parallel()
	for verdict, code := range map[string]int{"incorrect": exit.OK, "correct": exit.Findings} {
		p := newProgram(t)
		u := newUmpire(t, verdict, func() {
			if err := errors.Join(os.RemoveAll(p.judgments()), os.WriteFile(p.judgments(), nil, 0o600)); err != nil {
				t.Error(err)
			}
		})
		out := p.want(code, u.check("--json")...)
		wantAll(t, out, "gaia: warning: the outcome is not kept: ", `"remembered":"",`, fmt.Sprintf(`"withstood":%v}`, code == exit.OK))
	}
}

// TestJudgeCheckStands: that a judge paid stands until it is taken away; that it
// withstood does not.
func TestJudgeCheckStands(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	u, p := newUmpire(t, "incorrect", func() {}), newProgram(t)
	wantAll(t, p.want(exit.OK, u.check("--json")...), `"remembered":""`, `"withstood":true`)
	u.reply.Store("perhaps")
	wantAll(t, p.want(exit.Findings, u.check("--json")...), `"remembered":"withstood"`, `"withstood":false`,
		"gaia: error: this judge failed its self-test: its reply to 26 of 26", "gaia: hint: runs use the earlier result, which it passed, until you delete it: rm "+p.judgments()+"/")
	u.reply.Store("correct")
	wantAll(t, p.want(exit.Findings, u.check("--json")...), `"remembered":"withstood"`, `"withstood":false`, "no verdict of this judge counts: it accepted")
	u.reply.Store("incorrect")
	for range 2 {
		wantAll(t, p.want(exit.Findings, u.check("--json")...), `"remembered":"paid"`, `"withstood":true`,
			"gaia: error: this judge failed an earlier self-test, and that result counts until its entry is deleted\ngaia: hint: rm "+p.judgments()+"/")
	}
	wantAll(t, p.want(exit.Findings, u.check()...), "umpire at "+u.URL+": passed its self-test; ", "counts until its entry is deleted")
	wantAll(t, p.want(exit.OK, u.check("--no-judge-cache", "--json")...), `"remembered":""`)
	if err := os.RemoveAll(p.judgments()); err != nil {
		t.Fatal(err)
	}
	wantAll(t, p.want(exit.OK, u.check("--json")...), `"remembered":""`)
	wantAll(t, p.want(exit.OK, u.check("--json")...), `"remembered":"withstood"`)
}

// TestJudgeCheckInterrupted: an interrupt ends it, and nothing is kept.
func TestJudgeCheckInterrupted(t *testing.T) {
	t.Parallel()
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		asked := make(chan struct{})
		u, p := newUmpire(t, "", func() { close(asked) }), newProgram(t)
		cmd := p.command(u.check()...)
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-asked
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exit.Interrupted {
			t.Errorf("%v: exit code %d, %v", s, cmd.ProcessState.ExitCode(), err)
		}
		wantAll(t, out.String(), "gaia: asking umpire at "+u.URL+" about 26 answers without content\n", "gaia: error: interrupted; nothing is kept of it\n")
		if kept := p.entries(); len(kept) != 0 {
			t.Errorf("%v: kept %v", s, kept)
		}
	}
}
