package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/judge"
)

// TestJudgeCheck: a judge is tried before there is a run, which then need not try
// it again.
func TestJudgeCheck(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	p.want(exitOK, "judge", "check", "--no-judge-cache")
	if out := p.want(exitOK, "judge", "cache", "stats"); !strings.Contains(out, "there is no judge cache yet") {
		t.Errorf("something was kept: %s", out)
	}
	out := p.want(exitOK, "judge", "check")
	for _, want := range []string{"gaia: rehearsal: a scripted judge", "thought-process", `":"`, "scripted-judge at builtin:scripted-judge: withstood the null battery; ", " in, "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if out := p.want(exitOK, "run", "--limit", "12"); !strings.Contains(out, "withstood the null battery in an earlier run") || !strings.Contains(out, "judged 3 of 3 (0 from the cache)") {
		t.Errorf("run says:\n%s", out)
	}
}

// TestJudgeCheckGullible: a judge that pays for nothing is named, with what it
// paid, and is known from then on.
func TestJudgeCheckGullible(t *testing.T) {
	t.Parallel()
	server, err := fixtures.Serve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	p := newProgram(t)
	if err := os.WriteFile(filepath.Join(p.dir, "gaia.yaml"), []byte("judge-model: "+fixtures.GullibleJudgeModel+"\nbase-url: "+server.ModelURL+"\nprices: prices.json\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "prices.json"), fixtures.Prices(), 0o644); err != nil {
		t.Fatal(err)
	}
	out := p.want(exitFindings, "judge", "check")
	for _, want := range []string{"did not withstand the null battery", "gaia: error: no verdict of this judge counts: it pays answers that say nothing, ", "gaia: hint: "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if out := p.want(exitOK, "judge", "cache", "stats"); !strings.Contains(out, "0 withstood, 1 paid") {
		t.Errorf("stats say:\n%s", out)
	}
	cmd := p.command("judge", "check", "--json")
	data, err := cmd.Output()
	if code := cmd.ProcessState.ExitCode(); code != exitFindings {
		t.Fatalf("exit code %d, %v", code, err)
	}
	var got judgeTrial
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	paid := 0
	for _, i := range got.Items {
		if i.Verdict == "correct" {
			paid++
		}
	}
	if paid < 20 || got.Withstood || len(got.Items) != len(judge.Battery()) || got.CostMicroUSD == nil || *got.CostMicroUSD == 0 || got.Battery != judge.BatteryDigest() || got.Rehearsal {
		t.Errorf("%s", data)
	}
	out = p.want(exitOK, "judge", "check", "--judge-model", fixtures.JudgeModel)
	if !strings.Contains(out, "scripted-judge at http://127.0.0.1:") {
		t.Errorf("a flag that is given does not win:\n%s", out)
	}
}

func TestJudgeCheckRefuses(t *testing.T) {
	t.Parallel()
	server, err := fixtures.Serve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--base-url " + server.ModelURL, exitUsage, "gaia: error: no judge is given\ngaia: hint: give --judge-model"},
		{"--judge-model m", exitUsage, "gaia: error: there is no key for api.openai.com\ngaia: hint: set OPENAI_API_KEY"},
		{"--judge-model m --base-url nowhere", exitUsage, `--base-url "nowhere" is no base URL`},
		{"--judge-model m --base-url https://a:b@judge.example/v1", exitUsage, "--base-url holds credentials"},
		{"--judge-model m --prices none.json --base-url " + server.ModelURL, exitUsage, `reading the price table "none.json"`},
		{"--judge-model= --base-url " + server.ModelURL, exitUsage, "--judge-model is empty"},
		{"extra", exitUsage, `takes no argument, not "extra"`},
		{"--judge-model no-such-judge --base-url " + server.ModelURL, exitFailure, "gaia: error: asking the judge: "},
	} {
		p := newProgram(t)
		out := p.want(c.code, append([]string{"judge", "check"}, strings.Fields(c.args)...)...)
		if !strings.Contains(out, c.want) {
			t.Errorf("%s: no %q in:\n%s", c.args, c.want, out)
		}
		if left, err := os.ReadDir(p.dir); err != nil || len(left) != 0 {
			t.Errorf("%s: it left %v, %v", c.args, left, err)
		}
	}
}
