package document

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/internal/child"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/media"
	"github.com/go-json-experiment/json"
)

// Reader turns documents into text. Child is the command line of the process that
// reads those that can be led to take too much (all but small texts and simple pages): a
// program and arguments that call [Convert]. The libraries trust what they read, and can
// use up all memory or stack, which a Go program cannot recover from. Each document has a
// process, with an empty environment. Without a Child they are read in this
// process, which is for documents that are trusted. With a Poppler pdf files are
// read by its programs, which the child starts; the library is for what they fail on.
// With a Memory a document is read once, also one that cannot be read.
type Reader struct {
	Child   []string
	Poppler *Poppler
	Memory  *Memory
}

// Limits of reading one document in a child.
const (
	documentTime = 30 * time.Second            // for all attempts at a document, poppler's among them; without the wait for a place
	maxChildren  = 4                           // at once, of all readers of this process
	childReply   = 2*tools.MaxDocument + 1<<20 // bytes; JSON writes line ends and quotes as two
	maxRequest   = 64 << 10                    // bytes of the request before the document
	maxName      = 255                         // bytes of a name or content type in it
	maxInside    = 4 << 10                     // bytes of the name of a member in it
)

// limits are what a child allows itself.
type limits struct {
	memory int64  // bytes
	cpu    uint64 // seconds, after which it ends even without a parent
}

// childLimits leave room: a workbook of 500,000 cells takes 0.6 GiB and 5 s. The
// processor time is that of two processors.
func childLimits() limits { return limits{memory: 2 << 30, cpu: 60} }

// children has a place for each child that may run at once. With the limits of a child and
// of the program that it starts it bounds the memory of all.
var children = make(chan struct{}, maxChildren)

// request is what goes to the child as one line of JSON, before the document. A
// reply comes back as JSON.
type request struct {
	Format  string   `json:"format"`            // formatFile or formatPage
	Size    int      `json:"size"`              // of the document, in bytes
	Program []string `json:"program,omitempty"` // command line of poppler's program
	Less    int      `json:"less,omitzero"`     // attempts that ran out before, each of which costs a part of the result
	Source
}

// reply has a kind or an error.
type reply struct {
	Kind  string   `json:"kind,omitzero"`
	Notes []string `json:"notes,omitempty"`
	Text  string   `json:"text,omitzero"`
	Error string   `json:"error,omitzero"` // for the model
}

var (
	errExhausted = &tools.Unreadable{Why: "its reader ran out of memory or time"}
	errNoAnswer  = &tools.Unreadable{Why: "its reader gave no usable answer"}
)

// formatFile asks for the text of a file, or of what came over HTTP.
const formatFile = "file"

// Read converts a document, or a member of it, to text: in a child unless it is small
// and simple. A request to the child has only the end or the beginning of very long names.
func (r Reader) Read(ctx context.Context, src Source) (doc tools.Document, err error) {
	q := request{Format: formatFile, Source: src}
	if q.Program, err = r.Poppler.textCommand(); err != nil {
		return tools.Document{}, err
	}
	switch {
	case len(r.Child) == 0 || src.Inside == "" && src.isSmall():
		doc, err = q.answer(ctx)
	case len(src.Inside) > maxInside:
		return tools.Document{}, tools.Unreadablef("there is no member with a name of %d bytes; "+
			"read the file without inside to see what is in it", len(src.Inside))
	default:
		q.Name = strings.ToValidUTF8(q.Name[max(0, len(q.Name)-maxName):], "\ufffd")
		q.ContentType = strings.ToValidUTF8(q.ContentType[:min(len(q.ContentType), maxName)], "\ufffd")
		if len(q.Base) > maxBase {
			q.Base = tools.Origin(q.Base)
		}
		doc, err = r.Memory.recall(q, func() (tools.Document, error) { return r.attempts(ctx, q) })
	}
	if err == nil && doc.Kind == "pdf" && r.Poppler.draws() && strings.Contains(doc.Text, noText) {
		doc.Notes = append(slices.Clip(doc.Notes), "describe_image, where it is offered, looks at a page without text")
	}
	return doc, err
}

// attempts has a child read a document, and another one less of it where the first ran
// out of memory or time.
func (r Reader) attempts(ctx context.Context, q request) (tools.Document, error) {
	select {
	case children <- struct{}{}:
		defer func() { <-children }()
	case <-ctx.Done():
		return tools.Document{}, ctx.Err()
	}
	most := 1
	switch {
	case q.Format == formatPage || q.Inside == "" && isPDF(q.Data):
		most = 0
	case q.Mode == ModeArticle:
		most = 2
	}
	end := time.Now().Add(documentTime)
	for {
		left := time.Until(end)
		if q.Less < most {
			left /= 2
		}
		doc, err := r.ask(ctx, left, q)
		if q.Less == most || !errors.Is(err, errExhausted) {
			return doc, err
		}
		q.Less++
	}
}

// smallText bounds, in bytes, the text that is read in this process: a child takes
// longer to start.
const smallText = 256 << 10

// Limits of a web page that is read in this process, since another process
// would take longer than most pages do. What takes long is text in quotes and lists
// inside each other: 500 quotes in a page of this size took 15 s, and 50 took 0.2 s.
const (
	smallPage   = 32 << 10 // bytes
	fewIndented = 50       // quotes and lists
)

// isSmall reports whether src is read at once whatever it contains: it is no more than a
// short text or a simple page.
func (src Source) isSmall() bool {
	if len(src.Data) > smallText || isPDF(src.Data) || archiveKind(src.Data) != "" {
		return false
	}
	if _, picture := media.FormatOf(src.Data); picture {
		return src.Base == "" // its header is read
	}
	if src.Base == "" && !slices.Contains(pageExtensions, src.extension()) {
		return true
	}
	if len(src.Data) > smallPage || bytes.IndexByte(src.Data, 0) >= 0 { // UTF-16 hides the tags
		return false
	}
	page, indented := bytes.ToLower(src.Data), 0
	for _, tag := range []string{"<blockquote", "<ul", "<ol", "<li", "<menu", "<dir", "<dl", "<dd"} {
		indented += bytes.Count(page, []byte(tag))
	}
	return indented <= fewIndented
}

// pageExtensions are those of files that are web pages.
var pageExtensions = []string{".html", ".htm", ".xhtml"}

// ask has a child read a document. However the child ends, its error is for the
// model; only a child that cannot be started is a fault of the machinery.
func (r Reader) ask(ctx context.Context, timeout time.Duration, q request) (tools.Document, error) {
	q.Size = len(q.Data)
	head, err := json.Marshal(q)
	if err != nil {
		return tools.Document{}, fmt.Errorf("writing the request to the reader: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(limited, r.Child[0], r.Child[1:]...)
	cmd.Env = []string{}
	cmd.Stdin = io.MultiReader(bytes.NewReader(append(head, '\n')), bytes.NewReader(q.Data))
	cmd.WaitDelay = 5 * time.Second // for pipes that someone else holds open
	child.Group(cmd)
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return tools.Document{}, fmt.Errorf("starting the reader of documents: %w", err)
	}
	text, _ := io.ReadAll(io.LimitReader(stdout, childReply+1)) // what broke off is no reply
	late := limited.Err() != nil
	cancel()       // its reply is complete, so it is killed
	_ = cmd.Wait() // so how it ended means nothing
	switch {
	case ctx.Err() != nil:
		return tools.Document{}, ctx.Err()
	case late || len(text) == 0:
		return tools.Document{}, errExhausted
	}
	return decodeReply(text)
}

// decodeReply accepts exactly one reply. Nothing of one that is no reply gets
// into the error.
func decodeReply(text []byte) (tools.Document, error) {
	var r reply
	if err := json.Unmarshal(text, &r, json.RejectUnknownMembers(true)); err != nil || (r.Kind == "") == (r.Error == "") {
		return tools.Document{}, errNoAnswer
	}
	if r.Error != "" {
		return tools.Document{}, &tools.Unreadable{Why: r.Error}
	}
	return tools.Document{Kind: r.Kind, Notes: r.Notes, Text: r.Text}, nil
}

// Convert is the whole of a [Reader]'s child: it takes one request from in, limits the
// process it runs in for good, and writes the reply to out, which the caller
// closes. A document that cannot be read is a reply; an error means that there
// was no request or no one to reply to. It may not return at all.
func Convert(in io.Reader, out io.Writer) error { return convertLimited(in, out, childLimits()) }

// LimitProcess limits this process for good, as that of a [Reader]'s child.
func LimitProcess() error { return childLimits().apply() }

func convertLimited(in io.Reader, out io.Writer, l limits) error {
	if err := l.apply(); err != nil {
		return fmt.Errorf("limiting the reader of documents: %w", err)
	}
	q, err := readRequest(in)
	if err != nil {
		return fmt.Errorf("reading a request: %w", err)
	}
	doc, err := q.answer(context.Background())
	answer := reply{Error: tools.Plain(err)}
	if err == nil {
		doc = doc.Clipped()
		answer = reply{Kind: doc.Kind, Notes: doc.Notes, Text: doc.Text}
	}
	text, err := json.Marshal(answer)
	if err == nil {
		_, err = out.Write(text) // all at once: a part of a reply is of no use
	}
	if err != nil {
		return fmt.Errorf("writing a reply: %w", err)
	}
	return nil
}

func readRequest(in io.Reader) (q request, err error) {
	b := bufio.NewReaderSize(in, maxRequest)
	head, err := b.ReadSlice('\n')
	if err != nil {
		return request{}, err
	}
	if err := json.Unmarshal(head, &q, json.RejectUnknownMembers(true)); err != nil {
		return request{}, err
	}
	if q.Format != formatFile && q.Format != formatPage || q.Size < 0 || q.Size > tools.MaxFile {
		return request{}, fmt.Errorf("no such format or size: %q, %d", q.Format, q.Size)
	}
	q.Data = make([]byte, q.Size)
	_, err = io.ReadFull(b, q.Data)
	return q, err
}

// apply limits this process. The operating system stops the one huge allocation,
// where it can; the watch stops many.
func (l limits) apply() error {
	debug.SetMemoryLimit(l.memory * 3 / 4) // from here on the collector works harder
	debug.SetMaxStack(64 << 20)
	go l.watch()
	return l.confine()
}

func (l limits) watch() {
	used := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for range time.Tick(20 * time.Millisecond) {
		metrics.Read(used)
		if used[0].Value.Uint64()-used[1].Value.Uint64() > uint64(l.memory) {
			os.Exit(1)
		}
	}
}

// Limits of a [Memory].
const (
	maxRemembered = 256      // documents
	maxMemory     = 16 << 20 // bytes of text of all of them
)

// Memory keeps what children made of the last documents, by the digests of the documents
// and of the requests, and why others could not be read. So the attachment that one attempt after
// another reads costs its time and memory once. The zero value is ready for use; nil
// keeps nothing.
type Memory struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]remembered
	order [][sha256.Size]byte // oldest first
	bytes int
}

type remembered struct {
	doc tools.Document
	err error // an *unreadable
}

// recall returns what is known of a document, or else reads it.
func (m *Memory) recall(q request, read func() (tools.Document, error)) (tools.Document, error) {
	if m == nil {
		return read()
	}
	sum, data := sha256.New(), q.Data
	q.Data = nil
	fmt.Fprintf(sum, "%+v\n", q)
	sum.Write(data)
	key := [sha256.Size]byte(sum.Sum(nil))
	m.mu.Lock()
	was, known := m.known[key]
	m.mu.Unlock()
	if known {
		return was.doc, was.err
	}
	doc, err := read()
	doc.Notes = doc.Notes[:len(doc.Notes):len(doc.Notes)] // those who add to them add to a copy
	if err != nil && !errors.As(err, new(*tools.Unreadable)) {
		return doc, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.known[key]; known || len(doc.Text) > maxMemory/4 {
		return doc, err
	}
	if m.known == nil {
		m.known = map[[sha256.Size]byte]remembered{}
	}
	m.known[key], m.order, m.bytes = remembered{doc, err}, append(m.order, key), m.bytes+len(doc.Text)
	for len(m.order) > maxRemembered || m.bytes > maxMemory { // the oldest are forgotten
		m.bytes -= len(m.known[m.order[0]].doc.Text)
		delete(m.known, m.order[0])
		m.order = m.order[1:]
	}
	return doc, err
}
