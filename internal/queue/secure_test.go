package queue

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
)

// certificate writes a certificate of this machine that signs itself, and its key.
func certificate(t *testing.T) (cert, key string, ca []byte) {
	t.Helper()
	pair, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "queue"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(198, 18, 0, 1), net.IPv4(198, 18, 1, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(crand.Reader, template, template, &pair.PublicKey, pair)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(pair)
	if err != nil {
		t.Fatal(err)
	}
	ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for path, data := range map[string][]byte{cert: ca, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key, ca
}

func nkey(t *testing.T) (public string, seed []byte) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	if public, err = pair.PublicKey(); err == nil {
		seed, err = pair.Seed()
	}
	if err != nil {
		t.Fatal(err)
	}
	return public, seed
}

// TestStartRefuses: off loopback there is no server without TLS and NKeys, and nowhere one whose files are not right.
func TestStartRefuses(t *testing.T) {
	t.Parallel()
	cert, key, _ := certificate(t)
	public, seed := nkey(t)
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close() }()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no TLS":           {func(o *Options) { o.Listen, o.Workers = "0.0.0.0:0", []string{public} }, "needs TLS"},
		"no NKeys":         {func(o *Options) { o.Listen, o.CertFile, o.KeyFile = "0.0.0.0:0", cert, key }, "public NKeys of its workers"},
		"a name":           {func(o *Options) { o.Listen = "host.example:0" }, "needs TLS"},
		"no host":          {func(o *Options) { o.Listen = ":4222" }, "give HOST:PORT"},
		"no port":          {func(o *Options) { o.Listen = "127.0.0.1" }, "no address to listen on"},
		"a seed as NKey":   {func(o *Options) { o.Workers = []string{string(seed)} }, "is not a public NKey"},
		"no such file":     {func(o *Options) { o.CertFile, o.KeyFile = "/nonexistent", key }, "the certificate of the server"},
		"key missing":      {func(o *Options) { o.CertFile = cert }, "the certificate of the server"},
		"a port in use":    {func(o *Options) { o.Listen = busy.Addr().String() }, "address already in use"},
		"store is a file":  {func(o *Options) { o.StoreDir = file }, "did not start"},
		"bad name":         {func(o *Options) { o.Name = "a.b" }, "is no name of a queue"},
		"two queues":       {func(o *Options) { o.URL = "nats://127.0.0.1:1" }, "one of both"},
		"no tasks":         {func(o *Options) { o.Plan.Tasks = 0 }, "no tasks"},
		"cluster, no NKey": {func(o *Options) { o.Listen, o.URL = "", "nats://192.0.2.1:4222" }, "need an NKey"},
		"no URL":           {func(o *Options) { o.Listen, o.URL = "", "http://127.0.0.1" }, "no address of NATS"},
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions(t, 1)
			test.change(&o)
			s, err := Start(t.Context(), o)
			if err == nil {
				s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), string(seed)) {
				t.Error(err)
			}
		})
	}
}

// TestAccess: with TLS and NKeys, only a worker of the list that trusts the certificate joins.
func TestAccess(t *testing.T) {
	t.Parallel()
	cert, key, ca := certificate(t)
	_, _, otherCA := certificate(t)
	public, seed := nkey(t)
	_, otherSeed := nkey(t)
	o := testOptions(t, 4)
	o.Listen, o.CertFile, o.KeyFile, o.Workers = "0.0.0.0:0", cert, key, []string{public}
	s, _ := serve(t, o, newRecords())
	_, port, err := net.SplitHostPort(s.engine.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	url := "tls://127.0.0.1:" + port
	plain, stop := serve(t, testOptions(t, 1), newRecords())
	for name, o := range map[string]ClientOptions{
		"another NKey":          {URL: url, Seed: otherSeed, CA: ca},
		"no NKey":               {URL: url, CA: ca},
		"another authority":     {URL: url, Seed: seed, CA: otherCA},
		"the machine's":         {URL: url, Seed: seed},
		"no TLS at the server":  {URL: "tls://" + strings.TrimPrefix(plain.URL(), "nats://"), CA: ca},
		"no PEM":                {URL: url, Seed: seed, CA: []byte("x")},
		"no seed":               {URL: url, Seed: []byte(public), CA: ca},
		"no NKey, off loopback": {URL: "tls://192.0.2.1:4222", CA: ca},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		c, err := Dial(ctx, o)
		if cancel(); err == nil {
			c.Close()
			t.Errorf("%s: connected", name)
		} else if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: tried until the end: %v", name, err)
		}
	}
	stop()
	c := dial(t, ClientOptions{URL: url, Seed: append(seed, '\n'), CA: ca})
	join(t, c, "k")
	task, err := c.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Claim(t.Context(), claimOf(task.Place, "k")); err != nil {
		t.Error(err)
	}
	task.Done()
}

// TestPermissions: a worker cannot change, remove or read what is not its own, with an NKey and without.
func TestPermissions(t *testing.T) {
	t.Parallel()
	cert, certKey, ca := certificate(t)
	public, seed := nkey(t)
	otherPublic, otherSeed := nkey(t)
	for _, with := range []string{"NKeys", "none"} {
		t.Run(with, func(t *testing.T) {
			h := newRecords()
			o := testOptions(t, 4)
			one, two := ClientOptions{}, ClientOptions{}
			if with == "NKeys" {
				o.CertFile, o.KeyFile, o.Workers = cert, certKey, []string{public, otherPublic}
				one, two = ClientOptions{Seed: seed, CA: ca}, ClientOptions{Seed: otherSeed, CA: ca}
			}
			s, _ := serve(t, o, h)
			one.URL, two.URL = s.URL(), s.URL()
			c, good := dial(t, one), dial(t, two)
			join(t, c, "bad")
			join(t, good, "good")
			if err := good.Claim(t.Context(), claimOf(1, "good")); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, claims, err := c.handles(ctx)
			if err != nil {
				t.Fatal(err)
			}
			quick := func() context.Context {
				ctx, cancel := context.WithTimeout(ctx, 250*time.Millisecond)
				t.Cleanup(cancel)
				return ctx
			}
			bucket := "KV_" + c.names.bucket()
			for name, attempt := range map[string]func() error{
				"overwrite a claim": func() error { _, err := claims.Put(quick(), "1", []byte("{}")); return err },
				"delete a claim":    func() error { return claims.Delete(quick(), "1") },
				"purge a claim":     func() error { return claims.Purge(quick(), "1") },
				"delete the bucket": func() error { return c.js.DeleteStream(quick(), bucket) },
				"delete the tasks":  func() error { return c.js.DeleteStream(quick(), c.names.stream()) },
				"purge the tasks": func() error {
					_, err := c.conn.RequestWithContext(quick(), "$JS.API.STREAM.PURGE."+c.names.stream(), nil)
					return err
				},
				"delete the consumer": func() error { return c.js.DeleteConsumer(quick(), c.names.stream(), consumer) },
				"make a consumer": func() error {
					_, err := c.js.CreateConsumer(quick(), bucket, jetstream.ConsumerConfig{})
					return err
				},
				"make a stream": func() error {
					_, err := c.js.CreateStream(quick(), jetstream.StreamConfig{Name: "other", Subjects: []string{"other"}})
					return err
				},
				"publish a task": func() error { _, err := c.js.Publish(quick(), c.names.task(9), nil); return err },
				"ask as another": func() error {
					if with == "none" {
						return errors.New("all are one")
					}
					_, err := c.conn.RequestWithContext(quick(), c.names.rpc("leave", otherPublic), nil)
					return err
				},
				"use the key of another": func() error {
					if with == "none" {
						return errors.New("all are one")
					}
					_, _, err := ask[empty](ctx, c, "leave", &Leave{Key: "good"}, nil)
					return err
				},
				"listen to others": func() error {
					heard, err := c.conn.SubscribeSync(">")
					if err != nil {
						return err
					}
					if err := good.Leave(ctx, ""); err != nil {
						t.Error(err)
					}
					_, err = heard.NextMsgWithContext(quick())
					return err
				},
			} {
				if err := attempt(); err == nil {
					t.Errorf("a worker can %s", name)
				}
			}
			entry, err := claims.Get(ctx, "1")
			if err != nil || !bytes.Contains(entry.Value(), []byte(`"key":"good"`)) || h.count() != 1 || see(h, func() int { return len(h.left) }) != 1 {
				t.Error("the claim of the good worker is not what it was:", err)
			}
			if _, err := good.Next(ctx); err != nil {
				t.Error("the queue does not work afterwards:", err)
			}
		})
	}
}

// TestFlood: a worker that sends what it can, well-formed and not, keeps neither the server nor another worker from
// their work.
func TestFlood(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	const tasks = 30
	h := newRecords()
	o := testOptions(t, tasks)
	o.Log = nil
	s, _ := serve(t, o, h)
	bad, good := worker(t, s.URL(), "bad"), worker(t, s.URL(), "good")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	append1, err := encodeFrame(call{ID: "x", Schema: schema}, Append{Key: "bad", Offset: 1 << 40}, make([]byte, MaxChunk))
	if err != nil {
		t.Fatal(err)
	}
	flooded := make(chan int, 1)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			data, op := append1, "append"
			switch n % 4 {
			case 1:
				data, op = []byte("{}\n{}\n"), "join"
			case 2:
				data, op = make([]byte, 1000), "nothing"
			case 3:
				data, op = append1[:len(append1)/2], "permit"
			}
			_ = bad.conn.PublishMsg(&nats.Msg{Subject: bad.names.rpc(op, bad.sender), Reply: inbox(bad.sender) + ".x", Data: data})
			_ = bad.conn.Publish("$KV."+bad.names.bucket()+"."+strings.Repeat("x", n%100+1), []byte("{}"))
			_ = bad.conn.Publish("$JS.ACK."+bad.names.stream()+"."+consumer+".1.1.1.1.1", []byte("+ACK"))
		}
		flooded <- n
	}()
	first := make(chan []int, 1)
	working, stop := context.WithCancel(t.Context())
	go func() { first <- work(working, t, good, none) }()
	waitFor(t, "all claims", func() bool { return h.count() == tasks })
	stop()
	checkOnce(t, h, tasks, <-first)
	cancel()
	if n := <-flooded; n < 100 {
		t.Errorf("only %d messages", n)
	}
}
