package runflags

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/approve"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/policyfile"
	"github.com/gaia-harness/gaia/internal/remote"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/tools/web"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The largest numbers of flags: a larger one is a mistake in typing.
const (
	maxConcurrency = 1024
	maxTaskTime    = 7 * 24 * time.Hour
	maxCount       = 1_000_000_000
)

// addPlanFlags adds the flags for members of the plan, which --like repeats, and those of endpoints.
func (s *Settings) addPlanFlags(cmd *cobra.Command) {
	s.Images = ImagesAuto
	s.AddTasks(cmd)
	f, p := cmd.Flags(), &s.Plan
	f.IntVar(&p.Voting.Attempts, "voting-attempts", 1, "attempts per task, whose majority answer is scored; budgets are for each attempt")
	cli.Section(f, cli.TaskFlags)
	f.StringVar(&p.Model.Name, "model", "", "model that answers")
	f.StringVar(&s.BaseURL, "base-url", "", "`URL` of an OpenAI-compatible endpoint (default: OPENAI_BASE_URL, else https://api.openai.com/v1)")
	f.Var(cli.Choice(&s.Protocol, "chat|responses"), "api", "interface of the model (default: chat; at OpenAI's host by the model's name)")
	f.StringSliceVar(&p.Model.ServedAs, "served-as", nil, "other names that replies give the model, such as that of a deployment")
	f.Var(cli.Choice(&s.Images, "auto|on|off"), "images", "show the model the pictures of a question; auto: if it is known to read them")
	f.IntVar(&p.Model.ContextWindow, "context-window", 0, "maximum tokens of a conversation (default: what the endpoint takes)")
	f.IntVar(&p.Model.MaxTokens, "max-tokens", 0, "maximum tokens of a completion (default: the endpoint's; 8192 with --max-cost)")
	f.StringArrayVar(&p.Model.Stop, "stop-sequence", nil, "`text` at which a completion ends; repeatable (chat interface only)")
	f.BoolVar(&p.NoPreflight, "no-preflight", false, "do not test the models before the first task")
	cli.Section(f, cli.ModelFlags)
	f.Var(cli.Model(&p.Judge, func(j *plan.JudgePlan) *string { return &j.Model }), "judge-model", "model that judges what the official scorer calls wrong (default: none)")
	f.BoolVar(&s.NoJudgeCache, "no-judge-cache", false, "use no stored verdicts of the judge")
	cli.Section(f, cli.JudgeFlags)
	f.Var(cli.Dollars(&p.Budgets.RunCostMicroUSD, 0), "max-cost", "maximum cost of the run in US dollars, with judge and tools (default: no limit)")
	f.Var(cli.Dollars(&p.Policy.MaxCostMicroUSD, policy.Unlimited), "max-task-cost", `maximum cost of a task in US dollars, failed attempts included, or "off" (default: the policy's; autonomous: 1.00)`)
	f.Int64Var(&p.Budgets.Tokens, "max-task-tokens", 0, "maximum tokens of a task, failed attempts included (default: no limit)")
	f.Var(cli.Duration(&p.Budgets.WallMs, time.Second, maxTaskTime), "max-task-time", "maximum time of an attempt, such as 15m (default: no limit)")
	f.IntVar(&p.Policy.MaxToolCalls, "max-tool-calls", 0, "maximum tool calls of a task, failed attempts included (default: the policy's; autonomous: 500)")
	f.IntVar(&p.Budgets.Turns, "max-turns", 20, "maximum turns of an attempt; the last is for the answer")
	cli.Section(f, cli.LimitFlags)
	s.addAgentFlags(cmd)
	engines := []string{web.Tavily, web.Brave, web.Serper, web.SearXNG, SearchNone}
	f.StringVar(&s.PolicyName, "policy", "", "restricted, approved, autonomous, or a policy `file` (default: autonomous)")
	CompleteModes(cmd, "policy")
	f.Var(cli.Choice(&s.Search, strings.Join(engines, "|")), "search", "search `engine` of web_search: tavily, brave, serper, searxng or none (default: the first with a key or address)")
	f.StringVar(&s.SearXNG, "searxng-url", "", "`URL` of SearXNG with JSON enabled (default: SEARXNG_URL)")
	f.StringVar(&s.Vision, "vision-model", "", `model of describe_image, or "none" (default: --model, if it reads pictures)`)
	f.Var(cli.Model(&p.Transcription, func(t *plan.TranscriptionPlan) *string { return &t.Model }), "transcription-model", "model that transcribes audio files (default: none)")
	cli.Section(f, cli.AgentFlags)
	f.BoolVar(&p.SubmitIntent, "submit-intent", false, "commit all answers before grading, as a submission needs")
	f.BoolVar(&s.record, "record-evidence", true, "record arguments and excerpts of texts; false records only digests, for local runs")
	f.BoolVar(&s.bodies, "evidence-full-bodies", false, "also store whole prompts, replies, arguments and results")
	cli.Section(f, cli.EvidenceFlags)
	f.VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "base-url" && flag.Name != "searxng-url" { // which may differ when a plan is repeated
			s.Planned = append(s.Planned, flag.Name)
		}
	})
	s.Images = ImagesAuto
	for flag, values := range map[string][]string{"search": engines, "api": {llm.APIChat, llm.APIResponses}, "images": {ImagesAuto, ImagesOn, ImagesOff}, "max-task-cost": {"off"},
		"model": llm.BuiltinPrices().Models(), "judge-model": llm.BuiltinPrices().Models()} {
		cli.Complete(cmd, flag, values...)
	}
}

// addAgentFlags adds the flags of an own agent that a plan holds. The settings file has the others.
func (s *Settings) addAgentFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.Own.Folder, "agent", "", "`folder` of your own agent, with an executable named agent (default: the built-in agent)")
	f.Var(cli.Duration(&s.Own.TimeoutMs, plan.MinAgentTime, plan.MaxAgentTime), "agent-timeout", "maximum time of an attempt of --agent (default: --max-task-time, else 30m)")
	cli.CompleteDirs(cmd, "agent")
}

// CompleteModes completes a flag by the modes, and by files.
func CompleteModes(cmd *cobra.Command, flag string) {
	cli.CompleteWith(cmd, flag, cobra.ShellCompDirectiveDefault, Modes()...)
}

// Modes returns the names of the built-in policies.
func Modes() []string {
	return []string{string(policy.Restricted), string(policy.Approved), string(policy.Autonomous)}
}

// AddRateFlags adds the flags that may differ when a run is resumed.
func (s *Settings) AddRateFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	s.Concurrency, s.OnLost = AutoConcurrency, GoOn
	f.StringVar(&s.Cassette, "cassette", "", "record:DIR records the endpoint's answers, replay:DIR uses them")
	f.StringVar(&s.Prices, "prices", "", "price table `file` that replaces the built-in one")
	cli.Section(f, cli.ModelFlags)
	f.Var(cli.Choice(&s.Concurrency, settings.AutoOrNumber), "concurrency", "concurrent requests; auto: as many as the endpoint allows")
	f.Int64Var(&s.Requests, "rpm", 0, "requests a minute to the endpoint (default: no limit)")
	f.Int64Var(&s.Tokens, "tpm", 0, "tokens a minute to and from the endpoint (default: no limit)")
	cli.Section(f, cli.LimitFlags)
	f.StringSliceVar(&s.Approve, "approve", nil, `tools whose calls need no question, or "all" (default: ask on the terminal)`)
	cli.Section(f, cli.AgentFlags)
	f.StringVar(&s.Key, "key", "", "signing key `file` (default: GAIA_SIGNING_KEY, GAIA_SIGNING_KEY_FILE, else created when needed)")
	f.StringVar(&s.OnLost, "on-unsubmittable", GoOn, "if recording fails or a --submit-intent run becomes unsubmittable: continue or stop")
	f.BoolVar(&s.Recheck, "recheck", false, "verify the finished run, as 'gaia verify' does")
	cli.Section(f, cli.EvidenceFlags)
	f.BoolVarP(&s.Verbose, "verbose", "v", false, "also print changes of the concurrency")
	cli.Section(f, cli.OutputFlags)
	cli.Complete(cmd, "approve", append(policy.BuiltinTools(), approve.All)...)
	cli.Complete(cmd, "concurrency", AutoConcurrency)
	cli.Complete(cmd, "on-unsubmittable", GoOn, stopRun)
	cli.CompletePrefixes(cmd, "cassette", plan.CassetteRecord+":", plan.CassetteReplay+":")
}

// AddResumeFlags adds the flags of resume.
func (s *Settings) AddResumeFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	AddDataset(cmd, &s.Source, "where the tasks are, if it was dir:PATH (default: the plan's dataset)", "source")
	cli.Section(f, cli.TaskFlags)
	f.StringVar(&s.BaseURL, "base-url", "", "`URL` of the plan's model (default: OPENAI_BASE_URL, else https://api.openai.com/v1)")
	cli.Section(f, cli.ModelFlags)
	f.StringVar(&s.SearXNG, "searxng-url", "", "`URL` of SearXNG, if the plan searches with it (default: SEARXNG_URL)")
	cli.Section(f, cli.AgentFlags)
	s.AddRateFlags(cmd)
	f.Lookup("key").Usage = "signing key `file` that the run was planned with"
	f.StringVar(&s.File, "settings", "", "settings `file` with the MCP servers of the plan (default: gaia.yaml)")
	f.BoolVar(&s.AsJSON, "json", false, "print the result as JSON")
	cli.Section(f, cli.OutputFlags)
}

// AddRunFlags adds the flags of run, which a settings file may set.
func (s *Settings) AddRunFlags(cmd *cobra.Command) {
	s.addSharedFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&s.Runs, "out", "runs", "`directory` for run directories")
	f.BoolVar(&s.Dry, "dry-run", false, "plan and estimate the cost; ask no model, create no run and no key")
	cli.Section(f, cli.OutputFlags)
	cli.CompleteDirs(cmd, "out")
}

// addSharedFlags adds the flags that run and plan have.
func (s *Settings) addSharedFlags(cmd *cobra.Command) {
	s.addPlanFlags(cmd)
	s.AddRateFlags(cmd)
	f := cmd.Flags()
	f.BoolVar(&s.unsafePython, "unsafe-local-python", false, "run the model's Python code WITHOUT a sandbox, as you, with your files and network")
	f.BoolVar(&s.Own.Unsafe, "unsafe-local-agent", false, "run --agent WITHOUT a sandbox, as you, with your files and network")
	cli.Section(f, cli.AgentFlags)
	f.StringVar(&s.File, "settings", "", "settings `file` (default: gaia.yaml, if it exists)")
	f.StringVar(&s.LikeWhat, "like", "", "repeat the plan of this `run` directory, package or manifest.json; flags override it")
	f.BoolVar(&s.OnlyErrors, "only-errors", false, "with --like: only the tasks that failed for infrastructure; cannot be submitted")
	f.BoolVar(&s.AsJSON, "json", false, "print the result as JSON")
	cli.Section(f, cli.OutputFlags)
}

// CheckFlags rejects settings that no run can have; changed reports which flags were given or are of the settings file.
func (s *Settings) CheckFlags(changed func(string) bool) error {
	if err := s.CheckTasks(changed); err != nil {
		return err
	}
	if err := s.CheckGoing(); err != nil {
		return err
	}
	p := &s.Plan
	if p.Budgets.RunCostMicroUSD > 0 {
		p.Model.MaxTokens = cmp.Or(p.Model.MaxTokens, BoundedTokens)
	}
	p.Evidence = plan.EvidenceHeads
	switch {
	case p.SubmitIntent && s.Filter.ErrorsOf != "":
		return exit.Usagef("leave it out; to submit, run all tasks of a split again", "--submit-intent is for tasks that were chosen before their outcomes were known, and those of run %s were not", s.Filter.ErrorsOf)
	case !s.record && p.SubmitIntent:
		return exit.Usagef("leave out --record-evidence=false, or --submit-intent", "a run without evidence cannot be submitted")
	case !s.record && s.bodies:
		return exit.Usagef("leave one of them out", "--evidence-full-bodies keeps what --record-evidence=false leaves out")
	case !s.record:
		p.Evidence = plan.EvidenceHashes
	case s.bodies:
		p.Evidence = plan.EvidenceBodies
	}
	switch {
	case changed("max-tool-calls") && p.Policy.MaxToolCalls == 0:
		return exit.Usagef("give a number from 1, or leave it out for the policy's", "--max-tool-calls is 0, which leaves no call")
	case s.Protocol != "" && s.Protocol != llm.APIChat && s.Protocol != llm.APIResponses:
		return exit.Usagef(`give "chat" or "responses", or leave it out`, "--api is %q", s.Protocol)
	case s.Protocol == llm.APIResponses && len(p.Model.Stop) > 0:
		return exit.Usagef("leave one of them out", "--stop-sequence is of the chat interface, and --api is responses")
	case slices.Contains(p.Model.Stop, ""):
		return exit.Usagef("give a text, or leave it out", "--stop-sequence is empty")
	case s.Images != ImagesAuto && s.Images != ImagesOn && s.Images != ImagesOff:
		return exit.Usagef(`give "auto", "on" or "off"`, "--images is %q", s.Images)
	case p.Budgets.Turns < 1 && p.Agent == nil:
		return exit.Usagef("", "--max-turns is %d, which leaves no turn", p.Budgets.Turns)
	case p.Voting.Attempts < 1 || p.Voting.Attempts > plan.MaxVotingAttempts:
		return exit.Usagef("give a number from 1 to 100; 1 is no vote", "--voting-attempts is %d", p.Voting.Attempts)
	case p.Model.ContextWindow > 0 && p.Model.ContextWindow <= p.Model.MaxTokens:
		return exit.Usagef("the window is of the conversation and the completion together", "--context-window is %d, which leaves no room beside completions of %d tokens", p.Model.ContextWindow, p.Model.MaxTokens)
	case s.unsafePython && p.SubmitIntent:
		return exit.Usagef("leave one of them out; 'gaia doctor' shows what a sandbox needs", "--unsafe-local-python runs code that nothing confines, so such a run cannot be submitted")
	case s.unsafePython:
		s.Python = PythonUnconfined
	}
	if slices.ContainsFunc(p.Model.ServedAs, func(name string) bool { return name == "" || strings.ContainsAny(name, " \t\n") }) {
		return exit.Usagef("give names of models with commas between them", "--served-as names the model %q", strings.Join(p.Model.ServedAs, ","))
	}
	return checkCounts([]counter{{"max-turns", int64(p.Budgets.Turns)}, {"max-tokens", int64(p.Model.MaxTokens)},
		{"max-tool-calls", int64(max(p.Policy.MaxToolCalls, 0))}, {"max-task-tokens", p.Budgets.Tokens}, {"context-window", int64(p.Model.ContextWindow)}})
}

// A counter is the value of a flag of which 0 is the default.
type counter struct {
	flag  string
	value int64
}

func checkCounts(counts []counter) error {
	for _, c := range counts {
		if c.value < 0 || c.value > maxCount {
			return exit.Usagef("give a number from 1 to 1000000000, or leave it out", "--%s is %d", c.flag, c.value)
		}
	}
	return nil
}

// CheckGoing rejects mistakes in the flags that may differ when a run is resumed.
func (s *Settings) CheckGoing() error {
	for _, tool := range s.Approve {
		if tool == "" || strings.ContainsAny(tool, " \t\n") {
			return exit.Usagef("give names of tools with commas between them, or all", "--approve names the tool %q", tool)
		}
		if hint := policyfile.NoTool(tool); tool != approve.All && hint != "" {
			return exit.Usagef(hint, "--approve names %q, and there is no such tool", tool)
		}
	}
	if s.OnLost != GoOn && s.OnLost != stopRun {
		return exit.Usagef(`give "continue" or "stop"`, "--on-unsubmittable is %q", s.OnLost)
	}
	if _, err := s.AtOnce(); err != nil {
		return err
	}
	if err := checkCounts([]counter{{"rpm", s.Requests}, {"tpm", s.Tokens}}); err != nil {
		return err
	}
	c, err := s.Tape()
	if err == nil && c.Mode == plan.CassetteReplay && s.Plan.SubmitIntent {
		err = exit.Usagef("leave out --submit-intent, or ask the model itself", "--cassette %s asks no model, so such a run cannot be submitted", s.Cassette)
	}
	return err
}

// AtOnce returns how many requests are sent at once; 0 is as many as the endpoint allows.
func (s *Settings) AtOnce() (int, error) {
	if s.Concurrency == AutoConcurrency {
		return 0, nil
	}
	n, err := strconv.Atoi(s.Concurrency)
	if err != nil || n < 1 || n > maxConcurrency {
		return 0, exit.Usagef(`give "auto" or a number from 1 to 1024`, "--concurrency is %q", s.Concurrency)
	}
	return n, nil
}

// Tape returns the cassette of --cassette; with mode "", there is none.
func (s *Settings) Tape() (remote.Cassette, error) {
	c, err := remote.ParseCassette(s.Cassette)
	c.Resumed = s.Resumed
	return c, err
}

// ServerSide rejects models that use tools on the server's side, which no gate sees, for a run that is meant to be submitted,
// and warns of them otherwise.
func (s *Settings) ServerSide(warn func(string)) error {
	for _, model := range s.Models() {
		what := llm.ServerSide(model)
		switch {
		case what == "":
		case s.Plan.SubmitIntent:
			return exit.Usagef("name another model, or leave out --submit-intent", "%s, which nothing records", what)
		default:
			warn(what + ", which nothing records: the run will not be submittable")
		}
	}
	return nil
}
