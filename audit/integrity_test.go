package audit_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestRefusedUnaudited: what AUD-12 need not look for, since such evidence does
// not verify, whoever has signed it: a verdict before its answer, and what no one
// signed.
func TestRefusedUnaudited(t *testing.T) {
	c := parsed(t, "a story", "-- task fab1e112-0000-4000-8000-000000000900 --\nquestion: How many lamps did the harbour light?\ngold: 27\n\n-- answer 27 --\nFrom the lamp book.\n")
	key := runs.Key()
	without := func(name string) func(*testing.T, map[string][]byte) map[string][]byte {
		return func(_ *testing.T, dir map[string][]byte) map[string][]byte {
			delete(dir, name)
			return dir
		}
	}
	tests := []struct {
		name   string
		change func(*testing.T, map[string][]byte) map[string][]byte
		want   string
	}{
		{"a verdict before its answer", func(t *testing.T, dir map[string][]byte) map[string][]byte {
			lines, err := runs.Lines(dir[trajectory.JournalFile])
			if err != nil {
				t.Fatal(err)
			}
			of := func(kind trajectory.Type) int {
				return slices.IndexFunc(lines, func(l runs.Line) bool { return l["type"] == string(kind) })
			}
			graded, committed := of(trajectory.TypeJudgment), of(trajectory.TypeAnswerCommitted)
			judgment := lines[graded]
			lines = slices.Insert(slices.Delete(lines, graded, graded+1), committed, judgment)
			if err := runs.Place(lines); err != nil {
				t.Fatal(err)
			}
			journal, err := runs.Chain(dir[plan.ManifestFile], lines)
			if err != nil {
				t.Fatal(err)
			}
			forged, err := runs.Forge(dir, journal, &key)
			if err != nil {
				t.Fatal(err)
			}
			return forged
		}, "grades attempt 1, which has committed no answer"},
		{"a plan without a signature", without(plan.EnvelopeFile), plan.EnvelopeFile},
		{"a journal without a signature", without(trajectory.CheckpointFile), trajectory.CheckpointFile},
		{"a plan that was changed", func(_ *testing.T, dir map[string][]byte) map[string][]byte {
			dir[plan.ManifestFile] = bytes.Replace(dir[plan.ManifestFile], []byte(`"name":"sample-model"`), []byte(`"name":"other-model"`), 1)
			return dir
		}, plan.EnvelopeFile},
	}
	for _, tt := range tests {
		dir, err := c.Files()
		if err != nil {
			t.Fatal(err)
		}
		files := fstest.MapFS{}
		for name, data := range tt.change(t, dir) {
			files[name] = &fstest.MapFile{Data: data, Mode: 0o644}
		}
		r, _, err := audit.Run(files, audit.Options{Gold: &audit.Gold{Answers: c.Gold(), Salt: c.Salt()}})
		var fault *trajectory.Fault
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), tt.want) || len(r.Checks) > 0 {
			t.Errorf("%s: %v, a report of %d checks", tt.name, err, len(r.Checks))
		}
	}
}
