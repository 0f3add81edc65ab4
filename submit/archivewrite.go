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

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/sign"
)

// place moves the finished package from the folder stage to where it appears, as
// a folder or as an archive.
func (p *Package) place(ctx context.Context, c Config, stage string) error {
	digests := p.Statement.digests()
	err := seal(c.Key, p.Statement, func(name string, data []byte) error { // again the same bytes, which nobody wrote to since
		digests[name] = sign.Digest(data)
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
	if err := sign.PutNew(f.Name(), path); errors.Is(err, fs.ErrExist) {
		return 0, fmt.Errorf("%q %w", path, ErrTaken)
	} else if err != nil {
		return 0, fmt.Errorf("giving the archive its name: %w", err)
	}
	return info.Size(), nil
}

// writeWhole writes the archive of a package to an empty or used file, durably, and
// reads it back; scratch lies beside the file.
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
	if err := readBack(f, filepath.Dir(f.Name()), name, digests); err != nil {
		return fmt.Errorf("the archive does not hold the package: %w", err)
	}
	return nil
}

// readBack wants a file to be an archive of the package, of files of these
// digests.
func readBack(f *os.File, scratch, name string, digests map[string]string) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	a, err := OpenArchive(io.NewSectionReader(f, 0, size), size, scratch)
	if err != nil {
		return err
	}
	defer a.Close()
	if err := a.CheckName(name); err != nil {
		return err
	}
	if len(a.entries) != len(digests) {
		return fmt.Errorf("it has %d files, not %d", len(a.entries), len(digests))
	}
	for _, e := range a.entries {
		got, err := digestFile(a.FS(), e.name)
		if err != nil {
			return err
		}
		if got != digests[e.name] {
			return fmt.Errorf("its %s is another one", e.name)
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
		in, size, err := ledger.OpenFile(dir, file)
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
