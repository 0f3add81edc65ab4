package tools

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// workspace is an Env over a directory with the given files.
func workspace(t *testing.T, files map[string][]byte) *Env {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return &Env{Root: &Folder{Root: root}, AllowURL: func(string) error { return nil }}
}

// use calls a tool as the Gate would.
func use(t *testing.T, tool Tool, env *Env, args any) Output {
	t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	out, err := callTool(t.Context(), tool, env, text)
	if err != nil {
		t.Fatalf("%s %s: %v", tool.Spec().Name, text, err)
	}
	return out
}

type object = map[string]any

func callTool(ctx context.Context, tool Tool, env *Env, args []byte) (Output, error) {
	return tool.call(ctx, env, args)
}

func mustHold(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s does not hold %q:\n%s", what, part, text[:RuneOffset(text, 800)])
		}
	}
}

// TestRefusalsSayNoMoreThanTheCall: what the model sent is not sent back at
// length, and no number comes out of it.
func TestRefusalsSayNoMoreThanTheCall(t *testing.T) {
	long := strings.Repeat("a", 9000)
	for _, args := range []string{`{"expression":["` + long + `","Brellin"]}`, `{"expression":{"` + long + `":"Brellin"}}`,
		`{"` + long + `":1}`, `{"expression":"` + long + `",}`, `{"expression":"` + long} {
		_, err := NewCalculate().admits([]byte(args))
		if err == nil {
			t.Fatalf("%.40s… is accepted", args)
		}
		if text := err.Error(); strings.Contains(text, "Brellin") || strings.Contains(text, "9000") || strings.Contains(text, "offset") || len(text) > 1000 {
			t.Errorf("%.40s…: %d bytes: %.400s", args, len(text), text)
		}
	}
}

type pagedArgs struct {
	Path string `json:"path"`
	Page int    `json:"page,omitzero"`
	Find string `json:"find,omitzero"`
}

// What is decoded marshals to arguments that decode to the same.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{`{"path":"a"}`, `{"path":"a","page":3,"find":"x"}`, `{}`, ``, `{"path":"a","path":"b"}`, `{"path":1e400}`, `[[[[`, `{"path":"\u0000"}`} {
		f.Add([]byte(seed))
	}
	var got pagedArgs
	tool := Define(Definition[pagedArgs]{Name: "read", Run: func(_ context.Context, _ *Env, a pagedArgs) (Output, error) {
		got = a
		return Output{}, nil
	}})
	decode := func(t *testing.T, args []byte) (pagedArgs, bool) {
		out, err := tool.call(t.Context(), nil, args)
		if err != nil {
			t.Fatal(err)
		}
		return got, !out.IsError
	}
	f.Fuzz(func(t *testing.T, args []byte) {
		a, ok := decode(t, args)
		if !ok {
			return
		}
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if again, ok := decode(t, text); !ok || again != a {
			t.Errorf("%s: %+v, then %+v", args, a, again)
		}
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
