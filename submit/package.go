// Package submit makes a submission package out of a finished run, and lets
// anyone verify one: [VerifyPath] is the entry point for other programs. A package is a folder of exactly fifteen files, and of one more
// where findings were decided about, and where another judge judged the run later:
//
//	manifest.json manifest.dsse.json constitution.json events.jsonl
//	trajectories.jsonl results.jsonl checkpoint    the run's files, the same bytes
//	metadata.json                   the run's summary.json, the same bytes
//	leaderboard.jsonl               {"model_answer":…,"reasoning_trace":…,"task_id":…} a planned task, in plan order
//	scorecard.json                  what it cost to be right: a rundir.Scorecard
//	audit-report.json               what the audit found in these files
//	adjudications.jsonl             the signed decisions about findings, if there are any
//	rejudgments.jsonl               the signed later judgments, if there are any
//	README.md                       for people
//	SHA256SUMS                      of every file but itself and attestation.*
//	attestation.dsse.json           an in-toto v1 statement about every file but attestation.*
//	attestation.sigstore.json       the same envelope as a Sigstore bundle v0.3
//
// [Build] copies the run's files once, and audits, packages and verifies those
// copies; the package appears by rename, or nothing does. It refuses, with a
// sentence a reason, a run that is not fit to be submitted: findings of
// the audit, gaps in its gate, failed recording, a plan that leaves out what a
// leaderboard must know (TestRefusals). Config.AllowDirty makes the package anyway;
// its name, its statement and its README then say so. With
// Config.Archive the package, of either kind, is one .tar.gz. [Open] extracts
// one that any program packed (TestArchiveOfOthers, TestHostileEntries, TestHostileBytes).
//
// [Verify] rebuilds what can be rebuilt — leaderboard, scorecard, sums, bundle, statement,
// and through internal/rundir all that derives from the journal — and compares
// bytes. With the gold answers it computes the official verdicts again; with them, or where
// none were needed, it repeats the audit and compares the report. [Verified.Rescore] and
// [Verified.Rerun] do so for who gets the answers later. What remains is under the
// attestation's one signature, by the key of the run's plan. Any other byte is a *trajectory.Fault that names the file
// (TestEveryBit, TestTampering). Whether that key is trusted is the caller's to
// decide. The README's shell lines do the part of it that needs no knowledge of
// the formats, with openssl, jq and sha256sum (TestShell).
//
// With Config.Public the package holds no text of the run but its plan, so that it can be posted:
//
//	manifest.json manifest.dsse.json constitution.json checkpoint metadata.json    as above
//	results.jsonl                   a [PublicResult] a planned task
//	leaves.jsonl                    {"leaf_hash":…,"task_id":…} a planned task, in plan order
//	README.md SHA256SUMS attestation.*    as above, about these
//
// [VerifyPublic] checks that the leaves give the signed root and that records,
// summary and statement agree; what rests on the files that are withheld is the
// signer's word, and the statement says so (TestPublicEveryBit, TestPublicForged).
// A task that is disclosed later is held against it by [Public.Shows].
package submit

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// The files of a package that are not a run's.
const (
	MetadataFile    = "metadata.json" // the run's summary.json
	LeaderboardFile = "leaderboard.jsonl"
	scorecardFile   = "scorecard.json"
	ReadmeFile      = "README.md"
	SumsFile        = "SHA256SUMS"
	AttestationFile = "attestation.dsse.json"
	BundleFile      = "attestation.sigstore.json"
)

// copied are the files that come from the run, by their name in the package.
func copied() map[string]string {
	return map[string]string{
		plan.ManifestFile: plan.ManifestFile, plan.EnvelopeFile: plan.EnvelopeFile,
		plan.ConstitutionFile: plan.ConstitutionFile, trajectory.JournalFile: trajectory.JournalFile,
		rundir.TrajectoriesFile: rundir.TrajectoriesFile, rundir.ResultsFile: rundir.ResultsFile,
		trajectory.CheckpointFile: trajectory.CheckpointFile, MetadataFile: rundir.SummaryFile,
	}
}

// additions are the files that a package has only if there is something in them.
func additions() []string { return []string{audit.AdjudicationsFile, audit.RejudgmentsFile} }

// Files returns the names of a package's files, sorted, with those of the given
// additions: audit.AdjudicationsFile and audit.RejudgmentsFile.
func Files(with ...string) []string {
	all := []string{ReadmeFile, SumsFile, audit.AdjudicationsFile, AttestationFile, BundleFile, audit.ReportFile, trajectory.CheckpointFile, plan.ConstitutionFile,
		trajectory.JournalFile, LeaderboardFile, plan.EnvelopeFile, plan.ManifestFile, MetadataFile, audit.RejudgmentsFile, rundir.ResultsFile, scorecardFile, rundir.TrajectoriesFile}
	return slices.DeleteFunc(all, func(name string) bool { return slices.Contains(additions(), name) && !slices.Contains(with, name) })
}

// subjects returns the names of the files that the attestation is about,
// sorted.
func subjects(with []string) []string {
	return slices.DeleteFunc(Files(with...), func(name string) bool { return name == AttestationFile || name == BundleFile })
}

// signedAdditions returns the additions that digests has.
func signedAdditions(digests map[string]string) []string {
	return slices.DeleteFunc(additions(), func(name string) bool { return digests[name] == "" })
}

// IsPackage tells a package, whole or damaged, from a run directory: by the files
// that only a package has.
func IsPackage(dir fs.FS) bool {
	for _, name := range []string{AttestationFile, SumsFile, BundleFile, LeaderboardFile, MetadataFile} {
		if _, err := fs.Lstat(dir, name); err == nil {
			return true
		}
	}
	return false
}

// Config says what to package.
type Config struct {
	Run        string             // run directory
	Out        string             // folder in which the package appears; made if it is not there
	Key        sign.Key           // the key of the run's plan
	Gold       *audit.Gold        // nil: not at hand, which leaves gaps in the audit of a scored run
	Bodies     map[string][]byte  // whole documents for the audit, by digest; each must be one that the run has the digest of
	Date       string             // 2031-02-03
	AllowDirty bool               // package a run that would be refused, and say so everywhere
	Strict     bool               // refuse a run with findings that a person must review, too
	Public     bool               // leave out every text of the run but its plan
	Submitter  *Submitter         // nil: not named
	Harness    trajectory.Harness // the program that packages
	Archive    bool               // one file instead of a folder, which Open reads
}

// Package is a package that has been made.
type Package struct {
	Path              string // where it is: its folder, or its archive
	Name              string // submission-<date>-<last eight of the run id>, with -dirty where it would have been refused, and -public
	AttestationSHA256 string // sha256:… of attestation.dsse.json
	Files             int    // how many files it has
	Bytes             int64  // how long they are together, or their archive is
	*Verified
}

// Verified is a package whose integrity holds: its bytes are what Key signed,
// and agree with each other.
type Verified struct {
	Run         *rundir.Run
	Report      audit.Report
	Later       []audit.SealedRejudgment // judgments of other judges, after the run
	Statement   Statement
	Key         sign.PublicKey // signed it; trust is the caller's to decide
	NotRebuilt  string         // why README.md, which another program wrote, was not made again; "" if it is what the files give
	NotRerun    string         // why the audit was not run again; "" if it was, and gave the same report
	NotRescored string         // why the official verdicts were not told again; "" if they were, and are those recorded
}

// ErrTaken says that there is something where a package was to appear.
var ErrTaken = errors.New("is already there")

// Refusal is the error of a run that is not packaged: one sentence a reason.
type Refusal struct {
	Reasons []string
	Final   bool   // AllowDirty changes nothing
	Audit   bool   // the audit tells more about a reason
	Strict  bool   // without Strict it would be packaged
	PlanKey string // id of the key that signed the plan, where that is another than Key; else ""
}

func (r *Refusal) Error() string {
	return "the run is not packaged: " + strings.Join(r.Reasons, "; ")
}

// name returns a package's name.
func name(date, runID string, dirty, public bool) string {
	n := "submission-" + date + "-" + runID[max(0, len(runID)-8):]
	if dirty {
		n += "-dirty"
	}
	if public {
		n += "-public"
	}
	return n
}
