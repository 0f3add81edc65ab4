package document

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/png"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	filespkg "github.com/gaia-harness/gaia/internal/testkit/files"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/tools"
)

// poppler is where its programs are on this machine.
func poppler(t testing.TB) *Poppler {
	t.Helper()
	var p Poppler
	for name, path := range map[string]*string{"pdftotext": &p.Text, "pdftoppm": &p.Pages} {
		found, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("%s is not installed: %v", name, err)
		}
		*path = found
	}
	return &p
}

// A file says the same with poppler and without, but for how its lines are set;
// also in a child, whose limits hold for poppler.
func TestPopplerReadsAlike(t *testing.T) {
	t.Parallel()
	readers := popplers(t)
	for name, data := range map[string][]byte{
		"pages":            filespkg.MakePDF("first", "second"),
		"no text":          filespkg.MakePDF("", "words"),
		"none with text":   filespkg.MakePDF("", ""),
		"before and after": append(append([]byte("HTTP junk\n"), filespkg.MakePDF("repaired")...), "\n\x00trailing"...),
		"version 2":        bytes.Replace(filespkg.MakePDF("new"), []byte("%PDF-1.4"), []byte("%PDF-2.0"), 1),
		"lines":            filespkg.OnePage("BT /F1 10 Tf 72 700 Td (one) Tj 0 -12 Td (two) Tj ET", ""),
		"kerning":          filespkg.OnePage("BT /F1 10 Tf 72 700 Td [(W) 80 (ord) -300 (gap)] TJ ET", ""),
		"form":             filespkg.OnePage("/X1 Do", "/XObject << /X1 5 0 R >>", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>", filespkg.PdfStreamObject("/Subtype /Form /BBox [0 0 999 999]", "BT /F1 10 Tf 72 600 Td (formed) Tj ET")),
		"misnamed":         filespkg.MakePDF("here"),
	} {
		src := Source{Name: "a.pdf", Data: data}
		if name == "misnamed" {
			src.Name = "a.txt"
		}
		want, err := Reader{}.Read(t.Context(), src)
		if err != nil {
			t.Fatal(err)
		}
		for where, with := range readers {
			with.Poppler.Pages = "" // it would add a note
			got, err := with.Read(t.Context(), src)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(tools.Document{})); diff != "" || err != nil {
				t.Errorf("%s, %s: %v, %s", name, where, err, diff)
			}
		}
	}
}

// popplers are readers with poppler, by where its programs run.
func popplers(t *testing.T) map[string]Reader {
	t.Helper()
	argv := childReader(t, "child-convert").Child
	readers := map[string]Reader{"by this process": {Poppler: poppler(t)}, "by a child": {Child: argv, Poppler: poppler(t)}}
	t.Run("sandboxed", func(t *testing.T) { // skips where there is none
		there := poppler(t)
		there.Sandbox = sandboxOf(t)
		readers["sandboxed"] = Reader{Child: argv, Poppler: there}
	})
	return readers
}

// In the sandbox its programs see no file of this machine.
func TestPopplerSeesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/secret", []byte("not for it"), 0o644))
	p := Poppler{Sandbox: sandboxOf(t)}
	for _, path := range []string{"/etc/passwd", dir + "/secret"} {
		program, err := p.command("/bin/cat", path)
		must(t, err)
		out := beginning{limit: 100}
		if said, err := filter(t.Context(), time.Minute, program, nil, &out); err == nil || len(out.kept) > 0 || !strings.Contains(said, "No such file") {
			t.Errorf("%s: %q, %q, %v", path, out.kept, said, err)
		}
	}
}

// What poppler alone can read is read, and what it cannot is read without it.
func TestPopplerAndTheRest(t *testing.T) {
	t.Parallel()
	there, cut := poppler(t), filespkg.MakePDF("one page", "two")
	env := workspace(t, map[string][]byte{"cut.pdf": cut[:len(cut)-8], "good.pdf": filespkg.MakePDF("here"), "locked.pdf": filespkg.LockedPDF(), "stub.pdf": []byte("%PDF-1.4\n"), "scan.pdf": filespkg.Scanned(t)})
	for _, test := range []struct {
		path string
		with *Poppler
		want string
	}{
		{"cut.pdf", there, "[cut.pdf: pdf, 2 pages, it is cut off or damaged, so some of it may be missing; page 1 of 1]\n[pdf page 1 of 2]\none page\n"},
		{"cut.pdf", nil, "error: cannot read \"cut.pdf\": it is a pdf file that is cut off or damaged: its end is missing"},
		{"stub.pdf", there, "its end is missing"},
		{"locked.pdf", there, "it is an encrypted pdf file, and cannot be read without its password"},
		{"good.pdf", &Poppler{Text: "/bin/false"}, "[good.pdf: pdf, 1 page, pdftotext failed on it, so some text may be missing or out of order; page 1 of 1]\n[pdf page 1 of 1]\nhere\n"},
		{"good.pdf", &Poppler{Text: "/nonexistent/pdftotext"}, "pdftotext failed on it"},
		{"good.pdf", &Poppler{Text: "/bin/true"}, "pdftotext failed on it"},
		{"good.pdf", &Poppler{}, "[good.pdf: pdf, 1 page; page 1 of 1]"},
		{"scan.pdf", there, "none with text: they are probably pictures, describe_image, where it is offered, looks at a page without text; page"},
		{"scan.pdf", &Poppler{Text: there.Text}, "none with text: they are probably pictures; page"},
	} {
		r := childReader(t, "child-convert")
		r.Poppler = test.with
		mustHold(t, test.path, use(t, NewReadFile(r), env, object{"path": test.path}).Shown, test.want)
	}
}

func TestPagesAreDrawn(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	for name, r := range popplers(t) {
		for _, test := range []struct {
			name string
			data []byte
			page int
			want string // what stands in the error
		}{
			{"first", filespkg.MakePDF("one", "two"), 1, ""},
			{"last", filespkg.MakePDF("one", "two"), 2, ""},
			{"huge", filespkg.PdfOf("0 0 99999999 99999999"), 1, ""},
			{"wide", filespkg.PdfOf("0 0 99999999 0.001"), 1, ""},
			{"no size", filespkg.PdfOf("0 0 0 0"), 1, ""},
			{"cut off", bytes.TrimSuffix(filespkg.MakePDF("one", "two"), []byte("%%EOF\n")), 1, ""},
			{"beyond", filespkg.MakePDF("one", "two"), 9, "there is no page 9: the last one is 2"},
			{"zero", filespkg.MakePDF("one"), 0, "there is no page 0: the first one is 1"},
			{"enormous", filespkg.MakePDF("one"), 1 << 40, "there is no page"},
			{"locked", filespkg.LockedPDF(), 1, "it is an encrypted pdf file"},
			{"stub", []byte("%PDF-1.4\n"), 1, "the page cannot be drawn"},
			{"many pages claimed", bytes.Replace(filespkg.MakePDF("one"), []byte("/Count 1"), []byte("/Count 99999999"), 1), 5000, "there is no page"},
		} {
			if name != "by a child" && test.name != "first" && test.name != "beyond" {
				continue // the same program, drawing the same
			}
			data, err := r.page(t.Context(), test.data, test.page)
			if test.want != "" {
				var u *tools.Unreadable
				if !errors.As(err, &u) || !strings.Contains(u.Why, test.want) || data != nil {
					t.Errorf("%s, %s: %v, want %q", name, test.name, err, test.want)
				}
				continue
			}
			drawn, derr := png.Decode(bytes.NewReader(data))
			if err != nil || derr != nil {
				t.Errorf("%s, %s: %v, %v", name, test.name, err, derr)
				continue
			}
			if b := drawn.Bounds(); max(b.Dx(), b.Dy()) != pageSide {
				t.Errorf("%s, %s: %v", name, test.name, b)
			}
			if test.name == "first" && !filespkg.Inked(drawn) {
				t.Errorf("%s, %s: its words are not drawn", name, test.name)
			}
		}
	}
	if _, err := (Reader{}).page(t.Context(), filespkg.MakePDF("one"), 1); err == nil || !strings.Contains(err.Error(), "pdftoppm is missing") {
		t.Errorf("without poppler: %v", err)
	}
}

// Files made to run wild end, with a result, and within the child's limits.
func TestPopplerOnHostileFiles(t *testing.T) {
	r := childReader(t, "child-tight")
	r.Poppler = poppler(t)
	files := hostilePDFs()
	files["pdf with a page many times"] = bytes.Replace(filespkg.MakePDF("here"), []byte("/Kids ["), []byte("/Kids ["+strings.Repeat("4 0 R ", 20_000)), 1)
	files["pdf with deep forms"] = multiplyingForms()
	for i, name := range slices.Sorted(maps.Keys(files)) {
		if i%long.Step(3) != 1 && !long.Thorough() { // other ones than in TestHostileFiles
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := files[name]
			env := workspace(t, map[string][]byte{"a": data})
			out := use(t, NewReadFile(r), env, object{"path": "a"})
			if len(out.Document) > tools.MaxDocument || out.IsError != strings.HasPrefix(out.Shown, `error: cannot read "a": it`) {
				t.Errorf("%.300s", out.Shown)
			}
			drawn, err := r.page(t.Context(), data, 1)
			var u *tools.Unreadable
			if err != nil && !errors.As(err, &u) || err == nil && len(drawn) == 0 {
				t.Errorf("drawn: %d bytes, %v", len(drawn), err)
			}
		})
	}
}

// A program that does not end, writes without end, or has much to say is bounded.
func TestFilterBounds(t *testing.T) {
	t.Parallel()
	executable, err := os.Executable()
	must(t, err)
	large := bytes.Repeat([]byte("x"), 1<<20) // more than a pipe holds: it need not be read
	out := beginning{limit: 1000}
	_, err = filter(t.Context(), time.Second/2, []string{executable, "child-flood"}, large, &out)
	if !errors.Is(err, context.DeadlineExceeded) || len(out.kept) != 1000 || !out.more {
		t.Errorf("endless: %d bytes, %v", len(out.kept), err)
	}
	out = beginning{limit: 8}
	if _, err = filter(t.Context(), time.Minute, []string{executable, "child-says", "page\fpage\fmore\f"}, large, &out); err != nil || string(out.kept) != "page\fpag" || out.pages != 3 {
		t.Errorf("%q, %d pages, %v", out.kept, out.pages, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := readByPoppler(ctx, []string{executable, "child-hang"}, filespkg.MakePDF("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestTidyPage(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "\n \n": "", "a": "a\n", "\n\n  a  \n\n\nb\n\n": "  a\n\n\nb\n", "a\x00b\x1bc\tx \r\n": "abc x\n",
	} {
		if got := tidyPage(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzPopplerText(f *testing.F) {
	f.Add("a\fb\f")
	f.Add("[pdf page 1 of 9]\n\f\xff\x00\f\f")
	f.Fuzz(func(t *testing.T, text string) {
		out := pdfText{pages: max(1, strings.Count(text, "\f"))}
		for page := range strings.SplitSeq(strings.TrimSuffix(text, "\f"), "\f") {
			out.add(tidyPage(page), nil)
		}
		doc := out.document()
		if doc.Text != strings.ToValidUTF8(doc.Text, "") || !strings.HasPrefix(doc.Text, fmt.Sprintf("[pdf page 1 of %d", out.pages)) || !strings.HasSuffix(doc.Text, "\n") {
			t.Errorf("%q becomes %q", text, doc.Text)
		}
	})
}
