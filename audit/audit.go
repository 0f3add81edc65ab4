// Package audit is a red team of a finished run: deterministic, offline, at no cost. It verifies the evidence
// first; bytes that do not verify are an error of package trajectory, not a finding. Then it gathers facts from the
// journal and lets each check of [Checks] look at them.
//
// A check fails with findings that prove themselves, or says what it could not see: a gap, which is never a pass.
// What the gate's checks (AUD-1 to AUD-7, AUD-11, AUD-12) need was recorded for them: the probes of whole
// documents, the digests of every message, the decision before every call. Where the journal shows a thing itself,
// no count of it is taken on trust: what a head shows of a document is probed again, calls and answers are compared
// with the replies they come from, a template that stands for a result is filled in again, and a body counts as
// whole by its size and digest.
//
// The report is a function of the evidence, of the decisions about its findings ([Adjudication]), and of what
// [Options] bring besides, if it is at hand: the gold answers, whole documents (Bodies) and the provider's list of
// requests ([UsageExport]). No clock, network or randomness is read, and the same input gives the same bytes
// (TestReportIsDeterministic). Findings hold no gold. A report is canonical JSON; [DecodeReport] accepts one only
// if it has all checks, its findings are by their rules, and its conclusions follow from them. TestCorpus shows
// every rule on a run that it fires on, one that is near and, where evidence can be missing, one where it is.
//
// Adding a check is one record, and its line in [Checks].
//
// A program outside of this module may import the package: [Run] audits a run directory or a package,
// [DecodeReport] reads a report, [Checks] lists what is looked for, and [Rescore] and [Report.Trusting] draw the
// conclusions of a reader.
package audit

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
)

// Names, for programs outside of this module, of types that this package takes and returns.
type (
	VerifiedRun  = rundir.Run // a run whose evidence verifies, as Run returns it
	Result       = rundir.Result
	JudgeSummary = rundir.JudgeSummary
	Plan         = plan.Plan
	SignedPlan   = rundir.SignedPlan // a plan whose two files were checked against each other
	ModelPlan    = plan.ModelPlan
	JudgePlan    = plan.JudgePlan
	Rate         = stats.Rate
	Key          = sign.Key
	PublicKey    = sign.PublicKey
)

// Gold is the answers of the planned tasks, with what shows that they are those of the plan: the salt that it
// commits to them with, or, where there is none, the digest of the metadata file that they were read from.
type Gold struct {
	Answers        map[string]string // by task id
	Salt           string
	MetadataSHA256 string // of the plan's dataset, split and revision
}

// Options say what an audit has besides the run. The zero value is a run directory without its gold answers.
type Options struct {
	Gold      *Gold  // nil: not at hand, which leaves gaps in a scored run
	Summary   string // name of the summary: rundir.SummaryFile, of a run directory, if ""
	Marked    string // why recording failed, of a run whose marker is not beside it
	AuditedAt string // trajectory.TimeFormat; when the run was completed if ""

	Plan *SignedPlan // of the run, if it has been read: files with its digests are not decoded again

	Adjudications []Adjudication    // of this run, besides those that the directory holds
	Bodies        map[string][]byte // whole documents from outside of the run, by their digests ("sha256:…"); nil for one that a report names and that is not at hand, which the run must have the digest of
	Usage         *UsageExport      // the provider's; nil: not at hand
	Only          []string          // ids of checks: to ask no others

	off string // a rule that finds nothing: what tests switch off
}

// ErrGold means that the answers given to an audit are not those that the plan commits to.
var ErrGold = errors.New("the gold answers are not those that the plan commits to")

// ErrIncomplete means that a run is not finished. What is there verifies.
var ErrIncomplete = errors.New("the run is not complete")

// Run verifies a run and audits it. The run is returned with ErrIncomplete, too. evidence that does not verify is a
// *trajectory.Fault.
func Run(dir fs.FS, o Options) (Report, *VerifiedRun, error) {
	var g *gatherer
	var wrong error // with the gold answers
	begun := func(f *rundir.Fold) {
		var answers map[string]string
		answers, wrong = o.Gold.Of(f.Manifest)
		g = newGatherer(f.Manifest, answers)
		g.bodies = bodies{o.Bodies, map[string]bool{}, map[string]bool{}}
		g.e.Shards, g.e.Place = f.Shards, f.Place
		f.OnSuperseded(func(e trajectory.Event, _ []byte) error {
			g.supersede(e)
			return nil
		})
	}
	run, err := rundir.Verify(dir, rundir.Options{Summary: o.Summary, Plan: o.Plan, Begun: begun, Event: func(e trajectory.Event) error { return g.add(e) }})
	switch {
	case err != nil:
		return Report{}, nil, err
	case wrong != nil && !run.Complete: // the answers are not all there yet
		return Report{}, run, ErrIncomplete
	case wrong != nil:
		return Report{}, nil, wrong
	}
	for _, digest := range slices.Sorted(maps.Keys(o.Bodies)) {
		if o.Bodies[digest] == nil && !g.bodies.named[digest] {
			return Report{}, nil, trajectory.Faultf(ReportFile, "names a body %s among its inputs, which nothing in the run has", digest)
		}
	}
	decided, later, err := o.readRecords(dir, run)
	if err != nil {
		return Report{}, nil, err
	}
	o.Adjudications = slices.Concat(o.Adjudications, decided)
	if !run.Complete {
		return Report{}, run, ErrIncomplete
	}
	if run.Marked == "" {
		run.Marked = o.Marked
	}
	e, used := g.e, g.bodies.used
	e.Odd, e.OddUnread = g.odd.all, g.odd.unread
	g = nil // what it finds answers and ids with grows with the tasks
	e.Summary, e.Marked, e.Inputs = run.Summary(), run.Marked, run.Inputs
	e.Events = e.Journals[len(e.Journals)-1].Began + run.End.Events
	for i, t := range run.Tasks {
		r := run.Result(t)
		e.Tasks[i].Result = verdicts{r.Attempt, r.OfficialCorrect, r.JudgedCorrect}
	}
	e.Results = run.Rows()
	r := runChecks(e, o)
	r.AuditedAt = o.AuditedAt
	if r.AuditedAt == "" {
		r.AuditedAt = run.Summary().Completed
	}
	summary := o.Summary
	if summary == "" {
		summary = rundir.SummaryFile
	}
	r.Inputs.Bodies = slices.Sorted(maps.Keys(used)) // nil for none
	for _, l := range later {
		r.Inputs.Rejudgments = append(r.Inputs.Rejudgments, l.SHA256)
	}
	r.Inputs.EventsSHA256, r.Inputs.MetadataSHA256 = run.Files[trajectory.JournalFile], run.Files[summary]
	r.Inputs.ResultsSHA256, r.Inputs.TrajectoriesSHA256 = run.Files[rundir.ResultsFile], run.Files[rundir.TrajectoriesFile]
	return r, run, nil
}

// Of returns the answers by task id if they are those that the plan committed to, else ErrGold; nil where there are
// none, in g or by the plan. Without a salt they count if they are from the file that the plan's tasks are from,
// one for each task.
func (g *Gold) Of(m Plan) (map[string]string, error) {
	if g == nil || m.GoldCommitment == "" {
		return nil, nil
	}
	if g.Salt != "" || g.MetadataSHA256 == "" {
		commitment, err := plan.Commitment(g.Answers, g.Salt)
		if err != nil || commitment != m.GoldCommitment {
			return nil, ErrGold
		}
		return g.Answers, nil
	}
	if g.MetadataSHA256 != m.Dataset.MetadataSHA256 {
		return nil, ErrGold
	}
	answers := make(map[string]string, len(m.Tasks))
	for _, t := range m.Tasks {
		answer, known := g.Answers[t.TaskID]
		if !known {
			return nil, ErrGold
		}
		answers[t.TaskID] = answer
	}
	return answers, nil
}

// Judge lets the checks look at the evidence. AuditedAt and the digests of the run's files are the caller's to fill
// in.
func runChecks(e *evidence, o Options) Report {
	r := Report{RunID: e.Manifest.RunID, Rehearsal: e.Manifest.Rehearsal, Schema: Schema, ThreatModel: ThreatModel}
	solved := slices.ContainsFunc(e.Tasks, (*taskEvidence).correct)
	if e.Results == nil {
		e.Results = func(func(rundir.Result) bool) {}
	}
	e.Usage = o.Usage
	if o.Usage != nil {
		r.Inputs.UsageExportSHA256 = o.Usage.SHA256
	}
	checks := slices.DeleteFunc(Checks(), func(c Check) bool { return len(o.Only) > 0 && !slices.Contains(o.Only, c.ID) })
	var noted []*notes
	for _, c := range checks {
		n := newNotes(c)
		n.solved, n.off = solved, o.off
		noted = append(noted, n)
	}
	e.runAll(checks, noted)
	for i, c := range checks {
		r.Checks = append(r.Checks, noted[i].report())
		if len(o.Only) > 0 {
			r.Only = append(r.Only, c.ID)
		}
	}
	e.locate(r.Checks)
	r.adjudicate(o.Adjudications)
	r.Attestation = r.attest()
	r.Totals = Totals{Events: e.Events, Interruptions: len(e.Resumed), Planned: len(e.Manifest.Tasks), Prompts: e.Inputs.Share()}
	for _, t := range e.Tasks {
		r.Totals.Attempts += t.ended + len(t.Attempts)
	}
	if j := e.Summary.Judge; j != nil {
		r.Totals.Judge = &JudgeTotals{Asked: j.Asked, Cached: j.Cached, Errors: j.Errors, Judged: j.Judged, Unreadable: j.Unreadable, TooLong: j.TooLong, Withheld: j.Withheld}
	}
	r.Totals.Raw, r.Totals.Clean, r.Totals.Worst = Rescore(e.Results, r.Checks)
	r.Totals = r.Totals.count(r.Checks)
	return r
}

// Watch follows a run as it is recorded and tells what will keep it from being submitted, so that no more is spent
// on it. It sees what one event shows by itself, and takes the probes in it as they are: the audit of the finished
// run looks at all of it, and trusts less. What a call asks for stands in another event than its result, and the
// Gate refuses by the same rules.
type Watch struct {
	plan  plan.Plan
	gold  map[string]string
	index map[string]int32         // of the tasks in the plan
	tasks map[string]*taskEvidence // those with an open attempt: of others there is nothing to remember
	asked map[string]*tokenCount   // of the open attempt of a task
	names *naming

	given    map[string]*inputs // of the open attempt of a task, of an own agent
	passages sentPassages
	brought  []broughtTo // by tasks, which may be in texts that most tasks share
}

// broughtTo is a fact about a task.
type broughtTo struct {
	broughtFact
	at place
}

// mostBrought bounds those that are kept, and fewestPrompted is how many tasks must have sent something before it can be
// said what most share.
const (
	mostBrought    = 256
	fewestPrompted = 3
)

// tokenCount is what an attempt's replies are said to have taken.
type tokenCount struct {
	out        int64 // tokens
	unreported bool  // a reply has no usage
	replied    bool
}

// NewWatch begins to follow a run; gold is nil where there is none.
func NewWatch(m Plan, gold map[string]string) *Watch {
	w := &Watch{plan: m, gold: gold, index: make(map[string]int32, len(m.Tasks)), tasks: map[string]*taskEvidence{}, asked: map[string]*tokenCount{}, names: newNaming(m.Model), given: map[string]*inputs{}}
	for i := range m.Tasks {
		w.index[m.Tasks[i].TaskID] = int32(i)
	}
	return w
}

// task returns a task of the plan, nil if there is none of that id.
func (w *Watch) task(id string) *taskEvidence {
	t := w.tasks[id]
	if i, planned := w.index[id]; planned && t == nil {
		t = &taskEvidence{Plan: &w.plan.Tasks[i]}
	}
	return t
}

// Add takes the next event. It returns what the audit will find in it that keeps the run from being submitted, ""
// if nothing.
func (w *Watch) Add(ev trajectory.Event) string {
	var checks []CheckReport
	look := func(c Check, run func(*notes)) {
		n := newNotes(c)
		run(n)
		checks = append(checks, n.report())
	}
	t := w.task(ev.TaskID)
	at := place{task: t, attempt: ev.Attempt, seq: ev.Seq}
	given := w.given[ev.TaskID]
	if given != nil {
		if own := sends(ev.Payload); own != nil {
			look(inputProvenance, func(n *notes) { w.sends(n, at, *own, nil, *given) })
		}
		given.add(ev.Payload)
	}
	switch p := ev.Payload.(type) {
	case trajectory.RunStarted:
		if w.plan.Agent != nil {
			look(inputProvenance, func(n *notes) { checkFolders(&evidence{Manifest: w.plan}, n) })
		}
	case trajectory.ContextCompiled:
		if given != nil {
			look(inputProvenance, func(n *notes) { w.prompt(n, at, p, *given) })
		}
	case trajectory.SecurityEvent:
		look(graderIsolation, func(n *notes) { judgeCache(&evidence{Cache: []fact[trajectory.SecurityEvent]{{ev.Seq, p}}}, n) })
	case trajectory.TaskStarted:
		w.asked[ev.TaskID], w.tasks[ev.TaskID] = &tokenCount{}, t
		if w.plan.Agent != nil {
			w.given[ev.TaskID] = newInputs(probe.New(probe.Target{TaskID: ev.TaskID, Question: p.Question, Gold: w.gold[ev.TaskID]}), w.gold[ev.TaskID], p)
		}
		look(oracleLeakage, func(n *notes) {
			checkWorkspace(&evidence{Gold: w.gold}, n, t, &attemptEvidence{Number: ev.Attempt, Begun: ev.Seq, FileName: cmp.Or(p.ShownAs, p.FileName), Workspace: p.Workspace})
		})
	case trajectory.ModelCallCompleted:
		if u := w.asked[ev.TaskID]; u != nil && p.OutputSHA256 != "" {
			u.replied = true
			if u.unreported = u.unreported || !p.UsageReported; p.UsageReported {
				u.out += p.Tokens.Out
			}
		}
		look(answerLeakage, func(n *notes) { channelGaps(n, t, p.UnrecordedChannels) })
	case trajectory.ToolExecuted:
		r := resultOf(ev.Seq, p, headOf(p))
		look(answerLeakage, func(n *notes) {
			resultGaps(n, &r)
			checkResult(n, at, &callFact{Result: &r, HoldsOwn: true, HoldsIDs: r.Probes.OtherUUIDs, AsFile: !builtin(r.Name)}, w.gold[ev.TaskID]) // it may: what it asked for stands elsewhere
		})
	case trajectory.ExchangeCompleted:
		asResult := exchangeAsResult(p, "")
		r := resultOf(ev.Seq, asResult, headOf(asResult))
		r.ofExchange(p)
		look(answerLeakage, func(n *notes) {
			resultGaps(n, &r)
			checkResult(n, at, &callFact{Result: &r, HoldsOwn: true, HoldsIDs: r.Probes.OtherUUIDs}, w.gold[ev.TaskID])
		})
	case trajectory.AttemptEnded:
		if w.plan.Agent != nil && p.Agent != nil {
			look(agentConfinement, func(n *notes) { checkConfined(*w.plan.Agent, n, at, p) })
			look(inputProvenance, func(n *notes) { checkGiven(n, at, p, *w.plan.Agent) })
		}
		delete(w.asked, ev.TaskID)
		delete(w.tasks, ev.TaskID)
		delete(w.given, ev.TaskID)
	case trajectory.RunResumed:
		w.passages.resume()
	case trajectory.AnswerCommitted:
		gold, scored := w.gold[ev.TaskID]
		if u := w.asked[ev.TaskID]; u != nil && scored && judge.QuestionScorer(&p.Answer, gold) { // others rest on nothing
			if u.out == 0 && u.unreported {
				look(noWorkPass, func(n *notes) { n.gap(noUsage) })
			}
			if given != nil && len(p.SeenIn) == 0 {
				rule, got := unseenRule(&p, u.replied, given.Made, true)
				look(inputProvenance, func(n *notes) { n.find(rule, at, got) })
			}
		}
	}
	look(modelIdentity, func(n *notes) { servedOtherwise(w.plan, w.names, n, at, ev.Payload) })
	for _, c := range checks {
		why, of := "", ev.TaskID
		if i := slices.IndexFunc(c.Findings, func(f Finding) bool { return f.Severity == Critical || f.Severity == High }); i >= 0 {
			why, of = c.Findings[i].Got, c.Findings[i].TaskID
		} else if c.Gate && len(c.Gaps) > 0 {
			why = c.Gaps[0]
		}
		if why != "" {
			if w.task(of) != nil {
				why += fmt.Sprintf(" (task %s)", of)
			}
			return c.ID + " " + c.Name + ": " + why
		}
	}
	return ""
}

// prompt takes a request of an own agent. What is in a text that most tasks may share waits until some have sent theirs.
func (w *Watch) prompt(n *notes, at place, p trajectory.ContextCompiled, given inputs) {
	o := p.Origins
	if n.gapIf(isUnstated(o), unstated); o == nil {
		return
	}
	w.passages.add(at.task.Plan.TaskID, o.Passages)
	if o.Probes != nil {
		w.sends(n, at, *o.Probes, o.Passages, given)
	}
}

// sends takes what of an event comes from none of what the agent was given.
func (w *Watch) sends(n *notes, at place, own trajectory.Probes, passages []trajectory.Passage, given inputs) {
	b, keep := newBrought(at.seq, own, passages, given)
	switch rule := b.rule(true); {
	case !keep:
	case rule == b.rule(false): // whoever shares it
		n.findIf(rule != "", rule, at, broughtWords[rule])
	case len(w.brought) < mostBrought:
		w.brought = append(w.brought, broughtTo{b, at})
	}
	for _, b := range w.brought {
		if rule := b.rule(w.passages.shared(b.broughtFact)); rule != "" && (rule == b.rule(true) || len(w.passages.tasks) >= min(fewestPrompted, len(w.plan.Tasks))) {
			n.find(rule, b.at, broughtWords[rule])
		}
	}
}
