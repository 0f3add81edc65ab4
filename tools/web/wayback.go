package web

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"
)

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
