package tools_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/testkit/files"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/media"
	"github.com/gaia-harness/gaia/trajectory"
)

// hearing is a session with transcribe_audio, a recording, and an endpoint that
// answers each request with a body.
func hearing(t *testing.T, sink *tools.GateSink, change func(*policy.Policy), requestID, body string) *tools.Session {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", requestID)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	prices, err := llm.ParsePrices([]byte(`{"version":"t","note":"","models":{"hearing-model":{"audio_microusd_per_minute":6000}}}`))
	must(t, err)
	client := llm.New(llm.Config{BaseURL: server.URL + "/v1", Prices: prices, MaxTries: 3, Transport: &http.Transport{DisableKeepAlives: true},
		Sleep: func(context.Context, time.Duration) error { return nil }})
	s := tools.NewSession(t, sink, change, media.NewTranscribe(client, "hearing-model"), tools.NewCalculate())
	must(t, s.Files().Root().WriteFile("memo.wav", files.MakeWAV(8), 0o600))
	return s
}

var hear = []tools.Call{{ID: "c1", Name: "transcribe_audio", Args: `{"path":"memo.wav"}`}}

// TestGateTranscribes: a transcription is decided, recorded with what it used,
// and counts against the task's budget of money.
func TestGateTranscribes(t *testing.T) {
	sink := &tools.GateSink{}
	s := hearing(t, sink, func(p *policy.Policy) { p.MaxCostMicroUSD = 2500 }, "sk-"+strings.Repeat("a1B2", 10),
		`{"text":"The ferry leaves at nine.","duration":12.5,"model":"hearing-model-2"}`)
	for i, want := range []string{"The ferry leaves", "The ferry leaves", "refused: R006"} {
		if s.Exhausted() != (i == 2) {
			t.Errorf("before call %d: exhausted %v", i+1, s.Exhausted())
		}
		results, err := s.Run(t.Context(), 1, hear)
		must(t, err)
		if !strings.Contains(results[0].Text, want) {
			t.Errorf("call %d: %q, want %q", i+1, results[0].Text, want)
		}
	}
	payloads := tools.Flushed(t, s, sink)
	if got, want := tools.Names(payloads[:3]), "tool_proposed policy_decision tool_executed"; got != want {
		t.Fatalf("recorded %s, want %s", got, want)
	}
	cost := int64(1250)
	want := &trajectory.ModelUse{CostMicroUSD: &cost, RequestID: trajectory.Redacted, RequestedModel: "hearing-model", ResponseModel: "hearing-model-2", Tries: 1}
	e := payloads[2].(trajectory.ToolExecuted)
	if diff := cmp.Diff(want, e.Model); diff != "" || e.Head != "The ferry leaves at nine." {
		t.Errorf("head %q, %s", e.Head, diff)
	}
}

// TestBrokenTranscriptionsArePaid: what requests took is recorded and charged,
// also where they returned nothing of use and the attempt ends with them.
func TestBrokenTranscriptionsArePaid(t *testing.T) {
	sink := &tools.GateSink{}
	s := hearing(t, sink, nil, "", `{"duration":60}`) // billed, and no transcript
	_, err := s.Run(t.Context(), 1, hear)
	var failed *llm.Error
	if !errors.As(err, &failed) {
		t.Fatalf("error %v", err)
	}
	payloads := tools.Flushed(t, s, sink)
	last, ok := payloads[len(payloads)-1].(trajectory.ToolExecuted)
	if !ok || !last.IsError || last.Model == nil || last.Model.CostMicroUSD == nil || *last.Model.CostMicroUSD != 3*6000 || last.Model.Tries != 3 {
		t.Errorf("recorded %s, the last %+v", tools.Names(payloads), last.Model)
	}
}

// TestGateDescribes: a look is decided, recorded with what it used, and counts against
// the task's budget of money.
func TestGateDescribes(t *testing.T) {
	sink := &tools.GateSink{}
	s := bill(t, counts(1000)).looks(t, sink, "gpt-4o-mini", nil)
	_, err := s.Run(t.Context(), 1, looking(1))
	must(t, err)
	payloads := tools.Flushed(t, s, sink)
	if got, want := tools.Names(payloads[:3]), "tool_proposed policy_decision tool_executed"; got != want {
		t.Fatalf("recorded %s, want %s", got, want)
	}
	use := payloads[2].(trajectory.ToolExecuted).Model
	if use == nil || use.Tokens.In != 1000 || *use.CostMicroUSD != s.SpentMicroUSD() || use.Tries != 1 || use.RequestedModel != "gpt-4o-mini" {
		t.Errorf("recorded %+v, spent %d", use, s.SpentMicroUSD())
	}
}
