package runs

import (
	"flag"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/go-json-experiment/json"
)

var update = flag.Bool("update", false, "write hostile.txt")

// TestHostile: the hostile run verifies, has its texts in it, and has one in each place that takes it.
func TestHostile(t *testing.T) {
	if *update || long.Thorough() {
		texts, err := findHostile()
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, text := range texts {
			line, err := json.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(append(line, '\n'))
		}
		if *update {
			if err := os.WriteFile("hostile.txt", []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d texts", len(texts))
			return
		}
		if b.String() != choosable {
			t.Errorf("hostile.txt has not the texts that can be chosen: run 'go test ./internal/testkit/runs -run TestHostile -update'")
		}
	}
	files, err := Hostile(func(_ int, text string) string { return text + "<script>alert(1)</script>" })
	if err != nil {
		t.Fatal(err)
	}
	dir := fstest.MapFS{}
	for name, data := range files {
		dir[name] = &fstest.MapFile{Data: data, Mode: 0o644}
	}
	run, err := rundir.Verify(dir, rundir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !run.Complete {
		t.Errorf("the hostile run is not complete: %s", run.Missing)
	}
	if n := strings.Count(string(files["events.jsonl"]), "alert(1)"); n < 100 {
		t.Errorf("the journal has the text %d times", n)
	}
}
