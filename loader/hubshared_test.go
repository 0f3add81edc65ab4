package loader_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/testkit/hub"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gofrs/flock"
)

// inCache is a path of the cache's folder for the repository.
func inCache(c loader.HubConfig, elem ...string) string {
	return filepath.Join(append([]string{c.Cache, "datasets--invented--tasks"}, elem...)...)
}

// largeDigest is the name of a large file's blob.
func largeDigest(t *testing.T, name string) string {
	t.Helper()
	sum := sha256.Sum256(original(t, name))
	return hex.EncodeToString(sum[:])
}

func lockOf(t *testing.T, c loader.HubConfig, name string) string {
	t.Helper()
	return filepath.Join(c.Cache, ".locks", "datasets--invented--tasks", largeDigest(t, name)+".lock")
}

// place makes the folders of a path and lets do make what is at its end.
func place(t *testing.T, at string, do func(at string) error) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := do(at); err != nil {
		t.Fatal(err)
	}
}

func pipe(at string) error { return syscall.Mkfifo(at, 0o666) }

// soon fails the test where do does not return, as one that waits for a pipe would not.
func soon(t *testing.T, do func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); do(ctx) }()
	select {
	case <-done:
		if ctx.Err() != nil {
			t.Error("waited until it was told to stop")
		}
	case <-ctx.Done():
		t.Fatal("waits for ever")
	}
}

// Where others can write to the cache, nothing in it is waited for, followed or written through.
func TestHubSharedCache(t *testing.T) {
	large := attachments(t)[0]
	digest := largeDigest(t, large)
	outside := filepath.Join(t.TempDir(), "outside")
	link := func(at string) error { return os.Symlink(outside, at) }
	cases := []struct {
		name string
		at   func(c loader.HubConfig) string
		make func(at string) error
		want string // of the error; "" = the file comes
	}{
		{"a pipe as the file", func(c loader.HubConfig) string { return inCache(c, "snapshots", first, large) }, pipe, "is not a regular file"},
		{"a pipe as the blob", func(c loader.HubConfig) string { return inCache(c, "blobs", digest) }, pipe, "is not a regular file"},
		{"a pipe as its beginning", func(c loader.HubConfig) string { return inCache(c, "blobs", digest+".incomplete") }, pipe, "is not a regular file"},
		{"a pipe as the lock", func(c loader.HubConfig) string { return lockOf(t, c, large) }, pipe, "is not a regular file"},
		{"a pipe as the branch", func(c loader.HubConfig) string { return inCache(c, "refs", "main") }, pipe, ""},
		{"a folder as the file", func(c loader.HubConfig) string { return inCache(c, "snapshots", first, large) },
			func(at string) error { return os.Mkdir(at, 0o755) }, "is not a regular file"},
		{"a link as its beginning", func(c loader.HubConfig) string { return inCache(c, "blobs", digest+".incomplete") }, link, "in the cache of the hub"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if err := os.WriteFile(outside, original(t, large), 0o644); err != nil {
				t.Fatal(err)
			}
			_, config := serve(t)
			place(t, c.at(config), c.make)
			for _, config.Offline = range []bool{false, true} {
				soon(t, func(ctx context.Context) {
					s := source(t, config)
					_, rerr := s.Resolve(ctx)
					rc, err := s.Open(ctx, first, large)
					if err == nil {
						_ = rc.Close()
					}
					refused := (*loader.SourceError)(nil)
					switch {
					case c.want == "" && (rerr != nil || err != nil):
						t.Errorf("offline %v: %v, %v", config.Offline, rerr, err)
					case c.want != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) && !(config.Offline && strings.Contains(err.Error(), "offline, and the cache has no"))):
						t.Errorf("offline %v: got %v, want %q", config.Offline, err, c.want)
					}
				})
			}
			if got, err := os.ReadFile(outside); err != nil || !bytes.Equal(got, original(t, large)) {
				t.Errorf("what is outside of the cache has %d bytes, %v", len(got), err)
			}
		})
	}
}

// A link to what has no digest for a name is followed only where the hub can say what the digest is.
func TestHubStrayLink(t *testing.T) {
	large := attachments(t)[0]
	outside := filepath.Join(t.TempDir(), "store", "ropes.xlsx")
	_, c := serve(t)
	place(t, inCache(c, "snapshots", first, large), func(at string) error { return os.Symlink(outside, at) })
	for _, tt := range []struct {
		content []byte
		offline bool
		want    string
	}{
		{original(t, large), false, ""},
		{original(t, large), true, "whose name is no digest to verify it by"},
		{[]byte("another"), false, "is not the file that the hub has"},
		{[]byte("another"), true, "whose name is no digest to verify it by"},
	} {
		place(t, outside, func(at string) error { return os.WriteFile(at, tt.content, 0o644) })
		c.Offline = tt.offline
		_, err := read(t, c, large)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%.10q, offline %v: %v, want %q", tt.content, tt.offline, err, tt.want)
		}
	}
}

// Offline, a branch that is a pipe is one that is not known.
func TestHubPipeAsBranch(t *testing.T) {
	_, c := serve(t)
	c.Offline = true
	place(t, inCache(c, "refs", "main"), pipe)
	soon(t, func(ctx context.Context) {
		if _, err := source(t, c).Resolve(ctx); err == nil || !strings.Contains(err.Error(), "offline, and the cache has no revision main") {
			t.Errorf("got %v", err)
		}
	})
}

// A pipe in a copy of the dataset is not waited for either.
func TestPipeInCopy(t *testing.T) {
	root := t.TempDir()
	if err := os.CopyFS(root, fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	set, _, err := loader.Load(t.Context(), loader.Dir(os.DirFS(root), "invented", "r1"), loader.Validation, loader.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range set.Tasks {
		if task.FileName == "" {
			continue
		}
		at := filepath.Join(root, "2023", "validation", task.FileName)
		if err := os.Remove(at); err != nil {
			t.Fatal(err)
		}
		place(t, at, pipe)
		soon(t, func(ctx context.Context) {
			if _, err := set.Attachment(ctx, task); err == nil || !strings.Contains(err.Error(), "not a regular file") {
				t.Errorf("got %v", err)
			}
		})
		return
	}
	t.Fatal("no task has an attachment")
}

// Whoever fetches the same file is waited for, with a notice, until that is given up.
func TestHubWaitsForLock(t *testing.T) {
	t.Parallel()
	large := attachments(t)[0]
	server, c := serve(t)
	at := lockOf(t, c, large)
	place(t, at, func(at string) error { return os.WriteFile(at, nil, 0o666) })
	other := flock.New(at)
	if err := other.Lock(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	told := ""
	c.Notice = func(s string) { told = s; cancel() }
	_, err := source(t, c).Open(ctx, first, large)
	if !errors.Is(err, context.Canceled) || told != "another process is fetching "+large+"; waiting for it" {
		t.Errorf("told %q, got %v", told, err)
	}
	for _, r := range server.Requests() {
		if r.CDN {
			t.Error("fetched what another process fetches")
		}
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := read(t, c, large); err != nil || !bytes.Equal(got, original(t, large)) {
		t.Errorf("after that: %d bytes, %v", len(got), err)
	}
}

// The cache is told once which commit a branch is: what others have told it since is newer.
func TestHubTellsRefOnce(t *testing.T) {
	names := attachments(t)
	server, c := serve(t)
	early, late := source(t, c), source(t, c)
	open := func(s loader.Source, commit, name, want string) {
		t.Helper()
		rc, err := s.Open(t.Context(), commit, name)
		if err != nil {
			t.Fatal(err)
		}
		_ = rc.Close()
		if got, err := os.ReadFile(inCache(c, "refs", "main")); err != nil || string(got) != want {
			t.Errorf("main is %q, %v, want %s", got, err, want)
		}
	}
	resolve := func(s loader.Source) {
		t.Helper()
		if _, err := s.Resolve(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(inCache(c, "refs", "main")); s == early && err == nil {
			t.Error("the cache is told of a commit of which it has no file")
		}
	}
	resolve(early)
	open(early, first, names[0], first)
	server.SetRef("main", second)
	resolve(late)
	open(late, second, names[0], second)
	open(early, first, names[1], second)
	server.Fail(hub.Match{}, -1, hub.Drop())
	if origin, err := source(t, c).Resolve(t.Context()); err != nil || origin.Revision != second {
		t.Errorf("without the hub main is %+v, %v", origin, err)
	}
}
