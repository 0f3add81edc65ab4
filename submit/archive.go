package submit

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
	fastgzip "github.com/klauspost/compress/gzip"
)

// ArchiveSuffix ends the name of a package's archive.
const ArchiveSuffix = ".tar.gz"

// wholeArchive is the File of a *trajectory.Fault about the archive itself. Only the
// caller knows the archive's name.
const wholeArchive = "archive"

// gzipMagic begins each gzip member.
const gzipMagic = "\x1f\x8b"

// Limits of what is read from an archive. The files of an ordinary run shrink to a
// fifth; deflate can shrink zeros to a thousandth.
const (
	grownAlways = 256 << 20 // bytes that any archive may expand to
	grownPerOne = 32        // bytes more for each byte of the archive

	// Entries of the tar, folders and PAX headers of the whole archive included; a shard has a folder and three files.
	maxEntries = 128 + 4*plan.MaxShards
)

// errGrows reports an archive that expands beyond its limit.
var errGrows = trajectory.Faultf(wholeArchive, "holds far more than a file of its size can, and was not read to its end")

// isArchive reports whether a file that begins with first is compressed by gzip.
func isArchive(first []byte) bool { return bytes.HasPrefix(first, []byte(gzipMagic)) }

// ScratchError reports that an archive could not be extracted to Dir. Nothing is
// known of the archive then.
type ScratchError struct {
	Dir string
	Err error
}

func (e *ScratchError) Error() string {
	return fmt.Sprintf("extracting the archive to %q: %v", e.Dir, e.Err)
}

func (e *ScratchError) Unwrap() error { return e.Err }

// openArchive extracts a tar.gz of size bytes to the empty folder dir, which the
// caller removes, also after an error. Any tar program may have made the archive: owners, modes,
// times, order and compression do not matter. A *trajectory.Fault reports an entry that is
// no file of a package, a *ScratchError that dir cannot be written to.
// [Verify] checks whether the files are a package, checkName their folder.
func openArchive(f io.Reader, size int64, dir string) (*Source, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &ScratchError{Dir: dir, Err: err}
	}
	defer root.Close()
	a, err := readArchive(f, size, func(name string, r io.Reader) error { return extractFile(root, name, r) })
	if err != nil {
		return nil, err
	}
	a.Files = os.DirFS(dir)
	return a, nil
}

// readArchive is openArchive that gives each file to put, which reads all of it. Files is not set.
func readArchive(f io.Reader, size int64, put func(name string, r io.Reader) error) (*Source, error) {
	a := &Source{}
	from := &source{r: f}
	err := a.extract(from, grownAlways+grownPerOne*min(max(size, 0), math.MaxInt64/(2*grownPerOne)), put)
	var fault *trajectory.Fault
	var scratch *ScratchError
	switch {
	case err == nil:
		return a, nil
	case errors.As(err, &fault), errors.As(err, &scratch):
		return nil, err
	case from.err != nil:
		return nil, fmt.Errorf("reading the archive: %w", from.err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return nil, trajectory.Faultf(wholeArchive, "ends in the middle")
	case errors.Is(err, tar.ErrHeader):
		return nil, trajectory.Faultf(wholeArchive, "is damaged or holds no tar of files: a header of it cannot be read")
	}
	return nil, trajectory.Faultf(wholeArchive, "is damaged: %v", err)
}

// checkName checks the folder in an archive against the name in the verified
// statement. A folder that is called like a package must have that name, so that
// "-dirty" is not hidden. Any other name says nothing about the package, and how a folder on disk is called neither.
func (s *Source) checkName(name string) error {
	if s.folder == name || dateOf(s.folder) == "" {
		return nil
	}
	return trajectory.Faultf(cmp.Or(s.path, wholeArchive), "holds the folder %s, but its statement is that of %s", quote(s.folder), quote(name))
}

// extract gives the files of a tar.gz, which may expand to limit bytes, to put.
func (s *Source) extract(from io.Reader, limit int64, put func(name string, r io.Reader) error) error {
	in := bufio.NewReaderSize(from, 1<<16)
	if head, _ := in.Peek(len(gzipMagic)); len(head) == len(gzipMagic) && !isArchive(head) {
		return trajectory.Faultf(wholeArchive, "is not compressed by gzip")
	}
	content, err := gzip.NewReader(in) // of all members, one behind the other
	if err != nil {
		return err
	}
	stream := &bounded{r: content, left: limit}
	entries := tar.NewReader(stream)
	for n := 0; ; n++ {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if n == maxEntries {
			return trajectory.Faultf(wholeArchive, "has more than %d entries", maxEntries)
		}
		name, err := s.admit(h)
		if err != nil {
			return err
		}
		if name == "" {
			continue
		}
		if h.Size > stream.left {
			return errGrows
		}
		if err := put(name, entries); err != nil {
			return err
		}
	}
	// Programs fill up the last block with zeros. Anything else could be a second tar.
	for rest := make([]byte, 1<<15); ; {
		n, err := stream.Read(rest)
		if len(bytes.Trim(rest[:n], "\x00")) > 0 {
			return trajectory.Faultf(wholeArchive, "has bytes behind the end of its tar")
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, gzip.ErrHeader) {
			return trajectory.Faultf(wholeArchive, "has bytes behind its end")
		}
		if err != nil {
			return err
		}
	}
	if len(s.names) == 0 {
		return trajectory.Faultf(wholeArchive, "holds no files")
	}
	return nil
}

// extractFile writes a new file in root. It distinguishes errors of the folder, as a
// *ScratchError, from those of r.
func extractFile(root *os.Root, name string, r io.Reader) error {
	failed := func(err error) error { return &ScratchError{Dir: root.Name(), Err: err} }
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return failed(err)
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return failed(err)
	}
	defer f.Close()
	from := &source{r: r}
	if _, err := io.Copy(f, from); from.err != nil {
		return from.err
	} else if err != nil {
		return failed(err)
	}
	if err := f.Close(); err != nil {
		return failed(err)
	}
	return nil
}

// admit returns the name of the package's file that an entry holds, "" for an entry
// without content: a folder, or records that do not matter.
func (s *Source) admit(h *tar.Header) (string, error) {
	refuse := func(format string, args ...any) (string, error) {
		return "", trajectory.Faultf(quote(h.Name), format, args...)
	}
	if what := unusable(h); what != "" {
		return refuse("%s", what)
	}
	if h.Typeflag == tar.TypeXGlobalHeader {
		return "", nil
	}
	switch { // a name must not lead out of the folder that it is extracted to
	case slices.Contains(strings.Split(h.Name, "/"), ".."):
		return refuse("leads out of the package's folder")
	case strings.HasPrefix(h.Name, "/"):
		return refuse("has an absolute name")
	case strings.Contains(h.Name, `\`):
		return refuse("has a backslash in its name")
	}
	folder, name := "", path.Clean(h.Name)
	if h.Typeflag == tar.TypeDir {
		folder, name = ofShards.ReplaceAllString(name, ""), ""
	} else if at := shardFile.FindStringIndex(name); at != nil {
		folder, name = strings.TrimSuffix(name[:at[0]], "/"), strings.TrimPrefix(name[at[0]:], "/")
	} else if before, after, found := strings.Cut(name, "/"); found {
		folder, name = before, after
	}
	switch {
	case folder == "." || folder+name == "": // of 'tar -C FOLDER .'
		return "", nil
	case strings.Contains(folder, "/") || strings.Contains(name, "/") && !shardFile.MatchString(name):
		return refuse("lies in a folder within the package's")
	}
	if s.named && folder != s.folder {
		return refuse("lies in another folder than the files before it")
	}
	s.folder, s.named = folder, true
	if name == "" {
		return "", nil
	}
	if s.seen[name] {
		return refuse("is there twice")
	}
	if !shardFile.MatchString(name) && !slices.Contains(Files(append(additions(), leavesFile, rundir.ShardsFile)...), name) {
		return refuse("is not part of a package")
	}
	if limit := limitOf(name); h.Size > limit {
		return refuse("is larger than %d bytes", limit)
	}
	if s.seen == nil {
		s.seen = map[string]bool{}
	}
	s.seen[name] = true
	s.names = append(s.names, name)
	return name, nil
}

// unusable returns why an entry is neither a regular file nor a folder, "" if it is.
func unusable(h *tar.Header) string {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return "is a sparse file"
		}
		if h.Typeflag == tar.TypeXGlobalHeader && slices.Contains([]string{"path", "linkpath", "size"}, key) {
			return "holds PAX records that rename or cut files of the whole archive" // programs disagree about them
		}
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeXGlobalHeader:
		return ""
	case tar.TypeSymlink, tar.TypeLink:
		return "is a link"
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return "is a device or a pipe"
	case tar.TypeGNUSparse:
		return "is a sparse file"
	}
	return fmt.Sprintf("is not a regular file, but of type %q", h.Typeflag)
}

// dateOf returns the date in a package's name, "" if it is not one.
func dateOf(name string) string {
	parts := regexp.MustCompile(`^submission-([0-9]{4}-[0-9]{2}-[0-9]{2})-[0-9A-Z]{8}(-dirty)?(-public)?$`).FindStringSubmatch(name)
	if parts == nil {
		return ""
	}
	return parts[1]
}

// source remembers the error of a reader, to tell it from errors of its bytes.
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

// bounded reads at most left bytes and fails if there are more.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return 0, errGrows
	}
	return n, err
}

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
	if err := os.Chmod(stage, 0o755); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, dir := range folders(digests) {
		if err := durable.SyncDir(filepath.Join(stage, dir)); err != nil {
			return err
		}
	}
	if err := checkFree(c.Out, p.Name); err != nil {
		return err
	}
	return os.Rename(stage, p.Path)
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
	err = writeWhole(ctx, f, stage, name, digests, fastgzip.DefaultCompression)
	if errors.Is(err, errGrows) { // without looking for repetitions there are no more than eight out of one
		err = writeWhole(ctx, f, stage, name, digests, fastgzip.HuffmanOnly)
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
	// It has to hold files of these digests and no others.
	differs := func(err error) error { return fmt.Errorf("the archive does not hold the package: %w", err) }
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return differs(err)
	}
	got := map[string]string{}
	a, err := readArchive(io.NewSectionReader(f, 0, size), size, func(name string, r io.Reader) error {
		h := sha256.New()
		_, err := io.Copy(h, r)
		got[name] = canonical.DigestOf(h)
		return err
	})
	if err == nil {
		err = a.checkName(name)
	}
	if err == nil && len(got) != len(digests) {
		err = fmt.Errorf("it has %d files, not %d", len(got), len(digests))
	}
	if err != nil {
		return differs(err)
	}
	for name := range got {
		if got[name] != digests[name] {
			return differs(fmt.Errorf("its %s is another one", name))
		}
	}
	return nil
}

// writeArchive writes files of a folder, in the order of their names, as the
// archive of the package of that name. The level is one that gzip's header does not
// tell. Reading, also reading back, is left to the standard library.
func writeArchive(ctx context.Context, w io.Writer, dir fs.FS, name string, files []string, level int) error {
	date, err := archiveDate(dateOf(name))
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(w, 1<<16)
	member, err := fastgzip.NewWriterLevel(buffered, level)
	if err != nil {
		return err
	}
	out := tar.NewWriter(member)
	for _, file := range files {
		in, size, err := rundir.OpenFile(dir, file, limitOf(file))
		if err != nil {
			return err
		}
		if err = out.WriteHeader(header(name, file, size, date)); err == nil {
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
