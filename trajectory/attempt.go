package trajectory

import (
	"strings"
	"sync"
)

// Attempt records the events of one attempt at one task. Several of its methods may run at once; order is the order of
// the calls.
type Attempt struct {
	Log    *Log
	TaskID string
	Number int // from 1
	Redact Redactor
	Hashes bool // record no heads: bodies by their digests alone
	Known  *KnownTexts

	mu       sync.Mutex
	requests Requests
	refused  int
}

// Excerpt returns what the journal shows of a body, and keeps the whole of it if the log does.
func (a *Attempt) Excerpt(body string, limit int) Excerpt {
	x := a.Part(body, limit)
	if a.Log.cfg.Bodies != nil {
		whole, _ := a.Redact.Redact(strings.ToValidUTF8(body, "\ufffd"))
		x.BodySHA256 = a.Log.Keep(whole)
	}
	return x
}

// Part is Excerpt for a part of a body that is kept as a whole.
func (a *Attempt) Part(text string, limit int) Excerpt {
	x := a.Redact.Excerpt(text, limit)
	if a.Hashes {
		x.Head, x.Truncated = "", text != ""
	}
	return x
}

// Fits reports whether the request of an own agent can be recorded: it has at most MostMessages messages, and with those
// that the attempt has listed before about MostListed that the request before does not have. Requests at once may exceed
// that a little.
func (a *Attempt) Fits(messages []Message) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(messages) <= MostMessages && a.requests.listed+len(messages)-a.requests.keeps(messages) <= MostListed
}

// Append records payloads at a turn (0 for those outside of turns) and returns when they are durable.
func (a *Attempt) Append(turn int, payloads ...Payload) error {
	if _, err := a.Enqueue(turn, payloads...); err != nil {
		return err
	}
	_, err := a.Log.Append()
	return err
}

// Enqueue records payloads that need not be durable before the next step.
func (a *Attempt) Enqueue(turn int, payloads ...Payload) ([]string, error) {
	a.mu.Lock() // a request is written as it follows from the events before it
	defer a.mu.Unlock()
	a.requests.Known = a.Known
	drafts := make([]Draft, len(payloads))
	for i, p := range payloads {
		if request, ok := p.(ContextCompiled); ok {
			request = a.requests.Abridge(request)
			a.requests.take(request)
			p = request
		} else {
			a.requests.Add(p)
		}
		drafts[i] = Draft{TaskID: a.TaskID, Attempt: a.Number, Turn: turn, Payload: p}
	}
	return a.Log.Enqueue(drafts...)
}

// Refuse counts a request of an own agent that is not passed on, and returns when it is durable: of an attempt the first
// MostRequestsRefused are.
func (a *Attempt) Refuse(r RequestRefused) error {
	a.mu.Lock()
	a.refused++
	record := a.refused <= MostRequestsRefused
	a.mu.Unlock()
	if !record {
		return nil
	}
	return a.Append(0, r)
}

// Refused counts the requests that were refused.
func (a *Attempt) Refused() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}
