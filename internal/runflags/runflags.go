// Package runflags has the flags of gaia run: their help, their checks, and the plan and the settings that they fill.
//
// [Settings] holds one plan.Plan and what is no plan: where models, keys and folders are, and how fast the run is. Flags,
// gaia.yaml, --like and resume fill the same value. [Tasks] says which tasks are meant, also for the commands that only
// look at tasks. The package reads no environment, asks nothing and prints nothing: cmd/gaia settles what the flags leave
// open. Its errors are errors of usage with a hint.
package runflags

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/planfolder"
	"github.com/gaia-harness/gaia/internal/remote"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/tools/web"
)

// Settings are the settings of a run, from flags, environment, gaia.yaml, --like and, for resume, its own manifest: the plan,
// and what is no plan.
type Settings struct {
	Plan plan.Plan
	Own  Own
	Tasks

	// Members of the plan in the form of their flags.
	PolicyName, Protocol, Images, Vision, Search string
	record, bodies, NoJudgeCache                 bool
	Python                                       string // PythonIfWorks, PythonNo, PythonConfined or PythonUnconfined
	unsafePython                                 bool

	// Where models, tools and keys are.
	BaseURL, SearXNG, Prices, Cassette, Key string
	Engine                                  web.Engine // of web_search, settled; without a name: none
	Servers                                 []settings.Server
	ServersFrom                             string // file of settings with them

	// How fast the run is, and what it decides by itself.
	Concurrency      string // AutoConcurrency or a number
	Requests, Tokens int64  // requests and tokens a minute; 0: no limit
	Tries            int    // of a request; 0: remote.CallTries
	OnLost           string // when evidence cannot be recorded: GoOn or "stop"
	Approve          []string
	Recheck          bool // read a finished run again from the disk
	Verbose          bool // print changes of the concurrency, too
	Resumed          bool

	// Shards.
	PlanDir, Shard, ShardKey string             // plan folder, the shard as it was given, where its key is
	Folder                   *planfolder.Folder // of a shard; nil: the run has its own plan
	Part                     plan.Delegation    // of a shard
	again                    string             // command that runs the shard again

	// One call of the command.
	Runs, File, LikeWhat string        // run directories, settings, the plan to repeat
	OnlyErrors           bool          // of the plan to repeat only the tasks that failed for infrastructure
	Dry, AsJSON          bool          // dry: nothing is asked or made
	Planned              []string      // flags that say what a plan holds
	Listed               *runview.List // tasks that show lists in JSON; nil: none
	Like                 *plan.Plan
	Selected             *plan.Dataset // whose selection the task ids are, and of what metadata; nil: the filter's own
}

const (
	GoOn    = "continue" // when evidence cannot be recorded any longer
	stopRun = "stop"

	ImagesAuto = "auto" // show pictures that come with a question to a model that is known to take them
	ImagesOn   = "on"
	ImagesOff  = "off"

	AutoConcurrency = "auto" // as many tasks at once as the endpoint allows
	NoVision        = "none" // leaves describe_image out
	SearchNone      = remote.NoSearch
	// BoundedTokens is how long a completion may be, in tokens, of a run with a budget for the whole: the cost of a request
	// must be known before it is sent.
	BoundedTokens  = 8192
	DefaultBaseURL = "https://api.openai.com/v1"
	RehearsalHost  = "builtin:" // origin of the scripted models

	// Whether a run has the tool python: as its plan decides, and a new run where it works.
	PythonName       = "python"
	PythonIfWorks    = ""
	PythonNo         = "no"
	PythonConfined   = "in the sandbox"
	PythonUnconfined = "without a sandbox"
)

// Own is the agent of the user's own that solves the tasks, as flags name it.
type Own struct {
	settings.AgentFlags
	Messages, MessagesKey string // endpoint of the messages dialect
}

// HasTools reports whether the agent of the run has tools behind the Gate.
func (s *Settings) HasTools() bool {
	return s.Plan.Agent == nil || s.Plan.Agent.Tools == plan.AgentToolsGate
}

// ShowsImages reports whether the model is shown pictures.
func (s *Settings) ShowsImages() bool {
	return s.Images == ImagesOn || s.Images != ImagesOff && llm.SeesImages(s.Plan.Model.Name)
}

// Looks returns the model that looks at pictures, "" if none does.
func (s *Settings) Looks() string {
	switch {
	case s.Vision == NoVision || s.Vision == "" && !s.ShowsImages():
		return ""
	case s.Vision == "":
		return s.Plan.Model.Name
	}
	return s.Vision
}

// Models returns the names of all models that the run asks, the one that answers first.
func (s *Settings) Models() (all []string) {
	for _, name := range []string{s.Plan.Model.Name, s.JudgeModel(), s.Hears(), s.Looks()} {
		if name != "" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	if own := s.Plan.Agent; own != nil {
		all = append(all, slices.Sorted(maps.Keys(own.Models))...)
	}
	return all
}

// JudgeModel returns the model that judges, "" if none does.
func (s *Settings) JudgeModel() string {
	if s.Plan.Judge == nil {
		return ""
	}
	return s.Plan.Judge.Model
}

// Hears returns the model that transcribes audio, "" if none does.
func (s *Settings) Hears() string {
	if s.Plan.Transcription == nil {
		return ""
	}
	return s.Plan.Transcription.Model
}

// TakeServers takes the MCP servers of a settings file.
func (s *Settings) TakeServers(file *settings.File) {
	if file != nil && len(file.Servers) > 0 {
		s.Servers, s.ServersFrom = file.Servers, file.Name
	}
}

// Take sets the plan, and the settings that follow from it.
func (s *Settings) Take(m plan.Plan) {
	s.Plan = m
	s.Plan.Approved, s.Plan.Unconfined, s.Plan.Dataset.ErrorsOf = nil, nil, plan.ErrorsOf{}
	s.Plan.Tasks, s.Plan.SplitIDs = nil, nil // they are those of the dataset again, or the plan is refused
	s.Split, s.Protocol, s.Images = m.Dataset.Split, cmp.Or(m.Model.API, llm.APIChat), ImagesOff
	if m.Model.Images {
		s.Images = ImagesOn
	}
	s.Vision, s.Search = NoVision, SearchNone
	if m.Vision != nil {
		s.Vision = m.Vision.Model
	}
	if m.Search != nil {
		s.Search = m.Search.Engine
	}
	s.record, s.bodies = m.Evidence != plan.EvidenceHashes, m.Evidence == plan.EvidenceBodies
	s.NoJudgeCache = m.Judge != nil && !m.Judge.Cache
}

// TakeTasks takes the tasks of a plan.
func (s *Settings) TakeTasks(m plan.Plan) {
	s.Selected = &m.Dataset
	s.Plan.Dataset.ErrorsOf, s.Filter.ErrorsOf = m.Dataset.ErrorsOf, m.Dataset.ErrorsOf.RunID
	for _, t := range m.Tasks {
		s.Filter.IDs = append(s.Filter.IDs, t.TaskID)
	}
}

// Keyed returns an error for an endpoint elsewhere without a key. An own agent may speak the messages dialect alone: then no
// model is asked otherwise.
func (s *Settings) Keyed(base *url.URL, apiKey string) error {
	if p := &s.Plan; p.Agent != nil && apiKey == "" && !remote.IsLocal(base) && s.Own.MessagesKey != "" && p.Judge == nil && p.Transcription == nil && s.Looks() == "" {
		p.NoPreflight = true
		return nil
	}
	if c, _ := s.Tape(); apiKey == "" && !s.Dry && c.Mode != plan.CassetteReplay && !remote.IsLocal(base) {
		return remote.NoKey(base)
	}
	return nil
}

// ResumeLine returns the command that resumes a run with these settings.
func (s *Settings) ResumeLine(dir string) string {
	if s.Folder != nil {
		return s.again
	}
	flags := [][2]string{{"--cassette", s.Cassette}, {"--approve", strings.Join(s.Approve, ",")}, {"--settings", s.ServersFrom}}
	if s.OnLost == stopRun {
		flags = append(flags, [2]string{"--on-unsubmittable", stopRun})
	}
	if s.Concurrency != AutoConcurrency {
		flags = append(flags, [2]string{"--concurrency", s.Concurrency})
	}
	for _, rate := range []counter{{"--rpm", s.Requests}, {"--tpm", s.Tokens}} {
		if rate.value > 0 {
			flags = append(flags, [2]string{rate.flag, strconv.FormatInt(rate.value, 10)})
		}
	}
	text := "gaia resume " + view.Quote(dir)
	if s.Recheck {
		text += " --recheck"
	}
	return s.CommandLine(text, flags...)
}

// CommandLine returns a command for a shell, with flags for the places that these settings name. Empty flags are left out.
func (s *Settings) CommandLine(text string, flags ...[2]string) string {
	if !s.Plan.Rehearsal {
		source := s.Source
		if IsHub(source) {
			source = "" // the plan names it
		}
		flags = append(flags, [][2]string{{"--dataset", source}, {"--base-url", s.BaseURL}, {"--searxng-url", s.SearXNG}, {"--prices", s.Prices}, {"--key", s.Key}}...)
	}
	for _, f := range flags {
		if f[1] != "" {
			text += " " + f[0] + " " + view.Quote(f[1])
		}
	}
	return text
}
