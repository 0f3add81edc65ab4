package submit

import (
	"bytes"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Options say what a verifier has besides the package.
type Options struct {
	Gold    *audit.Gold        // nil: not at hand, so that the audit of a scored run cannot be run again
	Harness trajectory.Harness // the program that verifies, to be told from the one that audited
	Once    bool               // do not run the audit again: what it found does not matter
}

// Verify checks the integrity of a package: exactly its files, all of them
// signed by the key of the run's plan, each what the others give. Anything else
// is a *trajectory.Fault. What costs little is looked at first, and last the audit
// is run again where that can be. The error matches audit.ErrGold for gold
// answers that are not the plan's.
func Verify(pkg fs.FS, o Options) (*Verified, error) {
	if err := checkFiles(pkg); err != nil {
		return nil, err
	}
	_, planSHA256, key, err := ledger.ReadPlan(pkg)
	if err != nil {
		return nil, err
	}
	statement, payload, err := readAttestation(pkg, key)
	if err != nil {
		return nil, err
	}
	digests, err := checkSubjects(pkg, statement)
	if err != nil {
		return nil, err
	}
	data, err := ledger.ReadFile(pkg, SumsFile, maxSums)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(data, sums(statement.Subject)) {
		return nil, trajectory.Faultf(SumsFile, "does not list the files of the package with their digests")
	}
	run, err := checkRun(pkg, digests)
	if err != nil {
		return nil, err
	}
	if run.ManifestSHA256 != planSHA256 {
		return nil, changed(ledger.ManifestFile)
	}
	report, err := checkReport(pkg, run, digests)
	if err != nil {
		return nil, err
	}
	if err := checkLeaderboard(run, report, digests); err != nil {
		return nil, err
	}
	p := statement.Predicate
	rebuilt := evidence{run: run, report: report, digests: digests, date: p.Date, goldAtHand: p.GoldAtHand, harness: p.Harness,
		recordingFailed: p.RecordingFailed}.statement()
	want, err := rebuilt.Encode()
	if err != nil {
		return nil, trajectory.Faultf(AttestationFile, "cannot be rebuilt: %v", err)
	}
	if !bytes.Equal(payload, want) {
		return nil, trajectory.Faultf(AttestationFile, "does not say what the package's files give: %s", difference(statement, rebuilt))
	}
	if run.NotRecorded != "" && p.RecordingFailed == "" {
		return nil, trajectory.Faultf(AttestationFile, "does not say that recording failed, which the journal does")
	}
	run.Marked = p.RecordingFailed // the marker itself is not packaged
	v := &Verified{Run: run, Report: report, Statement: statement, Key: key}
	if err := v.Rerun(pkg, o); err != nil {
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
	envelope, err := ledger.ReadFile(pkg, AttestationFile, maxAttestation)
	if err != nil {
		return Statement{}, nil, err
	}
	payload, err := sign.Unseal(envelope, PayloadType, key)
	if err != nil {
		return refuse(AttestationFile, "%v", err)
	}
	var s Statement
	if err := sign.Decode(payload, &s); err != nil {
		return refuse(AttestationFile, "its statement is %v", err)
	}
	if s.Type != StatementType || s.PredicateType != PredicateType || s.Predicate.Schema != schema {
		return refuse(AttestationFile, "is a statement of type %q about %q, not of this version", s.PredicateType, s.Predicate.Schema)
	}
	if _, err := time.Parse(time.DateOnly, s.Predicate.Date); err != nil {
		return refuse(AttestationFile, "its date %q is not a date", s.Predicate.Date)
	}
	want, err := sigstoreBundle(envelope, key)
	if err != nil {
		return refuse(AttestationFile, "%v", err)
	}
	got, err := ledger.ReadFile(pkg, BundleFile, 2*maxAttestation)
	if err != nil {
		return Statement{}, nil, err
	}
	if !bytes.Equal(got, want) {
		return refuse(BundleFile, "is not the bundle of "+AttestationFile)
	}
	return s, payload, nil
}

// checkSubjects wants the statement to be about all files of the package but
// the attestation, and these to be what it says. It returns their digests.
func checkSubjects(pkg fs.FS, s Statement) (map[string]string, error) {
	digests := s.digests()
	_, signed := digests[audit.AdjudicationsFile]
	if _, err := fs.Lstat(pkg, audit.AdjudicationsFile); (err == nil) != signed {
		if signed {
			return nil, trajectory.Faultf(audit.AdjudicationsFile, ledger.Missing)
		}
		return nil, trajectory.Faultf(audit.AdjudicationsFile, "is not part of this package")
	}
	if !slices.Equal(s.Subject, newSubjects(digests)) {
		return nil, trajectory.Faultf(AttestationFile, "is not about exactly the package's files, in order")
	}
	for _, name := range subjects(signed) {
		got, err := digestFile(pkg, name)
		if err != nil {
			return nil, err
		}
		if got != digests[name] {
			return nil, trajectory.Faultf(name, "is not what %s signs", AttestationFile)
		}
	}
	return digests, nil
}

// checkRun verifies the run's files.
func checkRun(pkg fs.FS, digests map[string]string) (*ledger.Run, error) {
	run, err := ledger.Verify(pkg, ledger.Options{Summary: MetadataFile})
	if err != nil {
		return nil, err
	}
	if !run.Complete {
		return nil, trajectory.Faultf(trajectory.JournalFile, "is not of a finished run: %s", run.Missing)
	}
	for name, digest := range run.Files {
		if digests[name] != digest {
			return nil, changed(name)
		}
	}
	return run, nil
}

// checkLeaderboard wants what is written for the leaderboard to follow from the
// journal and from the tasks that are void.
func checkLeaderboard(run *ledger.Run, report audit.Report, digests map[string]string) error {
	want, err := leaderboard(run, audit.Voided(report.Checks))
	if err != nil {
		return trajectory.Faultf(trajectory.JournalFile, "gives no leaderboard: %v", err)
	}
	if sign.Digest(want) != digests[LeaderboardFile] {
		return trajectory.Faultf(LeaderboardFile, "is not what the journal gives")
	}
	return nil
}

// checkReport reads the audit's report and wants it to be about this run, and
// its findings to be closed as the adjudications say.
func checkReport(pkg fs.FS, run *ledger.Run, digests map[string]string) (audit.Report, error) {
	refuse := func(format string, args ...any) (audit.Report, error) {
		return audit.Report{}, trajectory.Faultf(audit.ReportFile, format, args...)
	}
	data, err := ledger.ReadFile(pkg, audit.ReportFile, maxReport)
	if err != nil {
		return audit.Report{}, err
	}
	if sign.Digest(data) != digests[audit.ReportFile] {
		return audit.Report{}, changed(audit.ReportFile)
	}
	r, err := audit.DecodeReport(data)
	if err != nil {
		return audit.Report{}, err
	}
	m := run.Manifest
	if r.RunID != m.RunID || r.Rehearsal != m.Rehearsal {
		return refuse("is about another run: %q", r.RunID)
	}
	in := r.Inputs
	if in.EventsSHA256 != digests[trajectory.JournalFile] || in.MetadataSHA256 != digests[MetadataFile] ||
		in.ResultsSHA256 != digests[ledger.ResultsFile] || in.TrajectoriesSHA256 != digests[ledger.TrajectoriesFile] || len(r.Only) > 0 {
		return refuse("is about other files than the package's")
	}
	decided, err := readAdjudications(pkg, run, digests)
	if err != nil {
		return audit.Report{}, err
	}
	if !r.Follows(decided) {
		return refuse("does not say of its findings what %d adjudications decide", len(decided))
	}
	if r.Totals.Planned != len(m.Tasks) || r.Totals.Events != run.End.Events {
		return refuse("counts %d tasks and %d events, the run has %d and %d", r.Totals.Planned, r.Totals.Events, len(m.Tasks), run.End.Events)
	}
	var results []ledger.Result
	for _, t := range run.Tasks {
		results = append(results, run.Result(t))
	}
	raw, clean, worst := audit.Rescore(results, r.Checks)
	for _, score := range [][2]*ledger.Rate{{r.Totals.Raw, raw}, {r.Totals.Clean, clean}, {r.Totals.Worst, worst}} {
		if (score[0] == nil) != (score[1] == nil) || score[0] != nil && *score[0] != *score[1] {
			return refuse("gives other scores than the run and the findings")
		}
	}
	return r, nil
}

func changed(name string) error { return trajectory.Faultf(name, "changed while it was read") }

// difference names the members in which two statements differ.
func difference(got, want Statement) string {
	members := func(s Statement) map[string]jsontext.Value {
		var m map[string]jsontext.Value
		if b, err := sign.Canonical(s.Predicate); err != nil || json.Unmarshal(b, &m) != nil {
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
