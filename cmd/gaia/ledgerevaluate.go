package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/internal/evaluator"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
)

func (a *app) ledgerEvaluateCommand() *cobra.Command {
	q := &ledgerQuery{}
	limits := history.DefaultLimits()
	var own bool
	var settings string
	cmd := &cobra.Command{
		Use:   "evaluate",
		Short: "Run the evaluators on run events",
		Long: `Evaluate puts five evaluators to each attempt, in this order, and counts what they
say. Exit code 3 if one fails:

  tests-pass            a check of the answer ran, and none failed
  forbidden-command     no violation of R004
  forbidden-dependency  no violation of R005
  violation-rate        at most --max-violations rules broken
  diff-quality          lines reworked ÷ lines added and removed at most --max-rework-ratio

With --evaluators it also runs the commands that gaia.yaml names below evaluators,
once for each attempt, and prints them first. Each gets the run event as a line of
JSON, no variable but PATH and HOME, and 10 seconds if its timeout says nothing
else; it prints {"pass": true, "score": 0.5, "details": "why"}. One that fails in
any way is a failed evaluation.`,
		Example: `  gaia ledger evaluate
  gaia ledger evaluate --evaluators
  gaia ledger evaluate --max-violations 1 --max-rework-ratio 0.5 --json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := q.check(cmd); err != nil {
				return err
			}
			if limits.Violations < 0 {
				return usage("0 lets none pass", "--max-violations is %d, which is below 0", limits.Violations)
			}
			if err := notEmpty(cmd, "settings"); err != nil {
				return err
			}
			if settings != "" && !own {
				return usage("gaia ledger evaluate --evaluators --settings FILE", "--settings is for --evaluators")
			}
			ctx, release := untilStopped(cmd.Context())
			defer release()
			by := history.Evaluators(limits)
			if own {
				commands, err := a.ownEvaluators(ctx, settings)
				if err != nil {
					return err
				}
				by = append(by, commands...)
			}
			return a.evaluate(ctx, q, by)
		},
	}
	q.add(cmd)
	q.addFilters(cmd)
	f := cmd.Flags()
	f.IntVar(&limits.Violations, "max-violations", limits.Violations, "rules that an attempt may break")
	f.Var((*fraction)(&limits.ReworkRatio), "max-rework-ratio", "lines reworked ÷ lines added and removed that an attempt may have")
	f.BoolVar(&own, "evaluators", false, "run the commands of gaia.yaml as evaluators, too")
	f.StringVar(&settings, "settings", "", "file of settings that names them (default: gaia.yaml)")
	completeFixed(cmd, "max-violations")
	completeFixed(cmd, "max-rework-ratio")
	return cmd
}

// evaluatedEvent is what evaluate prints of an event with --json.
type evaluatedEvent struct {
	ID      string               `json:"id"`
	Results []history.Evaluation `json:"results"`
	RunID   string               `json:"run_id"`
	TaskID  string               `json:"task_id"`
}

// evaluatorCount says how often an evaluator passed.
type evaluatorCount struct {
	Failed int    `json:"failed"`
	Name   string `json:"name"`
	Passed int    `json:"passed"`
}

// evaluatedAtOnce is how many events are evaluated at once.
const evaluatedAtOnce = 4

// ownEvaluators returns the evaluators of the settings file, after saying what they run.
func (a *app) ownEvaluators(ctx context.Context, settings string) ([]history.Evaluator, error) {
	file, err := openSettings(settings)
	if err != nil {
		return nil, err
	}
	if file == nil || len(file.Evaluators) == 0 {
		return nil, usage("docs/ledger.md has an example", "%q names no evaluators", cmp.Or(settings, "gaia.yaml"))
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
			words[i] = quoteArg(word)
		}
		fmt.Fprintf(a.stderr, "gaia: the evaluator %s runs for each event, for %s at most: %s\n", e.Name, e.Timeout, oneLine(strings.Join(words, " ")))
		all = append(all, evaluator.Command{Context: ctx, Label: e.Name, Args: e.Command, Timeout: e.Timeout, Environ: environ})
	}
	return all, nil
}

func (a *app) evaluate(ctx context.Context, q *ledgerQuery, by []history.Evaluator) error {
	l := a.newLister(q.asJSON, "evaluations", evaluatedLine, func(l line) any { return evaluatedEvent{l.ID, l.results, l.RunID, l.TaskID} })
	counts := make([]evaluatorCount, len(by))
	for i, e := range by {
		counts[i].Name = e.Name()
	}
	var under []chan line // events that are being evaluated, in their order
	take := func() error {
		done := <-under[0]
		under = under[1:]
		for i, r := range done.results {
			if r.Pass {
				counts[i].Passed++
			} else {
				counts[i].Failed++
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return l.add(done)
	}
	read, err := a.eachEvent(q, func(e shownEvent) error {
		done := make(chan line, 1)
		go func() {
			results := make([]history.Evaluation, len(by))
			for i, one := range by {
				results[i] = one.Evaluate(e.RunEvent)
			}
			done <- line{e, results}
		}()
		if under = append(under, done); len(under) < evaluatedAtOnce {
			return nil
		}
		return take()
	}, nil)
	for err == nil && len(under) > 0 {
		err = take()
	}
	for _, done := range under { // so that no command outlives this one
		<-done
	}
	if err != nil {
		return err
	}
	if err := l.endEvaluated(counts, read); err != nil {
		return err
	}
	failed := 0
	for _, c := range counts {
		failed += c.Failed
	}
	if failed > 0 {
		err = fail(exitFindings, fmt.Errorf("%s failed", counted(failed, "evaluation")), "gaia ledger show ID says what an attempt did")
	}
	return read.read.End(err)
}

// evaluatedLine appends what the evaluators say of an event: why, where one fails.
func evaluatedLine(out []byte, before *line, l line) ([]byte, error) {
	width := func(r history.Evaluation) int { return max(len(r.Name), len("FAIL 0.00")) }
	if before == nil {
		out = cell(cell(out, "event", wideID), "task", wideTask)
		for _, r := range l.results {
			out = cell(out, r.Name, width(r))
		}
		out = append(bytes.TrimRight(out, " "), '\n')
	}
	out = cell(cell(out, l.ID, wideID), attemptAt(l.RunEvent), wideTask)
	why := ""
	for _, r := range l.results {
		word := "pass "
		if !r.Pass {
			word = "FAIL "
			why += "    " + r.Name + ": " + oneLine(r.Details) + "\n"
		}
		out = cell(out, word+strconv.FormatFloat(float64(r.Score), 'f', 2, 32), width(r))
	}
	out = append(bytes.TrimRight(append(out, marks(l.shownEvent)...), " "), '\n')
	return append(out, why...), nil
}

// endEvaluated prints the counts.
func (l *lister) endEvaluated(counts []evaluatorCount, read ledgerRead) error {
	if l.asJSON {
		return l.close(struct {
			Evaluators []evaluatorCount `json:"evaluators"`
			ledgerRead
		}{counts, read})
	}
	if l.n == 0 {
		return l.end(read)
	}
	t := newTable()
	t.AppendHeader(table.Row{"evaluator", "passed", "failed"})
	for _, c := range counts {
		t.AppendRow(table.Row{c.Name, c.Passed, c.Failed})
	}
	fmt.Fprintf(l.out, "\n%s\n", t.Render())
	return l.end(read)
}
