package origin

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// page is an invented text of some length.
func page(topic string, sentences int) string {
	var s strings.Builder
	for i := range sentences {
		fmt.Fprintf(&s, "The %s of harbour %d was painted by Odile Marchetti in %d, and its keeper kept %d goats.\n", topic, i, 1700+i*7%300, i*i%977)
	}
	return s.String()
}

func TestDivide(t *testing.T) {
	result := page("lighthouse", 20)
	question := "Which lamp in the harbour of Vells is the highest one?"
	exchange := `<html><head><title>Vells &amp; its lamps</title></head><body><p>The <b>lamp</b> of Caf&eacute; Orlo stands <a href="/x">sixty feet</a> above the sea, says the <i>keeper</i>.</p></body></html>`
	filled := func() *Index {
		x := New()
		x.Add(Question, question)
		x.Add(Result, result)
		x.Add(Exchange, exchange)
		x.Add(Workspace, "name,feet\nOrlo lamp of the northern pier,61\nVells lamp of the southern pier,42\n")
		x.Add(Result, "42")
		x.Add(Reply, "I should look at the table of all lamps, and then compare their heights.")
		x.Add(Reply, "?!")
		return x
	}
	quoted, _ := json.Marshal(result)
	twice, _ := json.Marshal(string(quoted))
	for _, c := range []struct {
		name, text string
		by         map[Source]int
		rest       []string
	}{
		{"the question", question, map[Source]int{Question: len(question)}, nil},
		{"with a frame", "Task: " + question + "\nGo.", map[Source]int{Question: len(question) + 1}, []string{"Task: ", "Go."}},
		{"a short result", "Observation: 42\nThought:", map[Source]int{Result: 3}, []string{"Observation: ", "Thought:"}},
		{"not in a number", "Observation: 1420", nil, []string{"Observation: 1420"}},
		{"in JSON", string(quoted), map[Source]int{Result: len(quoted)}, nil},
		{"in JSON twice", string(twice), map[Source]int{Result: len(twice)}, nil},
		{"in other lines", strings.Join(strings.Fields(result), "\n  "), map[Source]int{Result: len(strings.Join(strings.Fields(result), "\n  "))}, nil},
		{"cut within a word", result[100:905], map[Source]int{Result: 805}, nil},
		{"text of a page", "Vells & its lamps\n\nThe lamp of Café Orlo stands sixty feet above the sea, says the keeper.", map[Source]int{Exchange: 91}, nil},
		{"precedence", "name,feet\nOrlo lamp of the northern pier,61", map[Source]int{Workspace: 43}, nil},
		{"punctuation alone", "?!", map[Source]int{Reply: 2}, nil},
		{"other punctuation", "!!", nil, []string{"!!"}},
		{"a word between", "I should look at the table of all lamps, Zanzibar, and then compare their heights.", map[Source]int{Reply: 72}, []string{"Zanzibar, "}},
		{"in a tag", "I should look at the table of <b zanzibar> all lamps, and then compare their heights.", nil, []string{"b zanzibar> "}},
		{"in an escape", `I should look at the table of \nZanzibar all lamps, and then compare their heights.`, nil, []string{"Zanzibar "}},
		{"its own", "The answer is Zanzibar.", nil, []string{"The answer is Zanzibar."}},
		{"nothing", "", nil, nil},
	} {
		by, rest := filled().Divide(c.text)
		if !slices.Equal(rest, c.rest) {
			t.Errorf("%s: the rest is %q, want %q", c.name, rest, c.rest)
		}
		sum := int64(0)
		for s, n := range by {
			if sum += n; c.by != nil && int64(c.by[s]) != n {
				t.Errorf("%s: %s has %d bytes, want %d", c.name, s, n, c.by[s])
			}
		}
		for _, piece := range rest {
			sum += int64(len(piece))
		}
		if sum != int64(len(c.text)) || c.by != nil && len(by) != len(c.by) {
			t.Errorf("%s: %v and %q are %d of %d bytes", c.name, maps.Collect(maps.All(by)), rest, sum, len(c.text))
		}
	}
}
