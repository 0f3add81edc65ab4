package submit

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
)

// longBase64 finds what could be the payload of an envelope.
var longBase64 = regexp.MustCompile(`[A-Za-z0-9+/]{40,}={0,2}`)

// TestNothingPrivate: neither gold answers that the agent did not give, nor their
// salt, nor where the run lies, are in a package, clean or dirty, with decisions or
// without, also not within the envelopes. What the agent answered wrong, failed to
// answer and was not asked for is all the same.
func TestNothingPrivate(t *testing.T) {
	const none, wrong = "Zwyrrlhaven", "Qoxxel-77-Vandermeer"
	text := change(t, two, "gold: Tolmey", "gold: "+none)
	text = change(t, text, "gold: 14", "gold: "+wrong)
	decided := config(t, change(t, leaked, "gold: 14", "gold: "+none))
	decide(t, decided, ruling(t, decided, audit.Void, leakRule, firstTask), ruling(t, decided, audit.Void, leakRule, secondTask))
	for name, c := range map[string]Config{
		"clean":   config(t, text),
		"dirty":   withDirty(config(t, planned(text, `{"submit_intent":false}`))),
		"decided": withDirty(decided),
	} {
		decoded := 0
		for file, data := range load(t, mustBuild(t, c).Path) {
			all := [][]byte{data}
			for _, encoded := range longBase64.FindAllString(string(data), -1) {
				if payload, err := base64.StdEncoding.DecodeString(encoded); err == nil {
					all = append(all, payload)
					decoded++
				}
			}
			salt, err := hex.DecodeString(c.Gold.Salt)
			if err != nil {
				t.Fatal(err)
			}
			for _, secret := range []string{none, wrong, strings.ToLower(none), c.Gold.Salt, string(salt), base64.StdEncoding.EncodeToString(salt), filepath.Dir(c.Run), c.Out} {
				for _, part := range all {
					if bytes.Contains(part, []byte(secret)) {
						t.Errorf("%s: %s holds %q", name, file, secret)
					}
				}
			}
		}
		if decoded < 10 {
			t.Errorf("%s: only %d payloads were decoded", name, decoded)
		}
	}
}
