package run

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/trajectory"
)

// saltLine is the first line of the private file: the salt of the gold commitment, and
// the secret that the salts of the tasks are made with.
type saltLine struct {
	Rehearsal bool   `json:"rehearsal,omitzero"`
	Salt      string `json:"salt"`
	Secret    string `json:"secret"`
}

// privateVerdict is a line of the private file after the salt. A task without
// an answer has one for its gold alone.
type privateVerdict struct {
	Answer    string `json:"answer"`
	Attempt   int    `json:"attempt"` // 0: there was no answer to judge
	Gold      string `json:"gold"`
	Judged    *bool  `json:"judged"`
	Official  bool   `json:"official"`
	Path      string `json:"path"`
	Problem   string `json:"problem,omitzero"`
	Rehearsal bool   `json:"rehearsal,omitzero"`
	TaskID    string `json:"task_id"`
}

// ReadGold returns what a run's private file knows of the gold answers, by task
// id, and the salt the plan commits to them with. A finished run has all of
// them. The error matches fs.ErrNotExist if there is no such file.
func ReadGold(dir string) (answers map[string]string, salt string, err error) {
	answers, first, err := readPrivate(dir)
	return answers, first.Salt, err
}

// readPrivate returns the gold answers of a run's private file, by task id, and its
// first line.
func readPrivate(dir string) (answers map[string]string, first saltLine, err error) {
	if err := regular(dir, PrivateFile); err != nil {
		return nil, saltLine{}, err
	}
	data, err := os.ReadFile(filepath.Join(dir, PrivateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, saltLine{}, fmt.Errorf("reading %s, without whose salts answers and questions cannot be compared with the plan: %w", PrivateFile, err)
	}
	if err != nil {
		return nil, saltLine{}, fmt.Errorf("reading %s: %w", PrivateFile, err)
	}
	answers = map[string]string{}
	for i, line := range bytes.Split(data, []byte("\n")) {
		var v privateVerdict
		switch {
		case i == 0:
			if !bytes.Contains(data, []byte("\n")) {
				line = nil // without it the salt is not whole
			}
			err = canonical.Decode(line, &first)
		case bytes.Count(data, []byte("\n")) == i: // after the last newline: empty, or cut off by a crash
			return answers, first, nil
		default:
			err = canonical.Decode(line, &v)
			answers[v.TaskID] = v.Gold
		}
		if err != nil {
			return nil, saltLine{}, &trajectory.Fault{File: PrivateFile, Line: int64(i + 1), Reason: "is not what a run writes there"}
		}
	}
	return answers, first, nil
}

// private writes the lines of the private file. Lines that come while others
// are being written are written and synced together.
type private struct {
	file *os.File

	turn    sync.Mutex // held by who writes
	spoiled error      // why nothing more is written

	mu    sync.Mutex // guards batch
	batch *privateBatch
}

// privateBatch are the lines that are written next.
type privateBatch struct {
	lines []byte
	done  bool
	err   error
}

// keepPrivate writes a verdict with its gold to the private file, durably: of
// what is recorded.
func (r *Run) keepPrivate(v privateVerdict) error {
	if r.lost != nil {
		return nil
	}
	line, err := canonical.EncodeLossy(v)
	if err != nil {
		return err
	}
	return r.private.keep(append(line, '\n'))
}

func (p *private) keep(line []byte) error {
	p.mu.Lock()
	if p.batch == nil {
		p.batch = &privateBatch{}
	}
	mine := p.batch
	mine.lines = append(mine.lines, line...)
	p.mu.Unlock()

	p.turn.Lock()
	defer p.turn.Unlock()
	if mine.done { // by another of the batch
		return mine.err
	}
	p.mu.Lock()
	p.batch = nil
	p.mu.Unlock()
	mine.done, mine.err = true, p.write(mine.lines)
	return mine.err
}

// write adds lines to the file, durably. What follows half a line could not be
// read: after a failure nothing is written.
func (p *private) write(lines []byte) error {
	if p.spoiled != nil {
		return p.spoiled
	}
	_, err := p.file.Write(lines)
	if err == nil {
		err = p.file.Sync()
	}
	if err != nil {
		p.spoiled = fmt.Errorf("writing %s: %w", PrivateFile, err)
	}
	return p.spoiled
}
