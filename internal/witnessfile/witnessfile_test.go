package witnessfile

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory/witness"
)

func TestDefaultPath(t *testing.T) {
	m := plan.New()
	m.RunID = "01J"
	for task, want := range map[string]string{"": "witness-01J", "3f2a": "3f2a.rvw", "a.b-c": "a.b-c.rvw"} {
		if got := defaultPath(m, task); got != want {
			t.Errorf("%q: %q", task, got)
		}
	}
	m.Rehearsal = true
	if got := defaultPath(m, ""); got != "witness-rehearsal-01J" {
		t.Errorf("of a rehearsal: %q", got)
	}
	if got := defaultPath(m, "../x"); strings.Contains(got, "/") {
		t.Errorf("an id that is no name: %q", got)
	}
}

// TestBundle reads a bundle and shows it: what it does not say is not claimed.
func TestBundle(t *testing.T) {
	calls, err := witness.EncodeTrace([]witness.Entry{{Action: "web_search", LatencyMs: 5, CostMicroUSD: 7, Tokens: 9}})
	if err != nil {
		t.Fatal(err)
	}
	data, err := witness.Bundle{Outcome: witness.Failed, ToolCalls: 1, Sections: []witness.Section{{Tag: witness.Trace, Value: calls}}}.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "a.rvw")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	w, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	rows := fmt.Sprint(Rows(w))
	for _, want := range []string{"[outcome failed]", "[signed no]", "no: question, diff and test log are not all there", "the bundle does not say", "1 tool call, 0 model calls retried"} {
		if !strings.Contains(rows, want) {
			t.Errorf("%q is not in %s", want, rows)
		}
	}
	if text := Sections(w); !strings.Contains(text, "trace, ") || !strings.Contains(text, "1. web_search, denied: ") && !strings.Contains(text, "1. web_search, allowed: ") {
		t.Errorf("%s", text)
	}
	text, err := replay(path, w, "not signed")
	if exit.Of(err).Code != exit.Findings || !strings.Contains(text, "6. outcome: failed; not checked: ") {
		t.Errorf("%v\n%s", err, text)
	}
	if j := NewJSON(w); j.Outcome != witness.Failed || len(j.Trace) != 1 || j.Trace[0].Tokens != 9 {
		t.Errorf("%+v", j)
	}
	if all, err := AllBundles([]string{path, dir}); err != nil || !all {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := AllBundles([]string{path, t.TempDir()}); exit.Of(err).Code != exit.Usage {
		t.Errorf("with a folder of none: %v", err)
	}
}

// TestVerifyAll: every file gets a line, and the code with precedence is that of the whole.
func TestVerifyAll(t *testing.T) {
	dir := t.TempDir()
	key, path := filepath.Join(dir, "key"), func(name string) string { return filepath.Join(dir, name+".rvw") }
	if err := os.WriteFile(key, bytes.Repeat([]byte("k"), 32), 0o600); err != nil {
		t.Fatal(err)
	}
	shared, err := keyring.Shared(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, by := range map[string]interface{ Sign([]byte) []byte }{"signed": shared, "unsigned": nil} {
		data, err := witness.Bundle{Outcome: witness.Failed}.Encode(by)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path(name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		names []string
		key   string
		code  int
		want  string // in the output
	}{
		{[]string{"signed"}, key, exit.OK, path("signed") + ": ok\n"},
		{[]string{"none", "unsigned", "signed"}, key, exit.Usage, "is not signed\n" + path("signed") + ": ok\n"},
		{[]string{"signed", "unsigned"}, key, exit.Evidence, ": ok\n" + path("unsigned")},
		{[]string{"signed"}, "", exit.Usage, ""},
		{[]string{"signed"}, path("none"), exit.Usage, ""},
	} {
		var out strings.Builder
		var paths []string
		for _, name := range c.names {
			paths = append(paths, path(name))
		}
		if code := exit.Print(io.Discard, VerifyAll(&out, paths, c.key)); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%q by %q: exit code %d\n%s", c.names, c.key, code, &out)
		}
	}
}
