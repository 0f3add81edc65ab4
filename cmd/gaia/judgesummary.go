package main

import (
	"fmt"
	"strings"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/judge"
)

// judgeRows say what the LLM judge did, and aloud what it could not do: of all
// answers that were its to judge.
func judgeRows(j *ledger.JudgeSummary) [][2]string {
	if j == nil {
		return nil
	}
	kept := ""
	if j.Withheld > 0 {
		kept = fmt.Sprintf(", kept from it %d", j.Withheld)
	}
	rows := [][2]string{{"judge", fmt.Sprintf("%s: judged %d of %d (%d from the cache), unreadable %d, errors %d%s; cost %s",
		j.Model, j.Judged, j.Asked+j.Withheld, j.Cached, j.Unreadable, j.Errors, kept, dollars(j.CostMicroUSD))}}
	switch b := j.Battery; {
	case b == nil:
	case b.Withstood && b.Remembered:
		rows = append(rows, [2]string{"", "withstood the null battery in an earlier run"})
	case b.Withstood:
		rows = append(rows, [2]string{"", fmt.Sprintf("withstood the null battery: %d answers that say nothing, none of them paid", b.Put)})
	default:
		rows = append(rows, [2]string{"", "its verdicts do not count: " + stood(b.Remembered, b.Paid, b.Unreadable, b.Problem)})
	}
	return rows
}

// stood says why a judge has not withstood the null battery.
func stood(remembered bool, paid, unreadable []string, problem string) string {
	var why []string
	if remembered {
		why = append(why, "in an earlier run it paid answers that say nothing")
	}
	if len(paid) > 0 {
		why = append(why, fmt.Sprintf("it pays answers that say nothing, %d of %d: %s", len(paid), len(judge.Battery()), strings.Join(paid, ", ")))
	}
	if len(unreadable) > 0 {
		why = append(why, fmt.Sprintf("to %d of %d answers that say nothing its reply is no verdict: %s", len(unreadable), len(judge.Battery()), strings.Join(unreadable, ", ")))
	}
	if problem != "" {
		why = append(why, "the null battery could not be put to it: "+problem)
	}
	return oneLine(strings.Join(why, "; "))
}
