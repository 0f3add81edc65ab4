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

// What an archive may grow to when it is read, in bytes: deflate makes up to 1032
// out of one, the files of a real run some 10.
const (
	grownAlways = 64 << 20
	grownPerOne = 100
)

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
	err := a.readGzip(in, size)
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
func (a *Archive) readGzip(in *bufio.Reader, size int64) error {
	head, err := in.Peek(len(gzipHeader))
	switch {
	case len(head) >= 2 && !IsArchive(head):
		return trajectory.Faultf(WholeArchive, "is not compressed by gzip")
	case errors.Is(err, io.EOF):
		return trajectory.Faultf(WholeArchive, "ends in the middle")
	case err != nil:
		return err
	case string(head) != gzipHeader:
		return trajectory.Faultf(WholeArchive, "has another gzip header than gaia writes; unpack it and verify the folder")
	}
	member, err := gzip.NewReader(in)
	if err != nil {
		return err
	}
	member.Multistream(false)
	got, want := sha256.New(), sha256.New()
	stream := io.TeeReader(&limited{r: member, left: mostHeld(size)}, got)
	if err := a.readTar(stream, want); err != nil {
		return err
	}
	if n, err := io.Copy(io.Discard, stream); err != nil {
		return err
	} else if n > 0 {
		return trajectory.Faultf(WholeArchive, "has %d bytes behind the end of its tar", n)
	}
	if err := nothingBehind(in); err != nil {
		return err
	}
	if !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		return trajectory.Faultf(WholeArchive, "has other headers or padding than gaia writes; unpack it and verify the folder")
	}
	return nil
}

// mostHeld bounds what an archive of size bytes may hold.
func mostHeld(size int64) int64 { return grownAlways + grownPerOne*min(max(size, 0), maxJournal) }

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

// readTar keeps the files of a tar, and writes to want the tar that gaia would have
// made of them.
func (a *Archive) readTar(r io.Reader, want io.Writer) error {
	in, out := tar.NewReader(r), tar.NewWriter(want)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // which admit says better
			return err
		}
		e, err := a.admit(h)
		if err != nil {
			return err
		}
		if err := out.WriteHeader(header(a.folder, e.name, e.size, a.date)); err != nil {
			return trajectory.Faultf(e.name, "has no place in a tar: %v", err)
		}
		if _, err := io.Copy(io.MultiWriter(&a.content, out), in); err != nil {
			return err
		}
		a.entries = append(a.entries, e)
	}
	if len(a.entries) == 0 {
		return trajectory.Faultf(WholeArchive, "holds no files")
	}
	return out.Close()
}

// source remembers that reading failed, which is told apart from what was read.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// limited is a stream that may not become longer than it has left.
type limited struct {
	r    io.Reader
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, trajectory.Faultf(WholeArchive, "holds far more than an archive of its size can, and was not read to its end")
	}
	return n, err
}
