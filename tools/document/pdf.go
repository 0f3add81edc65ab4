package document

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
