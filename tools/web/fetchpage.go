package web

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

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

// mementoHeader says when an archive captured what it sends (RFC 7089). Only an
// answer from a capture has it.
const mementoHeader = "Memento-Datetime"

// latest asks for the newest copy.
const latest = "latest"

// archived is the address of a copy: /web/STAMPid_/URL, where id_ asks for the
// bytes as they were captured, and the archive redirects to the capture nearest
// to the stamp. A year or month is asked for by its middle, so that the nearest
// is one inside if there is any.
func (w *Web) archived(a webFetchArgs) (string, error) {
	u, err := ParseURL(a.URL)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(u.String(), w.config.Archive+"/") {
		return "", fmt.Errorf("%s is an archived copy already; leave archived out, or give the address of the page itself", u)
	}
	stamp := ""
	if a.Archived == latest {
		stamp = "2" // what no capture is later than in the archive's order
	}
	for layout, half := range map[string]string{"2006": "0701000000", "2006-01": "15000000", "2006-01-02": "120000"} {
		if at, err := time.Parse(layout, a.Archived); err == nil {
			stamp = at.Format(strings.ReplaceAll(layout, "-", "")) + half
		}
	}
	if stamp == "" {
		return "", fmt.Errorf("archived is %q; give latest, or a date as YYYY, YYYY-MM or YYYY-MM-DD", a.Archived)
	}
	return w.config.Archive + "/web/" + stamp + "id_/" + u.String(), nil
}

// copyPath is the path of a copy, before and after the archive has found the
// nearest one.
var copyPath = regexp.MustCompile(`^/web/([0-9]{1,14})(?:id_)?/(.+)$`)

// inner returns the stamp and the address of the page of which raw is a copy.
func (w *Web) inner(raw string) (stamp, page string, ok bool) {
	rest, ok := strings.CutPrefix(raw, w.config.Archive)
	m := copyPath.FindStringSubmatch(rest)
	if !ok || m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}

// insideArchive allows redirects from copy to copy, where both the copy and
// what it is of are allowed: one that leads to the web of today is no copy.
func (w *Web) insideArchive(allow func(string) error) func(string) error {
	return func(to string) error {
		_, page, ok := w.inner(to)
		if !ok {
			return errors.New("it leads out of the archive")
		}
		if err := allow(to); err != nil {
			return err
		}
		return allow(page)
	}
}

// captured returns what a copy is of, and when it was made, in words.
func (w *Web) captured(r response, asked string) (page, when string) {
	stamp, of, _ := w.inner(r.final.String())
	page = r.final.String()
	for _, raw := range []string{asked, of} {
		if u, err := ParseURL(raw); err == nil {
			page = u.String()
		}
	}
	if at, err := http.ParseTime(r.header.Get(mementoHeader)); err == nil {
		return page, at.UTC().Format("2006-01-02")
	}
	if at, err := time.Parse("20060102150405", stamp); err == nil {
		return page, at.Format("2006-01-02")
	}
	return page, "at a date that the archive does not give"
}
