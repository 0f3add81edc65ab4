package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/doctor"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
)

// TestDoctorSettings: what run refuses is refused in its words, a flag that is wrong
// as a matter of usage and what makes no run as a finding.
func TestDoctorSettings(t *testing.T) {
	p := newPatient(t)
	for _, args := range [][]string{{"--limit", "0"}, {"--max-cost", "much"}, {"--max-task-cost", "much"}, {"--wait", "0s"}, {"--like", "x"}, {"--dry-run"}, {"--key", ""}, {"now"}} {
		if code, _, stderr := p.says(args...); code != exit.Usage {
			t.Errorf("%q: exit code %d\n%s", args, code, stderr)
		}
	}
	p.env["OPENAI_API_KEY"] = "sk-inventedInvented0123456789"
	found := p.findings()
	p.wants(found["settings"], doctor.Failed, "no model is given", "give --model")
	for _, name := range []string{"model key", "prices", "model", "judge", "transcription", "vision", "search", "dataset"} {
		p.wants(found[name], doctor.Unknown, "see settings", "")
	}
	flags := append(p.onDisk(), "--no-call")
	found = p.findings(append(flags, "--model", "gpt-4o-search-preview", "--submit-intent")...)
	p.wants(found["settings"], doctor.Failed, "which nothing records", "name another model")
	found = p.findings(append(flags, "--base-url", "models.example")...)
	p.wants(found["settings"], doctor.Failed, `--base-url "models.example" is not a base URL`, "give a URL")
	found = p.findings(append(flags, "--policy", filepath.Join(p.home, "none.yaml"))...)
	p.wants(found["settings"], doctor.Failed, "none.yaml", "")
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	p.write(policy, "mode: autonomous\ncommands: ["+p.env["OPENAI_API_KEY"]+"]\n", 0o644)
	p.wants(p.findings(append(flags, "--policy", policy)...)["settings"], doctor.Failed, "the plan would hold a secret in policy.commands[0]", "take it out")

	file := filepath.Join(t.TempDir(), "gaia.yaml")
	p.write(file, "model: other-model\nbase-url: http://127.0.0.1:9/v1\nno-call: true\n", 0o644)
	if code, _, stderr := p.says("--settings", file); code != exit.Usage || !strings.Contains(stderr, `there is no setting "no-call"`) {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	p.write(file, "model: other-model\nbase-url: http://127.0.0.1:9/v1\n", 0o644)
	p.env["HF_HUB_OFFLINE"] = "1"
	code, stdout, stderr := p.says("--settings", file, "--no-call", "--json")
	if code != exit.OK && code != exit.Findings || !strings.Contains(stdout, "other-model at http://127.0.0.1:9, tasks of hub") || !strings.Contains(stderr, "the endpoint is http://127.0.0.1:9") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	p.untouched()
}

// TestDoctorKeyAndPrices: no key for an endpoint elsewhere and a cost that no one
// can bound would end a run, and end in a finding before anybody is asked.
func TestDoctorKeyAndPrices(t *testing.T) {
	p := newPatient(t)
	flags := append(p.onDisk(), "--base-url", "https://models.example/v1")
	found := p.findings(flags...)
	p.wants(found["model key"], doctor.Failed, "there is no key for models.example", "set OPENAI_API_KEY")
	p.wants(found["model"], doctor.Unknown, "see model key", "")
	p.wants(found["prices"], doctor.OK, "table endpoint-2: "+endpoint.Model, "")
	p.wants(found["judge"], doctor.Missing, "the official verdict alone", "--judge-model")
	p.wants(found["search"], doctor.Missing, "not offered", "TAVILY_API_KEY")
	found = p.findings(append(flags, "--search", "tavily")...)
	p.wants(found["search"], doctor.Failed, "there is no key to search with tavily", "set TAVILY_API_KEY")
	p.wants(found["settings"], doctor.OK, "generated-model at https://models.example", "")
	p.wants(found["dataset"], doctor.OK, "1 of 1 task", "")
	p.wants(p.findings(append(flags, "--searxng-url", "http://searx.example/search")...)["search"], doctor.OK, "searxng at http://searx.example, not asked", "")

	p.env["OPENAI_API_KEY"], p.env["BRAVE_SEARCH_API_KEY"] = "sk-inventedInvented0123456789", "inventedInvented"
	flags = append(flags, "--no-call", "--model", "unpriced-model", "--judge-model", endpoint.Model, "--vision-model", "none", "--transcription-model", endpoint.Hearing)
	found = p.findings(flags...)
	p.wants(found["model key"], doctor.OK, "from OPENAI_API_KEY", "")
	p.wants(found["prices"], doctor.Failed, `the price of model "unpriced-model" is not known, so its cost cannot be bounded`, "--max-task-cost off")
	p.wants(found["model"], doctor.Unknown, "--no-call", "")
	p.wants(found["judge"], doctor.Unknown, "--no-call", "")
	p.wants(found["transcription"], doctor.Unknown, endpoint.Hearing+", not asked: --no-call", "")
	p.wants(found["vision"], doctor.OK, "left out", "")
	p.wants(found["search"], doctor.OK, "brave, with the key from BRAVE_SEARCH_API_KEY", "")
	found = p.findings(append(flags, "--max-task-cost", "off")...)
	p.wants(found["prices"], doctor.Missing, "no price of unpriced-model", "--prices FILE")
	found = p.findings(append(flags, "--max-task-cost", "off", "--max-cost", "5")...)
	p.wants(found["prices"], doctor.Failed, "--max-cost cannot be kept", "give its price")
	p.untouched()
}

// TestDoctorTape: answers that are replayed need no one; a recording is not
// recorded over, and none is begun.
func TestDoctorTape(t *testing.T) {
	p := newPatient(t)
	s, err := endpoint.Serve(endpoint.Config{Tasks: endpoint.Tasks{Count: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tape := filepath.Join(p.home, "tape")
	flags := append(p.onDisk(), "--base-url", s.URL)
	p.wants(p.findings(append(flags, "--cassette", "record:"+tape)...)["model"], doctor.OK, "calls tools", "")
	p.untouched()
	run := newProgram(t)
	empty := t.TempDir()
	for _, look := range []struct{ cassette, detail string }{
		{"replay:" + tape, "no such file or directory"},
		{"replay:" + empty, "nothing is recorded there"},
		{"record:" + filepath.Join(flags[3], "tape"), "not a directory"},
		{"record:/proc/tape", ""},
	} {
		for _, args := range [][]string{nil, flags} { // of a rehearsal, too
			args := append(slices.Clone(args), "--cassette", look.cassette)
			found := p.findings(args...)
			p.wants(found["settings"], doctor.Failed, "--cassette "+look.cassette+": ", "another directory with --cassette")
			p.wants(found["settings"], doctor.Failed, look.detail, "")
			p.wants(found["model"], doctor.Unknown, "see settings", "")
		}
		if refused := run.want(exit.Usage, "run", "--cassette", look.cassette); !strings.Contains(refused, "gaia: hint: name another directory with --cassette") {
			t.Errorf("run says:\n%s", refused)
		}
	}
	p.untouched()

	run.want(exit.OK, append(append([]string{"run"}, flags...), "--cassette", "record:"+tape)...)
	asked := s.Counts().Requests
	taped, err := filepath.Glob(filepath.Join(tape, "*.json"))
	if err != nil || len(taped) == 0 || len(taped) >= asked { // the preflight's requests are not on it
		t.Errorf("%d of %d requests are on the cassette, %v", len(taped), asked, err)
	}
	for _, file := range taped {
		if data, err := os.ReadFile(file); err != nil || bytes.Contains(data, []byte(prompt.PreflightTool)) || bytes.Contains(data, []byte(prompt.PreflightQuestion)) {
			t.Errorf("%s holds a request of the preflight, %v", file, err)
		}
	}
	p.wants(p.findings(append(flags, "--cassette", "replay:"+tape)...)["model"], doctor.OK, "no request is sent", "")
	p.wants(p.findings(append(flags, "--cassette", "record:"+tape)...)["settings"], doctor.Failed, "--cassette record:", "another directory")
	p.wants(p.findings("--cassette", "record:"+tape)["settings"], doctor.Failed, "holds a recording already", "another directory")
	if n := s.Counts().Requests; n != asked {
		t.Errorf("%d requests were made", n-asked)
	}
}
