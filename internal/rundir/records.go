package rundir

import (
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/trajectory"
)

// Trajectory is one line of trajectories.jsonl: everything one attempt did.
type Trajectory struct {
	Attempt     int               `json:"attempt"`
	FinalAnswer *string           `json:"final_answer"` // null: none was committed
	Model       string            `json:"model"`
	Rehearsal   bool              `json:"rehearsal,omitzero"`
	RunID       string            `json:"run_id"`
	Schema      string            `json:"schema"`
	Steps       []any             `json:"steps"` // PromptStep, LLMCallStep, ToolCallStep, ToolResultStep or ExchangeStep, in order
	TaskID      string            `json:"task_id"`
	Tokens      trajectory.Tokens `json:"tokens"`
	ToolsUsed   []string          `json:"tools_used"` // sorted, each once
	Turns       int               `json:"turns"`
}

// PromptStep is a request as it was compiled: its messages by digest, and the head of what is new. Of an own agent
// Messages are those after the first Kept of the request before it.
type PromptStep struct {
	BodySHA256    string               `json:"body_sha256,omitzero"`
	Bytes         int64                `json:"bytes"`
	ContentSHA256 string               `json:"content_sha256"`
	Head          string               `json:"head"`
	Kept          int                  `json:"kept,omitzero"`
	Messages      []trajectory.Message `json:"messages"`
	Redactions    int                  `json:"redactions,omitzero"`
	Truncated     bool                 `json:"truncated"`
	Turn          int                  `json:"turn"`
	Type          string               `json:"type"` // "prompt"
}

// LLMCallStep is one try of a model call.
type LLMCallStep struct {
	BodySHA256         string                `json:"body_sha256,omitzero"`
	Error              *trajectory.CallError `json:"error,omitzero"`
	Fingerprint        string                `json:"fingerprint,omitzero"`
	FinishReason       string                `json:"finish_reason"`
	Head               string                `json:"head"`
	LatencyMs          int64                 `json:"latency_ms"`
	OutputSHA256       string                `json:"output_sha256"`
	Redactions         int                   `json:"redactions,omitzero"`
	RequestID          string                `json:"request_id"`
	RequestedModel     string                `json:"requested_model"`
	ResponseModel      string                `json:"response_model"`
	RetryOf            string                `json:"retry_of"` // event id of the try it repeats
	TokensCached       int64                 `json:"tokens_cached"`
	TokensIn           int64                 `json:"tokens_in"`
	TokensOut          int64                 `json:"tokens_out"`
	TokensReasoning    int64                 `json:"tokens_reasoning"`
	Turn               int                   `json:"turn"`
	Type               string                `json:"type"` // "llm_call"
	UnrecordedChannels []string              `json:"unrecorded_channels,omitempty"`
	UsageReported      bool                  `json:"usage_reported"`
}

// ToolCallStep is a call as the model asked for it, and the rules it hit.
type ToolCallStep struct {
	Args          map[string]string `json:"args"`
	ArgsSHA256    string            `json:"args_sha256"`
	ArgsTruncated []string          `json:"args_truncated"`
	BodySHA256    string            `json:"body_sha256,omitzero"`
	CallID        string            `json:"call_id"`
	Malformed     string            `json:"malformed,omitzero"`
	Name          string            `json:"name"`
	Redactions    int               `json:"redactions,omitzero"`
	RuleHits      []string          `json:"rule_hits"`
	Turn          int               `json:"turn"`
	Type          string            `json:"type"` // "tool_call"
}

// ToolResultStep is what came back: of a tool that ran, or the refusal.
type ToolResultStep struct {
	BodySHA256   string               `json:"body_sha256,omitzero"`
	Bytes        int64                `json:"bytes"`
	CallID       string               `json:"call_id"`
	Head         string               `json:"head"`
	IsError      bool                 `json:"is_error"`
	Model        *trajectory.ModelUse `json:"model,omitzero"` // that made the result; left out: none did
	Name         string               `json:"name"`
	OutputSHA256 string               `json:"output_sha256"`
	Probes       *trajectory.Probes   `json:"probes"` // null: none were computed
	Redactions   int                  `json:"redactions,omitzero"`
	Refused      bool                 `json:"refused,omitzero"` // the Gate refused; nothing ran
	Truncated    bool                 `json:"truncated"`
	Turn         int                  `json:"turn"`
	Type         string               `json:"type"` // "tool_result"
	URLs         []trajectory.URL     `json:"urls"`
}

// ExchangeStep is an exchange of an own agent over the recorded network, where it was completed.
type ExchangeStep struct {
	BodySHA256        string             `json:"body_sha256,omitzero"`
	Bytes             int64              `json:"bytes"`
	ContentType       string             `json:"content_type"`
	Error             string             `json:"error,omitzero"`
	Head              string             `json:"head"`
	LatencyMs         int64              `json:"latency_ms"`
	Media             bool               `json:"media,omitzero"`
	Method            string             `json:"method"`
	Number            int                `json:"number"`
	Opaque            int                `json:"opaque,omitzero"`
	Probes            *trajectory.Probes `json:"probes"` // null: there is no body
	Redactions        int                `json:"redactions,omitzero"`
	RequestBodySHA256 string             `json:"request_body_sha256,omitzero"`
	RequestBytes      int64              `json:"request_bytes"`
	RequestSHA256     string             `json:"request_sha256,omitzero"`
	SHA256            string             `json:"sha256,omitzero"`
	Status            int                `json:"status"` // of HTTP; 0: no reply came
	Truncated         bool               `json:"truncated"`
	Type              string             `json:"type"` // "exchange"
	Unprobed          int64              `json:"unprobed,omitzero"`
	URL               string             `json:"url"`
}

// Result is one line of results.jsonl, one per planned task. Tokens, cost and calls are of all attempts; latency is the
// counted attempt's, from its first event to its last.
type Result struct {
	Attempt         int               `json:"attempt"` // the one counted; 0 for none
	Attempts        int               `json:"attempts"`
	CostMicroUSD    *int64            `json:"cost_microusd"`  // null: a call's price is unknown
	JudgedCorrect   *bool             `json:"judged_correct"` // null: not judged, there is no gold, or the plan has no LLM judge
	LatencyMs       int64             `json:"latency_ms"`
	Level           int               `json:"level"`
	ModelAnswer     *string           `json:"model_answer"`
	OfficialCorrect *bool             `json:"official_correct"` // null: there is no gold
	Outcome         string            `json:"outcome"`
	ReasoningTrace  string            `json:"reasoning_trace"`
	Rehearsal       bool              `json:"rehearsal,omitzero"`
	Schema          string            `json:"schema"`
	ScoringPath     string            `json:"scoring_path"`
	TaskID          string            `json:"task_id"`
	Tokens          trajectory.Tokens `json:"tokens"`
	ToolCalls       int               `json:"tool_calls"`
	ToolsUsed       []string          `json:"tools_used"`
	Turns           int               `json:"turns"`
	Unrecorded      bool              `json:"unrecorded,omitzero"` // of a run that continued without evidence; never in results.jsonl
	Voting          *TaskVote         `json:"voting,omitzero"`     // left out: the plan has no vote
}

// TaskVote says how the vote on a task went.
type TaskVote struct {
	Answers  int    `json:"answers"`  // committed
	Attempts int    `json:"attempts"` // that ended with or without an answer, and not as an error
	Passed   *int   `json:"passed"`   // attempts whose answer is correct by the official verdict; null: there is no gold
	Rule     string `json:"rule"`
	Votes    int    `json:"votes"` // answers that say what the counted one does
}

// Summary is summary.json.
type Summary struct {
	Attempts                  int                `json:"attempts"`
	Cassette                  string             `json:"cassette,omitzero"` // of the manifest
	Completed                 string             `json:"completed"`
	CostMicroUSD              *int64             `json:"cost_microusd"` // of the agent's calls and of models that its tools asked; null if a price is unknown
	Dataset                   plan.Dataset       `json:"dataset"`
	DurationMs                int64              `json:"duration_ms"` // by the wall clock, pauses included
	GaiaSplit                 string             `json:"gaia_split"`
	GuidanceHash              string             `json:"guidance_hash"`
	Harness                   trajectory.Harness `json:"harness"`
	Interruptions             []Interruption     `json:"interruptions"`
	Judge                     *JudgeSummary      `json:"judge"`
	JudgeCacheIntegrityEvents int                `json:"judge_cache_integrity_events"` // entries found that do not verify
	Levels                    []LevelSummary     `json:"levels"`                       // ascending
	ManifestSHA256            string             `json:"manifest_sha256"`
	Model                     string             `json:"model"`
	Outcomes                  Outcomes           `json:"outcomes"`
	PolicyHash                string             `json:"policy_hash"`
	Preflight                 *PreflightSummary  `json:"preflight,omitzero"` // left out: nothing was asked before the tasks
	Rehearsal                 bool               `json:"rehearsal,omitzero"`
	RetriedCalls              int                `json:"retried_calls"`
	RunID                     string             `json:"run_id"`
	Schema                    string             `json:"schema"`
	Scores                    *Scores            `json:"scores"`          // null: unscored
	Shards                    *ShardsSummary     `json:"shards,omitzero"` // left out: the run is not a merged one
	Started                   string             `json:"started"`
	SubmitIntent              bool               `json:"submit_intent"`
	Tokens                    trajectory.Tokens  `json:"tokens"`
	ToolCalls                 int                `json:"tool_calls"`
	Tools                     []OfferedTool      `json:"tools"` // the catalogue: what the agent could call, by name
	Turns                     int                `json:"turns"`
	Unrecorded                string             `json:"unrecorded,omitzero"` // why the run continued without evidence; never in summary.json
	Voting                    *VotingSummary     `json:"voting,omitzero"`     // left out: the plan has no vote
	VotingAttempts            int                `json:"voting_attempts"`
}

// OfferedTool is a tool of the plan without its texts.
type OfferedTool struct {
	Name         string `json:"name"`
	SchemaSHA256 string `json:"schema_sha256"`
	Server       string `json:"server,omitzero"`
}

// VotingSummary describes a score by vote. Scores are of the answers that were voted for; the rates here are by the
// official verdict, over the planned tasks, null without gold.
type VotingSummary struct {
	Attempts int         `json:"attempts"`  // a task, as planned
	PassAt1  *stats.Rate `json:"pass_at_1"` // the first attempt that did not end as an error gave a correct answer
	PassAtK  *stats.Rate `json:"pass_at_k"` // one of all attempts did
	Rule     string      `json:"rule"`
}

// Interruption is a place where one process stopped and another continued.
type Interruption struct {
	Events  int64  `json:"events"` // lines before it
	Resumed string `json:"resumed"`
	Shard   int    `json:"shard,omitzero"`   // the entry of shards.json, from 1, in whose journal it is; left out: the run's own
	Stopped string `json:"stopped,omitzero"` // why the run had been closed before its end
	Torn    bool   `json:"torn"`             // an unfinished last line was cut
	// Unsubmittable is why recording had failed before.
	Unsubmittable string `json:"unsubmittable,omitzero"`
}

// JudgeSummary says what the LLM judge did: asked about the official negatives that have an answer, judged of them,
// cached where the verdict came from the signed cache, unreadable where its reply was no verdict, errors where it could
// not be asked. It was not asked where answers were withheld from it or too long. Tokens and cost include those of the
// battery.
type JudgeSummary struct {
	Asked        int             `json:"asked"`
	Battery      *BatterySummary `json:"battery,omitzero"` // nil: no answer needed the judge, or no self-test is planned
	Cached       int             `json:"cached"`
	CostMicroUSD *int64          `json:"cost_microusd"`
	Errors       int             `json:"errors"`
	Judged       int             `json:"judged"`
	Model        string          `json:"model"`
	TokensIn     int64           `json:"tokens_in"`
	TokensOut    int64           `json:"tokens_out"`
	TooLong      int             `json:"too_long,omitzero"`
	Unreadable   int             `json:"unreadable"`
	Withheld     int             `json:"withheld,omitzero"`
}

// ToJudge returns how many answers were the judge's to judge.
func (j JudgeSummary) ToJudge() int { return j.Asked + j.TooLong + j.Withheld }

// Counts reports whether the judge has anything to say beside the official scorer: there is one, and it was not found
// to pay for nothing.
func (j *JudgeSummary) Counts() bool { return j != nil && (j.Battery == nil || j.Battery.Passed) }

// BatterySummary is the result of the judge's last self-test. Cost and tokens are those of all its self-tests.
type BatterySummary struct {
	Accepted     []string `json:"accepted,omitempty"`
	Asked        int      `json:"asked"` // items that the judge was asked about; 0 where the result was cached
	Cached       bool     `json:"cached,omitzero"`
	CostMicroUSD *int64   `json:"cost_microusd"`
	Passed       bool     `json:"passed"`
	Problem      string   `json:"problem,omitzero"` // why it was not asked about all items
	Refused      []string `json:"refused,omitempty"`
	TokensIn     int64    `json:"tokens_in"`
	TokensOut    int64    `json:"tokens_out"`
	Unreadable   []string `json:"unreadable,omitempty"`
}

// Outcomes counts how the planned tasks ended.
type Outcomes struct {
	Error    int `json:"error"`
	Failed   int `json:"failed"`
	Skipped  int `json:"skipped"`
	Solved   int `json:"solved"`
	Unscored int `json:"unscored"`
}

// Scores are the two verdicts over the planned tasks.
type Scores struct {
	Judged   *stats.Rate `json:"judged,omitzero"` // left out: the plan has no LLM judge
	Official stats.Rate  `json:"official"`
}

// LevelSummary is one level's row.
type LevelSummary struct {
	Level   int     `json:"level"`
	Planned int     `json:"planned"`
	Scores  *Scores `json:"scores"`
}
