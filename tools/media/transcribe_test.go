package media

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/testkit/files"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

const earKey = "sk-test-0123456789abcdef"

// ear is a client of a transcription endpoint on loopback that plays one step
// per request, the last again and again. The names and sizes of the files it
// was sent are appended to got.
func ear(t *testing.T, got *[]string, steps ...http.HandlerFunc) *llm.Client {
	t.Helper()
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, header, err := r.FormFile("file")
		if err != nil || r.URL.Path != "/v1/audio/transcriptions" {
			t.Errorf("%s: %v", r.URL.Path, err)
			return
		}
		data, _ := io.ReadAll(f)
		*got = append(*got, header.Filename+" "+http.DetectContentType(data)+" "+r.FormValue("model"))
		step := steps[min(asked, len(steps)-1)]
		asked++
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", "req-ear")
		step(w, r)
	}))
	t.Cleanup(server.Close)
	prices, err := llm.ParsePrices([]byte(`{"version":"t","note":"","models":{"hearing-model":{"audio_microusd_per_minute":6000}}}`))
	if err != nil {
		t.Fatal(err)
	}
	return llm.New(llm.Config{BaseURL: server.URL + "/v1", APIKey: earKey, Prices: prices, MaxTries: 3, Transport: &http.Transport{DisableKeepAlives: true},
		Sleep: func(context.Context, time.Duration) error { return nil }})
}

func say(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

var hears = say(200, `{"text":"The ferry leaves at nine.","duration":12.5,"model":"hearing-model-2"}`)

// used is the ModelUse of a call that asked the hearing model.
func used(tries int, cost *int64, response string) *trajectory.ModelUse {
	return &trajectory.ModelUse{CostMicroUSD: cost, RequestID: "req-ear", RequestedModel: "hearing-model", ResponseModel: response, Tries: tries}
}

func TestTranscribe(t *testing.T) {
	cost := func(n int64) *int64 { return &n }
	mp3 := "ID3\x04\x00\x00\x00\x00\x00\x0a" + strings.Repeat("\x00", 20)
	for _, tc := range []struct {
		name  string
		data  string
		steps []http.HandlerFunc
		args  object
		sent  string
		shown string
		model *trajectory.ModelUse
	}{
		{"memo.wav", string(files.MakeWAV(800)), []http.HandlerFunc{hears}, nil, "audio.wav audio/wave hearing-model",
			"[memo.wav: transcript, 12.5 seconds; page 1 of 1]\nThe ferry leaves at nine.", used(1, cost(1250), "hearing-model-2")},
		{"busy first.wav", string(files.MakeWAV(8)), []http.HandlerFunc{say(429, `{}`), say(502, `<html>`), hears}, nil, "audio.wav audio/wave hearing-model",
			"The ferry leaves at nine.", used(3, cost(1250), "hearing-model-2")},
		{"wrongly named.pdf", mp3, []http.HandlerFunc{hears}, nil, "audio.mp3 audio/mpeg hearing-model", "[wrongly named.pdf: transcript", used(1, cost(1250), "hearing-model-2")},
		{"evil\"\r\nX: y.wav", string(files.MakeWAV(8)), []http.HandlerFunc{hears}, nil, "audio.wav audio/wave hearing-model", `["evil\"\r\nX: y.wav": transcript`, used(1, cost(1250), "hearing-model-2")},
		{"silence.wav", string(files.MakeWAV(8)), []http.HandlerFunc{say(200, `{"text":" "}`)}, nil, "audio.wav audio/wave hearing-model",
			"[silence.wav: transcript, no words were heard; page 1 of 1]\n ", used(1, nil, "")},
		{"long.wav", string(files.MakeWAV(8)), []http.HandlerFunc{say(200, `{"text":"`+strings.Repeat("word ", 3000)+`"}`)}, object{"page": 2}, "audio.wav audio/wave hearing-model",
			"[long.wav: transcript; page 2 of 2]\nword word", used(1, nil, "")},
		{"find.wav", string(files.MakeWAV(8)), []http.HandlerFunc{hears}, object{"find": "NINE"}, "audio.wav audio/wave hearing-model",
			"1:The ferry leaves at nine.", used(1, cost(1250), "hearing-model-2")},
		{"too much.wav", string(files.MakeWAV(8)), []http.HandlerFunc{say(413, `{"error":{"message":"Maximum content size limit exceeded"}}`)}, nil, "audio.wav audio/wave hearing-model",
			`error: cannot transcribe "too much.wav": the transcription model does not take it: Maximum content size limit exceeded`, used(1, cost(0), "")},
		{"odd.wav", string(files.MakeWAV(8)), []http.HandlerFunc{say(400, `{"error":{"message":"Invalid file format, `+earKey+`"}}`)}, nil, "audio.wav audio/wave hearing-model",
			"the transcription model does not take it: Invalid file format, [redacted]", used(1, cost(0), "")},
		{"page.wav", string(files.MakeWAV(8)), []http.HandlerFunc{hears}, object{"page": 7}, "audio.wav audio/wave hearing-model",
			"error: there is no page 7 of page.wav: the last one is 1", used(1, cost(1250), "hearing-model-2")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var sent []string
			tool := NewTranscribe(ear(t, &sent, tc.steps...), "hearing-model")
			args := object{"path": tc.name}
			for k, v := range tc.args {
				args[k] = v
			}
			out := use(t, tool, workspace(t, map[string][]byte{tc.name: []byte(tc.data)}), args)
			mustHold(t, "the result", out.Shown, tc.shown)
			if out.IsError != strings.HasPrefix(out.Shown, "error: ") {
				t.Errorf("error %v: %s", out.IsError, out.Shown)
			}
			if diff := cmp.Diff(tc.model, out.Model); diff != "" {
				t.Error(diff)
			}
			if len(sent) != tc.model.Tries || sent[0] != tc.sent {
				t.Errorf("sent %q, want %q", sent, tc.sent)
			}
		})
	}
}

// What is no recording is not sent anywhere.
func TestTranscribeRefuses(t *testing.T) {
	env := workspace(t, map[string][]byte{
		"text.mp3":    []byte("These are words, not sound.\n"),
		"empty.wav":   nil,
		"picture.mp3": []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"),
		"large.wav":   append(files.MakeWAV(8), make([]byte, maxRecording)...),
		"dir/a.wav":   files.MakeWAV(8),
	})
	huge, err := os.Create(filepath.Join(env.Root.Name(), "huge.wav"))
	if err != nil {
		t.Fatal(err)
	}
	if err := huge.Truncate(2 << 30); err != nil { // takes no space
		t.Fatal(err)
	}
	huge.Close()
	var sent []string
	tool := NewTranscribe(ear(t, &sent, hears), "hearing-model")
	for path, want := range map[string]string{
		"text.mp3":     "it is of type text/plain, not a recording",
		"empty.wav":    "it is empty (0 bytes)",
		"picture.mp3":  "it is of type image/png, not a recording",
		"large.wav":    "it is larger than 25 MiB",
		"huge.wav":     "it is larger than",
		"missing.wav":  "there is no such file; list_files shows what is there",
		"dir":          "it is a directory",
		"../memo.wav":  "the path must be relative and inside the workspace",
		"/etc/motd":    "the path must be relative and inside the workspace",
		"dir/../a.wav": "there is no such file",
	} {
		out := use(t, tool, env, object{"path": path})
		if !out.IsError || out.Model != nil || !strings.HasPrefix(out.Shown, "error: cannot transcribe ") {
			t.Errorf("%s: %+v", path, out)
		}
		mustHold(t, path, out.Shown, want)
	}
	if len(sent) != 0 {
		t.Errorf("sent %q", sent)
	}
}

// An endpoint that cannot be asked is no result: the run stops, or the attempt
// is made again.
func TestTranscribeBreaks(t *testing.T) {
	env := workspace(t, map[string][]byte{"a.wav": files.MakeWAV(8)})
	call := func(ctx context.Context, step http.HandlerFunc) (out tools.Output, tries int, err error) {
		var sent []string
		out, err = callTool(ctx, NewTranscribe(ear(t, &sent, step), "hearing-model"), env, []byte(`{"path":"a.wav"}`))
		return out, len(sent), err
	}
	for name, tc := range map[string]struct {
		step  http.HandlerFunc
		stop  bool
		tries int
	}{
		"wrong key":     {say(401, `{"error":{"message":"wrong key","code":"invalid_api_key"}}`), true, 1},
		"quota":         {say(429, `{"error":{"message":"pay","code":"insufficient_quota"}}`), true, 1},
		"no such model": {say(404, `{"error":{"message":"no such model","code":"model_not_found"}}`), true, 1},
		"always busy":   {say(429, `{}`), false, 3},
		"broken":        {say(500, `{}`), false, 3},
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

func TestTranscribeSpec(t *testing.T) {
	tool := NewTranscribe(nil, "hearing-model")
	for _, args := range []string{``, `{}`, `{"path":7}`, `{"path":"a","model":"x"}`} {
		if _, err := admits(tool, []byte(args)); err == nil {
			t.Errorf("%s is accepted", args)
		}
	}
}
