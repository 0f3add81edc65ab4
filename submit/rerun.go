package submit

import (
	"bytes"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
)

// noGold is why what needs the gold answers was not done.
const noGold = "no gold answers"

// Rerun audits the files of a package that was verified again and wants the same
// report, byte for byte, else it returns a *trajectory.Fault: that its findings
// are all there are to find is then no longer the signer's word. What was audited
// with gold answers cannot be audited the same without: v.NotRerun says so, and of
// the report is wanted that it has all that keeps a run from being submitted and is
// found without them.
func (v *Verified) Rerun(pkg fs.FS, o Options) error {
	report, _, err := audit.Run(pkg, o.again(v.Run.Manifest, v.Statement.Predicate, v.Report))
	if err != nil {
		return err
	}
	o.Once = false
	return v.compare(report, o)
}

// again is how a package is audited that says p of itself and has the report r: with
// the documents that this one was made with, as far as they are at hand.
func (o Options) again(m plan.Plan, p Predicate, r audit.Report) audit.Options {
	again := audit.Options{Bodies: map[string][]byte{}, Marked: p.RecordingFailed, Summary: MetadataFile}
	for _, digest := range r.Inputs.Bodies {
		again.Bodies[digest] = o.Bodies[digest]
	}
	if m.GoldCommitment != "" && p.GoldAtHand {
		again.Gold = o.Gold
	}
	return again
}

// compare holds the report of a package against that of the audit that was run
// again, as Rerun says.
func (v *Verified) compare(report audit.Report, o Options) error {
	p := v.Statement.Predicate
	v.NotRerun = ""
	missing := 0
	for _, digest := range v.Report.Inputs.Bodies {
		if !slices.Contains(report.Inputs.Bodies, digest) {
			missing++
		}
	}
	if v.Run.Scored() && p.GoldAtHand && o.Gold == nil {
		v.NotRerun = noGold
	} else if missing > 0 {
		v.NotRerun = fmt.Sprintf("needs %s that the audit had", view.Count(missing, "document"))
	}
	switch {
	case o.Once:
		v.NotRerun = "not asked for"
		return nil
	case v.NotRerun != "":
		if f, left := leftOut(v.Report, report); left {
			without := "the gold answers"
			if v.NotRerun != noGold {
				without = "all of its documents"
			}
			return trajectory.Faultf(audit.ReportFile, "leaves out what the audit finds when it is run again, even without %s: %s %s%s", without, f.Severity, f.RuleID, o.otherProgram(p.Harness))
		}
		return nil
	}
	report.AuditedAt = v.Report.AuditedAt
	got, err := v.Report.Encode()
	if err != nil {
		return err
	}
	want, err := report.Encode()
	if err != nil {
		return err
	}
	if bytes.Equal(got, want) {
		return nil
	}
	return trajectory.Faultf(audit.ReportFile, "is not what the audit gives when it is run again: %s%s", auditDifference(v.Report, report), o.otherProgram(p.Harness))
}

// leftOut returns a CRITICAL or HIGH finding of an audit without gold answers that
// stands in a report with them neither as it is nor as a graver one of its check
// about the same task; false if there is none.
func leftOut(report, blind audit.Report) (audit.Finding, bool) {
	type about struct{ check, task string }
	gravest := map[about]int{} // its rank, and 0 for none: ranks are then from 1
	for _, c := range report.Checks {
		for _, f := range c.Findings {
			at := about{c.ID, f.TaskID}
			if rank := f.Severity.Rank() + 1; gravest[at] == 0 || rank < gravest[at] {
				gravest[at] = rank
			}
		}
	}
	for _, c := range blind.Checks {
		for _, f := range c.Findings {
			got := gravest[about{c.ID, f.TaskID}]
			if (f.Severity == audit.Critical || f.Severity == audit.High) && (got == 0 || got > f.Severity.Rank()+1) {
				return f, true
			}
		}
	}
	return audit.Finding{}, false
}

// auditDifference says in which checks two reports about the same files differ; both
// are of all checks.
func auditDifference(got, want audit.Report) string {
	theirs := map[string]string{}
	for _, c := range got.Checks {
		theirs[c.ID] = form(c)
	}
	var differ []string
	for _, c := range want.Checks {
		if theirs[c.ID] != form(c) {
			differ = append(differ, c.ID)
		}
	}
	if len(differ) == 0 {
		return "the checks agree, and what is said besides does not"
	}
	return "see " + plain(strings.Join(differ, ", "))
}

// form is the canonical form of a value that is compared, "" for one without.
func form(v any) string {
	b, err := canonical.Encode(v)
	if err != nil {
		return ""
	}
	return string(b)
}

// otherProgram says that another program audited than the one that verifies, ""
// if it is the same.
func (o Options) otherProgram(audited trajectory.Harness) string {
	if o.Harness == nil {
		return ""
	}
	here, err := o.Harness()
	switch {
	case err != nil:
		return fmt.Sprintf("; whether this program made it cannot be told: %v", err)
	case audited.ExecutableSHA256 == here.ExecutableSHA256:
		return ""
	}
	return fmt.Sprintf("; it was made by another program, gaia %s, and this is gaia %s: another version may find otherwise", build(audited), build(here))
}

// build names a version of the program.
func build(h trajectory.Harness) string {
	text := plain(h.Version)
	if h.Commit != "" {
		text += " of commit " + plain(h.Commit)
	}
	return text
}
