package loader_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/fixtures/hub"
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
