package document

import (
	"github.com/gaia-harness/gaia/internal/testkit/files"
	"github.com/gaia-harness/gaia/tools"
	"strings"
	"testing"
	"unicode/utf8"
)

// readAny checks what holds of every document, whatever the bytes.
func readAny(t *testing.T, c Reader, src Source) {
	doc, err := c.Read(t.Context(), src)
	if err != nil {
		if text := err.Error(); text == "" || doc.Text != "" || !utf8.ValidString(text) || strings.ContainsAny(text, "\n\r\x00") {
			t.Errorf("%d bytes of text with error %q", len(doc.Text), text)
		}
		return
	}
	if !utf8.ValidString(doc.Text) || strings.ContainsAny(doc.Text, "\x00\r") || len(doc.Text) > tools.MaxDocument || doc.Kind == "" {
		t.Errorf("%s: %d bytes, valid %v", doc.Kind, len(doc.Text), utf8.ValidString(doc.Text))
	}
	if pages := tools.Paginate(doc.Text); strings.Join(pages, "") != doc.Text {
		t.Error("the pages are not the text")
	}
	doc.Show(src.Name, 1, "a")
}

func FuzzText(f *testing.F) {
	for _, seed := range []string{"a,b\n1,\"2\n", "a;b\r\n\"x\"\"y\";2", "caf\xe9", "\xff\xfea\x00", "\ufeffx", `{"a":[1,2]}`, "<html><table><tr><td colspan=3>x", "<!doctype html><p>&amp;<script>", "\x1b(J", "+AGE-"} {
		for _, name := range []string{"a.csv", "a.tsv", "a.json", "a.txt"} {
			f.Add(name, "", []byte(seed))
		}
		f.Add("a", "text/html; charset=shift_jis", []byte(seed))
	}
	f.Fuzz(func(t *testing.T, name, contentType string, data []byte) {
		src := Source{Name: name, ContentType: contentType, Data: data}
		if contentType != "" {
			src.Base = "http://a.example/"
		}
		readAny(t, Reader{}, src)
	})
}

func FuzzPDF(f *testing.F) {
	f.Add(files.MakePDF("a", "b (c\\) d"))
	f.Add(files.OnePage("BT /F1 10 Tf [(a) -500 <62>] TJ T* (c) ' ET BI ID \x00 EI q Q 1 0 0 1 5 5 cm", ""))
	f.Add(files.LockedPDF())
	f.Add(files.XrefStream("/Size 3", []byte{0, 0, 0, 0, 1, 0, 9, 0, 2, 0, 1, 0}, "1 0 obj\n<< /Pages 2 0 R >>\nendobj\n"))
	c := childReader(f, "child-tight")
	f.Fuzz(func(t *testing.T, data []byte) { readAny(t, c, Source{Name: "a.pdf", Data: data}) })
}

// FuzzPageContents fuzzes what is packed inside a page, where whole-file
// mutations seldom get.
func FuzzPageContents(f *testing.F) {
	f.Add([]byte("BT /F1 10 Tf 72 700 Td [(a) -500 <62>] TJ ET"))
	f.Add([]byte("q 2 0 0 2 5 5 cm BT 7 TL /F1 1 Tf 1 2 3 (a) \" (b) ' T* 5 Tz 1 Tc 2 Tw 1 0 0 1 0 0 Tm 1 1 TD <00410042> Tj ET Q Q"))
	c := childReader(f, "child-tight") // the library does not end on a page that breaks off inside <…
	f.Fuzz(func(t *testing.T, contents []byte) {
		for _, font := range []string{"<< /Type /Font /Subtype /Type1 >>", "<< /Type /Font /Subtype /Type0 /Encoding /Identity-H /DescendantFonts [<< /W [1 [700 200] 3 9 400 -5 99999999 1 7] >>] >>"} {
			readAny(t, c, Source{Name: "a.pdf", Data: files.OnePage(string(contents), "", font)})
		}
	})
}

func FuzzSheets(f *testing.F) {
	f.Add([]byte(`<row r="1"><c r="A1"><v>1</v></c><c r="B1" t="s"><v>0</v></c><c r="C1"><f>SUM(A1:B1)</f></c></row>`))
	f.Add([]byte(`<row r="3"><c><f t="shared" ref="A1:B9" si="0">A1+1</f></c><c s="9" t="b"><v>1</v></c></row>`))
	f.Add([]byte(`<row r="1"><c r="B1" t="inlineStr"><is><t>x</t></is></c><c r="A1" t="d"><v>2031-01-01</v></c></row></sheetData><mergeCells><mergeCell ref="A1:B1"/></mergeCells><sheetData>`))
	c := childReader(f, "child-tight")
	f.Fuzz(func(t *testing.T, rows []byte) {
		readAny(t, c, Source{Name: "a.xlsx", Data: files.SheetXML(t, string(rows))})
	})
}

// The parts of office files are fuzzed as they stand inside: mutations of a
// whole file seldom get there.
func FuzzDocx(f *testing.F) {
	z, err := openZip(files.MakeDocx(f))
	must(f, err)
	for _, m := range z.File {
		if part, err := unpack(m, maxPart); err == nil && strings.HasSuffix(m.Name, ".xml") {
			f.Add(part, part)
		}
	}
	f.Fuzz(func(t *testing.T, part, beside []byte) {
		data := files.MakeZip(t, map[string][]byte{"word/document.xml": part, "word/numbering.xml": beside, "word/styles.xml": beside, "word/footnotes.xml": beside,
			"word/_rels/document.xml.rels": files.RelationsPart("a", "styles", "styles.xml", "b", "numbering", "numbering.xml", "c", "footnotes", "footnotes.xml", "d", "header", "document.xml")})
		readAny(t, Reader{}, Source{Name: "a.docx", Data: data})
	})
}

func FuzzPptx(f *testing.F) {
	z, err := openZip(files.MakePptx(f))
	must(f, err)
	for _, m := range z.File {
		if part, err := unpack(m, maxPart); err == nil && strings.HasPrefix(m.Name, "ppt/") {
			f.Add(part)
		}
	}
	f.Fuzz(func(t *testing.T, part []byte) {
		data := files.MakeZip(t, map[string][]byte{"ppt/slides/s.xml": part, "ppt/notes.xml": part,
			"ppt/presentation.xml":            []byte(`<p:presentation ` + files.WordSpaces + `><p:sldIdLst><p:sldId r:id="a"/><p:sldId r:id="b"/></p:sldIdLst></p:presentation>`),
			"ppt/_rels/presentation.xml.rels": files.RelationsPart("a", "slide", "slides/s.xml", "b", "slide", "slides/s.xml"),
			"ppt/slides/_rels/s.xml.rels":     files.RelationsPart("n", "notesSlide", "../notes.xml", "c", "comments", "../notes.xml"),
		})
		readAny(t, Reader{}, Source{Name: "a.pptx", Data: data})
	})
}

func FuzzODF(f *testing.F) {
	for _, whole := range [][]byte{files.MakeODT(f), files.MakeODP(f), files.MakeODS(f)} {
		z, err := openZip(whole)
		must(f, err)
		for _, m := range z.File {
			part, err := unpack(m, maxPart)
			must(f, err)
			f.Add(part)
		}
	}
	f.Fuzz(func(t *testing.T, part []byte) {
		for _, kind := range []string{"text", "spreadsheet"} {
			readAny(t, Reader{}, Source{Name: "a.odt", Data: files.MakeZip(t, map[string][]byte{"mimetype": []byte("application/vnd.oasis.opendocument." + kind), "content.xml": part, "styles.xml": part})})
		}
	})
}

// FuzzSheetMarks gives the scanner of a sheet's part what it does not expect.
func FuzzSheetMarks(f *testing.F) {
	f.Add([]byte(`<worksheet><cols><col min="2" max="3" hidden="1" style="1"/></cols><sheetData><row r="1" hidden="1" s="1" customFormat="1"><c r="A1" s="1"/><c s="1"/></row></sheetData><mergeCells><mergeCell ref="A1:B2"/></mergeCells></worksheet>`))
	f.Fuzz(func(t *testing.T, part []byte) {
		var s marks
		if err := (&marking{fills: []string{"", "#FF0000"}, left: 100}).scan(&s, part); err != nil && len(s.filled) > 100 {
			t.Errorf("%d fills", len(s.filled))
		}
		var b strings.Builder
		s.write(&b)
		if strings.Contains(b.String(), "\r") {
			t.Errorf("%q", b.String())
		}
	})
}
