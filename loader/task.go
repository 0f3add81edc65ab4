package loader

import (
	"fmt"
	"io"
	"maps"
)

// A Split is a part of the dataset with a policy of its own about answers.
type Split string

// The splits of GAIA.
const (
	Validation Split = "validation" // answers are public
	Test       Split = "test"       // answers are withheld
)

// ParseSplit reads the name of a split, as written in the dataset's own paths.
func ParseSplit(s string) (Split, error) {
	switch split := Split(s); split {
	case Validation, Test:
		return split, nil
	case "":
		return "", fmt.Errorf("no split given: want %q or %q", Validation, Test)
	}
	return "", fmt.Errorf("unknown split %q: want %q or %q", s, Validation, Test)
}

// A Task is a question with what belongs to it. It cannot carry an answer.
type Task struct {
	ID       string
	Question string
	Level    int    // 1 to 3
	FileName string // name of the attachment, a single path element; "" where there is none

	Bytes  int64  // size of the attachment, set by Set.HashAttachments
	SHA256 string // "sha256:" and hex, of the attachment, set by Set.HashAttachments; "" before, and where there is none

	filePath string // inside the dataset; "" where there is no attachment
}

// A Gold holds the answers of a [Set]. Printing or encoding it, or any value that holds it, shows none of them.
type Gold struct {
	// A function and not a map, since fmt prints the unexported fields of whatever holds a Gold without asking it.
	open  func() map[string]string
	count int
}

func newGold(answers map[string]string) Gold {
	return Gold{open: func() map[string]string { return maps.Clone(answers) }, count: len(answers)}
}

// Map returns a copy of the answers by task id. It is the one way to read them.
func (g Gold) Map() map[string]string {
	if g.open == nil {
		return map[string]string{}
	}
	return g.open()
}

// Len is the number of answers.
func (g Gold) Len() int { return g.count }

// String tells how many answers there are.
func (g Gold) String() string { return fmt.Sprintf("%d gold answers (not shown)", g.count) }

// GoString is String.
func (g Gold) GoString() string { return g.String() }

// Format is String under every verb.
func (g Gold) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, g.String()) }

// MarshalJSON refuses: an encoder that reaches a Gold is about to write answers where they do not belong.
func (g Gold) MarshalJSON() ([]byte, error) {
	return nil, fmt.Errorf("gold answers are not encoded: take them out by Map where they are due")
}
