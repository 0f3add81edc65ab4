package trajectory

import (
	"bytes"
	"errors"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/oklog/ulid/v2"
)

var update = flag.Bool("update", false, "write the golden files again")

// filled has every type of payload with every member set.
func filled() []Payload {
	cost, yes := int64(1234), true
	digest := canonical.Digest([]byte("body"))
	probes := &Probes{AnswerColumn: true, AnswerKeys: 1, ChangedQuestion: true, DenyClass: 2, GoldCalled: true, GoldHits: 3, GoldLabelNear: true, GoldNear: true,
		InjectionMarkers: 4, KeyedAnswers: 7, ListedAnswers: 8, OtherIDStarts: 9, OtherUUIDs: 5, OwnIDStart: true, OwnUUID: true,
		QCov: 900, QCovNoEcho: 800, QEdge: true, QGoldCalled: true, SchemaKeys: 6, UUIDGoldNear: true}
	harness := Harness{Commit: "0a1b2c3d", Dirty: true, ExecutableSHA256: digest, Version: "v0.1.0"}
	return []Payload{
		RunStarted{GuidanceHash: "0123456789abcdef", Harness: harness, ManifestSHA256: digest, PolicyHash: "fedcba9876543210", PolicyMode: "autonomous", Rehearsal: true,
			Shard: Shard{Index: 3, Key: "ssh-ed25519 AAAA", Of: 64}, SubmitIntent: true},
		RunResumed{Approved: []string{"python"}, Events: 7, GuidanceHash: "0123456789abcdef", Harness: harness, PolicyHash: "fedcba9876543210", PolicyMode: "approved",
			Torn: &Torn{Bytes: 12, File: "torn-4711", SHA256: digest}, Unsubmittable: "the disk was full"},
		RunCompleted{Error: 1, Failed: 2, GuidanceHash: "0123456789abcdef", Planned: 15, Skipped: 3, Solved: 4, Stopped: StoppedByEndpoint, TasksBegun: 9, Unscored: 5},
		TaskStarted{FileName: "tides.xlsx", Question: "How high is the \"Marrack\" light?\nIn feet.", ShownAs: "attachment.xlsx", Workspace: []File{{Bytes: 9, Path: "tides.xlsx", Probes: probes, SHA256: digest}}},
		TurnStarted{},
		TurnCompleted{LatencyMs: 250, ToolCalls: 2},
		ContextCompiled{BodySHA256: digest, Bytes: 3000, ContentSHA256: digest, Head: "<é€😀>\u2028", Kept: 2,
			MessageHeads: []MessageHead{{Bytes: 12, Head: "{", Redactions: 1, SHA256: digest, Truncated: true}}, Messages: []Message{{Bytes: 12, Image: Image{Bytes: 70, MediaType: "image/png", Path: "chart.png", SHA256: digest}, Role: "user", SHA256: digest, Source: "question"}},
			Origins:    &Origins{Agent: 40, Exchange: 50, Forgotten: 60, Passages: []Passage{{Key: "9f86d081", Tasks: 3}}, Probes: probes, Question: 60, Reply: 70, Result: 80, Workspace: 90},
			Redactions: 1, Truncated: true},
		ContextCondensed{Messages: []Condensed{{FromBytes: 9000, FromSHA256: digest, Source: "tool:call-1", ToBytes: 200, ToSHA256: digest}}, Reason: RefusedForLength},
		ModelCallStarted{Request: &AgentRequest{BodySHA256: digest, Bytes: 900, Dialect: "chat", Edits: []string{"include_usage"}, Retry: true, SentSHA256: digest, SHA256: digest, Stream: true, ToolsSHA256: digest},
			RequestedModel: "scripted-model", Try: 2, WaitedMs: 1200},
		ModelCallCompleted{BodySHA256: digest, Bytes: 77, CostMicroUSD: &cost, Error: &CallError{Code: "rate_limit", Message: "slow down", Retryable: true, Status: 429},
			Fingerprint: "fp_1", FinishReason: "stop", Head: "FINAL ANSWER: 42", LatencyMs: 81, OutputSHA256: digest, Redactions: 1, Reply: &AgentReply{Aborted: true, BodySHA256: digest, Bytes: 400, Code: true, Probes: probes, SHA256: digest, Status: 200}, RequestID: "req-1", RequestedModel: "scripted-model",
			ResponseModel: "scripted-model-2", RetryOf: "01JZ0000000000000000000000", Tokens: Tokens{Cached: 1, In: 2, Out: 3, Reasoning: 4}, Truncated: true, Try: 2, UnrecordedChannels: []string{"citations"}, UsageReported: true},
		ToolProposed{Args: map[string]string{"query": "tide table", "page": "2"}, ArgsSHA256: digest, ArgsTruncated: []string{"query"}, BodySHA256: digest, CallID: "call-1",
			Malformed: "{", Name: "web_search", Redactions: 1},
		PolicyDecision{CallID: "call-1", Decision: "deny", Mode: "autonomous", PolicyHash: "fedcba9876543210", Reason: "an answer source", RuleIDs: []string{"R001"}, Shown: "refused"},
		PolicyViolation{CallID: "call-1", Class: "rule", Description: "an answer source", RuleIDs: []string{"R001", "R002"}},
		ToolExecuted{BodySHA256: digest, Bytes: 9000, CallID: "call-1", Head: "page", IsError: true, LatencyMs: 3,
			Model: &ModelUse{CostMicroUSD: &cost, RequestID: "req-3", RequestedModel: "hearing-model", ResponseModel: "hearing-model-2", Tokens: Tokens{Cached: 1, In: 2, Out: 3, Reasoning: 4}, Tries: 2, UsageReported: true},
			Name:  "web_fetch", OutputSHA256: digest, Own: probes, Probes: probes, Redactions: 1, ShownBytes: 4000,
			ShownSHA256: digest, Truncated: true, URLs: []URL{{ContentType: "text/html", Status: 200, URL: "http://almanac.example/"}}},
		SecurityEvent{Bad: 1, Checked: 12, Entries: []BadEntry{{Name: "00ff.json", Reason: "the signature is not good"}}, Kind: JudgeCacheSweep},
		Error{Code: "quota", Message: "no money left", Stage: "model"},
		AnswerCommitted{Answer: "42", InReply: true, ReasoningTrace: "six by nine", Redactions: 1, Rule: "final-answer.v1", SeenIn: []string{"exchange", "reply"}, SharesWord: true},
		AttemptEnded{Agent: &AgentEnd{Confined: &Confinement{Ended: true, Filtered: true, Isolated: true, NoPrivileges: true, NoRoute: 4, ReadOnly: true, Unheard: 5}, Ended: AgentExited, Exit: 3, Given: probes, Redactions: 1, Refused: 2, Stderr: "Traceback", StderrBytes: 9, StdoutBytes: 20}, Outcome: Answered, Reason: "found", Workspace: &WorkspaceChange{Added: 2, Diff: "--- a/tides.csv\n+++ b/tides.csv\n", Files: []string{"tides.csv"}, Redactions: 1,
			Removed: 3, Reworked: 1, TreeSHA256: digest, Truncated: true}},
		Judgment{Cached: true, CostMicroUSD: &cost, ErrorStatus: 503, Judged: &yes, LatencyMs: 5, Model: "scripted-judge", Official: true, Path: "judge", Prompt: "judge.v1", RequestID: "req-2",
			ResponseModel: "scripted-judge", TokensIn: 100, TokensOut: 8, Tries: 1},
		TaskSealed{Attempt: 1, Attempts: 2, Outcome: Solved, Salt: "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", Shard: 2},
		ApprovalRequested{ArgsSHA256: digest, CallID: "call-1", Name: "python", RuleIDs: []string{"R004"}},
		ApprovalResolved{Approved: true, By: ByPerson, CallID: "call-1", LatencyMs: 5100},
		CheckpointSaved{CallID: "call-1", TreeSHA256: digest, Workspace: []File{{Bytes: 9, Path: "tides.xlsx", Probes: probes, SHA256: digest}}},
		Rollback{CallID: "call-1", Reason: "a package was installed", Restored: []string{"tides.xlsx"}, RuleIDs: []string{"R005"},
			TreeAfter: digest, TreeBefore: digest, TreeFound: digest},
		Preflight{CostMicroUSD: new(int64(61)), Error: &CallError{Code: "model_not_found", Message: "the model does not exist", Retryable: true, Status: 404}, Kind: PreflightTools,
			LatencyMs: 12, Model: "model", RequestIDs: []string{"req-1"}, Requests: 2, ResponseModel: "model-2026", Tokens: Tokens{1, 2, 3, 4}, Tool: ToolCalled, UsageReported: true},
		LimitChanged{From: 8, Origin: "https://models.example", Reason: "status 429", To: 4},
		JudgeBattery{CostMicroUSD: new(int64(5)), ErrorStatus: 503, LatencyMs: 70, Model: "umpire-1", Accepted: []string{"colon"}, Problem: "the judge could not be asked",
			Prompt: "judge.v1", Asked: 3, Refused: []string{"null"}, Cached: true, SHA256: digest, TokensIn: 900, TokensOut: 30, Tries: 4, Unreadable: []string{"comma"}, Passed: true},
		RequestRefused{Bytes: 40, Code: "model_not_planned", Model: "other-model", Path: "POST /v1/chat/completions", RuleIDs: []string{"R001"}, SHA256: digest, Status: 400},
		ExchangeStarted{BodySHA256: digest, Bytes: 40, Method: "POST", Number: 3, Own: probes, Redactions: 1, SHA256: digest, URL: "https://almanac.example/tides?year=2019"},
		ExchangeCompleted{BodySHA256: digest, Bytes: 9000, ContentType: "text/html", Error: "unexpected EOF", Head: "<!doctype html>", LatencyMs: 12, Media: true, Number: 3, Opaque: 2, Probes: probes, Redactions: 1,
			SHA256: digest, Status: 200, Truncated: true, Unprobed: 100},
		TaskCommitted{Attempts: 2, Digest: digest},
		ShardMerged{Events: 812, Head: digest, Lost: 3, Shard: Shard{Index: 3, Key: "ssh-ed25519 AAAA", Of: 64}, Superseded: true},
	}
}

// encoded completes e and returns its line.
func encoded(e *Event, k kind) ([]byte, error) {
	p, err := encodePayload(e.Payload, k)
	if err != nil {
		return nil, err
	}
	return e.appendLine(nil, p)
}

// zero returns the zero value of a payload's type.
func zero(p Payload) Payload { return reflect.Zero(reflect.TypeOf(p)).Interface().(Payload) }

// event puts a payload where its type may stand.
func event(t testing.TB, seq int64, p Payload) (Event, kind) {
	t.Helper()
	k, known := kinds[p.Type()]
	if !known {
		t.Fatalf("no kind %q", p.Type())
	}
	id := ulid.MustParseStrict("01JZ0000000000000000000000")
	id[15] = byte(seq)
	e := Event{ID: id.String(), MonoUs: 1000 * seq, ParentHash: canonical.Digest([]byte{byte(seq)}), Payload: p, RunID: "01JZRUN", Seq: seq, Timestamp: timestamp(id)}
	if k.scope >= scopeTask {
		e.TaskID = "task-1"
	}
	if k.scope >= scopeAttempt {
		e.Attempt = 1
	}
	if k.scope >= scopeTurn {
		e.Turn = 3
	}
	return e, k
}

// typeNames reads the names of the types from events.go itself, so that a new
// one cannot be forgotten here.
func typeNames(t *testing.T) []Type {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "events.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []Type
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Type" {
			for _, v := range spec.Values {
				name, err := strconv.Unquote(v.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, Type(name))
			}
		}
		return true
	})
	return names
}

func TestEveryTypeIsCovered(t *testing.T) {
	samples := map[Type]Payload{}
	for _, p := range filled() {
		if samples[p.Type()] != nil {
			t.Errorf("%s stands twice in the table", p.Type())
		}
		samples[p.Type()] = p
		if path := unset(reflect.ValueOf(p)); path != "" {
			t.Errorf("%s: %s is not set in the table", p.Type(), path)
		}
	}
	names := typeNames(t)
	if len(names) != len(samples) || len(names) < 24 {
		t.Errorf("events.go names %d types, the table has %d", len(names), len(samples))
	}
	for _, name := range names {
		k, known := kinds[name]
		p := samples[name]
		if !known || p == nil {
			t.Errorf("%s: known to kindOf: %v, in the table: %v", name, known, p != nil)
			continue
		}
		b, err := canonical.Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		back, err := k.decode(b)
		if err != nil || reflect.TypeOf(back) != reflect.TypeOf(p) {
			t.Errorf("%s decodes to a %T: %v", name, back, err)
		}
	}
	for _, name := range []Type{"", "memory_proposed", "memory_written", "memory_retrieved", "handoff", "RUN_STARTED"} {
		if _, known := kinds[name]; known {
			t.Errorf("%q is known", name)
		}
	}
}

// unset returns the path of a member that has its zero value, "" for none.
func unset(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if v.Field(i).IsZero() {
				return name
			}
			if path := unset(v.Field(i)); path != "" {
				return name + "." + path
			}
		}
	case reflect.Pointer:
		return unset(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			if path := unset(v.Index(i)); path != "" {
				return path
			}
		}
	}
	return ""
}

func TestEventsRoundTrip(t *testing.T) {
	for _, p := range filled() {
		for name, p := range map[string]Payload{"filled": p, "zero": zero(p)} {
			t.Run(string(p.Type())+"/"+name, func(t *testing.T) {
				e, k := event(t, 5, p)
				line, err := encoded(&e, k)
				if err != nil {
					t.Fatal(err)
				}
				back, err := decodeEvent(line[:len(line)-1], "", "")
				if err != nil {
					t.Fatalf("%s does not read: %v", line, err)
				}
				if diff := cmp.Diff(e, back, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("read differs from written (-written +read):\n%s", diff)
				}
				again, err := encoded(&back, k)
				if err != nil || !bytes.Equal(again, line) {
					t.Errorf("encodes again as %s (%v)\nnot %s", again, err, line)
				}
				if back.Time().IsZero() || back.Time().Format(TimeFormat) != back.Timestamp {
					t.Errorf("Time() = %v of %q", back.Time(), back.Timestamp)
				}
			})
		}
	}
}

// TestGoldenEvents: serialisations that exist never change. A new optional
// member may extend the filled lines; the zero lines stay.
func TestGoldenEvents(t *testing.T) {
	var got bytes.Buffer
	for i, p := range filled() {
		for j, p := range []Payload{p, zero(p)} {
			e, k := event(t, int64(2*i+j), p)
			line, err := encoded(&e, k)
			if err != nil {
				t.Fatal(err)
			}
			got.Write(line)
		}
	}
	path := filepath.Join("testdata", "events.golden")
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wanted, lines := bytes.Split(want, []byte("\n")), bytes.Split(got.Bytes(), []byte("\n"))
	if len(wanted) != len(lines) {
		t.Errorf("%d lines, the golden file has %d", len(lines), len(wanted))
	}
	for i := range min(len(wanted), len(lines)) {
		if !bytes.Equal(wanted[i], lines[i]) {
			t.Errorf("line %d changed:\n%s\nwas\n%s", i+1, lines[i], wanted[i])
		}
	}
	// What was written once can be read for ever.
	for i, line := range wanted[:len(wanted)-1] {
		if _, err := decodeEvent(line, "", ""); err != nil {
			t.Errorf("golden line %d does not read: %v", i+1, err)
		}
	}
}

// TestLossyEvents: bytes that are not UTF-8 are written as U+FFFD, and the
// event in hand becomes what a reader will see.
func TestLossyEvents(t *testing.T) {
	e, k := event(t, 0, ToolExecuted{Head: "a\xffb", URLs: []URL{{ContentType: "text/\xc3\x28", URL: "http://x.example/\xff"}}})
	line, err := encoded(&e, k)
	if err != nil {
		t.Fatal(err)
	}
	back, err := decodeEvent(line[:len(line)-1], "", "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, back); diff != "" {
		t.Errorf("the event in hand is not the one on disk (-hand +disk):\n%s", diff)
	}
	if p := back.Payload.(ToolExecuted); p.Head != "a�b" || p.URLs[0].ContentType != "text/�(" {
		t.Errorf("read %+v", p)
	}
}

// TestOneFormOfNothing: an optional member that says nothing is left out; written
// out, as an empty list or as anything else, it is refused.
func TestOneFormOfNothing(t *testing.T) {
	for _, p := range filled() {
		k := kinds[p.Type()]
		b, err := canonical.Encode(zero(p))
		if err != nil {
			t.Fatal(err)
		}
		v := reflect.TypeOf(p)
		for i := range v.NumField() {
			name, options, _ := strings.Cut(v.Field(i).Tag.Get("json"), ",")
			if options == "" {
				continue
			}
			for _, nothing := range []string{`[]`, `""`, `0`, `false`, `null`, `{}`} {
				if (name == "probes" || name == "own") && nothing == `{}` { // they were computed, and found nothing
					continue
				}
				value := jsontext.Value(strings.Replace(string(b), "{", `{"`+name+`":`+nothing+`,`, 1))
				if err := value.Canonicalize(); err != nil {
					value = jsontext.Value(`{"` + name + `":` + nothing + `}`)
				}
				if got, err := k.decode(value); err == nil {
					t.Errorf("%s: %s was read as %+v", p.Type(), value, got)
				}
			}
		}
	}
}

// TestOneFormOfNoPlace: a line does not name a task, an attempt or a turn that it has not.
func TestOneFormOfNoPlace(t *testing.T) {
	for _, p := range filled() {
		e, k := event(t, 5, p)
		line, err := encoded(&e, k)
		if err != nil {
			t.Fatal(err)
		}
		for _, member := range []struct {
			has        scope
			from, none string
		}{{scopeAttempt, `"content_hash":`, `"attempt":0,`}, {scopeTask, `"timestamp":`, `"task_id":"",`}, {scopeTurn, `"type":`, `"turn":0,`}} {
			at := bytes.LastIndex(line, []byte(member.from))
			if k.scope >= member.has {
				continue
			}
			if member.has == scopeAttempt {
				at = bytes.Index(line, []byte(member.from))
			}
			if other := string(line[:at]) + member.none + string(line[at:len(line)-1]); !errors.Is(decodes(other), canonical.ErrMalformed) {
				t.Errorf("%s was read", other)
			}
		}
	}
}

func decodes(line string) error {
	_, err := decodeEvent([]byte(line), "", "")
	return err
}

// TestLineIsCanonical compares the line that is written by hand with what the
// general encoder makes of it.
func TestLineIsCanonical(t *testing.T) {
	for _, text := range []string{"", "task-1", "\"\\/<>&", "é€😀\u2028\x7f\x00\x1f\b\t", strings.Repeat("x", 3000)} {
		for _, n := range []int{0, 1, 7, 1 << 53} {
			w := wire{Attempt: n, ContentHash: text, ID: text, MonoUs: int64(n), ParentHash: text, Payload: []byte(`{"a":1}`), RunID: text, Seq: int64(n),
				TaskID: text, Timestamp: text, Turn: n, Type: Type(text)}
			got, err := w.appendTo(nil)
			want, wantErr := canonical.Encode(w)
			if err != nil || wantErr != nil || !bytes.Equal(got, want) {
				t.Errorf("line %s, %v\nwant %s, %v", got, err, want, wantErr)
			}
		}
	}
	for name, w := range map[string]wire{"seq": {Seq: 1<<53 + 1}, "negative": {MonoUs: -1}, "attempt": {Attempt: 1<<53 + 1}, "turn": {Turn: 1<<53 + 1}, "not UTF-8": {TaskID: "a\xff"}} {
		w.Payload = []byte(`{}`)
		if line, err := w.appendTo(nil); err == nil {
			t.Errorf("%s: %s", name, line)
		}
	}
}

func TestTokensAdd(t *testing.T) {
	if got, want := (Tokens{1, 2, 3, 4}).Add(Tokens{10, 20, 30, 40}), (Tokens{11, 22, 33, 44}); got != want {
		t.Errorf("Add = %+v, want %+v", got, want)
	}
}

// TestSameSource: programs for other machines are the same if a version or a commit says so, and nothing was changed.
func TestSameSource(t *testing.T) {
	for h, known := range map[Harness]bool{{Version: "v0.9.9"}: true, {Version: Devel, Commit: "0a1b"}: true, {Version: Devel}: false,
		{Version: "v0.9.9+dirty", Commit: "0a1b", Dirty: true}: false, {Version: Devel, Commit: "0a1b", Dirty: true}: false} {
		h.ExecutableSHA256 = "sha256:aa"
		other := h
		if !h.SameSource(other) {
			t.Errorf("%+v is not its own source", h)
		}
		other.ExecutableSHA256 = "sha256:bb"
		if got := h.SameSource(other); got != known {
			t.Errorf("another executable of %+v: the same source is %v, want %v", h, got, known)
		}
		for _, change := range []func(){func() { other.Version = "v0.9.8" }, func() { other.Commit = "0a1c" }, func() { other.Dirty = !h.Dirty }} {
			other = h
			if change(); h.SameSource(other) || other.SameSource(h) {
				t.Errorf("%+v is the source of %+v", h, other)
			}
		}
	}
}
