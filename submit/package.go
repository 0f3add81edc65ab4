// Package submit makes a submission package out of a finished run, and lets
// anyone verify one: [VerifyPath] is the entry point for other programs. A package is a folder of exactly fifteen files, of one more
// where the agent was the user's own, where findings were decided about, and where another judge judged the run later, and of
// those of the shards where the run was merged:
//
//	manifest.json manifest.dsse.json constitution.json events.jsonl
//	trajectories.jsonl results.jsonl checkpoint    the run's files, the same bytes
//	agent-files.jsonl               likewise, if the plan has an own agent
//	shards.json shards/             likewise, of a merged run: which journals were merged, and a folder of each with
//	                                events.jsonl checkpoint delegation.dsse.json
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
//	shards.json shards/             as above, of each shard checkpoint and delegation.dsse.json
//	README.md SHA256SUMS attestation.*    as above, about these
//
// [VerifyPublic] checks that the leaves give the signed root and that records,
// summary and statement agree; what rests on the files that are withheld is the
// signer's word, and the statement says so (TestPublicEveryBit, TestPublicForged).
// A task that is disclosed later is held against it by [Public.Shows].
package submit

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json/jsontext"
)

// NamePrefix is what the names of packages begin with.
const NamePrefix = "submission-"

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
func additions() []string {
	return []string{audit.AdjudicationsFile, plan.AgentFilesFile, audit.RejudgmentsFile}
}

// Files returns the names of a package's files, sorted, with those given that not each has:
// audit.AdjudicationsFile, plan.AgentFilesFile, audit.RejudgmentsFile, and the files of shards.
func Files(with ...string) []string {
	all := []string{ReadmeFile, SumsFile, AttestationFile, BundleFile, audit.ReportFile, trajectory.CheckpointFile, plan.ConstitutionFile,
		trajectory.JournalFile, LeaderboardFile, plan.EnvelopeFile, plan.ManifestFile, MetadataFile, rundir.ResultsFile, scorecardFile, rundir.TrajectoriesFile}
	all = append(all, with...)
	slices.Sort(all)
	return all
}

// signedFiles returns those of a package's files that the attestation is about, in their order.
func signedFiles(names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return name == AttestationFile || name == BundleFile })
}

// IsPackage reports whether a directory is a package, whole or damaged, and no run directory: by the files
// that only a package has.
func IsPackage(dir fs.FS) bool {
	return slices.ContainsFunc([]string{AttestationFile, SumsFile, BundleFile, LeaderboardFile, MetadataFile}, holds(dir))
}

// holds returns a function that reports whether dir has a file of a name.
func holds(dir fs.FS) func(name string) bool {
	return func(name string) bool {
		_, err := fs.Lstat(dir, name)
		return err == nil
	}
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
	NotRescored string         // why the official verdicts were not computed again; "" if they were, and are those recorded
}

// ErrTaken says that there is something where a package was to appear.
var ErrTaken = errors.New("already exists")

// Refusal is the error of a run that is not packaged: one sentence a reason.
type Refusal struct {
	Reasons []string
	Final   bool   // AllowDirty changes nothing
	Audit   bool   // the audit report explains a reason
	Strict  bool   // without Strict it would be packaged
	PlanKey string // id of the key that signed the plan, where that is another than Key; else ""
}

func (r *Refusal) Error() string {
	return "the run is not packaged: " + strings.Join(r.Reasons, "; ")
}

// name returns a package's name.
func name(date, runID string, dirty, public bool) string {
	n := NamePrefix + date + "-" + runID[max(0, len(runID)-8):]
	if dirty {
		n += "-dirty"
	}
	if public {
		n += "-public"
	}
	return n
}

// limitOf bounds a file of a package, in bytes: some are read whole before their digest is known. A run of thousands
// of tasks stays far below.
func limitOf(name string) int64 {
	const kib, mib = 1 << 10, 1 << 20
	switch path.Base(name) {
	case trajectory.JournalFile, rundir.TrajectoriesFile:
		return rundir.MaxFile
	case trajectory.CheckpointFile, scorecardFile:
		return 4 * kib
	case plan.DelegationFile:
		return plan.MaxDelegation
	case plan.ConstitutionFile:
		return mib
	case SumsFile: // of a run of 4,096 shards: 1.3 MB
		return 2 * mib
	case AttestationFile, leavesFile, MetadataFile, ReadmeFile:
		return 16 * mib
	case BundleFile, plan.ManifestFile, audit.ReportFile, rundir.ShardsFile:
		return 32 * mib
	case plan.EnvelopeFile:
		return 64 * mib
	case audit.AdjudicationsFile:
		return audit.MaxAdjudications
	case audit.RejudgmentsFile:
		return audit.MaxRejudgments
	}
	return 256 * mib
}

// digestFile returns the digest of a file without holding it in memory. One that
// grows in the meantime has no digest.
func digestFile(dir fs.FS, name string) (string, error) {
	f, size, err := rundir.OpenFile(dir, name, limitOf(name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, size+1))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	if n != size {
		return "", changed(name)
	}
	return canonical.DigestOf(h), nil
}

// readSigned reads a file within its limit, which must have its digest.
func readSigned(dir fs.FS, name string, digests map[string]string) ([]byte, error) {
	data, err := rundir.ReadFile(dir, name, limitOf(name))
	if err == nil && canonical.Digest(data) != digests[name] {
		err = changed(name)
	}
	return data, err
}

// checkFiles checks that a package has exactly the files of names; may are allowed to be
// there besides, and a folder of shards.
func checkFiles(pkg fs.FS, names []string, may ...string) error {
	entries, err := fs.ReadDir(pkg, ".")
	if err != nil {
		return fmt.Errorf("reading the package: %w", err)
	}
	there := map[string]bool{}
	for _, e := range entries {
		if e.Name() == rundir.ShardsDir && e.IsDir() {
			continue // checkShardFiles looks into it
		}
		if !slices.Contains(names, e.Name()) && !slices.Contains(may, e.Name()) {
			return notPart(e.Name())
		}
		if !e.Type().IsRegular() {
			return trajectory.Faultf(e.Name(), "is not a regular file")
		}
		there[e.Name()] = true
	}
	for _, name := range names {
		if !there[name] {
			return trajectory.Faultf(name, rundir.Missing)
		}
	}
	return nil
}

// notPart is the fault of a file that no package has.
func notPart(name string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9._/-]+$`).MatchString(name) {
		name = strconv.Quote(name)
	}
	return trajectory.Faultf(name, "is not part of a package")
}

// stage is the folder in which a package is made.
type stage struct {
	dir     string
	packed  bool              // into an archive, which outlasts a crash in its place
	digests map[string]string // of the files in it, by name
}

// path returns the place of a file.
func (s stage) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

// write writes a new file, durably unless it will be packed.
func (s stage) write(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(s.path(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("writing the package: %w", err)
	}
	defer f.Close()
	if err := write(f); err != nil {
		return err
	}
	if !s.packed {
		if err := f.Sync(); err != nil {
			return fmt.Errorf("writing %s: %w", path.Base(name), err)
		}
	}
	return f.Close()
}

// copyFile copies a file of the run, by its name there, and digests the copy; one that streamed names is digested when it
// is verified.
func (s stage) copyFile(run fs.FS, from, name string) error {
	limit := limitOf(from)
	in, _, err := rundir.OpenFile(run, from, limit)
	if err != nil {
		return err
	}
	defer in.Close()
	return s.write(name, func(w io.Writer) error {
		h := sha256.New()
		if !streamed(name) {
			w = io.MultiWriter(w, h)
		}
		n, err := io.Copy(w, io.LimitReader(in, limit+1))
		if err != nil {
			return fmt.Errorf("copying %s: %w", from, err)
		}
		if n > limit {
			return trajectory.Faultf(from, "is larger than %d bytes", limit)
		}
		if !streamed(name) {
			s.digests[name] = canonical.DigestOf(h)
		}
		return nil
	})
}

// added are the names of a run's signed additions, in the order of their lines in a
// package, by the name of the file there.
type added map[string][]string

// copyAgentFiles copies the list of an own agent's files, which only the run of one has.
func (s stage) copyAgentFiles(run fs.FS, m plan.Plan) error {
	if m.Agent == nil {
		return nil
	}
	return s.copyFile(run, plan.AgentFilesFile, plan.AgentFilesFile)
}

// copyAdditions writes a run's adjudications, with their countersignatures, and later judgments into the one file
// that either have in a package, if there are any, and returns their names.
func (s stage) copyAdditions(run fs.FS) (added, error) {
	all := added{}
	for name, collect := range map[string]func(fs.FS) ([]string, [][]byte, error){
		audit.AdjudicationsFile: audit.CollectAdjudications, audit.RejudgmentsFile: audit.CollectRejudgments,
	} {
		files, envelopes, err := collect(run)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			continue
		}
		all[name] = files
		h := sha256.New()
		err = s.write(name, func(w io.Writer) error {
			for _, envelope := range envelopes {
				if _, err := io.MultiWriter(w, h).Write(append(envelope, '\n')); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		s.digests[name] = canonical.DigestOf(h)
	}
	return all, nil
}

// checkNames checks that the file of each decision had its finding's name in the run, and
// that of each later judgment its judge's. A package does not show these names.
func (a added) checkNames(report audit.Report, later []audit.SealedRejudgment) error {
	files := a[audit.AdjudicationsFile]
	for _, d := range report.Adjudications {
		r := audit.Ruling{Finding: d.Finding}
		if files[0] != r.File() {
			return trajectory.Faultf(files[0], "decides about finding %s, which its name is not of", d.Finding)
		}
		files = files[1:]
		if d.Countersigned == nil {
			continue
		}
		if files[0] != r.CountersignatureFile() {
			return trajectory.Faultf(files[0], "countersigns the decision about finding %s, which its name is not of", d.Finding)
		}
		files = files[1:]
	}
	for i, r := range later {
		if file := a[audit.RejudgmentsFile][i]; audit.RejudgmentFile(r.Judge) != file {
			return trajectory.Faultf(file, "is of the judge %q, which its name is not of", r.Judge.Model)
		}
	}
	return nil
}

// readAddition reads one of the additions, if the package has it.
func readAddition[T any](pkg fs.FS, run *rundir.Run, name string, digests map[string]string, decode func([]byte, *rundir.Run) ([]T, error)) ([]T, error) {
	if digests[name] == "" {
		return nil, nil
	}
	data, err := readSigned(pkg, name, digests)
	if err != nil {
		return nil, err
	}
	return decode(data, run)
}

// present returns the names of the additions that a package has.
func present(m plan.Plan, report audit.Report, later int) (names []string) {
	if m.Agent != nil {
		names = append(names, plan.AgentFilesFile)
	}
	if len(report.Adjudications) > 0 {
		names = append(names, audit.AdjudicationsFile)
	}
	if later > 0 {
		names = append(names, audit.RejudgmentsFile)
	}
	return names
}

// leaderboardLine is a line as the leaderboard takes it.
type leaderboardLine struct {
	ModelAnswer    string `json:"model_answer"` // "" where no answer was committed, or the task is void
	ReasoningTrace string `json:"reasoning_trace"`
	TaskID         string `json:"task_id"`
}

// Leaderboard returns leaderboard.jsonl: a line a planned task, in plan order.
// Void tasks have no answer in it, which the leaderboard would pay.
func Leaderboard(run *rundir.Run, void map[string]bool) ([]byte, error) {
	var all []byte
	for _, t := range run.Tasks {
		r := run.Result(t)
		line := leaderboardLine{ReasoningTrace: r.ReasoningTrace, TaskID: r.TaskID}
		if r.ModelAnswer != nil && !void[r.TaskID] {
			line.ModelAnswer = *r.ModelAnswer
		}
		b, err := canonical.Encode(line)
		if err != nil {
			return nil, err
		}
		all = append(append(all, b...), '\n')
	}
	return all, nil
}

// sums returns SHA256SUMS, in the form that sha256sum -c reads.
func sums(subjects []Subject) []byte {
	var b strings.Builder
	for _, s := range subjects {
		if s.Name != SumsFile {
			b.WriteString(s.Digest.SHA256 + "  " + s.Name + "\n")
		}
	}
	return []byte(b.String())
}

// bundleType is the media type of a Sigstore bundle v0.3.
const bundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"

// bundle is a Sigstore bundle of an envelope that was signed with a key that
// the verifier has: no certificate, no log entry.
type bundle struct {
	Envelope             jsontext.Value `json:"dsseEnvelope"`
	MediaType            string         `json:"mediaType"`
	VerificationMaterial struct {
		PublicKey struct {
			Hint string `json:"hint"` // key id
		} `json:"publicKey"`
	} `json:"verificationMaterial"`
}

// sigstoreBundle returns attestation.sigstore.json for attestation.dsse.json.
func sigstoreBundle(envelope []byte, key sign.PublicKey) ([]byte, error) {
	b := bundle{Envelope: slices.Clone(envelope), MediaType: bundleType}
	b.VerificationMaterial.PublicKey.Hint = key.ID()
	return canonical.Encode(b)
}
