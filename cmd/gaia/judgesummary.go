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
	rows := [][2]string{{"judge", fmt.Sprintf("%s: %s; cost %s", j.Model, judged(*j), dollars(j.CostMicroUSD))}}
	switch b := j.Battery; {
	case b == nil:
	case b.Withstood && b.Remembered:
		rows = append(rows, [2]string{"", "it withstood the null battery before, by the judge cache"})
	case b.Withstood:
		rows = append(rows, [2]string{"", fmt.Sprintf("it withstood the null battery: %d answers that say nothing, none of them paid%s", b.Put, filtered(b.Refused))})
	default:
		why := explainBattery(b)
		if why == "" {
			why = "the null battery could not be put to it: " + b.Problem
		}
		rows = append(rows, [2]string{"", "its verdicts do not count: " + oneLine(why)})
	}
	return rows
}

// judged counts the answers that were the judge's to judge.
func judged(j ledger.JudgeSummary) string {
	text := fmt.Sprintf("judged %d of %d (%d from the cache), unreadable %d, errors %d", j.Judged, j.ToJudge(), j.Cached, j.Unreadable, j.Errors)
	if j.Withheld > 0 {
		text += fmt.Sprintf(", kept from it %d", j.Withheld)
	}
	if j.TooLong > 0 {
		text += fmt.Sprintf(", too long %d", j.TooLong)
	}
	return text
}

// explainBattery says why a judge has not withstood the null battery; "" if it did,
// or if it only could not be asked.
func explainBattery(b *ledger.BatterySummary) string {
	const nothing = "answers that say nothing"
	items := len(judge.Battery())
	var why []string
	if b.Remembered && !b.Withstood {
		why = append(why, "it paid "+nothing+" before, by the judge cache ('gaia judge check' shows which)")
	}
	if len(b.Paid) > 0 {
		why = append(why, fmt.Sprintf("it pays %s, %d of %d: %s", nothing, len(b.Paid), items, strings.Join(b.Paid, ", ")))
	}
	if len(b.Unreadable) > 0 {
		why = append(why, fmt.Sprintf("to %d of %d %s its reply is no verdict: %s", len(b.Unreadable), items, nothing, strings.Join(b.Unreadable, ", ")))
	}
	if 2*len(b.Refused) >= b.Put && b.Put > 0 {
		why = append(why, fmt.Sprintf("its endpoint lets %d of %d %s not through", len(b.Refused), items, nothing))
	}
	return strings.Join(why, "; ")
}

// filtered says that an endpoint did not let all items through.
func filtered(refused []string) string {
	if len(refused) == 0 {
		return ""
	}
	return fmt.Sprintf("; its endpoint did not let %d through: %s", len(refused), strings.Join(refused, ", "))
}
