package audit

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// bodies are whole documents from outside of the run, by digest; nil for one that a
// report names and that is not at hand. Of those that the run has the digest of,
// named says which, and used which were at hand.
type bodies struct {
	all         map[string][]byte
	named, used map[string]bool
}

func newBodies(all map[string][]byte) bodies {
	return bodies{all, map[string]bool{}, map[string]bool{}}
}

// text returns the document of a digest, if it is at hand and the digest is its
// own.
func (b bodies) text(sha256 string) (string, bool) {
	body, ok := b.all[sha256]
	if !ok {
		return "", false
	}
	b.named[sha256] = true
	if body == nil || sign.Digest(body) != sha256 {
		return "", false
	}
	b.used[sha256] = true
	return string(body), true
}

// missing returns a digest that a report names and the run does not have; "" if there
// is none.
func (b bodies) missing() string {
	for _, digest := range slices.Sorted(maps.Keys(b.all)) {
		if b.all[digest] == nil && !b.named[digest] {
			return digest
		}
	}
	return ""
}

// contradicts reports whether a body that is at hand is not what the event shows the
// beginning of. What was taken out of it can only be compared with a body that it was
// taken out of, too.
func (b bodies) contradicts(h head, bodySHA256 string) bool {
	if text, ok := b.text(h.sha256); ok && h.redactions == 0 && utf8.ValidString(text) {
		return !strings.HasPrefix(text, h.text)
	}
	text, ok := b.text(bodySHA256)
	return ok && !strings.HasPrefix(text, h.text)
}

// misquotes is contradicts for the arguments of a call. Those with secrets are taken
// as they are.
func (b bodies) misquotes(p trajectory.ToolProposed) bool {
	text, ok := b.text(p.ArgsSHA256)
	if other, known := b.text(p.BodySHA256); !ok {
		text, ok = other, known
	}
	if !ok || p.Redactions > 0 || !utf8.ValidString(text) {
		return false
	}
	args, err := policy.Arguments([]byte(text))
	if err != nil {
		return len(p.Args) > 0 || !strings.HasPrefix(text, p.Malformed)
	}
	for name, value := range args {
		if shown, known := p.Args[name]; !known || !strings.HasPrefix(value, shown) {
			return true
		}
	}
	return len(args) != len(p.Args)
}

// matched returns the digests of those that the run has, sorted; nil for none.
func (b bodies) matched() []string { return slices.Sorted(maps.Keys(b.used)) }

// files returns a start workspace with what the bodies at hand say of its files. A
// file that is no text has another text for its reader than its bytes are.
func (t *following) files(workspace []trajectory.File) []trajectory.File {
	workspace = slices.Clone(workspace)
	for i, f := range workspace {
		text, ok := t.bodies.text(f.SHA256)
		if !ok || !utf8.ValidString(text) {
			continue
		}
		probes := t.prober.Probe(text, "", nil)
		if f.Probes != nil {
			probes = graver(probes, *f.Probes)
		}
		workspace[i].Probes = &probes
	}
	return workspace
}
