package trajectory

import (
	"path"
	"strings"
)

// BodiesDir is the folder of a run directory that holds whole bodies, each in a file that is called by the hexadecimal
// digits of its digest.
const BodiesDir = "bodies/sha256"

// Body is a whole body without secrets, under its digest.
type Body struct {
	SHA256 string
	Text   string
}

// BodyFile returns where a run directory keeps the body of a digest; "" for what is no digest.
func BodyFile(digest string) string {
	if !isDigest(digest) {
		return ""
	}
	return path.Join(BodiesDir, strings.TrimPrefix(digest, "sha256:"))
}
