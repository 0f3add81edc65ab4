package document

import (
	"bytes"
	"context"
	"math"
	"strconv"
	"strings"

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
