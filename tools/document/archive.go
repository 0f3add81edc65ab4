package document

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/tools"
	"golang.org/x/text/encoding/charmap"
)

// Limits of an archive. Nothing in it is believed: sizes are counted while
// unpacking, and nothing is ever unpacked to disk.
const (
	maxMembers    = 10_000
	maxSignatures = 10 * maxMembers // of members, nested archives' too, before the directory is parsed
	maxNested     = 3               // archives inside each other
)

var errUnpacksToMore = errors.New("it unpacks to more than the limit")

// member is a file in an archive.
type member struct {
	name         string // UTF-8, with slashes
	size, packed int64  // as the archive says; packed is -1 where it does not
	why          string // why it cannot be read: "a link", …; "" if it can
	open         func(limit int64) ([]byte, error)
}

// openZip reads the directory of a zip.
func openZip(data []byte) (*zip.Reader, error) {
	if bytes.Count(data, []byte("PK\x01\x02")) > maxSignatures {
		return nil, tools.Unreadablef("it is a zip with more than %d members", maxMembers)
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, tools.Unreadablef("it is a zip-based file (such as xlsx, docx or zip) that is cut off or damaged")
	}
	if len(z.File) > maxMembers {
		return nil, tools.Unreadablef("it is a zip with %d members; the limit is %d", len(z.File), maxMembers)
	}
	return z, nil
}

// unpack reads a member of a zip, up to a limit.
func unpack(f *zip.File, limit int64) ([]byte, error) {
	if f.Flags&1 != 0 {
		return nil, errors.New("it is encrypted, and cannot be read without its password")
	}
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return readUpTo(r, limit)
}

func readUpTo(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if int64(len(data)) > limit {
		return nil, errUnpacksToMore
	}
	return data, err
}

// archiveKind is the kind of an archive by its first bytes: zip, gzip, tar or "".
func archiveKind(data []byte) string {
	switch {
	case bytes.HasPrefix(data, []byte("PK\x03\x04")) || bytes.HasPrefix(data, []byte("PK\x05\x06")):
		return "zip"
	case bytes.HasPrefix(data, []byte("\x1f\x8b")):
		return "gzip"
	case len(data) > 262 && string(data[257:262]) == "ustar":
		return "tar"
	}
	return ""
}

// members lists an archive; a packed tar is unpacked first. The kind is "zip"
// or "tar".
func members(data []byte) (kind string, all []member, err error) {
	kind = archiveKind(data)
	if kind == "gzip" {
		if data, err = gunzip(data); err != nil {
			return "", nil, err
		}
		if kind = archiveKind(data); kind != "tar" {
			return "", nil, tools.Unreadablef("it is one packed file, not an archive; read it without inside")
		}
	}
	switch kind {
	case "zip":
		all, err = zipMembers(data)
	case "tar":
		all, err = tarMembers(data)
	default:
		return "", nil, tools.Unreadablef("it is no archive: nothing is inside; leave inside out to read it")
	}
	return kind, all, err
}

func zipMembers(data []byte) (all []member, err error) {
	z, err := openZip(data)
	if err != nil {
		return nil, err
	}
	for _, f := range z.File {
		m := newMember(f.Name, f.Mode())
		if f.Flags&1 != 0 {
			m.why = "encrypted"
		}
		m.size, m.packed = int64(min(f.UncompressedSize64, 1<<62)), int64(min(f.CompressedSize64, 1<<62))
		m.open = func(limit int64) ([]byte, error) { return unpack(f, limit) }
		all = append(all, m)
	}
	return all, nil
}

func tarMembers(data []byte) (all []member, err error) {
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, tools.Unreadablef("it is a tar that is cut off or damaged: %v", err)
		}
		if len(all) == maxMembers {
			return nil, tools.Unreadablef("it is a tar with more than %d members", maxMembers)
		}
		mode := h.FileInfo().Mode()
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeDir, tar.TypeSymlink:
		case tar.TypeLink:
			mode |= fs.ModeSymlink
		default:
			mode |= fs.ModeIrregular
		}
		m, place := newMember(h.Name, mode), len(all)
		m.size, m.packed = h.Size, -1
		m.open = func(limit int64) ([]byte, error) {
			again := tar.NewReader(bytes.NewReader(data))
			for range place + 1 {
				if _, err := again.Next(); err != nil {
					return nil, err
				}
			}
			return readUpTo(again, limit)
		}
		all = append(all, m)
	}
}

// newMember makes a member of its name, which it takes to UTF-8 with slashes, and mode.
func newMember(name string, mode fs.FileMode) member {
	if !utf8.ValidString(name) { // as in old zips, in the characters of the IBM PC
		name, _ = charmap.CodePage437.NewDecoder().String(name) // has a character for every byte
	}
	m := member{name: strings.ReplaceAll(name, `\`, "/")}
	switch m.why = unsafeName(m.name); {
	case m.why != "":
	case mode&fs.ModeSymlink != 0:
		m.why = "a link"
	case mode.IsDir() || strings.HasSuffix(m.name, "/"):
		m.why = "a directory"
	case !mode.IsRegular():
		m.why = "not a regular file"
	}
	return m
}

// unsafeName is the reason not to read a member whose name would lead out of the
// directory that it is unpacked to; "" for other names. Nothing is unpacked here, but
// such an archive is a trick.
func unsafeName(name string) string {
	name = strings.TrimPrefix(name, "./")
	drive := len(name) > 1 && name[1] == ':'
	if name != "" && (drive || !fs.ValidPath(strings.TrimSuffix(path.Clean("./"+name), "/")) || strings.HasPrefix(name, "/")) {
		return "a name that leads out of the archive"
	}
	return ""
}

// readArchive lists the members of an archive as a document.
func readArchive(src Source) (tools.Document, error) {
	kind, all, err := members(src.Data)
	if err != nil {
		return tools.Document{}, err
	}
	if len(all) == 0 {
		return tools.Document{}, tools.Unreadablef("it is a %s with nothing in it", kind)
	}
	times := map[string]int{}
	for _, m := range all {
		times[m.name]++
	}
	var b strings.Builder
	for _, m := range all {
		b.WriteString(tools.PlainName(m.name))
		if m.why != "a directory" {
			fmt.Fprintf(&b, "\t%d bytes", m.size)
			if m.packed >= 0 {
				fmt.Fprintf(&b, "\t%d packed", m.packed)
			}
		}
		if m.why != "" {
			b.WriteString("\t" + m.why)
		}
		if n := times[m.name]; n > 1 {
			fmt.Fprintf(&b, "\t%d have this name, the last is read", n)
		}
		b.WriteByte('\n')
	}
	notes := []string{tools.Count(len(all), "member")}
	if src.Base == "" {
		notes = append(notes, "to read one pass its name as inside")
	}
	return tools.Document{Kind: kind, Notes: notes, Text: b.String()}, nil
}

// memberOf finds a member by its name in an archive, and in archives inside it by
// a longer one: inside "b.zip/c.csv" is c.csv of b.zip.
func memberOf(data []byte, inside string) (name string, found []byte, note string, err error) {
	inside = strings.TrimPrefix(strings.ReplaceAll(inside, `\`, "/"), "./")
	for range maxNested {
		_, all, err := members(data)
		if err != nil {
			return "", nil, "", err
		}
		var best *member
		rest, same := "", 0
		for i, m := range all {
			left, below := strings.CutPrefix(inside, m.name+"/")
			switch {
			case strings.TrimPrefix(m.name, "./") == inside:
				if rest != "" || best == nil {
					same = 0
				}
				best, rest, same = &all[i], "", same+1
			case below && m.why == "" && (best == nil || rest != ""):
				best, rest = &all[i], left
			}
		}
		if best == nil {
			return "", nil, "", tools.Unreadablef("there is no member %q; read the file without inside to see what is in it", inside)
		}
		if data, err = best.read(); err != nil || rest == "" {
			if same > 1 {
				note = fmt.Sprintf("the last of %d members of this name", same)
			}
			return path.Base(best.name), data, note, err
		}
		inside = rest
	}
	return "", nil, "", tools.Unreadablef("inside leads through more than %d archives", maxNested)
}

// read unpacks a member. Its error is for the model.
func (m *member) read() ([]byte, error) {
	switch {
	case m.why == "encrypted":
		return nil, tools.Unreadablef("its member %q is encrypted, and cannot be read without its password", m.name)
	case m.why != "":
		return nil, tools.Unreadablef("its member %q is not read: it is %s", m.name, strings.Replace(m.why, "a name", "one with a name", 1))
	}
	data, err := m.open(tools.MaxFile)
	if errors.Is(err, errUnpacksToMore) {
		return nil, tools.Unreadablef("its member %q unpacks to more than %d MiB", m.name, tools.MaxFile>>20)
	}
	if err != nil {
		return nil, tools.Unreadablef("its member %q cannot be unpacked, so it is cut off or damaged: %v", m.name, err)
	}
	return data, nil
}

// gunzip unpacks one packed file.
func gunzip(data []byte) (text []byte, err error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err == nil {
		text, err = readUpTo(r, tools.MaxFile)
	}
	if errors.Is(err, errUnpacksToMore) {
		return nil, tools.Unreadablef("it is a gzip file that unpacks to more than %d MiB", tools.MaxFile>>20)
	}
	if err != nil {
		return nil, tools.Unreadablef("it is a gzip file that is cut off or damaged: %v", err)
	}
	return text, nil
}
