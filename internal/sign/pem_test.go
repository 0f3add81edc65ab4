package sign_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/sign"
)

func publicPEM(t testing.TB, key sign.PublicKey) string {
	t.Helper()
	text, err := key.PEM()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPEM is held against the example of RFC 8410, section 10.1.
func TestPEM(t *testing.T) {
	raw, err := hex.DecodeString("19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1")
	if err != nil {
		t.Fatal(err)
	}
	key, err := sign.NewPublicKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	const want = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n"
	if got := publicPEM(t, key); got != want {
		t.Errorf("PEM() = %q", got)
	}
	for _, in := range []string{want, strings.TrimSpace(want), "\n" + want + "\n", strings.ReplaceAll(want, "\n", "\r\n"), key.Line() + " comment\n"} {
		if got, err := sign.ParsePublicFile([]byte(in)); err != nil || !got.Equal(key) {
			t.Errorf("ParsePublicFile(%q): %v", in, err)
		}
	}
}

func TestParsePublicFileRefuses(t *testing.T) {
	good := publicPEM(t, newKey(t, 1).Public())
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ecDER, err := x509.MarshalPKIXPublicKey(ec.Public())
	if err != nil {
		t.Fatal(err)
	}
	decoded, _ := pem.Decode([]byte(good))
	small, err := hex.DecodeString("302a300506032b6570032100" + smallOrder[1])
	if err != nil {
		t.Fatal(err)
	}
	const notOne = "not one PEM public key block and nothing else"
	tests := []struct{ name, in, want string }{
		{"empty", "", "not one OpenSSH public key line"},
		{"no PEM", "-----BEGIN PUBLIC KEY-----\n", "not one OpenSSH public key line"},
		{"two blocks", good + good, notOne},
		{"text before", "key:\n" + good, notOne},
		{"a line after", good + newKey(t, 2).Public().Line(), notOne},
		{"a header", strings.Replace(good, "KEY-----\n", "KEY-----\nA: b\n\n", 1), notOne},
		{"folded otherwise", strings.Replace(good, "MCow", "MCow\n", 1), notOne},
		{"private", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "a private key, where its public half belongs"},
		{"OpenSSH private", block("OPENSSH PRIVATE KEY", []byte("x")), "a private key, where its public half belongs"},
		{"certificate", block("CERTIFICATE", decoded.Bytes), "a PEM block that is no public key"},
		{"rubbish", block("PUBLIC KEY", []byte("x")), "a PEM block that is no public key"},
		{"bytes after the key", block("PUBLIC KEY", append(bytes.Clone(decoded.Bytes), 0)), "a PEM block that is no public key"},
		{"ecdsa", block("PUBLIC KEY", ecDER), "a PEM public key, but not an ed25519 one"},
		{"small order", block("PUBLIC KEY", small), "ed25519 public key of small order"},
	}
	for _, tt := range tests {
		if _, err := sign.ParsePublicFile([]byte(tt.in)); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestOpenSSLReadsPEM(t *testing.T) {
	program, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl is not on PATH: the PEM block is not checked with it")
	}
	key := newKey(t, 1)
	path := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, []byte(publicPEM(t, key.Public())), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, "pkey", "-pubin", "-in", path, "-outform", "DER").Output()
	if err != nil || !bytes.HasSuffix(out, key.Public().Raw()) {
		t.Errorf("openssl pkey: %v, %x", err, out)
	}
	// The other way round: a key that openssl made.
	private := filepath.Join(t.TempDir(), "private.pem")
	if out, err := exec.Command(program, "genpkey", "-algorithm", "ed25519", "-out", private).CombinedOutput(); err != nil {
		t.Fatalf("openssl genpkey: %v, %s", err, out)
	}
	text, err := exec.Command(program, "pkey", "-in", private, "-pubout").Output()
	if err != nil {
		t.Fatal(err)
	}
	if theirs, err := sign.ParsePublicFile(text); err != nil || publicPEM(t, theirs) != string(text) {
		t.Errorf("ParsePublicFile(%q): %v", text, err)
	}
}

func FuzzParsePublicFile(f *testing.F) {
	key := newKey(f, 1).Public()
	f.Add([]byte(key.Line()))
	f.Add([]byte(publicPEM(f, key)))
	f.Add([]byte("-----BEGIN PUBLIC KEY-----\nA: b\n\nMCow\n-----END PUBLIC KEY-----\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		key, err := sign.ParsePublicFile(content)
		if err != nil {
			return
		}
		if bytes.HasPrefix(bytes.TrimSpace(content), []byte("-----")) {
			plain := strings.ReplaceAll(string(content), "\r\n", "\n")
			if strings.TrimSpace(plain) != strings.TrimSpace(publicPEM(t, key)) {
				t.Fatalf("accepted %q, which is not how the key is written", content)
			}
		}
		if again, err := sign.ParsePublicFile([]byte(publicPEM(t, key))); err != nil || !again.Equal(key) {
			t.Fatalf("the PEM block of %q does not read back: %v", content, err)
		}
	})
}
