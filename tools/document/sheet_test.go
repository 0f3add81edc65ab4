package document

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/xuri/excelize/v2"

	"github.com/gaia-harness/gaia/internal/testkit/files"
	"github.com/gaia-harness/gaia/internal/testkit/long"
)

func TestSheets(t *testing.T) {
	env := workspace(t, map[string][]byte{"stock.xlsx": files.MakeBook(t), "stock.pdf": files.MakeBook(t)})
	out := use(t, NewReadFile(Reader{}), env, object{"path": "stock.xlsx"})
	mustHold(t, "the workbook", out.Shown,
		"[stock.xlsx: xlsx, 3 sheets (1 of them hidden); page 1 of 1]\n",
		"\nsheet 1 of 3: \"Stock\"\nrow\tA\tB\tC\tD\tE\n1\tItem\tPrice\tCount\tWorth\tSince\n",
		"\n2\tKettle\\nred\t$1,234.50 {1234.5}\t4\t[=B2*C2, not cached]\t09-03-31 {2031-03-09}\n",
		"\n4\tLamp\t13% {0.125}\t{2}\t[=B4*C4, not cached]\t9/3/2031 14:30 {2031-03-09T14:30:00}\n",
		"\n5\t\t\t\t[=SUM(D2:D4), not cached]\t[=1/0, not cached]\n",
		"\nsheet 2 of 3: \"Notes\" (hidden)\nrow\tA\tB\tC\n3\t\t\tthe key is under the mat\n",
		"\nsheet 3 of 3: \"Empty\": no cells with a value\n")
	out = use(t, NewReadFile(Reader{}), env, object{"path": "stock.pdf", "find": "THE MAT"})
	mustHold(t, "a search", out.Shown, "xlsx, 3 sheets (1 of them hidden), in spite of its name; lines holding \"THE MAT\": 1", ":3\t\t\tthe key is under the mat")
}

// A stored value is shown as it is stored, whatever the formula would give.
func TestStoredFormula(t *testing.T) {
	book := files.SheetXML(t, `<row r="1"><c r="A1"><v>2</v></c><c r="B1"><f>A1*10</f><v>999</v></c><c r="C1" t="str"><f>REPT("a",3)</f><v>aaa</v></c></row>`)
	out := use(t, NewReadFile(Reader{}), workspace(t, map[string][]byte{"a.xlsx": book}), object{"path": "a.xlsx"})
	mustHold(t, "the workbook", out.Shown, "1\t2\t999 [=A1*10]\taaa [=REPT(\"a\",3)]\n")
}

// Workbooks that are odd, or more than is laid out.
func TestOddWorkbooks(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	far := func(rows int) string {
		var b strings.Builder
		for r := range rows {
			fmt.Fprintf(&b, `<row r="%d"><c r="A%d"><v>7</v></c><c r="XFD%d"><f>1+1</f></c></row>`, r+1, r+1, r+1)
		}
		return b.String()
	}
	tests := []struct {
		name string
		book []byte
		want []string
	}{
		{"far columns", files.SheetXML(t, far(maxCells>>14+1)), []string{"too large to show formulas", "\n1\tA1: 7\n2\tA2: 7\n"}},
		{"last row", files.SheetXML(t, `<row r="100000"><c r="XFD100000"><v>5</v></c></row>`), []string{"\n100000\tXFD100000: 5\n"}},
		{"circle", files.SheetXML(t, `<row r="1"><c r="A1"><f>B1</f></c><c r="B1"><f>A1</f></c></row>`), []string{"[=B1"}},
		{"text", files.SheetXML(t, `<row r="1"><c r="A1"><f>"a"&amp;"bb"</f></c></row>`), []string{"1\t[=\"a\"&\"bb\", not cached]\n"}},
		{"entities", files.SheetXML(t, `<row r="1"><c r="A1" t="inlineStr"><is><t>a&lt;b</t></is></c></row>`), []string{"1\ta<b\n"}},
		{"no such cell", files.SheetXML(t, `<row r="1"><c r="ZZZZ1"><v>1</v></c><c r="A0"><v>2</v></c></row>`), []string{"not readable"}},
	}
	for _, test := range tests {
		doc, err := Reader{}.Read(t.Context(), Source{Name: "a.xlsx", Data: test.book})
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		mustHold(t, test.name, doc.Text, test.want...)
	}
}

// What a sheet shows besides values: fills of empty cells too, merged ranges,
// what is hidden, comments.
func TestSheetMarks(t *testing.T) {
	f := excelize.NewFile()
	defer f.Close()
	fill := func(color string) int {
		id, err := f.NewStyle(&excelize.Style{Fill: excelize.Fill{Type: "pattern", Pattern: 1, Color: []string{color}}})
		must(t, err)
		return id
	}
	red, green := fill("FF0000"), fill("00b050")
	must(t, f.SetCellStyle("Sheet1", "A1", "C1", red))
	must(t, f.SetCellStyle("Sheet1", "D1", "D2", green))
	must(t, f.SetCellStyle("Sheet1", "F2", "F2", red))
	must(t, f.SetCellValue("Sheet1", "B1", "start"))
	must(t, f.MergeCell("Sheet1", "G1", "H2"))
	for _, row := range []int{4, 5, 9} {
		must(t, f.SetRowVisible("Sheet1", row, false))
	}
	must(t, f.SetColVisible("Sheet1", "J:K", false))
	must(t, f.AddComment("Sheet1", excelize.Comment{Cell: "B1", Author: "Bo", Paragraph: []excelize.RichTextRun{{Text: "from "}, {Text: "here\non"}}}))
	_, err := f.NewSheet("Bare")
	must(t, err)
	must(t, f.SetCellStyle("Bare", "B7", "B7", green))
	must(t, f.SetRowStyle("Bare", 9, 9, red))
	must(t, f.SetColStyle("Bare", "D:E", green))
	var b bytes.Buffer
	must(t, f.Write(&b))
	out := use(t, NewReadFile(Reader{}), workspace(t, map[string][]byte{"a.xlsx": b.Bytes()}), object{"path": "a.xlsx"})
	mustHold(t, "the workbook", out.Shown, "\n1\t\tstart\n",
		"merged cells: G1:H2\nhidden rows: 4:5, 9\nhidden columns: J:K\nfills, by row:\nA1:C1=#FF0000, D1=#00B050\nD2=#00B050, F2=#FF0000\ncomments:\nB1 by Bo: from here\\non\n",
		"\nsheet 2 of 2: \"Bare\": no cells with a value\nfills of whole rows and columns: column D:E=#00B050, row 9=#FF0000\n", "\nB7=#00B050")
}

// Colours as they are written by other programs.
func TestSheetColors(t *testing.T) {
	f := excelize.NewFile() // with the usual theme
	defer f.Close()
	for text, want := range map[string]string{
		`rgb="FF123abc"`: "#123ABC", `rgb="123ABC"`: "#123ABC", `theme="4"`: "#5B9BD5", `theme="0" tint="-0.5"`: "#808080", `indexed="10"`: "#FF0000",
		`indexed="64"`: "#000000", `indexed="-1"`: "", `indexed="99999999999999999999"`: "", `theme="99"`: "", `theme="-1"`: "", `rgb="red"`: "", `tint="1"`: "", `rgb="FF000000" tint="NaN"`: "#000000",
	} {
		root, err := parseXML([]byte("<c " + text + "/>"))
		must(t, err)
		if got := fillColor(root.kid(), f); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// Fills by a palette of the workbook's own, and one whose colour no one knows.
func TestSheetPalette(t *testing.T) {
	styles := `<styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><fonts count="1"><font/></fonts><fills count="4"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill>` +
		`<fill><patternFill patternType="solid"><fgColor indexed="10"/></patternFill></fill><fill><patternFill patternType="solid"><fgColor theme="99"/></patternFill></fill></fills><borders count="1"><border/></borders>` +
		`<cellXfs count="3"><xf/><xf fillId="2" applyFill="1"/><xf fillId="3" applyFill="1"/></cellXfs><colors><indexedColors>` + strings.Repeat(`<rgbColor rgb="00AB12CD"/>`, 64) + `</indexedColors></colors></styleSheet>`
	parts := map[string][]byte{}
	z, err := openZip(files.SheetXML(t, `<row r="1"><c r="A1" s="1"><v>1</v></c><c r="B1" s="2"/></row>`))
	must(t, err)
	for _, f := range z.File {
		parts[f.Name], err = unpack(f, 1<<20)
		must(t, err)
	}
	parts["xl/styles.xml"] = []byte(styles)
	parts["xl/_rels/workbook.xml.rels"] = bytes.Replace(parts["xl/_rels/workbook.xml.rels"], []byte("</Relationships>"),
		[]byte(`<Relationship Id="rId2" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles" Target="styles.xml"/></Relationships>`), 1)
	doc, err := Reader{}.Read(t.Context(), Source{Name: "a.xlsx", Data: files.MakeZip(t, parts)})
	must(t, err)
	mustHold(t, "the workbook", doc.Text, "fills, by row:\nA1=#AB12CD, B1=a fill\n")
}

// TestSheetDates: the first days of 1900, which spreadsheets count wrongly, and
// formats of time that has passed.
func TestSheetDates(t *testing.T) {
	f := excelize.NewFile()
	defer f.Close()
	for i, test := range []struct {
		value  float64
		format string
	}{{1, "yyyy/mm/dd"}, {59, "yyyy/mm/dd"}, {60, "yyyy/mm/dd"}, {61, "yyyy/mm/dd"}, {1.5, "[h]:mm"}, {0.5, "[mm]:ss"}, {0.75, "hh:mm"}, {47551, "[Red]dd/mm/yyyy"}} {
		cell := fmt.Sprintf("A%d", i+1)
		must(t, f.SetCellValue("Sheet1", cell, test.value))
		id, err := f.NewStyle(&excelize.Style{CustomNumFmt: &test.format})
		must(t, err)
		must(t, f.SetCellStyle("Sheet1", cell, cell, id))
	}
	var b bytes.Buffer
	must(t, f.Write(&b))
	doc, err := Reader{}.Read(t.Context(), Source{Name: "a.xlsx", Data: b.Bytes()})
	must(t, err)
	mustHold(t, "the workbook", doc.Text, "\n1\t1900/01/01 {1900-01-01}\n2\t1900/02/28 {1900-02-28}\n3\t1900/02/29\n4\t1900/03/01 {1900-03-01}\n5\t36:00 {1.5}\n6\t720:00 {0.5}\n7\t18:00 {18:00:00}\n8\t09/03/2030 {2030-03-09}\n")
}
