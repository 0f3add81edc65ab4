package submit

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
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
	scratch := t.TempDir()
	_, err := OpenArchive(bytes.NewReader(data), int64(len(data)), scratch)
	var fault *trajectory.Fault
	switch {
	case !errors.As(err, &fault):
		t.Errorf("%s: %v is no fault", what, err)
	case fault.File != file || !strings.HasPrefix(fault.Reason, why):
		t.Errorf("%s: %v; want %s: %s", what, err, file, why)
	case strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) || len(err.Error()) > 2000:
		t.Errorf("%s: %q", what, err)
	}
	nothingLeft(t, scratch)
}

func TestHostileEntries(t *testing.T) {
	opened(t, zipped(t, tarred(t, harbourItems())))
	const elsewhere = "has another header, or the file before it another padding, than gaia writes; ask for the archive as 'gaia submit' wrote it"
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
	pax := func(key, value string) func([]item) []item {
		return last(func(i *item) { i.Format, i.PAXRecords = tar.FormatPAX, map[string]string{key: value} })
	}
	for what, tt := range map[string]struct {
		edit      func([]item) []item
		file, why string
	}{
		"a way out":               {named(harbour + "/../passwd"), quoted("../passwd"), "leads out of the package's folder"},
		"a way out at once":       {named("../" + harbour), quote("../" + harbour), "leads out of the package's folder"},
		"an absolute name":        {named("/etc/passwd"), `"/etc/passwd"`, "has an absolute name"},
		"a nested name":           {named(harbour + "/sub/events.jsonl"), quoted("sub/events.jsonl"), "lies in a folder within the package's"},
		"a backslash":             {named(harbour + `/sub\events.jsonl`), quoted(`sub\events.jsonl`), "has a backslash in its name"},
		"a drive":                 {named(`C:\events.jsonl`), quote(`C:\events.jsonl`), "has a backslash in its name"},
		"no folder":               {named("events.jsonl"), `"events.jsonl"`, "lies in no folder"},
		"the folder itself":       {named(harbour + "/."), quoted("."), "is not part of a package"},
		"an empty part":           {named(harbour + "//events.jsonl"), quoted("/events.jsonl"), "lies in a folder within the package's"},
		"another folder":          {named("submission-2031-02-03-ABCDEFGX/events.jsonl"), `"submission-2031-02-03-ABCDEFGX/events.jsonl"`, "lies in another folder"},
		"a terminal escape":       {last(func(i *item) { i.Name, i.Format = harbour+"/\x1b[2J\u202e", tar.FormatPAX }), quoted("\x1b[2J\u202e"), "has a PAX record that gaia does not write: \"path\""},
		"an escape without PAX":   {named(harbour + "/\x1b[2J"), quoted("\x1b[2J"), "is not part of a package"},
		"a newline":               {named(harbour + "/events.jsonl\nok"), quoted("events.jsonl\nok"), "is not part of a package"},
		"a symbolic link":         {typed(tar.TypeSymlink), quoted("events.jsonl"), "is a link"},
		"a hard link":             {typed(tar.TypeLink), quoted("events.jsonl"), "is a link"},
		"a character device":      {typed(tar.TypeChar), quoted("events.jsonl"), "is a device or a pipe"},
		"a block device":          {typed(tar.TypeBlock), quoted("events.jsonl"), "is a device or a pipe"},
		"a pipe":                  {typed(tar.TypeFifo), quoted("events.jsonl"), "is a device or a pipe"},
		"a folder":                {typed(tar.TypeDir), quoted("events.jsonl"), "is a folder, of which"},
		"a reserved type":         {typed(tar.TypeCont), quoted("events.jsonl"), "is not a regular file, but of type '7'"},
		"a file twice":            {more(harbour + "/events.jsonl"), quoted("events.jsonl"), "is there twice"},
		"a first file twice":      {more(harbour + "/README.md"), quoted("README.md"), "is there twice"},
		"another case":            {more(harbour + "/EVENTS.jsonl"), quoted("EVENTS.jsonl"), `differs from "events.jsonl" by case alone`},
		"another order":           {more(harbour + "/checkpoint"), quoted("checkpoint"), `is out of order, behind "events.jsonl"`},
		"no files":                {func([]item) []item { return nil }, WholeArchive, "holds no files"},
		"a strange folder":        {func([]item) []item { return []item{{tar.Header{Name: "harbour/README.md"}, ""}} }, `"harbour/README.md"`, "lies in a folder that is not called as a package is"},
		"a folder of no date":     {func([]item) []item { return []item{{tar.Header{Name: "submission-2031-02-30-ABCDEFGH/a"}, ""}} }, `"submission-2031-02-30-ABCDEFGH/a"`, "the date "},
		"a folder of an old date": {func([]item) []item { return []item{{tar.Header{Name: "submission-1815-06-18-ABCDEFGH/a"}, ""}} }, `"submission-1815-06-18-ABCDEFGH/a"`, "the date "},
		"more files": {func(all []item) []item {
			for n := range 2 {
				all = more(fmt.Sprintf("%s/f%02d", harbour, n))(all)
			}
			return all
		}, quoted("f00"), "is not part of a package"},
		"too large a file": {func(all []item) []item {
			all[1].data = strings.Repeat("x", maxSums+1)
			all[1].Size = maxSums + 1
			return all
		}, quoted("SHA256SUMS"), "is larger than 4096 bytes"},
		"a PAX record":               {pax("HARBOUR.lamp", "lit"), quoted("events.jsonl"), `has a PAX record that gaia does not write: "HARBOUR.lamp"`},
		"an escape in a PAX record":  {pax("HARBOUR.\x1b]0;x\a", "\x1b[2J"), quoted("events.jsonl"), `has a PAX record that gaia does not write: "HARBOUR.\x1b]0;x\a"`},
		"a long key of a PAX record": {pax(strings.Repeat("k", 100_000), "v"), WholeArchive, "has a longer header than gaia writes"},
		"PAX records for all": {func(all []item) []item {
			return append([]item{{tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"path": "/etc/passwd"}}, ""}}, all...)
		}, `"/etc/passwd"`, "holds PAX records for the whole archive"},
		"another mode":       {last(func(i *item) { i.Mode = 0o4755 }), "events.jsonl", elsewhere},
		"another time":       {last(func(i *item) { i.ModTime = i.ModTime.Add(time.Second) }), "events.jsonl", elsewhere},
		"an owner":           {last(func(i *item) { i.Uid = 1000 }), "events.jsonl", elsewhere},
		"an owner's name":    {last(func(i *item) { i.Uname = "keeper" }), "events.jsonl", elsewhere},
		"a link's target":    {last(func(i *item) { i.Linkname = "/etc/passwd" }), "events.jsonl", elsewhere},
		"a form that is GNU": {last(func(i *item) { i.Format = tar.FormatGNU }), "events.jsonl", elsewhere},
	} {
		wantRefused(t, what, zipped(t, tarred(t, tt.edit(harbourItems()))), tt.file, tt.why)
	}
}

// TestHostileBytes is what archive/tar and compress/gzip would not write.
func TestHostileBytes(t *testing.T) {
	t.Parallel()
	const elsewhere, end = "has another header, or the file before it another padding, than gaia writes", "has another end of its tar than gaia writes"
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
	named := func(edit func(*gzip.Writer)) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		edit(w)
		w.Write(plain)
		w.Close()
		return out.Bytes()
	}
	events := quote(harbour + "/events.jsonl")
	for what, tt := range map[string]struct {
		data      []byte
		file, why string
	}{
		"no gzip":            {plain, WholeArchive, "is not compressed by gzip"},
		"nothing":            {nil, WholeArchive, "ends in the middle"},
		"a gzip of nothing":  {zipped(t, nil), WholeArchive, "holds no files"},
		"a gzip of text":     {zipped(t, bytes.Repeat([]byte("lamp "), 500)), WholeArchive, "is damaged or holds no tar of files: a header of it cannot be read"},
		"a byte behind":      {append(bytes.Clone(good), 0), WholeArchive, "has bytes behind its end"},
		"text behind":        {append(bytes.Clone(good), "hello"...), WholeArchive, "has bytes behind its end"},
		"twice":              {slices.Concat(good, good), WholeArchive, "holds more than one gzip member"},
		"an empty member":    {slices.Concat(good, zipped(t, nil)), WholeArchive, "holds more than one gzip member"},
		"a tar in members":   {slices.Concat(zipped(t, plain[:700]), zipped(t, plain[700:])), WholeArchive, "holds more than one gzip member"},
		"files in members":   {slices.Concat(zipped(t, plain[:1024]), zipped(t, plain[1024:])), WholeArchive, "holds more than one gzip member"},
		"a name":             {named(func(w *gzip.Writer) { w.Name = "evil\u00e9" }), WholeArchive, "has another gzip header"},
		"a comment":          {named(func(w *gzip.Writer) { w.Comment = "evil" }), WholeArchive, "has another gzip header"},
		"more in the header": {named(func(w *gzip.Writer) { w.Extra = []byte("evil") }), WholeArchive, "has another gzip header"},
		"a time":             {named(func(w *gzip.Writer) { w.ModTime = time.Unix(1, 0) }), WholeArchive, "has another gzip header"},
		"a system":           {named(func(w *gzip.Writer) { w.OS = 3 }), WholeArchive, "has another gzip header"},
		"a level":            {with(good, 8, 2), WholeArchive, "has another gzip header"},
		"another checksum":   {with(good, len(good)-8, good[len(good)-8]^1), WholeArchive, "is damaged: gzip: invalid checksum"},
		"another length":     {with(good, len(good)-1, 1), WholeArchive, "is damaged: gzip: invalid checksum"},
		"a padding":          {zipped(t, with(plain, 600, 'x')), "SHA256SUMS", elsewhere},
		"a tar without end":  {zipped(t, plain[:3072]), WholeArchive, end},
		"half an end":        {zipped(t, plain[:3584]), WholeArchive, end},
		"an end of ten":      {zipped(t, append(bytes.Clone(plain), make([]byte, 6144)...)), WholeArchive, "has bytes behind the end of its tar"},
		"a tar behind":       {zipped(t, append(bytes.Clone(plain), plain...)), WholeArchive, "has bytes behind the end of its tar"},
		"a tar that is cut":  {zipped(t, plain[:2300]), WholeArchive, "ends in the middle"},
		"a header's rest":    {zipped(t, retyped(plain, 0, func(b []byte) { b[505] = 'x' })), "README.md", elsewhere},
		"a size otherwise":   {zipped(t, retyped(plain, 0, func(b []byte) { copy(b[124:136], "12         \x00") })), "README.md", elsewhere},
		"a checksum":         {zipped(t, with(plain, 148, '7')), WholeArchive, "is damaged or holds no tar of files: a header of it cannot be read"},
		"a size of 256 GiB":  {zipped(t, huge), events, "is larger than 68719476736 bytes"},
		"a sparse file":      {zipped(t, asPAX(record("GNU.sparse.size", "1099511627776")+record("GNU.sparse.numblocks", "1")+record("GNU.sparse.map", "0,3"))), events, "is a sparse file"},
		"a size by PAX":      {zipped(t, asPAX(record("size", "3"))), "events.jsonl", elsewhere},
		"a name by PAX":      {zipped(t, asPAX(record("path", "/etc/passwd"))), `"/etc/passwd"`, `has a PAX record that gaia does not write: "path"`},
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
		wantRefused(t, fmt.Sprintf("cut to %d bytes", n), good[:n], WholeArchive, "ends in the middle")
	}
}

// FuzzOpenArchive: no bytes break the reader, and what it takes is what gaia
// writes of the files in it. Half of its inputs are put into a good gzip member.
func FuzzOpenArchive(f *testing.F) {
	plain := tarred(f, harbourItems())
	f.Add(zipped(f, plain), false)
	f.Add(plain, true)
	f.Add(slices.Concat(zipped(f, plain), zipped(f, plain)), false)
	f.Add(tarred(f, []item{{tar.Header{Name: harbour + "/é", Format: tar.FormatPAX, PAXRecords: map[string]string{"HARBOUR.lamp": "lit"}}, ""}}), true)
	f.Add(tarred(f, []item{{tar.Header{Name: harbour + "/a", Typeflag: tar.TypeSymlink, Linkname: "b"}, ""}}), true)
	f.Fuzz(func(t *testing.T, data []byte, isTar bool) {
		if isTar {
			data = zipped(t, data)
		}
		a, err := OpenArchive(bytes.NewReader(data), int64(len(data)), t.TempDir())
		if err != nil {
			var fault *trajectory.Fault
			if !errors.As(err, &fault) {
				t.Fatalf("%v is no fault", err)
			}
			return
		}
		defer a.Close()
		if again := packed(t, a.folder, held(t, a)); !bytes.Equal(unzipped(t, again), unzipped(t, data)) {
			t.Fatalf("another tar than gaia writes was taken: %q", unzipped(t, data))
		}
	})
}
