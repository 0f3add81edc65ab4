package ledger

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/trajectory"
)

// TestFormatsAreDocumented holds docs/formats.md against the types: every
// member is named where its format is described, with a question mark if and
// only if it is left out at its zero value.
func TestFormatsAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(b)
	for _, p := range []trajectory.Payload{
		trajectory.RunStarted{}, trajectory.RunResumed{}, trajectory.RunCompleted{}, trajectory.TaskStarted{}, trajectory.TurnStarted{},
		trajectory.TurnCompleted{}, trajectory.ContextCompiled{}, trajectory.ModelCallStarted{}, trajectory.ModelCallCompleted{},
		trajectory.ToolProposed{}, trajectory.PolicyDecision{}, trajectory.PolicyViolation{}, trajectory.ToolExecuted{}, trajectory.Error{},
		trajectory.AnswerCommitted{}, trajectory.AttemptEnded{}, trajectory.Judgment{}, trajectory.TaskSealed{},
	} {
		documented(t, string(p.Type()), row(t, doc, "| `"+string(p.Type())+"` | "), reflect.TypeOf(p), "harness")
	}
	for name, step := range map[string]any{"prompt": PromptStep{}, "llm_call": LLMCallStep{}, "tool_call": ToolCallStep{}, "tool_result": ToolResultStep{}} {
		documented(t, name, row(t, doc, "| `"+name+"` | `type`"), reflect.TypeOf(step), "messages", "error", "urls")
	}
	documented(t, "manifest", section(t, doc, "## `manifest.json`"), reflect.TypeFor[Manifest]())
	documented(t, "trajectory", section(t, doc, "### `trajectories.jsonl`"), reflect.TypeFor[Trajectory]())
	documented(t, "result", section(t, doc, "### `results.jsonl`"), reflect.TypeFor[Result](), "tokens")
	documented(t, "summary", section(t, doc, "### `summary.json`"), reflect.TypeFor[Summary](), "dataset", "harness", "tokens")
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

func section(t *testing.T, doc, heading string) string {
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
		want := "`" + name + "`"
		if options == "omitzero" {
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
