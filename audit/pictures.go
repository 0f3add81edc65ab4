package audit

import (
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/trajectory"
)

// mayShow reports whether the plan lets the question carry a picture: one made
// from the attachment. Where it is not the attachment byte for byte, the journal
// cannot show what of.
func (t *following) mayShow(a *AttemptEvidence, image trajectory.Image) bool {
	file, there := a.attachment()
	return t.images && there && image.Path == file.Path && strings.HasPrefix(image.MediaType, "image/") &&
		(image.SHA256 != file.SHA256 || image.Bytes == file.Bytes)
}

// scaled reports whether a message carries a picture that is not the attachment.
func (a *AttemptEvidence) scaled(m trajectory.Message) bool {
	file, _ := a.attachment()
	return m.Image != trajectory.Image{} && m.Image.SHA256 != file.SHA256
}

// attachment returns the file that comes with the question, as the attempt began
// with it; false if there is none.
func (a *AttemptEvidence) attachment() (trajectory.File, bool) {
	at := slices.IndexFunc(a.Workspace, func(f trajectory.File) bool { return f.Path == a.FileName })
	if at < 0 || a.FileName == "" {
		return trajectory.File{}, false
	}
	return a.Workspace[at], true
}

// smuggles reports whether a message holds a picture that the list of messages
// does not tell of, or what only the model's own messages may hold unread. In
// its text these members would stand with their quotes escaped.
func smuggles(m trajectory.Message, line *shownLine) bool {
	if line == nil {
		return false
	}
	return m.Image == trajectory.Image{} && strings.Contains(line.text, `,"image":{`) ||
		m.Role != "assistant" && strings.Contains(line.text, `,"opaque_sha256":`)
}
