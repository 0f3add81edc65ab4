package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/trajectory/witness"
	"github.com/spf13/cobra"
)

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
		return firstOf(a.checkSigner(found), incomplete(dir, found))
	}
	var unpriced *rundir.UnpricedError
	switch err := reader.Err(); {
	case errors.As(err, &unpriced):
		return fail(exitFailure, err, "count such calls as free with --unpriced-as-zero, or give prices to the next run")
	case err != nil:
		return err
	}
	if err := out.put(ctx); err != nil {
		return err
	}
	if reader.Unpriced > 0 {
		fmt.Fprintf(a.stderr, "gaia: unpriced: in %s calls without a known price count as free\n", counted(reader.Unpriced, "witness bundle"))
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
	file            newFile       // the single one
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
		o.file = newFile{o.path, data}
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
		return notWritten(o.path, err)
	}
	err := o.err
	if o.single && err == nil {
		return writeNew(ctx, []newFile{o.file})
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
		return fail(exitFailure, fmt.Errorf("writing %q: %w", o.path, unwrapPath(err)), anotherPlace(err))
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
		return a.printJSON(out)
	}
	rows := [][2]string{{"run", out.RunID}}
	if out.Rehearsal {
		rows = append(rows, [2]string{"rehearsal", rehearsalNote})
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
	next := "gaia scorecard " + quoteArg(out.Path)
	if o.single {
		next = "gaia witness replay " + quoteArg(out.Path)
		if o.key != nil {
			next += " --hmac-key-file " + quoteArg(x.hmacKey)
		}
	}
	return a.printRows(append(rows, [2]string{"next", next}))
}
