package document

import (
	"bytes"
	"fmt"
	"github.com/gaia-harness/gaia/internal/testkit/files"
	"github.com/gaia-harness/gaia/tools"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReadFile(t *testing.T) {
	utf16 := []byte("\xff\xfeh\x00i\x00 \x00\xe9\x00")
	env := workspace(t, map[string][]byte{
		"fares.csv":    []byte("\ufefffrom,to,fare\nOstrel,Hask,\"12,50\"\nHask,Tolmey,8\n"),
		"semi.csv":     []byte("a;b\n1,5;2\n3;4\n"),
		"ragged.csv":   []byte("a,b\n1\n"),
		"bare.csv":     []byte("a,b\n1,\"x\n"),
		"depths.tsv":   []byte("berth\tdepth\nTern\t6.8\n"),
		"trip.json":    []byte(`{"legs":[1,2.50,1e3]}`),
		"flat.json":    []byte(`{"b":12345678901234567890,"a":"` + strings.Repeat("x", 300) + `","a":2}`),
		"broken.json":  []byte(`{"a":` + strings.Repeat("x", 400)),
		"note.md":      []byte("# Title\r\n\r\ntext\rend"),
		"latin.txt":    []byte("caf\xe9 \x96 10 \x80"),
		"wide.txt":     utf16,
		"page.html":    []byte("<!doctype html><title>Fares</title><!-- not shown --><p>raw <b>html</b> <a href='more.html#a'>more</a></p><table><tr><th>a<th>b<tr><td>1<td>2</table>"),
		"page.txt":     []byte("<!doctype html><p>raw"),
		"data.xml":     []byte("<?xml version=\"1.0\"?>\n<!DOCTYPE a [<!ENTITY b \"c\">]>\n<a>&b;</a>\n"),
		"made.py":      []byte("def f():\n\treturn 1\n"),
		"graph.jsonld": []byte(`{"@id":"x"}`),
		"atoms.pdb":    []byte("ATOM      1  N   MET A   1      27.340  24.430   2.614\n"),
		"deep/in.txt":  []byte("inside"),
		"report.xlsx":  []byte("only,text\n1,2\n"),
		"noextension":  []byte("plain"),
		"about.txt":    []byte("A file that begins with %PDF-1.4 is a pdf."),
		"numbers.json": []byte("[1,2]"),
	})
	if err := os.Symlink("note.md", filepath.Join(env.Root.Name(), "link.md")); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ path, header, text string }{
		{"fares.csv", `fares.csv: csv, 3 rows counting the first, 3 columns, separated by ','; page 1 of 1]`, "from,to,fare\nOstrel,Hask,\"12,50\"\nHask,Tolmey,8\n"},
		{"semi.csv", `3 rows counting the first, 2 columns, separated by ';'`, "a;b\n1,5;2\n3;4\n"},
		{"ragged.csv", `2 rows counting the first, 1 to 2 columns`, "a,b\n1\n"},
		{"bare.csv", `not well-formed: `, "a,b\n1,\"x\n"},
		{"depths.tsv", `tsv, 2 rows counting the first, 2 columns, separated by '\t'`, "berth\tdepth\nTern\t6.8\n"},
		{"trip.json", `trip.json: json; page`, `{"legs":[1,2.50,1e3]}`},
		{"flat.json", `json`, "{\n  \"b\": 12345678901234567890,\n  \"a\": \"" + strings.Repeat("x", 300) + "\",\n  \"a\": 2\n}\n"},
		{"broken.json", `json`, `{"a":` + strings.Repeat("x", 400)},
		{"note.md", `note.md: text; page 1 of 1]`, "# Title\n\ntext\nend"},
		{"link.md", `link.md: text`, "# Title\n\ntext\nend"},
		{"latin.txt", `text, decoded from windows-1252`, "café – 10 €"},
		{"wide.txt", `decoded from utf-16le`, "hi é"},
		{"page.html", `page.html: web page, as markdown, without what it does not show; page 1 of 1]`, "title: Fares\n\nraw **html** [more](more.html#a)\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"},
		{"page.txt", `page.txt: text`, "<!doctype html><p>raw"},
		{"data.xml", `data.xml: text`, "<?xml version=\"1.0\"?>\n<!DOCTYPE a [<!ENTITY b \"c\">]>\n<a>&b;</a>\n"},
		{"made.py", `made.py: text`, "def f():\n\treturn 1\n"},
		{"graph.jsonld", `graph.jsonld: json`, `{"@id":"x"}`},
		{"atoms.pdb", `atoms.pdb: text`, "ATOM      1  N   MET A   1      27.340  24.430   2.614\n"},
		{"deep/in.txt", `deep/in.txt: text`, "inside"},
		{"./deep/../deep/in.txt", `text`, "inside"},
		{"report.xlsx", `report.xlsx: text, in spite of its name`, "only,text\n1,2\n"},
		{"noextension", `text`, "plain"},
		{"numbers.json", `json`, "[1,2]"},
		{"about.txt", `about.txt: text; page`, "A file that begins with %PDF-1.4 is a pdf."},
	}
	for _, test := range tests {
		out := use(t, NewReadFile(Reader{}), env, object{"path": test.path})
		if out.IsError || out.Document != test.text {
			t.Errorf("%s: error %v, document %q", test.path, out.IsError, out.Document)
		}
		header, shown, _ := strings.Cut(out.Shown, "\n")
		if shown != test.text {
			t.Errorf("%s: shown %q", test.path, shown)
		}
		mustHold(t, test.path, header, test.header)
	}
}

// Every damaged, foreign or missing file is a result that says what is wrong.
func TestReadFileFailures(t *testing.T) {
	book := files.MakeBook(t)
	report := files.MakePDF("one page")
	env := workspace(t, map[string][]byte{
		"empty.csv":      nil,
		"cut.xlsx":       book[:len(book)/2],
		"head.xlsx":      book[:4],
		"bad.xlsx":       bytes.Replace(book, []byte("PK\x05\x06"), []byte("PK\x05\x07"), 1),
		"cut.pdf":        report[:len(report)-40],
		"stub.pdf":       []byte("%PDF-1.4\n"),
		"noise.pdf":      []byte("%PDF-1.4\n" + strings.Repeat("noise ", 200) + "\nstartxref\n9\n%%EOF\n"),
		"encrypted.xlsx": append([]byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), make([]byte, 2000)...),
		"locked.pdf":     files.LockedPDF(),
		"picture.csv":    []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"),
		"nul.txt":        []byte(strings.Repeat("text ", 1000) + "\x00 and more"),
		"binary.txt":     {0, 1, 2, 3, 0xfe},

		"hollow.xlsx":  files.MakeZip(t, map[string][]byte{"xl/workbook.xml": []byte("<workbook/>")}),
		"bomb.xlsx":    files.ZipBomb(t, 128<<20),
		"liar.xlsx":    files.ZipBomb(t, 100),
		"dir/file.txt": []byte("x"),
	})
	big, err := os.Create(filepath.Join(env.Root.Name(), "big.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if err := big.Truncate(2 << 30); err != nil { // takes no space
		t.Fatal(err)
	}
	big.Close()
	tests := []struct{ path, want string }{
		{"missing.txt", "there is no such file; list_files shows what is there"},
		{"dir", "it is a directory; list_files shows what is in it"},
		{"dir/file.txt/x", "error: cannot read"},
		{"big.txt", "it is larger than 64 MiB"},
		{"empty.csv", "it is empty (0 bytes)"},
		{"cut.xlsx", "cut off or damaged"},
		{"head.xlsx", "cut off or damaged"},
		{"bad.xlsx", "cut off or damaged"},
		{"cut.pdf", "its end is missing"},
		{"stub.pdf", "its end is missing"},
		{"noise.pdf", "it is a pdf file that cannot be read: malformed PDF"},
		{"encrypted.xlsx", "it is an encrypted office file"},
		{"locked.pdf", "it is an encrypted pdf file"},
		{"picture.csv", "it is a png picture that is cut off or damaged: "},
		{"nul.txt", "holds NUL bytes (the first at offset 5000)"},
		{"binary.txt", "application/octet-stream"},

		{"hollow.xlsx", "it is an xlsx file that cannot be opened"},
		{"bomb.xlsx", "unzip size exceeds the 67108864 bytes limit"},
		{"liar.xlsx", "it is an xlsx file that cannot be opened"},
		{"", "error: cannot read"},
	}
	for _, test := range tests {
		out := use(t, NewReadFile(Reader{}), env, object{"path": test.path})
		if !out.IsError || out.Document != out.Shown || !strings.HasPrefix(out.Shown, fmt.Sprintf("error: cannot read %q: ", test.path)) {
			t.Errorf("%s: error %v, %q", test.path, out.IsError, out.Shown)
		}
		mustHold(t, test.path, out.Shown, test.want)
		if strings.Contains(out.Shown, env.Root.Name()) {
			t.Errorf("%s: the message names a path of this machine: %s", test.path, out.Shown)
		}
	}
}

func TestListFiles(t *testing.T) {
	if out := use(t, tools.NewListFiles(), workspace(t, nil), object{}); out.Shown != "the workspace is empty\n" || out.IsError {
		t.Errorf("%+v", out)
	}
	files := map[string][]byte{"b.csv": []byte("1,2\n"), "a/odd\nname.txt": nil}
	out := use(t, tools.NewListFiles(), workspace(t, files), object{})
	if want := "\"a/odd\\nname.txt\"\t0 bytes\nb.csv\t4 bytes\n"; out.Shown != want || out.Document != want {
		t.Errorf("%q", out.Shown)
	}
	for i := range tools.MaxEntries {
		files[fmt.Sprintf("f%04d", i)] = nil
	}
	out = use(t, tools.NewListFiles(), workspace(t, files), object{})
	mustHold(t, "the end of a long listing", out.Shown[len(out.Shown)-30:], "and 2 more\n")
}

// A document past the limit says that it was cut, and is cut between lines.
func TestLongDocument(t *testing.T) {
	line := "a line of text, and some more of it to fill the line\n"
	env := workspace(t, map[string][]byte{"long.txt": []byte(strings.Repeat(line, tools.MaxDocument/len(line)+10))})
	out := use(t, NewReadFile(Reader{}), env, object{"path": "long.txt"})
	mustHold(t, "the header", out.Shown, "only its first 16 MiB of text")
	if len(out.Document) > tools.MaxDocument || !strings.HasSuffix(out.Document, line) {
		t.Errorf("%d bytes", len(out.Document))
	}
}

// A file is what its bytes are; a name that says something else is said.
func TestWrongNames(t *testing.T) {
	kinds := []struct {
		kind string
		data []byte
	}{
		{"docx", files.MakeDocx(t)}, {"pptx", files.MakePptx(t)}, {"odt", files.MakeODT(t)}, {"odp", files.MakeODP(t)}, {"ods", files.MakeODS(t)}, {"xlsx", files.MakeBook(t)},
		{"pdf", files.MakePDF("a page")}, {"zip", files.ZipOf(t, files.Raw{Name: "a.txt", Data: "a"})}, {"text", []byte("words\n")},
	}
	names := []string{"a.docx", "a.pptx", "a.odt", "a.odp", "a.ods", "a.xlsx", "a.pdf"}
	for _, k := range kinds {
		for _, name := range names {
			doc, err := Reader{}.Read(t.Context(), Source{Name: name, Data: k.data})
			if err != nil || doc.Kind != k.kind {
				t.Errorf("%s as %s: %q, %v", k.kind, name, doc.Kind, err)
			}
			if said := slices.Contains(doc.Notes, "in spite of its name"); said == (name == "a."+k.kind) {
				t.Errorf("%s as %s: %q", k.kind, name, doc.Notes)
			}
		}
	}
	for _, name := range append(names, "a.zip", "a.tar", "a.gz", "a.html", "a.xml", "a.py", "a") {
		for _, test := range []struct{ data, want string }{
			{"", "it is empty (0 bytes)"},
			{"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "it is a png picture that is cut off or damaged"},
			{strings.Repeat("text ", 1000) + "\x00", "holds NUL bytes"},
			{"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + strings.Repeat("\x00", 1000), "it is an encrypted office file or one of the old binary kind"},
		} {
			_, err := Reader{}.Read(t.Context(), Source{Name: name, Data: []byte(test.data)})
			mustHold(t, name, fmt.Sprint(err), test.want)
		}
	}
}
