package main

import (
	"cmp"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/tools"
)

// settings is what the flags, the environment, the settings file and, for
// resume, the manifest say about a run.
type settings struct {
	taskFlags
	governance
	selected      *plan.Dataset // whose selection the task ids are, and of what metadata; nil: the filter's own
	model         string
	servedAs      []string // other names of models in replies
	judge         string   // "" for none
	baseURL       string
	api           string // llm.APIChat or llm.APIResponses; "" for what the model demands
	noTemperature bool
	images        string // imagesAuto, imagesOn or imagesOff
	window        int    // tokens; 0: not known
	transcription string // model; "" for none
	vision        string // model, noVision, or "" for the one that answers, if it sees
	search        string // as --search has it; "" for what the environment can ask
	searxng       string
	engine        tools.Engine // of web_search, settled; without a name: none
	cassette      string       // record:DIR or replay:DIR; "" for none
	maxTurns      int
	maxTokens     int
	toolCalls     int
	taskCost      string // USD, or "off"; "" for the policy's
	taskTokens    int64
	taskTime      time.Duration
	runCost       string // USD; "" for no limit
	attempts      int    // at each task, voting
	servers       []mcpEntry
	serversFrom   string // file of settings with them
	prices        string // file; "" for the built-in table
	submitIntent  bool
	concurrency   string // autoConcurrency or a number
	rpm           int64  // requests a minute; 0: no limit
	tpm           int64  // tokens a minute; 0: no limit
	key           string
	noJudgeCache  bool
	noPreflight   bool
	evidence      string // plan.EvidenceHeads, EvidenceBodies or EvidenceHashes
	onLost        string // when evidence cannot be recorded: goOn or stopRun
	resumed       bool
	rehearsal     bool
	dry           bool   // nothing is asked or made
	tries         int    // of a request; 0: callTries
	runs          string // where run directories are
	unsafePython  bool
	python        string // pythonIfWorks, pythonNo, pythonConfined or pythonUnconfined
}

// What a run does when its evidence cannot be recorded any longer.
const (
	goOn    = "continue"
	stopRun = "stop"
)

// Whether pictures that come with a question are shown to the model.
const (
	imagesAuto = "auto" // if it is known to take them
	imagesOn   = "on"
	imagesOff  = "off"
)

// autoConcurrency is as many tasks at once as the endpoint bears.
const autoConcurrency = "auto"

// boundedTokens is how long a completion may be, in tokens, of a run with a
// budget for the whole: what a request may cost must be known before it is sent.
const boundedTokens = 8192

const (
	callTries      = 6
	defaultBaseURL = "https://api.openai.com/v1"
	rehearsalHost  = "builtin:" // origin of the scripted models
)

// complete fills in what the flags and the settings file left open, from the
// environment and then from the defaults, and refuses what does not go together.
func (a *app) complete(s *settings) error {
	s.rehearsal = a.rehearses(s.taskFlags) && (s.source == sourceFixtures || s.model == "" && s.baseURL == "")
	if s.rehearsal {
		if s.model != "" || s.baseURL != "" || s.judge != "" || s.search != "" || s.searxng != "" || s.prices != "" || s.api != "" || s.transcription != "" || s.vision != "" && s.vision != noVision {
			return usage("leave out --model, --base-url, --api, --judge-model, --transcription-model, --vision-model, --search, --searxng-url and --prices, or give --source hub or dir:PATH",
				"the built-in tasks run with the built-in model alone")
		}
		s.source, s.model, s.judge, s.transcription = sourceFixtures, fixtures.Model, fixtures.JudgeModel, fixtures.TranscriptionModel
		s.vision = cmp.Or(s.vision, fixtures.VisionModel)
		return nil
	}
	s.source = cmp.Or(s.source, sourceHub)
	if s.model == "" {
		return usage("give --model", "no model is given")
	}
	s.baseURL = cmp.Or(s.baseURL, a.getenv("OPENAI_BASE_URL"), defaultBaseURL)
	s.noTemperature = !llm.TakesTemperature(s.model)
	return a.settleSearch(s)
}

// showsImages reports whether the model is shown pictures.
func (s settings) showsImages() bool {
	return s.images == imagesOn || s.images != imagesOff && llm.SeesImages(s.model)
}
