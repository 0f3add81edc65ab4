package document

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/files"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/tools"
)

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

const wantODP = `[slide 1 of 2]
# Opening

[speaker notes]
say it

[slide 2 of 2 (hidden)]
[text box: shape]
`

const wantODS = `
sheet 1 of 1: "Dues"
3	| $1 {1.25} [=[.A1]*2] | x | x |
4 to 1048576, all alike	| z (in this and the next 16383 columns) |
`

func TestOffice(t *testing.T) {
	files := map[string][]byte{"a.docx": files.MakeDocx(t), "a.pptx": files.MakePptx(t), "a.odt": files.MakeODT(t), "a.odp": files.MakeODP(t), "a.ods": files.MakeODS(t), "report.pdf": files.MakeDocx(t)}
	env := workspace(t, files)
	for _, reader := range []Reader{{}, childReader(t, "child-convert")} {
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

// Each kind of office file in each of the ways in which it can be wrong.
func TestOfficeFailures(t *testing.T) {
	long.NotRaced(t)
	laughs := `<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]><a>&b;</a>`
	quadratic := `<!DOCTYPE a [<!ENTITY a "` + strings.Repeat("x", 100_000) + `">]><a>` + strings.Repeat("&a;", 100_000) + `</a>`
	outside := `<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/hostname">]><a>&a;</a>`
	for _, f := range []struct {
		kind, main string
		data       []byte
	}{{"docx", "word/document.xml", files.MakeDocx(t)}, {"pptx", "ppt/presentation.xml", files.MakePptx(t)}, {"odt", "content.xml", files.MakeODT(t)}, {"odp", "content.xml", files.MakeODP(t)}, {"ods", "content.xml", files.MakeODS(t)}} {
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
		type failure struct {
			data []byte
			want string
		}
		failures := map[string]failure{
			"encrypted":      {encrypted, "it is encrypted, and cannot be read without its password"},
			"old encrypted":  {append([]byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), make([]byte, 2000)...), "it is an encrypted office file"},
			"cut":            {f.data[:len(f.data)/2], "cut off or damaged"},
			"empty part":     {files.Swap(t, f.data, f.main, ""), "it has no element"},
			"no XML":         {files.Swap(t, f.data, f.main, "\x00\x01\x02"), "cannot be read"},
			"cut XML":        {files.Swap(t, f.data, f.main, "<a><b>"), "unexpected EOF"},
			"billion laughs": {files.Swap(t, f.data, f.main, laughs), "document type declaration"},
			"quadratic":      {files.Swap(t, f.data, f.main, quadratic), "document type declaration"},
			"outside entity": {files.Swap(t, f.data, f.main, outside), "document type declaration"},
			"unknown entity": {files.Swap(t, f.data, f.main, "<a>&b;</a>"), "invalid character entity"},
			"deep":           {files.Swap(t, f.data, f.main, strings.Repeat("<a>", 100_000)), "nested deeper than 256"},
			"other encoding": {files.Swap(t, f.data, f.main, `<?xml version="1.0" encoding="EBCDIC-37"?><a/>`), "cannot be read"},
		}
		if f.kind == "docx" { // the parts are read by the same code, and these take long
			failures["many elements"] = failure{files.Swap(t, f.data, f.main, "<a>"+strings.Repeat("<b/>", maxNodes)+"</a>"), "more than 2000000 elements"}
			failures["bomb"] = failure{files.Swap(t, f.data, f.main, "<a>"+strings.Repeat(" ", maxPart)), "unpacks to too much"}
		}
		for name, test := range failures {
			t.Run(f.kind+" "+name, func(t *testing.T) {
				doc, err := Reader{}.Read(t.Context(), Source{Name: "a." + f.kind, Data: test.data})
				if err == nil {
					t.Fatalf("no error but %q", doc.Text)
				}
				mustHold(t, "the error", err.Error(), test.want)
			})
		}
	}
	locked := files.Swap(t, files.MakeODT(t), "META-INF/manifest.xml", `<m:manifest xmlns:m="m"><m:file-entry><m:encryption-data/></m:file-entry></m:manifest>`)
	_, err := Reader{}.Read(t.Context(), Source{Data: locked})
	mustHold(t, "a locked odt", fmt.Sprint(err), "it is an encrypted odt file")
}

// What a few bytes claim is not written out.
func TestRepeatedCells(t *testing.T) {
	long.NotRaced(t)
	cell := `<table:table-cell table:number-columns-repeated="256"><text:p>` + strings.Repeat("x", 10_000) + `</text:p></table:table-cell>`
	rows := `<table:table-row table:number-rows-repeated="1000000">` + strings.Repeat(cell, 200) + `</table:table-row>`
	doc, err := Reader{}.Read(t.Context(), Source{Data: files.OdfOf(t, "spreadsheet", "", `<office:spreadsheet><table:table>`+strings.Repeat(rows, 3)+`</table:table></office:spreadsheet>`)})
	must(t, err)
	if len(doc.Text) > tools.MaxDocument {
		t.Errorf("%d bytes", len(doc.Text))
	}
	mustHold(t, "the notes", strings.Join(doc.Notes, ", "), "1 sheet", "only its first 16 MiB of text")
}
