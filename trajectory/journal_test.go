package trajectory

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/oklog/ulid/v2"
)

// small writes a journal of a few events of every scope.
func small(t testing.TB) []byte {
	t.Helper()
	sink := &disk{}
	l := newLog(t, sink, End{Head: manifestDigest}, config())
	_, err := l.Append(
		Draft{Payload: RunStarted{ManifestSHA256: manifestDigest, PolicyHash: "p"}},
		Draft{TaskID: "task-1", Attempt: 1, Payload: TaskStarted{Question: "2 * 3?\n", Workspace: []File{}}},
		turn(1),
		Draft{TaskID: "task-1", Attempt: 1, Turn: 1, Payload: ToolProposed{Args: map[string]string{"expression": "2*3"}, CallID: "c", Name: "calculate"}},
		Draft{TaskID: "task-1", Attempt: 1, Payload: AnswerCommitted{Answer: "é6", Rule: "r"}},
		Draft{TaskID: "task-1", Payload: TaskSealed{Attempt: 1, Attempts: 1, Outcome: Solved}},
	)
	if err != nil {
		t.Fatal(err)
	}
	return sink.data
}

func verify(data []byte) (End, *Tail, error) {
	return ReadJournal(bytes.NewReader(data), runID, manifestDigest, func(Event, []byte) error { return nil })
}

// chain writes lines that are right but for what edit changes: canonical, each
// over the one before it.
func chain(t testing.TB, edit func(i int, w *wire)) []byte {
	t.Helper()
	var out []byte
	parent := manifestDigest
	for i, line := range bytes.SplitAfter(small(t), []byte("\n")) {
		if len(line) == 0 {
			break
		}
		var w wire
		if err := canonical.Decode(line[:len(line)-1], &w); err != nil {
			t.Fatal(err)
		}
		w.ParentHash = parent
		if edit != nil {
			edit(i, &w)
		}
		b, err := canonical.Encode(w)
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, '\n')
		parent = canonical.Digest(b)
		out = append(out, b...)
	}
	return out
}

// at edits one line only.
func at(line int, edit func(*wire)) func(int, *wire) {
	return func(i int, w *wire) {
		if i == line-1 {
			edit(w)
		}
	}
}

// payload replaces a payload and keeps its content hash true.
func payload(text string) func(*wire) {
	return func(w *wire) { w.Payload, w.ContentHash = []byte(text), canonical.Digest([]byte(text)) }
}

func TestReadJournal(t *testing.T) {
	data := small(t)
	if !bytes.Equal(chain(t, nil), data) {
		t.Fatal("the helper of these tests does not write what a Log writes")
	}
	events, end := read(t, data)
	lines := bytes.SplitAfter(data, []byte("\n"))
	if len(events) != 6 || end.Events != 6 || end.Head != canonical.Digest(lines[5]) || end.LastID != events[5].ID {
		t.Errorf("%d events, end %+v", len(events), end)
	}
	if events[0].ParentHash != manifestDigest || events[1].ParentHash != canonical.Digest(lines[0]) {
		t.Error("the chain does not begin at the manifest")
	}
	for name, r := range map[string]io.Reader{
		"a byte at a time": iotest.OneByteReader(bytes.NewReader(data)), "data with EOF": iotest.DataErrReader(bytes.NewReader(data)),
	} {
		i := 0
		got, tail, err := ReadJournal(r, runID, manifestDigest, func(e Event, line []byte) error {
			if !bytes.Equal(line, lines[i]) || e.ID != events[i].ID {
				t.Errorf("%s: line %d is %s", name, i+1, line)
			}
			i++
			return nil
		})
		if err != nil || tail != nil || got != end {
			t.Errorf("%s: %+v, %v, %v", name, got, tail, err)
		}
	}
	if got, tail, err := verify(nil); err != nil || tail != nil || got != (End{Head: manifestDigest}) {
		t.Errorf("an empty journal: %+v, %v, %v", got, tail, err)
	}
}

func TestReadJournalErrors(t *testing.T) {
	data := small(t)
	_, _, err := ReadJournal(io.MultiReader(bytes.NewReader(data[:700]), iotest.ErrReader(errDisk)), runID, manifestDigest, func(Event, []byte) error { return nil })
	var fault *Fault
	if !errors.Is(err, errDisk) || errors.As(err, &fault) {
		t.Errorf("a read error: %v", err)
	}
	calls := 0
	_, _, err = ReadJournal(bytes.NewReader(data), runID, manifestDigest, func(e Event, _ []byte) error {
		calls++
		if e.Seq == 2 {
			return errDisk
		}
		return nil
	})
	if err != errDisk || calls != 3 {
		t.Errorf("visit's error after %d calls: %v", calls, err)
	}
}

func TestReadJournalRefuses(t *testing.T) {
	data := small(t)
	lines := bytes.SplitAfter(data, []byte("\n"))[:6]
	join := func(order ...int) []byte {
		var out []byte
		for _, i := range order {
			out = append(out, lines[i-1]...)
		}
		return out
	}
	replace := func(old, new string) []byte {
		if bytes.Count(data, []byte(old)) == 0 {
			t.Fatalf("no %q in the journal", old)
		}
		return bytes.Replace(data, []byte(old), []byte(new), 1)
	}
	other := bytes.SplitAfter(bytes.ReplaceAll(data, []byte(runID), []byte("01JZ0000000000000000000XXX")), []byte("\n"))
	earlier := ulid.MustParseStrict("01JZ0000000000000000000000").String()
	malformed := canonical.ErrMalformed.Error()
	const parent = "does not follow the line before it: parent_hash differs"
	tests := []struct {
		name string
		data []byte
		line int64
		want string
	}{
		{"first line cut", join(2, 3, 4, 5, 6), 1, parent},
		{"line cut", join(1, 2, 4, 5, 6), 3, parent},
		{"lines swapped", join(1, 2, 4, 3, 5, 6), 3, parent},
		{"line duplicated", join(1, 2, 3, 3, 4, 5, 6), 4, parent},
		{"journal twice", append(bytes.Clone(data), data...), 7, parent},
		{"a line of another run", append(join(1, 2), other[2]...), 3, `belongs to run "01JZ0000000000000000000XXX"`},
		{"another run's journal", bytes.Join(other, nil), 1, `belongs to run "01JZ0000000000000000000XXX"`},
		{"empty line", append(join(1), append([]byte("\n"), join(2)...)...), 2, malformed},
		{"carriage return", bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n")), 1, malformed},
		{"byte order mark", append([]byte("\ufeff"), data...), 1, malformed},
		{"space", replace(`,"seq"`, `, "seq"`), 1, malformed},
		{"other order of members", replace(`"seq":0,"timestamp":"2031-02-03T04:05:06.789Z"`, `"timestamp":"2031-02-03T04:05:06.789Z","seq":0`), 1, malformed},
		{"unknown member", replace(`,"type":"run_started"`, `,"type":"run_started","zoo":1`), 1, malformed},
		{"duplicate member", replace(`"seq":0`, `"seq":0,"seq":0`), 1, malformed},
		{"escape", replace(`run_started`, `run\u005fstarted`), 1, malformed},
		{"two lines joined", replace("\n", ""), 1, malformed},
		{"other payload", replace(`é6`, `é7`), 5, malformed},
		{"other payload, other hash", chain(t, at(5, func(w *wire) { w.Payload = bytes.Replace(w.Payload, []byte("6"), []byte("7"), 1) })), 5, malformed},
		{"content hash", chain(t, at(2, func(w *wire) { w.ContentHash = canonical.Digest(nil) })), 2, malformed},
		{"no content hash", chain(t, at(2, func(w *wire) { w.ContentHash = "" })), 2, malformed},
		{"unknown type", chain(t, at(3, func(w *wire) { w.Type = "turn_begun" })), 3, malformed},
		{"reserved type", chain(t, at(3, func(w *wire) { w.Type = "handoff" })), 3, malformed},
		{"another type of the same payload", chain(t, at(3, func(w *wire) { w.Type = TypeTurnCompleted })), 3, malformed},
		{"unknown member of the payload", chain(t, at(3, payload(`{"a":1}`))), 3, malformed},
		{"missing member of the payload", chain(t, at(5, payload(`{"answer":"6","reasoning_trace":""}`))), 5, malformed},
		{"explicit zero in the payload", chain(t, at(5, payload(`{"answer":"6","reasoning_trace":"","redactions":0,"rule":""}`))), 5, malformed},
		{"null payload", chain(t, at(3, payload(`null`))), 3, malformed},
		{"list payload", chain(t, at(3, payload(`[]`))), 3, malformed},
		{"a run event with a task", chain(t, at(1, func(w *wire) { w.TaskID = "task-1" })), 1, malformed},
		{"a run event with a negative attempt", chain(t, at(1, func(w *wire) { w.Attempt = -1 })), 1, malformed},
		{"an attempt event with a negative turn", chain(t, at(2, func(w *wire) { w.Turn = -1 })), 2, malformed},
		{"a run event with an attempt", chain(t, at(1, func(w *wire) { w.Attempt = 1 })), 1, malformed},
		{"an attempt event without a task", chain(t, at(2, func(w *wire) { w.TaskID = "" })), 2, malformed},
		{"an attempt event without an attempt", chain(t, at(2, func(w *wire) { w.Attempt = 0 })), 2, malformed},
		{"a negative attempt", chain(t, at(2, func(w *wire) { w.Attempt = -1 })), 2, malformed},
		{"an attempt event with a turn", chain(t, at(2, func(w *wire) { w.Turn = 1 })), 2, malformed},
		{"a turn event without a turn", chain(t, at(3, func(w *wire) { w.Turn = 0 })), 3, malformed},
		{"a negative turn", chain(t, at(3, func(w *wire) { w.Turn = -1 })), 3, malformed},
		{"a task event with an attempt", chain(t, at(6, func(w *wire) { w.Attempt = 1 })), 6, malformed},
		{"a task event without a task", chain(t, at(6, func(w *wire) { w.TaskID = "" })), 6, malformed},
		{"negative time", chain(t, at(3, func(w *wire) { w.MonoUs = -1 })), 3, malformed},
		{"a timestamp that is not the id's", chain(t, at(3, func(w *wire) { w.Timestamp = strings.Replace(w.Timestamp, "04:05", "04:06", 1) })), 3, malformed},
		{"another form of the timestamp", chain(t, at(3, func(w *wire) { w.Timestamp = strings.Replace(w.Timestamp, "Z", "+00:00", 1) })), 3, malformed},
		{"an id in lower case", chain(t, at(3, func(w *wire) { w.ID = strings.ToLower(w.ID) })), 3, malformed},
		{"an id that is none", chain(t, at(3, func(w *wire) { w.ID = "x" + w.ID[1:] })), 3, malformed},
		{"an id beyond the largest", chain(t, at(3, func(w *wire) { w.ID = "8" + w.ID[1:] })), 3, malformed},
		{"another manifest", chain(t, at(1, func(w *wire) { w.ParentHash = canonical.Digest([]byte("another")) })), 1, parent},
		{"no parent", chain(t, at(2, func(w *wire) { w.ParentHash = "" })), 2, parent},
		{"another run", chain(t, at(4, func(w *wire) { w.RunID = "other" })), 4, `belongs to run "other"`},
		{"seq skipped", chain(t, func(i int, w *wire) { w.Seq += int64(i / 3) }), 4, "seq is 4, not 3"},
		{"seq repeated", chain(t, at(4, func(w *wire) { w.Seq = 2 })), 4, "seq is 2, not 3"},
		{"seq from 1", chain(t, func(_ int, w *wire) { w.Seq++ }), 1, "seq is 1, not 0"},
		{"negative seq", chain(t, at(1, func(w *wire) { w.Seq = -1 })), 1, malformed},
		{"an id below the one before", chain(t, at(4, func(w *wire) { w.ID, w.Timestamp = earlier, timestamp(ulid.MustParseStrict(earlier)) })), 4,
			"its id is not above the one before it"},
		{"the id of the line before", func() []byte {
			var last wire
			return chain(t, func(i int, w *wire) {
				if i == 3 {
					w.ID, w.Timestamp = last.ID, last.Timestamp
				}
				last = *w
			})
		}(), 4, "its id is not above the one before it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			end, tail, err := verify(tt.data)
			var fault *Fault
			if !errors.As(err, &fault) || *fault != (Fault{File: JournalFile, Line: tt.line, Reason: tt.want}) {
				t.Errorf("%v, want line %d: %s", err, tt.line, tt.want)
			}
			if end != (End{}) || tail != nil {
				t.Errorf("with a fault it returned %+v, %v", end, tail)
			}
		})
	}
	if got := (&Fault{File: JournalFile, Line: 3, Reason: "is wrong"}).Error(); got != "events.jsonl: line 3: is wrong" {
		t.Error(got)
	}
	if got := Faultf("checkpoint", "is %s", "wrong").Error(); got != "checkpoint: is wrong" {
		t.Error(got)
	}
}

// TestReadJournalFlips changes every single bit, outside of the thorough run one of each byte. Every line but the last is
// under the hash in the next one. What can still change in the last line (its
// random id, its clock, where it stands) gives another head, which is what a
// checkpoint signs.
func TestReadJournalFlips(t *testing.T) {
	data := bytes.Join(bytes.SplitAfter(small(t), []byte("\n"))[:3], nil)
	end, _, err := verify(data)
	if err != nil {
		t.Fatal(err)
	}
	last := bytes.LastIndexByte(data[:len(data)-1], '\n') + 1
	for i := range data {
		for bit := range 8 {
			if !long.Thorough() && bit != i%8 {
				continue
			}
			b := bytes.Clone(data)
			b[i] ^= 1 << bit
			got, tail, err := verify(b)
			var fault *Fault
			switch {
			case errors.As(err, &fault) && fault.File == JournalFile:
			case err != nil:
				t.Errorf("byte %d, bit %d: %v, not a fault", i, bit, err)
			case i == len(data)-1: // the final newline
				if tail == nil || tail.Offset != int64(last) || got.Events != 2 {
					t.Errorf("the final newline, bit %d: %+v, %v", bit, got, tail)
				}
			case i < last || got.Head == end.Head || tail != nil:
				t.Errorf("byte %d, bit %d: nothing noticed in %s", i, bit, b[max(0, i-20):i+20])
			}
		}
	}
}

func TestTornTail(t *testing.T) {
	data := small(t)
	var starts []int
	for i := range data {
		if i == 0 || data[i-1] == '\n' {
			starts = append(starts, i)
		}
	}
	for cut := range len(data) {
		_, complete := slices.BinarySearch(starts, cut)
		if !complete && cut%long.Step(5) != 0 {
			continue
		}
		end, tail, err := verify(data[:cut])
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		whole := bytes.Count(data[:cut], []byte("\n"))
		start := bytes.LastIndexByte(data[:cut], '\n') + 1
		if end.Events != int64(whole) {
			t.Errorf("cut at %d: %d events, want %d", cut, end.Events, whole)
		}
		if complete {
			if tail != nil {
				t.Errorf("cut between lines at %d: a tail %+v", cut, tail)
			}
			continue
		}
		if tail == nil || tail.Offset != int64(start) || !bytes.Equal(tail.Bytes, data[start:cut]) {
			t.Errorf("cut at %d: tail %+v, want offset %d", cut, tail, start)
		}
	}
	// Whatever stands after the last newline is torn, also what no log wrote.
	for _, rest := range []string{"\x00\x00\x00", "x", strings.Repeat("y", 1<<17)} {
		end, tail, err := verify(append(bytes.Clone(data), rest...))
		if err != nil || end.Events != 6 || tail == nil || tail.Offset != int64(len(data)) || string(tail.Bytes) != rest {
			t.Errorf("with %d more bytes: %+v, %v", len(rest), end, err)
		}
	}
}

// endless gives the same byte for ever.
type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

func TestLongLines(t *testing.T) {
	data := small(t)
	_, _, err := ReadJournal(io.MultiReader(bytes.NewReader(data), endless('a')), runID, manifestDigest, func(Event, []byte) error { return nil })
	var fault *Fault
	if !errors.As(err, &fault) || *fault != (Fault{File: JournalFile, Line: 7, Reason: "longer than 16777216 bytes"}) {
		t.Errorf("a line without end: %v", err)
	}
	for extra, want := range map[int64]error{0: nil, 1: errLineTooLong} {
		in := bufio.NewReader(io.MultiReader(io.LimitReader(endless('a'), MaxLine-1+extra), strings.NewReader("\n")))
		line, err := readLine(in)
		if err != want || want == nil && len(line) != MaxLine {
			t.Errorf("a line of the limit and %d: %d bytes, %v", extra, len(line), err)
		}
	}
	// Lines longer than the reader's buffer arrive whole.
	sink := &disk{}
	l := newLog(t, sink, End{Head: manifestDigest}, config())
	for n := range 5 {
		question := strings.Repeat(fmt.Sprint(n), 1<<16-500+200*n)
		if _, err := l.Append(Draft{TaskID: "t", Attempt: 1, Payload: TaskStarted{Question: question}}); err != nil {
			t.Fatal(err)
		}
	}
	events, _ := read(t, sink.data)
	for n, e := range events {
		if q := e.Payload.(TaskStarted).Question; q != strings.Repeat(fmt.Sprint(n), 1<<16-500+200*n) {
			t.Errorf("event %d came back with %d bytes", n, len(q))
		}
	}
}

// TestPayloadsThatComeAgain: a payload that was seen before is taken without a second look only with all its bytes, its
// digest and its type.
func TestPayloadsThatComeAgain(t *testing.T) {
	payloads := []Payload{TurnStarted{}, TurnCompleted{LatencyMs: 7, ToolCalls: 1}, ModelCallStarted{RequestedModel: "m", Try: 1}, ModelCallStarted{RequestedModel: "m", Try: 2}}
	var lines [][]byte
	for i, p := range payloads {
		e, k := event(t, int64(i), p)
		line, err := encoded(&e, k)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line[:len(line)-1])
	}
	for _, slots := range []int{1, mostSeen} {
		d := decoder{seen: make([]seen, slots)}
		for range 4 {
			for i, line := range lines {
				want, err := decodeEvent(line, "", "")
				if err != nil {
					t.Fatal(err)
				}
				if e, _, err := d.decode(line, nil, "", ""); err != nil || !reflect.DeepEqual(e, want) || e.Payload != payloads[i] {
					t.Fatalf("%s is read as %+v (%v)", line, e, err)
				}
			}
		}
	}
	known := 0
	d := decoder{seen: make([]seen, mostSeen)}
	for range 3 {
		for _, line := range lines {
			if _, _, err := d.decode(line, nil, "", ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, s := range d.seen {
		if s.payload != nil {
			known++
		}
	}
	if known != len(lines) {
		t.Errorf("%d of %d payloads are kept", known, len(lines))
	}
	for i, line := range lines {
		for at := range line { // one bit of any byte
			changed := bytes.Clone(line)
			changed[at] ^= 1
			want, wantErr := decodeEvent(changed, "", "")
			if e, _, err := d.decode(changed, nil, "", ""); err != wantErr || !reflect.DeepEqual(e, want) {
				t.Fatalf("%s is read as %+v (%v), by itself as %+v (%v)", changed, e, err, want, wantErr)
			}
		}
		for j, other := range lines { // the payload and digest of another line
			if reflect.TypeOf(payloads[i]) == reflect.TypeOf(payloads[j]) {
				continue
			}
			hash, payload := regexp.MustCompile(`sha256:[0-9a-f]{64}`).Find(other), regexp.MustCompile(`"payload":.*,"run_id"`).Find(other)
			changed := bytes.Replace(line, regexp.MustCompile(`sha256:[0-9a-f]{64}`).Find(line), hash, 1)
			changed = bytes.Replace(changed, regexp.MustCompile(`"payload":.*,"run_id"`).Find(line), payload, 1)
			if _, _, err := d.decode(changed, nil, "", ""); !errors.Is(err, canonical.ErrMalformed) {
				t.Errorf("%s is read: %v", changed, err)
			}
		}
	}
}

func FuzzReadEvent(f *testing.F) {
	for i, p := range filled() {
		for _, p := range []Payload{p, zero(p)} {
			e, k := event(f, int64(i), p)
			line, err := encoded(&e, k)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(line[:len(line)-1])
		}
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := decodeEvent(line, "", "")
		d := decoder{seen: make([]seen, 1)}
		for range 3 { // the last time, the payload is one that was seen before
			if again, _, err2 := d.decode(line, nil, "", ""); err2 != err || !reflect.DeepEqual(again, e) {
				t.Fatalf("read as %+v (%v), and again as %+v (%v)", e, err, again, err2)
			}
		}
		if err != nil {
			if !errors.Is(err, canonical.ErrMalformed) || e != (Event{}) {
				t.Fatalf("refused with %v and %+v", err, e)
			}
			return
		}
		k := kinds[e.Payload.Type()]
		again, err := encoded(&e, k)
		if err != nil || !bytes.Equal(again, append(bytes.Clone(line), '\n')) {
			t.Fatalf("accepted %q, which encodes to %q (%v)", line, again, err)
		}
	})
}

func FuzzReadJournal(f *testing.F) {
	f.Add(small(f))
	f.Add(small(f)[:500])
	f.Fuzz(func(t *testing.T, data []byte) {
		read := 0
		end, tail, err := ReadJournal(bytes.NewReader(data), runID, manifestDigest, func(_ Event, line []byte) error {
			read += len(line)
			return nil
		})
		if err != nil {
			if fault := (*Fault)(nil); !errors.As(err, &fault) {
				t.Fatalf("%v is not a fault", err)
			}
			return
		}
		if tail != nil {
			if tail.Offset != int64(read) {
				t.Fatalf("the tail begins at %d, after %d bytes of lines", tail.Offset, read)
			}
			read += len(tail.Bytes)
		}
		if read != len(data) || end.Events != int64(bytes.Count(data, []byte("\n"))) {
			t.Fatalf("%d of %d bytes accounted for", read, len(data))
		}
	})
}
