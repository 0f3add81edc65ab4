package tools

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// Reader turns documents into text. Child is the command line of the process that
// reads those that can be led to take too much (pdf and office files, web pages): a program and
// arguments that call [Convert]. Their libraries trust what they read, and can use up all memory
// or stack, which a Go program cannot recover from. Each document has a process
// of its own, with an empty environment. Without a Child they are read in this
// process, which is for documents that are trusted. With a Poppler pdf files are
// read by its programs, which the child starts; the library is for what they fail on.
type Reader struct {
	Child   []string
	Poppler *Poppler
}

// Formats of web pages: whole, or their main text.
const (
	formatHTML    = "html"
	formatArticle = "article"
)

// Limits of reading one document in a child.
const (
	childTime  = 60 * time.Second      // until the child is killed
	childReply = 2*maxDocument + 1<<20 // bytes; JSON writes line ends and quotes as two
	maxRequest = 64 << 10              // bytes of the request before the document
)

// limits are what a child allows itself.
type limits struct {
	memory int64  // bytes
	cpu    uint64 // seconds, in which it ends though nobody is left to kill it
}

// childLimits leave room: a workbook of 500,000 cells takes 0.6 GiB and 5 s.
func childLimits() limits { return limits{memory: 2 << 30, cpu: 120} }

// What goes to the child is a request as one line of JSON and then the document;
// what comes back is a reply as JSON.
type request struct {
	Format  string   `json:"format"`            // one of isFormat, or formatPage
	Size    int      `json:"size"`              // of the document, in bytes
	Program []string `json:"program,omitempty"` // command line of what reads it in place of a library
	Bare    bool     `json:"bare,omitzero"`     // of a workbook: nothing is calculated
	Base    string   `json:"base,omitzero"`     // address of a web page, whose text comes as UTF-8
}

// reply has a kind or an error.
type reply struct {
	Kind  string   `json:"kind,omitzero"`
	Notes []string `json:"notes,omitempty"`
	Text  string   `json:"text,omitzero"`
	Error string   `json:"error,omitzero"` // for the model
}

var (
	errExhausted = &unreadable{"its reader ran out of memory or time"}
	errNoAnswer  = &unreadable{"its reader gave no usable answer"}
)

// read reads a document with the library for its format.
func (r Reader) read(ctx context.Context, format string, data []byte) (document, error) {
	q := request{Format: format, Size: len(data)}
	if format == "pdf" {
		program, err := r.Poppler.textCommand()
		if err != nil {
			return document{}, err
		}
		q.Program = program
	}
	doc, err := r.answer(ctx, q, data)
	if format == "xlsx" && errors.Is(err, errExhausted) { // one formula can take all there is
		q.Bare = true
		if doc, err = r.answer(ctx, q, data); err == nil {
			doc.notes = append(doc.notes, "formulas are not calculated here, which would take too much")
		}
	}
	if err == nil && format == "pdf" && r.Poppler.draws() && strings.Contains(doc.text, noText) {
		doc.notes = append(doc.notes, "describe_image, where it is offered, looks at a page without text")
	}
	return doc, err
}

func (r Reader) answer(ctx context.Context, q request, data []byte) (document, error) {
	page := q.Format == formatHTML || q.Format == formatArticle
	if len(r.Child) == 0 || page && isSimple(data) {
		return q.answer(ctx, data)
	}
	return r.ask(ctx, childTime, q, data)
}

// Limits of a web page that is read in this process, since a process of its own
// would take longer than most pages do. What takes long is text in quotes and lists
// inside each other: 500 quotes in a page of this size took 15 s, and 50 took 0.2 s.
const (
	smallPage   = 32 << 10 // bytes
	fewIndented = 50       // quotes and lists
)

// isSimple reports whether a web page can be read at once whatever it holds.
func isSimple(page []byte) bool {
	if len(page) > smallPage {
		return false
	}
	page, indented := bytes.ToLower(page), 0
	for _, tag := range []string{"<blockquote", "<ul", "<ol", "<li", "<menu", "<dir", "<dl", "<dd"} {
		indented += bytes.Count(page, []byte(tag))
	}
	return indented <= fewIndented
}

// answer is what is made of a document, by a program if one is named.
func (q request) answer(ctx context.Context, data []byte) (document, error) {
	switch {
	case q.Format == formatPage:
		return drawPage(ctx, q.Program, data)
	case len(q.Program) > 0:
		return readByPoppler(ctx, q.Program, data)
	}
	return q.readWithLibrary(ctx, data)
}

func (q request) readWithLibrary(ctx context.Context, data []byte) (document, error) {
	switch q.Format {
	case "pdf":
		return readPDF(ctx, data)
	case "xlsx":
		return readSheets(ctx, data, !q.Bare)
	case "docx":
		return readDocx(ctx, data)
	case "pptx":
		return readPptx(ctx, data)
	case "odf":
		return readODF(ctx, data)
	case formatHTML, formatArticle:
		base, err := url.Parse(q.Base)
		if err != nil {
			return document{}, unreadablef("its address cannot be parsed: %v", err)
		}
		if q.Format == formatArticle {
			return readArticle(string(data), base)
		}
		return readHTML(string(data), base)
	}
	return document{}, fmt.Errorf("there is no reader for the format %q", q.Format)
}

func isFormat(name string) bool {
	return slices.Contains([]string{"pdf", "xlsx", "docx", "pptx", "odf", formatHTML, formatArticle}, name)
}

// ask has a child read a document. However the child ends, its error is for the
// model; only a child that cannot be started is a fault of the machinery.
func (r Reader) ask(ctx context.Context, timeout time.Duration, q request, data []byte) (document, error) {
	head, err := json.Marshal(q)
	if err != nil {
		return document{}, fmt.Errorf("writing the request to the reader: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(limited, r.Child[0], r.Child[1:]...)
	cmd.Env = []string{}
	cmd.Stdin = io.MultiReader(bytes.NewReader(append(head, '\n')), bytes.NewReader(data))
	cmd.WaitDelay = 5 * time.Second // for pipes that someone else holds open
	ownGroup(cmd)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return document{}, fmt.Errorf("starting the reader of documents: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return document{}, fmt.Errorf("starting the reader of documents: %w", err)
	}
	text, _ := io.ReadAll(io.LimitReader(stdout, childReply+1)) // what broke off is no reply
	late := limited.Err() != nil
	cancel()       // it has said what it had to say, and is killed
	_ = cmd.Wait() // so how it ended means nothing
	switch {
	case ctx.Err() != nil:
		return document{}, ctx.Err()
	case late || len(text) == 0:
		return document{}, errExhausted
	}
	return decodeReply(text)
}

// decodeReply accepts exactly one reply. Nothing of one that is no reply gets
// into the error.
func decodeReply(text []byte) (document, error) {
	var r reply
	if err := json.Unmarshal(text, &r, json.RejectUnknownMembers(true)); err != nil || (r.Kind == "") == (r.Error == "") {
		return document{}, errNoAnswer
	}
	if r.Error != "" {
		return document{}, &unreadable{r.Error}
	}
	return document{r.Kind, r.Notes, r.Text}, nil
}

// Convert is the whole of a [Reader]'s child: it takes one request from in, limits the
// process it runs in for good, and writes the reply to out, which the caller
// closes. A document that cannot be read is a reply; an error means that there
// was no request or nobody to reply to. It may not return at all.
func Convert(in io.Reader, out io.Writer) error { return convertLimited(in, out, childLimits()) }

func convertLimited(in io.Reader, out io.Writer, l limits) error {
	if err := l.apply(); err != nil {
		return fmt.Errorf("limiting the reader of documents: %w", err)
	}
	r, data, err := readRequest(in)
	if err != nil {
		return fmt.Errorf("reading a request: %w", err)
	}
	doc, err := r.answer(context.Background(), data)
	answer := reply{Error: plain(err)}
	if err == nil {
		doc = doc.clipped()
		answer = reply{Kind: doc.kind, Notes: doc.notes, Text: doc.text}
	}
	text, err := json.Marshal(answer)
	if err == nil {
		_, err = out.Write(text) // all at once: a part of a reply says less than none
	}
	if err != nil {
		return fmt.Errorf("writing a reply: %w", err)
	}
	return nil
}

func readRequest(in io.Reader) (r request, data []byte, err error) {
	b := bufio.NewReaderSize(in, maxRequest)
	head, err := b.ReadSlice('\n')
	if err != nil {
		return request{}, nil, err
	}
	if err := json.Unmarshal(head, &r, json.RejectUnknownMembers(true)); err != nil {
		return request{}, nil, err
	}
	if !isFormat(r.Format) && r.Format != formatPage || r.Size < 0 || r.Size > maxFile {
		return request{}, nil, fmt.Errorf("no such format or size: %q, %d", r.Format, r.Size)
	}
	data = make([]byte, r.Size)
	if _, err := io.ReadFull(b, data); err != nil {
		return request{}, nil, err
	}
	return r, data, nil
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
