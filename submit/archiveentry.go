package submit

import (
	"archive/tar"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/trajectory"
)

// dateOf returns the date in a package's name, "" if it is not one.
func dateOf(name string) string {
	parts := regexp.MustCompile(`^submission-([0-9]{4}-[0-9]{2}-[0-9]{2})-[0-9A-Z]{8}(-dirty)?(-public)?$`).FindStringSubmatch(name)
	if parts == nil {
		return ""
	}
	return parts[1]
}

// admit says where a file is kept that an entry is of, if it can be one of a
// package. No name of an archive is ever one on disk.
func (a *Archive) admit(h *tar.Header) (entry, error) {
	refuse := func(format string, args ...any) (entry, error) {
		return entry{}, trajectory.Faultf(quote(h.Name), format, args...)
	}
	if what := notRegular(h); what != "" {
		return refuse("%s", what)
	}
	if what := leadsAstray(h.Name); what != "" {
		return refuse("%s", what)
	}
	folder, name, _ := strings.Cut(h.Name, "/")
	if a.folder == "" {
		date := dateOf(folder)
		if date == "" {
			return refuse("lies in a folder that is not called as a package is")
		}
		at, err := archiveDate(date)
		if err != nil {
			return refuse("%v", err)
		}
		a.folder, a.date = folder, at
	}
	if folder != a.folder {
		return refuse("lies in another folder than the files before it")
	}
	for _, e := range a.entries {
		switch {
		case e.name == name:
			return refuse("is there twice")
		case strings.EqualFold(e.name, name):
			return refuse("differs from %s by case alone", quote(e.name))
		}
	}
	if !slices.Contains(Files(additions()...), name) && !slices.Contains(publicPackageFiles(), name) {
		return refuse("is not part of a package")
	}
	if n := len(a.entries); n > 0 && name < a.entries[n-1].name {
		return refuse("is out of order, behind %s", quote(a.entries[n-1].name))
	}
	if limit := limitOf(name); h.Size > limit {
		return refuse("is larger than %d bytes", limit)
	}
	return entry{name: name, at: a.content.size, size: h.Size}, nil
}

// notRegular says what an entry is that no regular file's is, "" if it is one.
func notRegular(h *tar.Header) string {
	switch h.Typeflag {
	case tar.TypeReg:
	case tar.TypeSymlink, tar.TypeLink:
		return "is a link"
	case tar.TypeDir:
		return "is a folder, of which an archive has no entry"
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return "is a device or a pipe"
	case tar.TypeXGlobalHeader:
		return "holds PAX records for the whole archive, which gaia does not write"
	case tar.TypeGNUSparse:
		return "is a sparse file"
	default:
		return fmt.Sprintf("is not a regular file, but of type %q", h.Typeflag)
	}
	unknown := ""
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return "is a sparse file"
		}
		if key != "size" && (unknown == "" || key < unknown) {
			unknown = key
		}
	}
	if unknown != "" {
		return "has a PAX record that gaia does not write: " + quote(unknown)
	}
	return ""
}

// leadsAstray says what is wrong with a name that is not FOLDER/FILE, "" if it is.
func leadsAstray(name string) string {
	parts := strings.Split(name, "/")
	switch {
	case slices.Contains(parts, ".."):
		return "leads out of the package's folder"
	case strings.HasPrefix(name, "/"):
		return "has an absolute name"
	case strings.Contains(name, `\`):
		return "has a backslash in its name"
	case len(parts) == 1:
		return "lies in no folder"
	case len(parts) > 2:
		return "lies in a folder within the package's"
	case plainName(parts[1]) != parts[1] || parts[1] == ".":
		return "is not part of a package"
	}
	return ""
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
