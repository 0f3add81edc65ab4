package main

import (
	"fmt"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
)

func (a *app) ledgerRankCommand() *cobra.Command {
	q := &ledgerQuery{}
	cmd := &cobra.Command{
		Use:   "rank",
		Short: "Rank the rules that were broken by what that cost",
		Long: `Rank lists the rules that attempts broke: how often, in how many attempts, and how
many lines those reworked on average. The score is frequency × mean rework; of equal
scores the rule that was broken more often comes first, of equal ones that with the
lower id.`,
		Example: `  gaia ledger rank
  gaia ledger rank --since 2026-01-01 --json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := q.check(cmd); err != nil {
				return err
			}
			return a.rankRules(q)
		},
	}
	q.add(cmd)
	q.addTimes(cmd)
	return cmd
}

func (a *app) rankRules(q *ledgerQuery) error {
	var ranking ledger.Ranking
	read, err := a.eachEvent(q, func(e shownEvent) error {
		ranking.Add(e.RunEvent)
		return nil
	}, nil)
	if err != nil {
		return err
	}
	rules := ranking.Rules()
	if q.asJSON {
		err = a.printJSON(struct {
			Rules []ledger.RankedRule `json:"rules"`
			ledgerRead
		}{rules, read})
	} else {
		t := newTable()
		t.AppendHeader(table.Row{"rule", "severity", "frequency", "attempts", "mean rework", "score"})
		for _, r := range rules {
			t.AppendRow(table.Row{oneLine(r.RuleID), oneLine(r.Severity), r.Frequency, r.Attempts, fmt.Sprintf("%.2f", r.MeanRework), fmt.Sprintf("%.2f", r.Score)})
		}
		shown := t.Render()
		if len(rules) == 0 {
			shown = "no rule was broken"
		}
		err = a.printCounted(shown, read)
	}
	if err != nil {
		return err
	}
	return read.end(nil)
}

// printCounted prints a table of what was counted, and of what.
func (a *app) printCounted(shown string, read ledgerRead) error {
	rehearsal := ""
	if read.Rehearsal {
		rehearsal = "rehearsal: " + rehearsalNote + "\n\n"
	}
	outside := ""
	if read.Outside > 0 {
		outside = fmt.Sprintf(", %s outside of these times", counted(read.Outside, "run"))
	}
	_, err := fmt.Fprintf(a.stdout, "%s%s\n\nof %s and %s%s%s\n%s", rehearsal, visible.Text(shown), counted(read.Runs, "run"), counted(read.Imported, "imported event"),
		outside, read.unread(), read.unrecorded())
	return err
}

func (a *app) ledgerMetricsCommand() *cobra.Command {
	q := &ledgerQuery{}
	cmd := &cobra.Command{
		Use:   "metrics",
		Short: "Count violations, self-correction and rework, under each guidance and policy",
		Long: `Metrics counts, of all attempts and of those under each guidance and policy in the
order of their first use: tasks that were begun (the same task of two runs is two), attempts,
rules broken, rules broken for every ten tasks, the self-correction rate, which is violations whose
attempt came to an accepted answer out of all, and lines reworked.`,
		Example: `  gaia ledger metrics
  gaia ledger metrics --until 2026-02-01 --json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := q.check(cmd); err != nil {
				return err
			}
			return a.countMetrics(q)
		},
	}
	q.add(cmd)
	q.addTimes(cmd)
	return cmd
}

func (a *app) countMetrics(q *ledgerQuery) error {
	var meter ledger.Meter
	read, err := a.eachEvent(q, func(e shownEvent) error {
		meter.Add(e.RunEvent)
		return nil
	}, meter.EndRun)
	if err != nil {
		return err
	}
	all, guidances := meter.Metrics()
	if q.asJSON {
		err = a.printJSON(struct {
			All       ledger.Metrics           `json:"all"`
			Guidances []ledger.GuidanceMetrics `json:"guidances"`
			ledgerRead
		}{all, guidances, read})
	} else {
		err = a.printCounted(metricsTable(all, guidances), read)
	}
	if err != nil {
		return err
	}
	return read.end(nil)
}

func metricsTable(all ledger.Metrics, guidances []ledger.GuidanceMetrics) string {
	rate := func(format string, f *float32, scale float32) string {
		if f == nil {
			return noNumber
		}
		return fmt.Sprintf(format, *f*scale)
	}
	t := newTable()
	t.AppendHeader(table.Row{"guidance", "policy", "first used", "tasks", "attempts", "violations", "per 10 tasks", "self-corrected", "rework lines"})
	add := func(name, policy, first string, m ledger.Metrics) {
		t.AppendRow(table.Row{oneLine(name), oneLine(policy), oneLine(first), m.Tasks, m.Attempts, m.Violations, rate("%.2f", m.ViolationsPer10Tasks, 1),
			rate("%.1f %%", m.SelfCorrectionRate, 100), m.ReworkLines})
	}
	for _, g := range guidances {
		add(g.GuidanceHash, g.PolicyHash+" "+g.Mode, g.First, g.Metrics)
	}
	t.AppendSeparator()
	add("all", "", "", all)
	return t.Render()
}
