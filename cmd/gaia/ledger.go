package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/spf13/cobra"
)

func (a *app) ledgerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "Query what attempts did and which rules they broke, over many runs",
		Long: `Ledger queries run events, one for each attempt of each finished run: tools, files,
checks, rules broken, rework, guidance. Runs are verified before they are counted.
What was counted is kept as Parquet in $XDG_DATA_HOME/gaia/history (else
~/.local/share), signed with your key, and used while no file of the run has changed;
--verify reads all runs again. Events of others are imported from files that 'gaia
ledger export' wrote.

--runs names a run directory, a package, its archive or a folder that holds some;
without it, runs/ is read if it is there. A run that 'gaia prune' removed is counted
where it was, and is marked. Runs are ordered by their start, and imported events
follow them. Imported events of a run that is read are skipped. Unfinished runs in a
folder are left out with a message; a run that does not verify is named, and the exit
code is 4.`,
		Example: `  gaia ledger list
  gaia ledger list --metrics --runs runs --runs ../other/runs
  gaia ledger rank --since 2026-01-01 --json
  gaia ledger evaluate --max-violations 1`,
		Args:              knownCommand,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.ledgerListCommand(), a.ledgerShowCommand(), a.ledgerRankCommand(), a.ledgerEvaluateCommand(), a.ledgerExportCommand(), a.ledgerImportCommand(),
		a.ledgerClearCommand())
	return cmd
}

// ledgerQuery is which events a command reads, by its flags.
type ledgerQuery struct {
	runs         []string
	noImported   bool
	verify       bool
	live         bool // leave out runs that were pruned
	asJSON       bool
	task, id     string // the start of a task's id, of an event's
	since, until string
	last         int // events; 0: all

	from, to time.Time // zero: no bound
}

// addFrom registers the flags for where events are read from.
func (q *ledgerQuery) addFrom(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&q.runs, "runs", nil, "run directory, package, archive or folder of runs to read (default: runs, if it is there)")
	f.BoolVar(&q.noImported, "no-imported", false, "leave imported events out")
	completeDirs(cmd, "runs")
}

// add registers the flags of a command that prints.
func (q *ledgerQuery) add(cmd *cobra.Command) {
	q.addFrom(cmd)
	f := cmd.Flags()
	f.BoolVar(&q.verify, "verify", false, "verify all runs, also those that were verified before")
	f.BoolVar(&q.asJSON, "json", false, "print the result as JSON")
}

// addFilters registers the flags that choose among events.
func (q *ledgerQuery) addFilters(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&q.task, "task", "", "only attempts at tasks whose id is this, or starts with it")
	f.StringVar(&q.since, "since", "", "only attempts that ended at this time or later: 2026-01-02 or 2026-01-02T15:04:05Z")
	f.StringVar(&q.until, "until", "", "only attempts that ended before this time; a date is its first second, in UTC")
	f.IntVar(&q.last, "last", 0, "only this many attempts: those that ended last, in the order of their end")
	for _, name := range []string{"task", "since", "until", "last"} {
		completeFixed(cmd, name)
	}
}

// maxLast bounds the events that are held to be sorted.
const maxLast = 100_000

// check checks the flags.
func (q *ledgerQuery) check(cmd *cobra.Command) (err error) {
	names := []string{"runs"}
	if cmd.Flags().Lookup("since") != nil {
		names = append(names, "task", "since", "until")
		if cmd.Flags().Changed("last") && (q.last < 1 || q.last > maxLast) {
			return usage(fmt.Sprintf("give a number from 1 to %d", maxLast), "--last is %d", q.last)
		}
	}
	if err := notEmpty(cmd, names...); err != nil {
		return err
	}
	if slices.Contains(q.runs, "") {
		return emptyFlag("runs")
	}
	if q.from, err = parseMoment("since", q.since); err != nil {
		return err
	}
	if q.to, err = parseMoment("until", q.until); err != nil {
		return err
	}
	if !q.from.IsZero() && !q.to.IsZero() && !q.from.Before(q.to) {
		return usage("--until is not part of the range", "--until is not later than --since")
	}
	return nil
}

// takes reports whether an event is among those that were asked for.
func (q *ledgerQuery) takes(e rundir.RunEvent) bool {
	return strings.HasPrefix(e.TaskID, q.task) && strings.HasPrefix(e.ID, q.id) &&
		(q.from.IsZero() || e.Timestamp >= q.from.Format(trajectory.TimeFormat)) && (q.to.IsZero() || e.Timestamp < q.to.Format(trajectory.TimeFormat))
}

// shownEvent is an event with what a reader has to know of its run.
type shownEvent struct {
	rundir.RunEvent
	Imported        bool `json:"imported,omitzero"`
	GuidanceChanged bool `json:"guidance_changed,omitzero"` // since the event listed before it
	PolicyChanged   bool `json:"policy_changed,omitzero"`   // likewise: the policy or its mode
	Pruned          bool `json:"pruned,omitzero"`           // its run was removed

	unrecorded string // why its run went on without evidence; "" if it did not
}

// ledgerRead is the result of reading events.
type ledgerRead struct {
	Runs      int  `json:"runs"`     // that were read, but for those of Outside
	Imported  int  `json:"imported"` // imported events that were taken
	Rehearsal bool `json:"rehearsal,omitzero"`
	Skipped   int  `json:"skipped"`          // imported events of runs that were read
	Outside   int  `json:"outside,omitzero"` // runs of which no event was asked for
	history.Shortfall

	read history.Read
}

// eachEvent gives the events that were asked for: those of a run together, then the imported ones in the order of their
// times; with --last all in that order. ended, if not nil, is called after each run and at the end.
func (a *app) eachEvent(q *ledgerQuery, give func(shownEvent) error, ended func()) (read ledgerRead, err error) {
	r, err := a.runReader()
	if err != nil {
		return ledgerRead{}, err
	}
	imported := history.Imported{}
	if !q.noImported {
		if imported, err = a.imported(); err != nil {
			return ledgerRead{}, err
		}
	}
	if ended == nil {
		ended = func() {}
	}
	var last []shownEvent
	taken := 0
	take := func(e shownEvent) error {
		if !q.takes(e.RunEvent) {
			return nil
		}
		taken++
		read.Rehearsal = read.Rehearsal || e.Rehearsal
		if q.last == 0 {
			return give(e)
		}
		if last = append(last, e); len(last) >= 2*q.last {
			last = newest(last, q.last)
		}
		return nil
	}
	paths := q.runs
	if len(paths) == 0 && thereIs(defaultRuns) {
		paths = []string{defaultRuns}
	}
	here := map[string]bool{}
	var unrecorded []string
	read.read, err = r.Each(paths, history.Query{Verify: q.verify, Empty: len(q.runs) == 0, Live: q.live}, func(run history.Run) error {
		here[run.RunID] = true
		before := taken
		for _, e := range run.Events {
			if err := take(shownEvent{RunEvent: e, Pruned: run.Pruned, unrecorded: run.RecordingFailed}); err != nil {
				return err
			}
		}
		switch {
		case taken == before && len(run.Events) > 0:
			read.Outside++
		case run.RecordingFailed != "":
			unrecorded = append(unrecorded, run.RunID)
		}
		ended()
		return nil
	})
	if err != nil {
		return ledgerRead{}, err
	}
	read.Shortfall, read.Runs = read.read.Shortfall, read.read.Runs-read.Outside
	fromRuns := taken
	for e, err := range imported.Each() {
		switch {
		case err != nil:
			return read, err
		case here[e.RunID]:
			read.Skipped++
		default:
			if err := take(shownEvent{RunEvent: e, Imported: true}); err != nil {
				return read, err
			}
		}
	}
	read.Imported = taken - fromRuns
	last = newest(last, q.last)
	for _, e := range last {
		if err := give(e); err != nil {
			return read, err
		}
	}
	ended()
	if q.last > 0 {
		unrecorded = slices.DeleteFunc(unrecorded, func(id string) bool {
			return !slices.ContainsFunc(last, func(e shownEvent) bool { return e.RunID == id })
		})
	}
	read.RecordingFailed = unrecorded
	if read.Skipped > 0 {
		fmt.Fprintf(a.stderr, "gaia: left out: %s of runs that are read\n", view.Count(read.Skipped, "imported event"))
	}
	switch {
	case taken > 0 || q.task == "" && q.id == "":
		return read, nil
	case read.read.FailedErr != nil:
		return read, read.read.FailedErr // which may have it
	}
	return read, usage("'gaia ledger list' lists all", "there is no event whose task or id starts with %q", cmp.Or(q.task, q.id))
}

// newest returns the n last events, in order.
func newest(events []shownEvent, n int) []shownEvent {
	slices.SortFunc(events, func(a, b shownEvent) int { return strings.Compare(a.ID, b.ID) })
	return slices.Delete(events, 0, max(0, len(events)-n))
}

// defaultRuns is the folder of runs if none is named.
const defaultRuns = "runs"

func (a *app) ledgerListCommand() *cobra.Command {
	q := &ledgerQuery{}
	var metrics bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List run events, or their metrics",
		Long: `List prints a line for each attempt: the id of its event, when it ended, the end
of the run's id, the task (#2 is the second attempt at it), the kind of task, how it
ended and whether the official scorer accepted the answer, rules broken, lines
reworked, and how long it took. A mark follows if another attempt is counted as the
task's result, or if the run went on when recording had failed.
A separate line marks each change of the guidance (all rules and lists that the agent
was under) and of the policy; --json marks the event (guidance_changed,
policy_changed).

With --metrics it counts instead, of all attempts and of those under each guidance
and policy in the order of their first use: tasks that were begun (the same task of
two runs is two), attempts, rules broken, rules broken for every ten tasks, the
self-correction rate (violations whose attempt came to an accepted answer, of all),
and lines reworked.`,
		Example: `  gaia ledger list --since 2026-01-01 --until 2026-02-01
  gaia ledger list --task fab1e034 --last 20
  gaia ledger list --metrics --json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := q.check(cmd); err != nil {
				return err
			}
			if metrics {
				return a.countMetrics(q)
			}
			return a.list(q)
		},
	}
	q.add(cmd)
	q.addFilters(cmd)
	cmd.Flags().BoolVar(&metrics, "metrics", false, "count violations, self-correction and rework instead")
	return cmd
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
	return read.read.End(nil)
}

func (a *app) countMetrics(q *ledgerQuery) error {
	var meter history.Meter
	read, err := a.eachEvent(q, func(e shownEvent) error {
		meter.Add(e.RunEvent)
		return nil
	}, meter.EndRun)
	if err != nil {
		return err
	}
	all, guidances := meter.Metrics()
	if q.asJSON {
		err = view.JSON(a.stdout, struct {
			All       history.Metrics           `json:"all"`
			Guidances []history.GuidanceMetrics `json:"guidances"`
			ledgerRead
		}{all, guidances, read})
	} else {
		err = a.printCounted(metricsTable(all, guidances), read)
	}
	if err != nil {
		return err
	}
	return read.read.End(nil)
}

func metricsTable(all history.Metrics, guidances []history.GuidanceMetrics) string {
	rate := func(format string, f *float32, scale float32) string {
		if f == nil {
			return history.NoNumber
		}
		return fmt.Sprintf(format, *f*scale)
	}
	t := view.NewTable("guidance", "policy", "first used", "tasks", "attempts", "violations", "per 10 tasks", "self-corrected", "rework lines")
	add := func(name, policy, first string, m history.Metrics) {
		t.Row(name, policy, first, m.Tasks, m.Attempts, m.Violations, rate("%.2f", m.ViolationsPer10Tasks, 1), rate("%.1f %%", m.SelfCorrectionRate, 100), m.ReworkLines)
	}
	for _, g := range guidances {
		add(g.GuidanceHash, g.PolicyHash+" "+g.Mode, g.First, g.Metrics)
	}
	t.Separator()
	add("all", "", "", all)
	return t.String()
}

func (a *app) ledgerRankCommand() *cobra.Command {
	q := &ledgerQuery{}
	cmd := &cobra.Command{
		Use:   "rank",
		Short: "Rank the rules that were broken by their cost",
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
	q.addFilters(cmd)
	return cmd
}

func (a *app) rankRules(q *ledgerQuery) error {
	var ranking history.Ranking
	read, err := a.eachEvent(q, func(e shownEvent) error {
		ranking.Add(e.RunEvent)
		return nil
	}, nil)
	if err != nil {
		return err
	}
	rules := ranking.Rules()
	if q.asJSON {
		err = view.JSON(a.stdout, struct {
			Rules []history.RankedRule `json:"rules"`
			ledgerRead
		}{rules, read})
	} else {
		t := view.NewTable("rule", "severity", "frequency", "attempts", "mean rework", "score")
		for _, r := range rules {
			t.Row(r.RuleID, r.Severity, r.Frequency, r.Attempts, fmt.Sprintf("%.2f", r.MeanRework), fmt.Sprintf("%.2f", r.Score))
		}
		shown := t.String()
		if len(rules) == 0 {
			shown = "no rule was broken"
		}
		err = a.printCounted(shown, read)
	}
	if err != nil {
		return err
	}
	return read.read.End(nil)
}

// printCounted prints what was counted, and of what.
func (a *app) printCounted(shown string, read ledgerRead) error {
	rehearsal, outside := "", ""
	if read.Rehearsal {
		rehearsal = "rehearsal: " + runview.RehearsalNote + "\n\n"
	}
	if read.Outside > 0 {
		outside = fmt.Sprintf(", %s without such an attempt", view.Count(read.Outside, "run"))
	}
	_, err := fmt.Fprintf(a.stdout, "%s%s\n\nof %s and %s%s%s\n%s", rehearsal, shown, view.Count(read.Runs, "run"), view.Count(read.Imported, "imported event"),
		outside, read.Unread(), read.Unrecorded())
	return err
}

func (a *app) ledgerShowCommand() *cobra.Command {
	q := &ledgerQuery{}
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show all members of a run event",
		Long:  `Show prints all that is known of an attempt. ID is the id of its event, or the start of it.`,
		Example: `  gaia ledger show 01JABCDEFGHJKMNPQRSTVWXYZ0
  gaia ledger show 01JABCDEFGHJKMNPQRSTVWXYZ0 --json`,
		Args:              oneArg("the id of an event"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if q.id = strings.ToUpper(args[0]); q.id == "" {
				return usage("'gaia ledger list' lists them", "the id is empty")
			}
			if err := q.check(cmd); err != nil {
				return err
			}
			return a.showEvent(q)
		},
	}
	q.add(cmd)
	return cmd
}

func (a *app) showEvent(q *ledgerQuery) error {
	var found []shownEvent
	n := 0
	read, err := a.eachEvent(q, func(e shownEvent) error {
		if n++; len(found) < maxHinted {
			found = append(found, e)
		}
		return nil
	}, nil)
	if err != nil {
		return err
	}
	if n > 1 {
		f := &failure{Code: exit.Usage, Err: fmt.Errorf("%q is the start of the ids of %s", q.id, view.Count(n, "event")), Hints: []string{"give more of the id"}}
		for _, e := range found {
			f.Reasons = append(f.Reasons, e.ID)
		}
		if n > len(found) {
			f.Reasons = append(f.Reasons, fmt.Sprintf("and %d more", n-len(found)))
		}
		return f
	}
	if q.asJSON {
		err = view.JSON(a.stdout, struct {
			shownEvent
			history.Shortfall
		}{found[0], read.Shortfall})
	} else {
		err = view.Rows(a.stdout, eventRows(found[0]))
	}
	if err != nil {
		return err
	}
	return read.read.End(nil)
}

// eventRows are all members of an event for a person.
func eventRows(e shownEvent) [][2]string {
	list := func(all []string) string { return cmp.Or(strings.Join(all, ", "), "none") }
	counts := "not the task's result: another attempt is counted"
	if e.Counted {
		counts = "the task's result"
	}
	rows := [][2]string{{"event", e.ID}, {"ended", e.Timestamp}, {"run", e.RunID}, {"task", e.TaskID}, {"level", strconv.Itoa(e.Level)},
		{"attempt", strconv.Itoa(e.Attempt) + ", " + counts}, {"intent", e.Intent}, {"outcome", outcomeOf(e.RunEvent)},
		{"checks", fmt.Sprintf("%d ran: %d passed, %d failed; %d skipped", e.TestResults.Ran, e.TestResults.Passed, e.TestResults.Failed, e.TestResults.Skipped)},
		{"model", e.Model}, {"tools", list(e.ToolsUsed)}, {"calls", fmt.Sprintf("%s, %s retried", view.Count(e.ToolCalls, "tool call"), view.Count(e.Retries, "model call"))},
		{"tokens", strconv.FormatInt(e.Tokens, 10)}, {"cost", view.Dollars(e.CostMicroUSD)}, {"duration", milliseconds(e.DurationMs)}, {"files", list(e.FilesTouched)},
		{"diff", fmt.Sprintf("%s, %s added, %d removed", view.Count(e.DiffSummary.Files, "file"), view.Count(e.DiffSummary.LinesAdded, "line"), e.DiffSummary.LinesRemoved)},
		{"rework", view.Count(e.ReworkLines, "line")}, {"rollbacks", strconv.Itoa(e.Rollbacks)}, {"rules", list(e.RetrievedRuleIDs)}, {"triggered", list(e.TriggeredRuleIDs)}}
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
	rows = append(rows, [][2]string{{"refused", view.Count(e.PersonRefusals, "call") + " by a person"}, {"guidance", e.GuidanceHash}, {"policy", policyOf(e.RunEvent)},
		{"session", e.Session}, {"manifest", e.ManifestSHA256}, {"signed by", e.SignedBy}, {"schema", e.Schema}}...)
	if e.Imported {
		rows = append(rows, [2]string{"imported", "yes: this is what its exporter says"})
	}
	if e.unrecorded != "" {
		rows = slices.Insert(rows, 0, [2]string{"recording failed", e.unrecorded})
	}
	if e.Rehearsal {
		rows = slices.Insert(rows, 0, [2]string{"rehearsal", runview.RehearsalNote})
	}
	return rows
}
