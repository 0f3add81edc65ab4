package queue

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/gaia-harness/gaia/internal/canonical"
)

// Options say how a [Server] gets its queue. Either Listen or URL is given.
type Options struct {
	Name string // of the queue, "": DefaultName; on a server that several runs share, each has another
	Plan Plan

	Listen            string   // HOST:PORT on which to start a server of NATS; port 0 is any that is free
	StoreDir          string   // its folder, which can be deleted between two starts
	CertFile, KeyFile string   // for TLS, PEM; needed off loopback
	Workers           []string // public NKeys that may join; needed off loopback; none: every user of this machine may

	URL  string // of a cluster of NATS that is there, with its users and TLS; it should have sync_interval: always
	Seed []byte // the NKey of this server there
	CA   []byte // who signed the cluster's certificates, PEM; nil: whom the machine trusts

	AckWait time.Duration // after how long without a sign a worker loses its tasks; 0: 30 s
	Period  time.Duration // how often the queue is compared with the plan; 0: 2 s
	Log     func(string)  // gets what an operator wants to know; nil: it is dropped
}

const (
	window = 1 << 14 // tasks in the queue; more are published when some are claimed
	batch  = 1 << 9  // tasks that are published at once
)

// Server is the end of the queue that has the plan.
type Server struct {
	options Options
	names   names
	engine  *server.Server // nil: another one's
	conn    *nats.Conn
	link    link
	js      jetstream.JetStream
	rpc     *dispatcher

	mu      sync.Mutex
	claimed []bool // of each task: has a claim on record
}

// Start starts a server of NATS, or connects to one, and makes the streams that are missing. Nothing is published or
// answered before [Server.Serve].
func Start(ctx context.Context, o Options) (*Server, error) {
	n, err := newNames(o.Name)
	switch {
	case err != nil:
		return nil, err
	case (o.Listen == "") == (o.URL == ""):
		return nil, errors.New("a queue has an address to listen on, or the URL of a server: one of both")
	case o.Plan.Tasks < 1, !isText(o.Plan.RunID, 1), !isText(o.Plan.BaseURL, 0),
		max(len(o.Plan.Manifest), len(o.Plan.Envelope), len(o.Plan.Settings)) > MaxDocument:
		return nil, errors.New("the plan has no tasks or no run id, or is larger than what a worker accepts")
	}
	if o.AckWait == 0 {
		o.AckWait = 30 * time.Second
	}
	if o.Period == 0 {
		o.Period = 2 * time.Second
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	s := &Server{options: o, names: n, claimed: make([]bool, o.Plan.Tasks)}
	if o.URL != "" {
		options, _, err := access(o.URL, o.Seed, o.CA)
		if err != nil {
			return nil, err
		}
		s.conn, err = connect(ctx, o.URL, options, newNotice(o.Log, "the server of NATS"), &s.link)
		if err != nil {
			return nil, err
		}
	} else if err := s.listen(); err != nil {
		s.Close()
		return nil, err
	}
	if s.conn.MaxPayload() < MaxChunk+2*maxMessage {
		s.Close()
		return nil, fmt.Errorf("the server of NATS takes messages up to %d bytes, and a queue needs %d\nhint: max_payload: 1MB in its configuration", s.conn.MaxPayload(), MaxChunk+2*maxMessage)
	}
	if s.js, err = jetstream.New(s.conn); err == nil {
		_, err = backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, s.create(ctx) }, patience()...)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	s.rpc = newDispatcher(s)
	return s, nil
}

// listen starts the server of NATS in this process, and connects to it within the process.
func (s *Server) listen() error {
	o := s.options
	host, port, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return fmt.Errorf("%q is no address to listen on: %w\nhint: give HOST:PORT, such as 127.0.0.1:4222", o.Listen, err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" {
		return fmt.Errorf("%q is no address to listen on\nhint: give HOST:PORT, such as 127.0.0.1:4222", o.Listen)
	}
	if !isLoopback(host) {
		switch {
		case o.CertFile == "" || o.KeyFile == "":
			return fmt.Errorf("%s is not loopback, so the server needs TLS, and there is no certificate and key\nhint: --tls-cert cert.pem --tls-key key.pem", o.Listen)
		case len(o.Workers) == 0:
			return fmt.Errorf("%s is not loopback, so the server needs the public NKeys of its workers, and there are none\nhint: gaia worker --new-key FILE makes one, and prints the public half for --worker-key", o.Listen)
		}
	}
	config := &server.Options{
		ServerName: s.names.prefix, Host: host, Port: int(number), NoSigs: true, DisableJetStreamBanner: true,
		MaxPayload: 1 << 20, MaxPending: 16 << 20, MaxConn: MaxWorkers + 16, MaxSubs: 1 << 10, AuthTimeout: 5, TLSTimeout: 5,
		PingInterval: 10 * time.Second, MaxPingsOut: 2,
		JetStream: true, StoreDir: o.StoreDir, SyncAlways: true, JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 8 << 30,
	}
	if number == 0 {
		config.Port = server.RANDOM_PORT
	}
	if o.CertFile != "" || o.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return fmt.Errorf("the certificate of the server: %w", err)
		}
		config.TLS, config.TLSConfig = true, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}}
	}
	own, err := nkeys.CreateUser()
	if err != nil {
		return err
	}
	public, err := own.PublicKey()
	if err != nil {
		return err
	}
	config.Nkeys = []*server.NkeyUser{{Nkey: public}}
	permit := func(by string) (*server.Permissions, error) {
		publish, subscribe, err := Permissions(s.names.prefix, by)
		return &server.Permissions{Publish: &server.SubjectPermission{Allow: publish}, Subscribe: &server.SubjectPermission{Allow: subscribe}}, err
	}
	for _, key := range o.Workers {
		if !nkeys.IsValidPublicUserKey(key) {
			return errors.New("a key of a worker is not a public NKey of a user, which begins with U\nhint: gaia worker --new-key FILE makes one, and prints the public half") // it may be a seed
		}
		p, err := permit(key)
		if err != nil {
			return err
		}
		config.Nkeys = append(config.Nkeys, &server.NkeyUser{Nkey: key, Permissions: p})
	}
	if len(o.Workers) == 0 {
		p, err := permit(local)
		if err != nil {
			return err
		}
		config.NoAuthUser = local
		config.Users = []*server.User{{Username: local, Password: public, Permissions: p}}
	}
	if s.engine, err = server.NewServer(config); err != nil {
		return fmt.Errorf("the server of NATS: %w", err)
	}
	log := &engineLog{say: o.Log}
	s.engine.SetLoggerV2(log, false, false, false)
	s.engine.Start()
	for end := time.Now().Add(20 * time.Second); !s.engine.ReadyForConnections(100 * time.Millisecond); {
		if reason := log.reason(); reason != "" || time.Now().After(end) {
			return fmt.Errorf("the server of NATS did not start on %s with %s: %s", o.Listen, o.StoreDir, cmp.Or(reason, "it gives no reason"))
		}
	}
	s.conn, err = nats.Connect("", nats.InProcessServer(s.engine), nats.Nkey(public, own.Sign), nats.MaxReconnects(-1), nats.Name("gaia"),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // a session sees what it lost
	return err
}

// URL returns the address at which workers join.
func (s *Server) URL() string {
	if s.engine == nil {
		return s.options.URL
	}
	return s.engine.ClientURL()
}

// Close ends the queue. What is stored stays, and a server that is started again goes on with it.
func (s *Server) Close() {
	if s.conn != nil {
		s.conn.Close()
	}
	if s.engine != nil {
		s.engine.Shutdown()
		s.engine.WaitForShutdown()
	}
}

// Serve publishes the tasks, watches the claims and answers the workers until ctx ends. It repairs the queue whenever
// it lost something, and waits for a server of NATS that is gone. An error says that it cannot go on.
func (s *Server) Serve(ctx context.Context, h Handler) error {
	stop, err := s.rpc.start(ctx, h)
	if err != nil {
		return err
	}
	defer stop()
	said := newNotice(s.options.Log, "the queue")
	_, err = backoff.Retry(ctx, func() (struct{}, error) {
		err := s.session(ctx, h, said)
		if !errors.Is(err, context.Canceled) && !errors.As(err, new(*backoff.PermanentError)) {
			said.lost(err)
		}
		return struct{}{}, err
	}, patience()...)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

var errRestored = errors.New("a claim on record was not in the queue")

// session makes the queue, brings it and the records together, and keeps it so until something fails.
func (s *Server) session(ctx context.Context, h Handler, said *notice) error {
	ctx, cancel := s.link.try(ctx, 0) // without a deadline each request has one
	defer cancel()
	if err := s.create(ctx); err != nil {
		return err
	}
	kv, err := s.js.KeyValue(ctx, s.names.bucket())
	if err != nil {
		return err
	}
	late := time.AfterFunc(tryFor, cancel) // the context of a watch is that of all its life
	watch, err := kv.WatchAll(ctx)
	if late.Stop(); err != nil {
		return err
	}
	defer func() { _ = watch.Stop() }()
	present := make([]bool, len(s.claimed))
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ready := false; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case entry, ok := <-watch.Updates():
			switch {
			case !ok:
				return errors.New("the watch of the claims ended")
			case entry != nil:
				task, err := s.record(ctx, h, entry)
				if err != nil {
					return err
				}
				if task >= 0 {
					present[task] = true
				}
			case !ready: // all that was there is read
				if err := s.restore(ctx, h, kv, present); err != nil {
					return err
				}
				ready = true
				timer.Reset(0)
			}
		case <-timer.C:
			n, err := s.Refill(ctx)
			if err != nil {
				return err
			}
			said.found()
			if n == batch {
				timer.Reset(0)
			} else {
				timer.Reset(s.options.Period)
			}
		}
	}
}

// create makes what is missing of the streams and their consumer, with three replicas where there are three servers.
func (s *Server) create(ctx context.Context) error {
	tasks := jetstream.StreamConfig{
		Name: s.names.stream(), Subjects: []string{s.names.tasks()}, Retention: jetstream.WorkQueuePolicy,
		MaxMsgSize: maxText * 2, Duplicates: 2 * time.Second,
	}
	claims := jetstream.StreamConfig{
		Name: "KV_" + s.names.bucket(), Subjects: []string{"$KV." + s.names.bucket() + ".>"}, MaxMsgs: int64(s.options.Plan.Tasks) + window,
		MaxMsgSize: maxClaim, AllowDirect: true, DenyDelete: true,
	}
	for _, c := range []jetstream.StreamConfig{tasks, claims} {
		// One message for each subject, and no second one before the first is gone.
		c.MaxMsgsPerSubject, c.Discard, c.DiscardNewPerSubject = 1, jetstream.DiscardNew, true
		c.Storage, c.MaxConsumers, c.MaxBytes = jetstream.FileStorage, -1, -1
		if c.MaxMsgs == 0 {
			c.MaxMsgs = -1
		}
		c.Metadata = map[string]string{"gaia_run": s.options.Plan.RunID}
		if err := s.createStream(ctx, c); err != nil {
			return fmt.Errorf("stream %s: %w", c.Name, err)
		}
	}
	_, err := s.js.CreateOrUpdateConsumer(ctx, s.names.stream(), jetstream.ConsumerConfig{
		Durable: consumer, AckPolicy: jetstream.AckExplicitPolicy, AckWait: s.options.AckWait, MaxDeliver: -1, MaxAckPending: -1, MaxWaiting: 1 << 14,
	})
	return err
}

// createStream makes a stream if it is missing, and refuses one of another run.
func (s *Server) createStream(ctx context.Context, c jetstream.StreamConfig) error {
	stream, err := s.js.Stream(ctx, c.Name)
	if err == nil {
		if run := stream.CachedInfo().Config.Metadata["gaia_run"]; run != s.options.Plan.RunID {
			return backoff.Permanent(fmt.Errorf("it is of run %q, and this one is %s\nhint: choose another name for the queue, or delete it: nats stream rm %s", run, s.options.Plan.RunID, c.Name))
		}
		return nil
	}
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	c.Replicas = 1
	if s.engine == nil && len(s.conn.Servers()) >= 3 {
		c.Replicas = 3
	}
	_, err = s.js.CreateStream(ctx, c)
	return err
}

// record takes one claim of the bucket to the records, or out of the bucket. It returns the task if the claim counts,
// else -1.
func (s *Server) record(ctx context.Context, h Handler, entry jetstream.KeyValueEntry) (int, error) {
	c, err := decodeClaim(entry.Value())
	if err == nil && (entry.Operation() != jetstream.KeyValuePut || c.RunID != s.options.Plan.RunID || c.Task >= len(s.claimed) || strconv.Itoa(c.Task) != entry.Key()) {
		err = errBounds
	}
	var refusal *Refusal
	if err == nil {
		if err = h.Claimed(ctx, c); err == nil {
			s.mu.Lock()
			s.claimed[c.Task] = true
			s.mu.Unlock()
			return c.Task, nil
		}
		if !errors.As(err, &refusal) {
			return -1, err
		}
	}
	s.options.Log(fmt.Sprintf("a claim of task %.20q does not count: %v", entry.Key(), err))
	if strings.ContainsAny(entry.Key(), "*>") { // as a subject to purge, it is the claims of others
		return -1, nil
	}
	stream, err := s.js.Stream(ctx, "KV_"+s.names.bucket())
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject("$KV."+s.names.bucket()+"."+entry.Key()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && refusal != nil && s.claimed[c.Task] {
		err = errRestored // another one is on record
	}
	return -1, err
}

// restore puts the claims on record that the bucket does not have into it.
func (s *Server) restore(ctx context.Context, h Handler, kv jetstream.KeyValue, present []bool) error {
	for c, err := range h.Claims() {
		if err != nil {
			return err
		}
		if c.Schema, c.RunID = schema, s.options.Plan.RunID; c.check() != nil || c.Task >= len(present) {
			return backoff.Permanent(fmt.Errorf("the claim of task %d on record is not one", c.Task))
		}
		s.mu.Lock()
		s.claimed[c.Task] = true
		s.mu.Unlock()
		if present[c.Task] {
			continue
		}
		value, err := canonical.Encode(c)
		if err != nil {
			return err
		}
		if _, err := kv.Create(ctx, strconv.Itoa(c.Task), value); err != nil && !errors.Is(err, jetstream.ErrKeyExists) {
			return err
		}
	}
	return nil
}

// Refill publishes tasks that have no claim on record and no message in the queue, in the order of the plan, up to a
// bound, and returns how many. [Server.Serve] calls it at its start and once a period.
func (s *Server) Refill(ctx context.Context) (int, error) {
	ctx, cancel := s.link.try(ctx, tryFor)
	defer cancel()
	if _, err := s.js.Stream(ctx, "KV_"+s.names.bucket()); err != nil { // it was deleted: make it again
		return 0, err
	}
	stream, err := s.js.Stream(ctx, s.names.stream())
	if err != nil {
		return 0, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(s.names.tasks()))
	if err != nil {
		return 0, err
	}
	if _, err := s.js.Consumer(ctx, s.names.stream(), consumer); err != nil {
		return 0, err
	}
	var missing []int
	s.mu.Lock()
	for task, claimed := range s.claimed {
		if len(missing) == batch || len(info.State.Subjects)+len(missing) >= window {
			break
		}
		if !claimed && info.State.Subjects[s.names.task(task)] == 0 {
			missing = append(missing, task)
		}
	}
	s.mu.Unlock()
	sent := make([]jetstream.PubAckFuture, 0, batch)
	for _, task := range missing {
		value, err := canonical.Encode(taskMessage{RunID: s.options.Plan.RunID, Schema: schema, Task: task})
		if err != nil {
			return 0, err
		}
		future, err := s.js.PublishAsync(s.names.task(task), value, jetstream.WithMsgID(s.options.Plan.RunID+"."+strconv.Itoa(task)))
		if err != nil {
			return 0, err
		}
		sent = append(sent, future)
	}
	for _, future := range sent {
		select {
		case <-future.Ok():
		case err := <-future.Err():
			return 0, err
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return len(missing), nil
}

// engineLog hands on errors of the server of NATS, and keeps the one that stops it.
type engineLog struct {
	say func(string)
	mu  sync.Mutex
	end string
}

func (l *engineLog) Noticef(string, ...any) {}
func (l *engineLog) Debugf(string, ...any)  {}
func (l *engineLog) Tracef(string, ...any)  {}
func (l *engineLog) Warnf(string, ...any)   {}
func (l *engineLog) Errorf(format string, args ...any) {
	l.say("NATS: " + fmt.Sprintf(format, args...))
}

func (l *engineLog) Fatalf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = fmt.Sprintf(format, args...)
}

func (l *engineLog) reason() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}
