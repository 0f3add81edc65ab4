package tasklist

import (
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/loader"
	"github.com/jedib0t/go-pretty/v6/text"
)

// TestTable: a table fits its width, and shows no character that could steer a terminal.
func TestTable(t *testing.T) {
	const unseen = "\u00ad\u034f\u115f\u180e\u200b\u2800\u3164\ufe0f\ufeff\U000e0041\U000e0100"
	const id = "fab1e901-0000-4000-8000-000000000901"
	tasks := []loader.Task{
		{ID: id, Question: strings.Repeat("灯台 ", 60), Level: 1, FileName: id + ".XLSX"},
		{ID: "b", Question: "\n \tfirst\tline\nsecond line", Level: 2, FileName: "a name that is much too long.csv"},
		{ID: "c", Question: "red \x1b[31m\u202e\r text" + unseen, Level: 3},
	}
	for _, width := range []int{80, 100, 120, 300} {
		table := Table(tasks, nil, width)
		for line := range strings.Lines(table) {
			if n := text.StringWidth(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns of %d: %q", n, width, line)
			}
		}
		if n := strings.Count(table, "\n"); n != 4 {
			t.Errorf("%d lines:\n%s", n, table)
		}
		for _, want := range []string{".XLSX", "first line …", `red \u001b[31m\u20`, "a name that…"} {
			if !strings.Contains(table, want) {
				t.Errorf("width %d: no %q in\n%s", width, want, table)
			}
		}
		if strings.ContainsAny(table, "\x1b\r\u202e"+unseen) {
			t.Errorf("%q", table)
		}
	}
}
