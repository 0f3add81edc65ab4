package audit_test

import (
	"testing"

	"github.com/gaia-harness/gaia/fixtures/runs"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/trajectory"
)

// forged returns the files of a run with each line of its journal changed, and
// all that derives from it made and signed anew.
func forged(t *testing.T, files map[string][]byte, change func(runs.Line)) map[string][]byte {
	t.Helper()
	all, err := runs.Lines(files[trajectory.JournalFile])
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		change(l)
	}
	journal, err := runs.Chain(files[ledger.ManifestFile], all)
	if err != nil {
		t.Fatal(err)
	}
	key := runs.Key()
	out, err := runs.Forge(files, journal, &key)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
