// Package pages reads the documents of this repository for tests: their blocks and their prose.
//
// [Read] divides one page; [All] reads all that describe the program to its users. Tests run or parse the commands in the
// blocks, and look up in the prose what a page must name. Nothing is rendered and no link is followed. A file that
// cannot be read ends the test. Only tests import it.
package pages

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Block is a fenced block of a page.
type Block struct {
	Line int    // of its first line
	Info string // the words after the fence
	Text string
}

// Page is a document whose blocks are divided from its prose.
type Page struct {
	Name   string // from the root
	Blocks []Block
	Prose  string // of which lines in blocks are empty
}

// Read divides a page.
func Read(t *testing.T, root, name string) Page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	p := Page{Name: name}
	fence := ""
	var prose strings.Builder
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		trimmed := strings.TrimSpace(line)
		ticks := trimmed[:len(trimmed)-len(strings.TrimLeft(trimmed, "`"))]
		switch {
		case fence == "" && len(ticks) >= 3:
			fence = ticks
			p.Blocks = append(p.Blocks, Block{Line: n + 1, Info: strings.TrimSpace(trimmed[len(ticks):])})
			line = "\n"
		case fence != "" && trimmed == fence:
			fence, line = "", "\n"
		case fence != "":
			p.Blocks[len(p.Blocks)-1].Text += line
			line = "\n"
		}
		prose.WriteString(line)
	}
	if fence != "" {
		t.Errorf("%s: the last block has no end", name)
	}
	p.Prose = prose.String()
	return p
}

// All returns the pages that describe the program to its users, which are all but decisions.
func All(t *testing.T, root string) []Page {
	t.Helper()
	var all []Page
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*.md", "examples/*/*.md", "examples/*/*/*.md"} {
		names, err := fs.Glob(os.DirFS(root), pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			all = append(all, Read(t, root, name))
		}
	}
	if len(all) < 25 {
		t.Fatalf("only %d pages", len(all))
	}
	return all
}
