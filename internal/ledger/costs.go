package ledger

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/view"
)

// Costs returns a line for each finished run at paths, to be appended to a cost curve. There are none if a run does not
// verify, went on without evidence, or is signed by a key that the user does not trust: a line is not verified again.
func (r *Reader) Costs(paths []string, q Query) ([]byte, error) {
	q.Live = true
	var costs []history.Cost
	read, err := r.Runs(paths, q, func(run Run) error {
		costs = append(costs, history.CostOf(run.RunStats))
		return nil
	})
	if err != nil {
		return nil, err
	}
	var unrecorded error
	if len(read.RecordingFailed) > 0 {
		unrecorded = exit.New(exit.Findings, errors.New(strings.TrimSpace(read.Unrecorded())), "leave them out")
	}
	if err := read.End(unrecorded); err != nil {
		return nil, err
	}
	if read.Runs == 0 {
		return nil, noneComplete()
	}
	lines, err := history.CostLines(costs)
	if err == nil {
		_, err = history.ReadCosts(lines) // what cannot be read again is not printed
	}
	return lines, err
}

const maxCurve = 64 << 20 // bytes

// DrawCosts returns the cost curve of the lines in a file, as SVG.
func DrawCosts(file string) ([]byte, error) {
	const hint = "such a file has the lines that 'gaia trend PATH… --costs' prints"
	lines, err := regular.ReadUpTo(file, maxCurve)
	var costs []history.Cost
	if err == nil {
		costs, err = history.ReadCosts(lines)
	}
	if err != nil {
		return nil, exit.New(exit.Failure, fmt.Errorf("reading the costs in %s: %w", view.Line(view.Quote(file)), regular.Cause(err)), hint)
	}
	curve := history.CostCurve(costs)
	if curve.SVG == "" {
		return nil, exit.New(exit.Failure, fmt.Errorf("no run in %s has a known cost", view.Line(view.Quote(file))), hint)
	}
	return []byte(curve.SVG + "\n"), nil
}

func noneComplete() error {
	return exit.New(exit.Incomplete, errors.New("none of the runs is complete"), "gaia resume DIR goes on with one")
}
