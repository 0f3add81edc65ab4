package document

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/child"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/sandbox"
)

// Poppler reads pdf files better than a library in Go does, and draws their pages.
// Text and Pages are absolute paths of pdftotext and pdftoppm; "" is not there.
// Its programs run in the Sandbox, if there is one. Their input and output are
// pipes, so they need no file.
type Poppler struct {
	Text, Pages string
	Sandbox     *sandbox.Sandbox
}

// Limits of what poppler's programs do with one document, beside those of the
// [Reader]'s child, which they inherit.
const (
	popplerTime   = 15 * time.Second // leaves the child time to read it otherwise
	popplerMemory = 1 << 30          // bytes of address space of each of its processes
	pageSide      = 2000             // pixels of a page that is drawn, so that a picture is no larger than maxDrawn
	maxDrawn      = 12 << 20         // bytes of a drawn page; base64 makes maxDocument of them
	maxPDFPage    = 1_000_000
	maxStderr     = 4 << 10
)

// formatPage asks for a page of a pdf file: the document's text is a png in base64.
const formatPage = "pdf page"

func (p *Poppler) draws() bool { return p != nil && p.Pages != "" }

// textCommand reads a pdf on standard input and writes its text, a form feed
// after each page; nil if it is not there.
func (p *Poppler) textCommand() ([]string, error) {
	if p == nil || p.Text == "" {
		return nil, nil
	}
	return p.command(p.Text, "-layout", "-enc", "UTF-8", "-", "-")
}

// command is the command line of one of poppler's programs, limited and in the sandbox.
func (p *Poppler) command(path string, args ...string) ([]string, error) {
	// The shell lowers the limit and becomes the program. macOS knows no such limit.
	limited := []string{"/bin/sh", "-c", fmt.Sprintf(`ulimit -v %d 2>/dev/null; exec "$@"`, popplerMemory>>10), "sh"}
	if p.Sandbox == nil {
		return slices.Concat(limited, []string{path}, args), nil
	}
	// It is the child that starts this, and bounds it. No home: the font library would keep
	// notes there, and a process that may write no file dies of trying.
	fonts := slices.DeleteFunc([]string{"/etc/fonts", "/var/cache/fontconfig"}, func(dir string) bool {
		_, err := os.Stat(dir)
		return err != nil
	})
	cmd := p.Sandbox.Command(context.Background(), sandbox.Jail{ReadOnly: fonts}, limited[0],
		slices.Concat(limited[1:], []string{"/usr/bin/env", "-i", path}, args)...)
	if cmd.Err != nil {
		return nil, fmt.Errorf("preparing poppler's sandbox: %w", cmd.Err)
	}
	return cmd.Args, nil
}

// readByPoppler is readPDF by pdftotext, for which a file need not be whole.
// What it fails on, readPDF reads.
func readByPoppler(ctx context.Context, program []string, data []byte) (tools.Document, error) {
	text := beginning{limit: tools.MaxDocument}
	if _, err := filter(ctx, popplerTime, program, data, &text); err != nil || text.pages == 0 {
		if ctx.Err() != nil {
			return tools.Document{}, ctx.Err()
		}
		doc, err := readPDF(ctx, data)
		if err == nil {
			doc.Notes = append(doc.Notes, "pdftotext failed on it, so some text may be missing or out of order")
		}
		return doc, err
	}
	out := pdfText{pages: text.pages}
	for page := range strings.SplitSeq(strings.TrimSuffix(string(text.kept), "\f"), "\f") {
		if !out.add(tidyPage(page), nil) {
			break
		}
	}
	doc := out.document()
	if _, whole := repairPDF(data); !whole {
		doc.Notes = append(doc.Notes, "it is cut off or damaged, so some of it may be missing")
	}
	return doc, nil
}

// tidyPage is a page's text without empty lines around it and spaces behind its
// lines, each ending with \n; "" if there is nothing on it.
func tidyPage(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(strings.Map(tools.Printable, line), " ")
		if b.Len() > 0 || line != "" {
			b.WriteString(line + "\n")
		}
	}
	if text = strings.TrimRight(b.String(), "\n"); text == "" {
		return ""
	}
	return text + "\n"
}

// page draws a page of a pdf file as a png.
func (r Reader) page(ctx context.Context, data []byte, page int) ([]byte, error) {
	switch {
	case !r.Poppler.draws():
		return nil, tools.Unreadablef("pages of a pdf file cannot be drawn here, where pdftoppm is missing")
	case page < 1 || page > maxPDFPage:
		return nil, tools.Unreadablef("there is no page %d: the first one is 1", page)
	}
	n := strconv.Itoa(page)
	// The size does not depend on what the page claims to measure.
	program, err := r.Poppler.command(r.Poppler.Pages, "-png", "-singlefile", "-scale-to", strconv.Itoa(pageSide), "-f", n, "-l", n, "-")
	if err != nil {
		return nil, err
	}
	q := request{Format: formatPage, Program: program, Source: Source{Data: data}}
	var doc tools.Document
	if len(r.Child) == 0 {
		doc, err = q.answer(ctx)
	} else {
		doc, err = r.attempts(ctx, q)
	}
	if err != nil {
		return nil, err
	}
	png, err := base64.StdEncoding.DecodeString(doc.Text)
	if err != nil {
		return nil, errNoAnswer
	}
	return png, nil
}

var lastPage = regexp.MustCompile(`the first page \((\d{1,9})\) can not be after the last page \((\d{1,9})\)`)

// drawPage has pdftoppm draw a page. Little of its messages is passed on: they
// are about this machine as well as about the document.
func drawPage(ctx context.Context, program []string, data []byte) (tools.Document, error) {
	png := beginning{limit: maxDrawn}
	stderr, err := filter(ctx, popplerTime, program, data, &png)
	last := lastPage.FindStringSubmatch(stderr)
	switch {
	case ctx.Err() != nil:
		return tools.Document{}, ctx.Err()
	case last != nil:
		return tools.Document{}, tools.Unreadablef("there is no page %s: the last one is %s", last[1], last[2])
	case strings.Contains(stderr, "Incorrect password"):
		return tools.Document{}, errEncrypted
	case errors.Is(err, context.DeadlineExceeded):
		return tools.Document{}, tools.Unreadablef("the page takes too long to draw")
	case err != nil || png.more || len(png.kept) == 0:
		return tools.Document{}, tools.Unreadablef("the page cannot be drawn: it is damaged, or takes too much memory")
	}
	return tools.Document{Kind: "page", Text: base64.StdEncoding.EncodeToString(png.kept)}, nil
}

// beginning keeps the first bytes of what is written, at most limit, and counts
// form feeds in all of it.
type beginning struct {
	limit, pages int
	more         bool // than is kept
	kept         []byte
}

func (w *beginning) Write(b []byte) (int, error) {
	w.pages += bytes.Count(b, []byte("\f"))
	room := min(len(b), w.limit-len(w.kept))
	w.kept, w.more = append(w.kept, b[:room]...), w.more || room < len(b)
	return len(b), nil
}

// filter runs a program over data. It returns the beginning of the program's standard
// error; the error matches context.DeadlineExceeded if it was too slow.
func filter(ctx context.Context, timeout time.Duration, argv []string, data []byte, out *beginning) (stderr string, err error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	messages := beginning{limit: maxStderr}
	run := exec.CommandContext(limited, argv[0], argv[1:]...)
	run.Env = []string{}
	cmd := &sandbox.Program{Cmd: run}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(data), out, &messages
	cmd.WaitDelay = 5 * time.Second
	child.EndWithParent(run) // it stays in the group of the child, which is killed as a whole
	if err = cmd.Run(); limited.Err() != nil {
		err = limited.Err()
	}
	if err != nil {
		err = fmt.Errorf("running poppler: %w", err)
	}
	return string(messages.kept), err
}
