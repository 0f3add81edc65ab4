package loader_test

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/hub"
	"github.com/gaia-harness/gaia/loader"
)

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

// What the cache knows is gone on with where the hub does not answer, and reported; never where the hub says that
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

// A file that the cache lost, or cannot give, is not one that the dataset does not have: nothing goes on without it.
func TestHubCacheFails(t *testing.T) {
	const other = "2023/test/metadata.parquet"
	for name, breaks := range map[string]func(*testing.T, *hub.Server, loader.HubConfig){
		"what came is removed": func(_ *testing.T, s *hub.Server, c loader.HubConfig) {
			s.Fail(hub.Match{CDN: true, Path: other}, -1, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					found, _ := filepath.Glob(inCache(c, "blobs", "*.incomplete"))
					for _, at := range found {
						_ = os.Remove(at)
					}
					next.ServeHTTP(w, r)
				})
			})
		},
		"a file as the folder": func(t *testing.T, _ *hub.Server, c loader.HubConfig) {
			place(t, inCache(c, "snapshots", first, "2023", "test"), func(at string) error { return os.WriteFile(at, nil, 0o644) })
		},
		"a link to nothing as the folder": func(t *testing.T, _ *hub.Server, c loader.HubConfig) {
			place(t, inCache(c, "snapshots", first, "2023", "test"), func(at string) error { return os.Symlink("gone", at) })
		},
		"a link to itself": func(t *testing.T, _ *hub.Server, c loader.HubConfig) {
			place(t, inCache(c, "snapshots", first, other), func(at string) error { return os.Symlink(largeDigest(t, other), at) })
			place(t, inCache(c, "snapshots", first, "2023", "test", largeDigest(t, other)), func(at string) error { return os.Symlink("metadata.parquet", at) })
		},
		"no place for locks": func(t *testing.T, _ *hub.Server, c loader.HubConfig) {
			if _, err := read(t, c, parquet); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(filepath.Join(c.Cache, ".locks")); err != nil {
				t.Fatal(err)
			}
			place(t, filepath.Join(c.Cache, ".locks"), func(at string) error { return os.WriteFile(at, nil, 0o644) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, c := serve(t)
			breaks(t, server, c)
			set, _, err := loader.Load(t.Context(), source(t, c), loader.Validation, loader.Filter{})
			refused := (*loader.SourceError)(nil)
			if !errors.As(err, &refused) || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "in the cache of the hub: ") {
				t.Errorf("%d tasks beside %d splits, %v", len(set.Tasks), len(set.Others), err)
			}
		})
	}
}

// Where only one split is to be had, validation goes on without the other; test does not, as validation's answers must
// be told from it.
func TestHubOneSplit(t *testing.T) {
	files := map[loader.Split]string{loader.Validation: parquet, loader.Test: "2023/test/metadata.parquet"}
	for name, away := range map[string]func(*hub.Server, *loader.HubConfig){
		"offline":  func(_ *hub.Server, c *loader.HubConfig) { c.Offline = true },
		"down":     func(s *hub.Server, _ *loader.HubConfig) { s.Fail(hub.Match{}, -1, hub.Answer(503, "text/html", "")) },
		"no token": func(_ *hub.Server, c *loader.HubConfig) { c.Token = "" },
		"gone":     func(s *hub.Server, _ *loader.HubConfig) { _ = s.Close() },
	} {
		for split, file := range files {
			t.Run(name+", "+string(split), func(t *testing.T) {
				server, c := serve(t)
				s := source(t, c)
				if _, err := s.Resolve(t.Context()); err != nil {
					t.Fatal(err)
				}
				rc, err := s.Open(t.Context(), first, file)
				if err != nil {
					t.Fatal(err)
				}
				_ = rc.Close()
				away(server, &c)
				set, _, err := loader.Load(t.Context(), source(t, c), split, loader.Filter{})
				switch split {
				case loader.Validation:
					if err != nil || set.Revision != first || len(set.Tasks) != 40 || set.Others != nil {
						t.Errorf("%d tasks at %q beside %d splits, %v", len(set.Tasks), set.Revision, len(set.Others), err)
					}
				default:
					if err == nil || !strings.Contains(err.Error(), "telling split test from split validation") || set.Tasks != nil {
						t.Errorf("%d tasks, %v", len(set.Tasks), err)
					}
				}
			})
		}
	}
}

// Whoever does what the error says of a damaged file, and no more, repairs it.
func TestHubDamageRepaired(t *testing.T) {
	for _, name := range []string{attachments(t)[0], attachments(t)[len(attachments(t))-1]} {
		for _, plain := range []bool{false, true} {
			_, c := serve(t)
			if _, err := read(t, c, name); err != nil {
				t.Fatal(err)
			}
			at := inCache(c, "snapshots", first, name)
			if plain {
				if err := os.Remove(at); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(at, []byte("other"), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := read(t, c, name)
			refused := (*loader.SourceError)(nil)
			if !errors.As(err, &refused) {
				t.Fatalf("plain %v: %v", plain, err)
			}
			path, ok := strings.CutPrefix(refused.Remedies[0], "remove ")
			path, more, _ := strings.Cut(path, " and start again")
			if info, err := os.Lstat(path); !ok || more == "" || err != nil || !info.Mode().IsRegular() {
				t.Fatalf("plain %v: %q, %v", plain, refused.Remedies, err)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if got, err := read(t, c, name); err != nil || !bytes.Equal(got, original(t, name)) {
				t.Errorf("plain %v: %d bytes, %v", plain, len(got), err)
			}
		}
	}
}

// A link to a blob that is not there is put right.
func TestHubRepairsLink(t *testing.T) {
	name := attachments(t)[0]
	_, c := serve(t)
	at := inCache(c, "snapshots", first, name)
	place(t, at, func(at string) error { return os.Symlink("../../../../blobs/"+strings.Repeat("a", 64), at) })
	if got, err := read(t, c, name); err != nil || !bytes.Equal(got, original(t, name)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if got, err := os.Readlink(at); err != nil || got != "../../../../blobs/"+largeDigest(t, name) {
		t.Errorf("links to %q, %v", got, err)
	}
}

// A file that lies in a snapshot without its digest is held against the commit's own, not against another's.
func TestHubDigestOfCommit(t *testing.T) {
	name := attachments(t)[0]
	server, c := serve(t)
	place(t, inCache(c, "snapshots", first, name), func(at string) error { return os.WriteFile(at, original(t, name), 0o644) })
	if _, err := read(t, c, name); err != nil {
		t.Fatal(err)
	}
	server.Fail(hub.Match{Method: "HEAD"}, -1, hub.Header("X-Repo-Commit", second))
	if _, err := read(t, c, name); err == nil || !strings.Contains(err.Error(), "asked for commit "+first+", the hub answers with "+second) {
		t.Errorf("got %v", err)
	}
}
