package audit_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
)

// TestPending: the dismissal of a CRITICAL finding closes nothing in a report, with a
// countersignature or without; trust in the countersigner closes it.
func TestPending(t *testing.T) {
	dir, o := leaks(t)
	before, f, run := found(t, dir, o)
	ruling := audit.NewRuling(run, f, audit.Dismiss, "the page is the task's own source", decidedAt)
	envelope, err := ruling.Seal(runs.Key())
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, data []byte) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, audit.AttestationsDir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(ruling.File(), envelope)
	pending, open, _ := found(t, dir, o)
	if d := pending.Adjudications[0]; d.Pending != audit.PendingCountersignature || d.Unheard != "" || d.Countersigned != nil || open.Closed != "" ||
		pending.Attestation.CountersignedClean || pending.Trusting(audit.TrustAll).Attestation.Clean || len(pending.Dismissals()) != 0 {
		t.Errorf("%+v, %+v", d, pending.Attestation)
	}
	key, err := sign.NewKey(rand.NewChaCha8([32]byte{'s', 'e', 'c', 'o', 'n', 'd'}))
	if err != nil {
		t.Fatal(err)
	}
	second, err := audit.NewCountersignature(audit.Adjudication{Ruling: ruling, SHA256: canonical.Digest(envelope)}, key.Public(), decidedAt).Seal(key)
	if err != nil {
		t.Fatal(err)
	}
	write(ruling.CountersignatureFile(), second)
	signed, open, _ := found(t, dir, o)
	want := audit.Countersigner{KeyID: key.Public().ID(), PublicKey: key.Public().Line(), SHA256: canonical.Digest(second)}
	if d := signed.Adjudications[0]; d.Pending != audit.PendingTrust || d.Countersigned == nil || *d.Countersigned != want || open.Closed != "" ||
		signed.Attestation.Clean || !signed.Attestation.CountersignedClean || signed.Totals != withRates(before.Totals, signed.Totals) {
		t.Errorf("%+v, %+v, %+v", d, signed.Attestation, signed.Totals)
	}
	if _, err := audit.DecodeReport(encoded(t, signed)); err != nil {
		t.Error(err)
	}
	trusting := signed.Trusting(key.Public().Equal)
	if !trusting.Attestation.Clean || trusting.Attestation.StrictClean || trusting.Totals.Closed != 1 || signed.Trusting(run.Key.Equal).Attestation.Clean {
		t.Errorf("%+v, %+v", trusting.Attestation, trusting.Totals)
	}
	all, err := audit.ReadAdjudications(os.DirFS(dir), run)
	if err != nil || len(all) != 1 || !signed.Follows(all) || signed.Follows(nil) || trusting.Follows(all) || pending.Follows(all) {
		t.Errorf("%+v, %v", all, err)
	}
	for what, change := range map[string]func(*audit.Report){
		"closed":            func(r *audit.Report) { *r = trusting },
		"nothing pending":   func(r *audit.Report) { r.Adjudications[0].Pending = "" },
		"pending otherwise": func(r *audit.Report) { r.Adjudications[0].Pending = audit.PendingCountersignature },
		"no countersigner":  func(r *audit.Report) { r.Adjudications[0].Countersigned = nil },
		"by another's id": func(r *audit.Report) {
			r.Adjudications[0].Countersigned = &audit.Countersigner{KeyID: run.Key.ID(), PublicKey: want.PublicKey, SHA256: want.SHA256}
		},
		"by no key": func(r *audit.Report) {
			r.Adjudications[0].Countersigned = &audit.Countersigner{KeyID: want.KeyID, SHA256: want.SHA256}
		},
		"no input":             func(r *audit.Report) { r.Inputs.Countersignatures = nil },
		"clean":                func(r *audit.Report) { r.Attestation.Clean = true },
		"not clean if trusted": func(r *audit.Report) { r.Attestation.CountersignedClean = false },
	} {
		changed, err := audit.DecodeReport(encoded(t, signed))
		if err != nil {
			t.Fatal(err)
		}
		change(&changed)
		if _, err := audit.DecodeReport(encoded(t, changed)); err == nil {
			t.Errorf("%s: it is accepted", what)
		}
	}
}

// withRates returns totals with the scores of others, which are pointers.
func withRates(t, of audit.Totals) audit.Totals {
	t.Clean, t.Raw, t.Worst, t.Judge, t.Prompts = of.Clean, of.Raw, of.Worst, of.Judge, of.Prompts
	return t
}
