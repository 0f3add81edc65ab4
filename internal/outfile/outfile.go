// Package outfile writes the files that a user names with options such as --out.
//
// A file is complete and durable, or absent, and no existing file is replaced. Several files are created together or not
// at all. Writing to standard output or a stream stops when the context ends. An error names the path and has a remedy:
// another directory, more space, or the removal of the existing file.
package outfile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/regular"
)

// File is a file that is to appear.
type File struct {
	Path string
	Data []byte
}

// WriteNew writes files that must not be there yet: all of them, whole and
// durable, or none.
func WriteNew(ctx context.Context, files []File) (err error) {
	var named []string
	defer func() {
		for _, name := range named {
			if err != nil {
				os.Remove(name)
			}
		}
	}()
	for _, f := range files {
		if _, err := os.Lstat(f.Path); !errors.Is(err, fs.ErrNotExist) {
			return NotWritten(f.Path, err)
		}
	}
	var aside []string
	for _, f := range files {
		name, err := durable.WriteAside(filepath.Dir(f.Path), f.Data, 0o644)
		if err != nil {
			return fmt.Errorf("writing %q: %w", f.Path, err)
		}
		defer os.Remove(name)
		aside = append(aside, name)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for i, f := range files {
		if err := durable.PutNew(aside[i], f.Path); err != nil {
			return NotWritten(f.Path, err)
		}
		named = append(named, f.Path)
	}
	return durable.SyncDir(filepath.Dir(files[0].Path))
}

// NotWritten returns the error of a file that could not be written; a nil err means that the file
// exists.
func NotWritten(path string, err error) error {
	if err == nil || errors.Is(err, fs.ErrExist) {
		return exit.New(exit.Failure, fmt.Errorf("%q already exists and is not overwritten", path), "give another name by --out")
	}
	return fmt.Errorf("writing %q: %w", path, err)
}

// Remedy is the hint where nothing could be written to the place of --out.
func Remedy(err error) string {
	const another = "choose another place with --out"
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EFBIG) {
		return "make room, or " + another
	}
	return another
}

// WriteStream writes a file that must not be there yet, whole and durable or not
// at all.
func WriteStream(ctx context.Context, path string, write func(io.Writer) error) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return NotWritten(path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return exit.New(exit.Failure, fmt.Errorf("writing %q: %w", path, regular.Cause(err)), Remedy(err))
	}
	defer os.Remove(f.Name())
	defer f.Close()
	out := bufio.NewWriterSize(f, 1<<16)
	if err := write(interruptible{ctx, out}); err != nil {
		return err
	}
	if err := errors.Join(out.Flush(), f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return exit.New(exit.Failure, fmt.Errorf("writing %q: %w", path, err), Remedy(err))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := durable.PutNew(f.Name(), path); err != nil {
		return NotWritten(path, err)
	}
	return durable.SyncDir(filepath.Dir(path))
}

// Interruptible returns a writer to w that fails once ctx is done.
func Interruptible(ctx context.Context, w io.Writer) io.Writer { return interruptible{ctx, w} }

type interruptible struct {
	ctx context.Context
	to  io.Writer
}

func (w interruptible) Write(b []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.to.Write(b)
}
