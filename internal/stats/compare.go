package stats

import (
	"errors"
	"fmt"
)

// maxCompared bounds how many tasks are compared: what is exact of them takes time that grows with the square of their
// number.
const maxCompared = 20_000

// solved is the outcome of a task that was solved, as in TaskSealed.
const solved = "solved"

// Scored is a task of a run as it is compared. Cost and tokens are of all its attempts.
type Scored struct {
	CostMicroUSD   *int64 // nil: a price is unknown
	FileName       string
	Level          int
	MetadataSHA256 string // of the dataset that the task is from
	Outcome        string // as in TaskSealed; "solved" by the official verdict
	Question       string // digest of what was asked; "" if the task was not begun
	TaskID         string
	Tokens         int64 // read and written
}

// Comparison says how two runs, A and B, did on the tasks of both. Rates are in parts per million, money is in
// micro-USD, a difference is B's less A's.
type Comparison struct {
	A            Compared `json:"a"`
	B            Compared `json:"b"`
	Both         int      `json:"both"` // tasks that both solved
	CostMicroUSD *int64   `json:"cost_microusd"`
	Flips        []Flip   `json:"flips"`    // in A's plan order
	HighPPM      int64    `json:"high_ppm"` // of the 95 % interval of RatePPM; see bootstrap
	LowPPM       int64    `json:"low_ppm"`
	Neither      int      `json:"neither"`
	OnlyA        int      `json:"only_a"` // tasks that A solved and B did not
	OnlyB        int      `json:"only_b"`
	Other        []string `json:"other"`    // ids of which the plans ask different questions, which are not compared
	PPPM         int64    `json:"p_ppm"`    // of McNemar's test; 0: below half a part per million
	RatePPM      int64    `json:"rate_ppm"` // the difference of the solve rates
	Tasks        int      `json:"tasks"`    // that were compared
	Tokens       int64    `json:"tokens"`
}

// Compared is one side of a comparison, over the compared tasks.
type Compared struct {
	CostMicroUSD *int64   `json:"cost_microusd"` // null: a price is unknown
	Only         []string `json:"only"`          // tasks that only this run has, in plan order
	RatePPM      int64    `json:"rate_ppm"`      // of the tasks, how many it solved
	Solved       int      `json:"solved"`
	Tokens       int64    `json:"tokens"`
}

// Flip is a task that one run solved and the other did not.
type Flip struct {
	From   string `json:"from"` // A's outcome
	Level  int    `json:"level"`
	TaskID string `json:"task_id"`
	To     string `json:"to"` // B's
}

// Compare pairs the tasks of two runs by their ids. What a plan asks by an id and the other does not is not the same
// task.
func Compare(a, b []Scored) (Comparison, error) {
	c := Comparison{Flips: []Flip{}, Other: []string{},
		A: Compared{CostMicroUSD: new(int64), Only: []string{}}, B: Compared{CostMicroUSD: new(int64), Only: []string{}}}
	inB := make(map[string]Scored, len(b))
	for _, t := range b {
		inB[t.TaskID] = t
	}
	inA := make(map[string]bool, len(a))
	begun := func(a, b Scored) bool { return a.Question != "" && b.Question != "" }
	for _, t := range a {
		inA[t.TaskID] = true
		other, shared := inB[t.TaskID]
		switch {
		case !shared:
			c.A.Only = append(c.A.Only, t.TaskID)
		case t.FileName != other.FileName, begun(t, other) && t.Question != other.Question,
			!begun(t, other) && t.MetadataSHA256 != other.MetadataSHA256: // which says what would have been asked
			c.Other = append(c.Other, t.TaskID)
		default:
			c.Tasks++
			c.A.add(t)
			c.B.add(other)
			if (t.Outcome == solved) != (other.Outcome == solved) {
				c.Flips = append(c.Flips, Flip{From: t.Outcome, Level: t.Level, TaskID: t.TaskID, To: other.Outcome})
			}
			switch {
			case t.Outcome == solved && other.Outcome == solved:
				c.Both++
			case t.Outcome == solved:
				c.OnlyA++
			case other.Outcome == solved:
				c.OnlyB++
			default:
				c.Neither++
			}
		}
	}
	for _, t := range b {
		if !inA[t.TaskID] {
			c.B.Only = append(c.B.Only, t.TaskID)
		}
	}
	switch {
	case c.Tasks == 0:
		return Comparison{}, errors.New("the runs have no task in common")
	case c.Tasks > maxCompared:
		return Comparison{}, fmt.Errorf("the runs have %d tasks in common, and at most %d are compared", c.Tasks, maxCompared)
	}
	c.A.RatePPM, c.B.RatePPM = signedPPM(c.A.Solved, c.Tasks), signedPPM(c.B.Solved, c.Tasks)
	c.RatePPM = signedPPM(c.OnlyB-c.OnlyA, c.Tasks)
	c.LowPPM, c.HighPPM = bootstrap(c.OnlyA, c.OnlyB, c.Tasks)
	c.PPPM = McNemar(c.OnlyA, c.OnlyB)
	c.Tokens = c.B.Tokens - c.A.Tokens
	if c.A.CostMicroUSD != nil && c.B.CostMicroUSD != nil {
		c.CostMicroUSD = new(*c.B.CostMicroUSD - *c.A.CostMicroUSD)
	}
	return c, nil
}

func (c *Compared) add(t Scored) {
	if t.Outcome == solved {
		c.Solved++
	}
	c.CostMicroUSD = AddCost(c.CostMicroUSD, t.CostMicroUSD)
	c.Tokens += t.Tokens
}

// AddCost adds costs of which nil is unknown: then the sum is, too.
func AddCost(sum, cost *int64) *int64 {
	if sum == nil || cost == nil {
		return nil
	}
	total := *sum + *cost
	return &total
}
