package tools

import "testing"

// TestScripts: what is raised, lowered or stacked does not run together with what
// stands beside it.
func TestScripts(t *testing.T) {
	run := func(align, text string) string {
		return `<w:r><w:rPr><w:vertAlign w:val="` + align + `"/></w:rPr><w:t>` + text + `</w:t></w:r>`
	}
	m := func(name, text string) string {
		return `<m:` + name + `><m:r><m:t>` + text + `</m:t></m:r></m:` + name + `>`
	}
	docx := docxOf(t, `<w:p>`+run("baseline", "10")+run("superscript", "-")+run("superscript", "3")+run("baseline", "H")+run("subscript", "2")+`<w:del>`+run("superscript", "4")+`</w:del></w:p>`+
		`<w:p><w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:footnoteReference w:id="2"/></w:r></w:p>`+
		`<w:p><m:oMath><m:m><m:mPr/><m:mr>`+m("e", "a")+m("e", "b")+`</m:mr><m:mr>`+m("e", "c")+m("e", "d")+`</m:mr></m:m></m:oMath></w:p>`+
		`<w:p><m:oMath><m:func>`+m("fName", "sin")+m("e", "x")+`</m:func><m:limLow>`+m("e", "lim")+m("lim", "n")+`</m:limLow><m:acc><m:accPr><m:chr m:val="&#x303;"/></m:accPr>`+m("e", "y")+`</m:acc></m:oMath></w:p>`+
		`<w:p><m:oMath><m:eqArr><m:eqArrPr/>`+m("e", "p")+m("e", "q")+`</m:eqArr><m:bar>`+m("e", "z")+`</m:bar><m:f><m:fPr><m:type m:val="noBar"/></m:fPr>`+m("num", "n")+m("den", "k")+`</m:f></m:oMath></w:p>`, nil)
	shape := `<p:sp><p:txBody><a:p><a:r><a:t>10</a:t></a:r><a:r><a:rPr baseline="30000"/><a:t>3</a:t></a:r><a:r><a:rPr baseline="0"/><a:t>H</a:t></a:r><a:r><a:rPr baseline="-25%"/><a:t>2</a:t></a:r></a:p></p:txBody></p:sp>`
	pptx := makeZip(t, map[string][]byte{
		"_rels/.rels":                     relationsPart("rId1", "officeDocument", "ppt/presentation.xml"),
		"ppt/presentation.xml":            []byte(`<p:presentation ` + wordSpaces + `><p:sldIdLst><p:sldId id="256" r:id="rA"/></p:sldIdLst></p:presentation>`),
		"ppt/_rels/presentation.xml.rels": relationsPart("rA", "slide", "slides/slide1.xml"),
		"ppt/slides/slide1.xml":           slidePart("sld", "", shape),
	})
	odt := odfOf(t, "text", `<style:style style:name="Up"><style:text-properties style:text-position="super 58%"/></style:style><style:style style:name="Down"><style:text-properties style:text-position="-33% 58%"/></style:style>`,
		`<office:text><text:p>10<text:span text:style-name="Up">3</text:span>H<text:span text:style-name="Down">2</text:span></text:p></office:text>`)
	page := []byte(`<html><p>10<sup>3</sup> H<sub>2</sub>O<sup> <a href="#n">[4]</a></sup></p><p>a<math><mfrac><mn>1</mn> <mn>2</mn></mfrac><msup><mi>x</mi><mn>2</mn></msup><msubsup><mi>y</mi><mn>i</mn><mn>3</mn></msubsup><msqrt><mi>z</mi></msqrt><mroot><mi>w</mi><mn>3</mn></mroot><mfrac></mfrac></math></p></html>`)
	for _, test := range []struct {
		name string
		data []byte
		want []string
	}{
		{"a.docx", docx, []string{"10^(-3)H_(2)[deleted: ^(4)]\n", "\n[footnote 2]\n", "\n[a, b; c, d]\n", "\nsin(x)lim_(n) y\u0303\n", "\n[p; q]bar(z)binomial(n, k)\n"}},
		{"a.pptx", pptx, []string{"\n10^(3)H_(2)\n"}},
		{"a.odt", odt, []string{"10^(3)H_(2)\n"}},
		{"a.html", page, []string{"10^(3) H_(2)O [[4]](#n)", "a(1) /(2)x^(2)y_(i)^(3)√(z)(w)^(1/(3))"}},
	} {
		doc, err := Reader{}.convert(t.Context(), source{name: test.name, data: test.data})
		must(t, err)
		mustHold(t, test.name, doc.text, test.want...)
	}
}
