package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
)

func (a *app) compareCommand() *cobra.Command {
	var asJSON, differentPlans bool
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Compare two runs, task by task",
		Long: `Compare verifies two finished runs, each a run directory, a full package or its
archive, and pairs their tasks: how many both solved, one of them or none, which
flipped, what B took more than A, and whether the difference may be chance.

Outcomes are those of the official scorer, as recorded. The p-value is of the
exact two-sided McNemar test. The interval of the difference of the solve rates,
B less A, is the 95 % percentile interval of the bootstrap over the pairs: not
of some resamples but of all, counted exactly, so nothing is left to chance and
every machine gets the same.

Runs of different plans are refused. Of each run are its own: its id, when it was
planned, who signed it, the program, and the salt of its commitment to the gold
answers; whether these answers are the same cannot be told. --different-plans
compares the tasks that both have, and says in what the plans differ. An id by
which the plans ask different questions is of no task of both.`,
		Example: `  gaia compare runs/01J… runs/01K…
  gaia compare submission-2026-01-02-5XK9QZ7M.tar.gz runs/01K… --different-plans
  gaia compare runs/01J… runs/01K… --json | jq '.flips[].task_id'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage("see 'gaia compare --help'", "compare takes two arguments, each a run directory, package or archive")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			return a.compare(args, differentPlans, asJSON)
		},
	}
	cmd.Flags().BoolVar(&differentPlans, "different-plans", false, "compare the tasks that both plans have")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the comparison as JSON")
	return cmd
}

func (a *app) compare(paths []string, differentPlans, asJSON bool) error {
	var runs [2]*rundir.Run
	var tasks [2][]stats.Scored
	var untrusted []error
	for i, path := range paths {
		found, err := a.finishedRun(path)
		if err != nil {
			return err
		}
		if tasks[i], err = found.ScoredTasks(); errors.Is(err, rundir.ErrUnscored) {
			return usage("compare runs of a split with answers", "%q: %v", path, err)
		}
		if err != nil {
			return err
		}
		if runs[i] = found; i == 0 || !runs[0].Key.Equal(found.Key) {
			untrusted = append(untrusted, a.checkSigner(found))
		}
	}
	if runs[0].Manifest.RunID == runs[1].Manifest.RunID {
		return cmp.Or(verify.Equivocation(runs[0].Signed(), runs[1].Signed(), [2]string(paths)), usage("give two runs", "both are the run %s", runs[0].Manifest.RunID))
	}
	differences, err := planDifferences(runs[0].Manifest, runs[1].Manifest)
	if err != nil {
		return err
	}
	if len(differences) > 0 && !differentPlans {
		return &failure{Code: exitUsage, Err: errors.New("the runs are of different plans"), Reasons: differences,
			Hints: []string{"--different-plans compares the tasks that both have"}}
	}
	c, err := stats.Compare(tasks[0], tasks[1])
	if err != nil {
		return fail(exitFailure, err, "'gaia show DIR' lists the tasks of a run, and 'gaia run --task' plans those that are to be compared")
	}
	shown := comparison{Comparison: c, A: comparedRun{c.A, paths[0], runs[0].Marked, identified(runs[0])}, B: comparedRun{c.B, paths[1], runs[1].Marked, identified(runs[1])},
		Differences: append([]string{}, differences...), Rehearsal: runs[0].Manifest.Rehearsal || runs[1].Manifest.Rehearsal}
	signer := firstOf(untrusted...)
	shown.SignerTrusted = signer == nil
	if asJSON {
		err = a.printJSON(shown)
	} else {
		err = a.printComparison(shown)
	}
	if err != nil {
		return err
	}
	return signer
}

// finishedRun reads a finished run, which is verified with what was decided about it.
func (a *app) finishedRun(path string) (*rundir.Run, error) {
	given, err := verify.OpenJournal(path)
	if err != nil {
		return nil, err
	}
	defer given.Close()
	read := given.Run
	if !given.Packaged {
		read = func() (*rundir.Run, error) {
			found, _, err := verify.Run(given.Files)
			return found, err
		}
	}
	found, err := read()
	var fault *trajectory.Fault
	switch {
	case errors.As(err, &fault):
		return nil, fail(exitEvidence, fmt.Errorf("%s: %w", path, err), "compare takes finished runs as gaia left them: give another copy, or another run")
	case err != nil:
		return nil, err
	case !found.Complete:
		return nil, firstOf(a.checkSigner(found), incomplete(path, found))
	}
	return found, nil
}

// planDifferences says in what two plans differ, but for what each run has of its
// own. Salts differ in any two: of two commitments to gold answers, and of two
// digests of a question, nothing else is known.
func planDifferences(a, b plan.Plan) ([]string, error) {
	b.RunID, b.Created, b.SigningKey, b.Harness = a.RunID, a.Created, a.SigningKey, a.Harness
	if a.Scored() == b.Scored() {
		b.GoldCommitment = a.GoldCommitment
	}
	return plan.Diff(a.Unsalted(), b.Unsalted())
}

// comparison is what compare prints with --json.
type comparison struct {
	stats.Comparison
	A           comparedRun `json:"a"`
	B           comparedRun `json:"b"`
	Differences []string    `json:"differences"` // of the plans
	Rehearsal   bool        `json:"rehearsal,omitzero"`

	SignerTrusted bool `json:"signer_trusted"` // of both runs
}

type comparedRun struct {
	stats.Compared
	Path            string `json:"path"`
	RecordingFailed string `json:"recording_failed,omitzero"` // why, where the run went on without evidence
	identity
}

// identity says which run is compared, and what it was under.
type identity struct {
	GuidanceHash   string `json:"guidance_hash"`
	ManifestSHA256 string `json:"manifest_sha256"`
	Model          string `json:"model"`
	PolicyHash     string `json:"policy_hash"`
	PolicyMode     string `json:"policy_mode"`
	Rehearsal      bool   `json:"rehearsal,omitzero"`
	RunID          string `json:"run_id"`
	SignedBy       string `json:"signed_by"` // id of the key
	Started        string `json:"started"`
	Version        string `json:"version"` // of the program
}

func identified(r *rundir.Run) identity {
	m := r.Manifest
	return identity{GuidanceHash: m.GuidanceHash, ManifestSHA256: r.ManifestSHA256, Model: m.Model.Name, PolicyHash: m.PolicyHash, PolicyMode: m.PolicyMode,
		Rehearsal: m.Rehearsal, RunID: m.RunID, SignedBy: r.Key.ID(), Started: r.Summary().Started, Version: m.Harness.Version}
}

// printComparison prints the two runs beside each other, what their difference is
// worth, and each task that flipped.
func (a *app) printComparison(c comparison) error {
	out := ""
	switch {
	case c.A.Rehearsal && c.B.Rehearsal:
		out = "rehearsal: " + rehearsalNote + "\n\n"
	case c.A.Rehearsal:
		out = "rehearsal: A is of " + rehearsalNote + "\n\n"
	case c.B.Rehearsal:
		out = "rehearsal: B is of " + rehearsalNote + "\n\n"
	}
	for _, side := range []struct {
		name string
		comparedRun
	}{{"A", c.A}, {"B", c.B}} {
		if side.RecordingFailed != "" {
			out += fmt.Sprintf("recording failed: %s went on without evidence: %s\n\n", side.name, oneLine(side.RecordingFailed))
		}
	}
	if _, err := fmt.Fprintf(a.stdout, "%s%s\n\n", out, visible.Text(comparisonTable(c))); err != nil {
		return err
	}
	if err := a.printRows(comparisonRows(c)); err != nil || len(c.Flips) == 0 {
		return err
	}
	t := newTable()
	t.AppendHeader(table.Row{"flipped", "level", "A", "B"})
	for _, f := range c.Flips {
		t.AppendRow(table.Row{oneLine(f.TaskID), f.Level, f.From, f.To})
	}
	_, err := fmt.Fprintf(a.stdout, "\n%s\n", visible.Text(t.Render()))
	return err
}

// comparisonTable is a row for each thing that is known of both runs, with
// the difference where it is one of numbers.
func comparisonTable(c comparison) string {
	t := newTable()
	t.AppendHeader(table.Row{"", "A", "B", "B less A"})
	for _, r := range [][3]string{
		{"run", c.A.RunID, c.B.RunID}, {"started", c.A.Started, c.B.Started}, {"model", c.A.Model, c.B.Model},
		{"guidance", c.A.GuidanceHash, c.B.GuidanceHash}, {"policy", c.A.PolicyMode + " " + c.A.PolicyHash, c.B.PolicyMode + " " + c.B.PolicyHash},
	} {
		differs := ""
		if r[0] != "run" && r[0] != "started" && r[1] != r[2] {
			differs = "another"
		}
		t.AppendRow(table.Row{r[0], oneLine(r[1]), oneLine(r[2]), differs})
	}
	t.AppendSeparator()
	t.AppendRow(table.Row{"solved", c.A.Solved, c.B.Solved, signed(int64(c.B.Solved - c.A.Solved))})
	t.AppendRow(table.Row{"solve rate", percent(c.A.RatePPM), percent(c.B.RatePPM), signedPercent(c.RatePPM)})
	t.AppendRow(table.Row{"cost", dollars(c.A.CostMicroUSD), dollars(c.B.CostMicroUSD), signedDollars(c.CostMicroUSD)})
	t.AppendRow(table.Row{"tokens", c.A.Tokens, c.B.Tokens, signed(c.Tokens)})
	return t.Render()
}

func comparisonRows(c comparison) [][2]string {
	tasks := fmt.Sprintf("%d in both", c.Tasks)
	for _, other := range []struct {
		n    int
		what string
	}{{len(c.A.Only), "only in A"}, {len(c.B.Only), "only in B"}, {len(c.Other), "with another question"}} {
		if other.n > 0 {
			tasks += fmt.Sprintf(", %d %s", other.n, other.what)
		}
	}
	rows := [][2]string{
		{"tasks", tasks},
		{"outcomes", fmt.Sprintf("%d solved by both, %d only by A, %d only by B, %d by neither", c.Both, c.OnlyA, c.OnlyB, c.Neither)},
		{"difference", fmt.Sprintf("%s of the tasks, 95 %% interval %s to %s (bootstrap over the pairs, exact)", signedPercent(c.RatePPM), signedPercent(c.LowPPM), signedPercent(c.HighPPM))},
		{"McNemar", fmt.Sprintf("p %s (exact, two-sided, of %s)", pValue(c.PPPM), counted(c.OnlyA+c.OnlyB, "flipped task"))},
	}
	what := "plans"
	for _, d := range c.Differences {
		rows, what = append(rows, [2]string{what, d}), ""
	}
	if len(c.Differences) == 0 {
		rows = append(rows, [2]string{"plans", "the same"})
	}
	return rows
}

// pValue writes a p-value in parts per million, which is never 0.
func pValue(ppm int64) string {
	if ppm == 0 {
		return "< 0.000001"
	}
	return fmt.Sprintf("= %d.%06d", ppm/1e6, ppm%1e6)
}

// signedPercent is percent of a difference.
func signedPercent(ppm int64) string {
	switch {
	case ppm < 0:
		return "-" + percent(-ppm)
	case ppm > 0:
		return "+" + percent(ppm)
	}
	return percent(ppm)
}

// signedDollars is dollars of a difference.
func signedDollars(micro *int64) string {
	switch {
	case micro == nil || *micro == 0:
		return dollars(micro)
	case *micro < 0:
		less := -*micro
		return "-" + dollars(&less)
	}
	return "+" + dollars(micro)
}

// signed writes a difference.
func signed(n int64) string {
	if n > 0 {
		return fmt.Sprintf("+%d", n)
	}
	return fmt.Sprint(n)
}

func (a *app) trendCommand() *cobra.Command {
	var by string
	var asJSON, anew bool
	cmd := &cobra.Command{
		Use:   "trend PATH…",
		Short: "Show by day or week whether runs get better",
		Long: `Trend verifies finished runs and counts them by the day or the ISO week, in UTC,
in which they began: tasks, how many the official scorer found solved, what a
solve took in money and tokens, model calls that were tried again, under which
guidance and model, and regressions: tasks that the last earlier run with them
solved, and this one did not. Each PATH is a run directory, a full package, its
archive, or a folder that holds some, such as runs/.

What a solve took is all that the tasks of scored runs took, over those that they
solved; it is – where nothing was solved or a price is unknown. Runs without gold
answers have no part in it, nor in regressions. Rehearsals have rows of their own.

Runs that were verified before and are as they were are not read again; --verify
reads all anew. Runs that do not verify are named and left out, exit code 4.`,
		Example: `  gaia trend runs
  gaia trend runs submission-2026-01-02-5XK9QZ7M.tar.gz --by day
  gaia trend runs --json | jq '.buckets[].regressions[].task_id'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("see 'gaia trend --help'", "trend takes the runs to follow")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if by != history.ByDay && by != history.ByWeek {
				return usage("give day or week", "--by is %q", by)
			}
			return a.trend(args, by, history.Query{Verify: anew}, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&by, "by", history.ByWeek, "day or week")
	f.BoolVar(&asJSON, "json", false, "print the rows as JSON, with all regressions")
	f.BoolVar(&anew, "verify", false, "verify all runs anew")
	completeFixed(cmd, "by", history.ByDay, history.ByWeek)
	return cmd
}

// trendResult is what trend prints with --json.
type trendResult struct {
	Buckets []history.TrendBucket `json:"buckets"` // by time
	By      string                `json:"by"`
	history.Shortfall
	Rehearsal bool `json:"rehearsal,omitzero"` // some of them are
	Runs      int  `json:"runs"`
}

func (a *app) trend(paths []string, by string, q history.Query, asJSON bool) error {
	all := history.Trend{By: by}
	read, err := a.eachRun(paths, q, func(s history.Run) error { return all.Add(s.RunStats) })
	if err != nil {
		return err
	}
	if read.Runs == 0 {
		if err := read.End(nil); err != nil {
			return err
		}
		return fail(exitIncomplete, errors.New("none of the runs is complete"), "gaia resume DIR goes on with one")
	}
	result := trendResult{Buckets: all.Buckets(), By: by, Shortfall: read.Shortfall, Runs: read.Runs}
	result.Rehearsal = slices.ContainsFunc(result.Buckets, func(b history.TrendBucket) bool { return b.Rehearsal })
	show := a.printTrend
	if asJSON {
		show = func(r trendResult) error { return a.printJSON(r) }
	}
	if err := show(result); err != nil {
		return err
	}
	return read.End(nil)
}

// printTrend prints a row for each day or week, and below what solved no more.
func (a *app) printTrend(r trendResult) error {
	out := ""
	switch {
	case r.Rehearsal && slices.ContainsFunc(r.Buckets, func(b history.TrendBucket) bool { return !b.Rehearsal }):
		out = "rehearsal: the rows that say so are of " + rehearsalNote + "\n\n"
	case r.Rehearsal:
		out = "rehearsal: " + rehearsalNote + "\n\n"
	}
	t := newTable()
	t.AppendHeader(table.Row{r.By, "runs", "tasks", "solved", "", "cost/solve", "tokens/solve", "retries", "regressions", "guidance", "model"})
	for _, b := range r.Buckets {
		t.AppendRow(trendRow(b))
	}
	if _, err := fmt.Fprintf(a.stdout, "%s%s\n", out, visible.Text(t.Render())); err != nil {
		return err
	}
	below := ""
	if regressed := regressionTable(r.Buckets); regressed != "" {
		below = "\n" + visible.Text(regressed) + "\n"
	}
	if r.Failed > 0 || len(r.RecordingFailed) > 0 {
		below += fmt.Sprintf("\nof %s%s\n%s", counted(r.Runs, "run"), r.Unread(), r.Unrecorded())
	}
	_, err := fmt.Fprint(a.stdout, below)
	return err
}

// noNumber stands for a number that there is none of.
const noNumber = "–"

func trendRow(b history.TrendBucket) table.Row {
	name, solved, rate, cost, tokens := b.Name, fmt.Sprint(b.Solved), noNumber, noNumber, noNumber
	if b.Rehearsal {
		name += " rehearsal"
	}
	if scored := b.Tasks - b.Unscored; scored > 0 {
		rate = percent(stats.NewRate(b.Solved, scored).AccuracyPPM)
	} else {
		solved = noNumber
	}
	if b.CostPerSolveMicroUSD != nil {
		cost = dollars(b.CostPerSolveMicroUSD)
	}
	if b.TokensPerSolve != nil {
		tokens = fmt.Sprint(*b.TokensPerSolve)
	}
	guidance := severally(b.GuidanceHashes)
	if b.GuidanceChanged {
		guidance += " changed"
	}
	if b.PolicyChanged {
		guidance += ", policy changed"
	}
	return table.Row{name, b.Runs, b.Tasks, solved, rate, cost, tokens, b.Retries, len(b.Regressions), guidance, severally(b.Models)}
}

// severally writes what a row's runs had, in the order of its use: the first and
// the last.
func severally(all []string) string {
	const most = 32 // columns
	shown := func(i int) string { return text.Snip(oneLine(all[i]), most, "…") }
	switch len(all) {
	case 0:
		return noNumber
	case 1:
		return shown(0)
	case 2:
		return shown(0) + " → " + shown(1)
	}
	return fmt.Sprintf("%s → … → %s (%d)", shown(0), shown(len(all)-1), len(all))
}

// regressionTable names the tasks that a run solved no more, the latest first; "" if
// there is none.
func regressionTable(buckets []history.TrendBucket) string {
	const most = 20
	t := newTable()
	t.AppendHeader(table.Row{"regressed", "level", "outcome", "in", "solved in"})
	shown, left := 0, 0
	for _, b := range slices.Backward(buckets) {
		for _, r := range slices.Backward(b.Regressions) {
			if shown == most {
				left++
				continue
			}
			shown++
			t.AppendRow(table.Row{oneLine(r.TaskID), r.Level, r.Outcome, r.RunID, r.Before})
		}
	}
	if shown == 0 {
		return ""
	}
	if left > 0 {
		return t.Render() + fmt.Sprintf("\n and %d more, which --json lists", left)
	}
	return t.Render()
}
