package document

import (
	"bytes"
	"fmt"
	"github.com/gaia-harness/gaia/internal/testkit/files"
	"strings"
	"testing"
)

func TestPDF(t *testing.T) {
	toUnicode := files.PdfStreamObject("", "1 begincodespacerange <0000> <ffff> endcodespacerange 1 beginbfchar <0001> <0048> endbfchar "+
		"2 beginbfrange <0002> <0003> <0069> <0010> <0011> [<d83dde00> <20ac>] endbfrange")
	tests := []struct {
		name string
		data []byte
		want string
	}{
		{"pages", files.MakePDF("first", "second"), "[pdf page 1 of 2]\nfirst\n[pdf page 2 of 2]\nsecond\n"},
		{"no text", files.MakePDF("", "words"), "[pdf page 1 of 2: no text]\n[pdf page 2 of 2]\nwords\n"},
		{"lines", files.OnePage("BT /F1 10 Tf 14 TL 72 700 Td (one) Tj T* (two) Tj (three) ' 0 -40 Td (four) Tj ET", ""), "one\ntwo\nthree\n\nfour\n"},
		{"order and columns", files.OnePage("BT /F1 10 Tf 1 0 0 1 200 700 Tm (Price) Tj 1 0 0 1 72 700 Tm (Item) Tj 1 0 0 1 200 686 Tm (4.50) Tj 1 0 0 1 72 686 Tm (Rope) Tj ET", ""),
			"Item                     Price\nRope                     4.50\n"},
		{"kerning", files.OnePage("BT /F1 10 Tf 72 700 Td [(W) 80 (ord) -300 (gap) -2000 (column)] TJ ET", ""), "Word gap   column\n"},
		{"escapes", files.OnePage(`BT /F1 10 Tf 72 700 Td (a\(b\) \101 caf\351 (in) \
x) Tj <20 8 0> Tj ET`, ""), "a(b) A café (in) x €\n"},
		{"inline image", files.OnePage("BT /F1 10 Tf 72 700 Td (before) Tj ET BI /W 2 /H 1 ID \x01\xff EI BT /F1 10 Tf 72 680 Td (after) Tj ET", ""), "before\n\nafter\n"},
		{"inline image that looks like text", files.OnePage("BT /F1 10 Tf 72 700 Td (before) Tj ET BI /W 2 /H 1 ID \x01> EI BT /F1 10 Tf 72 680 Td (after) Tj ET", ""),
			"[pdf page 1 of 1: not wholly readable: unexpected delimiter '>']\nbefore\n"},
		{"differences", files.OnePage("BT /F1 10 Tf 72 700 Td (AcB) Tj ET", "", "<< /Type /Font /Subtype /Type1 /Encoding << /Differences [65 /eacute 66 /fi] >> >>"), "écﬁ\n"},
		{"to unicode", files.OnePage("BT /F1 10 Tf 72 700 Td <000100020003001000110099> Tj ET", "",
			"<< /Type /Font /Subtype /Type0 /Encoding /Identity-H /ToUnicode 5 0 R /DescendantFonts [<< /DW 500 /W [1 [700 200] 3 9 400] >>] >>", toUnicode), "Hij😀€\ufffd\n"},
		{"form", files.OnePage("/X1 Do /X1 Do", "/XObject << /X1 5 0 R >>", "<< /Type /Font /Subtype /Type1 >>",
			files.PdfStreamObject("/Subtype /Form /Matrix [1 0 0 1 0 100]", "BT /F1 10 Tf 72 600 Td (formed) Tj ET")), "formedformed\n"},
		{"form in itself", files.OnePage("/X1 Do", "/XObject << /X1 5 0 R >>", "<< /Type /Font /Subtype /Type1 >>",
			files.PdfStreamObject("/Subtype /Form", "BT /F1 10 Tf 72 600 Td (x) Tj ET /X1 Do")), "xxxxxxxxxx\n"},
		{"before and after", append(append([]byte("HTTP junk\n"), files.MakePDF("repaired")...), "\n\x00trailing"...), "repaired\n"},
		{"version 2", bytes.Replace(files.MakePDF("new"), []byte("%PDF-1.4"), []byte("%PDF-2.0"), 1), "new\n"},
		{"page that breaks off", bytes.Replace(files.MakePDF("gone", "there"), []byte("/FlateDecode"), []byte("/LZWDecode  "), 1), "[pdf page 1 of 2: not wholly readable: unknown filter LZWDecode]\n[pdf page 2 of 2]\nthere\n"},
		{"nothing but nesting", files.OnePage(strings.Repeat("[", 100000)+strings.Repeat("<<", 100000)+"BT /F1 10 Tf 72 700 Td (deep) Tj ET", ""), "deep\n"},
	}
	for _, test := range tests {
		doc, err := Reader{}.Read(t.Context(), Source{Name: "a.pdf", Data: test.data})
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		want := test.want
		if !strings.HasPrefix(want, "[pdf") {
			want = "[pdf page 1 of 1]\n" + want
		}
		if doc.Kind != "pdf" || doc.Text != want {
			t.Errorf("%s: %q, want %q", test.name, doc.Text, want)
		}
	}
	doc, err := Reader{}.Read(t.Context(), Source{Data: files.MakePDF("", "")})
	if err != nil || fmt.Sprint(doc.Notes) != "[2 pages none with text: they are probably pictures]" {
		t.Errorf("pictures only: %q, %v", doc.Notes, err)
	}
}
