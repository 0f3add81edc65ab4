package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/build"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/outfile"
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
	runflags.AddDataset(cmd, &v.Dataset, "dataset of the plan, to score and audit a package again: hub, hub:OWNER/NAME, dir:PATH, or fixtures", "")
	f.StringVar(&v.hmacKey, "hmac-key-file", "", "key of a bundle that is signed with HMAC-SHA256")
	f.StringVar(&v.Packaged, "package", "", "package to compare a bundle with; or the public package to compare a full one with")
	f.BoolVar(&v.asJSON, "json", false, "print the result as JSON")
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
		return runflags.SourceHub
	case d.Hub != "":
		return runflags.SourceRepo + d.Name
	case d.Name == fixtures.Name:
		return runflags.SourceFixtures
	}
	return runflags.SourceDir + "PATH"
}

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
	if errors.Is(err, rundir.ErrMerged) {
		return usage("give one task by --task; 'gaia show' lists them", "%v", err)
	}
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

// submission are the flags of submit.
type submission struct {
	out, date, key        string
	dirty, strict, asJSON bool
	archive, public       bool
	by                    submit.Submitter
	bodies                []string // files with whole documents
}

func (a *app) submitCommand() *cobra.Command {
	var s submission
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
		Example: `  gaia submit --strict --organisation "Example Lab" --contact lab@example.org runs/01J…
  gaia submit --archive --out packages runs/01J…
  gaia submit --public runs/01J…`,
		Args: cli.OneArg("the run directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.NotEmpty(cmd, "body", "out", "date", "key", "organisation", "contact"); err != nil {
				return err
			}
			if s.strict && s.dirty {
				return usage("leave one of them out", "--strict refuses what --allow-dirty packages")
			}
			return a.submit(cmd.Context(), args[0], s)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&s.out, "out", "o", ".", "directory in which the package appears")
	f.StringArrayVar(&s.bodies, "body", nil, "file with a whole document of which the run recorded an excerpt; repeatable")
	f.StringVar(&s.date, "date", "", "date of the package, such as 2026-01-02 (default: today, UTC)")
	f.StringVar(&s.key, "key", "", "signing key file, the one the run was planned with")
	f.BoolVar(&s.dirty, "allow-dirty", false, "package a refused run, marked as not for a leaderboard")
	f.BoolVar(&s.strict, "strict", false, "also refuse a run with findings to review")
	f.BoolVar(&s.public, "public", false, "leave out every text except the plan, so that the package can be posted")
	f.StringVar(&s.by.Organisation, "organisation", "", "who submits, as you state it")
	f.StringVar(&s.by.Contact, "contact", "", "where to ask about the submission, as you state it")
	f.BoolVar(&s.archive, "archive", false, "write one file, NAME.tar.gz, instead of a folder")
	f.BoolVar(&s.asJSON, "json", false, "print the result as JSON")
	cli.CompleteDirs(cmd, "out")
	for _, word := range []string{"date", "organisation", "contact"} {
		cli.Complete(cmd, word)
	}
	return cmd
}

func (a *app) submit(ctx context.Context, dir string, s submission) error {
	if s.date == "" {
		s.date = time.Now().UTC().Format(time.DateOnly)
	} else if submit.CheckDate(s.date, false) != nil {
		return usage("give it as 2026-01-02", "--date %q is not a date", s.date)
	}
	if err := submit.CheckDate(s.date, s.archive); err != nil {
		return usage("give a date from 1970-01-01 to 2242-03-16, or leave --archive out", "%v", err)
	}
	if err := verify.IsRun(dir); err != nil {
		return err
	}
	if err := verify.NotWithin("the package", dir, s.out); err != nil {
		return err
	}
	c := submit.Config{Run: dir, Out: s.out, Date: s.date, AllowDirty: s.dirty, Strict: s.strict, Archive: s.archive, Public: s.public}
	bodies, err := verify.ReadBodies(s.bodies)
	if err != nil {
		return err
	}
	c.Bodies = bodies.ByDigest()
	if s.by != (submit.Submitter{}) {
		if err := s.by.Check(); err != nil {
			return usage("give --organisation and --contact as one line each", "%v", err)
		}
		c.Submitter = &s.by
	}
	if c.Key, err = a.existingKey(s.key); err != nil {
		return withoutKey(dir, err)
	}
	if c.Gold, err = grading.PrivateGold(dir); err != nil {
		return err
	}
	if c.Harness, err = build.Harness(); err != nil {
		return err
	}
	ctx, release := stop.Context(ctx)
	defer release()
	p, err := submit.Build(ctx, c)
	var refusal *submit.Refusal
	var stray *submit.StrayBody
	switch {
	case errors.As(err, &stray):
		return bodies.Stray(stray.SHA256, "run")
	case errors.As(err, &refusal):
		return s.refused(dir, refusal)
	case errors.Is(err, audit.ErrIncomplete):
		found, err := verify.RunAt(dir)
		if err == nil && found.Complete { // it was finished in the meantime
			err = fail(exit.Incomplete, audit.ErrIncomplete, "it has just been finished: submit it again")
		}
		if err != nil {
			return err
		}
		return incomplete(dir, found)
	case errors.Is(err, submit.ErrTaken):
		return fail(exit.Failure, err, "remove it, or choose another --out or --date")
	case durable.NoPlace(err):
		return fail(exit.Failure, err, outfile.Remedy(err))
	case err != nil:
		return grading.PrivateFault(err)
	}
	if err := a.printPackage(p, s.asJSON); err != nil {
		return fail(exit.Failure, fmt.Errorf("the package was built as %q, but its summary cannot be printed: %w", p.Path, err), "gaia verify "+view.Quote(p.Path))
	}
	return nil
}

// refused returns the error of a run that is not packaged.
func (s submission) refused(dir string, r *submit.Refusal) error {
	f := &failure{Code: exit.Findings, Err: errors.New("the run is not packaged"), Reasons: r.Reasons}
	if r.PlanKey != "" {
		f.Hints = append(f.Hints, givePlanKey(r.PlanKey))
	}
	if r.Audit {
		f.Hints = append(f.Hints, "gaia audit "+view.Quote(dir))
	}
	switch {
	case r.Final:
	case r.Strict:
		f.Hints = append(f.Hints, "without --strict it is packaged")
	case s.strict:
		f.Hints = append(f.Hints, "--allow-dirty instead of --strict packages it all the same, marked as not for a leaderboard")
	default:
		f.Hints = append(f.Hints, "--allow-dirty packages it all the same, marked as not for a leaderboard")
	}
	return f
}

func givePlanKey(id string) string {
	return "give the key that the run was planned with by --key: " + id
}

// withoutKey returns the error of packaging with a key that cannot be used, or an error of the run, if it has one. No new
// key could sign for its plan.
func withoutKey(dir string, unusable error) error {
	found, err := verify.RunAt(dir)
	if err != nil {
		return err
	}
	if !found.Complete {
		return incomplete(dir, found)
	}
	given, hint := classify(unusable), givePlanKey(found.Key.ID())
	var open *sign.PermissionError
	switch {
	case errors.As(unusable, &open):
		return fail(exit.Findings, given.Err, given.Hints...)
	case errors.Is(unusable, sign.ErrPassphrase):
		return fail(exit.Findings, given.Err, "take the passphrase off a copy of the file: ssh-keygen -p -f COPY", hint)
	case errors.Is(unusable, sign.ErrPublicHalf):
		return fail(exit.Findings, given.Err, "give the private key file", hint)
	}
	return fail(exit.Findings, given.Err, hint)
}

func (a *app) printPackage(p submit.Package, asJSON bool) (err error) {
	var trusted keyring.Trust
	if p.Statement.Predicate.Dismissed > 0 {
		if trusted, err = a.ownTrust(); err != nil {
			trusted = keyring.Trust{} // the package is written already: verifiers have keys of their own
		}
	}
	built := verify.NewSubmitted(p, trusted)
	for _, warning := range built.Warnings() {
		a.warn(warning)
	}
	return a.printRows(built, asJSON)
}
