// Package policy decides whether a tool call may run. It is the one place for that: the Gate asks it
// before a call, the audit asks it afterwards, so that what the audit would flag is refused.
//
// It promises:
//
//   - Decide is total. An unknown tool, an unknown mode, a nonsense budget and a tool on the deny list
//     are denied, whatever else holds (TestDecideIsTotal).
//   - The same policy and call give the same decision: nothing is read but the arguments and the data
//     embedded here (no network, no process, no clock, no randomness).
//   - Every rule has an id and a version. A policy, and the constitution that it makes of the rules,
//     each have a hash that every change of meaning changes, and nothing else (TestHash, TestConstitution).
//   - Answer sources are found behind proxies, archives, translators and up to three layers of percent
//     encoding, in time linear in the URL (TestDenylist, FuzzClassify), and honest pages about other
//     things called gaia are left alone (TestHonestPages).
//   - A query or an address that looks for the answers, or for the task by its id, is refused like one that leads to
//     them; honest questions about other things called gaia are not (TestSeeks, FuzzSeeks).
//   - Code is read as its interpreter reads it, in time linear in its length (BenchmarkHostileCode): a comment, or a
//     string that is data, breaks no rule (TestCodeRules, FuzzCode).
//   - A policy file adds to the rules and takes nothing from them; its first mistake is returned as one
//     *FileError with its place (TestParse, FuzzParse).
//
// The answer sources are a versioned data file, denylist.json, whose note says how it is matched. The other lists of the
// rules are rules.json.
package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Mode says how much a run may do on its own.
type Mode string

const (
	Restricted Mode = "restricted" // read-only tools, whatever else is on the allow list
	Approved   Mode = "approved"   // all tools, each call confirmed by a person
	Autonomous Mode = "autonomous" // all tools
)

// Unlimited switches a budget off. 0 is a budget that is already spent.
const Unlimited = -1

// EveryTool in a list of tool names stands for all of them.
const EveryTool = "*"

// Policy is what a run is allowed. Deny wins over Allow. The zero value allows nothing. What the rules
// forbid can be added to and never taken from.
type Policy struct {
	Mode            Mode     `json:"mode"`
	Allow           []string `json:"allow"`                    // tool names, or EveryTool
	Deny            []string `json:"deny"`                     // tool names, or EveryTool
	Confirm         []string `json:"confirm,omitempty"`        // tool names, or EveryTool, that need a person in any mode
	MaxToolCalls    int      `json:"max_tool_calls,string"`    // per task; Unlimited = none
	MaxCostMicroUSD int64    `json:"max_cost_microusd,string"` // per task; Unlimited = none
	AnswerSources   []string `json:"answer_sources,omitempty"` // further ones for R001: host, or host/path, of a URL, also behind a proxy
	Commands        []string `json:"commands,omitempty"`       // further ones for R004
	Packages        []string `json:"packages,omitempty"`       // further ones for R005
}

// Builtin returns the policy of a mode as the program ships it.
func Builtin(m Mode) (Policy, error) {
	switch m {
	case Restricted:
		return Policy{Mode: m, Allow: readers(), MaxToolCalls: 50, MaxCostMicroUSD: 10_000}, nil
	case Approved:
		return Policy{Mode: m, Allow: []string{EveryTool}, MaxToolCalls: 200, MaxCostMicroUSD: 100_000}, nil
	case Autonomous:
		return Policy{Mode: m, Allow: []string{EveryTool}, MaxToolCalls: 500, MaxCostMicroUSD: 1_000_000}, nil
	}
	return Policy{}, fmt.Errorf("unknown governance mode %q: it is one of restricted, approved, autonomous", m)
}

// Exhausted reports whether no further call fits the budgets of a task that has made so many calls and
// spent so many micro-USD.
func (p Policy) Exhausted(toolCalls int, costMicroUSD int64) bool {
	return spent(int64(toolCalls), int64(p.MaxToolCalls)) || spent(costMicroUSD, p.MaxCostMicroUSD)
}

// spent fails closed: numbers that cannot be are a spent budget.
func spent(used, limit int64) bool {
	if used < 0 {
		return true
	}
	return limit != Unlimited && used >= limit
}

// Hash returns the first 8 bytes, in hex, of the SHA-256 of the policy's canonical form:
//
//	{"allow":["read_file"],"deny":[],"max_cost_microusd":"10000","max_tool_calls":"50","mode":"restricted"}
//
// RFC 8785, lists sorted and without repetition (their order means nothing), those that a policy need
// not have left out where they are empty, integers as strings.
func (p Policy) Hash() string {
	return hash(canonical(p.Canonical()))
}

// Canonical returns p with its lists sorted and without repetition: equal policies are the same then.
func (p Policy) Canonical() Policy {
	for _, names := range []*[]string{&p.Allow, &p.Deny, &p.Confirm, &p.AnswerSources, &p.Commands, &p.Packages} {
		*names = set(*names)
	}
	return p
}

// Named returns the names of tools in p's lists, sorted and without repetition. EveryTool is none.
func (p Policy) Named() []string {
	names := set(slices.Concat(p.Allow, p.Deny, p.Confirm))
	return slices.DeleteFunc(names, func(name string) bool { return name == EveryTool })
}

func set(names []string) []string {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

// canonical returns v as canonical JSON. It cannot fail: it is given strings, integers and lists of
// them, and the embedded denylist.
func canonical(v any) []byte {
	b, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true))
	if err == nil {
		err = (*jsontext.Value)(&b).Canonicalize()
	}
	if err != nil {
		panic("policy: no canonical form: " + err.Error())
	}
	return b
}

// hash returns the first 16 hex digits of the SHA-256 of b.
func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
