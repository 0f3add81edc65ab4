package tools

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/long"
)

const (
	wordSpaces  = `xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"`
	odfSpaces   = `xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0" xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:presentation="urn:oasis:names:tc:opendocument:xmlns:presentation:1.0"`
	relationsOf = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"
)

// relationsPart writes relations given as id, kind and target; addresses are
// outside.
func relationsPart(all ...string) []byte {
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

// docxOf is a docx with a body and more parts.
func docxOf(t testing.TB, body string, more map[string][]byte) []byte {
	files := map[string][]byte{
		"_rels/.rels":       relationsPart("rId1", "officeDocument", "word/document.xml"),
		"word/document.xml": []byte(`<w:document ` + wordSpaces + `><w:body>` + body + `</w:body></w:document>`),
	}
	for name, data := range more {
		files[name] = data
	}
	return makeZip(t, files)
}

// makeDocx is a docx with what a reader must not miss.
func makeDocx(t testing.TB) []byte {
	word := func(element, body string) []byte {
		return []byte("<w:" + element + " " + wordSpaces + ">" + body + "</w:" + element + ">")
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
	return docxOf(t, body, map[string][]byte{
		"word/_rels/document.xml.rels": relationsPart("rS", "styles", "styles.xml", "rN", "numbering", "numbering.xml", "rF", "footnotes", "/word/footnotes.xml",
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

const wantDocx = `## Harbour dues
Paid in Hask	now[footnote 2][comment 0][hidden: not shown] shown[deleted: old]new
[the tariff](http://tariff.example/a?b=1&c=2)[link to http://two.example/]
III. first
  III.a) below
  III.b) below too
IV. second
| berth | a\|b |
| one\ntwo |  | x |
[text box: boxed]
[a red lamp][picture: word/media/image1.png]
(1)/(x)y ^(2)(a b )∑_(i)^(n)i

[footnotes]
[footnote 2]: in coin

[comments]
[comment 0] by Bo Quill, 2031-01-02T00:00:00Z: check this

[header]
Port of Hask
`

// slidePart is a slide with shapes.
func slidePart(root, attrs, shapes string) []byte {
	return []byte(`<p:` + root + ` ` + wordSpaces + ` ` + attrs + `><p:cSld><p:spTree>` + shapes + `</p:spTree></p:cSld></p:` + root + `>`)
}

func shapeOf(kind, text string) string {
	return `<p:sp><p:nvSpPr><p:cNvPr id="1"/><p:nvPr><p:ph type="` + kind + `"/></p:nvPr></p:nvSpPr><p:txBody><a:p><a:pPr lvl="0"/><a:r><a:t>` + text + `</a:t></a:r></a:p></p:txBody></p:sp>`
}

// makePptx is a presentation whose slides are shown in another order than their
// parts are numbered.
func makePptx(t testing.TB) []byte {
	table := `<p:graphicFrame><a:graphic><a:graphicData><a:tbl><a:tr><a:tc><a:txBody><a:p><a:r><a:t>c1</a:t></a:r></a:p></a:txBody></a:tc><a:tc><a:txBody><a:p><a:r><a:t>c2</a:t></a:r></a:p></a:txBody></a:tc></a:tr></a:tbl></a:graphicData></a:graphic></p:graphicFrame>`
	grouped := `<p:grpSp><p:sp><p:nvSpPr><p:cNvPr id="1" hidden="1"/></p:nvSpPr><p:txBody><a:p><a:pPr lvl="1"/><a:r><a:rPr><a:hlinkClick r:id="rL"/></a:rPr><a:t>more</a:t></a:r><a:br/><a:r><a:t>here</a:t></a:r></a:p></p:txBody></p:sp></p:grpSp>`
	picture := `<p:pic><p:nvPicPr><p:cNvPr id="4" descr="a map"/></p:nvPicPr><p:blipFill><a:blip r:embed="rP"/></p:blipFill></p:pic>`
	return makeZip(t, map[string][]byte{
		"_rels/.rels":                      relationsPart("rId1", "officeDocument", "ppt/presentation.xml"),
		"ppt/presentation.xml":             []byte(`<p:presentation ` + wordSpaces + `><p:sldIdLst><p:sldId id="256" r:id="rB"/><p:sldId id="257" r:id="rA"/><p:sldId id="258" r:id="rGone"/></p:sldIdLst></p:presentation>`),
		"ppt/_rels/presentation.xml.rels":  relationsPart("rA", "slide", "slides/slide1.xml", "rB", "slide", "slides/slide2.xml", "rGone", "slide", "slides/slide9.xml"),
		"ppt/slides/slide1.xml":            slidePart("sld", `show="0"`, shapeOf("body", "the part numbered one")),
		"ppt/slides/slide2.xml":            slidePart("sld", "", shapeOf("ctrTitle", "Opening")+table+grouped+picture),
		"ppt/slides/_rels/slide2.xml.rels": relationsPart("rN", "notesSlide", "../notesSlides/notesSlide1.xml", "rL", "hyperlink", "http://more.example/", "rP", "image", "../media/image7.jpeg", "rC", "comments", "../comments/comment1.xml"),
		"ppt/notesSlides/notesSlide1.xml":  slidePart("notes", "", shapeOf("sldNum", "1")+shapeOf("body", "say it slowly")),
		"ppt/comments/comment1.xml":        []byte(`<p:cmLst ` + wordSpaces + `><p:cm authorId="0"><p:text>shorter!</p:text></p:cm></p:cmLst>`),
		"ppt/media/image7.jpeg":            []byte("\xff\xd8\xff\xe0"),
	})
}

const wantPptx = `[slide 1 of 3]
# Opening
| c1 | c2 |
[hidden]   [more](http://more.example/)
here
[a map] [picture: ppt/media/image7.jpeg]

[speaker notes]
say it slowly
[comment: shorter!]

[slide 2 of 3 (hidden)]
the part numbered one

[slide 3 of 3: not readable: it is a pptx file without its part "ppt/slides/slide9.xml", so it is probably damaged]
`

func odfOf(t testing.TB, kind, styles, body string) []byte {
	return makeZip(t, map[string][]byte{
		"mimetype":    []byte("application/vnd.oasis.opendocument." + kind),
		"content.xml": []byte(`<office:document-content ` + odfSpaces + `><office:automatic-styles>` + styles + `</office:automatic-styles><office:body>` + body + `</office:body></office:document-content>`),
		"styles.xml":  []byte(`<office:document-styles ` + odfSpaces + `><style:master-page><style:footer><text:p>at the foot</text:p></style:footer></style:master-page></office:document-styles>`),
	})
}

func makeODT(t testing.TB) []byte {
	return odfOf(t, "text", `<style:style style:name="T1"><style:text-properties text:display="none"/></style:style>`, `<office:text>`+
		`<text:tracked-changes><text:changed-region><text:deletion><office:change-info><dc:creator>Bo</dc:creator></office:change-info><text:p>taken out</text:p></text:deletion></text:changed-region></text:tracked-changes>`+
		`<text:h text:outline-level="2">Tides</text:h><text:p>High`+"\n   "+`at<text:s text:c="3"/>noon<text:note text:note-class="footnote"><text:note-citation>1</text:note-citation><text:note-body><text:p>local time</text:p></text:note-body></text:note>`+
		`<office:annotation><dc:creator>Bo Quill</dc:creator><dc:date>2031-01-02</dc:date><text:p>sure?</text:p></office:annotation><text:span text:style-name="T1">secret</text:span> <text:a xlink:href="http://tide.example/">table</text:a></text:p>`+
		`<text:list><text:list-item><text:p>one</text:p><text:list><text:list-item><text:p>under</text:p></text:list-item></text:list></text:list-item><text:list-item><text:p>two</text:p></text:list-item></text:list>`+
		`<table:table><table:table-row><table:table-cell><text:p>a</text:p><text:p>b</text:p></table:table-cell><table:table-cell/><table:table-cell><text:p>c</text:p></table:table-cell></table:table-row></table:table>`+
		`<text:p><draw:frame><draw:image xlink:href="Pictures/p.png"/></draw:frame><draw:frame><draw:text-box><text:p>boxed</text:p></draw:text-box></draw:frame></text:p></office:text>`)
}

const wantODT = `[deleted: taken out]
## Tides
High at   noon[footnote 1][comment 1][hidden: secret] [table](http://tide.example/)
- one
  - under
- two
| a\nb |  | c |
[picture: Pictures/p.png][text box: boxed]

[notes and comments]
[footnote 1]: local time
[comment 1] by Bo Quill, 2031-01-02: sure?

[footer]
at the foot
`

func makeODP(t testing.TB) []byte {
	return odfOf(t, "presentation", `<style:style style:name="d1"><style:drawing-page-properties presentation:visibility="hidden"/></style:style>`, `<office:presentation>`+
		`<draw:page><draw:frame presentation:class="title"><draw:text-box><text:p>Opening</text:p></draw:text-box></draw:frame><presentation:notes><draw:frame><draw:text-box><text:p>say it</text:p></draw:text-box></draw:frame></presentation:notes></draw:page>`+
		`<draw:page draw:style-name="d1"><draw:custom-shape><text:p>shape</text:p></draw:custom-shape></draw:page></office:presentation>`)
}

const wantODP = `[slide 1 of 2]
# Opening

[speaker notes]
say it

[slide 2 of 2 (hidden)]
[text box: shape]
`

func makeODS(t testing.TB) []byte {
	return odfOf(t, "spreadsheet", "", `<office:spreadsheet><table:table table:name="Dues"><table:table-row table:number-rows-repeated="2"><table:table-cell table:number-columns-repeated="16384"/></table:table-row>`+
		`<table:table-row><table:table-cell office:value="1.25" table:formula="of:=[.A1]*2"><text:p>$1</text:p></table:table-cell><table:table-cell table:number-columns-repeated="2"><text:p>x</text:p></table:table-cell></table:table-row>`+
		`<table:table-row table:number-rows-repeated="1048573"><table:table-cell table:number-columns-repeated="16384"><text:p>z</text:p></table:table-cell></table:table-row></table:table></office:spreadsheet>`)
}

const wantODS = `
sheet 1 of 1: "Dues"
3	| $1 {1.25} [=[.A1]*2] | x | x |
4 to 1048576, all alike	| z (in this and the next 16383 columns) |
`

func TestOffice(t *testing.T) {
	files := map[string][]byte{"a.docx": makeDocx(t), "a.pptx": makePptx(t), "a.odt": makeODT(t), "a.odp": makeODP(t), "a.ods": makeODS(t), "report.pdf": makeDocx(t)}
	env := workspace(t, files)
	for _, reader := range []Reader{{}, child(t, "child-convert")} {
		for _, test := range []struct{ path, notes, text string }{
			{"a.docx", "a.docx: docx; page", wantDocx},
			{"a.pptx", "pptx, 3 slides (1 of them hidden); page", wantPptx},
			{"a.odt", "odt; page", wantODT},
			{"a.odp", "odp, 2 slides (1 of them hidden); page", wantODP},
			{"a.ods", "ods, 1 sheet; page", wantODS},
			{"report.pdf", "docx, in spite of its name", wantDocx},
		} {
			out := use(t, NewReadFile(reader), env, object{"path": test.path})
			if !strings.HasSuffix(out.Document, test.text) || test.path != "a.ods" && out.Document != test.text {
				t.Errorf("%s: error %v\n%s\nwant\n%s", test.path, out.IsError, out.Document, test.text)
			}
			mustHold(t, test.path, out.Shown, test.notes)
		}
	}
	out := use(t, NewReadFile(Reader{}), env, object{"path": "a.docx", "find": "IN COIN"})
	mustHold(t, "a search", out.Shown, "lines holding \"IN COIN\": 1", ":[footnote 2]: in coin\n")
	out = use(t, NewReadFile(Reader{}), env, object{"path": "a.docx", "inside": "word/comments.xml"})
	mustHold(t, "a part", out.Shown, "[a.docx, inside it word/comments.xml: text", `w:author="Bo Quill"`)
	out = use(t, NewReadFile(Reader{}), env, object{"path": "a.docx", "inside": "."})
	mustHold(t, "the parts", out.Shown, "[a.docx, inside it .: zip, 9 members", "word/media/image1.png\t16 bytes\t")
}

func swap(t testing.TB, data []byte, name string, part string) []byte {
	t.Helper()
	z, err := openZip(data)
	must(t, err)
	files := map[string][]byte{}
	for _, f := range z.File {
		files[f.Name], err = unpack(f, maxFile)
		must(t, err)
	}
	files[name] = []byte(part)
	return makeZip(t, files)
}

// Each kind of office file in each of the ways in which it can be wrong.
func TestOfficeFailures(t *testing.T) {
	long.NotRaced(t)
	laughs := `<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]><a>&b;</a>`
	quadratic := `<!DOCTYPE a [<!ENTITY a "` + strings.Repeat("x", 100_000) + `">]><a>` + strings.Repeat("&a;", 100_000) + `</a>`
	outside := `<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/hostname">]><a>&a;</a>`
	for _, f := range []struct {
		kind, main string
		data       []byte
	}{{"docx", "word/document.xml", makeDocx(t)}, {"pptx", "ppt/presentation.xml", makePptx(t)}, {"odt", "content.xml", makeODT(t)}, {"odp", "content.xml", makeODP(t)}, {"ods", "content.xml", makeODS(t)}} {
		encrypted := bytes.Clone(f.data)
		for at := 0; ; {
			i := bytes.Index(encrypted[at:], []byte("PK\x01\x02"))
			if i < 0 {
				break
			}
			at += i + 8
			if !bytes.HasPrefix(encrypted[at+38:], []byte("mimetype")) {
				encrypted[at] |= 1
			}
		}
		for name, test := range map[string]struct {
			data []byte
			want string
		}{
			"encrypted":      {encrypted, "it is encrypted, and cannot be read without its password"},
			"old encrypted":  {append([]byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), make([]byte, 2000)...), "it is an encrypted office file"},
			"cut":            {f.data[:len(f.data)/2], "cut off or damaged"},
			"empty part":     {swap(t, f.data, f.main, ""), "it has no element"},
			"no XML":         {swap(t, f.data, f.main, "\x00\x01\x02"), "cannot be read"},
			"cut XML":        {swap(t, f.data, f.main, "<a><b>"), "unexpected EOF"},
			"billion laughs": {swap(t, f.data, f.main, laughs), "document type declaration"},
			"quadratic":      {swap(t, f.data, f.main, quadratic), "document type declaration"},
			"outside entity": {swap(t, f.data, f.main, outside), "document type declaration"},
			"unknown entity": {swap(t, f.data, f.main, "<a>&b;</a>"), "invalid character entity"},
			"deep":           {swap(t, f.data, f.main, strings.Repeat("<a>", 100_000)), "nested deeper than 256"},
			"many elements":  {swap(t, f.data, f.main, "<a>"+strings.Repeat("<b/>", maxNodes)+"</a>"), "more than 2000000 elements"},
			"bomb":           {swap(t, f.data, f.main, "<a>"+strings.Repeat(" ", maxPart)), "unpacks to too much"},
			"other encoding": {swap(t, f.data, f.main, `<?xml version="1.0" encoding="EBCDIC-37"?><a/>`), "cannot be read"},
		} {
			if f.kind != "docx" && (name == "many elements" || name == "bomb") {
				continue // the parts are read by the same code, and these take long
			}
			doc, err := Reader{}.convert(t.Context(), source{name: "a." + f.kind, data: test.data})
			if err == nil {
				t.Errorf("%s, %s: no error but %q", f.kind, name, doc.text)
				continue
			}
			mustHold(t, f.kind+", "+name, err.Error(), test.want)
		}
	}
	locked := swap(t, makeODT(t), "META-INF/manifest.xml", `<m:manifest xmlns:m="m"><m:file-entry><m:encryption-data/></m:file-entry></m:manifest>`)
	_, err := Reader{}.convert(t.Context(), source{data: locked})
	mustHold(t, "a locked odt", fmt.Sprint(err), "it is an encrypted odt file")
}

// What a few bytes claim is not written out.
func TestRepeatedCells(t *testing.T) {
	long.NotRaced(t)
	cell := `<table:table-cell table:number-columns-repeated="256"><text:p>` + strings.Repeat("x", 10_000) + `</text:p></table:table-cell>`
	rows := `<table:table-row table:number-rows-repeated="1000000">` + strings.Repeat(cell, 200) + `</table:table-row>`
	doc, err := Reader{}.convert(t.Context(), source{data: odfOf(t, "spreadsheet", "", `<office:spreadsheet><table:table>`+strings.Repeat(rows, 3)+`</table:table></office:spreadsheet>`)})
	must(t, err)
	if len(doc.text) > maxDocument {
		t.Errorf("%d bytes", len(doc.text))
	}
	mustHold(t, "the notes", strings.Join(doc.notes, ", "), "1 sheet", "only its first 16 MiB of text")
}
