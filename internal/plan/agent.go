package plan

import "cmp"

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
	Network        string            `json:"network"`                  // NetworkNone or NetworkHost
	Processes      int               `json:"processes"`                // of an attempt, at once
	Strip          bool              `json:"strip,omitzero"`           // tools that the provider runs are taken out of requests, in place of refusing them
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

// AgentAttachment returns the name of an attachment in the working folder of an own agent, which does not tell the
// task's id as the dataset's name of it does: "attachment" and its extension.
func AgentAttachment(ext string) string { return "attachment" + ext }

// Asks reports whether an own agent may ask a model.
func (m Plan) Asks(model string) bool {
	if m.Agent == nil || model == m.Model.Name {
		return model == m.Model.Name
	}
	_, ok := m.Agent.Models[model]
	return ok
}

// RepliesAs returns the name that replies of a model of an own agent have.
func (a *AgentPlan) RepliesAs(model string) string { return cmp.Or(a.Models[model], model) }
