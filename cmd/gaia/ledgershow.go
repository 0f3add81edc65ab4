package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) ledgerShowCommand() *cobra.Command {
	q := &ledgerQuery{}
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a run event whole",
		Long:  `Show prints all that the ledger knows of an attempt, whose event's id, or the start of it, is ID.`,
		Example: `  gaia ledger show 01JABCDEFGHJKMNPQRSTVWXYZ0
  gaia ledger show 01JABCDEFGHJKMNPQRSTVWXYZ0 --json`,
		Args:              oneArg("the id of an event"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return usage("'gaia ledger list' lists them", "the id is empty")
			}
			if err := q.check(cmd); err != nil {
				return err
			}
			return a.showEvent(q, strings.ToUpper(args[0]))
		},
	}
	q.add(cmd)
	return cmd
}

func (a *app) showEvent(q *ledgerQuery, prefix string) error {
	var found []shownEvent
	n := 0
	read, err := a.eachEvent(q, func(e shownEvent) error {
		if !strings.HasPrefix(e.ID, prefix) {
			return nil
		}
		if n++; len(found) < maxHinted {
			found = append(found, e)
		}
		return nil
	}, nil)
	switch {
	case err != nil:
		return err
	case n == 0 && read.shortcomings.failed != nil:
		return read.end(nil) // where it may be
	case n == 0:
		return usage("'gaia ledger list' lists them", "there is no event %q", prefix)
	case n > 1:
		f := &failure{Code: exitUsage, Err: fmt.Errorf("%q is the start of the ids of %s", prefix, counted(n, "event")), Hints: []string{"give more of the id"}}
		for _, e := range found {
			f.Reasons = append(f.Reasons, e.ID)
		}
		if n > len(found) {
			f.Reasons = append(f.Reasons, fmt.Sprintf("and %d more", n-len(found)))
		}
		return f
	}
	read.only(found[0])
	if q.asJSON {
		err = a.printJSON(struct {
			shownEvent
			shortfall
		}{found[0], read.shortfall})
	} else {
		err = a.printRows(eventRows(found[0]))
	}
	if err != nil {
		return err
	}
	return read.end(nil)
}

// eventRows are all members of an event for a person.
func eventRows(e shownEvent) [][2]string {
	list := func(all []string) string {
		if len(all) == 0 {
			return "none"
		}
		return strings.Join(all, ", ")
	}
	counts := "not the task's result: another attempt is counted"
	if e.Counted {
		counts = "the task's result"
	}
	rows := [][2]string{{"event", e.ID}, {"ended", e.Timestamp}, {"run", e.RunID}, {"task", e.TaskID}, {"level", strconv.Itoa(e.Level)},
		{"attempt", strconv.Itoa(e.Attempt) + ", " + counts}, {"intent", e.Intent}, {"outcome", outcomeOf(e.RunEvent)},
		{"checks", fmt.Sprintf("%d ran: %d passed, %d failed; %d skipped", e.TestResults.Ran, e.TestResults.Passed, e.TestResults.Failed, e.TestResults.Skipped)},
		{"model", e.Model}, {"tools", list(e.ToolsUsed)}, {"calls", fmt.Sprintf("%s, %s retried", counted(e.ToolCalls, "tool call"), counted(e.Retries, "model call"))},
		{"tokens", strconv.FormatInt(e.Tokens, 10)}, {"cost", dollars(e.CostMicroUSD)}, {"duration", (time.Duration(e.DurationMs) * time.Millisecond).String()},
		{"files", list(e.FilesTouched)},
		{"diff", fmt.Sprintf("%s, %s added, %d removed", counted(e.DiffSummary.Files, "file"), counted(e.DiffSummary.LinesAdded, "line"), e.DiffSummary.LinesRemoved)},
		{"rework", counted(e.ReworkLines, "line")}, {"rollbacks", strconv.Itoa(e.Rollbacks)}, {"rules", list(e.RetrievedRuleIDs)}, {"triggered", list(e.TriggeredRuleIDs)}}
	for _, v := range e.Violations {
		corrected := "not corrected"
		if v.AutoCorrected {
			corrected = "corrected"
		}
		rows = append(rows, [2]string{"violation", fmt.Sprintf("%s, %s, %s, %s: %s", cmp.Or(v.RuleID, v.Class), v.Severity, v.Location, corrected, v.Description)})
	}
	if len(e.Violations) == 0 {
		rows = append(rows, [2]string{"violations", "none"})
	}
	rows = append(rows, [2]string{"refused", counted(e.PersonRefusals, "call") + " by a person"})
	rows = append(rows, [2]string{"guidance", e.GuidanceHash}, [2]string{"policy", policyOf(e.RunEvent)}, [2]string{"session", e.Session}, [2]string{"manifest", e.ManifestSHA256},
		[2]string{"signed by", e.SignedBy}, [2]string{"schema", e.Schema})
	if e.Imported {
		rows = append(rows, [2]string{"imported", "yes: it is the word of who exported it"})
	}
	if e.unrecorded != "" {
		rows = slices.Insert(rows, 0, [2]string{"recording failed", e.unrecorded})
	}
	if e.Rehearsal {
		rows = slices.Insert(rows, 0, [2]string{"rehearsal", rehearsalNote})
	}
	return rows
}
