package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/outfile"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/internal/witnessview"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/gaia-harness/gaia/trajectory/witness"
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
	data, err := regular.Read(path, witness.MaxBundle)
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
		return fail(exit.Evidence, trajectory.Faultf(path, "is not what this key signed"), "all bytes of the key file count, a newline at its end, too")
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
		if _, err := fmt.Fprintln(a.stdout, view.Line(said)); err != nil {
			return err
		}
	}
	if len(bad) == 0 {
		return nil
	}
	f := *slices.MinFunc(bad, func(a, b *failure) int { return exit.Compare(a.Code, b.Code) })
	f.Err = fmt.Errorf("%d of %s not verified", len(bad), view.Count(len(paths), "witness bundle"))
	return &f
}

func (a *app) witnessShow(path string, asJSON bool) error {
	w, err := readWitness(path)
	if err != nil {
		return err
	}
	if asJSON {
		return view.JSON(a.stdout, witnessview.NewJSON(w))
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
		rows = append(rows, [2]string{"rehearsal", runview.RehearsalNote})
	}
	if err := view.Rows(a.stdout, append(rows, [][2]string{
		{"outcome", witnessview.OutcomeName(w.Outcome)},
		{"mode", witnessview.ModeName(w.Mode)},
		{"policy", hex.EncodeToString(w.PolicyHash[:])},
		{"created", witnessview.CreatedText(w.CreatedNs)},
		{"signed", signed},
		{"calls", fmt.Sprintf("%s, %d model calls retried", view.Count(w.ToolCalls, "tool call"), w.Retries)},
		{"tokens", fmt.Sprint(w.Tokens)},
		{"cost", view.Dollars(&w.CostMicroUSD)},
		{"latency", witnessview.DurationText(w.LatencyMs)},
		{"evidence", complete},
		{"governance", witnessview.ConductText(w)},
		{"size", fmt.Sprintf("%s, %s", view.Count(w.Size, "byte"), view.Count(len(w.Sections), "section"))},
	}...)); err != nil {
		return err
	}
	out := &strings.Builder{}
	for _, s := range w.Sections {
		fmt.Fprintf(out, "\n%s, %s:\n", witnessview.SectionName(s.Tag), view.Count(len(s.Value), "byte"))
		switch {
		case s.Tag == witness.Trace:
			witnessview.WriteTrace(out, w.Trace())
		case len(s.Value) == 0:
			out.WriteString("    (empty)\n")
		default:
			out.WriteString(runview.Head(string(s.Value)))
		}
	}
	_, err = io.WriteString(a.stdout, visible.Text(out.String()))
	return err
}

// witnessing is what the flags of witness export say.
type witnessing struct {
	task, out, hmacKey string
	unpriced, asJSON   bool
}

const witnessSuffix = ".rvw"

func (a *app) witnessExportCommand() *cobra.Command {
	var x witnessing
	cmd := &cobra.Command{
		Use:   "export DIR|PACKAGE",
		Short: "Write a witness bundle of each task of a run",
		Long: `Export verifies a finished run or a package, folder or archive, but no public one,
and writes a witness bundle for each task: of the attempt that counts, or of a
task that was never begun no more than that. They appear together in a new folder,
or not at all. With --task one file is written.

A bundle holds the question and what the agent did, but no gold answer. Its costs
are numbers: where a price is not known there is no bundle, unless
--unpriced-as-zero counts such calls as free. Of a rehearsal each bundle says so, in
a section of our own that other programs pass over.

Questions of GAIA are not to be republished where crawlers find them: that holds
for witness bundles, too.`,
		Example: `  gaia witness export runs/01J…
  gaia witness export runs/01J… --hmac-key-file shared.key --out bundles
  gaia witness export submission-2026-01-02-5XK9QZ7M --task 3f2a -o task.rvw`,
		Args: oneArg("the run directory, package or archive"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := notEmpty(cmd, "task", "out", "hmac-key-file"); err != nil {
				return err
			}
			if x.out == "-" {
				return usage("give the name of a folder, or with --task of a file", "witness bundles are not written to standard output")
			}
			return a.witnessExport(cmd.Context(), args[0], x)
		},
	}
	f := cmd.Flags()
	f.StringVar(&x.task, "task", "", "task id, or the start of one (default: all tasks)")
	f.StringVarP(&x.out, "out", "o", "", "folder to write, or with --task the file (default: witness-<run id>, or <task id>.rvw, here)")
	f.StringVar(&x.hmacKey, "hmac-key-file", "", "sign with the bytes of this file by HMAC-SHA256")
	f.BoolVar(&x.unpriced, "unpriced-as-zero", false, "count calls whose price is not known as free")
	f.BoolVar(&x.asJSON, "json", false, "print the result as JSON")
	return cmd
}

func (a *app) witnessExport(ctx context.Context, dir string, x witnessing) error {
	p, err := verify.OpenJournal(dir)
	if err != nil {
		return err
	}
	defer p.Close()
	out := &witnessWriter{}
	if x.hmacKey != "" {
		key, err := sharedKey(x.hmacKey)
		if err != nil {
			return err
		}
		out.key = &key
	}
	plan, _, _, err := rundir.ReadPlan(p.Files)
	if err != nil {
		return err
	}
	if x.task, err = plannedTask(plan, x.task); err != nil {
		return err
	}
	out.path, out.single = x.place(plan), x.task != ""
	if err := verify.NotWithin("the witness bundles", dir, filepath.Dir(out.path)); err != nil {
		return err
	}
	ctx, release := untilStopped(ctx)
	defer release()
	defer func() { out.discard() }()
	reader := rundir.WitnessReader{Task: x.task, UnpricedAsZero: x.unpriced,
		Each: func(task string, w witness.Bundle, data []byte) error { return out.add(ctx, task, w, data) }}
	if out.key != nil {
		reader.Key = *out.key
	}
	read := func() (*rundir.Run, error) {
		return p.Shown(func(summary string) (*rundir.Run, error) { return rundir.Verify(p.Files, reader.Options(summary)) })
	}
	found, err := read()
	if err == nil && found.Marked != "" { // known only now, and each bundle says it
		out.discard()
		out = &witnessWriter{path: out.path, single: out.single, key: out.key}
		reader = rundir.WitnessReader{Task: x.task, UnpricedAsZero: x.unpriced, Unrecorded: true, Each: reader.Each, Key: reader.Key}
		found, err = read()
	}
	if err != nil {
		return err
	}
	if !found.Complete {
		return exit.First(a.checkSigner(found), incomplete(dir, found))
	}
	var unpriced *rundir.UnpricedError
	switch err := reader.Err(); {
	case errors.As(err, &unpriced):
		return fail(exit.Failure, err, "count such calls as free with --unpriced-as-zero, or give prices to the next run")
	case err != nil:
		return err
	}
	if err := out.put(ctx); err != nil {
		return err
	}
	if reader.Unpriced > 0 {
		fmt.Fprintf(a.stderr, "gaia: unpriced: in %s calls without a known price count as free\n", view.Count(reader.Unpriced, "witness bundle"))
	}
	if err := a.printWitnesses(found, out, reader.Unpriced, x); err != nil {
		return err
	}
	return a.checkSigner(found)
}

// plannedTask returns the task whose id start is, or is the start of; "" for "".
func plannedTask(plan plan.Plan, start string) (string, error) {
	if start == "" {
		return "", nil
	}
	at, err := startingWith(start, len(plan.Tasks), func(i int) string { return plan.Tasks[i].TaskID })
	if err != nil {
		return "", err
	}
	if at < 0 {
		return "", usage("'gaia show DIR' lists the tasks", "the run has no task %q", start)
	}
	return plan.Tasks[at].TaskID, nil
}

// place is where the bundles appear.
func (x witnessing) place(plan plan.Plan) string {
	rehearsal := ""
	if plan.Rehearsal {
		rehearsal = "rehearsal-"
	}
	switch {
	case x.out != "":
		return filepath.Clean(x.out)
	case x.task != "":
		return rehearsal + witnessName(x.task)
	}
	return "witness-" + rehearsal + plan.RunID
}

// witnessName is the name of a task's file: its id, or where that might be more than
// a name, its number in the bundle.
func witnessName(task string) string {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`).MatchString(task) {
		id := rundir.WitnessTaskID(task)
		task = hex.EncodeToString(id[:])
	}
	return task + witnessSuffix
}

// witnessWriter writes bundles aside while their run is verified. What goes wrong
// then is told afterwards: that the run does not verify matters more.
type witnessWriter struct {
	path            string // of the folder, or of the single file
	single          bool
	key             *sign.HMACKey // nil: not signed
	stage           string        // folder in which the bundles lie until then
	file            outfile.File  // the single one
	bundles         int
	complete, bytes int
	outcomes        [4]int
	err             error
}

// add takes the next bundle. Only an interruption ends the verification.
func (o *witnessWriter) add(ctx context.Context, task string, w witness.Bundle, data []byte) error {
	if err := ctx.Err(); err != nil || o.err != nil {
		return err
	}
	o.bundles++
	o.bytes += len(data)
	o.outcomes[w.Outcome]++
	if w.EvidenceComplete() {
		o.complete++
	}
	if o.single {
		o.file = outfile.File{Path: o.path, Data: data}
		return nil
	}
	if o.stage == "" {
		if o.stage, o.err = os.MkdirTemp(filepath.Dir(o.path), ".new-witness-*"); o.err != nil {
			return nil
		}
	}
	o.err = writeDurably(filepath.Join(o.stage, witnessName(task)), data)
	return nil
}

// writeDurably writes a file that must not be there yet.
func writeDurably(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// put gives the bundles their place, where nothing may be.
func (o *witnessWriter) put(ctx context.Context) error {
	if _, err := os.Lstat(o.path); !errors.Is(err, fs.ErrNotExist) {
		return outfile.NotWritten(o.path, err)
	}
	err := o.err
	if o.single && err == nil {
		return outfile.WriteNew(ctx, []outfile.File{o.file})
	}
	if err == nil {
		err = errors.Join(os.Chmod(o.stage, 0o755), durable.SyncDir(o.stage))
	}
	if err == nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		err = os.Rename(o.stage, o.path)
	}
	if err != nil {
		return fail(exit.Failure, fmt.Errorf("writing %q: %w", o.path, regular.Cause(err)), outfile.Remedy(err))
	}
	o.stage = ""
	return durable.SyncDir(filepath.Dir(o.path))
}

// discard takes away what has not got its place.
func (o *witnessWriter) discard() {
	if o.stage != "" {
		os.RemoveAll(o.stage)
	}
}

// witnessed is what witness export prints with --json.
type witnessed struct {
	Bundles          int    `json:"bundles"`
	Bytes            int    `json:"bytes"` // of all
	Error            int    `json:"error"`
	EvidenceComplete int    `json:"evidence_complete"` // bundles
	Failed           int    `json:"failed"`
	KeyID            string `json:"key_id,omitzero"` // left out: not signed
	Path             string `json:"path"`            // of the folder, or of the file
	Rehearsal        bool   `json:"rehearsal,omitzero"`
	RunID            string `json:"run_id"`
	Signed           bool   `json:"signed"`
	Skipped          int    `json:"skipped"` // never begun, or unscored
	Solved           int    `json:"solved"`
	TaskID           string `json:"task_id,omitzero"`
	Unpriced         int    `json:"unpriced,omitzero"` // bundles in which calls without a known price count as free
	Unsubmittable    string `json:"unsubmittable,omitzero"`
}

func (a *app) printWitnesses(found *rundir.Run, o *witnessWriter, unpriced int, x witnessing) error {
	out := witnessed{Bundles: o.bundles, Bytes: o.bytes, Error: o.outcomes[witness.Error], EvidenceComplete: o.complete,
		Failed: o.outcomes[witness.Failed], Path: o.path, Rehearsal: found.Manifest.Rehearsal, RunID: found.Manifest.RunID, Signed: o.key != nil,
		Skipped: o.outcomes[witness.Skipped], Solved: o.outcomes[witness.Solved], TaskID: x.task, Unpriced: unpriced,
		Unsubmittable: verify.Unsubmittable(found)}
	signed := "no"
	if o.key != nil {
		out.KeyID = o.key.KeyID()
		signed = "with the key " + out.KeyID
	}
	if x.asJSON {
		return view.JSON(a.stdout, out)
	}
	rows := [][2]string{{"run", out.RunID}}
	if out.Rehearsal {
		rows = append(rows, [2]string{"rehearsal", runview.RehearsalNote})
	}
	if out.TaskID != "" {
		rows = append(rows, [2]string{"task", out.TaskID})
	}
	rows = append(rows,
		[2]string{"bundles", fmt.Sprintf("%d: %d solved, %d failed, %d error, %d skipped or unscored", out.Bundles, out.Solved, out.Failed, out.Error, out.Skipped)},
		[2]string{"evidence", fmt.Sprintf("complete in %d of them", out.EvidenceComplete)},
		[2]string{"signed", signed},
		[2]string{"bytes", fmt.Sprint(out.Bytes)},
		[2]string{"written to", out.Path})
	if out.Unsubmittable != "" {
		rows = append(rows, [2]string{"unsubmittable", out.Unsubmittable})
	}
	next := "gaia scorecard " + view.Quote(out.Path)
	if o.single {
		next = "gaia witness replay " + view.Quote(out.Path)
		if o.key != nil {
			next += " --hmac-key-file " + view.Quote(x.hmacKey)
		}
	}
	return view.Rows(a.stdout, append(rows, [2]string{"next", next}))
}

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
	fmt.Fprintf(out, "1. verify: the bundle of %s is whole; %s\n", view.Count(w.Size, "byte"), signature)
	fmt.Fprintf(out, "\n2. task %s, under the policy %x (%s)\n", rundir.WitnessUUID(w.TaskID), w.PolicyHash, witnessview.ModeName(w.Mode))
	if w.Rehearsal() {
		fmt.Fprintf(out, "  rehearsal: %s\n", runview.RehearsalNote)
	}
	witnessview.WriteWhole(out, w, witness.Spec, "empty")
	witnessview.WriteWhole(out, w, witness.Plan, "empty")
	witnessview.WriteCalls(out, w)
	fmt.Fprint(out, "\n4. what was changed\n")
	witnessview.WriteWhole(out, w, witness.Diff, "nothing was")
	fmt.Fprint(out, "\n5. what the checks said\n")
	witnessview.WriteWhole(out, w, witness.TestLog, "nothing")
	match, said := rundir.MatchWitness(w)
	switch match {
	case rundir.WitnessContradicts:
		err = trajectory.Faultf(path, "the outcome is %s, but %s", witnessview.OutcomeName(w.Outcome), said)
	case rundir.WitnessUnchecked:
		said = "not checked: " + said
		err = fail(exit.Findings, fmt.Errorf("the outcome is %s", said))
	}
	if keyFile == "" && err == nil {
		hint := "gaia witness replay " + view.Quote(path) + " --hmac-key-file FILE"
		if !w.Signed() {
			hint = "ask for one that is signed: gaia witness export DIR --hmac-key-file FILE"
		}
		err = fail(exit.Findings, errors.New("the bundle is "+signature), hint)
	}
	fmt.Fprintf(out, "\n6. outcome: %s; %s\n", witnessview.OutcomeName(w.Outcome), said)
	if _, ok := w.Section(witness.Postmortem); ok {
		witnessview.WriteWhole(out, w, witness.Postmortem, "empty")
	}
	if _, failed := io.WriteString(a.stdout, visible.Text(out.String())); failed != nil {
		return failed
	}
	return err
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
