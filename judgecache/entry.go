package judgecache

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/sign"
)

const (
	timeFormat = "2006-01-02T15:04:05.000Z"
	suffix     = ".json"

	digestPrefix = "sha256:"

	// maxEntry is the size in bytes above which a file is not read. An entry
	// is near 500 bytes; only the model's name can make it longer.
	maxEntry = 16 << 10
)

// The reasons an entry is bad. They are all there is to read in a Bad: a word
// of a forged entry could be made to look like one of ours.
const (
	noReason     = "" // the entry is good
	notRegular   = "not a regular file"
	unreadable   = "not readable"
	tooLarge     = "too large"
	malformed    = "not the canonical JSON of a judgment"
	unsigned     = "not signed"
	Untrusted    = "signed by a key that is not trusted"
	forged       = "under a signature that is not good"
	misplaced    = "under another name than its own"
	anotherModel = "of another model than was asked"
	anotherKind  = "of another kind than was asked"
)

// The reasons a whole cache is bad.
const (
	Linked   = "a symbolic link in place of the directory"
	NotOwned = "a directory of another user"
	Writable = "a directory that others can write to"

	NotDirectory = "not a directory"
	NotMade      = "a directory that cannot be made"
	NotRead      = "a directory that cannot be read"
	NotPrivate   = "a directory that cannot be closed to others"
)

// kind is a sort of entry. The schema is in the entry and the payload type
// in what is signed, so that a signature of one kind is none of another.
type kind struct {
	name                string // in an Entry
	schema, payloadType string
	yes, no             string // the verdicts
}

func judgments() kind {
	return kind{"judgment", "gaia.judgment/1", "application/vnd.gaia-harness.judgment+json", "correct", "incorrect"}
}

func batteries() kind {
	return kind{"null battery", "gaia.null-battery/1", "application/vnd.gaia-harness.null-battery+json", "withstood", "paid"}
}

// kindOf returns the kind of an entry that is of one.
func kindOf(schema string) (kind, bool) {
	for _, k := range [...]kind{judgments(), batteries()} {
		if k.schema == schema {
			return k, true
		}
	}
	return kind{}, false
}

// entry is a judgment or a battery as its file has it. Without Signature it
// is what is signed.
type entry struct {
	Schema    string `json:"schema"`
	Key       string `json:"key"`
	Context   string `json:"context"`
	Verdict   string `json:"verdict"`
	Model     string `json:"model"`
	Created   string `json:"created"`
	Signature string `json:"signature,omitzero"`
}

// signed returns the bytes that the signature of an entry is over.
func (e entry) signed() ([]byte, error) {
	k, known := kindOf(e.Schema)
	if !known {
		return nil, fmt.Errorf("an entry of the schema %q cannot be signed", e.Schema)
	}
	e.Signature = ""
	payload, err := canonical.Encode(e)
	if err != nil {
		return nil, err
	}
	return dsse.PAE(k.payloadType, payload), nil
}

// seal signs an entry and returns its file's content.
func (e entry) seal(key sign.Key) ([]byte, error) {
	msg, err := e.signed()
	if err != nil {
		return nil, err
	}
	e.Signature = base64.StdEncoding.EncodeToString(key.Sign(msg))
	return canonical.Encode(e)
}

// parse reads a file's content. It looks at form only: who signed, and whether
// the signature is good, is for verify.
func parse(data []byte) (e entry, reason string) {
	if err := canonical.Decode(data, &e); err != nil {
		return entry{}, malformed
	}
	k, known := kindOf(e.Schema)
	// time.Parse accepts more than one form, hence the comparison.
	created, err := time.Parse(timeFormat, e.Created)
	if !known || !canonical.IsDigest(e.Context) || err != nil || created.Format(timeFormat) != e.Created || e.Verdict != k.yes && e.Verdict != k.no {
		return entry{}, malformed
	}
	if e.Signature == "" {
		return entry{}, unsigned
	}
	if _, err := sign.DecodeBase64(e.Signature); err != nil {
		return entry{}, malformed
	}
	return e, noReason
}

// verify reads the content of the file called name and checks its signature.
func verify(name string, data []byte, trusted map[string]sign.PublicKey) (e entry, reason string) {
	e, reason = parse(data)
	if reason != noReason {
		return entry{}, reason
	}
	if fileName(e.Context) != name {
		return entry{}, misplaced
	}
	key, ok := trusted[e.Key]
	if !ok {
		return entry{}, Untrusted
	}
	msg, err := e.signed()
	if err != nil {
		return entry{}, malformed
	}
	if sig, err := sign.DecodeBase64(e.Signature); err != nil || !key.Verify(msg, sig) {
		return entry{}, forged
	}
	return e, noReason
}

// isLegacy recognises an entry of the form that had neither schema nor signature.
// Whoever takes both away from a signed entry has only made a miss of it.
func isLegacy(data []byte) bool {
	var old struct {
		Schema    jsontext.Value `json:"schema"`
		Signature jsontext.Value `json:"signature"`
		Key       string         `json:"key"`
		Context   string         `json:"context"`
		Verdict   string         `json:"verdict"`
	}
	if err := json.Unmarshal(data, &old); err != nil {
		return false
	}
	k := judgments() // there were no others
	return old.Schema == nil && old.Signature == nil && (old.Key != "" || old.Context != "") &&
		(old.Verdict == k.yes || old.Verdict == k.no)
}

// fileName returns the name of the file that holds the entry of a digest.
func fileName(digest string) string { return strings.TrimPrefix(digest, digestPrefix) + suffix }
