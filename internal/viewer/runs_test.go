package viewer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/page"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
)

// good writes an honest run, and returns its id, its directory and the id of its first task.
func good(t testing.TB) (id, dir, task string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "run")
	if err := runs.Good()["pair"].Write(dir); err != nil {
		t.Fatal(err)
	}
	return idOf(t, dir), dir, "fab1e902-0000-4000-8000-000000000001"
}

func idOf(t testing.TB, dir string) string {
	t.Helper()
	m, _, _, err := rundir.ReadPlan(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	return m.RunID
}

// listing lists runs by their place.
func listing(rows ...page.RunRow) func() ([]page.RunRow, error) {
	return func() (there []page.RunRow, err error) {
		for _, row := range rows {
			if _, err := os.Lstat(row.Dir); err == nil {
				there = append(there, row)
			}
		}
		return there, nil
	}
}

// event is one that a stream gave; "" is the name of a change.
type event struct{ name, data string }

// listen reads a stream until it ends. The channel is closed at its end.
func (r *rig) listen(path string) <-chan event {
	r.t.Helper()
	req, err := http.NewRequest("GET", r.base+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	client := *r.client
	client.Timeout = 0
	res, err := client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	if got := res.Header.Get("Content-Type"); res.StatusCode != 200 || got != "text/event-stream" {
		r.t.Fatalf("the stream gives %d %q", res.StatusCode, got)
	}
	events := make(chan event, 1000)
	go func() {
		defer close(events)
		defer res.Body.Close()
		var e event
		for in := bufio.NewScanner(res.Body); in.Scan(); {
			name, value, _ := strings.Cut(in.Text(), ": ")
			switch {
			case name == "event":
				e.name = value
			case name == "data":
				e.data = value
			case in.Text() == "" && e.data != "":
				events <- e
				e = event{}
			}
		}
	}()
	return events
}

// next returns the next event.
func (r *rig) next(events <-chan event) event {
	r.t.Helper()
	select {
	case e, ok := <-events:
		if !ok {
			r.t.Fatal("the stream has ended")
		}
		return e
	case <-time.After(60 * time.Second):
		r.t.Fatal("no event")
		panic("unreachable")
	}
}

// live returns the stream that a page names; "" if it will not change.
func live(body string) string {
	_, rest, ok := strings.Cut(body, `data-live="`)
	if !ok {
		return ""
	}
	path, _, _ := strings.Cut(rest, `"`)
	return strings.ReplaceAll(path, "&amp;", "&")
}

// settled waits until the page of a run will not change any more, and returns it.
func (r *rig) settled(path string) string {
	r.t.Helper()
	for range 100 {
		_, body := r.get(path)
		stream := live(body)
		if stream == "" {
			return body
		}
		events := r.listen(stream)
		for e := range events {
			if e.name == "" {
				break
			}
		}
	}
	r.t.Fatal("the page does not settle")
	return ""
}

// TestVerified: a complete run is shown at once, and verified and audited behind it.
func TestVerified(t *testing.T) {
	id, dir, task := good(t)
	r := start(t, Config{Runs: listing(page.RunRow{ID: id, Dir: dir, State: "complete"}), First: dir}).signIn()
	r.runs.jobs <- struct{}{} // another run is being verified
	res, _ := r.get(openPath)
	if to := res.Header.Get("Location"); to != "/run/"+id {
		t.Fatalf("leads to %q", to)
	}
	res, body := r.get("/run/" + id)
	if res.StatusCode != 200 || !strings.Contains(body, "not verified yet") || !strings.Contains(body, task) {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	events := r.listen(live(body))
	<-r.runs.jobs
	if e := r.next(events); e.name != "" {
		t.Errorf("the first event is %v", e)
	}
	for e := range events {
		if e.name == "end" {
			break
		}
	}
	_, body = r.get("/run/" + id)
	if strings.Contains(body, "not verified yet") || live(body) != "" || strings.Contains(body, "damaged") {
		t.Errorf("afterwards: %s", body)
	}
	if res, _ := r.get("/events?run=" + id + "&since=" + r.version(id)); res.StatusCode != http.StatusNoContent {
		t.Errorf("a stream of what is over: %d", res.StatusCode)
	}
	_, body = r.get("/run/" + id + "/audit")
	if !strings.Contains(body, "AUD-1") {
		t.Errorf("the audit: %s", body)
	}
}

func (r *rig) version(id string) string {
	r.t.Helper()
	o, release, err := r.runs.use(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	defer release()
	version, _ := o.version()
	return version
}

// TestLive: a run that another program writes is followed to its end.
func TestLive(t *testing.T) {
	id, whole, task := good(t)
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(whole, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	put := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Error(err)
		}
	}
	lines := bytes.SplitAfter(read(trajectory.JournalFile), []byte("\n"))
	put(trajectory.JournalFile, bytes.Join(lines[:3], nil))
	late := []string{rundir.TrajectoriesFile, rundir.ResultsFile, rundir.SummaryFile, trajectory.CheckpointFile}
	for _, name := range late {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	put(rundir.TrajectoriesFile, nil)
	r := start(t, Config{Runs: listing(page.RunRow{ID: id, Dir: dir, State: "running"})}).signIn()
	_, body := r.get("/run/" + id)
	if !strings.Contains(body, "not finished") {
		t.Errorf("at the beginning: %s", body)
	}
	events, other := r.listen(live(body)), r.listen(live(body))
	var writer sync.WaitGroup
	shown := make(chan struct{}) // closed when a change was seen
	writer.Go(func() {
		f, err := os.OpenFile(filepath.Join(dir, trajectory.JournalFile), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		for i, line := range lines[3:] {
			if i == len(lines)/2 {
				<-shown
			}
			half := len(line) / 2
			f.Write(line[:half])
			time.Sleep(5 * time.Millisecond)
			f.Write(line[half:])
		}
		for _, name := range late {
			put(name, read(name))
		}
	})
	seen := 0
	for e := range events {
		if e.name == "end" {
			break
		}
		if seen++; seen == 1 {
			close(shown)
		}
		if res, body := r.get("/run/" + id + "/task/" + task); res.StatusCode != 200 {
			t.Errorf("while it is written: %d %s", res.StatusCode, body)
		}
	}
	if seen == 0 {
		close(shown)
	}
	writer.Wait()
	if seen < 2 {
		t.Errorf("%d changes", seen)
	}
	for e := range other {
		if e.name == "end" {
			break
		}
	}
	if body := r.settled("/run/" + id); strings.Contains(body, "not finished") || strings.Contains(body, "damaged") || strings.Contains(body, "not verified") {
		t.Errorf("at the end: %s", body)
	}
	if n := len(r.runs.open); n != 1 {
		t.Errorf("%d readers of one run", n)
	}
}

// TestList: the list follows the runs that come and go.
func TestList(t *testing.T) {
	id, dir, _ := good(t)
	later := filepath.Join(filepath.Dir(dir), "later")
	r := start(t, Config{Runs: listing(page.RunRow{ID: id, Dir: dir, State: "complete"}, page.RunRow{ID: id, Dir: later, State: "complete"})}).signIn()
	_, body := r.get("/")
	if strings.Count(body, "/run/") == 0 || !strings.Contains(body, `href="/run/`+id+`"`) {
		t.Fatalf("%s", body)
	}
	events := r.listen(live(body))
	if err := os.CopyFS(later, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	r.next(events)
	_, body = r.get("/")
	_, copied, ok := strings.Cut(body, `href="/run/at-`)
	if !ok {
		t.Fatalf("the copy is not listed apart: %s", body)
	}
	copied, _, _ = strings.Cut(copied, `"`)
	for _, path := range []string{"/run/" + id, "/run/at-" + copied, "/compare?a=" + id + "&b=at-" + copied} {
		if res, body := r.get(path); res.StatusCode != 200 {
			t.Errorf("%s gives %d %s", path, res.StatusCode, body)
		}
	}
}

// TestRemoved: a run that is deleted while it is open is called removed, and its stream ends.
func TestRemoved(t *testing.T) {
	id, dir, task := good(t)
	journal := filepath.Join(dir, trajectory.JournalFile)
	data, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(journal, data[:len(data)/2], 0o644); err != nil { // it is being written
		t.Fatal(err)
	}
	r := start(t, Config{Runs: listing(page.RunRow{ID: id, Dir: dir, State: "running"})}).signIn()
	_, body := r.get("/run/" + id)
	events := r.listen(live(body))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for e := range events {
		if e.name == "end" {
			break
		}
	}
	for _, path := range []string{"/run/" + id, "/run/" + id + "/task/" + task, "/run/" + id + "/audit", "/run/" + id + "/journal?line=1"} {
		if res, body := r.get(path); res.StatusCode != http.StatusGone || !strings.Contains(body, "removed") {
			t.Errorf("%s gives %d %s", path, res.StatusCode, body)
		}
	}
	if res, _ := r.get("/run/" + strings.ToLower(id)); res.StatusCode != 404 {
		t.Errorf("a run that never was gives %d", res.StatusCode)
	}
}

// TestDamaged: what does not verify is shown as such, also when it is damaged after it was verified.
func TestDamaged(t *testing.T) {
	flip := func(name string, at int) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if at < 0 {
				at += len(data)
			}
			data[at] ^= 1
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tt := range []struct {
		name   string
		damage func(t *testing.T, dir string)
		status int
	}{
		{"a line of the journal", flip(trajectory.JournalFile, 3000), 200},
		{"the results", flip(rundir.ResultsFile, 30), 200},
		{"the checkpoint", flip(trajectory.CheckpointFile, -10), 200},
		{"the plan", flip("manifest.json", 300), 422},
		{"the journal is cut", func(t *testing.T, dir string) {
			journal := filepath.Join(dir, trajectory.JournalFile)
			data, _ := os.ReadFile(journal)
			if err := os.WriteFile(journal, data[:bytes.LastIndexByte(data[:len(data)/2], '\n')+1], 0o644); err != nil {
				t.Fatal(err)
			}
		}, 200},
		{"the journal is gone", func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, trajectory.JournalFile)) }, 422},
		{"the journal is a folder", func(t *testing.T, dir string) {
			os.Remove(filepath.Join(dir, trajectory.JournalFile))
			os.Mkdir(filepath.Join(dir, trajectory.JournalFile), 0o755)
		}, 422},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id, dir, _ := good(t)
			r := start(t, Config{Runs: listing(page.RunRow{ID: id, Dir: dir, State: "complete"})}).signIn()
			if body := r.settled("/run/" + id); strings.Contains(body, "does not verify") || strings.Contains(body, "damaged") {
				t.Fatalf("before: %s", body)
			}
			before := r.version(id)
			tt.damage(t, dir)
			for end := time.Now().Add(20 * time.Second); r.version(id) == before && time.Now().Before(end); {
				time.Sleep(20 * time.Millisecond)
			}
			res, body := r.get("/run/" + id)
			if res.StatusCode == 200 && tt.name != "the journal is cut" { // which could grow again
				body = r.settled("/run/" + id)
			}
			said := strings.ToLower(body)
			if res.StatusCode != tt.status || !strings.Contains(said, "does not verify") && !strings.Contains(said, "damaged") && !strings.Contains(said, "not finished") {
				t.Errorf("%d, want %d: %s", res.StatusCode, tt.status, body)
			}
			if res, body := r.get("/"); res.StatusCode != 200 || !strings.Contains(body, id) {
				t.Errorf("the list: %d %s", res.StatusCode, body)
			}
		})
	}
}

// TestRoutes walks all routes: what each answers, and that nothing is forgotten in its headers.
func TestRoutes(t *testing.T) {
	id, dir, task := good(t)
	none := "sha256:" + strings.Repeat("0", 64)
	r := start(t, Config{Runs: listing(page.RunRow{ID: id, Dir: dir, State: "complete"}), History: func() (page.History, error) { return page.History{}, nil }}).signIn()
	r.settled("/run/" + id)
	run := "/run/" + id
	routes := map[string]map[string]int{ // by pattern: addresses and their status
		"/{$}":                        {"/": 200, "/?x=1": 200},
		openPath:                      {openPath: 303},
		"/run/{id}":                   {run: 200, run + "?outcome=solved&level=2&text=x&from=9999999999": 200, "/run/none": 404, "/run/..%2f..%2fetc": 404, "/run/%00": 404},
		"/run/{id}/task/{task}":       {run + "/task/" + task: 200, run + "/task/" + task + "?attempt=1&from=0&kind=call&line=4": 200, run + "/task/none": 404, run + "/task/..%2f..": 404, run + "/task/~..": 404, run + "/task/" + task + "?attempt=-1&from=x": 200, "/run/none/task/x": 404},
		"/run/{id}/task/{task}/chunk": {run + "/task/" + task + "/chunk?attempt=1&from=0": 200, run + "/task/none/chunk": 404},
		"/run/{id}/task/{task}/plot/{attempt}/{file}": {run + "/task/" + task + "/plot/1/none.svg": 404, run + "/task/" + task + "/plot/x/y.svg": 404},
		"/run/{id}/audit":            {run + "/audit": 200, "/run/none/audit": 404},
		"/run/{id}/journal":          {run + "/journal?line=3": 200, run + "/journal": 200, run + "/journal?line=99999": 404, run + "/journal?line=-5": 200},
		"/run/{id}/plot/{file}":      {run + "/plot/none.svg": 404, run + "/plot/..%2f..%2fx.csv": 404},
		"/run/{id}/picture/{digest}": {run + "/picture/" + none: 404, run + "/picture/..%2f..%2fmanifest.json": 400, run + "/picture/x": 400},
		"/run/{id}/body/{digest}":    {run + "/body/" + none: 404, run + "/body/manifest.json": 400},
		"/compare":                   {"/compare": 404, "/compare?a=" + id + "&b=" + id: 200, "/compare?a=" + id + "&b=none": 404},
		"/history":                   {"/history": 200},
		"/history/plot/{file}":       {"/history/plot/none.svg": 404},
		"/events":                    {"/events?run=none": 404, "/events?since=" + strings.Repeat("1", 500): 400, "/events?run=" + id + "&since=" + url.QueryEscape(r.version(id)): 204},
		"/favicon.ico":               {"/favicon.ico": 204},
		"/static/{file}":             {"/static/style.css": 200, "/static/script.js": 200, "/static/none": 404, "/static/..%2fviewer.go": 404},
		"/static/{hash}/{file}":      {staticPath + "style.css": 200, staticPath + "script.js": 200, "/static/0/style.css": 404},
		"/":                          {"/nothing": 404, "/run": 404, "/run/" + id + "/nothing": 404, "/etc/passwd": 404, "/%2e%2e/%2e%2e/etc/passwd": 404},
	}
	if got, want := slices.Sorted(maps.Keys(routes)), slices.Sorted(maps.Keys(r.handlers())); !slices.Equal(got, want) {
		t.Fatalf("the test has the routes\n%q, the server\n%q", got, want)
	}
	_, body := r.get(run)
	for _, saved := range strings.Split(body, `href="`+run+`/plot/`)[1:] {
		name, _, _ := strings.Cut(saved, `"`)
		routes["/run/{id}/plot/{file}"][run+"/plot/"+name] = 200
	}
	if len(routes["/run/{id}/plot/{file}"]) < 4 {
		t.Errorf("the page has no plots to save: %s", body)
	}
	for _, addresses := range routes {
		for address, want := range addresses {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"} {
				res, body := r.do(method, address)
				status := want
				if method != "GET" && method != "HEAD" {
					status = 405
				}
				if res.StatusCode != status {
					t.Errorf("%s %s gives %d, want %d: %s", method, address, res.StatusCode, status, body)
				}
				if method == "HEAD" && body != "" {
					t.Errorf("HEAD %s gives a body", address)
				}
				checkHeaders(t, method+" "+address, res, body)
			}
		}
	}
	for address, status := range map[string]int{"/../../etc/passwd": 404, "/run/../../etc/passwd": 404, "//evil.example/": 404, "/static/../../x": 404} {
		if res, _ := r.get(r.base + address); res.StatusCode != status && res.StatusCode/100 != 3 {
			t.Errorf("%s gives %d", address, res.StatusCode)
		} else if to := res.Header.Get("Location"); strings.HasPrefix(to, "//") || strings.Contains(to, "http") {
			t.Errorf("%s leads to %q", address, to)
		}
	}
}

// checkHeaders checks what every answer has.
func checkHeaders(t *testing.T, what string, res *http.Response, body string) {
	t.Helper()
	for name, value := range headers {
		got := res.Header.Values(name)
		switch {
		case name == "Content-Security-Policy":
			if len(got) != 1 || !strings.HasPrefix(got[0], "default-src 'none'; ") || !strings.Contains(got[0], "frame-ancestors 'none'") || strings.Contains(got[0], "unsafe") {
				t.Errorf("%s: %s %q", what, name, got)
			}
		case name == "Cache-Control" && len(got) == 1 && strings.Contains(got[0], "immutable"):
			if !strings.Contains(what, staticPath) {
				t.Errorf("%s: %s %q", what, name, got)
			}
		case len(got) != 1 || got[0] != value:
			t.Errorf("%s: %s %q, want %q", what, name, got, value)
		}
	}
	if kind := res.Header.Get("Content-Type"); kind == "" && body != "" {
		t.Errorf("%s has no Content-Type", what)
	}
	if len(res.Cookies()) > 0 || res.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%s: %v", what, res.Header)
	}
}

// TestBodies: texts and pictures are what their content is, and can do nothing.
func TestBodies(t *testing.T) {
	id, dir, _ := good(t)
	keep := func(data []byte) string {
		digest := canonical.Digest(data)
		name := filepath.Join(dir, filepath.FromSlash(trajectory.BodyFile(digest)))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return digest
	}
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 3, 3))); err != nil {
		t.Fatal(err)
	}
	var vast bytes.Buffer // a header that asks for 4 GB of pixels
	vast.Write(picture.Bytes()[:16])
	vast.Write([]byte{0, 1, 0, 0, 0, 1, 0, 0, 8, 0, 0, 0, 0})
	sum := crc32.ChecksumIEEE(vast.Bytes()[12:])
	vast.Write([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
	script := []byte("<script>alert(1)</script>\u202e\x1b[2J<svg onload=alert(1)>")
	large := filepath.Join(dir, filepath.FromSlash(trajectory.BodyFile("sha256:"+strings.Repeat("ab", 32))))
	if err := os.MkdirAll(filepath.Dir(large), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, maxBody+1); err != nil {
		t.Fatal(err)
	}
	r := start(t, Config{Runs: listing(page.RunRow{ID: id, Dir: dir, State: "complete"})}).signIn()
	for _, tt := range []struct {
		path   string
		status int
		kind   string
	}{
		{"/picture/" + keep(picture.Bytes()), 200, "image/png"},
		{"/body/" + keep(picture.Bytes()), 200, "text/plain; charset=utf-8"},
		{"/picture/" + keep(vast.Bytes()), 413, ""},
		{"/picture/" + keep([]byte("\x89PNG\r\n\x1a\nnothing")), 415, ""},
		{"/picture/" + keep(script), 415, ""},
		{"/picture/" + keep([]byte("<svg xmlns=\"http://www.w3.org/2000/svg\"/>")), 415, ""},
		{"/body/" + keep(script), 200, "text/plain; charset=utf-8"},
		{"/body/sha256:" + strings.Repeat("ab", 32), 413, ""},
		{"/picture/sha256:" + strings.Repeat("ab", 32), 413, ""},
	} {
		res, body := r.get("/run/" + id + tt.path)
		if res.StatusCode != tt.status || tt.kind != "" && res.Header.Get("Content-Type") != tt.kind {
			t.Errorf("%s gives %d %s", tt.path, res.StatusCode, res.Header.Get("Content-Type"))
		}
		if tt.status == 200 && !strings.Contains(res.Header.Get("Content-Security-Policy"), "sandbox") || strings.ContainsAny(body, "\u202e") || tt.kind[:min(4, len(tt.kind))] == "text" && strings.Contains(body, "\x1b") {
			t.Errorf("%s: %v %q", tt.path, res.Header, body)
		}
		checkHeaders(t, tt.path, res, body)
	}
}

var harness = trajectory.Harness{ExecutableSHA256: canonical.Digest([]byte("program")), Version: "v1.0.0"}

// TestPackages: packages are shown as runs are, an archive from what was extracted once, and removed at the end.
func TestPackages(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	_, dir, task := good(t)
	build := func(c submit.Config) string {
		c.Run, c.Out, c.Key, c.Date, c.AllowDirty, c.Harness = dir, t.TempDir(), runs.Key(), "2031-02-03", true, harness
		p, err := submit.Build(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		return p.Path
	}
	places := map[string]string{"folder": build(submit.Config{}), "archive": build(submit.Config{Archive: true}),
		"public": build(submit.Config{Public: true}), "public archive": build(submit.Config{Public: true, Archive: true})}
	var rows []page.RunRow
	for _, place := range places {
		rows = append(rows, page.RunRow{ID: idOf(t, dir), Dir: place, State: "complete"})
	}
	r := start(t, Config{Runs: listing(rows...)}).signIn()
	r.runs.list()
	for name, place := range places {
		id, ok := r.runs.at(place)
		if !ok {
			t.Fatalf("%s is not listed", name)
		}
		body := r.settled("/run/" + id)
		public := strings.HasPrefix(name, "public")
		if !strings.Contains(body, task) || strings.Contains(body, "not verified") || strings.Contains(body, "does not verify") || strings.Contains(body, "public package") != public {
			t.Errorf("%s: %s", name, body)
		}
		for path, status := range map[string]int{"/task/" + task: 200, "/audit": 200, "/journal?line=1": 200} {
			if public && strings.HasPrefix(path, "/journal") {
				status = 404
			}
			if res, body := r.get("/run/" + id + path); res.StatusCode != status {
				t.Errorf("%s%s gives %d: %s", name, path, res.StatusCode, body)
			}
		}
	}
	// A public package that does not verify has a page that says so.
	damaged := build(submit.Config{Public: true})
	if err := os.WriteFile(filepath.Join(damaged, "results.jsonl"), []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	rows = append(rows, page.RunRow{Dir: damaged, State: "complete"})
	again := start(t, Config{Runs: listing(rows...)}).signIn()
	again.runs.list()
	id, _ := again.runs.at(damaged)
	if res, body := again.get("/run/" + id); res.StatusCode != 200 || !strings.Contains(body, "does not verify: ") || strings.Contains(body, task) {
		t.Errorf("a damaged public package gives %d: %s", res.StatusCode, body)
	}
	if err := again.stop(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) != 2 {
		t.Errorf("two archives are extracted to %v", left)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("the server left %v", left)
	}
}

// TestManyRuns: runs that no one looks at are closed, so that a walk through many leaves few open.
func TestManyRuns(t *testing.T) {
	_, dir, _ := good(t)
	var rows []page.RunRow
	for n := range 3 * maxOpen {
		at := filepath.Join(filepath.Dir(dir), fmt.Sprint(n))
		if err := os.CopyFS(at, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, page.RunRow{ID: fmt.Sprintf("RUN%d", n), Dir: at, State: "complete"})
	}
	watched := filepath.Join(rows[0].Dir, trajectory.JournalFile) // is being written
	data, err := os.ReadFile(watched)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(watched, data[:len(data)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	r := start(t, Config{Runs: listing(rows...)}).signIn()
	held := r.listen("/events?run=RUN0")
	for _, row := range rows {
		if res, body := r.get("/run/" + row.ID); res.StatusCode != 200 {
			t.Fatalf("%s gives %d %s", row.ID, res.StatusCode, body)
		}
		r.runs.mu.Lock()
		open, kept := len(r.runs.open), r.runs.open["RUN0"] != nil
		r.runs.mu.Unlock()
		if open > maxOpen+1 || !kept {
			t.Errorf("%d runs are open, the one that is watched: %v", open, kept)
		}
	}
	r.next(held)
	r.runs.closeIdle(0)
	r.runs.mu.Lock()
	defer r.runs.mu.Unlock()
	if n := len(r.runs.open); n != 1 || r.runs.open["RUN0"] == nil {
		t.Errorf("%d runs are open though idle", n)
	}
}

// TestShutdown: streams end with the server, which does not wait for them.
func TestShutdown(t *testing.T) {
	id, dir, _ := good(t)
	journal := filepath.Join(dir, trajectory.JournalFile)
	data, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(journal, data[:len(data)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	r := start(t, Config{Runs: listing(page.RunRow{ID: id, Dir: dir, State: "running"})}).signIn()
	_, body := r.get("/run/" + id)
	events, list := r.listen(live(body)), r.listen("/events")
	r.next(list)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	for range events {
	}
	for range list {
	}
	done := make(chan struct{})
	go func() { r.group.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("readers outlive the server")
	}
}

// TestStreams: a browser keeps connections for pages however many streams it asks for.
func TestStreams(t *testing.T) {
	r := start(t, Config{}).signIn()
	var all []<-chan event
	for range maxSessionStreams + 2 {
		events := r.listen("/events")
		r.next(events)
		all = append(all, events)
	}
	for range all[0] { // it ends
	}
	for range all[1] {
	}
	r.Server.streams.mu.Lock()
	defer r.Server.streams.mu.Unlock()
	if n := len(r.Server.streams.all); n != maxSessionStreams {
		t.Errorf("%d streams are open", n)
	}
}

// TestListedAsDamaged: what the list of runs finds wrong is on the page of the run, too, however good its journal is.
func TestListedAsDamaged(t *testing.T) {
	id, dir, _ := good(t)
	r := start(t, Config{Runs: listing(page.RunRow{ID: id, Dir: dir, State: "damaged", Problem: "trajectories.jsonl: is missing"})}).signIn()
	if body := r.settled("/run/" + id); !strings.Contains(body, "does not verify: trajectories.jsonl: is missing") {
		t.Errorf("%s", body)
	}
}

// TestPanicOfReader: a panic while a run is read is logged, and is an error of that run alone.
func TestPanicOfReader(t *testing.T) {
	said := ""
	o := &opened{place: "runs/x", s: &Server{c: Config{Log: func(line string) { said = line }}}}
	if err := o.guarded(func() error { panic("not foreseen") }); !errors.Is(err, errPanic) || !strings.Contains(said, "reading runs/x: panic: not foreseen") {
		t.Errorf("%v, logged %q", err, said)
	}
}
