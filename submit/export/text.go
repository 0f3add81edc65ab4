package export

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxText is how much of one text a log shows, in bytes. The journal shows some
// KiB; only of a run that keeps whole bodies can it be more.
const maxText = 1 << 20

// textOrigin says what a text in the log is of.
type textOrigin struct {
	Bytes        int64    `json:"bytes"`                   // of the whole in its canonical form
	Cut          bool     `json:"cut,omitzero"`            // the text is the beginning of it, or not recorded at all
	CutArguments []string `json:"cut_arguments,omitempty"` // call ids and names of arguments that are beginnings
	Document     bool     `json:"document,omitzero"`       // the text is of the document that the tool made, of which the message showed a part
	Image        string   `json:"image,omitzero"`          // path of the picture that the message carried; it is not in the log
	Redacted     bool     `json:"redacted,omitzero"`       // secrets were taken out of it, or of what was recorded with it
	SHA256       string   `json:"sha256,omitzero"`         // of the whole in its canonical form
	Source       string   `json:"source,omitzero"`         // where the harness had the message from
}

// bodies reads the whole of what the journal shows the heads of, where the run
// keeps it.
type bodies struct{ dir fs.FS }

// text returns the body of a digest, or the head of it if the run does not keep
// it, and whether that is all of it.
func (b bodies) text(digest, head string, truncated bool) (text string, whole bool, err error) {
	if digest == "" {
		return head, !truncated, nil
	}
	data, err := rundir.ReadBody(b.dir, digest)
	if errors.Is(err, fs.ErrNotExist) { // a package does not have them
		return head, !truncated, nil
	}
	if err != nil {
		return "", false, err
	}
	return strings.ToValidUTF8(string(data), "\ufffd"), true, nil
}

// shorten cuts a text to limit bytes, not inside a character.
func shorten(text string, limit int) (short string, cut bool) {
	if len(text) <= limit {
		return text, false
	}
	end := limit
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end], true
}

// message reads a message, or as much of its content as the beginning of its
// canonical form shows.
func message(line string) (m trajectory.SentMessage, whole bool) {
	if json.Unmarshal([]byte(line), &m) == nil {
		return m, true
	}
	return trajectory.SentMessage{Content: contentOf(line)}, false
}

// contentOf returns what the beginning of a message's canonical form, in which
// content is the first member, shows of the content.
func contentOf(line string) string {
	rest, found := strings.CutPrefix(line, `{"content":`)
	if !found || !strings.HasPrefix(rest, `"`) {
		return ""
	}
	end := 1
	for end < len(rest) && rest[end] != '"' {
		size := 1
		if rest[end] == '\\' {
			size = 2
			if strings.HasPrefix(rest[end+1:], "u") {
				size = 6
			}
		}
		if end+size > len(rest) {
			break
		}
		end += size
	}
	content, err := jsontext.AppendUnquote(nil, rest[:end]+`"`)
	if err != nil {
		return ""
	}
	return string(content)
}

// fresh returns the lines of what a request added to the conversation, of which
// the last may be cut.
func fresh(text string, whole bool) []string {
	lines := strings.Split(text, "\n")
	if n := len(lines); whole && lines[n-1] == "" {
		lines = lines[:n-1]
	}
	return lines
}

// exact reports whether a line is the very message of a digest.
func exact(line, digest string) bool { return canonical.Digest([]byte(line)) == digest }

// arguments returns the arguments of a call as the journal has them, strings as
// they are and other values as their JSON text, and the names of those that are cut.
func (b bodies) arguments(p trajectory.ToolProposed) (args map[string]string, cut []string, err error) {
	all := map[string]string{}
	maps.Copy(all, p.Args)
	if len(p.ArgsTruncated) > 0 {
		text, whole, err := b.text(p.BodySHA256, "", true)
		if err != nil {
			return nil, nil, err
		}
		cut = slices.Clone(p.ArgsTruncated)
		var values map[string]jsontext.Value
		if whole && json.Unmarshal([]byte(text), &values) == nil {
			cut = nil
			for name, value := range values {
				var s string
				if json.Unmarshal(value, &s) != nil {
					s = string(value)
				}
				all[name] = s
			}
		}
	}
	args = map[string]string{}
	for name, value := range all {
		short, shortened := shorten(value, maxText)
		if args[name] = short; shortened {
			cut = append(cut, name)
		}
	}
	slices.Sort(cut)
	return args, slices.Compact(cut), nil
}
