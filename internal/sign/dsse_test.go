package sign_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	stdjson "encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/sign"
)

const payloadType = "application/vnd.gaia-harness.test+json"

// newKey makes a key that is the same in every run.
func newKey(t testing.TB, seed byte) sign.Key {
	t.Helper()
	key, err := sign.NewKey(rand.NewChaCha8([32]byte{seed}))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func seal(t testing.TB, key sign.Key, payload string) []byte {
	t.Helper()
	envelope, err := sign.Seal(key, payloadType, []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	return envelope
}

// TestSealIsDSSE reads an envelope as another program would: standard JSON and
// base64, the pre-authentication encoding spelt out, and crypto/ed25519.
func TestSealIsDSSE(t *testing.T) {
	key := newKey(t, 1)
	for _, payload := range []string{"", "x", `{"a":"é"}`, strings.Repeat("long ", 1000), "\x00\xff"} {
		var e struct {
			Payload, PayloadType string
			Signatures           []struct{ KeyID, Sig string }
		}
		if err := stdjson.Unmarshal(seal(t, key, payload), &e); err != nil {
			t.Fatal(err)
		}
		body, err := base64.StdEncoding.DecodeString(e.Payload)
		if err != nil || string(body) != payload || e.PayloadType != payloadType || len(e.Signatures) != 1 {
			t.Fatalf("%q: envelope %+v, %v", payload, e, err)
		}
		if e.Signatures[0].KeyID != key.Public().ID() {
			t.Errorf("keyid %q", e.Signatures[0].KeyID)
		}
		sig, err := base64.StdEncoding.DecodeString(e.Signatures[0].Sig)
		pae := fmt.Sprintf("DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload)
		if err != nil || !ed25519.Verify(key.Public().Raw(), []byte(pae), sig) {
			t.Errorf("%q: the signature is not over DSSE's PAE (%v)", payload, err)
		}
	}
}

func TestUnseal(t *testing.T) {
	key := newKey(t, 1)
	for _, payload := range []string{"", "x", "xy", "xyz", `{"a":1}`} {
		got, err := sign.Unseal(seal(t, key, payload), payloadType, key.Public())
		if err != nil || string(got) != payload {
			t.Errorf("Unseal = %q, %v; want %q", got, err, payload)
		}
	}
	if !bytes.Equal(seal(t, key, "x"), seal(t, key, "x")) {
		t.Error("sealing twice gives two envelopes")
	}
}

// TestUnsealRefuses has "ab" as payload: it leaves unused bits in its base64.
func TestUnsealRefuses(t *testing.T) {
	key, other := newKey(t, 1), newKey(t, 2)
	good := string(seal(t, key, "ab"))
	foreign := string(seal(t, other, "ab"))
	id, sig := between(t, good, `"keyid":"`, `"`), between(t, good, `"sig":"`, `"`)
	one := `{"keyid":"` + id + `","sig":"` + sig + `"}`
	if strings.Count(good, one) != 1 || !strings.HasSuffix(sig, "==") || !strings.Contains(good, `"YWI="`) {
		t.Fatalf("not the envelope that the cases change: %s", good)
	}
	change := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	tests := []struct{ name, envelope, want string }{
		{"second signature, the same", change(one, one+","+one), "2 signatures, not one"},
		{"second signature, another's", change(one, one+`,{"keyid":"`+other.Public().ID()+`","sig":"`+between(t, foreign, `"sig":"`, `"`)+`"}`), "2 signatures, not one"},
		{"no signature", change(one, ""), "0 signatures, not one"},
		{"another key's", foreign, "signed by \"" + other.Public().ID() + "\", not by " + key.Public().ID()},
		{"another key's under this id", strings.Replace(foreign, other.Public().ID(), id, 1), "the signature is not good"},
		{"this key's under another id", change(id, other.Public().ID()), "signed by \"" + other.Public().ID() + "\", not by " + id},
		{"no key id", change(id, ""), "signed by \"\", not by " + id},
		{"no padding", change(sig, strings.TrimRight(sig, "=")), canonical.ErrMalformed.Error()},
		{"line break in base64", change("YWI=", `YW\nI=`), canonical.ErrMalformed.Error()},
		{"unused bits set", change("YWI=", "YWJ="), canonical.ErrMalformed.Error()},
		{"unused bits set in the signature", change(sig, nextLetter(sig)), canonical.ErrMalformed.Error()},
		{"URL alphabet", string(sealURL(t, key)), canonical.ErrMalformed.Error()},
		{"other payload", change("YWI=", "YWM="), "the signature is not good"},
		{"empty payload", change("YWI=", ""), "the signature is not good"},
		{"short signature", change(sig, "AAAA"), "the signature is not good"},
		{"empty signature", change(sig, ""), "the signature is not good"},
		{"other type", change("test+json", "tesu+json"), `payload type is "application/vnd.gaia-harness.tesu+json", not "` + payloadType + `"`},
		{"unknown member", change(`{"payload"`, `{"a":1,"payload"`), canonical.ErrMalformed.Error()},
		{"newline", good + "\n", canonical.ErrMalformed.Error()},
		{"nothing", "", canonical.ErrMalformed.Error()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.envelope == good {
				t.Fatal("the case changes nothing")
			}
			got, err := sign.Unseal([]byte(tt.envelope), payloadType, key.Public())
			if err == nil || err.Error() != tt.want || got != nil {
				t.Errorf("Unseal = %q, %v; want %q", got, err, tt.want)
			}
		})
	}
	if _, err := sign.Unseal([]byte(good), payloadType+"x", key.Public()); err == nil {
		t.Error("opened under another type")
	}
}

func TestUnsealFlips(t *testing.T) {
	key := newKey(t, 1)
	good := seal(t, key, "ab")
	for i := range good {
		for bit := range 8 {
			b := bytes.Clone(good)
			b[i] ^= 1 << bit
			if _, err := sign.Unseal(b, payloadType, key.Public()); err == nil {
				t.Errorf("opened with byte %d changed: %s", i, b)
			}
		}
		if _, err := sign.Unseal(append(bytes.Clone(good[:i]), good[i+1:]...), payloadType, key.Public()); err == nil {
			t.Errorf("opened without byte %d", i)
		}
	}
}

func between(t *testing.T, s, before, after string) string {
	t.Helper()
	_, s, ok := strings.Cut(s, before)
	s, _, ok2 := strings.Cut(s, after)
	if !ok || !ok2 {
		t.Fatalf("no %s…%s", before, after)
	}
	return s
}

// nextLetter changes the last letter of padded base64 so that only unused bits
// differ.
func nextLetter(s string) string {
	b := []byte(s)
	at := strings.IndexByte(s, '=') - 1
	b[at]++
	return string(b)
}

// sealURL is a good envelope but for the base64 alphabet of its payload.
func sealURL(t *testing.T, key sign.Key) []byte {
	t.Helper()
	payload := []byte{0xfb, 0xff}
	envelope, err := sign.Seal(key, payloadType, payload)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Replace(envelope, []byte(base64.StdEncoding.EncodeToString(payload)), []byte(base64.URLEncoding.EncodeToString(payload)), 1)
}
