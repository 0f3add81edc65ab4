package audit

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/rundir"
)

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
	e := &exit.Error{Code: exit.Failure, Err: fmt.Errorf("finding %s cannot be closed so: %s", id, why)}
	if hint != "" {
		e.Hints = []string{hint}
	}
	return e
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
func CheckReasonTells(reason string, redact func(string) (string, int), run *rundir.Run, f Finding, gold *Gold) error {
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
