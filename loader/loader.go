// Package loader reads GAIA's dataset layout and separates questions from answers.
//
// It promises exactly the tasks that were asked for, in the dataset's order, or an error that names the file, the row or
// line and the remedy. The split is always an argument; there is no default here.
//
// # Format
//
// A dataset is a tree of files that a [Source] opens by slash-separated path. This package reads
//
//	2023/<split>/metadata.parquet     one row a task
//	2023/<split>/metadata.jsonl       one JSON object a line and task, in older revisions and copies of them
//	2023/<split>/<file_name>          attachments, beside it
//
// Where both metadata files are there, parquet counts and the other is not opened. The columns, or keys, are task_id,
// Question, Level (text, or an integer), Final answer, file_name, file_path. Annotator Metadata describes how a person
// found the answer; it is never decoded, nor is what else a file holds. Row 0-0-0-0-0 is the dataset's dummy and is
// skipped.
//
// JSON lines are UTF-8 without a byte order mark, and end in LF, the last one or not. The key file_path may be missing,
// as older files lack it, and on the split test Final answer; these and file_name may be null.
//
// # The hub
//
// [Hub] asks for files at <endpoint>/datasets/<owner>/<name>/resolve/<revision>/<path>. The answer to a HEAD names the
// commit (X-Repo-Commit), the digest (X-Linked-Etag, SHA-256, or ETag, the SHA-1 that git gives a blob) and the size
// (X-Linked-Size or Content-Length). Copies lie in the cache of the hub's Python client, in its layout:
//
//	datasets--<owner>--<name>/refs/<revision>             the commit that a branch or tag was last
//	datasets--<owner>--<name>/snapshots/<commit>/<path>   a relative link into blobs; where links cannot be, the file
//	datasets--<owner>--<name>/blobs/<digest>              the bytes, under the hex digits of their digest
//	datasets--<owner>--<name>/blobs/<digest>.incomplete   the beginning of them
//	.locks/datasets--<owner>--<name>/<digest>.lock        held (flock) while the blob is fetched
//
// refs is written when a file of the commit was fetched. Where the hub does not say which commit a revision is, refs
// does. The bytes are checked against the digest each time they are opened.
//
// # Question and answer
//
// A [Task] cannot carry an answer: it has no field for one and no way back to the file it came from. Answers leave
// [Load] as a [Gold], a separate value that shows nothing when it is printed or encoded. On the split test no answer
// leaves this package at all, even where a copy of the dataset holds some; [Set.CarriedGold] says that it did.
//
// # What it refuses
//
// Columns that are missing or of another physical type (the parquet library would read them as zero values or turn
// text into numbers in silence), keys that are missing, there twice or of another JSON type, files that are cut,
// malformed or larger than the limits below, duplicate and malformed task ids, levels outside 1 to 3, text that is not
// UTF-8, an empty split, a validation task without an answer, file names that are paths, and file paths that leave the
// dataset or name its metadata. A dataset is read whole or not at all.
//
// Of a hub: answers that name no commit or no digest, bytes that have another digest or length, another commit than the
// one asked for, and redirects from https to http. The token goes to the scheme, host and port of the endpoint only.
//
// TestLoad, TestLines, TestRefusals, TestLineRefusals, TestHub…, FuzzMetadata and FuzzLines show it.
package loader

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/selection"
	"golang.org/x/sync/errgroup"
)

// A Filter selects tasks of a split: by Levels and IDs, of these a Sample that Seed draws, or the first
// Limit. Its zero value selects all.
type Filter = selection.Filter

// A FilterError says that a [Filter] asks for tasks that do not exist.
type FilterError = selection.Error

// maxMetadataBytes bounds a metadata file. The published ones are under 200 KiB.
const maxMetadataBytes = 64 << 20

// dummyID marks the row the dataset carries to keep its columns typed.
const dummyID = "0-0-0-0-0"

// A Set is what one split of one dataset gave for one [Filter].
type Set struct {
	Hub      string // scheme and host of the hub that has the dataset; "" where it is no hub
	Dataset  string // as the source names it
	Revision string // as the source resolved it
	Split    Split

	MetadataFile string // path inside the dataset
	Digest       string // "sha256:" and hex, over the bytes of MetadataFile

	Tasks       []Task   // the selected tasks, in the order of the file
	IDs         []string // all ids of the split, in the order of the file
	Levels      [3]int   // how many tasks of the split are of level 1, 2 and 3
	CarriedGold bool     // the file held at least one answer, whether or not Load handed it on
	Others      []Other  // the other splits that the source holds

	source Source
}

// An Other is a split beside the one that was asked for. It holds no questions.
type Other struct {
	Split       Split
	Digest      string   // of its metadata file, as in Set
	IDs         []string // in the order of the file
	CarriedGold bool
}

// Load reads one split of src and selects from it. The Gold holds the answers of the selected tasks; on the split test
// it is always empty.
func Load(ctx context.Context, src Source, split Split, f Filter) (Set, Gold, error) {
	if _, err := ParseSplit(string(split)); err != nil {
		return Set{}, Gold{}, err
	}
	if err := f.Check(); err != nil {
		return Set{}, Gold{}, err
	}
	origin, err := src.Resolve(ctx)
	if err != nil {
		return Set{}, Gold{}, err
	}
	name, data, rows, err := readSplit(ctx, src, origin, split)
	if err != nil {
		return Set{}, Gold{}, err
	}
	set := Set{
		Hub: origin.Hub, Dataset: origin.Dataset, Revision: origin.Revision, Split: split,
		MetadataFile: name, Digest: canonical.Digest(data),
		source: src,
	}
	set.IDs, set.CarriedGold = outline(rows)
	if set.Others, err = others(ctx, src, origin, split); err != nil {
		return Set{}, Gold{}, err
	}
	all := make([]selection.Task, len(rows))
	for i, r := range rows {
		set.Levels[r.task.Level-1]++
		all[i] = selection.Task{ID: r.task.ID, Level: r.task.Level}
	}
	picked, err := f.Pick(all, string(split))
	if err != nil {
		return Set{}, Gold{}, err
	}
	type answer struct{ task, gold string }
	var answers []answer
	set.Tasks = make([]Task, len(picked))
	for i, of := range picked {
		if set.Tasks[i] = rows[of].task; split != Test {
			answers = append(answers, answer{rows[of].task.ID, rows[of].gold})
		}
	}
	return set, Gold{count: len(answers), open: func() map[string]string {
		m := make(map[string]string, len(answers))
		for _, a := range answers {
			m[a.task] = a.gold
		}
		return m
	}}, nil
}

// Attachment opens the file that belongs to t. The caller closes it. The error wraps [fs.ErrNotExist] where the dataset
// lacks the file.
func (s Set) Attachment(ctx context.Context, t Task) (io.ReadCloser, error) {
	if t.filePath == "" {
		return nil, fmt.Errorf("task %q has no attachment", t.ID)
	}
	rc, err := s.source.Open(ctx, s.Revision, t.filePath)
	if errors.Is(err, fs.ErrNotExist) {
		remedy := "complete the copy of the dataset"
		if s.Hub != "" {
			remedy = "choose a revision that has it, or leave the task out"
		}
		return nil, &SourceError{Reason: fmt.Sprintf("the attachment of task %q is missing: %s has no file %q", t.ID, Origin{s.Hub, s.Dataset, s.Revision}, t.filePath),
			Remedies: []string{remedy}, cause: fs.ErrNotExist}
	}
	if err != nil {
		return nil, fmt.Errorf("opening %q, the attachment of task %q: %w", t.filePath, t.ID, err)
	}
	return rc, nil
}

// hashedAtOnce is how many attachments are read at the same time.
const hashedAtOnce = 4

// HashAttachments reads the attachments of all tasks, which fetches them from a hub, and sets Bytes and SHA256 of the
// tasks. It returns the first error of [Set.Attachment] or of reading.
func (s *Set) HashAttachments(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(hashedAtOnce)
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if t.FileName == "" {
			continue
		}
		g.Go(func() error {
			rc, err := s.Attachment(ctx, *t)
			if err != nil {
				return err
			}
			sum := sha256.New()
			n, err := io.Copy(sum, rc)
			if err = errors.Join(err, rc.Close()); err != nil {
				return fmt.Errorf("reading %q, the attachment of task %q: %w", t.FileName, t.ID, err)
			}
			t.Bytes, t.SHA256 = n, canonical.DigestOf(sum)
			return nil
		})
	}
	return g.Wait()
}

// metadataFiles returns the paths where a split's metadata may lie, the one that counts first.
func metadataFiles(split Split) []string {
	stem := "2023/" + string(split) + "/metadata"
	return []string{stem + extParquet, stem + extLines}
}

// readSplit reads the metadata of a split whole. name is that of the file it found.
func readSplit(ctx context.Context, src Source, origin Origin, split Split) (name string, data []byte, rows []row, err error) {
	names := metadataFiles(split)
	name = names[0]
	rc, err := src.Open(ctx, origin.Revision, name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotCached) {
		if lines, lerr := src.Open(ctx, origin.Revision, names[1]); lerr == nil || errors.Is(err, fs.ErrNotExist) {
			name, rc, err = names[1], lines, lerr
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		remedy := "point at the folder that holds 2023/"
		if origin.Hub != "" {
			remedy = "choose a revision that has one of them"
		}
		return "", nil, nil, &SourceError{Reason: fmt.Sprintf("%s has neither %q nor %q", origin, names[0], names[1]), Remedies: []string{remedy}, cause: fs.ErrNotExist}
	}
	if err != nil {
		return "", nil, nil, fmt.Errorf("opening %s of %s: %w", name, origin, err)
	}
	data, err = io.ReadAll(io.LimitReader(rc, maxMetadataBytes+1))
	if cerr := rc.Close(); err == nil {
		err = cerr
	}
	if err == nil && len(data) > maxMetadataBytes {
		err = fmt.Errorf("larger than %d bytes: %s", maxMetadataBytes, otherVersion)
	}
	if err == nil {
		rows, err = decodeMetadata(name, data, split)
	}
	if err != nil {
		return "", nil, nil, fmt.Errorf("reading %s of %s: %w", name, origin, err)
	}
	return name, data, rows, nil
}

// others reads the ids of the splits beside the one that was asked for. A copy of the dataset need not have them, and a
// hub need not give split test to those who asked for validation. Test is not read without validation, where the hub has
// it: they must be distinguishable.
func others(ctx context.Context, src Source, origin Origin, split Split) ([]Other, error) {
	var found []Other
	for _, s := range []Split{Test, Validation} {
		if s == split {
			continue
		}
		_, data, rows, err := readSplit(ctx, src, origin, s)
		notGiven := errors.Is(err, errNotCached) || errors.Is(err, errNotGiven)
		if errors.Is(err, fs.ErrNotExist) || split == Validation && notGiven {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("telling split %s from split %s: %w", split, s, err)
		}
		o := Other{Split: s, Digest: canonical.Digest(data)}
		o.IDs, o.CarriedGold = outline(rows)
		found = append(found, o)
	}
	return found, nil
}

// outline returns the ids of rows, and whether one of them has an answer.
func outline(rows []row) (ids []string, gold bool) {
	for _, r := range rows {
		ids = append(ids, r.task.ID)
		gold = gold || r.gold != ""
	}
	return ids, gold
}

// A Split is a part of the dataset, with its own policy about answers.
type Split string

// The splits of GAIA.
const (
	Validation Split = "validation" // answers are public
	Test       Split = "test"       // answers are withheld
)

// ParseSplit reads the name of a split, as written in the dataset's own paths.
func ParseSplit(s string) (Split, error) {
	switch split := Split(s); split {
	case Validation, Test:
		return split, nil
	case "":
		return "", fmt.Errorf("no split given: want %q or %q", Validation, Test)
	}
	return "", fmt.Errorf("unknown split %q: want %q or %q", s, Validation, Test)
}

// A Task is a question with what belongs to it. It cannot carry an answer.
type Task struct {
	ID       string
	Question string
	Level    int    // 1 to 3
	FileName string // name of the attachment, a single path element; "" where there is none

	Bytes  int64  // size of the attachment, set by Set.HashAttachments
	SHA256 string // "sha256:" and hex, of the attachment, set by Set.HashAttachments; "" before, and where there is none

	filePath string // inside the dataset; "" where there is no attachment
}

// A Gold holds the answers of a [Set]. Printing or encoding it, or any value that holds it, shows none of them.
type Gold struct {
	// A function and not a map, since fmt prints the unexported fields of whatever holds a Gold without asking it.
	open  func() map[string]string
	count int
}

// Map returns a copy of the answers by task id. It is the one way to read them.
func (g Gold) Map() map[string]string {
	if g.open == nil {
		return map[string]string{}
	}
	return g.open()
}

// Len is the number of answers.
func (g Gold) Len() int { return g.count }

// String returns how many answers there are.
func (g Gold) String() string { return fmt.Sprintf("%d gold answers (not shown)", g.count) }

// GoString is String.
func (g Gold) GoString() string { return g.String() }

// Format is String under every verb.
func (g Gold) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, g.String()) }

// MarshalJSON refuses: an encoder that reaches a Gold is about to write answers where they do not belong.
func (g Gold) MarshalJSON() ([]byte, error) {
	return nil, fmt.Errorf("gold answers are not encoded: take them out by Map where they are due")
}
