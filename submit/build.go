package submit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
)

// Build packages a run. Either the whole package appears, verified and durable,
// or nothing is left behind and the error says why: a *trajectory.Fault for
// evidence that does not verify, audit.ErrIncomplete for a run that is not
// finished, a *Refusal for one that does not deserve to be submitted, ErrTaken where
// the package's place is not free.
//
// A folder .new-submission-… in c.Out, or such a file of an archive, is what a
// killed process left; where there are no hard links, so is an empty archive.
func Build(ctx context.Context, c Config) (Package, error) {
	if err := CheckDate(c.Date, c.Archive); err != nil {
		return Package{}, err
	}
	if c.Submitter != nil {
		if err := c.Submitter.Check(); err != nil {
			return Package{}, err
		}
	}
	root, err := os.OpenRoot(c.Run)
	if err != nil {
		return Package{}, fmt.Errorf("opening the run: %w", err)
	}
	defer root.Close()
	return buildFrom(ctx, c, root.FS())
}

// CheckDate checks that the date of a package is one, such as 2031-02-03, and that of an
// archive one that a tar has room for.
func CheckDate(date string, archive bool) error {
	if _, err := time.Parse(time.DateOnly, date); err != nil {
		return fmt.Errorf("the package's date %q is not of the form 2031-02-03", date)
	}
	if !archive {
		return nil
	}
	_, err := archiveDate(date)
	return err
}

// buildFrom is Build for a run directory that is open, whatever others do to it
// meanwhile (TestRunIsEdited).
func buildFrom(ctx context.Context, c Config, run fs.FS) (_ Package, err error) {
	known, err := rundir.ReadSigned(run, nil)
	if err != nil {
		return Package{}, err
	}
	known.Manifest, known.Envelope = nil, nil
	m := known.Plan
	// Whether it will be dirty is not known yet, but without AllowDirty it
	// cannot be.
	if err := checkFree(c.Out, c.called(name(c.Date, m.RunID, c.AllowDirty, c.Public))); err != nil {
		return Package{}, err
	}
	recordingFailed, err := rundir.ReadMarker(run) // why recording failed, "" if it did not
	if err != nil {
		return Package{}, err
	}
	recordingFailed = strings.ToValidUTF8(recordingFailed, "\ufffd")
	if _, err := fs.Lstat(run, rundir.MarkerFile); recordingFailed == "" && !errors.Is(err, fs.ErrNotExist) { // it still says open
		return Package{}, diagnose(run, errors.New("the run was being closed; try again"))
	}
	var missing []string // folders that are made for the package, the innermost first
	for dir := filepath.Clean(c.Out); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, dir)
	}
	defer func() {
		for _, folder := range missing {
			if err != nil {
				os.Remove(folder) // what others have put there in the meantime keeps it
			}
		}
	}()
	if err = os.MkdirAll(c.Out, 0o755); err != nil {
		return Package{}, fmt.Errorf("making the folder for the package: %w", err)
	}
	dir, err := os.MkdirTemp(c.Out, ".new-"+name(c.Date, m.RunID, false, c.Public)+"-")
	if err != nil {
		return Package{}, fmt.Errorf("making the package: %w", err)
	}
	p, err := stage{dir, c.Archive, map[string]string{}}.fill(ctx, c, run, known, recordingFailed)
	if err == nil {
		err = p.place(ctx, c, dir)
	}
	if err != nil {
		return Package{}, errors.Join(err, os.RemoveAll(dir))
	}
	if err := durable.SyncDir(c.Out); err != nil {
		return Package{}, fmt.Errorf("%q was made, but may not outlast a crash: %w", p.Path, err)
	}
	return p, nil
}

// StrayBody is a document that a package was to be audited with and that nothing in
// the run has the digest of.
type StrayBody struct{ SHA256 string }

func (e *StrayBody) Error() string { return "nothing in the run has the digest " + e.SHA256 }

// fill makes the package in the folder s, of a run whose plan may be known. From the copies on, the run
// directory is not looked at again. The journals and the trajectories are read once, from the copies: the verifier, the
// audit and the package are fed from that, and it gives their digests. Each other copy is digested as it is written,
// and that reading must give the same.
func (s stage) fill(ctx context.Context, c Config, run fs.FS, known rundir.SignedPlan, recordingFailed string) (Package, error) {
	for to, from := range copied() {
		if err := ctx.Err(); err != nil {
			return Package{}, err
		}
		if err := s.copyFile(run, from, to); err != nil {
			return Package{}, diagnose(run, err)
		}
	}
	pkg := os.DirFS(s.dir)
	if p, err := rundir.ReadSigned(pkg, &known); err == nil { // what is wrong with it shows when it is verified
		if err := errors.Join(s.copyAgentFiles(run, p.Plan), s.copyShards(run, p.Plan)); err != nil {
			return Package{}, diagnose(run, err)
		}
	}
	additions, err := s.copyAdditions(run)
	if err != nil {
		return Package{}, err
	}
	report, verified, err := audit.Run(pkg, audit.Options{Bodies: c.Bodies, Gold: c.Gold, Marked: recordingFailed, Plan: &known, Summary: MetadataFile})
	if err != nil {
		return Package{}, inRun(err, additions)
	}
	for name, digest := range verified.Files {
		if streamed(name) {
			s.digests[name] = digest
		} else if s.digests[name] != digest {
			return Package{}, inRun(changed(name), additions)
		}
	}
	for digest := range c.Bodies {
		if !slices.Contains(report.Inputs.Bodies, digest) {
			return Package{}, &StrayBody{digest}
		}
	}
	var later []audit.SealedRejudgment
	if additions[audit.RejudgmentsFile] != nil {
		data, err := rundir.ReadFile(pkg, audit.RejudgmentsFile, audit.MaxRejudgments)
		if err == nil {
			later, err = audit.DecodeRejudgments(data, verified)
		}
		if err != nil {
			return Package{}, inRun(err, additions)
		}
	}
	if err := additions.checkNames(report, later); err != nil {
		return Package{}, err
	}
	if err := refusal(c, verified, report); err != nil {
		return Package{}, err
	}
	if err := ctx.Err(); err != nil {
		return Package{}, err
	}
	statement, err := s.writeRest(c, verified, report, later)
	if err != nil {
		return Package{}, err
	}
	found := &Verified{Run: verified, Report: report, Later: later, Statement: statement, Key: verified.Key}
	o := Options{Bodies: c.Bodies, Gold: c.Gold, Harness: func() (trajectory.Harness, error) { return c.Harness, nil }}
	if c.Public {
		_, err = VerifyPublic(pkg, o)
	} else if signed, openErr := openSigned(pkg, false, &known); openErr != nil {
		err = openErr
	} else {
		found, err = signed.verify(pkg, o, func(audit.Report) (audit.Report, *rundir.Run, error) { return report, verified, nil })
	}
	if err != nil {
		return Package{}, fmt.Errorf("the package does not verify: %w", err)
	}
	return Package{Name: statement.Predicate.Name, Verified: found}, nil
}

// refusal says why a run is not packaged. That it has another key is no matter
// of how good the run is: no one could verify the package.
func refusal(c Config, run *rundir.Run, report audit.Report) error {
	counted := report
	if !c.Public { // which withholds the countersignatures
		counted = report.Trusting(audit.TrustAll)
	}
	all := reasons(run, counted, run.Marked)
	r := &Refusal{Strict: len(all) == 0}
	for i, check := range report.Checks {
		for j, f := range check.Findings {
			if c.Strict && f.Closed != counted.Checks[i].Findings[j].Closed {
				all = append(all, fmt.Sprintf("%s %s: the dismissal of a CRITICAL finding about task %s is countersigned, and --strict was given",
					plain(check.ID), plain(check.Name), quote(f.TaskID)))
			}
		}
	}
	for _, check := range report.Checks {
		if c.Strict && check.Status == audit.Review {
			all = append(all, fmt.Sprintf("%s %s needs review by a person, and --strict was given: %s",
				plain(check.ID), plain(check.Name), findings(check)))
		}
	}
	r.Audit = len(all) > 0
	var final []string
	if mine := c.Key.Public(); !mine.Equal(run.Key) {
		r.PlanKey = run.Key.ID()
		final = append(final, fmt.Sprintf("the signing key is %s, but the run's plan was signed by %s", mine.ID(), run.Key.ID()))
	}
	if why := implausibleDate(c.Date, run.CompletedAt()); why != "" {
		final = append(final, "the package "+why)
	}
	if c.Public && tellsWhy(run.Summary()) {
		final = append(final, "the run's summary tells why recording failed, in words that may name places on this computer: a public package would have to hold them")
	}
	if c.Public { // records and summary of a journal that no run gives, and that the audit reads
		why, tools, rows := "", toolNames(run.Manifest), []PublicResult(nil)
		for i, t := range run.Tasks {
			row := newPublicResult(run.Result(t))
			if reason := row.implausible(run.Manifest, *t.Plan, tools); reason != "" && why == "" {
				why = fmt.Sprintf("line %d of %s %s", i+1, rundir.ResultsFile, reason)
			}
			rows = append(rows, row)
		}
		if reason := implausibleSummary(run.Summary().Told(), run.Manifest, rows, run.Shards, run.End.Events); reason != "" && why == "" {
			why = rundir.SummaryFile + " " + reason
		}
		if why != "" {
			final = append(final, why+": no run gives that, and no public package can hold it")
		}
	}
	if len(final) == 0 && (c.AllowDirty || len(all) == 0) {
		return nil
	}
	r.Reasons, r.Final, r.Strict = append(final, all...), len(final) > 0, r.Strict && len(final) == 0
	return r
}

// writeRest writes the files that are not copied, the attestation last. In the place of
// what a public package withholds it writes what that one has.
func (s stage) writeRest(c Config, run *rundir.Run, report audit.Report, later []audit.SealedRejudgment) (Statement, error) {
	put := func(name string, data []byte) error {
		s.digests[name] = canonical.Digest(data)
		return s.write(name, func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		})
	}
	e, err := newEvidence(run, report, len(later), Predicate{Date: c.Date, GoldAtHand: c.Gold != nil && run.Scored(), Harness: c.Harness,
		RecordingFailed: run.Marked, Submitter: c.Submitter})
	if err != nil {
		return Statement{}, err
	}
	additions := present(run.Manifest, report, len(later))
	files, names := map[string][]byte(nil), Files(append(additions, shardFiles(run.Shards, false)...)...)
	if c.Public {
		for _, name := range slices.Concat(run.Journals(), []string{rundir.TrajectoriesFile, rundir.ResultsFile}, additions) {
			if err := os.Remove(s.path(name)); err != nil {
				return Statement{}, fmt.Errorf("making the package: %w", err)
			}
		}
		e, names = e.published(run, report), publicPackageFiles(run.Shards)
		files, err = publicFiles(run)
	} else {
		files, err = derivedFiles(run, report)
	}
	if err != nil {
		return Statement{}, err
	}
	if files[ReadmeFile], err = newReadme(e.statement().Predicate, run.Manifest, run.Summary(), run.Key).of(report, run, later).render(); err != nil {
		return Statement{}, err
	}
	for name, data := range files {
		if err := put(name, data); err != nil {
			return Statement{}, err
		}
	}
	e.digests = map[string]string{}
	for _, name := range signedFiles(names) {
		if name != SumsFile {
			e.digests[name] = s.digests[name]
		}
	}
	list := sums(newSubjects(e.digests))
	e.digests[SumsFile] = canonical.Digest(list)
	if err := put(SumsFile, list); err != nil {
		return Statement{}, err
	}
	statement := e.statement()
	return statement, seal(c.Key, statement, put)
}

// derivedFiles returns those files of a full package that derive from the run and
// its audit.
func derivedFiles(run *rundir.Run, report audit.Report) (map[string][]byte, error) {
	lines, err := Leaderboard(run, audit.Voided(report.Checks))
	if err != nil {
		return nil, err
	}
	counted, err := run.Scorecard() // as the journal has it: that a task is void changes nothing of what it cost
	if err != nil {
		return nil, err
	}
	card, err := counted.Encode()
	if err != nil {
		return nil, err
	}
	encoded, err := report.Encode()
	return map[string][]byte{LeaderboardFile: lines, scorecardFile: card, audit.ReportFile: encoded}, err
}

// seal signs the statement and writes both forms of the attestation.
func seal(key sign.Key, s Statement, put func(string, []byte) error) error {
	payload, err := s.Encode()
	if err != nil {
		return err
	}
	envelope, err := sign.Seal(key, PayloadType, payload)
	if err != nil {
		return err
	}
	b, err := sigstoreBundle(envelope, key.Public())
	if err != nil {
		return err
	}
	if err := put(AttestationFile, envelope); err != nil {
		return err
	}
	return put(BundleFile, b)
}

// checkFree checks that there is no file of a name. A rename would replace an
// empty folder.
func checkFree(out, name string) error {
	path := filepath.Join(out, name)
	_, err := os.Lstat(path)
	if err == nil {
		return fmt.Errorf("%q %w", path, ErrTaken)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("looking for the package's place: %w", err)
	}
	return nil
}

// diagnose says why a run's files cannot be packaged: its evidence is broken,
// or it is not finished, or else what went wrong.
func diagnose(dir fs.FS, cause error) error {
	run, err := rundir.Verify(dir, rundir.Options{})
	if err != nil {
		return err
	}
	if !run.Complete {
		return fmt.Errorf("%w: %s", audit.ErrIncomplete, run.Missing)
	}
	return cause
}

// inRun gives a fault the name that the file has in the run.
func inRun(err error, additions added) error {
	var fault *trajectory.Fault
	if !errors.As(err, &fault) {
		return err
	}
	switch {
	case fault.File == MetadataFile:
		return &trajectory.Fault{File: rundir.SummaryFile, Line: fault.Line, Reason: fault.Reason}
	case fault.Line > 0 && fault.Line <= int64(len(additions[fault.File])):
		return &trajectory.Fault{File: additions[fault.File][fault.Line-1], Reason: fault.Reason}
	}
	return err
}

// planReasons are those that need no audit.
func planReasons(m plan.Plan, recordingFailed string) []string {
	all := []string{}
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	switch recordingFailed {
	case "":
	case recordingWithheld:
		add("recording failed during the run, so part of it has no evidence; why is withheld")
	default:
		add("recording failed during the run, so part of it has no evidence: %s", quote(recordingFailed))
	}
	if !m.SubmitIntent {
		add("the run was planned without --submit-intent, so answers could be graded before all were committed")
	}
	if of := m.Dataset.ErrorsOf; of.RunID != "" {
		add("its tasks are those that failed for infrastructure in run %s: they were chosen by an outcome", of.RunID)
	}
	if m.Dataset.Split == "" {
		add("the plan declares no split")
	}
	if m.Dataset.Selection == "all" && len(m.Tasks) < m.Dataset.SplitSize {
		add("the plan says that all tasks of split %s were selected, but has %d of %d: an unlabelled subset", quote(m.Dataset.Split), len(m.Tasks), m.Dataset.SplitSize)
	}
	return all
}

// publicReasons are reasons without a word that the agent, its tools or a person
// wrote.
func publicReasons(m plan.Plan, checks []CheckResult, shards *rundir.Shards, recordingFailed string) []string {
	all := planReasons(m, recordingFailed)
	for i, c := range checks {
		check := audit.Checks()[i]
		if c.Status == audit.Fail {
			journal, line := (&rundir.Fold{Shards: shards}).Place(c.Line - 1)
			where := fmt.Sprintf("line %d of %s", line, journal)
			if c.TaskID != "" {
				where = "task " + quote(c.TaskID) + ", " + where
			}
			all = append(all, fmt.Sprintf("%s %s fails (%s): %s", c.ID, check.Name, c.Severity, where))
		}
		if check.Gate && c.Gaps > 0 {
			all = append(all, fmt.Sprintf("%s %s could not see %s", c.ID, check.Name, view.Count(c.Gaps, "thing")))
		}
	}
	return all
}

// reasons lists why a run does not deserve to be submitted, a sentence each.
// What others wrote is in quotes.
func reasons(run *rundir.Run, report audit.Report, recordingFailed string) []string {
	all := planReasons(run.Manifest, recordingFailed)
	before := len(all)
	for _, c := range report.Checks {
		if c.Status == audit.Fail {
			all = append(all, fmt.Sprintf("%s %s fails (%s): %s", plain(c.ID), plain(c.Name), plain(string(c.Severity)), findings(c)))
		}
		if !c.Gate {
			continue
		}
		for _, gap := range c.Gaps {
			all = append(all, fmt.Sprintf("%s %s could not see: %s", plain(c.ID), plain(c.Name), plain(gap)))
		}
	}
	if !report.Attestation.Clean && len(all) == before {
		all = append(all, "the audit does not call the run clean")
	}
	return all
}

// findings describes the first of a check's gravest open findings, and how many more
// there are of that kind.
func findings(c audit.CheckReport) string {
	first, more := gravest(c)
	if first == nil {
		return "without a finding"
	}
	journal, line := first.Place()
	where := fmt.Sprintf("line %d of %s", line, journal)
	if first.TaskID != "" {
		where = "task " + quote(first.TaskID) + ", " + where
	}
	text := fmt.Sprintf("%s: %s, where there should be %s", where, quote(first.Got), quote(first.Want))
	if more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

// gravest returns the first of a check's gravest open findings, nil if there is
// none, and how many more there are of that kind.
func gravest(c audit.CheckReport) (first *audit.Finding, more int) {
	more = -1
	for i, f := range c.Findings {
		if f.Severity != c.Severity || f.Closed != "" {
			continue
		}
		more++
		if first == nil {
			first = &c.Findings[i]
		}
	}
	return first, more
}
