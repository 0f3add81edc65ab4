package tools

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPaginate(t *testing.T) {
	texts := map[string]string{
		"empty":    "",
		"one page": strings.Repeat("a", PageRunes),
		"one more": strings.Repeat("a", PageRunes+1),
		"lines":    strings.Repeat("a line of thirty-two characters\n", 1000),
		"words":    strings.Repeat("word ", 5000),
		"wide":     strings.Repeat("é日😀", 9000),
		"late end": strings.Repeat("a", PageRunes-1) + "\n" + strings.Repeat("b", 10),
	}
	for name, text := range texts {
		pages := Paginate(text)
		if strings.Join(pages, "") != text {
			t.Errorf("%s: the pages are not the text", name)
		}
		for i, p := range pages {
			if n := utf8.RuneCountInString(p); n > PageRunes || !utf8.ValidString(p) || (i < len(pages)-1 && n < PageRunes/2) {
				t.Errorf("%s: page %d has %d characters, valid %v", name, i+1, n, utf8.ValidString(p))
			}
		}
		if name == "lines" && !strings.HasSuffix(pages[0], "\n") {
			t.Error("a page of lines does not end with a line")
		}
	}
}

func TestShow(t *testing.T) {
	var b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&b, "line %d of the Log\n", i+1)
	}
	d := Document{Kind: "text", Notes: []string{"a note"}, Text: b.String()}
	tests := []struct {
		page    int
		find    string
		isError bool
		want    []string
		not     string
	}{
		{0, "", false, []string{"[log.txt: text, a note; page 1 of 6; read on with page=2 or look inside with find]\nline 1 of"}, "line 500 "},
		{1, "", false, []string{"page 1 of 6"}, ""},
		{6, "", false, []string{"[log.txt: text, a note; page 6 of 6]\n", "line 2000 of the Log\n"}, "line 1 of"},
		{7, "", true, []string{"error: there is no page 7 of log.txt: the last one is 6"}, ""},
		{-1, "", true, []string{"there is no page -1"}, ""},
		{0, "LINE 1000 OF", false, []string{`lines holding "LINE 1000 OF": 1`, "998-line 998 of the Log\n999-line 999 of the Log\n1000:line 1000 of the Log\n1001-", "1002-line 1002"}, "1003-"},
		{0, "line 19", false, []string{"lines holding \"line 19\": 111", "19:line 19", "21-line 21 of the Log\n--\n188-line 188"}, ""},
		{2, "the log", false, []string{`: 2000,`, "page 2 of "}, "\n1:"},
		{0, "nowhere", false, []string{`[log.txt: text, a note; no line holds "nowhere"]`}, "line 1"},
	}
	for _, test := range tests {
		out := d.Show("log.txt", test.page, test.find)
		if out.IsError != test.isError || out.Document != d.Text {
			t.Errorf("page %d, find %q: error %v, whole document %v", test.page, test.find, out.IsError, out.Document == d.Text)
		}
		mustHold(t, "what is shown", out.Shown, test.want...)
		if test.not != "" && strings.Contains(out.Shown, test.not) {
			t.Errorf("page %d, find %q shows %q", test.page, test.find, test.not)
		}
	}
}

// A match deep inside a long line is shown with what is around it, also where
// upper and lower case differ in length.
func TestFindInLongLine(t *testing.T) {
	d := Document{Kind: "text", Text: strings.Repeat("İ", 3000) + " the Needle is here " + strings.Repeat("z", 3000)}
	out := d.Show("long.txt", 0, "needle")
	mustHold(t, "what is shown", out.Shown, "1:…", "İ the Needle is here z", "z…\n")
	if n := utf8.RuneCountInString(out.Shown); n > 600 {
		t.Errorf("%d characters shown", n)
	}
}
