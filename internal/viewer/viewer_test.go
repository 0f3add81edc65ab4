package viewer

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/page"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/trajectory"
)

// rig is a server that runs, and a browser without a screen.
type rig struct {
	*Server
	t      testing.TB
	base   string
	client *http.Client
	stop   func() error
}

// start serves c until the test ends. The client has no cookie yet.
func start(t testing.TB, c Config) *rig {
	t.Helper()
	if c.Runs == nil {
		c.Runs = func() ([]page.RunRow, error) { return nil, nil }
	}
	c.Trust = func() (keyring.Trust, error) { return keyring.Trust{}, nil }
	c.Verify = verify.Env{Harness: func() (trajectory.Harness, error) { return harness, nil }, Incomplete: func(string, *rundir.Run) error { return errors.New("incomplete") }}
	logged := c.Log
	c.Log = func(line string) {
		if logged == nil {
			t.Error(line)
		} else {
			logged(line)
		}
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	r := &rig{Server: s, t: t, base: strings.TrimSuffix(s.Address(), tokenPath+"?t="+s.Token()), client: newClient(nil)}
	r.stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(10 * time.Second):
			return errors.New("the server does not end")
		}
	})
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// newClient returns a client with a jar for cookies that follows no redirect.
func newClient(roots *x509.CertPool) *http.Client {
	jar, _ := cookiejar.New(nil)
	return &http.Client{Jar: jar, Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// signIn trades the token.
func (r *rig) signIn() *rig {
	r.t.Helper()
	if res, body := r.get(r.Address()); res.StatusCode != http.StatusSeeOther {
		r.t.Fatalf("the token gives %d %s", res.StatusCode, body)
	}
	return r
}

// do sends a request, which path may begin with the base of, with pairs of headers.
func (r *rig) do(method, path string, headers ...string) (*http.Response, string) {
	r.t.Helper()
	if !strings.HasPrefix(path, "http") {
		path = r.base + path
	}
	req, err := http.NewRequest(method, path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		} else {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	res, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res, string(body)
}

func (r *rig) get(path string, headers ...string) (*http.Response, string) {
	r.t.Helper()
	return r.do("GET", path, headers...)
}

// TestToken: the printed address works once, for a browser that shows it.
func TestToken(t *testing.T) {
	r := start(t, Config{})
	address := r.Address()
	for _, refused := range []struct {
		name, method, path string
		headers            []string
		status             int
	}{
		{"no cookie", "GET", "/", nil, 403},
		{"no cookie for what is not there", "GET", "/nothing", nil, 403},
		{"another token", "GET", "/token?t=" + newSecret(), nil, 403},
		{"no token", "GET", "/token", nil, 403},
		{"a wrong name", "GET", address, []string{"Host", "evil.example"}, 403},
		{"a preview", "GET", address, []string{"Sec-Purpose", "prefetch;prerender"}, 503},
		{"an old preview", "GET", address, []string{"Purpose", "prefetch"}, 503},
		{"only headers", "HEAD", address, nil, 200},
		{"another method", "POST", address, nil, 405},
	} {
		res, body := r.do(refused.method, refused.path, refused.headers...)
		if res.StatusCode != refused.status || len(res.Cookies()) > 0 {
			t.Errorf("%s: %d %q with %v, want %d", refused.name, res.StatusCode, body, res.Cookies(), refused.status)
		}
	}
	res, _ := r.get(address)
	if res.StatusCode != 303 || res.Header.Get("Location") != openPath || res.Header.Get("Referrer-Policy") != "no-referrer" || len(res.Cookies()) != 1 {
		t.Fatalf("the token gives %d %v", res.StatusCode, res.Header)
	}
	if c := res.Cookies()[0]; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Secure || c.Domain != "" ||
		c.MaxAge != 0 || !strings.HasSuffix(r.base, ":"+strings.TrimPrefix(c.Name, "gaia-")) || len(c.Value) != 43 {
		t.Errorf("cookie %q", c)
	}
	if res, _ := r.get("/"); res.StatusCode != 200 {
		t.Errorf("the cookie gives %d", res.StatusCode)
	}
	if res, body := r.get(address); res.StatusCode != 403 || !strings.Contains(body, "gaia view --new-token") {
		t.Errorf("the token gives %d %q the second time", res.StatusCode, body)
	}
	other := *r
	other.client = newClient(nil)
	if res, _ := other.get("/", "Cookie", r.door.cookie+"="+newSecret()); res.StatusCode != 403 {
		t.Errorf("another cookie gives %d", res.StatusCode)
	}
	if r.Address() == address {
		t.Error("there is no further token")
	}
	if res, _ := other.get(r.Address()); res.StatusCode != 303 {
		t.Errorf("the further token gives %d", res.StatusCode)
	}
	if res, _ := r.get("/"); res.StatusCode != 200 {
		t.Errorf("the first cookie gives %d after another browser came", res.StatusCode)
	}
}

// TestHost: names that lead to this machine, but are not its own, are refused whatever else is right.
func TestHost(t *testing.T) {
	r := start(t, Config{}).signIn()
	port := r.base[strings.LastIndex(r.base, ":"):]
	at, _ := url.Parse(r.base)
	cookie := r.client.Jar.Cookies(at)[0].String()
	r.client = newClient(nil)
	for host, status := range map[string]int{
		"127.0.0.1" + port: 200, "localhost" + port: 200, "LOCALHOST" + port: 200, "[::1]" + port: 200,
		"127.0.0.1": 403, "localhost": 403, "127.0.0.1:80": 403, "127.0.0.2" + port: 403, "evil.example" + port: 403, "localhost.evil.example" + port: 403,
		"localhost." + port: 403, "127.0.0.1" + port + ".evil.example": 403, "user@127.0.0.1" + port: 403, "0.0.0.0" + port: 403, "[::ffff:127.0.0.1]" + port: 403,
	} {
		if res, _ := r.get("/", "Host", host, "Cookie", cookie); res.StatusCode != status {
			t.Errorf("%s gives %d, want %d", host, res.StatusCode, status)
		}
	}
	// What a client library would not send.
	for _, request := range []string{"GET / HTTP/1.0\r\n\r\n", "GET http://evil.example/ HTTP/1.1\r\nHost: 127.0.0.1" + port + "\r\n\r\n"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, request)
		if line, _ := bufio.NewReader(conn).ReadString('\n'); !strings.Contains(line, " 403 ") {
			t.Errorf("%q gives %q", request, line)
		}
	}
}

// TestForeign: pages of other servers, which may be on another port of this machine, embed nothing.
func TestForeign(t *testing.T) {
	r := start(t, Config{}).signIn()
	for _, tt := range []struct {
		site, mode string
		status     int
	}{
		{"none", "navigate", 200}, {"same-origin", "cors", 200}, {"same-site", "navigate", 200}, {"cross-site", "navigate", 200},
		{"same-site", "no-cors", 403}, {"cross-site", "no-cors", 403}, {"cross-site", "cors", 403}, {"same-site", "", 403},
	} {
		if res, _ := r.get("/", "Sec-Fetch-Site", tt.site, "Sec-Fetch-Mode", tt.mode); res.StatusCode != tt.status {
			t.Errorf("%s %s gives %d, want %d", tt.site, tt.mode, res.StatusCode, tt.status)
		}
	}
	r.client = newClient(nil)
	if res, _ := r.get(openPath, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"); res.StatusCode != 403 || res.Header.Get("Refresh") == "" {
		t.Errorf("after a link of another site: %d %v", res.StatusCode, res.Header)
	}
	if res, _ := r.get(openPath, "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate"); res.StatusCode != 403 || res.Header.Get("Refresh") != "" {
		t.Errorf("without a cookie: %d %v", res.StatusCode, res.Header)
	}
}

// TestTwoServers: two viewers have the same site for a browser, and do not disturb each other.
func TestTwoServers(t *testing.T) {
	a, b := start(t, Config{}), start(t, Config{})
	b.client = a.client
	a.signIn()
	if res, _ := b.get("/"); res.StatusCode != 403 {
		t.Errorf("the other one gives %d", res.StatusCode)
	}
	if res, _ := b.get("/token?t=" + a.Token()); res.StatusCode != 403 {
		t.Errorf("the token of one is %d to the other", res.StatusCode)
	}
	b.signIn()
	for _, r := range []*rig{a, b} {
		if res, _ := r.get("/"); res.StatusCode != 200 {
			t.Errorf("%s gives %d", r.base, res.StatusCode)
		}
	}
}

// TestPanic: a panic ends one request, and is reported where the server runs.
func TestPanic(t *testing.T) {
	logged := make(chan string, 1)
	var fail bool
	r := start(t, Config{Log: func(line string) { logged <- line }, Runs: func() ([]page.RunRow, error) {
		if fail {
			panic("of the test\x1b[2J")
		}
		return nil, nil
	}}).signIn()
	fail = true
	res, body := r.get("/")
	if line := <-logged; res.StatusCode != 500 || strings.Contains(body, "goroutine") || !strings.Contains(line, `of the test\u001b[2J`) {
		t.Errorf("%d %q, reported as %q", res.StatusCode, body, line)
	}
	fail = false
	if res, _ := r.get("/"); res.StatusCode != 200 {
		t.Errorf("after the panic: %d", res.StatusCode)
	}
}

// TestListen: what is no address of this machine alone must be named.
func TestListen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for address, want := range map[string]string{
		taken.Addr().String(): "is in use", "0.0.0.0:0": "every address", ":0": "every address", "[::]:0": "every address",
		"nonsense": "missing port", "127.0.0.1:99999": "listening on", "192.0.2.1:0": "listening on",
	} {
		s, err := New(Config{Listen: address})
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Listen()
		var hinted *exit.Error
		if !errors.As(err, &hinted) || hinted.Code != exit.Usage || len(hinted.Hints) == 0 || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q with a hint", address, err, want)
		}
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	reached := false
	for _, a := range addresses {
		ip, _, err := net.ParseCIDR(a.String())
		if err != nil || ip.IsLoopback() || ip.IsLinkLocalUnicast() {
			continue
		}
		address := net.JoinHostPort(ip.String(), "0")
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		reached = true
		s, _ := New(Config{})
		if own, err := s.Listen(); err != nil { // of which nothing follows for another listener
			t.Error(err)
		} else {
			own.Close()
		}
		if err := s.Serve(t.Context(), l); err == nil || !strings.Contains(err.Error(), "could reach") {
			t.Errorf("an address that was not named: %v", err)
		}
		r := start(t, Config{Listen: address})
		if r.Warning() == "" {
			t.Error("no warning without TLS")
		}
		if res, _ := r.signIn().get("/"); res.StatusCode != 200 {
			t.Errorf("the named address gives %d", res.StatusCode)
		}
	}
	if !reached {
		t.Log("this machine has no address that others reach")
	}
	if s, _ := New(Config{Listen: "localhost:0"}); s != nil {
		l, err := s.Listen()
		if err != nil || s.Warning() != "" || !strings.HasPrefix(s.Address(), "http://localhost:") {
			t.Errorf("localhost: %v, %q, %s", err, s.Warning(), s.Address())
		} else {
			l.Close()
		}
	}
}

// TestTLS: over TLS the cookie is for this host and TLS alone.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
	os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600)
	roots := x509.NewCertPool()
	parsed, _ := x509.ParseCertificate(der)
	roots.AddCert(parsed)
	r := start(t, Config{Listen: "localhost:0", Cert: cert, Key: keyFile})
	r.client = newClient(roots)
	res, _ := r.get(r.Address())
	if c := res.Cookies(); len(c) != 1 || !c[0].Secure || !strings.HasPrefix(c[0].Name, "__Host-gaia-") || c[0].Path != "/" {
		t.Errorf("cookie %v", c)
	}
	if res, _ := r.get("/"); res.StatusCode != 200 {
		t.Errorf("gives %d", res.StatusCode)
	}
	for _, c := range []Config{{Cert: cert}, {Key: keyFile}, {Cert: keyFile, Key: cert}, {Cert: cert, Key: filepath.Join(dir, "none")}} {
		if _, err := New(c); err == nil {
			t.Errorf("takes %q and %q", c.Cert, c.Key)
		}
	}
}

// TestNewAddresses: viewers that run are found, and what others have left is not taken for one.
func TestNewAddresses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gaia")
	if _, err := NewAddresses(dir); err == nil || !strings.Contains(err.Error(), "no viewer") {
		t.Errorf("without a viewer: %v", err)
	}
	a, b := start(t, Config{Control: dir}), start(t, Config{Control: dir})
	killed := filepath.Join(dir, "view-123.lock")
	for _, name := range []string{killed, strings.TrimSuffix(killed, lockSuffix) + addressSuffix} {
		if err := os.WriteFile(name, []byte(`{"address":"http://127.0.0.1:1/token?t=x","started":"2026-01-01T00:00:00Z"}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	find := func() (found map[string]bool) {
		t.Helper()
		found = map[string]bool{}
		for end := time.Now().Add(10 * time.Second); len(found) < 2 && time.Now().Before(end); { // both start just now
			all, err := NewAddresses(dir)
			if err != nil && !strings.Contains(err.Error(), "no viewer") {
				t.Fatal(err)
			}
			clear(found)
			for _, one := range all {
				found[one.Address] = true
			}
		}
		return found
	}
	if found := find(); !found[a.Address()] || !found[b.Address()] || len(found) != 2 {
		t.Errorf("found %v", found)
	}
	if _, err := os.Stat(killed); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a killed viewer left: %v", err)
	}
	used := a.Address()
	a.signIn()
	if found := find(); !found[a.Address()] || found[used] {
		t.Errorf("after the token was used: found %v", found)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
	}
	a.stop()
	b.stop()
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("the viewers left %v", entries)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := NewAddresses(dir); err == nil || !strings.Contains(err.Error(), "this user alone") {
		t.Errorf("a folder that others can read: %v", err)
	}
}

// TestTokensAtOnce: when several browsers sign in at once, and the server ends meanwhile, the address that is left is
// of the unused token, and none is left behind.
func TestTokensAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gaia")
	r := start(t, Config{Control: dir})
	trade := func() {
		req := httptest.NewRequest(http.MethodGet, r.Address(), nil)
		r.door.guard(http.NotFoundHandler(), func(line string) { t.Error(line) }).ServeHTTP(httptest.NewRecorder(), req)
	}
	var group sync.WaitGroup
	many := func() {
		for range 8 {
			group.Go(func() {
				for range 20 {
					trade()
				}
			})
		}
	}
	r.signIn()
	many()
	group.Wait()
	all, err := NewAddresses(dir)
	if err != nil || len(all) != 1 || all[0].Address != r.Address() {
		t.Errorf("left is %v, %v, and the address is %s", all, err, r.Address())
	}
	many()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	group.Wait()
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("the viewer left %v", entries)
	}
}
