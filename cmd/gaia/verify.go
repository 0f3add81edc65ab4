package main

import (
	"context"
	"math"
	"runtime/debug"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/build"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stop"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/loader"
	"github.com/spf13/cobra"
)

func (a *app) verifyCommand() *cobra.Command {
	var v verifying
	cmd := &cobra.Command{
		Use:   "verify PACKAGE…",
		Short: "Verify a run, a package or an evidence bundle",
		Long: `Verify checks the plan's signature and the hash chain of the journal, and rebuilds
trajectories, results, summary and tree head from the journal, byte for byte. For a
package it also checks that exactly its files exist, every digest, and that the
signed statement follows from the files. PACKAGE is a run directory, a package,
its archive (of any tar program), or an evidence bundle of 'gaia disclose'.

  - --dataset computes every official verdict again, and repeats the audit if it
    had the same answers or none; --body gives the whole documents that it used
  - --package compares a bundle with the package of its run, full or public, or a
    full package with the public one
  - --checkpoint compares the checkpoint with the published one, byte for byte
A public package has no journal: its signatures, plan and tree are checked, and its
scores are self-reported.

For several packages it prints one line each, reports duplicates and resubmissions,
and exits with the code that has precedence. Two histories of one run by one key are
exit code 4, unless one is the beginning of the other.

Integrity (these bytes are what was signed) and trust (by a key you trust) are
reported separately. Changed evidence is exit code 4. Intact evidence by a key that is
unknown or expired is exit code 6, before 5 (incomplete) and 3 (findings). You
trust your own signing key, the keys in your key directory, and those given; dates
in allowed_signers are compared with this machine's clock. The dismissal of a
CRITICAL finding counts only if you trust the key that countersigned it.`,
		Example: `  gaia verify --trusted-key alice.pub submission-2026-01-02-5XK9QZ7M.tar.gz
  gaia verify --json --dataset hub packages/* | jq -r 'select(.exit_code != 0).path'
  gaia verify task.json --package submission-2026-01-02-5XK9QZ7M-public`,
		Args: cli.Args(1, math.MaxInt, "run directories, packages, archives or evidence bundles"),
		RunE: func(cmd *cobra.Command, args []string) error {
			debug.SetMemoryLimit(min(debug.SetMemoryLimit(-1), softMemory))
			if err := cli.NotEmpty(cmd, "body", "checkpoint", "dataset", "hmac-key-file", "package"); err != nil {
				return err
			}
			if err := (&taskFlags{source: v.Dataset}).checkSource(); err != nil {
				return err
			}
			if len(args) > 1 {
				for _, name := range []string{"body", "checkpoint", "hmac-key-file", "package"} {
					if cmd.Flags().Changed(name) {
						return usage("verify it alone: gaia verify --"+name+" …", "--%s is about one package, and several are given", name)
					}
				}
			}
			if v.hmacKey != "" {
				v.HMAC = func() (sign.HMACKey, error) { return sharedKey(v.hmacKey) }
			}
			if err := v.ReadPublished(v.checkpoint); err != nil {
				return err
			}
			env, err := a.verifyEnv(cmd.Context()), error(nil)
			if env.Trust, err = a.trustedKeys(v.trusted); err != nil {
				return err
			}
			if len(args) > 1 {
				return env.CheckAll(args, v.Request, func(l verify.Line, text string) error {
					return view.Result(a.stdout, v.asJSON, l, view.Line(text)+"\n")
				})
			}
			c, err := env.Check(args[0], v.Request)
			if err != nil {
				return err
			}
			if err := view.Result(a.stdout, v.asJSON, c.Result, view.RowsText(c.Rows)); err != nil {
				return err
			}
			return c.Err
		},
	}
	v.trusted.register(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&v.Bodies, "body", nil, "file with a whole document that the audit used; repeatable")
	f.StringVar(&v.checkpoint, "checkpoint", "", "file with the published checkpoint, compared byte for byte")
	f.StringVar(&v.Dataset, "dataset", "", "dataset of the plan, to score and audit a package again: hub, hub:OWNER/NAME, dir:PATH, or fixtures")
	f.StringVar(&v.hmacKey, "hmac-key-file", "", "key of a bundle that is signed with HMAC-SHA256")
	f.StringVar(&v.Packaged, "package", "", "package to compare a bundle with; or the public package to compare a full one with")
	f.BoolVar(&v.asJSON, "json", false, "print the result as JSON")
	cli.CompletePrefixes(cmd, "dataset", sourceHub, sourceRepo, sourceDir, sourceFixtures)
	return cmd
}

// softMemory is the size, in bytes, from which the garbage collector works harder: a signer may have made the evidence costly
// to verify.
const softMemory = 320 << 20

// verifying are the flags of verify.
type verifying struct {
	verify.Request
	trusted             trustFlags
	checkpoint, hmacKey string
	asJSON              bool
}

// verifyEnv returns what a verification needs besides the evidence and whom the user trusts.
func (a *app) verifyEnv(ctx context.Context) verify.Env {
	return verify.Env{Harness: build.Harness, Incomplete: incomplete, Source: answersOf,
		Gold: func(source string, m plan.Plan) (*audit.Gold, error) {
			ctx, release := stop.Context(ctx)
			defer release()
			return a.goldFor(ctx, source, m)
		},
		Questions: func(source string, run *rundir.Run) error {
			ctx, release := stop.Context(ctx)
			defer release()
			return a.compareQuestions(ctx, source, run)
		},
		Levels: func(source string, m plan.Plan) error {
			ctx, release := stop.Context(ctx)
			defer release()
			set, _, err := a.plannedSplit(ctx, source, m.Dataset)
			if err != nil {
				return err
			}
			return grading.ComparePlan(ctx, source, m, set, true, a.warn)
		}}
}

// answersOf returns how the source of a plan's answers is written, as far as the plan has it.
func answersOf(d plan.Dataset) string {
	switch {
	case d.Hub != "" && d.Name == loader.GAIA:
		return sourceHub
	case d.Hub != "":
		return sourceRepo + d.Name
	case d.Name == fixtures.Name:
		return sourceFixtures
	}
	return sourceDir + "PATH"
}
