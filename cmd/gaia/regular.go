package main

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Limits, in bytes, of files of keys. A line of either has about a hundred.
const (
	maxKeyFile = 1 << 16
	maxAllowed = 16 << 20
)

// openRegular opens a regular file. Whether it is one is asked before, since opening
// a pipe waits for who writes to it, and again of what was opened.
func openRegular(path string) (*os.File, error) {
	irregular := errors.New("it is not a regular file")
	if info, err := os.Stat(path); err != nil {
		return nil, unwrapPath(err)
	} else if !info.Mode().IsRegular() {
		return nil, irregular
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, unwrapPath(err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = irregular
	}
	if err != nil {
		f.Close()
		return nil, unwrapPath(err)
	}
	return f, nil
}

// readAtMost reads a regular file of at most limit bytes, and of a larger one a byte
// more, which no reader of it accepts.
func readAtMost(path string, limit int64) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}

// readUpTo reads a regular file, and refuses one of more than limit bytes.
func readUpTo(path string, limit int64) ([]byte, error) {
	data, err := readAtMost(path, limit)
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("it is larger than %d bytes", limit)
	}
	return data, err
}
