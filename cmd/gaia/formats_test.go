package main

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/board"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/planfolder"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestFormatsAreDocumented holds docs/formats.md against the types: every
// member is named where its format is described, with a question mark if and
// only if it is left out at its zero value.
func TestFormatsAreDocumented(t *testing.T) {
	doc := readFile(t, "docs/formats.md")
	for _, p := range []trajectory.Payload{
		trajectory.RunStarted{}, trajectory.RunResumed{}, trajectory.RunCompleted{}, trajectory.TaskStarted{}, trajectory.TurnStarted{},
		trajectory.TurnCompleted{}, trajectory.ContextCompiled{}, trajectory.ContextCondensed{}, trajectory.ModelCallStarted{}, trajectory.ModelCallCompleted{},
		trajectory.SecurityEvent{}, trajectory.ToolProposed{}, trajectory.PolicyDecision{}, trajectory.PolicyViolation{}, trajectory.ToolExecuted{}, trajectory.Error{},
		trajectory.AnswerCommitted{}, trajectory.AttemptEnded{}, trajectory.Judgment{}, trajectory.TaskSealed{},
		trajectory.ApprovalRequested{}, trajectory.ApprovalResolved{}, trajectory.CheckpointSaved{}, trajectory.Rollback{}, trajectory.LimitChanged{},
		trajectory.RequestRefused{}, trajectory.ExchangeStarted{}, trajectory.ExchangeCompleted{}, trajectory.TaskCommitted{}, trajectory.ShardMerged{},
	} {
		documented(t, string(p.Type()), row(t, doc, "| `"+string(p.Type())+"` | "), reflect.TypeOf(p), "harness", "probes", "own", "given")
	}
	for name, step := range map[string]any{"prompt": rundir.PromptStep{}, "llm_call": rundir.LLMCallStep{}, "tool_call": rundir.ToolCallStep{}, "tool_result": rundir.ToolResultStep{}, "exchange": rundir.ExchangeStep{}} {
		documented(t, name, row(t, doc, "| `"+name+"` | `type`"), reflect.TypeOf(step), "messages", "error", "model", "urls", "probes")
	}
	documented(t, "probes", paragraph(t, doc, "**Probes** "), reflect.TypeFor[trajectory.Probes]())
	documented(t, "manifest", chapter(t, doc, "## `manifest.json`"), reflect.TypeFor[plan.Plan](), "agent")
	documented(t, "delegation", chapter(t, doc, "## Shards and merged runs"), reflect.TypeFor[plan.Delegation]())
	documented(t, "list of shards", chapter(t, doc, "## Shards and merged runs"), reflect.TypeFor[rundir.Shards](), "events", "head", "key", "lost", "shard", "superseded")
	documented(t, "plan folder", chapter(t, doc, "## Plan folder `plan/`"), reflect.TypeFor[planfolder.Places]())
	documented(t, "own agent", chapter(t, doc, "## `agent-files.jsonl`"), reflect.TypeFor[plan.AgentPlan]())
	documented(t, "file of an own agent", chapter(t, doc, "## `agent-files.jsonl`"), reflect.TypeFor[plan.AgentFile]())
	documented(t, "trajectory", chapter(t, doc, "### `trajectories.jsonl`"), reflect.TypeFor[rundir.Trajectory]())
	documented(t, "result", chapter(t, doc, "### `results.jsonl`"), reflect.TypeFor[rundir.Result](), "tokens")
	documented(t, "report", chapter(t, doc, "### `audit-report.json`"), reflect.TypeFor[audit.Report]())
	documented(t, "adjudication", chapter(t, doc, "### `adjudications.jsonl`"), reflect.TypeFor[audit.Ruling]())
	documented(t, "later judgment", chapter(t, doc, "### `rejudgments.jsonl`"), reflect.TypeFor[audit.Rejudgment](), "battery", "judge", "judgment", "totals")
	documented(t, "statement", chapter(t, doc, "### `attestation.dsse.json`"), reflect.TypeFor[submit.Statement](), "harness")
	documented(t, "public result", chapter(t, doc, "### Public package `submission-<date>-<last 8 of the run id>-public/`"), reflect.TypeFor[submit.PublicResult]())
	documented(t, "evidence bundle", chapter(t, doc, "## Evidence bundle"), reflect.TypeFor[trajectory.Contents]())
	documented(t, "evidence bundle", chapter(t, doc, "## Evidence bundle"), reflect.TypeFor[trajectory.Sealing]())
	documented(t, "scorecard", chapter(t, doc, "### `scorecard.json`"), reflect.TypeFor[rundir.Scorecard]())
	documented(t, "run event", chapter(t, doc, "## Ledger file"), reflect.TypeFor[rundir.RunEvent]())
	documented(t, "history record", chapter(t, doc, "## History"), reflect.TypeFor[history.Record]())
	documented(t, "what is counted of a run", chapter(t, doc, "## History"), reflect.TypeFor[rundir.RunStats](), "dataset")
	documented(t, "cost", chapter(t, doc, "## Cost curve"), reflect.TypeFor[history.Cost]())
	documented(t, "export", chapter(t, doc, "## Ledger file"), reflect.TypeFor[history.Export]())
	documented(t, "board", chapter(t, doc, "## Board `data.json`"), reflect.TypeFor[board.Data](), "score", "judged", "own_agent", "prompts", "exceptions", "claims", "submitter")
	documented(t, "summary", chapter(t, doc, "### `summary.json`"), reflect.TypeFor[rundir.Summary](), "dataset", "harness", "tokens")
}

func row(t *testing.T, doc, start string) string {
	t.Helper()
	_, after, ok := strings.Cut(doc, "\n"+start)
	if !ok {
		t.Fatalf("docs/formats.md has no row %q", start)
	}
	line, _, _ := strings.Cut(after, "\n")
	return start + line
}

func paragraph(t *testing.T, doc, start string) string {
	t.Helper()
	_, after, ok := strings.Cut(doc, "\n\n"+start)
	if !ok {
		t.Fatalf("docs/formats.md has no paragraph %q", start)
	}
	text, _, _ := strings.Cut(after, "\n\n")
	return text
}

func chapter(t *testing.T, doc, heading string) string {
	t.Helper()
	_, after, ok := strings.Cut(doc, "\n"+heading+"\n")
	if !ok {
		t.Fatalf("docs/formats.md has no section %q", heading)
	}
	return regexp.MustCompile(`(?m)^##`).Split(after, 2)[0]
}

// documented wants each member of a struct type, and of those inside it, but
// for members that are described elsewhere.
func documented(t *testing.T, format, text string, typ reflect.Type, elsewhere ...string) {
	t.Helper()
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct {
		return
	}
	for i := range typ.NumField() {
		name, options, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if name == "" && typ.Field(i).Anonymous {
			documented(t, format, text, typ.Field(i).Type, elsewhere...)
			continue
		}
		want := "`" + name + "`"
		if options == "omitzero" || options == "omitempty" {
			want = "`" + name + "?`"
		}
		if !strings.Contains(text, want) {
			t.Errorf("%s: docs/formats.md does not name %s", format, want)
		}
		described := false
		for _, e := range elsewhere {
			described = described || e == name
		}
		if !described {
			documented(t, format, text, typ.Field(i).Type, elsewhere...)
		}
	}
}
