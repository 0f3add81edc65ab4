package web

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/document"
)

const errorBodyRunes = 1000 // characters of an error page that are shown

type webFetchArgs struct {
	URL      string `json:"url"`
	Mode     string `json:"mode,omitzero" jsonschema:"page (default), article (main text) or raw"`
	Page     int    `json:"page,omitzero"`
	Find     string `json:"find,omitzero"`
	Archived string `json:"archived,omitzero" jsonschema:"Internet Archive copy: latest, or nearest YYYY[-MM[-DD]]"`
}

// NewWebFetch makes web_fetch, which reads a page or file of the web, or the
// copy of it that an archive has.
func NewWebFetch(w *Web) tools.Tool {
	return tools.Define(tools.Definition[webFetchArgs]{Name: "web_fetch",
		Description: "Reads a web page as markdown, or a web file as read_file does.",
		Run:         w.fetch,
		URLs: func(a webFetchArgs) []string {
			if copied, err := w.archived(a); err == nil && a.Archived != "" {
				return []string{copied}
			}
			return nil
		}})
}

func (w *Web) fetch(ctx context.Context, env *tools.Env, a webFetchArgs) (tools.Output, error) {
	if !slices.Contains([]string{"", document.ModePage, document.ModeArticle, document.ModeRaw}, a.Mode) {
		return tools.Failed("there is no mode %q; give page, article or raw", a.Mode), nil
	}
	const accept = "text/html,application/xhtml+xml,application/json;q=0.9,text/*;q=0.9,*/*;q=0.8"
	x := exchange{url: a.URL, allow: env.AllowURL, header: http.Header{"Accept": {accept}}}
	if a.Archived != "" {
		copied, err := w.archived(a)
		if err != nil {
			return tools.Failed("%v", err), nil
		}
		x.url, x.allow = copied, w.insideArchive(env.AllowURL)
	}
	r, err := w.do(ctx, x)
	if ctx.Err() != nil {
		return tools.Output{}, ctx.Err()
	}
	if err != nil {
		out := tools.Failed("cannot fetch %s: %v", a.URL, err)
		out.URLs = r.urls
		return out, nil
	}
	out, err := w.present(ctx, r, a)
	out.URLs = r.urls
	return out, err
}

// present makes a result of what came back.
func (w *Web) present(ctx context.Context, r response, a webFetchArgs) (tools.Output, error) {
	if a.Archived != "" && r.status == http.StatusNotFound && r.header.Get(mementoHeader) == "" {
		return tools.Failed("the archive holds no copy of %s; try the page itself, or another address of it", a.URL), nil
	}
	src := document.Source{Name: path.Base(r.final.Path), ContentType: r.contentType, Base: r.final.String(), Mode: a.Mode, Data: r.body}
	if _, parameters, err := mime.ParseMediaType(r.header.Get("Content-Disposition")); err == nil && parameters["filename"] != "" {
		src.Name = path.Base(strings.ReplaceAll(parameters["filename"], `\`, "/"))
	}
	switch media, _, _ := strings.Cut(strings.ToLower(r.contentType), ";"); strings.TrimSpace(media) {
	case "application/octet-stream", "binary/octet-stream", "application/force-download", "application/x-download":
		src.ContentType = "" // it says no more than that these are bytes
	}
	var notes []string
	if a.Archived != "" {
		var captured string
		src.Base, captured = w.captured(r, a.URL)
		notes = append(notes, "an archived copy, captured "+captured)
	}
	doc, err := w.config.Reader.Read(ctx, src)
	if err != nil && !errors.As(err, new(*tools.Unreadable)) {
		return tools.Output{}, err
	}
	if r.status < 200 || r.status > 299 {
		out := tools.Failed("the server answered %d %s to %s", r.status, http.StatusText(r.status), r.final)
		if doc.Text != "" {
			out.Document = doc.Text
			out.Shown += "\n" + doc.Text[:tools.RuneOffset(doc.Text, errorBodyRunes)]
		}
		return out, nil
	}
	if err != nil {
		return tools.Failed("cannot read %s: %v", src.Base, err), nil
	}
	doc.Notes = append(doc.Notes, notes...)
	if len(r.urls) > 1 && a.Archived == "" {
		doc.Notes = append(doc.Notes, fmt.Sprintf("redirected from %s", r.urls[0].URL))
	}
	return doc.Show(src.Base, a.Page, a.Find), nil
}
