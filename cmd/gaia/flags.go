package main

import (
	"cmp"
	"maps"
	"net/url"
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
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/tools/web"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ownAgent is the agent of the user's own that solves the tasks, as flags name it.
type ownAgent struct {
	settings.AgentFlags
	messages, messagesKey string // endpoint of the messages dialect
}

// addAgentFlags adds the flags of an own agent that a plan holds. The settings file has the others.
func (s *runSettings) addAgentFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.own.Folder, "agent", "", "folder of your own agent, with an executable named agent (default: the built-in agent; see docs/agents.md)")
	f.Var(cli.Duration(&s.own.TimeoutMs, plan.MinAgentTime, plan.MaxAgentTime), "agent-timeout", "maximum time of an attempt of --agent (default: --max-task-time, else 30m)")
	cli.CompleteDirs(cmd, "agent")
}

// hasTools reports whether the agent of the run has tools behind the Gate.
func (s *runSettings) hasTools() bool {
	return s.plan.Agent == nil || s.plan.Agent.Tools == plan.AgentToolsGate
}

// keyed returns an error for an endpoint elsewhere without a key. An own agent may speak the messages dialect alone: then no
// model is asked otherwise.
func (s *runSettings) keyed(base *url.URL, apiKey string) error {
	if p := &s.plan; p.Agent != nil && apiKey == "" && !remote.IsLocal(base) && s.own.messagesKey != "" && p.Judge == nil && p.Transcription == nil && s.looks() == "" {
		p.NoPreflight = true
		return nil
	}
	if c, _ := s.tape(); apiKey == "" && !s.dry && c.Mode != plan.CassetteReplay && !remote.IsLocal(base) {
		return remote.NoKey(base)
	}
	return nil
}

// completeModes completes a flag by the modes, and by files.
func completeModes(cmd *cobra.Command, flag string) {
	cli.CompleteWith(cmd, flag, cobra.ShellCompDirectiveDefault, modes()...)
}

func modes() []string {
	return []string{string(policy.Restricted), string(policy.Approved), string(policy.Autonomous)}
}

// resumeCommand returns the command that resumes a run with these settings.
func (s *runSettings) resumeLine(dir string) string {
	flags := [][2]string{{"--cassette", s.cassette}, {"--approve", strings.Join(s.approve, ",")}, {"--settings", s.serversFrom}}
	if s.onLost == stopRun {
		flags = append(flags, [2]string{"--on-unsubmittable", stopRun})
	}
	if s.concurrency != autoConcurrency {
		flags = append(flags, [2]string{"--concurrency", s.concurrency})
	}
	for _, rate := range []counter{{"--rpm", s.requests}, {"--tpm", s.tokens}} {
		if rate.value > 0 {
			flags = append(flags, [2]string{rate.flag, strconv.FormatInt(rate.value, 10)})
		}
	}
	text := "gaia resume " + view.Quote(dir)
	if s.recheck {
		text += " --recheck"
	}
	return s.commandLine(text, flags...)
}

// command returns a command for a shell, with flags for the places that these settings name. Empty flags are left out.
func (s *runSettings) commandLine(text string, flags ...[2]string) string {
	if !s.plan.Rehearsal {
		source := s.source
		if isHub(source) {
			source = "" // the plan names it
		}
		flags = append(flags, [][2]string{{"--source", source}, {"--base-url", s.baseURL}, {"--searxng-url", s.searXNG}, {"--prices", s.prices}, {"--key", s.key}}...)
	}
	for _, f := range flags {
		if f[1] != "" {
			text += " " + f[0] + " " + view.Quote(f[1])
		}
	}
	return text
}

// runSettings are the settings of a run, from flags, environment, gaia.yaml, --like and, for resume, its own manifest: the plan,
// and what is no plan.
type runSettings struct {
	plan plan.Plan
	own  ownAgent
	taskFlags

	// Members of the plan in the form of their flags.
	policyName, protocol, images, vision, search string
	record, bodies, noJudgeCache                 bool
	python                                       string // pythonIfWorks, pythonNo, pythonConfined or pythonUnconfined
	unsafePython                                 bool

	// Where models, tools and keys are.
	baseURL, searXNG, prices, cassette, key string
	engine                                  web.Engine // of web_search, settled; without a name: none
	servers                                 []settings.Server
	serversFrom                             string // file of settings with them

	// How fast the run is, and what it decides by itself.
	concurrency      string // autoConcurrency or a number
	requests, tokens int64  // requests and tokens a minute; 0: no limit
	tries            int    // of a request; 0: callTries
	onLost           string // when evidence cannot be recorded: goOn or stopRun
	approve          []string
	recheck          bool // read a finished run again from the disk
	resumed          bool

	// One call of the command.
	runs, file, likeWhat string   // run directories, settings, the plan to repeat
	dry, asJSON          bool     // dry: nothing is asked or made
	planned              []string // flags that say what a plan holds
	like                 *plan.Plan
	selected             *plan.Dataset // whose selection the task ids are, and of what metadata; nil: the filter's own
}

const (
	goOn    = "continue" // when evidence cannot be recorded any longer
	stopRun = "stop"

	imagesAuto = "auto" // show pictures that come with a question to a model that is known to take them
	imagesOn   = "on"
	imagesOff  = "off"

	autoConcurrency = "auto" // as many tasks at once as the endpoint allows
	noVision        = "none" // leaves describe_image out
	searchNone      = remote.NoSearch
	// boundedTokens is how long a completion may be, in tokens, of a run with a budget for the whole: the cost of a request
	// must be known before it is sent.
	boundedTokens  = 8192
	defaultBaseURL = "https://api.openai.com/v1"
	rehearsalHost  = "builtin:" // origin of the scripted models

	// Whether a run has the tool python: as its plan decides, and a new run where it works.
	pythonName       = "python"
	pythonIfWorks    = ""
	pythonNo         = "no"
	pythonConfined   = "in the sandbox"
	pythonUnconfined = "without a sandbox"
)

// showsImages reports whether the model is shown pictures.
func (s *runSettings) showsImages() bool {
	return s.images == imagesOn || s.images != imagesOff && llm.SeesImages(s.plan.Model.Name)
}

// looks returns the model that looks at pictures, "" if none does.
func (s *runSettings) looks() string {
	switch {
	case s.vision == noVision || s.vision == "" && !s.showsImages():
		return ""
	case s.vision == "":
		return s.plan.Model.Name
	}
	return s.vision
}

// models returns the names of all models that the run asks, the one that answers first.
func (s *runSettings) models() (all []string) {
	for _, name := range []string{s.plan.Model.Name, s.judgeModel(), s.hears(), s.looks()} {
		if name != "" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	if own := s.plan.Agent; own != nil {
		all = append(all, slices.Sorted(maps.Keys(own.Models))...)
	}
	return all
}

// judge returns the model that judges, "" if none does.
func (s *runSettings) judgeModel() string {
	if s.plan.Judge == nil {
		return ""
	}
	return s.plan.Judge.Model
}

// hears returns the model that transcribes audio, "" if none does.
func (s *runSettings) hears() string {
	if s.plan.Transcription == nil {
		return ""
	}
	return s.plan.Transcription.Model
}

// takeServers takes the MCP servers of a settings file.
func (s *runSettings) takeServers(file *settings.File) {
	if file != nil && len(file.Servers) > 0 {
		s.servers, s.serversFrom = file.Servers, file.Name
	}
}

// take sets the plan, and the settings that follow from it.
func (s *runSettings) take(m plan.Plan) {
	s.plan = m
	s.plan.Approved, s.plan.Unconfined = nil, nil
	s.split, s.protocol, s.images = m.Dataset.Split, cmp.Or(m.Model.API, llm.APIChat), imagesOff
	if m.Model.Images {
		s.images = imagesOn
	}
	s.vision, s.search = noVision, searchNone
	if m.Vision != nil {
		s.vision = m.Vision.Model
	}
	if m.Search != nil {
		s.search = m.Search.Engine
	}
	s.record, s.bodies = m.Evidence != plan.EvidenceHashes, m.Evidence == plan.EvidenceBodies
	s.noJudgeCache = m.Judge != nil && !m.Judge.Cache
}

// takeTasks takes the tasks of a plan.
func (s *runSettings) takeTasks(m plan.Plan) {
	s.selected = &m.Dataset
	for _, t := range m.Tasks {
		s.filter.IDs = append(s.filter.IDs, t.TaskID)
	}
}

// The largest numbers of flags: a larger one is a mistake in typing.
const (
	maxConcurrency = 1024
	maxTaskTime    = 7 * 24 * time.Hour
	maxCount       = 1_000_000_000
)

// addPlanFlags adds the flags for members of the plan, which --like repeats.
func (s *runSettings) addPlanFlags(cmd *cobra.Command) {
	s.addTasks(cmd)
	s.addAgentFlags(cmd)
	f, p := cmd.Flags(), &s.plan
	engines := []string{web.Tavily, web.Brave, web.Serper, web.SearXNG, searchNone}
	f.Var(cli.Choice(&s.search, strings.Join(engines, "|")), "search", "search engine of the tool web_search (default: the first whose key or address is set)")
	f.StringVar(&s.policyName, "policy", "", "restricted, approved, autonomous, or a policy file (default: autonomous)")
	completeModes(cmd, "policy")
	f.StringVar(&p.Model.Name, "model", "", "model that answers")
	f.Var(cli.Model(&p.Judge, func(j *plan.JudgePlan) *string { return &j.Model }), "judge-model", "model that judges answers that the official scorer calls wrong (default: none)")
	f.StringSliceVar(&p.Model.ServedAs, "served-as", nil, "other names of the models in replies, such as that of a deployment")
	f.Var(cli.Choice(&s.protocol, "chat|responses"), "api", "interface of the model (default: by the model's name at OpenAI's host, elsewhere chat)")
	f.Var(cli.Choice(&s.images, "auto|on|off"), "images", "show the model the pictures of a question; auto: if it is known to support them")
	f.StringArrayVar(&p.Model.Stop, "stop-sequence", nil, "text at which the model ends a completion; may be repeated (chat interface only)")
	f.IntVar(&p.Model.ContextWindow, "context-window", 0, "maximum tokens of a conversation (default: until the endpoint refuses it)")
	f.Var(cli.Model(&p.Transcription, func(t *plan.TranscriptionPlan) *string { return &t.Model }), "transcription-model", "model that transcribes audio files (default: none)")
	f.StringVar(&s.vision, "vision-model", "", `model of describe_image, or "none" (default: --model, if it supports pictures)`)
	f.IntVar(&p.Voting.Attempts, "voting-attempts", 1, "attempts per task; the majority answer is scored (budgets apply per attempt)")
	f.IntVar(&p.Budgets.Turns, "max-turns", 20, "turns of an attempt, the last one kept for the answer")
	f.IntVar(&p.Model.MaxTokens, "max-tokens", 0, "tokens of one completion (default: the endpoint's; 8192 with --max-cost)")
	f.IntVar(&p.Policy.MaxToolCalls, "max-tool-calls", 0, "tool calls per task, failed attempts included (default: the policy's; autonomous: 500)")
	f.Int64Var(&p.Budgets.Tokens, "max-task-tokens", 0, "tokens read and written per task, failed attempts included (default: no limit)")
	f.Var(cli.Duration(&p.Budgets.WallMs, time.Second, maxTaskTime), "max-task-time", "maximum time of an attempt, such as 15m (default: no limit)")
	f.Var(cli.Dollars(&p.Policy.MaxCostMicroUSD, policy.Unlimited), "max-task-cost", `maximum cost per task in US dollars, failed attempts included, or "off" (default: the policy's; autonomous: 1.00)`)
	f.Var(cli.Dollars(&p.Budgets.RunCostMicroUSD, 0), "max-cost", "maximum cost of the whole run in US dollars: models, judge, transcriptions and descriptions (default: no limit)")
	f.BoolVar(&p.SubmitIntent, "submit-intent", false, "commit all answers before grading: needed for a submission")
	f.BoolVar(&p.NoPreflight, "no-preflight", false, "do not test the models before the first task; the plan records it")
	f.BoolVar(&s.noJudgeCache, "no-judge-cache", false, "do not use stored verdicts of the judge")
	f.BoolVar(&s.record, "record-evidence", true, "record arguments, and excerpts of prompts, replies and results; false records only digests, for local runs")
	f.BoolVar(&s.bodies, "evidence-full-bodies", false, "also store whole prompts, replies, arguments and results beside the journal")
	f.VisitAll(func(flag *pflag.Flag) { s.planned = append(s.planned, flag.Name) })
	s.images = imagesAuto
	for flag, values := range map[string][]string{"search": engines, "api": {llm.APIChat, llm.APIResponses}, "images": {imagesAuto, imagesOn, imagesOff}, "max-task-cost": {"off"},
		"model": llm.BuiltinPrices().Models(), "judge-model": llm.BuiltinPrices().Models()} {
		cli.Complete(cmd, flag, values...)
	}
}

// addRateFlags adds the flags that may differ when a run is resumed.
func (s *runSettings) addRateFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	s.concurrency, s.onLost = autoConcurrency, goOn
	f.Var(cli.Choice(&s.concurrency, settings.AutoOrNumber), "concurrency", "concurrent requests, for a quarter more tasks; auto: as many requests as the endpoint allows, for twice as many tasks")
	f.Int64Var(&s.requests, "rpm", 0, "requests a minute to the endpoint (default: no limit)")
	f.Int64Var(&s.tokens, "tpm", 0, "tokens a minute to and from the endpoint (default: no limit)")
	f.StringVar(&s.cassette, "cassette", "", "record:DIR records the endpoint's answers, replay:DIR uses them")
	f.StringVar(&s.key, "key", "", "signing key file (default: GAIA_SIGNING_KEY, GAIA_SIGNING_KEY_FILE, else created when needed)")
	f.StringVar(&s.prices, "prices", "", "price table that replaces the built-in one")
	f.StringVar(&s.onLost, "on-unsubmittable", goOn, `if recording fails or a --submit-intent run becomes unsubmittable: "continue" with marked results, or "stop"`)
	f.BoolVar(&s.recheck, "recheck", false, "verify the finished run from the disk, as 'gaia verify' does")
	f.StringSliceVar(&s.approve, "approve", nil, `tools whose calls need no question, or "all" (default: ask on the terminal)`)
	cli.Complete(cmd, "approve", append(policy.BuiltinTools(), approve.All)...)
	cli.Complete(cmd, "concurrency", autoConcurrency)
	cli.Complete(cmd, "on-unsubmittable", goOn, stopRun)
	cli.CompletePrefixes(cmd, "cassette", plan.CassetteRecord+":", plan.CassetteReplay+":")
}

// addRunFlags adds the flags of run, which a settings file may set.
func (s *runSettings) addRunFlags(cmd *cobra.Command) {
	s.addPlanFlags(cmd)
	s.addRateFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&s.baseURL, "base-url", "", "OpenAI-compatible endpoint (default: OPENAI_BASE_URL, else https://api.openai.com/v1)")
	f.StringVar(&s.searXNG, "searxng-url", "", "SearXNG search endpoint with JSON enabled (default: SEARXNG_URL)")
	f.BoolVar(&s.unsafePython, "unsafe-local-python", false, "run the model's Python code WITHOUT a sandbox, as you, with your files and network")
	f.BoolVar(&s.own.Unsafe, "unsafe-local-agent", false, "run --agent WITHOUT a sandbox, as you, with your files and network")
	f.StringVar(&s.runs, "out", "runs", "directory for run directories")
	f.StringVar(&s.file, "settings", "", "settings file (default: gaia.yaml, if it exists)")
	f.StringVar(&s.likeWhat, "like", "", "repeat the plan of a manifest.json, run directory or package; other flags override it")
	f.BoolVar(&s.dry, "dry-run", false, "plan and estimate the cost; send no request to a model, create no run and no key")
	f.BoolVar(&s.asJSON, "json", false, "print the result as JSON")
	cli.CompleteDirs(cmd, "out")
}

// checkFlags rejects settings that no run can have; changed reports which flags were given or are of the settings file.
func (s *runSettings) checkFlags(changed func(string) bool) error {
	if err := s.checkTasks(changed); err != nil {
		return err
	}
	if err := s.checkGoing(); err != nil {
		return err
	}
	p := &s.plan
	if p.Budgets.RunCostMicroUSD > 0 {
		p.Model.MaxTokens = cmp.Or(p.Model.MaxTokens, boundedTokens)
	}
	p.Evidence = plan.EvidenceHeads
	switch {
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
	case s.protocol != "" && s.protocol != llm.APIChat && s.protocol != llm.APIResponses:
		return exit.Usagef(`give "chat" or "responses", or leave it out`, "--api is %q", s.protocol)
	case s.protocol == llm.APIResponses && len(p.Model.Stop) > 0:
		return exit.Usagef("leave one of them out", "--stop-sequence is of the chat interface, and --api is responses")
	case slices.Contains(p.Model.Stop, ""):
		return exit.Usagef("give a text, or leave it out", "--stop-sequence is empty")
	case s.images != imagesAuto && s.images != imagesOn && s.images != imagesOff:
		return exit.Usagef(`give "auto", "on" or "off"`, "--images is %q", s.images)
	case p.Budgets.Turns < 1 && p.Agent == nil:
		return exit.Usagef("", "--max-turns is %d, which leaves no turn", p.Budgets.Turns)
	case p.Voting.Attempts < 1 || p.Voting.Attempts > plan.MaxVotingAttempts:
		return exit.Usagef("give a number from 1 to 100; 1 is no vote", "--voting-attempts is %d", p.Voting.Attempts)
	case p.Model.ContextWindow > 0 && p.Model.ContextWindow <= p.Model.MaxTokens:
		return exit.Usagef("the window is of the conversation and the completion together", "--context-window is %d, which leaves no room beside completions of %d tokens", p.Model.ContextWindow, p.Model.MaxTokens)
	case s.unsafePython && p.SubmitIntent:
		return exit.Usagef("leave one of them out; 'gaia doctor' shows what a sandbox needs", "--unsafe-local-python runs code that nothing confines, so such a run cannot be submitted")
	case s.unsafePython:
		s.python = pythonUnconfined
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

// checkGoing rejects mistakes in the flags that may differ when a run is resumed.
func (s *runSettings) checkGoing() error {
	for _, tool := range s.approve {
		if tool == "" || strings.ContainsAny(tool, " \t\n") {
			return exit.Usagef("give names of tools with commas between them, or all", "--approve names the tool %q", tool)
		}
		if hint := policyfile.NoTool(tool); tool != approve.All && hint != "" {
			return exit.Usagef(hint, "--approve names %q, and there is no such tool", tool)
		}
	}
	if s.onLost != goOn && s.onLost != stopRun {
		return exit.Usagef(`give "continue" or "stop"`, "--on-unsubmittable is %q", s.onLost)
	}
	if _, err := s.atOnce(); err != nil {
		return err
	}
	if err := checkCounts([]counter{{"rpm", s.requests}, {"tpm", s.tokens}}); err != nil {
		return err
	}
	c, err := s.tape()
	if err == nil && c.Mode == plan.CassetteReplay && s.plan.SubmitIntent {
		err = exit.Usagef("leave out --submit-intent, or ask the model itself", "--cassette %s asks no model, so such a run cannot be submitted", s.cassette)
	}
	return err
}

// atOnce returns how many requests are sent at once; 0 is as many as the endpoint allows.
func (s *runSettings) atOnce() (int, error) {
	if s.concurrency == autoConcurrency {
		return 0, nil
	}
	n, err := strconv.Atoi(s.concurrency)
	if err != nil || n < 1 || n > maxConcurrency {
		return 0, exit.Usagef(`give "auto" or a number from 1 to 1024`, "--concurrency is %q", s.concurrency)
	}
	return n, nil
}

// tape returns the cassette of --cassette; with mode "", there is none.
func (s *runSettings) tape() (remote.Cassette, error) {
	c, err := remote.ParseCassette(s.cassette)
	c.Resumed = s.resumed
	return c, err
}

// serverSide rejects models that use tools on the server's side, which no gate sees, for a run that is meant to be submitted,
// and warns of them otherwise.
func (s *runSettings) serverSide(warn func(string)) error {
	for _, model := range s.models() {
		what := llm.ServerSide(model)
		switch {
		case what == "":
		case s.plan.SubmitIntent:
			return exit.Usagef("name another model, or leave out --submit-intent", "%s, which nothing records", what)
		default:
			warn(what + ", which nothing records: the run will not be submittable")
		}
	}
	return nil
}
