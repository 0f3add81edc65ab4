package main

import (
	"cmp"
	"fmt"
	"maps"
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
		return s.settlePolicy()
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
	if err := s.settlePolicy(); err != nil {
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
func (s *runSettings) settlePolicy() (err error) {
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
