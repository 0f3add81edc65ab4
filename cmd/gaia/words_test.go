package main

import (
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// bannedWords are words and phrases that no code, comment or document uses: plain English has better ones.
var bannedWords = strings.Fields("mend mends mended mending anew aloud nobody somebody furnish furnishes furnished furnishing " +
	"for_want_of of_its_own would_fail_by dear dearer dearest dearly purse purses scribe scribes crowd crowds")

// findBannedWords returns the banned words of a text, in order and with repetitions. It looks into identifiers, and
// across line breaks.
func findBannedWords(text string) (found []string) {
	isBanned := map[string]bool{}
	for _, word := range bannedWords {
		isBanned[word] = true
	}
	var previous [2]string
	for word := range words(text) {
		for _, phrase := range []string{word, previous[0] + "_" + previous[1] + "_" + word} {
			if isBanned[phrase] {
				found = append(found, strings.ReplaceAll(phrase, "_", " "))
			}
		}
		previous = [2]string{previous[1], word}
	}
	return found
}

// words yields the words of a text in lower case. An identifier is several words.
func words(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start := -1 // of the word that i is in
		for i, c := range []byte(text + " ") {
			letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
			capital := c >= 'A' && c <= 'Z' && i > 0 && text[i-1] >= 'a' && text[i-1] <= 'z'
			if start >= 0 && (!letter || capital) {
				if !yield(strings.ToLower(text[start:i])) {
					return
				}
				start = -1
			}
			if letter && start < 0 {
				start = i
			}
		}
	}
}

// remainingWords counts the banned words that each folder still has. Counts only shrink, and code that moves to another
// folder takes its words along; a folder with none has no row.
var remainingWords = map[string]int{
	"audit":       1, // a phrase of injected text
	"audit/probe": 1, // a page of a test
	"judge":       1, // a question of the fixtures
}

// TestPlainEnglish: Go files and documents contain no banned word, in prose, names or messages. docs/glossary.md
// explains some of them, and testdata is not looked at.
func TestPlainEnglish(t *testing.T) {
	found := map[string]map[string]int{}
	err := fs.WalkDir(os.DirFS(root(t)), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "testdata" || len(e.Name()) > 1 && e.Name()[0] == '.'):
			return fs.SkipDir
		case e.IsDir() || !slices.Contains([]string{".go", ".md"}, path.Ext(name)),
			name == "docs/glossary.md", name == "cmd/gaia/words_test.go":
			return nil
		}
		data, err := os.ReadFile(filepath.Join(root(t), name))
		for _, word := range findBannedWords(string(data)) {
			folder := path.Dir(name)
			if found[folder] == nil {
				found[folder] = map[string]int{}
			}
			found[folder][word+" in "+path.Base(name)]++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	allowed, left := total(remainingWords), 0
	for _, words := range found {
		left += total(words)
	}
	if left <= allowed {
		return
	}
	t.Errorf("%d banned words, %d are allowed", left, allowed)
	for _, folder := range slices.Sorted(maps.Keys(found)) {
		if n := total(found[folder]); n > remainingWords[folder] {
			t.Errorf("%s: %d, allowed %d: %v", folder, n, remainingWords[folder], found[folder])
		}
	}
}

func total(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

func TestFindBannedWords(t *testing.T) {
	for text, want := range map[string]string{
		"It mends nothing, Anew.":           "mends anew",
		"for want\n\t// of a word":          "for want of",
		"func (p *runPurse) crowd_of()":     "purse crowd",
		"a meteredTranscriber, recommended": "",
		"amendment, newcomer, its own":      "",
	} {
		if got := strings.Join(findBannedWords(text), " "); got != want {
			t.Errorf("%q: found %q, want %q", text, got, want)
		}
	}
}
