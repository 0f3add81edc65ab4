package llm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var recording = Transcription{Model: "whisper-t", FileName: "audio.wav", Audio: []byte("RIFF\x00\x00\x00\x00WAVEfmt \r\n--x")}

// form is a request body as a server reads it.
type form struct {
	fields map[string]string
	header string // Content-Disposition of the file
	name   string
	data   []byte
}

func readForm(t *testing.T, contentType, body string) form {
	t.Helper()
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		t.Fatal(err)
	}
	got := form{fields: map[string]string{}}
	r := multipart.NewReader(strings.NewReader(body), params["boundary"])
	for {
		part, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		if part.FormName() != "file" {
			if _, twice := got.fields[part.FormName()]; twice {
				t.Errorf("field %q twice", part.FormName())
			}
			got.fields[part.FormName()] = string(data)
			continue
		}
		got.header, got.data = part.Header.Get("Content-Disposition"), data
		_, params, err := mime.ParseMediaType(got.header)
		if err != nil {
			t.Fatalf("%q: %v", got.header, err)
		}
		got.name = params["filename"]
		if len(part.Header) != 2 {
			t.Errorf("headers of the file: %q", part.Header)
		}
	}
}

func TestTranscribe(t *testing.T) {
	for _, tc := range []struct {
		name, model, answer, format string
		want                        Transcript
		cost                        string
	}{
		{"verbose", "whisper-t", `{"task":"transcribe","language":"english","duration":8.4701,"text":"the tide turns","segments":[{"id":0,"text":"the"}]}`,
			"verbose_json", Transcript{Text: "the tide turns", RequestID: "req-1", Milliseconds: 8471}, "848"},
		{"billed seconds before duration", "whisper-t", `{"duration":"8.47","text":"a","usage":{"type":"duration","seconds":9}}`,
			"verbose_json", Transcript{Text: "a", RequestID: "req-1", Milliseconds: 9000}, "900"},
		{"duration as text", "whisper-t", `{"duration":"0.5","text":"a"}`, "verbose_json", Transcript{Text: "a", RequestID: "req-1", Milliseconds: 500}, "50"},
		{"no duration", "whisper-t", `{"text":"a"}`, "verbose_json", Transcript{Text: "a", RequestID: "req-1"}, "unknown"},
		{"nonsense durations", "whisper-t", `{"text":"a","duration":"long","usage":{"seconds":-4}}`, "verbose_json", Transcript{Text: "a", RequestID: "req-1"}, "unknown"},
		{"endless", "whisper-t", `{"text":"a","duration":1e300}`, "verbose_json", Transcript{Text: "a", RequestID: "req-1"}, "unknown"},
		{"tokens", "by-token", `{"text":"b","model":"by-token-2","usage":{"type":"tokens","input_tokens":14,"input_token_details":{"audio_tokens":14},"output_tokens":45,"total_tokens":59}}`,
			"json", Transcript{Text: "b", RequestID: "req-1", ResponseModel: "by-token-2", Usage: Usage{Reported: true, In: 14, Out: 45}}, "534"},
		{"nonsense tokens", "by-token", `{"text":"b","usage":{"input_tokens":-14,"output_tokens":45}}`, "json", Transcript{Text: "b", RequestID: "req-1"}, "unknown"},
		{"cost as told", "other", `{"text":"b","usage":{"cost":0.0000025}}`, "json", Transcript{Text: "b", RequestID: "req-1"}, "3"},
		{"model unknown", "openai/Whisper-X", `{"text":"","duration":3}`, "verbose_json", Transcript{RequestID: "req-1", Milliseconds: 3000}, "unknown"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := serve(t, answer(200, tc.answer, "X-Request-Id", "req-1"))
			j := &journal{}
			ask := recording
			ask.Model = tc.model
			got, err := client(t, e, func(c *Config) { c.Prices = audioPrices(t) }).Transcribe(context.Background(), ask, j)
			if err != nil {
				t.Fatal(err)
			}
			if cost := show(got.CostMicroUSD); cost != tc.cost {
				t.Errorf("cost %s, want %s", cost, tc.cost)
			}
			cost := got.CostMicroUSD
			got.CostMicroUSD = nil
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			told := &Response{Message: Message{Role: "assistant", Content: tc.want.Text}, RequestID: "req-1",
				ResponseModel: tc.want.ResponseModel, Usage: tc.want.Usage, CostMicroUSD: cost}
			if diff := cmp.Diff([]Try{{Number: 1, Response: told, LatencyMs: 7}}, j.completed); diff != "" {
				t.Error(diff)
			}
			sent := readForm(t, e.headers[0].Get("Content-Type"), e.bodies[0])
			if diff := cmp.Diff(map[string]string{"model": tc.model, "response_format": tc.format}, sent.fields); diff != "" {
				t.Error(diff)
			}
			if sent.name != "audio.wav" || !bytes.Equal(sent.data, recording.Audio) {
				t.Errorf("sent %q: %q", sent.name, sent.data)
			}
			if got := e.headers[0].Get("Authorization"); got != "Bearer "+testKey {
				t.Errorf("Authorization: %q", got)
			}
		})
	}
}

// A name from a task cannot write headers, end the quoted string, or leave its folder.
func TestTranscribeNames(t *testing.T) {
	for name, want := range map[string]string{
		"a b.mp3":                         "a b.mp3",
		"dir/ünï.mp3":                     "ünï.mp3",
		"x\"; filename=\"y.mp3":           "x__ filename=_y.mp3",
		"x\r\nContent-Type: text\r\n":     "x__Content-Type: text__",
		"a\\\".mp3":                       "a__.mp3",
		"\x00\xff.mp3":                    "__.mp3",
		"%0D%0A.mp3":                      "_0D_0A.mp3",
		strings.Repeat("é", 300) + ".mp3": strings.Repeat("é", 98) + ".mp3",
		"":                                ".",
	} {
		t.Run(name, func(t *testing.T) {
			e := serve(t, answer(200, `{"text":"a"}`))
			ask := recording
			ask.FileName = name
			if _, err := client(t, e, nil).Transcribe(context.Background(), ask, &journal{}); err != nil {
				t.Fatal(err)
			}
			sent := readForm(t, e.headers[0].Get("Content-Type"), e.bodies[0])
			if !strings.HasPrefix(sent.header, `form-data; name="file"; filename="`) || !bytes.Equal(sent.data, recording.Audio) {
				t.Errorf("header %q", sent.header)
			}
			if sent.name != want {
				t.Errorf("sent as %q, want %q", sent.name, want)
			}
		})
	}
}

// Equal recordings are equal requests; another model, name or recording is another one.
func TestTranscribeRequestIsDeterministic(t *testing.T) {
	body := func(r Transcription) string {
		b, contentType, err := r.form()
		if err != nil {
			t.Fatal(err)
		}
		return contentType + "\n" + string(b)
	}
	first := body(recording)
	if body(recording) != first {
		t.Error("two requests for the same differ")
	}
	for _, change := range []func(*Transcription){
		func(t *Transcription) { t.Model = "whisper-u" },
		func(t *Transcription) { t.FileName = "b.wav" },
		func(t *Transcription) { t.Audio = append([]byte("x"), t.Audio...) },
	} {
		other := recording
		change(&other)
		kind, _, _ := strings.Cut(body(other), "\n")
		if strings.HasPrefix(first, kind) {
			t.Errorf("the same boundary for %q", other.Model)
		}
	}
}

func TestTranscribeFaults(t *testing.T) {
	for _, tc := range []struct {
		name  string
		step  http.HandlerFunc
		want  Error
		tries int
	}{
		{"too large", answer(413, `{"error":{"message":"Maximum content size limit (26214400) exceeded","type":"server_error","code":null}}`),
			Error{Status: 413, Code: "server_error", Message: "Maximum content size limit (26214400) exceeded"}, 1},
		{"format", answer(400, `{"error":{"message":"Invalid file format.","type":"invalid_request_error"}}`),
			Error{Status: 400, Code: "invalid_request_error", Message: "Invalid file format."}, 1},
		{"key", answer(401, `{"error":{"message":"key `+testKey+`","code":"invalid_api_key"}}`),
			Error{Status: 401, Code: "invalid_api_key", Message: "key [redacted]", Stop: true}, 1},
		{"no such interface", answer(404, `{"detail":"Not Found"}`), Error{Status: 404, Code: "http_404", Message: "Not Found", Stop: true}, 1},
		{"busy", answer(429, `{"error":{"message":"later"}}`, "Retry-After", "2"),
			Error{Status: 429, Code: "http_429", Message: "later", Retryable: true, RetryAfter: 2 * time.Second}, 3},
		{"200 with error", answer(200, `{"error":{"code":503,"message":"later"}}`), Error{Status: 503, Code: "http_503", Message: "later", Retryable: true}, 3},
		{"no text", answer(200, `{"duration":3}`),
			Error{Status: 200, Code: "invalid_response", Message: "the answer does not have the form of a transcript: it has no text", Retryable: true}, 3},
		{"text of another kind", answer(200, `{"text":["a"]}`),
			Error{Status: 200, Code: "invalid_response", Message: "the answer does not have the form of a transcript: it has no text", Retryable: true}, 3},
		{"plain text", answer(200, "the tide turns", "Content-Type", "text/plain"),
			Error{Status: 200, Code: "not_json", Message: "the endpoint answers with text/plain instead of JSON: is the base URL that of a chat completions interface?"}, 1},
		{"too long", answer(200, `{"text":"`+strings.Repeat("a", 70<<10)+`"}`),
			Error{Status: 200, Code: "response_too_large", Message: "the answer is larger than 65536 bytes"}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, j := serve(t, tc.step), &journal{}
			_, err := client(t, e, func(c *Config) { c.MaxBody = 64 << 10 }).Transcribe(context.Background(), recording, j)
			var got *Error
			if !errors.As(err, &got) || *got != tc.want {
				t.Errorf("error %+v, want %+v", err, tc.want)
			}
			if e.requests() != tc.tries || len(j.started) != tc.tries || len(j.completed) != tc.tries {
				t.Errorf("%d requests, %d started, %d completed, want %d", e.requests(), len(j.started), len(j.completed), tc.tries)
			}
			for _, body := range e.bodies {
				if body != e.bodies[0] {
					t.Error("the request changed between tries")
				}
			}
		})
	}
	t.Run("recovers", func(t *testing.T) {
		e := serve(t, answer(429, `{}`, "Retry-After-Ms", "1500"), answer(200, `{"text":"a"}`))
		h := client(t, e, nil)
		if got, err := h.Transcribe(context.Background(), recording, &journal{}); err != nil || got.Text != "a" {
			t.Errorf("%+v, %v", got, err)
		}
		if diff := cmp.Diff([]time.Duration{1500 * time.Millisecond}, h.waits); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("not recorded", func(t *testing.T) {
		e := serve(t, answer(200, `{"text":"a"}`))
		if _, err := client(t, e, nil).Transcribe(context.Background(), recording, &journal{failStart: 1}); !errors.Is(err, errDiskFull) || e.requests() != 0 {
			t.Errorf("error %v after %d requests", err, e.requests())
		}
		if got, err := client(t, e, nil).Transcribe(context.Background(), recording, &journal{failEnd: 1}); !errors.Is(err, errDiskFull) || got.Text != "" {
			t.Errorf("%+v, error %v", got, err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		e := serve(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
		if _, err := client(t, e, nil).Transcribe(ctx, recording, &journal{}); !errors.Is(err, context.Canceled) || e.requests() != 1 {
			t.Errorf("error %v after %d requests", err, e.requests())
		}
	})
	t.Run("unusable", func(t *testing.T) {
		var failed *Error
		if _, err := New(Config{BaseURL: "nowhere"}).Transcribe(context.Background(), recording, &journal{}); !errors.As(err, &failed) || failed.Code != "invalid_config" {
			t.Errorf("error %v", err)
		}
	})
}

// Whatever a server answers, a transcription ends in one that can be recorded, or in an *Error.
func FuzzTranscript(f *testing.F) {
	f.Add(200, []byte(`{"text":"a","duration":"1e3","usage":{"type":"tokens","input_tokens":1,"output_tokens":2}}`))
	f.Add(200, []byte(`{"text":"\ud800","usage":{"type":"duration","seconds":1e-320}}`))
	f.Add(200, []byte("{\"text\":\"\xff\",\"duration\":\"NaN\"}"))
	f.Add(200, []byte(`{"text":7}`))
	f.Add(400, []byte(`{"error":{"message":"`+testKey+`"}}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if status < 200 || status > 599 {
			t.Skip("not a final status")
		}
		c := New(Config{BaseURL: "http://127.0.0.1/v1", APIKey: testKey, Transport: canned{status, http.Header{}, body}, MaxTries: 2, Prices: audioPrices(t),
			Sleep: func(context.Context, time.Duration) error { return nil }})
		got, err := c.Transcribe(context.Background(), recording, &journal{})
		var failed *Error
		switch {
		case err == nil:
			if !utf8.ValidString(got.Text) || !got.Usage.plausible() || got.Milliseconds < 0 || got.Milliseconds > maxMilliseconds ||
				got.CostMicroUSD != nil && (*got.CostMicroUSD < 0 || *got.CostMicroUSD >= 1<<53) {
				t.Errorf("%+v, cost %s", got, show(got.CostMicroUSD))
			}
		case !errors.As(err, &failed):
			t.Errorf("error %v", err)
		case strings.Contains(failed.Error(), testKey) || got != (Transcript{}):
			t.Errorf("%+v with %v", got, failed)
		}
	})
}
