package document

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"codeberg.org/readeck/go-readability"
	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"github.com/gabriel-vasile/mimetype"
	"github.com/gaia-harness/gaia/tools"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// What web_fetch makes of a web page.
const (
	ModePage    = "page"
	ModeArticle = "article"
	ModeRaw     = "raw"
)

// webPage is the kind of a document that was one.
const webPage = "web page"

// maxTableCells bounds what the tables of one page may grow to when their rows
// are filled up and their spans are spread out: a few bytes can claim billions.
const maxTableCells = 500_000

func looksLikeHTML(text string) bool {
	head := strings.ToLower(strings.TrimSpace(text[:tools.RuneOffset(text, 512)]))
	return strings.HasPrefix(head, "<!doctype html") || strings.HasPrefix(head, "<html")
}

// maxBase bounds the address that the links of a page are relative to, in bytes.
const maxBase = 16 << 10

// readHTML makes markdown of the whole page, tables included; links become
// absolute where base is.
func readHTML(text, base string) (doc tools.Document, err error) {
	defer func() {
		if p := recover(); p != nil {
			doc, err = tools.Document{}, tools.Unreadablef("it is a web page that could not be converted: %v", p)
		}
	}()
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		return tools.Document{}, tools.Unreadablef("it is a web page that could not be parsed: %v", err)
	}
	title := prepare(root)
	body, err := markdown(root, base)
	if err != nil {
		return tools.Document{}, tools.Unreadablef("it is a web page that could not be converted: %v", err)
	}
	if title != "" {
		body = "title: " + title + "\n\n" + body
	}
	return tools.Document{Kind: webPage, Text: body}, nil
}

// markdown converts a tree that is prepared; links become absolute.
func markdown(root *html.Node, domain string) (string, error) {
	// Without escapes: the reader is a model, and find must see file_name as it is.
	conv := converter.NewConverter(converter.WithEscapeMode(converter.EscapeModeDisabled), converter.WithPlugins(
		base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(commonmark.WithListEndComment(false)),
		table.NewTablePlugin(table.WithSpanCellBehavior(table.SpanBehaviorMirror), table.WithHeaderPromotion(true),
			table.WithNewlineBehavior(table.NewlineBehaviorPreserve), table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal))))
	// A table that markdown cannot hold (one with lists in its cells) is
	// written cell by cell; without this its cells would run together.
	conv.Register.TagType("td", converter.TagTypeBlock, converter.PriorityStandard)
	conv.Register.TagType("th", converter.TagTypeBlock, converter.PriorityStandard)
	text, err := conv.ConvertNode(root, converter.WithDomain(domain))
	if err != nil {
		return "", err
	}
	return strings.ReplaceAll(strings.ToValidUTF8(string(text), "\ufffd"), "  <br />", "<br />") + "\n", nil
}

// prepare returns the page's title and readies the tree for the converter.
func prepare(root *html.Node) (title string) {
	markHidden(root)
	cells := maxTableCells
	for n := range root.Descendants() {
		switch {
		case n.Type == html.TextNode:
			if strings.Contains(n.Data, "|") {
				for a := range n.Ancestors() {
					if a.DataAtom == atom.Td || a.DataAtom == atom.Th {
						n.Data = strings.ReplaceAll(n.Data, "|", `\|`)
						break
					}
				}
			}
		case n.DataAtom == atom.Title:
			if title == "" && n.FirstChild != nil {
				title = strings.Join(strings.Fields(n.FirstChild.Data), " ")
			}
		case n.DataAtom == atom.Img:
			if strings.HasPrefix(strings.ToLower(valueIn(n, "src")), "data:") { // it is long and not text
				alt, _ := attribute(n, "alt")
				toText(n, alt)
			}
		case n.DataAtom == atom.Del:
			bracket(n, "deleted")
		case n.DataAtom == atom.S || n.DataAtom == atom.Strike:
			bracket(n, "struck out")
		case n.DataAtom == atom.Option:
			what := "option"
			if _, chosen := attribute(n, "selected"); chosen {
				what = "option that is chosen"
			}
			bracket(n, what)
		case n.DataAtom == atom.Input || n.DataAtom == atom.Textarea:
			writeField(n)
		case n.DataAtom == atom.Ol:
			writeOrdinals(n)
		case n.DataAtom == atom.Table:
			size := tableSize(n)
			if size > cells {
				// The converter leaves such a table to be written cell by cell.
				n.Attr = []html.Attribute{{Key: "role", Val: "presentation"}}
				continue
			}
			cells -= size
		case n.Type == html.ElementNode:
			writeScript(n)
		}
	}
	return title
}

// tableSize counts the cells of a table as a full grid, those that are repeated
// by their length too. It stops counting above maxTableCells.
func tableSize(t *html.Node) int {
	rows, columns, spread, width := 0, 0, 0, 0
	for n := range t.Descendants() {
		switch n.DataAtom {
		case atom.Tr:
			rows, width = rows+1, 0
		case atom.Td, atom.Th:
			across, down := span(n, "colspan"), span(n, "rowspan")
			width += across
			columns = max(columns, width)
			rows = max(rows, down)
			if across*down > 1 {
				spread += across * down * (1 + len(textOf(n, math.MaxInt))/64)
			}
		}
		if spread > maxTableCells || rows*columns > maxTableCells {
			break
		}
	}
	return max(spread, rows*columns)
}

func span(cell *html.Node, name string) int {
	n, _ := strconv.Atoi(valueIn(cell, name))
	return max(1, min(n, maxTableCells+1))
}

// inMode is whole in the mode of web_fetch.
func (q request) inMode(ctx context.Context) (tools.Document, error) {
	switch q.Mode {
	case ModeRaw:
		return q.readRaw()
	case ModeArticle:
		doc, why, err := q.article()
		if err != nil || why == "" {
			return doc.Clipped(), err
		}
		q.Less, q.Mode = max(0, q.Less-1), ModePage
		doc, err = q.inMode(ctx)
		if err == nil {
			doc.Notes = append(doc.Notes, why)
		}
		return doc, err
	}
	doc, err := q.whole(ctx)
	// A short text out of much source, or a footer out of a megabyte.
	length := len(strings.TrimSpace(doc.Text))
	little := length < 300 && len(q.Data) > 8*length || len(q.Data) > 150*length
	if err == nil && doc.Kind == webPage && little && bytes.Contains(bytes.ToLower(q.Data), []byte("<script")) {
		doc.Notes = append(doc.Notes, "almost without text: the page is made by scripts, which are not run; try archived or another source")
	}
	return doc, err
}

// readRaw is the text as the server sent it, decoded.
func (src Source) readRaw() (tools.Document, error) {
	if len(src.Data) == 0 {
		return tools.Document{}, errEmpty
	}
	if detected := mimetype.Detect(src.Data); isPDF(src.Data) || !isText(detected) && !src.isPage() {
		return tools.Document{}, tools.Unreadablef("it is of type %s, which is not text; leave mode out", detected)
	}
	text, notes, err := decodeText(src.Data, src.ContentType)
	if err != nil {
		return tools.Document{}, err
	}
	return tools.Document{Kind: "text as it was served", Notes: notes, Text: text}.Clipped(), nil
}

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

// markHidden puts into brackets what a page does not show until something is
// done to it, or never; not once more inside of that.
func markHidden(n *html.Node) {
	for c := range n.ChildNodes() {
		switch c.DataAtom {
		case atom.Head, atom.Script, atom.Style, atom.Template, atom.Noscript:
			continue
		}
		_, hidden := attribute(c, "hidden")
		style := strings.ToLower(strings.Join(strings.Fields(valueIn(c, "style")), ""))
		if hidden || strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden") {
			bracket(c, "hidden")
		} else {
			markHidden(c)
		}
	}
}

// bracket puts what an element says into brackets with what it is; rows and lists
// hold nothing but their elements, so theirs are marked.
func bracket(n *html.Node, what string) {
	switch n.DataAtom {
	case atom.Table, atom.Thead, atom.Tbody, atom.Tr, atom.Ul, atom.Ol, atom.Dl, atom.Select:
		for c := range n.ChildNodes() {
			if c.Type == html.ElementNode {
				bracket(c, what)
			}
		}
		return
	}
	if strings.TrimSpace(textOf(n, 1)) != "" {
		wrap(n, "["+what+": ", "]")
	}
}

// writeOrdinals writes the numbers of a list that does not count up from its
// start, beside those that it gets.
func writeOrdinals(list *html.Node) {
	var items []*html.Node
	for c := range list.ChildNodes() {
		if c.DataAtom == atom.Li {
			items = append(items, c)
		}
	}
	number, step := 1, 1
	_, reversed := attribute(list, "reversed")
	if reversed {
		number, step = len(items), -1
	}
	if start, err := strconv.Atoi(valueIn(list, "start")); err == nil {
		number = start
	}
	shown := reversed
	for _, item := range items {
		if value, err := strconv.Atoi(valueIn(item, "value")); err == nil {
			number, shown = value, true
		}
		if shown {
			item.InsertBefore(textNode(fmt.Sprintf("(number %d) ", number)), item.FirstChild)
		}
		number += step
	}
}

// writeField makes text of a field of a form, which the converter leaves out.
func writeField(n *html.Node) {
	value, text := valueIn(n, "value"), ""
	_, checked := attribute(n, "checked")
	switch kind := strings.ToLower(valueIn(n, "type")); {
	case n.DataAtom == atom.Textarea:
		text = "[field: " + strings.TrimSpace(textOf(n, tools.MaxDocument)) + "]"
	case kind == "hidden" || kind == "password":
	case kind == "checkbox" || kind == "radio":
		text = "[not chosen] "
		if checked {
			text = "[chosen] "
		}
	case strings.TrimSpace(value) != "":
		text = "[field: " + value + "]"
	}
	toText(n, text)
}

// toText makes a text of an element.
func toText(n *html.Node, text string) {
	for n.FirstChild != nil {
		n.RemoveChild(n.FirstChild)
	}
	n.Type, n.DataAtom, n.Data, n.Attr = html.TextNode, 0, text, nil
}

// wrap writes texts before and after the content of an element.
func wrap(n *html.Node, before, after string) {
	n.InsertBefore(textNode(before), n.FirstChild)
	n.AppendChild(textNode(after))
}

func attribute(n *html.Node, key string) (value string, found bool) {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val, true
		}
	}
	return "", false
}

func valueIn(n *html.Node, key string) string {
	value, _ := attribute(n, key)
	return strings.TrimSpace(value)
}

// scripts are the elements of MathML whose parts are raised, lowered or stacked, and
// what is written before and after each part.
var scripts = map[string][]string{
	"mfrac": {"(", ")", "/(", ")"}, "mroot": {"(", ")", "^(1/(", "))"},
	"msup": {"", "", "^(", ")"}, "mover": {"", "", "^(", ")"}, "msub": {"", "", "_(", ")"}, "munder": {"", "", "_(", ")"},
	"msubsup": {"", "", "_(", ")", "^(", ")"}, "munderover": {"", "", "_(", ")", "^(", ")"},
}

// writeScript puts signs around what an element of HTML or MathML raises, lowers
// or stacks, which text alone would run together: ^(…), _(…), (…)/(…) and √(…).
func writeScript(n *html.Node) {
	switch n.Data {
	case "sup", "sub":
		text := strings.TrimSpace(textOf(n, 2))
		if text != "" && !strings.HasPrefix(text, "[") { // a reference has brackets
			wrap(n, map[string]string{"sup": "^(", "sub": "_("}[n.Data], ")")
		}
	case "msqrt":
		wrap(n, "√(", ")")
	default:
		around := scripts[n.Data]
		if around == nil {
			return
		}
		var parts []*html.Node
		for c := range n.ChildNodes() {
			if c.Type == html.ElementNode {
				parts = append(parts, c)
			}
		}
		if len(parts)*2 != len(around) {
			return
		}
		for i, part := range parts {
			n.InsertBefore(textNode(around[2*i]), part)
			n.InsertBefore(textNode(around[2*i+1]), part.NextSibling)
		}
	}
}

func textNode(text string) *html.Node { return &html.Node{Type: html.TextNode, Data: text} }

// textOf is the text below n, which ends after so many bytes and a piece.
func textOf(n *html.Node, limit int) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
		if b.Len() >= limit && len(strings.TrimSpace(b.String())) >= limit {
			break
		}
	}
	return b.String()
}
