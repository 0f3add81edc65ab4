package export

import "github.com/gaia-harness/gaia/trajectory"

// This file is the part of Inspect's log format, version 2, that Inspect writes.
// Times are RFC 3339, or seconds; costs are US dollars. Members without omitzero
// are those that its reader needs.

const logVersion = 2

type logStart struct {
	Version int      `json:"version"`
	Eval    evalSpec `json:"eval"`
	Plan    evalPlan `json:"plan"`
}

type logHeader struct {
	Version     int         `json:"version"`
	Status      string      `json:"status"`
	Eval        evalSpec    `json:"eval"`
	Plan        evalPlan    `json:"plan"`
	Results     evalResults `json:"results"`
	Stats       evalStats   `json:"stats"`
	Invalidated bool        `json:"invalidated"`
	Tags        []string    `json:"tags"` // those of Eval, as its metadata

	Metadata map[string]any `json:"metadata"`
}

type evalSpec struct {
	EvalID      string `json:"eval_id"`
	RunID       string `json:"run_id"`
	Created     string `json:"created"`
	Task        string `json:"task"`
	TaskID      string `json:"task_id"`
	TaskVersion int    `json:"task_version"`
	taskNothing
	Tags         []string          `json:"tags,omitempty"`
	Dataset      evalDataset       `json:"dataset"`
	Model        string            `json:"model"`
	Generate     generateConfig    `json:"model_generate_config"`
	ModelBaseURL string            `json:"model_base_url,omitzero"`
	ModelArgs    map[string]any    `json:"model_args"`
	Config       evalConfig        `json:"config"`
	Revision     *evalRevision     `json:"revision,omitzero"`
	Packages     map[string]string `json:"packages"`
	Metadata     map[string]any    `json:"metadata"`
	Scorers      []evalScorer      `json:"scorers,omitempty"`
}

// taskNothing is what a task of Inspect's own has, and a run here has not.
type taskNothing struct {
	Attribs      struct{} `json:"task_attribs"`
	Args         struct{} `json:"task_args"`
	ArgsPassed   struct{} `json:"task_args_passed"`
	SolverPassed struct{} `json:"solver_args_passed"`
}

type evalDataset struct {
	Name      string   `json:"name"`
	Location  string   `json:"location,omitzero"`
	Samples   int      `json:"samples"`
	SampleIDs []string `json:"sample_ids"`
	Shuffled  bool     `json:"shuffled"`
}

type generateConfig struct {
	MaxTokens   int      `json:"max_tokens,omitzero"`
	Temperature *float64 `json:"temperature,omitzero"`
}

type evalConfig struct {
	Epochs        int      `json:"epochs"`
	EpochsReducer []string `json:"epochs_reducer,omitempty"`
	FailOnError   bool     `json:"fail_on_error"`
	TokenLimit    int64    `json:"token_limit,omitzero"`
	TurnLimit     int      `json:"turn_limit,omitzero"`
	TimeLimit     int64    `json:"time_limit,omitzero"`
	CostLimit     float64  `json:"cost_limit,omitzero"`
}

type evalRevision struct {
	Type   string `json:"type"`
	Origin string `json:"origin"`
	Commit string `json:"commit"`
	Dirty  bool   `json:"dirty"`
}

type evalScorer struct {
	Name string `json:"name"`
}

type evalPlan struct {
	Name   string         `json:"name"`
	Steps  []struct{}     `json:"steps"`
	Config generateConfig `json:"config"`
}

type evalResults struct {
	Total     int         `json:"total_samples"`
	Completed int         `json:"completed_samples"`
	Scores    []evalScore `json:"scores"`
}

type evalScore struct {
	Name     string                `json:"name"`
	Scorer   string                `json:"scorer"`
	Reducer  string                `json:"reducer,omitzero"`
	Scored   int                   `json:"scored_samples"`
	Unscored int                   `json:"unscored_samples"`
	Params   struct{}              `json:"params"`
	Metrics  map[string]evalMetric `json:"metrics"`
}

type evalMetric struct {
	Name   string   `json:"name"`
	Value  float64  `json:"value"`
	Params struct{} `json:"params"`
}

type evalStats struct {
	Started   string                `json:"started_at"`
	Completed string                `json:"completed_at"`
	Usage     map[string]modelUsage `json:"model_usage"`
	Roles     struct{}              `json:"role_usage"`
	Limits    []struct{}            `json:"connection_limit_history"`
}

type reduction struct {
	Scorer  string         `json:"scorer"`
	Reducer string         `json:"reducer"`
	Samples []reducedScore `json:"samples"`
}

type reducedScore struct {
	Value    float64    `json:"value"`
	Answer   *string    `json:"answer,omitzero"`
	History  []struct{} `json:"history"`
	SampleID string     `json:"sample_id"`
}

// sampleBase is what a sample and its summary share.
type sampleBase struct {
	ID        string                `json:"id"`
	Epoch     int                   `json:"epoch"`
	Input     string                `json:"input"`
	Target    string                `json:"target"` // always "": gold answers are never exported
	Scores    map[string]score      `json:"scores,omitempty"`
	Metadata  map[string]any        `json:"metadata"`
	Usage     map[string]modelUsage `json:"model_usage"`
	Roles     struct{}              `json:"role_usage"`
	Started   string                `json:"started_at,omitzero"`
	Completed string                `json:"completed_at,omitzero"`
	Total     float64               `json:"total_time"`
	Working   float64               `json:"working_time"`
	UUID      string                `json:"uuid"`
	Turns     int                   `json:"turn_count"`
}

type sample struct {
	sampleBase
	Files       []string          `json:"files,omitempty"`
	Messages    []*chatMessage    `json:"messages"`
	Output      modelOutput       `json:"output"`
	Store       struct{}          `json:"store"`
	Events      []any             `json:"events"`
	Error       *evalError        `json:"error,omitzero"`
	Retries     []evalError       `json:"error_retries,omitempty"`
	Attachments map[string]string `json:"attachments"`
	Pool        eventsData        `json:"events_data"`
}

type sampleSummary struct {
	sampleBase
	Error        string `json:"error,omitzero"`
	Retries      int    `json:"retries,omitzero"`
	Finished     bool   `json:"completed"`
	MessageCount int    `json:"message_count"`
}

// eventsData holds the messages that model events name by ranges of indexes.
type eventsData struct {
	Messages []*chatMessage `json:"messages"`
	Calls    []struct{}     `json:"calls"`
}

type evalError struct {
	Message   string `json:"message"`
	Trace     string `json:"traceback"`
	TraceANSI string `json:"traceback_ansi"`
}

type score struct {
	Value       string         `json:"value"` // "C" or "I"
	Answer      *string        `json:"answer,omitzero"`
	Explanation string         `json:"explanation,omitzero"`
	Metadata    map[string]any `json:"metadata,omitempty"`
	History     []struct{}     `json:"history"`
}

type chatMessage struct {
	ID         string         `json:"id"`
	Role       string         `json:"role"`
	Content    string         `json:"content"`
	Source     string         `json:"source,omitzero"`
	Metadata   textOrigin     `json:"metadata"`
	ToolCalls  []toolCall     `json:"tool_calls,omitempty"`
	Model      string         `json:"model,omitzero"`
	ToolCallID string         `json:"tool_call_id,omitzero"`
	Function   string         `json:"function,omitzero"`
	Error      *toolCallError `json:"error,omitzero"`
}

type toolCall struct {
	ID         string            `json:"id"`
	Function   string            `json:"function"`
	Arguments  map[string]string `json:"arguments"`
	ParseError string            `json:"parse_error,omitzero"`
	Type       string            `json:"type"`
}

type toolCallError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

type modelUsage struct {
	Input     int64    `json:"input_tokens"` // without cached ones
	Output    int64    `json:"output_tokens"`
	Total     int64    `json:"total_tokens"`
	Cached    int64    `json:"input_tokens_cache_read"`
	Reasoning int64    `json:"reasoning_tokens"`
	Cost      *float64 `json:"total_cost,omitzero"` // left out: not known
}

type modelOutput struct {
	Model      string      `json:"model"`
	Choices    []choice    `json:"choices"`
	Completion string      `json:"completion"`
	Usage      *modelUsage `json:"usage,omitzero"`
	Time       float64     `json:"time,omitzero"`
	ResponseID string      `json:"response_id,omitzero"`
}

type choice struct {
	Message *chatMessage `json:"message"`
	Stop    string       `json:"stop_reason"`
}

// eventBase is what all events share.
type eventBase struct {
	Event     string  `json:"event"`
	UUID      string  `json:"uuid"`
	Timestamp string  `json:"timestamp"`
	Start     float64 `json:"working_start"` // seconds since the attempt began
}

type initEvent struct {
	eventBase
	Sample struct {
		Input  string `json:"input"`
		Target string `json:"target"`
		ID     string `json:"id"`
	} `json:"sample"`
}

type modelEvent struct {
	eventBase
	Model     string         `json:"model"`
	Input     []struct{}     `json:"input"` // in the pool
	InputRefs [][2]int       `json:"input_refs"`
	Tools     []struct{}     `json:"tools"`
	Choice    string         `json:"tool_choice"`
	Config    generateConfig `json:"config"`
	Output    modelOutput    `json:"output"`
	Error     string         `json:"error,omitzero"`
	Completed string         `json:"completed"`
	Working   float64        `json:"working_time"`
}

type toolEvent struct {
	eventBase
	Type      string            `json:"type"`
	ID        string            `json:"id"`
	Function  string            `json:"function"`
	Arguments map[string]string `json:"arguments"`
	Result    string            `json:"result"`
	Metadata  textOrigin        `json:"metadata"`
	Error     *toolCallError    `json:"error,omitzero"`
	Events    []struct{}        `json:"events"`
	Completed string            `json:"completed"`
	Working   float64           `json:"working_time"`
}

type infoEvent struct {
	eventBase
	Source string             `json:"source"`
	Data   trajectory.Payload `json:"data"`
}

type errorEvent struct {
	eventBase
	Error evalError `json:"error"`
}

type scoreEvent struct {
	eventBase
	Score        score  `json:"score"`
	Target       string `json:"target"`
	Scorer       string `json:"scorer"`
	Intermediate bool   `json:"intermediate"`
}
