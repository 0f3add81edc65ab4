package export

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/trajectory"
)

// wholeBody is a document of which the journal shows the beginning.
func wholeBody() string {
	return "the beginning " + strings.Repeat("The ferries of Tolmey left at dawn. ", 200) + "the end"
}

// TestBodies: where a run keeps whole bodies the log has them, and elsewhere it
// says what is cut. A body that was changed is a fault.
func TestBodies(t *testing.T) {
	digest := canonical.Digest([]byte(wholeBody()))
	text := `-- plan --
{"evidence":"bodies"}
-- task ` + task + ` --
question: When do the ferries leave?
gold: at dawn
-- patch tool_executed --
{"body_sha256":"` + digest + `"}
-- call web_fetch {"url":"http://harbour.example/"} --
` + wholeBody() + `
-- answer at dawn --
They do.
`
	dir := filepath.Join(t.TempDir(), "run")
	if err := parse(t, text).Write(dir); err != nil {
		t.Fatal(err)
	}
	name := "samples/" + task + "_epoch_1.json"
	cut := decoded[sample](t, members(t, inspect(t, verified(t, dir))), name)
	if m := cut.Messages[3]; !m.Metadata.Cut || len(m.Content) > trajectory.ResultHead || !m.Metadata.Document || !strings.HasPrefix(m.Content, "the beginning") || cut.Metadata["cut_texts"] == nil {
		t.Errorf("of a body that is not kept the log has %d bytes, %+v", len(m.Content), m.Metadata)
	}
	keep(t, dir, wholeBody())
	whole := decoded[sample](t, members(t, inspect(t, verified(t, dir))), name)
	if m := whole.Messages[3]; m.Content != wholeBody() {
		t.Errorf("of a body that is kept the log has %d bytes, %+v", len(m.Content), m.Metadata)
	}
	if err := os.WriteFile(filepath.Join(dir, trajectory.BodyFile(digest)), []byte("another"), 0o644); err != nil {
		t.Fatal(err)
	}
	var fault *trajectory.Fault
	if err := Inspect(&bytes.Buffer{}, verified(t, dir)); !errors.As(err, &fault) || fault.File != trajectory.BodyFile(digest) {
		t.Errorf("a changed body: %v", err)
	}
}

// TestCutArguments: the log says which arguments are not whole, and has them whole
// where the run keeps them.
func TestCutArguments(t *testing.T) {
	code := strings.Repeat("print('the ferries leave') ", 600)
	head := code[:trajectory.ArgumentHead]
	body := `{"code":"` + code + `","n":[1, 2]}`
	digest := canonical.Digest([]byte(body))
	dir := filepath.Join(t.TempDir(), "run")
	c := parse(t, "-- plan --\n{\"evidence\":\"bodies\"}\n-- task "+task+" --\nquestion: Which?\ngold: Ostrel\n"+
		`-- patch tool_proposed --`+"\n"+`{"args":{"code":"`+head+`"},"args_truncated":["code"],"body_sha256":"`+digest+`"}`+"\n"+
		"-- call python "+body+" --\nThey leave.\n-- answer no --\nNo.\n")
	if err := c.Write(dir); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		code string
		cut  []string
	}{{head, []string{"call-1.code"}}, {code, []string{}}} {
		made := decoded[sample](t, members(t, inspect(t, verified(t, dir))), "samples/"+task+"_epoch_1.json")
		m := made.Messages[2]
		if args := m.ToolCalls[0].Arguments; args["code"] != tt.code || args["n"] != "[1, 2]" {
			t.Errorf("arguments of %d bytes and %q", len(args["code"]), args["n"])
		}
		if !slices.Equal(m.Metadata.CutArguments, tt.cut) {
			t.Errorf("%+v", m.Metadata)
		}
		keep(t, dir, body)
	}
}

// keep puts a body where a run keeps whole ones.
func keep(t *testing.T, dir, body string) {
	t.Helper()
	path := filepath.Join(dir, trajectory.BodyFile(canonical.Digest([]byte(body))))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestRedacted: a text that is not its original's says so.
func TestRedacted(t *testing.T) {
	const text = "-- task " + task + " --\nquestion: Which?\ngold: Ostrel\n-- patch tool_executed --\n{\"redactions\":1}\n-- call web_fetch {\"url\":\"http://a.example/\"} --\nkey [redacted]\n" +
		"-- patch model_call_completed --\n{\"redactions\":2}\n-- answer no --\nNo.\n"
	made := decoded[sample](t, members(t, inspect(t, open(t, parse(t, text)))), "samples/"+task+"_epoch_1.json")
	var got []bool
	for _, m := range made.Messages {
		got = append(got, m.Metadata.Redacted)
	}
	if !slices.Equal(got, []bool{false, false, false, false, true}) || made.Events[2].(map[string]any)["metadata"].(map[string]any)["redacted"] != true {
		t.Errorf("redacted %v, %v", got, made.Events[2])
	}
}
