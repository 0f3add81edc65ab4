package judgecache

import (
	"errors"
	"fmt"
	"path/filepath"

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

// GetBattery looks up whether a judge withstood a battery. found and bad are those
// of Get.
func (c *Cache) GetBattery(t BatteryContext) (withstood, found bool, bad *Bad, err error) {
	digest, err := t.Digest()
	if err != nil {
		return false, false, nil, err
	}
	return c.get(batteries(), digest, t.Model)
}

// PutBattery keeps whether a judge withstood a battery, as Put keeps a verdict. But
// that it paid stays until it is removed: a judge that may pay cannot be tried
// until it does not. So does an entry that is bad, which can have said so; that is
// an error. Only of two processes that put at the same moment, the later wins.
func (c *Cache) PutBattery(t BatteryContext, withstood bool) error {
	digest, err := t.Digest()
	if err != nil {
		return err
	}
	before, found, fault, err := c.lookUp(batteries(), digest, t.Model)
	if err != nil {
		return fmt.Errorf("writing a null battery: %w", err) // what is there may say that it paid
	}
	if fault.Reason != noReason && fault.Name != Place {
		return fmt.Errorf("writing a null battery: the entry that is there is %s, and stays until it is removed", fault.Reason)
	}
	if withstood && found && !before {
		return nil
	}
	return c.put(batteries(), digest, t.Model, withstood)
}

// BatteryFile returns the path of the file that holds the outcome of a battery.
func (c *Cache) BatteryFile(t BatteryContext) (string, error) {
	digest, err := t.Digest()
	return filepath.Join(c.Dir(), fileName(digest)), err
}
