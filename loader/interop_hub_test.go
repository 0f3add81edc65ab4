package loader

import (
	"io/fs"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/gaia-harness/gaia/fixtures"
	fakehub "github.com/gaia-harness/gaia/internal/testkit/hub"
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
