package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/cenkalti/backoff/v5"
)

// An Origin says which dataset a [Source] is.
type Origin struct {
	Hub      string // scheme and host of the hub that has the dataset; "" where it is no hub
	Dataset  string
	Revision string // fixed: not a branch that can move
}

// Unpinned is the revision of what may be changed at any time.
const Unpinned = "unpinned"

func (o Origin) String() string {
	if o.Revision == Unpinned {
		return "the " + o.Dataset
	}
	return o.Dataset + " at " + o.Revision
}

// A Source opens the files of a dataset by their slash-separated path from its root. Files may be fetched when they are
// opened.
type Source interface {
	// Resolve names the dataset and fixes its revision.
	Resolve(ctx context.Context) (Origin, error)
	// Open returns the file at a revision that Resolve gave; the caller closes it. The error wraps fs.ErrNotExist where
	// the dataset has no such file.
	Open(ctx context.Context, revision, path string) (io.ReadCloser, error)
}

// A SourceError says why a source gave no file, and what a person can do about it.
type SourceError struct {
	Reason   string
	Remedies []string // the likeliest first

	cause error         // for errors.Is; may be nil
	again bool          // may pass by itself
	after time.Duration // when the source asks for another try; 0 = it did not say
	final bool          // an older answer would not do
}

func (e *SourceError) Error() string { return e.Reason }
func (e *SourceError) Unwrap() error { return e.cause }

// Hints returns what a person can do, the likeliest first.
func (e *SourceError) Hints() []string { return e.Remedies }

// As gives the backoff package the time of the next try.
func (e *SourceError) As(target any) bool {
	wait, ok := target.(**backoff.RetryAfterError)
	if ok = ok && e.after > 0; ok {
		*wait = &backoff.RetryAfterError{Duration: e.after}
	}
	return ok
}

func sourceErrorf(remedy, format string, args ...any) error {
	return &SourceError{Reason: fmt.Sprintf(format, args...), Remedies: []string{remedy}}
}

// Reach says of a source, before anything is loaded, whether a hub would give a split: it resolves the revision and asks
// for the metadata by its head alone, unless the cache has it. Nothing is kept. Of a source that is no hub it resolves
// the revision only.
func Reach(ctx context.Context, src Source, split Split) (Origin, error) {
	origin, err := src.Resolve(ctx)
	h, ok := src.(*hub)
	if !ok || err != nil {
		return origin, err
	}
	for _, name := range metadataFiles(split) {
		f, _, kept := h.kept.open(origin.Revision, name)
		switch {
		case kept == nil:
			return origin, f.Close()
		case !errors.Is(kept, fs.ErrNotExist):
			return origin, inCache(kept)
		case h.Offline:
			err = h.offline(origin.Revision, name+" at "+origin.Revision, name)
			continue
		}
		if _, err = h.askAt(ctx, origin.Revision, name); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return origin, err
}

// Dir is a dataset that lies in a file tree whose root holds 2023/.
func Dir(root fs.FS, dataset, revision string) Source {
	return dir{root: root, origin: Origin{Dataset: dataset, Revision: revision}}
}

type dir struct {
	root   fs.FS
	origin Origin
}

func (d dir) Resolve(context.Context) (Origin, error) { return d.origin, nil }

func (d dir) Open(ctx context.Context, _, name string) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// What is no file is not opened: a pipe would be waited for.
	if info, err := fs.Stat(d.root, name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("opening %q: not a regular file", name)
	}
	f, err := d.root.Open(name)
	if err != nil {
		if _, there := fs.Lstat(d.root, name); there == nil && errors.Is(err, fs.ErrNotExist) {
			err = &SourceError{Reason: fmt.Sprintf("%q is a link to a file that is not there", name),
				Remedies: []string{"copy the dataset with what its links lead to: cp -rL"}}
		}
		return nil, err
	}
	// A clone holds a pointer, a text file like any other, while Git LFS has not fetched the file.
	const pointer, longest = "version https://git-lfs.github.com/spec/", 1024
	info, err := f.Stat()
	if err == nil && info.Size() <= longest {
		if b, rerr := fs.ReadFile(d.root, name); rerr == nil && strings.HasPrefix(string(b), pointer) {
			err = &SourceError{Reason: "a Git LFS pointer stands in its place",
				Remedies: []string{"run 'git lfs pull' in the clone, or fetch the file another way"}}
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("opening %q: %w", name, err)
	}
	return f, nil
}

// attachmentPath says where a task's attachment lies. The dataset is outside bytes: its paths must not lead out of it,
// and must not lead to the metadata, which would hand the agent the answers as its attachment.
func attachmentPath(split Split, fileName, filePath string) (string, error) {
	if fileName == "" {
		if filePath != "" {
			return "", fmt.Errorf("file_path is %q though file_name is empty", filePath)
		}
		return "", nil
	}
	filePath = cmp.Or(filePath, "2023/"+string(split)+"/"+fileName)
	unsafe := func(r rune) bool { return r == '\\' || r == ':' || !unicode.IsPrint(r) }
	switch {
	case !fs.ValidPath(fileName) || strings.Contains(fileName, "/") || strings.HasPrefix(fileName, ".") || strings.ContainsFunc(fileName, unsafe):
		return "", fmt.Errorf("file_name %q is not a plain file name", fileName)
	case !fs.ValidPath(filePath) || strings.ContainsFunc(filePath, unsafe):
		return "", fmt.Errorf("file_path %q is not a path inside the dataset", filePath)
	case path.Base(filePath) != fileName:
		return "", fmt.Errorf("file_path %q does not end in file_name %q", filePath, fileName)
	case strings.HasPrefix(strings.ToLower(fileName), "metadata."):
		return "", fmt.Errorf("file_name %q names the dataset's metadata", fileName)
	}
	return filePath, nil
}
