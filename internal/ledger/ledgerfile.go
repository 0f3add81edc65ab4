package ledger

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

const (
	ledgerSchema = "gaia.ledger/1"
	ledgerType   = "application/vnd.gaia-harness.ledger+json"

	// maxLedgerLine bounds an event's line, in bytes; the names of the files that it
	// touched can make it long.
	maxLedgerLine = 16 << 20
)

// LedgerSeal is the last line of a ledger file:
//
//	{run event}\n   as many as there are, canonical, ascending by id
//	{"events":2,"key":"ssh-ed25519 AAAA…","schema":"gaia.ledger/1","sha256":"sha256:…","signature":"…"}\n
//
// SHA256 is of all bytes before it. The signature is over DSSE's pre-authentication
// encoding of the canonical seal without it, under a payload type of its own. A file
// has exactly one acceptable form.
type LedgerSeal struct {
	Events    int64  `json:"events"`
	Key       string `json:"key"` // OpenSSH line of the signing key
	Schema    string `json:"schema"`
	SHA256    string `json:"sha256"`
	Signature string `json:"signature,omitzero"` // base64
}

// signed returns the bytes that the signature is over.
func (s LedgerSeal) signed() ([]byte, error) {
	s.Signature = ""
	payload, err := sign.Canonical(s)
	return dsse.PAE(ledgerType, payload), err
}

// check wants the signature to be by the key that the seal names.
func (s LedgerSeal) check() (sign.PublicKey, error) {
	key, err := sign.ParsePublicKey(s.Key)
	if err != nil || key.Line() != s.Key {
		return sign.PublicKey{}, errors.New("its key is not one ssh-ed25519 key")
	}
	signature, err := sign.DecodeBase64(s.Signature)
	if err != nil {
		return sign.PublicKey{}, errors.New("its signature is not base64")
	}
	message, err := s.signed()
	if err != nil || !key.Verify(message, signature) {
		return sign.PublicKey{}, errors.New("its signature is not good")
	}
	return key, nil
}

// LedgerWriter writes a ledger file.
type LedgerWriter struct {
	to     io.Writer
	digest hash.Hash
	last   string
	events int64
}

// NewLedgerWriter begins a ledger file.
func NewLedgerWriter(to io.Writer) *LedgerWriter {
	return &LedgerWriter{to: to, digest: sha256.New()}
}

// Add writes the next event. One that does not come after the last, or that no
// reader would accept, is an error.
func (w *LedgerWriter) Add(e RunEvent) error {
	if e.ID <= w.last {
		return fmt.Errorf("the event %q does not come after %q", e.ID, w.last)
	}
	if err := checkRunEvent(e); err != nil {
		return fmt.Errorf("the event %q: %w", e.ID, err)
	}
	line, err := sign.Canonical(e)
	if err != nil {
		return err
	}
	if len(line) >= maxLedgerLine {
		return fmt.Errorf("the event %q takes more than %d bytes", e.ID, maxLedgerLine)
	}
	line = append(line, '\n')
	w.digest.Write(line)
	w.last = e.ID
	w.events++
	_, err = w.to.Write(line)
	return err
}

// Seal ends the file.
func (w *LedgerWriter) Seal(key sign.Key) error {
	s := LedgerSeal{Events: w.events, Key: key.Public().Line(), Schema: ledgerSchema, SHA256: sign.DigestOf(w.digest)}
	message, err := s.signed()
	if err != nil {
		return err
	}
	s.Signature = base64.StdEncoding.EncodeToString(key.Sign(message))
	line, err := sign.Canonical(s)
	if err != nil {
		return err
	}
	_, err = w.to.Write(append(line, '\n'))
	return err
}

// LedgerReader reads a ledger file event by event. Nothing that it returned is to be
// believed before Next has returned io.EOF and Signer is who the caller trusts.
type LedgerReader struct {
	name    string
	in      *bufio.Reader
	known   bool // the bytes were read before, and are what was sealed
	digest  hash.Hash
	line    int64
	last    string
	sealed  LedgerSeal
	signer  sign.PublicKey
	scratch []byte
}

// NewLedgerReader reads a ledger file; name is what it is called in a Fault.
func NewLedgerReader(name string, from io.Reader) *LedgerReader {
	return &LedgerReader{name: name, in: bufio.NewReaderSize(from, 1<<16), digest: sha256.New()}
}

// NewKnownLedgerReader reads a ledger file that Verify has gone through: what was found
// out then is not asked again.
func NewKnownLedgerReader(name string, from io.Reader) *LedgerReader {
	r := NewLedgerReader(name, from)
	r.known = true
	return r
}

// Seal returns the seal, after io.EOF.
func (r *LedgerReader) Seal() LedgerSeal { return r.sealed }

// Signer returns the key of the seal, after io.EOF of a reader that is not of known
// bytes.
func (r *LedgerReader) Signer() sign.PublicKey { return r.signer }

// fault is what is wrong with the line that was read last.
func (r *LedgerReader) fault(format string, args ...any) error {
	return &trajectory.Fault{File: r.name, Line: r.line, Reason: fmt.Sprintf(format, args...)}
}

// Next returns the next event, and io.EOF when the seal was read and is good. Anything
// else is a *trajectory.Fault, or an error of reading.
func (r *LedgerReader) Next() (RunEvent, error) {
	line, last, err := r.next()
	if err != nil {
		return RunEvent{}, err
	}
	if last {
		return RunEvent{}, r.end(line)
	}
	var e RunEvent
	if r.known {
		if err := json.Unmarshal(line, &e); err != nil {
			return RunEvent{}, r.fault("is not a run event")
		}
		return e, nil
	}
	r.count(line)
	if err := sign.Decode(line, &e); err != nil {
		return RunEvent{}, r.fault("is not the canonical JSON of a run event")
	}
	if err := checkRunEvent(e); err != nil {
		return RunEvent{}, r.fault("%v", err)
	}
	if e.ID <= r.last {
		return RunEvent{}, r.fault("does not come after the event before it")
	}
	r.last = e.ID
	return e, nil
}

// Verify reads a ledger file to its end and checks that its bytes are what was sealed,
// without looking at the events: for what this program wrote itself.
func (r *LedgerReader) Verify() (LedgerSeal, sign.PublicKey, error) {
	for {
		line, last, err := r.next()
		if err == nil && last {
			if err = r.end(line); errors.Is(err, io.EOF) {
				return r.sealed, r.signer, nil
			}
		}
		if err != nil {
			return LedgerSeal{}, sign.PublicKey{}, err
		}
		r.count(line)
	}
}

// EachKnown gives the events of a file that Verify has gone through, in order. So many
// batches of lines are decoded at once, and held.
func (r *LedgerReader) EachKnown(atOnce int, give func(RunEvent) error) error {
	const batchSize = 256
	var under []chan decodedEvents
	finish := func(most int) error {
		for len(under) > most {
			d := <-under[0]
			under = under[1:]
			for _, e := range d.events {
				if err := give(e); err != nil {
					return err
				}
			}
			if d.err != nil {
				return d.err
			}
		}
		return nil
	}
	for over := false; !over; {
		var text []byte // of a batch, its lines after each other
		var ends []int
		first := r.line + 1
		for len(ends) < batchSize {
			line, last, err := r.next()
			if err != nil {
				return err
			}
			if over = last; last {
				break
			}
			text = append(text, line...)
			ends = append(ends, len(text))
		}
		done := make(chan decodedEvents, 1) // so that nobody waits for who has given up
		under = append(under, done)
		go func() { done <- decodeEvents(r.name, first, text, ends) }()
		if err := finish(atOnce); err != nil {
			return err
		}
	}
	return finish(0)
}

// decodedEvents are those of a batch before what is wrong with it.
type decodedEvents struct {
	events []RunEvent
	err    error
}

// decodeEvents decodes the lines of text that end where ends says; the first is the
// line of that number in the file called name.
func decodeEvents(name string, first int64, text []byte, ends []int) (d decodedEvents) {
	d.events = make([]RunEvent, len(ends))
	begin := 0
	for i, end := range ends {
		if err := json.Unmarshal(text[begin:end], &d.events[i]); err != nil {
			return decodedEvents{d.events[:i], &trajectory.Fault{File: name, Line: first + int64(i), Reason: "is not a run event"}}
		}
		begin = end
	}
	return d
}

// count adds an event's line to what the seal is of.
func (r *LedgerReader) count(line []byte) {
	r.digest.Write(line)
	r.digest.Write([]byte{'\n'})
	r.sealed.Events++
}

// next reads a line, without its newline; last is true of the last one.
func (r *LedgerReader) next() (line []byte, last bool, err error) {
	r.line++
	line, err = r.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) { // rare: so long a line is put together
		r.scratch = append(r.scratch[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) && len(r.scratch) <= maxLedgerLine {
			line, err = r.in.ReadSlice('\n')
			r.scratch = append(r.scratch, line...)
		}
		line = r.scratch
	}
	switch {
	case len(line) > maxLedgerLine:
		return nil, false, r.fault("is longer than %d bytes", maxLedgerLine)
	case errors.Is(err, io.EOF):
		return nil, false, r.fault("ends without a seal")
	case err != nil:
		return nil, false, fmt.Errorf("reading %s: %w", r.name, err)
	}
	line = bytes.TrimSuffix(line, []byte{'\n'})
	if !bytes.HasPrefix(line, []byte(`{"events":`)) { // as no run event begins
		return line, false, nil
	}
	line = bytes.Clone(line) // looking behind it reads on
	if _, err := r.in.ReadByte(); err == nil {
		return nil, false, r.fault("is a seal before the end")
	} else if !errors.Is(err, io.EOF) {
		return nil, false, fmt.Errorf("reading %s: %w", r.name, err)
	}
	return line, true, nil
}

// end reads the seal; io.EOF says that it is good.
func (r *LedgerReader) end(line []byte) error {
	var s LedgerSeal
	if err := sign.Decode(line, &s); err != nil || s.Schema != ledgerSchema {
		return r.fault("is not the canonical JSON of a seal of the schema %s", ledgerSchema)
	}
	if r.known {
		r.sealed = s
		return io.EOF
	}
	if s.SHA256 != sign.DigestOf(r.digest) || s.Events != r.sealed.Events {
		return r.fault("is the seal of other events")
	}
	key, err := s.check()
	if err != nil {
		return r.fault("%v", err)
	}
	r.sealed, r.signer = s, key
	return io.EOF
}
