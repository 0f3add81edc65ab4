// Package plan holds the plan of a run: what manifest.json contains, and nothing else.
//
// Flags, the settings file, --like and resume fill one [Plan]; internal/run adds digests and the salted commitment to the
// gold answers and signs it before a model is asked. [Decode] accepts only canonical JSON of the current schema whose
// members agree with each other (rundir.TestDecodeManifestRefuses, rundir.FuzzDecodeManifest); it names the version that reads an older
// schema. Diff compares two plans member by member. Money is in micro-USD, times in milliseconds, temperature in
// thousandths. docs/formats.md lists the members.
package plan

import (
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
)

// ManifestFile is the plan, EnvelopeFile its DSSE envelope.
const (
	ManifestFile = "manifest.json"
	EnvelopeFile = "manifest.dsse.json"
)

// ManifestType is the DSSE payload type of the plan.
const ManifestType = "application/vnd.gaia-harness.manifest+json"

// manifestSchema is the schema of [ManifestFile] that this version reads and writes.
const manifestSchema = "gaia.manifest/2"

// Plan is what [ManifestFile] contains: all that decides the result of a run, signed before anything is asked of a model.
type Plan struct {
	Approved           []string           `json:"approved,omitempty"` // tools whose calls were approved beforehand, or policy.EveryTool; sorted
	Budgets            Budgets            `json:"budgets"`
	Cassette           string             `json:"cassette,omitzero"`   // CassetteRecord or CassetteReplay
	ConstitutionSHA256 string             `json:"constitution_sha256"` // of ConstitutionFile
	Created            string             `json:"created"`             // trajectory.TimeFormat
	Dataset            Dataset            `json:"dataset"`
	DenylistSHA256     string             `json:"denylist_sha256"`
	Evidence           string             `json:"evidence"`        // EvidenceHeads, EvidenceBodies or EvidenceHashes
	GoldCommitment     string             `json:"gold_commitment"` // see Commitment; "" where the source carried no gold
	GuidanceHash       string             `json:"guidance_hash"`   // the first 16 hex digits of ConstitutionSHA256
	Harness            trajectory.Harness `json:"harness"`
	Judge              *JudgePlan         `json:"judge"` // null: official scorer only
	Model              ModelPlan          `json:"model"`
	NoPreflight        bool               `json:"no_preflight,omitzero"` // no model is asked anything before the tasks
	Policy             policy.Policy      `json:"policy"`                // canonical; PolicyHash is its hash
	PolicyHash         string             `json:"policy_hash"`
	PolicyMode         string             `json:"policy_mode"`
	PricesSHA256       string             `json:"prices_sha256"`
	Probes             string             `json:"probes"` // id of the rules the journal's probes were computed by; "" for none
	Prompts            []Prompt           `json:"prompts"`
	Rehearsal          bool               `json:"rehearsal,omitzero"`
	Retry              RetryPlan          `json:"retry"`
	RunID              string             `json:"run_id"`
	Schema             string             `json:"schema"`
	Search             *SearchPlan        `json:"search,omitzero"` // left out: none, or the built-in one of a rehearsal
	SigningKey         string             `json:"signing_key"`     // OpenSSH line; trusted only if the reader trusts it
	SplitIDs           []string           `json:"split_ids"`       // all task ids of the split, in its order
	Splits             []SplitPlan        `json:"splits"`          // every split the source holds, by name
	SubmitIntent       bool               `json:"submit_intent"`
	Tasks              []PlannedTask      `json:"tasks"` // plan order; the denominator of every score
	Tools              []ToolPlan         `json:"tools"`
	Transcription      *TranscriptionPlan `json:"transcription,omitzero"` // left out: audio is not transcribed
	Unconfined         []string           `json:"unconfined,omitempty"`   // tools and servers whose programs run outside of the sandbox, sorted
	Vision             *VisionPlan        `json:"vision,omitzero"`        // left out: no tool looks at pictures
	Voting             VotingPlan         `json:"voting"`
}

// What the journal shows of the bodies it has the digests of.
const (
	EvidenceHeads  = "heads"  // their beginnings
	EvidenceBodies = "bodies" // and the whole of them is kept beside it
	EvidenceHashes = "hashes" // nothing: fit for local runs only
)

// What becomes of the conversations with the models' endpoints besides.
const (
	CassetteRecord = "record" // they are kept, to be replayed
	CassetteReplay = "replay" // they come from there, and no model was asked
)

// Dataset says which tasks were chosen, and from what.
type Dataset struct {
	CarriedGold    bool   `json:"carried_gold"`
	Hub            string `json:"hub,omitzero"` // scheme and host of the hub that has it; "" for another source
	IDsSHA256      string `json:"ids_sha256"`   // of all ids of the split, in order
	Levels         [3]int `json:"levels"`       // how many tasks of the split are of level 1, 2 and 3
	MetadataFile   string `json:"metadata_file"`
	MetadataSHA256 string `json:"metadata_sha256"`
	Name           string `json:"name"`
	Revision       string `json:"revision"`
	Selection      string `json:"selection"` // "all" or the rule of the subset
	Split          string `json:"split"`
	SplitSize      int    `json:"split_size"`
}

// SplitPlan tells the splits of a dataset apart by what they consist of.
type SplitPlan struct {
	CarriedGold bool   `json:"carried_gold"`
	IDsSHA256   string `json:"ids_sha256"` // of the canonical array of its ids, sorted
	Name        string `json:"name"`
	Size        int    `json:"size"`
}

// PlannedTask is one task of the plan. QuestionSHA256 fixes the question; see
// [QuestionDigest]. FileSHA256 fixes the attachment; an earlier plan of this schema has
// no digest of it.
type PlannedTask struct {
	FileBytes      int64  `json:"file_bytes,omitzero"`
	FileName       string `json:"file_name,omitzero"`
	FileSHA256     string `json:"file_sha256,omitzero"`
	Level          int    `json:"level"`
	QuestionSHA256 string `json:"question_sha256,omitzero"` // "" before a run is created
	TaskID         string `json:"task_id"`
}

// ModelPlan says which model answers, and how it is asked. Temperature is in
// thousandths.
type ModelPlan struct {
	API              string   `json:"api,omitzero"`            // "responses"; "" for chat completions
	ContextWindow    int      `json:"context_window,omitzero"` // tokens by which the conversation is kept short; 0: until the endpoint refuses it
	Images           bool     `json:"images,omitzero"`         // it is shown pictures that come with a question
	MaxTokens        int      `json:"max_tokens,omitzero"`
	Name             string   `json:"name"`
	NoTemperature    bool     `json:"no_temperature,omitzero"` // it takes none, so none is sent
	Origin           string   `json:"origin"`
	ServedAs         []string `json:"served_as,omitempty"` // other names by which the endpoint may call the models of the plan in its replies; sorted
	Stop             []string `json:"stop,omitempty"`      // texts at which the model ends a completion
	TemperatureMilli int      `json:"temperature_milli"`
}

// TranscriptionPlan says which model writes down what is said in audio files.
type TranscriptionPlan struct {
	Model  string `json:"model"`
	Origin string `json:"origin"`
}

// VisionPlan says which model looks at pictures for a tool.
type VisionPlan struct {
	Model  string `json:"model"`
	Origin string `json:"origin"`
}

// SearchPlan says which search engine the tool web_search asks, and where.
type SearchPlan struct {
	Engine string `json:"engine"` // tools.Tavily, Brave, Serper or SearXNG
	Origin string `json:"origin"` // scheme and host
}

// JudgePlan says which model judges, by which prompt, and whether verdicts may
// come from the signed cache. No verdict counts of a judge that has not withstood
// the null battery.
type JudgePlan struct {
	Battery      string `json:"battery_sha256,omitzero"` // "": the plan is older than batteries
	Cache        bool   `json:"cache"`
	Endpoint     string `json:"endpoint_sha256,omitzero"` // of its base URL; a host can have other judges at other paths
	Model        string `json:"model"`
	Origin       string `json:"origin"`
	Prompt       string `json:"prompt"`
	PromptSHA256 string `json:"prompt_sha256"`
}

// Budgets bound an attempt, and the run. Money, tokens and tool calls of the
// attempts that failed before it count, too. Money is in micro-USD; 0 is no
// limit.
type Budgets struct {
	CostMicroUSD    int64 `json:"cost_microusd"`
	RunCostMicroUSD int64 `json:"run_cost_microusd,omitzero"` // of the whole run, its judge included
	Tokens          int64 `json:"tokens,omitzero"`            // read and written
	ToolCalls       int   `json:"tool_calls"`
	Turns           int   `json:"turns"`
	WallMs          int64 `json:"wall_ms,omitzero"` // from the attempt's first event
}

// Prompt is a template, whole.
type Prompt struct {
	ID     string `json:"id"`
	SHA256 string `json:"sha256"`
	Text   string `json:"text"`
}

// Offered returns the tools that the policy lets the model have. Tools also lists those
// that it always denies: a call of one is denied by its class, not as unknown.
func (m Plan) Offered() []ToolPlan {
	return slices.DeleteFunc(slices.Clone(m.Tools), func(t ToolPlan) bool { return !m.Policy.Offers(t.Name) })
}

// ToolPlan is a tool as the model is told of it; SchemaSHA256 is over the
// parameters' schema as sent.
type ToolPlan struct {
	Description  string   `json:"description"`
	Env          []string `json:"env,omitempty"` // names of the variables that the server is given, sorted
	Name         string   `json:"name"`
	Network      string   `json:"network,omitzero"` // of a server that is a program: NetworkNone or NetworkHost
	Schema       string   `json:"schema,omitzero"`  // of its parameters, as sent, where the tool is a server's
	SchemaSHA256 string   `json:"schema_sha256"`
	Server       string   `json:"server,omitzero"` // "mcp:" and the name of the MCP server whose tool it is, with its origin if it is asked over HTTP
}

// What a server that is a program reaches: nothing, or all that this machine does.
const (
	NetworkNone = "none"
	NetworkHost = "host"
)

// Remote reports whether the tool is of a server that is asked over HTTP.
func (t ToolPlan) Remote() bool { return strings.Contains(t.Server, " ") }

// FreeReattempts is how many attempts at a task are made in place of those that
// an interruption or a stop of the run ended after a reply that calls no tool. The
// task then ends as an error: whoever stops a run at every wrong answer gets no more.
const FreeReattempts = 3

// RetryPlan says what is tried again: model calls within an attempt, attempts
// that ended for lack of infrastructure, and attempts that an interruption or a
// stop of the run ended after a reply that calls no tool.
type RetryPlan struct {
	AttemptsPerTask int `json:"attempts_per_task"`
	CallTries       int `json:"call_tries"`
	FreeReattempts  int `json:"free_reattempts,omitzero"` // of a task, in place of lost attempts (see Attempt.Lost); left out: no limit
}

// VotingPlan declares how many answers are gathered and how one is chosen.
type VotingPlan struct {
	Attempts int    `json:"attempts"`
	Rule     string `json:"rule"` // VoteFirst where there is one attempt, else VoteMajority
}

// How the counted attempt is chosen.
const (
	VoteFirst    = "first"
	VoteMajority = "majority.v1"
)

// NewManifest returns a plan with its schema set, whose evidence has heads.
func New() Plan { return Plan{Evidence: EvidenceHeads, Schema: manifestSchema} }

// Scored reports whether a run of the plan has gold answers to be scored by.
func (m Plan) Scored() bool { return m.GoldCommitment != "" }

// Encode returns manifest.json.
func (m Plan) Encode() ([]byte, error) { return canonical.Encode(m) }

// IDsDigest returns the digest of a list of task ids: over its canonical array.
func IDsDigest(ids []string) (string, error) {
	b, err := canonical.Encode(slices.Concat([]string{}, ids))
	if err != nil {
		return "", err
	}
	return canonical.Digest(b), nil
}

// commitment is what a plan commits to about the answers.
type commitment struct {
	Gold map[string]string `json:"gold"`
	Salt string            `json:"salt"`
}

// Commitment returns the digest by which a manifest commits to the gold
// answers of its tasks without telling them: over canonical {gold, salt}, the
// salt being 32 random bytes, hex, that stay private until the run is judged.
func Commitment(gold map[string]string, salt string) (string, error) {
	b, err := canonical.Encode(commitment{gold, salt})
	if err != nil {
		return "", err
	}
	return canonical.Digest(b), nil
}
