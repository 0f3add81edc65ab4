// Package witnessview shows witness bundles: as text for people, and as the JSON of 'gaia witness show --json', whose
// members other programs of the format print too. Every text of a bundle is from outside: sections are
// indented, so that none of their lines can look like one of this program, and names are escaped and put on
// one line (witness.txtar). It does not check whose a bundle is; package trajectory/witness does.
package witnessview

import (
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory/witness"
	"github.com/go-json-experiment/json/jsontext"
)

// JSON is what show prints of a bundle with --json.
type JSON struct {
	TaskID           string `json:"task_id"` // 32 hexadecimal digits
	PolicyHash       string `json:"policy_hash"`
	CreatedNs        uint64 `json:"created_ns"`
	Outcome          uint8  `json:"outcome"`
	Mode             uint8  `json:"mode"`
	Flags            uint16 `json:"flags"`
	Signed           bool   `json:"signed"`
	ToolCalls        int    `json:"tool_calls"`
	Cost             int64  `json:"cost"` // micro-USD
	LatencyMs        int64  `json:"latency_ms"`
	Tokens           int64  `json:"tokens"`
	Retries          int    `json:"retries"`
	Sections         int    `json:"sections"`
	Size             int    `json:"size"`
	EvidenceComplete bool   `json:"evidence_complete"`
	Trace            []Call `json:"trace"`
	Rehearsal        bool   `json:"rehearsal,omitzero"`

	Conduct jsontext.Value `json:"conduct,omitzero"` // its bytes in bundles that gaia wrote
}

// Call is one entry of a trace.
type Call struct {
	Action    string `json:"action"` // what is not UTF-8 is U+FFFD
	Policy    uint8  `json:"policy"`
	LatencyMs int64  `json:"latency_ms"`
	Cost      int64  `json:"cost"` // micro-USD
	Tokens    int64  `json:"tokens"`
}

// NewJSON returns the JSON of a bundle.
func NewJSON(w witness.Bundle) JSON {
	out := JSON{TaskID: hex.EncodeToString(w.TaskID[:]), PolicyHash: hex.EncodeToString(w.PolicyHash[:]), CreatedNs: w.CreatedNs,
		Outcome: w.Outcome, Mode: w.Mode, Flags: w.Flags, Signed: w.Signed(), ToolCalls: w.ToolCalls, Cost: w.CostMicroUSD, LatencyMs: w.LatencyMs,
		Tokens: w.Tokens, Retries: w.Retries, Sections: len(w.Sections), Size: w.Size, EvidenceComplete: w.EvidenceComplete(), Trace: []Call{},
		Rehearsal: w.Rehearsal()}
	if value, says := w.Section(witness.Governance); says {
		out.Conduct = value
	}
	for _, c := range w.Trace() {
		out.Trace = append(out.Trace, Call{strings.ToValidUTF8(c.Action, "\ufffd"), c.Policy, c.LatencyMs, c.CostMicroUSD, c.Tokens})
	}
	return out
}

// WriteTrace writes a line for each call, with what all to it took together.
func WriteTrace(w io.Writer, calls []witness.Entry) {
	var ms, cost, tokens int64
	for i, c := range calls {
		ms, cost, tokens = ms+c.LatencyMs, cost+c.CostMicroUSD, tokens+c.Tokens
		fmt.Fprintf(w, "    %d. %s, %s: args %x, result %x, %d ms, %s, %d tokens; so far %d ms, %s, %d tokens\n", i+1, view.Line(c.Action), policyName(c.Policy),
			c.ArgsHash, c.ResultHash, c.LatencyMs, view.Dollars(&c.CostMicroUSD), c.Tokens, ms, view.Dollars(&cost), tokens)
	}
	if len(calls) == 0 {
		fmt.Fprintln(w, "    no calls")
	}
}

// ConductText returns what a bundle counts of denials and rollbacks.
func ConductText(w witness.Bundle) string {
	c, says := w.Conduct()
	if !says {
		return "the bundle does not say"
	}
	text := runview.Conduct(c.Conduct)
	if !c.Recorded {
		text += "; recording of the run failed"
	}
	return text
}

// OutcomeName returns the name of an outcome.
func OutcomeName(outcome uint8) string {
	return []string{witness.Solved: "solved", witness.Failed: "failed", witness.Skipped: "skipped or unscored", witness.Error: "error"}[outcome]
}

// ModeName returns the name of a mode of policy.
func ModeName(mode uint8) string {
	return []string{witness.Restricted: "restricted", witness.Approved: "approved", witness.Autonomous: "autonomous"}[mode]
}

func policyName(check uint8) string {
	return []string{witness.Allow: "allowed", witness.Deny: "denied", witness.Confirm: "confirmed"}[check]
}

// SectionName returns the name of a section by its tag.
func SectionName(tag uint16) string {
	names := []string{witness.Spec: "spec", witness.Plan: "plan", witness.Trace: "trace", witness.Diff: "diff",
		witness.TestLog: "test log", witness.Postmortem: "postmortem"}
	if tag == witness.Note {
		return "note"
	}
	if tag == 0 || int(tag) >= len(names) {
		return fmt.Sprintf("section with the unknown tag %d", tag)
	}
	return names[tag]
}

// CreatedText is a time of a bundle, or its number where no calendar of ours has it.
func CreatedText(ns uint64) string {
	if ns > 1<<63-1 {
		return fmt.Sprintf("%d ns after 1970", ns)
	}
	return time.Unix(0, int64(ns)).UTC().Format(time.RFC3339Nano)
}

// DurationText returns milliseconds as a duration.
func DurationText(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

// WriteCalls writes what the attempt took, which is more than its calls did, and these.
func WriteCalls(out io.Writer, w witness.Bundle) {
	fmt.Fprintf(out, "\n3. trace: the attempt took %s, %s and %d tokens; its %s, ", DurationText(w.LatencyMs), view.Dollars(&w.CostMicroUSD), w.Tokens, view.Count(w.ToolCalls, "call"))
	if _, ok := w.Section(witness.Trace); ok {
		calls := w.Trace()
		var sum witness.Entry
		for _, c := range calls {
			sum.LatencyMs, sum.CostMicroUSD, sum.Tokens = sum.LatencyMs+c.LatencyMs, sum.CostMicroUSD+c.CostMicroUSD, sum.Tokens+c.Tokens
		}
		fmt.Fprintf(out, "%s, %s and %d tokens\n", DurationText(sum.LatencyMs), view.Dollars(&sum.CostMicroUSD), sum.Tokens)
		WriteTrace(out, calls)
	} else {
		fmt.Fprintln(out, "not recorded")
	}
}

// WriteWhole writes the whole of a section, indented, so that it cannot pass for a
// line of ours.
func WriteWhole(w io.Writer, bundle witness.Bundle, tag uint16, empty string) {
	value, ok := bundle.Section(tag)
	text := strings.TrimRight(string(value), "\n")
	switch {
	case !ok:
		text = "(not recorded)"
	case text == "":
		text = "(" + empty + ")"
	}
	fmt.Fprintf(w, "  %s:\n    %s\n", SectionName(tag), strings.ReplaceAll(text, "\n", "\n    "))
}
