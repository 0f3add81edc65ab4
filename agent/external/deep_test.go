package external

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestDeep: JSON that is nested as deep as a request has room for ends no more than the request.
func TestDeep(t *testing.T) {
	b := newBench(t, "", nil)
	s, err := b.serve(t.Context(), func(error) {}, b.session, b.rec)
	must(t, err)
	defer s.close()
	send := func(path, version, body string) {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"*/*"}, "Mcp-Protocol-Version": {version}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"calculate"}}
		s.tools.serve(httptest.NewRecorder(), r, s.proxy)
	}
	for open, end := range map[string]string{"[": "]", `{"a":`: "}"} {
		n := (maxToolRequest - 200) / len(open+end)
		deep := strings.Repeat(open, n) + "1" + strings.Repeat(end, n)
		send("/tools/calculate", "", deep)
		for _, version := range []string{"2025-06-18", "2026-07-28"} {
			for _, body := range []string{deep, strings.Repeat(open, 2*n),
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"calculate","arguments":` + deep + `}}`,
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"calculate","_meta":` + deep + `}}`,
				`{"jsonrpc":"2.0","id":1,"method":"initialize","params":` + deep + `}`, `{"jsonrpc":"2.0","id":` + deep + `,"method":"ping"}`,
				`{"jsonrpc":"2.0","id":1,"result":` + deep + `}`} {
				send("/mcp", version, body)
			}
		}
	}
	must(t, s.notRecorded())
}
