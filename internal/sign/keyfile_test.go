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
	for cut := range len(new(renewal).steps(nil, nothing)) + 1 {
		path := filepath.Join(t.TempDir(), "signing")
		old, err := CreateKey(path, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		r := renewal{path: path, aside: path + ".old"}
		for _, step := range r.steps(rand.Reader, nothing)[:cut] {
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
		if !key.Public().Equal(old.Public()) && !key.Public().Equal(r.key.Public()) {
			t.Errorf("cut %d: another key", cut)
		}
		line, err := os.ReadFile(path + ".pub")
		if !errors.Is(err, fs.ErrNotExist) && string(line) != key.Public().Line()+"\n" {
			t.Errorf("cut %d: the public file holds %q, %v", cut, line, err)
		}
		// What a run does that loaded the old key before and goes on now.
		if err := putPublic(path, old.public, os.Rename); err != nil {
			t.Fatal(err)
		}
		if replaced, err := WritePublic(path); err != nil || replaced == key.Public().Equal(old.Public()) {
			t.Errorf("cut %d: the public file was replaced: %v, %v", cut, replaced, err)
		}
		if line, err := os.ReadFile(path + ".pub"); err != nil || string(line) != key.Public().Line()+"\n" {
			t.Errorf("cut %d: the public file holds %q, %v", cut, line, err)
		}
		if !key.Public().Equal(old.Public()) {
			continue // it was done; what is left is the .pub, just made up for
		}
		again, err := RenewKey(path, path+".old", rand.Reader, nothing)
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
	r := renewal{path: path, aside: path + ".old"}
	steps := r.steps(rand.Reader, nothing)
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatal(err)
		}
		if i < len(steps)-1 {
			if err := putPublic(path, old.public, os.Rename); err != nil {
				t.Fatal(err)
			}
		}
	}
	if line, err := os.ReadFile(path + ".pub"); err != nil || string(line) != r.key.Public().Line()+"\n" {
		t.Errorf("the public file holds %q, %v", line, err)
	}
}

func nothing() error { return nil }

func TestRenewKeyRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "signing")
	if _, err := RenewKey(path, path+".old", rand.Reader, nothing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no key to renew: %v", err)
	}
	old, err := CreateKey(path, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".old", []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := RenewKey(path, path+".old", rand.Reader, nothing); !errors.Is(err, fs.ErrExist) {
		t.Errorf("another file stands where the old key would be kept: %v", err)
	}
	told := 0
	tell := func() error { told++; return errors.New("not now") }
	if _, err := RenewKey(path, path+".kept", bytes.NewReader(nil), tell); err == nil || told > 0 {
		t.Errorf("made a key of nothing: %v, told %d times", err, told)
	}
	if _, err := RenewKey(path, path+".kept", rand.Reader, tell); err == nil || err.Error() != "not now" || told != 1 {
		t.Errorf("who relies on the key is not ready: %v, told %d times", err, told)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".new-*")); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	if line, err := os.ReadFile(path + ".pub"); err != nil || string(line) != old.Public().Line()+"\n" {
		t.Errorf("the public file holds %q, %v", line, err)
	}
	if key, err := LoadKey(path); err != nil || !key.Public().Equal(old.Public()) {
		t.Errorf("the key changed: %v", err)
	}
}

// TestPublicIsMadeUpFor: a process that dies between a key's two files leaves
// the first.
func TestPublicIsMadeUpFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "signing")
	key, err := putKey(path, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if replaced, err := WritePublic(path); err != nil || replaced {
			t.Fatal(replaced, err)
		}
		if line, err := os.ReadFile(path + ".pub"); err != nil || string(line) != key.Public().Line()+"\n" {
			t.Errorf("the public file: %q, %v", line, err)
		}
	}
}

// TestPublicIsReplaced: what is not the key's public half goes, and nothing is
// written through a link.
func TestPublicIsReplaced(t *testing.T) {
	dir := t.TempDir()
	path, elsewhere := filepath.Join(dir, "signing"), filepath.Join(dir, "elsewhere")
	key, err := CreateKey(path, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	write := func(path, content string) func() error {
		return func() error { return os.WriteFile(path, []byte(content), 0o644) }
	}
	link := func() error { return os.Symlink(elsewhere, path+".pub") }
	own := key.Public().Line() + "\n"
	for _, tt := range []struct {
		name     string
		put      []func() error
		replaced bool
		want     string
	}{
		{"with a comment", []func() error{write(path+".pub", key.Public().Line()+" me\n")}, false, key.Public().Line() + " me\n"},
		{"another key's", []func() error{write(path+".pub", foreign.Public().Line())}, true, own},
		{"no key", []func() error{write(path+".pub", "mine")}, true, own},
		{"a link to another key's", []func() error{write(elsewhere, foreign.Public().Line()), link}, true, own},
		{"a link to nothing", []func() error{link}, true, own},
	} {
		for _, file := range []string{path + ".pub", elsewhere} {
			if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
		for _, put := range tt.put {
			if err := put(); err != nil {
				t.Fatal(err)
			}
		}
		before, _ := os.ReadFile(elsewhere)
		replaced, err := WritePublic(path)
		if err != nil || replaced != tt.replaced {
			t.Errorf("%s: replaced %v, %v", tt.name, replaced, err)
		}
		if line, err := os.ReadFile(path + ".pub"); err != nil || string(line) != tt.want {
			t.Errorf("%s: the public file holds %q, %v", tt.name, line, err)
		}
		if after, _ := os.ReadFile(elsewhere); string(after) != string(before) {
			t.Errorf("%s: what was linked to holds %q", tt.name, after)
		}
	}
}

// TestPublicOnly: a key is not created beside another public half.
func TestPublicOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "alice")
	if err := os.WriteFile(path+".pub", []byte("alice's"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := CreateKey(path, rand.Reader); !errors.Is(err, ErrPublicOnly) {
		t.Errorf("made a key: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a private file: %v", err)
	}
	if line, err := os.ReadFile(path + ".pub"); err != nil || string(line) != "alice's" {
		t.Errorf("the public file holds %q, %v", line, err)
	}
}

// TestKeepAside: a copy of the key under the name it is to be kept by will do,
// unless it leads back to the key or others can read it.
func TestKeepAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "signing")
	if _, err := CreateKey(path, rand.Reader); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var open *PermissionError
	for name, tt := range map[string]struct {
		put  func(aside string) error
		want func(error) bool
	}{
		"nothing":      {func(string) error { return nil }, func(err error) bool { return err == nil }},
		"the same":     {func(aside string) error { return os.Link(path, aside) }, func(err error) bool { return err == nil }},
		"a copy":       {func(aside string) error { return os.WriteFile(aside, content, 0o600) }, func(err error) bool { return err == nil }},
		"an open copy": {func(aside string) error { return os.WriteFile(aside, content, 0o644) }, func(err error) bool { return errors.As(err, &open) }},
		"a link to it": {func(aside string) error { return os.Symlink(path, aside) }, func(err error) bool { return errors.Is(err, fs.ErrExist) }},
		"no key":       {func(aside string) error { return os.WriteFile(aside, []byte("mine"), 0o600) }, func(err error) bool { return errors.Is(err, fs.ErrExist) }},
		"another key":  {func(aside string) error { _, err := putKey(aside, rand.Reader); return err }, func(err error) bool { return errors.Is(err, fs.ErrExist) }},
		"a directory":  {func(aside string) error { return os.Mkdir(aside, 0o700) }, func(err error) bool { return errors.Is(err, fs.ErrExist) }},
	} {
		aside := filepath.Join(filepath.Dir(path), name)
		if err := tt.put(aside); err != nil {
			t.Fatal(err)
		}
		if err := keepAside(path, aside); !tt.want(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
