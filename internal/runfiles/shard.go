package runfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// maxBodies bounds the bodies of a shard that are in memory at once, in bytes.
const maxBodies = 16 << 20

// CopyShard copies what a merged run keeps of the folder of a shard to a folder of that name below rundir.ShardsDir:
// journal, delegation and tree head, and with bodies those to the bodies of the run. The copies are files of their own,
// byte for byte, and durable. Whether they are evidence is for the caller to verify, on the copies.
func (d *Dir) CopyShard(name, from string, bodies bool) error {
	to := filepath.Join(d.Path, rundir.ShardsDir, name)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	source := os.DirFS(from)
	for _, file := range []string{plan.DelegationFile, trajectory.JournalFile, trajectory.CheckpointFile} {
		if err := copyNew(filepath.Join(to, file), source, file); err != nil {
			return fmt.Errorf("copying from %s: %w", from, err)
		}
	}
	if bodies {
		if err := d.copyBodies(source); err != nil {
			return fmt.Errorf("copying from %s: %w", from, err)
		}
	}
	return errors.Join(durable.SyncDir(to), durable.SyncDir(filepath.Dir(to)))
}

// copyNew copies a regular file to a place where none is, and syncs it.
func copyNew(to string, source fs.FS, name string) error {
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := rundir.Copy(out, source, name, rundir.MaxFile); err != nil {
		return err
	}
	if err := out.Sync(); err != nil {
		return err
	}
	return out.Close()
}

// copyBodies keeps the bodies in the folder of a shard. A name there that is no digest is left; another content than the
// name says is a *trajectory.Fault.
func (d *Dir) copyBodies(source fs.FS) error {
	entries, err := fs.ReadDir(source, trajectory.BodiesDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var some []trajectory.Body
	size := 0
	for _, e := range entries {
		digest := "sha256:" + e.Name()
		if trajectory.BodyFile(digest) == "" {
			continue
		}
		text, err := rundir.ReadBody(source, digest)
		if err != nil {
			return err
		}
		some, size = append(some, trajectory.Body{SHA256: digest, Text: string(text)}), size+len(text)
		if size > maxBodies {
			if err := d.KeepBodies(some); err != nil {
				return err
			}
			some, size = nil, 0
		}
	}
	if len(some) == 0 {
		return nil
	}
	return d.KeepBodies(some)
}
