package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/outfile"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stop"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/spf13/cobra"
)

// disclosure is what the flags of disclose say.
type disclosure struct {
	task, out, key, hmacKey string
	asJSON                  bool
}

func (a *app) discloseCommand() *cobra.Command {
	var d disclosure
	cmd := &cobra.Command{
		Use:   "disclose DIR|PACKAGE",
		Short: "Write a signed evidence bundle of one task",
		Long: `Disclose verifies a finished run or a full package, folder or archive, and writes an
evidence bundle: the events of one task, the signed plan, the signed tree head and the
inclusion proof, which is also written as a C2SP tlog-proof. Without --task the bundle
contains all events.

A bundle shows what happened at its task. Only the full package shows that no other
task was left out. The plan in the bundle names all tasks by id. With --hmac-key-file the
bundle is signed with a key that you share with its reader, and proves nothing to
others.`,
		Example: `  gaia disclose runs/01J… --task 3f2a
  gaia disclose submission-2026-01-02-5XK9QZ7M --task 3f2a -o task.json
  gaia verify task.json --checkpoint published`,
		Args: cli.OneArg("the run directory, package or archive"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.NotEmpty(cmd, "task", "out", "key", "hmac-key-file"); err != nil {
				return err
			}
			if d.out == "-" {
				return usage("give the name of a file", "an evidence bundle is not written to standard output")
			}
			return a.disclose(cmd.Context(), args[0], d)
		},
	}
	f := cmd.Flags()
	f.StringVar(&d.task, "task", "", "task id, or the start of one (default: the whole run)")
	f.StringVarP(&d.out, "out", "o", "", "file to write (default: evidence-<run>[-<number of the task>].json here)")
	f.StringVar(&d.key, "key", "", "signing key file")
	f.StringVar(&d.hmacKey, "hmac-key-file", "", "sign by HMAC-SHA256 with the key in this file instead")
	f.BoolVar(&d.asJSON, "json", false, "print the result as JSON")
	return cmd
}

func (a *app) disclose(ctx context.Context, dir string, d disclosure) error {
	p, err := verify.OpenJournal(dir)
	if err != nil {
		return err
	}
	defer p.Close()
	signer, verifier, err := a.bundleSigner(d)
	if err != nil {
		return err
	}
	ctx, release := stop.Context(ctx)
	defer release()
	found, err := p.Run()
	if err != nil {
		return err
	}
	if !found.Complete {
		return exit.First(a.checkSigner(found), incomplete(dir, found))
	}
	task, number := "", 0
	if d.task != "" {
		t, err := oneTask(found.Fold, d.task)
		if err != nil {
			return err
		}
		task, number = t.Plan.TaskID, slices.Index(found.Tasks, t)+1
	}
	data, err := found.Disclose(p.Files, task, signer)
	if err != nil {
		return err
	}
	made, err := rundir.VerifyBundle(data, verifier)
	if err != nil {
		return fmt.Errorf("checking the evidence bundle: %w", err)
	}
	if err := verify.NotWithin("the evidence bundle", dir, filepath.Dir(d.out)); err != nil {
		return err
	}
	path := "evidence-" + found.Manifest.RunID[len(found.Manifest.RunID)-8:]
	if number > 0 {
		path += fmt.Sprintf("-%04d", number)
	}
	files := []outfile.File{{Path: cmp.Or(d.out, path+".json"), Data: data}}
	if p := made.Bundle.Inclusion; p != nil {
		files = append(files, outfile.File{Path: strings.TrimSuffix(files[0].Path, ".json") + ".tlog-proof", Data: p.TlogProof([]byte(made.Bundle.Checkpoint))})
	}
	if err := outfile.WriteNew(ctx, files); err != nil {
		return err
	}
	if err := a.printDisclosed(found, made, files, d); err != nil {
		return err
	}
	return a.checkSigner(found)
}

// bundleSigner returns the key to sign a bundle with and its verifying half.
func (a *app) bundleSigner(d disclosure) (sign.Signer, sign.Verifier, error) {
	if d.hmacKey != "" {
		if d.key != "" {
			return nil, nil, usage("give one of them", "--key and --hmac-key-file exclude each other")
		}
		key, err := sharedKey(d.hmacKey)
		return key, key, err
	}
	key, err := a.existingKey(d.key)
	if errors.Is(err, keyring.ErrNoKey) {
		return nil, nil, usage("give one by --key, or one you share with the reader by --hmac-key-file", "%v", err)
	}
	return key, key.Public(), err
}

// sharedKey loads an HMAC key that the user asked for by name.
func sharedKey(path string) (sign.HMACKey, error) {
	key, err := sign.LoadHMACKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return sign.HMACKey{}, usage("give the file of the key that signer and reader share", "there is no HMAC key at %q", path)
	}
	if errors.Is(err, sign.ErrHMACKeySize) {
		return sign.HMACKey{}, fail(exit.Failure, err, "make a key of random bytes: (umask 077; head -c 32 /dev/urandom > shared.key)")
	}
	return key, err
}

// disclosed is what disclose prints with --json.
type disclosed struct {
	Events        int            `json:"events"`
	File          string         `json:"file"`
	Proof         string         `json:"proof,omitzero"` // the tlog-proof file
	Rehearsal     bool           `json:"rehearsal,omitzero"`
	RunID         string         `json:"run_id"`
	SHA256        string         `json:"sha256"` // of the file
	Signature     sign.Signature `json:"signature"`
	TaskID        string         `json:"task_id,omitzero"`
	Unsubmittable string         `json:"unsubmittable,omitzero"`
}

func (a *app) printDisclosed(found *rundir.Run, made *rundir.Disclosure, files []outfile.File, d disclosure) error {
	b := made.Bundle
	out := disclosed{Events: len(b.Events), File: files[0].Path, Rehearsal: b.Rehearsal, RunID: made.Manifest.RunID,
		SHA256: canonical.Digest(files[0].Data), Signature: b.Signature, Unsubmittable: verify.Unsubmittable(found)}
	if made.Task != nil {
		out.TaskID, out.Proof = made.Task.Plan.TaskID, files[1].Path
	}
	if d.asJSON {
		return view.JSON(a.stdout, out)
	}
	next := "gaia verify " + view.Quote(out.File)
	switch {
	case d.hmacKey != "":
		next += " --hmac-key-file " + view.Quote(d.hmacKey)
	case d.key != "": // which need not be one that is trusted here
		next += " --trusted-key " + view.Quote(d.key+".pub")
	}
	rows := view.List(append(verify.BundleRows(made), [2]string{"written to", out.File}))
	rows.AddNonEmpty("proof", out.Proof)
	rows.AddNonEmpty("unsubmittable", out.Unsubmittable)
	return view.Rows(a.stdout, append(rows, [2]string{"signed by", b.Signature.KeyID}, [2]string{"shows", verify.Shows(made)},
		[2]string{"next", next}))
}
