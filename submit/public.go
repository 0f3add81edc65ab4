package submit

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
	"golang.org/x/mod/sumdb/tlog"
)

// leavesFile is the file that only a public package has.
const leavesFile = "leaves.jsonl"

// publicPackageFiles returns the names of a public package's files, sorted.
func publicPackageFiles() []string {
	return []string{ReadmeFile, SumsFile, AttestationFile, BundleFile, trajectory.CheckpointFile, plan.ConstitutionFile, leavesFile,
		plan.EnvelopeFile, plan.ManifestFile, MetadataFile, rundir.ResultsFile}
}

// publicSubjects are those that its attestation is about, sorted.
func publicSubjects() []string {
	return slices.DeleteFunc(publicPackageFiles(), func(name string) bool { return name == AttestationFile || name == BundleFile })
}

// IsPublic tells a public package, whole or damaged, from a full one: by most of the
// files that only one of them has, so that verifying it as what it is names the one
// that was added or taken away.
func IsPublic(dir fs.FS) bool {
	there := func(name string) bool {
		_, err := fs.Lstat(dir, name)
		return err == nil
	}
	full := 0
	for _, name := range []string{audit.ReportFile, trajectory.JournalFile, LeaderboardFile, scorecardFile, rundir.TrajectoriesFile} {
		if there(name) {
			full++
		}
	}
	if there(leavesFile) {
		return full < 3
	}
	return full == 0 && IsPackage(dir)
}

// publicLeaf is a line of leaves.jsonl. A leaf holds 32 random bytes, so that its
// hash tells nothing about the task's events to who does not have them.
type publicLeaf struct {
	LeafHash tlog.Hash `json:"leaf_hash"`
	TaskID   string    `json:"task_id"`
}

// WithheldFile is a file of the full package of the same run, key and date.
type WithheldFile struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256,omitzero"` // of events.jsonl alone
}

// CheckResult is what a check of the audit came to, without what it found.
type CheckResult struct {
	Findings int            `json:"findings"` // how many, the closed ones too
	Gaps     int            `json:"gaps"`     // how many things it could not see
	ID       string         `json:"id"`
	Line     int64          `json:"line,omitzero"` // of events.jsonl, from 1: of the first of the gravest findings, where the check fails
	Severity audit.Severity `json:"severity,omitzero"`
	Status   audit.Status   `json:"status"`
	TaskID   string         `json:"task_id,omitzero"` // of the same finding; left out: the whole run
}

func newCheckResults(report audit.Report) []CheckResult {
	var all []CheckResult
	for _, c := range report.Checks {
		r := CheckResult{Findings: len(c.Findings), Gaps: len(c.Gaps), ID: c.ID, Severity: c.Severity, Status: c.Status}
		if first, _ := gravest(c); first != nil && c.Status == audit.Fail {
			r.Line, r.TaskID = first.Seq+1, first.TaskID
		}
		all = append(all, r)
	}
	return all
}

// newAuditResult returns what the checks of a withheld report come to.
func newAuditResult(checks []CheckResult) AuditResult {
	a := AuditResult{Checks: checks, Clean: true, CriticalFailures: []string{}, StrictClean: true, WarnFailures: []string{}}
	for i, c := range checks {
		switch {
		case c.Status == audit.Fail && c.Severity == audit.Critical:
			a.CriticalFailures = append(a.CriticalFailures, c.ID)
		case c.Status == audit.Fail:
			a.WarnFailures = append(a.WarnFailures, c.ID)
		case c.Status == audit.Review:
			a.StrictClean = false
		}
		a.HarnessGaps += c.Gaps
		if c.Status == audit.Fail || audit.Checks()[i].Gate && c.Gaps > 0 {
			a.Clean = false
		}
	}
	a.StrictClean = a.StrictClean && a.Clean
	return a
}

// recordingWithheld stands in a public statement for why recording failed, which
// may name places on the computer of who ran it.
const recordingWithheld = "withheld"

// public reports whether the evidence is that of a public package.
func (e evidence) public() bool { return len(e.withheld) > 0 }

// published returns the evidence that a public package has in place of e, which is
// that of the run and its audit.
func (e evidence) published(run *rundir.Run, report audit.Report) evidence {
	e.withheld = newWithheld(run.Files[trajectory.JournalFile], len(report.Adjudications) > 0, e.later > 0)
	e.audit = newAuditResult(newCheckResults(report))
	e.answeredBy = publicAnsweredBy(e.plan, e.answeredBy)
	if e.recordingFailed != "" {
		e.recordingFailed = recordingWithheld
	}
	e.reasons = publicReasons(e.plan, e.audit.Checks, e.recordingFailed)
	return e
}

// publicAnsweredBy leaves out the names in replies that the plan does not declare or
// that could hold a text.
func publicAnsweredBy(m plan.Plan, by plan.AnsweredBy) plan.AnsweredBy {
	form := regexp.MustCompile(`^[0-9A-Za-z._:/@+-]{1,120}$`)
	listed := len(by.RepliedAs)
	by.RepliedAs = slices.DeleteFunc(slices.Clone(by.RepliedAs), func(name string) bool {
		return !form.MatchString(name) || !audit.Declares(m.Model, name, m.Model.Name)
	})
	by.RepliedOther = by.RepliedOther || len(by.RepliedAs) < listed
	return by
}

// newWithheld lists the withheld files by name. The journal's digest can be told:
// the task_sealed of each task holds 32 random bytes. The other files follow from
// texts, times and counts, so that who knows all of a run but an answer could try
// guesses at it on their digests, and the scorecard counts violations and rollbacks of
// which the withheld ones alone tell; and a decision names its finding by a digest of
// what was found.
func newWithheld(journalSHA256 string, decided, rejudged bool) []WithheldFile {
	all := []WithheldFile{{Name: audit.ReportFile}, {trajectory.JournalFile, journalSHA256}, {Name: LeaderboardFile}, {Name: audit.RejudgmentsFile}, {Name: scorecardFile}, {Name: rundir.TrajectoriesFile}}
	if !rejudged {
		all = slices.DeleteFunc(all, func(f WithheldFile) bool { return f.Name == audit.RejudgmentsFile })
	}
	if decided {
		all = slices.Insert(all, 0, WithheldFile{Name: audit.AdjudicationsFile})
	}
	return all
}

// PublicTexts names the texts of a plan that people or programs other than this one
// wrote, a phrase each: they are in a public package, too.
func PublicTexts(m plan.Plan) []string {
	var all, servers []string
	listed, variables := map[string]int{}, map[string]int{}
	for _, t := range m.Tools {
		if t.Server == "" {
			continue
		}
		if listed[t.Server]++; listed[t.Server] == 1 {
			servers = append(servers, t.Server)
		}
		variables[t.Server] = len(t.Env)
	}
	for _, server := range servers {
		all = append(all, fmt.Sprintf("the name of the MCP server %s and its description of %s", quote(strings.TrimPrefix(server, "mcp:")), view.Count(listed[server], "tool")))
		if n := variables[server]; n > 0 {
			all = append(all, fmt.Sprintf("the names of %s that the MCP server %s is given", view.Count(n, "variable"), quote(strings.TrimPrefix(server, "mcp:"))))
		}
	}
	for member, entries := range map[string][]string{"answer_sources": m.Policy.AnswerSources, "commands": m.Policy.Commands, "packages": m.Policy.Packages} {
		if len(entries) > 0 {
			all = append(all, "what the policy file has under "+member)
		}
	}
	slices.Sort(all)
	return all
}

// tellsWhy reports whether the summary holds words about why recording failed.
func tellsWhy(s rundir.Summary) bool {
	return s.Unrecorded != "" || slices.ContainsFunc(s.Interruptions, func(i rundir.Interruption) bool { return i.Unsubmittable != "" })
}

// publicFiles returns the files that a public package has in place of those that
// it withholds.
func publicFiles(run *rundir.Run) (map[string][]byte, error) {
	var leaves, rows []byte
	add := func(to *[]byte, v any) error {
		line, err := canonical.Encode(v)
		*to = append(append(*to, line...), '\n')
		return err
	}
	for i, leaf := range run.Leaves() {
		hash, err := leaf.Hash()
		if err != nil {
			return nil, err
		}
		if err := add(&leaves, publicLeaf{hash, leaf.TaskID}); err != nil {
			return nil, err
		}
		if err := add(&rows, newPublicResult(run.Result(run.Tasks[i]))); err != nil {
			return nil, err
		}
	}
	return map[string][]byte{leavesFile: leaves, rundir.ResultsFile: rows}, nil
}

// withhold takes out of the stage what a public package does not have, and returns
// its evidence.
func withhold(stage string, e evidence, run *rundir.Run, report audit.Report, additions []string) (evidence, error) {
	for _, name := range append([]string{trajectory.JournalFile, rundir.TrajectoriesFile, rundir.ResultsFile}, additions...) {
		if err := os.Remove(filepath.Join(stage, name)); err != nil {
			return evidence{}, fmt.Errorf("making the package: %w", err)
		}
	}
	return e.published(run, report), nil
}
