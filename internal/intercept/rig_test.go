package intercept

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/guard"
	"github.com/gaia-harness/gaia/internal/origin"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

const (
	testQuestion = "Which harbour did the steamer Calluna leave on the morning of the second great storm?"
	testGold     = "Port Ellemere"
	runID        = "01JZ0000000000000000000RVN"
)

var headOfPlan = canonical.Digest([]byte("a plan"))

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// journal is a journal in memory, whose disk fails from the failAt-th sync on; 0: never. With a hold each sync waits for it.
type journal struct {
	mu     sync.Mutex
	lines  bytes.Buffer
	synced int
	failAt int
	hold   chan struct{}
	bodies map[string]string
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failAt > 0 && j.synced+1 >= j.failAt {
		return 0, errors.New("the disk is full")
	}
	return j.lines.Write(b)
}

func (j *journal) Sync() error {
	if j.hold != nil {
		<-j.hold
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.synced++; j.failAt > 0 && j.synced >= j.failAt {
		return errors.New("the disk is full")
	}
	return nil
}

func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines.String()
}

// rig is a proxy on a Unix socket, between clients and servers of this machine.
type rig struct {
	t       testing.TB
	journal *journal
	rec     *trajectory.Attempt
	proxy   *Proxy
	plan    plan.Plan
	socket  string
	origins *origin.Index
}

type settings struct {
	Config
	attempt    Attempt
	journal    *journal
	exceptions map[string]string
	bounds     func(*bounds)
	ctx        context.Context
	redact     trajectory.Redactor
	hashes     bool
	prepare    func(*guard.Guard)
}

// servers is the authority of the servers of tests.
var servers = sync.OnceValue(func() *Authority {
	a, err := NewAuthority(time.Now())
	if err != nil {
		panic(err)
	}
	return a
})

func pool(a *Authority) *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.root)
	return p
}

// serve serves a handler for a host and returns the address that its exception leads to.
func serve(t testing.TB, scheme, host string, h http.Handler) (address string) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = discard
	if scheme == "https" {
		config, err := servers().config(host)
		must(t, err)
		s.TLS = config.Clone()
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// raw serves connections by hand. With TLS where host is not "".
func raw(t testing.TB, host string, serve func(c net.Conn, request *http.Request)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	if host != "" {
		config, err := servers().config(host)
		must(t, err)
		config = config.Clone()
		config.NextProtos = nil
		l = tls.NewListener(l, config)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					serve(c, r)
				}
			}()
		}
	}()
	return l.Addr().String()
}

// newRig serves the proxy of an attempt. Servers are reached as exceptions: "host:port" with the address.
func newRig(t testing.TB, exceptions map[string]string, change func(*settings)) *rig {
	t.Helper()
	authority, err := NewAuthority(time.Now())
	must(t, err)
	s := settings{journal: &journal{}, exceptions: exceptions, ctx: context.Background(), Config: Config{Authority: authority, Roots: pool(servers()), Now: time.Now, Dir: t.TempDir()},
		redact: trajectory.NewRedactor(nil, "hunter2-invented")}
	r := &rig{t: t, origins: origin.New()}
	s.attempt = Attempt{Origins: r.origins, Probe: probe.New(probe.Target{TaskID: "fab1e001-0000-4000-8000-000000000001", Question: testQuestion, Gold: testGold})}
	s.attempt.Decide = func(url string) policy.Decision {
		return policy.DecideURL(policy.Policy{Mode: policy.Autonomous}, "fab1e001-0000-4000-8000-000000000001", url)
	}
	if change != nil {
		change(&s)
	}
	s.Guard = guard.New(s.exceptions, "")
	if s.prepare != nil {
		s.prepare(s.Guard)
	}
	r.journal = s.journal
	r.plan = plan.New()
	r.plan.RunID, r.plan.Agent = runID, &plan.AgentPlan{Network: plan.NetworkRecord}
	r.plan.Govern(policy.Policy{Mode: policy.Autonomous, MaxToolCalls: policy.Unlimited, MaxCostMicroUSD: policy.Unlimited})
	r.plan.Tasks = []plan.PlannedTask{{TaskID: "task", Level: 1}}
	began := time.Now()
	config := trajectory.LogConfig{RunID: runID, Now: time.Now, Mono: func() time.Duration { return time.Since(began) }, Rand: rand.Reader}
	if s.attempt.Full {
		s.journal.bodies = map[string]string{}
		config.Bodies = func(bodies []trajectory.Body) error {
			for _, b := range bodies {
				s.journal.bodies[b.SHA256] = b.Text
			}
			return nil
		}
	}
	log, err := trajectory.NewLog(s.journal, trajectory.End{Head: headOfPlan}, config)
	must(t, err)
	r.rec = &trajectory.Attempt{Log: log, TaskID: "task", Number: 1, Known: trajectory.NewKnownTexts(nil, false), Redact: s.redact, Hashes: s.hashes}
	_, err = log.Enqueue(trajectory.Draft{Payload: trajectory.RunStarted{GuidanceHash: r.plan.GuidanceHash, Harness: r.plan.Harness, ManifestSHA256: headOfPlan,
		PolicyHash: r.plan.PolicyHash, PolicyMode: r.plan.PolicyMode}})
	must(t, err)
	_, err = r.rec.Enqueue(0, trajectory.TaskStarted{Question: testQuestion, Workspace: []trajectory.File{}})
	must(t, err)
	s.attempt.Rec = r.rec
	r.proxy = New(s.ctx, s.Config, s.attempt)
	if s.bounds != nil {
		s.bounds(&r.proxy.bounds)
	}
	t.Cleanup(r.proxy.Close)
	r.socket = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", r.socket)
	must(t, err)
	outer := &http.Server{Handler: r.proxy, MaxHeaderBytes: MaxHeader, ErrorLog: discard}
	go func() { _ = outer.Serve(l) }()
	t.Cleanup(func() { outer.Close() })
	return r
}

// client returns one that asks through the proxy, with HTTP/2 in tunnels or without.
func (r *rig) client(h2 bool) *http.Client {
	transport := &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy"}), DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", r.socket)
		},
		TLSClientConfig: &tls.Config{RootCAs: pool(r.proxy.Authority)}, DisableCompression: true, ForceAttemptHTTP2: h2, MaxIdleConnsPerHost: 128,
		ExpectContinueTimeout: time.Minute,
	}
	if !h2 {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	r.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// get asks for an address and returns the status and the whole body; 0 is a connection that was cut before its end.
func (r *rig) get(c *http.Client, address string) (status int, body string) {
	r.t.Helper()
	res, err := c.Get(address)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, string(b)
	}
	return res.StatusCode, string(b)
}

// dial connects to the proxy. What is sent with a tunnel is sent at once with it.
func (r *rig) dial(send string) net.Conn {
	r.t.Helper()
	c, err := net.Dial("unix", r.socket)
	must(r.t, err)
	r.t.Cleanup(func() { c.Close() })
	_, err = io.WriteString(c, send)
	must(r.t, err)
	must(r.t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	return c
}

// tunnel connects to a host in a tunnel, with TLS.
func (r *rig) tunnel(hostPort string, config *tls.Config) (*tls.Conn, error) {
	r.t.Helper()
	c := r.dial("CONNECT " + hostPort + " HTTP/1.1\r\nHost: " + hostPort + "\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReaderSize(c, 16), nil)
	if err != nil || res.StatusCode != 200 {
		return nil, fmt.Errorf("CONNECT: %v, %v", res, err)
	}
	if config == nil {
		host, _, _ := net.SplitHostPort(hostPort)
		config = &tls.Config{ServerName: host, RootCAs: pool(r.proxy.Authority)}
	}
	secure := tls.Client(c, config)
	return secure, secure.Handshake()
}

// events returns what is durable, after a check of its chain.
func (r *rig) events() []trajectory.Event {
	r.t.Helper()
	var events []trajectory.Event
	_, tail, err := trajectory.ReadJournal(strings.NewReader(r.journal.text()), runID, headOfPlan, func(e trajectory.Event, _ []byte) error {
		events = append(events, e)
		return nil
	})
	if err != nil || tail != nil {
		r.t.Errorf("reading the journal: %v, %v", tail, err)
	}
	return events
}

// of returns the payloads of one type that are durable.
func of[P trajectory.Payload](r *rig) (found []P) {
	r.t.Helper()
	for _, e := range r.events() {
		if p, ok := e.Payload.(P); ok {
			found = append(found, p)
		}
	}
	return found
}

// completed returns the exchange that is completed last.
func (r *rig) completed() trajectory.ExchangeCompleted {
	r.t.Helper()
	all := of[trajectory.ExchangeCompleted](r)
	if len(all) == 0 {
		r.t.Fatal("no exchange is completed")
	}
	return all[len(all)-1]
}

// codes returns those of what was refused.
func (r *rig) codes() (codes []string) {
	for _, p := range of[trajectory.RequestRefused](r) {
		codes = append(codes, p.Code)
	}
	slices.Sort(codes)
	return codes
}

// finish closes the proxy and ends the attempt, and checks that the journal folds.
func (r *rig) finish() {
	r.t.Helper()
	r.proxy.Close()
	must(r.t, r.rec.Append(0, trajectory.AttemptEnded{Agent: &trajectory.AgentEnd{Ended: trajectory.AgentExited, Refused: r.rec.Refused()}, Outcome: trajectory.NoAnswer, Reason: "it gave none"}))
	fold := rundir.NewFold(r.plan, headOfPlan, nil)
	if _, _, err := trajectory.ReadJournal(strings.NewReader(r.journal.text()), runID, headOfPlan, fold.Add); err != nil {
		r.t.Fatalf("the journal does not fold: %v", err)
	}
}

// waitForBody waits until memory is set aside for a request.
func (r *rig) waitForBody() {
	for r.proxy.bodies.TryAcquire(maxBodies) {
		r.proxy.bodies.Release(maxBodies)
		time.Sleep(time.Millisecond)
	}
}
