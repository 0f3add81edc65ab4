package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/build"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/evaluator"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stop"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/spf13/cobra"
)

func (a *app) ledgerCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "ledger",
		Short: "Query the attempts of many runs, and the rules they broke",
		Long: `Ledger queries run events, one for each attempt of each finished run. Runs are
verified before they are counted. The signed counts are stored in
$XDG_DATA_HOME/gaia/history (else ~/.local/share), and used while no file of the run
has changed; --verify reads all runs again.

--runs names a run directory, a package, its archive or a folder of them; without it,
runs/ is read. Imported events follow the runs, except those of a run
that is read. A run that 'gaia prune' removed is counted, and marked. A run that does
not verify is named, exit code 4.`,
		Example: `  gaia ledger list
  gaia ledger list --metrics --runs runs --runs ../other/runs
  gaia ledger rank --since 2026-01-01 --json
  gaia ledger evaluate --max-violations 1`,
	}, a.ledgerListCommand(), a.ledgerShowCommand(), a.ledgerRankCommand(), a.ledgerEvaluateCommand(), a.ledgerExportCommand(), a.ledgerImportCommand(), a.ledgerClearCommand())
}

// ledgerQuery holds the flags of a command that reads events.
type ledgerQuery struct {
	ledger.Selection
	asJSON       bool
	since, until string
}

// addFrom registers the flags for where events are read from.
func (q *ledgerQuery) addFrom(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&q.Paths, "runs", nil, "`run` directory, package, archive or folder of them (default: runs, if it exists)")
	f.BoolVar(&q.NoImported, "no-imported", false, "leave imported events out")
}

// add registers the flags of a command that prints.
func (q *ledgerQuery) add(cmd *cobra.Command) {
	q.addFrom(cmd)
	f := cmd.Flags()
	f.BoolVar(&q.Verify, "verify", false, "verify all runs again")
	f.BoolVar(&q.asJSON, "json", false, "print the result as JSON")
}

// addFilters registers the flags that choose among events.
func (q *ledgerQuery) addFilters(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&q.Task, "task", "", "only attempts at tasks with this id, or the start of one")
	f.StringVar(&q.since, "since", "", "only attempts that ended at this time or later: 2026-01-02 or 2026-01-02T15:04:05Z")
	f.StringVar(&q.until, "until", "", "only attempts that ended before this time; a date is its first second, in UTC")
	f.IntVar(&q.Last, "last", 0, "only the last N attempts, in the order of their end")
	for _, name := range []string{"task", "since", "until", "last"} {
		cli.Complete(cmd, name)
	}
}

// maxLast bounds the events that are held to be sorted.
const maxLast = 100_000

// check checks the flags.
func (q *ledgerQuery) check(cmd *cobra.Command) (err error) {
	names := []string{"runs"}
	if cmd.Flags().Lookup("since") != nil {
		names = append(names, "task", "since", "until")
		if cmd.Flags().Changed("last") && (q.Last < 1 || q.Last > maxLast) {
			return usage(fmt.Sprintf("give a number from 1 to %d", maxLast), "--last is %d", q.Last)
		}
	}
	if err := cli.NotEmpty(cmd, names...); err != nil {
		return err
	}
	if slices.Contains(q.Paths, "") {
		return cli.EmptyFlag("runs")
	}
	if q.From, err = cli.ParseTime("since", q.since); err != nil {
		return err
	}
	if q.To, err = cli.ParseTime("until", q.until); err != nil {
		return err
	}
	if !q.From.IsZero() && !q.To.IsZero() && !q.From.Before(q.To) {
		return usage("--until is not part of the range", "--until is not later than --since")
	}
	return nil
}

// withRuns checks the flags and calls do with a reader of the runs.
func (a *app) withRuns(cmd *cobra.Command, q *ledgerQuery, do func(*ledger.Reader, *ledgerQuery) error) error {
	if err := q.check(cmd); err != nil {
		return err
	}
	r, err := a.runReader()
	if err != nil {
		return err
	}
	return do(r, q)
}

func (a *app) ledgerListCommand() *cobra.Command {
	q := &ledgerQuery{}
	var metrics bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List run events, or their metrics",
		Long: `List prints a line for each attempt: event, end, run, task (#2 is the second attempt
at it), kind of task, outcome, broken rules, reworked lines and duration. A mark
follows if another attempt is the task's result, or if recording had failed. A
separate line marks each change of the guidance (rules and lists) and of the policy.

With --metrics it counts instead, in total and for each guidance and policy: tasks
that began, attempts, broken rules, broken rules per ten tasks, the self-correction
rate (share of violations with an accepted answer), and reworked lines.`,
		Example: `  gaia ledger list --since 2026-01-01 --until 2026-02-01
  gaia ledger list --task fab1e034 --last 20
  gaia ledger list --metrics --json`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			show := a.list
			if metrics {
				show = a.countMetrics
			}
			return a.withRuns(cmd, q, show)
		},
	}
	q.add(cmd)
	q.addFilters(cmd)
	cmd.Flags().BoolVar(&metrics, "metrics", false, "count violations, self-correction and rework instead")
	return cmd
}

func (a *app) list(r *ledger.Reader, q *ledgerQuery) error {
	l := ledger.NewList(a.stdout, q.asJSON, false)
	read, err := r.Events(q.Selection, func(e ledger.Event) error { return l.Add(e, nil) }, nil)
	if err != nil {
		return err
	}
	return cmp.Or(l.End(read, read), read.Read.End(nil))
}

func (a *app) countMetrics(r *ledger.Reader, q *ledgerQuery) error {
	all, guidances, read, err := r.Metrics(q.Selection)
	if err != nil {
		return err
	}
	return a.printCounted(q, read, ledger.MetricsTable(all, guidances), struct {
		All       history.Metrics           `json:"all"`
		Guidances []history.GuidanceMetrics `json:"guidances"`
		ledger.EventsRead
	}{all, guidances, read})
}

// printCounted prints what was counted of events, and of what.
func (a *app) printCounted(q *ledgerQuery, read ledger.EventsRead, table string, counts any) error {
	return cmp.Or(view.Result(a.stdout, q.asJSON, counts, ledger.Counted(table, read)), read.Read.End(nil))
}

func (a *app) ledgerRankCommand() *cobra.Command {
	q := &ledgerQuery{}
	cmd := &cobra.Command{
		Use:   "rank",
		Short: "Rank the rules that were broken by their cost",
		Long: `Rank lists the rules that attempts broke: how often, in how many attempts, and the
mean rework of those attempts in lines. The score is frequency × mean rework. Equal
scores are ordered by frequency, then by id.`,
		Example: `  gaia ledger rank
  gaia ledger rank --since 2026-01-01 --json`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withRuns(cmd, q, a.rankRules)
		},
	}
	q.add(cmd)
	q.addFilters(cmd)
	return cmd
}

func (a *app) rankRules(r *ledger.Reader, q *ledgerQuery) error {
	rules, read, err := r.Rank(q.Selection)
	if err != nil {
		return err
	}
	return a.printCounted(q, read, ledger.RankTable(rules), struct {
		Rules []history.RankedRule `json:"rules"`
		ledger.EventsRead
	}{rules, read})
}

func (a *app) ledgerShowCommand() *cobra.Command {
	q := &ledgerQuery{}
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show all members of a run event",
		Long:  `Show prints every member of a run event. ID is its id, or the start of it.`,
		Example: `  gaia ledger show 01JABCDEFGHJKMNPQRSTVWXYZ0
  gaia ledger show 01JABCDEFGHJKMNPQRSTVWXYZ0 --json`,
		Args:              cli.OneArg("the id of an event"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if q.ID = strings.ToUpper(args[0]); q.ID == "" {
				return usage("'gaia ledger list' lists them", "the id is empty")
			}
			return a.withRuns(cmd, q, a.showEvent)
		},
	}
	q.add(cmd)
	return cmd
}

func (a *app) showEvent(r *ledger.Reader, q *ledgerQuery) error {
	var found ledger.Event
	var ids []string
	read, err := r.Events(q.Selection, func(e ledger.Event) error {
		found, ids = e, append(ids, e.ID)
		return nil
	}, nil)
	if err != nil {
		return err
	}
	if n := len(ids); n > 1 {
		return &failure{Code: exit.Usage, Err: fmt.Errorf("%q is the start of the ids of %s", q.ID, view.Count(n, "event")), Hints: []string{"give more of the id"},
			Reasons: view.First(10, ids)}
	}
	err = view.Result(a.stdout, q.asJSON, struct {
		ledger.Event
		ledger.Shortfall
	}{found, read.Shortfall}, view.RowsText(ledger.Rows(found)))
	return cmp.Or(err, read.Read.End(nil))
}

func (a *app) ledgerEvaluateCommand() *cobra.Command {
	q := &ledgerQuery{}
	limits := history.DefaultLimits()
	var own bool
	var settings string
	cmd := &cobra.Command{
		Use:   "evaluate",
		Short: "Run the evaluators on run events",
		Long: `Evaluate runs five evaluators on each attempt, in this order, and counts the
results. Exit code 3 if one fails:

  tests-pass            a check of the answer ran, and none failed
  forbidden-command     no violation of R004
  forbidden-dependency  no violation of R005
  violation-rate        at most --max-violations rules broken
  diff-quality          reworked ÷ changed lines at most --max-rework-ratio

With --evaluators it also runs the commands below evaluators in gaia.yaml, once for
each attempt, and prints them first. Each command reads the run event as a line of
JSON and prints {"pass": true, "score": 0.5, "details": "why"}. It gets only the
variables PATH and HOME, and 10 seconds unless it has a timeout. Any failure of the
command is a failed evaluation.`,
		Example: `  gaia ledger evaluate
  gaia ledger evaluate --evaluators
  gaia ledger evaluate --max-violations 1 --max-rework-ratio 0.5 --json`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := q.check(cmd); err != nil { // before a command is named
				return err
			}
			if limits.Violations < 0 {
				return usage("0 lets none pass", "--max-violations is %d, which is below 0", limits.Violations)
			}
			if err := cli.NotEmpty(cmd, "settings"); err != nil {
				return err
			}
			if settings != "" && !own {
				return usage("gaia ledger evaluate --evaluators --settings FILE", "--settings is for --evaluators")
			}
			ctx, release := stop.Context(cmd.Context())
			defer release()
			by := history.Evaluators(limits)
			if own {
				commands, err := a.ownEvaluators(ctx, settings)
				if err != nil {
					return err
				}
				by = append(by, commands...)
			}
			return a.withRuns(cmd, q, func(r *ledger.Reader, q *ledgerQuery) error { return a.evaluate(ctx, r, q, by) })
		},
	}
	q.add(cmd)
	q.addFilters(cmd)
	f := cmd.Flags()
	f.IntVar(&limits.Violations, "max-violations", limits.Violations, "maximum of broken rules of an attempt")
	f.Var((*fraction)(&limits.ReworkRatio), "max-rework-ratio", "maximum of reworked lines ÷ lines added and removed of an attempt")
	f.BoolVar(&own, "evaluators", false, "also run the commands of gaia.yaml as evaluators")
	f.StringVar(&settings, "settings", "", "settings file that names them (default: gaia.yaml)")
	cli.Complete(cmd, "max-violations")
	cli.Complete(cmd, "max-rework-ratio")
	return cmd
}

// ownEvaluators returns the evaluators of the settings file, after saying what they run.
func (a *app) ownEvaluators(ctx context.Context, named string) ([]history.Evaluator, error) {
	file, err := settings.Open(named)
	if err != nil {
		return nil, err
	}
	if file == nil || len(file.Evaluators) == 0 {
		return nil, usage("docs/ledger.md has an example", "%q names no evaluators", cmp.Or(named, "gaia.yaml"))
	}
	var environ []string
	for _, name := range []string{"HOME", "PATH"} {
		if value := a.getenv(name); value != "" {
			environ = append(environ, name+"="+value)
		}
	}
	var all []history.Evaluator
	for _, e := range file.Evaluators {
		if slices.ContainsFunc(history.Evaluators(history.Limits{}), func(o history.Evaluator) bool { return o.Name() == e.Name }) {
			return nil, usage("give it another name", "gaia has an evaluator %q", e.Name)
		}
		words := make([]string, len(e.Command))
		for i, word := range e.Command {
			words[i] = view.Quote(word)
		}
		fmt.Fprintf(a.stderr, "gaia: the evaluator %s runs for each event, for %s at most: %s\n", e.Name, e.Timeout, view.Line(strings.Join(words, " ")))
		all = append(all, evaluator.Command{Context: ctx, Label: e.Name, Args: e.Command, Timeout: e.Timeout, Environ: environ})
	}
	return all, nil
}

func (a *app) evaluate(ctx context.Context, r *ledger.Reader, q *ledgerQuery, by []history.Evaluator) error {
	l := ledger.NewList(a.stdout, q.asJSON, true)
	counts, read, err := r.Evaluate(ctx, q.Selection, by, l.Add)
	if err != nil {
		return err
	}
	if err := l.EndEvaluated(counts, read); err != nil {
		return err
	}
	failed := 0
	for _, c := range counts {
		failed += c.Failed
	}
	if failed > 0 {
		err = fail(exit.Findings, fmt.Errorf("%s failed", view.Count(failed, "evaluation")), "gaia ledger show ID says what an attempt did")
	}
	return read.Read.End(err)
}

func (a *app) ledgerExportCommand() *cobra.Command {
	q := &ledgerQuery{}
	var out string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write run events to a signed Parquet file, or as lines of JSON",
		Long: `Export writes run events to a Parquet file, which DuckDB, pandas and polars read, and
signs it with your key in FILE.dsse.json; 'gaia ledger import' reads the two. To a
file whose name ends in .jsonl, and to standard output, it writes lines of JSON,
unsigned.

All runs are verified again. Nothing is written if one does not verify, or if
recording failed in a run with selected events: exit code 3. Imported events are
included, unless their runs are read: you then sign the counts of others.`,
		Example: `  gaia ledger export -o events.parquet
  gaia ledger export --runs runs/01J… --since 2026-01-01 > events.jsonl`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := q.check(cmd); err != nil {
				return err
			}
			return a.exportEvents(cmd.Context(), q, out)
		},
	}
	cli.RejectEmpty(cmd, "out")
	q.addFrom(cmd)
	q.addFilters(cmd)
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write, which must not exist (default: standard output)")
	return cmd
}

func (a *app) exportEvents(ctx context.Context, q *ledgerQuery, out string) error {
	ctx, release := stop.Context(ctx)
	defer release()
	r, err := a.runReader()
	if err != nil {
		return err
	}
	events, read, err := r.Export(ctx, q.Selection)
	if err != nil {
		return err
	}
	by, err := ledger.WriteExport(ctx, events, out, a.stdout, func() (sign.Key, error) { return a.user().Keyring().Signing("") })
	if err != nil {
		return err
	}
	if read.Rehearsal {
		fmt.Fprintf(a.stderr, "gaia: rehearsal: %s\n", runview.RehearsalNote)
	}
	fmt.Fprintf(a.stderr, "gaia: exported %s, %s\n", view.Count(len(events), "event"), by)
	return read.Read.UntrustedErr
}

// defaultMaxEvents is how many imported events are kept.
const defaultMaxEvents = 100_000

// importing is an import by its flags.
type importing struct {
	trusted   trustFlags
	maxEvents int64
	asJSON    bool
}

func (a *app) ledgerImportCommand() *cobra.Command {
	var m importing
	cmd := &cobra.Command{
		Use:   "import FILE…",
		Short: "Import run events that others exported",
		Long: `Import adds the events of Parquet files that 'gaia ledger export' wrote to those in
$XDG_DATA_HOME/gaia/history (else ~/.local/share), and signs them with your key.
FILE.dsse.json must be beside each FILE, signed by a key that you trust. All files are
imported or none: none if one does not verify, or if an event is there already.

Of more than --max-events the oldest are removed, a tenth of that number at a time.`,
		Example: `  gaia ledger import alice.parquet
  gaia ledger import --trusted-key alice.pub alice.parquet
  gaia ledger import --max-events 1000000 *.parquet`,
		Args: cli.SomeArgs("see 'gaia ledger import --help'", "ledger import takes files that 'gaia ledger export' wrote"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if m.maxEvents < 0 {
				return usage("0 is no bound", "--max-events is %d, which is below 0", m.maxEvents)
			}
			return a.importEvents(cmd.Context(), args, m)
		},
	}
	m.trusted.register(cmd)
	f := cmd.Flags()
	f.Int64Var(&m.maxEvents, "max-events", defaultMaxEvents, "maximum number of imported events; 0: no limit")
	f.BoolVar(&m.asJSON, "json", false, "print the result as JSON")
	cli.Complete(cmd, "max-events")
	return cmd
}

func (a *app) importEvents(ctx context.Context, files []string, m importing) error {
	ctx, release := stop.Context(ctx)
	defer release()
	r, err := a.runReader()
	if err != nil {
		return err
	}
	if r.Store.Dir == "" {
		return noHistory()
	}
	trusted, err := a.trustedKeys(m.trusted)
	if err != nil {
		return err
	}
	done, err := r.Import(ctx, files, trusted, m.maxEvents, func() (sign.Key, error) { return a.user().Keyring().Signing("") })
	if err != nil {
		return err
	}
	return view.Result(a.stdout, m.asJSON, done, view.RowsText([][2]string{
		{"imported", fmt.Sprintf("%s from %s", view.Count(int(done.Added), "event"), view.Count(len(files), "file"))},
		{"evicted", fmt.Sprintf("%s, the oldest", view.Count(int(done.Evicted), "event"))},
		{"there are", view.Count(int(done.Events), "event")},
		{"store", done.Store},
	}))
}

func (a *app) ledgerClearCommand() *cobra.Command {
	var yes, asJSON bool
	cmd := &cobra.Command{
		Use:   "clear",
		Short: "Remove all imported run events",
		Long: `Clear removes all imported events, also if they do not verify. It leaves runs and
the files that were imported. It asks first; without a terminal it needs --yes.`,
		Example:           `  gaia ledger clear --yes`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			r, err := a.runReader()
			if err != nil {
				return err
			}
			done, what, err := r.Clear(func(do string) (bool, error) { return a.sure(do, yes) })
			if err != nil || what == "" {
				return err
			}
			return view.Result(a.stdout, asJSON, done, view.RowsText([][2]string{{what, done.Store}}))
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

// sure asks on a terminal whether to do something; without one, yes must be given.
func (a *app) sure(do string, yes bool) (bool, error) {
	switch {
	case yes:
		return true, nil
	case !a.asks:
		return false, usage("give --yes to "+do, "there is no terminal to ask on")
	}
	fmt.Fprintf(a.stderr, "gaia: %s? y or n: ", do)
	line, err := bufio.NewReader(io.LimitReader(a.stdin, 100)).ReadString('\n')
	if err != nil {
		return false, fail(exit.Failure, errors.New("there was no answer, and nothing was removed"))
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true, nil
	}
	fmt.Fprintln(a.stderr, "gaia: nothing was removed")
	return false, nil
}

// historyDir is the folder of records of runs and of imported events; "" if there is none.
func (a *app) historyDir() string {
	return a.user().XDG("XDG_DATA_HOME", ".local/share", "gaia", "history")
}

// runReader returns a reader of the runs that a user names. Without a signing key nothing is kept of runs.
func (a *app) runReader() (*ledger.Reader, error) {
	trusted, err := a.user().OwnTrust()
	if err != nil {
		return nil, err
	}
	store := &history.Store{Dir: a.historyDir(), Trusted: trusted.Valid()}
	if key, err := a.user().ExistingKey(""); err == nil {
		store.Key = &key
	}
	r := &ledger.Reader{Store: store, Trust: trusted, Now: time.Now, AtOnce: runtime.GOMAXPROCS(0), Log: a.stderr, Verify: ledger.Stats, Incomplete: incomplete}
	if h, f, err := build.Open(); err == nil {
		defer f.Close()
		// The stamp of the program's file names the build: to hash the file takes longer than what is kept saves.
		r.Program, _ = history.Stamp(f.Name(), []string{"."}, fmt.Sprint(h.Version, h.Commit, h.Dirty, runtime.GOOS, runtime.GOARCH), time.Now())
	}
	return r, nil
}

// noHistory is the error that there is no place for records.
func noHistory() error {
	return fail(exit.Failure, errors.New("no place for the history: neither XDG_DATA_HOME nor HOME is set"), "set one of them")
}
