package view

import (
	"strings"
	"testing"
	"time"
)

// TestTable checks layout, wrapping, and the escapes of what comes from outside.
func TestTable(t *testing.T) {
	table := NewTable("name", "n", "note")
	table.Wrap(3, 10)
	table.Row("a\x1b[31m", 7, "one\ntwo")
	table.Separator()
	table.Row("b", 12, "several words that wrap")
	want := ` name         n  note       
────────────────────────────
 a\u001b[31m   7  one two    
────────────────────────────
 b            12  several    
                  words that 
                  wrap       `
	got := table.String()
	if strings.Contains(got, "\x1b") || !strings.Contains(got, "one two") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRows(t *testing.T) {
	var b strings.Builder
	if err := Rows(&b, [][2]string{{"a", "x\ny"}, {"long", "z\u202e"}}); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "a     x y\nlong  z\\u202e\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestJSON(t *testing.T) {
	var b strings.Builder
	if err := JSON(&b, map[string]string{"a": "\u202e"}); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), `{"a":"\u202e"}`+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestForms(t *testing.T) {
	cost := int64(1_500_000)
	for _, c := range []struct{ name, got, want string }{
		{"plain path", Quote("runs/01J"), "runs/01J"},
		{"path with a space", Quote("my runs"), "'my runs'"},
		{"path with a quote", Quote("it's"), `'it'\''s'`},
		{"no path", Quote(""), "''"},
		{"one", Count(1, "entry"), "1 entry"},
		{"several", Count(2, "entry"), "2 entries"},
		{"none", Count(0, "task"), "0 tasks"},
		{"percent", Percent(123_456), "12.3 %"},
		{"dollars", Dollars(&cost), "$1.500000"},
		{"unknown cost", Dollars(nil), "unknown"},
		{"a byte", Bytes(1), "1 byte"},
		{"kilobytes", Bytes(1_550), "1.6 KB"},
		{"gigabytes", Bytes(2_000_000_000), "2.0 GB"},
		{"many terabytes", Bytes(5e15), "5000.0 TB"},
		{"no time", Time(time.Time{}), ""},
		{"time", Time(time.Date(2026, 1, 2, 4, 4, 5, 0, time.FixedZone("", 3600))), "2026-01-02T03:04:05Z"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, c.got, c.want)
		}
	}
}

// TestFirst: lines beyond the most are counted, and the caller's are left as they are.
func TestFirst(t *testing.T) {
	lines := []string{"a", "b", "c"}
	for most, want := range map[int]string{4: "a b c", 3: "a b c", 2: "a b and 1 more", 0: "and 3 more"} {
		if got := strings.Join(First(most, lines), " "); got != want {
			t.Errorf("%d: %q", most, got)
		}
	}
	if lines[2] != "c" {
		t.Errorf("%q", lines)
	}
}
