package sign

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHMACVectors checks the MAC against RFC 4231, also with keys that are too
// short to be used.
func TestHMACVectors(t *testing.T) {
	repeat := func(b byte, n int) string { return strings.Repeat(string([]byte{b}), n) }
	tests := []struct{ name, key, data, want string }{
		{"4.2", repeat(0x0b, 20), "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
		{"4.3", "Jefe", "what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
		{"4.4", repeat(0xaa, 20), repeat(0xdd, 50), "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
		{"4.5", "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19", repeat(0xcd, 50), "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
		{"4.7", repeat(0xaa, 131), "Test Using Larger Than Block-Size Key - Hash Key First", "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
		{"4.8", repeat(0xaa, 131), "This is a test using a larger than block-size key and a larger than block-size data. The key needs to be hashed before being used by the HMAC algorithm.",
			"9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
	}
	for _, tt := range tests {
		key := HMACKey{[]byte(tt.key)}
		want, err := hex.DecodeString(tt.want)
		if err != nil {
			t.Fatal(err)
		}
		if got := key.Sign([]byte(tt.data)); !bytes.Equal(got, want) {
			t.Errorf("RFC 4231 %s: %x", tt.name, got)
		}
		if !key.Verify([]byte(tt.data), want) || key.Verify([]byte(tt.data+"."), want) || key.Verify([]byte(tt.data), want[:16]) || key.Verify([]byte(tt.data), nil) {
			t.Errorf("RFC 4231 %s: Verify", tt.name)
		}
	}
	// 4.6 gives the first 16 bytes of its MAC, which do not pass for the whole.
	short := HMACKey{[]byte(repeat(0x0c, 20))}
	if got := short.Sign([]byte("Test With Truncation")); hex.EncodeToString(got[:16]) != "a3b6167473100ee06e0c796c2955552b" {
		t.Errorf("RFC 4231 4.6: %x", got)
	} else if short.Verify([]byte("Test With Truncation"), got[:16]) {
		t.Error("RFC 4231 4.6: a MAC cut to 16 bytes verifies")
	}
	if (HMACKey{}).Verify(nil, (HMACKey{}).Sign(nil)) {
		t.Error("the zero key verifies what anybody can make")
	}
}

func TestLoadHMACKey(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string, mode fs.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	secret := strings.Repeat("\x00\n\xff ", 8)
	key, err := LoadHMACKey(file("good", secret, 0o600))
	if err != nil || string(key.secret) != secret {
		t.Fatalf("loaded %q, %v: want every byte of the file", key.secret, err)
	}
	other, err := LoadHMACKey(file("newline", secret+"\n", 0o400))
	if err != nil {
		t.Fatal(err)
	}
	if key.KeyID() == other.KeyID() || other.Verify([]byte("m"), key.Sign([]byte("m"))) {
		t.Error("a newline makes no other key")
	}
	if id := key.KeyID(); !strings.HasPrefix(id, "hmac-sha256:") || len(id) != len("hmac-sha256:")+32 || strings.Contains(id, hex.EncodeToString([]byte(secret))[:16]) {
		t.Errorf("key id %q", id)
	}
	for name, path := range map[string]string{
		"empty":     file("empty", "", 0o600),
		"too short": file("short", secret[:31], 0o600),
		"too long":  file("long", strings.Repeat("x", 4097), 0o600),
		"directory": dir,
		"missing":   filepath.Join(dir, "none"),
	} {
		if got, err := LoadHMACKey(path); err == nil || len(got.secret) != 0 {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(err.Error(), secret[:8]) {
			t.Errorf("%s: the error quotes the key: %v", name, err)
		}
	}
	var open *PermissionError
	if _, err := LoadHMACKey(file("open", secret, 0o640)); !errors.As(err, &open) || open.Mode != 0o640 || !strings.HasPrefix(err.Error(), "HMAC key ") {
		t.Errorf("a key that the group can read: %v", err)
	}
}
