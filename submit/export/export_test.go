package export

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/go-json-experiment/json"
)

// open writes a case as a run directory and verifies it.
func open(t testing.TB, c runs.Case) Source {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	if err := c.Write(dir); err != nil {
		t.Fatal(err)
	}
	return verified(t, dir)
}

func verified(t testing.TB, dir string) Source {
	t.Helper()
	run, err := rundir.Verify(os.DirFS(dir), rundir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !run.Complete {
		t.Fatal(run.Missing)
	}
	return Source{Dir: os.DirFS(dir), Run: run, Void: map[string]bool{}}
}

func parse(t testing.TB, text string) runs.Case {
	t.Helper()
	c, err := runs.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func inspect(t testing.TB, s Source) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Inspect(&out, s); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func csvOf(t testing.TB, s Source) string {
	t.Helper()
	var out bytes.Buffer
	if err := CSV(&out, s); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// members unpacks a log.
func members(t testing.TB, log []byte) map[string][]byte {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(log), int64(len(log)))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if all[f.Name], err = io.ReadAll(r); err != nil { // which also checks size and sum
			t.Fatalf("%s: %v", f.Name, err)
		}
		r.Close()
	}
	if len(all) != len(z.File) {
		t.Fatal("the log has a member twice")
	}
	return all
}

// decoded reads a member of a log.
func decoded[T any](t testing.TB, all map[string][]byte, name string) T {
	t.Helper()
	var v T
	data, there := all[name]
	if !there {
		t.Fatalf("the log has no %s", name)
	}
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

// kinds returns the kinds of a sample's events.
func kinds(s sample) []string {
	var all []string
	for _, e := range s.Events {
		all = append(all, e.(map[string]any)["event"].(string))
	}
	return all
}
