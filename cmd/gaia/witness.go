package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/gaia-harness/gaia/trajectory/witness"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

func (a *app) witnessCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "witness",
		Short: "Write a file for each task that other programs read, and read such files",
		Long: `A witness bundle (.rvw) is what one attempt came to in one small binary file: what
was asked, the plan, each tool call with what the policy made of it, the diff of
the workspace, what the checks of the answer said, and what it cost. Other
programs write and read them, too.

A bundle may be signed with a key that you share with its reader. That shows
nothing to anybody else: for evidence that anybody can check, see 'gaia disclose'
and 'gaia submit'.`,
		Example: `  gaia witness export runs/01J… --hmac-key-file shared.key
  gaia witness verify witness-01J…/*.rvw --hmac-key-file shared.key
  gaia witness replay witness-01J…/3f2a….rvw`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.witnessExportCommand(), a.witnessShowCommand(), a.witnessVerifyCommand(), a.witnessReplayCommand())
	return cmd
}

func (a *app) witnessShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show FILE",
		Short: "Show what a witness bundle says",
		Long: `Show prints a witness bundle, its header and the beginning of each section. It
does not check whose it is: that takes the key, see 'gaia witness verify'.`,
		Example: `  gaia witness show 3f2a….rvw
  gaia witness show 3f2a….rvw --json`,
		Args: oneArg("the file of a witness bundle"),
		RunE: func(_ *cobra.Command, args []string) error { return a.witnessShow(args[0], asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the header and the trace as JSON")
	return cmd
}

func (a *app) witnessVerifyCommand() *cobra.Command {
	var keyFile string
	cmd := &cobra.Command{
		Use:   "verify FILE… --hmac-key-file KEY",
		Short: "Check that witness bundles are signed with a key",
		Long: `Verify checks of each file that it is a witness bundle, whole and signed with the
key of --hmac-key-file. One that is not signed is refused: anybody can take a
signature away.`,
		Example: `  gaia witness verify witness-01J…/*.rvw --hmac-key-file shared.key`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("see 'gaia witness verify --help'", "witness verify takes the files of witness bundles")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := notEmpty(cmd, "hmac-key-file"); err != nil {
				return err
			}
			return a.witnessVerify(args, keyFile)
		},
	}
	cmd.Flags().StringVar(&keyFile, "hmac-key-file", "", "file whose bytes are the key that signer and reader share")
	return cmd
}

// readWitness reads a bundle. One that is damaged is a Fault that names the file.
func readWitness(path string) (witness.Bundle, error) {
	data, err := readAtMost(path, witness.MaxBundle)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return witness.Bundle{}, usage("'gaia witness export' writes witness bundles", "there is no witness bundle at %q", path)
	case err != nil:
		return witness.Bundle{}, fmt.Errorf("reading the witness bundle %q: %w", path, err)
	}
	w, err := witness.Parse(data)
	if err != nil {
		return witness.Bundle{}, trajectory.Faultf(path, "%v", err)
	}
	if err := rundir.CheckWitness(w); err != nil {
		return witness.Bundle{}, trajectory.Faultf(path, "contradicts itself: %v", err)
	}
	return w, nil
}

// verifyWitness wants a bundle to be signed with key.
func verifyWitness(path string, w witness.Bundle, key sign.HMACKey) error {
	switch {
	case !w.Signed():
		return trajectory.Faultf(path, "is not signed")
	case !w.Verify(key):
		return fail(exitEvidence, trajectory.Faultf(path, "is not what this key signed"), "all bytes of the key file count, a newline at its end, too")
	}
	return nil
}

// witnessVerify looks at every file. What to exit with is that of the gravest.
func (a *app) witnessVerify(paths []string, keyFile string) error {
	if keyFile == "" {
		return usage("give the key that signer and reader share by --hmac-key-file", "without a key nobody can tell whose a witness bundle is")
	}
	key, err := sharedKey(keyFile)
	if err != nil {
		return err
	}
	var bad []*failure
	for _, path := range paths {
		w, err := readWitness(path)
		if err == nil {
			err = verifyWitness(path, w, key)
		}
		said := path + ": ok"
		if w.Rehearsal() {
			said += ", of a rehearsal"
		}
		if err != nil {
			said = err.Error()
			bad = append(bad, classify(err))
		}
		if _, err := fmt.Fprintln(a.stdout, oneLine(said)); err != nil {
			return err
		}
	}
	if len(bad) == 0 {
		return nil
	}
	f := *slices.MinFunc(bad, func(a, b *failure) int { return exit.Compare(a.Code, b.Code) })
	f.Err = fmt.Errorf("%d of %s not verified", len(bad), counted(len(paths), "witness bundle"))
	return &f
}

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

func (a *app) witnessShow(path string, asJSON bool) error {
	w, err := readWitness(path)
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(newWitnessJSON(w))
	}
	signed := "no"
	if w.Signed() {
		signed = "yes, not checked: 'gaia witness verify' does, with the key"
	}
	complete := "no: question, diff and test log are not all there"
	if w.EvidenceComplete() {
		complete = "yes: question, diff and test log are there"
	}
	rows := [][2]string{{"task", rundir.WitnessUUID(w.TaskID)}}
	if w.Rehearsal() {
		rows = append(rows, [2]string{"rehearsal", rehearsalNote})
	}
	if err := a.printRows(append(rows, [][2]string{
		{"outcome", outcomeName(w.Outcome)},
		{"mode", modeName(w.Mode)},
		{"policy", hex.EncodeToString(w.PolicyHash[:])},
		{"created", createdText(w.CreatedNs)},
		{"signed", signed},
		{"calls", fmt.Sprintf("%s, %d model calls retried", counted(w.ToolCalls, "tool call"), w.Retries)},
		{"tokens", fmt.Sprint(w.Tokens)},
		{"cost", dollars(&w.CostMicroUSD)},
		{"latency", durationText(w.LatencyMs)},
		{"evidence", complete},
		{"governance", conductText(w)},
		{"size", fmt.Sprintf("%s, %s", counted(w.Size, "byte"), counted(len(w.Sections), "section"))},
	}...)); err != nil {
		return err
	}
	out := &strings.Builder{}
	for _, s := range w.Sections {
		fmt.Fprintf(out, "\n%s, %s:\n", sectionName(s.Tag), counted(len(s.Value), "byte"))
		switch {
		case s.Tag == witness.Trace:
			writeTrace(out, w.Trace())
		case len(s.Value) == 0:
			out.WriteString("    (empty)\n")
		default:
			out.WriteString(runview.Head(string(s.Value)))
		}
	}
	_, err = io.WriteString(a.stdout, visible.Text(out.String()))
	return err
}

// writeTrace writes a line for each call, with what all to it took together.
func writeTrace(w io.Writer, calls []witness.Entry) {
	var ms, cost, tokens int64
	for i, c := range calls {
		ms, cost, tokens = ms+c.LatencyMs, cost+c.CostMicroUSD, tokens+c.Tokens
		fmt.Fprintf(w, "    %d. %s, %s: args %x, result %x, %d ms, %s, %d tokens; so far %d ms, %s, %d tokens\n", i+1, oneLine(c.Action), policyName(c.Policy),
			c.ArgsHash, c.ResultHash, c.LatencyMs, dollars(&c.CostMicroUSD), c.Tokens, ms, dollars(&cost), tokens)
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
