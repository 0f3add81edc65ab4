package audit

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/sign"
)

// AdjudicationType is the DSSE payload type of an adjudication.
const AdjudicationType = "application/vnd.gaia-harness.adjudication+json"

const adjudicationSchema = "gaia.adjudication/1"

// MaxReason bounds the reason of a decision, in bytes.
const MaxReason = 2 << 10

// Ruling is what an adjudication says: the payload of its envelope, which the
// key of the run's plan signs. It is about one finding, of one finished run.
type Ruling struct {
	Check          string   `json:"check"`   // the finding's
	Created        string   `json:"created"` // trajectory.TimeFormat, by the clock of who decided
	Decision       Decision `json:"decision"`
	Events         int64    `json:"events"`  // lines of the run's journal
	Finding        string   `json:"finding"` // its id
	Head           string   `json:"head"`    // digest of the journal's last line
	ManifestSHA256 string   `json:"manifest_sha256"`
	Reason         string   `json:"reason"`
	Rehearsal      bool     `json:"rehearsal,omitzero"`
	RuleID         string   `json:"rule_id"` // the finding's
	RunID          string   `json:"run_id"`
	Schema         string   `json:"schema"`
	TaskID         string   `json:"task_id,omitzero"` // the finding's
}

// Adjudication is a signed decision about a finding.
type Adjudication struct {
	Ruling
	SHA256        string         // of the envelope
	Countersigned *Countersigner // nil: nobody did
}

// NewRuling returns the decision about a finding of a finished run. created is
// in trajectory.TimeFormat.
func NewRuling(run *ledger.Run, f Finding, d Decision, reason, created string) Ruling {
	return Ruling{Check: f.Check, Created: created, Decision: d, Events: run.End.Events, Finding: f.ID, Head: run.End.Head,
		ManifestSHA256: run.ManifestSHA256, Reason: reason, Rehearsal: run.Manifest.Rehearsal, RuleID: f.RuleID,
		RunID: run.Manifest.RunID, Schema: adjudicationSchema, TaskID: f.TaskID}
}

// Seal returns the adjudication: a DSSE envelope.
func (r Ruling) Seal(key sign.Key) ([]byte, error) {
	payload, err := sign.Canonical(r)
	if err != nil {
		return nil, err
	}
	return sign.Seal(key, AdjudicationType, payload)
}

// unsealAdjudication reads an envelope that decides about a finding of this run.
func unsealAdjudication(envelope []byte, run *ledger.Run) (Adjudication, error) {
	refuse := func(format string, args ...any) (Adjudication, error) {
		return Adjudication{}, fmt.Errorf(format, args...)
	}
	payload, err := sign.Unseal(envelope, AdjudicationType, run.Key)
	if err != nil {
		return refuse("%w", err)
	}
	var r Ruling
	if err := sign.Decode(payload, &r); err != nil {
		return refuse("its payload is %w", err)
	}
	switch {
	case r.Schema != adjudicationSchema:
		return refuse("schema is %q, not %q", r.Schema, adjudicationSchema)
	case r.RunID != run.Manifest.RunID || r.ManifestSHA256 != run.ManifestSHA256 || r.Rehearsal != run.Manifest.Rehearsal:
		return refuse("is about another run: %q", r.RunID)
	case r.Events != run.End.Events || r.Head != run.End.Head:
		return refuse("is about a journal of %d events with another head than this one of %d", r.Events, run.End.Events)
	case r.Decision != Void && r.Decision != Dismiss:
		return refuse("the decision is %q, not void or dismiss", r.Decision)
	case !isDigest(r.Finding):
		return refuse("the finding is %q, which is no digest", r.Finding)
	}
	if why := BadTime(run, r.Created); why != "" {
		return refuse("created is %s", why)
	}
	if why := BadReason(r.Reason); why != "" {
		return refuse("the reason %s", why)
	}
	return Adjudication{Ruling: r, SHA256: sign.Digest(envelope)}, nil
}

// BadReason says what is wrong with the form of a reason, "" if nothing is.
func BadReason(reason string) string {
	switch {
	case strings.TrimSpace(reason) == "":
		return "is empty"
	case len(reason) > MaxReason:
		return fmt.Sprintf("has %d bytes, more than %d", len(reason), MaxReason)
	case !utf8.ValidString(reason):
		return "is not UTF-8"
	case strings.ContainsFunc(reason, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }):
		return "holds a control character or a line break"
	}
	return ""
}

// Tells reports whether a text tells a gold answer, as the probes find it: its
// words or numerals; of fewer than four characters only behind a label.
func Tells(text, gold string) bool {
	return NewProber(Target{Gold: gold}).Probe(text, "", nil).GoldHits > 0
}

func isDigest(s string) bool {
	hex, found := strings.CutPrefix(s, "sha256:")
	return found && len(hex) == 64 && strings.Trim(hex, "0123456789abcdef") == ""
}
