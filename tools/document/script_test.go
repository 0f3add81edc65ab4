package document

import (
	"github.com/gaia-harness/gaia/internal/testkit/files"
	"slices"
	"strings"
	"testing"
)

// TestScripts: what is raised, lowered or stacked does not run together with what
// stands beside it.
func TestScripts(t *testing.T) {
	run := func(align, text string) string {
		return `<w:r><w:rPr><w:vertAlign w:val="` + align + `"/></w:rPr><w:t>` + text + `</w:t></w:r>`
	}
	m := func(name, text string) string {
		return `<m:` + name + `><m:r><m:t>` + text + `</m:t></m:r></m:` + name + `>`
	}
	docx := files.DocxOf(t, `<w:p>`+run("baseline", "10")+run("superscript", "-")+run("superscript", "3")+run("baseline", "H")+run("subscript", "2")+`<w:del>`+run("superscript", "4")+`</w:del></w:p>`+
		`<w:p><w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:footnoteReference w:id="2"/></w:r></w:p>`+
		`<w:p><m:oMath><m:m><m:mPr/><m:mr>`+m("e", "a")+m("e", "b")+`</m:mr><m:mr>`+m("e", "c")+m("e", "d")+`</m:mr></m:m></m:oMath></w:p>`+
		`<w:p><m:oMath><m:func>`+m("fName", "sin")+m("e", "x")+`</m:func><m:limLow>`+m("e", "lim")+m("lim", "n")+`</m:limLow><m:acc><m:accPr><m:chr m:val="&#x303;"/></m:accPr>`+m("e", "y")+`</m:acc></m:oMath></w:p>`+
		`<w:p><m:oMath><m:eqArr><m:eqArrPr/>`+m("e", "p")+m("e", "q")+`</m:eqArr><m:bar>`+m("e", "z")+`</m:bar><m:f><m:fPr><m:type m:val="noBar"/></m:fPr>`+m("num", "n")+m("den", "k")+`</m:f></m:oMath></w:p>`, nil)
	shape := `<p:sp><p:txBody><a:p><a:r><a:t>10</a:t></a:r><a:r><a:rPr baseline="30000"/><a:t>3</a:t></a:r><a:r><a:rPr baseline="0"/><a:t>H</a:t></a:r><a:r><a:rPr baseline="-25%"/><a:t>2</a:t></a:r></a:p></p:txBody></p:sp>`
	pptx := files.MakeZip(t, map[string][]byte{
		"_rels/.rels":                     files.RelationsPart("rId1", "officeDocument", "ppt/presentation.xml"),
		"ppt/presentation.xml":            []byte(`<p:presentation ` + files.WordSpaces + `><p:sldIdLst><p:sldId id="256" r:id="rA"/></p:sldIdLst></p:presentation>`),
		"ppt/_rels/presentation.xml.rels": files.RelationsPart("rA", "slide", "slides/slide1.xml"),
		"ppt/slides/slide1.xml":           files.SlidePart("sld", "", shape),
	})
	odt := files.OdfOf(t, "text", `<style:style style:name="Up"><style:text-properties style:text-position="super 58%"/></style:style><style:style style:name="Down"><style:text-properties style:text-position="-33% 58%"/></style:style>`,
		`<office:text><text:p>10<text:span text:style-name="Up">3</text:span>H<text:span text:style-name="Down">2</text:span></text:p></office:text>`)
	page := []byte(`<html><p>10<sup>3</sup> H<sub>2</sub>O<sup> <a href="#n">[4]</a></sup></p><p>a<math><mfrac><mn>1</mn> <mn>2</mn></mfrac><msup><mi>x</mi><mn>2</mn></msup><msubsup><mi>y</mi><mn>i</mn><mn>3</mn></msubsup><msqrt><mi>z</mi></msqrt><mroot><mi>w</mi><mn>3</mn></mroot><mfrac></mfrac></math></p></html>`)
	for _, test := range []struct {
		name string
		data []byte
		want []string
	}{
		{"a.docx", docx, []string{"10^(-3)H_(2)[deleted: ^(4)]\n", "\n[footnote 2]\n", "\n[a b ][c d ]\n", "\nsinx lim _(n)\u0303y\n", "\np q z (n)/(k)\n"}},
		{"a.pptx", pptx, []string{"\n10^(3)H_(2)\n"}},
		{"a.odt", odt, []string{"10^(3)H_(2)\n"}},
		{"a.html", page, []string{"10^(3) H_(2)O [[4]](#n)", "a(1) /(2)x^(2)y_(i)^(3)√(z)(w)^(1/(3))"}},
	} {
		doc, err := Reader{}.Read(t.Context(), Source{Name: test.name, Data: test.data})
		must(t, err)
		mustHold(t, test.name, doc.Text, test.want...)
	}
}

// TestShownOtherwise: what is deleted, hidden, coloured or filled in is said.
func TestShownOtherwise(t *testing.T) {
	cell := func(shade, text string) string {
		return `<w:tc><w:tcPr><w:shd w:fill="` + shade + `"/></w:tcPr><w:p><w:r><w:t>` + text + `</w:t></w:r></w:p></w:tc>`
	}
	docx := files.DocxOf(t, `<w:tbl><w:tr>`+cell("ff0000", "red")+cell("auto", "none")+cell("FFFFFF", "white")+`</w:tr><w:tr><w:trPr><w:del/></w:trPr>`+cell("", "gone")+`</w:tr><w:tr><w:trPr><w:hidden/></w:trPr>`+cell("", "away")+`</w:tr></w:tbl>`+
		`<w:p><w:r><w:rPr><w:highlight w:val="yellow"/></w:rPr><w:t>bright</w:t></w:r><w:r><w:rPr><w:shd w:fill="00FF00"/></w:rPr><w:t>green</w:t></w:r><w:r><w:rPr><w:highlight w:val="none"/></w:rPr><w:t>plain</w:t></w:r></w:p>`, nil)
	page := []byte(`<html><body><p>a<span hidden>b</span><span style="Display : none"><i hidden>c</i></span><span hidden> </span></p><ul style="display:none"><li>d</li></ul><p>e<del>f</del><s>g</s></p>` +
		`<ol reversed><li>x</li><li>y</li></ol><ol start="3"><li>u</li><li value="9">v</li><li>w</li></ol><select><option>one</option><option selected>two</option></select>` +
		`<input value="three"><input type="hidden" value="four"><input type="checkbox" checked>five<input type="radio">six<textarea>seven</textarea><ul><li>1</li></ul><ul><li>2</li></ul></body></html>`)
	for _, test := range []struct {
		name string
		data []byte
		want []string
	}{
		{"a.docx", docx, []string{"| [filled #FF0000] red | none | white |\n[deleted row] | gone |\n[hidden row] | away |\n", "[highlighted yellow: bright][filled #00FF00: green]plain\n"}},
		{"a.html", page, []string{"a[hidden: b][hidden: *c*]", "- [hidden: d]", "e[deleted: f][struck out: g]", "1. (number 2) x\n2. (number 1) y\n", "(number 9) v", "(number 10) w",
			"[option: one]", "[option that is chosen: two]", "[field: three]", "[chosen] five[not chosen] six", "[field: seven]"}},
	} {
		doc, err := Reader{}.Read(t.Context(), Source{Name: test.name, Data: test.data})
		must(t, err)
		mustHold(t, test.name, doc.Text, test.want...)
		if strings.Contains(doc.Text, "four") || strings.Contains(doc.Text, "THE END") || strings.Contains(doc.Text, "(number 3)") {
			t.Error(doc.Text)
		}
	}
	form := files.PdfFile("", "<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [3 0 R] >> >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>", "<< /Type /Page /Parent 2 0 R /FT /Tx /V (filled in) >>")
	doc, err := Reader{}.Read(t.Context(), Source{Name: "a.pdf", Data: form})
	must(t, err)
	if !slices.Contains(doc.Notes, "it is a form: what is filled in is not shown") {
		t.Errorf("%q", doc.Notes)
	}
}
