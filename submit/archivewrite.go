package submit

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/rundir"
)

// place moves the finished package from the folder stage to where it appears, as
// a folder or as an archive.
func (p *Package) place(ctx context.Context, c Config, stage string) error {
	digests := p.Statement.digests()
	err := seal(c.Key, p.Statement, func(name string, data []byte) error { // again the same bytes, not written to since
		digests[name] = canonical.Digest(data)
		return nil
	})
	if err != nil {
		return err
	}
	p.AttestationSHA256, p.Path = digests[AttestationFile], filepath.Join(c.Out, c.called(p.Name))
	p.Files = len(digests)
	if c.Archive {
		p.Bytes, err = pack(ctx, c.Out, stage, p.Name, digests)
		return err
	}
	for name := range digests {
		info, err := os.Stat(filepath.Join(stage, name))
		if err != nil {
			return fmt.Errorf("looking at the package: %w", err)
		}
		p.Bytes += info.Size()
	}
	return appear(ctx, c.Out, stage, p.Name)
}

// called is what lies in Out of a package of a name.
func (c Config) called(name string) string {
	if c.Archive {
		return name + ArchiveSuffix
	}
	return name
}

// pack makes the archive of a package whose files, by the verified digests, lie in
// the folder stage, removes the folder and returns how long the archive is. That
// appears when it was read back and holds these very files; else there is nothing.
func pack(ctx context.Context, out, stage, name string, digests map[string]string) (size int64, err error) {
	f, err := os.CreateTemp(out, ".new-"+name+"-*"+ArchiveSuffix)
	if err != nil {
		return 0, fmt.Errorf("making the archive: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	err = writeWhole(ctx, f, stage, name, digests, gzip.DefaultCompression)
	if errors.Is(err, errGrows) { // without looking for repetitions there are no more than eight out of one
		err = writeWhole(ctx, f, stage, name, digests, gzip.HuffmanOnly)
	}
	if err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("looking at the archive: %w", err)
	}
	if err := os.RemoveAll(stage); err != nil {
		return 0, fmt.Errorf("removing the folder that was packed: %w", err)
	}
	path := filepath.Join(out, name+ArchiveSuffix)
	if err := durable.PutNew(f.Name(), path); errors.Is(err, fs.ErrExist) {
		return 0, fmt.Errorf("%q %w", path, ErrTaken)
	} else if err != nil {
		return 0, fmt.Errorf("giving the archive its name: %w", err)
	}
	return info.Size(), nil
}

// writeWhole writes the archive of a package to an empty or used file, durably, and
// reads it back.
func writeWhole(ctx context.Context, f *os.File, stage, name string, digests map[string]string, level int) error {
	_, err := f.Seek(0, io.SeekStart)
	if err := errors.Join(err, f.Truncate(0)); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	if err := writeArchive(ctx, f, os.DirFS(stage), name, slices.Sorted(maps.Keys(digests)), level); err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(0o644), f.Sync()); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	if err := readBack(f, name, digests); err != nil {
		return fmt.Errorf("the archive does not hold the package: %w", err)
	}
	return nil
}

// readBack extracts an archive beside it and checks that it holds files of these
// digests and no others.
func readBack(f *os.File, name string, digests map[string]string) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(f.Name()), ".new-"+name+"-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	a, err := openArchive(io.NewSectionReader(f, 0, size), size, dir)
	if err != nil {
		return err
	}
	if err := a.CheckName(name); err != nil {
		return err
	}
	if len(a.names) != len(digests) {
		return fmt.Errorf("it has %d files, not %d", len(a.names), len(digests))
	}
	for _, name := range a.names {
		got, err := digestFile(a.FS(), name)
		if err != nil {
			return err
		}
		if got != digests[name] {
			return fmt.Errorf("its %s is another one", name)
		}
	}
	return nil
}

// writeArchive writes files of a folder, in the order of their names, as the
// archive of the package of that name. The level is one that gzip's header does not
// tell.
func writeArchive(ctx context.Context, w io.Writer, dir fs.FS, name string, files []string, level int) error {
	date, err := archiveDate(dateOf(name))
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(w, 1<<16)
	member, err := gzip.NewWriterLevel(buffered, level)
	if err != nil {
		return err
	}
	out := tar.NewWriter(member)
	for _, file := range files {
		in, size, err := rundir.OpenFile(dir, file, limitOf(file))
		if err != nil {
			return err
		}
		err = out.WriteHeader(header(name, file, size, date))
		if err == nil {
			_, err = io.CopyN(out, stoppable{ctx, in}, size)
		}
		if err := errors.Join(err, in.Close()); err != nil {
			return fmt.Errorf("writing %s to the archive: %w", file, err)
		}
	}
	for _, finish := range []func() error{out.Close, member.Close, buffered.Flush} {
		if err := finish(); err != nil {
			return fmt.Errorf("writing the archive: %w", err)
		}
	}
	return nil
}

// stoppable ends with a context: a large file is compressed for minutes.
type stoppable struct {
	ctx context.Context
	r   io.Reader
}

func (s stoppable) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.Read(p)
}

// header is the one that a file has in an archive.
func header(folder, name string, size int64, date time.Time) *tar.Header {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: folder + "/" + name, Size: size, Mode: 0o644, ModTime: date, Format: tar.FormatUSTAR}
	if size >= 1<<33 {
		h.Format = tar.FormatPAX
	}
	return h
}

// archiveDate returns the time of an archive's files; USTAR has 33 bits for it.
func archiveDate(date string) (time.Time, error) {
	at, err := time.Parse(time.DateOnly, date)
	if err == nil && (at.Unix() < 0 || at.Unix() >= 1<<33) {
		err = errors.New("a tar has dates from 1970 to 2242 only")
	}
	if err != nil {
		return at, fmt.Errorf("the date %q cannot be that of an archive: %w", date, err)
	}
	return at, nil
}
