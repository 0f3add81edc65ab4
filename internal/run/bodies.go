package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/google/renameio/v2"
)

// keepBodies makes whole bodies durable. One that is there already is the same:
// files are called by their digests and appear whole.
func (r *Run) keepBodies(bodies []trajectory.Body) error {
	dir := filepath.Join(r.Dir, filepath.FromSlash(trajectory.BodiesDir))
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := errors.Join(durable.SyncDir(filepath.Dir(dir)), durable.SyncDir(r.Dir)); err != nil {
			return err
		}
	}
	for _, b := range bodies {
		path := filepath.Join(r.Dir, filepath.FromSlash(trajectory.BodyFile(b.SHA256)))
		info, err := os.Lstat(path)
		if err == nil && info.Mode().IsRegular() && info.Size() == int64(len(b.Text)) {
			continue
		}
		if err == nil {
			return fmt.Errorf("keeping a body: %s is there and is something else", trajectory.BodyFile(b.SHA256))
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := renameio.WriteFile(path, []byte(b.Text), 0o644, renameio.WithTempDir(dir)); err != nil {
			return fmt.Errorf("keeping a body: %w", err)
		}
	}
	return durable.SyncDir(dir)
}
