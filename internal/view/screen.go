package view

import (
	"os"
	"regexp"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

// Screen is a terminal. What is written to it is shown with tables that fit its width, and with colours if Colour is set. Files
// and pipes are written without it, so that they get whole tables and no escapes.
type Screen struct {
	*os.File
	Colour bool
}

// Write writes what fit makes of whole lines.
func (s *Screen) Write(b []byte) (int, error) {
	width, _, err := term.GetSize(int(s.Fd()))
	if err != nil || width < minScreen {
		width = 1 << 20
	}
	if _, err := s.File.WriteString(fit(string(b), width, s.Colour)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// WriteString is Write: that of the file would show the text as it is.
func (s *Screen) WriteString(text string) (int, error) { return s.Write([]byte(text)) }

const (
	minScreen = 40 // columns below which nothing is fitted
	minColumn = 8  // columns that a cell keeps
	minWord   = 9  // of a column without spaces, such as ids, of which the first eight characters name a task
	ruled     = "─"
)

// colours are those of words that are a whole cell.
var colours = map[string]text.Color{
	"ok": text.FgGreen, "pass": text.FgGreen, "solved": text.FgGreen, "correct": text.FgGreen,
	"failed": text.FgRed, "fail": text.FgRed, "wrong": text.FgRed, "error": text.FgRed, "damaged": text.FgRed, "CRITICAL": text.FgRed, "HIGH": text.FgRed,
	"missing": text.FgYellow, "unknown": text.FgYellow, "review": text.FgYellow, "REVIEW": text.FgYellow, "skipped": text.FgYellow, "interrupted": text.FgYellow,
	"error:": text.FgRed, "warning:": text.FgYellow, "hint:": text.FgCyan,
}

// coloured matches the beginnings of lines that have a colour: of findings, and of what this program says.
var coloured = regexp.MustCompile(`^(|gaia: )(CRITICAL|HIGH|REVIEW|error:|warning:|hint:) `)

func colour(word string) string {
	if c, ok := colours[word]; ok {
		return c.EscapeSeq() + word + text.Reset.EscapeSeq()
	}
	return word
}

// fit makes the tables of a text fit a width, and colours it. A table is lines of one width, the second of which is a rule. The
// width is the sum of the characters' widths, as where tables are written: it differs from that of the string for some scripts.
// Text of others is indented and so is never taken for one.
func fit(s string, width int, withColour bool) string {
	lines := strings.Split(s, "\n")
	var out []string
	for i := 0; i < len(lines); i++ {
		if n := text.StringWidthWithoutEscSequences(lines[i]); i+1 < len(lines) && n >= minColumn && lines[i+1] == strings.Repeat(ruled, n) {
			end := i
			for end < len(lines) && text.StringWidthWithoutEscSequences(lines[end]) == n {
				end++
			}
			out = append(out, fitTable(lines[i:end], n, width, withColour)...)
			i = end - 1
			continue
		}
		line := lines[i]
		if m := coloured.FindStringSubmatchIndex(line); withColour && m != nil {
			line = line[:m[4]] + colour(line[m[4]:m[5]]) + line[m[5]:]
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// fitTable takes columns from the widest cells until the lines of a table, all n wide, fit. Cells are wrapped where one of
// their column has several words, and cut elsewhere.
func fitTable(lines []string, n, width int, withColour bool) (out []string) {
	grid := make([][]string, len(lines)) // the character at each column; "" behind a wide one
	blank := make([]bool, n)
	for c := range blank {
		blank[c] = true
	}
	for i, line := range lines {
		for _, r := range line {
			columns := text.RuneWidth(r)
			if last := len(grid[i]) - 1; columns == 0 && last >= 0 { // an accent or vowel of the character before it
				grid[i][last] += string(r)
				continue
			}
			grid[i] = append(grid[i], string(r))
			for range columns - 1 {
				grid[i] = append(grid[i], "")
			}
		}
		for c := range min(n, len(grid[i])) {
			blank[c] = blank[c] && (grid[i][c] == " " || grid[i][c] == ruled && strings.Trim(line, ruled) == "")
		}
	}
	var starts, ends []int // of the columns; two blanks separate them, and one is at both sides
	for c := 1; c < n-1; c++ {
		if !blank[c] && (len(ends) == 0 || c > ends[len(ends)-1]+1) {
			starts, ends = append(starts, c), append(ends, c+1)
		} else if !blank[c] {
			ends[len(ends)-1] = c + 1
		}
	}
	widths, least, total := make([]int, len(starts)), make([]int, len(starts)), 2*len(starts)
	for k := range starts {
		widths[k], least[k] = ends[k]-starts[k], minWord
		for i := range grid {
			if words := strings.Join(grid[i][min(starts[k], len(grid[i])):min(ends[k], len(grid[i]))], ""); strings.Contains(strings.TrimSpace(words), " ") {
				least[k] = minColumn
			}
		}
		total += widths[k]
	}
	for total > width {
		widest := -1
		for k := range widths {
			if widths[k] > least[k] && (widest < 0 || widths[k] > widths[widest]) {
				widest = k
			}
		}
		if widest < 0 {
			break // the terminal breaks the lines
		}
		widths[widest]--
		total--
	}
	for i, line := range lines {
		if strings.Trim(line, ruled) == "" {
			out = append(out, strings.Repeat(ruled, min(n, total)))
			continue
		}
		cells, height := make([][]string, len(starts)), 1
		for k := range starts {
			cell := strings.Join(grid[i][min(starts[k], len(grid[i])):min(ends[k], len(grid[i]))], "")
			if cells[k] = []string{cell}; widths[k] < ends[k]-starts[k] {
				cells[k] = shorten(strings.TrimSpace(cell), widths[k], least[k] == minColumn)
			}
			height = max(height, len(cells[k]))
		}
		for h := range height {
			var b strings.Builder
			for k := range cells {
				cell := ""
				if h < len(cells[k]) {
					cell = cells[k][h]
				}
				padded := text.Pad(cell, widths[k], ' ')
				if word := strings.TrimSpace(cell); withColour && i > 0 && word != "" {
					padded = strings.Replace(padded, word, colour(word), 1)
				}
				b.WriteString(" " + padded + " ")
			}
			out = append(out, b.String())
		}
	}
	return out
}

// shorten wraps or cuts a cell that is wider than a width.
func shorten(cell string, width int, wraps bool) []string {
	if text.StringWidthWithoutEscSequences(cell) <= width {
		return []string{cell}
	}
	if !wraps {
		return []string{text.Trim(cell, width-text.RuneWidth('…')) + "…"}
	}
	lines := strings.Split(text.WrapSoft(cell, width), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}
