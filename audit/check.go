package audit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/gaia-harness/gaia/internal/canonical"
)

// Check is one thing the audit looks for.
type Check struct {
	ID         string   // AUD-1
	Name       string   // answer-leakage
	Title      string   // what a pass says
	Why        string   // how a score is earned that way
	Severity   Severity // of the gravest finding it can make
	Fix        string   // what to do about a finding
	Skips      string   // when it could not see
	Absent     string   // when its subject does not exist; "" if it always does
	References []string // where the way of cheating is told of, or the rule comes from
	Gate       bool     // a run is not submittable while it could not see
	Rules      []Rule   // all that it can find, the gravest first
	run        func(*evidence, *notes)
}

// Rule is one way in which a check finds something.
type Rule struct {
	ID       string // uuid-with-answer: a finding's rule_id without the check's id
	Severity Severity
	Version  int    // rises when it finds something else than before
	When     string // what it finds, in the words of "it finds …"
	Want     string // what a finding expected; "" where this differs from finding to finding
}

// rule returns a rule of the check; false if it has none of that id.
func (c Check) rule(id string) (Rule, bool) {
	at := slices.IndexFunc(c.Rules, func(r Rule) bool { return r.ID == id })
	if at < 0 {
		return Rule{}, false
	}
	return c.Rules[at], true
}

// RuleOf returns the rule of the checks that a finding's rule_id names; false if there is none.
func RuleOf(checks []Check, id string) (Rule, bool) {
	check, rule, _ := strings.Cut(id, ".")
	at := slices.IndexFunc(checks, func(c Check) bool { return c.ID == check })
	if at < 0 {
		return Rule{}, false
	}
	return checks[at].rule(rule)
}

// Checks returns all checks, in their order. AUD-9 is left free; AUD-15 to AUD-17 are reserved. The rules are copies.
func Checks() []Check {
	all := []Check{
		answerLeakage, noWorkPass, oracleLeakage, graderIsolation, normalizationCollision, votingDisclosure, splitIntegrity,
		answerKeyReads, judgeInjection, coverageDenominator, trajectoryIntegrity, usageReconciliation, modelIdentity,
		benchmarkSeeking, scorerParity, judgeHealth, attachmentDelivery, inputProvenance, agentConfinement, contradictoryRecords,
	}
	for i := range all {
		all[i].Rules = slices.Clone(all[i].Rules)
	}
	return all
}

// notes is where a check writes down what it finds.
type notes struct {
	check    Check
	findings []Finding
	gaps     []string
	said     map[string]bool // gaps that are written down
	without  string          // what the check is about and the run does not have
	solved   bool            // a task counts as correct
	off      string          // id of a rule, its check's included, that finds nothing
}

func newNotes(c Check) *notes {
	return &notes{check: c, findings: []Finding{}, gaps: []string{}, said: map[string]bool{}}
}

// aside returns notes that join writes down behind those of n: one walk through the tasks then serves several looks, each
// with its findings together.
func (n *notes) aside() *notes {
	other := newNotes(n.check)
	other.solved, other.off = n.solved, n.off
	return other
}

// join writes down what is in other notes.
func (n *notes) join(other *notes) {
	n.findings = append(n.findings, other.findings...)
	for _, gap := range other.gaps {
		n.gap("%s", gap)
	}
}

// place is where a finding points to.
type place struct {
	task    *taskEvidence // nil: the whole run
	attempt int
	seq     int64
	sha256  string
	unused  bool // what was found had no effect on a verdict
	unasked bool // what was found reached the agent without its asking
	given   bool // what was found was so before the run
}

// at returns a line of an attempt at the task.
func (t *taskEvidence) at(a *attemptEvidence, seq int64) place {
	return place{task: t, attempt: a.Number, seq: seq}
}

// findIf is find where a condition holds. Its arguments are computed all the same.
func (n *notes) findIf(found bool, rule string, at place, got string, want ...string) {
	if found {
		n.find(rule, at, got, want...)
	}
}

// find adds a finding by a rule of the check. want replaces the rule's; neither it nor got may hold gold.
func (n *notes) find(rule string, at place, got string, want ...string) {
	r, known := n.check.rule(rule)
	if !known {
		panic("audit: " + n.check.ID + " has no rule " + rule) // TestRules lets every rule find something
	}
	if len(want) > 0 {
		r.Want = want[0]
	}
	f := Finding{Attempt: at.attempt, Check: n.check.ID, EvidenceSHA256: at.sha256, Got: got, Outcome: Attempted,
		RuleID: n.check.ID + "." + rule, RuleVersion: r.Version, Seq: at.seq, Severity: r.Severity, Want: r.Want}
	if f.RuleID == n.off {
		return
	}
	correct := n.solved
	if at.task != nil {
		f.TaskID, correct = at.task.Plan.TaskID, at.task.correct()
	}
	switch {
	case f.Severity == Info || at.given:
		f.Outcome = ""
	case at.unasked:
		f.Outcome = Exposure
	case (f.Severity == Critical || f.Severity == High) && correct && !at.unused:
		f.Outcome = Exploited
	}
	f.ID = f.digest()
	n.findings = append(n.findings, f)
}

// digest returns the id of a finding: over all its other members, but for what was decided about it.
func (f Finding) digest() string {
	f.ID, f.Closed = "", ""
	b, err := canonical.EncodeLossy(f)
	if err != nil {
		panic("audit: a finding of strings and counts has no canonical form: " + err.Error())
	}
	return canonical.Digest(b)
}

// gapIf is gap where a condition holds.
func (n *notes) gapIf(unseen bool, format string, args ...any) {
	if unseen {
		n.gap(format, args...)
	}
}

// gap adds what the check could not see.
func (n *notes) gap(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !n.said[text] {
		n.said[text] = true
		n.gaps = append(n.gaps, text)
	}
}

// absent writes down that the run does not have what the check is about.
func (n *notes) absent(what string) { n.without = what }

func (n *notes) report() CheckReport {
	r := CheckReport{Absent: n.without, Findings: n.findings, Gaps: n.gaps, Gate: n.check.Gate, ID: n.check.ID, Name: n.check.Name, Title: n.check.Title}
	r.Status, r.Severity = r.conclude()
	return r
}

// conclude gives a check's status by its open findings: fail before review before skip before n/a before pass.
func (r CheckReport) conclude() (Status, Severity) {
	var severity Severity
	for _, f := range r.Findings {
		if f.Closed == "" && (severity == "" || f.Severity.Rank() < severity.Rank()) {
			severity = f.Severity
		}
	}
	switch {
	case severity == Critical || severity == High:
		return Fail, severity
	case severity == ToReview:
		return Review, severity
	case len(r.Gaps) > 0:
		return Skip, severity
	case r.Absent != "":
		return NotApplicable, severity
	}
	return Pass, severity
}

// attest concludes from the statuses of the checks. A look at some of them alone is never clean.
func attest(checks []CheckReport, only []string) Attestation {
	whole := len(only) == 0
	a := Attestation{Clean: whole, StrictClean: whole, CriticalFailures: []string{}, HarnessGaps: []Gap{}, Skipped: []string{}, WarnFailures: []string{}}
	for _, c := range checks {
		switch {
		case c.Status == Fail && c.Severity == Critical:
			a.CriticalFailures = append(a.CriticalFailures, c.ID)
		case c.Status == Fail:
			a.WarnFailures = append(a.WarnFailures, c.ID)
		case c.Status == Review:
			a.StrictClean = false
		case c.Status == Skip:
			a.Skipped = append(a.Skipped, c.ID)
		}
		for _, gap := range c.Gaps {
			a.HarnessGaps = append(a.HarnessGaps, Gap{c.ID, gap})
		}
		// A check that also fails has not seen less for it.
		if c.Status == Fail || c.Gate && len(c.Gaps) > 0 {
			a.Clean = false
		}
	}
	a.StrictClean = a.StrictClean && a.Clean
	return a
}

// lazily compiles an expression when it is first used: most commands use few of them, and all together take
// milliseconds.
func lazily(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
