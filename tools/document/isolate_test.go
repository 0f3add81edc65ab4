package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/xuri/excelize/v2"

	"github.com/gaia-harness/gaia/internal/testkit/files"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/tools"
)

// parents are processes that have children.
var parents = map[string]func() error{}

// The test binary is its own child: its first argument says which one.
func TestMain(m *testing.M) {
	children := map[string]func() error{
		"child-convert": func() error { return Convert(os.Stdin, os.Stdout) },
		"child-tight":   func() error { return convertLimited(os.Stdin, os.Stdout, limits{memory: 256 << 20, cpu: 1}) },
		"child-hang":    func() error { time.Sleep(time.Hour); return nil },
		"child-fails":   func() error { return errors.New("no") },
		"child-flood": func() error {
			for {
				if _, err := os.Stdout.Write(make([]byte, 1<<20)); err != nil {
					return err
				}
			}
		},
		"child-says": func() error { _, err := io.WriteString(os.Stdout, os.Args[2]); return err },
		"child-environment": func() error {
			_, err := fmt.Fprintf(os.Stdout, `{"kind":"text","text":"%d variables"}`, len(os.Environ()))
			return err
		},
		"child-writes": func() error {
			if err := childLimits().apply(); err != nil {
				return err
			}
			if err := os.WriteFile(os.Args[2], []byte("x"), 0o600); err == nil {
				return nil
			}
			_, err := io.WriteString(os.Stdout, `{"kind":"text","text":"refused"}`)
			return err
		},
	}
	maps.Copy(children, parents)
	if len(os.Args) > 1 && children[os.Args[1]] != nil {
		code := 0
		if err := children[os.Args[1]](); err != nil {
			code = 1
		}
		os.Stdout.Close() // the end of the reply: under the race detector the process takes another second
		os.Exit(code)
	}
	os.Exit(m.Run())
}

func childReader(t testing.TB, args ...string) Reader {
	t.Helper()
	executable, err := os.Executable()
	must(t, err)
	return Reader{Child: append([]string{executable}, args...)}
}

func TestChildReads(t *testing.T) {
	t.Parallel()
	env := workspace(t, map[string][]byte{"a.pdf": files.MakePDF("on a page"), "b.xlsx": files.MakeBook(t), "misnamed.csv": files.MakePDF("here"), "locked.pdf": files.LockedPDF(), "c.docx": files.MakeDocx(t)})
	tool := NewReadFile(childReader(t, "child-convert"))
	for path, want := range map[string]string{
		"a.pdf":        "[a.pdf: pdf, 1 page; page 1 of 1]\n[pdf page 1 of 1]\non a page\n",
		"b.xlsx":       "\n2\tKettle\\nred\t$1,234.50 {1234.5}\t4\t[=B2*C2, not cached]\t09-03-31 {2031-03-09}\n",
		"c.docx":       "[c.docx: docx; page 1 of 1]\n## Harbour dues\n",
		"misnamed.csv": "pdf, 1 page, in spite of its name",
		"locked.pdf":   `error: cannot read "locked.pdf": it is an encrypted pdf file`,
	} {
		mustHold(t, path, use(t, tool, env, object{"path": path}).Shown, want)
	}
}

// An honest file as large as a body may be is read within the limits.
func TestChildReadsLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a few seconds")
	}
	t.Parallel()
	const rows = 2_000
	book := excelize.NewFile()
	defer book.Close()
	w, err := book.NewStreamWriter("Sheet1")
	must(t, err)
	for r := range rows {
		must(t, w.SetRow(fmt.Sprintf("A%d", r+1), []any{r, "a name in a cell", float64(r) * 1.25, excelize.Cell{Formula: fmt.Sprintf("A%d*2", r+1), Value: r * 2}, "more"}))
	}
	must(t, w.Flush())
	var b bytes.Buffer
	must(t, book.Write(&b))
	picture := strings.Repeat("picture ", 4<<20)
	for name, data := range map[string][]byte{
		"b.xlsx": b.Bytes(),
		"a.pdf":  files.OnePage("BT /F1 10 Tf (beside it) Tj ET", "", "<< /Type /Font >>", files.PdfStreamObject("/Subtype /Image", picture)),
	} {
		doc, err := childReader(t, "child-convert").Read(t.Context(), Source{Name: name, Data: data})
		if err != nil {
			t.Errorf("%s, %d bytes: %v", name, len(data), err)
		}
		if name == "a.pdf" {
			mustHold(t, name, doc.Text, "beside it")
		} else {
			mustHold(t, name, doc.Text[len(doc.Text)-200:], fmt.Sprintf("\t%d [=A%d*2]\tmore\n", 2*(rows-1), rows))
		}
	}
}

// Files that have the library allocate, recurse or loop without end take a
// child down at most.
func TestHostileFiles(t *testing.T) {
	long.NotRaced(t)
	files := hostilePDFs()
	for name, book := range hostileBooks(t) {
		files[name] = book
	}
	for name, document := range hostileOffice(t) {
		files[name] = document
	}
	for i, name := range slices.Sorted(maps.Keys(files)) {
		if i%long.Step(3) != 0 { // most take their second of the processor
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := workspace(t, map[string][]byte{"a": files[name]})
			began := time.Now()
			out := use(t, NewReadFile(childReader(t, "child-tight")), env, object{"path": "a"})
			t.Logf("%s: %s", time.Since(began), out.Shown[:tools.RuneOffset(out.Shown, 200)])
			if !out.IsError || !strings.HasPrefix(out.Shown, `error: cannot read "a": it`) {
				t.Errorf("%+v", out)
			}
		})
	}
}

func hostilePDFs() map[string][]byte {
	catalog := "<< /Type /Catalog /Pages 2 0 R >>"
	good := files.PdfFile("", catalog, "<< /Type /Pages /Kids [] /Count 0 >>")
	at := bytes.Index(good, []byte("xref\n"))
	inItself := []byte{0, 0, 0, 0, 2, 0, 2, 0, 2, 0, 2, 0}
	return map[string][]byte{
		"pdf with a huge table":             files.XrefStream("/Size 99999999", nil, ""),
		"pdf with an impossible table":      files.XrefStream("/Size 99999999999", nil, ""),
		"pdf with huge widths":              bytes.Replace(files.XrefStream("/Size 3", []byte{1}, ""), []byte("[1 2 1]"), []byte("[1 99999999999 1]"), 1),
		"pdf with huge columns":             files.XrefStream("/Size 3 /Filter /FlateDecode /DecodeParms << /Predictor 12 /Columns 99999999999 >>", []byte(files.Deflate("xxxx")), ""),
		"pdf with a huge section":           bytes.Replace(good, []byte("xref\n0 3\n"), []byte("xref\n99999999 1\n"), 1),
		"pdf table before itself":           files.PdfFile(fmt.Sprintf("/Prev %d", at), catalog, "<< /Type /Pages /Kids [] /Count 0 >>"),
		"pdf object stream in itself":       files.XrefStream("/Size 3", inItself, ""),
		"pdf encrypted stream in itself":    files.XrefStream("/Size 3 /Encrypt 2 0 R", inItself, ""),
		"pdf page tree in itself":           files.PdfFile("", catalog, "<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 9 >>"),
		"pdf with deep objects":             files.PdfFile("", catalog, "<< /Type /Pages /Kids "+strings.Repeat("[", 200000)+" >>"),
		"pdf with an object stream growing": files.XrefStream("/Size 3", []byte{0, 0, 0, 0, 2, 0, 2, 0, 1, 0, 9, 0}, "2 0 obj\n"+files.PdfStreamObject("/Type /ObjStm /N 1 /First 4 /Filter /FlateDecode", files.Deflated("1 0 ", strings.Repeat("[1 1 1 1 ", 100_000), 100))+"\nendobj\n"),
		"pdf page that breaks off":          files.OnePage("BT /F1 10 Tf <", ""),
		"pdf with forms that multiply":      multiplyingForms(),
	}
}

// multiplyingForms is a page of forms that each show the next a hundred times.
func multiplyingForms() []byte {
	more := []string{"<< /Type /Font /Subtype /Type1 >>"}
	resources := "/XObject << "
	for i := range 6 {
		resources += fmt.Sprintf("/X%d %d 0 R ", i, 5+i)
		more = append(more, files.PdfStreamObject("/Subtype /Form", "BT /F1 10 Tf 72 700 Td (x) Tj ET "+strings.Repeat(fmt.Sprintf("/X%d Do ", i+1), 100)))
	}
	return files.OnePage(strings.Repeat("/X0 Do ", 100), resources+">>", more...)
}

func hostileOffice(t testing.TB) map[string][]byte {
	attributes := `<a` + strings.Repeat(` a=""`, maxPart/5-1000) + `/>`
	return map[string][]byte{
		"docx with many attributes":     files.DocxOf(t, attributes, nil),
		"odt with many attributes":      files.OdfOf(t, "text", "", attributes),
		"docx that unpacks to a lot":    files.BombOf(t, 128<<20, "word/document.xml"),
		"docx that lies about its size": files.BombOf(t, 100, "word/document.xml"),
	}
}

func hostileBooks(t *testing.T) map[string][]byte {
	return map[string][]byte{
		"xlsx that unpacks to a lot":    files.ZipBomb(t, 128<<20),
		"xlsx that lies about its size": files.ZipBomb(t, 100),
	}
}

// However a child ends, the parent goes on, with nothing left behind.
func TestChildFails(t *testing.T) {
	exhausted, noAnswer := "its reader ran out of memory or time", "its reader gave no usable answer"
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"child-hang"}, exhausted},
		{[]string{"child-fails"}, exhausted},
		{[]string{"child-flood"}, noAnswer},
		{[]string{"child-says", ""}, exhausted},
		{[]string{"child-says", "\xff\xfe garbage"}, noAnswer},
		{[]string{"child-says", "{\"kind\":\"pdf\",\"text\":\"\xff\"}"}, noAnswer},
		{[]string{"child-says", `{"kind":"pdf","text":"a","` + "\x01\xc3" + `":1}`}, noAnswer},
		{[]string{"child-says", `{"kind":"pdf","text":"a","text":"b"}`}, noAnswer},
		{[]string{"child-says", `{"kind":"pdf","text":"a"} {}`}, noAnswer},
		{[]string{"child-says", `{"kind":"pdf","error":"both"}`}, noAnswer},
		{[]string{"child-says", `{}`}, noAnswer},
		{[]string{"child-says", `{"error":"a\u0001\nb` + strings.Repeat("c", 1000) + `"}`}, "a b" + strings.Repeat("c", 397)},
	}
	before := runtime.NumGoroutine()
	for _, test := range tests {
		timeout := 10 * time.Second
		if test.args[0] == "child-hang" {
			timeout = 100 * time.Millisecond
		}
		data := bytes.Repeat([]byte("x"), 1<<20) // more than a pipe holds: a child need not take it
		_, err := childReader(t, test.args...).ask(t.Context(), timeout, request{Format: formatFile, Source: Source{Data: data}})
		var u *tools.Unreadable
		if !errors.As(err, &u) || tools.Plain(u) != test.want || !utf8.ValidString(u.Why) {
			t.Errorf("%q: %v, want %q", test.args, err, test.want)
		}
	}
	for tries := 0; runtime.NumGoroutine() > before; tries++ { // one that has done its work may take a moment to end
		if tries == 500 {
			t.Fatalf("%d goroutines, then %d", before, runtime.NumGoroutine())
		}
		time.Sleep(10 * time.Millisecond)
	}
	doc, err := childReader(t, "child-environment").ask(t.Context(), time.Minute, request{})
	if err != nil || doc.Text != "0 variables" {
		t.Errorf("environment: %q, %v", doc.Text, err)
	}
}

// What is wrong on our side is no fault of the document.
func TestChildCannotStart(t *testing.T) {
	var u *tools.Unreadable
	_, err := Reader{Child: []string{"/nonexistent/reader"}}.Read(t.Context(), Source{Data: files.MakePDF("a")})
	if err == nil || errors.As(err, &u) {
		t.Errorf("no such program: %v", err)
	}
	if _, err := callTool(t.Context(), NewReadFile(Reader{Child: []string{"/nonexistent/reader"}}), workspace(t, map[string][]byte{"a": files.MakePDF("a")}), []byte(`{"path":"a"}`)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the call: %v", err)
	}
}

// Nothing is written to disk: neither by this process nor, where the system can
// refuse, by a child.
func TestNothingOnDisk(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for _, data := range [][]byte{files.MakeBook(t), files.ZipBomb(t, 128<<20), files.ZipBomb(t, 100), files.MakePDF("a")} {
		_, _ = Reader{}.Read(t.Context(), Source{Data: data}) // what comes of it is tested elsewhere
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if runtime.GOOS == "linux" || runtime.GOOS == "darwin" {
		doc, err := childReader(t, "child-writes", dir+"/file").ask(t.Context(), time.Minute, request{})
		if err != nil || doc.Text != "refused" {
			t.Errorf("a child that writes: %q, %v", doc.Text, err)
		}
	}
}

// Convert refuses what is not exactly one request. It runs in a separate
// process, since its limits are for good.
func TestConvertRefuses(t *testing.T) {
	for _, in := range []string{"", "\n", "{}\n", `{"format":"file","size":3}` + "\nab", `{"format":"doc","size":0}` + "\n", `{"format":"file","size":-1}` + "\n",
		`{"format":"file","size":99999999999}` + "\n", `{"format":"file","size":0,"size":0}` + "\n", `{"format":"file","size":0,"more":1}` + "\n", strings.Repeat("x", 10_000)} {
		if q, err := readRequest(strings.NewReader(in)); err == nil {
			t.Errorf("%q: %+v", in, q)
		}
	}
	argv := childReader(t, "child-convert").Child
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Stdin = strings.NewReader("no request")
	if out, err := cmd.Output(); err == nil || len(out) > 0 {
		t.Errorf("no request: %q, %v", out, err)
	}
}

func FuzzReply(f *testing.F) {
	f.Add([]byte(`{"kind":"pdf","notes":["1 page"],"text":"a"}`))
	f.Add([]byte(`{"error":"no"}`))
	f.Add([]byte("{\"kind\":\"\xff\"}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, err := decodeReply(text)
		if (doc.Kind == "") == (err == nil) {
			t.Errorf("%+v with error %v", doc, err)
		}
		if err != nil && !utf8.ValidString(err.Error()) || !utf8.ValidString(doc.Text) {
			t.Error("not UTF-8")
		}
	})
}

func BenchmarkChild(b *testing.B) {
	c, data := childReader(b, "child-convert"), files.MakePDF("a page")
	for b.Loop() {
		if _, err := c.Read(b.Context(), Source{Data: data}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestSimplePages: what can take long is read by the child, whatever its size.
func TestSimplePages(t *testing.T) {
	absent := Reader{Child: []string{"/nonexistent/reader"}}
	page := func(body string) Source {
		return Source{ContentType: "text/html", Base: "http://a.example/", Data: []byte("<html><body>" + body)}
	}
	if doc, err := absent.Read(t.Context(), page(strings.Repeat("<ul><li>one</ul>", 20))); err != nil || !strings.Contains(doc.Text, "- one") {
		t.Errorf("a plain page: %q, %v", doc.Text, err)
	}
	for name, body := range map[string]string{
		"quotes": strings.Repeat("<blockquote>", 60), "quotes in capitals": strings.Repeat("<BlockQuote x=1>", 60), "lists": strings.Repeat("<ul><li>", 30), "size": strings.Repeat("a ", smallPage),
	} {
		if _, err := absent.Read(t.Context(), page(body)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: read here: %v", name, err)
		}
	}
}
