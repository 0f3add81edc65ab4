package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
	"slices"
	"strings"
)

// Refuses says what about a null battery is not of this judge, or contradicts itself;
// "" if nothing.
func (j *JudgePlan) Refuses(b trajectory.JudgeBattery) (reason string) {
	named := slices.Concat(b.Paid, b.Refused, b.Unreadable)
	slices.Sort(named)
	faultless := b.Problem == "" && len(b.Paid)+len(b.Unreadable) == 0
	switch {
	case j.Battery == "" || b.Model != j.Model || b.Prompt != j.Prompt || b.SHA256 != j.Battery:
		return "tells of another null battery, or another judge, than the plan's"
	case len(slices.Compact(named)) != len(b.Paid)+len(b.Refused)+len(b.Unreadable) || len(named) > b.Put:
		return "miscounts the items of its null battery"
	case b.Remembered && (!j.Cache || b.Put != 0 || b.Tries != 0 || b.Problem != "" || b.ErrorStatus != 0 || b.LatencyMs != 0 ||
		b.CostMicroUSD == nil || *b.CostMicroUSD != 0 || b.TokensIn != 0 || b.TokensOut != 0):
		return "remembers a null battery that it has no cache for, or asks it, too"
	case !b.Remembered && (b.Tries < b.Put || b.Put == 0 && b.Problem == ""):
		return "has put more items to the judge than it asked it"
	case b.LatencyMs < 0 || b.ErrorStatus < 0 || b.Problem == "" && b.ErrorStatus != 0:
		return "took less than no time, or could not ask the judge and names no problem"
	case b.Withstood && (!faultless || !b.Remembered && 2*len(b.Refused) >= b.Put), !b.Withstood && !b.Remembered && faultless && 2*len(b.Refused) < b.Put:
		return "draws another conclusion from its null battery than there is"
	}
	return ""
}

// ConstitutionFile holds the bytes of policy.Constitution for the plan's policy.
const ConstitutionFile = "constitution.json"

// maxConstitution bounds it, in bytes. A policy file has at most 64 KiB.
const MaxConstitution = 1 << 20

// Govern sets the policy of a plan and all members that follow from it.
func (m *Plan) Govern(p policy.Policy) {
	constitution := policy.Constitution(p)
	m.Policy, m.PolicyHash, m.PolicyMode = p.Canonical(), p.Hash(), string(p.Mode)
	m.ConstitutionSHA256, m.GuidanceHash = canonical.Digest(constitution), policy.GuidanceHash(constitution)
	m.DenylistSHA256 = policy.DenylistDigest()
}

// preflightModel returns the model that a kind of preflight asks; false if the
// plan has none.
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

// TaskSalt returns the salt of a task: HMAC-SHA256 of its id under the secret of the
// run. Secret and salt are 32 bytes in hexadecimal. The salt is public from the task's
// task_sealed on; the secret never is.
func TaskSalt(secret, taskID string) (string, error) {
	key, err := hex.DecodeString(secret)
	if err != nil || len(key) != sha256.Size {
		return "", fmt.Errorf("the secret of the run is not 32 bytes in hexadecimal")
	}
	return hex.EncodeToString(mac(key, []byte(taskID))), nil
}

// AnsweredBy names what answered the tasks of a run. RepliedAs, RepliedOther and all
// harnesses after the first follow from the journal, everything else from the j.
type AnsweredBy struct {
	Agent        string               `json:"agent"`
	CleanBuild   bool                 `json:"clean_build"` // every harness was built from a known commit without changes
	Harnesses    []trajectory.Harness `json:"harnesses"`   // of the plan, and each other one that resumed the run
	MCPServers   []string             `json:"mcp_servers"` // sorted, with the origin of those asked over HTTP
	Model        string               `json:"model"`
	Origin       string               `json:"origin"`                 // of the model's endpoint
	RepliedAs    []string             `json:"replied_as"`             // the model's names in its replies, sorted; at most MaxReplied
	RepliedOther bool                 `json:"replied_other,omitzero"` // there are replies under other names
	Search       *SearchPlan          `json:"search,omitzero"`        // left out: the agent has no search engine
	ServedAs     []string             `json:"served_as"`              // the model's other names, declared by the plan
}

// AnsweredBy returns what the plan names, and no reply.
func (m Plan) AnsweredBy() AnsweredBy {
	by := AnsweredBy{Agent: AgentBuiltIn, Harnesses: []trajectory.Harness{m.Harness}, MCPServers: []string{}, Model: m.Model.Name, Origin: m.Model.Origin,
		RepliedAs: []string{}, Search: m.Search, ServedAs: slices.Concat([]string{}, m.Model.ServedAs)}
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
