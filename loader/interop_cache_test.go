package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/canonical"
	fakehub "github.com/gaia-harness/gaia/internal/testkit/hub"
)

// outlineOf lists what lies below dir: the targets of links and the contents of files. What only the Python client keeps
// there (its list of the tree, locks, and marks) is left out.
func outlineOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if slices.Contains([]string{".locks", "trees", "CACHEDIR.TAG", ".no_exist"}, d.Name()) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(dir, name)
		switch {
		case err != nil || d.IsDir():
		case d.Type()&fs.ModeSymlink != 0:
			found[rel], err = os.Readlink(name)
			found[rel] = "-> " + found[rel]
		default:
			var b []byte
			b, err = os.ReadFile(name)
			found[rel] = canonical.Digest(b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// loadAll loads both splits and reads every attachment. It returns what it read, without what only tells where.
func loadAll(t *testing.T, src Source) string {
	t.Helper()
	var b strings.Builder
	for _, split := range []Split{Validation, Test} {
		set, gold, err := Load(context.Background(), src, split, Filter{})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, set.Digest, set.IDs, set.Levels, gold.Map())
		for _, task := range set.Tasks {
			fmt.Fprintf(&b, "%+v\n", task)
			if task.FileName == "" {
				continue
			}
			f, err := set.Attachment(context.Background(), task)
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(f)
			if cerr := f.Close(); err != nil || cerr != nil {
				t.Fatal(err, cerr)
			}
			fmt.Fprintln(&b, canonical.Digest(data))
		}
	}
	return b.String()
}

// noNetwork fails every request, and the test with it.
type noNetwork struct{ *testing.T }

func (n noNetwork) RoundTrip(r *http.Request) (*http.Response, error) {
	n.Errorf("asked for %s %s", r.Method, r.URL.Path)
	return nil, errors.New("there is no network")
}

func TestInteropSnapshot(t *testing.T) {
	s := serveFixtures(t, func(c *fakehub.Config) { c.Gated = true })
	want := loadAll(t, Dir(fixtures.Dataset(), "", ""))
	cache, local := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	results := callPython(t, s.URL, cache, []pyCall{
		{"snapshot_download", map[string]any{"token": "hf_good"}},
		{"snapshot_download", map[string]any{"token": "hf_good", "revision": pyBranch}},
		{"snapshot_download", map[string]any{"token": "hf_good", "local_dir": local}},
	})
	for _, r := range results {
		if r.Error != "" {
			t.Fatalf("%+v", r)
		}
		if got := loadAll(t, Dir(os.DirFS(r.Path), "", "")); got != want {
			t.Errorf("%s loads as %s", r.Path, cmp.Diff(want, got))
		}
	}
	if s.Leaks() != 0 {
		t.Error("the token went to the CDN")
	}
	laid := t.TempDir()
	for _, ref := range []string{"main", pyBranch} {
		if err := os.RemoveAll(filepath.Join(laid, "datasets--invented--tasks", "snapshots")); err != nil {
			t.Fatal(err)
		}
		if err := fakehub.Snapshot(laid, pyRepo, ref, pyCommit, fixtures.Dataset(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(outlineOf(t, laid), outlineOf(t, cache)); diff != "" {
		t.Errorf("the stand-in lays a snapshot out in another way than Python (+): %s", diff)
	}
}

// What either downloads, the other finds, without a network.
func TestInteropCache(t *testing.T) {
	s := serveFixtures(t, func(c *fakehub.Config) { c.Gated = true })
	names := datasetFiles(t)
	want := loadAll(t, Dir(fixtures.Dataset(), "", ""))
	caches := map[string]string{"Python": t.TempDir(), "gaia": t.TempDir()}
	revisions := []string{"main", pyBranch, pyCommit}

	for _, revision := range revisions {
		src, err := Hub(HubConfig{Endpoint: s.URL, Repo: pyRepo, Revision: revision, Token: "hf_good", TokenFrom: "the test", Cache: caches["gaia"]})
		if err != nil {
			t.Fatal(err)
		}
		if got := loadAll(t, src); got != want {
			t.Errorf("gaia downloads %s", cmp.Diff(want, got))
		}
		for _, name := range names {
			f, err := src.Open(context.Background(), pyCommit, name)
			if err != nil {
				t.Fatal(err)
			}
			_ = f.Close()
		}
	}
	var downloads []pyCall
	for _, revision := range revisions {
		downloads = append(downloads, pyCall{"snapshot_download", map[string]any{"token": "hf_good", "revision": revision}})
	}
	for _, r := range callPython(t, s.URL, caches["Python"], downloads) {
		if r.Error != "" {
			t.Fatalf("%+v", r)
		}
	}
	if s.Leaks() != 0 {
		t.Error("a token went to the CDN")
	}
	if diff := cmp.Diff(outlineOf(t, caches["Python"]), outlineOf(t, caches["gaia"])); diff != "" {
		t.Errorf("gaia (+) lays the cache out in another way than Python (-): %s", diff)
	}

	for who, cache := range caches {
		for _, revision := range revisions {
			src, err := Hub(HubConfig{Endpoint: "http://127.0.0.1:1", Repo: pyRepo, Revision: revision, Cache: cache, Offline: true, Transport: noNetwork{t}})
			if err != nil {
				t.Fatal(err)
			}
			if got := loadAll(t, src); got != want {
				t.Errorf("gaia finds, of what %s downloaded as %s: %s", who, revision, cmp.Diff(want, got))
			}
			var finds []pyCall
			for _, name := range names {
				finds = append(finds,
					pyCall{"hf_hub_download", map[string]any{"filename": name, "revision": revision}},
					pyCall{"try_to_load_from_cache", map[string]any{"filename": name, "revision": revision, "cache_dir": cache}})
			}
			finds = append(finds, pyCall{"snapshot_download", map[string]any{"revision": revision}})
			for i, r := range callPython(t, "", cache, finds) {
				wanted := filepath.Join(cache, "datasets--invented--tasks", "snapshots", pyCommit)
				if i/2 < len(names) {
					wanted = filepath.Join(wanted, filepath.FromSlash(names[i/2]))
				}
				if r.Path != wanted {
					t.Errorf("Python finds, of what %s downloaded as %s: %+v, want %s", who, revision, r, wanted)
				}
			}
		}
	}
}

func datasetFiles(t *testing.T) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(fixtures.Dataset(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if err != nil || len(names) < 10 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	return names
}
