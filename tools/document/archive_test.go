package document

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/files"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/tools"
)

func TestArchives(t *testing.T) {
	text := func(name, data string) files.Raw { return files.Raw{Name: name, Data: data} }
	innermost := files.ZipOf(t, text("deep.txt", "at the bottom"))
	inner := files.ZipOf(t, text("x.csv", "a,b\n1,2\n"), text("innermost.zip", string(innermost)), text("book.xlsx", string(files.MakeBook(t))))
	tarred := files.TarOf(t, &tar.Header{Name: "dir/", Typeflag: tar.TypeDir, Mode: 0o755}, &tar.Header{Name: "dir/a.txt", Typeflag: tar.TypeReg, Linkname: "in a tar", Mode: 0o644}, &tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "dir/a.txt"})
	env := workspace(t, map[string][]byte{
		"a.zip": files.ZipOf(t, text("folder/", ""), text("folder/x.csv", "a,b\n1,2\n"), text("b.zip", string(inner)), text(`win\dows.txt`, "from there"),
			text("r\x82sum\x82.txt", "of old"), files.Raw{Name: "link", Data: "folder/x.csv", Mode: fs.ModeSymlink}, files.Raw{Name: "locked.txt", Data: "x", Flags: 1},
			text("twice.txt", "first"), text("twice.txt", "second"), text("a\nb.txt", "odd"), text("./here.txt", "here"), text("report.docx", string(files.MakeDocx(t)))),
		"a.tar": tarred, "a.tgz": files.GzipOf(t, tarred), "a.csv.gz": files.GzipOf(t, []byte("a;b\n1;2\n")), "nothing.zip": files.ZipOf(t), "plain.txt": []byte("plain"),
		"book.xlsx.gz": files.GzipOf(t, files.MakeBook(t)),
	})
	tool := NewReadFile(Reader{})
	for _, test := range []struct {
		path, inside, header, text string
	}{
		{"a.zip", "", "[a.zip: zip, 12 members, to read one pass its name as inside; page 1 of 1]", "folder/\ta directory\nfolder/x.csv\t8 bytes\t"},
		{"a.zip", "", "", "\nlink\t12 bytes\t"},
		{"a.zip", "", "", " packed\ta link\n"},
		{"a.zip", "", "", " packed\tencrypted\n"},
		{"a.zip", "", "", "\ntwice.txt\t6 bytes\t"},
		{"a.zip", "", "", "\t2 have this name, the last is read\n"},
		{"a.zip", "", "", "\n\"a\\nb.txt\"\t3 bytes\t"},
		{"a.zip", "", "", "\nrésumé.txt\t6 bytes\t"},
		{"a.zip", "folder/x.csv", "[a.zip, inside it folder/x.csv: csv, 2 rows counting the first", "a,b\n1,2\n"},
		{"a.zip", "./folder/x.csv", "csv", "a,b\n1,2\n"},
		{"a.zip", `folder\x.csv`, "csv", "a,b\n1,2\n"},
		{"a.zip", "win/dows.txt", "text", "from there"},
		{"a.zip", `win\dows.txt`, "text", "from there"},
		{"a.zip", "résumé.txt", "text", "of old"},
		{"a.zip", "a\nb.txt", "text", "odd"},
		{"a.zip", "here.txt", "text", "here"},
		{"a.zip", "twice.txt", "the last of 2 members of this name", "second"},
		{"a.zip", "b.zip", "[a.zip, inside it b.zip: zip, 3 members", "x.csv\t8 bytes"},
		{"a.zip", "b.zip/x.csv", "csv", "a,b\n1,2\n"},
		{"a.zip", "b.zip/book.xlsx", "xlsx, 3 sheets", "the key is under the mat"},
		{"a.zip", "b.zip/innermost.zip/deep.txt", "text", "at the bottom"},
		{"a.zip", "report.docx", "docx", wantDocx},
		{"a.zip", "report.docx/word/header1.xml", "text", "Port of Hask"},
		{"a.tar", "", "[a.tar: tar, 3 members", "dir/\ta directory\ndir/a.txt\t8 bytes\nl\t0 bytes\ta link\n"},
		{"a.tar", "dir/a.txt", "text", "in a tar"},
		{"a.tgz", "", "[a.tgz: tar, 3 members", "dir/a.txt\t8 bytes\n"},
		{"a.tgz", "dir/a.txt", "text", "in a tar"},
		{"a.csv.gz", "", "csv, 2 rows counting the first, 2 columns, separated by ';', unpacked from gzip", "a;b\n1;2\n"},
		{"book.xlsx.gz", "", "xlsx, 3 sheets (1 of them hidden), unpacked from gzip;", "under the mat"},
	} {
		out := use(t, tool, env, object{"path": test.path, "inside": test.inside})
		if out.IsError {
			t.Errorf("%s, %s: %s", test.path, test.inside, out.Shown)
			continue
		}
		mustHold(t, test.path+" "+test.inside, out.Shown[:strings.Index(out.Shown, "\n")], test.header)
		mustHold(t, test.path+" "+test.inside, out.Document, test.text)
	}
	for _, test := range []struct{ path, inside, want string }{
		{"a.zip", "missing.txt", `there is no member "missing.txt"; read the file without inside to see what is in it`},
		{"a.zip", "../a.zip", "there is no member"},
		{"a.zip", "/etc/passwd", "there is no member"},
		{"a.zip", "folder/../plain.txt", "there is no member"},
		{"a.zip", "folder", "there is no member"},
		{"a.zip", "folder/", "it is a directory"},
		{"a.zip", "link", `its member "link" is not read: it is a link`},
		{"a.zip", "link/x", "there is no member"},
		{"a.zip", "locked.txt", `its member "locked.txt" is encrypted, and cannot be read without its password`},
		{"a.zip", "folder/x.csv/y", "it is no archive"},
		{"a.tar", "l", "it is a link"},
		{"a.csv.gz", "a.csv", "it is one packed file, not an archive"},
		{"plain.txt", "x", "it is no archive"},
		{"plain.txt", ".", "it is no archive"},
		{"nothing.zip", "", "it is a zip with nothing in it"},
		{"../a.zip", "x", "the path must be relative and inside the workspace"},
		{"missing.zip", "x", "there is no such file"},
	} {
		out := use(t, tool, env, object{"path": test.path, "inside": test.inside})
		if !out.IsError || out.Document != out.Shown {
			t.Errorf("%s, %s: %s", test.path, test.inside, out.Shown)
		}
		mustHold(t, test.path+" "+test.inside, out.Shown, fmt.Sprintf("error: cannot read %q: ", test.path), test.want)
	}
}

// overlapping is a zip whose members are all the same bytes of the file.
func overlapping(t testing.TB, members int) []byte {
	t.Helper()
	one := files.ZipOf(t, files.Raw{Name: "000000", Data: strings.Repeat("\x00", 10<<20)})
	at := bytes.Index(one, []byte("PK\x01\x02"))
	end := bytes.Index(one, []byte("PK\x05\x06"))
	entry, tail := one[at:end], bytes.Clone(one[end:])
	packed := bytes.Clone(one[:at])
	for i := range members {
		packed = append(packed, bytes.Replace(entry, []byte("000000"), fmt.Appendf(nil, "%06d", i), 1)...)
	}
	binary.LittleEndian.PutUint16(tail[8:], uint16(members))
	binary.LittleEndian.PutUint16(tail[10:], uint16(members))
	binary.LittleEndian.PutUint32(tail[12:], uint32(len(packed)-at))
	return append(packed, tail...)
}

// claiming is a zip with one member whose header claims a size it has not.
func claiming(t testing.TB, size uint64) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.CreateRaw(&zip.FileHeader{Name: "a.txt", Method: zip.Store, CompressedSize64: 5, UncompressedSize64: size})
	must(t, err)
	_, err = w.Write([]byte("hello"))
	must(t, err)
	must(t, z.Close())
	return b.Bytes()
}

// Archives that are made to do harm are errors, and what they hold stays where
// it is.
func TestHostileArchives(t *testing.T) {
	long.NotRaced(t)
	slip := files.ZipOf(t, files.Raw{Name: "../out.txt", Data: "slipped"}, files.Raw{Name: "/etc/x", Data: "slipped"}, files.Raw{Name: `..\..\y`, Data: "slipped"}, files.Raw{Name: `C:\z`, Data: "slipped"}, files.Raw{Name: "a/../../w", Data: "slipped"})
	tarSlip := files.TarOf(t, &tar.Header{Name: "../out.txt", Typeflag: tar.TypeReg, Linkname: "slipped"})
	whole := files.ZipOf(t, files.Raw{Name: "a.txt", Data: strings.Repeat("some text ", 1000)})
	damaged := bytes.Clone(whole)
	damaged[60] ^= 0xff
	nested := files.ZipOf(t, files.Raw{Name: "x", Data: "bottom"})
	for range 4 {
		nested = files.ZipOf(t, files.Raw{Name: "x", Data: string(nested)})
	}
	var many []files.Raw
	for i := range maxMembers + 1 {
		many = append(many, files.Raw{Name: fmt.Sprint(i)})
	}
	twice := files.GzipOf(t, files.GzipOf(t, []byte("x")))
	huge := files.GzipOf(t, make([]byte, tools.MaxFile+1))
	env := workspace(t, map[string][]byte{
		"slip.zip": slip, "slip.tar": tarSlip, "bomb.zip": files.BombOf(t, 128<<20, "xl/a"), "liar.zip": files.BombOf(t, 100, "xl/a"), "claim.zip": claiming(t, 2<<30), "claim64.zip": claiming(t, 1<<63),
		"overlap.zip": overlapping(t, 2000), "many.zip": files.ZipOf(t, many...), "nested.zip": nested,
		"cut.zip": whole[:len(whole)-30], "damaged.zip": damaged, "head.zip": []byte("PK\x03\x04"), "end.zip": []byte("PK\x05\x06"), "twice.gz": twice, "huge.gz": huge, "cut.gz": twice[:20], "none.gz": files.GzipOf(t, nil), "cut.tar": tarSlip[:300],
	})
	for _, test := range []struct{ path, inside, want string }{
		{"slip.zip", "../out.txt", "its member \"../out.txt\" is not read: it is one with a name that leads out of the archive"},
		{"slip.zip", "/etc/x", "a name that leads out"},
		{"slip.zip", `..\..\y`, "a name that leads out"},
		{"slip.zip", `C:\z`, "a name that leads out"},
		{"slip.zip", "a/../../w", "a name that leads out"},
		{"slip.tar", "../out.txt", "a name that leads out"},
		{"bomb.zip", "xl/a", `its member "xl/a" unpacks to more than 64 MiB`},
		{"liar.zip", "xl/a", "cannot be unpacked, so it is cut off or damaged"},
		{"claim.zip", "a.txt", "cannot be unpacked, so it is cut off or damaged"},
		{"claim64.zip", "a.txt", "cannot be unpacked, so it is cut off or damaged"},
		{"many.zip", "", "it is a zip with 10001 members; the limit is 10000"},
		{"nested.zip", "x/x/x/x/x", "inside leads through more than 3 archives"},
		{"cut.zip", "", "cut off or damaged"},
		{"damaged.zip", "a.txt", "cannot be unpacked, so it is cut off or damaged"},
		{"head.zip", "", "cut off or damaged"},
		{"end.zip", "", "cut off or damaged"},
		{"twice.gz", "", "it is a gzip file in a gzip file"},
		{"huge.gz", "", "it is a gzip file that unpacks to more than 64 MiB"},
		{"cut.gz", "", "it is a gzip file that is cut off or damaged"},
		{"none.gz", "", "it is a gzip file with nothing in it"},
		{"cut.tar", "", "it is a tar that is cut off or damaged"},
	} {
		out := use(t, NewReadFile(Reader{}), env, object{"path": test.path, "inside": test.inside})
		if !out.IsError || strings.Contains(out.Shown, "slipped") {
			t.Errorf("%s, %s: %s", test.path, test.inside, out.Shown[:tools.RuneOffset(out.Shown, 200)])
		}
		mustHold(t, test.path+" "+test.inside, out.Shown, test.want)
	}
	if _, err := openZip(append(bytes.Repeat([]byte("PK\x01\x02"), maxSignatures+1), whole...)); err == nil || !strings.Contains(err.Error(), "more than 10000 members") {
		t.Errorf("many signatures: %v", err)
	}
	out := use(t, NewReadFile(Reader{}), env, object{"path": "slip.zip"})
	mustHold(t, "the listing", out.Shown, "../out.txt\t7 bytes\t", "\ta name that leads out of the archive\n")
	out = use(t, NewReadFile(Reader{}), env, object{"path": "claim.zip"})
	mustHold(t, "a claim", out.Shown, "a.txt\t2147483648 bytes\t5 packed\n")
	out = use(t, NewReadFile(Reader{}), env, object{"path": "overlap.zip"})
	mustHold(t, "overlapping members", out.Shown, "zip, 2000 members")
	if _, err := os.Stat(filepath.Join(filepath.Dir(env.Root.Name()), "out.txt")); err == nil {
		t.Error("a member was written outside of the workspace")
	}
}

func FuzzArchive(f *testing.F) {
	seeds := [][]byte{files.ZipOf(f, files.Raw{Name: "a/b.txt", Data: "text"}, files.Raw{Name: "../x", Data: "text"}), files.MakeDocx(f), overlapping(f, 3), claiming(f, 2<<30),
		files.TarOf(f, &tar.Header{Name: "a", Typeflag: tar.TypeReg, Linkname: "text"}), files.GzipOf(f, []byte("text"))}
	for _, s := range seeds {
		f.Add(s, "a/b.txt")
	}
	f.Fuzz(func(t *testing.T, data []byte, inside string) {
		readAny(t, Reader{}, Source{Name: "a.zip", Data: data})
		if doc, err := (Reader{}).Read(t.Context(), Source{Name: "a.zip", Inside: inside, Data: data}); err == nil && doc.Kind == "" {
			t.Error("no kind")
		}
		_, all, err := members(data)
		for _, m := range all {
			if err != nil || m.why == "" && unsafeName(m.name) != "" {
				t.Errorf("%q: %v", m.name, err)
			}
		}
	})
}
