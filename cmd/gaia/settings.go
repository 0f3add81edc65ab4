package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/policyfile"
	"github.com/gaia-harness/gaia/internal/remote"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// applySettings sets the flags that the file names and nothing stronger decides.
func (a *app) applySettings(s *runSettings, file *settings.File, flags *pflag.FlagSet, given func(string) bool) error {
	err := file.Apply(flags, func(name string) bool {
		return given(name) || a.decides(name) || s.like != nil && slices.Contains(s.planned, name)
	})
	if err == nil {
		s.takeServers(file)
	}
	return err
}

// decides reports whether the environment has the value of a flag.
func (a *app) decides(flag string) bool {
	switch flag {
	case "base-url":
		return a.getenv("OPENAI_BASE_URL") != ""
	case "searxng-url":
		return a.getenv("SEARXNG_URL") != ""
	case "key":
		return a.getenv("GAIA_SIGNING_KEY") != "" || a.getenv("GAIA_SIGNING_KEY_FILE") != ""
	}
	return false
}

// settle settles the run, from the flags, the environment, the plan to repeat, the settings file and the defaults, in this order.
func (a *app) settle(cmd *cobra.Command, s *runSettings, file *settings.File) (err error) {
	flags := cmd.Flags()
	given := map[string]bool{}
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	if s.likeWhat != "" {
		like, err := verify.ReadPlan(s.likeWhat)
		if err != nil {
			return err
		}
		s.like = &like
		if !given["source"] && !s.like.Rehearsal && s.like.Dataset.Hub == "" { // the plan does not hold it
			s.source = file.Value("source")
		}
		if err := a.repeat(s, flags, *s.like); err != nil {
			return err
		}
	}
	if err := a.applySettings(s, file, flags, func(name string) bool { return given[name] }); err != nil {
		return err
	}
	if err := s.checkFlags(flags.Changed); err != nil {
		return err
	}
	if err := a.settleAgent(s, file, flags.Changed); err != nil {
		return err
	}
	if err := a.complete(s); err != nil {
		return err
	}
	if m := s.like; m != nil && !given["base-url"] && !s.plan.Rehearsal && !m.Rehearsal && remote.Origin(s.baseURL) != m.Model.Origin {
		return usage("give --base-url", "the plan's model is at %s, and the endpoint here is at %s", m.Model.Origin, remote.Origin(s.baseURL))
	}
	a.announceSettings(file, s)
	return s.serverSide(a.warn)
}

// announceSettings reports that a file was read, which can send the key elsewhere.
func (a *app) announceSettings(file *settings.File, s *runSettings) {
	if file == nil {
		return
	}
	where := ""
	if !s.plan.Rehearsal {
		where = "; the endpoint is " + remote.Origin(s.baseURL)
	}
	fmt.Fprintf(a.stderr, "gaia: settings from %s%s\n", view.Line(file.Name), view.Line(where))
}

// complete sets what the flags and the settings file left open, from the environment and then from the defaults, and rejects
// settings that exclude each other.
func (a *app) complete(s *runSettings) error {
	p := &s.plan
	p.Rehearsal = a.rehearses(s.taskFlags) && (s.source == sourceFixtures || p.Model.Name == "" && s.baseURL == "")
	if p.Rehearsal {
		if p.Model.Name != "" || p.Judge != nil || p.Transcription != nil || s.baseURL != "" || s.search != "" || s.searXNG != "" || s.prices != "" || s.protocol != "" || s.vision != "" && s.vision != noVision {
			return usage("leave out --model, --base-url, --api, --judge-model, --transcription-model, --vision-model, --search, --searxng-url and --prices, or give --source hub or dir:PATH",
				"the built-in tasks run only with the built-in model")
		}
		s.source, p.Model.Name, s.vision = sourceFixtures, fixtures.Model, cmp.Or(s.vision, fixtures.VisionModel)
		if p.Judge = (&plan.JudgePlan{Model: fixtures.JudgeModel}); s.hasTools() {
			p.Transcription = &plan.TranscriptionPlan{Model: fixtures.TranscriptionModel}
		}
		return settlePolicy(s)
	}
	s.source = cmp.Or(s.source, sourceHub)
	if p.Model.Name == "" {
		return usage("give --model", "no model is given")
	}
	p.Model.NoTemperature = !llm.TakesTemperature(p.Model.Name)
	s.baseURL = cmp.Or(s.baseURL, a.getenv("OPENAI_BASE_URL"), defaultBaseURL)
	if err := a.settleMessages(s); err != nil {
		return err
	}
	if err := settlePolicy(s); err != nil {
		return err
	}
	if !s.hasTools() {
		return nil
	}
	return a.settleSearch(s)
}

// settlePolicy sets the policy of the plan: that of a plan which is repeated or resumed, or the named one with the budgets of
// the flags. A rehearsal of the built-in agent with neither a policy nor MCP servers is autonomous but for one tool and has a small budget, so that
// it shows denials by mode and by budget.
func settlePolicy(s *runSettings) (err error) {
	flags := s.plan.Policy
	if flags.Mode != "" {
		if _, err := policy.Builtin(flags.Mode); err != nil {
			return fail(exit.Failure, fmt.Errorf("taking the policy from the plan: %w", err))
		}
		return nil
	}
	p, err := policyfile.Named(s.policyName)
	if err != nil {
		return err
	}
	if s.plan.Rehearsal && s.policyName == "" && len(s.servers) == 0 && s.plan.Agent == nil {
		p.Allow = slices.DeleteFunc(policy.BuiltinTools(), func(tool string) bool { return tool == fixtures.LeftOut })
		p.MaxCostMicroUSD = fixtures.TaskMicroUSD
	}
	p.MaxToolCalls = cmp.Or(flags.MaxToolCalls, p.MaxToolCalls)
	p.MaxCostMicroUSD = cmp.Or(flags.MaxCostMicroUSD, p.MaxCostMicroUSD)
	s.plan.Policy = p
	return nil
}

// repeat sets the plan to one that is to be repeated, and then the flags again.
func (a *app) repeat(s *runSettings, flags *pflag.FlagSet, m plan.Plan) error {
	given, before := flags.Changed, *s
	setAgain := cli.Given(flags)
	s.take(m)
	otherModel := given("model") && before.plan.Model.Name != m.Model.Name
	if m.Rehearsal || otherModel {
		s.protocol = ""
	}
	if m.Rehearsal || otherModel && (m.Vision == nil || m.Vision.Model == m.Model.Name) {
		s.vision = ""
	}
	if m.Rehearsal {
		s.plan.Model.Name, s.plan.Judge, s.plan.Transcription = "", nil, nil
	}
	if m.Rehearsal || given("searxng-url") {
		s.search = ""
	}
	if otherModel {
		s.images, s.plan.Model.ContextWindow, s.plan.Model.ServedAs = imagesAuto, 0, nil
	}
	if given("policy") { // whose budgets these are
		s.plan.Policy = policy.Policy{}
	}
	if err := setAgain(); err != nil {
		return err
	}
	switch {
	case given("source"):
		of := isHub(s.source) && m.Dataset.Hub != "" && (s.source == sourceRepo+m.Dataset.Name || s.source == sourceHub)
		if of && s.revision == "" {
			s.revision = m.Dataset.Revision
		}
	case m.Rehearsal:
		s.source = sourceFixtures
	default:
		revision := s.revision
		if err := a.plannedSource(s, m.Dataset); err != nil {
			return err
		}
		s.revision = cmp.Or(revision, s.revision)
	}
	if !slices.ContainsFunc([]string{"level", "task", "sample", "seed", "limit"}, given) && s.split == m.Dataset.Split {
		s.takeTasks(m)
	}
	return nil
}

// compareWith prints in what a plan differs from the one that it repeats.
func (a *app) compareWith(old *plan.Plan, now plan.Plan, dry bool) error {
	found, err := runview.Differences(*old, now, dry)
	if err == nil {
		_, err = fmt.Fprintf(a.stderr, "gaia: differs from the plan of %s in: %s\n", old.RunID, view.Line(found))
	}
	return err
}
