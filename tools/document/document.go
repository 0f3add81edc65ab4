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
	"maps"
	"mime"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gabriel-vasile/mimetype"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/media"
)

// readable is what the readers know, for messages.
const readable = "csv, tsv, xlsx, ods, pdf, docx, odt, pptx, odp, html, xml, json, txt, md, " +
	"program source and other text, and zip, tar and gz archives"

// Source is a file or an HTTP body before it is read.
type Source struct {
	Name        string `json:"name,omitzero"`         // with its extension, or ""
	ContentType string `json:"content_type,omitzero"` // from the server, "" for files
	Base        string `json:"base,omitzero"`         // its address, "" for files; web pages become markdown
	Mode        string `json:"mode,omitzero"`         // of web_fetch: ModePage if it is ""
	Inside      string `json:"inside,omitzero"`       // the member of an archive to read; "." lists an office file
	Data        []byte `json:"-"`
}

// answer converts the document in this process. It goes by the bytes; name and content
// type only decide between kinds of text. Its error is a [tools.Unreadable] unless ctx
// is done or the machinery broke.
func (q request) answer(ctx context.Context) (tools.Document, error) {
	if q.Format == formatPage {
		return drawPage(ctx, q.Program, q.Data)
	}
	note := ""
	switch q.Inside {
	case "":
	case ".":
		return readArchive(q.Source)
	default:
		var err error
		if q.Name, q.Data, note, err = memberOf(q.Data, q.Inside); err != nil {
			return tools.Document{}, &tools.Unreadable{Why: tools.Plain(err)}
		}
		q.ContentType, q.Base = "", ""
	}
	doc, err := q.inMode(ctx)
	if err == nil && note != "" {
		doc.Notes = append(doc.Notes, note)
	}
	return doc, err
}

// whole converts all of the document.
func (q request) whole(ctx context.Context) (tools.Document, error) {
	if len(q.Data) == 0 {
		return tools.Document{}, errEmpty
	}
	doc, err := q.read(ctx)
	switch u, is := errors.AsType[*tools.Unreadable](err); {
	case ctx.Err() != nil:
		return tools.Document{}, ctx.Err()
	case is && !errors.Is(err, errExhausted):
		return tools.Document{}, &tools.Unreadable{Why: tools.Plain(u)}
	case err != nil:
		return tools.Document{}, err
	}
	doc = doc.Clipped()
	ext := q.extension()
	misnamed := kindOf[ext] != "" && kindOf[ext] != doc.Kind // or an office file with the name of something else
	if slices.Contains(slices.Collect(maps.Values(kindOf)), doc.Kind) {
		misnamed = ext != "" && kindOf[ext] != doc.Kind
	}
	if q.Base == "" && misnamed {
		doc.Notes = append(doc.Notes, "in spite of its name")
	}
	return doc, nil
}

var errEmpty = tools.Unreadablef("it is empty (0 bytes)")

// kindOf is the kind of document that an extension promises.
var kindOf = map[string]string{
	".pdf": "pdf", ".xlsx": "xlsx", ".xlsm": "xlsx", ".docx": "docx", ".docm": "docx", ".pptx": "pptx", ".pptm": "pptx",
	".odt": "odt", ".ods": "ods", ".odp": "odp",
}

func (q request) read(ctx context.Context) (tools.Document, error) {
	detected := mimetype.Detect(q.Data)
	if detected.Is("application/octet-stream") {
		q.Data = withMark(q.Data)
		detected = mimetype.Detect(q.Data)
	}
	switch {
	case isPDF(q.Data):
		return q.byLibrary(ctx, "pdf")
	case archiveKind(q.Data) != "":
		return q.readPacked(ctx)
	case bytes.HasPrefix(q.Data, []byte("\xd0\xcf\x11\xe0")):
		return tools.Document{}, tools.Unreadablef("it is an encrypted office file or one of the old binary kind (%s), "+
			"and cannot be read; readable are %s", detected, readable)
	case q.Base == "" && media.IsMedia(q.Data, detected): // of the workspace, where other tools can have a look
		return media.AboutMedia(q.Data, detected)
	case isText(detected) || q.isPage():
		return q.readText()
	}
	return tools.Document{}, tools.Unreadablef("it is of type %s, which cannot be read; readable are %s", detected, readable)
}

// byLibrary reads a document with poppler or the library for its format.
func (q request) byLibrary(ctx context.Context, format string) (tools.Document, error) {
	if q.Less > 0 {
		return tools.Document{}, errExhausted
	}
	if format == "pdf" && len(q.Program) > 0 {
		return readByPoppler(ctx, q.Program, q.Data)
	}
	read := map[string]func(context.Context, []byte) (tools.Document, error){
		"pdf": readPDF, "xlsx": readSheets, "docx": readDocx, "pptx": readPptx, "odf": readODF,
	}[format]
	return read(ctx, q.Data)
}

// readPacked reads an office file, lists an archive, and reads what is in a gzip file.
func (q request) readPacked(ctx context.Context) (tools.Document, error) {
	switch archiveKind(q.Data) {
	case "gzip":
		data, err := gunzip(q.Data)
		if err != nil {
			return tools.Document{}, err
		}
		switch kind := archiveKind(data); {
		case kind == "gzip":
			return tools.Document{}, tools.Unreadablef("it is a gzip file in a gzip file, which cannot be read")
		case kind == "tar":
			return readArchive(q.Source)
		case len(data) == 0:
			return tools.Document{}, tools.Unreadablef("it is a gzip file with nothing in it")
		}
		q.ContentType, q.Data = "", data
		doc, err := q.read(ctx)
		doc.Notes = append(doc.Notes, "unpacked from gzip")
		return doc, err
	case "zip": // an office file, by the parts inside, or another archive
		z, err := openZip(q.Data)
		if err != nil {
			return tools.Document{}, err
		}
		for _, f := range z.File {
			switch partName(f.Name) {
			case "xl/workbook.xml":
				return q.byLibrary(ctx, "xlsx")
			case "word/document.xml":
				return q.byLibrary(ctx, "docx")
			case "ppt/presentation.xml":
				return q.byLibrary(ctx, "pptx")
			case "xl/workbook.bin":
				return tools.Document{}, tools.Unreadablef("it is an xlsb workbook, which cannot be read; saved as xlsx it can")
			case "mimetype":
				if mime, err := unpack(f, 200); err == nil && odfKind(string(mime)) != "" {
					return q.byLibrary(ctx, "odf")
				}
			}
		}
	}
	return readArchive(q.Source)
}

// isPDF looks for the header, which may be behind something else; a text
// that only mentions one has no end mark.
func isPDF(data []byte) bool {
	header := []byte("%PDF-")
	return bytes.HasPrefix(data, header) ||
		bytes.Contains(data[:min(len(data), 1024)], header) && bytes.Contains(data, []byte("startxref"))
}

// isText goes by the detector, which takes every mention of a PDF header for a
// PDF.
func isText(m *mimetype.MIME) bool {
	for ; m != nil; m = m.Parent() {
		if m.Is("text/plain") || m.Is("application/pdf") {
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
	return src.Base != "" && (media == "text/html" || media == "application/xhtml+xml")
}

type readFileArgs struct {
	Path   string `json:"path"`
	Inside string `json:"inside,omitzero" jsonschema:"member of an archive or office file; . lists them"`
	Page   int    `json:"page,omitzero"`
	Find   string `json:"find,omitzero"`
}

// NewReadFile makes read_file, which reads a file of the workspace.
func NewReadFile(reader Reader) tools.Tool {
	return tools.Define(tools.Definition[readFileArgs]{Name: "read_file",
		Description: "Reads a file as text: spreadsheets with formulas, documents, slides, pdf, any text; lists archives.",
		Run: func(ctx context.Context, env *tools.Env, a readFileArgs) (tools.Output, error) {
			data, err := env.ReadFile(a.Path)
			if err != nil {
				return tools.Failed("cannot read %q: %v", a.Path, err), nil
			}
			title := tools.PlainName(a.Path)
			doc, err := reader.Read(ctx, Source{Name: path.Base(filepath.ToSlash(a.Path)), Inside: a.Inside, Data: data})
			if a.Inside != "" {
				title += ", inside it " + tools.PlainName(a.Inside)
			}
			if u, is := errors.AsType[*tools.Unreadable](err); is {
				return tools.Failed("cannot read %q: %v", a.Path, u), nil
			}
			if err != nil {
				return tools.Output{}, err
			}
			return doc.Show(title, a.Page, a.Find), nil
		}})
}

// Text returns what read_file makes of a file's bytes; where it makes nothing of
// them, the bytes as they are. An error means that the machinery broke.
func (r Reader) Text(ctx context.Context, name string, data []byte) (string, error) {
	doc, err := r.Read(ctx, Source{Name: name, Data: data})
	if errors.As(err, new(*tools.Unreadable)) || doc.Kind == media.KindPicture || doc.Kind == media.KindRecording {
		return string(data), nil
	}
	return doc.Text, err
}

// Picture returns what in a file is to be looked at: the file, a member of it, or a page
// of a pdf, which is drawn. An *unreadable is for the model.
func (r Reader) Picture(ctx context.Context, data []byte, inside string, page int) ([]byte, error) {
	if inside != "" {
		var err error
		if _, data, _, err = memberOf(data, inside); err != nil {
			return nil, &tools.Unreadable{Why: tools.Plain(err)}
		}
	}
	switch {
	case isPDF(data):
		return r.page(ctx, data, max(page, 1))
	case page != 0:
		return nil, tools.Unreadablef("it is no pdf file, so it has no pages: leave page out")
	}
	return data, nil
}
