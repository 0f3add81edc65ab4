package run

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// saltLine is the first line of the private file.
type saltLine struct {
	Rehearsal bool   `json:"rehearsal,omitzero"`
	Salt      string `json:"salt"`
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
	if err := regular(dir, PrivateFile); err != nil {
		return nil, "", err
	}
	data, err := os.ReadFile(filepath.Join(dir, PrivateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("reading %s, without whose salt the answers cannot be held against the plan: %w", PrivateFile, err)
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading %s: %w", PrivateFile, err)
	}
	var first saltLine
	answers = map[string]string{}
	for i, line := range bytes.Split(data, []byte("\n")) {
		var v privateVerdict
		switch {
		case i == 0:
			if !bytes.Contains(data, []byte("\n")) {
				line = nil // without it the salt is not whole
			}
			err = sign.Decode(line, &first)
		case bytes.Count(data, []byte("\n")) == i: // after the last newline: empty, or cut off by a crash
			return answers, first.Salt, nil
		default:
			err = sign.Decode(line, &v)
			answers[v.TaskID] = v.Gold
		}
		if err != nil {
			return nil, "", &trajectory.Fault{File: PrivateFile, Line: int64(i + 1), Reason: "is not what a run writes there"}
		}
	}
	return answers, first.Salt, nil
}

// keepPrivate writes a verdict with its gold to the private file, durably: of
// what is recorded.
func (r *Run) keepPrivate(v privateVerdict) error {
	if r.lost != nil {
		return nil
	}
	r.private.Lock()
	defer r.private.Unlock()
	if r.spoiled != nil {
		return r.spoiled
	}
	line, err := sign.CanonicalLossy(v)
	if err != nil {
		return err
	}
	_, err = r.judgments.Write(append(line, '\n'))
	if err == nil {
		err = r.judgments.Sync()
	}
	if err != nil { // what follows half a line could not be read
		r.spoiled = fmt.Errorf("writing %s: %w", PrivateFile, err)
	}
	return r.spoiled
}
