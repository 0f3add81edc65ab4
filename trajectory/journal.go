package trajectory

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/gaia-harness/gaia/internal/canonical"
)

// MaxLine bounds one line of a journal, in bytes: the largest event is a context_compiled with its list of messages,
// far below.
const MaxLine = 16 << 20

// JournalFile is the name of the journal in a run directory.
const JournalFile = "events.jsonl"

// End is the end of a journal: how many events it holds, the digest of its last line (of manifest.json when there is
// none) and the last id.
type End struct {
	Events int64
	Head   string
	LastID string
}

// Fault is evidence that does not verify: it names the file, the line (from 1, 0 where lines do not matter) and what is
// wrong. It differs from an I/O error, which proves nothing.
type Fault struct {
	File   string
	Line   int64
	Reason string
	Hint   string // what the user can do about it; "" if there is nothing to say
}

func (f *Fault) Error() string {
	if f.Line > 0 {
		return fmt.Sprintf("%s: line %d: %s", f.File, f.Line, f.Reason)
	}
	return fmt.Sprintf("%s: %s", f.File, f.Reason)
}

// Faultf makes a Fault about a whole file.
func Faultf(file, format string, args ...any) error {
	return &Fault{File: file, Reason: fmt.Sprintf(format, args...)}
}

// Tail is an unfinished last line: where it starts and its bytes.
type Tail struct {
	Offset int64
	Bytes  []byte
}

// ReadJournal reads the journal of a run from its first line, whose parent must be head (the digest of manifest.json),
// and calls visit with each event and its line, newline included (valid during the call). It stops at the first line
// that is not what a Log would have written, with a *Fault, or at visit's first error. A last line without newline ends
// the reading and is returned as a Tail.
func ReadJournal(r io.Reader, runID, head string, visit func(Event, []byte) error) (End, *Tail, error) {
	return ReadLines(r, runID, End{Head: head}, visit)
}

// ReadLines is [ReadJournal] of the lines that follow an end. The offset of the Tail counts from there.
func ReadLines(r io.Reader, runID string, end End, visit func(Event, []byte) error) (End, *Tail, error) {
	br := bufio.NewReaderSize(r, 1<<16)
	d := decoder{seen: make([]seen, mostSeen)}
	var offset int64
	for {
		line, err := readLine(br)
		if errors.Is(err, io.EOF) {
			if len(line) == 0 {
				return end, nil, nil
			}
			return end, &Tail{offset, line}, nil
		}
		if errors.Is(err, errLineTooLong) {
			return End{}, nil, &Fault{File: JournalFile, Line: end.Events + 1, Reason: fmt.Sprintf("longer than %d bytes", MaxLine)}
		}
		if err != nil {
			return End{}, nil, fmt.Errorf("reading %s: %w", JournalFile, err)
		}
		event, head, reason := d.check(line, runID, end)
		if reason != "" {
			return End{}, nil, &Fault{File: JournalFile, Line: end.Events + 1, Reason: reason}
		}
		if err := visit(event, line); err != nil {
			return End{}, nil, err
		}
		offset += int64(len(line))
		end = End{Events: end.Events + 1, Head: head, LastID: event.ID}
	}
}

// check decodes a line, checks its place in the chain and returns its digest; reason is what is wrong, "" when nothing is.
func (d *decoder) check(line []byte, runID string, end End) (e Event, head, reason string) {
	var room [canonical.DigestSize]byte
	e, head, err := d.decode(line[:len(line)-1], canonical.AppendDigest(room[:0], line), runID, end.Head)
	switch {
	case err != nil:
		reason = err.Error()
	case e.RunID != runID:
		reason = fmt.Sprintf("belongs to run %q", e.RunID)
	case e.ParentHash != end.Head:
		reason = "does not follow the line before it: parent_hash differs"
	case e.Seq != end.Events:
		reason = fmt.Sprintf("seq is %d, not %d", e.Seq, end.Events)
	case e.ID <= end.LastID:
		reason = "its id is not above the one before it"
	}
	return e, head, reason
}

var errLineTooLong = errors.New("line too long")

// readLine returns the next line with its newline; io.EOF with what is there when the newline is missing.
func readLine(br *bufio.Reader) ([]byte, error) {
	var long []byte
	for {
		part, err := br.ReadSlice('\n')
		if len(long)+len(part) > MaxLine {
			return nil, errLineTooLong
		}
		if err == nil && long == nil {
			return part, nil
		}
		long = append(long, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return long, err
		}
	}
}
