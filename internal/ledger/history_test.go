package ledger

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestHistory: a row comes back as it was sealed, and in no other form, by no other key,
// under no other name.
func TestHistory(t *testing.T) {
	all := files(t, planOf(t, "a"), oneSolved)
	sheet, run, err := ReadSheet(os.DirFS(directory(t, all)), "")
	if err != nil {
		t.Fatal(err)
	}
	row := HistoryRow{Checkpoint: string(all[trajectory.CheckpointFile]), Created: run.Manifest.Created, Kind: HistoryRun, ManifestSHA256: run.ManifestSHA256,
		Path: "/runs/a", Pruned: run.Manifest.Created, Rehearsal: sheet.Rehearsal, RunID: run.Manifest.RunID, Sheet: &sheet, SignedBy: run.Key.ID()}
	key, other := testKey(t, 2), testKey(t, 3)
	keys := []sign.PublicKey{other.Public(), key.Public()}
	data, err := row.Seal(key)
	if err != nil {
		t.Fatal(err)
	}
	got, err := OpenHistory(row.Name(), data, keys)
	if err != nil || got.Path != row.Path || len(got.Sheet.Events) != 1 || got.Sheet.Events[0].ID != sheet.Events[0].ID || got.Checkpoint != row.Checkpoint {
		t.Fatalf("%+v, %v", got, err)
	}
	var fault *trajectory.Fault
	for name, open := range map[string]func() error{
		"by another key": func() error { _, err := OpenHistory(row.Name(), data, keys[:1]); return err },
		"of another run": func() error { _, err := OpenHistory(strings.Repeat("0", 64)+".dsse.json", data, keys); return err },
		"not at all":     func() error { _, err := OpenHistory(row.Name(), nil, keys); return err },
	} {
		if err := open(); !errors.As(err, &fault) || fault.File == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := 0; i < len(data); i += 7 {
		edited := []byte(string(data))
		edited[i] ^= 1
		if _, err := OpenHistory(row.Name(), edited, keys); !errors.As(err, &fault) {
			t.Fatalf("with byte %d changed: %v", i, err)
		}
	}
	for name, change := range map[string]func(*HistoryRow){
		"a sheet of another run":       func(r *HistoryRow) { r.Sheet.RunID = "01JAAAAAAAAAAAAAAAAAAAAAAA" },
		"a sheet of another plan":      func(r *HistoryRow) { r.Sheet.ManifestSHA256 = sign.Digest(nil) },
		"a sheet that is no rehearsal": func(r *HistoryRow) { r.Sheet.Rehearsal = !r.Rehearsal },
		"a sheet of no finished run":   func(r *HistoryRow) { r.Checkpoint = "" },
		"a checkpoint of another run":  func(r *HistoryRow) { r.RunID, r.Sheet = "01JAAAAAAAAAAAAAAAAAAAAAAA", nil },
		"no checkpoint at all":         func(r *HistoryRow) { r.Checkpoint = "none" },
		"an event of another run":      func(r *HistoryRow) { r.Sheet.Events[0].RunID = "01JAAAAAAAAAAAAAAAAAAAAAAA" },
		"an event that no run gives":   func(r *HistoryRow) { r.Sheet.Events[0].Tokens = -1 },
		"no time":                      func(r *HistoryRow) { r.Pruned = "yesterday" },
		"something else than a run":    func(r *HistoryRow) { r.Kind = "cassette" },
	} {
		forged := row
		copied := sheet
		copied.Events = append([]RunEvent(nil), sheet.Events...)
		forged.Sheet = &copied
		change(&forged)
		if _, err := forged.Seal(key); err == nil {
			t.Errorf("%s is sealed", name)
		}
		forged.Schema = historySchema
		payload, err := sign.Canonical(forged)
		if err != nil {
			t.Fatal(err)
		}
		data, err := sign.Seal(key, historyType, payload)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := OpenHistory(forged.Name(), data, keys); !errors.As(err, &fault) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
