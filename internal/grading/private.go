package grading

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// Salts are the first line of the private file: the salt of the gold commitment, and
// the secret that the salts of the tasks are made with.
type Salts struct {
	Rehearsal bool   `json:"rehearsal,omitzero"`
	Salt      string `json:"salt"`
	Secret    string `json:"secret"`
}

// NewSalts makes salts.
func NewSalts(random io.Reader, rehearsal bool) (Salts, error) {
	var s Salts
	for _, salt := range []*string{&s.Salt, &s.Secret} {
		b := make([]byte, 32)
		if _, err := io.ReadFull(random, b); err != nil {
			return s, fmt.Errorf("making a salt: %w", err)
		}
		*salt = hex.EncodeToString(b)
	}
	s.Rehearsal = rehearsal
	return s, nil
}

// PrivateVerdict is a further line of the private file. A task without an answer has
// one for its gold alone.
type PrivateVerdict struct {
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

// ReadPrivate returns the gold answers in a run's private file, by task id, and its
// salts. A finished run has all of them. The error matches fs.ErrNotExist if there is
// no such file.
func ReadPrivate(dir string) (answers map[string]string, salts Salts, err error) {
	path := filepath.Join(dir, rundir.PrivateFile)
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() { // opening a pipe would never return, and a link could lead out of the run
		return nil, salts, trajectory.Faultf(rundir.PrivateFile, "is not a regular file")
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, salts, fmt.Errorf("reading %s, without whose salts answers and questions cannot be compared with the plan: %w", rundir.PrivateFile, err)
	}
	if err != nil {
		return nil, salts, fmt.Errorf("reading %s: %w", rundir.PrivateFile, err)
	}
	lines := bytes.Split(data, []byte("\n"))
	if len(lines) == 1 {
		lines = [][]byte{nil, nil} // without a line end the salts are not whole
	}
	answers = map[string]string{}
	for i, line := range lines[:len(lines)-1] { // what follows the last line end was cut off by a crash
		var v PrivateVerdict
		if i == 0 {
			err = canonical.Decode(line, &salts)
		} else if err = canonical.Decode(line, &v); err == nil {
			answers[v.TaskID] = v.Gold
		}
		if err != nil {
			return nil, Salts{}, &trajectory.Fault{File: rundir.PrivateFile, Line: int64(i + 1), Reason: "is not what a run writes there"}
		}
	}
	return answers, salts, nil
}

// Private appends to a private file. Lines that come while others are being written
// are written and synced together. After a failure nothing more is written, since
// what follows half a line could not be read.
type Private struct {
	File *os.File

	turn   sync.Mutex // held while writing; guards failed
	failed error

	mu    sync.Mutex // guards batch
	batch *privateBatch
}

// privateBatch is the lines that are written next.
type privateBatch struct {
	lines []byte
	done  bool
	err   error
}

// Append writes a verdict, durably.
func (p *Private) Append(v PrivateVerdict) error {
	line, err := canonical.EncodeLossy(v)
	if err != nil {
		return err
	}
	p.mu.Lock()
	if p.batch == nil {
		p.batch = &privateBatch{}
	}
	mine := p.batch
	mine.lines = append(append(mine.lines, line...), '\n')
	p.mu.Unlock()

	p.turn.Lock()
	defer p.turn.Unlock()
	if mine.done { // by another of the batch
		return mine.err
	}
	p.mu.Lock()
	p.batch = nil
	p.mu.Unlock()
	if p.failed == nil {
		_, err := p.File.Write(mine.lines)
		if err == nil {
			err = p.File.Sync()
		}
		if err != nil {
			p.failed = fmt.Errorf("writing %s: %w", rundir.PrivateFile, err)
		}
	}
	mine.done, mine.err = true, p.failed
	return p.failed
}
