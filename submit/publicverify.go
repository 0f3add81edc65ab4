package submit

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
	"golang.org/x/mod/sumdb/tlog"
)

// Public is a public package whose integrity holds: its bytes are what Key signed,
// its leaves give the signed root, and the rest agrees with each other. That the
// results are those of the run is the signer's word: see Shows.
type Public struct {
	Manifest  plan.Plan
	Summary   rundir.Summary
	Results   []PublicResult // in plan order
	Head      trajectory.Checkpoint
	Statement Statement
	Shards    *rundir.Shards // nil: the run was not merged
	Key       sign.PublicKey // signed it; trust is the caller's to decide

	NotRebuilt string // as of a full package: see Verified

	checkpoint []byte
	leaves     []tlog.Hash // in plan order
}

// VerifyPublic checks the integrity of a public package; of o, Harness alone matters.
// What does not hold is a *trajectory.Fault that names the file.
func VerifyPublic(pkg fs.FS, o Options) (*Public, error) {
	s, err := openSigned(pkg, true, nil)
	if err != nil {
		return nil, err
	}
	m, digests := s.Plan, s.digests
	if digests[plan.ManifestFile] != s.ManifestSHA256 {
		return nil, changed(plan.ManifestFile)
	}
	if digests[plan.ConstitutionFile] != m.ConstitutionSHA256 {
		return nil, changed(plan.ConstitutionFile)
	}
	p := &Public{Manifest: m, Statement: s.statement, Shards: s.shards, Key: s.Key}
	read := func(name string) ([]byte, error) { return readSigned(pkg, name, digests) }
	if err := p.readTree(read, s.ManifestSHA256); err != nil {
		return nil, err
	}
	if err := p.readShards(read, s.ManifestSHA256); err != nil {
		return nil, err
	}
	if err := p.readResults(read, s.ManifestSHA256); err != nil {
		return nil, err
	}
	e, err := p.evidence(s.ManifestSHA256)
	if err != nil {
		return nil, err
	}
	if err := s.checkStatement(e); err != nil {
		return nil, err
	}
	p.NotRebuilt, err = newReadme(s.statement.Predicate, m, p.Summary, s.Key).rebuilt(digests, o)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// maxLater bounds how often other judges have judged a run.
const maxLater = 1 << 20

// readTree reads the leaves and checks that they are of the plan's tasks, and that they give
// the root of the checkpoint, which has to be one of this plan and key.
func (p *Public) readTree(read func(string) ([]byte, error), planSHA256 string) error {
	data, err := read(leavesFile)
	if err != nil {
		return err
	}
	err = eachTask(leavesFile, data, p.Manifest, func(t plan.PlannedTask, line []byte) string {
		var leaf publicLeaf
		if err := canonical.Decode(line, &leaf); err != nil {
			return fmt.Sprintf("is %v", err)
		}
		p.leaves = append(p.leaves, leaf.LeafHash)
		return otherTask(leaf.TaskID, t)
	})
	if err != nil {
		return err
	}
	if p.checkpoint, err = read(trajectory.CheckpointFile); err != nil {
		return err
	}
	if p.Head, err = trajectory.ParseCheckpoint(p.checkpoint); err != nil {
		return err
	}
	if err := p.Head.Verify(p.checkpoint, p.Key); err != nil {
		return err
	}
	m := p.Manifest
	if want := (trajectory.Checkpoint{RunID: m.RunID, Size: int64(len(m.Tasks)), Root: p.Head.Root, ManifestSHA256: planSHA256,
		Journal: p.Head.Journal, Rehearsal: m.Rehearsal}); p.Head != want {
		return trajectory.Faultf(trajectory.CheckpointFile, "is not one of this plan")
	}
	root, err := trajectory.RootOf(p.leaves)
	if err != nil {
		return err
	}
	if root != p.Head.Root {
		return trajectory.Faultf(leavesFile, "does not give the root of %s", trajectory.CheckpointFile)
	}
	return nil
}

// readResults reads the records, and the summary, which has to follow from them as
// far as they and the plan give it.
func (p *Public) readResults(read func(string) ([]byte, error), planSHA256 string) error {
	data, err := read(rundir.ResultsFile)
	if err != nil {
		return err
	}
	tools := toolNames(p.Manifest)
	var rows []rundir.Result
	err = eachTask(rundir.ResultsFile, data, p.Manifest, func(t plan.PlannedTask, line []byte) string {
		var r PublicResult
		if err := canonical.Decode(line, &r); err != nil {
			return fmt.Sprintf("is %v", err)
		}
		p.Results, rows = append(p.Results, r), append(rows, r.result())
		return r.implausible(p.Manifest, t, tools)
	})
	if err != nil {
		return err
	}
	if data, err = read(MetadataFile); err != nil {
		return err
	}
	if err := canonical.Decode(data, &p.Summary); err != nil {
		return trajectory.Faultf(MetadataFile, "is %v", err)
	}
	if tellsWhy(p.Summary) {
		return trajectory.Faultf(MetadataFile, "tells why recording failed, which no public package does")
	}
	told := p.Summary.Told()
	if why := implausibleSummary(told, p.Manifest, p.Results, p.Shards, p.Head.Journal.Events); why != "" {
		return trajectory.Faultf(MetadataFile, "%s", why)
	}
	again, err := rundir.Summarise(p.Manifest, planSHA256, slices.Values(rows), told).Encode()
	if err != nil {
		return trajectory.Faultf(MetadataFile, "cannot be rebuilt: %v", err)
	}
	if !bytes.Equal(data, again) {
		return trajectory.Faultf(MetadataFile, "is not what the plan and %s give", rundir.ResultsFile)
	}
	return nil
}

// eachTask shows the lines of a file, one for each planned task; visit says what is
// wrong with one, "" if nothing is.
func eachTask(name string, data []byte, m plan.Plan, visit func(plan.PlannedTask, []byte) string) error {
	for i, t := range m.Tasks {
		line, rest, found := bytes.Cut(data, []byte("\n"))
		if !found {
			return trajectory.Faultf(name, "ends after line %d: records are missing", i)
		}
		if reason := visit(t, line); reason != "" {
			return &trajectory.Fault{File: name, Line: int64(i + 1), Reason: reason}
		}
		data = rest
	}
	if len(data) > 0 {
		return &trajectory.Fault{File: name, Line: int64(len(m.Tasks) + 1), Reason: "is more than the plan has tasks"}
	}
	return nil
}

// evidence returns what the statement is made of. What was found and what is
// withheld is taken from it, as far as that can be.
func (p *Public) evidence(planSHA256 string) (evidence, error) {
	said := p.Statement.Predicate
	journals, with := map[string]string{}, []string(nil)
	for _, w := range said.Withheld {
		if path.Base(w.Name) == trajectory.JournalFile {
			journals[w.Name] = w.SHA256
		} else if slices.Contains(additions(), w.Name) {
			with = append(with, w.Name)
		}
	}
	hidden, events := "", allEvents(p.Shards, p.Head.Journal.Events) // a journal of which there is no digest
	for _, name := range (&rundir.Fold{Shards: p.Shards}).Journals() {
		if !canonical.IsDigest(journals[name]) {
			hidden = cmp.Or(hidden, name)
		}
	}
	own := slices.Contains(with, plan.AgentFilesFile)
	decided, rejudged := slices.Contains(with, audit.AdjudicationsFile), slices.Contains(with, audit.RejudgmentsFile)
	later := said.Judgments - audit.Judgments(p.Manifest, 0)
	void := map[string]bool{}
	for _, id := range said.VoidTasks {
		void[id] = true
	}
	findings, closed := 0, "" // how many, and the first check of which all are closed
	for _, c := range said.Audit.Checks {
		if findings += c.Findings; c.Findings > 0 && c.Severity == "" {
			closed = cmp.Or(closed, c.ID)
		}
	}
	why := said.Audit.implausible(p.Manifest, events)
	switch {
	case why != "":
	case said.RecordingFailed != "" && said.RecordingFailed != recordingWithheld:
		why = "tells why recording failed, which no public package does"
	case hidden != "":
		why = "does not withhold " + hidden + " by its digest"
	case own != (p.Manifest.Agent != nil):
		why = "withholds " + plan.AgentFilesFile + " of the built-in agent, or not that of an own one"
	case !said.Prompts.Plausible(own):
		why = "has prompts that no such run has"
	case later < 0 || later > maxLater || (later > 0) != rejudged:
		why = fmt.Sprintf("counts %d judgments, which is not what the plan and the withheld files give", said.Judgments)
	case len(void) > 0 && !decided:
		why = "has void tasks, and withholds no " + audit.AdjudicationsFile
	case closed != "" && !decided:
		why = fmt.Sprintf("has closed findings of check %s, and withholds no %s", closed, audit.AdjudicationsFile)
	case findings < len(void):
		why = fmt.Sprintf("has %s, and %s", view.Count(len(void), "void task"), view.Count(findings, "finding"))
	default:
		why = cmp.Or(p.implausibleDismissals(said, decided), p.implausibleVerdict(said, len(void)))
	}
	if why != "" {
		return evidence{}, trajectory.Faultf(AttestationFile, "%s", why)
	}
	e := evidence{Predicate: said.says(), plan: p.Manifest, summary: p.Summary, void: void, digests: p.Statement.digests(), later: later}
	e.AnsweredBy, e.Exceptions, e.Dismissals, e.Prompts = said.AnsweredBy, said.Exceptions, said.Dismissals, said.Prompts
	e.ManifestSHA256, e.Journal, e.Root = planSHA256, Journal{p.Head.Journal.Events, p.Head.Journal.Head}, p.Head.Root.String()
	e.Audit, e.Withheld = newAuditResult(said.Audit.Checks), newWithheld(journals, with, p.Shards)
	e.reasons = publicReasons(e.plan, e.Audit.Checks, p.Shards, e.RecordingFailed)
	e.results = func(yield func(rundir.Result) bool) {
		for _, r := range p.Results {
			if !yield(r.result()) {
				return
			}
		}
	}
	return e, nil
}

// implausibleDismissals says what about the dismissals that a statement lists cannot be, ""
// if nothing: each is of a finding of its check, and names no key that a text could hide
// in. decided says that the package withholds decisions.
func (p *Public) implausibleDismissals(said Predicate, decided bool) string {
	left := map[string]int{}
	for _, c := range said.Audit.Checks {
		left[c.ID] = c.Findings
	}
	form := regexp.MustCompile(`^SHA256:[0-9A-Za-z+/]{43}$`)
	for _, d := range said.Dismissals {
		left[d.Check]--
		task := slices.ContainsFunc(p.Manifest.Tasks, func(t plan.PlannedTask) bool { return t.TaskID == d.TaskID })
		high := d.Severity == audit.High && d.CountersignedBy == "" && (d.TaskID == "" || task)
		critical := d.Severity == audit.Critical && form.MatchString(d.CountersignedBy) && d.CountersignedBy != d.KeyID && task
		if !decided || left[d.Check] < 0 || d.KeyID != p.Key.ID() || !high && !critical {
			return fmt.Sprintf("lists a dismissal of check %q that cannot be", d.Check)
		}
	}
	return ""
}

// implausibleVerdict says what in the exceptions, or in what answered, contradicts the rest
// of the package, "" if nothing does. The journal alone shows which attempts were lost,
// which harnesses continued the run and which names of the model its replies have.
func (p *Public) implausibleVerdict(said Predicate, void int) string {
	failed, fewest, most := 0, 0, 0 // attempts that ended as an error, and how many of them another attempt followed
	for _, r := range p.Results {
		again := max(0, r.Attempts-1)
		switch {
		case r.Voting != nil:
			n := r.Attempts - r.Voting.Attempts
			failed, fewest, most = failed+n, fewest+max(0, n-1), most+min(n, again)
		case r.Outcome == trajectory.Errored:
			failed, fewest, most = failed+r.Attempts, fewest+again, most+again
		default:
			failed, fewest, most = failed+again, fewest+again, most+again
		}
	}
	got := said.Exceptions
	want := rundir.Exceptions{Dismissals: len(said.Dismissals), LostAttempts: got.LostAttempts, RetriedAttempts: got.RetriedAttempts, RetriedCalls: p.Summary.RetriedCalls, VoidTasks: void}.Resumed(p.Summary.Interruptions)
	if got != want || got.LostAttempts < 0 || got.LostAttempts > failed || got.RetriedAttempts < fewest || got.RetriedAttempts > most {
		return fmt.Sprintf("counts other exceptions than the package has: %s", got)
	}
	by := said.AnsweredBy
	for _, h := range by.Harnesses {
		if checkHarness(h) != nil {
			return "has a harness in answered_by that is not named by version, commit and digest"
		}
	}
	again := p.Manifest.AnsweredBy().Resumed(by.Harnesses...)
	again.RepliedAs, again.RepliedOther = slices.Compact(slices.Sorted(slices.Values(by.RepliedAs))), by.RepliedOther
	if form(publicAnsweredBy(p.Manifest, again)) != form(by) || len(by.RepliedAs) > rundir.MaxReplied {
		return "names in answered_by what the plan does not"
	}
	return ""
}

// implausible says what about an audit, told without its findings no report gives, "" if
// nothing; events are those of all journals.
func (a AuditResult) implausible(m plan.Plan, events int64) string {
	known := audit.Checks()
	if len(a.Checks) != len(known) {
		return "is not about all checks of the audit"
	}
	for i, c := range a.Checks {
		status := audit.Pass // that the gravest finding and the gaps give
		switch {
		case c.Severity == audit.Critical || c.Severity == audit.High:
			status = audit.Fail
		case c.Severity == audit.ToReview:
			status = audit.Review
		case c.Severity != audit.Info && c.Severity != "":
			status = ""
		case c.Gaps > 0:
			status = audit.Skip
		case c.Status == audit.NotApplicable:
			status = audit.NotApplicable
		}
		place := c.Status == audit.Fail
		task := c.TaskID == "" || slices.ContainsFunc(m.Tasks, func(t plan.PlannedTask) bool { return t.TaskID == c.TaskID })
		switch {
		case c.ID != known[i].ID:
			return fmt.Sprintf("has %q in the place of check %s", c.ID, known[i].ID)
		case status != c.Status || status == "" || min(c.Findings, c.Gaps) < 0 || c.Severity != "" && c.Findings == 0:
			return fmt.Sprintf("gives check %s a status that is not its findings'", c.ID)
		case (c.Line > 0) != place || c.Line > events || c.Line < 0 || !task || !place && c.TaskID != "":
			return fmt.Sprintf("names a place for check %s that there is not", c.ID)
		}
	}
	return ""
}
