package viewer

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/overview"
	"github.com/gaia-harness/gaia/internal/page"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/trajectory"
)

// settleTime is how long a page waits for a journal that is read for the first time: most are read by then. A page of one
// line waits until the line is read.
const (
	settleTime = 100 * time.Millisecond
	lineTime   = 20 * time.Second
)

// document is a page.
type document interface{ Write(io.Writer) error }

// handlers are all routes behind the door, by pattern.
func (s *Server) handlers() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"/{$}":                        s.show(s.listPage),
		openPath:                      s.openFirst,
		"/run/{id}":                   s.show(s.runPage),
		"/run/{id}/task/{task}":       s.show(s.taskPage),
		"/run/{id}/task/{task}/chunk": s.show(s.chunk),
		"/run/{id}/task/{task}/plot/{attempt}/{file}": s.taskPlot,
		"/run/{id}/audit":            s.show(s.auditPage),
		"/run/{id}/journal":          s.show(s.journalPage),
		"/run/{id}/plot/{file}":      s.runPlot,
		"/run/{id}/picture/{digest}": s.picture,
		"/run/{id}/body/{digest}":    s.body,
		"/compare":                   s.show(s.comparePage),
		"/history":                   s.show(s.historyPage),
		"/history/plot/{file}":       s.historyPlot,
		"/events":                    s.events,
		"/favicon.ico":               func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"/static/{file}":             s.static,
		"/static/{hash}/{file}":      s.static,
		"/":                          s.show(func(*http.Request) (document, error) { return nil, errNoPage }),
	}
}

var (
	errNoPage      = errors.New("there is no such page")
	errLongAddress = errors.New("the address is too long")
)

// statusOf returns the status for an error, and a hint.
func statusOf(err error) (status int, hint string) {
	var found *exit.Error
	switch {
	case errors.Is(err, errUnknown), errors.Is(err, errNoPage), errors.Is(err, errWithheld), errors.Is(err, overview.ErrNoTask), errors.Is(err, fs.ErrNotExist):
		return http.StatusNotFound, ""
	case errors.Is(err, errRemoved), errors.Is(err, rundir.ErrRemoved):
		return http.StatusGone, ""
	case errors.Is(err, errNoDigest), errors.Is(err, errLongAddress):
		return http.StatusBadRequest, ""
	case errors.Is(err, errTooLarge), errors.Is(err, errManyPixels):
		return http.StatusRequestEntityTooLarge, ""
	case errors.Is(err, errNoPicture):
		return http.StatusUnsupportedMediaType, ""
	case errors.As(err, new(*trajectory.Fault)):
		return http.StatusUnprocessableEntity, ""
	case errors.As(err, &found) && len(found.Hints) > 0:
		return http.StatusUnprocessableEntity, found.Hints[0]
	}
	return http.StatusInternalServerError, ""
}

// show answers with a page, or with one that says why there is none.
func (s *Server) show(of func(r *http.Request) (document, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d, err := of(r)
		var b bytes.Buffer
		if err == nil {
			err = d.Write(&b)
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.send(w, "text/html; charset=utf-8", b.Bytes())
	}
}

// fail answers with a page that says why there is no other.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, hint := statusOf(err)
	if status == http.StatusInternalServerError && r.Context().Err() == nil {
		s.c.Log(visible.Line(r.URL.Path + ": " + err.Error()))
	}
	p := page.Failure{Head: s.head(titles[status]), Status: status, Text: err.Error(), Hint: hint}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", page.CSP)
	w.WriteHeader(status)
	p.Write(w)
}

var titles = map[int]string{
	http.StatusBadRequest: "Not an address", http.StatusNotFound: "Not found", http.StatusGone: "Removed", http.StatusRequestEntityTooLarge: "Too large",
	http.StatusUnsupportedMediaType: "Not a picture", http.StatusUnprocessableEntity: "Damaged", http.StatusInternalServerError: "Error",
}

// send answers with content of this program's making.
func (s *Server) send(w http.ResponseWriter, media string, content []byte) {
	w.Header().Set("Content-Type", media)
	if strings.HasPrefix(media, "text/html") {
		w.Header().Set("Content-Security-Policy", page.CSP)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.Write(content)
}

// head returns what pages of this server have in common; the trail leads from the list of runs.
func (s *Server) head(title string, trail ...page.Link) page.Head {
	return page.Head{Title: title, Trail: append([]page.Link{{Text: "Runs", Path: "/"}}, trail...), Static: staticPath, Program: s.c.Program}
}

// Style sheet and script have the digest of both in their path, so that a browser may keep them.
var (
	staticHash = func() string {
		sum := sha256.Sum256(append(append([]byte{}, page.Style...), page.Script...))
		return hex.EncodeToString(sum[:8])
	}()
	staticPath = "/static/" + staticHash + "/"
)

func (s *Server) static(w http.ResponseWriter, r *http.Request) {
	content := map[string]struct {
		media string
		bytes []byte
	}{"style.css": {"text/css; charset=utf-8", page.Style}, "script.js": {"text/javascript; charset=utf-8", page.Script}}
	c, ok := content[r.PathValue("file")]
	switch hash := r.PathValue("hash"); {
	case !ok || hash != "" && hash != staticHash:
		s.fail(w, r, errNoPage)
		return
	case hash != "":
		w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	s.send(w, c.media, c.bytes)
}

// openFirst leads to the page that the printed address is for.
func (s *Server) openFirst(w http.ResponseWriter, r *http.Request) {
	to := "/"
	if s.c.First != "" {
		if id, ok := s.runs.at(s.c.First); ok {
			to = pathOf(id)
		}
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

func (s *Server) listPage(*http.Request) (document, error) {
	rows, version, err := s.runs.list()
	p := page.Runs{Head: s.head("Runs"), Rows: rows}
	p.Trail, p.Live = nil, livePath("", fmt.Sprintf("list.%d", version))
	if err != nil {
		p.Notices = append(p.Notices, page.Notice{Kind: page.NoticeBad, Text: err.Error()})
	}
	return p, nil
}

// withRun gives the run of the path to f, opened, and read to its end if that was soon. The stream of the page is of the
// version that f sees, or an earlier one.
func (s *Server) withRun(r *http.Request, f func(o *opened, source overview.Source) error) error {
	id := r.PathValue("id")
	o, release, err := s.runs.use(r.Context(), id)
	if err != nil {
		return err
	}
	defer release()
	if o.err != nil {
		return o.err
	}
	most := settleTime
	if r.FormValue("line") != "" {
		most = lineTime
	}
	o.settle(r.Context(), most)
	return f(o, o.source())
}

// settle waits until the journal was read to its end, at most for a time.
func (o *opened) settle(ctx context.Context, most time.Duration) {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-o.caughtUp:
	case <-t.C:
	case <-ctx.Done():
	}
}

// maxCompare bounds the runs that a page offers to compare with.
const maxCompare = 20

// source returns the run for the pages of package overview.
func (o *opened) source() overview.Source {
	version, over := o.version()
	row, others := o.s.runs.rowOf(o.id)
	path := pathOf(o.id)
	s := overview.Source{Place: o.place, Paths: page.Paths{Run: path}, Packaged: o.evidence.Packaged, Journal: o.journal, State: row.State,
		Trail: []page.Link{{Text: "Runs", Path: "/"}}, Static: staticPath, Program: o.s.c.Program}
	if row.State == page.Damaged {
		s.Listed = errors.New(row.Problem)
	}
	if !over {
		s.Live = livePath(o.id, version)
	}
	for _, other := range others[:min(len(others), maxCompare)] {
		text := other.ID + ", " + other.Model
		s.Compare = append(s.Compare, page.Link{Text: text, Path: "/compare?" + url.Values{"a": {o.id}, "b": {strings.TrimPrefix(other.Path, "/run/")}}.Encode()})
	}
	o.mu.Lock()
	s.Check = o.check
	o.mu.Unlock()
	return s
}

func (s *Server) runPage(r *http.Request) (d document, err error) {
	_, version, _ := s.runs.list()
	if row, _ := s.runs.rowOf(r.PathValue("id")); row.Workers != nil {
		p := page.ServedRun{Head: s.head("Run " + row.ID), Row: row}
		p.Live = livePath("", fmt.Sprintf("list.%d", version))
		return p, nil
	}
	err = s.withRun(r, func(_ *opened, source overview.Source) (err error) {
		filter, from := page.ParseTaskFilter(r.URL.Query())
		d, err = overview.Run(source, filter, from)
		return err
	})
	return d, err
}

// task returns the page of a task, with the chunk that the address names.
func (s *Server) task(r *http.Request, attempt int) (p page.Task, err error) {
	number := func(name string) int {
		n, _ := strconv.ParseUint(r.FormValue(name), 10, 30)
		return int(n)
	}
	err = s.withRun(r, func(o *opened, source overview.Source) error {
		task, from := page.TaskID(r.PathValue("task")), number("from")
		if attempt = cmp.Or(attempt, number("attempt")); o.journal != nil {
			if at, ok := o.journal.Place(task, max(1, attempt), int64(number("line"))); ok {
				from = at
			}
		}
		gold, noGold := o.answers()
		source.Gold = gold
		p, err = overview.Task(source, task, attempt, from, page.ParseFilter(r.URL.Query()))
		if noGold != nil {
			p.Notices = append(p.Notices, page.Notice{Kind: page.NoticeWarn, Text: "the expected answer is not known: " + noGold.Error()})
		}
		return err
	})
	return p, err
}

func (s *Server) taskPage(r *http.Request) (document, error) { return s.task(r, 0) }

// chunk is the events of a chunk alone, for the script.
type chunk struct{ page.Task }

func (c chunk) Write(w io.Writer) error { return page.TaskItems(w, c.Task) }

func (s *Server) chunk(r *http.Request) (document, error) {
	p, err := s.task(r, 0)
	return chunk{p}, err
}

func (s *Server) auditPage(r *http.Request) (d document, err error) {
	err = s.withRun(r, func(_ *opened, source overview.Source) (err error) {
		d, err = overview.Audit(source)
		return err
	})
	return d, err
}

// linesAround is how many lines of the journal are shown before and after the one that is asked for.
const linesAround = 5

func (s *Server) journalPage(r *http.Request) (d document, err error) {
	err = s.withRun(r, func(o *opened, source overview.Source) error {
		if o.journal == nil {
			return errWithheld
		}
		n, err := strconv.ParseInt(r.FormValue("line"), 10, 62)
		if err != nil || n < 1 {
			n = 1
		}
		lines, err := o.journal.Line(n, linesAround)
		if err != nil {
			return err
		}
		p := page.Journal{Head: s.head(fmt.Sprintf("Line %d", n), page.Link{Path: pathOf(o.id)}), At: n}
		o.journal.Read(func(run *rundir.Run) { p.Trail[1].Text = run.Manifest.RunID })
		for _, l := range lines {
			p.Lines = append(p.Lines, page.JournalLine(l))
			if l.Number == n && l.File != "" {
				p.Title = l.File
			}
		}
		if first := n - linesAround; first > 1 {
			p.Prev = source.Paths.Journal() + strconv.FormatInt(max(1, first-linesAround-1), 10)
		}
		if last := n + linesAround; lines[len(lines)-1].Number == last {
			p.Next = source.Paths.Journal() + strconv.FormatInt(last+1, 10)
		}
		d = p
		return nil
	})
	return d, err
}

func (s *Server) comparePage(r *http.Request) (d document, err error) {
	var sources []overview.Source
	for _, name := range []string{"a", "b"} {
		id := r.FormValue(name)
		if id == "" {
			return nil, fmt.Errorf("two runs are compared, a and b: %w", errNoPage)
		}
		o, release, err := s.runs.use(r.Context(), id)
		if err != nil {
			return nil, err
		}
		defer release()
		if o.err != nil {
			return nil, o.err
		}
		o.settle(r.Context(), lineTime) // all of both
		source := o.source()
		source.Live = ""
		sources = append(sources, source)
	}
	return overview.Compare(sources[0], sources[1])
}

func (s *Server) history() (page.History, error) {
	if s.c.History == nil {
		return page.History{}, errNoPage
	}
	p, err := s.c.History()
	h := s.head(cmp.Or(p.Title, "History"))
	h.Notices = p.Notices
	p.Head, p.PlotsPath = h, "/history/plot/"
	return p, err
}

func (s *Server) historyPage(*http.Request) (document, error) { return s.history() }
