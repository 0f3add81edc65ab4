package rundir

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
)

// Fold is a run read from its journal, event by event: the same code follows a run as it is written, resumes it and
// verifies it. It holds the steps of open attempts only.
type Fold struct {
	Manifest       plan.Plan
	ManifestSHA256 string
	Known          *trajectory.KnownTexts // of the manifest
	Tasks          []*Task                // plan order
	Started        string
	Completed      *trajectory.RunCompleted
	Stopped        *trajectory.RunCompleted // how the run was closed before its end; nil: it was not, or it has been resumed since
	Interruptions  []Interruption
	Inputs         Inputs
	NotRecorded    string           // why recording failed, by the journal: the run continued after it
	Unrecorded     string           // why evidence ended before the run did; what is derived then says so
	Shard          *plan.Delegation // of whose journal the run is a part; nil: it is a whole run
	Shards         *Shards          // of a merged run; nil: its tasks are in its own journal

	part       part // of the current journal
	process    int  // which process wrote the last event, from 1
	superseded Superseded
	askedToo   map[int][sha256.Size]byte            // digests of the questions of superseded attempts, by task
	dropped    func(trajectory.Event, []byte) error // given the events of superseded attempts; nil: no one is
	reading    sync.Locker                          // held while the fold changes
	completed  string
	byID       map[string]*Task
	ended      func(Trajectory) error
	judge      JudgeSummary
	verdicts   [2]*trajectory.Judgment  // the last that the official scorer did not accept, and that it did
	lastEnd    *trajectory.AttemptEnded // of an attempt; most have the same
	seals      map[Seal]*Seal           // that tasks share
	tools      [][]string               // lists of tools that attempts share, at most mostToolLists
	badCache   int                      // entries of the judge cache that did not verify
	counted    int64                    // all tokens and micro-USD so far
	open       int64                    // bytes of the lines of open attempts
	mostOpen   int64                    // the most that open has been
	kept       int64                    // bytes of the lines of which texts are held to the end
	harnesses  []trajectory.Harness     // that wrote a part of it, besides the plan's
	spending   spending
	light      bool // of open attempts the requests alone are kept, no steps: no records of attempts are wanted

	repliedAs    map[string]bool // names of the model in its replies
	repliedOther bool            // there are replies under other names

	preflights *PreflightSummary // nil: nothing was asked before the tasks
}

// Task is what the journal says of one planned task.
type Task struct {
	Plan     *plan.PlannedTask
	Index    int               // its place in the plan, from 0
	Attempts []*Attempt        // Attempts[i].Number is i+1
	Sealed   *Seal             // nil: it is not sealed
	Salt     [sha256.Size]byte // when it is sealed
	Inputs   Inputs            // of all attempts
	// Committed is the end of the task in the journal of a shard; nil: it is not committed, or the run has no shards.
	Committed *trajectory.TaskCommitted
	// Superseded counts the attempts in journals of shards that do not count for the task.
	Superseded int

	asked      [sha256.Size]byte // digest of the question of all attempts
	votes      bool              // the majority of the attempts counts, not the first
	superseded bool              // it counts in another journal
	lines      int64
	digest     hash.Hash         // of the lines; nil when it is sealed
	sum        [sha256.Size]byte // of all lines, when it is sealed
}

// Seal is the trajectory.TaskSealed of a task without its salt. Tasks share equal ones.
type Seal struct {
	Attempt, Attempts int
	Outcome           string
	Shard             int
}

// NewFold begins to read the run of a manifest. ended, if not nil, is given each attempt's record when the attempt has
// ended.
func NewFold(m plan.Plan, manifestSHA256 string, ended func(Trajectory) error) *Fold {
	f := &Fold{Manifest: m, ManifestSHA256: manifestSHA256, byID: make(map[string]*Task, len(m.Tasks)), ended: ended, seals: map[Seal]*Seal{},
		reading: new(sync.Mutex), Interruptions: []Interruption{}, repliedAs: map[string]bool{}, judge: JudgeSummary{CostMicroUSD: new(int64)}, Known: m.KnownTexts()}
	f.Tasks = make([]*Task, len(m.Tasks))
	all := make([]Task, len(m.Tasks))
	for i := range m.Tasks {
		t := &all[i]
		t.Plan, t.Index, t.votes = &m.Tasks[i], i, m.Voting.Rule == plan.VoteMajority
		f.Tasks[i] = t
		f.byID[t.Plan.TaskID] = t
	}
	return f
}

// Follow gives the records of attempts that end from now on to ended.
func (f *Fold) Follow(ended func(Trajectory) error) { f.ended = ended }

// Task returns a planned task, nil if there is none of that id.
func (f *Fold) Task(id string) *Task { return f.byID[id] }

// Add is Take for a caller that needs no more of an event than its line has.
func (f *Fold) Add(e trajectory.Event, line []byte) error { return f.Take(&e, line) }

// Take takes the next event with its line, newline included, and completes its payload: a request is then whole, as
// [trajectory.Requests] rebuilds it. An event at a wrong place is a *trajectory.Fault.
func (f *Fold) Take(e *trajectory.Event, line []byte) error {
	refuse := func(format string, args ...any) error {
		return &trajectory.Fault{File: trajectory.JournalFile, Line: e.Seq - f.part.base + 1, Reason: fmt.Sprintf(format, args...)}
	}
	_, opens := e.Payload.(trajectory.RunStarted)
	if keeps(e.Payload) {
		f.kept += int64(len(line))
	}
	switch {
	case opens != (e.Seq == f.part.base):
		return refuse("a journal has one run_started, its first line")
	case f.Completed != nil:
		return refuse("comes after run_completed")
	case f.Stopped != nil && e.Payload.Type() != trajectory.TypeRunResumed:
		return refuse("comes after run_completed, which only run_resumed may follow here")
	}
	if reason := f.foreign(e.Payload, e.TaskID != ""); reason != "" {
		return refuse("%s", reason)
	}
	if e.TaskID == "" {
		if reason := f.addRun(*e); reason != "" {
			return refuse("%s", reason)
		}
		return nil
	}
	task := f.byID[e.TaskID]
	if task == nil {
		return refuse("task %q is not planned", e.TaskID)
	}
	task, reason := f.inPart(task)
	if reason != "" {
		return refuse("%s", reason)
	}
	reason, err := f.addLine(task, e, line)
	if reason != "" {
		return refuse("%s", reason)
	}
	return err
}

// keeps reports whether texts of an event are held to the end of the run, by the fold or by an audit. Of all others it
// is digests and counts.
func keeps(p trajectory.Payload) bool {
	switch p.(type) {
	case trajectory.TurnStarted, trajectory.TurnCompleted, trajectory.ContextCompiled, trajectory.ContextCondensed, trajectory.ModelCallStarted,
		trajectory.ModelCallCompleted, trajectory.ToolProposed, trajectory.ToolExecuted, trajectory.PolicyDecision, trajectory.PolicyViolation,
		trajectory.ApprovalRequested, trajectory.ApprovalResolved, trajectory.CheckpointSaved, trajectory.Rollback, trajectory.RequestRefused,
		trajectory.ExchangeStarted, trajectory.ExchangeCompleted:
		return false
	}
	return true
}

// addLine takes the next event of a task with its line, newline included.
func (f *Fold) addLine(task *Task, e *trajectory.Event, line []byte) (reason string, err error) {
	if task.Sealed != nil {
		return fmt.Sprintf("comes after the seal of task %q", e.TaskID), nil
	}
	if task.Committed != nil && f.part.shard != nil {
		return fmt.Sprintf("comes after task %q was committed", e.TaskID), nil
	}
	if p, ok := e.Payload.(trajectory.TaskCommitted); ok {
		if reason := f.commit(task, p); reason != "" {
			return reason, nil
		}
	}
	if !f.count(e.Payload) {
		return "its tokens or costs cannot be added up", nil
	}
	task.lines++
	if task.digest == nil {
		task.digest = sha256.New()
	}
	task.digest.Write(line)
	if task.Committed != nil && f.part.shard != nil {
		return "", f.part.tree.Add(trajectory.Leaf{Attempts: len(task.Attempts), Digest: task.linesDigest(), Lines: task.lines,
			RunID: f.Manifest.RunID, TaskID: task.Plan.TaskID})
	}
	reason, err = f.addTask(task, e)
	if a := task.Open(); a != nil {
		n := int64(len(line)) + a.listed(e.Payload)
		if _, request := e.Payload.(trajectory.ContextCompiled); a.light && !request {
			n = 0
		}
		a.bytes += n
		f.open += n
		f.mostOpen = max(f.mostOpen, f.open)
	}
	return reason, err
}

// listed returns how many bytes of memory the lists of a step take. Their members can be much shorter as text.
func (a *Attempt) listed(p trajectory.Payload) int64 {
	const text, member, record = 16, 64, 128
	switch p := p.(type) {
	case trajectory.ContextCompiled:
		if a.own || a.light {
			return int64(record*len(a.fresh) + len(p.Head))
		}
		return int64(record*len(p.Messages) + len(p.Head))
	case trajectory.ModelCallCompleted:
		return int64(text * len(p.UnrecordedChannels))
	case trajectory.PolicyDecision:
		return int64(text * len(p.RuleIDs))
	case trajectory.ToolExecuted:
		return int64(member * len(p.URLs))
	case trajectory.ToolProposed:
		return int64(member*len(p.Args) + text*len(p.ArgsTruncated))
	case trajectory.ExchangeCompleted:
		return record // its request, of which a step is made again
	}
	return 0
}

func (f *Fold) addRun(e trajectory.Event) (reason string) {
	switch p := e.Payload.(type) {
	case trajectory.RunStarted:
		if p.ManifestSHA256 != f.ManifestSHA256 {
			return "was started from another manifest"
		}
		m := f.Manifest
		want := trajectory.RunStarted{GuidanceHash: m.GuidanceHash, Harness: m.Harness, ManifestSHA256: f.ManifestSHA256,
			PolicyHash: m.PolicyHash, PolicyMode: m.PolicyMode, Rehearsal: m.Rehearsal, SubmitIntent: m.SubmitIntent}
		if s := f.part.shard; s != nil {
			want.Shard = s.Shard
			if p.Harness.SameSource(m.Harness) {
				want.Harness = p.Harness
			}
		} else if f.Shards != nil { // who merges needs no more than to read the shards
			want.Harness = p.Harness
		}
		if p != want {
			return "contradicts the manifest"
		}
		if f.Started == "" || e.Timestamp < f.Started {
			f.Started = e.Timestamp
		}
		f.process++
		f.ran(p.Harness)
	case trajectory.ShardMerged:
		f.part.merged++
		if number := f.part.merged; p != f.Shards.Shards[number-1].ShardMerged {
			return fmt.Sprintf("merges another shard than entry %d of "+ShardsFile, number)
		}
	case trajectory.RunResumed:
		if p.Events != e.Seq-f.part.base {
			return "miscounts the events before it"
		}
		f.process++
		resumed := Interruption{Events: p.Events, Shard: f.part.number, Resumed: e.Timestamp, Torn: p.Torn != nil, Unsubmittable: p.Unsubmittable}
		if f.Stopped != nil {
			resumed.Stopped = f.Stopped.Stopped
		}
		f.Interruptions = append(f.Interruptions, resumed)
		f.ran(p.Harness)
		f.Stopped, f.part.resumed, f.part.begun, f.part.asked = nil, true, false, nil
		if f.NotRecorded == "" {
			f.NotRecorded = p.Unsubmittable
		}
	case trajectory.SecurityEvent:
		if p.Bad < 0 || p.Checked < p.Bad || len(p.Entries) > p.Bad || p.Bad > maxCounted-f.badCache {
			return "miscounts the entries that it lists"
		}
		f.badCache += p.Bad
	case trajectory.JudgeBattery:
		return f.battery(p)
	case trajectory.LimitChanged:
		if min(p.From, p.To) < 1 || max(p.From, p.To) > maxRequests {
			return "sets a number of requests at once outside of the limits"
		}
	case trajectory.Preflight:
		return f.preflight(p)
	case trajectory.RunCompleted:
		want, all := f.RunCompleted()
		if p.Stopped != "" {
			want, all = f.RunStopped(), !all
		}
		if !all || p != want {
			return "run_completed does not count what was sealed"
		}
		if p.Stopped != "" {
			f.Stopped = &p
			return ""
		}
		f.Completed, f.completed = &p, e.Timestamp
	}
	return ""
}

// ran notes a program that wrote a part of the evidence.
func (f *Fold) ran(h trajectory.Harness) {
	if h != f.Manifest.Harness && !slices.Contains(f.harnesses, h) {
		f.harnesses = append(f.harnesses, h)
	}
}

// maxRequests bounds how many requests at once an endpoint can be given.
const maxRequests = 1 << 20

// maxCounted is the largest integer that a derived file can hold.
const maxCounted = canonical.MaxInt

// count adds an event's tokens and costs to the run's total, which bounds every sum that is derived from them. It
// returns false if one is negative or the total grows too large.
func (f *Fold) count(p trajectory.Payload) bool {
	t, cost, _ := trajectory.Usage(p)
	counts := [...]int64{t.Cached, t.In, t.Out, t.Reasoning, 0}
	if cost != nil {
		counts[4] = *cost
	}
	f.price(p)
	for _, n := range counts {
		if n < 0 || n > maxCounted-f.counted {
			return false
		}
		f.counted += n
	}
	return true
}

func (f *Fold) addTask(t *Task, e *trajectory.Event) (reason string, err error) {
	switch p := e.Payload.(type) {
	case trajectory.TaskSealed:
		return f.seal(t, p), nil
	case trajectory.TaskStarted:
		if open := t.Open(); open != nil || e.Attempt != len(t.Attempts)+1 {
			return fmt.Sprintf("attempt %d cannot begin here", e.Attempt), nil
		}
		asked := sha256.Sum256([]byte(p.Question))
		switch {
		case p.FileName != t.Plan.FileName:
			return "names another file than planned", nil
		case p.ShownAs != shownAs(f.Manifest, p.FileName):
			return "shows the attachment under another name than its agent sees", nil
		case len(t.Attempts) == 0:
			t.asked = asked
		case t.asked != asked:
			return "asks another question than the attempt before it", nil
		}
		f.part.begun = true
		inputs := &f.Inputs
		if t.superseded {
			inputs = &f.part.superseded
		}
		t.Attempts = append(t.Attempts, &Attempt{Number: e.Attempt, ToolsUsed: []string{}, CostMicroUSD: new(int64), own: f.Manifest.Agent != nil, firstUs: e.MonoUs, lastUs: e.MonoUs,
			underWay: &underWay{steps: make([]any, 0, 16), agent: f.Manifest.Agent, inputs: [2]*Inputs{inputs, &t.Inputs}, tasks: len(f.Tasks),
				process: f.process, light: f.light, requests: trajectory.Requests{Known: f.Known}}})
		a := t.Open()
		a.Conduct = &a.conduct
		a.requests.Add(p)
		return "", nil
	}
	if e.Attempt > len(t.Attempts) {
		return fmt.Sprintf("attempt %d has not begun", e.Attempt), nil
	}
	a := t.Attempts[e.Attempt-1]
	if j, ok := e.Payload.(trajectory.Judgment); ok {
		return f.grade(a, j), nil
	}
	if a.Ended != nil {
		return fmt.Sprintf("attempt %d has ended", e.Attempt), nil
	}
	if ended, ok := e.Payload.(trajectory.AttemptEnded); a.process == f.process && !(ok && ended.Reason == trajectory.Interrupted) {
		a.lastUs = e.MonoUs
	}
	reason = a.add(e)
	if call, ok := e.Payload.(trajectory.ModelCallCompleted); ok && call.Error == nil && call.ResponseModel != "" {
		switch name := call.ResponseModel; {
		case f.repliedAs[name]:
		case len(f.repliedAs) < MaxReplied && len(name) <= maxReplied:
			f.repliedAs[name] = true
		default:
			f.repliedOther = true
		}
	}
	if reason != "" || a.Ended == nil {
		return reason, nil
	}
	record := Trajectory{Attempt: a.Number, Model: f.Manifest.Model.Name, Rehearsal: f.Manifest.Rehearsal, RunID: f.Manifest.RunID,
		Schema: trajectorySchema, Steps: a.steps, TaskID: t.Plan.TaskID, Tokens: a.Tokens, ToolsUsed: a.ToolsUsed, Turns: a.Turns}
	if a.Answer != nil {
		record.FinalAnswer = &a.Answer.Answer
	}
	f.open -= a.bytes
	a.underWay = nil
	f.compact(a)
	if f.ended == nil || t.superseded {
		return "", nil
	}
	return "", f.ended(record)
}

// grade takes the judgment of an attempt.
func (f *Fold) grade(a *Attempt, j trajectory.Judgment) (reason string) {
	switch {
	case a.Judgment != nil:
		return fmt.Sprintf("attempt %d was graded before", a.Number)
	case a.Answer == nil:
		return fmt.Sprintf("grades attempt %d, which has committed no answer", a.Number)
	case !f.Scored():
		return "grades an answer in a run without gold answers"
	case j.Cached && (j.Tries != 0 || j.Judged == nil || f.Manifest.Judge == nil || !f.Manifest.Judge.Cache):
		return "takes a verdict from a cache that has none to give"
	}
	a.Judgment = f.shared(j)
	f.judge.add(j)
	return ""
}

// mostToolLists bounds the lists of tools that are shared.
const mostToolLists = 64

// compact makes an attempt that has ended share with others what is most often the same.
func (f *Fold) compact(a *Attempt) {
	if a.CostMicroUSD != nil {
		a.CostMicroUSD = &a.KnownMicroUSD // which is the same, where all prices are known
	}
	if reflect.DeepEqual(f.lastEnd, a.Ended) {
		a.Ended = f.lastEnd
	}
	f.lastEnd = a.Ended
	if conduct := *a.Conduct; conduct == quiet {
		a.Conduct = &quiet
	} else {
		a.Conduct = &conduct
	}
	at := slices.IndexFunc(f.tools, func(list []string) bool { return slices.Equal(list, a.ToolsUsed) })
	if at < 0 {
		a.ToolsUsed = slices.Clip(slices.Clone(a.ToolsUsed))
		if len(f.tools) < mostToolLists {
			f.tools = append(f.tools, a.ToolsUsed)
		}
		return
	}
	a.ToolsUsed = f.tools[at]
}

// quiet is the conduct of most attempts.
var quiet trajectory.Conduct

// shared returns a judgment that attempts with the same one share: most answers need no LLM judge.
func (f *Fold) shared(j trajectory.Judgment) *trajectory.Judgment {
	last := &f.verdicts[0]
	if j.Official {
		last = &f.verdicts[1]
	}
	if *last == nil || !reflect.DeepEqual(**last, j) {
		kept := j
		*last = &kept
	}
	return *last
}

// The paths of judgments that are distinguished, as package judge names them (TestPaths in internal/run).
const (
	PathJudge      = "judge"
	PathError      = "judge_error"
	PathUnreadable = "judge_unreadable"
	PathWithheld   = "withheld"
	PathTooLong    = "too_long"
)

func (f *Fold) seal(t *Task, s trajectory.TaskSealed) (reason string) {
	outcome, attempt, ok := f.Outcome(t)
	salt, err := hex.DecodeString(s.Salt)
	counted := 0
	if f.Shards != nil {
		counted = f.Shards.Counted[t.Index]
	}
	switch {
	case !ok:
		return "is sealed before it is settled"
	case s.Shard != counted:
		return fmt.Sprintf("is sealed with the lines of entry %d of "+ShardsFile+", and entry %d counts", s.Shard, counted)
	case s.Outcome != outcome || s.Attempt != attempt || s.Attempts != len(t.Attempts):
		return fmt.Sprintf("is sealed as %q of attempt %d in %d; its events give %q of attempt %d in %d",
			s.Outcome, s.Attempt, s.Attempts, outcome, attempt, len(t.Attempts))
	case err != nil || len(salt) != 32 || strings.ToLower(s.Salt) != s.Salt:
		return "has no salt of 32 bytes"
	case len(t.Attempts) > 0 && plan.SaltedQuestion(salt, t.asked) != t.Plan.QuestionSHA256:
		return "was asked another question than planned"
	}
	if asked, more := f.askedToo[t.Index]; more && plan.SaltedQuestion(salt, asked) != t.Plan.QuestionSHA256 {
		return "was asked another question than planned in an attempt that does not count"
	}
	end := Seal{s.Attempt, s.Attempts, s.Outcome, s.Shard}
	if f.seals[end] == nil {
		f.seals[end] = &end
	}
	t.Sealed, t.Salt = f.seals[end], [sha256.Size]byte(salt)
	t.digest.Sum(t.sum[:0])
	t.digest = nil
	return ""
}

// Outcome returns what a task's events make of it, and the attempt that counts (0 for none); false while an attempt is
// open, the counted answer has not been graded, or the vote is not complete.
func (f *Fold) Outcome(t *Task) (outcome string, attempt int, ok bool) {
	if t.Open() != nil {
		return "", 0, false
	}
	if t.votes { // no attempt is due, unless a budget ended the run, and all answers are graded
		ungraded := func(a *Attempt) bool { return a.Answer != nil && a.Judgment == nil }
		if !f.Settled(t) && f.Manifest.Budgets.RunCostMicroUSD == 0 || f.Scored() && slices.ContainsFunc(t.Attempts, ungraded) {
			return "", 0, false
		}
	}
	if len(t.Attempts) == 0 {
		return trajectory.Skipped, 0, true
	}
	a := t.Counted()
	switch {
	case a.Ended.Outcome == trajectory.Errored:
		return trajectory.Errored, a.Number, true
	case !f.Scored():
		return trajectory.Unscored, a.Number, true
	case a.Answer == nil:
		return trajectory.Failed, a.Number, true
	case a.Judgment == nil:
		return "", 0, false
	case a.Judgment.Official:
		return trajectory.Solved, a.Number, true
	}
	return trajectory.Failed, a.Number, true
}

// Scored reports whether the run has gold answers to be scored by.
func (f *Fold) Scored() bool { return f.Manifest.Scored() }

// Open returns the attempt that has begun and not ended, nil if there is none.
func (t *Task) Open() *Attempt {
	if n := len(t.Attempts); n > 0 && t.Attempts[n-1].Ended == nil {
		return t.Attempts[n-1]
	}
	return nil
}
