// Package files makes the documents, pictures and recordings that tests of tools read: good ones, damaged ones, and ones
// that claim too much.
//
// Office files are zip archives written part by part, so that a test can give any part any content. Bombs claim sizes
// that they do not have, or unfold to many times their size. Everything is invented. Only tests import this package.
package files

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"github.com/xuri/excelize/v2"
	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
	"hash/crc32"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

const (
	WordSpaces  = `xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"`
	odfSpaces   = `xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0" xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:presentation="urn:oasis:names:tc:opendocument:xmlns:presentation:1.0"`
	relationsOf = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"
)

var (
	Red    = color.RGBA{220, 30, 30, 255}
	Green  = color.RGBA{30, 200, 30, 255}
	blue   = color.RGBA{30, 30, 220, 255}
	yellow = color.RGBA{230, 220, 40, 255}
)

// Raw is a member as it is to stand in a zip.
type Raw struct {
	Name, Data string
	Mode       fs.FileMode
	Flags      uint16
}

func ZipOf(t testing.TB, all ...Raw) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, m := range all {
		h := &zip.FileHeader{Name: m.Name, Method: zip.Deflate}
		h.SetMode(m.Mode | 0o644)
		if strings.HasSuffix(m.Name, "/") {
			h.Method = zip.Store
		}
		w, err := z.CreateHeader(h)
		check(t, err)
		_, err = w.Write([]byte(m.Data))
		check(t, err)
		h.Flags |= m.Flags // into the directory, which is what readers go by
	}
	check(t, z.Close())
	return b.Bytes()
}

func TarOf(t testing.TB, all ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range all {
		data := h.Linkname
		if h.Typeflag == tar.TypeReg {
			h.Linkname, h.Size = "", int64(len(data))
		}
		check(t, w.WriteHeader(h))
		if h.Typeflag == tar.TypeReg {
			_, err := w.Write([]byte(data))
			check(t, err)
		}
	}
	check(t, w.Close())
	return b.Bytes()
}

func GzipOf(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(data)
	check(t, err)
	check(t, w.Close())
	return b.Bytes()
}

// RelationsPart writes relations given as id, kind and target; addresses are
// outside.
func RelationsPart(all ...string) []byte {
	var b strings.Builder
	b.WriteString(`<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">`)
	for i := 0; i < len(all); i += 3 {
		mode := ""
		if strings.Contains(all[i+2], "://") {
			mode = ` TargetMode="External"`
		}
		fmt.Fprintf(&b, `<Relationship Id="%s" Type="%s%s" Target="%s"%s/>`, all[i], relationsOf, all[i+1], all[i+2], mode)
	}
	return []byte(b.String() + "</Relationships>")
}

// DocxOf is a docx with a body and more parts.
func DocxOf(t testing.TB, body string, more map[string][]byte) []byte {
	files := map[string][]byte{
		"_rels/.rels":       RelationsPart("rId1", "officeDocument", "word/document.xml"),
		"word/document.xml": []byte(`<w:document ` + WordSpaces + `><w:body>` + body + `</w:body></w:document>`),
	}
	for name, data := range more {
		files[name] = data
	}
	return MakeZip(t, files)
}

// MakeDocx is a docx with what a reader must not miss.
func MakeDocx(t testing.TB) []byte {
	word := func(element, body string) []byte {
		return []byte("<w:" + element + " " + WordSpaces + ">" + body + "</w:" + element + ">")
	}
	run := func(text string) string { return `<w:r><w:t xml:space="preserve">` + text + `</w:t></w:r>` }
	item := func(level int, text string) string {
		return fmt.Sprintf(`<w:p><w:pPr><w:numPr><w:ilvl w:val="%d"/><w:numId w:val="1"/></w:numPr></w:pPr>%s</w:p>`, level, run(text))
	}
	cell := func(text string) string { return "<w:tc><w:p>" + run(text) + "</w:p></w:tc>" }
	body := `<w:p><w:pPr><w:pStyle w:val="Kop1"/></w:pPr>` + run("Harbour dues") + `</w:p>` +
		`<w:p>` + run("Paid in ") + `<w:r><w:t>Hask</w:t><w:tab/><w:t>now</w:t><w:footnoteReference w:id="2"/><w:commentReference w:id="0"/></w:r>` +
		`<w:r><w:rPr><w:vanish/></w:rPr><w:t>not shown</w:t></w:r><w:r><w:rPr><w:vanish w:val="0"/></w:rPr><w:t> shown</w:t></w:r>` +
		`<w:del><w:r><w:delText>old</w:delText></w:r></w:del><w:ins>` + run("new") + `</w:ins></w:p>` +
		`<w:p><w:hyperlink r:id="rLink">` + run("the tariff") + `</w:hyperlink><w:r><w:instrText> HYPERLINK "http://two.example/" </w:instrText></w:r></w:p>` +
		item(0, "first") + item(1, "below") + item(1, "below too") + item(0, "second") +
		`<w:tbl><w:tblPr/><w:tr>` + cell("berth") + cell("a|b") + `</w:tr><w:tr><w:tc><w:tcPr><w:gridSpan w:val="2"/></w:tcPr><w:p>` + run("one") + `</w:p><w:p>` + run("two") + `</w:p></w:tc>` + cell("x") + `</w:tr></w:tbl>` +
		`<w:p><w:r><mc:AlternateContent><mc:Choice Requires="wps"><w:drawing><w:txbxContent><w:p>` + run("boxed") + `</w:p></w:txbxContent></w:drawing></mc:Choice><mc:Fallback><w:pict><w:txbxContent><w:p>` + run("boxed") + `</w:p></w:txbxContent></w:pict></mc:Fallback></mc:AlternateContent></w:r></w:p>` +
		`<w:p><w:r><w:drawing><w:docPr id="1" descr="a red lamp"/><a:blip r:embed="rPicture"/></w:drawing></w:r></w:p>` +
		`<w:p><m:oMath><m:f><m:num><m:r><m:t>1</m:t></m:r></m:num><m:den><m:r><m:t>x</m:t></m:r></m:den></m:f><m:sSup><m:e><m:r><m:t>y</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup><m:d><m:dPr><m:endChr m:val="]"/></m:dPr><m:e><m:r><m:t>a</m:t></m:r></m:e><m:e><m:r><m:t>b</m:t></m:r></m:e></m:d><m:nary><m:naryPr><m:chr m:val="∑"/></m:naryPr><m:sub><m:r><m:t>i</m:t></m:r></m:sub><m:sup><m:r><m:t>n</m:t></m:r></m:sup><m:e><m:r><m:t>i</m:t></m:r></m:e></m:nary></m:oMath></w:p>`
	return DocxOf(t, body, map[string][]byte{
		"word/_rels/document.xml.rels": RelationsPart("rS", "styles", "styles.xml", "rN", "numbering", "numbering.xml", "rF", "footnotes", "/word/footnotes.xml",
			"rC", "comments", "comments.xml", "rH", "header", "header1.xml", "rLink", "hyperlink", "http://tariff.example/a?b=1&amp;c=2", "rPicture", "image", "media/image1.png"),
		"word/styles.xml": word("styles", `<w:style w:styleId="Base"><w:name w:val="heading 2"/></w:style><w:style w:styleId="Kop1"><w:name w:val="own"/><w:basedOn w:val="Base"/></w:style>`),
		"word/numbering.xml": word("numbering", `<w:abstractNum w:abstractNumId="7"><w:lvl w:ilvl="0"><w:start w:val="3"/><w:numFmt w:val="upperRoman"/><w:lvlText w:val="%1."/></w:lvl>`+
			`<w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="%1.%2)"/></w:lvl></w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>`),
		"word/footnotes.xml":    word("footnotes", `<w:footnote w:id="0" w:type="separator"><w:p>`+run("never")+`</w:p></w:footnote><w:footnote w:id="2"><w:p>`+run("in coin")+`</w:p></w:footnote>`),
		"word/comments.xml":     word("comments", `<w:comment w:id="0" w:author="Bo Quill" w:date="2031-01-02T00:00:00Z"><w:p>`+run("check this")+`</w:p></w:comment>`),
		"word/header1.xml":      word("hdr", "<w:p>"+run("Port of Hask")+"</w:p>"),
		"word/media/image1.png": []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"),
	})
}

// SlidePart is a slide with shapes.
func SlidePart(root, attrs, shapes string) []byte {
	return []byte(`<p:` + root + ` ` + WordSpaces + ` ` + attrs + `><p:cSld><p:spTree>` + shapes + `</p:spTree></p:cSld></p:` + root + `>`)
}

func shapeOf(kind, text string) string {
	return `<p:sp><p:nvSpPr><p:cNvPr id="1"/><p:nvPr><p:ph type="` + kind + `"/></p:nvPr></p:nvSpPr><p:txBody><a:p><a:pPr lvl="0"/><a:r><a:t>` + text + `</a:t></a:r></a:p></p:txBody></p:sp>`
}

// MakePptx is a presentation whose slides are shown in another order than their
// MakePptx are numbered.
func MakePptx(t testing.TB) []byte {
	table := `<p:graphicFrame><a:graphic><a:graphicData><a:tbl><a:tr><a:tc><a:txBody><a:p><a:r><a:t>c1</a:t></a:r></a:p></a:txBody></a:tc><a:tc><a:txBody><a:p><a:r><a:t>c2</a:t></a:r></a:p></a:txBody></a:tc></a:tr></a:tbl></a:graphicData></a:graphic></p:graphicFrame>`
	grouped := `<p:grpSp><p:sp><p:nvSpPr><p:cNvPr id="1" hidden="1"/></p:nvSpPr><p:txBody><a:p><a:pPr lvl="1"/><a:r><a:rPr><a:hlinkClick r:id="rL"/></a:rPr><a:t>more</a:t></a:r><a:br/><a:r><a:t>here</a:t></a:r></a:p></p:txBody></p:sp></p:grpSp>`
	picture := `<p:pic><p:nvPicPr><p:cNvPr id="4" descr="a map"/></p:nvPicPr><p:blipFill><a:blip r:embed="rP"/></p:blipFill></p:pic>`
	return MakeZip(t, map[string][]byte{
		"_rels/.rels":                      RelationsPart("rId1", "officeDocument", "ppt/presentation.xml"),
		"ppt/presentation.xml":             []byte(`<p:presentation ` + WordSpaces + `><p:sldIdLst><p:sldId id="256" r:id="rB"/><p:sldId id="257" r:id="rA"/><p:sldId id="258" r:id="rGone"/></p:sldIdLst></p:presentation>`),
		"ppt/_rels/presentation.xml.rels":  RelationsPart("rA", "slide", "slides/slide1.xml", "rB", "slide", "slides/slide2.xml", "rGone", "slide", "slides/slide9.xml"),
		"ppt/slides/slide1.xml":            SlidePart("sld", `show="0"`, shapeOf("body", "the part numbered one")),
		"ppt/slides/slide2.xml":            SlidePart("sld", "", shapeOf("ctrTitle", "Opening")+table+grouped+picture),
		"ppt/slides/_rels/slide2.xml.rels": RelationsPart("rN", "notesSlide", "../notesSlides/notesSlide1.xml", "rL", "hyperlink", "http://more.example/", "rP", "image", "../media/image7.jpeg", "rC", "comments", "../comments/comment1.xml"),
		"ppt/notesSlides/notesSlide1.xml":  SlidePart("notes", "", shapeOf("sldNum", "1")+shapeOf("body", "say it slowly")),
		"ppt/comments/comment1.xml":        []byte(`<p:cmLst ` + WordSpaces + `><p:cm authorId="0"><p:text>shorter!</p:text></p:cm></p:cmLst>`),
		"ppt/media/image7.jpeg":            []byte("\xff\xd8\xff\xe0"),
	})
}

func OdfOf(t testing.TB, kind, styles, body string) []byte {
	return MakeZip(t, map[string][]byte{
		"mimetype":    []byte("application/vnd.oasis.opendocument." + kind),
		"content.xml": []byte(`<office:document-content ` + odfSpaces + `><office:automatic-styles>` + styles + `</office:automatic-styles><office:body>` + body + `</office:body></office:document-content>`),
		"styles.xml":  []byte(`<office:document-styles ` + odfSpaces + `><style:master-page><style:footer><text:p>at the foot</text:p></style:footer></style:master-page></office:document-styles>`),
	})
}

func MakeODT(t testing.TB) []byte {
	return OdfOf(t, "text", `<style:style style:name="T1"><style:text-properties text:display="none"/></style:style>`, `<office:text>`+
		`<text:tracked-changes><text:changed-region><text:deletion><office:change-info><dc:creator>Bo</dc:creator></office:change-info><text:p>taken out</text:p></text:deletion></text:changed-region></text:tracked-changes>`+
		`<text:h text:outline-level="2">Tides</text:h><text:p>High`+"\n   "+`at<text:s text:c="3"/>noon<text:note text:note-class="footnote"><text:note-citation>1</text:note-citation><text:note-body><text:p>local time</text:p></text:note-body></text:note>`+
		`<office:annotation><dc:creator>Bo Quill</dc:creator><dc:date>2031-01-02</dc:date><text:p>sure?</text:p></office:annotation><text:span text:style-name="T1">secret</text:span> <text:a xlink:href="http://tide.example/">table</text:a></text:p>`+
		`<text:list><text:list-item><text:p>one</text:p><text:list><text:list-item><text:p>under</text:p></text:list-item></text:list></text:list-item><text:list-item><text:p>two</text:p></text:list-item></text:list>`+
		`<table:table><table:table-row><table:table-cell><text:p>a</text:p><text:p>b</text:p></table:table-cell><table:table-cell/><table:table-cell><text:p>c</text:p></table:table-cell></table:table-row></table:table>`+
		`<text:p><draw:frame><draw:image xlink:href="Pictures/p.png"/></draw:frame><draw:frame><draw:text-box><text:p>boxed</text:p></draw:text-box></draw:frame></text:p></office:text>`)
}

func MakeODP(t testing.TB) []byte {
	return OdfOf(t, "presentation", `<style:style style:name="d1"><style:drawing-page-properties presentation:visibility="hidden"/></style:style>`, `<office:presentation>`+
		`<draw:page><draw:frame presentation:class="title"><draw:text-box><text:p>Opening</text:p></draw:text-box></draw:frame><presentation:notes><draw:frame><draw:text-box><text:p>say it</text:p></draw:text-box></draw:frame></presentation:notes></draw:page>`+
		`<draw:page draw:style-name="d1"><draw:custom-shape><text:p>shape</text:p></draw:custom-shape></draw:page></office:presentation>`)
}

func MakeODS(t testing.TB) []byte {
	return OdfOf(t, "spreadsheet", "", `<office:spreadsheet><table:table table:name="Dues"><table:table-row table:number-rows-repeated="2"><table:table-cell table:number-columns-repeated="16384"/></table:table-row>`+
		`<table:table-row><table:table-cell office:value="1.25" table:formula="of:=[.A1]*2"><text:p>$1</text:p></table:table-cell><table:table-cell table:number-columns-repeated="2"><text:p>x</text:p></table:table-cell></table:table-row>`+
		`<table:table-row table:number-rows-repeated="1048573"><table:table-cell table:number-columns-repeated="16384"><text:p>z</text:p></table:table-cell></table:table-row></table:table></office:spreadsheet>`)
}

func Swap(t testing.TB, data []byte, name string, part string) []byte {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	check(t, err)
	files := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		check(t, err)
		files[f.Name], err = io.ReadAll(r)
		check(t, err)
	}
	files[name] = []byte(part)
	return MakeZip(t, files)
}

// PdfFile writes a file of numbered objects with a table of where they are.
func PdfFile(trailer string, objects ...string) []byte {
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

func PdfStreamObject(dict, content string) string {
	return fmt.Sprintf("<< /Length %d %s >>\nstream\n%s\nendstream", len(content), dict, content)
}

func Deflate(s string) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write([]byte(s)) // a bytes.Buffer does not fail
	_ = z.Close()
	return b.String()
}

// Deflated is a zlib stream that unpacks to head and n times chunk. Packing it
// takes no longer than packing chunk once.
func Deflated(head, chunk string, n int) string {
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

// OnePage is a file with one page of the given contents; objects 4 and on are
// free, 4 being the font F1.
func OnePage(contents, resources string, more ...string) []byte {
	if len(more) == 0 {
		more = []string{"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"}
	}
	return PdfFile("", append([]string{
		"<< /Type /Catalog /Pages 2 0 R >>",
		"<< /Type /Pages /Kids [3 0 R] /Count 1 /Resources << /Font << /F1 4 0 R >> " + resources + " >> >>",
		fmt.Sprintf("<< /Type /Page /Parent 2 0 R /Contents %d 0 R >>", 4+len(more)),
	}, append(more, PdfStreamObject("", contents))...)...)
}

// MakePDF is a file with a page for each text, one line each.
func MakePDF(pages ...string) []byte {
	objects := []string{"<< /Type /Catalog /Pages 2 0 R >>", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"}
	kids := ""
	for _, text := range pages {
		n := len(objects) + 1
		objects = append(objects, fmt.Sprintf("<< /Type /Page /Parent 2 0 R /Contents %d 0 R >>", n+1),
			PdfStreamObject("/Filter /FlateDecode", Deflate("BT /F1 12 Tf 72 720 Td ("+text+") Tj ET")))
		kids += fmt.Sprintf("%d 0 R ", n)
	}
	objects[1] = fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d /Resources << /Font << /F1 3 0 R >> >> >>", kids, len(pages))
	return PdfFile("", objects...)
}

// lockedPDF asks for a password.
func LockedPDF() []byte {
	return PdfFile("/ID [(a) (a)] /Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O ("+strings.Repeat("o", 32)+") /U ("+strings.Repeat("u", 32)+") >>",
		"<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [] /Count 0 >>")
}

// XrefStream is a file whose table is a stream, with entries of type, offset and
// index as it has them.
func XrefStream(dict string, entries []byte, objects string) []byte {
	head := "%PDF-1.5\n" + objects
	return fmt.Appendf(nil, "%s99 0 obj\n<< /Type /XRef /W [1 2 1] /Root 1 0 R /Length %d %s >>\nstream\n%s\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n",
		head, len(entries), dict, entries, len(head))
}

// Quarters is a picture whose quarters are red, green, blue and yellow, in
// reading order.
func Quarters(w, h int) *image.RGBA {
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for i, c := range []color.Color{Red, Green, blue, yellow} {
		x, y := i%2*(w/2), i/2*(h/2)
		draw.Draw(m, image.Rect(x, y, w, h), image.NewUniform(c), image.Point{}, draw.Src)
	}
	return m
}

func Encoded(t testing.TB, write func(*bytes.Buffer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func AsPNG(t testing.TB, m image.Image) []byte {
	return Encoded(t, func(b *bytes.Buffer) error { return png.Encode(b, m) })
}

func AsJPEG(t testing.TB, m image.Image) []byte {
	return Encoded(t, func(b *bytes.Buffer) error { return jpeg.Encode(b, m, nil) })
}

func AsBMP(t testing.TB, m image.Image) []byte {
	return Encoded(t, func(b *bytes.Buffer) error { return bmp.Encode(b, m) })
}

func AsTIFF(t testing.TB, m image.Image) []byte {
	return Encoded(t, func(b *bytes.Buffer) error { return tiff.Encode(b, m, &tiff.Options{Compression: tiff.Deflate}) })
}

// AsGIF is a gif that moves: the picture, and then nothing but red.
func AsGIF(t testing.TB, m image.Image) []byte {
	colours := color.Palette{Red, Green, blue, yellow}
	first, second := image.NewPaletted(m.Bounds(), colours), image.NewPaletted(m.Bounds(), colours)
	draw.Draw(first, first.Bounds(), m, image.Point{}, draw.Src)
	return Encoded(t, func(b *bytes.Buffer) error {
		return gif.EncodeAll(b, &gif.GIF{Image: []*image.Paletted{first, second}, Delay: []int{1, 1}})
	})
}

// AsWebP is a lossless webp of one colour (red), of any size in 27 bytes.
func AsWebP(w, h int) []byte {
	var bits []byte
	n := 0
	put := func(v uint32, count int) {
		for i := range count {
			if n%8 == 0 {
				bits = append(bits, 0)
			}
			bits[n/8] |= byte(v>>i&1) << (n % 8)
			n++
		}
	}
	put(0x2f, 8)
	put(uint32(w-1), 14)
	put(uint32(h-1), 14)
	put(0, 4) // alpha is not used; version 0
	put(0, 3) // no transform, no colour cache, one group of codes
	for _, v := range []uint8{Red.G, Red.R, Red.B, 255} {
		put(0b101, 3) // a code of one symbol, which takes no bits
		put(uint32(v), 8)
	}
	put(0b001, 4) // distances: the symbol 0
	if len(bits)%2 == 1 {
		bits = append(bits, 0)
	}
	b := append([]byte("RIFF"), binary.LittleEndian.AppendUint32(nil, uint32(12+len(bits)))...)
	b = append(b, "WEBPVP8L"...)
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(bits))), bits...)
}

// Noise is a picture that no encoder makes small.
func Noise(w, h int) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	_, _ = rand.NewChaCha8([32]byte{}).Read(m.Pix)
	for i := 3; i < len(m.Pix); i += 4 {
		m.Pix[i] = 255
	}
	return m
}

// WithExif is a jpeg that says how it is to be turned.
func WithExif(jpeg []byte, tiff []byte) []byte {
	segment := append([]byte("Exif\x00\x00"), tiff...)
	b := append([]byte("\xff\xd8\xff\xff\xe1"), binary.BigEndian.AppendUint16(nil, uint16(2+len(segment)))...)
	return append(append(b, segment...), jpeg[2:]...)
}

// Tags is the head of a tiff with entries of one number each, and behind it rest.
func Tags(order binary.AppendByteOrder, entries [][2]int, rest string) []byte {
	b := []byte("II*\x00")
	if order.String() == binary.BigEndian.String() {
		b = []byte("MM\x00*")
	}
	b = order.AppendUint32(b, 8)
	b = order.AppendUint16(b, uint16(len(entries)))
	for _, e := range entries {
		b = order.AppendUint16(b, uint16(e[0]))
		b = order.AppendUint16(b, 3)
		b = order.AppendUint32(b, 1)
		b = order.AppendUint16(b, uint16(e[1]))
		b = append(b, 0, 0)
	}
	return append(append(b, 0, 0, 0, 0), rest...)
}

// PngOf is the head of a png that claims a size.
func PngOf(w, h uint32) []byte {
	b := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR")
	b = binary.BigEndian.AppendUint32(b, w)
	b = binary.BigEndian.AppendUint32(b, h)
	b = append(b, 8, 0, 0, 0, 0)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[12:]))
}

// Scanned is a pdf file whose one page is a picture, red but for a corner.
func Scanned(t testing.TB) []byte {
	t.Helper()
	picture := PdfStreamObject("/Type /XObject /Subtype /Image /Width 2 /Height 2 /ColorSpace /DeviceRGB /BitsPerComponent 8",
		"\xff\x00\x00\xff\x00\x00\xff\x00\x00\x00\x00\xff")
	return bytes.Replace(OnePage("q 200 0 0 200 0 0 cm /I1 Do Q", "/XObject << /I1 5 0 R >>", "<< /Type /Font /Subtype /Type1 >>", picture),
		[]byte("/Count 1"), []byte("/Count 1 /MediaBox [0 0 200 200]"), 1)
}

// PdfOf is a file of one page of a size.
func PdfOf(box string) []byte {
	return bytes.Replace(MakePDF("here"), []byte("/Count 1"), []byte("/Count 1 /MediaBox ["+box+"]"), 1)
}

// MakeBook is a workbook with what a reader must not miss.
func MakeBook(t testing.TB) []byte {
	t.Helper()
	f := excelize.NewFile()
	defer f.Close()
	check(t, f.SetSheetName("Sheet1", "Stock"))
	check(t, f.SetSheetRow("Stock", "A1", &[]any{"Item", "Price", "Count", "Worth", "Since"}))
	check(t, f.SetSheetRow("Stock", "A2", &[]any{"Kettle\nred", 1234.5, 4, nil, time.Date(2031, 3, 9, 0, 0, 0, 0, time.UTC)}))
	check(t, f.SetSheetRow("Stock", "A4", &[]any{"Lamp", 0.125, 2, nil, time.Date(2031, 3, 9, 14, 30, 0, 0, time.UTC)}))
	for _, row := range []string{"2", "4"} {
		check(t, f.SetCellFormula("Stock", "D"+row, "B"+row+"*C"+row))
	}
	check(t, f.SetCellFormula("Stock", "D5", "SUM(D2:D4)"))
	check(t, f.SetCellFormula("Stock", "E5", "1/0"))
	money, date, minutes, nothing := `"$"#,##0.00`, "dd-mm-yy", "d/m/yyyy hh:mm", ";;;"
	for cell, style := range map[string]*excelize.Style{"B2": {CustomNumFmt: &money}, "B4": {NumFmt: 9}, "E2": {CustomNumFmt: &date}, "E4": {CustomNumFmt: &minutes}, "C4": {CustomNumFmt: &nothing}} {
		id, err := f.NewStyle(style)
		check(t, err)
		check(t, f.SetCellStyle("Stock", cell, cell, id))
	}
	_, err := f.NewSheet("Notes")
	check(t, err)
	check(t, f.SetCellValue("Notes", "C3", "the key is\tunder the mat"))
	check(t, f.SetSheetVisible("Notes", false))
	_, err = f.NewSheet("Empty")
	check(t, err)
	var b bytes.Buffer
	check(t, f.Write(&b))
	return b.Bytes()
}

// SheetXML is a workbook with one sheet of the given rows.
func SheetXML(t testing.TB, rows string) []byte {
	return MakeZip(t, map[string][]byte{
		"[Content_Types].xml":        []byte(`<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/></Types>`),
		"_rels/.rels":                []byte(`<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>`),
		"xl/_rels/workbook.xml.rels": []byte(`<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>`),
		"xl/workbook.xml":            []byte(`<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="S" sheetId="1" r:id="rId1"/></sheets></workbook>`),
		"xl/worksheets/sheet1.xml":   []byte(`<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>` + rows + `</sheetData></worksheet>`),
	})
}

func MakeZip(t testing.TB, files map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, data := range files {
		w, err := z.Create(name)
		check(t, err)
		_, err = w.Write(data)
		check(t, err)
	}
	check(t, z.Close())
	return b.Bytes()
}

// ZipBomb is a small workbook whose parts unpack to 128 MiB each and claim to
// unpack to claim bytes.
func ZipBomb(t testing.TB, claim uint64) []byte {
	return BombOf(t, claim, "xl/workbook.xml", "xl/worksheets/sheet1.xml")
}

func BombOf(t testing.TB, claim uint64, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	const chunk, times = 1 << 20, 128
	packed := Deflated("", strings.Repeat("\x00", chunk), times)[2:] // without zlib's header
	sum := crc32.NewIEEE()
	for range times {
		_, _ = sum.Write(make([]byte, chunk)) // a hash does not fail
	}
	for _, name := range names {
		w, err := z.CreateRaw(&zip.FileHeader{Name: name, Method: zip.Deflate, CRC32: sum.Sum32(), CompressedSize64: uint64(len(packed)), UncompressedSize64: claim})
		check(t, err)
		_, err = w.Write([]byte(packed))
		check(t, err)
	}
	check(t, z.Close())
	return b.Bytes()
}

// MakeWAV is a recording: so many samples of silence, 8 kHz, 8 bits.
func MakeWAV(samples int) []byte {
	b := []byte("RIFF")
	b = binary.LittleEndian.AppendUint32(b, uint32(36+samples))
	b = append(b, "WAVEfmt "...)
	b = binary.LittleEndian.AppendUint32(b, 16)
	b = binary.LittleEndian.AppendUint16(b, 1) // PCM
	b = binary.LittleEndian.AppendUint16(b, 1) // one channel
	b = binary.LittleEndian.AppendUint32(b, 8000)
	b = binary.LittleEndian.AppendUint32(b, 8000)
	b = binary.LittleEndian.AppendUint16(b, 1)
	b = binary.LittleEndian.AppendUint16(b, 8)
	b = append(b, "data"...)
	b = binary.LittleEndian.AppendUint32(b, uint32(samples))
	for range samples {
		b = append(b, 0x80)
	}
	return b
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Seen names the colours in the middle of each quarter, in reading order.
func Seen(m image.Image) string {
	var names []string
	b := m.Bounds()
	for i := range 4 {
		x, y := b.Min.X+b.Dx()*(1+i%2*2)/4, b.Min.Y+b.Dy()*(1+i/2*2)/4
		got, name := color.RGBAModel.Convert(m.At(x, y)).(color.RGBA), "?"
		for n, c := range map[string]color.RGBA{"red": Red, "green": Green, "blue": blue, "yellow": yellow, "white": {255, 255, 255, 255}} {
			if Near(got.R, c.R) && Near(got.G, c.G) && Near(got.B, c.B) && got.A == 255 {
				name = n
			}
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func Near(a, b uint8) bool { return max(a, b)-min(a, b) < 12 }

// inked reports whether there is anything but white.
func Inked(m image.Image) bool {
	b := m.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			if r, g, b, _ := m.At(x, y).RGBA(); r+g+b < 3*0x8000 {
				return true
			}
		}
	}
	return false
}
