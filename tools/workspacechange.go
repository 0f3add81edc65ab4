package tools

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/rogpeppe/go-internal/diff"
)

const (
	maxDiff     = 64 << 10 // bytes, of all files
	maxText     = 1 << 20  // bytes of a file that is compared as text
	maxCompared = 16 << 20 // bytes, of all such files
	maxLines    = 1 << 20  // lines of an attempt that are followed
)

// written counts the lines that an attempt has written and not changed again, by
// file and by a hash of theirs, and those that it has.
type written struct {
	byFile   map[string]map[uint64]int
	count    int
	reworked int
}

// follow takes a file from one text to the next.
func (w *written) follow(path string, before, after []byte) {
	change := map[uint64]int{}
	for line := range bytes.Lines(before) {
		change[lineHash(line)]--
	}
	for line := range bytes.Lines(after) {
		change[lineHash(line)]++
	}
	lines := w.byFile[path]
	if lines == nil {
		lines = map[uint64]int{}
		w.byFile[path] = lines
	}
	for line, n := range change {
		if n < 0 {
			n = -min(-n, lines[line])
			w.reworked -= n
		} else {
			n = max(0, min(n, maxLines-w.count))
		}
		w.count += n
		if lines[line] += n; lines[line] == 0 {
			delete(lines, line)
		}
	}
	if len(lines) == 0 {
		delete(w.byFile, path)
	}
}

func lineHash(line []byte) uint64 {
	h := fnv.New64a()
	h.Write(line)
	return h.Sum64()
}

// text is what a tree has under a path: data where that is text, which nothing is,
// too.
type text struct {
	data   []byte
	binary bool
}

func (w *Workspace) texts(path string, trees ...tree) ([]text, error) {
	out := make([]text, len(trees))
	for i, t := range trees {
		e := t.find(path)
		if e.Kind != kindFile {
			continue
		}
		if out[i] = (text{binary: true}); e.size > maxText {
			continue
		}
		data, err := w.store.ReadFile(blob(e.SHA256))
		if err != nil {
			return nil, fmt.Errorf("comparing the workspace: %w", err)
		}
		if utf8.Valid(data) && !bytes.ContainsRune(data, 0) {
			out[i] = text{data: data}
		}
	}
	return out, nil
}

// Change is what an attempt has made of its workspace, in the form in which rec
// records it. Nothing that the attempt started may be running. A workspace that has
// become too large since the last turn is restored as it was then; one that is shared with
// an own agent is left as it is, and nothing is said of it but that the change is cut.
func (w *Workspace) Change(rec *trajectory.Attempt) (*trajectory.WorkspaceChange, error) {
	if w.kept == nil { // nothing was allowed to write
		_, sum, err := w.now()
		return &trajectory.WorkspaceChange{Files: []string{}, TreeSHA256: sum}, err
	}
	_, err := w.keep()
	if errors.As(err, new(*unkeepable)) {
		if w.shared {
			return &trajectory.WorkspaceChange{Files: []string{}, Truncated: true}, nil
		}
		err = w.restore()
	}
	if err != nil {
		return nil, err
	}
	out := &trajectory.WorkspaceChange{Files: []string{}, Reworked: w.lines.reworked, TreeSHA256: w.keptSum}
	unified, err := w.compare(rec, out)
	if err != nil {
		return nil, err
	}
	slices.Sort(out.Files)
	x := rec.Part(unified, maxDiff)
	out.Diff, out.Truncated, out.Redactions = x.Head, x.Truncated, x.Redactions
	if x.Truncated {
		out.Diff = x.Head[:strings.LastIndexByte(x.Head, '\n')+1]
	}
	return out, nil
}

// compare returns the whole diff of the start and the last copy, and fills in what
// is counted of it.
func (w *Workspace) compare(rec *trajectory.Attempt, out *trajectory.WorkspaceChange) (string, error) {
	var all strings.Builder
	left := maxCompared
	for _, path := range changed(w.start, w.kept) {
		was, is := w.start.find(path), w.kept.find(path)
		if is.Kind == kindDir && (was.Kind == "" || was.Kind == kindDir) || was.Kind == kindDir && is.Kind == "" {
			continue
		}
		out.Files = append(out.Files, w.recorded(rec, path))
		texts, err := w.texts(path, w.start, w.kept)
		if err != nil {
			return "", err
		}
		binary := texts[0].binary || texts[1].binary
		if !binary {
			left -= len(texts[0].data) + len(texts[1].data)
		}
		old, now := nameIn("a/", was, path), nameIn("b/", is, path)
		if binary || left < 0 {
			if was.content() != is.content() {
				fmt.Fprintf(&all, "Binary files %s and %s differ\n", old, now)
			}
			continue
		}
		unified := diff.Diff(old, texts[0].data, now, texts[1].data)
		n := 0
		for line := range bytes.Lines(unified) {
			switch n++; { // the first three name the files
			case n > 3 && line[0] == '+':
				out.Added++
			case n > 3 && line[0] == '-':
				out.Removed++
			}
		}
		all.Write(unified)
	}
	return all.String(), nil
}

// content is the digest of a file, "" for everything else.
func (e entry) content() string {
	if e.Kind == kindFile {
		return e.SHA256
	}
	return ""
}

// nameIn is a file's name in a diff.
func nameIn(side string, e entry, path string) string {
	if e.Kind != kindFile {
		return "/dev/null"
	}
	return PlainName(side + path)
}

// recorded is a path as the journal has it: without secrets, and by its digest
// where the journal holds no bodies and the path is not one of the start.
func (w *Workspace) recorded(rec *trajectory.Attempt, path string) string {
	if rec.Hashes && w.start.find(path).Kind == "" {
		return canonical.Digest([]byte(path))
	}
	clean, _ := rec.Redact.Redact(path)
	return clean
}

// files lists the regular files of the last copy.
func (w *Workspace) files(rec *trajectory.Attempt) []trajectory.File {
	out := []trajectory.File{}
	for _, e := range w.kept {
		if e.Kind == kindFile {
			out = append(out, trajectory.File{Bytes: e.size, Path: w.recorded(rec, e.Path), SHA256: e.SHA256})
		}
	}
	return out
}
