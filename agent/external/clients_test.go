package external

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gaia-harness/gaia/internal/guard"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
)

// client is a program that fetches the page $1 and prints it, without any option about proxies or certificates.
type client struct {
	name, command string
	program       string // that it needs; "": none
}

// TestClients: the clients of a plain Debian fetch a page over TLS by the recorded network, without options, and nothing beside
// it.
func TestClients(t *testing.T) {
	clients := []client{
		{"curl", `curl -sS "$1"`, "/usr/bin/curl"},
		{"wget", `wget -t 1 -q -O - "$1"`, "/usr/bin/wget"},
		{"git", `rm -rf repo; git clone -q "${1%/*}/git/repo" repo && cat repo/page`, "/usr/bin/git"},
		{"urllib", `/usr/bin/python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())' "$1"`, "/usr/bin/python3"},
		{"go", `"$GO_CLIENT" agent fetch "$1"`, ""},
	}
	if out, err := exec.Command("/usr/bin/node", "-p", "const [a, b] = process.versions.node.split('.'); a > 23 || a == 22 && b > 20").Output(); err == nil && string(out) == "true\n" {
		clients = append(clients, nodeClient("/usr/bin/node"))
	}
	tryClients(t, clients)
}

// TestInteropClients: those of packages do, too, which 'make interop' installs, and Chromium.
func TestInteropClients(t *testing.T) {
	var clients []client
	if python := os.Getenv("GAIA_CLIENTS"); python != "" {
		clients = append(clients,
			client{"requests", python + ` -c 'import sys, requests; print(requests.get(sys.argv[1]).text)' "$1"`, python},
			client{"httpx", python + ` -c 'import sys, httpx; print(httpx.get(sys.argv[1]).text)' "$1"`, python},
			client{"aiohttp", python + ` -c '
import asyncio, sys, aiohttp
async def main():
    async with aiohttp.ClientSession(trust_env=True) as session, session.get(sys.argv[1]) as reply:
        print(await reply.text())
asyncio.run(main())' "$1"`, python})
	}
	if node := os.Getenv("GAIA_NODE"); node != "" {
		clients = append(clients, nodeClient(node))
	}
	if os.Getenv("GAIA_INTEROP") == "1" {
		clients = append(clients, client{"chromium", `/usr/lib/chromium/chromium --headless --no-sandbox --dump-dom "$1"`, "/usr/lib/chromium/chromium"},
			client{"chromium-told", `/usr/lib/chromium/chromium --headless --no-sandbox --proxy-server="$PROXY" --dump-dom "$1"`, "/usr/lib/chromium/chromium"})
	}
	if len(clients) == 0 {
		t.Skip("SKIPPED: no clients were installed, so none was tried: run make interop, or set GAIA_CLIENTS, GAIA_NODE and GAIA_INTEROP=1")
	}
	tryClients(t, clients)
}

func nodeClient(node string) client {
	return client{"node", node + ` -e 'fetch(process.argv[1]).then(r => r.text()).then(console.log)' "$1"`, node}
}

// fetchAgent is a client in Go.
func fetchAgent() error {
	r, err := http.Get(os.Args[3])
	if err != nil {
		return err
	}
	defer r.Body.Close()
	_, err = io.Copy(os.Stdout, r.Body)
	return err
}

// tryClients lets one agent use all clients: each with the recorded network, and then past its proxy by the name of the host, by
// a public address and by the server's own address.
func tryClients(t *testing.T, clients []client) {
	t.Parallel()
	s := confined(t)
	clients = slices.DeleteFunc(clients, func(c client) bool {
		_, err := os.Stat(c.program)
		if c.program != "" && err != nil {
			t.Logf("SKIPPED: %s is not tried, since there is no %s", c.name, c.program)
		}
		return c.program != "" && err != nil
	})
	files := t.TempDir()
	bareRepository(t, filepath.Join(files, "repo"))
	var mu sync.Mutex
	asked := map[string]int{}
	site := http.NewServeMux()
	site.HandleFunc("/{name}", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.PathValue("name")]++
		mu.Unlock()
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<title>t</title><body>page of <script>document.body.append('%s')</script>%[1]s", r.PathValue("name"))
	})
	site.Handle("/git/", http.StripPrefix("/git/", http.FileServer(http.Dir(files))))
	server := httptest.NewTLSServer(site)
	defer server.Close()
	address := server.Listener.Addr().String()

	script := `proxies='http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NODE_USE_ENV_PROXY'
PROXY=$https_proxy
host=https://pages.example.com
`
	for _, c := range clients {
		script += fmt.Sprintf("fetch() {\n%s\n}\nfetch $host/%s >%[2]s.out 2>%[2]s.err\n(unset $proxies; PROXY=direct://\n"+
			"for at in $host https://192.0.2.7 https://%[3]s; do fetch $at/past; done) >%[2]s.past 2>&1\n", c.command, c.name, address)
	}
	script += "curl -sS --cacert pinned.pem $host/pinned >pinned.out; echo done >ANSWER\n"
	b := newBench(t, script, func(b *bench) {
		b.Sandbox, b.Plan.Network, b.Env = s, plan.NetworkRecord, []string{"GO_CLIENT=" + b.Shim}
		b.Plan.MemoryBytes, b.Plan.Processes, b.Plan.TimeoutMs = 4<<30, 256, 300_000
		for _, c := range clients {
			for _, folder := range ownFolders(c.program) {
				if !slices.ContainsFunc(b.Plan.Folders, func(f plan.AgentFolder) bool { return f.Path == folder }) {
					b.Plan.Folders = append(b.Plan.Folders, plan.AgentFolder{Path: folder})
				}
			}
		}
		b.Network.Guard, b.Network.Roots = guard.New(map[string]string{"pages.example.com:443": address}, ""), x509.NewCertPool()
		b.Network.Guard.Offline = true
		b.Network.Roots.AddCert(server.Certificate())
	})
	pinned := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	must(t, os.WriteFile(filepath.Join(b.Workspace, "pinned.pem"), pinned, 0o644))
	answer, err := b.solve()
	must(t, err)
	if answer.Text != "done" {
		t.Fatalf("%+v; %+v", answer, answer.End)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(b.Workspace, name))
		must(t, err)
		return string(text)
	}
	done := map[int]trajectory.ExchangeCompleted{}
	for _, x := range of[trajectory.ExchangeCompleted](b) {
		done[x.Number] = x
	}
	recorded := map[string]bool{}
	for _, x := range of[trajectory.ExchangeStarted](b) {
		if d := done[x.Number]; d.Status == 200 && d.Bytes > 0 && d.SHA256 != "" {
			recorded[x.URL] = true
		}
	}
	for _, c := range clients {
		path := c.name
		if c.name == "git" {
			path = "git/repo/info/refs?service=git-upload-pack"
		}
		if out := read(c.name + ".out"); !strings.Contains(out, "page of") || !strings.Contains(out, c.name) || !recorded["https://pages.example.com/"+path] {
			t.Errorf("%s gets %q, and says %q", c.name, out, read(c.name+".err"))
		}
		if past := read(c.name + ".past"); strings.Contains(past, "page of") {
			t.Errorf("%s gets past the proxy: %s", c.name, past)
		}
		if strings.HasPrefix(c.name, "chromium") && !strings.Contains(read(c.name+".out"), c.name+c.name) {
			t.Errorf("the script of the page did not run: %s", read(c.name+".out"))
		}
	}
	if out := read("pinned.out"); out != "" || asked["pinned"]+asked["past"] > 0 {
		t.Errorf("the server was asked %v, and a client that pins got %q", asked, out)
	}
	if r := of[trajectory.RequestRefused](b); !slices.ContainsFunc(r, func(r trajectory.RequestRefused) bool {
		return r.Code == "tls_refused" && r.Path == "CONNECT pages.example.com:443"
	}) {
		t.Errorf("the client that pins is not counted: %+v", r)
	}
	if c := answer.End.Confined; c == nil || c.NoRoute == 0 || c.Unheard == 0 {
		t.Errorf("what went past the proxy was not counted: %+v", c)
	}
}

// ownFolders returns the folders above bin of a program and of what it is a link to, but for those below /usr.
func ownFolders(program string) (folders []string) {
	real, err := filepath.EvalSymlinks(program)
	if err != nil || program == "" {
		return nil
	}
	for _, path := range []string{program, real} {
		if !strings.HasPrefix(path, "/usr/") {
			folders = append(folders, filepath.Dir(filepath.Dir(path)))
		}
	}
	return folders
}

// bareRepository makes a repository with the file page that can be cloned from a plain web server.
func bareRepository(t *testing.T, folder string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		return
	}
	work := t.TempDir()
	must(t, os.WriteFile(filepath.Join(work, "page"), []byte("page of git\n"), 0o644))
	for _, args := range [][]string{{"init", "-q", work}, {"-C", work, "add", "page"},
		{"-C", work, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "a"}, {"clone", "-q", "--bare", work, folder}, {"-C", folder, "update-server-info"}} {
		cmd := exec.Command("git", args...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + work, "GIT_CONFIG_NOSYSTEM=1"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
}
