package submit

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/trajectory"
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
	maxEntries  = 128       // entries of the tar, folders and PAX headers of the whole archive included
)

// errGrows reports an archive that expands beyond its limit.
var errGrows = trajectory.Faultf(wholeArchive, "holds far more than a file of its size can, and was not read to its end")

// archive is a package that was extracted from a tar.gz.
type archive struct {
	folder string // folder of the files in the tar; "" if they are in none
	named  bool   // folder is known
	dir    string
	names  []string
}

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
// [Verify] checks whether the files are a package, CheckName their folder.
func openArchive(f io.Reader, size int64, dir string) (*archive, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &ScratchError{Dir: dir, Err: err}
	}
	defer root.Close()
	a := &archive{dir: dir}
	from := &source{r: f}
	err = a.extract(from, grownAlways+grownPerOne*min(max(size, 0), math.MaxInt64/(2*grownPerOne)), root)
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

// FS returns the package's files. They are there until the caller removes the folder.
func (a *archive) FS() fs.FS { return os.DirFS(a.dir) }

// CheckName checks the folder in the archive against the name in the verified
// statement. A folder that is called like a package must have that name, so that
// "-dirty" is not hidden. Any other name says nothing about the package.
func (a *archive) CheckName(name string) error {
	if a.folder == name || dateOf(a.folder) == "" {
		return nil
	}
	return trajectory.Faultf(wholeArchive, "holds the folder %s, but its statement is that of %s", quote(a.folder), quote(name))
}

// extract writes the files of a tar.gz, which may expand to limit bytes, to root.
func (a *archive) extract(from io.Reader, limit int64, root *os.Root) error {
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
		name, err := a.admit(h)
		if err != nil {
			return err
		}
		if name == "" {
			continue
		}
		if h.Size > stream.left {
			return errGrows
		}
		if err := extractFile(root, name, entries); err != nil {
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
	if len(a.names) == 0 {
		return trajectory.Faultf(wholeArchive, "holds no files")
	}
	return nil
}

// extractFile writes a new file in root. It tells errors of the folder, as a
// *ScratchError, from those of r.
func extractFile(root *os.Root, name string, r io.Reader) error {
	failed := func(err error) error { return &ScratchError{Dir: root.Name(), Err: err} }
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
func (a *archive) admit(h *tar.Header) (string, error) {
	refuse := func(format string, args ...any) (string, error) {
		return "", trajectory.Faultf(quote(h.Name), format, args...)
	}
	if what := unusable(h); what != "" {
		return refuse("%s", what)
	}
	if h.Typeflag == tar.TypeXGlobalHeader {
		return "", nil
	}
	if what := leadsAstray(h.Name); what != "" {
		return refuse("%s", what)
	}
	folder, name := "", path.Clean(h.Name)
	if h.Typeflag == tar.TypeDir {
		folder, name = name, ""
	} else if before, after, found := strings.Cut(name, "/"); found {
		folder, name = before, after
	}
	switch {
	case folder == ".": // of 'tar -C FOLDER .'
		return "", nil
	case strings.Contains(folder+name, "/"):
		return refuse("lies in a folder within the package's")
	}
	if a.named && folder != a.folder {
		return refuse("lies in another folder than the files before it")
	}
	a.folder, a.named = folder, true
	if name == "" {
		return "", nil
	}
	if slices.Contains(a.names, name) {
		return refuse("is there twice")
	}
	if !slices.Contains(Files(additions()...), name) && !slices.Contains(publicPackageFiles(), name) {
		return refuse("is not part of a package")
	}
	if limit := limitOf(name); h.Size > limit {
		return refuse("is larger than %d bytes", limit)
	}
	a.names = append(a.names, name)
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

// leadsAstray returns why a name can lead out of the folder that it is extracted to,
// "" if it cannot.
func leadsAstray(name string) string {
	switch {
	case slices.Contains(strings.Split(name, "/"), ".."):
		return "leads out of the package's folder"
	case strings.HasPrefix(name, "/"):
		return "has an absolute name"
	case strings.Contains(name, `\`):
		return "has a backslash in its name"
	}
	return ""
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
