package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"path"
	"slices"
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
const readable = "csv, tsv, xlsx, ods, pdf, docx, odt, pptx, odp, html, xml, json, txt, md, program source and other text, and zip, tar and gz archives"

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

// here turns src, or a member of it, into text in this process. It goes by what the
// bytes are; name and content type only decide between kinds of text. Its error is an
// *unreadable unless ctx is done or the machinery broke.
func (r Reader) here(ctx context.Context, src source, mode, inside string) (document, error) {
	note := ""
	switch inside {
	case "":
	case ".":
		return readArchive(src)
	default:
		var err error
		if src, note, err = memberOf(src, inside); err != nil {
			return document{}, &unreadable{plain(err)}
		}
	}
	doc, err := r.inMode(ctx, src, mode)
	if err == nil && note != "" {
		doc.notes = append(doc.notes, note)
	}
	return doc, err
}

// whole turns all of src into text.
func (r Reader) whole(ctx context.Context, src source) (document, error) {
	if len(src.data) == 0 {
		return document{}, unreadablef("it is empty (0 bytes)")
	}
	doc, err := src.read(ctx, r)
	if ctx.Err() != nil {
		return document{}, ctx.Err()
	}
	var u *unreadable
	switch {
	case errors.Is(err, errExhausted):
		return document{}, err
	case errors.As(err, &u):
		return document{}, &unreadable{plain(u)}
	case err != nil:
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
	return plainLine(err.Error())
}

// plainLine is a text from outside on one line, as it may be shown.
func plainLine(text string) string {
	text = strings.Map(printable, strings.ToValidUTF8(text, "\ufffd"))
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
	case "xlsx", "docx", "pptx":
		return ext != "" && ext != "."+kind && ext != "."+kind[:3]+"m"
	case "odt", "ods", "odp":
		return ext != "" && ext != "."+kind
	default:
		return slices.Contains([]string{".pdf", ".xlsx", ".xlsm", ".docx", ".docm", ".pptx", ".pptm", ".odt", ".ods", ".odp"}, ext)
	}
}

func (src source) read(ctx context.Context, r Reader) (document, error) {
	head := src.data[:min(len(src.data), 1024)]
	detected := mimetype.Detect(src.data)
	if detected.Is("application/octet-stream") {
		src.data = withMark(src.data)
		detected = mimetype.Detect(src.data)
	}
	switch {
	case isPDF(src.data):
		return r.read(ctx, "pdf", src.data)
	case archiveKind(src.data) != "":
		return src.readPacked(ctx, r)
	case bytes.HasPrefix(head, []byte("\xd0\xcf\x11\xe0")):
		return document{}, unreadablef("it is an encrypted office file or one of the old binary kind (%s), and cannot be read; readable are %s", detected, readable)
	case src.base == nil && isMedia(src.data, detected): // of the workspace, where other tools can have a look
		return aboutMedia(src.data, detected)
	case isText(detected) || src.isPage():
		return r.readText(src)
	}
	return document{}, unreadablef("it is of type %s, which cannot be read; readable are %s", detected, readable)
}

// readPacked reads an office file, lists an archive, and looks through gzip.
func (src source) readPacked(ctx context.Context, r Reader) (document, error) {
	switch archiveKind(src.data) {
	case "gzip":
		data, err := gunzip(src.data)
		if err != nil {
			return document{}, err
		}
		switch archiveKind(data) {
		case "gzip":
			return document{}, unreadablef("it is a gzip file in a gzip file, which cannot be read")
		case "tar":
			return readArchive(src)
		}
		if len(data) == 0 {
			return document{}, unreadablef("it is a gzip file with nothing in it")
		}
		src.contentType, src.data = "", data
		doc, err := src.read(ctx, r)
		doc.notes = append(doc.notes, "unpacked from gzip")
		return doc, err
	case "zip":
		kind, err := zipKind(src.data)
		if err != nil {
			return document{}, err
		}
		if kind != "" {
			return r.read(ctx, kind, src.data)
		}
	}
	return readArchive(src)
}

// zipKind tells an office file from other archives by the parts inside: it is
// the name of its reader, "" for an archive.
func zipKind(data []byte) (string, error) {
	z, err := openZip(data)
	if err != nil {
		return "", err
	}
	for _, f := range z.File {
		switch partName(f.Name) {
		case "xl/workbook.xml":
			return "xlsx", nil
		case "word/document.xml":
			return "docx", nil
		case "ppt/presentation.xml":
			return "pptx", nil
		case "xl/workbook.bin":
			return "", unreadablef("it is an xlsb workbook, which cannot be read; saved as xlsx it can")
		case "mimetype":
			if mime, err := unpack(f, 200); err == nil && odfKind(string(mime)) != "" {
				return "odf", nil
			}
		}
	}
	return "", nil
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

// extension is that of what was packed where the name says that it is.
func (src source) extension() string {
	return path.Ext(strings.TrimSuffix(strings.ToLower(src.name), ".gz"))
}

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
