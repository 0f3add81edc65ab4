package main

import (
	"bufio"
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
)

//go:embed inspect_task.py
var inspectTask []byte

//go:embed smolagents_run.py
var smolagentsRun []byte

// A contender is a program that solves the tasks. Its folder, dir, is in the folder of the dataset.
type contender struct {
	name    string
	version string
	begin   func(dir, url string) program
	resume  func(dir, url string) (program, error)
	results string // where the result is, below dir
	answers func(dir string) (map[string]string, error)
}

// contenders returns those that are there, and notes about the others.
func (o options) contenders() (there []contender, skipped []string, err error) {
	there = []contender{{name: "gaia", version: o.commit, begin: o.beginGaia, resume: o.resumeGaia, results: "runs", answers: answersOfGaia}}
	for _, c := range []struct{ name, python, pack string }{
		{"Inspect", o.inspect, "inspect_ai"},
		{"smolagents", o.smolagents, "smolagents"},
	} {
		if c.python == "" {
			skipped = append(skipped, c.name)
			continue
		}
		version := fmt.Sprintf("import sys, %s, openai; print(%[1]s.__version__, 'with openai', openai.__version__, 'on Python', sys.version.split()[0])", c.pack)
		_, out, err := program{dir: o.work, args: []string{c.python, "-c", version}}.run() // compiles the package too
		if err != nil {
			return nil, nil, err
		}
		with := contender{name: c.name, version: strings.TrimSpace(out), results: "logs", begin: o.beginInspect, resume: o.resumeInspect, answers: o.answersOfInspect}
		if c.name == "smolagents" {
			with.results, with.begin, with.answers = "out.jsonl", o.runSmolagents, answersOfSmolagents
			with.resume = func(dir, url string) (program, error) { return o.runSmolagents(dir, url), nil }
		}
		there = append(there, with)
	}
	return there, skipped, nil
}

// metadata is the dataset's file, seen from a contender's folder.
const metadata = "../data/2023/validation/metadata.jsonl"

func (o options) gaiaArgs(verb, url string) []string {
	dataset := "--dataset"
	if _, help, err := (program{dir: o.work, args: []string{o.gaia, verb, "--help"}}).run(); err == nil && !strings.Contains(help, dataset) {
		dataset = "--source" // before decision 0118
	}
	return []string{o.gaia, verb, dataset, "dir:../data", "--base-url", url, "--prices", "../prices.json", "--concurrency", strconv.Itoa(o.concurrency)}
}

func (o options) beginGaia(dir, url string) program {
	return program{dir: dir, args: append(o.gaiaArgs("run", url), "--model", endpoint.Model, "--submit-intent")}
}

func (o options) resumeGaia(dir, url string) (program, error) {
	run, err := one(filepath.Join(dir, "runs", "*"))
	return program{dir: dir, args: append(o.gaiaArgs("resume", url), run)}, err
}

func answersOfGaia(dir string) (map[string]string, error) {
	run, err := one(filepath.Join(dir, "runs", "*"))
	if err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(run, "results.jsonl"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	answers := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var r struct {
			ID     string `json:"task_id"`
			Answer string `json:"model_answer"`
			Right  bool   `json:"official_correct"`
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, err
		}
		if r.Answer != "" {
			answers[r.ID] = fmt.Sprint(r.Answer, r.Right)
		}
	}
	return answers, nil
}

// quietInspect is the environment of Inspect: nothing on the terminal, and no other machine is asked.
var quietInspect = []string{"INSPECT_DISPLAY=none", "HF_HUB_OFFLINE=1"}

func (o options) beginInspect(dir, url string) program {
	n := strconv.Itoa(o.concurrency)
	return program{dir: dir, env: quietInspect, args: []string{o.inspect, "-m", "inspect_ai", "eval", "inspect_task.py", "-T", "metadata=" + metadata,
		"--model", "openai/" + endpoint.Model, "-M", "responses_api=false", "--model-base-url", url, "--max-connections", n, "--max-samples", n, "--log-dir", "logs"}}
}

func (o options) resumeInspect(dir, _ string) (program, error) {
	log, err := one(filepath.Join(dir, "logs", "*.eval"))
	n := strconv.Itoa(o.concurrency)
	return program{dir: dir, env: quietInspect, args: []string{o.inspect, "-m", "inspect_ai", "eval-retry", log,
		"--max-connections", n, "--max-samples", n, "--log-dir", "logs"}}, err
}

// answersOfInspect reads the newest log: their names begin with the time.
func (o options) answersOfInspect(dir string) (map[string]string, error) {
	logs, err := filepath.Glob(filepath.Join(dir, "logs", "*.eval"))
	if err != nil || len(logs) == 0 {
		return nil, fmt.Errorf("no log in %s, %v", dir, err)
	}
	_, out, err := program{dir: dir, env: quietInspect, args: []string{o.inspect, "inspect_task.py", logs[len(logs)-1]}}.run()
	if err != nil {
		return nil, err
	}
	return answerLines([]byte(out))
}

func (o options) runSmolagents(dir, url string) program {
	return program{dir: dir, env: []string{"HF_HUB_OFFLINE=1"},
		args: []string{o.smolagents, "smolagents_run.py", metadata, url, endpoint.Model, strconv.Itoa(o.concurrency), "out.jsonl"}}
}

func answersOfSmolagents(dir string) (map[string]string, error) {
	data, err := os.ReadFile(filepath.Join(dir, "out.jsonl"))
	if err != nil {
		return nil, err
	}
	return answerLines(data)
}

// answerLines reads what the scripts write, without lines that were cut.
func answerLines(data []byte) (map[string]string, error) {
	answers := map[string]string{}
	for line := range bytes.Lines(data) {
		var r struct {
			ID, Answer string
			Right      bool
		}
		if json.Unmarshal(line, &r) == nil && r.ID != "" {
			answers[r.ID] = fmt.Sprint(r.Answer, r.Right)
		}
	}
	return answers, nil
}

// scripts writes into a contender's folder what it needs.
func scripts(dir string) error {
	return cmp.Or(
		os.MkdirAll(filepath.Join(dir, "files"), 0o700),
		os.WriteFile(filepath.Join(dir, "inspect_task.py"), inspectTask, 0o600),
		os.WriteFile(filepath.Join(dir, "smolagents_run.py"), smolagentsRun, 0o600))
}
