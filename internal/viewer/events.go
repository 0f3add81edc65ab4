package viewer

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Bounds of streams. A browser opens six connections to a server, so that streams of many tabs would leave none for
// pages: the oldest of a session ends, and its page asks again later.
const (
	maxStreams        = 32
	maxSessionStreams = 4
	streamEvery       = 250 * time.Millisecond // at least, between two events
	heartbeatEvery    = 15 * time.Second
	streamWriteTime   = 10 * time.Second
	retryMs           = 2000
)

// streams are the streams that are open, the oldest first.
type streams struct {
	mu  sync.Mutex
	all []*stream
}

type stream struct {
	session string
	ended   chan struct{} // closed when another one takes its place
}

// add opens a stream of a session, and ends those that are too many.
func (s *streams) add(session string) (one *stream, remove func()) {
	one = &stream{session, make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, one)
	own := 0
	for _, o := range s.all {
		if o.session == session {
			own++
		}
	}
	for i := 0; i < len(s.all) && (own > maxSessionStreams || len(s.all) > maxStreams); {
		if o := s.all[i]; own > maxSessionStreams && o.session != session {
			i++
		} else {
			if o.session == session {
				own--
			}
			close(o.ended)
			s.all = append(s.all[:i], s.all[i+1:]...)
		}
	}
	return one, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = slices.DeleteFunc(s.all, func(o *stream) bool { return o == one })
	}
}

// livePath returns the path of the stream of a page that shows a version; id is "" for the list of runs.
func livePath(id, version string) string {
	path := "/events?since=" + version
	if id != "" {
		path += "&run=" + id
	}
	return path
}

// events answers with a stream of server-sent events:
//
//	data: VERSION               the page has changed since the version that it was made from: it is loaded again
//	event: end, data: VERSION   it will not change any more; there is no further event
//
// A page that asks again is answered by 204 once there is nothing more to come, at
// which a browser gives up.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	id := r.FormValue("run")
	since := r.FormValue("since")
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		since = last
	}
	if len(r.URL.RawQuery) > 300 || len(since) > 100 {
		s.fail(w, r, errLongAddress)
		return
	}
	state := s.runs.listVersion
	if id != "" {
		o, release, err := s.runs.use(r.Context(), id)
		if err != nil && !errors.Is(err, errRemoved) {
			s.fail(w, r, err)
			return
		}
		if err == nil {
			defer func() { release() }()
		}
		state = func() (string, bool) {
			if err == nil && s.runs.stale(o) { // it was removed, or its files are others
				release()
				o, release, err = s.runs.use(r.Context(), id)
			}
			if err != nil {
				release = func() {}
				return "gone", true
			}
			return o.version()
		}
	}
	version, over := state()
	if over && version == since {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	to := http.NewResponseController(w)
	send := func(format string, args ...any) bool {
		to.SetWriteDeadline(time.Now().Add(streamWriteTime))
		if _, err := fmt.Fprintf(w, format, args...); err != nil {
			return false
		}
		return to.Flush() == nil
	}
	session := ""
	if c, err := r.Cookie(s.door.cookie); err == nil {
		session = c.Value
	}
	one, remove := s.streams.add(session)
	defer remove()
	if !send("retry: %d\n\n", retryMs) {
		return
	}
	ticks := time.NewTicker(streamEvery)
	defer ticks.Stop()
	sent := time.Now()
	for {
		switch {
		case version != since:
			since = version
			if !send("id: %s\ndata: %s\n\n", version, version) {
				return
			}
			sent = time.Now()
		case over:
			send("event: end\nid: %s\ndata: %s\n\n", version, version)
			return
		case time.Since(sent) > heartbeatEvery:
			if !send(": \n\n") {
				return
			}
			sent = time.Now()
		}
		select {
		case <-r.Context().Done():
			return
		case <-one.ended:
			send("retry: %d\n\n", 5*retryMs)
			return
		case <-ticks.C:
		}
		version, over = state()
	}
}

// listVersion is the version of the list of runs, which may always change.
func (r *runSet) listVersion() (string, bool) {
	_, version, _ := r.list()
	return fmt.Sprintf("list.%d", version), false
}
