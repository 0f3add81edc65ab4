package loader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/fixtures/hub"
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

func TestHubRefusals(t *testing.T) {
	cases := []struct {
		name   string
		change func(*loader.HubConfig)
		faults func(*hub.Server)
		want   string // of the error
		remedy string // in one of them
		tries  int    // requests for the metadata of the split
	}{
		{"no token", func(c *loader.HubConfig) { c.Token, c.TokenFrom = "", "neither in HF_TOKEN nor in ~/token" }, nil,
			"invented/tasks is only for those who accepted its terms, and no token was found (neither in HF_TOKEN nor in ~/token)", "accept its terms, logged in, at {hub}/datasets/invented/tasks", 1},
		{"terms not accepted", func(c *loader.HubConfig) { c.Token = "hf_terms" }, nil,
			"the account was refused, asked with the token from HF_TOKEN: Access to dataset invented/tasks is restricted and you are not in the authorized list", "accept its terms, logged in, at {hub}/datasets/invented/tasks", 1},
		{"a token without access", func(c *loader.HubConfig) { c.Token = "hf_fine" }, nil,
			"access to invented/tasks was refused, asked with the token from HF_TOKEN: Please enable access", "allow the token to read public gated repositories at {hub}/settings/tokens", 1},
		{"unknown token", func(c *loader.HubConfig) { c.Token = "hf_other" }, nil,
			"the hub does not accept the token from HF_TOKEN: Invalid credentials", "make a token at {hub}/settings/tokens", 1},
		{"unknown revision", func(c *loader.HubConfig) { c.Revision = "v9" }, nil, `invented/tasks has no revision "v9": Invalid rev id`, "leave out --revision", 1},
		{"unknown commit", func(c *loader.HubConfig) { c.Revision = strings.Repeat("a", 40) }, nil, `has no revision "aaaa`, "leave out --revision", 1},
		{"unknown repo", func(c *loader.HubConfig) { c.Repo = "invented/other" }, nil, `the hub has no dataset "invented/other", or does not show it, asked with`, "check the name", 1},
		{"unknown repo without a token", func(c *loader.HubConfig) { c.Repo, c.Token = "invented/other", "" }, nil, `the hub has no dataset "invented/other", or does not show it, no token`, "check the name", 1},
		{"offline", func(c *loader.HubConfig) { c.Offline = true }, nil, "offline, and the cache has no revision main of invented/tasks", "unset HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE, or fetch it where there is a network: gaia tasks download --source hub:invented/tasks --revision ", 0},
		{"offline at a commit", func(c *loader.HubConfig) { c.Offline, c.Revision = true, first }, nil, "offline, and the cache has no 2023/validation/metadata", "unset HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE, or fetch it where there is a network: gaia tasks download --source hub:invented/tasks --revision ", 0},
		{"rate limited", nil, func(s *hub.Server) { s.Fail(hub.Match{}, -1, hub.RateLimited(0, -1)) }, "the hub counts too many requests (asked with the token from HF_TOKEN)", "wait five minutes", 5},
		{"rate limited for long", nil, func(s *hub.Server) { s.Fail(hub.Match{}, -1, hub.RateLimited(3600, -1)) }, "the hub counts too many requests", "wait 1h0m0s and start again", 1},
		{"down", nil, func(s *hub.Server) { s.Fail(hub.Match{}, -1, hub.Answer(502, "text/html", "<h1>Bad Gateway</h1>")) }, "answers 502 Bad Gateway for 2023/validation/metadata.parquet", "try again later", 5},
		{"no answer", nil, func(s *hub.Server) { s.Fail(hub.Match{}, -1, hub.Drop()) }, "the connection was cut", "check the network", 5},
		{"no commit", nil, func(s *hub.Server) { s.Fail(hub.Match{}, -1, hub.Header("X-Repo-Commit", "")) }, "is no hub: it names no commit", "no proxy or login page stands between", 1},
		{"odd commit", nil, func(s *hub.Server) { s.Fail(hub.Match{}, -1, hub.Header("X-Repo-Commit", "../../../x")) }, "is no hub: it names no commit", "check HF_ENDPOINT", 1},
		{"login page", nil, func(s *hub.Server) { s.Fail(hub.Match{}, -1, hub.Answer(200, "text/html", "<h1>Log in</h1>")) }, "is no hub", "login page", 1},
		{"odd digest", nil, func(s *hub.Server) { s.Fail(hub.Match{}, -1, hub.Header("X-Linked-Etag", `"../../x"`)) }, "is no hub", "check HF_ENDPOINT", 1},
		{"redirected for ever", nil, func(s *hub.Server) { s.Fail(hub.Match{}, -1, hub.RedirectLoop()) }, "from one address to the next without end", "check HF_ENDPOINT", 10},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			server, config := serve(t)
			if c.change != nil {
				c.change(&config)
			}
			if c.faults != nil {
				c.faults(server)
			}
			set, gold, err := loader.Load(t.Context(), source(t, config), loader.Validation, loader.Filter{})
			if err == nil {
				t.Fatalf("loaded %d tasks", len(set.Tasks))
			}
			var refused *loader.SourceError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %q, want %q", err, c.want)
			}
			if remedies := strings.Join(refused.Remedies, "\n"); !strings.Contains(remedies, strings.ReplaceAll(c.remedy, "{hub}", server.URL)) {
				t.Errorf("remedies %q, want %q", remedies, c.remedy)
			}
			if strings.Contains(err.Error()+strings.Join(refused.Remedies, ""), "hf_") {
				t.Errorf("shows the token: %v %q", err, refused.Remedies)
			}
			if set.Tasks != nil || gold.Len() != 0 {
				t.Errorf("handed out %d tasks beside the error", len(set.Tasks))
			}
			if n := len(server.Requests()); (n > 0) != (c.tries > 0) || n < c.tries || c.tries == 5 && n != 5 {
				t.Errorf("%d requests, want %d", n, c.tries)
			}
		})
	}
}

// Faults of a download: those that pass are made up for, and what does not verify is refused.
func TestHubFaults(t *testing.T) {
	large, small := attachments(t)[0], "2023/validation/"+filepath.Base(attachments(t)[len(attachments(t))-1])
	get := hub.Match{CDN: true, Method: "GET", Path: large}
	direct := hub.Match{Method: "GET", Path: small}
	cases := []struct {
		name   string
		file   string
		faults func(*hub.Server)
		want   string // of the error; "" = the file comes
		ranges []string
	}{
		{"none", large, nil, "", []string{""}},
		{"cut once", large, func(s *hub.Server) { s.Fail(get, 1, hub.Cut(100)) }, "", []string{"", "bytes=100-"}},
		{"cut small once", small, func(s *hub.Server) { s.Fail(direct, 2, hub.Cut(10)) }, "", nil},
		{"cut four times", large, func(s *hub.Server) { s.Fail(get, 4, hub.Cut(50)) }, "", []string{"", "bytes=50-", "bytes=100-", "bytes=150-", "bytes=200-"}},
		{"cut always", large, func(s *hub.Server) { s.Fail(get, -1, hub.Cut(1)) }, "the connection was cut", []string{"", "bytes=1-", "bytes=2-", "bytes=3-", "bytes=4-"}},
		{"stalled once", large, func(s *hub.Server) { s.Fail(get, 1, hub.Stall(20)) }, "", []string{"", "bytes=20-"}},
		{"stalled always", large, func(s *hub.Server) { s.Fail(get, -1, hub.Hang()) }, "nothing came for too long", nil},
		{"ignores the range", large, func(s *hub.Server) { s.Fail(get, 1, hub.Cut(30)); s.Fail(get, 1, hub.IgnoreRange()) }, "", []string{"", "bytes=30-"}},
		{"another range", large, func(s *hub.Server) {
			s.Fail(get, 1, hub.Cut(30))
			s.Fail(get, 1, hub.Header("Content-Range", "bytes 7-99/100"))
		}, "", []string{"", "bytes=30-", ""}},
		{"refuses the range", large, func(s *hub.Server) { s.Fail(get, 1, hub.Cut(30)); s.Fail(get, 1, hub.Answer(416, "text/plain", "")) }, "", []string{"", "bytes=30-", ""}},
		{"wrong bytes", large, func(s *hub.Server) { s.Fail(get, -1, hub.Garble()) }, "has the digest", []string{""}},
		{"wrong bytes after a cut", large, func(s *hub.Server) { s.Fail(get, 1, hub.Garble(), hub.Cut(30)) }, "", []string{"", "bytes=30-", ""}},
		{"small and wrong", small, func(s *hub.Server) { s.Fail(direct, -1, hub.Garble()) }, "has the digest", nil},
		{"too short", large, func(s *hub.Server) { s.Fail(get, 1, hub.Resize(-9)) }, "", nil},
		{"always too short", small, func(s *hub.Server) { s.Fail(direct, -1, hub.Resize(-9)) }, "where the hub promises", nil},
		{"too long", large, func(s *hub.Server) { s.Fail(get, -1, hub.Resize(9)) }, "where the hub promises", nil},
		{"500, 503, 429", large, func(s *hub.Server) {
			s.Fail(get, 1, hub.Answer(500, "text/plain", "oops"))
			s.Fail(get, 1, hub.Answer(503, "text/html", "<h1>"))
			s.Fail(hub.Match{Method: "GET"}, 1, hub.RateLimited(-1, 0))
		}, "", nil},
		{"an address that expired", large, func(s *hub.Server) { s.Fail(get, 1, hub.Answer(403, "application/xml", "<Error>expired</Error>")) }, "", nil},
		{"weak tag", small, func(s *hub.Server) {
			s.Fail(hub.Match{Method: "HEAD", Path: small}, -1, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					next.ServeHTTP(&weakTag{w}, r)
				})
			})
		}, "", nil},
		{"odd size", large, func(s *hub.Server) { s.Fail(hub.Match{Method: "HEAD"}, -1, hub.Header("X-Linked-Size", "many")) }, "", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			server, config := serve(t)
			config.Patience = 100 * time.Millisecond
			if c.faults != nil {
				c.faults(server)
			}
			got, err := read(t, config, c.file)
			if c.want == "" && (err != nil || !bytes.Equal(got, original(t, c.file))) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			var ranges []string
			for _, r := range server.Requests() {
				if r.CDN {
					ranges = append(ranges, r.Range)
				}
			}
			if c.ranges != nil && !slices.Equal(ranges, c.ranges) {
				t.Errorf("asked for %q, want %q", ranges, c.ranges)
			}
			if server.Leaks() > 0 {
				t.Errorf("%d requests took the token elsewhere", server.Leaks())
			}
			if c.want != "" { // nothing that does not verify is a file of the cache
				config.Offline = true
				if _, err := read(t, config, c.file); err == nil {
					t.Error("and yet it is in the cache")
				}
			}
		})
	}
}

// weakTag marks the tag of an answer as weak, as proxies that compress do.
type weakTag struct{ http.ResponseWriter }

func (w *weakTag) WriteHeader(status int) {
	if tag := w.Header().Get("Etag"); tag != "" {
		w.Header().Set("Etag", "W/"+tag)
	}
	w.ResponseWriter.WriteHeader(status)
}

// An interrupted download goes on in another process, and what an earlier one left is not trusted.
func TestHubResumes(t *testing.T) {
	large := attachments(t)[0]
	size := len(original(t, large))
	server, c := serve(t)
	server.Fail(hub.Match{CDN: true}, -1, hub.Cut(0))
	server.Fail(hub.Match{CDN: true}, -1, hub.Cut(0))
	if _, err := read(t, c, large); err == nil {
		t.Fatal("came though it was cut")
	}
	partial, err := filepath.Glob(c.Cache + "/*/blobs/*.incomplete")
	if err != nil || len(partial) != 1 {
		t.Fatalf("%q, %v", partial, err)
	}
	for name, left := range map[string][]byte{
		"a good part":   original(t, large)[:size/2],
		"all of it":     original(t, large),
		"another part":  bytes.Repeat([]byte("x"), size/3),
		"another whole": bytes.Repeat([]byte("x"), size),
		"too much":      bytes.Repeat([]byte("x"), size+1),
	} {
		t.Run(name, func(t *testing.T) {
			server, again := serve(t)
			server.Heal()
			blobs := filepath.Join(again.Cache, "datasets--invented--tasks/blobs")
			if err := os.MkdirAll(blobs, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(blobs, filepath.Base(partial[0])), left, 0o644); err != nil {
				t.Fatal(err)
			}
			var seen []loader.Progress
			again.Progress = func(p loader.Progress) { seen = append(seen, p) }
			got, err := read(t, again, large)
			if err != nil || !bytes.Equal(got, original(t, large)) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if name == "a good part" && (len(seen) == 0 || seen[0].Done <= int64(size/2) || seen[len(seen)-1] != (loader.Progress{Path: large, Done: int64(size), Size: int64(size), Kept: true})) {
				t.Errorf("progress %+v", seen)
			}
			if left, err := filepath.Glob(blobs + "/*.incomplete"); err != nil || left != nil {
				t.Errorf("left behind: %q, %v", left, err)
			}
		})
	}
}

// A cache can be damaged, too.
func TestHubCache(t *testing.T) {
	large := attachments(t)[0]
	server, c := serve(t)
	if _, err := read(t, c, large); err != nil {
		t.Fatal(err)
	}
	pointer := filepath.Join(c.Cache, "datasets--invented--tasks/snapshots", first, large)
	blob, err := filepath.EvalSymlinks(pointer)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(blob, []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = read(t, c, large)
	if refused := (*loader.SourceError)(nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), "is not the file that the hub has") || !strings.Contains(refused.Remedies[0], "remove "+filepath.Dir(blob)) {
		t.Errorf("a damaged blob: %v", err)
	}
	if err := os.Remove(blob); err != nil { // as the error says
		t.Fatal(err)
	}
	if got, err := read(t, c, large); err != nil || !bytes.Equal(got, original(t, large)) {
		t.Errorf("after removing it: %d bytes, %v", len(got), err)
	}

	// Where links cannot be, clients put the file itself there: the hub says what its digest is.
	for content, want := range map[string]string{"": "", "other": "is not the file that the hub has"} {
		if content == "" {
			content = string(original(t, large))
		}
		if err := os.Remove(pointer); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(pointer, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := read(t, c, large); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("a file in the place of a link: %v, want %q", err, want)
		}
		if want == "" {
			var notices []string
			off := c
			off.Offline, off.Notice = true, func(s string) { notices = append(notices, s) }
			if _, err := read(t, off, large); err != nil || len(notices) != 1 || !strings.Contains(notices[0], "not verified") {
				t.Errorf("offline: %v, %q", err, notices)
			}
		}
	}
	if server.Leaks() > 0 {
		t.Error("the token was taken elsewhere")
	}

	// A cache that cannot be written.
	c.Cache = filepath.Join(t.TempDir(), "file", "hub")
	if err := os.WriteFile(filepath.Dir(c.Cache), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = read(t, c, large)
	if refused := (*loader.SourceError)(nil); !errors.As(err, &refused) || !strings.Contains(refused.Remedies[0], "HF_HUB_CACHE") {
		t.Errorf("no place for a cache: %v", err)
	}
}

// What the cache knows is gone on with where the hub does not answer, and said aloud; never where the hub says that
// there is no such thing.
func TestHubFallsBack(t *testing.T) {
	for name, c := range map[string]struct {
		fault hub.Effect
		token string
		falls bool
	}{
		"down":        {hub.Answer(503, "text/html", ""), goodKey, true},
		"cut":         {hub.Drop(), goodKey, true},
		"limited":     {hub.RateLimited(3600, -1), goodKey, true},
		"no token":    {nil, "", true},
		"no revision": {hub.Answer(404, "text/plain", "", "X-Error-Code", "RevisionNotFound"), goodKey, false},
	} {
		t.Run(name, func(t *testing.T) {
			server, config := serve(t)
			if _, _, err := loader.Load(t.Context(), source(t, config), loader.Validation, loader.Filter{}); err != nil {
				t.Fatal(err)
			}
			if c.fault != nil {
				server.Fail(hub.Match{}, -1, c.fault)
			}
			var notices []string
			config.Token, config.Notice = c.token, func(s string) { notices = append(notices, s) }
			set, _, err := loader.Load(t.Context(), source(t, config), loader.Validation, loader.Filter{})
			if (err == nil) != c.falls {
				t.Fatalf("got %v", err)
			}
			if c.falls && (set.Revision != first || !strings.Contains(strings.Join(notices, "\n"), "going on with the cached copy, commit "+first)) {
				t.Errorf("at %s, told %q", set.Revision, notices)
			}
		})
	}
}

func TestHubFetchesOnce(t *testing.T) {
	large := attachments(t)[0]
	server, c := serve(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got, err := read(t, c, large); err != nil || !bytes.Equal(got, original(t, large)) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
	all.Wait()
	n := 0
	for _, r := range server.Requests() {
		if r.CDN {
			n++
		}
	}
	if n != 1 {
		t.Errorf("fetched %d times", n)
	}
}

func TestHubCancelled(t *testing.T) {
	large := attachments(t)[0]
	server, c := serve(t)
	server.Fail(hub.Match{CDN: true}, -1, hub.Stall(40))
	ctx, cancel := context.WithCancel(t.Context())
	c.Progress = func(loader.Progress) { cancel() }
	_, err := source(t, c).Open(ctx, first, large)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// The token goes to the endpoint and nowhere else, and nothing goes from https to http.
func TestHubKeepsTheToken(t *testing.T) {
	var elsewhere []http.Header
	var mu sync.Mutex
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		elsewhere = append(elsewhere, r.Header.Clone())
	}))
	defer other.Close()
	server, c := serve(t)
	server.Fail(hub.Match{Method: "GET"}, -1, hub.Redirect(other.URL+"/x"))
	if _, err := read(t, c, attachments(t)[0]); err == nil {
		t.Error("took what another server sent")
	}
	if len(elsewhere) == 0 || slices.ContainsFunc(elsewhere, func(h http.Header) bool { return h.Get("Authorization") != "" }) {
		t.Errorf("the other server was sent %q", elsewhere)
	}
	secure := httptest.NewTLSServer(http.RedirectHandler(other.URL+"/x", http.StatusFound))
	defer secure.Close()
	before := len(elsewhere)
	server.Heal()
	server.Fail(hub.Match{Method: "GET"}, -1, hub.Redirect(secure.URL+"/x"))
	c.Transport = secure.Client().Transport
	c.Cache = t.TempDir()
	if _, err := read(t, c, attachments(t)[0]); err == nil || !strings.Contains(err.Error(), "where anybody could read along") || len(elsewhere) != before {
		t.Errorf("sent from https to http: %v", err)
	}
}

func TestHubConfig(t *testing.T) {
	good := loader.HubConfig{Endpoint: "https://hub.example", Repo: repo, Revision: "main", TokenFrom: "HF_TOKEN", Cache: "/cache"}
	for want, change := range map[string]func(*loader.HubConfig){
		"is no URL to ask at":         func(c *loader.HubConfig) { c.Endpoint = "hub.example" },
		`"ftp://hub.example"`:         func(c *loader.HubConfig) { c.Endpoint = "ftp://hub.example" },
		`"https://hub.example?a=b"`:   func(c *loader.HubConfig) { c.Endpoint = "https://hub.example?a=b" },
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
