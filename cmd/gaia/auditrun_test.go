package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
)

// TestAuditBesides: what an audit is given besides the run is held against it, by
// digest, and named where it cannot be.
func TestAuditBesides(t *testing.T) {
	page := strings.Repeat("The almanac of makers, one to a line, with what each of them made and where it stands.\n", 60) + "Varn, Odile: tower clocks."
	c, err := runs.Parse("-- task fab1e1f0-0000-4000-8000-000000000031 --\nquestion: In which town did the clockmaker Odile Varn build the tower clock?\ngold: Brellin\n\n" +
		"-- patch tool_executed --\n{\"probes\":null}\n\n-- call web_fetch {\"url\":\"http://almanac.example/all\"} --\n" + page + "\n\n-- answer Brellin --\nThe almanac says so.\n")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	if err := c.Write(dir); err != nil {
		t.Fatal(err)
	}
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	whole, other, told := file("page.html", page), file("other.html", page+"."), file("usage.csv", "input_tokens,output_tokens\n1000,120\n")
	more, unread := file("more.csv", "input_tokens,output_tokens\n91000,120\n"), file("unread.csv", "colour,size\nred,3\n")

	tests := []struct {
		name   string
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{"nothing", nil, exit.Findings, "could not see", "could not see: AUD-1"},
		{"the page", []string{"--body", whole}, exit.OK, "clean", ""},
		{"the page, twice", []string{"--body", whole, "--body", whole}, exit.OK, "clean", ""},
		{"another page", []string{"--body", whole, "--body", other}, exit.Usage, "", "other.html\" is no document of this run"},
		{"no page", []string{"--body", whole + ".gone"}, exit.Failure, "", "no such file"},
		{"a folder", []string{"--body", dir}, exit.Failure, "", "it is not a regular file"},
		{"the export", []string{"--body", whole, "--usage-export", told}, exit.OK, "clean", ""},
		{"another export", []string{"--body", whole, "--usage-export", more}, exit.Findings, "AUD-13.totals-differ", "failed: AUD-13"},
		{"no export", []string{"--usage-export", unread}, exit.Usage, "", "the usage export"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := trusting(t, append([]string{"audit", dir}, tt.args...)...)
			if code != tt.code || !strings.Contains(stdout, tt.stdout) || !strings.Contains(stderr, tt.stderr) || tt.stdout == "" && stdout != "" {
				t.Errorf("exit code %d, want %d\n%s%s", code, tt.code, stdout, stderr)
			}
		})
	}
	// What no other audit of the run has leads to no command that has less.
	if _, stdout, _ := command(t, "audit", dir, "--body", whole, "--usage-export", more); strings.Contains(stdout, "\nto close ") || strings.Contains(stdout, "\nnext ") {
		t.Errorf("%s", stdout)
	}
	if _, stdout, _ := command(t, "audit", dir, "--body", whole); strings.Contains(stdout, "\nnext ") {
		t.Errorf("%s", stdout)
	}
	report := file("report.json", "")
	if code, stdout, _ := trusting(t, "audit", dir, "--json", "--body", whole, "--usage-export", told); code != exit.OK || os.WriteFile(report, []byte(stdout), 0o600) != nil {
		t.Fatal(code)
	}
	if code, _, stderr := command(t, "audit", report, "--body", whole); code != exit.Usage || !strings.Contains(stderr, "--body does not apply") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
