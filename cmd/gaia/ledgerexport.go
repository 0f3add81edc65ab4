package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/spf13/cobra"
)

func (a *app) ledgerExportCommand() *cobra.Command {
	q := &ledgerQuery{}
	var out, task string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write run events into a file, signed, for others to import",
		Long: `Export writes run events, a line each, and under them a seal by your signing key.
It verifies all runs anew, whatever was verified before, and writes nothing where one
does not verify, or where recording failed in a run that has events among them: exit
code 3. Imported events are among them, as far as their runs are not read:
you then vouch for what somebody else said.

The events hold task ids, names of files and what rules were broken by, but neither
questions nor answers.`,
		Example: `  gaia ledger export -o events.jsonl
  gaia ledger export --runs runs/01J… --since 2026-01-01 > events.jsonl`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd, "out", "task"); err != nil {
				return err
			}
			if err := q.check(cmd); err != nil {
				return err
			}
			return a.exportEvents(cmd.Context(), q, task, out)
		},
	}
	q.addFrom(cmd)
	f := cmd.Flags()
	f.StringVar(&task, "task", "", "only attempts at tasks whose id starts so")
	f.StringVarP(&out, "out", "o", "", "file to write, which must not be there (default: standard output)")
	completeFixed(cmd, "task")
	q.addTimes(cmd)
	return cmd
}

// recorded refuses runs that went on without evidence: to seal their events is to
// vouch for what nobody can check.
func recorded(unrecorded []string) error {
	if len(unrecorded) == 0 {
		return nil
	}
	f := &failure{Code: exitFindings, Err: fmt.Errorf("the evidence of %s is not complete: nothing is exported", counted(len(unrecorded), "run")),
		Hints: []string{"leave them out: name other runs by --runs, or other attempts by --task, --since and --until"}}
	for _, id := range unrecorded[:min(len(unrecorded), maxHinted)] {
		f.Reasons = append(f.Reasons, "recording failed in the run "+id)
	}
	if more := len(unrecorded) - maxHinted; more > 0 {
		f.Reasons = append(f.Reasons, fmt.Sprintf("and in %d more", more))
	}
	return f
}

func (a *app) exportEvents(ctx context.Context, q *ledgerQuery, task, out string) error {
	ctx, release := untilStopped(ctx)
	defer release()
	q.anew, q.live = true, true // what is kept of runs is nothing to sign
	events, unrecorded := []ledger.RunEvent{}, []string{}
	read, err := a.eachEvent(q, func(e shownEvent) error {
		if strings.HasPrefix(e.TaskID, task) {
			events = append(events, e.RunEvent)
			if e.unrecorded != "" && !slices.Contains(unrecorded, e.RunID) {
				unrecorded = append(unrecorded, e.RunID)
			}
		}
		return ctx.Err()
	}, nil)
	switch {
	case err != nil:
		return err
	case read.shortcomings.failed != nil && exit.Compare(classify(read.shortcomings.failed).Code, exitFindings) <= 0:
		return read.shortcomings.failed
	}
	if err := recorded(unrecorded); err != nil {
		return err
	}
	switch {
	case read.shortcomings.failed != nil:
		return read.shortcomings.failed
	case len(events) == 0:
		return usage("gaia ledger list lists those there are", "there is no event to export")
	}
	slices.SortFunc(events, func(a, b ledger.RunEvent) int { return strings.Compare(a.ID, b.ID) })
	key, err := a.signingKey("")
	if err != nil {
		return err
	}
	write := func(w io.Writer) error {
		to := ledger.NewLedgerWriter(w)
		for _, e := range events {
			if err := to.Add(e); err != nil {
				return err
			}
		}
		return to.Seal(key)
	}
	if out == "" || out == "-" {
		err = write(interruptible{ctx, a.stdout})
	} else {
		if err := notWithin("the export", os.DevNull, filepath.Dir(out)); err != nil { // in no run at all
			return err
		}
		err = writeStream(ctx, out, write)
	}
	if err != nil {
		return err
	}
	if read.Rehearsal {
		fmt.Fprintf(a.stderr, "gaia: rehearsal: %s\n", rehearsalNote)
	}
	fmt.Fprintf(a.stderr, "gaia: exported %s, sealed by %s\n", counted(len(events), "event"), key.Public().ID())
	return read.shortcomings.untrusted
}
