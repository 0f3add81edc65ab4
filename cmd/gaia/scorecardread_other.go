//go:build !unix

package main

// readInto reads a regular file, and of one larger than limit a byte more, which no
// reader of it accepts.
func readInto(path string, buf []byte, limit int) (data, next []byte, err error) {
	data, err = readAtMost(path, int64(limit))
	return data, buf, err
}
