package export

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/go-json-experiment/json"
)

// archive is a zip whose local headers have the sizes of what follows them: zip's
// own Create puts them behind it, which readers by ranges of bytes cannot use.
type archive struct {
	zip    *zip.Writer
	packed bytes.Buffer
	flate  *flate.Writer
}

func newArchive(w io.Writer) (*archive, error) {
	f, err := flate.NewWriter(io.Discard, flate.DefaultCompression)
	return &archive{zip: zip.NewWriter(w), flate: f}, err
}

// How a member of the archive says that its name is UTF-8, which features it needs,
// and that it is of the first day that zip knows.
const (
	utf8Name   = 0x800
	zipVersion = 20
	firstDay   = 1<<5 | 1
)

// put writes a value as a JSON member.
func (a *archive) put(name string, v any) error {
	data, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encoding %s: %w", name, err)
	}
	if uint64(len(data)) >= math.MaxUint32 {
		return fmt.Errorf("%s is larger than a member of the log can be", name)
	}
	a.packed.Reset()
	a.flate.Reset(&a.packed)
	if _, err := a.flate.Write(data); err != nil {
		return fmt.Errorf("compressing %s: %w", name, err)
	}
	if err := a.flate.Close(); err != nil {
		return fmt.Errorf("compressing %s: %w", name, err)
	}
	w, err := a.zip.CreateRaw(&zip.FileHeader{Name: name, Method: zip.Deflate, Flags: utf8Name, CreatorVersion: zipVersion, ReaderVersion: zipVersion,
		ModifiedDate: firstDay, CRC32: crc32.ChecksumIEEE(data), CompressedSize64: uint64(a.packed.Len()), UncompressedSize64: uint64(len(data))})
	if err == nil {
		_, err = w.Write(a.packed.Bytes())
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

func (a *archive) close() error {
	if err := a.zip.Close(); err != nil {
		return fmt.Errorf("writing the log: %w", err)
	}
	return nil
}
