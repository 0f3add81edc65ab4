// Package witnessfile reads, counts, shows and writes witness bundles (package trajectory/witness) as files.
//
// [Read] returns one bundle, [Tally] counts thousands for a scorecard, and [Export] writes those of a run: all of
// them or none. The rest shows a bundle: as text for people, and as the JSON of 'gaia witness show --json', whose
// members other programs of the format print too. Every text of a bundle is from outside: sections are
// indented, so that none of their lines can look like one of this program, and names are escaped and put on
// one line (witness.txtar). Only [CheckSigned] checks whose a bundle is.
package witnessfile

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/trajectory"
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
	ErrorsOf         string `json:"errors_of,omitzero"` // id of the run whose errors its run has as its tasks

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
		Rehearsal: w.Rehearsal(), ErrorsOf: w.ErrorsOf()}
	if value, says := w.Section(witness.Governance); says {
		out.Conduct = value
	}
	for _, c := range w.Trace() {
		out.Trace = append(out.Trace, Call{strings.ToValidUTF8(c.Action, "\ufffd"), c.Policy, c.LatencyMs, c.CostMicroUSD, c.Tokens})
	}
	return out
}

// Rows returns the header of a bundle as names and values.
func Rows(w witness.Bundle) [][2]string {
	signed := "no"
	if w.Signed() {
		signed = "yes, not checked: 'gaia witness verify' does, with the key"
	}
	complete := "no: question, diff and test log are not all there"
	if w.EvidenceComplete() {
		complete = "yes: question, diff and test log are there"
	}
	conduct := "the bundle does not say"
	if c, says := w.Conduct(); says {
		conduct = runview.Conduct(c.Conduct)
		if !c.Recorded {
			conduct += "; recording of the run failed"
		}
	}
	created := time.Unix(0, int64(w.CreatedNs)).UTC().Format(time.RFC3339Nano)
	if w.CreatedNs > math.MaxInt64 { // which time has no form for
		created = fmt.Sprintf("%d ns after 1970", w.CreatedNs)
	}
	rows := view.List{{"task", witness.UUID(w.TaskID)}}
	if w.Rehearsal() {
		rows.Add("rehearsal", runview.RehearsalNote)
	}
	rows.AddNonEmpty(runview.ErrorsKey, runview.ErrorsNote(w.ErrorsOf()))
	return append(rows, [][2]string{
		{"outcome", outcomeName(w.Outcome)},
		{"mode", modeName(w.Mode)},
		{"policy", hex.EncodeToString(w.PolicyHash[:])},
		{"created", created},
		{"signed", signed},
		{"calls", fmt.Sprintf("%s, %d model calls retried", view.Count(w.ToolCalls, "tool call"), w.Retries)},
		{"tokens", fmt.Sprint(w.Tokens)},
		{"cost", view.Dollars(&w.CostMicroUSD)},
		{"latency", duration(w.LatencyMs)},
		{"evidence", complete},
		{"governance", conduct},
		{"size", fmt.Sprintf("%s, %s", view.Count(w.Size, "byte"), view.Count(len(w.Sections), "section"))},
	}...)
}

// Sections returns the beginning of each section of a bundle.
func Sections(w witness.Bundle) string {
	out := &strings.Builder{}
	for _, s := range w.Sections {
		fmt.Fprintf(out, "\n%s, %s:\n", sectionName(s.Tag), view.Count(len(s.Value), "byte"))
		switch {
		case s.Tag == witness.Trace:
			writeTrace(out, w.Trace())
		case len(s.Value) == 0:
			out.WriteString("    (empty)\n")
		default:
			out.WriteString(runview.Head(string(s.Value)))
		}
	}
	return visible.Text(out.String())
}

// Replay writes the bundle in a file step by step, if it is signed with the key in keyFile. Without a key it writes one that is
// not checked, too, and returns a finding.
func Replay(out io.Writer, path, keyFile string) error {
	var key sign.HMACKey
	var err error
	if keyFile != "" {
		if key, err = keyring.Shared(keyFile); err != nil {
			return err
		}
	}
	w, err := Read(path)
	if err != nil {
		return err
	}
	signature := "not signed: anyone can have made or changed it"
	hint := "ask for one that is signed: gaia witness export DIR --hmac-key-file FILE"
	switch {
	case keyFile != "":
		if err := CheckSigned(path, w, key); err != nil {
			return err
		}
		signature = "signed with the key " + key.KeyID()
	case w.Signed():
		signature = "signed, and the signature is not checked"
		hint = "gaia witness replay " + view.Quote(path) + " --hmac-key-file FILE"
	}
	text, err := replay(path, w, signature)
	if _, err := io.WriteString(out, text); err != nil {
		return err
	}
	if keyFile == "" && err == nil {
		return exit.New(exit.Findings, errors.New("the bundle is "+signature), hint)
	}
	return err
}

// replay returns a bundle step by step; signature is what is known of its signature. The error says that the outcome
// is not the one that the test log gives, or that the log does not show it.
func replay(path string, w witness.Bundle, signature string) (text string, err error) {
	out := &strings.Builder{}
	fmt.Fprintf(out, "1. verify: the bundle of %s is whole; %s\n", view.Count(w.Size, "byte"), signature)
	fmt.Fprintf(out, "\n2. task %s, under the policy %x (%s)\n", witness.UUID(w.TaskID), w.PolicyHash, modeName(w.Mode))
	if w.Rehearsal() {
		fmt.Fprintf(out, "  rehearsal: %s\n", runview.RehearsalNote)
	}
	if of := w.ErrorsOf(); of != "" {
		fmt.Fprintf(out, "  %s: %s\n", runview.ErrorsKey, runview.ErrorsNote(of))
	}
	writeWhole(out, w, witness.Spec, "empty")
	writeWhole(out, w, witness.Plan, "empty")
	fmt.Fprintf(out, "\n3. trace: the attempt took %s, %s and %d tokens; its %s, ", duration(w.LatencyMs), view.Dollars(&w.CostMicroUSD), w.Tokens,
		view.Count(w.ToolCalls, "call"))
	if _, ok := w.Section(witness.Trace); ok {
		calls := w.Trace()
		var sum witness.Entry
		for _, c := range calls {
			sum.LatencyMs, sum.CostMicroUSD, sum.Tokens = sum.LatencyMs+c.LatencyMs, sum.CostMicroUSD+c.CostMicroUSD, sum.Tokens+c.Tokens
		}
		fmt.Fprintf(out, "%s, %s and %d tokens\n", duration(sum.LatencyMs), view.Dollars(&sum.CostMicroUSD), sum.Tokens)
		writeTrace(out, calls)
	} else {
		fmt.Fprintln(out, "not recorded")
	}
	fmt.Fprint(out, "\n4. what was changed\n")
	writeWhole(out, w, witness.Diff, "nothing was")
	fmt.Fprint(out, "\n5. what the checks said\n")
	writeWhole(out, w, witness.TestLog, "nothing")
	match, result := witness.MatchOutcome(w)
	switch match {
	case witness.Contradicts:
		err = trajectory.Faultf(path, "the outcome is %s, but %s", outcomeName(w.Outcome), result)
	case witness.Unchecked:
		result = "not checked: " + result
		err = exit.New(exit.Findings, fmt.Errorf("the outcome is %s", result))
	}
	fmt.Fprintf(out, "\n6. outcome: %s; %s\n", outcomeName(w.Outcome), result)
	if _, ok := w.Section(witness.Postmortem); ok {
		writeWhole(out, w, witness.Postmortem, "empty")
	}
	return visible.Text(out.String()), err
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

// outcomeName returns the name of an outcome.
func outcomeName(outcome uint8) string {
	return []string{witness.Solved: "solved", witness.Failed: "failed", witness.Skipped: "skipped or unscored", witness.Error: "error"}[outcome]
}

// modeName returns the name of a mode of policy.
func modeName(mode uint8) string {
	return []string{witness.Restricted: "restricted", witness.Approved: "approved", witness.Autonomous: "autonomous"}[mode]
}

func policyName(check uint8) string {
	return []string{witness.Allow: "allowed", witness.Deny: "denied", witness.Confirm: "confirmed"}[check]
}

// sectionName returns the name of a section by its tag.
func sectionName(tag uint16) string {
	names := map[uint16]string{witness.Spec: "spec", witness.Plan: "plan", witness.Trace: "trace", witness.Diff: "diff",
		witness.TestLog: "test log", witness.Postmortem: "postmortem", witness.Note: "note"}
	return cmp.Or(names[tag], fmt.Sprintf("section with the unknown tag %d", tag))
}

// duration returns milliseconds as a duration.
func duration(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

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
