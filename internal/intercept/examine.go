package intercept

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/gaia-harness/gaia/internal/origin"
	"github.com/gaia-harness/gaia/internal/unpack"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/klauspost/compress/zstd"
)

// Bounds, in bytes.
const (
	maxProbed   = 64 << 20  // of a reply, as it comes and decoded
	maxUnpacked = 128 << 20 // of what is in it
	maxSpools   = 512 << 20 // of the replies of an attempt that are in files at once
	maxInMemory = 256 << 10 // of a reply that is in no file
	maxKept     = 8 << 20   // of a text that full evidence keeps
	maxShown    = 64 << 10  // of a text, in which secrets are looked for before its head is cut
	maxArgs     = 1 << 20   // of what a request says, with which its reply is compared
	maxWindow   = 8 << 20   // of zstd, as RFC 9659 has it
	mostCodings = 4
)

// spool keeps a reply until it is looked through.
type spool struct {
	proxy   *Proxy
	memory  []byte
	file    *os.File // has no name
	bytes   int64
	dropped int64 // bytes that came after those that are kept
}

// write keeps what there is room for.
func (s *spool) write(b []byte) {
	if s.dropped > 0 || s.bytes+int64(len(b)) > s.proxy.bounds.probed || !s.put(b) {
		s.dropped += int64(len(b))
		return
	}
	s.bytes += int64(len(b))
}

func (s *spool) put(b []byte) bool {
	if s.file == nil && len(s.memory)+len(b) <= maxInMemory {
		s.memory = append(s.memory, b...)
		return true
	}
	size := int64(len(b))
	if s.file == nil {
		size += int64(len(s.memory))
	}
	p := s.proxy
	p.mu.Lock()
	room := p.kept+size <= p.bounds.spools
	if room {
		p.kept += size
	}
	p.mu.Unlock()
	if !room {
		return false
	}
	if s.file == nil {
		f, err := os.CreateTemp(p.Dir, "exchange")
		if err != nil {
			return false
		}
		s.file = f
		_ = os.Remove(f.Name())
		if _, err := f.Write(s.memory); err != nil {
			return false
		}
		s.memory = nil
	}
	_, err := s.file.WriteAt(b, s.bytes)
	return err == nil
}

// reader reads what is kept.
func (s *spool) reader() io.Reader {
	if s.file == nil {
		return bytes.NewReader(s.memory)
	}
	return bufio.NewReader(io.NewSectionReader(s.file, 0, s.bytes))
}

// drop gives back what it takes.
func (s *spool) drop() {
	if s.file == nil {
		return
	}
	_ = s.file.Close()
	s.proxy.mu.Lock()
	defer s.proxy.mu.Unlock()
	s.proxy.kept -= s.bytes
}

// decoders undo the content codings.
var decoders = map[string]func(io.Reader) (io.Reader, error){
	"gzip":    func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"x-gzip":  func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"br":      func(r io.Reader) (io.Reader, error) { return brotli.NewReader(r), nil },
	"deflate": deflated,
	"zstd": func(r io.Reader) (io.Reader, error) {
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	},
}

// deflated reads zlib, or what some servers send in its place.
func deflated(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	if head, err := b.Peek(2); err == nil && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(b)
	}
	return flate.NewReader(b), nil
}

// decode undoes the codings of a body, and returns at most limit bytes of what it was. whole is false where there is more, or
// where the rest cannot be decoded.
func decode(body io.Reader, codings []string, limit int64) (data []byte, whole bool) {
	if len(codings) > mostCodings {
		return nil, false
	}
	for _, coding := range slices.Backward(codings) {
		decoder := decoders[coding]
		if decoder == nil {
			return nil, false
		}
		var err error
		if body, err = decoder(body); err != nil {
			return nil, false
		}
		if c, ok := body.(interface{ Close() }); ok { // of zstd
			defer c.Close()
		}
	}
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if int64(len(data)) > limit {
		return data[:limit], false
	}
	return data, err == nil
}

// codings returns those of a Content-Encoding in the order in which they were applied.
func codings(h http.Header) (names []string) {
	for name := range strings.SplitSeq(strings.Join(h.Values("Content-Encoding"), ","), ",") {
		if name = strings.ToLower(strings.TrimSpace(name)); name != "" && name != "identity" {
			names = append(names, name)
		}
	}
	return names
}

// ask looks through what the agent asks with: the address, as it is and without escapes, the header and the body. It returns probes
// over what of it nothing explains that the agent was given, nil where all is explained.
func (x *exchange) ask() (own *trajectory.Probes) {
	var head, args, rest strings.Builder
	fmt.Fprintf(&head, "%s\n%s\n%s\n", x.shown, x.url.Path, strings.ReplaceAll(x.url.Path, "/", "\n")) // parts may be encoded
	for name, values := range x.url.Query() {
		fmt.Fprintf(&head, "%s\n%s\n", name, strings.Join(values, "\n"))
	}
	writeHeader(&head, x.request.Header)
	writeHeader(&head, x.request.Trailer)
	add := func(to *strings.Builder, text string) {
		to.WriteString(trajectory.CutUTF8(text, maxArgs-min(to.Len(), maxArgs)))
		to.WriteByte('\n')
	}
	look := func(_, text string) error {
		add(&args, text)
		if x.attempt.Origins == nil {
			return nil
		}
		unexplained := x.attempt.Origins.Rest(text)
		if unexplained == "" {
			return nil
		}
		add(&rest, unexplained)
		if x.attempt.Probe != nil {
			p := x.attempt.Probe.Probe(unexplained, "", nil)
			if own != nil {
				p = p.Merge(*own)
			}
			own = &p
		}
		return nil
	}
	if len(x.body) > maxInMemory {
		x.large.Lock()
		defer x.large.Unlock()
	}
	_, _ = unpack.Walk("", []byte(head.String()), unpack.Limits{}, look)
	if len(x.body) > 0 {
		data, whole := decode(bytes.NewReader(x.body), codings(x.request.Header), x.bounds.probed)
		if !whole {
			data = append(data, x.body...)
		}
		_, _ = unpack.Walk("", data, unpack.Limits{Bytes: maxUnpacked}, look)
	}
	x.args, x.rest = args.String(), rest.String()
	return own
}

// writeHeader writes a header as text.
func writeHeader(w io.Writer, h http.Header) {
	for name, values := range h {
		for _, value := range values {
			fmt.Fprintf(w, "%s: %s\n", name, value)
		}
	}
}

// examine looks through a reply, and adds it to the origins of the attempt.
func (x *exchange) examine(r reply, done *trajectory.ExchangeCompleted) {
	defer func() {
		if recover() != nil { // of a decoder, or what reads the texts
			done.Unprobed = done.Bytes
		}
	}()
	if x.attempt.Probe != nil {
		done.Probes = &trajectory.Probes{}
	}
	look := func(_, text string) error {
		if x.attempt.Origins != nil && !strings.Contains(x.rest, strings.TrimSpace(text)) { // it is more than an echo
			x.attempt.Origins.Add(origin.Exchange, text, x.rest)
		}
		if x.attempt.Probe != nil {
			*done.Probes = done.Probes.Merge(x.attempt.Probe.Probe(text, x.args, []string{x.shown}))
		}
		return nil
	}
	var header strings.Builder
	writeHeader(&header, r.header)
	writeHeader(&header, r.trailer)
	_ = look("", header.String())
	if r.bytes == 0 {
		return
	}
	if r.bytes > maxInMemory { // or memory would be needed for many at once
		x.large.Lock()
		defer x.large.Unlock()
	}
	data, whole := decode(r.body.reader(), codings(r.header), x.bounds.probed)
	if !bytes.ContainsFunc(data, isControl) {
		part := data[:min(len(data), maxShown)]
		e := x.attempt.Rec.Part(string(part), trajectory.ExchangeHead)
		done.Head, done.Truncated, done.Redactions = e.Head, e.Truncated || len(part) < len(data) || !whole || r.body.dropped > 0, e.Redactions
		if whole && r.body.dropped == 0 && len(data) <= maxKept {
			done.BodySHA256 = x.keep(string(data))
		}
	}
	told, err := unpack.Walk(x.url.Path, data, unpack.Limits{Bytes: maxUnpacked}, look)
	if done.Unprobed = r.body.dropped; !whole || err != nil || told.Unread > 0 || told.Stopped != "" {
		done.Unprobed = r.bytes // how many of them is not known
	}
}

// isControl reports whether a character is one that texts do not have.
func isControl(r rune) bool { return r < ' ' && (r < '\b' || r > '\r') && r != 0x1b }
