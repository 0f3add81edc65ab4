package workers

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/runfiles"
)

// stateFile, in the folder of the server, has what is in no journal: a line for each claim that counts, and so on.
const stateFile = "claims.jsonl"

// entry is a line of it.
type entry struct {
	Digest string `json:"digest,omitzero"` // a claim of Task by Worker counts
	Head   string `json:"head,omitzero"`   // of Worker's journal, signed by it; of a claim that which it carried
	Kept   int64  `json:"kept,omitzero"`   // bounds what Worker may have spent and reserved, in micro-USD
	Second bool   `json:"second,omitzero"` // Worker finished Task, which another had claimed
	Task   int    `json:"task,omitzero"`   // from 1
	Worker int    `json:"worker"`
}

// maxEntry bounds a line of the file, in bytes.
const maxEntry = 64 << 10

// state is what the lines of the file add up to. Its methods are called by one goroutine at a time.
type state struct {
	file   *os.File
	size   int64
	claims []claimed            // of each task in plan order
	open   int                  // tasks without a claim
	second map[int]map[int]bool // by worker: tasks that it finished after another
	heads  map[int][]string     // by worker, in order, as the file had them
	kept   map[int]int64        // by worker
}

// claimed says whose lines count for a task; of none Worker is 0.
type claimed struct {
	Worker int
	Digest string
}

// openState reads the file of the claims in a folder, which it makes. A line that a crash cut off is dropped.
func openState(dir string, tasks int) (*state, error) {
	s := &state{claims: make([]claimed, tasks), open: tasks, second: map[int]map[int]bool{}, heads: map[int][]string{}, kept: map[int]int64{}}
	var err error
	if s.file, err = os.OpenFile(filepath.Join(dir, stateFile), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	s.size, err = readEntries(s.file, s.add)
	if err == nil {
		err = s.file.Truncate(s.size)
	}
	if err != nil {
		s.file.Close()
		return nil, fmt.Errorf("reading %s: %w", filepath.Join(dir, stateFile), err)
	}
	return s, nil
}

// readEntries reads the whole lines of a file, and returns how many bytes they have.
func readEntries(r io.Reader, add func(entry) error) (size int64, err error) {
	in := bufio.NewReaderSize(r, maxEntry)
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		var e entry
		if err == nil {
			err = canonical.Decode(line[:len(line)-1], &e)
		}
		if err == nil {
			err = add(e)
		}
		if err != nil {
			return size, err
		}
		size += int64(len(line))
	}
}

// add takes a line.
func (s *state) add(e entry) error {
	switch {
	case e.Worker < 1 || e.Task < 0 || e.Task > len(s.claims) || (e.Task > 0) != (e.Digest != "" || e.Second):
		return errors.New("a line is not one of the server's")
	case e.Task == 0 && e.Head != "":
		s.heads[e.Worker] = append(s.heads[e.Worker], e.Head)
	case e.Task == 0:
		s.kept[e.Worker] = e.Kept
	case e.Second:
		if s.second[e.Worker] == nil {
			s.second[e.Worker] = map[int]bool{}
		}
		s.second[e.Worker][e.Task-1] = true
	case s.claims[e.Task-1].Worker == 0:
		s.claims[e.Task-1] = claimed{e.Worker, e.Digest}
		s.open--
	}
	return nil
}

// write appends lines, and waits for the disk if they are to be durable. What counts is what the file has.
func (s *state) write(durable bool, entries ...entry) error {
	var lines bytes.Buffer
	for _, e := range entries {
		line, err := canonical.Encode(e)
		if err != nil {
			return err
		}
		lines.Write(append(line, '\n'))
	}
	if _, err := s.file.WriteAt(lines.Bytes(), s.size); err != nil {
		return fmt.Errorf("writing the claims: %w", err)
	}
	s.size += int64(lines.Len())
	if durable {
		if err := (runfiles.DataSync{File: s.file}).Sync(); err != nil {
			return fmt.Errorf("syncing the claims: %w", err)
		}
	}
	for _, e := range entries {
		if e.Task == 0 && e.Head != "" { // the copy has it
			continue
		}
		if err := s.add(e); err != nil {
			return err
		}
	}
	return nil
}

// lost counts the tasks that a worker committed and never claimed, so that another did them again; and those that it
// finished after another, which are at least told by its own word.
func (s *state) lost(worker int, committed map[int]string, told int) (lost, superseded int) {
	all := 0
	for task := range committed {
		switch {
		case s.claims[task].Worker == worker || s.claims[task].Worker == 0:
			continue
		case s.second[worker][task]:
			superseded++
		}
		all++
	}
	superseded = min(max(superseded, told), all)
	return all - superseded, superseded
}
