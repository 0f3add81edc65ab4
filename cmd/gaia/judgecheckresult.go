package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/judge"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// checkedJudge is what check prints with --json.
type checkedJudge struct {
	Battery      string        `json:"battery_sha256"`
	CostMicroUSD *int64        `json:"cost_microusd"` // null where the price is unknown
	Items        []checkedItem `json:"items"`
	Model        string        `json:"model"`
	Origin       string        `json:"origin"`
	Problem      string        `json:"problem,omitzero"` // why not all items were put to it
	Rehearsal    bool          `json:"rehearsal,omitzero"`
	Remembered   string        `json:"remembered"` // of an earlier null battery: outcomeWithstood, outcomePaid, or "" for none
	TokensIn     int64         `json:"tokens_in"`
	TokensOut    int64         `json:"tokens_out"`
	Withstood    bool          `json:"withstood"` // this one
}

type checkedItem struct {
	Candidate string `json:"candidate"`
	Name      string `json:"name"`
	Verdict   string `json:"verdict"` // incorrect, as it should be; or correct, unreadable, refused (by the endpoint), "not asked"
}

func newCheckedJudge(e grading.Judge, t grading.SelfTest, remembered string) checkedJudge {
	out := checkedJudge{Battery: judge.BatteryDigest(), CostMicroUSD: t.CostMicroUSD, Model: e.Name, Origin: e.Origin, Problem: t.Err,
		Remembered: remembered, TokensIn: t.TokensIn, TokensOut: t.TokensOut, Withstood: t.Withstood()}
	for i, n := range judge.Battery() {
		verdict := "incorrect"
		switch {
		case i >= t.Put:
			verdict = "not asked"
		case slices.Contains(t.Paid, n.Name):
			verdict = "correct"
		case slices.Contains(t.Unreadable, n.Name):
			verdict = "unreadable"
		case slices.Contains(t.Refused, n.Name):
			verdict = "refused"
		}
		out.Items = append(out.Items, checkedItem{n.Candidate, n.Name, verdict})
	}
	return out
}

func (a *app) printChecked(out checkedJudge, t grading.SelfTest, entry string, asJSON bool) (err error) {
	switch {
	case asJSON:
		err = a.printJSON(out)
	case t.Put > 0:
		err = a.printCheckedTable(out)
	}
	if err != nil {
		return err
	}
	return checkFailure(out, t, entry)
}

// checkFailure is the error of a judge whose verdicts no run uses, or that could not
// be asked; nil if it passed its self-test. entry is the file of an earlier result.
func checkFailure(out checkedJudge, t grading.SelfTest, entry string) error {
	const another = "take another model with --judge-model: without a judge the official scores stand alone"
	switch {
	case out.Withstood && out.Remembered == outcomePaid:
		return fail(exitFindings, errors.New("this judge failed an earlier self-test, and that result counts until its entry is deleted"),
			"rm "+quoteArg(entry), another)
	case out.Withstood:
		return nil
	case t.Err != "" && len(t.Paid) == 0:
		err := errors.New(t.Err)
		if t.Why != nil {
			err = t.Why
		}
		return fail(exitFailure, fmt.Errorf("asking the judge: %w", err), judgeRemedies(t.Why)...)
	}
	why := runview.ExplainBattery(&rundir.BatterySummary{Paid: t.Paid, Put: t.Put, Refused: t.Refused, Unreadable: t.Unreadable})
	if len(t.Paid) == 0 && out.Remembered == outcomeWithstood {
		return fail(exitFindings, errors.New("this judge did not withstand the null battery: "+why), "runs use the earlier result, which it passed, until you delete it: rm "+quoteArg(entry))
	}
	return fail(exitFindings, errors.New("no verdict of this judge counts: "+why), another)
}

// judgeRemedies says what can be done about a request that failed, where more is
// known than what the endpoint said.
func judgeRemedies(e *llm.Error) []string {
	switch {
	case e == nil:
	case e.Hint != "":
		return []string{e.Hint}
	case e.Code == "unreachable":
		return []string{"check --base-url, and that the server is running there"}
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		return []string{"set OPENAI_API_KEY to a key of the endpoint"}
	case e.Status == http.StatusNotFound:
		return []string{"name a model that the endpoint has with --judge-model, or look at the path of --base-url"}
	}
	return nil
}

func (a *app) printCheckedTable(out checkedJudge) error {
	const width = 60 // of a candidate, before it is quoted
	rows := newTable()
	rows.AppendHeader(table.Row{"item", "verdict", "candidate"})
	for _, i := range out.Items {
		rows.AppendRow(table.Row{i.Name, i.Verdict, strconv.QuoteToGraphic(text.Snip(i.Candidate, width, "…"))})
	}
	outcome := "withstood the null battery"
	switch {
	case out.Withstood:
	case out.Problem != "":
		outcome = "was not put to all of the null battery"
	default:
		outcome = "did not withstand the null battery"
	}
	_, err := fmt.Fprintf(a.stdout, "%s\n\n%s at %s: %s; %d tokens in, %d out, cost %s\n", strings.TrimRight(visible.Text(rows.Render()), "\n"),
		oneLine(out.Model), oneLine(out.Origin), outcome, out.TokensIn, out.TokensOut, dollars(out.CostMicroUSD))
	return err
}
