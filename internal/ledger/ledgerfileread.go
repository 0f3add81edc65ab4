package ledger

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// VerifyLedger reads a ledger file to its end and returns its seal and the key that
// made it, which the caller has yet to trust; name is what the file is called in a
// Fault. strict wants each event to be the canonical JSON of one that a run can have
// given. Without it the bytes are only what was sealed: for what this program wrote
// itself. What is wrong is a *trajectory.Fault, or an error of reading.
func VerifyLedger(name string, from io.Reader, strict bool) (LedgerSeal, sign.PublicKey, error) {
	r := newLedgerReader(name, from)
	for last := ""; ; {
		line, over, err := r.next()
		if err != nil {
			return LedgerSeal{}, sign.PublicKey{}, err
		}
		if over {
			return r.seal(line)
		}
		if !strict {
			continue
		}
		var e RunEvent
		if err := sign.Decode(line, &e); err != nil {
			var old RunEvent
			if json.Unmarshal(line, &old) == nil && old.Schema != runEventSchema {
				return LedgerSeal{}, sign.PublicKey{}, r.fault(r.line, "%v", CheckRunEvent(old))
			}
			return LedgerSeal{}, sign.PublicKey{}, r.fault(r.line, "is not the canonical JSON of a run event")
		}
		if reason := standsAfter(last, e); reason != "" {
			return LedgerSeal{}, sign.PublicKey{}, r.fault(r.line, "%s", reason)
		}
		last = e.ID
	}
}

// standsAfter says why an event cannot follow that of the id last.
func standsAfter(last string, e RunEvent) (reason string) {
	if err := CheckRunEvent(e); err != nil {
		return err.Error()
	}
	if e.ID <= last {
		return "does not come after the event before it"
	}
	return ""
}

// LedgerEvents gives the events of a file that VerifyLedger has gone through, in
// order, and ends with the error, if there is one. All that VerifyLedger asks is asked
// again but for the form of the JSON: the events count only once they have ended in
// the same seal, since others may write to the file meanwhile. So many batches are
// decoded at once, and held; 0 takes line by line.
func LedgerEvents(name string, from io.Reader, sealed LedgerSeal, atOnce int) iter.Seq2[RunEvent, error] {
	return func(yield func(RunEvent, error) bool) {
		r := newLedgerReader(name, from)
		most := maxBatchBytes
		if atOnce == 0 {
			most = 1
		}
		var under []chan decodedEvents
		last := ""
		finish := func(leave int) bool {
			for len(under) > leave {
				d := <-under[0]
				under = under[1:]
				for i, e := range d.events {
					if e.ID <= last {
						d.err = r.fault(d.first+int64(i), "does not come after the event before it")
						break
					}
					if last = e.ID; !yield(e, nil) {
						return false
					}
				}
				if d.err != nil {
					yield(RunEvent{}, d.err)
					return false
				}
			}
			return true
		}
		for over := false; !over; {
			b, ended, err := r.batch(most, sealed)
			if err != nil {
				if finish(0) {
					yield(RunEvent{}, err)
				}
				return
			}
			over = ended
			done := make(chan decodedEvents, 1) // so that nobody waits for who has given up
			under = append(under, done)
			go func() { done <- r.decode(b) }()
			if !finish(atOnce) {
				return
			}
		}
		finish(0)
	}
}

// The lines of a batch, at most, and the bytes that it ends after.
const (
	maxBatchLines = 256
	maxBatchBytes = 1 << 20
)

// lineBatch are lines of events that are decoded together.
type lineBatch struct {
	first int64  // number of the first
	text  []byte // of all, after each other
	ends  []int  // where each ends in text
}

// batch reads lines until they have so many bytes; over says that the seal came after
// them, and that it is the one that it has to be.
func (r *ledgerReader) batch(most int, sealed LedgerSeal) (b lineBatch, over bool, err error) {
	b.first, b.text = r.line+1, make([]byte, 0, r.usual)
	defer func() { r.usual = len(b.text) }()
	for len(b.ends) < maxBatchLines && len(b.text) < most {
		line, over, err := r.next()
		if err != nil {
			return b, false, err
		}
		if over {
			if s, _, err := r.seal(line); err != nil || s != sealed {
				return b, false, trajectory.Faultf(r.name, "was changed while it was read")
			}
			return b, true, nil
		}
		b.text = append(b.text, line...)
		b.ends = append(b.ends, len(b.text))
	}
	return b, false, nil
}

// decodedEvents are those of a batch before what is wrong with it.
type decodedEvents struct {
	first  int64 // line of the first
	events []RunEvent
	err    error
}

// decode decodes a batch, beside others.
func (r *ledgerReader) decode(b lineBatch) decodedEvents {
	d := decodedEvents{first: b.first, events: make([]RunEvent, len(b.ends))}
	begin := 0
	for i, end := range b.ends {
		err := json.Unmarshal(b.text[begin:end], &d.events[i], jsontext.AllowDuplicateNames(true))
		if err != nil {
			err = errors.New("is not a run event")
		} else {
			err = CheckRunEvent(d.events[i])
		}
		if err != nil {
			d.events, d.err = d.events[:i], r.fault(b.first+int64(i), "%v", err)
			return d
		}
		begin = end
	}
	return d
}

// ledgerReader reads the lines of a ledger file.
type ledgerReader struct {
	name    string
	in      *bufio.Reader
	digest  hash.Hash // of the lines of events so far
	line    int64     // number of the one that was read last
	scratch []byte
	usual   int // bytes of a batch
}

func newLedgerReader(name string, from io.Reader) *ledgerReader {
	return &ledgerReader{name: name, in: bufio.NewReaderSize(from, 1<<16), digest: sha256.New()}
}

// fault is what is wrong with a line.
func (r *ledgerReader) fault(line int64, format string, args ...any) error {
	return &trajectory.Fault{File: r.name, Line: line, Reason: fmt.Sprintf(format, args...)}
}

// next reads a line, without its newline; over is true of the seal's, which is the
// last.
func (r *ledgerReader) next() (line []byte, over bool, err error) {
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
		return nil, false, r.fault(r.line, "is longer than %d bytes", maxLedgerLine)
	case errors.Is(err, io.EOF):
		return nil, false, r.fault(r.line, "ends without a seal")
	case err != nil:
		return nil, false, fmt.Errorf("reading %s: %w", r.name, err)
	}
	if !bytes.HasPrefix(line, []byte(`{"events":`)) { // as no run event begins
		r.digest.Write(line)
		return bytes.TrimSuffix(line, []byte{'\n'}), false, nil
	}
	line = bytes.Clone(line) // looking behind it reads on
	if _, err := r.in.ReadByte(); err == nil {
		return nil, false, r.fault(r.line, "is a seal before the end")
	} else if !errors.Is(err, io.EOF) {
		return nil, false, fmt.Errorf("reading %s: %w", r.name, err)
	}
	return bytes.TrimSuffix(line, []byte{'\n'}), true, nil
}

// seal reads the seal, and wants it to be of the lines before it.
func (r *ledgerReader) seal(line []byte) (LedgerSeal, sign.PublicKey, error) {
	var s LedgerSeal
	refuse := func(format string, args ...any) (LedgerSeal, sign.PublicKey, error) {
		return LedgerSeal{}, sign.PublicKey{}, r.fault(r.line, format, args...)
	}
	if err := sign.Decode(line, &s); err != nil || s.Schema != ledgerSchema {
		return refuse("is not the canonical JSON of a seal of the schema %s", ledgerSchema)
	}
	if s.SHA256 != sign.DigestOf(r.digest) || s.Events != r.line-1 {
		return refuse("is the seal of other events")
	}
	key, err := s.check()
	if err != nil {
		return refuse("%v", err)
	}
	return s, key, nil
}
