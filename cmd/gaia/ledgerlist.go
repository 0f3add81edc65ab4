package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) ledgerListCommand() *cobra.Command {
	q := &ledgerQuery{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List all run events",
		Long: `List prints a line for each attempt: the id of its event, when it ended, the end
of the run's id, the task (#2 is the second attempt at it), the kind of task, how it
ended and whether the official scorer accepted the answer, rules broken, lines
reworked, and how long it took. Behind that stands if another attempt is counted as
the task's result, and if the run went on when recording had failed.
A separate line marks each change of the guidance (all that the agent was held
to) and of the policy; --json marks the event (guidance_changed, policy_changed).`,
		Example: `  gaia ledger list
  gaia ledger list --runs runs/01J… --json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              a.listing(q),
	}
	q.add(cmd)
	return cmd
}

func (a *app) ledgerRangeCommand() *cobra.Command {
	q := &ledgerQuery{}
	cmd := &cobra.Command{
		Use:   "range",
		Short: "List the run events of a span of time",
		Long: `Range lists the attempts that ended at --since or later, and before --until. A
date is its first second in UTC: until 2026-02-01 is all of January. One of the two
may be left out.`,
		Example: `  gaia ledger range --since 2026-01-01 --until 2026-02-01
  gaia ledger range --since 2026-01-02T15:04:05Z --json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if q.since == "" && q.until == "" && !cmd.Flags().Changed("since") && !cmd.Flags().Changed("until") {
				return usage("gaia ledger list lists all", "ledger range takes --since, --until or both")
			}
			return a.listing(q)(cmd, args)
		},
	}
	q.add(cmd)
	q.addTimes(cmd)
	return cmd
}

// listing lists the events of a query as they are read.
func (a *app) listing(q *ledgerQuery) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		if err := q.check(cmd); err != nil {
			return err
		}
		return a.list(q)
	}
}

func (a *app) list(q *ledgerQuery) error {
	l := a.eventLister(q.asJSON)
	read, err := a.eachEvent(q, l.addEvent, nil)
	if err != nil {
		return err
	}
	if err := l.end(read); err != nil {
		return err
	}
	return read.end(nil)
}

func (a *app) ledgerRecentCommand() *cobra.Command {
	q := &ledgerQuery{}
	cmd := &cobra.Command{
		Use:               "recent N",
		Short:             "List the last run events",
		Long:              `Recent lists the N attempts that ended last, the last one last.`,
		Example:           `  gaia ledger recent 20`,
		Args:              oneArg("how many"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[0])
			if err != nil || n < 1 || n > maxRecent {
				return usage(fmt.Sprintf("give a number from 1 to %d", maxRecent), "%q is no number of events", args[0])
			}
			if err := q.check(cmd); err != nil {
				return err
			}
			return a.listRecent(q, n)
		},
	}
	q.add(cmd)
	return cmd
}

// maxRecent bounds the events that are held to be sorted.
const maxRecent = 100_000

func (a *app) listRecent(q *ledgerQuery, n int) error {
	var last []shownEvent
	return a.gather(q, func(e shownEvent) error {
		if last = append(last, e); len(last) >= 2*n {
			last = newest(last, n)
		}
		return nil
	}, func(error) ([]shownEvent, error) { return newest(last, n), nil })
}

// newest returns the n last events, in order.
func newest(events []shownEvent, n int) []shownEvent {
	slices.SortFunc(events, byID)
	return slices.Delete(events, 0, max(0, len(events)-n))
}

func byID(a, b shownEvent) int { return strings.Compare(a.ID, b.ID) }

func (a *app) ledgerTaskCommand() *cobra.Command {
	q := &ledgerQuery{}
	cmd := &cobra.Command{
		Use:   "task ID",
		Short: "List the run events of a task, over all runs",
		Long:  `Task lists the attempts at a task, whose id, or the start of it, is ID.`,
		Example: `  gaia ledger task fab1e034
  gaia ledger task fab1e034 --json`,
		Args:              oneArg("a task id"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return usage("'gaia ledger list' lists them", "the task id is empty")
			}
			if err := q.check(cmd); err != nil {
				return err
			}
			return a.listTask(q, args[0])
		},
	}
	q.add(cmd)
	return cmd
}

func (a *app) listTask(q *ledgerQuery, prefix string) error {
	var found []shownEvent
	return a.gather(q, func(e shownEvent) error {
		if strings.HasPrefix(e.TaskID, prefix) {
			found = append(found, e)
		}
		return nil
	}, func(failed error) ([]shownEvent, error) {
		slices.SortFunc(found, byID)
		return ofOneTask(found, prefix, failed)
	})
}

// ofOneTask returns the events of the one task whose id starts with prefix.
func ofOneTask(events []shownEvent, prefix string, failed error) ([]shownEvent, error) {
	var ids []string
	for _, e := range events {
		if !slices.Contains(ids, e.TaskID) {
			ids = append(ids, e.TaskID)
		}
	}
	at, err := startingWith(prefix, len(ids), func(i int) string { return ids[i] })
	switch {
	case err != nil:
		return nil, err
	case at < 0 && failed != nil:
		return nil, failed // where it may be
	case at < 0:
		return nil, usage("'gaia ledger list' lists them", "there is no event of a task %q", prefix)
	}
	return slices.DeleteFunc(events, func(e shownEvent) bool { return e.TaskID != ids[at] }), nil
}

// gather lists events that must all be read before the first is printed: found
// returns them, given why some were not.
func (a *app) gather(q *ledgerQuery, give func(shownEvent) error, found func(failed error) ([]shownEvent, error)) error {
	read, err := a.eachEvent(q, give, nil)
	if err != nil {
		return err
	}
	events, err := found(read.shortcomings.failed)
	if err != nil {
		return err
	}
	read.only(events...)
	l := a.eventLister(q.asJSON)
	for _, e := range events {
		if err := l.addEvent(e); err != nil {
			return err
		}
	}
	if err := l.end(read); err != nil {
		return err
	}
	return read.end(nil)
}
