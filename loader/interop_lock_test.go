package loader

import (
	"bufio"
	"context"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/canonical"
	fakehub "github.com/gaia-harness/gaia/internal/testkit/hub"
)

// A file that the Python client is fetching is not fetched beside it, and is taken from it when it is there.
func TestInteropLock(t *testing.T) {
	program := pythonWith(t, "huggingface_hub")
	s := serveFixtures(t, nil)
	cache, name := t.TempDir(), metadataFiles(Validation)[0]
	data, err := fs.ReadFile(fixtures.Dataset(), name)
	if err != nil {
		t.Fatal(err)
	}
	blob := canonical.Digest(data)[len("sha256:"):]
	cmd := exec.Command(program, filepath.Join("testdata", "hold_lock.py"),
		filepath.Join(cache, ".locks", "datasets--invented--tasks", blob+".lock"))
	release, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	if line, err := bufio.NewReader(said).ReadString('\n'); line != "locked\n" {
		t.Fatalf("Python says %q, %v", line, err)
	}

	src, err := Hub(HubConfig{Endpoint: s.URL, Repo: pyRepo, Revision: pyCommit, Cache: cache})
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		f, err := src.Open(context.Background(), pyCommit, name)
		if err == nil {
			err = f.Close()
		}
		opened <- err
	}()
	for len(s.Requests()) == 0 {
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-opened:
		t.Fatalf("the file was opened under the other's lock: %v", err)
	case <-time.After(300 * time.Millisecond): // long enough to fetch it, were it not for the lock
	}
	storage := filepath.Join(cache, "datasets--invented--tasks", "blobs")
	if err := os.MkdirAll(storage, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(storage, blob), data, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := release.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
	if slices.ContainsFunc(s.Requests(), func(r fakehub.Request) bool { return r.Method == http.MethodGet }) {
		t.Errorf("the file was fetched all the same: %+v", s.Requests())
	}
}
