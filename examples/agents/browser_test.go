package agents

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/testkit/long"
)

// TestQuietBrowser: with the options of the recipe, and those of Playwright without which it asks for the time, Chromium asks for
// the page and its icon alone; without them for more.
func TestQuietBrowser(t *testing.T) {
	const program = "/usr/lib/chromium/chromium"
	long.OnlyThorough(t)
	if _, err := os.Stat(program); err != nil {
		t.Skipf("there is no %s: apt install chromium", program)
	}
	source, err := os.ReadFile("browser/main.py")
	if err != nil {
		t.Fatal(err)
	}
	var options []string
	for _, found := range regexp.MustCompile(`"(--[^"]+)"`).FindAllStringSubmatch(string(source), -1) {
		options = append(options, found[1])
	}
	if len(options) != 2 {
		t.Fatalf("main.py has the options %q", options)
	}
	playwright := []string{"--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-client-side-phishing-detection",
		"--disable-component-extensions-with-background-pages", "--disable-extensions", "--disable-sync", "--metrics-recording-only", "--no-first-run", "--disable-features=NetworkTimeServiceQuerying"}
	var both sync.WaitGroup
	for _, quiet := range []bool{true, false} {
		both.Go(func() {
			var mu sync.Mutex
			var asked []string
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				asked = append(asked, r.Host)
				mu.Unlock()
				if r.Host != "page.example" {
					w.WriteHeader(http.StatusForbidden)
				}
			}))
			defer proxy.Close()
			args := slices.Concat(playwright, []string{"--headless", "--no-sandbox", "--remote-debugging-port=0", "--user-data-dir=" + t.TempDir(), "--proxy-server=" + proxy.URL})
			if quiet {
				args = append(args, options...)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // it asks for updates after some seconds
			defer cancel()
			cmd := exec.CommandContext(ctx, program, append(args, "http://page.example/")...)
			cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
			cmd.WaitDelay = time.Second
			said, _ := cmd.CombinedOutput()
			mu.Lock()
			defer mu.Unlock()
			others := slices.DeleteFunc(slices.Clone(asked), func(host string) bool { return host == "page.example" })
			if len(others) == len(asked) || quiet != (len(others) == 0) {
				t.Errorf("quiet %t: it asked %s\n%.1000s", quiet, strings.Join(asked, " "), said)
			}
		})
	}
	both.Wait()
}
