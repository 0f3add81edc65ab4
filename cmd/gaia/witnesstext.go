package main

import (
	"encoding/hex"
	"fmt"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory/witness"
	"github.com/go-json-experiment/json/jsontext"
	"io"
	"strings"
	"time"
)

// witnessJSON is what show prints of a bundle with --json.
type witnessJSON struct {
	TaskID           string             `json:"task_id"` // 32 hexadecimal digits
	PolicyHash       string             `json:"policy_hash"`
	CreatedNs        uint64             `json:"created_ns"`
	Outcome          uint8              `json:"outcome"`
	Mode             uint8              `json:"mode"`
	Flags            uint16             `json:"flags"`
	Signed           bool               `json:"signed"`
	ToolCalls        int                `json:"tool_calls"`
	Cost             int64              `json:"cost"` // micro-USD
	LatencyMs        int64              `json:"latency_ms"`
	Tokens           int64              `json:"tokens"`
	Retries          int                `json:"retries"`
	Sections         int                `json:"sections"`
	Size             int                `json:"size"`
	EvidenceComplete bool               `json:"evidence_complete"`
	Trace            []witnessEntryJSON `json:"trace"`
	Rehearsal        bool               `json:"rehearsal,omitzero"`

	Conduct jsontext.Value `json:"conduct,omitzero"` // its bytes in bundles that gaia wrote
}

type witnessEntryJSON struct {
	Action    string `json:"action"` // what is not UTF-8 is U+FFFD
	Policy    uint8  `json:"policy"`
	LatencyMs int64  `json:"latency_ms"`
	Cost      int64  `json:"cost"` // micro-USD
	Tokens    int64  `json:"tokens"`
}

func newWitnessJSON(w witness.Bundle) witnessJSON {
	out := witnessJSON{TaskID: hex.EncodeToString(w.TaskID[:]), PolicyHash: hex.EncodeToString(w.PolicyHash[:]), CreatedNs: w.CreatedNs,
		Outcome: w.Outcome, Mode: w.Mode, Flags: w.Flags, Signed: w.Signed(), ToolCalls: w.ToolCalls, Cost: w.CostMicroUSD, LatencyMs: w.LatencyMs,
		Tokens: w.Tokens, Retries: w.Retries, Sections: len(w.Sections), Size: w.Size, EvidenceComplete: w.EvidenceComplete(), Trace: []witnessEntryJSON{},
		Rehearsal: w.Rehearsal()}
	if value, says := w.Section(witness.Governance); says {
		out.Conduct = value
	}
	for _, c := range w.Trace() {
		out.Trace = append(out.Trace, witnessEntryJSON{strings.ToValidUTF8(c.Action, "\ufffd"), c.Policy, c.LatencyMs, c.CostMicroUSD, c.Tokens})
	}
	return out
}

// writeTrace writes a line for each call, with what all to it took together.
func writeTrace(w io.Writer, calls []witness.Entry) {
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

// conductText says what a bundle's own section counts.
func conductText(w witness.Bundle) string {
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

func outcomeName(outcome uint8) string {
	return []string{witness.Solved: "solved", witness.Failed: "failed", witness.Skipped: "skipped or unscored", witness.Error: "error"}[outcome]
}

func modeName(mode uint8) string {
	return []string{witness.Restricted: "restricted", witness.Approved: "approved", witness.Autonomous: "autonomous"}[mode]
}

func policyName(check uint8) string {
	return []string{witness.Allow: "allowed", witness.Deny: "denied", witness.Confirm: "confirmed"}[check]
}

func sectionName(tag uint16) string {
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

// createdText is a time of a bundle, or its number where no calendar of ours has it.
func createdText(ns uint64) string {
	if ns > 1<<63-1 {
		return fmt.Sprintf("%d ns after 1970", ns)
	}
	return time.Unix(0, int64(ns)).UTC().Format(time.RFC3339Nano)
}

func durationText(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

// writeCalls writes what the attempt took, which is more than its calls did, and these.
func writeCalls(out io.Writer, w witness.Bundle) {
	fmt.Fprintf(out, "\n3. trace: the attempt took %s, %s and %d tokens; its %s, ", durationText(w.LatencyMs), view.Dollars(&w.CostMicroUSD), w.Tokens, view.Count(w.ToolCalls, "call"))
	if _, ok := w.Section(witness.Trace); ok {
		calls := w.Trace()
		var sum witness.Entry
		for _, c := range calls {
			sum.LatencyMs, sum.CostMicroUSD, sum.Tokens = sum.LatencyMs+c.LatencyMs, sum.CostMicroUSD+c.CostMicroUSD, sum.Tokens+c.Tokens
		}
		fmt.Fprintf(out, "%s, %s and %d tokens\n", durationText(sum.LatencyMs), view.Dollars(&sum.CostMicroUSD), sum.Tokens)
		writeTrace(out, calls)
	} else {
		fmt.Fprintln(out, "not recorded")
	}
}

// writeWhole writes the whole of a section, indented, so that it cannot pass for a
// line of ours.
func writeWhole(w io.Writer, bundle witness.Bundle, tag uint16, empty string) {
	value, ok := bundle.Section(tag)
	text := strings.TrimRight(string(value), "\n")
	switch {
	case !ok:
		text = "(not recorded)"
	case text == "":
		text = "(" + empty + ")"
	}
	fmt.Fprintf(w, "  %s:\n    %s\n", sectionName(tag), strings.ReplaceAll(text, "\n", "\n    "))
}
