package rundir

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/trajectory"
)

// The files of a run directory, besides those of [plan] and package trajectory. PrivateFile holds gold answers and
// verdicts; it is never packaged, and this package does not read it.
const (
	TrajectoriesFile = "trajectories.jsonl"
	ResultsFile      = "results.jsonl"
	SummaryFile      = "summary.json"
	MarkerFile       = "unsubmittable"
	PrivateFile      = "judgments.jsonl"
)

// Schemas of the files that are one JSON value or one a line.
const (
	trajectorySchema = "gaia.trajectory/1"
	resultSchema     = "gaia.result/1"
	summarySchema    = "gaia.summary/1"
)

// MaxFile bounds every file of a run or package, in bytes. It is the limit of the journal and of what derives from it;
// other files have lower ones.
const MaxFile = 4 << 30

// Limits, in bytes, of files that are read whole before anything is known of them. A plan of 150,000 tasks has 29 MB.
const (
	maxPlan       = 32 << 20
	maxMarker     = 4 << 10
	maxCheckpoint = 4 << 10
	maxBody       = 256 << 20
)

// derived are the files that are written when a run is closed.
func derived(summary string) []string {
	return []string{ResultsFile, summary, trajectory.CheckpointFile}
}

// present reports which files of a closing or closed run exist. It is called before the journal is read, so that a run
// that is being written, and closes in the meantime, is not taken for a damaged one.
func present(dir fs.FS, summary string) (map[string]bool, error) {
	there := map[string]bool{}
	for _, name := range append(derived(summary), MarkerFile) {
		f, _, err := OpenFile(dir, name, MaxFile)
		if isMissing(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		f.Close()
		there[name] = true
	}
	return there, nil
}

// Missing is the reason of a Fault about a file that is not there.
const Missing = "is missing"

func isMissing(err error) bool {
	var fault *trajectory.Fault
	return errors.As(err, &fault) && fault.Reason == Missing
}

// OpenFile opens a file of a run directory or package and returns its size. A file that is missing, is larger than
// limit bytes, or is not regular (a link could lead anywhere, a pipe would never end) is a Fault, as is one below a link;
// one that cannot be read proves nothing.
func OpenFile(dir fs.FS, name string, limit int64) (fs.File, int64, error) {
	for at := path.Dir(name); at != "."; at = path.Dir(at) {
		if info, err := fs.Lstat(dir, at); err == nil && !info.IsDir() {
			return nil, 0, trajectory.Faultf(name, "is not in a folder: %s is none", at)
		}
	}
	info, err := fs.Lstat(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, trajectory.Faultf(name, Missing)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("reading %s: %w", name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, trajectory.Faultf(name, "is not a regular file")
	}
	if info.Size() > limit {
		return nil, 0, tooLarge(name, limit)
	}
	f, err := dir.Open(name)
	if err != nil {
		return nil, 0, fmt.Errorf("reading %s: %w", name, err)
	}
	return f, info.Size(), nil
}

func tooLarge(name string, limit int64) error {
	return trajectory.Faultf(name, "is larger than %d bytes", limit)
}

// ReadFile is OpenFile for a whole file of at most limit bytes; a larger one is a Fault, and nothing of it is read.
func ReadFile(dir fs.FS, name string, limit int64) ([]byte, error) {
	f, size, err := OpenFile(dir, name, limit)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	room := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead)) // it is read without being copied
	if _, err := room.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	data := room.Bytes()
	if int64(len(data)) > limit { // it has grown
		return nil, tooLarge(name, limit)
	}
	return data, nil
}

// Copy is OpenFile for a whole file of at most limit bytes, which is copied to w.
func Copy(w io.Writer, dir fs.FS, name string, limit int64) error {
	f, _, err := OpenFile(dir, name, limit)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.Copy(w, io.LimitReader(f, limit+1))
	if err == nil && n > limit { // it has grown
		return tooLarge(name, limit)
	}
	if err != nil {
		return fmt.Errorf("copying %s: %w", name, err)
	}
	return nil
}

// fileDigest returns the digest of a whole file of at most limit bytes.
func fileDigest(dir fs.FS, name string, limit int64) (string, error) {
	sum := sha256.New()
	err := Copy(sum, dir, name, limit)
	return canonical.DigestOf(sum), err
}

// ReadBody returns the whole body that an event names by its body_sha256. Other bytes than those are a Fault; the error
// matches fs.ErrNotExist where the run keeps no such body.
func ReadBody(dir fs.FS, digest string) ([]byte, error) {
	name := trajectory.BodyFile(digest)
	if name == "" {
		return nil, fmt.Errorf("%q is not a digest", digest)
	}
	data, err := ReadFile(dir, name, maxBody)
	if isMissing(err) {
		return nil, fmt.Errorf("reading %s: %w", name, fs.ErrNotExist)
	}
	if err == nil && canonical.Digest(data) != digest {
		err = trajectory.Faultf(name, "is not what its name says")
	}
	return data, err
}

// notGiven is the reason of a Fault about a derived file.
const notGiven = "is not what the journal gives"

// comparison reads a file line by line against what it should hold.
type comparison struct {
	name   string
	file   fs.File
	in     *bufio.Reader
	size   int64     // of the file when it was opened
	digest hash.Hash // of what was compared; nil: it is not wanted
	read   int64
	lines  int64
	short  bool // the file ended before the lines did
}

func newComparison(dir fs.FS, name string) (*comparison, error) {
	f, size, err := OpenFile(dir, name, MaxFile)
	if err != nil {
		return nil, err
	}
	return &comparison{name: name, file: f, in: bufio.NewReaderSize(f, 1<<16), size: size}, nil
}

// line compares the next line. A file that ends early is noted, not refused: whether it may is known at the end.
func (c *comparison) line(want []byte) error {
	if c.short {
		return nil
	}
	for rest := want; len(rest) > 0 && !c.short; {
		got, err := c.in.Peek(min(len(rest), c.in.Size()))
		if c.short = errors.Is(err, io.EOF); err != nil && !c.short {
			return fmt.Errorf("reading %s: %w", c.name, err)
		}
		if !bytes.Equal(got, rest[:len(got)]) {
			return &trajectory.Fault{File: c.name, Line: c.lines + 1, Reason: notGiven}
		}
		if c.digest != nil {
			c.digest.Write(got)
		}
		n, _ := c.in.Discard(len(got)) // they are in its buffer
		c.read, rest = c.read+int64(n), rest[n:]
	}
	if !c.short {
		c.lines++
	}
	return nil
}

// end checks that nothing follows the last line, and that none was missing unless the file may be a prefix. While a run
// is written the file may have grown since it was opened, by records of events that were not read.
func (c *comparison) end(prefix, growing bool) error {
	if c.short && !prefix {
		return trajectory.Faultf(c.name, "ends after line %d: records are missing", c.lines)
	}
	if growing && c.read >= c.size {
		return nil
	}
	if _, err := c.in.ReadByte(); err == nil {
		return &trajectory.Fault{File: c.name, Line: c.lines + 1, Reason: "is more than the journal gives"}
	} else if !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading %s: %w", c.name, err)
	}
	return nil
}
