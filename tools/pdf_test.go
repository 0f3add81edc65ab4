package tools

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"fmt"
	"strings"
	"testing"
)

// pdfFile writes a file of numbered objects with a table of where they are.
func pdfFile(trailer string, objects ...string) []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.4\n")
	offsets := make([]int, len(objects))
	for i, o := range objects {
		offsets[i] = b.Len()
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	at := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, o := range offsets {
		fmt.Fprintf(&b, "%010d 00000 n \n", o)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, trailer, at)
	return b.Bytes()
}

func pdfStreamObject(dict, content string) string {
	return fmt.Sprintf("<< /Length %d %s >>\nstream\n%s\nendstream", len(content), dict, content)
}

func deflate(s string) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write([]byte(s)) // a bytes.Buffer does not fail
	_ = z.Close()
	return b.String()
}

// deflated is a zlib stream that unpacks to head and n times chunk. Packing it
// takes no longer than packing chunk once.
func deflated(head, chunk string, n int) string {
	var b bytes.Buffer
	b.WriteString("\x78\x9c")
	pack := func(s string) {
		z, _ := flate.NewWriter(&b, flate.BestCompression)
		_, _ = z.Write([]byte(s)) // a bytes.Buffer does not fail
		_ = z.Flush()
	}
	pack(head)
	before := b.Len()
	pack(chunk)
	packed := b.String()[before:]
	return b.String() + strings.Repeat(packed, n-1) + "\x03\x00"
}

// onePage is a file with one page of the given contents; objects 4 and on are
// free, 4 being the font F1.
func onePage(contents, resources string, more ...string) []byte {
	if len(more) == 0 {
		more = []string{"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"}
	}
	return pdfFile("", append([]string{
		"<< /Type /Catalog /Pages 2 0 R >>",
		"<< /Type /Pages /Kids [3 0 R] /Count 1 /Resources << /Font << /F1 4 0 R >> " + resources + " >> >>",
		fmt.Sprintf("<< /Type /Page /Parent 2 0 R /Contents %d 0 R >>", 4+len(more)),
	}, append(more, pdfStreamObject("", contents))...)...)
}

// makePDF is a file with a page for each text, one line each.
func makePDF(pages ...string) []byte {
	objects := []string{"<< /Type /Catalog /Pages 2 0 R >>", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"}
	kids := ""
	for _, text := range pages {
		n := len(objects) + 1
		objects = append(objects, fmt.Sprintf("<< /Type /Page /Parent 2 0 R /Contents %d 0 R >>", n+1),
			pdfStreamObject("/Filter /FlateDecode", deflate("BT /F1 12 Tf 72 720 Td ("+text+") Tj ET")))
		kids += fmt.Sprintf("%d 0 R ", n)
	}
	objects[1] = fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d /Resources << /Font << /F1 3 0 R >> >> >>", kids, len(pages))
	return pdfFile("", objects...)
}

// lockedPDF asks for a password.
func lockedPDF() []byte {
	return pdfFile("/ID [(a) (a)] /Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O ("+strings.Repeat("o", 32)+") /U ("+strings.Repeat("u", 32)+") >>",
		"<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [] /Count 0 >>")
}

func TestPDF(t *testing.T) {
	toUnicode := pdfStreamObject("", "1 begincodespacerange <0000> <ffff> endcodespacerange 1 beginbfchar <0001> <0048> endbfchar "+
		"2 beginbfrange <0002> <0003> <0069> <0010> <0011> [<d83dde00> <20ac>] endbfrange")
	tests := []struct {
		name string
		data []byte
		want string
	}{
		{"pages", makePDF("first", "second"), "[pdf page 1 of 2]\nfirst\n[pdf page 2 of 2]\nsecond\n"},
		{"no text", makePDF("", "words"), "[pdf page 1 of 2: no text]\n[pdf page 2 of 2]\nwords\n"},
		{"lines", onePage("BT /F1 10 Tf 14 TL 72 700 Td (one) Tj T* (two) Tj (three) ' 0 -40 Td (four) Tj ET", ""), "one\ntwo\nthree\n\nfour\n"},
		{"order and columns", onePage("BT /F1 10 Tf 1 0 0 1 200 700 Tm (Price) Tj 1 0 0 1 72 700 Tm (Item) Tj 1 0 0 1 200 686 Tm (4.50) Tj 1 0 0 1 72 686 Tm (Rope) Tj ET", ""),
			"Item                     Price\nRope                     4.50\n"},
		{"kerning", onePage("BT /F1 10 Tf 72 700 Td [(W) 80 (ord) -300 (gap) -2000 (column)] TJ ET", ""), "Word gap   column\n"},
		{"escapes", onePage(`BT /F1 10 Tf 72 700 Td (a\(b\) \101 caf\351 (in) \
x) Tj <20 8 0> Tj ET`, ""), "a(b) A café (in) x €\n"},
		{"inline image", onePage("BT /F1 10 Tf 72 700 Td (before) Tj ET BI /W 2 /H 1 ID \x01\xff EI BT /F1 10 Tf 72 680 Td (after) Tj ET", ""), "before\n\nafter\n"},
		{"inline image that looks like text", onePage("BT /F1 10 Tf 72 700 Td (before) Tj ET BI /W 2 /H 1 ID \x01> EI BT /F1 10 Tf 72 680 Td (after) Tj ET", ""),
			"[pdf page 1 of 1: not wholly readable: unexpected delimiter '>']\nbefore\n"},
		{"differences", onePage("BT /F1 10 Tf 72 700 Td (AcB) Tj ET", "", "<< /Type /Font /Subtype /Type1 /Encoding << /Differences [65 /eacute 66 /fi] >> >>"), "écﬁ\n"},
		{"to unicode", onePage("BT /F1 10 Tf 72 700 Td <000100020003001000110099> Tj ET", "",
			"<< /Type /Font /Subtype /Type0 /Encoding /Identity-H /ToUnicode 5 0 R /DescendantFonts [<< /DW 500 /W [1 [700 200] 3 9 400] >>] >>", toUnicode), "Hij😀€\ufffd\n"},
		{"form", onePage("/X1 Do /X1 Do", "/XObject << /X1 5 0 R >>", "<< /Type /Font /Subtype /Type1 >>",
			pdfStreamObject("/Subtype /Form /Matrix [1 0 0 1 0 100]", "BT /F1 10 Tf 72 600 Td (formed) Tj ET")), "formedformed\n"},
		{"form in itself", onePage("/X1 Do", "/XObject << /X1 5 0 R >>", "<< /Type /Font /Subtype /Type1 >>",
			pdfStreamObject("/Subtype /Form", "BT /F1 10 Tf 72 600 Td (x) Tj ET /X1 Do")), "xxxxxxxxxx\n"},
		{"before and after", append(append([]byte("HTTP junk\n"), makePDF("mended")...), "\n\x00trailing"...), "mended\n"},
		{"version 2", bytes.Replace(makePDF("new"), []byte("%PDF-1.4"), []byte("%PDF-2.0"), 1), "new\n"},
		{"page that breaks off", bytes.Replace(makePDF("gone", "there"), []byte("/FlateDecode"), []byte("/LZWDecode  "), 1), "[pdf page 1 of 2: not wholly readable: unknown filter LZWDecode]\n[pdf page 2 of 2]\nthere\n"},
		{"nothing but nesting", onePage(strings.Repeat("[", 100000)+strings.Repeat("<<", 100000)+"BT /F1 10 Tf 72 700 Td (deep) Tj ET", ""), "deep\n"},
	}
	for _, test := range tests {
		doc, err := Reader{}.convert(t.Context(), source{name: "a.pdf", data: test.data})
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		want := test.want
		if !strings.HasPrefix(want, "[pdf") {
			want = "[pdf page 1 of 1]\n" + want
		}
		if doc.kind != "pdf" || doc.text != want {
			t.Errorf("%s: %q, want %q", test.name, doc.text, want)
		}
	}
	doc, err := Reader{}.convert(t.Context(), source{data: makePDF("", "")})
	if err != nil || fmt.Sprint(doc.notes) != "[2 pages none with text: they are probably pictures]" {
		t.Errorf("pictures only: %q, %v", doc.notes, err)
	}
}

// xrefStream is a file whose table is a stream, with entries of type, offset and
// index as it has them.
func xrefStream(dict string, entries []byte, objects string) []byte {
	head := "%PDF-1.5\n" + objects
	return fmt.Appendf(nil, "%s99 0 obj\n<< /Type /XRef /W [1 2 1] /Root 1 0 R /Length %d %s >>\nstream\n%s\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n",
		head, len(entries), dict, entries, len(head))
}
