package audit

import (
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// bodies are whole documents that came from outside of the run, by digest. Of
// those that the run has the digest of, used says which.
type bodies struct {
	all  map[string][]byte
	used map[string]bool
}

func newBodies(all map[string][]byte) bodies { return bodies{all, map[string]bool{}} }

// text returns the document of a digest, if it is at hand and the digest is its
// own.
func (b bodies) text(sha256 string) (string, bool) {
	body, ok := b.all[sha256]
	if !ok || sign.Digest(body) != sha256 {
		return "", false
	}
	b.used[sha256] = true
	return string(body), true
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
