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

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/gaia-harness/gaia/fixtures"
	fakehub "github.com/gaia-harness/gaia/fixtures/hub"
)

const (
	pyRepo   = "invented/tasks"
	pyCommit = "0123456789abcdef0123456789abcdef01234567"
	pyBranch = "refs/pr/1"
)

// A pyCall is a call of a function of huggingface_hub, a pyResult what came of it.
type pyCall struct {
	Do   string         `json:"do"`
	With map[string]any `json:"with"`
}

type pyResult struct {
	Path  string `json:"path"`
	Error string `json:"error"`
	Cause string `json:"cause"`
	Says  string `json:"says"`
}

// callPython makes the calls on the dataset in one process. endpoint may be "", for a process that is offline.
func callPython(t *testing.T, endpoint, cache string, calls []pyCall) []pyResult {
	t.Helper()
	env := []string{"HF_HUB_DISABLE_XET=1", "HF_HUB_DISABLE_TELEMETRY=1", "HF_HUB_DISABLE_PROGRESS_BARS=1", "HF_HOME=" + t.TempDir(), "HF_HUB_CACHE=" + cache, "NO_PROXY=*"}
	if endpoint == "" {
		env = append(env, "HF_HUB_OFFLINE=1")
	} else {
		env = append(env, "HF_ENDPOINT="+endpoint)
	}
	for _, c := range calls {
		if _, ok := c.With["repo_id"]; !ok {
			c.With["repo_id"] = pyRepo
		}
		c.With["repo_type"] = "dataset"
	}
	var results []pyResult
	for line := range strings.Lines(string(python(t, "huggingface_hub", env, lines(t, calls), "hub_client.py"))) {
		var r pyResult
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		results = append(results, r)
	}
	if len(results) != len(calls) {
		t.Fatalf("%d results of %d calls", len(results), len(calls))
	}
	return results
}

func serveFixtures(t *testing.T, change func(*fakehub.Config)) *fakehub.Server {
	t.Helper()
	c := fakehub.Config{
		Repo: pyRepo, Renamed: []string{"former/tasks"},
		Commits: map[string]fs.FS{pyCommit: fixtures.Dataset()},
		Refs:    map[string]string{"main": pyCommit, pyBranch: pyCommit},
		Tokens:  map[string]fakehub.Access{"hf_good": fakehub.Granted, "hf_unasked": fakehub.TermsNotAccepted, "hf_narrow": fakehub.NoGatedPermission},
	}
	if change != nil {
		change(&c)
	}
	s, err := fakehub.Serve(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
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

const smallFile = "2023/validation/fab1e002-0000-4000-8000-000000000002.csv"

// The Python client takes the stand-in's refusals for what they are.
func TestInteropHubRefusals(t *testing.T) {
	gated := serveFixtures(t, func(c *fakehub.Config) { c.Gated = true })
	open := serveFixtures(t, nil)
	metadata := metadataFiles(Validation)[0]
	download := func(s *fakehub.Server, token any, more ...any) pyCall {
		with := map[string]any{"endpoint": s.URL, "token": token, "filename": metadata}
		for i := 0; i < len(more); i += 2 {
			with[more[i].(string)] = more[i+1]
		}
		return pyCall{"hf_hub_download", with}
	}
	snapshot := func(s *fakehub.Server, token any, more ...any) pyCall {
		c := download(s, token, more...)
		delete(c.With, "filename")
		c.Do = "snapshot_download"
		return c
	}
	tests := []struct {
		name string
		call pyCall
		err  string // and, after a slash, its cause; "" = it is downloaded
		says string
	}{
		{"gated, no token", download(gated, false), "GatedRepoError", "401 Client Error"},
		{"gated, no token, small file", download(gated, false, "filename", smallFile), "GatedRepoError", "Please log in"},
		{"terms not accepted", download(gated, "hf_unasked"), "GatedRepoError", "not in the authorized list"},
		{"no permission for gated repositories", download(gated, "hf_narrow"), "LocalEntryNotFoundError/HfHubHTTPError", ""},
		{"unknown token", download(gated, "hf_bad"), "HfHubHTTPError", "Invalid credentials in Authorization header"},
		{"unknown token, open", download(open, "hf_bad"), "HfHubHTTPError", "Invalid credentials in Authorization header"},
		{"access", download(gated, "hf_good"), "", ""},
		{"unknown revision", download(open, false, "revision", "no/such"), "RevisionNotFoundError", "Invalid rev id: no/such"},
		{"unknown file", download(open, false, "filename", "2023/none.csv"), "RemoteEntryNotFoundError", "Entry Not Found"},
		{"unknown repository", download(open, "hf_good", "repo_id", "invented/none"), "RepositoryNotFoundError", "404 Client Error"},
		{"unknown repository, no token", download(open, false, "repo_id", "invented/none"), "RepositoryNotFoundError", "401 Client Error"},
		{"former name", download(open, false, "repo_id", "former/tasks", "filename", smallFile), "", ""},
		{"branch with slashes", download(open, false, "revision", pyBranch), "", ""},
		{"snapshot, gated, no token", snapshot(gated, false), "GatedRepoError", "401 Client Error"},
		{"snapshot, terms not accepted", snapshot(gated, "hf_unasked"), "GatedRepoError", "not in the authorized list"},
		{"snapshot, unknown token", snapshot(gated, "hf_bad"), "HfHubHTTPError", "Invalid credentials in Authorization header"},
		{"snapshot, unknown revision", snapshot(open, false, "revision", "no/such"), "RevisionNotFoundError", "Invalid rev id: no/such"},
		{"snapshot, unknown repository", snapshot(open, "hf_good", "repo_id", "invented/none"), "RepositoryNotFoundError", "404 Client Error"},
		{"snapshot, access", snapshot(gated, "hf_good"), "", ""},
	}
	var calls []pyCall
	for _, tt := range tests {
		tt.call.With["cache_dir"] = t.TempDir() // a file that is there would hide a refusal
		calls = append(calls, tt.call)
	}
	for i, got := range callPython(t, open.URL, t.TempDir(), calls) {
		class := got.Error
		if strings.Contains(tests[i].err, "/") {
			class += "/" + got.Cause
		}
		if class != tests[i].err || !strings.Contains(got.Says, tests[i].says) {
			t.Errorf("%s: %q, want %q that says %q: %+v", tests[i].name, class, tests[i].err, tests[i].says, got)
		}
	}
	if gated.Leaks()+open.Leaks() != 0 {
		t.Error("the token went to the CDN")
	}
}

// The Python client asks again after a cut and after a 429, and sees a wrong length and an answer that is no hub's.
func TestInteropHubFaults(t *testing.T) {
	s := serveFixtures(t, nil)
	cdn, small := metadataFiles(Validation)[0], smallFile
	s.Fail(fakehub.Match{CDN: true, Method: "GET", Path: cdn}, 1, fakehub.Cut(100))
	s.Fail(fakehub.Match{Method: "GET", Path: small}, 1, fakehub.Cut(10))
	s.Fail(fakehub.Match{CDN: true, Method: "GET", Path: "metadata.level1.parquet"}, 1, fakehub.Resize(3))
	s.Fail(fakehub.Match{Method: "HEAD", Path: "metadata.level2.parquet"}, 1, fakehub.Header("X-Repo-Commit", ""))
	s.Fail(fakehub.Match{Method: "HEAD", Path: "metadata.level3.parquet"}, 1, fakehub.RateLimited(0, -1))
	var calls []pyCall
	for _, name := range []string{cdn, small, "2023/validation/metadata.level1.parquet", "2023/validation/metadata.level2.parquet", "2023/validation/metadata.level3.parquet"} {
		calls = append(calls, pyCall{"hf_hub_download", map[string]any{"filename": name, "token": false}})
	}
	results := callPython(t, s.URL, t.TempDir(), calls)
	for i, name := range []string{cdn, small, "", "", "2023/validation/metadata.level3.parquet"} {
		if name == "" {
			continue
		}
		want, err := fs.ReadFile(fixtures.Dataset(), name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(results[i].Path); err != nil || string(got) != string(want) {
			t.Errorf("%s came as %d bytes, %v, want %d: %+v", name, len(got), err, len(want), results[i])
		}
	}
	if r := results[2]; r.Error != "OSError" || !strings.Contains(r.Says, "Consistency check failed") {
		t.Errorf("too long a file: %+v", r)
	}
	if r := results[3]; r.Error != "LocalEntryNotFoundError" || r.Cause != "FileMetadataError" {
		t.Errorf("an answer without a commit: %+v", r)
	}
	for _, cut := range []fakehub.Request{{CDN: true, File: cdn}, {File: small}} {
		gets := 0
		for _, r := range s.Requests() {
			if r.CDN == cut.CDN && r.File == cut.File && r.Method == http.MethodGet {
				gets++
			}
		}
		if gets != 2 {
			t.Errorf("%s was asked for %d times, want once more after the cut", cut.File, gets)
		}
	}
}

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
			found[rel] = digest(b)
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
			fmt.Fprintln(&b, digest(data))
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
