package tools

import (
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

// readAny checks what holds of every document, whatever the bytes.
func readAny(t *testing.T, c Reader, src source) {
	doc, err := c.convert(t.Context(), src)
	if err != nil {
		if text := err.Error(); text == "" || doc.text != "" || !utf8.ValidString(text) || strings.ContainsAny(text, "\n\r\x00") {
			t.Errorf("%d bytes of text with error %q", len(doc.text), text)
		}
		return
	}
	if !utf8.ValidString(doc.text) || strings.ContainsAny(doc.text, "\x00\r") || len(doc.text) > maxDocument || doc.kind == "" {
		t.Errorf("%s: %d bytes, valid %v", doc.kind, len(doc.text), utf8.ValidString(doc.text))
	}
	if pages := paginate(doc.text); strings.Join(pages, "") != doc.text {
		t.Error("the pages are not the text")
	}
	doc.show(src.name, 1, "a")
}

func FuzzText(f *testing.F) {
	for _, seed := range []string{"a,b\n1,\"2\n", "a;b\r\n\"x\"\"y\";2", "caf\xe9", "\xff\xfea\x00", "\ufeffx", `{"a":[1,2]}`, "<html><table><tr><td colspan=3>x", "<!doctype html><p>&amp;<script>", "\x1b(J", "+AGE-"} {
		for _, name := range []string{"a.csv", "a.tsv", "a.json", "a.txt"} {
			f.Add(name, "", []byte(seed))
		}
		f.Add("a", "text/html; charset=shift_jis", []byte(seed))
	}
	f.Fuzz(func(t *testing.T, name, contentType string, data []byte) {
		src := source{name: name, contentType: contentType, data: data}
		if contentType != "" {
			src.base = &url.URL{Scheme: "http", Host: "a.example", Path: "/"}
		}
		readAny(t, Reader{}, src)
	})
}

func FuzzPDF(f *testing.F) {
	f.Add(makePDF("a", "b (c\\) d"))
	f.Add(onePage("BT /F1 10 Tf [(a) -500 <62>] TJ T* (c) ' ET BI ID \x00 EI q Q 1 0 0 1 5 5 cm", ""))
	f.Add(lockedPDF())
	f.Add(xrefStream("/Size 3", []byte{0, 0, 0, 0, 1, 0, 9, 0, 2, 0, 1, 0}, "1 0 obj\n<< /Pages 2 0 R >>\nendobj\n"))
	c := child(f, "child-tight")
	f.Fuzz(func(t *testing.T, data []byte) { readAny(t, c, source{name: "a.pdf", data: data}) })
}

// FuzzPageContents fuzzes what is packed inside a page, where whole-file
// mutations seldom get.
func FuzzPageContents(f *testing.F) {
	f.Add([]byte("BT /F1 10 Tf 72 700 Td [(a) -500 <62>] TJ ET"))
	f.Add([]byte("q 2 0 0 2 5 5 cm BT 7 TL /F1 1 Tf 1 2 3 (a) \" (b) ' T* 5 Tz 1 Tc 2 Tw 1 0 0 1 0 0 Tm 1 1 TD <00410042> Tj ET Q Q"))
	c := child(f, "child-tight") // the library does not end on a page that breaks off inside <…
	f.Fuzz(func(t *testing.T, contents []byte) {
		for _, font := range []string{"<< /Type /Font /Subtype /Type1 >>", "<< /Type /Font /Subtype /Type0 /Encoding /Identity-H /DescendantFonts [<< /W [1 [700 200] 3 9 400 -5 99999999 1 7] >>] >>"} {
			readAny(t, c, source{name: "a.pdf", data: onePage(string(contents), "", font)})
		}
	})
}

func FuzzSheets(f *testing.F) {
	f.Add([]byte(`<row r="1"><c r="A1"><v>1</v></c><c r="B1" t="s"><v>0</v></c><c r="C1"><f>SUM(A1:B1)</f></c></row>`))
	f.Add([]byte(`<row r="3"><c><f t="shared" ref="A1:B9" si="0">A1+1</f></c><c s="9" t="b"><v>1</v></c></row>`))
	f.Add([]byte(`<row r="1"><c r="B1" t="inlineStr"><is><t>x</t></is></c><c r="A1" t="d"><v>2031-01-01</v></c></row></sheetData><mergeCells><mergeCell ref="A1:B1"/></mergeCells><sheetData>`))
	c := child(f, "child-tight")
	f.Fuzz(func(t *testing.T, rows []byte) {
		readAny(t, c, source{name: "a.xlsx", data: sheetXML(t, string(rows))})
	})
}
