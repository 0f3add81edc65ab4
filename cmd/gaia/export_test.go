package main

import (
	"archive/zip"
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/submit"
	"github.com/go-json-experiment/json"
)

// TestExportVoid: what an adjudication made void has no answer for the
// leaderboard, whether it is exported from the run or from its package, and counts
// wrong for the others.
func TestExportVoid(t *testing.T) {
	k := newKeeper(t, decidable)
	if code, _, stderr := k.decide(k.id(t, leakRule), audit.Void); code != exit.OK {
		t.Fatal(stderr)
	}
	if code, _, stderr := k.command("submit", k.dir, "--out", k.home, "--date", "2031-02-03", "--allow-dirty"); code != exit.OK {
		t.Fatal(stderr)
	}
	packages, err := filepath.Glob(filepath.Join(k.home, "submission-*"))
	if err != nil || len(packages) != 1 {
		t.Fatal(packages, err)
	}
	want, err := os.ReadFile(filepath.Join(packages[0], submit.LeaderboardFile))
	if err != nil {
		t.Fatal(err)
	}
	var tables, logs, written []string
	for i, dir := range []string{k.dir, packages[0]} {
		code, lines, stderr := k.command("export", dir, "--format", "leaderboard")
		if code != exit.OK || lines != string(want) || !strings.Contains(lines, `{"model_answer":"","reasoning_trace":"The record says so.","task_id":"`+leakTask+`"}`) {
			t.Errorf("exit code %d\n%s\n%s", code, lines, stderr)
		}
		if !strings.Contains(stderr, "gaia: void: 1 task by adjudication\n") {
			t.Errorf("nothing says that a task is void: %s", stderr)
		}
		code, table, _ := k.command("export", dir, "--format", "csv")
		rows, err := csv.NewReader(strings.NewReader(table)).ReadAll()
		if code != exit.OK || err != nil || len(rows) != 4 || !slices.Contains(rows[0], "void") || rows[1][slices.Index(rows[0], "void")] != "true" || rows[2][slices.Index(rows[0], "void")] != "false" {
			t.Errorf("exit code %d, %v\n%s", code, err, table)
		}
		log := filepath.Join(k.home, []string{"run.eval", "package.eval"}[i])
		if code, stdout, stderr := k.command("export", dir, "--format", "inspect", "-o", log); code != exit.OK || stdout != "" || !strings.Contains(stderr, "gaia: wrote "+log+"\n") {
			t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
		}
		data, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		tables, logs, written = append(tables, table), append(logs, log), append(written, string(data))
	}
	if tables[0] != tables[1] || written[0] != written[1] {
		t.Errorf("the run gives another log or table than its package:\n%s\n%s", tables[0], tables[1])
	}
	for _, log := range logs {
		if got := accuracy(t, log); got != 1.0/3 {
			t.Errorf("%s: the accuracy is %v", log, got)
		}
	}
}

// accuracy reads the official one from a log of Inspect.
func accuracy(t *testing.T, path string) float64 {
	t.Helper()
	z, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	f, err := z.Open("header.json")
	if err != nil {
		t.Fatal(err)
	}
	var header struct {
		Results struct {
			Scores []struct {
				Metrics map[string]struct {
					Value float64 `json:"value"`
				} `json:"metrics"`
				Name string `json:"name"`
			} `json:"scores"`
		} `json:"results"`
	}
	if err := json.UnmarshalRead(f, &header); err != nil || len(header.Results.Scores) == 0 || header.Results.Scores[0].Name != "official" {
		t.Fatal(header, err)
	}
	return header.Results.Scores[0].Metrics["accuracy"].Value
}

// TestPrinting: on a terminal no text of a run steers it.
func TestPrinting(t *testing.T) {
	var out strings.Builder
	line := "{\"a\":\"\u009b31m\"}\n"
	if n, err := (printing{&out}).Write([]byte(line)); n != len(line) || err != nil || out.String() != "{\"a\":\"\\u009b31m\"}\n" {
		t.Errorf("%d, %v: %q", n, err, out.String())
	}
}
