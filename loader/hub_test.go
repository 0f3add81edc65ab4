package loader_test

import (
	"bytes"
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
	"testing/fstest"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/testkit/hub"
	"github.com/gaia-harness/gaia/loader"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const (
	repo    = "invented/tasks"
	first   = "fab1e00000000000000000000000000000000001"
	second  = "fab1e00000000000000000000000000000000002"
	goodKey = "hf_invented"
	parquet = "2023/validation/metadata.parquet"
)

// serve starts a hub with the built-in tasks, gated, and says how to reach it.
func serve(t *testing.T) (*hub.Server, loader.HubConfig) {
	t.Helper()
	data := fixtures.Dataset()
	server, err := hub.Serve(hub.Config{Repo: repo, Renamed: []string{"former/name"},
		Commits: map[string]fs.FS{first: data, second: data},
		Refs:    map[string]string{"main": first, "refs/pr/1": second}, Gated: true,
		Tokens: map[string]hub.Access{goodKey: hub.Granted, "hf_terms": hub.TermsNotAccepted, "hf_fine": hub.NoGatedPermission}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server, loader.HubConfig{Endpoint: server.URL, Repo: repo, Revision: "main", Token: goodKey, TokenFrom: "HF_TOKEN",
		Cache: filepath.Join(t.TempDir(), "hub"), Transport: http.DefaultTransport, FirstWait: time.Millisecond}
}

func source(t *testing.T, c loader.HubConfig) loader.Source {
	t.Helper()
	s, err := loader.Hub(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// read opens a file of the first commit and reads it.
func read(t *testing.T, c loader.HubConfig, name string) ([]byte, error) {
	t.Helper()
	rc, err := source(t, c).Open(t.Context(), first, name)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	return io.ReadAll(rc)
}

func original(t *testing.T, name string) []byte {
	t.Helper()
	b, err := fs.ReadFile(fixtures.Dataset(), name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// attachments returns the files of the built-in validation tasks, a large one first.
func attachments(t *testing.T) []string {
	t.Helper()
	names, err := fs.Glob(fixtures.Dataset(), "2023/validation/*")
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return strings.Contains(n, "metadata.") })
	slices.SortStableFunc(names, func(a, b string) int {
		return strings.Compare(fmt.Sprint(!hub.LFS(a)), fmt.Sprint(!hub.LFS(b)))
	})
	if len(names) < 3 || !hub.LFS(names[0]) || hub.LFS(names[len(names)-1]) {
		t.Fatalf("too few kinds of attachments: %q", names)
	}
	return names
}

func TestHub(t *testing.T) {
	server, c := serve(t)
	want, wantGold, err := loader.Load(t.Context(), loader.Dir(fixtures.Dataset(), "", ""), loader.Validation, loader.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	set, gold, err := loader.Load(t.Context(), source(t, c), loader.Validation, loader.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if set.Hub != server.URL || set.Dataset != repo || set.Revision != first || set.Digest != want.Digest || set.MetadataFile != parquet {
		t.Errorf("got %s %s %s %s %s", set.Hub, set.Dataset, set.Revision, set.MetadataFile, set.Digest)
	}
	same := cmp.AllowUnexported(loader.Task{})
	if d := cmp.Diff(want.Tasks, set.Tasks, same) + cmp.Diff(want.Others, set.Others) + cmp.Diff(wantGold.Map(), gold.Map()); d != "" {
		t.Error(d)
	}
	checkAttachments(t, set)
	if server.Leaks() > 0 {
		t.Errorf("%d requests took the token elsewhere", server.Leaks())
	}

	// What was downloaded is there without a hub, by branch and by commit, and with another token or none.
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	c.Offline, c.Token = true, ""
	for _, c.Revision = range []string{"main", first} {
		again, _, err := loader.Load(t.Context(), source(t, c), loader.Validation, loader.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(set, again, same, cmpopts.IgnoreUnexported(loader.Set{})); d != "" {
			t.Error(d)
		}
		checkAttachments(t, again)
	}
}

// checkAttachments reads those of all tasks and holds them against the originals.
func checkAttachments(t *testing.T, set loader.Set) {
	t.Helper()
	n := 0
	for _, task := range set.Tasks {
		if task.FileName == "" {
			continue
		}
		n++
		rc, err := set.Attachment(t.Context(), task)
		if err != nil {
			t.Errorf("%s: %v", task.ID, err)
			continue
		}
		got, err := io.ReadAll(rc)
		if cerr := rc.Close(); err != nil || cerr != nil || !bytes.Equal(got, original(t, "2023/validation/"+task.FileName)) {
			t.Errorf("%s: %d bytes, %v, %v", task.ID, len(got), err, cerr)
		}
	}
	if n == 0 {
		t.Error("no attachments")
	}
}

// The layout is that of hub.Snapshot, which the interop test holds against the Python client.
func TestHubLayout(t *testing.T) {
	_, c := serve(t)
	names := append(attachments(t), parquet)
	s := source(t, c)
	if _, err := s.Resolve(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		rc, err := s.Open(t.Context(), first, name)
		if err != nil {
			t.Fatal(err)
		}
		_ = rc.Close()
	}
	laid := t.TempDir()
	if err := hub.Snapshot(laid, repo, "main", first, fixtures.Dataset(), nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		at := filepath.Join("datasets--invented--tasks", "snapshots", first, filepath.FromSlash(name))
		got, gerr := os.Readlink(filepath.Join(c.Cache, at))
		want, werr := os.Readlink(filepath.Join(laid, at))
		if gerr != nil || werr != nil || got != want {
			t.Errorf("%s links to %q, want %q (%v, %v)", name, got, want, gerr, werr)
		}
	}
	ref, err := os.ReadFile(filepath.Join(c.Cache, "datasets--invented--tasks/refs/main"))
	if err != nil || string(ref) != first {
		t.Errorf("main is %q, %v", ref, err)
	}
	blobs, err := os.ReadDir(filepath.Join(c.Cache, "datasets--invented--tasks/blobs"))
	if err != nil || len(blobs) != len(names) {
		t.Errorf("%d blobs for %d files, %v", len(blobs), len(names), err)
	}

	// And the other way round.
	c.Cache, c.Offline = laid, true
	for _, name := range names {
		if got, err := read(t, c, name); err != nil || !bytes.Equal(got, original(t, name)) {
			t.Errorf("%s of a snapshot: %d bytes, %v", name, len(got), err)
		}
	}
}

func TestHubRevisions(t *testing.T) {
	server, c := serve(t)
	for revision, want := range map[string]string{"main": first, first: first, "refs/pr/1": second} {
		c.Revision = revision
		origin, err := source(t, c).Resolve(t.Context())
		if err != nil || origin.Revision != want {
			t.Errorf("%s is %+v, %v", revision, origin, err)
		}
	}
	c.Repo, c.Revision = "former/name", "main"
	if origin, err := source(t, c).Resolve(t.Context()); err != nil || origin.Revision != first {
		t.Errorf("a renamed dataset: %+v, %v", origin, err)
	}
	c.Repo = repo
	if _, err := read(t, c, parquet); err != nil {
		t.Fatal(err)
	}
	server.SetRef("main", second)
	set, _, err := loader.Load(t.Context(), source(t, c), loader.Validation, loader.Filter{})
	if err != nil || set.Revision != second {
		t.Errorf("a branch that moved is read at %s, %v", set.Revision, err)
	}
}

// TestReach: what a hub would refuse is said before anything is loaded, also of a commit, which needs no resolving; no
// cache is made.
func TestReach(t *testing.T) {
	server, c := serve(t)
	gated := "is only for those who accepted its terms"
	for _, test := range []struct {
		name  string
		token string
		rev   string
		split loader.Split
		off   bool
		want  string // part of the error; "" = none
	}{
		{"a branch", goodKey, "main", loader.Validation, false, ""},
		{"a commit", goodKey, first, loader.Validation, false, ""},
		{"without a token", "", "main", loader.Validation, false, gated},
		{"a commit without a token", "", first, loader.Validation, false, gated},
		{"terms not accepted", "hf_terms", first, loader.Validation, false, gated},
		{"an unknown token", "hf_unknown", first, loader.Validation, false, "does not accept the token"},
		{"a commit that is not there", goodKey, strings.Repeat("9", 40), loader.Validation, false, "has no revision"},
		{"offline, with nothing kept", goodKey, first, loader.Validation, true, "offline, and the cache has no 2023/validation/metadata"},
		{"offline, a branch", goodKey, "main", loader.Validation, true, "offline, and the cache has no revision main"},
	} {
		c := c
		c.Token, c.Revision, c.Offline = test.token, test.rev, test.off
		origin, err := loader.Reach(t.Context(), source(t, c), test.split)
		if test.want == "" && (err != nil || origin.Revision != first) || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %+v, %v", test.name, origin, err)
		}
	}
	if _, err := os.Stat(c.Cache); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cache was made: %v", err)
	}
	if _, err := read(t, c, parquet); err != nil {
		t.Fatal(err)
	}
	c.Revision, c.Offline = first, true
	asked := len(server.Requests())
	if _, err := loader.Reach(t.Context(), source(t, c), loader.Validation); err != nil || len(server.Requests()) != asked {
		t.Errorf("offline with the metadata in the cache: %v", err)
	}
	tree := fstest.MapFS{"2023/validation/metadata.jsonl": {Data: []byte("{}")}}
	lines, err := hub.Serve(hub.Config{Repo: repo, Commits: map[string]fs.FS{first: tree}, Refs: map[string]string{"main": first}})
	if err != nil {
		t.Fatal(err)
	}
	defer lines.Close()
	c = loader.HubConfig{Endpoint: lines.URL, Repo: repo, Revision: first, Cache: t.TempDir(), Transport: http.DefaultTransport}
	if _, err := loader.Reach(t.Context(), source(t, c), loader.Validation); err != nil {
		t.Errorf("metadata as JSON lines: %v", err)
	}
	if _, err := loader.Reach(t.Context(), source(t, c), loader.Test); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a split that is not there: %v", err)
	}
}

// An older revision has its metadata as JSON lines.
func TestHubLines(t *testing.T) {
	lines := `{"task_id":"fab1e001","Question":"How many gulls?","Level":1,"Final answer":"four","file_name":"gulls.csv"}`
	tree := fstest.MapFS{"2023/validation/metadata.jsonl": {Data: []byte(lines)}, "2023/validation/gulls.csv": {Data: []byte("gull\n")}}
	server, err := hub.Serve(hub.Config{Repo: repo, Commits: map[string]fs.FS{first: tree}, Refs: map[string]string{"main": first}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	c := loader.HubConfig{Endpoint: server.URL, Repo: repo, Revision: "main", Cache: t.TempDir(), Transport: http.DefaultTransport}
	for _, c.Offline = range []bool{false, true} {
		set, gold, err := loader.Load(t.Context(), source(t, c), loader.Validation, loader.Filter{})
		if err != nil || set.MetadataFile != "2023/validation/metadata.jsonl" || len(set.Tasks) != 1 || gold.Map()["fab1e001"] != "four" || set.Others != nil {
			t.Errorf("offline %v: %+v, %v", c.Offline, set, err)
		}
	}
}

func TestHubConfig(t *testing.T) {
	good := loader.HubConfig{Endpoint: "https://hub.example", Repo: repo, Revision: "main", TokenFrom: "HF_TOKEN", Cache: "/cache"}
	for want, change := range map[string]func(*loader.HubConfig){
		"is no URL to ask at":         func(c *loader.HubConfig) { c.Endpoint = "hub.example" },
		`"ftp://hub.example"`:         func(c *loader.HubConfig) { c.Endpoint = "ftp://hub.example" },
		`"https://hub.example…"`:      func(c *loader.HubConfig) { c.Endpoint = "https://hub.example?token=secret" },
		`"hub.example/…"`:             func(c *loader.HubConfig) { c.Endpoint = "hub.example/#secret" },
		"holds credentials":           func(c *loader.HubConfig) { c.Endpoint = "https://a:secret@hub.example" },
		"or something that looks":     func(c *loader.HubConfig) { c.Endpoint = "https://a:secr%et@hub.example?x" },
		"for all to read":             func(c *loader.HubConfig) { c.Endpoint, c.Token = "http://hub.example", "hf_x" },
		`"GAIA" does not name`:        func(c *loader.HubConfig) { c.Repo = "GAIA" },
		`"../x" does not name`:        func(c *loader.HubConfig) { c.Repo = "../x" },
		`"a/b/c" does not name`:       func(c *loader.HubConfig) { c.Repo = "a/b/c" },
		`"a--b/c" does not name`:      func(c *loader.HubConfig) { c.Repo = "a--b/c" },
		`"" does not name a revision`: func(c *loader.HubConfig) { c.Revision = "" },
		`"../../x" does not name`:     func(c *loader.HubConfig) { c.Revision = "../../x" },
		`"/etc" does not name`:        func(c *loader.HubConfig) { c.Revision = "/etc" },
		`"a b" does not name`:         func(c *loader.HubConfig) { c.Revision = "a b" },
		`"a\nb" does not name`:        func(c *loader.HubConfig) { c.Revision = "a\nb" },
		`".x" does not name`:          func(c *loader.HubConfig) { c.Revision = ".x" },
		"no place for the cache":      func(c *loader.HubConfig) { c.Cache = "" },
		"characters that no token":    func(c *loader.HubConfig) { c.Token = "hf_x\r\nHost: y" },
	} {
		c := good
		change(&c)
		_, err := loader.Hub(c)
		if refused := (*loader.SourceError)(nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), want) || len(refused.Remedies) == 0 || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := loader.Hub(good); err != nil {
		t.Error(err)
	}
	s := source(t, good)
	for _, c := range [][2]string{{"main", parquet}, {first, "../x"}, {first, "/etc/passwd"}, {"../../x", parquet}} {
		if _, err := s.Open(t.Context(), c[0], c[1]); err == nil || !strings.Contains(err.Error(), "is no file of a dataset") {
			t.Errorf("%q: %v", c, err)
		}
	}
}
