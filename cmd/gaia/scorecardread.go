package main

import (
	"errors"
	"io/fs"
	"syscall"
)

// readInto reads a regular file into buf, which it makes larger where that is needed,
// and returns the file's bytes with the buffer for the next one. Of a file larger than
// limit it returns a byte more, which no reader of it accepts. It asks the system for
// as little as can be: there may be ten thousand files, and each costs more to open
// than to parse. A pipe is not waited for.
func readInto(path string, buf []byte, limit int) (data, next []byte, err error) {
	wrong := func(op string, err error) ([]byte, []byte, error) {
		return nil, buf, &fs.PathError{Op: op, Path: path, Err: err}
	}
	fd, err := again(func() (int, error) {
		return syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	})
	if err != nil {
		return wrong("open", err)
	}
	defer syscall.Close(fd)
	var info syscall.Stat_t
	if err := syscall.Fstat(fd, &info); err != nil {
		return wrong("stat", err)
	}
	if info.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return wrong("open", errors.New("it is not a regular file"))
	}
	for n := 0; ; {
		if n == len(buf) {
			buf = append(buf, make([]byte, max(n, 64<<10))...)
		}
		got, err := again(func() (int, error) { return syscall.Read(fd, buf[n:min(len(buf), limit+1)]) })
		if err != nil {
			return wrong("read", err)
		}
		if n += got; got == 0 || n > limit || int64(n) == info.Size {
			return buf[:n], buf, nil
		}
	}
}

// again does what a signal may interrupt until none does.
func again(do func() (int, error)) (int, error) {
	for {
		if n, err := do(); err != syscall.EINTR {
			return n, err
		}
	}
}
