package mcp

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/web"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxLinks bounds how many addresses that a result names are recorded.
const maxLinks = 100

// outputOf makes text of what a server answered. What is no text is named with
// its size.
func outputOf(r *mcp.CallToolResult) tools.Output {
	if r.NeedsInput() || len(r.InputRequests) > 0 {
		return tools.Failed("the server asks for something that only a person could give; there is none to ask")
	}
	var out tools.Output
	var parts, texts []string
	for _, c := range r.Content {
		parts = append(parts, part(&out, c))
		if text, ok := c.(*mcp.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	if r.StructuredContent != nil {
		text, err := json.Marshal(r.StructuredContent, json.Deterministic(true))
		switch {
		case err != nil:
			parts = append(parts, "[structured content that is no JSON left out]")
		case !repeats(texts, r.StructuredContent):
			parts = append(parts, string(text))
		}
	}
	doc := tools.Document{Text: strings.ToValidUTF8(strings.Join(parts, "\n"), "\ufffd")}.Clipped()
	out.Document, out.IsError = doc.Text, r.IsError
	switch pages := tools.Paginate(doc.Text); {
	case out.Document == "":
		out.Shown = "[the answer is empty]"
	case len(pages) == 1 && len(doc.Notes) == 0:
		out.Shown = doc.Text
	default: // a server's tools have pages of their own, or none
		about := fmt.Sprintf("the first %s of %s", tools.Count(len(pages[0]), "byte"), tools.Count(len(doc.Text), "byte"))
		out.Shown = "[" + strings.Join(append([]string{about}, doc.Notes...), ", ") +
			"; the rest is left out: ask for less at once]\n" + pages[0]
	}
	if out.IsError {
		out.Shown = "error: " + out.Shown
	}
	return out
}

// repeats reports whether structured content is what the texts of an answer contain already: servers
// send both. It is one of the texts as JSON, or all of them as a list. An object with nothing but "result",
// in which FastMCP wraps other values, counts as the value in it.
func repeats(texts []string, structured any) bool {
	wrapped, _ := structured.(map[string]any)
	result, only := wrapped["result"]
	return same(texts, structured) || only && len(wrapped) == 1 && same(texts, result)
}

// same takes time in proportion to what it compares.
func same(texts []string, value any) bool {
	if s, ok := value.(string); ok && (slices.Contains(texts, s) || s == strings.Join(texts, "\n")) {
		return true
	}
	if list, ok := value.([]any); ok && len(list) > 0 && slices.EqualFunc(texts, list, func(text string, element any) bool {
		return text == element || sameJSON(text, element)
	}) {
		return true
	}
	return slices.ContainsFunc(texts, func(text string) bool { return sameJSON(text, value) })
}

// sameJSON reports whether a text is the JSON of a value, in any form.
func sameJSON(text string, value any) bool {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return false
	}
	is, err := json.Marshal(v, json.Deterministic(true))
	want, wantErr := json.Marshal(value, json.Deterministic(true))
	return err == nil && wantErr == nil && bytes.Equal(is, want)
}

// part is one part of an answer as text.
func part(o *tools.Output, c mcp.Content) string {
	switch c := c.(type) {
	case *mcp.TextContent:
		return c.Text
	case *mcp.ImageContent:
		return leftOut("picture", len(c.Data), c.MIMEType)
	case *mcp.AudioContent:
		return leftOut("sound", len(c.Data), c.MIMEType)
	case *mcp.ResourceLink:
		nameAddress(o, c.URI)
		return fmt.Sprintf("[link: %s %s]", tools.PlainLine(c.Name), tools.PlainLine(c.URI))
	case *mcp.EmbeddedResource:
		if c.Resource == nil {
			return "[empty resource]"
		}
		nameAddress(o, c.Resource.URI)
		if c.Resource.Blob != nil {
			return leftOut("file", len(c.Resource.Blob), c.Resource.MIMEType)
		}
		return fmt.Sprintf("[%s]\n%s", tools.PlainLine(c.Resource.URI), c.Resource.Text)
	}
	return "[a part of a kind that is not known left out]"
}

func leftOut(what string, size int, mediaType string) string {
	if mediaType != "" {
		what += " (" + tools.PlainLine(mediaType) + ")"
	}
	return fmt.Sprintf("[%s of %s left out]", what, tools.Count(size, "byte"))
}

// nameAddress records an address of the web that a result names.
func nameAddress(o *tools.Output, uri string) {
	if u, err := web.ParseURL(uri); err == nil && len(o.URLs) < maxLinks {
		o.URLs = append(o.URLs, trajectory.URL{URL: u.String()})
	}
}
