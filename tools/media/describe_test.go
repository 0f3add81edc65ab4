package media

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/testkit/files"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

const eyeKey = "sk-test-fedcba9876543210"

// sight is one request to a model that sees.
type sight struct {
	text, media string
	picture     []byte
}

// eye is a client of a chat endpoint on loopback that plays one step per request,
// the last again and again. What it was asked is appended to got.
func eye(t *testing.T, got *[]sight, steps ...http.HandlerFunc) *llm.Client {
	t.Helper()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Model       string `json:"model"`
			Temperature *int   `json:"temperature"`
			Messages    []struct {
				Role    string `json:"role"`
				Content []struct {
					Type, Text string
					ImageURL   struct{ URL string } `json:"image_url"`
				} `json:"content"`
			} `json:"messages"`
		}
		err := json.NewDecoder(r.Body).Decode(&body)
		if err != nil || body.Model != "seeing-model" || body.Temperature == nil || *body.Temperature != 0 ||
			len(body.Messages) != 1 || len(body.Messages[0].Content) != 2 || body.Messages[0].Role != "user" {
			t.Errorf("asked %+v, %v", body, err)
			return
		}
		parts := body.Messages[0].Content
		media, data, _ := strings.Cut(strings.TrimPrefix(parts[1].ImageURL.URL, "data:"), ";base64,")
		picture, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			t.Errorf("the picture: %v", err)
		}
		*got = append(*got, sight{parts[0].Text, media, picture})
		step := steps[min(asked, len(steps)-1)]
		asked++
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", "req-eye")
		step(w, r)
	}))
	t.Cleanup(server.Close)
	prices, err := llm.ParsePrices([]byte(`{"version":"t","note":"","models":{"seeing-model":{"input_microusd_per_mtok":1000000,"cached_input_microusd_per_mtok":1000000,"output_microusd_per_mtok":2000000}}}`))
	must(t, err)
	return llm.New(llm.Config{BaseURL: server.URL + "/v1", APIKey: eyeKey, Prices: prices, MaxTries: 3, Transport: &http.Transport{DisableKeepAlives: true},
		Sleep: func(context.Context, time.Duration) error { return nil }})
}

// sees answers with a text, for 1000 tokens in and 10 out.
func sees(text, finish string) http.HandlerFunc {
	content, _ := json.Marshal(text) // a string
	return say(200, `{"id":"c","model":"seeing-model-2","choices":[{"message":{"role":"assistant","content":`+string(content)+`},"finish_reason":"`+finish+`"}],"usage":{"prompt_tokens":1000,"completion_tokens":10}}`)
}

func looked(tries int, cost int64, response string) *trajectory.ModelUse {
	use := &trajectory.ModelUse{CostMicroUSD: &cost, RequestID: "req-eye", RequestedModel: "seeing-model", ResponseModel: response, Tries: tries}
	if cost > 0 {
		n := cost / 1020
		use.UsageReported, use.Tokens = true, trajectory.Tokens{In: 1000 * n, Out: 10 * n}
	}
	return use
}

func TestDescribeImage(t *testing.T) {
	gate := sees("The gate says 417.", "stop")
	small, large := files.AsPNG(t, files.Quarters(40, 30)), files.AsJPEG(t, files.Quarters(4096, 64))
	for _, tc := range []struct {
		name  string
		data  []byte
		steps []http.HandlerFunc
		media string
		shown string
		model *trajectory.ModelUse
	}{
		{"gate.png", small, []http.HandlerFunc{gate}, "image/png", "[gate.png: description by seeing-model]\nThe gate says 417.", looked(1, 1020, "seeing-model-2")},
		{"wrongly named.pdf", small, []http.HandlerFunc{gate}, "image/png", "[wrongly named.pdf: description", looked(1, 1020, "seeing-model-2")},
		{"moving.gif", files.AsGIF(t, files.Quarters(40, 30)), []http.HandlerFunc{gate}, "image/png", "417", looked(1, 1020, "seeing-model-2")},
		{"a.bmp", files.AsBMP(t, files.Quarters(40, 30)), []http.HandlerFunc{gate}, "image/png", "417", looked(1, 1020, "seeing-model-2")},
		{"a.tiff", files.AsTIFF(t, files.Quarters(40, 30)), []http.HandlerFunc{gate}, "image/png", "417", looked(1, 1020, "seeing-model-2")},
		{"a.webp", files.AsWebP(8, 8), []http.HandlerFunc{gate}, "image/webp", "417", looked(1, 1020, "seeing-model-2")},
		{"large.jpg", large, []http.HandlerFunc{gate}, "image/jpeg", "417", looked(1, 1020, "seeing-model-2")},
		{"busy first.png", small, []http.HandlerFunc{say(429, `{}`), say(502, `<html>`), gate}, "image/png", "The gate says 417.", looked(3, 1020, "seeing-model-2")},
		{"long.png", small, []http.HandlerFunc{sees(strings.Repeat("é", tools.PageRunes+1), "stop")}, "image/png",
			"[long.png: description by seeing-model, its first 8000 characters: ask for less]\né", looked(1, 1020, "seeing-model-2")},
		{"cut.png", small, []http.HandlerFunc{sees("half a sen", "length")}, "image/png", "[cut.png: description by seeing-model, cut off: ask for less]\nhalf a sen", looked(1, 1020, "seeing-model-2")},
		{"no.png", small, []http.HandlerFunc{say(400, `{"error":{"message":"this picture may not be looked at, `+eyeKey+`","code":"content_policy_violation"}}`)}, "image/png",
			`error: cannot look at "no.png": the model that looks does not take it: this picture may not be looked at, [redacted]`, looked(1, 0, "")},
		{"mute.png", small, []http.HandlerFunc{sees("", "content_filter")}, "image/png", `error: cannot look at "mute.png": the model that looks says nothing of it; ask otherwise`, looked(3, 3060, "")},
		{"searches.png", small, []http.HandlerFunc{say(200, `{"model":"seeing-model-2","choices":[{"message":{"role":"assistant","content":"from the web","annotations":[{"type":"url_citation","url_citation":{"url":"http://a.example/"}}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":10}}`)},
			"image/png", `error: cannot look at "searches.png": the endpoint did more than look at it`, looked(1, 1020, "seeing-model-2")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var sent []sight
			tool := NewDescribeImage(eye(t, &sent, tc.steps...), "seeing-model", asIs{})
			out := use(t, tool, workspace(t, map[string][]byte{tc.name: tc.data}), object{"path": tc.name, "question": "What number is on the gate?"})
			mustHold(t, "the result", out.Shown, tc.shown)
			if out.IsError != strings.HasPrefix(out.Shown, "error: ") || strings.Contains(out.Shown, "from the web") {
				t.Errorf("error %v: %s", out.IsError, out.Shown)
			}
			if diff := cmp.Diff(tc.model, out.Model); diff != "" {
				t.Error(diff)
			}
			if len(sent) != tc.model.Tries || sent[0].text != prompt.Describe("What number is on the gate?") || sent[0].media != tc.media || len(sent[0].picture) == 0 {
				t.Errorf("sent %d times, %.300s", len(sent), sent[0].text)
			}
		})
	}
}

// An endpoint that cannot be asked is no result: the run stops, or the attempt
// is made again.
func TestDescribeImageBreaks(t *testing.T) {
	env := workspace(t, map[string][]byte{"a.png": files.AsPNG(t, files.Quarters(8, 8))})
	call := func(ctx context.Context, step http.HandlerFunc) (out tools.Output, tries int, err error) {
		var sent []sight
		out, err = callTool(ctx, NewDescribeImage(eye(t, &sent, step), "seeing-model", asIs{}), env, []byte(`{"path":"a.png","question":"?"}`))
		return out, len(sent), err
	}
	for name, tc := range map[string]struct {
		step  http.HandlerFunc
		stop  bool
		tries int
	}{
		"wrong key":   {say(401, `{"error":{"message":"wrong key","code":"invalid_api_key"}}`), true, 1},
		"quota":       {say(429, `{"error":{"message":"pay","code":"insufficient_quota"}}`), true, 1},
		"always busy": {say(429, `{}`), false, 3},
		"broken":      {say(500, `{}`), false, 3},
	} {
		out, tries, err := call(t.Context(), tc.step)
		var failed *llm.Error
		if !errors.As(err, &failed) || failed.Stop != tc.stop || failed.Retryable == tc.stop || tries != tc.tries || out.Shown != "" {
			t.Errorf("%s: %+v, %v after %d tries", name, out, err, tries)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, _, err := call(ctx, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestDescribeImageSpec(t *testing.T) {
	tool := NewDescribeImage(nil, "seeing-model", asIs{})
	for _, args := range []string{``, `{"path":"a"}`, `{"question":"a"}`, `{"path":"a","question":"b","model":"x"}`} {
		if _, err := admits(tool, []byte(args)); err == nil {
			t.Errorf("%s is accepted", args)
		}
	}
}

// asIs takes each file for a picture.
type asIs struct{}

func (asIs) Picture(_ context.Context, data []byte, _ string, _ int) ([]byte, error) {
	return data, nil
}
