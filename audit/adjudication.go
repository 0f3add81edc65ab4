package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
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
	Countersigned *Countersigner // nil: it has no countersignature
}

// NewRuling returns the decision about a finding of a finished run. created is
// in trajectory.TimeFormat.
func NewRuling(run *rundir.Run, f Finding, d Decision, reason, created string) Ruling {
	return Ruling{Check: f.Check, Created: created, Decision: d, Events: run.End.Events, Finding: f.ID, Head: run.End.Head,
		ManifestSHA256: run.ManifestSHA256, Reason: reason, Rehearsal: run.Manifest.Rehearsal, RuleID: f.RuleID,
		RunID: run.Manifest.RunID, Schema: adjudicationSchema, TaskID: f.TaskID}
}

// Seal returns the adjudication: a DSSE envelope.
func (r Ruling) Seal(key sign.Key) ([]byte, error) {
	return seal(key, AdjudicationType, r)
}

// seal returns a DSSE envelope over the canonical form of a value.
func seal(key sign.Key, payloadType string, value any) ([]byte, error) {
	payload, err := canonical.Encode(value)
	if err != nil {
		return nil, err
	}
	return sign.Seal(key, payloadType, payload)
}

// unsealAdjudication reads an envelope that decides about a finding of this run.
func unsealAdjudication(envelope []byte, run *rundir.Run) (Adjudication, error) {
	refuse := func(format string, args ...any) (Adjudication, error) {
		return Adjudication{}, fmt.Errorf(format, args...)
	}
	payload, err := sign.Unseal(envelope, AdjudicationType, run.Key)
	if err != nil {
		return refuse("%w", err)
	}
	var r Ruling
	if err := canonical.Decode(payload, &r); err != nil {
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
	case !canonical.IsDigest(r.Finding):
		return refuse("the finding is %q, which is no digest", r.Finding)
	}
	if why := BadTime(run, r.Created); why != "" {
		return refuse("created is %s", why)
	}
	if why := BadReason(r.Reason); why != "" {
		return refuse("the reason %s", why)
	}
	return Adjudication{Ruling: r, SHA256: canonical.Digest(envelope)}, nil
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
	return probe.New(probe.Target{Gold: gold}).Probe(text, "", nil).GoldHits > 0
}

// Decision is what was decided about a finding.
type Decision string

// The decisions. A finding about one task is closed by voiding the task, which
// then counts wrong in every score. A HIGH one may be dismissed. The dismissal of a
// CRITICAL one about one task closes it only for readers who trust the key that
// countersigned the dismissal. A CRITICAL about the whole run cannot be closed.
const (
	Void    Decision = "void"
	Dismiss Decision = "dismiss"
)

// What the dismissal of a CRITICAL finding waits for. The finding is open in the
// report.
const (
	PendingCountersignature = "countersignature" // by another key
	PendingTrust            = "trust"            // of a reader in the key that countersigned; see [Report.Trusting]
)

// Adjudicated is an adjudication in a report.
type Adjudicated struct {
	Countersigned *Countersigner `json:"countersigned,omitzero"` // nil: by no other key
	Decision      Decision       `json:"decision"`
	Finding       string         `json:"finding"`          // id of the finding
	Pending       string         `json:"pending,omitzero"` // what it waits for; left out: nothing
	Reason        string         `json:"reason"`
	SHA256        string         `json:"sha256"`           // of the envelope
	Unheard       string         `json:"unheard,omitzero"` // why it closes nothing
}

// Refuses says why a decision cannot close a finding, "" if it can.
func (d Decision) Refuses(f Finding) string {
	switch {
	case f.Severity == Info:
		return "an INFO finding is a note, and keeps nothing open"
	case d == Void && f.TaskID == "":
		return "a finding about the whole run has no task that could be void"
	case d == Dismiss && f.Severity == Critical && f.TaskID == "":
		return "a CRITICAL finding about the whole run cannot be dismissed"
	case d == Dismiss && f.Severity != High && f.Severity != Critical:
		return "only a HIGH or CRITICAL finding can be dismissed, and this one is " + string(f.Severity)
	case d != Void && d != Dismiss:
		return "the decisions are void and dismiss"
	}
	return ""
}

// refuses says why an adjudication cannot close the finding that it names, "" if
// it can.
func (a Adjudication) refuses(f Finding) string {
	if a.Check != f.Check || a.RuleID != f.RuleID || a.TaskID != f.TaskID {
		return "it says of the finding another check, rule or task than the finding does"
	}
	return a.Decision.Refuses(f)
}

// pending says what an adjudication that can close a finding waits for, "" if it closes
// the finding for every reader.
func (a Adjudication) pending(f Finding) string {
	switch {
	case a.Decision != Dismiss || f.Severity != Critical:
		return ""
	case a.Countersigned == nil:
		return PendingCountersignature
	}
	return PendingTrust
}

// adjudicate closes the findings that were decided about.
func (r *Report) adjudicate(all []Adjudication) {
	all = slices.SortedFunc(slices.Values(all), func(a, b Adjudication) int { return strings.Compare(a.Finding, b.Finding) })
	for _, a := range all {
		told := Adjudicated{Countersigned: a.Countersigned, Decision: a.Decision, Finding: a.Finding, Reason: a.Reason, SHA256: a.SHA256, Unheard: "this audit has no such finding"}
		for i := range r.Checks {
			for j := range r.Checks[i].Findings {
				f := &r.Checks[i].Findings[j]
				if f.ID != a.Finding {
					continue
				}
				if told.Unheard = a.refuses(*f); told.Unheard != "" {
					continue
				}
				if told.Pending = a.pending(*f); told.Pending == "" {
					f.Closed = a.Decision
				}
			}
			r.Checks[i].Status, r.Checks[i].Severity = r.Checks[i].conclude()
		}
		r.Adjudications = append(r.Adjudications, told)
		r.Inputs.Adjudications = append(r.Inputs.Adjudications, a.SHA256)
		if a.Countersigned != nil {
			r.Inputs.Countersignatures = append(r.Inputs.Countersignatures, a.Countersigned.SHA256)
		}
	}
}

// Follows reports whether exactly these adjudications, applied to the findings, give
// what the report says was decided. What it concludes from that, DecodeReport
// has checked.
func (r Report) Follows(all []Adjudication) bool {
	again := r
	again.Adjudications, again.Inputs.Adjudications, again.Inputs.Countersignatures = nil, nil, nil
	again.Checks = cloneChecks(r.Checks)
	for i := range again.Checks {
		c := &again.Checks[i]
		for j := range c.Findings {
			c.Findings[j].Closed = ""
		}
		c.Status, c.Severity = c.conclude()
	}
	again.adjudicate(all)
	want, err := again.Encode()
	if err != nil {
		return false
	}
	got, err := r.Encode()
	return err == nil && bytes.Equal(got, want)
}

// Voided returns the tasks that an adjudication made void.
func Voided(checks []CheckReport) map[string]bool {
	void := map[string]bool{}
	for _, c := range checks {
		for _, f := range c.Findings {
			if f.Closed == Void {
				void[f.TaskID] = true
			}
		}
	}
	return void
}

// Where adjudications are kept: in a run directory each in a separate file
// below AttestationsDir, in a package all of them in AdjudicationsFile, an
// envelope a line, by the ids of their findings. A countersignature is an envelope,
// too, and follows its decision.
const (
	AttestationsDir   = "attestations"
	AdjudicationsFile = "adjudications.jsonl"
)

// Limits, in bytes, of one adjudication and of all in a package. A reason of 2 KiB
// makes an envelope of some 8 KiB.
const (
	maxAdjudication  = 64 << 10
	MaxAdjudications = 32 << 20
)

// maxAttestations bounds the adjudications of a run, and its later judgments, in bytes.
const maxAttestations = 32 << 20

const (
	adjudicationPrefix = "adjudication-"
	attestationSuffix  = ".dsse.json"
)

// File returns the name of the adjudication's file in a run directory.
func (r Ruling) File() string {
	hex := strings.TrimPrefix(r.Finding, "sha256:")
	return path.Join(AttestationsDir, adjudicationPrefix+hex[:min(16, len(hex))]+attestationSuffix)
}

// CollectAdjudications reads the adjudications of a run directory and their
// countersignatures as they are: the names of their files, in the order of a package's
// lines, and their envelopes. A file of an adjudication's name that cannot be one is a
// *trajectory.Fault; files of other names are passed over.
func CollectAdjudications(dir fs.FS) (files []string, envelopes [][]byte, err error) {
	files, envelopes, err = collect(dir, adjudicationPrefix, "an adjudication", maxAdjudication)
	if err != nil {
		return nil, nil, err
	}
	named, sealed, err := collect(dir, countersignaturePrefix, "a countersignature", maxAdjudication)
	for i, name := range named {
		hex := strings.TrimPrefix(path.Base(name), countersignaturePrefix)
		at := len(files)
		for j, file := range files {
			if _, other, _ := strings.Cut(path.Base(file), "-"); other > hex {
				at = j
				break
			}
		}
		files, envelopes = slices.Insert(files, at, name), slices.Insert(envelopes, at, sealed[i])
	}
	return files, envelopes, err
}

// collect reads the attestations of a run directory whose names have a prefix.
func collect(dir fs.FS, prefix, kind string, limit int64) (files []string, envelopes [][]byte, err error) {
	info, err := fs.Lstat(dir, AttestationsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", AttestationsDir, err)
	}
	if !info.IsDir() {
		return nil, nil, trajectory.Faultf(AttestationsDir, "is not a directory")
	}
	entries, err := fs.ReadDir(dir, AttestationsDir)
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", AttestationsDir, err)
	}
	named, whole := regexp.MustCompile(`^[0-9a-f]{16}$`), 0
	for _, e := range entries {
		rest, is := strings.CutPrefix(e.Name(), prefix)
		hex, ends := strings.CutSuffix(rest, attestationSuffix)
		if !is || !ends {
			continue
		}
		name := path.Join(AttestationsDir, e.Name())
		if !named.MatchString(hex) {
			return nil, nil, trajectory.Faultf(fmt.Sprintf("%q", name), "is not the name of %s", kind)
		}
		envelope, err := rundir.ReadFile(dir, name, limit)
		if err != nil {
			return nil, nil, err
		}
		if bytes.ContainsRune(envelope, '\n') {
			return nil, nil, trajectory.Faultf(name, "holds more than one line")
		}
		if whole += len(envelope); whole > maxAttestations {
			return nil, nil, trajectory.Faultf(AttestationsDir, "holds more than %d bytes of %s files", maxAttestations, strings.TrimSuffix(prefix, "-"))
		}
		files, envelopes = append(files, name), append(envelopes, envelope)
	}
	return files, envelopes, nil
}

// ReadAdjudications reads the adjudications of a run directory, by the ids of
// their findings. One that the key of the plan did not sign, that is about
// another run or another journal, or that has not the name of its finding is a
// *trajectory.Fault.
func ReadAdjudications(dir fs.FS, run *rundir.Run) ([]Adjudication, error) {
	files, envelopes, err := CollectAdjudications(dir)
	if err != nil {
		return nil, err
	}
	var all []Adjudication
	for i, name := range files {
		if all, err = appendDecision(all, envelopes[i], run); err != nil {
			return nil, trajectory.Faultf(name, "%v", err)
		}
		a := all[len(all)-1]
		switch countersigns := isCountersignature(envelopes[i]); {
		case countersigns && name != a.CountersignatureFile():
			return nil, trajectory.Faultf(name, "countersigns the decision about finding %s, which its name is not of", a.Finding)
		case !countersigns && name != a.File():
			return nil, trajectory.Faultf(name, "decides about finding %s, which its name is not of", a.Finding)
		}
	}
	return all, nil
}

// DecodeAdjudications reads the file of adjudications in a package. Anything but
// good ones about this run, one a finding and in the order of the findings' ids, each
// with its countersignature behind it, is a *trajectory.Fault.
func DecodeAdjudications(data []byte, run *rundir.Run) ([]Adjudication, error) {
	var all []Adjudication
	err := eachEnvelope(AdjudicationsFile, data, func(envelope []byte) error {
		before, err := len(all), error(nil)
		if all, err = appendDecision(all, envelope, run); err != nil {
			return err
		}
		if before > 0 && len(all) > before && all[before-1].Finding >= all[before].Finding {
			return errors.New("is not in the order of the findings' ids, each once")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// eachEnvelope calls visit with each line of a file of envelopes, which has at least
// one. What visit returns, and a line without its end, is a *trajectory.Fault.
func eachEnvelope(file string, data []byte, visit func(envelope []byte) error) error {
	n := int64(0)
	for line := range bytes.Lines(data) {
		n++
		envelope, whole := bytes.CutSuffix(line, []byte("\n"))
		err := errors.New("has no newline at its end")
		if whole {
			err = visit(envelope)
		}
		if err != nil {
			return &trajectory.Fault{File: file, Line: n, Reason: err.Error()}
		}
	}
	if n == 0 {
		return trajectory.Faultf(file, "is empty")
	}
	return nil
}

// held reads the adjudications and the later judgments where an audit finds them: a
// package has the file of either only if there are any.
func (o Options) held(dir fs.FS, run *rundir.Run) (decided []Adjudication, later []SealedRejudgment, err error) {
	if o.Summary == "" || o.Summary == rundir.SummaryFile {
		if decided, err = ReadAdjudications(dir, run); err == nil {
			later, err = ReadRejudgments(dir, run)
		}
		return decided, later, err
	}
	read := func(name string, limit int64, decode func([]byte) error) error {
		if _, err := fs.Lstat(dir, name); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		data, err := rundir.ReadFile(dir, name, limit)
		if err != nil {
			return err
		}
		return decode(data)
	}
	err = errors.Join(
		read(AdjudicationsFile, MaxAdjudications, func(data []byte) (err error) { decided, err = DecodeAdjudications(data, run); return err }),
		read(RejudgmentsFile, MaxRejudgments, func(data []byte) (err error) { later, err = DecodeRejudgments(data, run); return err }))
	return decided, later, err
}

// countersignatureType is the DSSE payload type of a countersignature.
const countersignatureType = "application/vnd.gaia-harness.countersignature+json"

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
	return seal(key, countersignatureType, c)
}

// CountersignatureFile returns the name of the countersignature's file in a run
// directory.
func (r Ruling) CountersignatureFile() string {
	return path.Join(AttestationsDir, strings.Replace(path.Base(r.File()), adjudicationPrefix, countersignaturePrefix, 1))
}

// SameSigner says why a key cannot countersign in a run, "" if it can: the key of the
// plan signed the decision.
func SameSigner(run *rundir.Run, key sign.PublicKey) string {
	if key.Equal(run.Key) {
		return "it is by the key of the run and its plan, which signed the decision"
	}
	return ""
}

// isCountersignature tells a countersignature from a decision by its payload type.
func isCountersignature(envelope []byte) bool {
	return bytes.Contains(envelope, []byte(`"payloadType":"`+countersignatureType+`"`))
}

// countersigned reads the countersignature of decision a.
func (a Adjudication) countersigned(envelope []byte, run *rundir.Run) (*Countersigner, error) {
	var c Countersignature
	var key sign.PublicKey
	_, err := sign.UnsealBy(envelope, countersignatureType, func(payload []byte) (sign.PublicKey, error) {
		if err := canonical.Decode(payload, &c); err != nil {
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
		return nil, fmt.Errorf("does not count: %s", why)
	}
	return &Countersigner{KeyID: key.ID(), PublicKey: c.PublicKey, SHA256: canonical.Digest(envelope)}, nil
}

// ClockSkew is how far two clocks may differ before their order counts.
const ClockSkew = 5 * time.Minute

// BadTime says what is wrong with the time of a signed record about a finished run, ""
// if nothing is: it is no time, or before the end of the run.
func BadTime(run *rundir.Run, created string) string {
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
func appendDecision(all []Adjudication, envelope []byte, run *rundir.Run) ([]Adjudication, error) {
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
