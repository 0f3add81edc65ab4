package audit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/fixtures/runs"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/trajectory"
)

// BenchmarkAudit verifies and audits a run of 40 tasks with 10 calls each, and
// beside it only verifies: what is left is the audit's own. Bytes are the
// journal's.
func BenchmarkAudit(b *testing.B) {
	var text strings.Builder
	for i := range 40 {
		fmt.Fprintf(&text, "-- task fab1e900-0000-4000-8000-%012d --\nquestion: In which year was lighthouse number %d of the coast of Orrin lit for the first time?\ngold: %d\n\n", i, i, 1800+i)
		for call := range 10 {
			fmt.Fprintf(&text, "-- call web_fetch {\"url\":\"http://almanac.example/%d/%d\"} --\n%s\n", i, call, strings.Repeat("A page about lights and the people who keep them. ", 80))
		}
		fmt.Fprintf(&text, "-- answer %d --\nAs the page says.\n\n", 1800+i)
	}
	c, err := runs.Parse(text.String())
	if err != nil {
		b.Fatal(err)
	}
	dir := filepath.Join(b.TempDir(), "run")
	if err := c.Write(dir); err != nil {
		b.Fatal(err)
	}
	journal, err := os.Stat(filepath.Join(dir, trajectory.JournalFile))
	if err != nil {
		b.Fatal(err)
	}
	gold := &audit.Gold{Answers: c.Gold(), Salt: c.Salt()}
	b.Run("audit", func(b *testing.B) {
		b.SetBytes(journal.Size())
		for b.Loop() {
			if r, _, err := audit.Run(os.DirFS(dir), audit.Options{Gold: gold}); err != nil || !r.Attestation.Clean {
				b.Fatal(err, r.Attestation)
			}
		}
	})
	b.Run("verify", func(b *testing.B) {
		b.SetBytes(journal.Size())
		for b.Loop() {
			if run, err := ledger.Verify(os.DirFS(dir), ledger.Options{}); err != nil || !run.Complete {
				b.Fatal(err)
			}
		}
	})
}
