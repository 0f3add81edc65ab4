package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/approve"
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
	"github.com/gaia-harness/gaia/tools/web"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// runSettings are the settings of a run, from flags, environment, gaia.yaml, --like and, for resume, its own manifest: the plan,
// and what is no plan.
type runSettings struct {
	plan plan.Plan
	own  ownAgent
	taskFlags

	// Members of the plan in the form of their flags.
	policyName, api, images, vision, search string
	record, bodies, noJudgeCache            bool
	python                                  string // pythonIfWorks, pythonNo, pythonConfined or pythonUnconfined
	unsafePython                            bool

	// Where models, tools and keys are.
	baseURL, searxng, prices, cassette, key string
	engine                                  web.Engine // of web_search, settled; without a name: none
	servers                                 []settings.Server
	serversFrom                             string // file of settings with them

	// How fast the run is, and what it decides by itself.
	concurrency string // autoConcurrency or a number
	rpm, tpm    int64  // requests and tokens a minute; 0: no limit
	tries       int    // of a request; 0: callTries
	onLost      string // when evidence cannot be recorded: goOn or stopRun
	approve     []string
	recheck     bool // read a finished run again from the disk
	resumed     bool

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
	for _, name := range []string{s.plan.Model.Name, s.judge(), s.hears(), s.looks()} {
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
func (s *runSettings) judge() string {
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

// takeServers takes the MCP servers of a settings file.
func (s *runSettings) takeServers(file *settings.File) {
	if file != nil && len(file.Servers) > 0 {
		s.servers, s.serversFrom = file.Servers, file.Name
	}
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
		if p.Model.Name != "" || p.Judge != nil || p.Transcription != nil || s.baseURL != "" || s.search != "" || s.searxng != "" || s.prices != "" || s.api != "" || s.vision != "" && s.vision != noVision {
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

// take sets the plan, and the settings that follow from it.
func (s *runSettings) take(m plan.Plan) {
	s.plan = m
	s.plan.Approved, s.plan.Unconfined = nil, nil
	s.split, s.api, s.images = m.Dataset.Split, cmp.Or(m.Model.API, llm.APIChat), imagesOff
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

// repeat sets the plan to one that is to be repeated, and then the flags again.
func (a *app) repeat(s *runSettings, flags *pflag.FlagSet, m plan.Plan) error {
	given, before := flags.Changed, *s
	setAgain := cli.Given(flags)
	s.take(m)
	otherModel := given("model") && before.plan.Model.Name != m.Model.Name
	if m.Rehearsal || otherModel {
		s.api = ""
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
	f.Var(cli.Choice(&s.api, "chat|responses"), "api", "interface of the model (default: by the model's name at OpenAI's host, elsewhere chat)")
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
	f.Int64Var(&s.rpm, "rpm", 0, "requests a minute to the endpoint (default: no limit)")
	f.Int64Var(&s.tpm, "tpm", 0, "tokens a minute to and from the endpoint (default: no limit)")
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
	f.StringVar(&s.searxng, "searxng-url", "", "SearXNG search endpoint with JSON enabled (default: SEARXNG_URL)")
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
		return usage("leave out --record-evidence=false, or --submit-intent", "a run without evidence cannot be submitted")
	case !s.record && s.bodies:
		return usage("leave one of them out", "--evidence-full-bodies keeps what --record-evidence=false leaves out")
	case !s.record:
		p.Evidence = plan.EvidenceHashes
	case s.bodies:
		p.Evidence = plan.EvidenceBodies
	}
	switch {
	case changed("max-tool-calls") && p.Policy.MaxToolCalls == 0:
		return usage("give a number from 1, or leave it out for the policy's", "--max-tool-calls is 0, which leaves no call")
	case s.api != "" && s.api != llm.APIChat && s.api != llm.APIResponses:
		return usage(`give "chat" or "responses", or leave it out`, "--api is %q", s.api)
	case s.api == llm.APIResponses && len(p.Model.Stop) > 0:
		return usage("leave one of them out", "--stop-sequence is of the chat interface, and --api is responses")
	case slices.Contains(p.Model.Stop, ""):
		return usage("give a text, or leave it out", "--stop-sequence is empty")
	case s.images != imagesAuto && s.images != imagesOn && s.images != imagesOff:
		return usage(`give "auto", "on" or "off"`, "--images is %q", s.images)
	case p.Budgets.Turns < 1 && p.Agent == nil:
		return usage("", "--max-turns is %d, which leaves no turn", p.Budgets.Turns)
	case p.Voting.Attempts < 1 || p.Voting.Attempts > plan.MaxVotingAttempts:
		return usage("give a number from 1 to 100; 1 is no vote", "--voting-attempts is %d", p.Voting.Attempts)
	case p.Model.ContextWindow > 0 && p.Model.ContextWindow <= p.Model.MaxTokens:
		return usage("the window is of the conversation and the completion together", "--context-window is %d, which leaves no room beside completions of %d tokens", p.Model.ContextWindow, p.Model.MaxTokens)
	case s.unsafePython && p.SubmitIntent:
		return usage("leave one of them out; 'gaia doctor' shows what a sandbox needs", "--unsafe-local-python runs code that nothing confines, so such a run cannot be submitted")
	case s.unsafePython:
		s.python = pythonUnconfined
	}
	if slices.ContainsFunc(p.Model.ServedAs, func(name string) bool { return name == "" || strings.ContainsAny(name, " \t\n") }) {
		return usage("give names of models with commas between them", "--served-as names the model %q", strings.Join(p.Model.ServedAs, ","))
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
			return usage("give a number from 1 to 1000000000, or leave it out", "--%s is %d", c.flag, c.value)
		}
	}
	return nil
}

// checkGoing rejects mistakes in the flags that may differ when a run is resumed.
func (s *runSettings) checkGoing() error {
	for _, tool := range s.approve {
		if tool == "" || strings.ContainsAny(tool, " \t\n") {
			return usage("give names of tools with commas between them, or all", "--approve names the tool %q", tool)
		}
		if hint := policyfile.NoTool(tool); tool != approve.All && hint != "" {
			return usage(hint, "--approve names %q, and there is no such tool", tool)
		}
	}
	if s.onLost != goOn && s.onLost != stopRun {
		return usage(`give "continue" or "stop"`, "--on-unsubmittable is %q", s.onLost)
	}
	if _, err := s.atOnce(); err != nil {
		return err
	}
	if err := checkCounts([]counter{{"rpm", s.rpm}, {"tpm", s.tpm}}); err != nil {
		return err
	}
	c, err := s.tape()
	if err == nil && c.Mode == plan.CassetteReplay && s.plan.SubmitIntent {
		err = usage("leave out --submit-intent, or ask the model itself", "--cassette %s asks no model, so such a run cannot be submitted", s.cassette)
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
		return 0, usage(`give "auto" or a number from 1 to 1024`, "--concurrency is %q", s.concurrency)
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
			return usage("name another model, or leave out --submit-intent", "%s, which nothing records", what)
		default:
			warn(what + ", which nothing records: the run will not be submittable")
		}
	}
	return nil
}
