package submit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Options say what a verifier has besides the package.
type Options struct {
	Gold    *audit.Gold                        // nil: not at hand, so that a scored run can be neither scored nor audited again
	Bodies  map[string][]byte                  // whole documents, by digest: without those that the audit had it is not run again
	Harness func() (trajectory.Harness, error) // the program that verifies, asked for where it finds or words otherwise; nil: not to be told from the one that packaged
	Once    bool                               // do not run the audit again: what it found does not matter
}

// Verify checks the integrity of a package: exactly its files, all of them
// signed by the key of the run's plan, each what the others give. Anything else
// is a *trajectory.Fault. What costs little is looked at first; then the official
// verdicts are told from the gold answers, and last the report is held against that
// of another audit, which is made while the run's files are read. The error matches audit.ErrGold for gold
// answers that are not the plan's.
func Verify(pkg fs.FS, o Options) (*Verified, error) {
	// Which additions belong to it, the statement says.
	if err := checkFiles(pkg, Files(), additions()...); err != nil {
		return nil, err
	}
	m, planSHA256, key, err := rundir.ReadPlan(pkg)
	if err == nil {
		err = plan.CheckSelection(m)
	}
	if err != nil {
		return nil, err
	}
	statement, payload, err := readAttestation(pkg, key)
	if err != nil {
		return nil, err
	}
	digests := statement.digests()
	for _, name := range additions() {
		_, signed := digests[name]
		if _, err := fs.Lstat(pkg, name); (err == nil) != signed {
			if signed {
				return nil, trajectory.Faultf(name, rundir.Missing)
			}
			return nil, trajectory.Faultf(name, "is not part of this package")
		}
	}
	if err := checkSubjects(pkg, statement, subjects(signedAdditions(digests))); err != nil {
		return nil, err
	}
	if err := checkReadme(pkg, digests); err != nil {
		return nil, err
	}
	p := statement.Predicate
	data, err := readSigned(pkg, audit.ReportFile, maxReport, digests)
	if err != nil {
		return nil, err
	}
	report, err := audit.DecodeReport(data)
	if err != nil {
		return nil, err
	}
	again, run, err := checkRun(pkg, digests, o.again(m, p, report), o.Once)
	if err != nil {
		return nil, err
	}
	if run.ManifestSHA256 != planSHA256 {
		return nil, changed(plan.ManifestFile)
	}
	if digests[plan.ConstitutionFile] != m.ConstitutionSHA256 {
		return nil, changed(plan.ConstitutionFile)
	}
	later, err := readRejudgments(pkg, run, digests)
	if err != nil {
		return nil, err
	}
	if err := checkReport(pkg, report, run, later, digests); err != nil {
		return nil, err
	}
	if err := checkDerived(run, report, digests); err != nil {
		return nil, err
	}
	e, err := newEvidence(run, report, len(later), p.says())
	if err != nil {
		return nil, err
	}
	e.digests = digests
	if err := checkStatement(statement, payload, e); err != nil {
		return nil, err
	}
	if run.NotRecorded != "" && p.RecordingFailed == "" {
		return nil, trajectory.Faultf(AttestationFile, "does not say that recording failed, which the journal does")
	}
	run.Marked = p.RecordingFailed // the marker itself is not packaged
	v := &Verified{Run: run, Report: report, Later: later, Statement: statement, Key: key}
	if err := v.Rescore(o.Gold); err != nil {
		return nil, err
	}
	if err := v.compare(again, o); err != nil {
		return nil, err
	}
	if v.NotRebuilt, err = newReadme(p, run.Manifest, run.Summary(), key).of(report, run, later).rebuilt(digests, o); err != nil {
		return nil, err
	}
	return v, nil
}

// readAttestation reads the statement and its bytes from the envelope, and
// checks the signature and the envelope's other form.
func readAttestation(pkg fs.FS, key sign.PublicKey) (Statement, []byte, error) {
	refuse := func(file, format string, args ...any) (Statement, []byte, error) {
		return Statement{}, nil, trajectory.Faultf(file, format, args...)
	}
	envelope, err := rundir.ReadFile(pkg, AttestationFile, maxAttestation)
	if err != nil {
		return Statement{}, nil, err
	}
	payload, err := sign.Unseal(envelope, PayloadType, key)
	if err != nil {
		return refuse(AttestationFile, "%v", err)
	}
	var s Statement
	if err := canonical.Decode(payload, &s); err != nil {
		return refuse(AttestationFile, "its statement is %v", err)
	}
	if s.Type != StatementType || s.PredicateType != PredicateType || s.Predicate.Schema != schema {
		return refuse(AttestationFile, "is a statement of type %q about %q, not of this version", s.PredicateType, s.Predicate.Schema)
	}
	if _, err := time.Parse(time.DateOnly, s.Predicate.Date); err != nil {
		return refuse(AttestationFile, "its date %q is not a date", s.Predicate.Date)
	}
	if err := checkHarness(s.Predicate.Harness); err != nil {
		return refuse(AttestationFile, "%v", err)
	}
	if by := s.Predicate.Submitter; by != nil {
		if err := by.Check(); err != nil {
			return refuse(AttestationFile, "%v", err)
		}
	}
	want, err := sigstoreBundle(envelope, key)
	if err != nil {
		return refuse(AttestationFile, "%v", err)
	}
	got, err := rundir.ReadFile(pkg, BundleFile, 2*maxAttestation)
	if err != nil {
		return Statement{}, nil, err
	}
	if !bytes.Equal(got, want) {
		return refuse(BundleFile, "is not the bundle of "+AttestationFile)
	}
	return s, payload, nil
}

// checkSubjects wants the statement to be about the files of names, and these to be
// what it and SHA256SUMS say.
func checkSubjects(pkg fs.FS, s Statement, names []string) error {
	digests := s.digests()
	if len(digests) != len(names) || !slices.Equal(s.Subject, newSubjects(digests)) {
		return trajectory.Faultf(AttestationFile, "is not about exactly the package's files, in order")
	}
	for _, name := range names {
		got, err := digestFile(pkg, name)
		if err != nil {
			return err
		}
		if got != digests[name] {
			return trajectory.Faultf(name, "is not what %s signs", AttestationFile)
		}
	}
	data, err := rundir.ReadFile(pkg, SumsFile, maxSums)
	if err != nil {
		return err
	}
	if !bytes.Equal(data, sums(s.Subject)) {
		return trajectory.Faultf(SumsFile, "does not list the files of the package with their digests")
	}
	return nil
}

// checkStatement wants the statement to be the one that evidence gives; payload are
// its bytes.
func checkStatement(s Statement, payload []byte, e evidence) error {
	if why := strangeDate(e.date, e.summary.Completed); why != "" {
		return trajectory.Faultf(AttestationFile, "%s", why)
	}
	rebuilt := e.statement()
	want, err := rebuilt.Encode()
	if err != nil {
		return trajectory.Faultf(AttestationFile, "cannot be rebuilt: %v", err)
	}
	if !bytes.Equal(payload, want) {
		return trajectory.Faultf(AttestationFile, "does not say what the package's files give: %s", difference(s, rebuilt))
	}
	return nil
}

// strangeDate says that a package is dated before the end of its run, "" if it is not.
// A date can be of any time zone, so a day is no difference.
func strangeDate(date, completed string) string {
	at, err := time.Parse(time.DateOnly, date)
	end, endErr := time.Parse(trajectory.TimeFormat, completed)
	if err == nil && endErr == nil && at.Add(48*time.Hour+audit.ClockSkew).Before(end) {
		return fmt.Sprintf("is dated %s, which is before the end of the run, %s", date, completed)
	}
	return ""
}

// checkRun verifies the run's files, and audits what it verifies unless it is to be
// done once.
func checkRun(pkg fs.FS, digests map[string]string, o audit.Options, once bool) (report audit.Report, run *rundir.Run, err error) {
	if once {
		run, err = rundir.Verify(pkg, rundir.Options{Summary: o.Summary})
	} else {
		report, run, err = audit.Run(pkg, o)
	}
	if err != nil && !errors.Is(err, audit.ErrIncomplete) {
		return report, nil, err
	}
	if !run.Complete {
		return report, nil, trajectory.Faultf(trajectory.JournalFile, "is not of a finished run: %s", run.Missing)
	}
	for name, digest := range run.Files {
		if digests[name] != digest {
			return report, nil, changed(name)
		}
	}
	return report, run, nil
}

// checkDerived checks that leaderboard and scorecard follow from the journal and from the
// tasks that are void.
func checkDerived(run *rundir.Run, report audit.Report, digests map[string]string) error {
	files, err := derivedFiles(run, report)
	if err != nil {
		return trajectory.Faultf(trajectory.JournalFile, "gives no leaderboard or scorecard: %v", err)
	}
	for _, name := range []string{LeaderboardFile, scorecardFile} {
		if canonical.Digest(files[name]) != digests[name] {
			return trajectory.Faultf(name, "is not what the journal gives")
		}
	}
	return nil
}

// checkReport checks that the audit's report is about this run, and that its
// findings are closed as the adjudications say.
func checkReport(pkg fs.FS, r audit.Report, run *rundir.Run, later []audit.SealedRejudgment, digests map[string]string) error {
	refuse := func(format string, args ...any) error {
		return trajectory.Faultf(audit.ReportFile, format, args...)
	}
	m := run.Manifest
	if r.RunID != m.RunID || r.Rehearsal != m.Rehearsal {
		return refuse("is about another run: %q", r.RunID)
	}
	in := r.Inputs
	if in.EventsSHA256 != digests[trajectory.JournalFile] || in.MetadataSHA256 != digests[MetadataFile] ||
		in.ResultsSHA256 != digests[rundir.ResultsFile] || in.TrajectoriesSHA256 != digests[rundir.TrajectoriesFile] || len(r.Only) > 0 {
		return refuse("is about other files than the package's")
	}
	if !slices.EqualFunc(in.Rejudgments, later, func(digest string, r audit.SealedRejudgment) bool { return digest == r.SHA256 }) {
		return refuse("is about other later judgments than the package's")
	}
	decided, err := readAdjudications(pkg, run, digests)
	if err != nil {
		return err
	}
	if !r.Follows(decided) {
		return refuse("does not say of its findings what %d adjudications decide", len(decided))
	}
	if r.Totals.Planned != len(m.Tasks) || r.Totals.Events != run.End.Events {
		return refuse("counts %d tasks and %d events, the run has %d and %d", r.Totals.Planned, r.Totals.Events, len(m.Tasks), run.End.Events)
	}
	var results []rundir.Result
	for _, t := range run.Tasks {
		results = append(results, run.Result(t))
	}
	raw, clean, worst := audit.Rescore(results, r.Checks)
	for _, score := range [][2]*stats.Rate{{r.Totals.Raw, raw}, {r.Totals.Clean, clean}, {r.Totals.Worst, worst}} {
		if (score[0] == nil) != (score[1] == nil) || score[0] != nil && *score[0] != *score[1] {
			return refuse("gives other scores than the run and the findings")
		}
	}
	return nil
}

func changed(name string) error { return trajectory.Faultf(name, "changed while it was read") }

// difference names the members in which two statements differ.
func difference(got, want Statement) string {
	members := func(s Statement) map[string]jsontext.Value {
		var m map[string]jsontext.Value
		if b, err := canonical.Encode(s.Predicate); err != nil || json.Unmarshal(b, &m) != nil {
			return nil
		}
		return m
	}
	theirs, ours := members(got), members(want)
	var names []string
	for name, value := range ours {
		if !bytes.Equal(value, theirs[name]) {
			names = append(names, name)
		}
	}
	for name := range theirs {
		if _, known := ours[name]; !known {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return fmt.Sprintf("see %s", strings.Join(names, ", "))
}
