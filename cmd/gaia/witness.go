package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stop"
	"github.com/gaia-harness/gaia/internal/tasklist"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/internal/witnessfile"
	"github.com/gaia-harness/gaia/trajectory/witness"
	"github.com/spf13/cobra"
)

func (a *app) witnessCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "witness",
		Short: "Write and read witness bundles, one file per task",
		Long: `A witness bundle (.rvw) holds one attempt in one small binary file: question, plan,
each tool call with the policy's decision, the diff of the workspace, the checks of
the answer, and the cost. Other programs write and read such files, too.

A bundle may be signed with a key that you share with its reader. For evidence that
anybody can check, see 'gaia disclose' and 'gaia submit'.`,
		Example: `  gaia witness export runs/01J… --hmac-key-file shared.key
  gaia witness verify witness-01J…/*.rvw --hmac-key-file shared.key
  gaia witness replay witness-01J…/3f2a….rvw`,
	}, a.witnessExportCommand(), a.witnessShowCommand(), a.witnessVerifyCommand(), a.witnessReplayCommand())
}

func (a *app) witnessShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show FILE",
		Short: "Print a witness bundle",
		Long: `Show prints the header of a witness bundle and the beginning of each section. It
does not check the signature: see 'gaia witness verify'.`,
		Example: `  gaia witness show 3f2a….rvw
  gaia witness show 3f2a….rvw --json`,
		Args: cli.OneArg("the file of a witness bundle"),
		RunE: func(_ *cobra.Command, args []string) error {
			w, err := witnessfile.Read(args[0])
			if err != nil {
				return err
			}
			return view.Result(a.stdout, asJSON, witnessfile.NewJSON(w), view.RowsText(witnessfile.Rows(w))+witnessfile.Sections(w))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the header and the trace as JSON")
	return cmd
}

func (a *app) witnessVerifyCommand() *cobra.Command {
	var keyFile string
	cmd := &cobra.Command{
		Use:   "verify FILE… --hmac-key-file KEY",
		Short: "Check that witness bundles are signed with a key",
		Long: `Verify checks that each file is a complete witness bundle, signed with the key of
--hmac-key-file. It refuses an unsigned one, since anyone can remove a signature.`,
		Example: `  gaia witness verify witness-01J…/*.rvw --hmac-key-file shared.key`,
		Args:    cli.SomeArgs("see 'gaia witness verify --help'", "witness verify takes the files of witness bundles"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.NotEmpty(cmd, "hmac-key-file"); err != nil {
				return err
			}
			return a.witnessVerify(args, keyFile)
		},
	}
	cmd.Flags().StringVar(&keyFile, "hmac-key-file", "", "file with the key that signer and reader share")
	return cmd
}

// witnessVerify looks at every file. What to exit with is that of the gravest.
func (a *app) witnessVerify(paths []string, keyFile string) error {
	if keyFile == "" {
		return usage("give the key that signer and reader share by --hmac-key-file", "without a key there is no signature to check")
	}
	key, err := sharedKey(keyFile)
	if err != nil {
		return err
	}
	var bad []*failure
	for _, path := range paths {
		w, err := witnessfile.Read(path)
		if err == nil {
			err = witnessfile.CheckSigned(path, w, key)
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

// witnessing is what the flags of witness export say.
type witnessing struct {
	task, out, hmacKey string
	unpriced, asJSON   bool
}

func (a *app) witnessExportCommand() *cobra.Command {
	var x witnessing
	cmd := &cobra.Command{
		Use:   "export DIR|PACKAGE",
		Short: "Write a witness bundle of each task of a run",
		Long: `Export verifies a finished run or a full package, folder or archive, and writes a
witness bundle for each task, of the attempt that counts. They appear together in a
new folder, or not at all. With --task one file is written.

A bundle holds the question, but no gold answer. An unknown
price is an error, unless --unpriced-as-zero counts such calls as free.
Do not publish bundles of GAIA where crawlers find them.`,
		Example: `  gaia witness export runs/01J…
  gaia witness export runs/01J… --hmac-key-file shared.key --out bundles
  gaia witness export submission-2026-01-02-5XK9QZ7M --task 3f2a -o task.rvw`,
		Args: cli.OneArg("the run directory, package or archive"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.NotEmpty(cmd, "task", "out", "hmac-key-file"); err != nil {
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
	f.BoolVar(&x.unpriced, "unpriced-as-zero", false, "count calls without a known price as free")
	f.BoolVar(&x.asJSON, "json", false, "print the result as JSON")
	return cmd
}

func (a *app) witnessExport(ctx context.Context, dir string, x witnessing) error {
	p, err := verify.OpenJournal(dir)
	if err != nil {
		return err
	}
	defer p.Close()
	out := &witnessfile.Export{UnpricedAsZero: x.unpriced}
	if x.hmacKey != "" {
		key, err := sharedKey(x.hmacKey)
		if err != nil {
			return err
		}
		out.Key = &key
	}
	plan, _, _, err := rundir.ReadPlan(p.Files)
	if err != nil {
		return err
	}
	if x.task != "" {
		at, err := tasklist.Find(x.task, len(plan.Tasks), func(i int) string { return plan.Tasks[i].TaskID })
		if err != nil {
			return err
		}
		if at < 0 {
			return usage("'gaia show DIR' lists the tasks", "the run has no task %q", x.task)
		}
		out.Task = plan.Tasks[at].TaskID
	}
	out.Path = filepath.Clean(cmp.Or(x.out, witnessfile.DefaultPath(plan, out.Task)))
	if err := verify.NotWithin("the witness bundles", dir, filepath.Dir(out.Path)); err != nil {
		return err
	}
	ctx, release := stop.Context(ctx)
	defer release()
	found, err := out.Write(ctx, p)
	if err != nil {
		return err
	}
	if !found.Complete {
		return exit.First(a.checkSigner(found), incomplete(dir, found))
	}
	if out.Unpriced > 0 {
		fmt.Fprintf(a.stderr, "gaia: unpriced: in %s calls without a known price count as free\n", view.Count(out.Unpriced, "witness bundle"))
	}
	if err := a.printWitnesses(found, out, x); err != nil {
		return err
	}
	return a.checkSigner(found)
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

func (a *app) printWitnesses(found *rundir.Run, x *witnessfile.Export, flags witnessing) error {
	out := witnessed{Bundles: x.Bundles, Bytes: x.Bytes, Error: x.Outcomes[witness.Error], EvidenceComplete: x.Complete,
		Failed: x.Outcomes[witness.Failed], Path: x.Path, Rehearsal: found.Manifest.Rehearsal, RunID: found.Manifest.RunID, Signed: x.Key != nil,
		Skipped: x.Outcomes[witness.Skipped], Solved: x.Outcomes[witness.Solved], TaskID: x.Task, Unpriced: x.Unpriced,
		Unsubmittable: verify.Unsubmittable(found)}
	signed := "no"
	if x.Key != nil {
		out.KeyID = x.Key.KeyID()
		signed = "with the key " + out.KeyID
	}
	if flags.asJSON {
		return view.JSON(a.stdout, out)
	}
	rows := view.List{{"run", out.RunID}}
	if out.Rehearsal {
		rows.Add("rehearsal", runview.RehearsalNote)
	}
	rows.AddNonEmpty("task", out.TaskID)
	rows = append(rows,
		[2]string{"bundles", fmt.Sprintf("%d: %d solved, %d failed, %d error, %d skipped or unscored", out.Bundles, out.Solved, out.Failed, out.Error, out.Skipped)},
		[2]string{"evidence", fmt.Sprintf("complete in %d of them", out.EvidenceComplete)},
		[2]string{"signed", signed},
		[2]string{"bytes", fmt.Sprint(out.Bytes)},
		[2]string{"written to", out.Path})
	rows.AddNonEmpty("unsubmittable", out.Unsubmittable)
	next := "gaia scorecard " + view.Quote(out.Path)
	if out.TaskID != "" {
		next = "gaia witness replay " + view.Quote(out.Path)
		if out.Signed {
			next += " --hmac-key-file " + view.Quote(flags.hmacKey)
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
question and plan, tool calls, diff and test log, and checks that outcome and test log
agree. Nothing runs again.

With --hmac-key-file a bundle without that signature is not shown: exit code 4.
Without it, or if the test log does not decide the outcome, everything is shown, and
the exit code is 3.`,
		Example: `  gaia witness replay 3f2a….rvw
  gaia witness replay 3f2a….rvw --hmac-key-file shared.key`,
		Args: cli.OneArg("the file of a witness bundle"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.NotEmpty(cmd, "hmac-key-file"); err != nil {
				return err
			}
			return a.witnessReplay(args[0], keyFile)
		},
	}
	cmd.Flags().StringVar(&keyFile, "hmac-key-file", "", "file with the key that signer and reader share")
	return cmd
}

func (a *app) witnessReplay(path, keyFile string) error {
	var key sign.HMACKey
	var err error
	if keyFile != "" {
		if key, err = sharedKey(keyFile); err != nil {
			return err
		}
	}
	w, err := witnessfile.Read(path)
	if err != nil {
		return err
	}
	signature := "not signed: anyone can have made or changed it"
	hint := "ask for one that is signed: gaia witness export DIR --hmac-key-file FILE"
	switch {
	case keyFile != "":
		if err := witnessfile.CheckSigned(path, w, key); err != nil {
			return err
		}
		signature = "signed with the key " + key.KeyID()
	case w.Signed():
		signature = "signed, and the signature is not checked"
		hint = "gaia witness replay " + view.Quote(path) + " --hmac-key-file FILE"
	}
	text, err := witnessfile.Replay(path, w, signature)
	if _, err := io.WriteString(a.stdout, text); err != nil {
		return err
	}
	if keyFile == "" && err == nil {
		return fail(exit.Findings, errors.New("the bundle is "+signature), hint)
	}
	return err
}
