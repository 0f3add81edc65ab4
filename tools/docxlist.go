package tools

import (
	"strconv"
	"strings"
)

const listLevels = 9 // of a list, by the format

// numbering counts the paragraphs of a document's lists.
type numbering struct {
	abstract map[string]string // list → definition
	levels   map[string]*[listLevels]listLevel
	restarts map[string]map[int]int // list → level → number it begins with
	counted  map[string]*[listLevels]int
}

type listLevel struct {
	format, text string
	start        int
}

// readNumbering takes the lists' definitions from their part, which may be nil.
func readNumbering(root *node) *numbering {
	l := &numbering{map[string]string{}, map[string]*[listLevels]listLevel{}, map[string]map[int]int{}, map[string]*[listLevels]int{}}
	for _, a := range root.all("abstractNum") {
		var levels [listLevels]listLevel
		for _, n := range a.all("lvl") {
			if i, ok := levelOf(n.attr("ilvl")); ok {
				levels[i] = listLevel{n.kid("numFmt").attr("val"), n.kid("lvlText").attr("val"), valueOf(n.kid("start"))}
			}
		}
		l.levels[a.attr("abstractNumId")] = &levels
	}
	for _, n := range root.all("num") {
		id := n.attr("numId")
		l.abstract[id] = n.kid("abstractNumId").attr("val")
		for _, o := range n.all("lvlOverride") {
			start := o.kid("startOverride")
			if i, ok := levelOf(o.attr("ilvl")); ok && start != nil {
				if l.restarts[id] == nil {
					l.restarts[id] = map[int]int{}
				}
				l.restarts[id][i] = valueOf(start)
			}
		}
	}
	return l
}

func levelOf(s string) (int, bool) {
	i, err := strconv.Atoi(s)
	return i, err == nil && i >= 0 && i < listLevels
}

// label is what stands before the next paragraph of a list, "" for a paragraph
// that is taken out of its list.
func (l *numbering) label(list, level string) string {
	i, ok := levelOf(level)
	if level == "" {
		i, ok = 0, true
	}
	if list == "0" || !ok {
		return ""
	}
	indent := strings.Repeat("  ", i)
	id := l.abstract[list]
	levels := l.levels[id]
	if levels == nil {
		return indent + "- "
	}
	counted := l.counted[id]
	if counted == nil {
		counted = new([listLevels]int)
		for j := range counted {
			counted[j] = levels[j].start - 1
		}
		l.counted[id] = counted
	}
	if start, restart := l.restarts[list][i]; restart {
		counted[i] = start - 1
		delete(l.restarts[list], i)
	}
	counted[i]++
	for j := i + 1; j < listLevels; j++ {
		counted[j] = levels[j].start - 1
	}
	if f := levels[i].format; f == "bullet" || f == "none" || levels[i].text == "" {
		return indent + "- "
	}
	text := levels[i].text
	for j := range listLevels {
		shown := counted[j]
		if j < i {
			shown = max(shown, levels[j].start) // a level that was skipped counts as begun
		}
		if place := "%" + strconv.Itoa(j+1); strings.Contains(text, place) {
			text = strings.ReplaceAll(text, place, numeral(levels[j].format, shown))
		}
	}
	return indent + plainWords(text) + " "
}

// numeral writes a number as a list does.
func numeral(format string, n int) string {
	switch {
	case n < 1 || n > 3999:
	case strings.HasSuffix(format, "Letter"):
		s := strings.Repeat(string(rune('A'+(n-1)%26)), min((n-1)/26+1, 20))
		if format == "lowerLetter" {
			return strings.ToLower(s)
		}
		return s
	case strings.HasSuffix(format, "Roman"):
		s := roman(n)
		if format == "lowerRoman" {
			return strings.ToLower(s)
		}
		return s
	}
	return strconv.Itoa(n)
}

func roman(n int) string {
	var b strings.Builder
	for _, d := range []struct {
		value  int
		letter string
	}{{1000, "M"}, {900, "CM"}, {500, "D"}, {400, "CD"}, {100, "C"}, {90, "XC"}, {50, "L"}, {40, "XL"}, {10, "X"}, {9, "IX"}, {5, "V"}, {4, "IV"}, {1, "I"}} {
		for ; n >= d.value; n -= d.value {
			b.WriteString(d.letter)
		}
	}
	return b.String()
}
