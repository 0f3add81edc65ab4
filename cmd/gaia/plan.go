package main

import (
	"context"
	"crypto/rand"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

// world is a run's configuration with the servers it needs; Close ends them.
type world struct {
	run.Config
	close     func() error
	sandbox   *tools.Sandbox // nil: there is none
	noSandbox error          // why
}

func (w world) Close() error {
	if w.close == nil {
		return nil
	}
	return w.close()
}

// configure builds all that a run needs.
func (a *app) configure(ctx context.Context, s settings) (_ world, err error) {
	var w world
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	if w.Policy, err = s.policy(); err != nil {
		return world{}, err
	}
	if err = a.confine(ctx, s, &w); err != nil {
		return world{}, err
	}
	if s.rehearsal {
		err = w.rehearse(s)
	} else {
		err = w.connect(s, a.getenv("OPENAI_API_KEY"))
	}
	if err != nil {
		return world{}, err
	}
	if err = a.addPython(ctx, s, &w); err != nil {
		return world{}, err
	}
	headers, err := a.addServers(ctx, &w, s)
	if err != nil {
		return world{}, err
	}
	if w.Set, w.Gold, err = a.loadTasks(ctx, s.taskFlags); err != nil {
		return world{}, err
	}
	if !s.dry { // which reads no attachments
		if err = w.Set.HashAttachments(ctx); err != nil {
			return world{}, err
		}
	}
	if w.Harness, err = harness(); err != nil {
		return world{}, err
	}
	w.Selection, w.MaxTurns, w.MaxTokens = s.filter.Rule(), s.maxTurns, s.maxTokens
	if s.selected != nil && (s.resumed || s.selected.MetadataSHA256 == w.Set.Digest) {
		w.Selection = s.selected.Selection // which chose them from these very tasks
	}
	for _, name := range s.approve {
		if name == approveAll {
			name = policy.EveryTool
		}
		w.Approved = append(w.Approved, policy.ToolName(name))
	}
	w.Attempts, w.TaskTokens, w.TaskWall = s.attempts, s.taskTokens, s.taskTime
	w.SubmitIntent, w.Rehearsal = s.submitIntent, s.rehearsal
	w.CallTries, w.Evidence = callTries, s.evidence
	w.Continue, w.Scratch = s.onLost == goOn, os.TempDir()
	secrets := append(headers, a.getenv("OPENAI_API_KEY"), s.engine.Key)
	if isHub(s.source) {
		token, _, err := a.hubToken()
		if err != nil {
			return world{}, err
		}
		secrets = append(secrets, token)
	}
	w.Redact = trajectory.NewRedactor(a.secrets(), secrets...)
	w.Now, w.Rand = time.Now, rand.Reader
	w.Mono = func() time.Duration { return time.Since(a.began) }
	if s.dry {
		w.Key, err = sign.NewKey(rand.Reader) // of nobody, and signs nothing
		return w, err
	}
	if w.Key, err = a.signingKey(s.key); err != nil { // last but one: it may make one
		return w, err
	}
	if w.Judge != nil && !s.noJudgeCache && w.Cassette != plan.CassetteReplay {
		w.Verdicts, err = a.judgeCache(w.Key, s.resumed)
	}
	return w, err
}

// tellsSecret is the refusal of a plan that everybody could read a secret in.
func tellsSecret(e *run.SecretError) error {
	f := &failure{Code: exitUsage, Err: e}
	if strings.Contains(e.Where, " of mcp:") {
		f.Hints = []string{"mend the server, or leave the tool out by the list 'tools' of the server in the settings"}
	} else {
		f.Hints = []string{"take it out of the flag, the settings or the policy file"}
	}
	f.Hints = append(f.Hints, "secret are the keys of models, search engines and the hub, headers of MCP servers, whatever looks like a key, "+
		"and values of variables with KEY, TOKEN, SECRET, PASSWORD or CREDENTIAL in the name")
	return f
}

// policy returns the governance of the run with the budgets of the flags. A rehearsal
// that is given neither a policy nor MCP servers is autonomous but for one tool and
// has a small budget, so that it shows denials by mode and by budget.
func (s settings) policy() (policy.Policy, error) {
	p, err := s.base()
	if err != nil {
		return p, err
	}
	if s.rehearsal && s.planned == nil && s.policyName == "" && len(s.servers) == 0 {
		p.Allow = slices.DeleteFunc(policy.BuiltinTools(), func(tool string) bool { return tool == fixtures.LeftOut })
		p.MaxCostMicroUSD = fixtures.TaskMicroUSD
	}
	if s.toolCalls > 0 {
		p.MaxToolCalls = s.toolCalls
	}
	if s.taskCost == "off" {
		p.MaxCostMicroUSD = policy.Unlimited
		return p, nil
	}
	budget, err := dollarsOf("max-task-cost", s.taskCost)
	if budget > 0 {
		p.MaxCostMicroUSD = budget
	}
	return p, err
}
