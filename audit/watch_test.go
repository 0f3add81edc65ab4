package audit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/trajectory"
)

// told is what the watch says of a case, event by event, each check once.
func told(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	c := parsed(t, name, string(text))
	dir := filepath.Join(t.TempDir(), "run")
	if err := c.Write(dir); err != nil {
		t.Fatal(err)
	}
	m, _, _, err := ledger.ReadPlan(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	watch := audit.NewWatch(m, c.Gold())
	var said []string
	_, err = ledger.Verify(os.DirFS(dir), ledger.Options{Event: func(e trajectory.Event) error {
		if why := watch.Add(e); why != "" {
			said = append(said, why)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return said
}

// TestWatch: what one event shows is told with that event, in the words of the
// audit, and honest runs are left alone.
func TestWatch(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"AUD-01/fires-uuid-json.txt", "AUD-1 answer-leakage: the task's id with an answer beside it, from web_fetch (task fab1e101-"},
		{"AUD-01/fires-question-with-gold.txt", "AUD-1 answer-leakage: 1000 of 1000 of the question's text with the gold answer near it"},
		{"AUD-01/fires-class-a.txt", "AUD-1 answer-leakage: the task in a page of an answer source"},
		{"AUD-01/gap-unrecorded-channel.txt", "AUD-1 answer-leakage: an unrecorded channel in task fab1e101-"},
		{"AUD-02/gap-usage-unreported.txt", "AUD-2 no-work-pass: the provider reports no usage, or not of every reply"},
		{"AUD-03/fires-workspace.txt", "AUD-3 oracle-leakage: the start workspace holds the task's answer"},
		{"AUD-03/gap-no-attachment.txt", "AUD-3 oracle-leakage: the attachment of a task is not in the list of its start workspace"},
		{"AUD-04/fires-cache-sweep.txt", "AUD-4 grader-isolation: 2 of 7 entries of the judge cache do not verify"},
		{"AUD-01/near-question-without-gold.txt", ""},
		{"AUD-02/near-usage-of-some.txt", ""},
	} {
		said := told(t, tt.name)
		if tt.want == "" && len(said) > 0 || tt.want != "" && (len(said) == 0 || !strings.HasPrefix(said[0], tt.want)) {
			t.Errorf("%s: told %q, want %q", tt.name, said, tt.want)
		}
	}
	paths, err := filepath.Glob(filepath.Join("testdata", "honest", "*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d honest cases, %v", len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimPrefix(filepath.ToSlash(path), "testdata/")
		if said := told(t, name); len(said) > 0 {
			t.Errorf("%s: told %q", name, said)
		}
	}
}
