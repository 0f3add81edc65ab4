package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ledongthuc/pdf"
)

// readPDF turns a PDF's pages into lines of text, as they stand on the page.
// The library trusts the file: it panics on a damaged one, and a hostile one
// can make it run or grow without end, which is what a [Reader]'s child is for. A page
// that cannot be read is named in its place.
func readPDF(ctx context.Context, data []byte) (doc document, err error) {
	defer func() {
		if p := recover(); p != nil {
			doc, err = document{}, unreadablef("it is a pdf file that is damaged: %v", p)
		}
	}()
	data, err = mendPDF(data)
	if err != nil {
		return document{}, err
	}
	r, err := pdf.NewReader(bytes.NewReader(data), int64(len(data)))
	if errors.Is(err, pdf.ErrInvalidPassword) {
		return document{}, unreadablef("it is an encrypted pdf file, and cannot be read without its password")
	}
	if err != nil {
		return document{}, unreadablef("it is a pdf file that cannot be read: %v", err)
	}
	pages := pdfPages(nil, r.Trailer().Key("Root").Key("Pages"), pdf.Value{}, 0)
	if len(pages) == 0 {
		return document{}, unreadablef("it is a pdf file that cannot be read: it has no pages")
	}
	var b strings.Builder
	empty, faces := 0, map[string]*face{}
	for i, page := range pages {
		if err := ctx.Err(); err != nil {
			return document{}, err
		}
		text, problem := page.text(faces)
		fmt.Fprintf(&b, "[pdf page %d of %d", i+1, len(pages))
		switch {
		case problem != nil:
			fmt.Fprintf(&b, ": not wholly readable: %v", plain(problem))
		case text == "":
			b.WriteString(": no text")
			empty++
		}
		b.WriteString("]\n" + text)
		if b.Len() > maxDocument {
			break
		}
	}
	notes := []string{count(len(pages), "page")}
	if empty == len(pages) {
		notes = append(notes, "none with text: they are probably pictures")
	} else if empty > 0 {
		notes = append(notes, fmt.Sprintf("%d without text", empty))
	}
	return document{"pdf", notes, strings.ToValidUTF8(b.String(), "\ufffd")}, nil
}

// mendPDF puts right what many files have and the library insists on: nothing
// before the header or after the end mark, and a version below 2.
func mendPDF(data []byte) ([]byte, error) {
	start := bytes.Index(data, []byte("%PDF-"))
	end := bytes.LastIndex(data, []byte("%%EOF"))
	if start < 0 || end < start+16 {
		return nil, unreadablef("it is a pdf file that is cut off or damaged: its end is missing")
	}
	mended := append(bytes.Clone(data[start:end]), "%%EOF\n"...)
	copy(mended, "%PDF-1.7\n")
	return mended, nil
}

// pdfPage is a page and the resources it has or inherits.
type pdfPage struct{ page, resources pdf.Value }

// pdfPages appends the pages of a page tree. The library's own lookup starts
// from the root for every page.
func pdfPages(pages []pdfPage, node, resources pdf.Value, depth int) []pdfPage {
	if own := node.Key("Resources"); own.Kind() == pdf.Dict {
		resources = own
	}
	switch kids := node.Key("Kids"); {
	case depth > 50 || node.Kind() != pdf.Dict:
	case kids.Kind() == pdf.Array:
		for i := range kids.Len() {
			pages = pdfPages(pages, kids.Index(i), resources, depth+1)
		}
	case depth > 0:
		pages = append(pages, pdfPage{node, resources})
	}
	return pages
}

// text returns a page's text, each line ending with \n, and, if there is more
// that could not be read, why.
func (p pdfPage) text(faces map[string]*face) (text string, problem error) {
	w := &writing{faces: faces}
	func() {
		defer func() {
			if r := recover(); r != nil {
				problem = fmt.Errorf("%v", r)
			}
		}()
		w.run(p.page.Key("Contents"), p.resources, 0)
	}()
	return layout(w.pieces), problem
}
