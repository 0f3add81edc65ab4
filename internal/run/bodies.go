package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/google/renameio/v2"
)

// keepBodies makes whole bodies durable. One that is there already is the same:
// files are called by their digests and appear whole.
func (r *Run) keepBodies(bodies []trajectory.Body) error {
	dir := filepath.Join(r.Dir, filepath.FromSlash(trajectory.BodiesDir))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, b := range bodies {
		path := filepath.Join(r.Dir, filepath.FromSlash(trajectory.BodyFile(b.SHA256)))
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			if err != nil {
				return err
			}
			continue
		}
		if err := renameio.WriteFile(path, []byte(b.Text), 0o644); err != nil {
			return fmt.Errorf("keeping a body: %w", err)
		}
	}
	return sign.SyncDir(dir)
}
