package verify

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/view"

	"github.com/gaia-harness/gaia/submit"
)

// readmeRebuilt says of a package that its README.md is what its files give.
const readmeRebuilt = "rebuilt"

// auditRerun says of a package that its audit was run again.
const auditRerun = "rerun: the same report"

// rebuilt says of a package what came of making its README.md again.
func rebuilt(not string) string {
	if not != "" {
		return "not rebuilt: " + not
	}
	return readmeRebuilt
}

// rescored says of a package what came of telling its official verdicts again.
func rescored(of *submit.Verified) string {
	if of.NotRescored != "" {
		return "not re-derived: " + of.NotRescored
	}
	s := of.Statement.Predicate.Scores.Official
	return fmt.Sprintf("re-derived from the gold answers: %d of %d correct, as recorded", s.Correct, s.Planned)
}

// verificationRows shows the verification of a run or a full package; source names its dataset.
func verificationRows(v Verification, m plan.Plan, of *submit.Verified, later [][2]string, source string) [][2]string {
	rows := append([][2]string{{"run", v.RunID}}, runview.Dataset(m)...)
	rows = append(rows,
		[2]string{"integrity", fmt.Sprintf("ok: %d events, %s", v.Events, view.Count(v.Tasks, "task"))},
		[2]string{"trust", v.Trust + ": " + v.KeyID},
		[2]string{"manifest", v.ManifestSHA256},
		[2]string{"journal", v.JournalHead})
	if v.Rehearsal {
		rows = slices.Insert(rows, 1, [2]string{"rehearsal", runview.RehearsalNote})
	}
	if m.Cassette == plan.CassetteReplay {
		rows = slices.Insert(rows, 1, [2]string{"replay", runview.ReplayNote})
	}
	if v.Missing != "" {
		rows = append(rows, [2]string{"incomplete", v.Missing + "; what is there verifies"})
	}
	if v.Complete {
		rows = append(rows, [2]string{"root", v.Root})
	}
	rows = append(rows, v.checkpointRow()...)
	if of != nil {
		audited := auditedBySigner
		if of.NotRerun == "" {
			audited = auditedHere
		}
		rows = append(rows, PackageRows(*v.Package, audited, v.Dismissals)...)
		scores, again := v.Scores, v.Audit
		if give := "; give --dataset " + view.Quote(source); of.Run.Scored() {
			if of.NotRescored != "" {
				scores += give
			}
			if of.NotRerun != "" && of.Statement.Predicate.GoldAtHand && of.NotRescored != "" {
				again += give
			}
		}
		if n := len(of.Report.Inputs.Bodies); of.NotRerun != "" && n > 0 {
			again += fmt.Sprintf("; give %s of the report's inputs by --body", view.Count(n, "document"))
		}
		rows = append(rows, [2]string{"scores", scores}, [2]string{"audit again", again})
	}
	if of == nil {
		for _, d := range v.Dismissals {
			rows = append(rows, d.row())
		}
	}
	rows = append(rows, later...)
	rows = append(rows, v.EvidenceVerdict.Rows()...)
	rows = append(rows, v.readmeRow()...)
	if v.PublicPackage != "" {
		rows = append(rows, [2]string{"public", v.PublicPackage + " is of these files"})
	}
	if v.Unsubmittable != "" {
		rows = append(rows, [2]string{"unsubmittable", v.Unsubmittable})
	}
	return rows
}

// checkpointRow says of the checkpoint that it is the one given; nothing if none is.
func (v Verification) checkpointRow() [][2]string {
	if v.Checkpoint != checkpointGiven {
		return nil
	}
	return [][2]string{{"checkpoint", "the one given"}}
}

// readmeRow says of README.md that it was not rebuilt; nothing where it was.
func (v Verification) readmeRow() [][2]string {
	if v.Readme == "" || v.Readme == readmeRebuilt {
		return nil
	}
	return [][2]string{{"readme", v.Readme}}
}

// Who says what an audit came to.
const (
	auditedBySigner = ", as reported by the signer"
	auditedHere     = ", and the same report when it was run again"
)

// auditRow says what the audit of a package concludes for a verifier who trusts the
// countersigners as the dismissals have it.
func auditRow(p submit.Predicate, dismissals []dismissal) string {
	after := " after " + view.Count(p.Dismissed, "dismissal")
	switch {
	case p.Audit.Clean && p.Dismissed == 0:
		return "clean"
	case p.Audit.Clean:
		return "clean" + after
	case !p.Audit.CountersignedClean:
		return "not clean"
	case uncounted(dismissals) == nil:
		return "clean" + after
	}
	return "not clean; clean" + after + " for verifiers who trust every countersigner"
}

// PackageRows are what a package says of itself; audited tells who says what the
// audit came to, "" where that is plain.
func PackageRows(p submit.Predicate, audited string, dismissals []dismissal) [][2]string {
	what, by := ", all files as attested", ""
	if p.Public {
		what, by = what+", without the texts", ", self-reported"
	}
	rows := [][2]string{{"package", p.Name + what}}
	if p.Submitter != nil {
		rows = append(rows, [2]string{"submitter", submitterText(*p.Submitter)})
	}
	rows = append(rows, [2]string{"audit", auditRow(p, dismissals) + audited})
	for _, d := range dismissals {
		rows = append(rows, d.row())
	}
	if n := len(p.VoidTasks); n > 0 {
		rows = append(rows, [2]string{"void", view.Count(n, "task") + " by adjudication, counted wrong" + by})
	}
	if p.Scores != nil {
		rows = append(rows, [2]string{"official", fmt.Sprintf("%d of %d, %s", p.Scores.Official.Correct, p.Scores.Official.Planned, view.Percent(p.Scores.Official.PPM)) + by})
	} else {
		rows = append(rows, [2]string{"official", "unscored"})
	}
	if p.Judgments > 0 {
		rows = append(rows, [2]string{"judgments", strconv.Itoa(p.Judgments) + by})
	}
	for _, r := range p.DirtyReasons {
		rows = append(rows, [2]string{"dirty", r})
	}
	if p.NotForLeaderboard {
		rows = append(rows, [2]string{"leaderboard", "not for one"})
	}
	return rows
}

// submitterText names who submits, in their own words.
func submitterText(s submit.Submitter) string {
	var parts []string
	if s.Organisation != "" {
		parts = append(parts, strconv.Quote(s.Organisation))
	}
	if s.Contact != "" {
		parts = append(parts, "contact "+strconv.Quote(s.Contact))
	}
	return strings.Join(parts, ", ") + ", as they say"
}
