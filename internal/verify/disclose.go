package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/outfile"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stop"
	"github.com/gaia-harness/gaia/internal/tasklist"
	"github.com/gaia-harness/gaia/internal/view"
)

// Disclosure describes an evidence bundle to write.
type Disclosure struct {
	Task         string // id, or the start of one; "": the whole run
	Out          string // file; "": named after the run, in the current folder
	Key, HMACKey string // files of the signing key, if they are given
}

// Disclosed is a bundle that was written; its members are what disclose prints with --json.
type Disclosed struct {
	ErrorsOf      string         `json:"errors_of,omitzero"` // run whose errors are the tasks of this one
	Events        int            `json:"events"`
	File          string         `json:"file"`
	Proof         string         `json:"proof,omitzero"` // the tlog-proof file
	Rehearsal     bool           `json:"rehearsal,omitzero"`
	RunID         string         `json:"run_id"`
	SHA256        string         `json:"sha256"` // of the file
	Signature     sign.Signature `json:"signature"`
	TaskID        string         `json:"task_id,omitzero"`
	Unsubmittable string         `json:"unsubmittable,omitzero"`

	made *rundir.Disclosure
	by   Disclosure
}

// Write verifies a run and writes a bundle of it and the proof of its task, both or neither. Of a run that is not complete it
// writes nothing and returns the run.
func (d Disclosure) Write(ctx context.Context, p *Evidence, signer sign.Signer, verifier sign.Verifier) (none Disclosed, _ *rundir.Run, _ error) {
	ctx, release := stop.Context(ctx)
	defer release()
	found, err := p.Run()
	if err != nil || !found.Complete {
		return none, found, err
	}
	path, task := "evidence-"+found.Manifest.RunID[len(found.Manifest.RunID)-8:], ""
	if d.Task != "" {
		t, err := tasklist.InRun(found.Fold, d.Task)
		if err != nil {
			return none, nil, err
		}
		task = t.Plan.TaskID
		path += fmt.Sprintf("-%04d", slices.Index(found.Tasks, t)+1)
	}
	data, err := found.Disclose(p.Files, task, signer)
	if errors.Is(err, rundir.ErrMerged) {
		return none, nil, exit.Usagef("give one task by --task; 'gaia show' lists them", "%v", err)
	}
	if err != nil {
		return none, nil, err
	}
	made, err := rundir.VerifyBundle(data, verifier)
	if err != nil {
		return none, nil, fmt.Errorf("checking the evidence bundle: %w", err)
	}
	if err := NotWithin("the evidence bundle", p.path, filepath.Dir(d.Out)); err != nil {
		return none, nil, err
	}
	files := []outfile.File{{Path: cmp.Or(d.Out, path+".json"), Data: data}}
	b := made.Bundle
	out := Disclosed{ErrorsOf: made.Manifest.Dataset.ErrorsOf.RunID, Events: len(b.Events), File: files[0].Path, Rehearsal: b.Rehearsal, RunID: made.Manifest.RunID,
		SHA256: canonical.Digest(data), Signature: b.Signature, Unsubmittable: Unsubmittable(found), made: made, by: d}
	if b.Inclusion != nil {
		out.TaskID, out.Proof = made.Task.Plan.TaskID, strings.TrimSuffix(out.File, ".json")+".tlog-proof"
		files = append(files, outfile.File{Path: out.Proof, Data: b.Inclusion.TlogProof([]byte(b.Checkpoint))})
	}
	return out, found, outfile.WriteNew(ctx, files)
}

// Rows describe the bundle for a person.
func (d Disclosed) Rows() [][2]string {
	next := "gaia verify " + view.Quote(d.File)
	switch {
	case d.by.HMACKey != "":
		next += " --hmac-key-file " + view.Quote(d.by.HMACKey)
	case d.by.Key != "": // which need not be one that is trusted here
		next += " --trusted-key " + view.Quote(d.by.Key+".pub")
	}
	rows := view.List(append(BundleRows(d.made), [2]string{"written to", d.File}))
	rows.AddNonEmpty("proof", d.Proof)
	rows.AddNonEmpty("unsubmittable", d.Unsubmittable)
	return append(rows, [2]string{"signed by", d.Signature.KeyID}, [2]string{"shows", Shows(d.made)}, [2]string{"next", next})
}
