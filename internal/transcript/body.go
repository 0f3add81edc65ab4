package transcript

import (
	"bytes"
	"errors"
	"io/fs"
	"path"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// maxPicture bounds a picture of a workspace, in bytes.
const maxPicture = 32 << 20

// Body returns the whole text or picture of a digest that the run keeps, and its media type by its content: "image/png",
// "image/jpeg", "image/gif" or "image/webp"; everything else is "text/plain". Other bytes than those of the digest are a
// *trajectory.Fault; the error matches fs.ErrNotExist if the run does not keep them.
func (j *Journal) Body(digest string) (data []byte, mediaType string, err error) {
	if data, err = rundir.ReadBody(j.dir, digest); err == nil {
		return data, sniff(data), nil
	}
	name := j.workspaceFile(digest)
	if !errors.Is(err, fs.ErrNotExist) || name == "" {
		return nil, "", err
	}
	if data, err = rundir.ReadFile(j.dir, name, maxPicture); err != nil {
		return nil, "", err
	}
	if canonical.Digest(data) != digest {
		return nil, "", trajectory.Faultf(name, "is not the picture that the journal has")
	}
	return data, sniff(data), nil
}

// workspaceFile returns where the run directory has a picture of a workspace, "" if it has none. While the attempt
// lasts, others write to the workspace, and could put something in its place that cannot be read.
func (j *Journal) workspaceFile(digest string) string {
	j.mu.RLock()
	found, ok := j.pictures[digest]
	ok = ok && j.attempts[found.of].ended
	j.mu.RUnlock()
	if !ok || !j.isFile(found.name) {
		return ""
	}
	for dir := path.Dir(found.name); dir != "."; dir = path.Dir(dir) { // no link leads out of the run
		if info, err := fs.Lstat(j.dir, dir); err != nil || !info.IsDir() {
			return ""
		}
	}
	return found.name
}

// sniff returns the media type of bytes: a picture that browsers show, or text.
func sniff(data []byte) string {
	for _, kind := range []struct{ start, mediaType string }{
		{"\x89PNG\r\n\x1a\n", "image/png"}, {"\xff\xd8\xff", "image/jpeg"}, {"GIF87a", "image/gif"}, {"GIF89a", "image/gif"},
	} {
		if bytes.HasPrefix(data, []byte(kind.start)) {
			return kind.mediaType
		}
	}
	if len(data) >= 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP" {
		return "image/webp"
	}
	return "text/plain"
}
