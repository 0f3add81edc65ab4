package audit

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// CountersignatureType is the DSSE payload type of a countersignature.
const CountersignatureType = "application/vnd.gaia-harness.countersignature+json"

const (
	countersignatureSchema = "gaia.countersignature/1"
	countersignaturePrefix = "countersignature-"
)

// Countersignature is the payload of an envelope by which a second key agrees that a
// CRITICAL finding about one task is dismissed. The envelope is signed by PublicKey. The
// digest ties it to one decision, and so to its reason, run and journal.
type Countersignature struct {
	AdjudicationSHA256 string `json:"adjudication_sha256"` // of the decision's envelope
	Created            string `json:"created"`             // trajectory.TimeFormat, by the countersigner's clock
	Finding            string `json:"finding"`             // its id, as in the decision
	PublicKey          string `json:"public_key"`          // OpenSSH line
	RunID              string `json:"run_id"`
	Schema             string `json:"schema"`
}

// Countersigner says in a report who countersigned a decision.
type Countersigner struct {
	KeyID     string `json:"key_id"`
	PublicKey string `json:"public_key"` // OpenSSH line
	SHA256    string `json:"sha256"`     // of the envelope
}

// valid reports whether a report names a key by its id and its line. nil is valid.
func (c *Countersigner) valid() bool {
	if c == nil {
		return true
	}
	key, err := sign.ParsePublicKey(c.PublicKey)
	return err == nil && key.Line() == c.PublicKey && key.ID() == c.KeyID
}

// NewCountersignature returns the agreement of key to a decision. created is in
// trajectory.TimeFormat.
func NewCountersignature(a Adjudication, key sign.PublicKey, created string) Countersignature {
	return Countersignature{AdjudicationSHA256: a.SHA256, Created: created, Finding: a.Finding, PublicKey: key.Line(), RunID: a.RunID, Schema: countersignatureSchema}
}

// Seal returns the countersignature as a DSSE envelope. key is the one of PublicKey.
func (c Countersignature) Seal(key sign.Key) ([]byte, error) {
	payload, err := sign.Canonical(c)
	if err != nil {
		return nil, err
	}
	return sign.Seal(key, CountersignatureType, payload)
}

// CountersignatureFile returns the name of the countersignature's file in a run
// directory.
func (r Ruling) CountersignatureFile() string {
	return path.Join(AttestationsDir, strings.Replace(path.Base(r.File()), adjudicationPrefix, countersignaturePrefix, 1))
}

// SameSigner says why a key cannot countersign in a run, "" if it can: the key of the
// plan signed the decision.
func SameSigner(run *ledger.Run, key sign.PublicKey) string {
	if key.Equal(run.Key) {
		return "it is by the key of the run and its plan, which signed the decision"
	}
	return ""
}

// isCountersignature tells a countersignature from a decision by its payload type.
func isCountersignature(envelope []byte) bool {
	return bytes.Contains(envelope, []byte(`"payloadType":"`+CountersignatureType+`"`))
}

// countersigned reads the countersignature of decision a.
func (a Adjudication) countersigned(envelope []byte, run *ledger.Run) (*Countersigner, error) {
	var c Countersignature
	var key sign.PublicKey
	_, err := sign.UnsealBy(envelope, CountersignatureType, func(payload []byte) (sign.PublicKey, error) {
		if err := sign.Decode(payload, &c); err != nil {
			return key, fmt.Errorf("its payload is %w", err)
		}
		var err error
		if key, err = sign.ParsePublicKey(c.PublicKey); err != nil || key.Line() != c.PublicKey {
			return key, fmt.Errorf("its public_key is not one ssh-ed25519 key")
		}
		return key, nil
	})
	switch {
	case err != nil:
		return nil, err
	case c.Schema != countersignatureSchema:
		return nil, fmt.Errorf("schema is %q, not %q", c.Schema, countersignatureSchema)
	case c.AdjudicationSHA256 != a.SHA256 || c.Finding != a.Finding || c.RunID != a.RunID:
		return nil, fmt.Errorf("countersigns another decision than the one about finding %s", a.Finding)
	case a.Decision != Dismiss:
		return nil, fmt.Errorf("countersigns the decision %q, and only a dismissal can be countersigned", a.Decision)
	case a.Countersigned != nil:
		return nil, fmt.Errorf("is a second countersignature of one decision")
	}
	if why := BadTime(run, c.Created); why != "" {
		return nil, fmt.Errorf("created is %s", why)
	}
	if why := SameSigner(run, key); why != "" {
		return nil, fmt.Errorf("counts for nobody: %s", why)
	}
	return &Countersigner{KeyID: key.ID(), PublicKey: c.PublicKey, SHA256: sign.Digest(envelope)}, nil
}

// ClockSkew is how far two clocks may differ before their order counts.
const ClockSkew = 5 * time.Minute

// BadTime says what is wrong with the time of a signed record about a finished run, ""
// if nothing is: it is no time, or before the end of the run.
func BadTime(run *ledger.Run, created string) string {
	at, err := time.Parse(trajectory.TimeFormat, created)
	if err != nil || at.Format(trajectory.TimeFormat) != created {
		return fmt.Sprintf("%q, which is no time", created)
	}
	if end, err := time.Parse(trajectory.TimeFormat, run.CompletedAt()); err == nil && at.Before(end.Add(-ClockSkew)) {
		return fmt.Sprintf("%s, which is before the end of the run, %s", created, run.CompletedAt())
	}
	return ""
}

// appendDecision reads the next envelope of a list of decisions: a decision, or the
// countersignature of the decision before it.
func appendDecision(all []Adjudication, envelope []byte, run *ledger.Run) ([]Adjudication, error) {
	if !isCountersignature(envelope) {
		a, err := unsealAdjudication(envelope, run)
		return append(all, a), err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("countersigns a decision that is not there")
	}
	last := &all[len(all)-1]
	by, err := last.countersigned(envelope, run)
	last.Countersigned = by
	return all, err
}

// Trusting returns the report for a reader who trusts some keys: a CRITICAL finding is
// closed if its dismissal is countersigned by such a key. Checks, attestation and counts
// follow. Scores stay: [Rescore] computes them from the checks that are returned.
func (r Report) Trusting(trusts func(sign.PublicKey) bool) Report {
	r.Checks = cloneChecks(r.Checks)
	strict := true // no countersigned dismissal counts in a strict conclusion
	for _, a := range r.Adjudications {
		if a.Pending != PendingTrust {
			continue
		}
		if key, err := sign.ParsePublicKey(a.Countersigned.PublicKey); err != nil || !trusts(key) { // which is never an error in a report that was decoded
			continue
		}
		for i := range r.Checks {
			for j := range r.Checks[i].Findings {
				if f := &r.Checks[i].Findings[j]; f.ID == a.Finding {
					f.Closed, strict = Dismiss, false
				}
			}
			r.Checks[i].Status, r.Checks[i].Severity = r.Checks[i].conclude()
		}
	}
	r.Attestation, r.Totals = attest(r.Checks, r.Only), r.Totals.count(r.Checks)
	r.Attestation.StrictClean = r.Attestation.StrictClean && strict
	return r
}

// TrustAll trusts every key, for [Report.Trusting].
func TrustAll(sign.PublicKey) bool { return true }

// attest draws the conclusion of a report, in which no countersigned dismissal counts,
// and says whether the run is clean for a reader who trusts all countersigners.
func (r Report) attest() Attestation {
	a := attest(r.Checks, r.Only)
	a.CountersignedClean = !a.Clean && r.Trusting(TrustAll).Attestation.Clean
	return a
}

func cloneChecks(checks []CheckReport) []CheckReport {
	checks = slices.Clone(checks)
	for i := range checks {
		checks[i].Findings = slices.Clone(checks[i].Findings)
	}
	return checks
}

// Dismissal is a dismissal that counts, or counts for readers who trust the key that
// countersigned it.
type Dismissal struct {
	Adjudicated
	Of Finding
}

// Dismissals returns the dismissals of a report, in the order of their findings' ids.
func (r Report) Dismissals() (all []Dismissal) {
	for _, a := range r.Adjudications {
		if a.Decision != Dismiss || a.Unheard != "" || a.Pending == PendingCountersignature {
			continue
		}
		if f := r.finding(a.Finding); f != nil {
			all = append(all, Dismissal{a, *f})
		}
	}
	return all
}

// finding returns the finding of an id, nil if there is none.
func (r Report) finding(id string) *Finding {
	for _, c := range r.Checks {
		for i, f := range c.Findings {
			if f.ID == id {
				return &c.Findings[i]
			}
		}
	}
	return nil
}
