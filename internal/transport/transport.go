// Package transport bounds what a server can do with a request. Each client of this program, for models,
// pages, datasets and MCP servers, sends its requests through [Guard]. Tests of these clients try it with
// servers that switch protocols or never end an answer. It reads no environment and keeps no connection.
package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// Longest is how long an answer may take with its body, whatever the caller allows.
const Longest = time.Hour

// ErrSwitched reports a status 101. The connection would leave HTTP, and then neither
// the request's context nor a deadline ends a read from it.
var ErrSwitched = errors.New("the server switched to another protocol (status 101), which was not requested")

// errLongest reports an answer that took too long.
var errLongest = errors.New("the answer took longer than an hour")

// Guard returns a transport that sends requests by base, or http.DefaultTransport for nil. It
// refuses a switch of protocols before its body is read, and ends each answer after [Longest].
func Guard(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return guard{base, Longest}
}

type guard struct {
	base  http.RoundTripper
	limit time.Duration
}

func (g guard) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeoutCause(req.Context(), g.limit, errLongest)
	res, err := g.base.RoundTrip(req.WithContext(ctx))
	if err != nil {
		defer cancel()
		return nil, because(ctx, err)
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		cancel()
		res.Body.Close()
		return nil, ErrSwitched
	}
	res.Request = req
	res.Body = &body{res.Body, ctx, cancel}
	return res, nil
}

// CloseIdleConnections closes those of the transport below, for [http.Client.CloseIdleConnections].
func (g guard) CloseIdleConnections() { (&http.Client{Transport: g.base}).CloseIdleConnections() }

// body ends the request's context when it is closed.
type body struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelFunc
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = because(b.ctx, err)
	}
	return n, err
}

func (b *body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// because returns errLongest in place of err if the limit ended ctx.
func because(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errLongest) {
		return errLongest
	}
	return err
}
