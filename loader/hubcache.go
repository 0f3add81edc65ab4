package loader

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// A hubCache is the folder of one dataset in the cache that the hub's clients share.
type hubCache struct {
	root  string
	locks string
}

func (c hubCache) blob(digest string) string { return filepath.Join(c.root, "blobs", digest) }

func (c hubCache) pointer(commit, name string) string {
	return filepath.Join(c.root, "snapshots", commit, filepath.FromSlash(name))
}

// ref returns the commit that a revision last was, "" where that is not known.
func (c hubCache) ref(revision string) string {
	name := filepath.Join(c.root, "refs", filepath.FromSlash(revision))
	if !isFile(name) {
		return ""
	}
	b, err := os.ReadFile(name)
	if commit := strings.TrimSpace(string(b)); err == nil && isCommit(commit) {
		return commit
	}
	return ""
}

// open opens a file of a snapshot and says what its digest should be, "" where the cache does not tell.
func (c hubCache) open(commit, name string) (_ *os.File, digest string, err error) {
	pointer := c.pointer(commit, name)
	if target, err := os.Readlink(pointer); err == nil {
		if digest = filepath.Base(target); newHash(digest, 0) == nil {
			digest = ""
		}
	}
	if _, err := os.Stat(pointer); err == nil && !isFile(pointer) {
		return nil, "", fmt.Errorf("%q is not a regular file", pointer)
	}
	f, err := os.Open(pointer)
	return f, digest, err
}

// isFile reports whether there is a regular file, at the end of links or not. What is none is not opened: a pipe would
// be waited for.
func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// verify checks the bytes of f against digest and leaves f at its beginning.
func (c hubCache) verify(ctx context.Context, f *os.File, digest string) error {
	got, err := digestOf(ctx, f, digest)
	if err != nil {
		return err
	}
	if got != digest {
		bytes, err := filepath.EvalSymlinks(f.Name())
		if err != nil {
			bytes = f.Name()
		}
		return sourceErrorf("remove "+bytes+" and start again: the file will be fetched again",
			"%q in the cache is not the file that the hub has: its digest is %s, not %s", f.Name(), got, digest)
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}

// digestOf returns the digest of a whole file, made the way of another one.
func digestOf(ctx context.Context, f *os.File, way string) (string, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	sum := newHash(way, info.Size())
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	if _, err := io.Copy(sum, contextReader{ctx, f}); err != nil {
		return "", fmt.Errorf("reading %q: %w", f.Name(), err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// newHash returns the hash that a digest of the hub is made by, of a file of so many bytes; nil if it is no digest.
func newHash(digest string, size int64) hash.Hash {
	switch {
	case !isHex(digest):
	case len(digest) == 2*sha256.Size:
		return sha256.New()
	case len(digest) == 2*sha1.Size:
		h := sha1.New()
		fmt.Fprintf(h, "blob %d\x00", size)
		return h
	}
	return nil
}

// lock keeps other processes, those of other clients too, from fetching the same blob until unlock is called.
func (c hubCache) lock(ctx context.Context, digest string) (unlock func(), err error) {
	if err := os.MkdirAll(c.locks, 0o777); err != nil {
		return nil, err
	}
	name := filepath.Join(c.locks, digest+".lock")
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is not a regular file", name)
	}
	l := flock.New(name, flock.SetPermissions(0o666))
	if _, err := l.TryLockContext(ctx, 50*time.Millisecond); err != nil {
		return nil, fmt.Errorf("locking %q: %w", l.Path(), err)
	}
	return func() { _ = l.Close() }, nil
}

// link makes a blob a file of a snapshot.
func (c hubCache) link(commit, name, digest string) error {
	pointer := c.pointer(commit, name)
	if err := os.MkdirAll(filepath.Dir(pointer), 0o777); err != nil {
		return err
	}
	target, err := filepath.Rel(filepath.Dir(pointer), c.blob(digest))
	if err != nil {
		return err
	}
	err = os.Symlink(target, pointer)
	if errors.Is(err, fs.ErrExist) {
		if there, rerr := os.Readlink(pointer); rerr == nil && there == target {
			return nil // another process was first
		}
		if err = os.Remove(pointer); err == nil {
			err = os.Symlink(target, pointer)
		}
	}
	return err
}

// contextReader reads until ctx ends.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (r contextReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}
