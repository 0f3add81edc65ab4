package external

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/guard"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/trajectory"
)

// networked gives an agent the recorded network, with the host example.com, which says the path that it is asked for. The path
// /wait is never answered.
func networked(b *bench) {
	b.Sandbox, b.Plan.Network = confined(b), plan.NetworkRecord
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			<-r.Context().Done()
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<p id=x>page %s %s</p><script>document.title = document.getElementById('x').innerText + ' by a script'</script>", r.Method, r.URL.Path)
	})
	plain, secure := httptest.NewServer(h), httptest.NewTLSServer(h)
	b.Cleanup(plain.Close)
	b.Cleanup(secure.Close)
	b.Network.Guard = guard.New(map[string]string{"example.com:80": plain.Listener.Addr().String(), "example.com:443": secure.Listener.Addr().String()}, "")
	b.Network.Guard.Offline, b.Network.Roots = true, x509.NewCertPool()
	b.Network.Roots.AddCert(secure.Certificate())
}

// TestNetwork: what an agent asks of the recorded network is recorded, and what goes past it reaches nothing and is counted.
func TestNetwork(t *testing.T) {
	for name, c := range map[string]struct {
		script    string
		tools     string // plan.AgentToolsGate if ""
		answer    string
		exchanges []string // method and address, sorted
		refused   []string // codes, sorted
		past      bool     // something went past the proxy
	}{
		"curl": {script: "curl -sS http://example.com/a https://example.com/b -d x=1 >ANSWER", answer: "page POST /apage POST /b",
			exchanges: []string{"POST http://example.com/a", "POST https://example.com/b"}},
		"without tools": {script: "curl -sS https://example.com/a >ANSWER", tools: plan.AgentToolsNone, answer: "page GET /a", exchanges: []string{"GET https://example.com/a"}},
		"no variables": {script: "for p in curl\\ -sS wget\\ -qO-; do env -i https_proxy=$https_proxy $p https://example.com/$p; done >ANSWER", answer: "page GET /curlpage GET /wget",
			exchanges: []string{"GET https://example.com/curl", "GET https://example.com/wget"}},
		"the model and tools go past the proxy": {script: ask + submit + "ask; submit 42", answer: "42"},
		"private addresses": {script: "for u in http://10.0.0.1/ https://10.0.0.1/ http://localhost/ http://metadata.internal/; do curl -sS --noproxy '' $u; done; echo 1 >ANSWER", answer: "1",
			refused: slices.Repeat([]string{"private_address"}, 4)},
		"past the proxy": {script: "curl -sS --noproxy '*' https://192.0.2.1/; curl -sS --noproxy '*' https://example.com/; echo 1 >ANSWER", answer: "1", past: true},
		"no HTTP": {script: "(echo CONNECT example.com:443 HTTP/1.1; echo; echo SSH-2.0-x) | timeout 5 curl -sS telnet://127.0.0.1:4181; echo 1 >ANSWER", answer: "1",
			refused: []string{"not_http"}},
		"another authority": {script: "curl -sS --cacert QUESTION.md https://example.com/; echo 1 >ANSWER", answer: "1", refused: []string{"tls_refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.script, func(b *bench) {
				networked(b)
				if c.tools != "" {
					b.Plan.Tools = c.tools
				}
			})
			answer, err := b.solve()
			text := strings.NewReplacer("<p id=x>", "", "</p><script>document.title = document.getElementById('x').innerText + ' by a script'</script>", "").Replace(answer.Text)
			if err != nil || text != c.answer {
				t.Fatalf("%q, %+v, %v; %+v", text, answer, err, answer.End)
			}
			var exchanges, refused []string
			for i, x := range of[trajectory.ExchangeStarted](b) {
				exchanges = append(exchanges, x.Method+" "+x.URL)
				if x.Number != i+1 {
					t.Errorf("exchange %d has the number %d", i+1, x.Number)
				}
			}
			for _, x := range of[trajectory.ExchangeCompleted](b) {
				if x.Status != 200 || x.Error != "" || x.SHA256 == "" || x.Probes != nil && x.Probes.GoldHits > 0 {
					t.Errorf("%+v", x)
				}
			}
			for _, r := range of[trajectory.RequestRefused](b) {
				refused = append(refused, r.Code)
			}
			slices.Sort(exchanges)
			slices.Sort(refused)
			if !slices.Equal(exchanges, c.exchanges) || !slices.Equal(refused, c.refused) || answer.End.Refused != len(refused) {
				t.Errorf("exchanges %q, refused %q; %+v", exchanges, refused, answer.End)
			}
			if k := answer.End.Confined; k == nil || !k.Ended || !k.Isolated || (k.NoRoute > 0) != c.past || (k.Unheard > 0) != c.past {
				t.Errorf("confined: %+v", k)
			}
		})
	}
}

// TestNetworkVariables: a user passes on no variable that leads clients to the recorded network.
func TestNetworkVariables(t *testing.T) {
	for _, v := range networkVariables() {
		name, value, _ := strings.Cut(v, "=")
		if value == "" || !plan.SetForAgent(name, plan.NetworkRecord) || plan.SetForAgent(name, plan.NetworkNone) {
			t.Error(v)
		}
	}
}

// TestNetworkAttacks: an agent that leaves connections half open, floods the port, or waits for what does not come, ends at its
// deadline like any other, and what it asked is recorded.
func TestNetworkAttacks(t *testing.T) {
	if _, err := exec.LookPath("/usr/bin/python3"); err != nil {
		t.Skip("the system has no python3")
	}
	const python = `/usr/bin/python3 -c "
import os, resource, socket, time
def begin(text):
    s = socket.create_connection(('127.0.0.1', 4181), 5)
    s.sendall(text)
    held.append(s)
held = []
$1"`
	for name, c := range map[string]struct {
		script    string
		exchanges int
	}{
		"half-open":    {"begin(b'GET http://example.com/ HTT'); begin(b'CONNECT example.com:443 HTTP/1.1\\r\\n\\r\\n\\x16\\x03\\x01'); begin(b'')\nopen('ANSWER', 'w').write('1')\ntime.sleep(600)", 0},
		"body":         {"begin(b'POST http://example.com/ HTTP/1.1\\r\\nHost: example.com\\r\\nContent-Length: 10\\r\\n\\r\\nabc')\nopen('ANSWER', 'w').write('1')\ntime.sleep(600)", 0},
		"under way":    {"begin(b'GET http://example.com/wait HTTP/1.1\\r\\nHost: example.com\\r\\n\\r\\n')\nopen('ANSWER', 'w').write('1')\ntime.sleep(600)", 1},
		"flood":        {"open('ANSWER', 'w').write('1')\nwhile True:\n    try: begin(os.urandom(64))\n    except OSError:\n        del held[:100]", 0},
		"a dead shim":  {"begin(b'GET http://example.com/wait HTTP/1.1\\r\\nHost: example.com\\r\\n\\r\\n')\nopen('ANSWER', 'w').write('1')\nos.kill(os.getppid(), 9)\nos.kill(2, 9)", -1},
		"no shutdown":  {"begin(b'GET http://example.com/wait HTTP/1.1\\r\\nHost: example.com\\r\\n\\r\\n')\nopen('ANSWER', 'w').write('1')\nif os.fork() == 0: os.setsid(); time.sleep(600)\nos._exit(0)", -1},
		"spoken twice": {"for i in range(20): begin(b'GET http://example.com/%d HTTP/1.1\\r\\nHost: example.com\\r\\n\\r\\n' % i * 3)\nfor s in held: s.recv(1)\nopen('ANSWER', 'w').write('1')\ntime.sleep(600)", -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			b := newBench(t, strings.Replace(python, "$1", c.script, 1), func(b *bench) {
				networked(b)
				b.Plan.TimeoutMs = 2000
			})
			answer, err := b.solve() // all of its journal folds: each exchange that began is completed
			if err != nil || answer.Text != "1" || answer.End.Confined == nil || !answer.End.Confined.Ended {
				t.Fatalf("%+v, %v, %+v", answer, err, answer.End)
			}
			if n := len(of[trajectory.ExchangeStarted](b)); n != c.exchanges && c.exchanges >= 0 || n != len(of[trajectory.ExchangeCompleted](b)) {
				t.Errorf("%d exchanges", n)
			}
		})
	}
}

// TestNetworkNotRecorded: when an exchange cannot be recorded, the agent is killed, also where it asks for nothing more.
func TestNetworkNotRecorded(t *testing.T) {
	for name, script := range map[string]string{
		"plain":    "echo 1 >ANSWER; while :; do curl -sS http://example.com/; done",
		"tunnel":   "echo 1 >ANSWER; for i in 1 2 3 4 5 6 7 8; do curl -sS https://example.com/; done; " + forever,
		"refusals": "echo 1 >ANSWER; for i in 1 2 3 4 5 6 7 8 9; do curl -sS https://10.0.0.1/; done; " + forever,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, script, func(b *bench) {
				networked(b)
				b.journal.failAt, b.Plan.TimeoutMs = 7, time.Hour.Milliseconds()
			})
			answer, err := b.solve()
			if !errors.Is(err, trajectory.ErrNotRecorded) || answer.Found {
				t.Errorf("%+v, %v", answer, err)
			}
			if left, err := os.ReadDir(b.SocketDir); err != nil || len(left) > 0 {
				t.Errorf("left are %v, %v", left, err)
			}
		})
	}
}

// TestChromium: an unmodified Chromium accepts the certificates of the recorded network, runs scripts, and shows what a wrong
// certificate is.
func TestChromium(t *testing.T) {
	long.NotRaced(t)
	long.OnlyThorough(t)
	const chromium = "/usr/bin/chromium"
	if _, err := os.Stat(chromium); err != nil {
		t.Skip("the system has no Chromium")
	}
	b := newBench(t, "chromium --headless --no-sandbox --disable-gpu --proxy-server=http://127.0.0.1:4181 --dump-dom https://example.com/page >ANSWER", func(b *bench) {
		networked(b)
		b.Plan.MemoryBytes, b.Plan.Processes = 8<<30, 256
	})
	answer, err := b.solve()
	if err != nil || !strings.Contains(answer.Text, "<title>page GET /page by a script</title>") {
		t.Errorf("%+v, %v, %+v", answer, err, answer.End)
	}
	if x := of[trajectory.ExchangeStarted](b); !slices.ContainsFunc(x, func(x trajectory.ExchangeStarted) bool { return x.URL == "https://example.com/page" }) {
		t.Errorf("%+v", x)
	}
	t.Logf("refused %+v; %+v", of[trajectory.RequestRefused](b), answer.End)
}
