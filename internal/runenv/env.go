// Package runenv completes, signs and compares plans by what a run needs besides its plan: the [Env].
//
// [Complete] adds to a plan all that follows from the environment. [Sign] gives it an id and the digests of questions and
// gold answers, and signs it. [Env.SamePlan] tells whether the environment gives a signed plan again: where a run is
// resumed, where a shard begins on another machine, and where shards are merged. [UnfitWatch] follows a run that is to be
// submitted for what makes it unfit.
package runenv

import (
	"cmp"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/agent"
	"github.com/gaia-harness/gaia/agent/external"
	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/budget"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/preflight"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/document"
	"github.com/gaia-harness/gaia/tools/media"
	"github.com/gaia-harness/gaia/trajectory"
)

// Env is what a run needs besides its plan: the tasks and models that the plan names, and the effects that the run may
// have.
type Env struct {
	Set  loader.Set
	Gold loader.Gold

	Model       agent.Model
	Judge       *grading.Judge    // nil: official scorer only
	Transcriber media.Transcriber // of the plan's transcription; nil without one
	Viewer      media.Viewer      // of the plan's vision; nil without one
	Limiter     *llm.Limiter      // of all these clients; nil: none
	Own         *external.Agent   // what all attempts of the plan's own agent share; nil: the plan has the built-in agent
	AgentFiles  []byte            // plan.AgentFilesFile of the own agent
	Prices      llm.Prices
	Preflight   *preflight.Models // asked before the tasks, by clients without a cassette; nil: nothing
	Cache       *judgecache.Cache // of earlier verdicts; nil: none are used

	Look func(tasks []probe.Target) (*plan.AgentPlan, error) // completes the own agent with what its folders hold of the tasks; nil: nothing does

	Tools    []tools.Tool    // but for those of Transcriber and Viewer
	Reader   document.Reader // reads attachments, for their probes
	Approver tools.Approver  // of calls that need approval; nil: they are denied

	Concurrency int    // tasks at once; 0: as the limiter allows
	Continue    bool   // when recording fails: go on without evidence, else stop
	Scratch     string // directory for the workspaces of such a run

	Key     sign.Key
	Harness trajectory.Harness
	Redact  trajectory.Redactor
	Now     func() time.Time
	Mono    func() time.Duration // since the process started
	Rand    io.Reader
	Resumed func(*rundir.Fold)     // called with the state of a resumed run; may be nil
	Watch   func(trajectory.Event) // called with every event once it is durable; may be nil
	Warn    func(error)            // called with what goes wrong without harm to the run; may be nil
}

// FailuresPerTask is how many attempts at a task may fail because a model cannot be asked, besides the last one, before
// no other is made in their place. Interrupted attempts do not count.
const FailuresPerTask = 1

// Complete returns a plan with all that follows from the environment: tasks and splits, tools, prompts, and where the
// models are. What Create alone knows is not in it: id, time, the gold commitment and the digests of the questions. A
// plan that would hold a secret is a *SecretError; to Create, too.
func Complete(m plan.Plan, e Env) (plan.Plan, error) {
	m, err := e.complete(m)
	if err == nil {
		err = plan.NoSecret(m, e.Redact)
	}
	return m, err
}

func (e Env) complete(m plan.Plan) (plan.Plan, error) {
	m.Schema, m.Harness, m.PricesSHA256, m.SigningKey = plan.New().Schema, e.Harness, e.Prices.Digest(), e.Key.Public().Line()
	m.Evidence = cmp.Or(m.Evidence, plan.EvidenceHeads)
	if m.Budgets.RunCostMicroUSD > 0 && m.Model.MaxTokens <= 0 {
		return m, errors.New("a run whose cost is bounded must bound its completions")
	}
	if own := m.Agent; own != nil && (e.Own == nil || canonical.Digest(e.AgentFiles) != own.FilesSHA256) {
		return m, errors.New("the plan has an agent of the user's own, and its files were not read here")
	}
	m.Govern(m.Policy)
	m.Budgets.CostMicroUSD, m.Budgets.ToolCalls = max(m.Policy.MaxCostMicroUSD, 0), max(m.Policy.MaxToolCalls, 0)
	m.Approved = slices.Compact(slices.Sorted(slices.Values(m.Approved)))
	m.Unconfined = slices.Sorted(slices.Values(m.Unconfined))
	m.Model.ServedAs = slices.Compact(slices.Sorted(slices.Values(m.Model.ServedAs)))
	m.Judge, m.Prompts = nil, nil
	if e.Judge != nil {
		m.Judge = new(e.Judge.Plan(e.Verdicts(m) != nil))
	}
	for _, t := range prompt.Templates() {
		m.Prompts = append(m.Prompts, plan.Prompt{ID: t.ID, SHA256: t.Digest(), Text: t.Text})
	}
	m.NoPreflight = e.Preflight == nil && m.Cassette != plan.CassetteReplay // which asks no model
	m.Probes = probe.Version
	m.Voting = plan.VotingPlan{Attempts: max(m.Voting.Attempts, 1), Rule: plan.VoteFirst}
	if m.Voting.Attempts > 1 {
		m.Voting.Rule = plan.VoteMajority
	}
	m.Retry.AttemptsPerTask, m.Retry.FreeReattempts = FailuresPerTask+m.Voting.Attempts, plan.FreeReattempts
	m.Tools = nil
	for _, t := range e.catalogue(m, nil) {
		s := t.Spec()
		plan := plan.ToolPlan{Description: s.Description, Name: s.Name, SchemaSHA256: canonical.Digest(s.Parameters), Server: s.Server, Network: s.Network, Env: s.Env}
		if s.Server != "" { // the schema comes from outside of this program
			plan.Schema = string(s.Parameters)
		}
		m.Tools = append(m.Tools, plan)
	}
	slices.SortFunc(m.Tools, func(a, b plan.ToolPlan) int { return strings.Compare(a.Name, b.Name) })
	err := grading.Describe(&m, e.Set)
	return m, err
}

// Verdicts returns the judge cache; nil if there is none, or if the answers come from a cassette: anyone can write one,
// and none of its replies may become a cached verdict.
func (e Env) Verdicts(m plan.Plan) *judgecache.Cache {
	if m.Cassette == plan.CassetteReplay {
		return nil
	}
	return e.Cache
}

// Sweep checks the judge cache before anything is spent; nil if the run uses none.
func (e Env) Sweep(m plan.Plan) (*judgecache.Sweep, error) {
	cache := e.Verdicts(m)
	if cache == nil || e.Judge == nil {
		return nil, nil
	}
	swept := cache.Sweep()
	if len(swept.Bad) > 0 && m.SubmitIntent {
		return nil, &grading.CacheError{Dir: cache.Dir(), Sweep: swept}
	}
	return &swept, nil
}

// catalogue returns the tools of a run: those that ask a model are paid from its budget, which money returns once the
// run executes.
func (e Env) catalogue(m plan.Plan, money func() *budget.Budget) []tools.Tool {
	if m.Agent != nil && m.Agent.Tools == plan.AgentToolsNone {
		return nil
	}
	all := slices.Clone(e.Tools)
	if m.Agent != nil {
		all = append(all, external.SubmitAnswer())
	}
	paid := budget.Metered{Budget: money, Waits: m.Agent != nil, Hear: e.Transcriber, Viewer: e.Viewer}
	if e.Transcriber != nil {
		all = append(all, media.NewTranscribe(paid, m.Transcription.Model))
	}
	if e.Viewer != nil {
		all = append(all, media.NewDescribeImage(paid, m.Vision.Model, e.Reader))
	}
	return all
}

// NewGate returns the gate of a plan's tools: those that ask a model are paid from what money returns.
func (e Env) NewGate(m plan.Plan, money func() *budget.Budget) (*tools.Gate, error) {
	return tools.NewGate(tools.GateConfig{Policy: m.Policy, Approver: e.Approver, Prices: e.Prices, MaxTokens: m.Model.MaxTokens, Now: e.Now},
		e.catalogue(m, money)...)
}

// Affords returns a *budget.LimitError if the money of a run is not enough for an attempt at any of its tasks, or a
// *budget.PartError if that of a shard is not enough for one at each of its tasks, as Create and Sign do.
func Affords(m plan.Plan, e Env) error {
	gate, err := e.NewGate(m, nil)
	if err != nil {
		return err
	}
	money := budget.New(m.Budgets.RunCostMicroUSD, e.Prices, m.Model.Name, m.Model.MaxTokens)
	if m.Shards > 0 {
		return money.CheckParts(m, func(task int) int64 { return FirstTokens(e.Set.Tasks[task], gate.Specs()) })
	}
	return money.Check(Least(money, e.Set.Tasks, gate.Specs()))
}

// Least returns what an attempt at the cheapest of the tasks reserves, in micro-USD.
func Least(b *budget.Budget, tasks []loader.Task, specs []tools.Spec) int64 {
	n := int64(math.MaxInt64)
	for _, t := range tasks {
		n = min(n, b.First(FirstTokens(t, specs)))
	}
	return n
}

// FirstTokens bounds the tokens of the first request of an attempt at a task.
func FirstTokens(t loader.Task, specs []tools.Spec) int64 {
	return agent.FirstTokens(agent.Question{Text: t.Question, FileName: t.FileName}, specs)
}

// Targets returns what probes look for: the tasks with their gold, where it is known.
func (e Env) Targets() []probe.Target {
	gold, targets := e.Gold.Map(), make([]probe.Target, len(e.Set.Tasks))
	for i, t := range e.Set.Tasks {
		targets[i] = probe.Target{TaskID: t.ID, Question: t.Question, Gold: gold[t.ID]}
	}
	return targets
}
