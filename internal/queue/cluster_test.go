package queue

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// cluster starts three servers of NATS that are one. They keep what they store.
func cluster(t *testing.T) (all []*server.Server, restart func(i int)) {
	t.Helper()
	const n = 3
	var routes []*url.URL
	var open []net.Listener
	ports := make([]int, 2*n)
	for i := range ports { // all are open at once, so that they differ
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports[i] = l.Addr().(*net.TCPAddr).Port
		if i >= n {
			routes = append(routes, &url.URL{Scheme: "nats", Host: l.Addr().String()})
		}
		open = append(open, l)
	}
	for _, l := range open {
		_ = l.Close()
	}
	all = make([]*server.Server, n)
	stores := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	restart = func(i int) {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprint("s", i), Host: "127.0.0.1", Port: ports[i], NoSigs: true, NoLog: true, JetStream: true, StoreDir: stores[i], SyncAlways: true,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: ports[n+i]}, Routes: routes,
		})
		if err != nil {
			t.Fatal(err)
		}
		all[i] = s
		s.Start()
	}
	for i := range n {
		restart(i)
	}
	t.Cleanup(func() {
		for _, s := range all {
			s.Shutdown()
			s.WaitForShutdown()
		}
	})
	return all, restart
}

// TestCluster: on three servers there are three replicas; one that is stopped, and is back later, loses nothing.
func TestCluster(t *testing.T) {
	t.Parallel()
	const tasks = 200
	all, restart := cluster(t)
	for range 5 { // another program may have taken a port
		if !slices.ContainsFunc(all, func(s *server.Server) bool { return !s.ReadyForConnections(20 * time.Second) }) {
			break
		}
		all, restart = cluster(t)
	}
	for _, s := range all {
		waitFor(t, "the servers", func() bool { return s.NumRoutes() > 0 })
	}
	h := newRecords()
	o := testOptions(t, tasks)
	o.Listen, o.StoreDir, o.URL = "", "", all[0].ClientURL()
	s, _ := serve(t, o, h)
	stream, err := s.js.Stream(t.Context(), "KV_"+s.names.bucket())
	if err != nil {
		t.Fatal(err)
	}
	if r := stream.CachedInfo().Config.Replicas; r != 3 {
		t.Fatalf("%d replicas", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	firsts := make([][]int, 3)
	var done sync.WaitGroup
	for w := range 3 {
		c := worker(t, all[w].ClientURL(), fmt.Sprint("key ", w))
		done.Go(func() { firsts[w] = work(ctx, t, c, none) })
	}
	waitFor(t, "some claims", func() bool { return h.count() > tasks/10 })
	stopped := 0 // the one that the server is connected to
	all[stopped].Shutdown()
	all[stopped].WaitForShutdown()
	if h.count() == tasks {
		t.Fatal("all tasks were claimed before a server was stopped")
	}
	waitFor(t, "more claims", func() bool { return h.count() > tasks/2 })
	restart(stopped)
	waitFor(t, "all claims", func() bool { return h.count() == tasks })
	cancel()
	done.Wait()
	checkOnce(t, h, tasks, firsts...)
}

// TestSmallPayload: a server that takes only small messages is refused at the start.
func TestSmallPayload(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, MaxPayload: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.Shutdown()
	waitFor(t, "the server", func() bool { return s.ReadyForConnections(time.Second) })
	o := testOptions(t, 1)
	o.Listen, o.URL = "", s.ClientURL()
	if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "max_payload") {
		t.Error(err)
	}
}
