package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/gaia-harness/gaia/trajectory/witness"
	"github.com/spf13/cobra"
)

func (a *app) witnessReplayCommand() *cobra.Command {
	var keyFile string
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Go through a witness bundle step by step",
		Long: `Replay goes through a witness bundle in six steps: it verifies the bundle, shows
what was asked and planned, walks through the tool calls, shows the diff and the
test log, and checks that the outcome is the one that the test log gives: solved
where it says "exact-match: true", and failed or error where it says "exact-match:
false". Nothing is run again.

With --hmac-key-file nothing is shown of a bundle that is not signed with that key:
exit code 4. Without it the signature is not checked, and with an unsigned bundle
there is none: all is shown, and the exit code is 3.
Where the test log does not tell, or has a line almost like those, step 6 is not
checked, and the exit code is 3; of a task that was skipped or not scored it has
nothing to tell.`,
		Example: `  gaia witness replay 3f2a….rvw
  gaia witness replay 3f2a….rvw --hmac-key-file shared.key`,
		Args: oneArg("the file of a witness bundle"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := notEmpty(cmd, "hmac-key-file"); err != nil {
				return err
			}
			return a.witnessReplay(args[0], keyFile)
		},
	}
	cmd.Flags().StringVar(&keyFile, "hmac-key-file", "", "file whose bytes are the key that signer and reader share")
	return cmd
}

func (a *app) witnessReplay(path, keyFile string) error {
	w, signature, err := openWitness(path, keyFile)
	if err != nil {
		return err
	}
	out := &strings.Builder{}
	fmt.Fprintf(out, "1. verify: the bundle of %s is whole; %s\n", counted(w.Size, "byte"), signature)
	fmt.Fprintf(out, "\n2. task %s, under the policy %x (%s)\n", rundir.WitnessUUID(w.TaskID), w.PolicyHash, modeName(w.Mode))
	if w.Rehearsal() {
		fmt.Fprintf(out, "  rehearsal: %s\n", rehearsalNote)
	}
	writeWhole(out, w, witness.Spec, "empty")
	writeWhole(out, w, witness.Plan, "empty")
	writeCalls(out, w)
	fmt.Fprint(out, "\n4. what was changed\n")
	writeWhole(out, w, witness.Diff, "nothing was")
	fmt.Fprint(out, "\n5. what the checks said\n")
	writeWhole(out, w, witness.TestLog, "nothing")
	match, said := rundir.MatchWitness(w)
	switch match {
	case rundir.WitnessContradicts:
		err = trajectory.Faultf(path, "the outcome is %s, but %s", outcomeName(w.Outcome), said)
	case rundir.WitnessUnchecked:
		said = "not checked: " + said
		err = fail(exitFindings, fmt.Errorf("the outcome is %s", said))
	}
	if keyFile == "" && err == nil {
		hint := "gaia witness replay " + quoteArg(path) + " --hmac-key-file FILE"
		if !w.Signed() {
			hint = "ask for one that is signed: gaia witness export DIR --hmac-key-file FILE"
		}
		err = fail(exitFindings, errors.New("the bundle is "+signature), hint)
	}
	fmt.Fprintf(out, "\n6. outcome: %s; %s\n", outcomeName(w.Outcome), said)
	if _, ok := w.Section(witness.Postmortem); ok {
		writeWhole(out, w, witness.Postmortem, "empty")
	}
	if _, failed := io.WriteString(a.stdout, visible.Text(out.String())); failed != nil {
		return failed
	}
	return err
}

// writeCalls writes what the attempt took, which is more than its calls did, and these.
func writeCalls(out io.Writer, w witness.Bundle) {
	fmt.Fprintf(out, "\n3. trace: the attempt took %s, %s and %d tokens; its %s, ", durationText(w.LatencyMs), dollars(&w.CostMicroUSD), w.Tokens, counted(w.ToolCalls, "call"))
	if _, ok := w.Section(witness.Trace); ok {
		calls := w.Trace()
		var sum witness.Entry
		for _, c := range calls {
			sum.LatencyMs, sum.CostMicroUSD, sum.Tokens = sum.LatencyMs+c.LatencyMs, sum.CostMicroUSD+c.CostMicroUSD, sum.Tokens+c.Tokens
		}
		fmt.Fprintf(out, "%s, %s and %d tokens\n", durationText(sum.LatencyMs), dollars(&sum.CostMicroUSD), sum.Tokens)
		writeTrace(out, calls)
	} else {
		fmt.Fprintln(out, "not recorded")
	}
}

// openWitness reads a bundle and says of its signature what is known. With a key
// it must be signed by that.
func openWitness(path, keyFile string) (w witness.Bundle, signature string, err error) {
	if keyFile == "" {
		w, err = readWitness(path)
		if w.Signed() {
			return w, "signed, and the signature is not checked", err
		}
		return w, "not signed: anyone can have made or changed it", err
	}
	key, err := sharedKey(keyFile)
	if err != nil {
		return w, "", err
	}
	if w, err = readWitness(path); err != nil {
		return w, "", err
	}
	return w, "signed with the key " + key.KeyID(), verifyWitness(path, w, key)
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
