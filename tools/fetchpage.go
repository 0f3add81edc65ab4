package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/gabriel-vasile/mimetype"
)

const errorBodyRunes = 1000 // characters of an error page that are shown

// What web_fetch makes of a web page.
const (
	modePage    = "page"
	modeArticle = "article"
	modeRaw     = "raw"
)

type webFetchArgs struct {
	URL      string `json:"url" jsonschema:"whole address of the page or file, beginning with http:// or https://"`
	Mode     string `json:"mode,omitzero" jsonschema:"page: the whole page as markdown (if left out); article: its main text only; raw: the html or other text as the server sent it"`
	Page     int    `json:"page,omitzero" jsonschema:"which page of a long document to show, from 1; the first if left out"`
	Find     string `json:"find,omitzero" jsonschema:"show only the lines that hold this text, in any case, with their neighbours"`
	Archived string `json:"archived,omitzero" jsonschema:"read the copy in the Internet Archive: latest, or the one nearest to a date (YYYY, YYYY-MM or YYYY-MM-DD)"`
}

// NewWebFetch makes web_fetch, which reads a page or file of the web, or the
// copy of it that an archive has.
func NewWebFetch(w *Web) Tool {
	t := define("web_fetch",
		"Reads a page or file from the web as text: web pages as markdown with their tables and links, files of every kind that read_file reads as it does; of an archive it lists what is inside. Long ones come in pages; find looks inside. With archived it reads the page as it was at a date.",
		w.fetch)
	t.urls = func(a webFetchArgs) []string {
		if copied, err := w.archived(a); err == nil && a.Archived != "" {
			return []string{copied}
		}
		return nil
	}
	return t
}

func (w *Web) fetch(ctx context.Context, env *Env, a webFetchArgs) (Output, error) {
	if a.Mode != "" && a.Mode != modePage && a.Mode != modeArticle && a.Mode != modeRaw {
		return failed("there is no mode %q; give page, article or raw", a.Mode), nil
	}
	x := exchange{url: a.URL, allow: env.AllowURL, header: http.Header{"Accept": {"text/html,application/xhtml+xml,application/json;q=0.9,text/*;q=0.9,*/*;q=0.8"}}}
	if a.Archived != "" {
		copied, err := w.archived(a)
		if err != nil {
			return failed("%v", err), nil
		}
		x.url, x.allow = copied, w.insideArchive(env.AllowURL)
	}
	r, err := w.do(ctx, x)
	if ctx.Err() != nil {
		return Output{}, ctx.Err()
	}
	if err != nil {
		out := failed("cannot fetch %s: %v", a.URL, err)
		out.URLs = r.urls
		return out, nil
	}
	out, err := w.present(ctx, r, a)
	out.URLs = r.urls
	return out, err
}

// present makes a result of what came back.
func (w *Web) present(ctx context.Context, r response, a webFetchArgs) (Output, error) {
	if a.Archived != "" && r.status == http.StatusNotFound && r.header.Get(mementoHeader) == "" {
		return failed("the archive holds no copy of %s; try the page itself, or another address of it", a.URL), nil
	}
	src := source{name: r.fileName(), contentType: r.saidType(), base: r.final, data: r.body}
	title, notes := r.final.String(), []string(nil)
	if a.Archived != "" {
		var captured string
		src.base, captured = w.captured(r, a.URL)
		title = src.base.String()
		notes = append(notes, "an archived copy, captured "+captured)
	}
	doc, err := w.config.Reader.convertAs(ctx, a.Mode, src)
	var u *unreadable
	if err != nil && !errors.As(err, &u) {
		return Output{}, err
	}
	if r.status < 200 || r.status > 299 {
		out := failed("the server answered %d %s to %s", r.status, http.StatusText(r.status), r.final)
		if doc.text != "" {
			out.Document = doc.text
			out.Shown += "\n" + doc.text[:runeOffset(doc.text, errorBodyRunes)]
		}
		return out, nil
	}
	if err != nil {
		return failed("cannot read %s: %v", title, err), nil
	}
	doc.notes = append(doc.notes, notes...)
	if len(r.urls) > 1 && a.Archived == "" {
		doc.notes = append(doc.notes, fmt.Sprintf("redirected from %s", r.urls[0].URL))
	}
	return doc.show(title, a.Page, a.Find), nil
}

// saidType is the content type, "" where it only says that these are bytes.
func (r *response) saidType() string {
	switch media, _, _ := strings.Cut(strings.ToLower(r.contentType), ";"); strings.TrimSpace(media) {
	case "application/octet-stream", "binary/octet-stream", "application/force-download", "application/x-download":
		return ""
	}
	return r.contentType
}

// fileName is what the server calls the file, else how its address ends.
func (r *response) fileName() string {
	if _, parameters, err := mime.ParseMediaType(r.header.Get("Content-Disposition")); err == nil && parameters["filename"] != "" {
		return path.Base(strings.ReplaceAll(parameters["filename"], `\`, "/"))
	}
	return path.Base(r.final.Path)
}

// inMode is whole in one of the modes.
func (r Reader) inMode(ctx context.Context, src source, mode string) (document, error) {
	switch mode {
	case modeRaw:
		return readRaw(src)
	case modeArticle:
		doc, why, err := r.article(src)
		if err != nil || why == "" {
			return doc.clipped(), err
		}
		r.less = max(0, r.less-1)
		doc, err = r.inMode(ctx, src, modePage)
		if err == nil {
			doc.notes = append(doc.notes, why)
		}
		return doc, err
	}
	doc, err := r.whole(ctx, src)
	if err == nil && doc.kind == webPage && byScripts(doc.text, src.data) {
		doc.notes = append(doc.notes, "almost without text: the page is made by scripts, which are not run; try archived or another source")
	}
	return doc, err
}

// readRaw is the text as the server sent it, decoded.
func readRaw(src source) (document, error) {
	if len(src.data) == 0 {
		return document{}, unreadablef("it is empty (0 bytes)")
	}
	if detected := mimetype.Detect(src.data); isPDF(src.data) || !isText(detected) && !src.isPage() {
		return document{}, unreadablef("it is of type %s, which is not text; leave mode out", detected)
	}
	text, notes, err := decodeText(src.data, src.contentType)
	if err != nil {
		return document{}, err
	}
	return document{kind: "text as it was served", notes: notes, text: text}.clipped(), nil
}

// byScripts reports whether a page says next to nothing until its scripts have
// run: a short text out of much source, or a footer out of a megabyte.
func byScripts(text string, data []byte) bool {
	if !bytes.Contains(bytes.ToLower(data), []byte("<script")) {
		return false
	}
	said := len(strings.TrimSpace(text))
	return said < 300 && len(data) > 8*said || len(data) > 150*said
}

// nonEmpty leaves empty strings out.
func nonEmpty(texts ...string) (out []string) {
	for _, t := range texts {
		if t != "" {
			out = append(out, t)
		}
	}
	return out
}
