package history

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plot"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/trajectory"
)

const costSchema = "gaia.cost/1"

// Cost is what a verified run cost: a line of a cost curve. The digests of its plan and journal name the run.
type Cost struct {
	CostMicroUSD   *int64 `json:"cost_microusd"`         // of all its tasks; null: a price is unknown
	JournalHead    string `json:"journal_head,omitzero"` // as in the checkpoint
	ManifestSHA256 string `json:"manifest_sha256"`
	Model          string `json:"model"`
	OnlyErrors     bool   `json:"only_errors,omitzero"` // its tasks were chosen because they failed in another run
	Rehearsal      bool   `json:"rehearsal,omitzero"`
	RunID          string `json:"run_id"`
	Schema         string `json:"schema"`
	SignedBy       string `json:"signed_by"` // id of the key of the plan
	Selection      string `json:"selection"` // label of its tasks, as in the plan
	Solved         *int   `json:"solved"`    // null: a task was not graded
	Started        string `json:"started"`
	Tasks          int    `json:"tasks"`
	Tokens         int64  `json:"tokens"` // read and written
}

// CostOf returns what a run cost.
func CostOf(s rundir.RunStats) Cost {
	c := Cost{CostMicroUSD: new(int64), JournalHead: s.JournalHead, ManifestSHA256: s.ManifestSHA256, Model: s.Model, OnlyErrors: s.Dataset.ErrorsOf.RunID != "", Rehearsal: s.Rehearsal, Selection: s.Dataset.Selection, RunID: s.RunID,
		Schema: costSchema, SignedBy: s.SignedBy, Solved: new(int), Started: s.Started, Tasks: len(s.Tasks)}
	for _, t := range s.Tasks {
		c.CostMicroUSD = stats.AddCost(c.CostMicroUSD, t.CostMicroUSD)
		c.Tokens += t.Tokens
		switch {
		case t.Outcome == trajectory.Unscored || !s.Dataset.CarriedGold:
			c.Solved = nil
		case t.Outcome == trajectory.Solved && c.Solved != nil:
			*c.Solved++
		}
	}
	return c
}

// CostLines returns costs as lines of canonical JSON.
func CostLines(costs []Cost) (lines []byte, err error) {
	for _, c := range costs {
		line, err := canonical.Encode(c)
		if err != nil {
			return nil, err
		}
		lines = append(append(lines, line...), '\n')
	}
	return lines, nil
}

// ReadCosts returns the costs in lines, in the order in which the runs began, a run that is there twice once. An error names
// the line.
func ReadCosts(lines []byte) ([]Cost, error) {
	var costs []Cost
	seen := map[string][]byte{}
	for number := 1; len(lines) > 0; number++ {
		line, rest, whole := bytes.Cut(lines, []byte("\n"))
		lines = rest
		c, err := readCost(line)
		switch {
		case !whole:
			err = errors.New("it does not end")
		case err == nil && seen[c.RunID] == nil:
			seen[c.RunID] = line
			costs = append(costs, c)
		case err == nil && !bytes.Equal(seen[c.RunID], line):
			err = fmt.Errorf("another line has the run %s with other values", c.RunID)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	slices.SortStableFunc(costs, func(a, b Cost) int { return cmp.Compare(a.Started, b.Started) })
	return costs, nil
}

func readCost(line []byte) (c Cost, err error) {
	if err := canonical.Decode(line, &c); err != nil {
		return c, err
	}
	_, err = time.Parse(trajectory.TimeFormat, c.Started)
	switch {
	case c.Schema != costSchema:
		return c, fmt.Errorf("its schema is %q, not %q", c.Schema, costSchema)
	case err != nil:
		return c, fmt.Errorf("it began at %q, which is no time", c.Started)
	case c.RunID == "" || c.Tasks < 0 || c.Tokens < 0 || c.CostMicroUSD != nil && *c.CostMicroUSD < 0 || c.Solved != nil && (*c.Solved < 0 || *c.Solved > c.Tasks):
		return c, errors.New("it has values that no run has")
	case strings.HasPrefix(c.Selection, "errors-of=") != c.OnlyErrors:
		return c, fmt.Errorf("its selection %q and only_errors are of no run", c.Selection)
	}
	return c, nil
}

// CostCurve draws costs.
func CostCurve(costs []Cost) plot.Plot {
	var runs []plot.RunCost
	for _, c := range costs {
		runs = append(runs, plot.RunCost{Day: c.Started[:len(time.DateOnly)], Run: c.RunID, Model: c.Model, Rehearsal: c.Rehearsal, OnlyErrors: c.OnlyErrors, Tasks: c.Tasks, Solved: c.Solved, CostMicroUSD: c.CostMicroUSD})
	}
	return plot.CostCurve(runs)
}
