// Package plan holds the plan of a run: what manifest.json contains, and nothing else.
//
// Flags, the settings file, --like and resume fill one [Plan]; internal/run adds digests and the salted commitment to
// the gold answers and signs it before a model is asked. [Decode] accepts only canonical JSON of the current schema
// whose members agree with each other (rundir.TestDecodeManifestRefuses, rundir.FuzzDecodeManifest); it names the
// version that reads an older schema. Diff compares two plans member by member. Money is in micro-USD, times in
// milliseconds, temperature in thousandths. docs/formats.md lists the members.
package plan

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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

// Plan is what [ManifestFile] contains: all that decides the result of a run, signed before a model is asked.
type Plan struct {
	Agent              *AgentPlan         `json:"agent,omitzero"`     // left out: the built-in agent
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
	Shards             int                `json:"shards,omitzero"` // that its tasks are divided into; left out: it runs in one process
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
	CarriedGold    bool     `json:"carried_gold"`
	ErrorsOf       ErrorsOf `json:"errors_of,omitzero"` // left out: the tasks were not chosen by an outcome
	Hub            string   `json:"hub,omitzero"`       // scheme and host of the hub that has it; "" for another source
	IDsSHA256      string   `json:"ids_sha256"`         // of all ids of the split, in order
	Levels         [3]int   `json:"levels"`             // how many tasks of the split are of level 1, 2 and 3
	MetadataFile   string   `json:"metadata_file"`
	MetadataSHA256 string   `json:"metadata_sha256"`
	Name           string   `json:"name"`
	Revision       string   `json:"revision"`
	Selection      string   `json:"selection"` // "all" or the rule of the subset
	Split          string   `json:"split"`
	SplitSize      int      `json:"split_size"`
}

// ErrorsOf names the run in which all tasks of a plan failed for infrastructure, and how many tasks it planned. They were
// chosen when that run's outcomes were known, so their score is none of a split.
type ErrorsOf struct {
	ManifestSHA256 string `json:"manifest_sha256"`
	Planned        int    `json:"planned"`
	RunID          string `json:"run_id"`
}

// SplitPlan identifies a split of a dataset by its task ids.
type SplitPlan struct {
	CarriedGold bool   `json:"carried_gold"`
	IDsSHA256   string `json:"ids_sha256"` // of the canonical array of its ids, sorted
	Name        string `json:"name"`
	Size        int    `json:"size"`
}

// PlannedTask is one task of the plan. QuestionSHA256 fixes the question; see [QuestionDigest]. FileSHA256 fixes the
// attachment.
type PlannedTask struct {
	FileBytes      int64  `json:"file_bytes,omitzero"`
	FileName       string `json:"file_name,omitzero"`
	FileSHA256     string `json:"file_sha256,omitzero"`
	Level          int    `json:"level"`
	QuestionSHA256 string `json:"question_sha256,omitzero"` // "" before a run is created
	TaskID         string `json:"task_id"`
}

// ModelPlan says which model answers, and how it is asked. Temperature is in thousandths.
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

// TranscriptionPlan says which model transcribes audio files.
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

// JudgePlan says which model judges, by which prompt, and whether verdicts may come from the signed cache. No verdict
// counts of a judge that has not passed the null battery.
type JudgePlan struct {
	Battery      string `json:"battery_sha256,omitzero"` // "": no self-test is planned
	Cache        bool   `json:"cache"`
	Endpoint     string `json:"endpoint_sha256,omitzero"` // of its base URL; a host can have other judges at other paths
	Model        string `json:"model"`
	Origin       string `json:"origin"`
	Prompt       string `json:"prompt"`
	PromptSHA256 string `json:"prompt_sha256"`
}

// Budgets bound an attempt, and the run. Money, tokens and tool calls of the attempts that failed before it count, too.
// Money is in micro-USD; 0 is no limit.
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

// Offered returns the tools that the policy lets the model have. Tools also lists those that it always denies: a call
// of one is denied by its class, not as unknown.
func (m Plan) Offered() []ToolPlan {
	return slices.DeleteFunc(slices.Clone(m.Tools), func(t ToolPlan) bool { return !m.Policy.Offers(t.Name) })
}

// ToolPlan is a tool as it is described to the model; SchemaSHA256 is over the parameters' schema as sent.
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
	// NetworkRecord is that of an own agent whose exchanges are recorded.
	NetworkRecord = "record"
)

// Remote reports whether the tool is of a server that is asked over HTTP.
func (t ToolPlan) Remote() bool { return strings.Contains(t.Server, " ") }

// FreeReattempts is how many attempts at a task are made in place of those that an interruption or a stop of the run
// ended after a reply that calls no tool. The task then ends as an error: whoever stops a run at every wrong answer
// gets no more.
const FreeReattempts = 3

// RetryPlan says what is tried again: model calls within an attempt, attempts that ended for lack of infrastructure,
// and attempts that an interruption or a stop of the run ended after a reply that calls no tool.
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

// New returns a plan with its schema set, whose evidence has heads.
func New() Plan { return Plan{Evidence: EvidenceHeads, Schema: manifestSchema} }

// KnownTexts returns the texts that the journal does not repeat.
func (m Plan) KnownTexts() *trajectory.KnownTexts {
	texts := make([]string, len(m.Prompts))
	for i, p := range m.Prompts {
		texts[i] = p.Text
	}
	return trajectory.NewKnownTexts(texts, m.Evidence == EvidenceHashes)
}

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

// Commitment returns the digest by which a manifest commits to the gold answers of its tasks without telling them: over
// canonical {gold, salt}, the salt being 32 random bytes, hex, that stay private until the run is judged.
func Commitment(gold map[string]string, salt string) (string, error) {
	b, err := canonical.Encode(struct {
		Gold map[string]string `json:"gold"`
		Salt string            `json:"salt"`
	}{gold, salt})
	if err != nil {
		return "", err
	}
	return canonical.Digest(b), nil
}

// Refuses says what about a null battery is not of this judge, or contradicts itself; "" if nothing.
func (j *JudgePlan) Refuses(b trajectory.JudgeBattery) (reason string) {
	named := slices.Concat(b.Accepted, b.Refused, b.Unreadable)
	slices.Sort(named)
	faultless := b.Problem == "" && len(b.Accepted)+len(b.Unreadable) == 0
	switch {
	case j.Battery == "" || b.Model != j.Model || b.Prompt != j.Prompt || b.SHA256 != j.Battery:
		return "is of another self-test, or another judge, than the plan's"
	case len(slices.Compact(named)) != len(b.Accepted)+len(b.Refused)+len(b.Unreadable) || len(named) > b.Asked:
		return "miscounts the items of its self-test"
	case b.Cached && (!j.Cache || b.Asked != 0 || b.Tries != 0 || b.Problem != "" || b.ErrorStatus != 0 || b.LatencyMs != 0 ||
		b.CostMicroUSD == nil || *b.CostMicroUSD != 0 || b.TokensIn != 0 || b.TokensOut != 0):
		return "has a cached self-test without a cache, or asks the judge as well"
	case !b.Cached && (b.Tries < b.Asked || b.Asked == 0 && b.Problem == ""):
		return "has more items than requests to the judge"
	case b.LatencyMs < 0 || b.ErrorStatus < 0 || b.Problem == "" && b.ErrorStatus != 0:
		return "has a negative time, or a failed request without a problem"
	case b.Passed && (!faultless || !b.Cached && 2*len(b.Refused) >= b.Asked), !b.Passed && !b.Cached && faultless && 2*len(b.Refused) < b.Asked:
		return "has another outcome than its self-test gives"
	}
	return ""
}

// ConstitutionFile holds the bytes of policy.Constitution for the plan's policy.
const ConstitutionFile = "constitution.json"

// MaxConstitution bounds it, in bytes. A policy file has at most 64 KiB.
const MaxConstitution = 1 << 20

// Govern sets the policy of a plan and all members that follow from it.
func (m *Plan) Govern(p policy.Policy) {
	constitution := policy.Constitution(p)
	m.Policy, m.PolicyHash, m.PolicyMode = p.Canonical(), p.Hash(), string(p.Mode)
	m.ConstitutionSHA256, m.GuidanceHash = canonical.Digest(constitution), policy.GuidanceHash(constitution)
	m.DenylistSHA256 = policy.DenylistDigest()
}

// PreflightModel returns the model that a kind of preflight asks; false if the plan has none.
func (m Plan) PreflightModel(kind string) (model string, planned bool) {
	switch {
	case kind == trajectory.PreflightModel, kind == trajectory.PreflightTools && len(m.Tools) > 0:
		return m.Model.Name, true
	case kind == trajectory.PreflightJudge && m.Judge != nil:
		return m.Judge.Model, true
	case kind == trajectory.PreflightVision && m.Vision != nil:
		return m.Vision.Model, true
	case kind == trajectory.PreflightTranscription && m.Transcription != nil:
		return m.Transcription.Model, true
	}
	return "", false
}

// TaskSalt returns the salt of a task: HMAC-SHA256 of its id under the secret of the run. Secret and salt are 32 bytes
// in hexadecimal. The salt is public from the task's task_sealed on; the secret never is.
func TaskSalt(secret, taskID string) (string, error) {
	key, err := hex.DecodeString(secret)
	if err != nil || len(key) != sha256.Size {
		return "", fmt.Errorf("the secret of the run is not 32 bytes in hexadecimal")
	}
	return hex.EncodeToString(mac(key, []byte(taskID))), nil
}

// AnsweredBy names what answered the tasks of a run. RepliedAs, RepliedOther and all harnesses after the first follow
// from the journal, everything else from the plan.
type AnsweredBy struct {
	Agent        string               `json:"agent"`       // AgentBuiltIn, or the label of an own agent
	CleanBuild   bool                 `json:"clean_build"` // every harness was built from a known commit without changes
	Harnesses    []trajectory.Harness `json:"harnesses"`   // of the plan, and each other one that resumed the run
	MCPServers   []string             `json:"mcp_servers"` // sorted, with the origin of those asked over HTTP
	Model        string               `json:"model"`
	Origin       string               `json:"origin"`                 // of the model's endpoint, and of another one for the messages dialect
	Own          *OwnAgent            `json:"own_agent,omitzero"`     // left out: the built-in agent
	RepliedAs    []string             `json:"replied_as"`             // the model's names in its replies, sorted; at most MaxReplied
	RepliedOther bool                 `json:"replied_other,omitzero"` // there are replies under other names
	Search       *SearchPlan          `json:"search,omitzero"`        // left out: the agent has no search engine
	ServedAs     []string             `json:"served_as"`              // the model's other names, declared by the plan
}

// OwnAgent names an own agent, and what confined it, as the plan does.
type OwnAgent struct {
	FilesSHA256 string `json:"files_sha256"`
	Name        string `json:"name"`
	Network     string `json:"network"`
	Tools       string `json:"tools"`
	Unconfined  bool   `json:"unconfined,omitzero"`
}

// AnsweredBy returns what the plan names, and no reply.
func (m Plan) AnsweredBy() AnsweredBy {
	by := AnsweredBy{Agent: AgentBuiltIn, Harnesses: []trajectory.Harness{m.Harness}, MCPServers: []string{}, Model: m.Model.Name, Origin: m.Model.Origin,
		RepliedAs: []string{}, Search: m.Search, ServedAs: slices.Concat([]string{}, m.Model.ServedAs)}
	if m.Agent != nil {
		by.Agent = m.Agent.Label()
		if m.Agent.MessagesOrigin != "" {
			by.Origin += " and " + m.Agent.MessagesOrigin
		}
		by.Own = &OwnAgent{FilesSHA256: m.Agent.FilesSHA256, Name: m.Agent.Name, Network: m.Agent.Network, Tools: m.Agent.Tools, Unconfined: m.Agent.Unconfined}
	}
	for _, t := range m.Offered() {
		if server, found := strings.CutPrefix(t.Server, "mcp:"); found {
			by.MCPServers = append(by.MCPServers, server)
		}
		if t.Name == "web_search" && t.Server == "" && by.Search == nil {
			by.Search = &SearchPlan{Engine: searchBuiltIn}
		}
	}
	slices.Sort(by.MCPServers)
	by.MCPServers = slices.Compact(by.MCPServers)
	return by.Resumed()
}

// Resumed adds other harnesses that continued the run, each once.
func (by AnsweredBy) Resumed(others ...trajectory.Harness) AnsweredBy {
	for _, h := range others {
		if !slices.Contains(by.Harnesses, h) {
			by.Harnesses = append(by.Harnesses, h)
		}
	}
	by.CleanBuild = !slices.ContainsFunc(by.Harnesses, func(h trajectory.Harness) bool { return h.Dirty || h.Commit == "" })
	return by
}

const (
	AgentBuiltIn  = "built-in" // the agent of this program
	searchBuiltIn = "built-in" // the search of a rehearsal
)

// What a plan calls a dataset that is, or may be, GAIA: its name on the hub, and a directory of the user's.
const (
	GaiaName      = "gaia-benchmark/GAIA"
	DirectoryName = "directory"
)

// ClaimsGAIA reports whether the dataset is GAIA by its name, or a copy of what only the user knows.
func (d Dataset) ClaimsGAIA() bool {
	return strings.EqualFold(d.Name, GaiaName) || d.Name == DirectoryName
}

// CheckDatasetName refuses a name that can be mistaken for GAIA's: one with characters other than printable ASCII, or
// with space at an end, and one whose owner or last part only looks like GAIA's, such as "GAlA" with a small L.
func CheckDatasetName(name string) error {
	if name != strings.TrimSpace(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fmt.Errorf("the dataset name %+q has characters that can be invisible or look like others", name)
	}
	alike := strings.NewReplacer("l", "i", "1", "i", "|", "i", "!", "i", "rn", "m")
	for _, part := range strings.Split(name, "/") {
		for _, genuine := range strings.Split(GaiaName, "/") {
			if !strings.EqualFold(part, genuine) && alike.Replace(strings.ToLower(part)) == strings.ToLower(genuine) {
				return fmt.Errorf("the dataset name %q looks like %q and is not", name, GaiaName)
			}
		}
	}
	return nil
}

// Mismatch compares the split, whole as it was read, with what GAIA declares of it. It returns "" where they agree or
// the dataset does not claim to be GAIA, and otherwise a sentence without its full stop.
func (d Dataset) Mismatch() string {
	want := [3]int{53, 86, 26} // tasks of level 1, 2 and 3, by the dataset's own card
	if d.Split == "test" {
		want = [3]int{93, 159, 49}
	}
	if d.Levels == want || !d.ClaimsGAIA() {
		return ""
	}
	sum := func(l [3]int) int { return l[0] + l[1] + l[2] }
	return fmt.Sprintf("split %s has %d tasks (%d/%d/%d by level), where GAIA has %d (%d/%d/%d)", d.Split,
		sum(d.Levels), d.Levels[0], d.Levels[1], d.Levels[2], sum(want), want[0], want[1], want[2])
}

// QuestionDigest returns the question_sha256 of a task with this salt: HMAC-SHA256 of the question's SHA-256. Without
// the salt a guess at the question cannot be tested.
func QuestionDigest(salt, question string) (string, error) {
	key, err := hex.DecodeString(salt)
	if err != nil || len(key) != sha256.Size {
		return "", fmt.Errorf("the salt of the task is not 32 bytes in hexadecimal")
	}
	return SaltedQuestion(key, sha256.Sum256([]byte(question))), nil
}

// SaltQuestion fills in the question_sha256 of a planned task.
func (p *PlannedTask) SaltQuestion(secret, question string) error {
	salt, err := TaskSalt(secret, p.TaskID)
	if err == nil {
		p.QuestionSHA256, err = QuestionDigest(salt, question)
	}
	return err
}

// Unsalted returns a plan without the digests of its questions, which differ in any two runs.
func (m Plan) Unsalted() Plan {
	m.Tasks = slices.Clone(m.Tasks)
	for i := range m.Tasks {
		m.Tasks[i].QuestionSHA256 = ""
	}
	return m
}

func SaltedQuestion(salt []byte, question [sha256.Size]byte) string {
	return canonical.DigestText([sha256.Size]byte(mac(salt, question[:])))
}

func mac(key, message []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(message)
	return h.Sum(nil)
}
