package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/build"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/heap"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stop"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/submit"
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
  - --package compares a bundle with the package of its run, full or public,
    or a full package with the public one
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
  gaia verify --json --dataset hub packages/* |
      jq -r 'select(.exit_code != 0).path'
  gaia verify task.json --package submission-2026-01-02-5XK9QZ7M-public`,
		Args: cli.Args(1, math.MaxInt, "run directories, packages, archives or evidence bundles"),
		RunE: func(cmd *cobra.Command, args []string) error {
			debug.SetMemoryLimit(min(debug.SetMemoryLimit(-1), softMemory))
			if err := (&runflags.Tasks{Source: v.Dataset}).CheckSource(); err != nil {
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
				v.HMAC = func() (sign.HMACKey, error) { return keyring.Shared(v.hmacKey) }
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
			return cmp.Or(view.Result(a.stdout, v.asJSON, c.Result, view.RowsText(c.Rows)), c.Err)
		},
	}
	cli.RejectEmpty(cmd, "body", "checkpoint", "dataset", "hmac-key-file", "package")
	v.trusted.register(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&v.Bodies, "body", nil, "`file` with a whole document that the audit used; repeatable")
	f.StringVar(&v.checkpoint, "checkpoint", "", "file with the published checkpoint, compared byte for byte")
	runflags.AddDataset(cmd, &v.Dataset, "dataset of the plan, to score and audit a package again: hub, hub:OWNER/NAME, dir:PATH, or fixtures", "")
	f.StringVar(&v.hmacKey, "hmac-key-file", "", "key of a bundle that is signed with HMAC-SHA256")
	f.StringVar(&v.Packaged, "package", "", "package to compare a bundle with; or the public package to compare a full one with")
	f.BoolVar(&v.asJSON, "json", false, "print the result as JSON")
	return cmd
}

// softMemory is the size, in bytes, from which the garbage collector works harder: a signer may have made the evidence costly
// to verify.
const softMemory = 320<<20 + heap.Size

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
			return a.user().GoldFor(ctx, source, m)
		},
		Questions: func(source string, run *rundir.Run) error {
			ctx, release := stop.Context(ctx)
			defer release()
			return a.user().CompareQuestions(ctx, source, run)
		},
		Levels: func(source string, m plan.Plan) error {
			ctx, release := stop.Context(ctx)
			defer release()
			set, _, err := a.user().PlannedSplit(ctx, source, m.Dataset)
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
		return runflags.SourceHub
	case d.Hub != "":
		return runflags.SourceRepo + d.Name
	case d.Name == fixtures.Name:
		return runflags.SourceFixtures
	}
	return runflags.SourceDir + "PATH"
}

func (a *app) discloseCommand() *cobra.Command {
	var d verify.Disclosure
	asJSON := false
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
			if d.Out == "-" {
				return usage("give the name of a file", "an evidence bundle is not written to standard output")
			}
			return a.disclose(cmd.Context(), args[0], d, asJSON)
		},
	}
	cli.RejectEmpty(cmd, "task", "out", "key", "hmac-key-file")
	f := cmd.Flags()
	f.StringVar(&d.Task, "task", "", "task id, or the start of one (default: the whole run)")
	f.StringVarP(&d.Out, "out", "o", "", "file to write (default: evidence-<run>[-<number of the task>].json here)")
	f.StringVar(&d.Key, "key", "", "signing key file")
	f.StringVar(&d.HMACKey, "hmac-key-file", "", "sign by HMAC-SHA256 with the key in this file instead")
	f.BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

func (a *app) disclose(ctx context.Context, dir string, d verify.Disclosure, asJSON bool) error {
	p, err := verify.OpenJournal(dir)
	if err != nil {
		return err
	}
	defer p.Close()
	signer, verifier, err := a.bundleSigner(d)
	if err != nil {
		return err
	}
	out, found, err := d.Write(ctx, p, signer, verifier)
	if err != nil {
		return err
	}
	if !found.Complete {
		return exit.First(a.checkSigner(found), incomplete(dir, found))
	}
	return cmp.Or(a.printRows(out, asJSON, nil), a.checkSigner(found))
}

// bundleSigner returns the key to sign a bundle with and its verifying half.
func (a *app) bundleSigner(d verify.Disclosure) (sign.Signer, sign.Verifier, error) {
	if d.HMACKey != "" {
		if d.Key != "" {
			return nil, nil, usage("give one of them", "--key and --hmac-key-file exclude each other")
		}
		key, err := keyring.Shared(d.HMACKey)
		return key, key, err
	}
	key, err := a.user().ExistingKey(d.Key)
	if errors.Is(err, keyring.ErrNoKey) {
		return nil, nil, usage("give one by --key, or one you share with the reader by --hmac-key-file", "%v", err)
	}
	return key, key.Public(), err
}

func (a *app) submitCommand() *cobra.Command {
	var s verify.Submission
	var key string
	asJSON := false
	cmd := &cobra.Command{
		Use:   "submit DIR",
		Short: "Build a signed submission package",
		Long: `Submit copies a run, verifies and audits the copy, and signs it as a package:
evidence, scores, audit report and attestation. The package is verified before it
appears.

Submit refuses a run, with every reason, if:
  - it was planned without --submit-intent, or with another key
  - recording failed
  - the audit is not clean (a countersigned dismissal closes its finding here;
    verifiers of the package must trust the countersigner)
--allow-dirty packages it anyway, marked as not for a leaderboard, except with
another key. --strict also refuses findings that a person must review.

--body gives the audit a whole document, as 'gaia audit' takes it. A verifier needs
the file, too, to repeat the audit.

Questions and answers of GAIA must not be republished where crawlers find them:
share the package of a real run in private. --public builds one that can be posted.
It has no text of the run except its plan, so its scores are self-reported until
you disclose tasks with 'gaia disclose'.`,
		Example: `  gaia submit --organisation "Example Lab" --contact lab@example.org runs/01J…
  gaia submit --archive --out packages runs/01J…
  gaia submit --public runs/01J…`,
		Args: cli.OneArg("the run directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.Strict && s.AllowDirty {
				return usage("leave one of them out", "--strict refuses what --allow-dirty packages")
			}
			s.Run = args[0]
			return a.submit(cmd.Context(), s, key, asJSON)
		},
	}
	cli.RejectEmpty(cmd, "body", "out", "date", "key", "organisation", "contact")
	f := cmd.Flags()
	f.StringVarP(&s.Out, "out", "o", ".", "directory in which the package appears")
	f.StringArrayVar(&s.BodyFiles, "body", nil, "`file` with a whole document of which the run has an excerpt; repeatable")
	f.StringVar(&s.Date, "date", "", "date of the package, such as 2026-01-02 (default: today, UTC)")
	f.StringVar(&key, "key", "", "signing key file, the one the run was planned with")
	f.BoolVar(&s.AllowDirty, "allow-dirty", false, "package a refused run, marked as not for a leaderboard")
	f.BoolVar(&s.Strict, "strict", false, "also refuse a run with findings to review")
	f.BoolVar(&s.Public, "public", false, "leave out every text except the plan, so that the package can be posted")
	f.StringVar(&s.By.Organisation, "organisation", "", "who submits, as you state it")
	f.StringVar(&s.By.Contact, "contact", "", "where to ask about the submission, as you state it")
	f.BoolVar(&s.Archive, "archive", false, "write one file, NAME.tar.gz, instead of a folder")
	f.BoolVar(&asJSON, "json", false, "print the result as JSON")
	cli.CompleteDirs(cmd, "out")
	for _, word := range []string{"date", "organisation", "contact"} {
		cli.Complete(cmd, word)
	}
	return cmd
}

func (a *app) submit(ctx context.Context, s verify.Submission, key string, asJSON bool) error {
	p, err := a.verifyEnv(ctx).Submit(ctx, s, func() (sign.Key, error) { return a.user().ExistingKey(key) })
	if err != nil {
		return err
	}
	if err := a.printPackage(p, asJSON); err != nil {
		return fail(exit.Failure, fmt.Errorf("the package was built as %q, but its summary cannot be printed: %w", p.Path, err), "gaia verify "+view.Quote(p.Path))
	}
	return nil
}

func (a *app) printPackage(p submit.Package, asJSON bool) (err error) {
	var trusted keyring.Trust
	if p.Statement.Predicate.Dismissed > 0 {
		if trusted, err = a.user().OwnTrust(); err != nil {
			trusted = keyring.Trust{} // the package is written already: verifiers have keys of their own
		}
	}
	built := verify.NewSubmitted(p, trusted)
	for _, warning := range built.Warnings() {
		a.warn(warning)
	}
	return a.printRows(built, asJSON, nil)
}
