package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
)

// AdjudicationType is the DSSE payload type of an adjudication.
const AdjudicationType = "application/vnd.gaia-harness.adjudication+json"

const adjudicationSchema = "gaia.adjudication/1"

// Ruling is what an adjudication says about one finding of a finished run: the payload of its envelope, which the
// key of the run's plan signs.
type Ruling struct {
	About
	Check    string   `json:"check"` // the finding's
	Decision Decision `json:"decision"`
	Finding  string   `json:"finding"` // its id
	Reason   string   `json:"reason"`
	RuleID   string   `json:"rule_id"`          // the finding's
	TaskID   string   `json:"task_id,omitzero"` // the finding's
}

// Adjudication is a signed decision about a finding.
type Adjudication struct {
	Ruling
	SHA256        string         // of the envelope
	Countersigned *Countersigner // nil: it has no countersignature
}

// NewRuling returns the decision about a finding of a finished run. created is in trajectory.TimeFormat.
func NewRuling(run *VerifiedRun, f Finding, d Decision, reason, created string) Ruling {
	return Ruling{About: about(run, adjudicationSchema, created), Check: f.Check, Decision: d, Finding: f.ID, Reason: reason, RuleID: f.RuleID, TaskID: f.TaskID}
}

// Seal returns the adjudication: a DSSE envelope.
func (r Ruling) Seal(key Key) ([]byte, error) {
	return seal(key, AdjudicationType, r)
}

// unsealAdjudication reads an envelope that decides about a finding of this run.
func unsealAdjudication(envelope []byte, run *rundir.Run) (Adjudication, error) {
	r, err := unseal[Ruling](envelope, AdjudicationType, run)
	if err == nil {
		err = r.check(run, adjudicationSchema)
	}
	switch {
	case err != nil:
	case r.Decision != Void && r.Decision != Dismiss:
		err = fmt.Errorf("the decision is %q, not void or dismiss", r.Decision)
	case !canonical.IsDigest(r.Finding):
		err = fmt.Errorf("the finding is %q, which is no digest", r.Finding)
	case BadReason(r.Reason) != "":
		err = errors.New("the reason " + BadReason(r.Reason))
	}
	return Adjudication{Ruling: r, SHA256: canonical.Digest(envelope)}, err
}

// Tells reports whether a text tells a gold answer, as the probes find it: its words or numerals; of fewer than
// four characters only behind a label.
func Tells(text, gold string) bool {
	return probe.New(probe.Target{Gold: gold}).Probe(text, "", nil).GoldHits > 0
}

// Decision is what was decided about a finding.
type Decision string

// The decisions. A finding about one task is closed by voiding the task, which then counts wrong in every score. A
// HIGH one may be dismissed. The dismissal of a CRITICAL one about one task closes it only for readers who trust
// the key that countersigned the dismissal. A CRITICAL about the whole run cannot be closed.
const (
	Void    Decision = "void"
	Dismiss Decision = "dismiss"
)

// What the dismissal of a CRITICAL finding waits for. The finding is open in the report.
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

// pending says what an adjudication that can close a finding waits for, "" if it closes the finding for every
// reader.
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
		entry := Adjudicated{Countersigned: a.Countersigned, Decision: a.Decision, Finding: a.Finding, Reason: a.Reason, SHA256: a.SHA256, Unheard: "this audit has no such finding"}
		for f := range findings(r.Checks) {
			if f.ID != a.Finding {
				continue
			}
			if a.Check != f.Check || a.RuleID != f.RuleID || a.TaskID != f.TaskID {
				entry.Unheard = "it says of the finding another check, rule or task than the finding does"
				continue
			}
			if entry.Unheard = a.Decision.Refuses(*f); entry.Unheard != "" {
				continue
			}
			if entry.Pending = a.pending(*f); entry.Pending == "" {
				f.Closed = a.Decision
			}
		}
		r.Adjudications = append(r.Adjudications, entry)
		r.Inputs.Adjudications = append(r.Inputs.Adjudications, a.SHA256)
		if a.Countersigned != nil {
			r.Inputs.Countersignatures = append(r.Inputs.Countersignatures, a.Countersigned.SHA256)
		}
	}
	concludeAll(r.Checks)
}

// findings yields the findings of all checks, to be read or changed.
func findings(checks []CheckReport) iter.Seq[*Finding] {
	return func(yield func(*Finding) bool) {
		for i := range checks {
			for j := range checks[i].Findings {
				if !yield(&checks[i].Findings[j]) {
					return
				}
			}
		}
	}
}

// concludeAll computes the statuses of the checks from their findings and gaps.
func concludeAll(checks []CheckReport) {
	for i := range checks {
		checks[i].Status, checks[i].Severity = checks[i].conclude()
	}
}

// Follows reports whether exactly these adjudications, applied to the findings, give what the report says was
// decided. What it concludes from that, DecodeReport has checked.
func (r Report) Follows(all []Adjudication) bool {
	again := r
	again.Adjudications, again.Inputs.Adjudications, again.Inputs.Countersignatures = nil, nil, nil
	again.Checks = cloneChecks(r.Checks)
	for f := range findings(again.Checks) {
		f.Closed = ""
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
	for f := range findings(checks) {
		if f.Closed == Void {
			void[f.TaskID] = true
		}
	}
	return void
}

// File returns the name of the adjudication's file in a run directory.
func (r Ruling) File() string {
	hex := strings.TrimPrefix(r.Finding, "sha256:")
	return path.Join(AttestationsDir, adjudicationPrefix+hex[:min(16, len(hex))]+attestationSuffix)
}

// ReadAdjudications reads the decisions of a run directory, by the ids of their findings. One that the key of the
// plan did not sign, that is about another run or another journal, or that has not the name of its finding is a
// *trajectory.Fault.
func ReadAdjudications(dir fs.FS, run *VerifiedRun) ([]Adjudication, error) {
	all, err := decisions(dir)
	if err != nil {
		return nil, err
	}
	return decodeDecisions(all, run)
}

// DecodeAdjudications reads the file of decisions in a package. Anything but good ones about this run, one a
// finding and in the order of the findings' ids, each with its countersignature behind it, is a *trajectory.Fault.
func DecodeAdjudications(data []byte, run *VerifiedRun) ([]Adjudication, error) {
	all, err := recordsIn(AdjudicationsFile, data)
	if err != nil {
		return nil, err
	}
	return decodeDecisions(all, run)
}

func decodeDecisions(records []record, run *rundir.Run) (all []Adjudication, err error) {
	for _, r := range records {
		before := len(all)
		switch {
		case !bytes.Contains(r.envelope, []byte(`"payloadType":"`+countersignatureType+`"`)): // a decision
			var a Adjudication
			a, err = unsealAdjudication(r.envelope, run)
			all = append(all, a)
		case before == 0:
			err = errors.New("countersigns a decision that is not there")
		default:
			all[before-1].Countersigned, err = all[before-1].countersigned(r.envelope, run)
		}
		if err != nil {
			return nil, r.fault(err)
		}
		a := all[len(all)-1]
		name := a.File()
		if before == len(all) {
			name = a.CountersignatureFile()
		}
		if r.line == 0 && r.file != name {
			return nil, r.fault(fmt.Errorf("is about finding %s, which its name is not of", a.Finding))
		}
		if before > 0 && before < len(all) && all[before-1].Finding >= a.Finding {
			return nil, r.fault(errors.New("is not in the order of the findings' ids, each once"))
		}
	}
	return all, nil
}

// countersignatureType is the DSSE payload type of a countersignature.
const countersignatureType = "application/vnd.gaia-harness.countersignature+json"

const countersignatureSchema = "gaia.countersignature/1"

// Countersignature is the payload of an envelope by which a second key agrees that a CRITICAL finding about one
// task is dismissed. The envelope is signed by PublicKey. The digest ties it to one decision, and so to its reason,
// run and journal.
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

// NewCountersignature returns the agreement of key to a decision. created is in trajectory.TimeFormat.
func NewCountersignature(a Adjudication, key PublicKey, created string) Countersignature {
	return Countersignature{AdjudicationSHA256: a.SHA256, Created: created, Finding: a.Finding, PublicKey: key.Line(), RunID: a.RunID, Schema: countersignatureSchema}
}

// Seal returns the countersignature as a DSSE envelope. key is the one of PublicKey.
func (c Countersignature) Seal(key Key) ([]byte, error) {
	return seal(key, countersignatureType, c)
}

// CountersignatureFile returns the name of the countersignature's file in a run directory.
func (r Ruling) CountersignatureFile() string {
	return path.Join(AttestationsDir, strings.Replace(path.Base(r.File()), adjudicationPrefix, countersignaturePrefix, 1))
}

// SameSigner says why a key cannot countersign in a run, "" if it can: the key of the plan signed the decision.
func SameSigner(run *VerifiedRun, key PublicKey) string {
	if key.Equal(run.Key) {
		return "it is by the key of the run and its plan, which signed the decision"
	}
	return ""
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

// Trusting returns the report for a reader who trusts some keys: a CRITICAL finding is closed if its dismissal is
// countersigned by such a key. Checks, attestation and counts follow. Scores stay: [Rescore] computes them from the
// checks that are returned.
func (r Report) Trusting(trusts func(PublicKey) bool) Report {
	r.Checks = cloneChecks(r.Checks)
	strict := true // no countersigned dismissal counts in a strict conclusion
	for _, a := range r.Adjudications {
		if a.Pending != PendingTrust {
			continue
		}
		if key, err := sign.ParsePublicKey(a.Countersigned.PublicKey); err != nil || !trusts(key) { // which is never an error in a report that was decoded
			continue
		}
		for f := range findings(r.Checks) {
			if f.ID == a.Finding {
				f.Closed, strict = Dismiss, false
			}
		}
	}
	concludeAll(r.Checks)
	r.Attestation, r.Totals = attest(r.Checks, r.Only), r.Totals.count(r.Checks)
	r.Attestation.StrictClean = r.Attestation.StrictClean && strict
	return r
}

// TrustAll trusts every key, for [Report.Trusting].
func TrustAll(PublicKey) bool { return true }

// attest draws the conclusion of a report, in which no countersigned dismissal counts, and says whether the run is
// clean for a reader who trusts all countersigners.
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

// Dismissal is a dismissal that counts, or counts for readers who trust the key that countersigned it.
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
	for f := range findings(r.Checks) {
		if f.ID == id {
			return f
		}
	}
	return nil
}

// minIDDigits is how many digits of an id name a finding or a decision, at least.
const minIDDigits = 8

// maxListed bounds how many findings or decisions an error lists.
const maxListed = 10

// ShortID returns the start of a finding's id, by which it can be named. The id may be any text: another program
// can have written it.
func ShortID(id string) string {
	hex := strings.TrimPrefix(id, "sha256:")
	return strings.ToValidUTF8(hex[:min(12, len(hex))], "")
}

// FindingLine names a finding that may be decided about.
func FindingLine(f Finding) string {
	text := ShortID(f.ID) + ", " + string(f.Severity) + " " + f.RuleID
	if f.TaskID != "" {
		text += ", task " + f.TaskID
	}
	return text
}

// ParseID returns an id, or the start of one, in the form that findings have it; false if it is too short or not
// hexadecimal.
func ParseID(s string) (string, bool) {
	hex := strings.TrimPrefix(strings.ToLower(s), "sha256:")
	return "sha256:" + hex, len(hex) >= minIDDigits && len(hex) <= 64 && strings.Trim(hex, "0123456789abcdef") == ""
}

// FindingByID returns the one finding whose id begins with start.
func (r Report) FindingByID(start string) (Finding, error) {
	var matching []Finding
	var open []string
	for f := range findings(r.Checks) {
		if strings.HasPrefix(f.ID, start) && !slices.ContainsFunc(matching, func(m Finding) bool { return m.ID == f.ID }) {
			matching = append(matching, *f)
		}
		if f.Closed == "" && f.Severity != Info {
			open = append(open, FindingLine(*f))
		}
	}
	if len(matching) == 1 {
		return matching[0], nil
	}
	e := &exit.Error{Code: exit.Usage, Err: fmt.Errorf("the audit has no finding %q", start)}
	if len(matching) > 1 {
		e.Err = fmt.Errorf("%d findings begin with %q", len(matching), start)
		open = nil
		for _, f := range matching {
			open = append(open, f.ID)
		}
	}
	if len(open) == 0 {
		e.Hints = append(e.Hints, "an audit of the run alone leaves no finding open")
	}
	if len(matching) == 0 {
		e.Hints = append(e.Hints, "a finding that needs --body or --usage-export of 'gaia audit' cannot be decided")
	}
	for _, text := range open[:min(len(open), maxListed)] {
		e.Hints = append(e.Hints, "there is "+text)
	}
	if more := len(open) - maxListed; more > 0 {
		e.Hints = append(e.Hints, fmt.Sprintf("and %d more: gaia audit --format json", more))
	}
	return Finding{}, e
}

// CheckClosable returns an error for a finding that the decision d cannot close.
func (r Report) CheckClosable(f Finding, d Decision) error {
	files, id := Ruling{Finding: f.ID}, ShortID(f.ID)
	again := "to decide again, remove " + files.File()
	if f.Closed != "" {
		return exit.New(exit.Failure, fmt.Errorf("finding %s is closed already: %s", id, f.Closed), again+" from the run")
	}
	for _, a := range r.Adjudications {
		switch {
		case a.Finding != f.ID:
		case a.Pending == PendingCountersignature:
			return exit.New(exit.Failure, fmt.Errorf("the dismissal of finding %s waits for a countersignature", id),
				"another key countersigns it: gaia adjudicate DIR --countersign "+id+" --key FILE", again+" from the run")
		case a.Pending == PendingTrust:
			return exit.New(exit.Failure, fmt.Errorf("the dismissal of finding %s is countersigned by %s", id, a.Countersigned.KeyID),
				again+" and "+files.CountersignatureFile()+" from the run")
		}
	}
	why := d.Refuses(f)
	if why == "" {
		return nil
	}
	hint := ""
	switch {
	case f.Severity == Info:
	case Void.Refuses(f) == "":
		hint = "--decision void makes its task void, which then counts wrong"
	case Dismiss.Refuses(f) == "":
		hint = "--decision dismiss, if it does not speak against the run"
	default:
		hint = "no decision closes it: gaia audit --explain " + f.Check
	}
	return exit.New(exit.Failure, fmt.Errorf("finding %s cannot be closed so: %s", id, why), hint)
}

// DecisionByName returns the one decision that name gives: by its file, or by the start of its finding's id or of
// its digest.
func DecisionByName(decided []Adjudication, name string) (Adjudication, error) {
	start, isID := ParseID(name)
	var matching []Adjudication
	for _, d := range decided {
		if filepath.Base(name) == filepath.Base(d.File()) || isID && (strings.HasPrefix(d.Finding, start) || strings.HasPrefix(d.SHA256, start)) {
			matching = append(matching, d)
		}
	}
	if len(matching) == 1 {
		return matching[0], nil
	}
	e := &exit.Error{Code: exit.Usage, Err: fmt.Errorf("the run has no decision %q", name)}
	if len(matching) > 1 {
		e.Err = fmt.Errorf("%d decisions begin with %q", len(matching), name)
	}
	for _, d := range decided[:min(len(decided), maxListed)] {
		e.Hints = append(e.Hints, fmt.Sprintf("there is %s, %s of finding %s", filepath.Base(d.File()), d.Decision, ShortID(d.Finding)))
	}
	if len(decided) == 0 {
		e.Hints = []string{"first decide: gaia adjudicate DIR --finding ID --decision dismiss --reason …"}
	}
	return Adjudication{}, e
}

// CheckCountersignable returns an error for a decision that no countersignature is for.
func (r Report) CheckCountersignable(d Adjudication) error {
	for _, a := range r.Adjudications {
		switch {
		case a.SHA256 != d.SHA256:
		case a.Countersigned != nil:
			return exit.New(exit.Failure, fmt.Errorf("the decision is countersigned already, by %s", a.Countersigned.KeyID),
				"to replace it, remove "+d.CountersignatureFile()+" from the run")
		case a.Unheard != "":
			return exit.New(exit.Failure, fmt.Errorf("the decision closes nothing: %s", a.Unheard), "remove "+d.File()+" from the run")
		case a.Pending == "":
			return exit.New(exit.Failure, fmt.Errorf("the decision needs no countersignature: it closes finding %s for everybody", ShortID(d.Finding)),
				"only the dismissal of a CRITICAL finding is countersigned")
		}
	}
	return nil
}

// CheckReasonTells returns an error for a reason that holds a secret, by redact, which counts them, or the answer
// of the finding's task or of a task that the run has not solved. A package tells those nowhere else. A nil gold
// has no answers.
func CheckReasonTells(reason string, redact func(string) (string, int), run *VerifiedRun, f Finding, gold *Gold) error {
	const hint = "leave it out: the reason is packaged for all to read"
	if _, n := redact(reason); n > 0 {
		return exit.New(exit.Failure, errors.New("the reason holds what looks like a secret"), hint)
	}
	if gold == nil {
		return nil
	}
	for _, t := range run.Tasks {
		r := run.Result(t)
		solved := r.OfficialCorrect != nil && *r.OfficialCorrect
		if (r.TaskID == f.TaskID || !solved) && Tells(reason, gold.Answers[r.TaskID]) {
			return exit.New(exit.Failure, fmt.Errorf("the reason holds the answer of task %s", r.TaskID), hint)
		}
	}
	return nil
}

// OpenFindings returns the findings that keep the run from being submitted for a reader who trusts every
// countersigner.
func (r Report) OpenFindings() []Finding {
	var all []Finding
	for f := range findings(r.Trusting(TrustAll).Checks) {
		if f.Closed == "" && (f.Severity == Critical || f.Severity == High) {
			all = append(all, *f)
		}
	}
	return all
}
