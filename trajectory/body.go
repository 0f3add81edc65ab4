package trajectory

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/gaia-harness/gaia/internal/sign"
)

// BodiesDir is the folder of a run directory that holds whole bodies, each in a
// file that is called by the hexadecimal digits of its digest.
const BodiesDir = "bodies/sha256"

// Body is a whole body without secrets, under its digest.
type Body struct {
	SHA256 string
	Text   string
}

// BodyFile returns where a run directory keeps the body of a digest; "" for
// what is no digest.
func BodyFile(digest string) string {
	if !isDigest(digest) {
		return ""
	}
	return path.Join(BodiesDir, strings.TrimPrefix(digest, "sha256:"))
}

// maxBody bounds, in bytes, a body that is read.
const maxBody = 256 << 20

// ReadBody returns the body that an event names by its body_sha256. Other bytes
// than those are a *Fault; the error matches fs.ErrNotExist where the body is
// not kept.
func ReadBody(dir fs.FS, digest string) ([]byte, error) {
	name := BodyFile(digest)
	if name == "" {
		return nil, fmt.Errorf("%q is not a digest", digest)
	}
	info, err := fs.Lstat(dir, name)
	if err != nil {
		return nil, fmt.Errorf("reading the body %s: %w", digest, errors.Unwrap(err))
	}
	if !info.Mode().IsRegular() {
		return nil, Faultf(name, "is not a regular file")
	}
	f, err := dir.Open(name)
	if err != nil {
		return nil, fmt.Errorf("reading the body %s: %w", digest, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("reading the body %s: %w", digest, err)
	}
	if sign.Digest(data) != digest {
		return nil, Faultf(name, "is not what its name says")
	}
	return data, nil
}
