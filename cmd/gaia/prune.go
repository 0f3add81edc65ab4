package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/prune"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/submit"
	"github.com/spf13/cobra"
)

func (a *app) pruneCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove old runs, bodies, packages and cassettes",
		Long: `Prune removes what is older than --older-than, or all except the --keep newest;
with both, both must hold. It removes only what it recognises: runs and packages
that verify, folders of bodies in runs, and cassettes. It follows no link. It prints
a list and asks first; without a terminal it needs --yes.

A run that a process is writing is never removed, an unfinished one only with
--force. A record of each run and package stays in $XDG_DATA_HOME/gaia/history (else
~/.local/share), signed with your key: plan digest, checkpoint, date, and everything
that 'gaia ledger' and 'gaia trend' count of it.`,
		Example: `  gaia prune runs --older-than 90d --dry-run
  gaia prune bodies --keep 5 --yes
  gaia prune packages archive --keep 10`,
		Args:              cli.KnownCommand,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, k := range []pruneKind{
		{"runs", "Remove run directories", `Each PATH is a run directory, or a folder of them (default: runs). A run that does
not verify, or contains other files, is named and not removed.`,
			"  gaia prune runs --older-than 90d\n  gaia prune runs runs/01J… --keep 0 --force --yes", ledger.DefaultRuns, (*prune.Finder).Runs},
		{"bodies", "Remove the whole bodies that runs keep", `Each PATH is a run directory, or a folder of them (default: runs). The runs stay,
and still verify: their journals have the excerpts and digests of the bodies.`,
			"  gaia prune bodies --older-than 30d\n  gaia prune bodies runs/01J… --keep 0 --yes", ledger.DefaultRuns, (*prune.Finder).Bodies},
		{"packages", "Remove submission packages, folders and archives", `Each PATH is a package, its archive, or a folder of them (default: this one). The
date of a package is the one in its statement.`,
			"  gaia prune packages --keep 3 --dry-run\n  gaia prune packages submission-2026-01-02-5XK9QZ7M --keep 0", ".", (*prune.Finder).Packages},
		{"cassettes", "Remove cassettes of recorded answers", `Each PATH is a cassette, or a folder of them. The age of a cassette is that of its
newest file.`,
			"  gaia prune cassettes cassettes --older-than 30d\n  gaia prune cassettes old-cassette --keep 0", "", (*prune.Finder).Cassettes},
	} {
		cmd.AddCommand(a.pruneKindCommand(k))
	}
	return cmd
}

// pruneKind is what a command below prune removes.
type pruneKind struct {
	name, short, long, example string
	folder                     string // where it looks by default; "": a path must be given
	find                       func(*prune.Finder, string) error
}

// pruner is a command below prune by its flags.
type pruner struct {
	*app
	prune.Finder
	olderThan           string
	rule                prune.Rule
	dryRun, yes, asJSON bool
}

func (a *app) pruneKindCommand(k pruneKind) *cobra.Command {
	p := &pruner{app: a, Finder: prune.Finder{IsRun: func(path string) bool { return verify.IsRun(path) == nil },
		IsPackage: func(path string) bool {
			return strings.HasPrefix(filepath.Base(path), "submission-") && (submit.IsPackage(os.DirFS(path)) || verify.IsArchive(path))
		},
		IsCassette: func(path string) bool {
			_, err := llm.NewPlayer(path)
			return err == nil
		},
		Verify: ledger.Stats, Check: func(dir string) (*rundir.Run, error) {
			found, _, err := verify.Run(os.DirFS(dir))
			return found, err
		}, Package: ledger.VerifiedPackage, Foreign: runfiles.Foreign, Hold: runfiles.Hold, Busy: runfiles.ErrBusy}}
	cmd := &cobra.Command{
		Use:     k.name + " [PATH…]",
		Short:   k.short,
		Long:    k.short + ".\n\n" + k.long,
		Example: k.example,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check(cmd); err != nil {
				return err
			}
			if len(args) == 0 && k.folder == "" {
				return usage("gaia prune cassettes DIR --keep 0", "prune %s takes the folders to look at", k.name)
			}
			if len(args) == 0 {
				args = []string{k.folder}
			}
			return p.prune(k, args)
		},
	}
	if k.folder == "" {
		cmd.Use = k.name + " PATH…"
	}
	f := cmd.Flags()
	f.StringVar(&p.olderThan, "older-than", "", "remove only what is older than this: 720h, 30d")
	f.IntVar(&p.rule.Keep, "keep", -1, "keep this many of the newest")
	f.BoolVar(&p.dryRun, "dry-run", false, "show what would be removed, and remove nothing")
	f.BoolVar(&p.yes, "yes", false, "do not ask")
	f.BoolVar(&p.asJSON, "json", false, "print the result as JSON")
	if k.name == "runs" || k.name == "bodies" {
		f.BoolVar(&p.Force, "force", false, "also remove those of unfinished runs")
	}
	cli.Complete(cmd, "older-than")
	cli.Complete(cmd, "keep")
	return cmd
}

func (p *pruner) check(cmd *cobra.Command) error {
	if err := cli.NotEmpty(cmd, "older-than"); err != nil {
		return err
	}
	keeps := cmd.Flags().Changed("keep")
	switch {
	case keeps && p.rule.Keep < 0:
		return usage("--keep 0 keeps none", "--keep is %d", p.rule.Keep)
	case !keeps && p.olderThan == "":
		return usage("give --older-than 30d, --keep 10 or both; --keep 0 removes all", "nothing is selected")
	case p.olderThan == "":
		return nil
	}
	var err error
	if p.rule.Age, err = prune.ParseAge(p.olderThan); err != nil {
		return usage("give hours or days, such as 720h or 30d", "--older-than is %q, which is not an age", p.olderThan)
	}
	return nil
}

func (p *pruner) prune(k pruneKind, paths []string) error {
	for _, path := range paths {
		if err := k.find(&p.Finder, filepath.Clean(path)); err != nil {
			return err
		}
	}
	r, left := p.Choose(k.name, p.rule, time.Now())
	r.DryRun = p.dryRun
	for _, half := range p.Half {
		fmt.Fprintf(p.stderr, "gaia: goes too: %s, which a removal that did not end has left\n", view.Line(view.Quote(half)))
	}
	if !p.dryRun && len(r.Removed)+len(p.Half) > 0 {
		if !p.yes && p.asks {
			fmt.Fprint(p.stderr, r.Table())
		}
		if sure, err := p.sure("remove "+r.Size(), p.yes); err != nil || !sure {
			return err
		}
		var store *history.Store
		if r.KeepsRecords() {
			records, err := p.runReader()
			if err != nil {
				return err
			}
			if store = records.Store; store.Dir == "" {
				return noHistory()
			}
			key, err := p.user().Keyring().Signing("") // which is made if there is none
			if err != nil {
				return err
			}
			store.Key = &key
		}
		if err := p.Remove(r, store, time.Now()); err != nil {
			return err
		}
	}
	for _, l := range r.Left {
		if !p.asJSON {
			fmt.Fprintf(p.stderr, "gaia: left: %s: %s\n", view.Line(view.Quote(l.Path)), view.Line(l.Why))
		}
	}
	return cmp.Or(view.Result(p.stdout, p.asJSON, r, r.Table()+r.Summary()), left)
}
