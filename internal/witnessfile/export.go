package witnessfile

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/outfile"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stop"
	"github.com/gaia-harness/gaia/internal/tasklist"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory/witness"
)

// Export writes the bundles of a run: of all tasks to a new folder, or of one task to a file.
type Export struct {
	Path           string // of the folder or the file, which must not exist; "": named after the run or the task
	Task           string // id, or the start of one; "": all
	KeyFile        string // with the key that signs them; "": bundles are not signed
	UnpricedAsZero bool

	Bundles, Complete, Bytes int    // that were made, those with complete evidence, and the bytes of all
	Outcomes                 [4]int // bundles by their outcome
	Unpriced                 int    // bundles in which calls without a known price count as free

	key   *sign.HMACKey
	stage string       // folder in which the bundles are until then
	file  outfile.File // the single one
	err   error        // of writing
}

// defaultPath returns where the bundles of a run are written if no place is named; task is "" for all.
func defaultPath(m plan.Plan, task string) string {
	rehearsal := ""
	if m.Rehearsal {
		rehearsal = "rehearsal-"
	}
	if task != "" {
		return rehearsal + fileName(task)
	}
	return "witness-" + rehearsal + m.RunID
}

// fileName returns the name of a task's file: its id, or its number in the bundle if the id may be more than a name.
func fileName(task string) string {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`).MatchString(task) {
		id := witness.NewTaskID(task)
		task = hex.EncodeToString(id[:])
	}
	return task + suffix
}

// Write verifies the run in dir, which p has opened, and writes its bundles, all of them or none. Of a run that is not
// complete it writes none and returns the run. That a run does not verify precedes every error of writing.
func (x *Export) Write(ctx context.Context, dir string, p *verify.Evidence) (*rundir.Run, error) {
	if x.KeyFile != "" {
		key, err := keyring.Shared(x.KeyFile)
		if err != nil {
			return nil, err
		}
		x.key = &key
	}
	m, _, _, err := rundir.ReadPlan(p.Files)
	if err != nil {
		return nil, err
	}
	if x.Task != "" {
		at, err := tasklist.OfRun(x.Task, len(m.Tasks), func(i int) string { return m.Tasks[i].TaskID })
		if err != nil {
			return nil, err
		}
		x.Task = m.Tasks[at].TaskID
	}
	x.Path = filepath.Clean(cmp.Or(x.Path, defaultPath(m, x.Task)))
	if err := verify.NotWithin("the witness bundles", dir, filepath.Dir(x.Path)); err != nil {
		return nil, err
	}
	ctx, release := stop.Context(ctx)
	defer release()
	defer func() { x.discard() }()
	read := func(unrecorded bool) (rundir.WitnessReader, *rundir.Run, error) {
		reader := rundir.WitnessReader{Task: x.Task, UnpricedAsZero: x.UnpricedAsZero, Unrecorded: unrecorded,
			Each: func(task string, w witness.Bundle, data []byte) error { return x.add(ctx, task, w, data) }}
		if x.key != nil {
			reader.Key = *x.key
		}
		found, err := p.Shown(func(summary string) (*rundir.Run, error) { return rundir.Verify(p.Files, reader.Options(summary)) })
		return reader, found, err
	}
	reader, found, err := read(false)
	if err == nil && found.Marked != "" { // known only now, and each bundle has it
		x.discard()
		*x = Export{Path: x.Path, Task: x.Task, KeyFile: x.KeyFile, UnpricedAsZero: x.UnpricedAsZero, key: x.key}
		reader, found, err = read(true)
	}
	if err != nil || !found.Complete {
		return found, err
	}
	switch err := reader.Err(); {
	case errors.As(err, new(*rundir.UnpricedError)):
		return nil, exit.New(exit.Failure, err, "count such calls as free with --unpriced-as-zero, or give prices to the next run")
	case err != nil:
		return nil, err
	}
	x.Unpriced = reader.Unpriced
	return found, x.put(ctx)
}

// add takes the next bundle. Only an interruption ends the verification.
func (x *Export) add(ctx context.Context, task string, w witness.Bundle, data []byte) error {
	if err := ctx.Err(); err != nil || x.err != nil {
		return err
	}
	x.Bundles++
	x.Bytes += len(data)
	x.Outcomes[w.Outcome]++
	if w.EvidenceComplete() {
		x.Complete++
	}
	if x.Task != "" {
		x.file = outfile.File{Path: x.Path, Data: data}
		return nil
	}
	if x.stage == "" {
		if x.stage, x.err = os.MkdirTemp(filepath.Dir(x.Path), ".new-witness-*"); x.err != nil {
			return nil
		}
	}
	f, err := os.OpenFile(filepath.Join(x.stage, fileName(task)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err == nil {
		_, err = f.Write(data)
		err = errors.Join(err, f.Sync(), f.Close())
	}
	x.err = err
	return nil
}

// put gives the bundles their place, where nothing may be.
func (x *Export) put(ctx context.Context) error {
	if _, err := os.Lstat(x.Path); !errors.Is(err, fs.ErrNotExist) {
		return outfile.NotWritten(x.Path, err)
	}
	err := x.err
	if x.Task != "" && err == nil {
		return outfile.WriteNew(ctx, []outfile.File{x.file})
	}
	if err == nil {
		err = errors.Join(os.Chmod(x.stage, 0o755), durable.SyncDir(x.stage))
	}
	if err == nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		err = os.Rename(x.stage, x.Path)
	}
	if err != nil {
		return exit.New(exit.Failure, fmt.Errorf("writing %q: %w", x.Path, regular.Cause(err)), outfile.Remedy(err))
	}
	x.stage = ""
	return durable.SyncDir(filepath.Dir(x.Path))
}

// discard removes the bundles that have not got their place.
func (x *Export) discard() {
	if x.stage != "" {
		os.RemoveAll(x.stage)
	}
}

// Written is what an export wrote; its members are what witness export prints with --json.
type Written struct {
	Bundles          int    `json:"bundles"`
	Bytes            int    `json:"bytes"` // of all
	Error            int    `json:"error"`
	ErrorsOf         string `json:"errors_of,omitzero"` // id of the run whose errors its tasks are
	EvidenceComplete int    `json:"evidence_complete"`  // bundles
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

	keyFile string
}

// Written describes what was written of a run.
func (x *Export) Written(found *rundir.Run) Written {
	out := Written{Bundles: x.Bundles, Bytes: x.Bytes, Error: x.Outcomes[witness.Error], ErrorsOf: found.Manifest.Dataset.ErrorsOf.RunID, EvidenceComplete: x.Complete,
		Failed: x.Outcomes[witness.Failed], Path: x.Path, Rehearsal: found.Manifest.Rehearsal, RunID: found.Manifest.RunID, Signed: x.key != nil,
		Skipped: x.Outcomes[witness.Skipped], Solved: x.Outcomes[witness.Solved], TaskID: x.Task, Unpriced: x.Unpriced,
		Unsubmittable: verify.Unsubmittable(found), keyFile: x.KeyFile}
	if x.key != nil {
		out.KeyID = x.key.KeyID()
	}
	return out
}

// Rows describe it for a person.
func (w Written) Rows() [][2]string {
	rows := view.List{{"run", w.RunID}}
	if w.Rehearsal {
		rows.Add("rehearsal", runview.RehearsalNote)
	}
	rows.AddNonEmpty(runview.ErrorsKey, runview.ErrorsNote(w.ErrorsOf))
	rows.AddNonEmpty("task", w.TaskID)
	rows.Addf("bundles", "%d: %d solved, %d failed, %d error, %d skipped or unscored", w.Bundles, w.Solved, w.Failed, w.Error, w.Skipped)
	rows.Addf("evidence", "complete in %d of them", w.EvidenceComplete)
	signed, next := "no", "gaia scorecard "+view.Quote(w.Path)
	if w.Signed {
		signed = "with the key " + w.KeyID
	}
	if w.TaskID != "" {
		next = "gaia witness replay " + view.Quote(w.Path)
		if w.Signed {
			next += " --hmac-key-file " + view.Quote(w.keyFile)
		}
	}
	rows.Add("signed", signed)
	rows.Addf("bytes", "%d", w.Bytes)
	rows.Add("written to", w.Path)
	rows.AddNonEmpty("unsubmittable", w.Unsubmittable)
	rows.Add("next", next)
	return rows
}
