// Package trajectory is the evidence of a run: typed events in a hash-chained, durable journal, the Merkle tree over
// its tasks, and the signed tree head.
//
// # Journal
//
// events.jsonl holds one event a line, canonical JSON as in package canonical:
//
//	{"attempt":1,"content_hash":"sha256:…","id":"<ULID>","mono_us":81234,
//	 "parent_hash":"sha256:…","payload":{…},"run_id":"…","seq":7,
//	 "task_id":"…","timestamp":"2026-01-02T03:04:05.678Z","turn":3,
//	 "type":"tool_executed"}
//
// content_hash is over the canonical payload. parent_hash is over the previous line with its newline; the first line's
// parent is the digest of manifest.json. seq counts from 0 without holes. Ids are ULIDs that only grow; timestamp is
// the id's time. mono_us is monotonic time since the process started. Which of task_id, attempt and turn stand on a
// line follows from its type alone (events.go).
//
// [Log] writes a journal and returns from Append only when the events are durable. [ReadJournal] checks every line and
// refuses, by name of file and line, bytes that are not exactly what Log would have written; a last line without a
// newline is what a crash leaves and is reported as torn.
//
// # Tree
//
// [Leaf] is a task's digest over all lines with its id. [Root] is the RFC 6962 root over the leaves in plan order, and
// a [Checkpoint] is a C2SP signed note over size, root, manifest and journal head.
//
// # Disclosure
//
// A [Bundle] holds the lines of one task, or of a whole run, with the plan, the tree head and the proof that ties them
// together. The package internal/rundir makes and verifies them, since it knows what a plan is.
//
// TestReadJournalRefuses and FuzzReadEvent show what is refused.
package trajectory

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/oklog/ulid/v2"
)

// Event is one line of a journal.
type Event struct {
	Attempt    int    // from 1; 0 where the type has none
	ID         string // ULID
	MonoUs     int64  // microseconds since the writing process started
	ParentHash string // digest of the line before, newline included
	Payload    Payload
	RunID      string
	Seq        int64
	TaskID     string // "" on run events
	Timestamp  string // RFC 3339, UTC, milliseconds; the time of ID
	Turn       int    // from 1; 0 where the type has none
}

// wire is an event in the form of the file.
type wire struct {
	Attempt     int            `json:"attempt,omitzero"`
	ContentHash string         `json:"content_hash"`
	ID          string         `json:"id"`
	MonoUs      int64          `json:"mono_us"`
	ParentHash  string         `json:"parent_hash"`
	Payload     jsontext.Value `json:"payload"`
	RunID       string         `json:"run_id"`
	Seq         int64          `json:"seq"`
	TaskID      string         `json:"task_id,omitzero"`
	Timestamp   string         `json:"timestamp"`
	Turn        int            `json:"turn,omitzero"`
	Type        Type           `json:"type"`
}

// body is a payload with its canonical form, before it has its place.
type body struct {
	payload Payload
	bytes   []byte
	hash    string
}

// encodePayload returns a payload's canonical form. Where it holds bytes that are not UTF-8, the payload becomes the
// one a reader of the line will see: what derives from an event must not depend on whether it was just written or read
// back.
func encodePayload(p Payload, k kind) (body, error) {
	b, err := canonical.Encode(p)
	if err != nil {
		if b, err = canonical.EncodeLossy(p); err != nil {
			return body{}, err
		}
		if p, err = k.decode(b); err != nil {
			return body{}, err
		}
	}
	return body{p, b, canonical.Digest(b)}, nil
}

// appendLine completes e with its payload and appends its line to buf, newline included.
func (e *Event) appendLine(buf []byte, p body) ([]byte, error) {
	e.Payload = p.payload
	buf, err := wire{
		Attempt: e.Attempt, ContentHash: p.hash, ID: e.ID, MonoUs: e.MonoUs, ParentHash: e.ParentHash,
		Payload: p.bytes, RunID: e.RunID, Seq: e.Seq, TaskID: e.TaskID, Timestamp: e.Timestamp, Turn: e.Turn,
		Type: p.payload.Type(),
	}.appendTo(buf)
	return append(buf, '\n'), err
}

// appendTo appends the canonical JSON of w, whose payload must be canonical. It writes what canonical.Encode would, at
// a tenth of the cost: a journal has thousands of these members.
func (w wire) appendTo(b []byte) ([]byte, error) {
	if max(w.Seq, w.MonoUs, int64(w.Attempt), int64(w.Turn)) > canonical.MaxInt || min(w.Seq, w.MonoUs) < 0 {
		return b, errors.New("a number is below 0 or above 2⁵³")
	}
	b = append(b, '{')
	if w.Attempt != 0 {
		b = append(appendInt(b, `"attempt":`, int64(w.Attempt)), ',')
	}
	b, err := appendString(b, `"content_hash":`, w.ContentHash, nil)
	b, err = appendString(b, `,"id":`, w.ID, err)
	b = appendInt(b, `,"mono_us":`, w.MonoUs)
	b, err = appendString(b, `,"parent_hash":`, w.ParentHash, err)
	b = append(append(b, `,"payload":`...), w.Payload...)
	b, err = appendString(b, `,"run_id":`, w.RunID, err)
	b = appendInt(b, `,"seq":`, w.Seq)
	if w.TaskID != "" {
		b, err = appendString(b, `,"task_id":`, w.TaskID, err)
	}
	b, err = appendString(b, `,"timestamp":`, w.Timestamp, err)
	if w.Turn != 0 {
		b = appendInt(b, `,"turn":`, int64(w.Turn))
	}
	b, err = appendString(b, `,"type":`, string(w.Type), err)
	return append(b, '}'), err
}

func appendInt(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), n, 10)
}

func appendString(b []byte, name, s string, before error) ([]byte, error) {
	b, err := jsontext.AppendQuote(append(b, name...), s)
	return b, cmp.Or(before, err)
}

// DecodeLine reads a line of a journal, newline included. It checks the line by itself: the chain is checked by
// [ReadJournal] alone.
func DecodeLine(line []byte) (Event, error) {
	line, whole := bytes.CutSuffix(line, []byte("\n"))
	if !whole {
		return Event{}, canonical.ErrMalformed
	}
	return decodeEvent(line, "", "")
}

// decodeEvent reads one line without its newline by itself.
func decodeEvent(line []byte, runID, parent string) (Event, error) {
	e, _, err := new(decoder).decode(line, nil, runID, parent)
	return e, err
}

// decoder reads lines one after the other.
type decoder struct {
	seen   []seen // payloads of lines before, each at its hash; nil: none is kept
	second uint64 // of the last id, from 1
	time   [len(TimeFormat)]byte
	texts  strings.Builder
}

// maxTexts is how many bytes of texts of events that follow each other share an allocation. Who keeps one of them keeps all.
const maxTexts = 512

// seen is a payload that two lines had: a third has the same value and the same digest, and neither is computed again.
// A quarter of all payloads, and more, come again: of turns that begin, of calls that start.
type seen struct {
	once       uint64 // the end of the hash of a line since then, which may come again
	kind       Type
	hash, text string // "": there is none
	payload    Payload
}

// A decoder keeps up to mostSeen payloads of up to maxSeen bytes.
const (
	mostSeen = 256
	maxSeen  = 512
)

// slot returns the place of a payload by the hash that its line names, and the end of that.
func (d *decoder) slot(hash []byte) (*seen, uint64) {
	if len(d.seen) == 0 || len(hash) != canonical.DigestSize {
		return new(seen), 0
	}
	end := binary.LittleEndian.Uint64(hash[len(hash)-8:])
	return &d.seen[end*0x9e3779b97f4a7c15>>32%uint64(len(d.seen))], end
}

// keep takes a payload whose line is good.
func (s *seen) keep(end uint64, t Type, hash, text []byte, p Payload) {
	switch {
	case len(text) > maxSeen:
	case s.once != end:
		s.once = end
	default:
		*s = seen{end, t, string(hash), string(text), p}
	}
}

// decode reads a line without its newline, once. It checks the line by itself: encoding, types, scope, content hash, id
// and time; the chain is the reader's. The event shares the texts of run and parent where it has those, and with head,
// which is digest as a string.
func (d *decoder) decode(line, digest []byte, runID, parent string) (e Event, head string, err error) {
	t, k, known := lastKind(line)
	if !known {
		return Event{}, "", canonical.ErrMalformed
	}
	s := canonical.Scan(line)
	defer s.Close()
	number := func(name string) int64 { s.Expect(name); return s.Int() }
	s.Expect("{")
	if k.scope >= scopeAttempt {
		e.Attempt = int(number(`"attempt":`))
		s.Expect(",")
	}
	s.Expect(`"content_hash":"`)
	hash := s.Next(canonical.DigestSize)
	s.Expect(`","id":"`)
	id := s.Next(ulid.EncodedSize)
	e.MonoUs = number(`","mono_us":`)
	s.Expect(`,"parent_hash":`)
	e.ParentHash = s.Known(parent)
	s.Expect(`,"payload":`)
	from := s.Offset()
	slot, end := d.slot(hash)
	again := slot.kind == t && slot.hash == string(hash) && s.Has(slot.text)
	if e.Payload = slot.payload; !again {
		e.Payload = k.scan(s)
	}
	to := s.Offset()
	s.Expect(`,"run_id":`)
	e.RunID = s.Known(runID)
	e.Seq = number(`,"seq":`)
	if k.scope >= scopeTask {
		s.Expect(`,"task_id":`)
		e.TaskID = s.Recent()
	}
	s.Expect(`,"timestamp":"`)
	at := s.Next(len(TimeFormat))
	s.Expect(`"`)
	if k.scope >= scopeTurn {
		e.Turn = int(number(`,"turn":`))
	}
	s.Expect(`,"type":"`)
	s.Expect(string(e.Payload.Type()))
	s.Expect(`"}`)
	if s.End() != nil || min(e.MonoUs, e.Seq) < 0 || !k.scope.fits(e.TaskID, e.Attempt, e.Turn) || !again && !canonical.HasDigest(line[from:to], hash) || !d.isID(id, at) {
		return Event{}, "", canonical.ErrMalformed
	}
	if !again && d.seen != nil {
		slot.keep(end, t, hash, line[from:to], e.Payload)
	}
	if n := len(id) + len(at) + len(digest); d.texts.Cap()-d.texts.Len() < n {
		if d.seen != nil { // others follow
			n = maxTexts
		}
		d.texts.Reset()
		d.texts.Grow(n)
	}
	from = d.texts.Len()
	d.texts.Write(id)
	d.texts.Write(at)
	d.texts.Write(digest)
	all := d.texts.String()[from:]
	e.ID, e.Timestamp, head = all[:len(id)], all[len(id):len(id)+len(at)], all[len(id)+len(at):]
	return e, head, nil
}

// isID reports whether text is a ULID in its one form, and at its time.
func (d *decoder) isID(text, at []byte) bool {
	var id ulid.ULID
	var form [ulid.EncodedSize]byte
	if id.UnmarshalText(text) != nil || id.MarshalTextTo(form[:]) != nil || !bytes.Equal(form[:], text) {
		return false
	}
	if second := id.Time()/1000 + 1; second != d.second {
		if len(appendTime(d.time[:0], id)) != len(d.time) { // after the year 9999
			return false
		}
		d.second = second
	}
	appendMillis(d.time[:len(d.time)-len("000Z")], id)
	return bytes.Equal(d.time[:], at)
}

// lastKind returns what the last member of a line says, which is the type if the line is canonical, and its kind.
func lastKind(line []byte) (t Type, k kind, known bool) {
	line = bytes.TrimSuffix(line, []byte(`"}`))
	k, known = kinds[Type(line[bytes.LastIndexByte(line, '"')+1:])]
	return k.of, k, known
}

// scan returns a reader of one type of payload, which keeps the room that it reads into.
func scan[P Payload]() func(*canonical.Scanner) Payload {
	rooms := sync.Pool{New: func() any { return new(P) }}
	return func(s *canonical.Scanner) Payload {
		p := rooms.Get().(*P)
		defer rooms.Put(p)
		s.Value(p)
		return *p
	}
}

// decode reads a payload.
func (k kind) decode(b []byte) (Payload, error) {
	s := canonical.Scan(b)
	defer s.Close()
	p := k.scan(s)
	return p, s.End()
}

// fits reports whether exactly the members of a scope are set.
func (s scope) fits(task string, attempt, turn int) bool {
	return (task != "") == (s >= scopeTask) &&
		(attempt > 0) == (s >= scopeAttempt) && attempt >= 0 &&
		(turn > 0) == (s >= scopeTurn) && turn >= 0
}

// TimeFormat is how times are written: UTC with milliseconds.
const TimeFormat = "2006-01-02T15:04:05.000Z"

func timestamp(id ulid.ULID) string { return string(appendTime(nil, id)) }

// appendTime appends the time of an id in TimeFormat. Package time has a faster way for RFC 3339 than for layouts.
func appendTime(b []byte, id ulid.ULID) []byte {
	b = ulid.Time(id.Time()).UTC().AppendFormat(b, time.RFC3339)
	return appendMillis(append(b[:len(b)-len("Z")], '.'), id)
}

func appendMillis(b []byte, id ulid.ULID) []byte {
	ms := id.Time() % 1000
	return append(b, byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

// Time returns when the event was recorded.
func (e Event) Time() time.Time {
	t, err := time.Parse(TimeFormat, e.Timestamp)
	if err != nil {
		return time.Time{}
	}
	return t
}
