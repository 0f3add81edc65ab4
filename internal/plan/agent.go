package plan

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/policy"
)

// AgentFilesFile lists the files of an own agent's folder and of the folders that it is given, one canonical [AgentFile]
// a line: first the agent's folder, then the others in the order of the plan, each by path.
const AgentFilesFile = "agent-files.jsonl"

// AgentPlan says which program solves the tasks in place of the built-in agent, and what confines it. docs/agents.md has
// the contract.
type AgentPlan struct {
	Calls          int               `json:"calls"`                    // model calls of an attempt, at most
	Command        []string          `json:"command"`                  // with its arguments; the program is a path in the folder, or an absolute one
	DiskBytes      int64             `json:"disk_bytes"`               // of what an attempt may leave in its working folder
	Env            []string          `json:"env,omitempty"`            // names of variables that are passed on, sorted
	FilesSHA256    string            `json:"files_sha256"`             // of AgentFilesFile
	Folders        []AgentFolder     `json:"folders"`                  // the agent's own first, then the others that it is given
	MemoryBytes    int64             `json:"memory_bytes"`             // of all processes of an attempt
	MessagesOrigin string            `json:"messages_origin,omitzero"` // scheme and host of the endpoint for the messages dialect; "" where it is that of the model
	Models         map[string]string `json:"models,omitempty"`         // further models that it may ask, and the name of each in replies
	Name           string            `json:"name"`                     // of the recipe or the folder
	Network        string            `json:"network"`                  // NetworkNone, NetworkRecord or NetworkHost
	Probed         *AgentProbe       `json:"probed,omitzero"`          // left out: nothing was looked for
	Processes      int               `json:"processes"`                // of an attempt, at once
	Strip          bool              `json:"strip,omitzero"`           // tools that the provider runs are taken out of requests, in place of refusing them
	SystemSHA256   string            `json:"system_sha256,omitzero"`   // of the names and versions of the packages of this machine, a line each, sorted; left out: there is no list of them
	TimeoutMs      int64             `json:"timeout_ms"`               // of an attempt
	Tools          string            `json:"tools"`                    // AgentToolsGate or AgentToolsNone
	Unconfined     bool              `json:"unconfined,omitzero"`      // it runs outside of the sandbox
}

// AgentFolder is a folder that an own agent can read. Path is where it lies; the agent sees it there, too.
type AgentFolder struct {
	Bytes  int64  `json:"bytes"`
	Files  int    `json:"files"`
	Path   string `json:"path"`
	SHA256 string `json:"sha256"` // of its lines of AgentFilesFile
}

// AgentProbe counts what was found in the folders of an own agent before the run. Package agentdir says how they are looked through.
type AgentProbe struct {
	Answers   int          `json:"answers,omitzero"`   // tasks whose gold answer stands by their id, or by their question
	Bytes     int64        `json:"bytes"`              // that were looked through, unpacked
	Files     int          `json:"files"`              // that were looked through
	Found     []AgentFound `json:"found,omitempty"`    // the files with most, at most MostAgentFound
	IDs       int          `json:"ids,omitzero"`       // tasks whose id is there
	Listed    int          `json:"listed,omitzero"`    // tasks whose gold answer is an entry of a list
	Native    int          `json:"native,omitzero"`    // programs for this machine, of which only the texts were looked at
	Questions int          `json:"questions,omitzero"` // tasks whose question is there, or a digest of it
	Stopped   string       `json:"stopped,omitzero"`   // "bytes" or "time": which bound was reached; left out: none
	Unread    int          `json:"unread,omitzero"`    // files, and files in archives, that could not be looked through
}

// AgentFound counts what was found in one file, or in an archive with all that is in it.
type AgentFound struct {
	Answers   int `json:"answers,omitzero"`
	IDs       int `json:"ids,omitzero"`
	Line      int `json:"line"` // of AgentFilesFile, from 1
	Listed    int `json:"listed,omitzero"`
	Questions int `json:"questions,omitzero"`
}

// MostAgentFound bounds the files of which is counted what was found.
const MostAgentFound = 100

// AgentFile is a line of [AgentFilesFile]. A link has no digest.
type AgentFile struct {
	Bytes      int64  `json:"bytes"`
	Executable bool   `json:"executable,omitzero"`
	Folder     int    `json:"folder"` // its place in AgentPlan.Folders, from 0
	Link       string `json:"link,omitzero"`
	Path       string `json:"path"` // in the folder, with slashes
	SHA256     string `json:"sha256,omitzero"`
}

// Where an own agent has its tools from: the Gate of the run, or itself.
const (
	AgentToolsGate = "gate"
	AgentToolsNone = "none"
)

// UnconfinedAgent is what Plan.Unconfined calls an own agent that runs outside of the sandbox.
const UnconfinedAgent = "agent"

// Limits of an own agent's folders, all together, and of the list of their files.
const (
	MaxAgentFiles = 200_000
	MaxAgentBytes = 2 << 30
	MaxAgentList  = 128 << 20 // bytes of AgentFilesFile
)

// Limits of the other members of an own agent's plan.
const (
	MaxAgentFolders   = 64
	MaxAgentEnv       = 256
	MaxAgentModels    = 64
	MaxAgentCalls     = 1_000_000
	MaxAgentProcesses = 65_536
	MinAgentMemory    = 16 << 20
	MaxAgentMemory    = 1 << 40
	MinAgentDisk      = 1 << 20
	MaxAgentDisk      = 1 << 40
	MinAgentTime      = time.Second
	MaxAgentTime      = 7 * 24 * time.Hour
	maxRecordedTime   = 47 * time.Hour // with the recorded network, whose certificates are valid for 48 hours
	maxAgentCommand   = 64 << 10       // bytes of all words
	maxAgentName      = 128
)

// DefaultAgent returns the plan of an own agent for which nothing is set, without its name and folders.
func DefaultAgent() AgentPlan {
	return AgentPlan{Calls: 2000, Command: []string{"agent"}, DiskBytes: 1 << 30, MemoryBytes: 4 << 30, Network: NetworkNone, Processes: 256,
		TimeoutMs: (30 * time.Minute).Milliseconds(), Tools: AgentToolsGate}
}

// Fault says what an own agent's plan has that no agent can have; "" if nothing.
func (a *AgentPlan) Fault() string {
	files, size := 0, int64(0)
	for i, f := range a.Folders {
		switch {
		case !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || strings.ContainsRune(f.Path, 0):
			return fmt.Sprintf("the path of the agent's folder %q is not absolute and clean", f.Path)
		case f.Files < 0 || f.Files > MaxAgentFiles || f.Bytes < 0 || f.Bytes > MaxAgentBytes:
			return fmt.Sprintf("the agent's folder %q has a number of files or bytes that none can have", f.Path)
		case !canonical.IsDigest(f.SHA256):
			return fmt.Sprintf("the digest of the agent's folder %q is none", f.Path)
		}
		for _, other := range a.Folders[:i] {
			if within(f.Path, other.Path) || within(other.Path, f.Path) {
				return fmt.Sprintf("the agent's folder %q lies in %q, or holds it", f.Path, other.Path)
			}
		}
		files, size = files+f.Files, size+f.Bytes
	}
	words := 0
	for _, word := range a.Command {
		words += len(word)
		if strings.ContainsRune(word, 0) {
			return "the agent's command has a word with a byte 0"
		}
	}
	switch {
	case a.Name == "" || len(a.Name) > maxAgentName || strings.ContainsFunc(a.Name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Sprintf("the agent's name is %q", a.Name)
	case len(a.Folders) == 0 || len(a.Folders) > MaxAgentFolders:
		return fmt.Sprintf("the agent has %d folders, not 1 to %d", len(a.Folders), MaxAgentFolders)
	case files > MaxAgentFiles || size > MaxAgentBytes:
		return "the agent's folders have more files or bytes than an agent can have"
	case !canonical.IsDigest(a.FilesSHA256):
		return "files_sha256 of the agent is not a digest"
	case len(a.Command) == 0 || words > maxAgentCommand:
		return fmt.Sprintf("the agent's command has %d words of %d bytes", len(a.Command), words)
	case !ProgramPath(a.Command[0]):
		return fmt.Sprintf("the agent's program %q is neither a path in its folder nor an absolute one", a.Command[0])
	case !slices.Contains([]string{NetworkNone, NetworkRecord, NetworkHost}, a.Network):
		return fmt.Sprintf("the agent's network is %q", a.Network)
	case a.Unconfined && a.Network != NetworkHost:
		return fmt.Sprintf("the agent runs outside of the sandbox, and its network is %q", a.Network)
	case a.Tools != AgentToolsGate && a.Tools != AgentToolsNone:
		return fmt.Sprintf("the agent's tools are %q", a.Tools)
	case a.Calls < 1 || a.Calls > MaxAgentCalls:
		return fmt.Sprintf("the agent may make %d calls, not 1 to %d", a.Calls, MaxAgentCalls)
	case a.Processes < 1 || a.Processes > MaxAgentProcesses:
		return fmt.Sprintf("the agent may have %d processes, not 1 to %d", a.Processes, MaxAgentProcesses)
	case a.MemoryBytes < MinAgentMemory || a.MemoryBytes > MaxAgentMemory:
		return fmt.Sprintf("the agent may use %d bytes of memory, not %d to %d", a.MemoryBytes, MinAgentMemory, MaxAgentMemory)
	case a.DiskBytes < MinAgentDisk || a.DiskBytes > MaxAgentDisk:
		return fmt.Sprintf("the agent may leave %d bytes, not %d to %d", a.DiskBytes, MinAgentDisk, MaxAgentDisk)
	case a.TimeoutMs < MinAgentTime.Milliseconds() || a.TimeoutMs > MaxAgentTime.Milliseconds():
		return fmt.Sprintf("the agent has %d ms, not %d to %d", a.TimeoutMs, MinAgentTime.Milliseconds(), MaxAgentTime.Milliseconds())
	case a.Network == NetworkRecord && a.TimeoutMs > maxRecordedTime.Milliseconds():
		return fmt.Sprintf("the agent has %d ms, and with the recorded network at most %d", a.TimeoutMs, maxRecordedTime.Milliseconds())
	case !IsSet(a.Env) || len(a.Env) > MaxAgentEnv:
		return "the agent's variables are not sorted, or too many"
	case slices.ContainsFunc(a.Env, func(name string) bool { return !EnvName().MatchString(name) }):
		return "the agent is given a variable that is no name"
	case slices.ContainsFunc(a.Env, func(name string) bool { return SetForAgent(name, a.Network) }):
		return "the agent is given a variable that the run sets"
	case len(a.Models) > MaxAgentModels:
		return fmt.Sprintf("the agent may ask %d further models, and at most %d", len(a.Models), MaxAgentModels)
	}
	if a.SystemSHA256 != "" && !canonical.IsDigest(a.SystemSHA256) {
		return "system_sha256 of the agent is not a digest"
	}
	if a.Probed != nil && !a.Probed.sound(files) {
		return "what was found in the agent's folders has counts that nothing can have"
	}
	for _, asked := range slices.Sorted(maps.Keys(a.Models)) {
		if asked == "" || a.Models[asked] == "" {
			return fmt.Sprintf("the agent's model %q, answered by %q, has no name", asked, a.Models[asked])
		}
	}
	return ""
}

// sound reports whether the counts can be those of so many files.
func (p *AgentProbe) sound(files int) bool {
	last := 0
	for _, f := range p.Found {
		if f.Line <= last || f.Line > files || min(f.Answers, f.IDs, f.Listed, f.Questions) < 0 || max(f.Answers, f.IDs, f.Listed, f.Questions) == 0 ||
			f.Answers > p.Answers || f.IDs > p.IDs || f.Listed > p.Listed || f.Questions > p.Questions {
			return false
		}
		last = f.Line
	}
	return len(p.Found) <= MostAgentFound && (len(p.Found) > 0) == (max(p.Answers, p.IDs, p.Listed, p.Questions) > 0) &&
		min(p.Answers, p.IDs, p.Listed, p.Questions, p.Unread) >= 0 && p.Bytes >= 0 && p.Bytes <= MaxAgentBytes &&
		p.Files >= 0 && p.Files <= files && p.Native >= 0 && p.Native <= p.Files && slices.Contains([]string{"", "bytes", "time"}, p.Stopped)
}

// agentFault checks an own agent, and that the plan has no more of the built-in one.
func agentFault(m Plan) string {
	a := m.Agent
	answers := slices.ContainsFunc(m.Tools, func(t ToolPlan) bool { return t.Name == policy.SubmitAnswer && t.Server == "" })
	if a == nil {
		if slices.Contains(m.Unconfined, UnconfinedAgent) {
			return "unconfined names an agent that the plan does not have"
		}
		if answers {
			return "has the tool " + policy.SubmitAnswer + " and no agent of the user's own"
		}
		return ""
	}
	if reason := a.Fault(); reason != "" {
		return reason
	}
	switch p := a.Probed; {
	case p != nil && max(p.Answers, p.IDs, p.Listed, p.Questions) > len(m.Tasks):
		return "what was found in the agent's folders is of more tasks than the run has"
	case m.SubmitIntent && a.Network == NetworkHost:
		return "is of a run to be submitted with an agent that has the network"
	case a.Unconfined != slices.Contains(m.Unconfined, UnconfinedAgent):
		return "unconfined does not say whether the agent runs in the sandbox"
	case m.Cassette != "":
		return "has an agent of the user's own and a cassette"
	case m.Model.Images || m.Model.ContextWindow != 0 || len(m.Model.Stop) > 0 || m.Budgets.Turns != 0:
		return "has an agent of the user's own and settings of the built-in one"
	case a.Tools == AgentToolsNone && len(m.Tools) > 0:
		return "has tools for an agent that has its own"
	case a.Tools == AgentToolsGate && !answers:
		return "has an agent with tools of the Gate and no tool " + policy.SubmitAnswer
	}
	return ""
}

// within reports whether a path is a folder or lies in it. Both are clean.
func within(p, folder string) bool {
	return p == folder || folder == "/" || strings.HasPrefix(p, folder+"/")
}

// ProgramPath reports whether an own agent's program can be called so: by its path in the agent's folder, or an absolute one.
func ProgramPath(program string) bool {
	clean := path.Clean(program)
	return program != "" && !strings.HasSuffix(program, "/") && clean != "." && clean != ".." && !strings.HasPrefix(clean, "../")
}

// SetForAgent reports whether the run itself gives an own agent with a network a variable of a name, or the name is of a key of
// the run's: the user cannot pass it on.
func SetForAgent(name, network string) bool {
	if network == NetworkRecord && (strings.HasSuffix(strings.ToUpper(name), "_PROXY") || name == "SSL_CERT_DIR" || slices.Contains(AgentTrustVariables(), name)) {
		return true
	}
	return strings.HasPrefix(name, "GAIA_") || strings.HasPrefix(name, "OPENAI_") || strings.HasPrefix(name, "ANTHROPIC_") ||
		slices.Contains([]string{"HF_TOKEN", "HF_TOKEN_PATH", "HOME", "LANG", "PATH", "TMPDIR"}, name)
}

// AgentTrustVariables returns the variables that name the file of certificates which clients of the recorded network trust.
func AgentTrustVariables() []string {
	return []string{"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO",
		"AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO", "DENO_CERT", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "PIP_CERT"}
}

// AgentSource is the source of the messages that an own agent sends.
const AgentSource = "agent"

// The rules by which an own agent gives its answer, by the ids that answer_committed records: the tool submit_answer,
// the file ANSWER of the working folder, and what package prompt finds on standard output.
const (
	RuleSubmitted  = "submit-answer.v1"
	RuleAnswerFile = "answer-file.v1"
)

// AgentRules returns the ids of all rules by which an own agent gives its answer.
func AgentRules() []string {
	return []string{RuleSubmitted, RuleAnswerFile, "final-answer.v1", "final-answer-next.v1"}
}

// AgentAttachment returns the name of an attachment in the working folder of an own agent, which does not tell the
// task's id as the dataset's name of it does: "attachment" and its extension, if that is plain.
func AgentAttachment(ext string) string {
	if !regexp.MustCompile(`^\.[A-Za-z0-9]{1,16}$`).MatchString(ext) {
		ext = ""
	}
	return "attachment" + ext
}

// Asks reports whether an own agent may ask a model.
func (m Plan) Asks(model string) bool {
	if m.Agent == nil || model == m.Model.Name {
		return model == m.Model.Name
	}
	_, ok := m.Agent.Models[model]
	return ok
}

// Label names an own agent and the digest of its folder.
func (a *AgentPlan) Label() string { return a.Name + " " + a.Folders[0].SHA256 }

// RepliesAs returns the name that replies of a model of an own agent have.
func (a *AgentPlan) RepliesAs(model string) string { return cmp.Or(a.Models[model], model) }
