package sign

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestRenewalCut lets a process die before, between and after the steps of a
// renewal: there is always a whole key and never a foreign .pub beside it, and
// the renewal can be done again, with the old key kept.
func TestRenewalCut(t *testing.T) {
	for cut := range len(renewal("", "", nil, nil)) + 1 {
		path := filepath.Join(t.TempDir(), "signing")
		old, err := CreateKey(path, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		var made Key
		for _, step := range renewal(path, path+".old", rand.Reader, &made)[:cut] {
			if err := step(); err != nil {
				t.Fatalf("cut %d: %v", cut, err)
			}
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), ".new-123"), []byte("half a k"), 0o600); err != nil {
			t.Fatal(err)
		}
		key, err := LoadKey(path)
		if err != nil {
			t.Fatalf("cut %d: %v", cut, err)
		}
		if !key.Public().Equal(old.Public()) && !key.Public().Equal(made.Public()) {
			t.Errorf("cut %d: another key", cut)
		}
		line, err := os.ReadFile(path + ".pub")
		if !errors.Is(err, fs.ErrNotExist) && string(line) != key.Public().Line()+"\n" {
			t.Errorf("cut %d: the public file holds %q, %v", cut, line, err)
		}
		if err := WritePublic(path, key.Public()); err != nil {
			t.Errorf("cut %d: %v", cut, err)
		}
		if !key.Public().Equal(old.Public()) {
			continue // it was done; what is left is the .pub, just made up for
		}
		again, err := RenewKey(path, path+".old", rand.Reader)
		if err != nil {
			t.Errorf("cut %d: again: %v", cut, err)
			continue
		}
		if kept, err := LoadKey(path + ".old"); err != nil || !kept.Public().Equal(old.Public()) {
			t.Errorf("cut %d: the old key is not kept: %v", cut, err)
		}
		if loaded, err := LoadKey(path); err != nil || !loaded.Public().Equal(again.Public()) || again.Public().Equal(old.Public()) {
			t.Errorf("cut %d: the new key is not in its place: %v", cut, err)
		}
		if line, err := os.ReadFile(path + ".pub"); err != nil || string(line) != again.Public().Line()+"\n" {
			t.Errorf("cut %d: the new public file: %q, %v", cut, line, err)
		}
	}
}

// TestRenewalBesideARun: a run that begins in the middle of a renewal finds the
// old key without its .pub and makes up for it; that must not outlive the key.
func TestRenewalBesideARun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "signing")
	old, err := CreateKey(path, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var made Key
	for _, step := range renewal(path, path+".old", rand.Reader, &made) {
		if err := step(); err != nil {
			t.Fatal(err)
		}
		if made.public.key == nil {
			if err := WritePublic(path, old.Public()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if line, err := os.ReadFile(path + ".pub"); err != nil || string(line) != made.Public().Line()+"\n" {
		t.Errorf("the public file holds %q, %v", line, err)
	}
}

func TestRenewKeyRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "signing")
	if _, err := RenewKey(path, path+".old", rand.Reader); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no key to renew: %v", err)
	}
	old, err := CreateKey(path, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".old", []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := RenewKey(path, path+".old", rand.Reader); !errors.Is(err, fs.ErrExist) {
		t.Errorf("another file stands where the old key would be kept: %v", err)
	}
	if _, err := RenewKey(path, path+".kept", bytes.NewReader(nil)); err == nil {
		t.Error("made a key of nothing")
	}
	if key, err := LoadKey(path); err != nil || !key.Public().Equal(old.Public()) {
		t.Errorf("the key changed: %v", err)
	}
}

// TestPublicIsMadeUpFor: a process that dies between a key's two files leaves
// the first.
func TestPublicIsMadeUpFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "signing")
	key, err := putKey(path, rand.Reader, os.Link)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := WritePublic(path, key.Public()); err != nil {
			t.Fatal(err)
		}
		if line, err := os.ReadFile(path + ".pub"); err != nil || string(line) != key.Public().Line()+"\n" {
			t.Errorf("the public file: %q, %v", line, err)
		}
	}
	if err := os.WriteFile(path+".pub", []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := WritePublic(path, key.Public()); err != nil {
		t.Fatal(err)
	}
	if line, err := os.ReadFile(path + ".pub"); err != nil || string(line) != "mine" {
		t.Errorf("a public file was replaced: %q, %v", line, err)
	}
}
