package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
)

// gateSink is a journal in memory: synced is what a crash would leave.
type gateSink struct {
	mu     sync.Mutex
	buf    bytes.Buffer
	synced string
	fail   error
}

func (s *gateSink) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

func (s *gateSink) Sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail == nil {
		s.synced = s.buf.String()
	}
	return s.fail
}

func (s *gateSink) durable() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced
}

type probeArgs struct {
	Text string `json:"text" jsonschema:"anything"`
	URL  string `json:"url,omitzero" jsonschema:"an address"`
}

// probe is a tool that runs do.
func probe(name string, do func(probeArgs) (Output, error)) Tool {
	return Define(Definition[probeArgs]{Name: name, Description: "Does what the test says.",
		Run: func(_ context.Context, _ *Env, a probeArgs) (Output, error) { return do(a) }})
}

func newSession(t testing.TB, sink *gateSink, change func(*policy.Policy), tools ...Tool) *Session {
	t.Helper()
	p, err := policy.Builtin(policy.Autonomous)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&p)
	}
	gate, err := NewGate(GateConfig{Policy: p, Now: time.Now}, tools...)
	if err != nil {
		t.Fatal(err)
	}
	log, err := trajectory.NewLog(sink, trajectory.End{Head: "start"}, trajectory.LogConfig{
		RunID: "run", Now: time.Now, Mono: func() time.Duration { return 0 }, Rand: rand.NewChaCha8([32]byte{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	workspace, err := OpenWorkspace(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { workspace.Close() })
	return gate.Open(&trajectory.Attempt{Log: log, TaskID: "task", Number: 1}, workspace, Spent{}, nil)
}

// recorded reads what is durable.
func recorded(t *testing.T, sink *gateSink) (payloads []trajectory.Payload) {
	t.Helper()
	_, _, err := trajectory.ReadJournal(strings.NewReader(sink.durable()), "run", "start", func(e trajectory.Event, _ []byte) error {
		payloads = append(payloads, e.Payload)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return payloads
}

// flushed reads what a session has recorded, once all of it is durable.
func flushed(t *testing.T, s *Session, sink *gateSink) []trajectory.Payload {
	t.Helper()
	if err := s.rec.Append(0); err != nil {
		t.Fatal(err)
	}
	return recorded(t, sink)
}

func names(payloads []trajectory.Payload) string {
	var out []string
	for _, p := range payloads {
		out = append(out, string(p.Type()))
	}
	return strings.Join(out, " ")
}

// TestGateOrder: the decision is on disk before the tool runs, and the result is
// recorded before anyone sees it.
func TestGateOrder(t *testing.T) {
	sink := &gateSink{}
	var seen string
	s := newSession(t, sink, nil, probe("probe", func(probeArgs) (Output, error) {
		seen = sink.durable()
		return Output{Document: "the whole", Shown: "a page"}, nil
	}))
	results, err := s.Run(context.Background(), 1, []Call{{"c1", "probe", `{"text":"x"}`}})
	if err != nil || len(results) != 1 || results[0] != (Result{CallID: "c1", Text: "a page", SHA256: messageDigest("c1", "a page")}) {
		t.Fatalf("results %+v, error %v", results, err)
	}
	if !strings.Contains(seen, `"type":"policy_decision"`) || strings.Contains(seen, "tool_executed") {
		t.Errorf("when the tool ran, on disk was %s", seen)
	}
	if got, want := names(flushed(t, s, sink)), "tool_proposed policy_decision tool_executed"; got != want {
		t.Errorf("recorded %s, want %s", got, want)
	}
}

// TestGateFailsClosed: what cannot be recorded does not run, and no request can
// be recorded after a result that is not.
func TestGateFailsClosed(t *testing.T) {
	sink := &gateSink{fail: errors.New("disk full")}
	ran := false
	s := newSession(t, sink, nil, probe("probe", func(probeArgs) (Output, error) { ran = true; return Output{}, nil }))
	if _, err := s.Run(context.Background(), 1, []Call{{"c1", "probe", `{"text":"x"}`}}); !errors.Is(err, trajectory.ErrNotRecorded) || ran {
		t.Errorf("error %v, ran %v", err, ran)
	}

	sink = &gateSink{}
	s = newSession(t, sink, nil, probe("probe", func(probeArgs) (Output, error) {
		sink.mu.Lock()
		sink.fail = errors.New("disk full")
		sink.mu.Unlock()
		return Output{Shown: "secret"}, nil
	}))
	if _, err := s.Run(context.Background(), 1, []Call{{"c1", "probe", `{"text":"x"}`}}); err != nil {
		t.Fatal(err)
	}
	if err := s.rec.Append(1, trajectory.ModelCallStarted{}); !errors.Is(err, trajectory.ErrNotRecorded) {
		t.Errorf("a request may follow: %v", err)
	}
}

func TestGateRefuses(t *testing.T) {
	const answers = "https://huggingface.co/datasets/gaia-benchmark/GAIA"
	for _, c := range []struct {
		name   string
		change func(*policy.Policy)
		call   Call
		shown  string
		rules  string
		class  policy.Denial
	}{
		{"unknown tool", nil, Call{"c", "bash", `{}`}, `refused: there is no tool "bash"; the tools are probe`, "", ""},
		{"denied tool", func(p *policy.Policy) { p.Deny = []string{"probe"} }, Call{"c", "probe", `{"text":"x"}`}, "refused: ", "", policy.DeniedByList},
		{"denied tool and rule", func(p *policy.Policy) { p.Deny = []string{"probe"} }, Call{"c", "probe", `{"text":"open judgments.jsonl"}`}, "refused: ", "R002", policy.DeniedByRule},
		{"denied tool and budget", func(p *policy.Policy) { p.Deny, p.MaxToolCalls = []string{"probe"}, 0 }, Call{"c", "probe", `{"text":"x"}`}, "refused: ", "R006", policy.DeniedByList},
		{"tool that is not allowed", func(p *policy.Policy) { p.Allow = []string{"calculate"} }, Call{"c", "probe", `{"text":"x"}`}, "refused: ", "", policy.DeniedByMode},
		{"no reader in mode restricted", func(p *policy.Policy) { p.Mode = policy.Restricted }, Call{"c", "probe", `{"text":"x"}`}, "refused: ", "", policy.DeniedByMode},
		{"approval with no terminal", func(p *policy.Policy) { p.Confirm = []string{"probe"} }, Call{"c", "probe", `{"text":"x"}`}, "refused: there is no person to ask: ", "", policy.DeniedByMode},
		{"unknown mode", func(p *policy.Policy) { p.Mode = "yolo" }, Call{"c", "probe", `{"text":"x"}`}, "refused: ", "", policy.DeniedByMode},
		{"broken arguments", nil, Call{"c", "probe", `{"text":`}, "error: the arguments of probe are not one JSON object", "", ""},
		{"unknown argument", nil, Call{"c", "probe", `{"text":"x","force":true}`}, "error: the arguments do not fit probe", "", ""},
		{"repeated argument", nil, Call{"c", "probe", `{"text":"x","text":"y"}`}, "error: the arguments of probe are not one JSON object", "", ""},
		{"answer source", nil, Call{"c", "probe", `{"text":"x","url":"` + answers + `"}`}, "refused: R001", "R001", policy.DeniedByRule},
		{"grader surface", nil, Call{"c", "probe", `{"text":"open judgments.jsonl"}`}, "refused: R002", "R002", policy.DeniedByRule},
		{"tool budget", func(p *policy.Policy) { p.MaxToolCalls = 0 }, Call{"c", "probe", `{"text":"x"}`}, "refused: R006", "R006", policy.DeniedByBudget},
	} {
		t.Run(c.name, func(t *testing.T) {
			sink := &gateSink{}
			ran := false
			s := newSession(t, sink, c.change, probe("probe", func(probeArgs) (Output, error) { ran = true; return Output{}, nil }))
			results, err := s.Run(context.Background(), 1, []Call{c.call})
			if err != nil {
				t.Fatal(err)
			}
			if ran || !strings.HasPrefix(results[0].Text, c.shown) {
				t.Errorf("ran %v, shown %q, want %q", ran, results[0].Text, c.shown)
			}
			payloads := flushed(t, s, sink)
			at := slices.IndexFunc(payloads, func(p trajectory.Payload) bool { return p.Type() == trajectory.TypePolicyDecision })
			decision, ok := payloads[max(at, 0)].(trajectory.PolicyDecision)
			if !ok || decision.Decision == string(policy.Allow) || decision.Shown != results[0].Text || strings.Join(decision.RuleIDs, " ") != c.rules {
				t.Errorf("decision is %+v", payloads[1])
			}
			var violation trajectory.PolicyViolation
			for _, p := range payloads {
				if v, ok := p.(trajectory.PolicyViolation); ok {
					violation = v
				}
			}
			if violation.Class != string(c.class) || c.class != "" && (violation.CallID != "c" || violation.Description != decision.Reason || strings.Join(violation.RuleIDs, " ") != c.rules) {
				t.Errorf("the violation is %+v, want class %q", violation, c.class)
			}
			want := "tool_proposed policy_decision"
			if strings.HasPrefix(c.name, "approval") {
				want = "tool_proposed approval_requested approval_resolved policy_decision"
			}
			if c.class != "" {
				want += " policy_violation"
			}
			if c.class == policy.DeniedByRule {
				want += " rollback"
			}
			if got := names(payloads); got != want {
				t.Errorf("recorded %s, want %s", got, want)
			}
		})
	}
}

// TestGateParallel: the calls of a turn run at the same time, results stand in
// the order of the calls, and each counts against the budget.
func TestGateParallel(t *testing.T) {
	sink := &gateSink{}
	var all sync.WaitGroup
	all.Add(3)
	s := newSession(t, sink, func(p *policy.Policy) { p.MaxToolCalls = 3 }, probe("probe", func(a probeArgs) (Output, error) {
		all.Done()
		all.Wait() // for ever, unless all three run at once
		return Output{Document: a.Text, Shown: a.Text}, nil
	}))
	var calls []Call
	for i := range 4 {
		calls = append(calls, Call{fmt.Sprint("c", i), "probe", fmt.Sprintf(`{"text":"t%d"}`, i)})
	}
	results, err := s.Run(context.Background(), 1, calls)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results[:3] {
		if r.CallID != calls[i].ID || r.Text != fmt.Sprint("t", i) {
			t.Errorf("result %d is %+v", i, r)
		}
	}
	if !strings.HasPrefix(results[3].Text, "refused: R006") || !s.Exhausted() {
		t.Errorf("the fourth of three calls gave %q", results[3].Text)
	}
}

// TestOnlyTheGateCalls: what runs a tool is unexported, so that no other package
// can make its own tool or call one past the Gate.
func TestOnlyTheGateCalls(t *testing.T) {
	tool := reflect.TypeFor[Tool]()
	for i := range tool.NumMethod() {
		if m := tool.Method(i); m.IsExported() && m.Name != "Spec" {
			t.Errorf("other packages can use %s of a tool", m.Name)
		}
	}
	if m, has := tool.MethodByName("call"); !has || m.IsExported() {
		t.Errorf("a tool has no own call: %+v", m)
	}
}

// TestGateOffers: the model is not offered what the policy denies whatever the
// arguments are, and what it asks for all the same is denied.
func TestGateOffers(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*policy.Policy)
		want   []string
	}{
		{"all", nil, []string{"other", "probe"}},
		{"deny list", func(p *policy.Policy) { p.Deny = []string{"other"} }, []string{"probe"}},
		{"allow list", func(p *policy.Policy) { p.Allow = []string{"other"} }, []string{"other"}},
		{"mode restricted", func(p *policy.Policy) { p.Mode = policy.Restricted }, nil},
		{"mode approved asks", func(p *policy.Policy) { p.Mode = policy.Approved }, []string{"other", "probe"}},
		{"budget may be spent later", func(p *policy.Policy) { p.MaxToolCalls = 0 }, []string{"other", "probe"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			never := func(probeArgs) (Output, error) { t.Error("it ran"); return Output{}, nil }
			sink := &gateSink{}
			s := newSession(t, sink, c.change, probe("other", never), probe("probe", never))
			var offered []string
			for _, spec := range s.gate.Specs() {
				offered = append(offered, spec.Name)
			}
			if !slices.Equal(offered, c.want) {
				t.Errorf("offered are %q, want %q", offered, c.want)
			}
			for _, name := range []string{"other", "probe"} {
				if slices.Contains(offered, name) && c.name != "budget may be spent later" {
					continue
				}
				results, err := s.Run(t.Context(), 1, []Call{{"c", name, `{"text":"x"}`}})
				if err != nil || !strings.HasPrefix(results[0].Text, "refused: ") {
					t.Errorf("%s: %+v, %v", name, results, err)
				}
			}
		})
	}
}

// prober records what it is given to look at.
type prober struct{ document, args string }

func (p *prober) Probe(document, args string, _ []string) trajectory.Probes {
	p.document, p.args = document, args
	return trajectory.Probes{GoldHits: strings.Count(document, "Brellin")}
}

// TestGateProbesWholeDocuments: probes see the whole document and the whole
// arguments, and rules the whole arguments: not the page that the model is shown,
// nor the head that is recorded.
func TestGateProbesWholeDocuments(t *testing.T) {
	beyond := strings.Repeat("lamp ", trajectory.ArgumentHead)
	document := beyond + "Brellin"
	sink, seen, ran := &gateSink{}, &prober{}, 0
	s := newSession(t, sink, nil, probe("probe", func(probeArgs) (Output, error) {
		ran++
		return Output{Document: document, Shown: "page 1 of 9"}, nil
	}))
	s.probe = seen
	args := `{"text":"` + beyond + `end"}`
	results, err := s.Run(t.Context(), 1, []Call{{"c1", "probe", args}, {"c2", "probe", `{"text":"` + beyond + ` open judgments.jsonl"}`}})
	must(t, err)
	if seen.document != document || seen.args != args {
		t.Errorf("probed were %d bytes of a document of %d, and %d of %d bytes of arguments", len(seen.document), len(document), len(seen.args), len(args))
	}
	if ran != 1 || !strings.HasPrefix(results[1].Text, "refused: R002") {
		t.Errorf("%d calls ran; the one that names a record after %d bytes: %q", ran, len(beyond), results[1].Text)
	}
	for _, p := range flushed(t, s, sink) {
		if e, ok := p.(trajectory.ToolExecuted); ok && (e.Probes == nil || e.Probes.GoldHits != 1 || strings.Contains(e.Head, "Brellin")) {
			t.Errorf("recorded %+v, with a head of %d bytes", e.Probes, len(e.Head))
		}
	}
}

// TestGateRecordsArguments: each argument is cut by itself, secrets are taken
// out, and the digest is of what was received.
func TestGateRecordsArguments(t *testing.T) {
	sink := &gateSink{}
	s := newSession(t, sink, nil, probe("probe", func(a probeArgs) (Output, error) {
		return Output{Document: strings.Repeat("ä", trajectory.ResultHead), Shown: "x"}, nil
	}))
	secret := "sk-" + strings.Repeat("a1B2", 10)
	long := strings.Repeat("ü", trajectory.ArgumentHead)
	if _, err := s.Run(context.Background(), 1, []Call{{"c1", "probe", `{"text":"` + long + `","url":"http://example.org/` + secret + `"}`}}); err != nil {
		t.Fatal(err)
	}
	payloads := flushed(t, s, sink)
	p := payloads[0].(trajectory.ToolProposed)
	if !slices.Equal(p.ArgsTruncated, []string{"text"}) || len(p.Args["text"]) != trajectory.ArgumentHead || p.Redactions != 1 {
		t.Errorf("cut: %v, %d bytes; %d redactions", p.ArgsTruncated, len(p.Args["text"]), p.Redactions)
	}
	if want := "http://example.org/" + trajectory.Redacted; p.Args["url"] != want {
		t.Errorf("url is %q, want %q", p.Args["url"], want)
	}
	if strings.Contains(sink.durable(), secret) {
		t.Error("the secret stands in the journal")
	}
	e := payloads[2].(trajectory.ToolExecuted)
	if !e.Truncated || e.Bytes != 2*trajectory.ResultHead || len(e.Head) != trajectory.ResultHead {
		t.Errorf("result: truncated %v, %d bytes, head of %d", e.Truncated, e.Bytes, len(e.Head))
	}
}

func TestGateBrokenTool(t *testing.T) {
	s := newSession(t, &gateSink{}, nil, probe("probe", func(probeArgs) (Output, error) { return Output{}, errors.New("the machinery broke") }))
	if _, err := s.Run(context.Background(), 1, []Call{{"c1", "probe", `{"text":"x"}`}}); err == nil || !strings.Contains(err.Error(), "the machinery broke") {
		t.Errorf("error is %v", err)
	}
	tool := probe("twice", nil)
	if _, err := NewGate(GateConfig{Now: time.Now}, tool, tool); err == nil {
		t.Error("two tools of one name were taken")
	}
}

// BenchmarkGate measures a call whose tool does nothing, without the disk.
func BenchmarkGate(b *testing.B) {
	sink := &gateSink{}
	s := newSession(b, sink, func(p *policy.Policy) { p.MaxToolCalls = policy.Unlimited }, probe("probe", func(probeArgs) (Output, error) {
		return Output{Document: "d", Shown: "d"}, nil
	}))
	for b.Loop() {
		sink.buf.Reset()
		if _, err := s.Run(context.Background(), 1, []Call{{"c1", "probe", `{"text":"x"}`}}); err != nil {
			b.Fatal(err)
		}
	}
}

// What a server says of its answer is recorded without secrets, too.
func TestGateRedactsContentTypes(t *testing.T) {
	sink := &gateSink{}
	s := newSession(t, sink, nil, probe("probe", func(probeArgs) (Output, error) {
		return Output{Document: "a", Shown: "a", URLs: []trajectory.URL{{URL: "http://a.example/", Status: 200, ContentType: "text/plain; k=sesame-word"}}}, nil
	}))
	s.rec.Redact = trajectory.NewRedactor(nil, "sesame-word")
	if _, err := s.Run(t.Context(), 1, []Call{{"c", "probe", `{"text":"x"}`}}); err != nil {
		t.Fatal(err)
	}
	for _, p := range flushed(t, s, sink) {
		if done, ok := p.(trajectory.ToolExecuted); ok && done.URLs[0].ContentType != "text/plain; k=[redacted]" {
			t.Errorf("recorded %+v", done.URLs)
		}
	}
	if strings.Contains(sink.durable(), "sesame") {
		t.Error("the journal has the secret")
	}
}
