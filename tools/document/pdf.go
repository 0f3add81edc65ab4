package document

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/tools"
	"github.com/ledongthuc/pdf"
)

var errEncrypted = tools.Unreadablef("it is an encrypted pdf file, and cannot be read without its password")

// readPDF turns a PDF's pages into lines of text, in the order of the page.
// The library trusts the file: it panics on a damaged one, and a hostile one
// can make it run or grow without end, which is what a [Reader]'s child is for. A page
// that cannot be read is named in its place.
func readPDF(ctx context.Context, data []byte) (doc tools.Document, err error) {
	defer func() {
		if p := recover(); p != nil {
			doc, err = tools.Document{}, tools.Unreadablef("it is a pdf file that is damaged: %v", p)
		}
	}()
	data, whole := repairPDF(data)
	if !whole {
		return tools.Document{}, tools.Unreadablef("it is a pdf file that is cut off or damaged: its end is missing")
	}
	r, err := pdf.NewReader(bytes.NewReader(data), int64(len(data)))
	if errors.Is(err, pdf.ErrInvalidPassword) {
		return tools.Document{}, errEncrypted
	}
	if err != nil {
		return tools.Document{}, tools.Unreadablef("it is a pdf file that cannot be read: %v", err)
	}
	root := r.Trailer().Key("Root")
	tree := pdfTree{}
	tree.walk(root.Key("Pages"), pdf.Value{}, 0)
	pages := tree.pages
	if tree.nodes > maxPDFNodes {
		return tools.Document{}, tools.Unreadablef("it is a pdf file that is damaged: its tree of pages has no end, or more than %d nodes", maxPDFNodes)
	}
	if len(pages) == 0 {
		return tools.Document{}, tools.Unreadablef("it is a pdf file that cannot be read: it has no pages")
	}
	out, shared := pdfText{pages: len(pages)}, &pdfShared{faces: map[string]*face{}}
	for _, page := range pages {
		if err := ctx.Err(); err != nil {
			return tools.Document{}, err
		}
		w := &writing{pdfShared: shared}
		problem := w.page(page)
		text := layout(w.pieces)
		if shared.forms > maxPDFForms {
			return tools.Document{}, tools.Unreadablef("it is a pdf file that is damaged: its pages show more than %d forms", maxPDFForms)
		}
		if !out.add(text, problem) {
			break
		}
	}
	doc = out.document()
	if root.Key("AcroForm").Key("Fields").Len() > 0 {
		doc.Notes = append(doc.Notes, "it is a form: what is filled in is not shown")
	}
	return doc, nil
}

// pdfText is the text of a pdf's pages under their numbers.
type pdfText struct {
	pages, added, empty int
	text                strings.Builder
}

const noText = ": no text]\n"

// add adds the next page, whose lines end with \n; false means that a document
// has no room for more.
func (t *pdfText) add(text string, problem error) bool {
	t.added++
	fmt.Fprintf(&t.text, "[pdf page %d of %d", t.added, t.pages)
	switch {
	case problem != nil:
		fmt.Fprintf(&t.text, ": not wholly readable: %v]\n", tools.Plain(problem))
	case text == "":
		t.text.WriteString(noText)
		t.empty++
	default:
		t.text.WriteString("]\n")
	}
	t.text.WriteString(text)
	return t.text.Len() <= tools.MaxDocument
}

func (t *pdfText) document() tools.Document {
	notes := []string{tools.Count(t.pages, "page")}
	if t.empty == t.pages {
		notes = append(notes, "none with text: they are probably pictures")
	} else if t.empty > 0 {
		notes = append(notes, fmt.Sprintf("%d without text", t.empty))
	}
	return tools.Document{Kind: "pdf", Notes: notes, Text: strings.ToValidUTF8(t.text.String(), "\ufffd")}
}

// repairPDF repairs what many files have and the library insists on: nothing
// before the header or after the end mark, and a version below 2. A file without
// either is not whole.
func repairPDF(data []byte) (repaired []byte, whole bool) {
	start := bytes.Index(data, []byte("%PDF-"))
	end := bytes.LastIndex(data, []byte("%%EOF"))
	if start < 0 || end < start+16 {
		return nil, false
	}
	repaired = append(bytes.Clone(data[start:end]), "%%EOF\n"...)
	copy(repaired, "%PDF-1.7\n")
	return repaired, true
}

// pdfPage is a page and the resources it has or inherits.
type pdfPage struct{ page, resources pdf.Value }

// Limits of what the library follows in a pdf file.
const (
	maxPDFNodes = 200_000 // of the tree of pages, which can lead back into itself
	maxPDFForms = 20_000  // forms shown on the pages of a file: each can show others many times
)

// pdfTree collects the pages of a page tree. The library's own lookup starts from the root
// for every page.
type pdfTree struct {
	pages []pdfPage
	nodes int // that were looked at
}

func (t *pdfTree) walk(node, resources pdf.Value, depth int) {
	if t.nodes++; t.nodes > maxPDFNodes {
		return
	}
	if own := node.Key("Resources"); own.Kind() == pdf.Dict {
		resources = own
	}
	switch kids := node.Key("Kids"); {
	case depth > 50 || node.Kind() != pdf.Dict:
	case kids.Kind() == pdf.Array:
		for i := 0; i < kids.Len() && t.nodes <= maxPDFNodes; i++ {
			t.walk(kids.Index(i), resources, depth+1)
		}
	case depth > 0:
		t.pages = append(t.pages, pdfPage{node, resources})
	}
}

// page collects the pieces of a page. Its error is why there are more that could not be
// read.
func (w *writing) page(p pdfPage) (problem error) {
	defer func() {
		if r := recover(); r != nil {
			problem = fmt.Errorf("%v", r)
		}
	}()
	w.run(p.page.Key("Contents"), p.resources, 0)
	return nil
}

// What a page says is laid out here from the library's tokens, encodings and
// widths. Its own ways to a page's text are no use: GetPlainText and
// GetTextByRow run words together where a file spaces them by moving the pen,
// as most do, and Content parses a font's widths again for every character.

// matrix maps points as PDF 32000-1, 8.3.3 does.
type matrix [6]float64

// then is m followed by n.
func (m matrix) then(n matrix) matrix {
	return matrix{m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3], m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5]}
}

// piece is text shown in one go: where it begins and ends, in points.
type piece struct {
	x, end, y, size float64
	text            string
}

// graphics is the part of the graphics state that text depends on.
type graphics struct {
	ctm                            matrix
	face                           *face
	size, char, word, scale, leads float64
}

// pdfShared is what the pages of a file share.
type pdfShared struct {
	faces map[string]*face // by the text of the font's dictionary
	forms int              // that were shown
}

// writing collects the pieces of a page.
type writing struct {
	*pdfShared
	graphics
	tm, line matrix
	saved    []graphics
	pieces   []piece
}

const maxForms = 10 // forms inside each other

// run interprets contents, of a page or a form.
func (w *writing) run(contents, resources pdf.Value, depth int) {
	if depth == 0 {
		w.graphics = graphics{ctm: matrix{1, 0, 0, 1}, scale: 1}
	}
	if contents.Kind() == pdf.Null {
		return
	}
	pdf.Interpret(contents, func(stack *pdf.Stack, op string) {
		args := make([]pdf.Value, max(stack.Len(), 6)) // what is missing is null, which is 0
		for i := stack.Len() - 1; i >= 0; i-- {
			args[i] = stack.Pop()
		}
		switch op {
		case "Tf":
			w.face, w.size = w.font(resources.Key("Font").Key(args[0].Name())), args[1].Float64()
		case "Do":
			form := resources.Key("XObject").Key(args[0].Name())
			if form.Key("Subtype").Name() != "Form" || depth >= maxForms {
				return
			}
			if w.forms++; w.forms > maxPDFForms {
				panic("it shows too many forms")
			}
			outside := w.graphics
			if m := form.Key("Matrix"); m.Len() == 6 {
				w.ctm = toMatrix(m.Index).then(w.ctm)
			}
			inside := form.Key("Resources")
			if inside.Kind() != pdf.Dict {
				inside = resources
			}
			w.run(form, inside, depth+1)
			w.graphics = outside
		default:
			w.operate(op, args)
		}
	})
}

// operate carries out an operator that needs no resources.
func (w *writing) operate(op string, args []pdf.Value) {
	n := func(i int) float64 { return args[i].Float64() }
	arg := func(i int) pdf.Value { return args[i] }
	switch op {
	case "q":
		w.saved = append(w.saved, w.graphics)
	case "Q":
		if last := len(w.saved) - 1; last >= 0 {
			w.graphics, w.saved = w.saved[last], w.saved[:last]
		}
	case "cm":
		w.ctm = toMatrix(arg).then(w.ctm)
	case "BT":
		w.line = matrix{1, 0, 0, 1}
		w.tm = w.line
	case "Tm":
		w.line = toMatrix(arg)
		w.tm = w.line
	case "Tc":
		w.char = n(0)
	case "Tw":
		w.word = n(0)
	case "Tz":
		w.scale = n(0) / 100
	case "TL":
		w.leads = n(0)
	case "TD":
		w.leads = -n(1)
		w.move(n(0), n(1))
	case "Td":
		w.move(n(0), n(1))
	case "T*":
		w.move(0, -w.leads)
	case "'":
		w.move(0, -w.leads)
		w.show(args[0].RawString())
	case `"`:
		w.word, w.char = n(0), n(1)
		w.move(0, -w.leads)
		w.show(args[2].RawString())
	case "Tj":
		w.show(args[0].RawString())
	case "TJ":
		for i := range args[0].Len() {
			if x := args[0].Index(i); x.Kind() == pdf.String {
				w.show(x.RawString())
			} else {
				w.advance(-x.Float64() / 1000 * w.size)
			}
		}
	}
}

func toMatrix(value func(int) pdf.Value) (m matrix) {
	for i := range m {
		m[i] = value(i).Float64()
	}
	return m
}

func (w *writing) move(x, y float64) {
	w.line = matrix{1, 0, 0, 1, x, y}.then(w.line)
	w.tm = w.line
}

func (w *writing) advance(x float64) { w.tm = matrix{1, 0, 0, 1, x * w.scale}.then(w.tm) }

// show adds a string where the pen is, and moves the pen.
func (w *writing) show(raw string) {
	if w.face == nil {
		w.face = w.font(pdf.Value{})
	}
	at := w.tm.then(w.ctm)
	width, codes := w.face.width(raw)
	w.advance(width*w.size + float64(codes)*w.char + float64(strings.Count(raw, " "))*w.word)
	text := strings.Map(tools.Printable, strings.ToValidUTF8(w.face.encoding.Decode(raw), "\ufffd"))
	if text != "" {
		size := math.Abs(w.size) * math.Hypot(at[2], at[3])
		w.pieces = append(w.pieces, piece{at[4], w.tm.then(w.ctm)[4], at[5], size, text})
	}
}

// layout writes pieces as lines, top down and left to right, with spaces where
// there is room between them.
func layout(pieces []piece) string {
	slices.SortStableFunc(pieces, func(a, b piece) int { return cmp.Compare(b.y, a.y) })
	var b strings.Builder
	for len(pieces) > 0 {
		first, n := pieces[0], 1
		for n < len(pieces) && first.y-pieces[n].y < max(first.size, pieces[n].size)/2 {
			n++
		}
		line := pieces[:n]
		slices.SortStableFunc(line, func(a, b piece) int { return cmp.Compare(a.x, b.x) })
		var text strings.Builder
		for i, p := range line {
			gap := 0.0
			if i > 0 {
				gap = p.x - line[i-1].end
			}
			switch {
			case !(gap > 0.15*p.size): // inside a word
			case gap < 1.5*p.size:
				text.WriteString(" ")
			default: // as many as fit between columns
				text.WriteString(strings.Repeat(" ", int(min(gap/p.size*2, 60))))
			}
			text.WriteString(p.text)
		}
		if s := strings.TrimRight(text.String(), " "); s != "" {
			b.WriteString(s + "\n")
		}
		if pieces = pieces[n:]; len(pieces) > 0 && first.y-pieces[0].y > 1.75*first.size && b.Len() > 0 {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// face is a font: what its codes mean and how wide they are, in thousandths of
// its size.
type face struct {
	encoding pdf.TextEncoding
	wide     bool // codes are two bytes
	widths   map[int]float64
	other    float64 // width of the rest
}

func (w *writing) font(v pdf.Value) *face {
	key := v.String()
	if f := w.faces[key]; f != nil {
		return f
	}
	font := pdf.Font{V: v}
	f := &face{encoding: font.Encoder(), wide: v.Key("Subtype").Name() == "Type0", widths: map[int]float64{}, other: 500}
	for i, width := range font.Widths() {
		f.widths[font.FirstChar()+i] = width
	}
	if f.wide {
		f.readWide(v.Key("DescendantFonts").Index(0))
	}
	w.faces[key] = f
	return f
}

// readWide reads the widths of a composite font: "first [w w …]" or "first last
// w", PDF 32000-1, 9.7.4.3.
func (f *face) readWide(v pdf.Value) {
	f.other = 1000
	if dw := v.Key("DW"); dw.Kind() != pdf.Null {
		f.other = dw.Float64()
	}
	all := v.Key("W")
	for i := 0; i+1 < all.Len(); {
		first, next := int(all.Index(i).Int64()), all.Index(i+1)
		if next.Kind() == pdf.Array {
			for j := range next.Len() {
				f.widths[first+j] = next.Index(j).Float64()
			}
			i += 2
			continue
		}
		for code := max(first, 0); code <= min(int(next.Int64()), 0xffff); code++ {
			f.widths[code] = all.Index(i + 2).Float64()
		}
		i += 3
	}
}

// width is that of a string, as a part of the font's size, and how many codes it has.
func (f *face) width(raw string) (total float64, codes int) {
	step := 1
	if f.wide {
		step = 2
	}
	for i := 0; i+step <= len(raw); i += step {
		code := int(raw[i])
		if f.wide {
			code = code<<8 | int(raw[i+1])
		}
		width, known := f.widths[code]
		if !known {
			width = f.other
		}
		total += width
		codes++
	}
	return total / 1000, codes
}
