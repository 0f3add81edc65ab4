package submit

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/gaia-harness/gaia/trajectory"
)

// harbour is the name of a package that is none, but for its archive.
const harbour = "submission-2031-02-03-ABCDEFGH"

func harbourFiles() map[string][]byte {
	return map[string][]byte{"README.md": []byte("# Harbour\n"), "SHA256SUMS": []byte("00  README.md\n"), "events.jsonl": []byte("{}\n")}
}

// item is an entry of a tar.
type item struct {
	tar.Header
	data string
}

// items are those that gaia would write.
func harbourItems() []item {
	date := time.Date(2031, 2, 3, 0, 0, 0, 0, time.UTC)
	var all []item
	for _, name := range []string{"README.md", "SHA256SUMS", "events.jsonl"} {
		data := string(harbourFiles()[name])
		all = append(all, item{*header(harbour, name, int64(len(data)), date), data})
	}
	return all
}

// tarred makes a tar of entries, whatever they say.
func tarred(t testing.TB, items []item) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, i := range items {
		if err := w.WriteHeader(&i.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, i.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// retyped changes the header at an offset of a tar and makes its checksum good.
func retyped(data []byte, at int, edit func(block []byte)) []byte {
	data = bytes.Clone(data)
	block := data[at : at+512]
	edit(block)
	copy(block[148:156], "        ")
	sum := 0
	for _, b := range block {
		sum += int(b)
	}
	copy(block[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return data
}

// wantRefused checks that an archive is refused by a fault about a file that says
// why, and that nothing of it can steer a terminal.
func wantRefused(t *testing.T, what string, data []byte, file, why string) {
	t.Helper()
	around := t.TempDir()
	dir := filepath.Join(around, "files")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := openArchive(bytes.NewReader(data), int64(len(data)), dir)
	var fault *trajectory.Fault
	switch {
	case !errors.As(err, &fault):
		t.Errorf("%s: %v is no fault", what, err)
	case fault.File != file || !strings.HasPrefix(fault.Reason, why):
		t.Errorf("%s: %v; want %s: %s", what, err, file, why)
	case strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) || len(err.Error()) > 2000:
		t.Errorf("%s: %q", what, err)
	}
	nothingLeft(t, around, "files")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			t.Errorf("%s: extracted %s", what, e)
		}
	}
}

func TestHostileEntries(t *testing.T) {
	opened(t, zipped(t, tarred(t, harbourItems())))
	quoted := func(name string) string { return quote(harbour + "/" + name) }
	last := func(edit func(*item)) func([]item) []item {
		return func(all []item) []item {
			edit(&all[len(all)-1])
			return all
		}
	}
	named := func(name string) func([]item) []item { return last(func(i *item) { i.Name = name }) }
	typed := func(kind byte) func([]item) []item {
		return last(func(i *item) {
			i.Typeflag, i.data, i.Size = kind, "", 0
			if kind == tar.TypeLink || kind == tar.TypeSymlink {
				i.Linkname = "/etc/passwd"
			}
		})
	}
	more := func(name string) func([]item) []item {
		return func(all []item) []item {
			again := all[len(all)-1]
			again.Name = name
			return append(all, again)
		}
	}
	folder := func(name string) func([]item) []item {
		return func(all []item) []item {
			return append(all, item{tar.Header{Typeflag: tar.TypeDir, Name: name}, ""})
		}
	}
	global := func(key, value string) func([]item) []item {
		return func(all []item) []item {
			return append([]item{{tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{key: value}}, ""}}, all...)
		}
	}
	many := func(all []item) []item {
		return append(slices.Repeat(folder(harbour+"/")(nil), maxEntries), all...)
	}
	for what, tt := range map[string]struct {
		edit      func([]item) []item
		file, why string
	}{
		"a way out":             {named(harbour + "/../passwd"), quoted("../passwd"), "leads out of the package's folder"},
		"a way out at once":     {named("../" + harbour), quote("../" + harbour), "leads out of the package's folder"},
		"an absolute name":      {named("/etc/passwd"), `"/etc/passwd"`, "has an absolute name"},
		"a nested name":         {named(harbour + "/sub/events.jsonl"), quoted("sub/events.jsonl"), "lies in a folder within the package's"},
		"a backslash":           {named(harbour + `/sub\events.jsonl`), quoted(`sub\events.jsonl`), "has a backslash in its name"},
		"a drive":               {named(`C:\events.jsonl`), quote(`C:\events.jsonl`), "has a backslash in its name"},
		"no name":               {named(harbour + "/."), quoted("."), "lies in another folder"},
		"no folder":             {named("events.jsonl"), `"events.jsonl"`, "lies in another folder"},
		"the same twice":        {more("./" + harbour + "/./events.jsonl"), quote("./" + harbour + "/./events.jsonl"), "is there twice"},
		"another case":          {more(harbour + "/EVENTS.jsonl"), quoted("EVENTS.jsonl"), "is not part of a package"},
		"a folder more":         {folder("harbour/"), `"harbour/"`, "lies in another folder"},
		"a folder within":       {folder(harbour + "/sub/"), quoted("sub/"), "lies in a folder within"},
		"a folder's way out":    {folder("../"), `"../"`, "leads out of the package's folder"},
		"a terminal escape":     {last(func(i *item) { i.Name, i.Format = harbour+"/\x1b[2J\u202e", tar.FormatPAX }), quoted("\x1b[2J\u202e"), "is not part of a package"},
		"a name for all":        {global("path", "/etc/passwd"), `"/etc/passwd"`, "holds PAX records that rename"},
		"a size for all":        {global("size", "1"), `"GlobalHead.0.0"`, "holds PAX records that rename"},
		"many entries":          {many, wholeArchive, "has more than 16512 entries"},
		"another folder":        {named("submission-2031-02-03-ABCDEFGX/events.jsonl"), `"submission-2031-02-03-ABCDEFGX/events.jsonl"`, "lies in another folder"},
		"an escape without PAX": {named(harbour + "/\x1b[2J"), quoted("\x1b[2J"), "is not part of a package"},
		"a newline":             {named(harbour + "/events.jsonl\nok"), quoted("events.jsonl\nok"), "is not part of a package"},
		"a symbolic link":       {typed(tar.TypeSymlink), quoted("events.jsonl"), "is a link"},
		"a hard link":           {typed(tar.TypeLink), quoted("events.jsonl"), "is a link"},
		"a character device":    {typed(tar.TypeChar), quoted("events.jsonl"), "is a device or a pipe"},
		"a block device":        {typed(tar.TypeBlock), quoted("events.jsonl"), "is a device or a pipe"},
		"a pipe":                {typed(tar.TypeFifo), quoted("events.jsonl"), "is a device or a pipe"},
		"a reserved type":       {typed(tar.TypeCont), quoted("events.jsonl"), "is not a regular file, but of type '7'"},
		"a file twice":          {more(harbour + "/events.jsonl"), quoted("events.jsonl"), "is there twice"},
		"a first file twice":    {more(harbour + "/README.md"), quoted("README.md"), "is there twice"},
		"no files":              {func([]item) []item { return nil }, wholeArchive, "holds no files"},
		"more files": {func(all []item) []item {
			for n := range 2 {
				all = more(fmt.Sprintf("%s/f%02d", harbour, n))(all)
			}
			return all
		}, quoted("f00"), "is not part of a package"},
		"too large a file": {func(all []item) []item {
			all[1].data = strings.Repeat("x", int(limitOf(SumsFile))+1)
			all[1].Size = limitOf(SumsFile) + 1
			return all
		}, quoted("SHA256SUMS"), "is larger than 2097152 bytes"},
	} {
		wantRefused(t, what, zipped(t, tarred(t, tt.edit(harbourItems()))), tt.file, tt.why)
	}
}

// TestHostileBytes is what archive/tar and compress/gzip would not write.
func TestHostileBytes(t *testing.T) {
	t.Parallel()
	plain := tarred(t, harbourItems()) // a header of 512 bytes and 512 of contents, three times, and 1024 zeros
	good := zipped(t, plain)
	if len(plain) != 4096 {
		t.Fatal(len(plain))
	}
	with := func(data []byte, at int, b byte) []byte {
		data = bytes.Clone(data)
		data[at] = b
		return data
	}
	huge := retyped(plain, 2048, func(b []byte) { copy(b[124:136], "\x80\x00\x00\x00\x00\x00\x00\x40\x00\x00\x00\x00") })
	asPAX := func(records string) []byte {
		head := tarred(t, []item{{tar.Header{Name: "PaxHeaders.0/events.jsonl", Mode: 0o644, Size: int64(len(records))}, records}})
		head = retyped(head[:1024], 0, func(b []byte) { b[156] = tar.TypeXHeader })
		return slices.Concat(plain[:2048], head, plain[2048:])
	}
	record := func(key, value string) string { // of up to 99 bytes
		return fmt.Sprintf("%02d %s=%s\n", len(key)+len(value)+5, key, value)
	}
	events := quote(harbour + "/events.jsonl")
	for what, tt := range map[string]struct {
		data      []byte
		file, why string
	}{
		"no gzip":           {plain, wholeArchive, "is not compressed by gzip"},
		"nothing":           {nil, wholeArchive, "ends in the middle"},
		"a gzip of nothing": {zipped(t, nil), wholeArchive, "holds no files"},
		"a gzip of text":    {zipped(t, bytes.Repeat([]byte("lamp "), 500)), wholeArchive, "is damaged or holds no tar of files: a header of it cannot be read"},
		"a byte behind":     {append(bytes.Clone(good), 0), wholeArchive, "ends in the middle"},
		"text behind":       {append(bytes.Clone(good), "hello, harbour"...), wholeArchive, "has bytes behind its end"},
		"a tar twice":       {slices.Concat(good, good), wholeArchive, "has bytes behind the end of its tar"},
		"another checksum":  {with(good, len(good)-8, good[len(good)-8]^1), wholeArchive, "is damaged: gzip: invalid checksum"},
		"another length":    {with(good, len(good)-1, 1), wholeArchive, "is damaged: gzip: invalid checksum"},
		"a tar behind":      {zipped(t, append(bytes.Clone(plain), plain...)), wholeArchive, "has bytes behind the end of its tar"},
		"a tar that is cut": {zipped(t, plain[:2300]), wholeArchive, "ends in the middle"},
		"a checksum":        {zipped(t, with(plain, 148, '7')), wholeArchive, "is damaged or holds no tar of files: a header of it cannot be read"},
		"a name by PAX":     {zipped(t, asPAX(record("path", "/etc/passwd"))), `"/etc/passwd"`, "has an absolute name"},
		"a size of 256 GiB": {zipped(t, huge), events, "is larger than " + fmt.Sprint(limitOf(trajectory.JournalFile)) + " bytes"},
		"a sparse file":     {zipped(t, asPAX(record("GNU.sparse.size", "1099511627776")+record("GNU.sparse.numblocks", "1")+record("GNU.sparse.map", "0,3"))), events, "is a sparse file"},
		"an old sparse file": {zipped(t, retyped(plain, 2048, func(b []byte) {
			b[156] = tar.TypeGNUSparse
			copy(b[257:265], "ustar  \x00")
			copy(b[386:410], "00000000000\x0000000000003\x00")
			copy(b[483:495], "00000000003\x00")
		})), events, "is a sparse file"},
	} {
		wantRefused(t, what, tt.data, tt.file, tt.why)
	}
	for n := range good {
		wantRefused(t, fmt.Sprintf("cut to %d bytes", n), good[:n], wholeArchive, "ends in the middle")
	}
}

// FuzzOpenArchive: no bytes break the reader, and nothing but regular files of a
// package's names is extracted. Half of its inputs are put into a good gzip member.
func FuzzOpenArchive(f *testing.F) {
	plain := tarred(f, harbourItems())
	f.Add(zipped(f, plain), false)
	f.Add(plain, true)
	f.Add(slices.Concat(zipped(f, plain), zipped(f, plain)), false)
	f.Add(tarred(f, []item{{tar.Header{Name: harbour + "/é", Format: tar.FormatPAX, PAXRecords: map[string]string{"HARBOUR.lamp": "lit"}}, ""}}), true)
	f.Add(tarred(f, []item{{tar.Header{Name: harbour + "/a", Typeflag: tar.TypeSymlink, Linkname: "b"}, ""}}), true)
	f.Add(tarred(f, []item{{tar.Header{Name: "./", Typeflag: tar.TypeDir}, ""}, {tar.Header{Name: "./README.md", Size: 1}, "x"}}), true)
	f.Fuzz(func(t *testing.T, data []byte, isTar bool) {
		if isTar {
			data = zipped(t, data)
		}
		around := t.TempDir()
		dir := filepath.Join(around, "files")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		a, err := openArchive(bytes.NewReader(data), int64(len(data)), dir)
		nothingLeft(t, around, "files")
		var fault *trajectory.Fault
		if err != nil && !errors.As(err, &fault) {
			t.Fatalf("%v is no fault", err)
		}
		entries, failed := os.ReadDir(dir)
		if failed != nil {
			t.Fatal(failed)
		}
		for _, e := range entries {
			if !e.Type().IsRegular() || err == nil && !slices.Contains(a.names, e.Name()) || limitOf(e.Name()) == 0 {
				t.Fatalf("extracted %s", e)
			}
		}
	})
}
