package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/internal/witnessfile"
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
			return witnessfile.VerifyAll(a.stdout, args, keyFile)
		},
	}
	cli.RejectEmpty(cmd, "hmac-key-file")
	cmd.Flags().StringVar(&keyFile, "hmac-key-file", "", "file with the key that signer and reader share")
	return cmd
}

func (a *app) witnessExportCommand() *cobra.Command {
	var x witnessfile.Export
	asJSON := false
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
			if x.Path == "-" {
				return usage("give the name of a folder, or with --task of a file", "witness bundles are not written to standard output")
			}
			return a.witnessExport(cmd.Context(), args[0], &x, asJSON)
		},
	}
	cli.RejectEmpty(cmd, "task", "out", "hmac-key-file")
	f := cmd.Flags()
	f.StringVar(&x.Task, "task", "", "task id, or the start of one (default: all tasks)")
	f.StringVarP(&x.Path, "out", "o", "", "folder to write, or with --task the file (default: witness-<run id>, or <task id>.rvw, here)")
	f.StringVar(&x.KeyFile, "hmac-key-file", "", "sign with the bytes of this file by HMAC-SHA256")
	f.BoolVar(&x.UnpricedAsZero, "unpriced-as-zero", false, "count calls without a known price as free")
	f.BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

func (a *app) witnessExport(ctx context.Context, dir string, x *witnessfile.Export, asJSON bool) error {
	p, err := verify.OpenJournal(dir)
	if err != nil {
		return err
	}
	defer p.Close()
	found, err := x.Write(ctx, dir, p)
	if err != nil {
		return err
	}
	if !found.Complete {
		return exit.First(a.checkSigner(found), incomplete(dir, found))
	}
	if x.Unpriced > 0 {
		fmt.Fprintf(a.stderr, "gaia: unpriced: in %s calls without a known price count as free\n", view.Count(x.Unpriced, "witness bundle"))
	}
	return cmp.Or(a.printRows(x.Written(found), asJSON, nil), a.checkSigner(found))
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
			return witnessfile.Replay(a.stdout, args[0], keyFile)
		},
	}
	cli.RejectEmpty(cmd, "hmac-key-file")
	cmd.Flags().StringVar(&keyFile, "hmac-key-file", "", "file with the key that signer and reader share")
	return cmd
}
