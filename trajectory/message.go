package trajectory

import (
	"github.com/gaia-harness/gaia/internal/canonical"
)

// SentMessage is a message of a conversation in the form that is hashed.
type SentMessage struct {
	Content      string     `json:"content"`
	Image        SentImage  `json:"image,omitzero"`
	OpaqueSHA256 string     `json:"opaque_sha256,omitzero"` // of opaque data that goes back to the provider unchanged
	Role         string     `json:"role"`
	ToolCallID   string     `json:"tool_call_id,omitzero"`
	ToolCalls    []SentCall `json:"tool_calls,omitzero"`
}

// SentImage is a picture in a message.
type SentImage struct {
	MediaType string `json:"media_type"`
	SHA256    string `json:"sha256"`
}

// SentCall is a tool call in a message of the model.
type SentCall struct {
	Arguments    string `json:"arguments"`
	ID           string `json:"id"`
	Name         string `json:"name"`
	OpaqueSHA256 string `json:"opaque_sha256,omitzero"`
}

// Canonical returns the canonical JSON of a message. It cannot fail: the type holds strings only, and bytes that are
// not UTF-8 become U+FFFD.
func (m SentMessage) Canonical() []byte {
	b, err := canonical.EncodeLossy(m)
	if err != nil {
		panic("trajectory: a message of strings has no canonical form: " + err.Error())
	}
	return b
}
