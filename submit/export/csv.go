package export

import (
	"encoding/csv"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/visible"
)

// columns are the header of the CSV, in order; judged_correct only of a run with an
// LLM judge.
func columns(judged bool) []string {
	all := []string{"task_id", "level", "outcome", "attempt", "attempts", "official_correct", "judged_correct", "scoring_path",
		"model_answer", "turns", "tool_calls", "tools_used", "tokens_in", "tokens_out", "tokens_cached", "tokens_reasoning",
		"cost_microusd", "latency_ms", "rehearsal", "void"}
	if !judged {
		return slices.Delete(all, judgedColumn, judgedColumn+1)
	}
	return all
}

// judgedColumn is the place of judged_correct.
const judgedColumn = 6

// CSV writes a header and a row a planned task, in plan order. What is not known
// is an empty cell. Verdicts are those that were recorded: "void" says which of
// them count wrong all the same.
func CSV(w io.Writer, s Source) error {
	out := csv.NewWriter(w)
	judged := s.Run.Manifest.Judge != nil
	if err := out.Write(columns(judged)); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	for _, t := range s.Run.Tasks {
		if err := out.Write(row(s.Run.Result(t), s.Void[t.Plan.TaskID], judged)); err != nil {
			return fmt.Errorf("writing CSV: %w", err)
		}
	}
	if out.Flush(); out.Error() != nil {
		return fmt.Errorf("writing CSV: %w", out.Error())
	}
	return nil
}

func row(r rundir.Result, void, judged bool) []string {
	integer := func(n int64) string { return strconv.FormatInt(n, 10) }
	verdict := func(v *bool) string {
		if v == nil {
			return ""
		}
		return strconv.FormatBool(*v)
	}
	answer, cost := "", ""
	if r.ModelAnswer != nil {
		answer = cell(*r.ModelAnswer)
	}
	if r.CostMicroUSD != nil {
		cost = integer(*r.CostMicroUSD)
	}
	all := []string{cell(r.TaskID), strconv.Itoa(r.Level), r.Outcome, strconv.Itoa(r.Attempt), strconv.Itoa(r.Attempts),
		verdict(r.OfficialCorrect), verdict(r.JudgedCorrect), cell(r.ScoringPath), answer, strconv.Itoa(r.Turns), strconv.Itoa(r.ToolCalls),
		cell(strings.Join(r.ToolsUsed, ";")), integer(r.Tokens.In), integer(r.Tokens.Out), integer(r.Tokens.Cached),
		integer(r.Tokens.Reasoning), cost, integer(r.LatencyMs), strconv.FormatBool(r.Rehearsal), strconv.FormatBool(void)}
	if !judged {
		return slices.Delete(all, judgedColumn, judgedColumn+1)
	}
	return all
}

// cell returns a text as a cell that no spreadsheet runs and no terminal obeys.
// Hidden characters other than spaces become escapes, so that a row is a line. What could begin a formula, in the text or after a
// semicolon, which others take for the end of a cell, gets an apostrophe before it:
// blanks and quotes do not hide it. A number stays a number.
func cell(text string) string {
	if regexp.MustCompile(`^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$`).MatchString(text) {
		return text
	}
	var b strings.Builder
	begins := true
	for _, r := range text {
		switch {
		case visible.Hidden(r) && !unicode.Is(unicode.Zs, r):
			b.WriteString(visible.Line(string(r)))
			begins = false // but with a backslash
			continue
		case begins && strings.ContainsRune("=+-@＝＋－＠", r):
			b.WriteByte('\'')
		}
		b.WriteRune(r)
		begins = r == ';' || begins && (r == '"' || unicode.Is(unicode.Zs, r))
	}
	return b.String()
}
