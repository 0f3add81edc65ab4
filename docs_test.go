// Package gaia has no code: its tests are about the documents.
package gaia

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/pages"
)

// link is a link of a page to a file here, with a heading or without.
var link = regexp.MustCompile(`\]\(([^)\s:]*)\)`)

// TestDocsIndex: docs/README.md links every page of docs/ once, below the heading of its kind.
func TestDocsIndex(t *testing.T) {
	t.Parallel()
	index := pages.Read(t, ".", "docs/README.md").Prose
	kinds := regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(index, -1)
	if fmt.Sprint(kinds) != "[[## Quick starts Quick starts] [## How to How to] [## Reference Reference] [## Explanation Explanation]]" {
		t.Errorf("the kinds of pages are %v", kinds)
	}
	linked := map[string]int{}
	for _, m := range link.FindAllStringSubmatch(index, -1) {
		linked[m[1]]++
	}
	names, err := filepath.Glob("docs/*.md")
	if err != nil || len(names) < 20 {
		t.Fatalf("pages %q, %v", names, err)
	}
	for _, name := range names {
		if n := linked[filepath.Base(name)]; n != 1 && filepath.Base(name) != "README.md" {
			t.Errorf("docs/README.md links %s %d times", filepath.Base(name), n)
		}
	}
}

// TestLinks: what a page links to is here, and has the heading.
func TestLinks(t *testing.T) {
	t.Parallel()
	links := 0
	for _, p := range pages.All(t, ".") {
		for _, m := range link.FindAllStringSubmatch(p.Prose, -1) {
			links++
			file, heading, _ := strings.Cut(m[1], "#")
			target := filepath.Join(path.Dir(p.Name), file)
			if file == "" {
				target = p.Name
			}
			switch _, err := os.Stat(target); {
			case err != nil:
				t.Errorf("%s links to %s, which is not here", p.Name, m[1])
			case heading != "" && !slices.Contains(anchors(pages.Read(t, ".", target).Prose), heading):
				t.Errorf("%s links to %s, which has no such heading", p.Name, m[1])
			}
		}
	}
	if links < 150 {
		t.Errorf("only %d links", links)
	}
}

// anchors returns the fragments by which the headings of a page are linked, as GitHub makes them.
func anchors(prose string) (all []string) {
	out := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(prose, -1) {
		text := link.ReplaceAllString(m[1], "]")
		anchor := strings.ReplaceAll(out.ReplaceAllString(strings.ToLower(text), ""), " ", "-")
		for n := 1; slices.Contains(all, anchor); n++ {
			anchor = fmt.Sprintf("%s-%d", strings.TrimRight(anchor, "-0123456789"), n)
		}
		all = append(all, anchor)
	}
	for _, m := range regexp.MustCompile(`<a id="([^"]+)">`).FindAllStringSubmatch(prose, -1) {
		all = append(all, m[1])
	}
	return all
}
