package sign_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/sign"
	"golang.org/x/crypto/ssh"
)

func TestCreateAndLoadKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys", "deep", "signing")
	made, err := sign.CreateKey(path, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]fs.FileMode{path: 0o600, path + ".pub": 0o644, filepath.Dir(path): 0o700} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: mode %v, %v; want %v", filepath.Base(name), info.Mode().Perm(), err, mode)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 2 {
		t.Errorf("the directory holds %v, %v; want two files", entries, err)
	}
	loaded, err := sign.LoadKey(path)
	if err != nil {
		t.Fatal(err)
	}
	if !loaded.Public().Equal(made.Public()) {
		t.Error("another key was loaded than made")
	}
	line, err := os.ReadFile(path + ".pub")
	if err != nil || string(line) != made.Public().Line()+"\n" {
		t.Errorf("public file %q, %v", line, err)
	}
	public, err := sign.ParsePublicKey(string(line))
	if err != nil {
		t.Fatal(err)
	}
	msg := []byte("message")
	sig := loaded.Sign(msg)
	if !public.Verify(msg, sig) || !ed25519.Verify(public.Raw(), msg, sig) {
		t.Error("the loaded key's signature is not good for the public file")
	}
	if public.Verify([]byte("Message"), sig) || public.Verify(msg, sig[:63]) || public.Verify(msg, nil) {
		t.Error("a wrong signature was good")
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if parsed, err := sign.ParseKey(content); err != nil || !parsed.Public().Equal(public) {
		t.Errorf("ParseKey: %v", err)
	}
}

func TestNewKeyNeedsRandomness(t *testing.T) {
	if _, err := sign.NewKey(bytes.NewReader(make([]byte, 31))); err == nil {
		t.Error("made a key of 31 bytes")
	}
	path := filepath.Join(t.TempDir(), "signing")
	if _, err := sign.CreateKey(path, bytes.NewReader(nil)); err == nil {
		t.Error("made a key of nothing")
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a failed creation left a file: %v", err)
	}
}

func TestOpenSSHReadsKey(t *testing.T) {
	program, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("ssh-keygen is not on PATH: the key file is not checked with OpenSSH")
	}
	path := filepath.Join(t.TempDir(), "signing")
	key, err := sign.CreateKey(path, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-l", "-f", path}, {"-l", "-f", path + ".pub"}} {
		out, err := exec.Command(program, args...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), key.Public().ID()) || !strings.Contains(string(out), "(ED25519)") {
			t.Errorf("ssh-keygen %v: %v, %s", args, err, out)
		}
	}
	out, err := exec.Command(program, "-y", "-f", path).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), key.Public().Line()) {
		t.Errorf("ssh-keygen -y: %v, %s\nwant %s", err, out, key.Public().Line())
	}
	// The other way round: a key that OpenSSH made.
	theirs := filepath.Join(t.TempDir(), "theirs")
	if out, err := exec.Command(program, "-q", "-t", "ed25519", "-N", "", "-C", "comment@host", "-f", theirs).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v, %s", err, out)
	}
	loaded, err := sign.LoadKey(theirs)
	if err != nil {
		t.Fatal(err)
	}
	line, err := os.ReadFile(theirs + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	if public, err := sign.ParsePublicKey(string(line)); err != nil || !public.Equal(loaded.Public()) {
		t.Errorf("ParsePublicKey(%q): %v", line, err)
	}
}

func TestKeyIsNeverReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "signing")
	if _, err := sign.CreateKey(path, rand.Reader); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sign.CreateKey(path, rand.Reader); !errors.Is(err, fs.ErrExist) {
		t.Errorf("creating it again: %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the key file changed (%v)", err)
	}
	for name, make := range map[string]func(string) error{
		"dangling symlink": func(p string) error { return os.Symlink(filepath.Join(dir, "nowhere"), p) },
		"directory":        func(p string) error { return os.Mkdir(p, 0o700) },
		"empty file":       func(p string) error { return os.WriteFile(p, nil, 0o600) },
	} {
		p := filepath.Join(dir, name)
		if err := make(p); err != nil {
			t.Fatal(err)
		}
		if _, err := sign.CreateKey(p, rand.Reader); !errors.Is(err, fs.ErrExist) {
			t.Errorf("creating it over a %s: %v", name, err)
		}
		if _, err := os.Lstat(p + ".pub"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("creating it over a %s left a public file", name)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".new-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a key was written through a symlink")
	}
}

func TestLoadKeyRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "signing")
	if _, err := sign.CreateKey(path, rand.Reader); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []fs.FileMode{0o644, 0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o777} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := sign.LoadKey(path)
		var open *sign.PermissionError
		if !errors.As(err, &open) || open.Path != path || open.Mode != mode {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	var open *sign.PermissionError
	if _, err := sign.LoadKey(link); !errors.As(err, &open) || open.Mode != 0o777 {
		t.Errorf("a symlink to a file that others can read: %v", err)
	}
	if want := `signing key "` + link + `" can be read by others (mode 0777)`; open.Error() != want {
		t.Errorf("it says %q, not %q", open.Error(), want)
	}
	for _, mode := range []fs.FileMode{0o600, 0o400, 0o700} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{path, link} {
			if _, err := sign.LoadKey(name); err != nil {
				t.Errorf("mode %04o: %v", mode, err)
			}
		}
	}
	if _, err := sign.LoadKey(dir); err == nil || err.Error() != `signing key "`+dir+`" is not a regular file` {
		t.Errorf("a directory: %v", err)
	}
	if _, err := sign.LoadKey(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	// A public file is not to be hidden from others: that is not what is wrong.
	if _, err := sign.LoadKey(path + ".pub"); !errors.Is(err, sign.ErrPublicHalf) {
		t.Errorf("the public half: %v", err)
	}
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, []byte("top secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sign.LoadKey(broken); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a broken file: %v", err)
	}
}

func TestParseKeyRefuses(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	locked, err := ssh.MarshalPrivateKeyWithPassphrase(ed, "", []byte("passphrase"))
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(ed)
	if err != nil {
		t.Fatal(err)
	}
	mixed := bytes.Clone(ed)
	copy(mixed[32:], newKey(t, 9).Public().Raw())
	good := openSSH(t, ed)
	const other = "not an unencrypted OpenSSH ed25519 private key"
	tests := []struct {
		name    string
		content []byte
		want    string
	}{
		{"passphrase", pem.EncodeToMemory(locked), "the signing key is protected by a passphrase, which is not supported"},
		{"ecdsa", openSSH(t, ec), other},
		{"rsa", openSSH(t, rsaKey), other},
		{"PKCS 8", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), other},
		{"halves of two keys", openSSH(t, ed25519.PrivateKey(mixed)), "the two halves of the signing key do not belong together"},
		{"public line", []byte(newKey(t, 1).Public().Line()), sign.ErrPublicHalf.Error()},
		{"cut", good[:len(good)/2], other},
		{"empty", nil, other},
		{"no PEM", []byte("key"), other},
	}
	for _, tt := range tests {
		if _, err := sign.ParseKey(tt.content); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	if _, err := sign.ParseKey(good); err != nil {
		t.Errorf("the good key: %v", err)
	}
}

func openSSH(t *testing.T, key crypto.PrivateKey) []byte {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block)
}

// smallOrder are the eight points of small order in their canonical encodings.
var smallOrder = []string{
	"0100000000000000000000000000000000000000000000000000000000000000",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0000000000000000000000000000000000000000000000000000000000000080",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
}

func TestPublicKeyRefuses(t *testing.T) {
	for _, s := range smallOrder {
		raw, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sign.NewPublicKey(raw); err == nil || err.Error() != "ed25519 public key of small order" {
			t.Errorf("%s: %v", s, err)
		}
		if _, err := sign.ParsePublicKey(publicLine("ssh-ed25519", raw)); err == nil || err.Error() != "ed25519 public key of small order" {
			t.Errorf("%s as a line: %v", s, err)
		}
	}
	// Encodings of y above the field's prime p = 2²⁵⁵−19, and of x = 0 with a
	// sign: the same points (if any) have a smaller encoding.
	var others [][]byte
	p := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	for k := range int64(19) {
		y := littleEndian(new(big.Int).Add(p, big.NewInt(k)))
		signed := bytes.Clone(y)
		signed[31] |= 0x80
		others = append(others, y, signed)
	}
	for _, y := range []*big.Int{big.NewInt(1), new(big.Int).Sub(p, big.NewInt(1))} {
		signed := littleEndian(y)
		signed[31] |= 0x80
		others = append(others, signed)
	}
	others = append(others, littleEndian(big.NewInt(2)), nil, make([]byte, 31), make([]byte, 33)) // 2: no point
	for _, raw := range others {
		if _, err := sign.NewPublicKey(raw); err == nil || err.Error() != "not an ed25519 public key" {
			t.Errorf("%x: %v", raw, err)
		}
	}
}

func littleEndian(n *big.Int) []byte {
	b := n.FillBytes(make([]byte, 32))
	for i, j := 0, 31; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return b
}

// publicLine writes a key in SSH's wire format, which is a row of strings.
func publicLine(kind string, fields ...[]byte) string {
	var wire []byte
	for _, s := range append([][]byte{[]byte(kind)}, fields...) {
		wire = append(wire, 0, 0, byte(len(s)>>8), byte(len(s)))
		wire = append(wire, s...)
	}
	return kind + " " + base64.StdEncoding.EncodeToString(wire)
}

func TestParsePublicKey(t *testing.T) {
	key := newKey(t, 1).Public()
	line := key.Line()
	if line != publicLine("ssh-ed25519", key.Raw()) {
		t.Errorf("Line() = %q", line)
	}
	for _, in := range []string{line, line + "\n", line + "\r\n", line + " comment@host", "  " + line + " two words\n\n"} {
		if got, err := sign.ParsePublicKey(in); err != nil || !got.Equal(key) || got.ID() != key.ID() || got.Line() != line {
			t.Errorf("ParsePublicKey(%q): %v", in, err)
		}
	}
	other := newKey(t, 2).Public()
	if key.Equal(other) || key.ID() == other.ID() {
		t.Error("two keys are one")
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ecWire, err := ssh.NewPublicKey(ec.Public())
	if err != nil {
		t.Fatal(err)
	}
	const notOne = "not one OpenSSH public key line"
	tests := []struct{ name, in, want string }{
		{"two keys", line + "\n" + other.Line(), notOne},
		{"a line after", line + "\nrest", notOne},
		{"a comment before", "# mine\n" + line, notOne},
		{"a comment after", line + "\n# mine", notOne},
		{"a line before that is no key", "garbage\n" + line, notOne},
		{"another key before, broken", "ssh-ed25519 AAAA\n" + line, notOne},
		{"an option", "restrict " + line, notOne},
		{"options", `command="x",no-pty ` + line, notOne},
		{"no type", strings.TrimPrefix(line, "ssh-ed25519 "), notOne},
		{"other type in words", strings.Replace(line, "ssh-ed25519", "ssh-rsa", 1), notOne},
		{"bytes after the key", publicLine("ssh-ed25519", key.Raw(), []byte("x")), notOne},
		{"short", publicLine("ssh-ed25519", key.Raw()[:31]), notOne},
		{"empty", "", notOne},
		{"ecdsa", string(ssh.MarshalAuthorizedKey(ecWire)), "a ecdsa-sha2-nistp256 key, not an ssh-ed25519 key"},
		{"security key", publicLine("sk-ssh-ed25519@openssh.com", key.Raw(), []byte("ssh:")), "a sk-ssh-ed25519@openssh.com key, not an ssh-ed25519 key"},
	}
	for _, tt := range tests {
		if _, err := sign.ParsePublicKey(tt.in); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestPublicKeyKeepsItsBytes: a key is checked once, so it must not change
// afterwards.
func TestPublicKeyKeepsItsBytes(t *testing.T) {
	raw := newKey(t, 1).Public().Raw()
	key, err := sign.NewPublicKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	id := key.ID()
	clear(raw)
	clear(key.Raw())
	if !key.Equal(newKey(t, 1).Public()) || key.ID() != id {
		t.Error("the key changed with the slice it was made from")
	}
}

func FuzzParsePublicKey(f *testing.F) {
	f.Add(newKey(f, 1).Public().Line())
	f.Add("restrict ssh-ed25519 AAAA\n")
	f.Add(publicLine("ssh-ed25519", make([]byte, 32)))
	f.Fuzz(func(t *testing.T, line string) {
		key, err := sign.ParsePublicKey(line)
		if err != nil {
			return
		}
		again, err := sign.ParsePublicKey(key.Line())
		if err != nil || !again.Equal(key) {
			t.Fatalf("accepted %q, whose own line %q does not read back: %v", line, key.Line(), err)
		}
	})
}
