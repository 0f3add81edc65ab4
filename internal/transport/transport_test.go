package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// switching answers each request with 101 and keeps the connection open until the test ends.
func switching(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go func() {
				_, _ = c.Read(make([]byte, 4096))
				_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

func TestSwitchedProtocols(t *testing.T) {
	client := http.Client{Transport: Guard(&http.Transport{})}
	if _, err := client.Get(switching(t)); !errors.Is(err, ErrSwitched) {
		t.Errorf("got %v, want %v", err, ErrSwitched)
	}
}

// An answer that never ends is ended by the limit, and by the request's own context.
func TestEndlessAnswer(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, "x")
			w.(http.Flusher).Flush()
			time.Sleep(time.Millisecond)
		}
	}))
	defer s.Close()
	for _, tt := range []struct {
		name       string
		limit, own time.Duration
		want       error
	}{
		{"limit", 50 * time.Millisecond, time.Hour, errLongest},
		{"context", time.Hour, 50 * time.Millisecond, context.DeadlineExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), tt.own)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			client := http.Client{Transport: guard{&http.Transport{}, tt.limit}}
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if _, err := io.ReadAll(res.Body); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}
