package main

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
)

func (a *app) ledgerEvaluateCommand() *cobra.Command {
	q := &ledgerQuery{}
	limits := ledger.DefaultLimits()
	cmd := &cobra.Command{
		Use:   "evaluate",
		Short: "Put the evaluators to run events",
		Long: `Evaluate puts five evaluators to each attempt, in this order, and counts what they
say. Exit code 3 if one fails:

  tests-pass            a check of the answer ran, and none failed
  forbidden-command     no violation of R004
  forbidden-dependency  no violation of R005
  violation-rate        at most --max-violations rules broken
  diff-quality          lines reworked ÷ lines added and removed at most --max-rework-ratio`,
		Example: `  gaia ledger evaluate
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
			return a.evaluate(q, ledger.Evaluators(limits))
		},
	}
	q.add(cmd)
	q.addTimes(cmd)
	f := cmd.Flags()
	f.IntVar(&limits.Violations, "max-violations", limits.Violations, "rules that an attempt may break")
	f.Var((*fraction)(&limits.ReworkRatio), "max-rework-ratio", "lines reworked ÷ lines added and removed that an attempt may have")
	completeFixed(cmd, "max-violations")
	completeFixed(cmd, "max-rework-ratio")
	return cmd
}

// evaluatedEvent is what evaluate prints of an event with --json.
type evaluatedEvent struct {
	ID      string              `json:"id"`
	Results []ledger.Evaluation `json:"results"`
	RunID   string              `json:"run_id"`
	TaskID  string              `json:"task_id"`
}

// evaluatorCount says how often an evaluator passed.
type evaluatorCount struct {
	Failed int    `json:"failed"`
	Name   string `json:"name"`
	Passed int    `json:"passed"`
}

func (a *app) evaluate(q *ledgerQuery, by []ledger.Evaluator) error {
	l := a.newLister(q.asJSON, "evaluations", evaluatedLine, func(l line) any { return evaluatedEvent{l.ID, l.results, l.RunID, l.TaskID} })
	counts := make([]evaluatorCount, len(by))
	for i, e := range by {
		counts[i].Name = e.Name()
	}
	read, err := a.eachEvent(q, func(e shownEvent) error {
		results := make([]ledger.Evaluation, len(by))
		for i, evaluator := range by {
			results[i] = evaluator.Evaluate(e.RunEvent)
			if results[i].Pass {
				counts[i].Passed++
			} else {
				counts[i].Failed++
			}
		}
		return l.add(line{e, results})
	}, nil)
	if err != nil {
		return err
	}
	if err := l.endEvaluated(counts, read); err != nil || read.failed != nil {
		if err == nil {
			err = read.failed
		}
		return err
	}
	failed := 0
	for _, c := range counts {
		failed += c.Failed
	}
	if failed > 0 {
		return fail(exitFindings, fmt.Errorf("%s failed", counted(failed, "evaluation")), "gaia ledger show ID says what an attempt did")
	}
	return nil
}

// evaluatedLine appends what the evaluators say of an event: why, where one fails.
func evaluatedLine(out []byte, before *line, l line) ([]byte, error) {
	width := func(r ledger.Evaluation) int { return max(len(r.Name), len("FAIL 0.00")) }
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
