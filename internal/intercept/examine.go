package intercept

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/gaia-harness/gaia/internal/origin"
	"github.com/gaia-harness/gaia/internal/unpack"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/semaphore"
)

// Bounds, in bytes.
const (
	maxProbed   = 64 << 20  // of a reply, as it comes and decoded
	maxUnpacked = 128 << 20 // of what is in it
	maxSpools   = 1 << 30   // of replies that are in files at once, of all attempts
	maxInMemory = 256 << 10 // of a reply that is in no file
	maxKept     = 8 << 20   // of a text that full evidence keeps
	maxShown    = 64 << 10  // of a text, in which secrets are looked for before its head is cut
	maxArgs     = 1 << 20   // of what a request says, with which its reply is compared
	maxWindow   = 8 << 20   // of zstd, as RFC 9659 has it
	mostCodings = 4

	maxLight    = 4 << 20  // of what is unpacked with no memory set aside
	mostHeavy   = 2        // bodies that take more, at once
	mostEntries = 50_000   // of what is in a body
	maxCompared = 16 << 10 // of a request, whose reply is compared with it text by text
)

// spool keeps a reply until it is looked through.
type spool struct {
	proxy   *Proxy
	memory  []byte
	file    *os.File // has no name
	bytes   int64
	dropped int64 // bytes that came after those that are kept

	reserved int64 // of spooled
}

// spooled counts the bytes of replies in files, of all attempts.
var spooled atomic.Int64

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
	size := s.bytes + int64(len(b)) - s.reserved
	if spooled.Add(size) > s.proxy.bounds.spools {
		spooled.Add(-size)
		return false
	}
	s.reserved += size
	if s.file == nil {
		f, err := os.CreateTemp(s.proxy.Dir, "exchange")
		if err == nil {
			s.file = f
			_ = os.Remove(f.Name())
			_, err = f.Write(s.memory)
		}
		if err != nil {
			s.drop()
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
	if s.file != nil {
		_ = s.file.Close()
		s.file = nil
	}
	spooled.Add(-s.reserved)
	s.reserved = 0
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

// Why a body is not decoded to its end.
var (
	errMore   = errors.New("there is more")
	errCoding = errors.New("the coding is not known")
	errCut    = fmt.Errorf("cut: %w", io.ErrUnexpectedEOF) // in the middle of what a coding has
)

// decode undoes the codings of a body, and returns at most limit bytes of what it was. An error is why that is not all.
func (l *looking) decode(body io.Reader, codings []string, limit int64) (data []byte, err error) {
	if len(codings) > mostCodings {
		return nil, errCoding
	}
	short := func(err error) error {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errCut
		}
		return err
	}
	body = lookingReader{l, body}
	for _, coding := range slices.Backward(codings) {
		decoder := decoders[coding]
		if decoder == nil {
			return nil, errCoding
		}
		if body, err = decoder(body); err != nil {
			return nil, short(err)
		}
		if c, ok := body.(interface{ Close() }); ok { // of zstd
			defer c.Close()
		}
		body = lookingReader{l, body} // one coding may give much of which the next gives nothing
	}
	data, err = io.ReadAll(io.LimitReader(body, limit+1))
	if int64(len(data)) > limit {
		return data[:limit], errMore
	}
	if err != nil {
		err = short(err)
	}
	return data, err
}

// heavy are the bodies of all attempts that are looked through with much memory at once.
var heavy = semaphore.NewWeighted(mostHeavy)

var errLate = errors.New("it took too long")

// looking is the look through one body. It ends after a time, and soon after the attempt does.
type looking struct {
	proxy *Proxy
	until time.Time
	heavy bool
}

func (p *Proxy) looking() *looking { return &looking{proxy: p, until: time.Now().Add(p.bounds.look)} }

// check returns an error once time is up.
func (l *looking) check() error {
	if l.proxy.late.Err() != nil || time.Now().After(l.until) {
		return errLate
	}
	return nil
}

// grow waits until there is memory for a body that is large, decoded or unpacked. The time does not count.
func (l *looking) grow() error {
	if l.heavy {
		return nil
	}
	began := time.Now()
	if heavy.Acquire(l.proxy.late, 1) != nil {
		return errLate
	}
	l.heavy, l.until = true, l.until.Add(time.Since(began))
	return nil
}

// free gives back what it took.
func (l *looking) free() {
	if l.heavy {
		heavy.Release(1)
		l.heavy = false
	}
}

// lookingReader reads while there is time.
type lookingReader struct {
	l *looking
	r io.Reader
}

func (r lookingReader) Read(b []byte) (int, error) {
	if err := r.l.check(); err != nil {
		return 0, err
	}
	return r.r.Read(b)
}

// body visits the texts of a body, and returns it decoded. decoded is why that is not all of it, err why not all of that was
// looked through. What cannot be decoded is looked through as it is.
func (l *looking) body(name string, open func() io.Reader, codings []string, visit func(text string) error) (data []byte, told unpack.Told, decoded, err error) {
	defer func() {
		if r := recover(); r != nil { // of a decoder, or what reads the texts
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	data, decoded = l.decode(open(), codings, maxInMemory)
	if decoded == errMore {
		if err = l.grow(); err != nil {
			return data, told, decoded, err
		}
		data, decoded = l.decode(open(), codings, l.proxy.bounds.probed)
	}
	told, err = l.walk(name, data, visit)
	if err == nil && len(codings) > 0 && decoded != nil && decoded != errMore && decoded != errCut {
		if err = l.grow(); err != nil {
			return data, told, decoded, err
		}
		var plain []byte
		if plain, err = l.decode(open(), nil, l.proxy.bounds.probed); err == nil || err == errMore {
			_, err = l.walk(name, plain, visit)
		}
	}
	return data, told, decoded, err
}

// walk visits the texts in data: first those of what takes little memory, which are visited only if that is all.
func (l *looking) walk(name string, data []byte, visit func(text string) error) (unpack.Told, error) {
	if !l.heavy {
		var texts []string
		size := 0
		told, err := unpack.Walk(name, data, unpack.Limits{Bytes: maxLight, Entries: mostEntries, Whole: maxLight / 4, Check: l.check}, func(_, text string) error {
			if size += len(text); size > 2*maxLight {
				return errMore
			}
			texts = append(texts, text)
			return nil
		})
		for i := 0; err == nil && told.Stopped == "" && i < len(texts); i++ {
			if err = l.check(); err == nil {
				err = visit(texts[i])
			}
		}
		if told.Stopped == "" && err != errMore {
			return told, err
		}
		if err := l.grow(); err != nil {
			return told, err
		}
	}
	return unpack.Walk(name, data, unpack.Limits{Bytes: maxUnpacked, Entries: mostEntries, Check: l.check}, func(_, text string) error {
		if err := l.check(); err != nil {
			return err
		}
		return visit(text)
	})
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

// ask looks through what the agent asks with: the address, as it is and without escapes, the header and the body. own are probes
// over what of it nothing explains that the agent was given, nil where all is explained. It returns false where not all could be
// looked at.
func (x *exchange) ask() (own *trajectory.Probes, whole bool) {
	var head, args, rest strings.Builder
	fmt.Fprintf(&head, "%s\n%s\n%s\n", x.shown, x.url.Path, strings.ReplaceAll(x.url.Path, "/", "\n")) // parts may be encoded
	for name, values := range x.url.Query() {
		fmt.Fprintf(&head, "%s\n%s\n", name, strings.Join(values, "\n"))
	}
	writeHeader(&head, x.request.Header)
	writeHeader(&head, x.request.Trailer)
	add := func(to *strings.Builder, text string) {
		x.unheard = x.unheard || to.Len()+len(text) > maxArgs
		to.WriteString(trajectory.CutUTF8(text, maxArgs-min(to.Len(), maxArgs)))
		to.WriteByte('\n')
	}
	look := func(text string) error {
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
	l := x.looking()
	defer l.free()
	_, told, _, err := l.body("", func() io.Reader { return strings.NewReader(head.String()) }, nil, look)
	x.unheard = x.unheard || told.Stopped != ""
	if err == nil && len(x.body) > 0 {
		names := codings(x.request.Header)
		_, told, decoded, failed := l.body("", func() io.Reader { return bytes.NewReader(x.body) }, names, look)
		err, x.unheard = failed, x.unheard || told.Stopped != "" || decoded == errMore
	}
	x.args, x.rest = args.String(), rest.String()
	return own, err == nil
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
	l := x.looking()
	defer l.free()
	if x.attempt.Probe != nil {
		done.Probes = &trajectory.Probes{}
	}
	look := func(text string) error {
		if x.attempt.Origins != nil && !x.unheard && !strings.Contains(x.rest, strings.TrimSpace(text)) { // it is more than an echo
			x.attempt.Origins.Add(origin.Exchange, text, x.rest)
		}
		if x.attempt.Probe != nil {
			*done.Probes = done.Probes.Merge(x.attempt.Probe.Probe(text, x.args, []string{x.shown}))
		}
		return nil
	}
	var joined []string // where comparing them one by one would take long
	size := 0
	flush := func() (err error) {
		if len(joined) > 0 {
			err = look(origin.Join(joined))
		}
		joined, size = nil, 0
		return err
	}
	each := func(text string) error {
		if len(x.args)+len(x.rest) <= maxCompared {
			return look(text)
		}
		joined = append(joined, text)
		if size += len(text); size > maxInMemory {
			return flush()
		}
		return nil
	}
	_, _, _, err := l.body("", func() io.Reader { // in one text, of any size
		var header bytes.Buffer
		writeHeader(&header, r.header)
		writeHeader(&header, r.trailer)
		return &header
	}, nil, each)
	if r.bytes == 0 {
		_ = flush()
		return
	}
	names := codings(r.header)
	data, told, decoded, failed := l.body(x.url.Path, r.body.reader, names, each)
	if err = cmp.Or(err, failed); err == nil {
		err = flush()
	}
	if !bytes.ContainsFunc(data, isControl) {
		part := data[:min(len(data), maxShown)]
		e := x.attempt.Rec.Part(string(part), trajectory.ExchangeHead)
		done.Head, done.Truncated, done.Redactions = e.Head, e.Truncated || len(part) < len(data) || decoded != nil || r.body.dropped > 0, e.Redactions
		if decoded == nil && r.body.dropped == 0 && len(data) <= maxKept {
			done.BodySHA256 = x.keep(string(data))
		}
	}
	if r.failed != nil && decoded == errCut { // the agent could decode no more
		decoded = nil
	}
	done.Media, done.Opaque = told.Media, told.Opaque
	if done.Unprobed = r.body.dropped; decoded != nil || err != nil || told.Unread > 0 || told.Stopped != "" {
		done.Unprobed = r.bytes // how many of them is not known
	}
}

// isControl reports whether a character is one that texts do not have.
func isControl(r rune) bool { return r < ' ' && (r < '\b' || r > '\r') && r != 0x1b }
