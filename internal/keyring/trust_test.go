package keyring

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/sign"
)

// TestAddReadsBack: a line that could not be read is not written: with it no key
// would be trusted.
func TestAddReadsBack(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	key, err := sign.NewKey(bytes.NewReader(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	other, err := sign.NewKey(bytes.NewReader(bytes.Repeat([]byte{1}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	if added, err := add(dir, sign.AllowedSigner{Principals: "alice", Key: key.Public()}); err != nil || !added {
		t.Fatal(added, err)
	}
	before, err := os.ReadFile(filepath.Join(dir, allowedFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]sign.AllowedSigner{
		"a year of five digits": {Principals: "bob", ValidBefore: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), Key: other.Public()},
		"a name of two words":   {Principals: "two words", Key: other.Public()},
	} {
		if added, err := add(dir, s); err == nil || added {
			t.Errorf("%s: written", name)
		}
		if after, err := os.ReadFile(filepath.Join(dir, allowedFile)); err != nil || !bytes.Equal(after, before) {
			t.Errorf("%s: the list holds %q, %v", name, after, err)
		}
	}
}

// TestRing: a key is created once, found, trusted, replaced, and stays trusted until its end.
func TestRing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	var notices []string
	r := Ring{Dir: dir, Notice: func(line string) { notices = append(notices, line) }}
	if _, err := r.Find(""); !errors.Is(err, ErrNoKey) {
		t.Errorf("%v, want no key", err)
	}
	path, err := r.Path(DefaultKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", ".hidden", "a/b", "x.pub", allowedFile} {
		if _, err := r.Path(name); err == nil {
			t.Errorf("%q is the name of a key", name)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	created, err := r.Create(path)
	if err != nil || created.Reason != "" {
		t.Fatal(created, err)
	}
	if _, err := r.Create(path); err == nil {
		t.Error("a key was overwritten")
	}
	shown, err := r.Show("")
	if err != nil || shown.KeyID != created.KeyID || shown.Trust != OK || len(shown.Rows()) != 5 {
		t.Errorf("%+v, %v", shown, err)
	}
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	rotated, err := r.Rotate(path, until)
	if err != nil || rotated.OldKeyID != created.KeyID || rotated.KeyID == created.KeyID || rotated.OldTrusted != "until "+until.Format(time.RFC3339) {
		t.Fatalf("%+v, %v", rotated, err)
	}
	listed, err := r.List()
	if err != nil || len(listed) != 2 || !listed[0].Trusted || !listed[1].Trusted || listed[1].KeyID != created.KeyID {
		t.Errorf("%+v, %v", listed, err)
	}
	own, err := r.Own("")
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := sign.NewKey(bytes.NewReader(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	if word, err := own.Of(stranger.Public()); word != Unknown || exit.Of(err).Code != exit.Untrusted {
		t.Errorf("a stranger is %s, %v", word, err)
	}
	file := filepath.Join(t.TempDir(), "stranger.pub")
	if err := os.WriteFile(file, []byte(stranger.Public().Line()+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	more, err := own.With([]string{file}, nil)
	if err != nil || !more.Trusts(stranger.Public()) || own.Trusts(stranger.Public()) {
		t.Errorf("a named key is not trusted, or stays so: %v", err)
	}
	if _, err := own.With(nil, []string{path}); err == nil {
		t.Error("a private key is a list of signers")
	}
	added, err := r.Add(file, nil, sign.AllowedSigner{ValidBefore: time.Unix(1, 0)})
	if err != nil || !added.Added || added.Name != "stranger" || added.Reason == "" {
		t.Errorf("%+v, %v", added, err)
	}
	if own, err = r.Own(""); err != nil {
		t.Fatal(err)
	}
	if word, err := own.Of(stranger.Public()); word != Expired || exit.Of(err).Code != exit.Untrusted {
		t.Errorf("an expired key is %s, %v", word, err)
	}
	if len(notices) > 0 {
		t.Errorf("notices: %q", notices)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Own(""); err == nil {
		t.Error("a directory that others can write to is trusted")
	}
}
