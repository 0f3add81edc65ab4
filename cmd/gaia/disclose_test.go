package main

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/sign"
)

// TestStrangersBundle: a bundle that a stranger made, and that names a key the
// reader trusts as its signer, is refused, however the signature is spelt.
func TestStrangersBundle(t *testing.T) {
	dir, key := foreignRun(t, "honest/search-echo.txt")
	mine := filepath.Join(t.TempDir(), "mine")
	trusted, err := sign.CreateKey(mine, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	stranger := filepath.Join(t.TempDir(), "stranger")
	if _, err := sign.CreateKey(stranger, rand.Reader); err != nil {
		t.Fatal(err)
	}
	bundle := filepath.Join(t.TempDir(), "bundle.json")
	if code, _, stderr := trusting(t, "disclose", dir, "--key", stranger, "-o", bundle); code != exit.OK {
		t.Fatal(stderr)
	}
	data, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	made := regexp.MustCompile(`"signature":\{[^}]*\}`)
	for name, signature := range map[string]string{
		"as it is":              string(made.Find(data)),
		"of no algorithm":       `"signature":{"alg":"x","key_id":"` + trusted.Public().ID() + `","value":""}`,
		"by a trusted key":      `"signature":{"alg":"ed25519","key_id":"` + trusted.Public().ID() + `","value":""}`,
		"by HMAC":               `"signature":{"alg":"hmac-sha256","key_id":"` + trusted.Public().ID() + `","value":""}`,
		"by the stranger, HMAC": `"signature":{"alg":"hmac-sha256","key_id":"x","value":""}`,
	} {
		if err := os.WriteFile(bundle, made.ReplaceAll(data, []byte(signature)), 0o644); err != nil {
			t.Fatal(err)
		}
		hmac := filepath.Join(t.TempDir(), "hmac")
		if err := os.WriteFile(hmac, make([]byte, 32), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{}, {"--trusted-key", mine + ".pub"}, {"--trusted-key", mine + ".pub", "--trusted-key", key}, {"--hmac-key-file", hmac, "--trusted-key", mine + ".pub"}, {"--json", "--trusted-key", mine + ".pub"}} {
			code, stdout, stderr := command(t, append([]string{"verify", bundle}, args...)...)
			unknown := name == "as it is" || name == "by a trusted key" && len(args) == 0 // whose key is not at hand, so nothing is known to be wrong
			want := []int{exit.Evidence, exit.Usage}
			if unknown && !slices.Contains(args, "--hmac-key-file") {
				want = []int{exit.Untrusted}
			}
			if !slices.Contains(want, code) || !strings.HasPrefix(stderr, "gaia: error: ") {
				t.Errorf("%s %v: exit code %d\n%s%s", name, args, code, stdout, stderr)
			}
		}
	}
}
