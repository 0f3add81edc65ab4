// Package run takes a plan to its end: it makes the run directory, solves the
// tasks, grades the answers, seals and signs, and goes on after an
// interruption.
//
// It is the one place where a task's question and its gold answer are both at
// hand, and it parts them at once: the agent gets an agent.Question, the judge
// gets the gold. Everything that happens is an event in the journal before it
// has an effect; the state of the run is what internal/rundir folds from those
// events, also while they are being written, so a resumed run knows exactly
// what a verifier would.
//
// Before the first verdict of the LLM judge is wanted, the judge is put to the null
// battery (battery.go, package judge); what it said in earlier runs comes from the
// signed cache (verdicts.go), which is swept before anything is spent.
//
// A directory runs/<id> appears by rename with its manifest signed and
// run_started durable (unfinished ones are runs/.new-*). TestResume,
// and TestKill in cmd/gaia, show that what was acknowledged is kept and that a
// committed answer is never replaced.
package run

import (
	"errors"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/agent"
	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/preflight"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

// Config is everything a run needs from outside: what is planned, and the
// effects it may have.
type Config struct {
	Set           loader.Set
	Gold          loader.Gold
	Selection     string // rule that chose Set's tasks: loader.Filter.Rule
	Model         Endpoint
	Judge         *Endpoint // nil: official scorer only
	MaxTokens     int       // of one completion; 0 leaves it to the endpoint
	MaxTurns      int
	CallTries     int // tries of one model call, as the client was configured
	Policy        policy.Policy
	Approver      tools.Approver // of calls that need approval; nil: they are denied
	Approved      []string       // tools that it approves without asking anybody, or policy.EveryTool
	PricesDigest  string
	Tools         []tools.Tool
	Unconfined    []string          // of the tools and servers: those whose programs run outside of the sandbox
	Reader        tools.Reader      // reads attachments, for their probes
	Verdicts      *judgecache.Cache // of earlier judgments; nil: none are used
	SubmitIntent  bool
	Rehearsal     bool
	Evidence      string            // what the journal shows of bodies: plan.EvidenceHeads ("" means this), EvidenceBodies, EvidenceHashes
	Continue      bool              // when recording fails: go on without evidence, else stop
	Scratch       string            // directory for the workspaces of a run that goes on so
	Concurrency   int               // tasks at once; 0: as the model's limiter allows
	Attempts      int               // voting attempts at a task; 0 = 1
	TaskTokens    int64             // an attempt may read and write; 0: no limit
	TaskWall      time.Duration     // an attempt may take; 0: no limit
	RunCost       int64             // micro-USD the run may cost, its judge included; 0: no limit
	Prices        llm.Prices        // to bound what a request may cost
	Cassette      string            // plan.CassetteRecord or CassetteReplay; "" for neither
	Search        *plan.SearchPlan  // of the web_search among Tools; nil: none, or the built-in one
	Transcription *Transcription    // its tool is not among Tools; nil: none
	Vision        *Vision           // likewise
	Preflight     *preflight.Models // what is asked before the tasks, by clients that no cassette is behind; nil: nothing

	Key     sign.Key
	Harness trajectory.Harness
	Redact  trajectory.Redactor
	Now     func() time.Time
	Mono    func() time.Duration // since the process started
	Rand    io.Reader
	Resumed func(*rundir.Fold)     // told what a run had come to that goes on; may be nil
	Watch   func(trajectory.Event) // sees every event once it is durable; may be nil
	Warn    func(error)            // told of what goes wrong without harm to the run; may be nil
}

// Endpoint is a model behind a client. Origin is where it is, without a path.
type Endpoint struct {
	Client        agent.Model
	Name          string
	Origin        string
	URL           string       // the base URL, without a slash at its end; "" = the origin is all there is to know
	Limiter       *llm.Limiter // of the client; nil: none
	API           string       // llm.APIChat or APIResponses; "" = llm.APIChat
	NoTemperature bool
	Images        bool     // pictures that come with a question are shown to it
	ContextWindow int      // tokens; 0: not known
	ServedAs      []string // other names by which it may call the models of the run in its replies
}

// failuresPerTask is how many attempts at a task may fail for want of
// infrastructure, besides the last one, before no other is made in their place.
// Interrupted attempts do not count.
const failuresPerTask = 1

// plan returns the manifest of a run, but for its id, its time and what commit adds.
func (c Config) plan() (plan.Plan, error) {
	m := plan.New()
	if c.RunCost > 0 && c.MaxTokens <= 0 {
		return m, errors.New("a run whose cost is bounded must bound its completions")
	}
	m.Budgets = plan.Budgets{CostMicroUSD: max(c.Policy.MaxCostMicroUSD, 0), RunCostMicroUSD: c.RunCost, Tokens: c.TaskTokens,
		ToolCalls: max(c.Policy.MaxToolCalls, 0), Turns: c.MaxTurns, WallMs: c.TaskWall.Milliseconds()}
	m.Cassette = c.Cassette
	m.Dataset = plan.Dataset{CarriedGold: c.Set.CarriedGold, Hub: c.Set.Hub, Levels: c.Set.Levels, MetadataFile: c.Set.MetadataFile,
		MetadataSHA256: c.Set.Digest, Name: c.Set.Dataset, Revision: c.Set.Revision, Selection: c.Selection,
		Split: string(c.Set.Split), SplitSize: len(c.Set.IDs)}
	m.Govern(c.Policy)
	m.Approved = slices.Compact(slices.Sorted(slices.Values(c.Approved)))
	m.Unconfined = slices.Sorted(slices.Values(c.Unconfined))
	if c.Evidence != "" {
		m.Evidence = c.Evidence
	}
	m.Harness, m.PricesSHA256 = c.Harness, c.PricesDigest
	m.Model = plan.ModelPlan{ContextWindow: c.Model.ContextWindow, Images: c.Model.Images, MaxTokens: c.MaxTokens, Name: c.Model.Name,
		NoTemperature: c.Model.NoTemperature, Origin: c.Model.Origin, ServedAs: slices.Compact(slices.Sorted(slices.Values(c.Model.ServedAs)))}
	if c.Model.API == llm.APIResponses {
		m.Model.API = c.Model.API
	}
	m.Search = c.Search
	if c.Transcription != nil {
		m.Transcription = &plan.TranscriptionPlan{Model: c.Transcription.Name, Origin: c.Transcription.Origin}
	}
	if c.Vision != nil {
		m.Vision = &plan.VisionPlan{Model: c.Vision.Name, Origin: c.Vision.Origin}
	}
	for _, t := range prompt.Templates() {
		m.Prompts = append(m.Prompts, plan.Prompt{ID: t.ID, SHA256: t.Digest(), Text: t.Text})
		if c.Judge != nil && t.ID == prompt.JudgeID {
			m.Judge = new(c.Judge.judgePlan(c.verdicts() != nil))
		}
	}
	m.NoPreflight = c.Preflight == nil && c.Cassette != plan.CassetteReplay // which asks no model
	m.Probes = probe.Version
	m.Rehearsal, m.SubmitIntent = c.Rehearsal, c.SubmitIntent
	m.Voting = plan.VotingPlan{Attempts: max(c.Attempts, 1), Rule: plan.VoteFirst}
	if c.Attempts > 1 {
		m.Voting.Rule = plan.VoteMajority
	}
	m.Retry = plan.RetryPlan{AttemptsPerTask: failuresPerTask + m.Voting.Attempts, CallTries: c.CallTries, FreeReattempts: plan.FreeReattempts}
	m.SigningKey = c.Key.Public().Line()
	for _, t := range c.Set.Tasks {
		m.Tasks = append(m.Tasks, plan.PlannedTask{FileBytes: t.Bytes, FileName: t.FileName, FileSHA256: t.SHA256, Level: t.Level, TaskID: t.ID})
	}
	for _, t := range c.catalogue(nil) {
		s := t.Spec()
		plan := plan.ToolPlan{Description: s.Description, Name: s.Name, SchemaSHA256: canonical.Digest(s.Parameters), Server: s.Server, Network: s.Network, Env: s.Env}
		if s.Server != "" { // what it says to the model nobody else knows
			plan.Schema = string(s.Parameters)
		}
		m.Tools = append(m.Tools, plan)
	}
	slices.SortFunc(m.Tools, func(a, b plan.ToolPlan) int { return strings.Compare(a.Name, b.Name) })
	return m, c.splits(&m)
}

// splits says what the splits of the dataset consist of.
func (c Config) splits(m *plan.Plan) (err error) {
	m.SplitIDs = c.Set.IDs
	if m.Dataset.IDsSHA256, err = plan.IDsDigest(c.Set.IDs); err != nil {
		return err
	}
	own := loader.Other{Split: c.Set.Split, IDs: c.Set.IDs, CarriedGold: c.Set.CarriedGold}
	for _, s := range append([]loader.Other{own}, c.Set.Others...) {
		digest, err := plan.IDsDigest(slices.Sorted(slices.Values(s.IDs)))
		if err != nil {
			return err
		}
		m.Splits = append(m.Splits, plan.SplitPlan{CarriedGold: s.CarriedGold, IDsSHA256: digest, Name: string(s.Split), Size: len(s.IDs)})
	}
	slices.SortFunc(m.Splits, func(a, b plan.SplitPlan) int { return strings.Compare(a.Name, b.Name) })
	return nil
}
