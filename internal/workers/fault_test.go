package workers

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/planfolder"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/queue"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stop"
	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestMain has the test binary serve as the processes of the fault tests.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == processArg {
		if err := process(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(long.Main(m))
}

const processArg = "process-of-a-fault-test"

// orders are what a process of a fault test does: serve if Server is true, else work.
type orders struct {
	Server  bool
	Dir     string // has the tasks in data, the plan folder in plan, the plan's key in key
	Out     string
	Address string // host and port
	Model   string // URL
	Version string // of the program; "": the plan's
	Clock   time.Duration
	Pace    int    // how many times as fast as the time the server's clock is; 0: once
	Room    uint64 // bytes that a file of the process can have; 0: any number
	AtOnce  int
	Wait    time.Duration // until a worker that is silent loses its tasks; 0: a second
	Budget  int64         // micro-USD of all workers; 0: no limit
}

var harness = trajectory.Harness{Commit: strings.Repeat("0123456789", 4), Version: "test", ExecutableSHA256: canonical.Digest(nil)}

// environment returns what a run of the tasks in dir needs.
func environment(o orders, key sign.Key) (plan.Plan, run.Env, error) {
	set, gold, err := loader.Load(context.Background(), loader.Dir(os.DirFS(filepath.Join(o.Dir, "data")), "invented", ""), loader.Validation, loader.Filter{})
	if err != nil {
		return plan.Plan{}, run.Env{}, err
	}
	if err := set.HashAttachments(context.Background()); err != nil {
		return plan.Plan{}, run.Env{}, err
	}
	prices, err := llm.ParsePrices(endpoint.Prices())
	if err != nil {
		return plan.Plan{}, run.Env{}, err
	}
	rules, err := policy.Builtin(policy.Autonomous)
	if err != nil {
		return plan.Plan{}, run.Env{}, err
	}
	m := plan.New()
	m.Dataset.Selection, m.Policy, m.SubmitIntent = loader.Filter{}.Rule(), rules, true
	m.Model = plan.ModelPlan{Name: endpoint.Model, Origin: "http://127.0.0.1", MaxTokens: 1000}
	m.Budgets.RunCostMicroUSD = o.Budget
	m.Budgets.Turns, m.Retry.CallTries, m.Shards = 20, 6, 1
	h := harness
	h.Version = cmp.Or(o.Version, h.Version)
	began := time.Now()
	limiter := llm.NewLimiter(llm.LimiterConfig{Fixed: max(o.AtOnce, 1)})
	return m, run.Env{Set: set, Gold: gold, Prices: prices, Concurrency: max(o.AtOnce, 1), Limiter: limiter,
		Model: llm.New(llm.Config{BaseURL: o.Model, APIKey: providerKey, Prices: prices, MaxTries: 6, Limiter: limiter}),
		Tools: []tools.Tool{tools.NewCalculate(), tools.NewListFiles()}, Key: key, Harness: h, Rand: rand.Reader,
		Now: func() time.Time { return time.Now().Add(o.Clock) }, Mono: func() time.Duration { return time.Since(began) }}, nil
}

// process does what a process was ordered to.
func process(text string) error {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	if o.Room > 0 {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: o.Room, Max: o.Room}); err != nil {
			return err
		}
	}
	key, err := sign.LoadKey(filepath.Join(o.Dir, "key"))
	if err != nil {
		return err
	}
	m, env, err := environment(o, key)
	if err != nil {
		return err
	}
	stopper := stop.Catch(context.Background(), io.Discard)
	stopper.Begin(io.Discard, func() int { return 0 })
	if o.Server {
		return served(stopper.Context, o, key, m, env)
	}
	client, err := queue.Dial(stopper.Context, queue.ClientOptions{URL: "nats://" + o.Address, Log: func(s string) { fmt.Fprintln(os.Stderr, s) }})
	if err != nil {
		return err
	}
	defer client.Close()
	r, err := Join(stopper.Context, Joining{Client: client, Out: o.Out, Name: "test", Harness: env.Harness, Rand: rand.Reader, Drain: stopper.Drain,
		Trusted: func(k sign.PublicKey) error {
			if !k.Equal(key.Public()) {
				return errors.New("not trusted")
			}
			return nil
		},
		Env: func(context.Context, *planfolder.Folder) (plan.Plan, run.Env, func() error, error) {
			env.Key = sign.Key{}
			return m, env, func() error { return nil }, nil
		},
		Joined: func(*planfolder.Folder, int, string) { fmt.Println("joined") }})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// served serves a plan, and merges the run.
func served(ctx context.Context, o orders, key sign.Key, m plan.Plan, env run.Env) error {
	f, err := planfolder.Open(filepath.Join(o.Dir, "plan"))
	if err != nil {
		return err
	}
	say := func(text string, pairs ...any) { fmt.Fprintln(os.Stderr, append([]any{text}, pairs...)...) }
	began := time.Now()
	clock := func() time.Time { return began.Add(time.Since(began) * time.Duration(max(o.Pace, 1))) }
	s, err := NewServer(Config{Folder: f, Key: key, Out: o.Out, Now: clock, Told: say, Warn: say})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Run(ctx, queue.Options{Listen: o.Address, AckWait: cmp.Or(o.Wait, time.Second), Period: 200 * time.Millisecond, Log: func(text string) { say(text) }},
		func(string) { fmt.Println("serving") }); err != nil {
		return err
	}
	counts := s.Counts()
	list, folders, err := s.Finish()
	if err != nil {
		return err
	}
	salts, err := f.Salts()
	if err != nil {
		return err
	}
	r, err := run.CreateMerged(o.Out, run.Merged{Signed: f.Signed(), Files: os.DirFS(f.Dir), Given: m, Salts: salts, Shards: list, Folders: folders}, env)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.Execute(ctx, nil); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(counts)
}

// cluster is a plan that processes serve and work on.
type cluster struct {
	t      *testing.T
	orders orders
	count  int
	model  *endpoint.Server
	server *proc
	n      int
}

// proc is a process.
type proc struct {
	cmd    *exec.Cmd
	stdout *bufio.Reader
	stderr *bytes.Buffer
}

// start makes the plan of count tasks, and serves it.
func start(t *testing.T, count int, latency time.Duration, change ...func(*orders)) *cluster {
	t.Helper()
	dir := t.TempDir()
	tasks := endpoint.Tasks{Count: count, Turns: 2}
	if err := tasks.Write(filepath.Join(dir, "data")); err != nil {
		t.Fatal(err)
	}
	model, err := endpoint.Serve(endpoint.Config{Tasks: tasks, Latency: latency})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { model.Close() })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	c := &cluster{t: t, count: count, model: model, orders: orders{Dir: dir, Out: filepath.Join(dir, "runs"), Address: address, Model: model.URL, AtOnce: 4}}
	key, err := sign.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	content, err := key.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "key"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(&c.orders)
	}
	m, env, err := environment(c.orders, key)
	if err != nil {
		t.Fatal(err)
	}
	signed, salts, err := run.Sign(m, env)
	if err != nil {
		t.Fatal(err)
	}
	if err := planfolder.Write(filepath.Join(dir, "plan"), planfolder.Parts{Places: planfolder.Places{Source: "dir:data"}, Plan: signed.Plan,
		Manifest: signed.Manifest, Envelope: signed.Envelope, Salts: salts, Key: key, Rand: rand.Reader}); err != nil {
		t.Fatal(err)
	}
	c.serve()
	return c
}

// begin starts a process, and waits for its first line if it is to say one.
func (c *cluster) begin(o orders, says string) *proc {
	c.t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		c.t.Fatal(err)
	}
	p := &proc{cmd: exec.Command(os.Args[0], processArg, string(text)), stderr: &bytes.Buffer{}}
	p.cmd.Stderr = p.stderr
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	p.stdout = bufio.NewReader(out)
	c.t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	if line, err := p.stdout.ReadString('\n'); says != "" && (err != nil || strings.TrimSpace(line) != says) {
		c.t.Fatalf("%q, %v; %s", line, err, p.stderr)
	}
	return p
}

func (c *cluster) serve() {
	c.t.Helper()
	o := c.orders
	o.Server = true
	c.server = c.begin(o, "serving")
}

// worker starts a worker as change has it.
func (c *cluster) worker(change func(*orders)) *proc {
	c.t.Helper()
	c.n++
	o := c.orders
	o.Out = filepath.Join(c.orders.Dir, "worker-"+strconv.Itoa(c.n))
	if change != nil {
		change(&o)
	}
	return c.begin(o, "joined")
}

// line returns an address that leads to the server. While cut is locked no byte passes, and connections stay open.
func (c *cluster) line() (address string, cut *sync.RWMutex) {
	c.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { listener.Close() })
	cut = &sync.RWMutex{}
	pass := func(to, from net.Conn) {
		defer to.Close()
		defer from.Close()
		for b := make([]byte, 32<<10); ; {
			n, err := from.Read(b)
			cut.RLock()
			_, failed := to.Write(b[:n])
			cut.RUnlock()
			if err != nil || failed != nil {
				return
			}
		}
	}
	go func() {
		for {
			here, err := listener.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", c.orders.Address)
			if err != nil {
				here.Close()
				continue
			}
			go pass(there, here)
			go pass(here, there)
		}
	}()
	return listener.Addr().String(), cut
}

// kill is kill -9.
func (p *proc) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *proc) signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

// claimed waits until so many tasks are claimed, by what is on disk.
func (c *cluster) claimed(n int) {
	c.t.Helper()
	digests := regexp.MustCompile(`"digest":`)
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		found, _ := filepath.Glob(filepath.Join(c.orders.Out, ".serve-*", stateFile))
		if len(found) == 1 {
			if data, err := os.ReadFile(found[0]); err == nil && len(digests.FindAll(data, -1)) >= n {
				return
			}
		}
		if time.Now().After(end) {
			c.t.Fatalf("fewer than %d tasks are claimed; %s", n, c.server.stderr)
		}
	}
}

// finish waits for the server, verifies the run, and returns what the workers did.
func (c *cluster) finish() Counts {
	c.t.Helper()
	var counts Counts
	if err := json.NewDecoder(c.server.stdout).Decode(&counts); err != nil {
		c.t.Fatalf("%v; %s", err, c.server.stderr)
	}
	if err := c.server.cmd.Wait(); err != nil {
		c.t.Fatalf("%v; %s", err, c.server.stderr)
	}
	found, err := rundir.Verify(os.DirFS(c.runDir()), rundir.Options{})
	if err != nil || !found.Complete || len(found.Tasks) != c.count {
		c.t.Fatalf("the run: %v", err)
	}
	if counts.Claimed != c.count {
		c.t.Errorf("%d of %d tasks are claimed", counts.Claimed, c.count)
	}
	return counts
}

func (c *cluster) runDir() string {
	c.t.Helper()
	found, err := filepath.Glob(filepath.Join(c.orders.Out, "[0-9]*"))
	if err != nil || len(found) != 1 {
		c.t.Fatalf("the run: %v, %v", found, err)
	}
	return found[0]
}

// fault is what goes wrong while workers work.
type fault struct {
	name string
	slow bool
	does func(c *cluster)
}

func faults() []fault {
	return []fault{
		{"none, two workers", false, func(c *cluster) {
			c.worker(nil)
			c.worker(nil)
		}},
		{"a worker killed (kill -9), three times", false, func(c *cluster) {
			for i := range 3 {
				w := c.worker(nil)
				c.claimed(2 + 4*i)
				w.kill()
			}
			c.worker(nil)
		}},
		{"the server killed (kill -9), three times", true, func(c *cluster) {
			c.worker(nil)
			c.worker(nil)
			for i := range 3 {
				c.claimed(2 + 6*i)
				c.server.kill()
				c.serve()
			}
		}},
		{"the store deleted", true, func(c *cluster) {
			c.worker(nil)
			c.claimed(4)
			c.server.kill()
			stores, err := filepath.Glob(filepath.Join(c.orders.Out, ".serve-*", "queue"))
			if err != nil || len(stores) != 1 {
				c.t.Fatalf("%v, %v", stores, err)
			}
			if err := os.RemoveAll(stores[0]); err != nil {
				c.t.Fatal(err)
			}
			c.serve()
			c.worker(nil)
		}},
		{"a worker frozen beyond its time", true, func(c *cluster) {
			w := c.worker(nil)
			c.claimed(2)
			w.signal(syscall.SIGSTOP)
			c.worker(nil)
			time.Sleep(3 * time.Second) // its tasks go to the other
			w.signal(syscall.SIGCONT)
		}},
		{"a worker cut off from the server beyond its time", true, func(c *cluster) {
			address, cut := c.line()
			c.worker(func(o *orders) { o.Address = address })
			c.claimed(2)
			cut.Lock()
			c.worker(nil)
			time.Sleep(3 * time.Second) // its tasks go to the other, while it works on
			cut.Unlock()
		}},
		{"clocks an hour ahead and behind", true, func(c *cluster) {
			c.worker(func(o *orders) { o.Clock = time.Hour })
			c.worker(func(o *orders) { o.Clock = -time.Hour })
		}},
		{"the disk of a worker full", true, func(c *cluster) {
			w := c.worker(func(o *orders) { o.Room = 60_000 })
			if w.cmd.Wait() == nil {
				c.t.Error("a worker without room ends in order")
			}
			c.worker(nil)
		}},
		{"the disk of the server full", true, func(c *cluster) {
			c.server.kill()
			o := c.orders
			o.Server, o.Room = true, 200_000
			full := c.begin(o, "serving")
			c.worker(nil)
			if full.cmd.Wait() == nil {
				c.t.Error("a server without room ends in order")
			}
			c.serve()
		}},
		{"a worker of another version", false, func(c *cluster) {
			o := c.orders
			o.Out, o.Version = filepath.Join(o.Dir, "other"), "0.0.1"
			other := c.begin(o, "")
			if err := other.cmd.Wait(); err == nil || !strings.Contains(other.stderr.String(), "0.0.1") {
				c.t.Errorf("it may work: %v, %s", err, other.stderr)
			}
			c.worker(nil)
		}},
		{"a worker drained (SIGTERM)", true, func(c *cluster) {
			w := c.worker(nil)
			c.claimed(3)
			w.signal(syscall.SIGTERM)
			var r Report
			if err := json.NewDecoder(w.stdout).Decode(&r); err != nil || w.cmd.Wait() != nil || r.Claimed < 3 {
				c.t.Errorf("%+v, %v; %s", r, err, w.stderr)
			}
			c.worker(nil)
		}},
	}
}

// TestFaults: whatever goes wrong, each task is claimed once, no claimed task is lost, and the run verifies. With -v it
// prints the table of docs/many-machines.md.
func TestFaults(t *testing.T) {
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\ttasks\tclaimed once\tsuperseded\tdone again, unclaimed\tclaimed and lost")
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			if f.slow {
				long.OnlyThorough(t)
			}
			const tasks = 40
			c := start(t, tasks, 20*time.Millisecond)
			f.does(c)
			n := c.finish()
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\n", f.name, tasks, n.Claimed, n.Superseded, n.Lost, tasks-n.Claimed)
		})
	}
	w.Flush()
	t.Logf("\n%s", &table)
}

// TestResults: two workers and one process give the same results.
func TestResults(t *testing.T) {
	c := start(t, 12, 0, func(o *orders) { o.Wait = time.Minute }) // no task is done twice, however slow the machine is
	c.worker(nil)
	c.worker(nil)
	if n := c.finish(); n.Workers < 1 {
		t.Errorf("%+v", n)
	}
	m, env, err := environment(c.orders, mustKey(t, c.orders.Dir))
	if err != nil {
		t.Fatal(err)
	}
	m.Shards = 0
	alone, err := run.Create(filepath.Join(c.orders.Dir, "alone"), m, env)
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Close()
	if err := alone.Execute(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	latency := regexp.MustCompile(`"latency_ms":\d+,`)
	var results [][]byte
	for _, dir := range []string{c.runDir(), alone.Dir} {
		data, err := os.ReadFile(filepath.Join(dir, rundir.ResultsFile))
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, latency.ReplaceAll(data, nil))
	}
	if !bytes.Equal(results[0], results[1]) {
		t.Errorf("two workers:\n%s\none process:\n%s", results[0], results[1])
	}
	if calls := c.model.Counts().Requests; calls != 2*2*12 {
		t.Errorf("%d model calls by two workers and one process", calls)
	}
}

// TestBudget: workers together spend no more than the limit, and a worker that is killed frees nothing that it may have
// spent.
func TestBudget(t *testing.T) {
	const limit = 60_000
	c := start(t, 40, 5*time.Millisecond, func(o *orders) { o.Budget, o.Pace = limit, 10 }) // what the one that is gone had reserved is waited for
	w := c.worker(nil)
	c.worker(nil)
	c.claimed(3)
	w.kill()
	c.worker(nil)
	c.finish()
	if spent := c.model.Counts().CostMicroUSD; spent > limit || spent == 0 {
		t.Errorf("%d of %d micro-USD are spent", spent, limit)
	}
	found, err := rundir.Verify(os.DirFS(c.runDir()), rundir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	skipped := 0
	for _, task := range found.Tasks {
		if len(task.Attempts) == 0 {
			skipped++
		}
	}
	if skipped == 0 {
		t.Errorf("no task is left out: the limit of %d is none", limit)
	}
}

// providerKey is the key of the model's provider, on the machine of a worker alone.
const providerKey = "sk-invented-4Zt7Qm1x"

// TestNothingTravels: neither the provider's key, nor a gold answer that no model gave, nor the salts, nor a private key
// is in any byte between the workers and the server.
func TestNothingTravels(t *testing.T) {
	c := start(t, 14, 0)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var mu sync.Mutex
	var seen bytes.Buffer
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", c.orders.Address)
			if err != nil {
				from.Close()
				return
			}
			for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
				go func() {
					defer way[0].Close()
					defer way[1].Close()
					piece := make([]byte, 1<<16)
					for {
						n, err := way[0].Read(piece)
						mu.Lock()
						seen.Write(piece[:n])
						mu.Unlock()
						if _, failed := way[1].Write(piece[:n]); err != nil || failed != nil {
							return
						}
					}
				}()
			}
		}
	}()
	c.worker(func(o *orders) { o.Address = listener.Addr().String() })
	c.finish()
	mu.Lock()
	defer mu.Unlock()
	f, err := planfolder.Open(filepath.Join(c.orders.Dir, "plan"))
	if err != nil {
		t.Fatal(err)
	}
	salts, err := f.Salts()
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(c.orders.Dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	tasks := endpoint.Tasks{Count: 14, Turns: 2}
	for what, secret := range map[string]string{"the provider's key": providerKey, "the salt": salts.Salt, "the opening of the gold": salts.Secret,
		"the plan's key": strings.Split(string(key), "\n")[2], "a gold answer": `"` + tasks.Gold(3) + `"`, "gold": "Final answer"} {
		if secret == "" || bytes.Contains(seen.Bytes(), []byte(secret)) {
			t.Errorf("%s travels, or is not known", what)
		}
	}
	if !bytes.Contains(seen.Bytes(), []byte(tasks.Question(3))) {
		t.Error("what the journal has does not travel: nothing was seen")
	}
}

func mustKey(t *testing.T, dir string) sign.Key {
	t.Helper()
	key, err := sign.LoadKey(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	return key
}
