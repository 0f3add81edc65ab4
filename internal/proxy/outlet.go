package proxy

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/go-json-experiment/json"
)

// outlet is what the agent is answered with. While a stream is silent it sends comments.
type outlet struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	call *call

	mu    sync.Mutex
	begun bool   // the header is written
	ended bool   // nothing more is written
	gone  bool   // the agent hung up
	then  func() // is called when it has; nil: nothing is
	timer *time.Timer
}

func newOutlet(w http.ResponseWriter, c *call) *outlet {
	return &outlet{w: w, rc: http.NewResponseController(w), call: c}
}

// stream makes silence be filled with comments from now on.
func (o *outlet) stream() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.timer = time.AfterFunc(o.call.Silence, o.comment)
}

func (o *outlet) comment() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended || o.gone {
		return
	}
	o.begin(nil)
	o.write([]byte(": waiting\n\n"))
	o.timer.Reset(o.call.Heartbeat)
}

// begin begins a stream. The lock is held.
func (o *outlet) begin(header http.Header) {
	if o.begun {
		return
	}
	o.begun = true
	copyHeader(o.w.Header(), header)
	o.w.Header().Set("Content-Type", "text/event-stream")
	o.w.Header().Set("Cache-Control", "no-cache")
	o.w.WriteHeader(http.StatusOK)
}

// write writes and flushes. An agent that takes nothing for as long as a drain may last has hung up. The lock is held.
func (o *outlet) write(b []byte) {
	if o.gone {
		return
	}
	_ = o.rc.SetWriteDeadline(time.Now().Add(o.call.Drain)) // false for a writer without deadlines
	_, err := o.w.Write(b)
	if err == nil {
		err = o.rc.Flush()
	}
	if err != nil {
		o.leaveLocked()
	}
}

// open begins a stream with the header of the endpoint.
func (o *outlet) open(header http.Header) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begin(header)
	o.write(nil)
}

// event passes an event on.
func (o *outlet) event(b []byte) {
	if len(b) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begin(nil)
	o.write(b)
	if o.timer != nil && o.timer.Stop() {
		o.timer.Reset(o.call.Silence)
	}
}

// whole answers with a body at once; where a stream has begun, with an event that holds it.
func (o *outlet) whole(status int, header http.Header, body []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended || o.gone {
		return
	}
	if o.begun {
		if status >= 200 && status <= 299 { // a reply that is not in the form that was asked for
			o.write(o.call.problem(http.StatusBadGateway, "invalid_response", "the endpoint gave no stream", true))
		} else {
			o.write(inEvent(o.call.dialect, body))
		}
		return
	}
	o.begun = true
	copyHeader(o.w.Header(), header)
	if header == nil {
		o.w.Header().Set("Content-Type", "application/json")
	}
	if len(body) > 0 {
		o.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	o.w.WriteHeader(status)
	o.write(body)
}

// fail answers with an error of the proxy's own.
func (o *outlet) fail(status int, code, text string) {
	o.whole(status, nil, o.call.problem(status, code, text, false))
}

// hangUp notes that the agent is gone.
func (o *outlet) hangUp() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.leaveLocked()
	}
}

func (o *outlet) leaveLocked() {
	if !o.gone {
		o.gone = true
		if o.then != nil {
			o.then()
		}
	}
}

// whenGone calls then once the agent has hung up.
func (o *outlet) whenGone(then func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.then = then; o.gone {
		then()
	}
}

func (o *outlet) isGone() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.gone || o.call.request.Context().Err() != nil
}

// close ends the answer: the handler returns.
func (o *outlet) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	if o.timer != nil {
		o.timer.Stop()
	}
	_ = o.rc.SetWriteDeadline(time.Time{}) // the connection serves other requests
}

// notBack are the headers of a reply that the agent does not get: those of the connection, those that would have it keep
// or reach something else, and those that name the account. The length is that of what is passed on.
var notBack = []string{"Alt-Svc", "Anthropic-Organization-Id", "Connection", "Content-Encoding", "Content-Length", "Keep-Alive", "Link", "Location", "Openai-Organization", "Openai-Project", "Proxy-Authenticate", "Proxy-Connection",
	"Set-Cookie", "Set-Cookie2", "Strict-Transport-Security", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Www-Authenticate"}

func copyHeader(to, from http.Header) {
	dropped := slices.Clone(notBack)
	for _, name := range strings.Split(strings.Join(from.Values("Connection"), ","), ",") {
		dropped = append(dropped, http.CanonicalHeaderKey(strings.TrimSpace(name)))
	}
	for name, values := range from {
		if !slices.Contains(dropped, name) {
			to[name] = values
		}
	}
}

// problem returns an error in the form of the dialect.
func (c *call) problem(status int, code, text string, event bool) []byte {
	var body []byte
	if c.dialect == llm.DialectMessages {
		kind := "invalid_request_error"
		switch {
		case status == http.StatusNotFound:
			kind = "not_found_error"
		case status == http.StatusRequestEntityTooLarge:
			kind = "request_too_large"
		case status >= 500:
			kind = "api_error"
		}
		body = encode(map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": code + ": " + text}})
	} else {
		kind := "invalid_request_error"
		if status >= 500 {
			kind = "server_error"
		}
		body = encode(map[string]any{"error": map[string]any{"message": text, "type": kind, "param": nil, "code": code}})
	}
	if event {
		return inEvent(c.dialect, body)
	}
	return body
}

// inEvent returns an error body as an event of a stream of the dialect.
func inEvent(dialect string, body []byte) []byte {
	data := strings.NewReplacer("\r", " ", "\n", " ").Replace(string(body))
	if dialect == llm.DialectChat {
		return []byte("data: " + data + "\n\n")
	}
	return []byte("event: error\ndata: " + data + "\n\n")
}

func encode(v any) []byte {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic("proxy: an answer of strings cannot be encoded: " + err.Error())
	}
	return b
}
