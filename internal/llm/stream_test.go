package llm

import (
	"bufio"
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// stream passes a reply through a Stream and returns what was passed on, whether the last event came, and what was read.
func stream(t *testing.T, dialect, events string, addedUsage bool) (passed string, last bool, r *Response, e *Error) {
	t.Helper()
	s := NewStream(dialect, addedUsage)
	sc := bufio.NewScanner(strings.NewReader(events))
	sc.Buffer(nil, MaxStream)
	sc.Split(SplitEvents(MaxStream))
	var out bytes.Buffer
	for sc.Scan() {
		pass, end := s.Next(sc.Bytes())
		out.Write(pass)
		last = last || end
	}
	if sc.Err() != nil {
		t.Fatal(sc.Err())
	}
	r, e = ReadAnswer(dialect, 200, http.Header{"X-Request-Id": {"req"}}, s.Body(), "m", testPrices(t))
	return out.String(), last, r, e
}

func TestStreamChat(t *testing.T) {
	const head = `data: {"id":"x","object":"chat.completion.chunk","model":"m-1","system_fingerprint":"fp","choices":[{"index":0,"delta":`
	const usage = `data: {"id":"x","model":"m-1","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":4}}` + "\n\n"
	events := head + `{"role":"assistant","content":""},"finish_reason":null}],"usage":null}` + "\n\n" +
		": waiting\n\n" +
		head + `{"content":"half a \ud83d"},"finish_reason":null}]}` + "\r\n\r\n" +
		head + `{"content":"\ude00 face"},"logprobs":{"content":[{"token":"a"}]},"finish_reason":null}]}` + "\n\n" +
		head + `{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"count","arguments":""}}]},"finish_reason":null}]}` + "\n\n" +
		head + `{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]},"finish_reason":null}]}` + "\n\n" +
		head + `{"tool_calls":[{"index":0,"function":{"arguments":":1}"}},{"index":1,"id":"c2","type":"function","function":{"name":"list","arguments":"{}"}}]},"finish_reason":null}]}` + "\n\n" +
		head + `{},"finish_reason":"tool_calls"}]}` + "\n\n"
	whole := `{"id":"x","object":"chat.completion","model":"m-1","system_fingerprint":"fp","choices":[{"index":0,"message":{"role":"assistant","content":"half a 😀 face","tool_calls":[` +
		`{"id":"c1","type":"function","function":{"name":"count","arguments":"{\"a\":1}"}},{"id":"c2","type":"function","function":{"name":"list","arguments":"{}"}}]},"finish_reason":"tool_calls"}],` +
		`"usage":{"prompt_tokens":10,"completion_tokens":4}}`
	want, failed := ReadAnswer(DialectChat, 200, http.Header{"X-Request-Id": {"req"}}, []byte(whole), "m", testPrices(t))
	if failed != nil {
		t.Fatal(failed)
	}
	passed, last, got, failed := stream(t, DialectChat, events+usage+"data: [DONE]\n\n"+"data: more\n\n", true)
	if failed != nil || !last || passed != events+"data: [DONE]\n\n" {
		t.Errorf("error %v, last %v, passed %s", failed, last, passed)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if passed, _, _, _ := stream(t, DialectChat, events+usage, false); passed != events+usage {
		t.Errorf("passed %s", passed)
	}
}
