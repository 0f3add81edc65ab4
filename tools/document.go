package tools

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/gabriel-vasile/mimetype"
)

// Limits of what is read. They hold for files and for what comes over HTTP.
const (
	maxFile     = 64 << 20 // bytes of a file
	maxDocument = 16 << 20 // bytes of text made from one; the rest is left out, and said so
)

// readable is what the readers know, for messages.
const readable = "csv, tsv, xlsx, pdf, json, txt, md and other text"

// source is a file or an HTTP body before it is read.
type source struct {
	name        string   // with its extension, or ""
	contentType string   // what the server said, "" for files
	base        *url.URL // where it came from, nil for files; web pages become markdown
	data        []byte
}

// unreadable says, for the model, why there is no document.
type unreadable struct{ why string }

func (u *unreadable) Error() string { return u.why }

func unreadablef(format string, args ...any) error {
	return &unreadable{fmt.Sprintf(format, args...)}
}

// convert turns src into text. It goes by what the bytes are; name and content
// type only decide between kinds of text. Its error is an *unreadable unless
// ctx is done or the machinery broke.
func (r Reader) convert(ctx context.Context, src source) (document, error) {
	if len(src.data) == 0 {
		return document{}, unreadablef("it is empty (0 bytes)")
	}
	doc, err := src.read(ctx, r)
	if ctx.Err() != nil {
		return document{}, ctx.Err()
	}
	var u *unreadable
	if errors.As(err, &u) {
		return document{}, &unreadable{plain(u)}
	}
	if err != nil {
		return document{}, err
	}
	doc = doc.clipped()
	if src.base == nil && src.misnamed(doc.kind) {
		doc.notes = append(doc.notes, "in spite of its name")
	}
	return doc, nil
}

// plain is the text of an error on one line. A library's words can hold
// anything that is in the file.
func plain(err error) string {
	if err == nil {
		return ""
	}
	text := strings.Map(printable, strings.ToValidUTF8(err.Error(), "\ufffd"))
	return text[:runeOffset(text, 400)]
}

// printable makes every kind of space a space and drops control characters and
// soft hyphens.
func printable(r rune) rune {
	switch {
	case r == '\t' || r == '\n' || r == '\r' || r == '\u00a0':
		return ' '
	case r < ' ' || r == '\u00ad':
		return -1
	}
	return r
}

// clipped is d with no more text than a document may have.
func (d document) clipped() document {
	if len(d.text) > maxDocument {
		d.text = d.text[:lineEnd(d.text, maxDocument)]
		d.notes = append(d.notes, fmt.Sprintf("only its first %d MiB of text", maxDocument>>20))
	}
	return d
}

// misnamed reports whether a file's name says that it is something else.
func (src source) misnamed(kind string) bool {
	switch ext := src.extension(); kind {
	case "pdf":
		return ext != "" && ext != ".pdf"
	case "xlsx":
		return ext != "" && ext != ".xlsx" && ext != ".xlsm"
	default:
		return ext == ".pdf" || ext == ".xlsx" || ext == ".xlsm"
	}
}

func (src source) read(ctx context.Context, r Reader) (document, error) {
	head := src.data[:min(len(src.data), 1024)]
	detected := mimetype.Detect(src.data)
	switch {
	case isPDF(src.data):
		return r.read(ctx, "pdf", src.data)
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		switch zipKind(src.data) {
		case "xlsx":
			return r.read(ctx, "xlsx", src.data)
		case "broken":
			return document{}, unreadablef("it is a zip-based file (such as xlsx) that is cut off or damaged")
		}
	case bytes.HasPrefix(head, []byte("\xd0\xcf\x11\xe0")):
		return document{}, unreadablef("it is an encrypted office file or one of the old binary kind (%s), and cannot be read; readable are %s", detected, readable)
	case isText(detected) || src.isPage():
		return readText(src)
	}
	return document{}, unreadablef("it is of type %s, which cannot be read; readable are %s", detected, readable)
}

// zipKind tells a workbook from other archives by the parts inside.
func zipKind(data []byte) string {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return "broken"
	}
	for _, f := range z.File {
		if strings.EqualFold(strings.ReplaceAll(f.Name, `\`, "/"), "xl/workbook.xml") {
			return "xlsx"
		}
	}
	return "other"
}

// isPDF looks for the header, which may stand behind something else; a text
// that only speaks of one has no end mark.
func isPDF(data []byte) bool {
	header := []byte("%PDF-")
	return bytes.HasPrefix(data, header) || bytes.Contains(data[:min(len(data), 1024)], header) && bytes.Contains(data, []byte("startxref"))
}

// isText goes by the detector, which takes every mention of a PDF header for a
// PDF.
func isText(m *mimetype.MIME) bool {
	if m.Is("application/pdf") {
		return true
	}
	for ; m != nil; m = m.Parent() {
		if m.Is("text/plain") {
			return true
		}
	}
	return false
}

func (src source) extension() string { return strings.ToLower(path.Ext(src.name)) }

// mediaType is the server's content type without its parameters.
func (src source) mediaType() string {
	t, _, err := mime.ParseMediaType(src.contentType)
	if err != nil {
		return ""
	}
	return t
}

// isPage reports whether a server calls this a web page.
func (src source) isPage() bool {
	media := src.mediaType()
	return src.base != nil && (media == "text/html" || media == "application/xhtml+xml")
}

// lineEnd returns where to cut text so that at most limit bytes stay: after a
// line if there is one, else between characters.
func lineEnd(text string, limit int) int {
	if i := strings.LastIndexByte(text[:limit], '\n'); i >= 0 {
		return i + 1
	}
	for !utf8.RuneStart(text[limit]) {
		limit--
	}
	return limit
}
