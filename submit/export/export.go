// Package export writes a verified run in the forms of other tools. It is not API: its
// functions may change. It verifies
// nothing about conduct and decides nothing: what it is given was verified, and
// what it writes is no evidence. No form holds a gold answer, since neither a run's
// journal nor a package does (TestNoGold).
//
// [CSV] is a row a planned task, from its record in results.jsonl, for
// spreadsheets: a text that one of them would run begins with an apostrophe
// (TestCell).
//
// [Inspect] is a log of Inspect AI (.eval), a zip of JSON files:
//
//	_journal/start.json           what was planned
//	samples/<task>_epoch_<n>.json an attempt: messages, events, scores, usage
//	summaries.json                all samples, without what they did
//	reductions.json               what the vote made of the attempts, where there is one
//	header.json                   the plan again, results and usage
//
// A sample is an attempt that ended with or without an answer; the n-th of a task
// is its epoch n, and those that were lost with model or tool before it are its
// retries. A task that was never attempted, or only lost, has one sample with an
// error. The journal is read a second time for it, and each sample is written when
// its attempt has ended, so that no more is held than the open attempts and the
// summaries (TestInspectStreams). The same run gives the same bytes with the
// same build (TestInspectIsDeterministic), and sizes stand before the bytes that
// they are of, which the viewer needs (TestLocalHeaders).
package export

import (
	"encoding/csv"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/trajectory"
)

// Source is a run to be exported.
type Source struct {
	Dir     fs.FS           // run directory or package that it was verified in
	Summary string          // name of its summary there; rundir.SummaryFile if ""
	Run     *rundir.Run     // complete
	Void    map[string]bool // tasks that count wrong by adjudication
}

// An epoch is an attempt that stands for itself, with those that were lost
// before it. Attempt is nil of a task that has none.
type epoch struct {
	number  int // from 1
	attempt *rundir.Attempt
	lost    []*rundir.Attempt
}

// epochs returns the samples that a task has: at least one.
func epochs(t *rundir.Task) []epoch {
	var all []epoch
	var lost []*rundir.Attempt
	for _, a := range t.Attempts {
		if a.Ended.Outcome == trajectory.Errored {
			lost = append(lost, a)
			continue
		}
		all = append(all, epoch{len(all) + 1, a, lost})
		lost = nil
	}
	switch n := len(lost); {
	case len(all) > 0: // a vote that did not get all its answers
		last := &all[len(all)-1]
		last.lost = slices.Concat(last.lost, lost)
	case n > 0:
		return []epoch{{1, lost[n-1], lost[:n-1]}}
	default:
		return []epoch{{number: 1}}
	}
	return all
}

// scorers are the names of the verdicts: a run without an LLM judge has one.
func (s Source) scorers() []string {
	if s.Run.Manifest.Judge == nil {
		return []string{"official"}
	}
	return []string{"official", "judged"}
}

// verdict returns what one of the scorers says of an attempt at a task, nil for unscored, or not judged.
// That of a void task is wrong.
func (s Source) verdict(scorer string, t *rundir.Task, a *rundir.Attempt) *bool {
	switch {
	case !s.Run.Scored():
		return nil
	case a == nil || a.Judgment == nil || s.Void[t.Plan.TaskID]:
		return new(bool)
	case scorer == "judged":
		return a.Judgment.Judged
	}
	return &a.Judgment.Official
}

// CSV writes a header and a row a planned task, in plan order. What is not known
// is an empty cell. Verdicts are those that were recorded: "void" says which of
// them count wrong all the same. Only a run with an LLM judge has judged_correct.
// The bytes that models were sent are those of all attempts.
func CSV(w io.Writer, s Source) error {
	rows := [][]any{{"task_id", "level", "outcome", "attempt", "attempts", "official_correct", "judged_correct", "scoring_path",
		"model_answer", "turns", "tool_calls", "tools_used", "tokens_in", "tokens_out", "tokens_cached", "tokens_reasoning",
		"cost_microusd", "latency_ms", "rehearsal", "void", "prompt_bytes", "witnessed_bytes", "errors_of"}}
	for _, t := range s.Run.Tasks {
		r := s.Run.Result(t)
		var sent, witnessed *int64
		if share := t.Inputs.Share(); share != nil {
			sent, witnessed = &share.Bytes, &share.Witnessed
		}
		rows = append(rows, []any{r.TaskID, r.Level, r.Outcome, r.Attempt, r.Attempts, r.OfficialCorrect, r.JudgedCorrect, r.ScoringPath,
			r.ModelAnswer, r.Turns, r.ToolCalls, strings.Join(r.ToolsUsed, ";"), r.Tokens.In, r.Tokens.Out, r.Tokens.Cached, r.Tokens.Reasoning,
			r.CostMicroUSD, r.LatencyMs, r.Rehearsal, s.Void[r.TaskID], sent, witnessed, s.Run.Manifest.Dataset.ErrorsOf.RunID})
	}
	out := csv.NewWriter(w)
	judged := slices.Index(rows[0], any("judged_correct"))
	for _, row := range rows {
		var cells []string
		for i, value := range row {
			if i == judged && s.Run.Manifest.Judge == nil {
				continue
			}
			v := reflect.ValueOf(value)
			if v.Kind() == reflect.Pointer && !v.IsNil() {
				v = v.Elem()
			}
			text := ""
			if v.Kind() != reflect.Pointer {
				text = cell(fmt.Sprint(v))
			}
			cells = append(cells, text)
		}
		if err := out.Write(cells); err != nil {
			return fmt.Errorf("writing CSV: %w", err)
		}
	}
	if out.Flush(); out.Error() != nil {
		return fmt.Errorf("writing CSV: %w", out.Error())
	}
	return nil
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
