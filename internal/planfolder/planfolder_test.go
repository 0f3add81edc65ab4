package planfolder

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// parts returns what a plan folder of the fixture "pair" with two shards is made of.
func parts(t testing.TB, key sign.Key) Parts {
	t.Helper()
	files, err := runs.Good()["pair"].SignedBy(key).Files()
	if err != nil {
		t.Fatal(err)
	}
	m, err := plan.Decode(files[plan.ManifestFile])
	if err != nil {
		t.Fatal(err)
	}
	m.Shards = 2
	manifest, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := sign.Seal(key, plan.ManifestType, manifest)
	if err != nil {
		t.Fatal(err)
	}
	salts, err := grading.NewSalts(rand.Reader, m.Rehearsal)
	if err != nil {
		t.Fatal(err)
	}
	return Parts{Places: Places{BaseURL: "http://localhost:1/v1", RPM: 5, Source: "dir:GAIA"}, Plan: m, Manifest: manifest, Envelope: envelope,
		Settings: []byte("mcp:\n- name: notes\n  url: https://notes.example/mcp\n"), Salts: salts, Key: key, Rand: rand.Reader}
}

func written(t *testing.T, p Parts) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "plan")
	if err := Write(dir, p); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestWriteAndOpen(t *testing.T) {
	p := parts(t, runs.Key())
	dir := written(t, p)
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if f.ManifestSHA256 != canonical.Digest(p.Manifest) || f.Plan.Shards != 2 || f.BaseURL != p.BaseURL || f.Source != p.Source || !bytes.Equal(f.Settings, p.Settings) {
		t.Errorf("read %+v", f.Places)
	}
	for index := 1; index <= 2; index++ {
		d, envelope, key, err := f.Shard(index, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, public, err := f.Plan.ReadDelegation(envelope, f.ManifestSHA256, f.Key); err != nil || !public.Equal(key.Public()) || d.Shard.Index != index || d.Shard.Of != 2 {
			t.Errorf("shard %d: %v, %v", index, d, err)
		}
		info, err := os.Stat(filepath.Join(dir, KeysDir, []string{"1", "2"}[index-1]))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("key %d: %v, %v", index, info, err)
		}
	}
	salts, err := f.Salts()
	if err != nil || salts != p.Salts {
		t.Errorf("salts: %v, %v", salts, err)
	}
	if info, err := os.Stat(dir + ".private"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file of salts: %v, %v", info, err)
	}
	if first, second := f.Rate(trajectory.Shard{Index: 1, Of: 2}, f.RPM), f.Rate(trajectory.Shard{Index: 2, Of: 2}, f.RPM); first+second != 5 || second < 1 {
		t.Errorf("rates %d and %d", first, second)
	}
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(filepath.Join(dir, KeysDir, "2"), moved); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := f.Shard(2, moved); err != nil {
		t.Error(err)
	}
	if _, _, _, err := f.Shard(2, ""); exit.Of(err).Code != exit.Usage || !strings.Contains(exit.Of(err).Hints[0], "--shard-key") {
		t.Errorf("without its key: %v", err)
	}
	if _, _, _, err := f.Shard(1, moved); exit.Of(err).Code != exit.Usage {
		t.Errorf("with another shard's key: %v", err)
	}
}

// TestNoGold: no file of a plan folder holds a gold answer or a salt, and the file beside it no gold answer.
func TestNoGold(t *testing.T) {
	p := parts(t, runs.Key())
	dir := written(t, p)
	gold := runs.Good()["pair"].Gold()
	if len(gold) == 0 {
		t.Fatal("the fixture has no gold answers")
	}
	files := 0
	err := filepath.WalkDir(filepath.Dir(dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		secrets := []string{p.Salts.Salt, p.Salts.Secret}
		if files++; path == dir+".private" {
			secrets = nil
		}
		for _, answer := range gold {
			if len(answer) < 4 { // digests and signatures have it by chance
				answer = `"` + answer + `"`
			}
			secrets = append(secrets, answer)
		}
		for _, s := range secrets {
			if bytes.Contains(bytes.ToLower(content), []byte(strings.ToLower(s))) {
				t.Errorf("%s holds a gold answer or a salt", path)
			}
		}
		return err
	})
	if err != nil || files != 9 {
		t.Errorf("searched %d files: %v", files, err)
	}
}

func TestWriteReplacesNothing(t *testing.T) {
	p := parts(t, runs.Key())
	dir := written(t, p)
	before, err := os.ReadFile(dir + ".private")
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, p); exit.Of(err).Code != exit.Usage {
		t.Errorf("over a plan folder: %v", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, p); exit.Of(err).Code != exit.Usage {
		t.Errorf("over a file of salts: %v", err)
	}
	if after, err := os.ReadFile(dir + ".private"); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file of salts changed: %v", err)
	}
	bad := p
	bad.Envelope = []byte("{}")
	other := filepath.Join(t.TempDir(), "plan")
	if err := Write(other, bad); err == nil {
		t.Error("a plan without a signature was written")
	}
	var secret *plan.SecretError
	bad = p
	bad.SearXNG, bad.Redact = "http://localhost/search?key=canary-of-search-4711", trajectory.NewRedactor([]string{"canary-of-search-4711"})
	if err := Write(other, bad); !errors.As(err, &secret) {
		t.Errorf("a secret was written: %v", err)
	}
	left, err := os.ReadDir(filepath.Dir(other))
	if err != nil || len(left) != 0 {
		t.Errorf("%v is left: %v", left, err)
	}
}

// TestOpenRefuses: what the plan's key did not sign, links, pipes and what is too large is refused, each as evidence that
// does not verify.
func TestOpenRefuses(t *testing.T) {
	other := written(t, parts(t, runs.OtherKey()))
	replace := func(name string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			content, err := os.ReadFile(filepath.Join(other, name))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name), content, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"places":             replace(PlacesFile),
		"envelope":           replace(EnvelopeFile),
		"signed places":      func(t *testing.T, dir string) { replace(PlacesFile)(t, dir); replace(EnvelopeFile)(t, dir) },
		"plan":               replace(plan.ManifestFile),
		"envelope of a plan": replace(plan.EnvelopeFile),
		"whole plan": func(t *testing.T, dir string) {
			replace(plan.ManifestFile)(t, dir)
			replace(plan.EnvelopeFile)(t, dir)
		},
		"settings": func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, SettingsFile), []byte("mcp:\n- name: evil\n  command: [sh]\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		},
		"no settings": func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, SettingsFile)); err != nil {
				t.Fatal(err)
			}
		},
		"link": func(t *testing.T, dir string) {
			path := filepath.Join(dir, SettingsFile)
			if err := errors.Join(os.Rename(path, path+".old"), os.Symlink(SettingsFile+".old", path)); err != nil {
				t.Fatal(err)
			}
		},
		"large": func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, PlacesFile), maxPlaces+1); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := written(t, parts(t, runs.Key()))
			spoil(t, dir)
			var fault *trajectory.Fault
			if _, err := Open(dir); !errors.As(err, &fault) {
				t.Errorf("opened: %v", err)
			}
		})
	}
	if _, err := Open(t.TempDir()); exit.Of(err).Code != exit.Usage {
		t.Errorf("an empty folder: %v", err)
	}
}

func TestShardRefuses(t *testing.T) {
	other := written(t, parts(t, runs.Key())) // the same plan's key, another plan: its shards have other keys
	dir := written(t, parts(t, runs.OtherKey()))
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var fault *trajectory.Fault
	if _, _, _, err := f.Shard(1, filepath.Join(other, KeysDir, "1")); !errors.As(err, &fault) {
		t.Errorf("a key of another plan: %v", err)
	}
	first, second := filepath.Join(dir, KeysDir, "1"), filepath.Join(dir, KeysDir, "2")
	one, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	two, err := os.ReadFile(second)
	if err != nil {
		t.Fatal(err)
	}
	end := []byte("-----END OPENSSH PRIVATE KEY-----\n")
	key, _, _ := bytes.Cut(one, end)
	_, delegation, _ := bytes.Cut(two, end)
	mixed := filepath.Join(t.TempDir(), "mixed")
	if err := os.WriteFile(mixed, append(append(key, end...), delegation...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := f.Shard(2, mixed); !errors.As(err, &fault) {
		t.Errorf("a delegation of another key: %v", err)
	}
	if err := os.Chmod(second, 0o640); err != nil {
		t.Fatal(err)
	}
	var open *sign.PermissionError
	if _, _, _, err := f.Shard(2, ""); !errors.As(err, &open) {
		t.Errorf("a key that others can read: %v", err)
	}
	if err := errors.Join(os.Remove(second), os.Symlink(mixed, second)); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := f.Shard(2, ""); !errors.As(err, &fault) {
		t.Errorf("a link: %v", err)
	}
}

func TestSaltsRefuses(t *testing.T) {
	other := written(t, parts(t, runs.OtherKey())) + ".private"
	dir := written(t, parts(t, runs.Key()))
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := PrivateFile(dir)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	var open *sign.PermissionError
	if _, err := f.Salts(); !errors.As(err, &open) {
		t.Errorf("salts that others can read: %v", err)
	}
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	var fault *trajectory.Fault
	if _, err := f.Salts(); !errors.As(err, &fault) {
		t.Errorf("salts of another plan: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Salts(); exit.Of(err).Code != exit.Usage || !strings.Contains(err.Error(), path) {
		t.Errorf("without salts: %v", err)
	}
}

// FuzzShard: whatever a key file holds, no key comes of it but that of a delegation of the plan.
func FuzzShard(f *testing.F) {

	dir := filepath.Join(f.TempDir(), "plan")
	if err := Write(dir, parts(f, runs.Key())); err != nil {
		f.Fatal(err)
	}
	folder, err := Open(dir)
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{"1", "2"} {
		content, err := os.ReadFile(filepath.Join(dir, KeysDir, name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Add([]byte("{}"))
	path := filepath.Join(f.TempDir(), "key")
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		d, envelope, key, err := folder.Shard(1, path)
		if err != nil {
			return
		}
		signed, public, err := folder.Plan.ReadDelegation(envelope, folder.ManifestSHA256, folder.Key)
		if err != nil || signed != d || d.Shard.Index != 1 || !public.Equal(key.Public()) {
			t.Errorf("%v: %v", d, err)
		}
	})
}
