package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/spf13/cobra"
)

func (a *app) verifyCommand() *cobra.Command {
	var v verifying
	cmd := &cobra.Command{
		Use:   "verify PACKAGE…",
		Short: "Check that a run, a package or an evidence bundle is what was signed and follows from its journal",
		Long: `Verify checks the signature of the plan, the hash chain of the journal, and
rebuilds trajectories, results, summary and tree head from the journal, byte for
byte. Of a package it also checks that exactly its files are there, the
attestation's signature, every digest, and that the statement says what the
files give. An archive of one can be of any tar program.
Given by --dataset the gold answers, it tells every official verdict
from them again. With those that the audit had, or where it had none, it audits
the files again, which must give the same report. Where the audit had whole
documents, it is run again only with all of them, given by --body.

A public package has no journal: its signatures, its plan and its tree are
checked, and scores are self-reported. Given by --package to the verification of
the full one, it is verified, too, and must be what the full one gives.

PACKAGE is a run directory, a package, its archive, or an evidence bundle that
'gaia disclose' wrote. With a bundle, --package takes the run's package, full or
public. The package is verified first, and then what it says of the bundle's tasks.

Of several packages it prints a line each and exits with the gravest code. It
reports duplicates and resubmissions of the same run. Two histories of one run by
one key, of which neither is the beginning of the other, are exit code 4.

Whatever is verified, --checkpoint wants its checkpoint to be the one that was
published, byte for byte: give it if you have it.

Integrity (these bytes are what was signed) and trust (by a key you trust)
are reported apart. Changed evidence is exit code 4. Evidence that is intact and
signed by a key that is unknown or expired is exit code 6, before 5 (incomplete)
and 3 (findings, which --json lists). Trusted are your own signing key, the public keys and the
allowed_signers in your key directory, and those given. A key that allowed_signers
limits in time is trusted within that time only, by this machine's clock.

The dismissal of a CRITICAL finding counts only if you trust the key that
countersigned it. Else the finding is open, and the exit code is 3.`,
		Example: `  gaia verify runs/01J…
  gaia verify submission-2026-01-02-5XK9QZ7M
  gaia verify --trusted-key alice.pub submission-2026-01-02-5XK9QZ7M.tar.gz
  gaia verify --dataset hub submission-2026-01-02-5XK9QZ7M
  gaia verify --checkpoint published submission-2026-01-02-5XK9QZ7M
  gaia verify submission-2026-01-02-5XK9QZ7M --package submission-2026-01-02-5XK9QZ7M-public
  gaia verify --dataset hub packages/*.tar.gz
  gaia verify --json packages/* | jq -r 'select(.exit_code != 0).path'
  gaia verify task.json --checkpoint published
  gaia verify task.json --package submission-2026-01-02-5XK9QZ7M-public`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("see 'gaia verify --help'", "verify takes run directories, packages, archives or evidence bundles")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			debug.SetMemoryLimit(min(debug.SetMemoryLimit(-1), softMemory))
			if err := notEmpty(cmd, "body", "checkpoint", "dataset", "hmac-key-file", "package"); err != nil {
				return err
			}
			if err := (&taskFlags{source: v.dataset}).checkSource(); err != nil {
				return err
			}
			if len(args) > 1 {
				if err := v.several(cmd); err != nil {
					return err
				}
				return a.verifyMany(cmd.Context(), args, v)
			}
			c, err := a.check(cmd.Context(), args[0], v)
			if err != nil {
				return err
			}
			if v.asJSON {
				err = a.printJSON(c.shown)
			} else {
				err = c.print()
			}
			if err != nil {
				return err
			}
			return c.err
		},
	}
	v.trusted.register(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&v.bodies, "body", nil, "file with a document that the audit of a package had; may be given several times")
	f.StringVar(&v.checkpoint, "checkpoint", "", "file with the checkpoint that was published, which must be the one that is found")
	f.StringVar(&v.dataset, "dataset", "", "where the plan's answers are, to score and audit a package again: hub, hub:OWNER/NAME, dir:PATH, or fixtures")
	f.StringVar(&v.hmacKey, "hmac-key-file", "", "the key that a bundle is signed with by HMAC-SHA256")
	f.StringVar(&v.packaged, "package", "", "the package of the run, full or public, which a bundle must agree with; or the public one, which a full one must give")
	f.BoolVar(&v.asJSON, "json", false, "print the result as JSON")
	completeWith(cmd, "dataset", cobra.ShellCompDirectiveNoSpace|cobra.ShellCompDirectiveNoFileComp, sourceHub, sourceRepo, sourceDir, sourceFixtures)
	return cmd
}

// softMemory is where the collector begins to work harder, in bytes: whoever signed what
// is verified may have made it costly.
const softMemory = 320 << 20

// verifiable says what verify takes.
const verifiable = "give a run directory, a package, folder or archive, or an evidence bundle that 'gaia disclose' wrote"

// verifying is what the flags of verify say.
type verifying struct {
	trusted             trustFlags
	checkpoint, hmacKey string
	packaged            string   // a package, to hold a bundle or a full package against
	dataset             string   // a source, as --source is written
	bodies              []string // files with whole documents
	asJSON              bool
}

// check refuses flags that say nothing of the run or package p.
func (v verifying) check(p *evidence) error {
	const pairs = "--package is for evidence bundles and full packages"
	switch {
	case v.hmacKey != "":
		return usage("leave it out: the plan names the key that signed it", "--hmac-key-file is for evidence bundles")
	case v.dataset != "" && !p.packaged:
		return usage("a run is audited with 'gaia audit'", "--dataset is for packages, which it scores and audits again")
	case len(v.bodies) > 0 && !p.packaged:
		return usage("gaia audit --body FILE "+quoteArg(p.path), "--body is for packages, which it audits again")
	case len(v.bodies) > 0 && p.isPublic():
		return usage("give the full package", "--body runs the audit of a package again, and %q is a public one: what the audit reads is withheld", p.path)
	case v.packaged != "" && !p.packaged:
		return usage("make the full package of the run with 'gaia submit', and give it in the place of the run", "%s, and %q is a run", pairs, p.path)
	case v.packaged != "" && p.isPublic():
		return usage("give the full package first: gaia verify PACKAGE --package "+quoteArg(p.path), "%s, and %q is a public one", pairs, p.path)
	}
	return nil
}

// published reads the checkpoint that was published; nil: none is given.
func (v verifying) published() ([]byte, error) {
	if v.checkpoint == "" {
		return nil, nil
	}
	const hint = "give a file with the checkpoint that was published, as it stands in a run or a package"
	info, err := os.Stat(v.checkpoint)
	if err == nil && !info.Mode().IsRegular() { // opening a pipe would wait
		err = errors.New("is not a regular file")
	}
	var data []byte
	if err == nil {
		data, err = readAtMost(v.checkpoint, maxPublished)
	}
	if err != nil {
		return nil, usage(hint, "reading the checkpoint %q: %v", v.checkpoint, unwrapPath(err))
	}
	if _, err := trajectory.ParseCheckpoint(data); err != nil {
		return nil, usage(hint, "%q holds no checkpoint", v.checkpoint)
	}
	return data, nil
}

// Which checkpoint it was, in JSON.
const (
	checkpointGiven   = "given"   // it is the one of --checkpoint
	checkpointPackage = "package" // of a bundle: it is the one in the package of --package
	checkpointOwn     = "own"     // it was held against nothing
)

// isPublished wants the checkpoint of a verified run or package to be the one that
// was published, if one is given, and says which it is.
func (v verifying) isPublished(p *evidence, published []byte) (string, error) {
	if published == nil {
		return checkpointOwn, nil
	}
	own, err := rundir.ReadFile(p.files, trajectory.CheckpointFile, maxPublished)
	fault := (*trajectory.Fault)(nil)
	switch {
	case errors.As(err, &fault) && fault.Reason == rundir.Missing: // the run is not complete
		err = trajectory.Faultf(trajectory.CheckpointFile, "%s, so it is not the one in %q", rundir.Missing, v.checkpoint)
	case err == nil && !bytes.Equal(own, published):
		err = trajectory.Faultf(trajectory.CheckpointFile, "is not the one in %q", v.checkpoint)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", p.path, err)
	}
	return checkpointGiven, nil
}
