package llm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gaia-harness/gaia/internal/testkit/long"
)

// inquiry returns another request for each n.
func inquiry(n int) Request {
	return Request{Model: "test-model", Messages: []Message{{Role: "user", Content: fmt.Sprintf("what is %d?", n)}}}
}

func recorder(t *testing.T, dir string) *Recorder {
	t.Helper()
	r, err := NewRecorder(dir, &http.Transport{DisableKeepAlives: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func player(t *testing.T, dir string) *Player {
	t.Helper()
	p, err := NewPlayer(dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// replaying returns a client that asks a cassette under another host than was recorded.
func replaying(p *Player) *Client {
	return New(Config{BaseURL: "https://elsewhere.example/api/v1/", Transport: p, MaxTries: 3,
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }})
}

// echoing answers each request with its own question, after refusing the first try of every third.
func echoing(e *endpoint) http.HandlerFunc {
	var mu sync.Mutex
	seen := map[string]int{}
	return func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		mu.Lock()
		defer mu.Unlock()
		body := e.bodies[len(e.bodies)-1]
		e.mu.Unlock()
		_, question, _ := strings.Cut(body, "what is ")
		question, _, _ = strings.Cut(question, "?")
		seen[question]++
		if strings.HasSuffix(question, "3") && seen[question] == 1 {
			answer(429, `{"error":{"message":"slow down, `+testKey+`"}}`, "Retry-After", "2", "Set-Cookie", "a=b", "X-Request-Id", "req-"+question)(w, r)
			return
		}
		answer(200, strings.Replace(goodBody, "forty-two", "it is "+question, 1), "X-Request-Id", "req-"+question)(w, r)
	}
}

// What is recorded is replayed: the same answers, faults and retries, whatever the host and the order.
func TestCassette(t *testing.T) {
	const questions = 40
	dir := filepath.Join(t.TempDir(), "tapes", "one")
	e := serve(t)
	e.steps = []http.HandlerFunc{echoing(e)}
	var recorded [questions]journal
	var answers [questions]Response
	h := client(t, e, func(c *Config) { c.Transport = recorder(t, dir) })
	for n := range questions {
		var err error
		if answers[n], err = h.Chat(background, inquiry(n), &recorded[n]); err != nil {
			t.Fatal(err)
		}
	}
	e.Close()

	p := player(t, dir)
	c := replaying(p)
	var workers sync.WaitGroup
	for w := range 16 {
		workers.Go(func() {
			for n := questions - 1 - w; n >= 0; n -= 16 {
				j := &journal{}
				got, err := c.Chat(background, inquiry(n), j)
				if err != nil {
					t.Errorf("question %d: %v", n, err)
					continue
				}
				if diff := cmp.Diff(answers[n], got); diff != "" {
					t.Errorf("question %d: %s", n, diff)
				}
				for i := range recorded[n].completed {
					recorded[n].completed[i].LatencyMs = 0
				}
				if diff := cmp.Diff(recorded[n].completed, j.completed, cmp.AllowUnexported(Error{})); diff != "" {
					t.Errorf("question %d: %s", n, diff)
				}
			}
		})
	}
	workers.Wait()

	for _, tc := range []struct {
		ask     Request
		message string
	}{
		{inquiry(0), "has no more answers"},
		{inquiry(questions), "has no answer"},
	} {
		j := &journal{}
		_, err := c.Chat(background, tc.ask, j)
		var failed *Error
		if !errors.As(err, &failed) || failed.Code != "not_on_cassette" || !failed.Stop || failed.Retryable || !strings.Contains(failed.Message, tc.message) {
			t.Errorf("error %+v", err)
		}
		if len(j.completed) != 1 {
			t.Errorf("%d tries", len(j.completed))
		}
	}
}

// A cassette holds no request, no key and no cookie, and no one else can read it.
func TestCassetteIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tape")
	e := serve(t)
	e.steps = []http.HandlerFunc{echoing(e)}
	h := client(t, e, func(c *Config) { c.Transport = recorder(t, dir) })
	if _, err := h.Chat(background, inquiry(3), &journal{}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory %v, %v", info.Mode(), err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 2 {
		t.Fatal(names, err)
	}
	for i, name := range names {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("file %v, %v", info.Mode(), err)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, never := range []string{testKey, "what is", "Authorization", "ookie", "a=b", e.URL} {
			if strings.Contains(string(data), never) {
				t.Errorf("%s holds %q: %s", name, never, data)
			}
		}
		for _, always := range [][]string{{`"status":429`, "slow down, [redacted]", `"Retry-After":"2"`, `"X-Request-Id":"req-3"`}, {`"status":200`, "it is 3", `"Content-Type":"application/json"`}}[i] {
			if !strings.Contains(string(data), always) {
				t.Errorf("%s does not hold %q: %s", name, always, data)
			}
		}
	}
}

// A recorder starts a cassette or goes on with one, and never mixes two.
func TestRecorderContinues(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	tell := func(text string) *endpoint {
		return serve(t, answer(200, strings.Replace(goodBody, "forty-two", text, 1)))
	}
	chat := func(e *endpoint, r http.RoundTripper) {
		t.Helper()
		if _, err := client(t, e, func(c *Config) { c.Transport = r }).Chat(background, ask, &journal{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := NewPlayer(dir); err == nil || !strings.Contains(err.Error(), "nothing is recorded") {
		t.Errorf("an empty cassette: %v", err)
	}
	chat(tell("one"), recorder(t, dir))
	if _, err := NewRecorder(dir, nil); err == nil || !strings.Contains(err.Error(), "holds a recording already") {
		t.Errorf("a second recording: %v", err)
	}
	more, err := ContinueRecorder(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	chat(tell("two"), more)
	(&http.Client{Transport: more.next}).CloseIdleConnections()
	c := replaying(player(t, dir))
	for _, want := range []string{"one", "two"} {
		got, err := c.Chat(background, ask, &journal{})
		if err != nil || got.Message.Content != want {
			t.Errorf("%q, %v, not %q", got.Message.Content, err, want)
		}
	}
	if _, err := ContinueRecorder(filepath.Join(dir, "nowhere"), nil); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no cassette: %v", err)
	}
}

// An answer that cannot be kept is not given to anyone, and the run has to stop.
func TestNotRecorded(t *testing.T) {
	for _, tc := range []struct {
		name, message string
		spoil         func(dir string) error
	}{
		{"no directory", "writing cassette file", os.RemoveAll},
		{"another recorder", "does another process record there?", func(dir string) error {
			other := recorder(t, dir)
			_, err := client(t, serve(t, good), func(c *Config) { c.Transport = other }).Chat(background, ask, &journal{})
			return err
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "tape")
			r, j, e := recorder(t, dir), &journal{}, serve(t, good)
			if err := tc.spoil(dir); err != nil {
				t.Fatal(err)
			}
			_, err := client(t, e, func(c *Config) { c.Transport = r }).Chat(background, ask, j)
			var failed *Error
			if !errors.As(err, &failed) || failed.Code != "not_recorded" || !failed.Stop || failed.Retryable || !strings.Contains(failed.Message, tc.message) {
				t.Errorf("error %+v", err)
			}
			if e.requests() != 1 || len(j.completed) != 1 || j.completed[0].Response != nil {
				t.Errorf("%d requests, %+v", e.requests(), j.completed)
			}
		})
	}
}

// What has no whole answer is judged as ever, and not recorded.
func TestNothingWholeToRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tape")
	head := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
	e := serve(t, cut(head+`{"choices":`), cut(""), cut(strings.Replace(head, "200 OK", "503 No", 1)+`{"error":"bu`), good)
	h := client(t, e, func(c *Config) { c.Transport, c.MaxTries = recorder(t, dir), 9 })
	j := &journal{}
	got, err := h.Chat(background, ask, j)
	if err != nil || got.Message.Content != "forty-two" {
		t.Fatalf("%+v, %v", got, err)
	}
	var codes []string
	for _, try := range j.completed[:len(j.completed)-1] {
		codes = append(codes, try.Err.Code)
	}
	if diff := cmp.Diff([]string{"transport", "transport", "http_503"}, codes); diff != "" {
		t.Error(diff)
	}
	if p := player(t, dir); len(p.counts) != 1 {
		t.Errorf("recorded %v", p.counts)
	}
	if got, err := replaying(player(t, dir)).Chat(background, ask, &journal{}); err != nil || got.Message.Content != "forty-two" {
		t.Errorf("%+v, %v", got, err)
	}
}

// Bytes that are no text, and answers without an end, come out as they went in.
func TestCassetteBodies(t *testing.T) {
	long.NotRaced(t)
	for _, body := range [][]byte{nil, []byte("\xff\xfe\x00"), []byte("a\x00\"\\<&> \u2028 é"), bytes.Repeat([]byte("x"), maxRecorded+10)} {
		dir := filepath.Join(t.TempDir(), "tape")
		next := roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 418, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body))}, nil
		})
		r, err := NewRecorder(dir, next)
		if err != nil {
			t.Fatal(err)
		}
		var got [2][]byte
		for i, transport := range []http.RoundTripper{r, nil} {
			if i == 1 {
				transport = player(t, dir)
			}
			res, err := transport.RoundTrip(multipartOf(t, "https://models.example/v1/chat/completions", "", "{}"))
			if err != nil || res.StatusCode != 418 {
				t.Fatal(res, err)
			}
			if got[i], err = io.ReadAll(res.Body); err != nil {
				t.Fatal(err)
			}
			if want := body[:min(len(body), maxRecorded)]; !bytes.Equal(got[i], want) {
				t.Errorf("%d bytes came out as %d", len(body), len(got[i]))
			}
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func multipartOf(t *testing.T, url, contentType, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	return req
}

// Requests are the same if they ask the same of the same interface.
func TestAskedIn(t *testing.T) {
	const url, json = "https://models.example/v1/chat/completions", "application/json"
	parts := func(boundary, text string) string {
		return "--" + boundary + "\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n" + text + "\r\n--" + boundary + "--\r\n"
	}
	for _, tc := range []struct {
		name string
		a, b *http.Request
		same bool
	}{
		{"host, port and prefix", multipartOf(t, url, json, `{}`), multipartOf(t, "http://127.0.0.1:8080/chat/completions/", json, `{}`), true},
		{"order and white space", multipartOf(t, url, json, `{"a":1,"b":[1, 2]}`), multipartOf(t, url, json, `{ "b":[1,2],"a":1.0 }`), true},
		{"another body", multipartOf(t, url, json, `{"a":1}`), multipartOf(t, url, json, `{"a":2}`), false},
		{"another order of a list", multipartOf(t, url, json, `[1,2]`), multipartOf(t, url, json, `[2,1]`), false},
		{"another interface", multipartOf(t, url, json, `{}`), multipartOf(t, "https://models.example/v1/responses", json, `{}`), false},
		{"a name that ends alike", multipartOf(t, url, json, `{}`), multipartOf(t, "https://models.example/v1/completions", json, `{}`), false},
		{"a name that begins alike", multipartOf(t, "https://models.example/v1/responses", json, `{}`), multipartOf(t, "https://other.example/responses", json, `{}`), true},
		{"boundary", multipartOf(t, url, "multipart/form-data; boundary=one", parts("one", "la")), multipartOf(t, url, "multipart/form-data; boundary=two", parts("two", "la")), true},
		{"another form", multipartOf(t, url, "multipart/form-data; boundary=one", parts("one", "la")), multipartOf(t, url, "multipart/form-data; boundary=two", parts("two", "lo")), false},
		{"boundary in the text", multipartOf(t, url, "multipart/form-data; boundary=one", parts("one", "one")), multipartOf(t, url, "multipart/form-data; boundary=two", parts("two", "two")), false},
	} {
		a, _, errA := askedIn(tc.a)
		b, _, errB := askedIn(tc.b)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if (a.digest() == b.digest()) != tc.same {
			t.Errorf("%s: %+v and %+v", tc.name, a, b)
		}
	}
	get := multipartOf(t, url, json, `{}`)
	get.Method = http.MethodGet
	a, _, _ := askedIn(get)
	if b, _, _ := askedIn(multipartOf(t, url, json, `{}`)); a.digest() == b.digest() {
		t.Error("the method does not matter")
	}
}

func exampleExchange() exchanged {
	return exchanged{
		Request:  askedFor{"sha256:" + strings.Repeat("0f", 32), "POST", "chat/completions"},
		Response: answered{Body: goodBody, Headers: map[string]string{"Content-Type": "application/json"}, Status: 200},
		Schema:   cassetteSchema,
	}
}

// A damaged cassette is refused when it is opened, in one sentence that names the file.
func TestDamagedCassette(t *testing.T) {
	e := exampleExchange()
	data, err := encodeExchange(e)
	if err != nil {
		t.Fatal(err)
	}
	name := exchangeName(e.Request.digest(), 1)
	edit := func(old, new string) func(string) error {
		return func(dir string) error {
			if !bytes.Contains(data, []byte(old)) {
				return fmt.Errorf("%q is not in the file", old)
			}
			return os.WriteFile(filepath.Join(dir, name), bytes.Replace(data, []byte(old), []byte(new), 1), 0o600)
		}
	}
	const form, file = "not an exchange as it is recorded (gaia.cassette/1)", "reading cassette file"
	for _, tc := range []struct {
		name  string
		spoil func(dir string) error
		want  []string // none: it is fine
	}{
		{"nothing", func(string) error { return nil }, nil},
		{"other names", func(dir string) error { return os.WriteFile(filepath.Join(dir, "README"), nil, 0o600) }, nil},
		{"what a killed write leaves", func(dir string) error { return os.WriteFile(filepath.Join(dir, "."+name+"12"), nil, 0o600) }, nil},
		{"cut", edit(`"}`, ""), []string{file, name, form}},
		{"white space", edit(`,"schema"`, `, "schema"`), []string{file, name, form}},
		{"unknown member", edit(`{"body"`, `{"age":1,"body"`), []string{file, name, form}},
		{"twice", edit(`"schema":`, `"schema":"gaia.cassette/1","schema":`), []string{file, name, form}},
		{"another schema", edit("cassette/1", "cassette/2"), []string{file, name, form}},
		{"status", edit(`"status":200`, `"status":199`), []string{file, name, form}},
		{"a cookie", edit(`"Content-Type"`, `"Set-Cookie"`), []string{file, name, form}},
		{"a header's name", edit(`"Content-Type"`, `"content-type"`), []string{file, name, form}},
		{"no headers", edit(`{"Content-Type":"application/json"}`, `null`), []string{file, name, form}},
		{"base64 of text", edit(`"response":{`, `"response":{"base64":true,`), []string{file, name, form}},
		{"another request", edit("0f0f", "0e0f"), []string{file, name, "its name is that of another request"}},
		{"another name", func(dir string) error { return os.Rename(filepath.Join(dir, name), filepath.Join(dir, "x.json")) },
			[]string{`"x.json" is not the name of an exchange`}},
		{"a hole", func(dir string) error {
			return os.Rename(filepath.Join(dir, name), filepath.Join(dir, exchangeName(e.Request.digest(), 999_999_999)))
		}, []string{name, "is missing"}},
		{"a directory", func(dir string) error {
			return os.Mkdir(filepath.Join(dir, exchangeName(e.Request.digest(), 2)), 0o700)
		}, []string{file, "-2.json", "not a regular file"}},
		{"a link", func(dir string) error {
			return os.Symlink(name, filepath.Join(dir, exchangeName(e.Request.digest(), 2)))
		}, []string{file, "-2.json", "not a regular file"}},
		{"writable for the group", func(dir string) error { return os.Chmod(dir, 0o770) }, []string{"others than its owner may write there (chmod go-w helps)"}},
		{"writable for all", func(dir string) error { return os.Chmod(dir, 0o702) }, []string{"others than its owner may write there (chmod go-w helps)"}},
		{"a file instead", func(dir string) error {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			return os.WriteFile(dir, data, 0o600)
		}, []string{"not a directory"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "tape")
			if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, name), data, 0o600), tc.spoil(dir)); err != nil {
				t.Fatal(err)
			}
			_, played := NewPlayer(dir)
			_, recorded := ContinueRecorder(dir, nil)
			for _, err := range []error{played, recorded} {
				if (err == nil) != (tc.want == nil) {
					t.Fatalf("error %v", err)
				}
				for _, want := range tc.want {
					if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
						t.Errorf("error %q has no %q", err, want)
					}
				}
			}
		})
	}
}

// A file that is damaged after the cassette was opened stops the run, too.
func TestDamagedWhileReplayed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tape")
	h := client(t, serve(t, good), func(c *Config) { c.Transport = recorder(t, dir) })
	if _, err := h.Chat(background, ask, &journal{}); err != nil {
		t.Fatal(err)
	}
	p := player(t, dir)
	names, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	if err := os.Truncate(names[0], 10); err != nil {
		t.Fatal(err)
	}
	_, err := replaying(p).Chat(background, ask, &journal{})
	var failed *Error
	if !errors.As(err, &failed) || !failed.Stop || !strings.Contains(failed.Message, filepath.Base(names[0])) {
		t.Errorf("error %v", err)
	}
}

// docs/formats.md names every member of an exchange.
func TestCassetteIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	_, chapter, _ := strings.Cut(string(doc), "\n## Cassette\n")
	chapter, _, _ = strings.Cut(chapter, "\n## ")
	members := 0
	for _, typ := range []reflect.Type{reflect.TypeFor[exchanged](), reflect.TypeFor[askedFor](), reflect.TypeFor[answered]()} {
		for i := range typ.NumField() {
			name, options, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if options != "" {
				name += "?"
			}
			if members++; !strings.Contains(chapter, "`"+name+"`") {
				t.Errorf("the chapter does not name %s", name)
			}
		}
	}
	if members != 10 {
		t.Errorf("%d members", members)
	}
}

func FuzzDecodeExchange(f *testing.F) {
	for _, change := range []func(*exchanged){
		func(*exchanged) {},
		func(e *exchanged) { e.Response.Base64, e.Response.Body = true, "//4A" },
		func(e *exchanged) { e.Response.Headers = map[string]string{} },
		func(e *exchanged) { e.Response.Status = 429; e.Response.Headers["X-Ratelimit-Reset-Tokens"] = "6m0s" },
	} {
		e := exampleExchange()
		change(&e)
		data, err := encodeExchange(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := decodeExchange(data)
		if err != nil {
			if !reflect.DeepEqual(e, exchanged{}) {
				t.Errorf("%+v beside an error", e)
			}
			return
		}
		again, err := encodeExchange(e)
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("%s is read and written as %s, %v", data, again, err)
		}
		body, err := e.Response.bytes()
		if err != nil {
			t.Fatal(err)
		}
		same := answeredWith(&http.Response{StatusCode: e.Response.Status}, body, "")
		if same.Body != e.Response.Body || same.Base64 != e.Response.Base64 {
			t.Errorf("the body %q is recorded as %q", e.Response.Body, same.Body)
		}
	})
}
