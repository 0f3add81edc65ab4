// Package document turns files into text: office files, pdf, web pages, archives, tables and
// text in any encoding. It has the tool read_file.
//
// Formats that can be made to take too much are read in a process of their own, the child of
// a [Reader], with limits of memory and time, an empty environment and no files to write
// (TestHostileFiles, TestChildFails). A document that cannot be read is a result that says
// why. Archives are listed and their members read in memory; nothing is unpacked to disk.
package document

import (
	"bytes"
	"context"
	"errors"
	"mime"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/gabriel-vasile/mimetype"
	"github.com/gaia-harness/gaia/tools"
)

// readable is what the readers know, for messages.
const readable = "csv, tsv, xlsx, ods, pdf, docx, odt, pptx, odp, html, xml, json, txt, md, program source and other text, and zip, tar and gz archives"

// source is a file or an HTTP body before it is read.
type Source struct {
	Name        string   // with its extension, or ""
	ContentType string   // what the server said, "" for files
	Base        *url.URL // where it came from, nil for files; web pages become markdown
	Data        []byte
}

// here turns src, or a member of it, into text in this process. It goes by what the
// bytes are; name and content type only decide between kinds of text. Its error is an
// *unreadable unless ctx is done or the machinery broke.
func (r Reader) here(ctx context.Context, src Source, mode, inside string) (tools.Document, error) {
	note := ""
	switch inside {
	case "":
	case ".":
		return readArchive(src)
	default:
		var err error
		if src, note, err = memberOf(src, inside); err != nil {
			return tools.Document{}, &tools.Unreadable{Why: tools.Plain(err)}
		}
	}
	doc, err := r.inMode(ctx, src, mode)
	if err == nil && note != "" {
		doc.Notes = append(doc.Notes, note)
	}
	return doc, err
}

// whole turns all of src into text.
func (r Reader) whole(ctx context.Context, src Source) (tools.Document, error) {
	if len(src.Data) == 0 {
		return tools.Document{}, tools.Unreadablef("it is empty (0 bytes)")
	}
	doc, err := src.read(ctx, r)
	if ctx.Err() != nil {
		return tools.Document{}, ctx.Err()
	}
	var u *tools.Unreadable
	switch {
	case errors.Is(err, errExhausted):
		return tools.Document{}, err
	case errors.As(err, &u):
		return tools.Document{}, &tools.Unreadable{Why: tools.Plain(u)}
	case err != nil:
		return tools.Document{}, err
	}
	doc = doc.Clipped()
	if src.Base == nil && src.misnamed(doc.Kind) {
		doc.Notes = append(doc.Notes, "in spite of its name")
	}
	return doc, nil
}

// misnamed reports whether a file's name says that it is something else.
func (src Source) misnamed(kind string) bool {
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

func (src Source) read(ctx context.Context, r Reader) (tools.Document, error) {
	head := src.Data[:min(len(src.Data), 1024)]
	detected := mimetype.Detect(src.Data)
	if detected.Is("application/octet-stream") {
		src.Data = withMark(src.Data)
		detected = mimetype.Detect(src.Data)
	}
	switch {
	case isPDF(src.Data):
		return r.read(ctx, "pdf", src.Data)
	case archiveKind(src.Data) != "":
		return src.readPacked(ctx, r)
	case bytes.HasPrefix(head, []byte("\xd0\xcf\x11\xe0")):
		return tools.Document{}, tools.Unreadablef("it is an encrypted office file or one of the old binary kind (%s), and cannot be read; readable are %s", detected, readable)
	case src.Base == nil && tools.IsMedia(src.Data, detected): // of the workspace, where other tools can have a look
		return tools.AboutMedia(src.Data, detected)
	case isText(detected) || src.isPage():
		return r.readText(src)
	}
	return tools.Document{}, tools.Unreadablef("it is of type %s, which cannot be read; readable are %s", detected, readable)
}

// readPacked reads an office file, lists an archive, and looks through gzip.
func (src Source) readPacked(ctx context.Context, r Reader) (tools.Document, error) {
	switch archiveKind(src.Data) {
	case "gzip":
		data, err := gunzip(src.Data)
		if err != nil {
			return tools.Document{}, err
		}
		switch archiveKind(data) {
		case "gzip":
			return tools.Document{}, tools.Unreadablef("it is a gzip file in a gzip file, which cannot be read")
		case "tar":
			return readArchive(src)
		}
		if len(data) == 0 {
			return tools.Document{}, tools.Unreadablef("it is a gzip file with nothing in it")
		}
		src.ContentType, src.Data = "", data
		doc, err := src.read(ctx, r)
		doc.Notes = append(doc.Notes, "unpacked from gzip")
		return doc, err
	case "zip":
		kind, err := zipKind(src.Data)
		if err != nil {
			return tools.Document{}, err
		}
		if kind != "" {
			return r.read(ctx, kind, src.Data)
		}
	}
	return readArchive(src)
}

// zipKind tells an office file from other archives by the parts inside: it is
// the name of its reader, "" for an archive.
func zipKind(data []byte) (string, error) {
	z, err := OpenZip(data)
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
			return "", tools.Unreadablef("it is an xlsb workbook, which cannot be read; saved as xlsx it can")
		case "mimetype":
			if mime, err := Unpack(f, 200); err == nil && odfKind(string(mime)) != "" {
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
func (src Source) extension() string {
	return path.Ext(strings.TrimSuffix(strings.ToLower(src.Name), ".gz"))
}

// mediaType is the server's content type without its parameters.
func (src Source) mediaType() string {
	t, _, err := mime.ParseMediaType(src.ContentType)
	if err != nil {
		return ""
	}
	return t
}

// isPage reports whether a server calls this a web page.
func (src Source) isPage() bool {
	media := src.mediaType()
	return src.Base != nil && (media == "text/html" || media == "application/xhtml+xml")
}
