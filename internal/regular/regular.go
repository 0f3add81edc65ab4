// Package regular reads regular files that the user names.
//
// It refuses pipes, devices, sockets and directories: opening a pipe waits for its writer, and a device may have no end.
// The type is checked before the file is opened and again on the open file, so that the name cannot be exchanged in
// between. Each read has a limit in bytes. Cause returns the system's reason without the path, which the caller names.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// open opens a regular file. The type is checked before the file is opened, and again
// on the open file. Errors do not repeat the path.
func open(path string) (*os.File, error) {
	irregular := errors.New("it is not a regular file")
	if info, err := os.Stat(path); err != nil {
		return nil, Cause(err)
	} else if !info.Mode().IsRegular() {
		return nil, irregular
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, Cause(err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = irregular
	}
	if err != nil {
		f.Close()
		return nil, Cause(err)
	}
	return f, nil
}

// Read reads a regular file of at most limit bytes, and of a larger one a byte more,
// which its parser rejects.
func Read(path string, limit int64) ([]byte, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}

// ReadUpTo reads a regular file, and rejects one of more than limit bytes.
func ReadUpTo(path string, limit int64) ([]byte, error) {
	data, err := Read(path, limit)
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("it is larger than %d bytes", limit)
	}
	return data, err
}

// Cause returns the cause of an error of a file operation without the path, for
// messages that name the path already.
func Cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
