package history

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/parquetfile"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
	"github.com/parquet-go/parquet-go"
)

const (
	exportSchema = "gaia.ledger/2"
	exportType   = "application/vnd.gaia-harness.ledger+json"

	// EnvelopeSuffix ends the name of the envelope of a Parquet file, which is beside it.
	EnvelopeSuffix = ".dsse.json"

	// MaxExport bounds a Parquet file of run events, MaxEnvelope an envelope, in bytes.
	MaxExport   = 256 << 20
	MaxEnvelope = 1 << 20
)

// Export is the payload of the DSSE envelope of a file of run events.
type Export struct {
	Attempts string `json:"attempts"` // digest of the Parquet file
	Events   int64  `json:"events"`
	Key      string `json:"key"` // OpenSSH line of the key that signs
	Schema   string `json:"schema"`
}

// SealExport returns run events, ascending by their ids, as a Parquet file and its envelope.
func SealExport(events []rundir.RunEvent, key sign.Key) (data, envelope []byte, err error) {
	if err := checkEvents(events); err != nil {
		return nil, nil, err
	}
	if data, err = encodeAttempts(events, ""); err != nil {
		return nil, nil, err
	}
	payload, err := canonical.Encode(Export{Attempts: canonical.Digest(data), Events: int64(len(events)), Key: key.Public().Line(), Schema: exportSchema})
	if err != nil {
		return nil, nil, err
	}
	envelope, err = sign.Seal(key, exportType, payload)
	return data, envelope, err
}

// OpenEnvelope reads the envelope of an export and returns the key that signed it, which the caller
// still has to trust. name is what the envelope is called in a *trajectory.Fault.
func OpenEnvelope(name string, envelope []byte) (Export, sign.PublicKey, error) {
	var x Export
	var key sign.PublicKey
	_, err := sign.UnsealBy(envelope, exportType, func(payload []byte) (sign.PublicKey, error) {
		if err := canonical.Decode(payload, &x); err != nil || x.Schema != exportSchema {
			return key, fmt.Errorf("its payload is not of the schema %s", exportSchema)
		}
		var err error
		if key, err = sign.ParsePublicKey(x.Key); err == nil && key.Line() != x.Key {
			err = errors.New("its key is not one ssh-ed25519 key")
		}
		return key, err
	})
	if err != nil {
		return Export{}, sign.PublicKey{}, trajectory.Faultf(name, "%v", err)
	}
	return x, key, nil
}

// Check returns a *trajectory.Fault unless data is the file that the envelope is of.
func (x Export) Check(name string, data []byte) error {
	if canonical.Digest(data) != x.Attempts {
		return trajectory.Faultf(name, "is not the file that its envelope is of")
	}
	return nil
}

// Convert reads a Parquet file of run events from in and writes each as a line of canonical JSON. It is
// for a process with limits: what is wrong with the file is a last line that is a JSON string.
func Convert(in io.Reader, out io.Writer) error {
	data, err := io.ReadAll(io.LimitReader(in, MaxExport+1))
	if err == nil && len(data) > MaxExport {
		err = fmt.Errorf("it is larger than %d bytes", MaxExport)
	}
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	events, _, err := openAttempts(data)
	if err == nil {
		for e, failed := range events {
			if err = failed; err != nil {
				break
			}
			line, err := canonical.Encode(e)
			if err != nil {
				return err
			}
			if _, err := w.Write(append(line, '\n')); err != nil {
				return err
			}
		}
	}
	if err != nil {
		line, err := json.Marshal(err.Error())
		if err != nil {
			return err
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return w.Flush()
}

// Converted gives the run events that Convert wrote, and wants as many as the envelope says. Each is
// checked again, since the process that wrote it may have been taken over by what it read.
func Converted(name string, from io.Reader, x Export) iter.Seq2[rundir.RunEvent, error] {
	return func(yield func(rundir.RunEvent, error) bool) {
		lines := bufio.NewScanner(from)
		lines.Buffer(make([]byte, 1<<16), 1<<24)
		last, n := "", int64(0)
		for lines.Scan() {
			line := lines.Bytes()
			var e rundir.RunEvent
			var reason string
			if bytes.HasPrefix(line, []byte{'"'}) {
				if json.Unmarshal(line, &reason) != nil {
					reason = "cannot be read"
				}
			} else if err := canonical.Decode(line, &e); err != nil {
				reason = "is not a file of run events"
			} else if err := checkAfter(last, e); err != nil {
				reason = err.Error()
			}
			if reason != "" {
				yield(rundir.RunEvent{}, trajectory.Faultf(name, "%s", reason))
				return
			}
			n++
			if last = e.ID; !yield(e, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil || n != x.Events {
			yield(rundir.RunEvent{}, trajectory.Faultf(name, "cannot be read whole within the limits of memory and time"))
		}
	}
}

const (
	// runKey is the key of a file's metadata under which the run's stats are, but for its events, as JSON.
	runKey = "gaia.run"

	// maxAttempts bounds the rows of a file.
	maxAttempts = 1 << 20

	// groupRows are the rows of a row group. Each group takes some 12 KB of the footer, which has a limit.
	groupRows = 20_000
)

// checkAfter returns an error unless a run event is valid and comes after the event with the id last.
func checkAfter(last string, e rundir.RunEvent) error {
	err := rundir.CheckRunEvent(e)
	if err == nil && e.ID <= last {
		err = errors.New("does not come after the event before it")
	}
	if err != nil {
		return fmt.Errorf("the event %q: %w", e.ID, err)
	}
	return nil
}

// checkEvents returns an error unless run events are valid and ascending by their ids.
func checkEvents(events []rundir.RunEvent) error {
	last := ""
	for _, e := range events {
		if err := checkAfter(last, e); err != nil {
			return err
		}
		last = e.ID
	}
	return nil
}

// encodeAttempts returns run events as a Parquet file with a row for each, in their order, and the text
// run in its metadata. Equal arguments give equal bytes.
func encodeAttempts(events []rundir.RunEvent, run string) ([]byte, error) {
	if len(events) > maxAttempts {
		return nil, fmt.Errorf("%d events are more than %d", len(events), maxAttempts)
	}
	var out bytes.Buffer
	w := parquet.NewGenericWriter[rundir.RunEvent](&out, parquet.Compression(&parquet.Snappy), parquet.CreatedBy("gaia", "", ""), parquet.KeyValueMetadata(runKey, run))
	for rest := events; len(rest) > 0; {
		n := min(len(rest), groupRows)
		if _, err := w.Write(rest[:n]); err != nil {
			return nil, err
		}
		if err := w.Flush(); err != nil { // which ends a row group
			return nil, err
		}
		rest = rest[n:]
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// openAttempts opens a Parquet file of run events, and returns them in their order with the text that
// encodeAttempts kept. The sequence ends with an error where a row is no run event, or does not come
// after the one before it by its id. Files from outside are safe to open where memory and time are limited.
func openAttempts(data []byte) (events iter.Seq2[rundir.RunEvent, error], run string, err error) {
	defer func() {
		if p := recover(); p != nil {
			events, run, err = nil, "", malformed(p)
		}
	}()
	file, err := parquetfile.Open(data)
	if err != nil {
		return nil, "", err
	}
	if got, want := file.Schema().String(), parquet.SchemaOf(rundir.RunEvent{}).String(); got != want {
		return nil, "", errors.New("its columns are not those of run events of this version")
	}
	if n := file.NumRows(); n < 0 || n > maxAttempts {
		return nil, "", fmt.Errorf("it has %d rows, which is more than %d", n, maxAttempts)
	}
	if _, err := parquetfile.CheckGroups(data, file); err != nil {
		return nil, "", err
	}
	run, _ = file.Lookup(runKey)
	return func(yield func(rundir.RunEvent, error) bool) { readAttempts(file, yield) }, run, nil
}

func readAttempts(file *parquet.File, yield func(rundir.RunEvent, error) bool) {
	r := parquet.NewGenericReader[rundir.RunEvent](file)
	defer r.Close()
	read := func(rows []rundir.RunEvent) (n int, err error) {
		defer func() {
			if p := recover(); p != nil {
				n, err = 0, malformed(p)
			}
		}()
		return r.Read(rows)
	}
	last := ""
	for left := file.NumRows(); left > 0; {
		rows := make([]rundir.RunEvent, min(left, 512))
		n, err := read(rows)
		for _, e := range rows[:n] {
			if err := checkAfter(last, e); err != nil {
				yield(rundir.RunEvent{}, err)
				return
			}
			if last = e.ID; !yield(e, nil) {
				return
			}
		}
		if left -= int64(n); n == 0 || left > 0 && err != nil {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			yield(rundir.RunEvent{}, err)
			return
		}
	}
}

// malformed is the error of what made the library panic.
func malformed(p any) error { return fmt.Errorf("malformed Parquet: %v", p) }

// collect returns what a sequence gives, or its error.
func collect(events iter.Seq2[rundir.RunEvent, error]) ([]rundir.RunEvent, error) {
	all := []rundir.RunEvent{}
	for e, err := range events {
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}
