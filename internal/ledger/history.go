package ledger

import (
	"errors"
	"fmt"
	"time"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

const (
	historySchema = "gaia.history/1"
	historyType   = "application/vnd.gaia-harness.history+json"
)

// What a history row can be of.
const (
	HistoryRun     = "run"
	HistoryPackage = "package"
)

// HistoryRow is what is kept of a run or package that was removed: which it was, and
// what is counted of it.
type HistoryRow struct {
	Checkpoint     string `json:"checkpoint,omitzero"` // the text of its checkpoint; left out: the run was not finished
	Created        string `json:"created"`             // of the plan
	Kind           string `json:"kind"`                // HistoryRun or HistoryPackage
	ManifestSHA256 string `json:"manifest_sha256"`
	Path           string `json:"path"`   // where it was, an absolute path
	Pruned         string `json:"pruned"` // when it was removed, as Created
	Rehearsal      bool   `json:"rehearsal,omitzero"`
	RunID          string `json:"run_id"`
	Schema         string `json:"schema"`
	Sheet          *Sheet `json:"sheet,omitzero"` // left out: the run was not finished, or its journal was withheld
	SignedBy       string `json:"signed_by"`      // id of the key of the plan
}

// Name returns the name of the row's file: there is one for each place of each plan.
func (r HistoryRow) Name() string {
	return sign.Digest([]byte(r.ManifestSHA256 + "\n" + r.Path))[len("sha256:"):] + ".dsse.json"
}

// Seal returns the row's file: a DSSE envelope.
func (r HistoryRow) Seal(key sign.Key) ([]byte, error) {
	r.Schema = historySchema
	if err := r.check(); err != nil {
		return nil, err
	}
	payload, err := sign.Canonical(r)
	if err != nil {
		return nil, err
	}
	return sign.Seal(key, historyType, payload)
}

// OpenHistory reads a row that one of keys has sealed. Anything else is a
// *trajectory.Fault that names the file.
func OpenHistory(name string, data []byte, keys []sign.PublicKey) (HistoryRow, error) {
	err := errors.New("is sealed by no key that you trust")
	for _, key := range keys {
		payload, unsealed := sign.Unseal(data, historyType, key)
		if unsealed != nil {
			continue
		}
		var r HistoryRow
		if err = sign.Decode(payload, &r); err == nil {
			if err = r.check(); err == nil && r.Name() != name {
				err = errors.New("is of another run than its name says")
			}
		}
		if err == nil {
			return r, nil
		}
		break
	}
	return HistoryRow{}, trajectory.Faultf(name, "%v", err)
}

// check reports what keeps a row from being one of a run that was removed.
func (r HistoryRow) check() error {
	switch {
	case r.Schema != historySchema:
		return fmt.Errorf("its schema is not %s", historySchema)
	case r.Kind != HistoryRun && r.Kind != HistoryPackage:
		return fmt.Errorf("its kind is %q", r.Kind)
	}
	for _, at := range []string{r.Created, r.Pruned} {
		if _, err := time.Parse(trajectory.TimeFormat, at); err != nil {
			return fmt.Errorf("%q is no time", at)
		}
	}
	if r.Checkpoint != "" {
		c, err := trajectory.ParseCheckpoint([]byte(r.Checkpoint))
		if err != nil || c.RunID != r.RunID || c.ManifestSHA256 != r.ManifestSHA256 {
			return errors.New("its checkpoint is not of its run")
		}
	}
	s := r.Sheet
	if s == nil {
		return nil
	}
	if r.Checkpoint == "" || s.RunID != r.RunID || s.ManifestSHA256 != r.ManifestSHA256 || s.SignedBy != r.SignedBy || s.Rehearsal != r.Rehearsal || s.Schema != SheetSchema {
		return errors.New("its sheet is of another run")
	}
	for _, e := range s.Events {
		if err := CheckRunEvent(e); err != nil {
			return fmt.Errorf("the event %q: %w", e.ID, err)
		}
		if e.RunID != r.RunID || e.ManifestSHA256 != r.ManifestSHA256 {
			return fmt.Errorf("the event %q is of another run", e.ID)
		}
	}
	return nil
}
