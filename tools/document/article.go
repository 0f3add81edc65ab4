package document

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"codeberg.org/readeck/go-readability"
	"github.com/gaia-harness/gaia/tools"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Limits of a page whose main text is looked for, which takes many passes over
// it. Beyond them the whole page is shown.
const (
	maxArticleBytes    = 4 << 20
	maxArticleElements = 20_000
	maxArticleWork     = 40 << 20 // see work; pages of the web stay below 10 MiB
)

// article makes markdown of a page's main text. Where there is none, why is the
// reason, and the whole page is shown instead.
func (q request) article() (doc tools.Document, why string, err error) {
	if q.Less > 0 {
		return tools.Document{}, "whole, since looking for its main text takes too much", nil
	}
	if len(q.Data) > maxArticleBytes {
		return tools.Document{}, "whole, since it is too large to look for its main text", nil
	}
	text, notes, err := decodeText(q.Data, q.ContentType)
	if err != nil || !q.isPage() && (q.mediaType() != "" || !looksLikeHTML(text)) {
		return tools.Document{}, "whole, since it is no web page", nil
	}
	doc, err = readArticle(text, q.Base)
	if u, is := errors.AsType[*tools.Unreadable](err); is {
		return tools.Document{}, "whole, since " + u.Why, nil
	}
	doc.Notes = append(notes, doc.Notes...)
	return doc, "", err
}

// readArticle looks for the main text of a page. Its error is why the whole is
// to be shown.
func readArticle(text, base string) (doc tools.Document, err error) {
	notFound := tools.Unreadablef("its main text could not be found")
	defer func() {
		if p := recover(); p != nil {
			doc, err = tools.Document{}, notFound
		}
	}()
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		return tools.Document{}, notFound
	}
	if work(root, 1) > maxArticleWork {
		return tools.Document{}, tools.Unreadablef("it is nested too deep to look for its main text")
	}
	parser := readability.NewParser()
	parser.MaxElemsToParse, parser.Logger = maxArticleElements, slog.New(slog.DiscardHandler)
	address, err := url.Parse(base)
	if err != nil {
		return tools.Document{}, notFound
	}
	article, err := parser.ParseAndMutate(root, address)
	if err != nil || article.Node == nil {
		return tools.Document{}, notFound
	}
	prepare(article.Node)
	body, err := markdown(article.Node, base)
	if err != nil || strings.TrimSpace(body) == "" {
		return tools.Document{}, notFound
	}
	var head strings.Builder
	date := ""
	if article.PublishedTime != nil {
		date = article.PublishedTime.Format(time.DateOnly)
	}
	for _, line := range [][2]string{{"title", article.Title}, {"byline", article.Byline}, {"date", date}} {
		if value := tools.OneLine(line[1]); value != "" {
			fmt.Fprintf(&head, "%s: %s\n", line[0], strings.ToValidUTF8(value, "\ufffd"))
		}
	}
	if head.Len() > 0 {
		head.WriteString("\n")
	}
	notes := []string{"main text only: boxes, tables and navigation may be missing, which mode=page shows"}
	return tools.Document{Kind: "article", Notes: notes, Text: head.String() + body}, nil
}

// work measures what looking for the main text costs: each element is asked
// for the text below it, so each byte counts once for all it is inside of.
func work(n *html.Node, depth int) (sum int) {
	for c := range n.ChildNodes() {
		switch {
		case c.Type == html.TextNode:
			sum += len(c.Data) * depth
		case c.DataAtom != atom.Script && c.DataAtom != atom.Style:
			sum += work(c, depth+1)
		}
	}
	return sum
}
