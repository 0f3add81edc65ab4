package history

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/gaia-harness/gaia/internal/parquetfile"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/parquet-go/parquet-go"
)

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
