package judgecache

import (
	"errors"

	"github.com/gaia-harness/gaia/internal/canonical"
)

// BatteryContext is everything the outcome of a null battery depends on. Battery is the
// digest of its items; PromptDigest is that of the judge's prompt; Origin is
// where the endpoint is: its whole base URL.
type BatteryContext struct {
	Battery      string `json:"battery_sha256"`
	Model        string `json:"model"`
	Origin       string `json:"origin"`
	PromptDigest string `json:"prompt_digest"`
}

// Digest returns "sha256:…" over the canonical object of all fields. It is the
// digest of no Context, whose object has other members. It fails where a field
// is not UTF-8.
func (t BatteryContext) Digest() (string, error) {
	b, err := canonical.Encode(t)
	if err != nil {
		return "", errors.New("a judge's null battery is not named in UTF-8")
	}
	return canonical.Digest(b), nil
}

func (t BatteryContext) kind() (kind, string) { return batteries(), t.Model }
