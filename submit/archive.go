package submit

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"time"

	"github.com/gaia-harness/gaia/trajectory"
)

// ArchiveSuffix stands behind a package's name in that of its archive.
const ArchiveSuffix = ".tar.gz"

// WholeArchive is the File of a *trajectory.Fault that is about an archive and
// not about one of its files: only the caller knows what it is called.
const WholeArchive = "archive"

// gzipHeader are the first ten bytes of every archive: deflate, no name, no
// time, no comment, no level, system unknown.
const gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

// What an archive may have grown to, in bytes, when so many bytes of it were read:
// deflate makes up to 1032 out of one, of the files of a run some 5. What grows
// faster is given up before it is too much for memory.
const (
	grownAlways = 8 << 20
	grownPerOne = 32
)

// maxHeader is what lies before a file at most: what fills up the block of the file
// before it, a PAX record of the size with its own header, and the header.
const maxHeader = 4 * 512

// errGrows is of what would grow to too much.
var errGrows = trajectory.Faultf(WholeArchive, "holds far more than a file of its size can, and was not read to its end")

// Archive is a package that was read from one file: NAME.tar.gz, a tar in one
// gzip member. Of the tar every bit follows from the package's name and from the
// names, order and contents of its files: an entry NAME/FILE each, in the order
// of Files, mode 0644, of nobody, at midnight UTC of the date in NAME; USTAR, with
// a PAX record of the size for files of 8 GiB and more. What deflate makes of that
// is not told here: other releases of Go may make something else.
type Archive struct {
	folder  string
	date    time.Time
	entries []entry
	content spool
}

// IsArchive tells an archive from what else a package's reader is given, by its
// first two bytes.
func IsArchive(first []byte) bool { return bytes.HasPrefix(first, []byte(gzipHeader[:2])) }

// OpenArchive reads an archive of size bytes once, from its beginning to its end,
// and extracts nothing: what it holds is kept in memory, or where that is much in
// one file without a name in the directory scratch, until Close. A
// *trajectory.Fault is about anything that [Build] would not have written, a
// *ScratchError about the directory. Whether the files are a package is for
// [Verify] to tell, and then CheckName.
func OpenArchive(f io.Reader, size int64, scratch string) (*Archive, error) {
	a := &Archive{content: spool{dir: scratch}}
	if err := a.read(f, size); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// FS returns the package's folder, readable until Close.
func (a *Archive) FS() fs.FS { return archiveFS{a} }

// Close gives back the space that the archive's files take.
func (a *Archive) Close() error { return a.content.close() }

// CheckName wants the folder in the archive to have the name that the verified
// package says it has. That "-dirty" is not taken away shows here alone.
func (a *Archive) CheckName(name string) error {
	if a.folder == name {
		return nil
	}
	return trajectory.Faultf(WholeArchive, "holds the folder %s, but its statement is that of %s", quote(a.folder), quote(name))
}

func (a *Archive) read(f io.Reader, size int64) error {
	// What the file has grown by since its size was told is a byte behind its end.
	from := &source{r: io.LimitReader(f, min(max(size, 0), math.MaxInt64-1)+1)}
	in := bufio.NewReaderSize(from, 1<<16)
	err := a.readGzip(in, from, size)
	var fault *trajectory.Fault
	switch {
	case err == nil || errors.As(err, &fault):
		return err
	case a.content.err != nil:
		return &ScratchError{Dir: a.content.dir, Err: a.content.err}
	case from.err != nil:
		return fmt.Errorf("reading the archive: %w", from.err)
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		if err := nothingBehind(in); err != nil {
			return err
		}
		return trajectory.Faultf(WholeArchive, "ends in the middle")
	case errors.Is(err, tar.ErrHeader):
		return trajectory.Faultf(WholeArchive, "is damaged or holds no tar of files: a header of it cannot be read")
	}
	return trajectory.Faultf(WholeArchive, "is damaged: %v", err)
}

// readGzip reads the one gzip member and wants nothing behind it, and what is in
// it to be the one tar that gaia writes.
func (a *Archive) readGzip(in *bufio.Reader, from *source, size int64) error {
	head, err := in.Peek(len(gzipHeader))
	switch {
	case len(head) >= 2 && !IsArchive(head):
		return trajectory.Faultf(WholeArchive, "is not compressed by gzip")
	case errors.Is(err, io.EOF):
		return trajectory.Faultf(WholeArchive, "ends in the middle")
	case err != nil:
		return err
	case string(head) != gzipHeader:
		return trajectory.Faultf(WholeArchive, "has another gzip header than gaia writes; ask for it as 'gaia submit' wrote it")
	}
	member, err := gzip.NewReader(in)
	if err != nil {
		return err
	}
	member.Multistream(false)
	stream := &inflating{r: member, read: func() int64 { return from.read - int64(in.Buffered()) }}
	whole, err := a.readTar(stream, size)
	if err != nil {
		return err
	}
	stream.left = 1
	if n, err := io.Copy(io.Discard, io.LimitReader(stream, 1)); err != nil {
		return err
	} else if n > 0 {
		return trajectory.Faultf(WholeArchive, "has bytes behind the end of its tar")
	}
	if err := nothingBehind(in); err != nil {
		return err
	}
	if !whole {
		return trajectory.Faultf(WholeArchive, "has another end of its tar than gaia writes; ask for it as 'gaia submit' wrote it")
	}
	return nil
}

// mayGrow bounds what n bytes of an archive may hold.
func mayGrow(n int64) int64 { return grownAlways + grownPerOne*min(max(n, 0), maxJournal) }

// nothingBehind wants a file to end where its gzip member did.
func nothingBehind(in *bufio.Reader) error {
	more, err := in.Peek(2)
	switch {
	case len(more) == 0 && errors.Is(err, io.EOF):
		return nil
	case len(more) == 0:
		return err
	case IsArchive(more):
		return trajectory.Faultf(WholeArchive, "holds more than one gzip member")
	}
	return trajectory.Faultf(WholeArchive, "has bytes behind its end")
}

// readTar keeps the files of a tar. What it reads is compared, a header at a time,
// with the tar that gaia would have made of these files: no content is read behind
// a header that is another. It reports whether the end is the same, too.
func (a *Archive) readTar(stream *inflating, size int64) (whole bool, err error) {
	got, want := sha256.New(), sha256.New()
	same := func() bool { return bytes.Equal(got.Sum(nil), want.Sum(nil)) }
	in, out := tar.NewReader(io.TeeReader(stream, got)), tar.NewWriter(want)
	for {
		stream.left = maxHeader
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // which admit says better
			return false, err
		}
		e, err := a.admit(h)
		if err != nil {
			return false, err
		}
		if e.size > mayGrow(size)-a.content.size {
			return false, errGrows
		}
		if err := out.WriteHeader(header(a.folder, e.name, e.size, a.date)); err != nil {
			return false, trajectory.Faultf(e.name, "has no place in a tar: %v", err)
		}
		if !same() {
			return false, trajectory.Faultf(e.name, "has another header, or the file before it another padding, than gaia writes; ask for the archive as 'gaia submit' wrote it")
		}
		stream.left = e.size
		if _, err := io.Copy(io.MultiWriter(&a.content, out), in); err != nil {
			return false, err
		}
		a.entries = append(a.entries, e)
	}
	if len(a.entries) == 0 {
		return false, trajectory.Faultf(WholeArchive, "holds no files")
	}
	err = out.Close()
	return same(), err
}

// source counts what was read, and remembers that reading failed, which is told
// apart from what was read.
type source struct {
	r    io.Reader
	read int64
	err  error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.read += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// inflating is what an archive holds, which may be no more at any time than what was
// read of the archive allows, and no more now than left.
type inflating struct {
	r    io.Reader
	read func() int64 // bytes of the archive
	came int64
	left int64
}

func (g *inflating) Read(p []byte) (int, error) {
	if g.left == 0 {
		return 0, trajectory.Faultf(WholeArchive, "has a longer header than gaia writes")
	}
	n, err := g.r.Read(p[:min(int64(len(p)), g.left)])
	g.came += int64(n)
	g.left -= int64(n)
	if g.came > mayGrow(g.read()) {
		return 0, errGrows
	}
	return n, err
}
