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
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// applySettings sets the flags that the file names and nothing stronger decides.
func (a *app) applySettings(s *runflags.Settings, file *settings.File, flags *pflag.FlagSet, given func(string) bool) error {
	err := file.Apply(flags, func(name string) bool {
		return given(name) || a.decides(name) || s.Like != nil && slices.Contains(s.Planned, name) || name == "out" && s.PlanDir != "" // of gaia plan
	})
	if err == nil {
		s.TakeServers(file)
	}
	return err
}

// decides reports whether the environment has the value of a flag.
func (a *app) decides(flag string) bool {
	return slices.ContainsFunc(settings.Environment(flag), func(name string) bool { return a.getenv(name) != "" })
}

// settle settles the run, from the flags, the environment, the plan to repeat, the settings file and the defaults, in this order.
func (a *app) settle(cmd *cobra.Command, s *runflags.Settings, file *settings.File) (err error) {
	flags := cmd.Flags()
	given := map[string]bool{}
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	if err := s.CheckOnlyErrors(flags.Changed); err != nil {
		return err
	}
	if s.LikeWhat != "" {
		var failed *rundir.Run
		if failed, err = a.readLike(s); err != nil {
			return err
		}
		if !given["dataset"] && !s.Like.Rehearsal && s.Like.Dataset.Hub == "" { // the plan does not hold it
			s.Source = cmp.Or(file.Value("dataset"), file.Value("source"))
		}
		if err := a.repeat(s, flags, *s.Like); err != nil {
			return err
		}
		if failed != nil {
			lines, err := s.TakeErrors(failed)
			if err != nil {
				return err
			}
			for _, line := range lines {
				fmt.Fprintf(a.stderr, "gaia: %s\n", line)
			}
		}
	}
	if err := a.applySettings(s, file, flags, func(name string) bool { return given[name] }); err != nil {
		return err
	}
	if err := s.CheckFlags(flags.Changed); err != nil {
		return err
	}
	if err := a.user().SettleAgent(s, file, flags.Changed); err != nil {
		return err
	}
	if err := a.complete(s); err != nil {
		return err
	}
	if m := s.Like; m != nil && !given["base-url"] && !s.Plan.Rehearsal && !m.Rehearsal && remote.Origin(s.BaseURL) != m.Model.Origin {
		return usage("give --base-url", "the plan's model is at %s, and the endpoint here is at %s", m.Model.Origin, remote.Origin(s.BaseURL))
	}
	a.announceSettings(file, s)
	return s.ServerSide(a.warn)
}

// readLike reads the plan to repeat, and of --only-errors the run, which has to verify.
func (a *app) readLike(s *runflags.Settings) (failed *rundir.Run, err error) {
	if s.OnlyErrors {
		if failed, err = a.finishedRun(s.LikeWhat); err == nil {
			err = a.checkSigner(failed)
		}
		if err == nil {
			s.Like = &failed.Manifest
		}
		return failed, err
	}
	like, err := verify.ReadPlan(s.LikeWhat)
	s.Like = &like
	return nil, err
}

// announceSettings reports that a file was read, which can send the key elsewhere.
func (a *app) announceSettings(file *settings.File, s *runflags.Settings) {
	if file == nil {
		return
	}
	where := ""
	if !s.Plan.Rehearsal {
		where = "; the endpoint is " + remote.Origin(s.BaseURL)
	}
	fmt.Fprintf(a.stderr, "gaia: settings from %s%s\n", view.Line(file.Name), view.Line(where))
}

// complete sets what the flags and the settings file left open, from the environment and then from the defaults, and rejects
// settings that exclude each other.
func (a *app) complete(s *runflags.Settings) error {
	p := &s.Plan
	p.Rehearsal = a.user().Rehearses(s.Tasks) && (s.Source == runflags.SourceFixtures || p.Model.Name == "" && s.BaseURL == "")
	if p.Rehearsal {
		if p.Model.Name != "" || p.Judge != nil || p.Transcription != nil || s.BaseURL != "" || s.Search != "" || s.SearXNG != "" || s.Prices != "" || s.Protocol != "" || s.Vision != "" && s.Vision != runflags.NoVision {
			return usage("leave out --model, --base-url, --api, --judge-model, --transcription-model, --vision-model, --search, --searxng-url and --prices, or give --dataset hub or dir:PATH",
				"the built-in tasks run only with the built-in model")
		}
		s.Source, p.Model.Name, s.Vision = runflags.SourceFixtures, fixtures.Model, cmp.Or(s.Vision, fixtures.VisionModel)
		if p.Judge = (&plan.JudgePlan{Model: fixtures.JudgeModel}); s.HasTools() {
			p.Transcription = &plan.TranscriptionPlan{Model: fixtures.TranscriptionModel}
		}
		return settlePolicy(s)
	}
	s.Source = cmp.Or(s.Source, runflags.SourceHub)
	if p.Model.Name == "" {
		return usage("give --model", "no model is given")
	}
	p.Model.NoTemperature = !llm.TakesTemperature(p.Model.Name)
	s.BaseURL = cmp.Or(s.BaseURL, a.getenv("OPENAI_BASE_URL"), runflags.DefaultBaseURL)
	if err := a.user().SettleMessages(s); err != nil {
		return err
	}
	if err := settlePolicy(s); err != nil {
		return err
	}
	if !s.HasTools() {
		return nil
	}
	return a.user().SettleSearch(s)
}

// settlePolicy sets the policy of the plan: that of a plan which is repeated or resumed, or the named one with the budgets of
// the flags. A rehearsal of the built-in agent with neither a policy nor MCP servers is autonomous but for one tool and has a small budget, so that
// it shows denials by mode and by budget.
func settlePolicy(s *runflags.Settings) (err error) {
	flags := s.Plan.Policy
	if flags.Mode != "" {
		if _, err := policy.Builtin(flags.Mode); err != nil {
			return fail(exit.Failure, fmt.Errorf("taking the policy from the plan: %w", err))
		}
		return nil
	}
	p, err := policyfile.Named(s.PolicyName)
	if err != nil {
		return err
	}
	if s.Plan.Rehearsal && s.PolicyName == "" && len(s.Servers) == 0 && s.Plan.Agent == nil {
		p.Allow = slices.DeleteFunc(policy.BuiltinTools(), func(tool string) bool { return tool == fixtures.LeftOut })
		p.MaxCostMicroUSD = fixtures.TaskMicroUSD
	}
	p.MaxToolCalls = cmp.Or(flags.MaxToolCalls, p.MaxToolCalls)
	p.MaxCostMicroUSD = cmp.Or(flags.MaxCostMicroUSD, p.MaxCostMicroUSD)
	s.Plan.Policy = p
	return nil
}

// repeat sets the plan to one that is to be repeated, and then the flags again.
func (a *app) repeat(s *runflags.Settings, flags *pflag.FlagSet, m plan.Plan) error {
	given, before := flags.Changed, *s
	setAgain := cli.Given(flags)
	s.Take(m)
	s.Plan.Shards = before.Plan.Shards
	otherModel := given("model") && before.Plan.Model.Name != m.Model.Name
	if m.Rehearsal || otherModel {
		s.Protocol = ""
	}
	if m.Rehearsal || otherModel && (m.Vision == nil || m.Vision.Model == m.Model.Name) {
		s.Vision = ""
	}
	if m.Rehearsal {
		s.Plan.Model.Name, s.Plan.Judge, s.Plan.Transcription = "", nil, nil
	}
	if m.Rehearsal || given("searxng-url") {
		s.Search = ""
	}
	if otherModel {
		s.Images, s.Plan.Model.ContextWindow, s.Plan.Model.ServedAs = runflags.ImagesAuto, 0, nil
	}
	if given("policy") { // whose budgets these are
		s.Plan.Policy = policy.Policy{}
	}
	if err := setAgain(); err != nil {
		return err
	}
	switch {
	case given("dataset"):
		of := runflags.IsHub(s.Source) && m.Dataset.Hub != "" && (s.Source == runflags.SourceRepo+m.Dataset.Name || s.Source == runflags.SourceHub)
		if of && s.Revision == "" {
			s.Revision = m.Dataset.Revision
		}
	case m.Rehearsal:
		s.Source = runflags.SourceFixtures
	default:
		revision := s.Revision
		if err := s.PlannedSource(m.Dataset, a.user().Hub().Endpoint()); err != nil {
			return err
		}
		s.Revision = cmp.Or(revision, s.Revision)
	}
	if !slices.ContainsFunc([]string{"level", "task", "sample", "seed", "limit"}, given) && s.Split == m.Dataset.Split {
		s.TakeTasks(m)
	}
	return nil
}

// compareWith prints in what a plan differs from the one that it repeats, if it repeats one.
func (a *app) compareWith(s *runflags.Settings, now plan.Plan) error {
	if s.Like == nil {
		return nil
	}
	found, err := runview.Differences(*s.Like, now, s.Dry)
	if err == nil {
		_, err = fmt.Fprintf(a.stderr, "gaia: differs from the plan of %s in: %s\n", s.Like.RunID, view.Line(found))
	}
	return err
}
