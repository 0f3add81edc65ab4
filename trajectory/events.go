package trajectory

import (
	"reflect"

	"github.com/gaia-harness/gaia/internal/canonical"
)

// This file is the taxonomy: every type of event and the payload it carries; kinds.go says where each may occur.
// Serialisations that exist never change. A new optional member is added with omitzero (a list with omitempty, so that
// an empty one has no second form), so that old journals still have exactly one encoding.

// Type names an event.
type Type string

// Where a run keeps whole bodies, body_sha256 is the digest of the body without secrets, under which it lies in
// BodiesDir: of what ContextCompiled excerpts, of the message received, of the arguments as received, of the whole
// document.

// The types of events. A run event has no task; a task event has a task id; an attempt event also the attempt (from 1);
// a turn event also the turn (from 1). What does not apply is left out of the line. memory_proposed, memory_written,
// memory_retrieved and handoff are reserved: no payload has them yet, and a reader refuses them.
const (
	TypeRunStarted         Type = "run_started"          // run
	TypeRunResumed         Type = "run_resumed"          // run
	TypeRunCompleted       Type = "run_completed"        // run
	TypeTaskStarted        Type = "task_started"         // attempt: opens every attempt
	TypeTurnStarted        Type = "turn_started"         // turn
	TypeTurnCompleted      Type = "turn_completed"       // turn
	TypeContextCompiled    Type = "context_compiled"     // turn
	TypeContextCondensed   Type = "context_condensed"    // turn
	TypeModelCallStarted   Type = "model_call_started"   // turn
	TypeModelCallCompleted Type = "model_call_completed" // turn
	TypeToolProposed       Type = "tool_proposed"        // turn
	TypePolicyDecision     Type = "policy_decision"      // turn
	TypePolicyViolation    Type = "policy_violation"     // turn
	TypeApprovalRequested  Type = "approval_requested"   // turn
	TypeApprovalResolved   Type = "approval_resolved"    // turn
	TypeCheckpointSaved    Type = "checkpoint_saved"     // turn
	TypeRollback           Type = "rollback"             // turn
	TypeToolExecuted       Type = "tool_executed"        // turn
	TypeSecurityEvent      Type = "security_event"       // run
	TypeJudgeBattery       Type = "judge_battery"        // run
	TypeLimitChanged       Type = "limit_changed"        // run
	TypePreflight          Type = "preflight"            // run
	TypeRequestRefused     Type = "request_refused"      // attempt
	TypeExchangeStarted    Type = "exchange_started"     // attempt
	TypeExchangeCompleted  Type = "exchange_completed"   // attempt
	TypeError              Type = "error"                // attempt
	TypeAnswerCommitted    Type = "answer_committed"     // attempt
	TypeAttemptEnded       Type = "attempt_ended"        // attempt
	TypeJudgment           Type = "judgment"             // attempt
	TypeTaskCommitted      Type = "task_committed"       // task: its last line in the journal of a shard
	TypeTaskSealed         Type = "task_sealed"          // task: its last line
	TypeShardMerged        Type = "shard_merged"         // run: of a merged run, before any task
)

// Payload is what an event carries; each payload knows its event type.
type Payload interface{ Type() Type }

// Harness says which program wrote the evidence.
type Harness struct {
	Commit           string `json:"commit"` // "" when the build does not know it
	Dirty            bool   `json:"dirty"`
	ExecutableSHA256 string `json:"executable_sha256"`
	Version          string `json:"version"`
}

// Devel is the version of a program that does not know its own, such as one that 'go run' built.
const Devel = "devel"

// SourceKnown reports whether version or commit say what a program was built from. If not, or if there were changes that are
// in no commit, only the executable says it.
func (h Harness) SourceKnown() bool { return !h.Dirty && (h.Version != Devel || h.Commit != "") }

// SameSource reports whether two programs were built from the same source, perhaps for machines of another kind.
func (h Harness) SameSource(other Harness) bool {
	if h.SourceKnown() {
		other.ExecutableSHA256 = h.ExecutableSHA256
	}
	return h == other
}

// RunStarted is the first line of every journal.
type RunStarted struct {
	GuidanceHash   string  `json:"guidance_hash"`
	Harness        Harness `json:"harness"`
	ManifestSHA256 string  `json:"manifest_sha256"`
	PolicyHash     string  `json:"policy_hash"`
	PolicyMode     string  `json:"policy_mode"`
	Rehearsal      bool    `json:"rehearsal,omitzero"`
	Shard          Shard   `json:"shard,omitzero"` // left out: of a run in one process, or of a merged one
	SubmitIntent   bool    `json:"submit_intent"`
}

// Shard names the journal of a part of a run that was made apart from the others, and the key that signs it. Index
// counts from 1. Of is how many shards the plan is divided into; 0 for a worker, which gets its tasks one by one.
type Shard struct {
	Index int    `json:"index"`
	Key   string `json:"key"` // OpenSSH line
	Of    int    `json:"of,omitzero"`
}

// ShardMerged takes the journal of a shard into a run, in the order of shards.json. Of a shard whose journal is gone
// Events is 0.
type ShardMerged struct {
	Events     int64  `json:"events"`
	Head       string `json:"head,omitzero"` // digest of its last line
	Lost       int    `json:"lost,omitzero"` // tasks whose attempts are not in the journal, or not in one that counts
	Shard      Shard  `json:"shard"`
	Superseded bool   `json:"superseded,omitzero"` // none of its tasks counts: an older journal of this shard does
}

// RunResumed says that a process resumed the run after Events lines. The text of the marker, which anyone can remove,
// is evidence from here on.
type RunResumed struct {
	Approved     []string `json:"approved,omitempty"` // tools whose calls are approved beforehand from here on; sorted
	Events       int64    `json:"events"`
	GuidanceHash string   `json:"guidance_hash"`
	Harness      Harness  `json:"harness"`
	PolicyHash   string   `json:"policy_hash"`
	PolicyMode   string   `json:"policy_mode"`
	Torn         *Torn    `json:"torn,omitzero"`
	// Unsubmittable is why recording had failed before, as the run's marker says.
	Unsubmittable string `json:"unsubmittable,omitzero"`
}

// Torn describes an unfinished last line that was kept aside and cut.
type Torn struct {
	Bytes  int64  `json:"bytes"`
	File   string `json:"file"`
	SHA256 string `json:"sha256"`
}

// StoppedByEndpoint is why a run was closed before its end: a model that it needs cannot be asked.
const StoppedByEndpoint = "endpoint"

// RunCompleted closes a run. It is the last line of a finished one. With Stopped, the run has not reached its end:
// tasks that are not sealed count as planned alone, TasksBegun have an attempt, and only a run_resumed may follow.
type RunCompleted struct {
	Error        int    `json:"error"`
	Failed       int    `json:"failed"`
	GuidanceHash string `json:"guidance_hash"`
	Planned      int    `json:"planned"`
	Skipped      int    `json:"skipped"`
	Solved       int    `json:"solved"`
	Stopped      string `json:"stopped,omitzero"`     // StoppedByEndpoint; left out: the run is finished
	TasksBegun   int    `json:"tasks_begun,omitzero"` // of a run that is stopped; left out: none
	Unscored     int    `json:"unscored"`
}

// The kinds of preflight: what is asked before any task begins.
const (
	PreflightModel         = "model"
	PreflightTools         = "tools" // two turns: a call of a tool, and its result
	PreflightJudge         = "judge"
	PreflightVision        = "vision"
	PreflightTranscription = "transcription"
)

// What a model does that is asked to call a tool.
const (
	ToolCalled = "called"
	ToolOther  = "other" // it calls another one, or with arguments that are no object
	ToolNone   = "none"  // it calls none
)

// Preflight says what came of asking a model of the plan one thing before any task began. It belongs to no task. Tokens
// and cost are those of all its requests.
type Preflight struct {
	CostMicroUSD  *int64     `json:"cost_microusd"`  // null: a price is unknown
	Error         *CallError `json:"error,omitzero"` // left out: every request was answered
	Kind          string     `json:"kind"`
	LatencyMs     int64      `json:"latency_ms"`
	Model         string     `json:"model"`                 // that was asked for
	RequestIDs    []string   `json:"request_ids,omitempty"` // of replies, in order
	Requests      int        `json:"requests"`              // that were sent, retries included
	ResponseModel string     `json:"response_model,omitzero"`
	Tokens        Tokens     `json:"tokens"`
	Tool          string     `json:"tool,omitzero"` // of kind tools, if it was answered: ToolCalled, ToolOther or ToolNone
	UsageReported bool       `json:"usage_reported"`
}

// Probes are what a whole document showed when it was recorded, before any paging or cut. They count signs of a leak
// and hold no text; the package audit defines how each is measured. Coverage is in thousandths.
type Probes struct {
	AnswerColumn     bool `json:"answer_column,omitzero"`    // the benchmark's own column of answers
	AnswerKeys       int  `json:"answer_keys,omitzero"`      // distinct names of answer fields
	ChangedQuestion  bool `json:"changed_question,omitzero"` // most words of the question, in other order or company, before a labelled gold
	DenyClass        int  `json:"deny_class,omitzero"`       // gravest class of an address reached: 2 = A, 1 = B, 0 = none
	GoldCalled       bool `json:"gold_called,omitzero"`      // a gold directly behind a label
	GoldHits         int  `json:"gold_hits,omitzero"`        // places where the gold answer occurs
	GoldLabelNear    bool `json:"gold_label_near,omitzero"`  // one of them right after a label such as "final answer"
	GoldNear         bool `json:"gold_near,omitzero"`        // gold near the question's text, outside of it
	InjectionMarkers int  `json:"injection_markers,omitzero"`
	KeyedAnswers     int  `json:"keyed_answers,omitzero"`   // tasks of the run whose gold occurs under their own key
	ListedAnswers    int  `json:"listed_answers,omitzero"`  // tasks of the run whose gold is an entry of a list
	OtherIDStarts    int  `json:"other_id_starts,omitzero"` // distinct ids of other tasks that only their first digits name
	OtherUUIDs       int  `json:"other_uuids,omitzero"`     // distinct ids of other tasks of the split
	OwnIDStart       bool `json:"own_id_start,omitzero"`    // gold directly behind the first digits of the task's id
	OwnUUID          bool `json:"own_uuid,omitzero"`        // the task's id
	QCov             int  `json:"q_cov,omitzero"`           // share of the question's text that is there
	QCovNoEcho       int  `json:"q_cov_no_echo,omitzero"`   // the same without what the call's own arguments have
	QEdge            bool `json:"q_edge,omitzero"`          // q_cov_no_echo counts the beginning or the end of the question
	QGoldCalled      bool `json:"q_gold_called,omitzero"`   // gold_called near a place of the question that is not the echo of a query
	SchemaKeys       int  `json:"schema_keys,omitzero"`     // distinct names of the benchmark's columns
	UUIDGoldNear     bool `json:"uuid_gold_near,omitzero"`  // gold or an answer field near the task's id
}

// Merge returns the higher of two measurements of each probe.
func (p Probes) Merge(q Probes) Probes {
	merged, other := reflect.ValueOf(&p).Elem(), reflect.ValueOf(q)
	for i := range merged.NumField() {
		if field := merged.Field(i); field.Kind() == reflect.Bool {
			field.SetBool(field.Bool() || other.Field(i).Bool())
		} else {
			field.SetInt(max(field.Int(), other.Field(i).Int()))
		}
	}
	return p
}

// File is one file of an attempt's workspace. Probes are over its text, or over its bytes where it has no text.
type File struct {
	Bytes  int64   `json:"bytes"`
	Path   string  `json:"path"`
	Probes *Probes `json:"probes,omitzero"`
	SHA256 string  `json:"sha256"`
}

// The kinds of security events.
const (
	JudgeCacheSweep = "judge_cache_sweep" // all entries were checked, before the run began or was resumed
	JudgeCacheRead  = "judge_cache_read"  // an entry was found bad when its verdict was wanted
)

// SecurityEvent records a check of the judge cache: how many entries were looked at, how many of them do not verify,
// and which (at most 100).
type SecurityEvent struct {
	Bad     int        `json:"bad"`
	Checked int        `json:"checked"`
	Entries []BadEntry `json:"entries,omitempty"`
	Kind    string     `json:"kind"`
}

// JudgeBattery is the result of the LLM judge's self-test, without which no verdict of it counts. Cached says that the
// result is from the signed cache; nothing was asked then. Accepted, Refused and Unreadable name items of the null
// battery.
type JudgeBattery struct {
	Accepted     []string `json:"accepted,omitempty"` // called correct
	Asked        int      `json:"asked"`              // items that the judge was asked about
	Cached       bool     `json:"cached,omitzero"`
	CostMicroUSD *int64   `json:"cost_microusd"`
	ErrorStatus  int      `json:"error_status,omitzero"` // HTTP status, where the judge could not be asked
	LatencyMs    int64    `json:"latency_ms"`
	Model        string   `json:"model"`
	Passed       bool     `json:"passed"`            // package judge says when
	Problem      string   `json:"problem,omitzero"`  // why the judge was not asked about all items
	Prompt       string   `json:"prompt"`            // template id
	Refused      []string `json:"refused,omitempty"` // of the items asked, by its endpoint
	SHA256       string   `json:"sha256"`            // of the battery
	TokensIn     int64    `json:"tokens_in"`
	TokensOut    int64    `json:"tokens_out"`
	Tries        int      `json:"tries"`
	Unreadable   []string `json:"unreadable,omitempty"` // its reply was no verdict
}

// LimitChanged says that an endpoint is given more or fewer requests at once.
type LimitChanged struct {
	From   int    `json:"from"`
	Origin string `json:"origin"`
	Reason string `json:"reason"`
	To     int    `json:"to"`
}

// BadEntry is an entry of the judge cache that does not verify.
type BadEntry struct {
	Name   string `json:"name"` // of its file
	Reason string `json:"reason"`
}

// TaskStarted opens an attempt: the whole question and the start workspace. An own agent sees the attachment under the
// name ShownAs.
type TaskStarted struct {
	FileName  string `json:"file_name,omitzero"`
	Question  string `json:"question"`
	ShownAs   string `json:"shown_as,omitzero"`
	Workspace []File `json:"workspace"`
}

// TurnStarted opens a turn.
type TurnStarted struct{}

// TurnCompleted closes a turn.
type TurnCompleted struct {
	LatencyMs int64 `json:"latency_ms"`
	ToolCalls int   `json:"tool_calls"`
}

// Message is one message of the conversation as it was sent: SHA256 is over the canonical JSON of the message (see
// docs/formats.md), Source says where it came from: a template id, "question", "model", or "tool:" and a call id. Image
// is the picture that it carries.
type Message struct {
	Bytes  int64  `json:"bytes"`
	Image  Image  `json:"image,omitzero"`
	Role   string `json:"role"`
	SHA256 string `json:"sha256"`
	Source string `json:"source"`
}

// Image is a picture as it was sent, which may be smaller than the file of the workspace that it was made from. It
// counts in the message by its digest and media type, not by its bytes.
type Image struct {
	Bytes     int64  `json:"bytes"`
	MediaType string `json:"media_type"`
	Path      string `json:"path"` // of the file
	SHA256    string `json:"sha256"`
}

// ContextCompiled lists the messages of a request and excerpts those that no earlier request of the attempt held:
// ContentSHA256 and Bytes are over their concatenated canonical forms, Head is the first 2 KiB. MessageHeads are the
// beginnings of those among them that their source does not give, by the events of the attempt: at most
// MostMessageHeads. The journal has it in a shorter form, which [Requests] writes and reads: the first Kept messages are
// those of the request before, and are not listed; Head leaves out what the journal has elsewhere.
type ContextCompiled struct {
	BodySHA256    string        `json:"body_sha256,omitzero"`
	Bytes         int64         `json:"bytes"`
	ContentSHA256 string        `json:"content_sha256"`
	Head          string        `json:"head,omitzero"`
	Kept          int           `json:"kept,omitzero"`
	MessageHeads  []MessageHead `json:"message_heads,omitempty"`
	Messages      []Message     `json:"messages"`
	Origins       *Origins      `json:"origins,omitzero"` // of an own agent's request
	Redactions    int           `json:"redactions,omitzero"`
	Truncated     bool          `json:"truncated,omitzero"`
}

// Origins says where the messages come from that an own agent's request holds and none of the attempt held before: bytes of
// their texts, by where that text stood before, and Agent the rest. The definitions of tools count as a message. Package
// origin says how a text is divided. They were counted over the whole texts when the request was recorded. Forgotten are
// bytes of what the attempt was given that were not known any longer: where they are, text of theirs counts as the agent's.
type Origins struct {
	Agent     int64     `json:"agent"`
	Exchange  int64     `json:"exchange,omitzero"`
	Forgotten int64     `json:"forgotten,omitzero"`
	Passages  []Passage `json:"passages,omitempty"` // of the agent's, with gold, or known to hold that of another task; at most MostPassages
	Probes    *Probes   `json:"probes,omitzero"`    // over the agent's; left out: nothing is
	Question  int64     `json:"question,omitzero"`
	Reply     int64     `json:"reply,omitzero"`
	Result    int64     `json:"result,omitzero"`
	Workspace int64     `json:"workspace,omitzero"`
}

// Passage is a line or sentence of what an own agent sends. Key is a digest with the run's salt, so that it can be compared
// and not guessed; Tasks counts the other tasks of the run for which it was sent before.
type Passage struct {
	Key   string `json:"key"`
	Tasks int    `json:"tasks,omitzero"`
}

// MostPassages bounds the passages of one request.
const MostPassages = 16

// MostMessageHeads bounds the heads of single messages in one request.
const MostMessageHeads = 16

// MessageHead is the beginning of the canonical form of one message.
type MessageHead struct {
	Bytes      int64  `json:"bytes"`
	Head       string `json:"head"`
	Redactions int    `json:"redactions,omitzero"`
	SHA256     string `json:"sha256"`
	Truncated  bool   `json:"truncated"`
}

// NewMessageHead returns the head that an excerpt of a message's canonical form is.
func NewMessageHead(x Excerpt) MessageHead {
	return MessageHead{x.Bytes, x.Head, x.Redactions, x.SHA256, x.Truncated}
}

// ContextCondensed says that messages of the conversation were replaced by shorter ones, from the next request on,
// because the whole no longer fits the model's window.
type ContextCondensed struct {
	Messages []Condensed `json:"messages"`
	Reason   string      `json:"reason"` // RefusedForLength or WindowFull
}

// Why a conversation was condensed.
const (
	RefusedForLength = "context_length_exceeded" // the endpoint refused it
	WindowFull       = "context_window"          // it would not fit the window that the plan names
)

// Condensed is a message that was replaced: by the template condensed.v1 with the name of the tool and the bytes that
// had been shown.
type Condensed struct {
	FromBytes  int64  `json:"from_bytes"`
	FromSHA256 string `json:"from_sha256"`
	Source     string `json:"source"`
	ToBytes    int64  `json:"to_bytes"`
	ToSHA256   string `json:"to_sha256"`
}

// ModelCallStarted is recorded before a request leaves. WaitedMs is how long the call waited for it: for other
// requests, for rates, or to be tried again.
type ModelCallStarted struct {
	Request        *AgentRequest `json:"request,omitzero"` // of an own agent
	RequestedModel string        `json:"requested_model"`
	Try            int           `json:"try"`
	WaitedMs       int64         `json:"waited_ms,omitzero"`
}

// AgentRequest is the body of an own agent's request to a model: SHA256 and Bytes as the agent sent it, SentSHA256 as it
// went on to the endpoint, where Edits changed it. ToolsSHA256 is of the member that defines the tools, as it came.
type AgentRequest struct {
	BodySHA256  string   `json:"body_sha256,omitzero"`
	Bytes       int64    `json:"bytes"`
	Dialect     string   `json:"dialect"`               // llm.DialectChat, DialectResponses or DialectMessages
	Edits       []string `json:"edits,omitempty"`       // llm.EditUsage, EditStore and EditStrip
	Retry       bool     `json:"client_retry,omitzero"` // the attempt has sent the same body before
	SentSHA256  string   `json:"sent_sha256,omitzero"`  // left out: as it came
	SHA256      string   `json:"sha256"`
	Stream      bool     `json:"stream,omitzero"`
	ToolsSHA256 string   `json:"tools_sha256,omitzero"`
}

// AgentReply is the body of the endpoint's reply to an own agent, as it came.
type AgentReply struct {
	Aborted    bool    `json:"aborted,omitzero"` // the agent hung up before the end
	BodySHA256 string  `json:"body_sha256,omitzero"`
	Bytes      int64   `json:"bytes"`
	Code       bool    `json:"code,omitzero"`   // it holds code, or asks for calls of tools other than the Gate's
	Probes     *Probes `json:"probes,omitzero"` // over all that the model said; left out: nothing
	SHA256     string  `json:"sha256"`
	Status     int     `json:"status"` // of HTTP; 0: none came
}

// RequestRefused is a request of an own agent that was not passed on: Code says why.
type RequestRefused struct {
	Bytes   int64    `json:"bytes"`
	Code    string   `json:"code"`
	Model   string   `json:"model,omitzero"`
	Path    string   `json:"path"`               // of its address, with the method before it; of an exchange the whole address
	RuleIDs []string `json:"rule_ids,omitempty"` // of the Gate, that an exchange would break
	SHA256  string   `json:"sha256,omitzero"`    // of its body; left out: it was not read
	Status  int      `json:"status"`             // that the agent was answered with
}

// ExchangeStarted is a request of an own agent over the recorded network, which the Gate allowed. Number counts the exchanges of
// the attempt from 1. SHA256 and Bytes are of its body.
type ExchangeStarted struct {
	BodySHA256 string  `json:"body_sha256,omitzero"`
	Bytes      int64   `json:"bytes,omitzero"`
	Method     string  `json:"method"`
	Number     int     `json:"number"`
	Redactions int     `json:"redactions,omitzero"`
	SHA256     string  `json:"sha256,omitzero"` // left out: there is no body
	Own        *Probes `json:"own,omitzero"`    // over what of address, header and body nothing explains that the agent was given; left out: all is explained
	URL        string  `json:"url"`
}

// ExchangeCompleted is the reply to a request of the recorded network, as it was passed on. Head is the beginning of its text (2
// KiB), "" where it is none. Probes are over its header and all of its body, unpacked, but for Unprobed bytes: those beyond a bound,
// and all where something in it is locked or damaged. Media says that there are pictures, sound or video in it, which have no
// text that can be probed; Opaque counts what in it is packed or encrypted in no way that is known.
type ExchangeCompleted struct {
	BodySHA256  string  `json:"body_sha256,omitzero"`
	Bytes       int64   `json:"bytes,omitzero"`
	ContentType string  `json:"content_type,omitzero"`
	Error       string  `json:"error,omitzero"` // why the reply is not whole, or none came
	Head        string  `json:"head,omitzero"`
	LatencyMs   int64   `json:"latency_ms"`
	Media       bool    `json:"media,omitzero"`
	Number      int     `json:"number"`
	Opaque      int     `json:"opaque,omitzero"`
	Probes      *Probes `json:"probes,omitzero"` // left out: no reply came
	Redactions  int     `json:"redactions,omitzero"`
	SHA256      string  `json:"sha256,omitzero"` // left out: there is no body
	Status      int     `json:"status"`          // of HTTP; 0: none came
	Truncated   bool    `json:"truncated,omitzero"`
	Unprobed    int64   `json:"unprobed,omitzero"`
}

// ExchangeHead bounds the head of an exchange, in bytes.
const ExchangeHead = 2 << 10

// CallError says why a model call failed.
type CallError struct {
	Code      string `json:"code,omitzero"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
	Status    int    `json:"status,omitzero"`
}

// Unanswered reports whether a request left and no answer to it could be read: it may have been billed all the same.
func (e CallError) Unanswered() bool {
	return e.Code != Unreachable && (e.Status == 0 || e.Status >= 200 && e.Status <= 299)
}

// Unreachable is the code of a request whose endpoint could not be reached.
const Unreachable = "unreachable"

// Tokens counts tokens as the provider reported them.
type Tokens struct {
	Cached    int64 `json:"cached"`
	In        int64 `json:"in"`
	Out       int64 `json:"out"`
	Reasoning int64 `json:"reasoning"`
}

// Add returns the sum of two counts.
func (t Tokens) Add(u Tokens) Tokens {
	return Tokens{t.Cached + u.Cached, t.In + u.In, t.Out + u.Out, t.Reasoning + u.Reasoning}
}

// ModelCallCompleted is one try of a model call. OutputSHA256, Bytes and Head (2 KiB) are of the message received, in
// the canonical form that ContextCompiled uses; they are left out when the try failed. CostMicroUSD is null where no
// price is known. RetryOf is the event id of the try it repeats. UnrecordedChannels name what the endpoint did on its
// own, such as searching: what it read is not in the journal.
type ModelCallCompleted struct {
	BodySHA256         string      `json:"body_sha256,omitzero"`
	Bytes              int64       `json:"bytes,omitzero"`
	CostMicroUSD       *int64      `json:"cost_microusd"`
	Error              *CallError  `json:"error,omitzero"`
	Fingerprint        string      `json:"fingerprint,omitzero"` // system_fingerprint
	FinishReason       string      `json:"finish_reason,omitzero"`
	Head               string      `json:"head,omitzero"`
	LatencyMs          int64       `json:"latency_ms"`
	OutputSHA256       string      `json:"output_sha256,omitzero"`
	Redactions         int         `json:"redactions,omitzero"`
	Reply              *AgentReply `json:"reply,omitzero"` // to an own agent
	RequestID          string      `json:"request_id,omitzero"`
	RequestedModel     string      `json:"requested_model"`
	ResponseModel      string      `json:"response_model,omitzero"`
	RetryOf            string      `json:"retry_of,omitzero"`
	Tokens             Tokens      `json:"tokens"`
	Truncated          bool        `json:"truncated,omitzero"`
	Try                int         `json:"try"`
	UnrecordedChannels []string    `json:"unrecorded_channels,omitempty"` // sorted
	UsageReported      bool        `json:"usage_reported"`
}

// ToolProposed is a tool call as the model asked for it. Args holds strings as they are and other values as their JSON
// text, each cut at 8 KiB; ArgsTruncated names those that were cut. ArgsSHA256 is over the argument bytes as received.
// Malformed holds the head of arguments that are no JSON object.
type ToolProposed struct {
	Args          map[string]string `json:"args"`
	ArgsSHA256    string            `json:"args_sha256"`
	ArgsTruncated []string          `json:"args_truncated,omitempty"`
	BodySHA256    string            `json:"body_sha256,omitzero"`
	CallID        string            `json:"call_id"`
	Malformed     string            `json:"malformed,omitzero"`
	Name          string            `json:"name"`
	Redactions    int               `json:"redactions,omitzero"`
}

// PolicyDecision is what the Gate decided before a tool could run. Shown is what the model was shown when it was
// refused.
type PolicyDecision struct {
	CallID     string   `json:"call_id"`
	Decision   string   `json:"decision"` // allow, deny, confirm
	Mode       string   `json:"mode"`
	PolicyHash string   `json:"policy_hash"`
	Reason     string   `json:"reason,omitzero"`
	RuleIDs    []string `json:"rule_ids,omitempty"`
	Shown      string   `json:"shown,omitzero"`
}

// PolicyViolation says that a call was denied, or a redirect of it was refused. Class is that of policy.Decision;
// RuleIDs may be empty where it is deny_list or mode.
type PolicyViolation struct {
	CallID      string   `json:"call_id"`
	Class       string   `json:"class"`
	Description string   `json:"description"`
	RuleIDs     []string `json:"rule_ids"`
}

// ApprovalRequested asks a person whether a call may run.
type ApprovalRequested struct {
	ArgsSHA256 string   `json:"args_sha256"` // of the call it is about, as in ToolProposed
	CallID     string   `json:"call_id"`
	Name       string   `json:"name"`
	RuleIDs    []string `json:"rule_ids,omitempty"` // the rules that require it; none: the mode does
}

// The ways in which a request for approval is answered.
const (
	ByPerson     = "person"      // asked on the terminal about this very call
	ByAlways     = "always"      // had approved the tool for good, asked about a call before
	Beforehand   = "beforehand"  // the run was started with an approval of the tool
	ByNoTerminal = "no_terminal" // no person could be asked: denied
)

// ApprovalResolved is the answer.
type ApprovalResolved struct {
	Approved  bool   `json:"approved"`
	By        string `json:"by"` // ByPerson, ByAlways, Beforehand or ByNoTerminal
	CallID    string `json:"call_id"`
	LatencyMs int64  `json:"latency_ms"`
}

// CheckpointSaved says that the workspace was kept as it is before the calls of a turn run, of which CallID is the
// first that may change it. TreeSHA256 is the digest of all there is in it, links and permissions included; Workspace
// lists the regular files.
type CheckpointSaved struct {
	CallID     string `json:"call_id"`
	TreeSHA256 string `json:"tree_sha256,omitzero"`
	Workspace  []File `json:"workspace"` // by path, without probes
}

// Rollback says that the workspace was restored to its last checkpoint: at the start of the turn, because CallID broke
// RuleIDs; or, without RuleIDs, because it had grown beyond its limits or could not be looked through. Where that
// showed before the calls of the turn ran, it was last kept after an earlier turn. The three digests are of the
// workspace as it was kept, as it was found ("" where it could not be kept as it was) and as it was left: the rollback
// is correct where the first and the last are equal. The workspace of an own agent is not restored, since the agent
// writes to it itself: there are no digests then, and the call did not run.
type Rollback struct {
	CallID     string   `json:"call_id"`
	Reason     string   `json:"reason"`
	Restored   []string `json:"restored"` // paths that had changed, sorted
	RuleIDs    []string `json:"rule_ids,omitempty"`
	TreeAfter  string   `json:"tree_after,omitzero"`
	TreeBefore string   `json:"tree_before,omitzero"`
	TreeFound  string   `json:"tree_found,omitzero"`
}

// URL is one address that a tool call reached: requested, redirects, final.
type URL struct {
	ContentType string `json:"content_type,omitzero"`
	Status      int    `json:"status,omitzero"`
	URL         string `json:"url"`
}

// ModelUse is a request of a tool to a model for its result. CostMicroUSD is null where no price is known; Tries counts
// the requests.
type ModelUse struct {
	CostMicroUSD   *int64 `json:"cost_microusd"`
	RequestID      string `json:"request_id,omitzero"`
	RequestedModel string `json:"requested_model"`
	ResponseModel  string `json:"response_model,omitzero"`
	Tokens         Tokens `json:"tokens"`
	Tries          int    `json:"tries"`
	UsageReported  bool   `json:"usage_reported"`
}

// ToolExecuted is a tool's result. OutputSHA256, Bytes and Head (4 KiB) are of the whole document the tool made, before
// paging. ShownBytes is the size of what the model was shown of it; ShownSHA256 is over the message that showed it, as
// the next ContextCompiled lists it.
type ToolExecuted struct {
	BodySHA256   string    `json:"body_sha256,omitzero"`
	Bytes        int64     `json:"bytes"`
	CallID       string    `json:"call_id"`
	Head         string    `json:"head,omitzero"`
	IsError      bool      `json:"is_error,omitzero"`
	LatencyMs    int64     `json:"latency_ms"`
	Model        *ModelUse `json:"model,omitzero"` // left out: none was asked
	Name         string    `json:"name"`
	OutputSHA256 string    `json:"output_sha256"`
	Own          *Probes   `json:"own,omitzero"`    // of an own agent's call: over what of the arguments, and of a document made of files that it may have written or computed from such arguments, nothing explains; left out: all is explained
	Probes       *Probes   `json:"probes,omitzero"` // left out: none were computed
	Redactions   int       `json:"redactions,omitzero"`
	ShownBytes   int64     `json:"shown_bytes"`
	ShownSHA256  string    `json:"shown_sha256"`
	Truncated    bool      `json:"truncated,omitzero"`
	URLs         []URL     `json:"urls,omitempty"`
}

// Error is a fault of the machinery or of the provider that ended an attempt.
type Error struct {
	Code    string `json:"code,omitzero"`
	Message string `json:"message"`
	Stage   string `json:"stage"`
}

// AnswerCommitted fixes an attempt's answer before any judge is asked. Rule is the id of the extraction rule that found
// it.
type AnswerCommitted struct {
	Answer         string   `json:"answer"`
	InReply        bool     `json:"in_reply,omitzero"` // of an own agent: a reply of a model in the attempt holds the answer
	ReasoningTrace string   `json:"reasoning_trace"`
	Redactions     int      `json:"redactions,omitzero"`
	Rule           string   `json:"rule"`
	SeenIn         []string `json:"seen_in,omitempty"`    // of an own agent: where the answer stood before, of question, reply, result, exchange and workspace; sorted
	SharesWord     bool     `json:"shares_word,omitzero"` // of an own agent, where it stood nowhere: a word of it did
}

// The ways an attempt ends.
const (
	Answered = "answered"
	NoAnswer = "no_answer"
	Errored  = "error"
)

// Why an attempt ended as an error. The first two say nothing about the task: another attempt is made, up to the plan's
// free re-attempts.
const (
	Interrupted    = "interrupted"    // by a crash or a stop of the process; recorded by the next one
	RunStopped     = "run stopped"    // by a failure that every task would meet
	Infrastructure = "infrastructure" // the model or a tool failed
)

// Lost reports whether an interruption or a stop of the run ended the attempt.
func (e AttemptEnded) Lost() bool {
	return e.Outcome == Errored && (e.Reason == Interrupted || e.Reason == RunStopped)
}

// AttemptEnded closes an attempt. Workspace is left out where no tool of the run can change one.
type AttemptEnded struct {
	Agent     *AgentEnd        `json:"agent,omitzero"` // left out: the built-in agent, or the process that recorded it did not see the end
	Outcome   string           `json:"outcome"`        // Answered, NoAnswer or Errored
	Reason    string           `json:"reason,omitzero"`
	Workspace *WorkspaceChange `json:"workspace,omitzero"`
}

// How the process of an own agent ended.
const (
	AgentExited     = "exited"
	AgentDeadline   = "deadline" // its time was over
	AgentMemory     = "memory"   // it used too much of it, or one of the next two
	AgentProcesses  = "processes"
	AgentDisk       = "disk"
	AgentNotStarted = "not_started" // its program could not be run
)

// AgentEnd is how an own agent ended. Exit is the exit code, -1 where a signal ended it. Stderr is the end of what it
// wrote to standard error, at most 2 KiB. Refused counts the requests that were refused, of which the first
// MostRequestsRefused are events.
type AgentEnd struct {
	Confined    *Confinement `json:"confined,omitzero"` // left out: it ran outside of the sandbox
	Ended       string       `json:"ended"`             // AgentExited, AgentDeadline, …
	Exit        int          `json:"exit"`
	Given       *Probes      `json:"given,omitzero"` // over the values of the planned variables, and the command, unpacked; left out: nothing was looked for
	Redactions  int          `json:"redactions,omitzero"`
	Refused     int          `json:"refused,omitzero"`
	Stderr      string       `json:"stderr,omitzero"`
	StderrBytes int64        `json:"stderr_bytes,omitzero"`
	StdoutBytes int64        `json:"stdout_bytes,omitzero"`
}

// Confinement is what was seen of the sandbox of an attempt: from inside, before the agent began, and from outside, when it had
// ended.
type Confinement struct {
	Ended        bool  `json:"ended"`             // no process of it was alive when its socket was closed
	Filtered     bool  `json:"filtered"`          // system calls are filtered
	Isolated     bool  `json:"isolated"`          // there is no route to a public address
	NoPrivileges bool  `json:"no_privileges"`     // it can gain none
	NoRoute      int64 `json:"no_route,omitzero"` // connections and datagrams to addresses without a route, that went nowhere
	ReadOnly     bool  `json:"read_only"`         // its folders cannot be written to
	Unheard      int64 `json:"unheard,omitzero"`  // datagrams to local ports where nothing listens, as of lookups of names
}

// MostRequestsRefused bounds the events of refused requests in one attempt.
const MostRequestsRefused = 1000

// WorkspaceChange is what an attempt has made of its workspace. Diff is a unified diff of its text files against the
// start, cut at 64 KiB; Added and Removed count the lines of that diff before the cut, Reworked those that were written
// during the attempt and changed again later in it.
type WorkspaceChange struct {
	Added      int      `json:"added"`
	Diff       string   `json:"diff"`
	Files      []string `json:"files"` // touched: added, changed or removed; sorted
	Redactions int      `json:"redactions,omitzero"`
	Removed    int      `json:"removed"`
	Reworked   int      `json:"reworked"`
	TreeSHA256 string   `json:"tree_sha256"`
	Truncated  bool     `json:"truncated"`
}

// Judgment is a verdict on the attempt's committed answer: usage, request id, verdict and prompt version, and nothing
// from which gold could be learnt. A verdict of the LLM judge that comes from the signed cache has Cached and no tries.
type Judgment struct {
	Cached        bool   `json:"cached,omitzero"`
	CostMicroUSD  *int64 `json:"cost_microusd"`
	ErrorStatus   int    `json:"error_status,omitzero"` // HTTP status, where the judge could not be asked
	Judged        *bool  `json:"judged"`                // null: not judged
	LatencyMs     int64  `json:"latency_ms"`
	Model         string `json:"model,omitzero"`
	Official      bool   `json:"official"`
	Path          string `json:"path"`
	Prompt        string `json:"prompt,omitzero"`
	RequestID     string `json:"request_id,omitzero"`
	ResponseModel string `json:"response_model,omitzero"`
	TokensIn      int64  `json:"tokens_in"`
	TokensOut     int64  `json:"tokens_out"`
	Tries         int    `json:"tries"`
}

// The outcomes a task is sealed with, by the official verdict.
const (
	Solved   = "solved"
	Failed   = "failed"
	Skipped  = "skipped"
	Unscored = "unscored"
)

// TaskCommitted is a task's last line in the journal of a shard: no further attempt is due. Digest is over the lines
// with its id before this one.
type TaskCommitted struct {
	Attempts int    `json:"attempts"`
	Digest   string `json:"digest"`
}

// TaskSealed is a task's last line. Attempt is the counted one, 0 for none.
type TaskSealed struct {
	Attempt  int    `json:"attempt"`
	Attempts int    `json:"attempts"`
	Outcome  string `json:"outcome"`        // Solved, Failed, Skipped, Errored or Unscored
	Salt     string `json:"salt"`           // 32 random bytes, hex
	Shard    int    `json:"shard,omitzero"` // of a merged run: the entry of shards.json, from 1, whose lines count; left out: none
}

// SentMessage is a message of a conversation in the form that is hashed.
type SentMessage struct {
	Content      string     `json:"content"`
	Image        SentImage  `json:"image,omitzero"`
	OpaqueSHA256 string     `json:"opaque_sha256,omitzero"` // of opaque data that goes back to the provider unchanged
	Role         string     `json:"role"`
	ToolCallID   string     `json:"tool_call_id,omitzero"`
	ToolCalls    []SentCall `json:"tool_calls,omitzero"`
}

// SentImage is a picture in a message.
type SentImage struct {
	MediaType string `json:"media_type"`
	SHA256    string `json:"sha256"`
}

// SentCall is a tool call in a message of the model.
type SentCall struct {
	Arguments    string `json:"arguments"`
	ID           string `json:"id"`
	Name         string `json:"name"`
	OpaqueSHA256 string `json:"opaque_sha256,omitzero"`
}

// Canonical returns the canonical JSON of a message. It cannot fail: the type holds strings only, and bytes that are
// not UTF-8 become U+FFFD.
func (m SentMessage) Canonical() []byte { return appendSent(nil, &m) }

func appendSent(b []byte, m *SentMessage) []byte {
	b, err := canonical.AppendLossy(b, m)
	if err != nil {
		panic("trajectory: a message of strings has no canonical form: " + err.Error())
	}
	return b
}
