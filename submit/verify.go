package submit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/judge"
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
// verdicts are computed from the gold answers, and last the report is compared with that
// of another audit, which is made while the run's files are read: once, and their digests
// with them. The error matches audit.ErrGold for gold answers that are not the plan's.
func Verify(pkg fs.FS, o Options) (*Verified, error) {
	s, err := openSigned(pkg, false, nil)
	if err != nil {
		return nil, err
	}
	return s.verify(pkg, o, func(report audit.Report) (again audit.Report, run *rundir.Run, err error) {
		if o.Once {
			run, err = rundir.Verify(pkg, rundir.Options{Summary: MetadataFile, Plan: &s.SignedPlan})
			return again, run, err
		}
		return s.audit(pkg, o.again(s.Plan, s.statement.Predicate, report))
	})
}

// audit verifies the run of a package and audits it. Of o, Marked, Plan and Summary do not matter.
func (s signed) audit(pkg fs.FS, o audit.Options) (audit.Report, *rundir.Run, error) {
	o.Marked, o.Plan, o.Summary = s.statement.Predicate.RecordingFailed, &s.SignedPlan, MetadataFile
	report, run, err := audit.Run(pkg, o)
	if errors.Is(err, audit.ErrIncomplete) { // verify reports what is missing
		err = nil
	}
	return report, run, err
}

// verify checks a package of which what openSigned checks is known. read verifies its run, and audits it again unless
// that is to be made once; it is given the package's report. A file that is not the signed one is reported as that,
// whatever else reading it shows.
func (s signed) verify(pkg fs.FS, o Options, read func(audit.Report) (audit.Report, *rundir.Run, error)) (*Verified, error) {
	m, statement, digests := s.Plan, s.statement, s.digests
	p := statement.Predicate
	data, err := readSigned(pkg, audit.ReportFile, digests)
	if err != nil {
		return nil, err
	}
	report, err := audit.DecodeReport(data)
	if err != nil {
		return nil, err
	}
	again, run, err := read(report)
	if err == nil && !run.Complete {
		err = trajectory.Faultf(trajectory.JournalFile, "is not of a finished run: %s", run.Missing)
	}
	if err != nil {
		for _, subject := range statement.Subject {
			if !streamed(subject.Name) {
				continue
			}
			if err := s.checkDigest(pkg, subject.Name); err != nil {
				return nil, err
			}
		}
		return nil, err
	}
	for _, subject := range statement.Subject {
		if name := subject.Name; streamed(name) && digests[name] != run.Files[name] {
			return nil, unsigned(name)
		}
	}
	for name, digest := range run.Files {
		if digests[name] != digest {
			return nil, changed(name)
		}
	}
	if run.ManifestSHA256 != s.ManifestSHA256 {
		return nil, changed(plan.ManifestFile)
	}
	if digests[plan.ConstitutionFile] != m.ConstitutionSHA256 {
		return nil, changed(plan.ConstitutionFile)
	}
	ownFiles := ""
	if m.Agent != nil {
		ownFiles = m.Agent.FilesSHA256
	}
	if digests[plan.AgentFilesFile] != ownFiles {
		return nil, trajectory.Faultf(plan.AgentFilesFile, "is not what the plan has of the agent's files")
	}
	later, err := readAddition(pkg, run, audit.RejudgmentsFile, digests, audit.DecodeRejudgments)
	if err != nil {
		return nil, err
	}
	if err := checkReport(pkg, report, run, later, digests); err != nil {
		return nil, err
	}
	files, err := derivedFiles(run, report)
	if err != nil {
		return nil, trajectory.Faultf(trajectory.JournalFile, "gives no leaderboard or scorecard: %v", err)
	}
	for _, name := range []string{LeaderboardFile, scorecardFile} {
		if canonical.Digest(files[name]) != digests[name] {
			return nil, trajectory.Faultf(name, "is not what the journal gives")
		}
	}
	e, err := newEvidence(run, report, len(later), p)
	if err != nil {
		return nil, err
	}
	e.digests = digests
	if p.Prompts == nil { // as earlier versions wrote it
		e.Prompts = nil
	}
	if err := s.checkStatement(e); err != nil {
		return nil, err
	}
	if run.NotRecorded != "" && p.RecordingFailed == "" {
		return nil, trajectory.Faultf(AttestationFile, "does not say that recording failed, which the journal does")
	}
	run.Marked = p.RecordingFailed // the marker itself is not packaged
	v := &Verified{Run: run, Report: report, Later: later, Statement: statement, Key: s.Key}
	if err := v.Rescore(o.Gold); err != nil {
		return nil, err
	}
	if err := v.compare(again, o); err != nil {
		return nil, err
	}
	if v.NotRebuilt, err = newReadme(p, run.Manifest, run.Summary(), s.Key).of(report, run, later).rebuilt(digests, o); err != nil {
		return nil, err
	}
	return v, nil
}

// signed is a package of exactly its files, which the key of its plan signed.
type signed struct {
	rundir.SignedPlan
	shards    *rundir.Shards // nil: the run was not merged
	statement Statement
	payload   []byte            // the bytes of the statement
	digests   map[string]string // of the files, by name
}

// streamed reports whether a file is one of those that are as long as the run was. Their digests are computed when the run
// is verified, which reads them from end to end.
func streamed(name string) bool {
	return path.Base(name) == trajectory.JournalFile || name == rundir.TrajectoriesFile
}

// openSigned checks the files of a package, their signature and their digests, but those of streamed, and that README.md
// can be shown. What the files say is not looked at. known is a plan that may be theirs, or nil.
func openSigned(pkg fs.FS, public bool, known *rundir.SignedPlan) (s signed, err error) {
	names, may := Files(), additions() // which additions belong to it, the statement says
	if public {
		names, may = publicPackageFiles(nil), nil
	}
	if err := checkFiles(pkg, names, append(may, rundir.ShardsFile)...); err != nil {
		return s, err
	}
	if s.SignedPlan, err = rundir.ReadSigned(pkg, known); err == nil {
		s.Manifest, s.Envelope = nil, nil
		err = plan.CheckSelection(s.Plan)
	}
	if err == nil {
		s.shards, err = readShards(pkg, s.Plan)
	}
	ofShards := shardFiles(s.shards, public)
	if err == nil {
		err = checkShardFiles(pkg, ofShards)
	}
	if err != nil {
		return s, err
	}
	names = append(names, ofShards...)
	if s.statement, s.payload, err = readAttestation(pkg, s.Key); err != nil {
		return s, err
	}
	s.digests = s.statement.digests()
	if public && !s.statement.Predicate.Public {
		return s, trajectory.Faultf(AttestationFile, "is not that of a public package")
	}
	for _, name := range may {
		switch there := holds(pkg)(name); {
		case there && s.digests[name] == "":
			return s, trajectory.Faultf(name, "is not part of this package")
		case !there && s.digests[name] != "":
			return s, trajectory.Faultf(name, rundir.Missing)
		case there:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if err := s.checkSubjects(pkg, signedFiles(names)); err != nil {
		return s, err
	}
	return s, checkReadme(pkg, s.digests)
}

// readAttestation reads the statement and its bytes from the envelope, and
// checks the signature and the envelope's other form.
func readAttestation(pkg fs.FS, key sign.PublicKey) (Statement, []byte, error) {
	refuse := func(file, format string, args ...any) (Statement, []byte, error) {
		return Statement{}, nil, trajectory.Faultf(file, format, args...)
	}
	envelope, err := rundir.ReadFile(pkg, AttestationFile, limitOf(AttestationFile))
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
	got, err := rundir.ReadFile(pkg, BundleFile, limitOf(BundleFile))
	if err != nil {
		return Statement{}, nil, err
	}
	if !bytes.Equal(got, want) {
		return refuse(BundleFile, "is not the bundle of "+AttestationFile)
	}
	return s, payload, nil
}

// checkSubjects checks that the statement is about the files of names, and that these, but for those of streamed, are
// what it and SHA256SUMS say.
func (s signed) checkSubjects(pkg fs.FS, names []string) error {
	if !slices.Equal(names, slices.Sorted(maps.Keys(s.digests))) || !slices.Equal(s.statement.Subject, newSubjects(s.digests)) {
		return trajectory.Faultf(AttestationFile, "is not about exactly the package's files, in order")
	}
	for _, name := range names {
		if streamed(name) {
			continue
		}
		if err := s.checkDigest(pkg, name); err != nil {
			return err
		}
	}
	data, err := rundir.ReadFile(pkg, SumsFile, limitOf(SumsFile))
	if err != nil {
		return err
	}
	if !bytes.Equal(data, sums(s.statement.Subject)) {
		return trajectory.Faultf(SumsFile, "does not list the files of the package with their digests")
	}
	return nil
}

// checkDigest checks that a file has the digest that the statement gives.
func (s signed) checkDigest(pkg fs.FS, name string) error {
	got, err := digestFile(pkg, name)
	if err == nil && got != s.digests[name] {
		err = unsigned(name)
	}
	return err
}

// unsigned is the fault of a file that is not the signed one.
func unsigned(name string) error {
	return trajectory.Faultf(name, "is not what %s signs", AttestationFile)
}

// checkStatement checks that the statement is the one that evidence gives.
func (s signed) checkStatement(e evidence) error {
	if why := implausibleDate(e.Date, e.summary.Completed); why != "" {
		return trajectory.Faultf(AttestationFile, "%s", why)
	}
	rebuilt := e.statement()
	want, err := rebuilt.Encode()
	if err != nil {
		return trajectory.Faultf(AttestationFile, "cannot be rebuilt: %v", err)
	}
	if !bytes.Equal(s.payload, want) {
		return trajectory.Faultf(AttestationFile, "does not say what the package's files give: %s", difference(s.statement, rebuilt))
	}
	return nil
}

// implausibleDate says that a package is dated before the end of its run, "" if it is not.
// A date can be of any time zone, so a day is no difference.
func implausibleDate(date, completed string) string {
	at, err := time.Parse(time.DateOnly, date)
	end, endErr := time.Parse(trajectory.TimeFormat, completed)
	if err == nil && endErr == nil && at.Add(48*time.Hour+audit.ClockSkew).Before(end) {
		return fmt.Sprintf("is dated %s, which is before the end of the run, %s", date, completed)
	}
	return ""
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
	decided, err := readAddition(pkg, run, audit.AdjudicationsFile, digests, audit.DecodeAdjudications)
	if err != nil {
		return err
	}
	if !r.Follows(decided) {
		return refuse("does not say of its findings what %d adjudications decide", len(decided))
	}
	if events := allEvents(run.Shards, run.End.Events); r.Totals.Planned != len(m.Tasks) || r.Totals.Events != events {
		return refuse("counts %d tasks and %d events, the run has %d and %d", r.Totals.Planned, r.Totals.Events, len(m.Tasks), events)
	}
	raw, clean, worst := audit.Rescore(run.Rows(), r.Checks)
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
		m := map[string]jsontext.Value{}
		if b, err := canonical.Encode(s.Predicate); err != nil || json.Unmarshal(b, &m) != nil {
			return map[string]jsontext.Value{}
		}
		return m
	}
	theirs, ours := members(got), members(want)
	all := maps.Clone(theirs)
	maps.Copy(all, ours)
	maps.DeleteFunc(all, func(name string, _ jsontext.Value) bool { return bytes.Equal(ours[name], theirs[name]) })
	return "see " + strings.Join(slices.Sorted(maps.Keys(all)), ", ")
}

// noGold is why what needs the gold answers was not done.
const noGold = "no gold answers"

// Rerun audits the files of a package that was verified again and checks that the report is
// the same, byte for byte, else it returns a *trajectory.Fault: that its findings
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
	theirs, differ := map[string]string{}, []string(nil)
	for _, c := range v.Report.Checks {
		theirs[c.ID] = form(c)
	}
	for _, c := range report.Checks { // both are of all checks
		if theirs[c.ID] != form(c) {
			differ = append(differ, c.ID)
		}
	}
	difference := "the checks agree, and what is said besides does not"
	if len(differ) > 0 {
		difference = "see " + plain(strings.Join(differ, ", "))
	}
	return trajectory.Faultf(audit.ReportFile, "is not what the audit gives when it is run again: %s%s", difference, o.otherProgram(p.Harness))
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

// Rescore asks the official scorer about every answer that was graded, with the
// gold answers at hand, and checks that its verdicts are those recorded, of which the
// statement's score is made; else it returns a *trajectory.Fault. Tasks that an
// adjudication made void are left out: they count wrong whatever is recorded. Where the
// verdicts cannot be computed, v.NotRescored says why. The error matches audit.ErrGold for
// answers that are not the plan's.
func (v *Verified) Rescore(gold *audit.Gold) error {
	v.NotRescored = ""
	if !v.Run.Scored() {
		v.NotRescored = "the run is unscored"
		return nil
	}
	answers, err := gold.Of(v.Run.Manifest)
	if err != nil {
		return err
	}
	if answers == nil {
		v.NotRescored = noGold
		return nil
	}
	void := audit.Voided(v.Report.Checks)
	for _, t := range v.Run.Tasks {
		if void[t.Plan.TaskID] {
			continue
		}
		for _, a := range t.Attempts {
			if a.Judgment == nil {
				continue // it has no answer, or is not the one that counts
			}
			if is := judge.QuestionScorer(&a.Answer.Answer, answers[t.Plan.TaskID]); a.Judgment.Official != is {
				says, but := "is correct", "is not"
				if is {
					says, but = "is not correct", "is"
				}
				which := "the answer"
				if len(t.Attempts) > 1 {
					which = "the answer of attempt " + strconv.Itoa(a.Number)
				}
				return &trajectory.Fault{File: rundir.ResultsFile, Line: int64(t.Index) + 1,
					Reason: fmt.Sprintf("says that %s %s, and by the gold answers it %s", which, says, but)}
			}
		}
	}
	return nil
}

// Claim says how far something that a reader may assume is shown.
type Claim struct {
	Claim  string `json:"claim"`
	Means  string `json:"means"`
	Status Status `json:"status"`
}

// Status is how far a claim is shown.
type Status string

// The statuses. Only a verifier gives ByCheck and Inferred: a statement holds the
// signer's word.
const (
	ByCheck  Status = "verified" // by this verifier, from what it was given
	BySigner Status = "self_reported"
	Inferred Status = "inferred" // by this verifier, from what was recorded
	Absent   Status = "absent"
)

// Given says what a verifier had besides the files, and compared with them.
type Given struct {
	Checkpoint bool // the published checkpoint is that of these files
	Questions  bool // the plan's questions are those of the loaded dataset
	Trusted    bool // the verifier trusts the key
}

// checked says what a verifier checked in the files; the zero value is for a statement,
// which the signer makes.
type checked struct {
	Given
	verifier bool // a verifier asks, not the signer
	noReport bool // there is no audit report
	journal  bool // the journal was there
	verdicts bool // the official scorer was asked again
	findings bool // the audit was run again
}

// Claims returns what the verification of a full package shows.
func (v *Verified) Claims(g Given) []Claim {
	return v.Statement.Predicate.claims(v.Run.Manifest, v.Run.Summary().Judge,
		checked{Given: g, verifier: true, journal: true, verdicts: v.NotRescored == "", findings: v.NotRerun == ""})
}

// Claims returns what the verification of a public package shows.
func (p *Public) Claims(g Given) []Claim {
	g.Questions = false // what the plan says of them cannot be compared with the journal
	return p.Statement.Predicate.claims(p.Manifest, p.Summary.Judge, checked{Given: g, verifier: true})
}

// RunClaims returns what the verification of a run directory shows.
func RunClaims(run *rundir.Run, g Given) []Claim {
	var p Predicate
	var j *rundir.JudgeSummary
	if run.Complete {
		j = run.Summary().Judge
		if run.Scored() {
			p.Scores = &Scores{}
		}
	}
	return p.claims(run.Manifest, j, checked{Given: g, verifier: true, noReport: true, journal: true})
}

// claims returns every claim with how far it is shown. Of a public package, what rests
// on withheld files is the signer's word.
func (p Predicate) claims(m plan.Plan, j *rundir.JudgeSummary, c checked) []Claim {
	by := func(shown bool) Status {
		if shown {
			return ByCheck
		}
		return BySigner
	}
	only := func(there bool, status Status) Status {
		if there {
			return status
		}
		return Absent
	}
	first := BySigner
	if c.journal {
		first = Inferred
	}
	var all []Claim
	if c.verifier {
		all = append(all,
			Claim{"trusted-signer", "the key that signed is one that this verifier trusts", only(c.Trusted, ByCheck)},
			Claim{"published-checkpoint", "the checkpoint is the published one that this verifier was given", only(c.Checkpoint, ByCheck)})
	}
	if p.Public {
		all = append(all,
			Claim{"plan", "the plan is what the holder of the key signed", by(c.verifier)},
			Claim{"tree", "the leaves give the signed root: a task that is disclosed later is of this run, and no other can replace it", by(c.verifier)})
	}
	all = append(all,
		Claim{"evidence-chain", "nothing in the plan, the journal and what derives from them was edited, cut, reordered or dropped since it was signed", by(c.journal)},
		Claim{"scores", "the scores follow from the recorded verdicts, over every planned task", only(p.Scores != nil, by(c.journal))},
		Claim{"official-verdicts", "the official scorer gives the recorded verdicts with the gold answers that the plan commits to", only(p.Scores != nil && (c.verdicts || p.GoldAtHand), by(c.verdicts))})
	if j != nil {
		all = append(all,
			Claim{"judge-verdicts", "the LLM judge was asked once about each answer that it judged, and verdicts from the cache are the first that it gave", only(j.Judged > 0, BySigner)},
			Claim{"judge-battery", "the LLM judge passed its self-test before a verdict of it counted: it accepted no empty answer", only(j.Battery != nil && j.Battery.Passed, BySigner)})
	}
	return append(all,
		Claim{"audit-conclusion", "the audit report is about these files, and its conclusion follows from its findings", only(!c.noReport, by(c.journal))},
		Claim{"audit-findings", "the findings are all that the checks find", only(!c.noReport, by(c.findings))},
		Claim{"answers-first", "all answers were committed before the first verdict", only(m.SubmitIntent, first)},
		Claim{"submitter", "the organisation and contact that are named are the submitter's", only(p.Submitter != nil, BySigner)},
		Claim{"questions", "the questions are those of the dataset that is named", by(c.Questions)},
		Claim{"model-identity", "the model that answered is the one that is named", BySigner},
		Claim{"clocks", "the recorded times are right", BySigner},
		Claim{"no-other-channel", "the agent reached nothing but what the journal shows", BySigner},
		Claim{"plan-published-first", "the plan was published before the outcome was known", Absent},
		Claim{"no-discarded-run", "no other run of the same plan was thrown away", Absent},
		Claim{"not-fabricated", "the journal was not made up as a whole by whoever signed it", Absent},
		Claim{"not-trained-on", "the model has not seen the answers in training", Absent})
}
