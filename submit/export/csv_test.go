package export

import (
	"encoding/csv"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/runs"
)

func TestCSV(t *testing.T) {
	s := open(t, runs.Good()["pair"])
	s.Void["fab1e902-0000-4000-8000-000000000001"] = true
	want := "task_id,level,outcome,attempt,attempts,official_correct,judged_correct,scoring_path,model_answer,turns,tool_calls,tools_used,tokens_in,tokens_out,tokens_cached,tokens_reasoning,cost_microusd,latency_ms,rehearsal,void,prompt_bytes,witnessed_bytes,errors_of\n" +
		"fab1e902-0000-4000-8000-000000000001,2,solved,1,1,true,true,official,431,2,1,read_file,1000,120,0,0,80,119,true,true,1475,1475,\n" +
		"fab1e902-0000-4000-8000-000000000002,3,failed,2,2,false,false,judge,South Marrow,3,1,web_fetch,1000,120,0,0,80,105,true,false,2490,2490,\n"
	if got := csvOf(t, s); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestUnknown: what is not known is an empty cell.
func TestUnknown(t *testing.T) {
	rows, err := csv.NewReader(strings.NewReader(csvOf(t, open(t, runs.Good()["unscored"])))).ReadAll()
	if err != nil || len(rows) != 2 {
		t.Fatal(rows, err)
	}
	at := func(column string) string { return rows[1][slices.Index(rows[0], column)] }
	if at("official_correct") != "" || at("judged_correct") != "" || at("scoring_path") != "none" || at("model_answer") != "13" {
		t.Errorf("%q", rows[1])
	}
	rows, err = csv.NewReader(strings.NewReader(csvOf(t, open(t, runs.Good()["silent"])))).ReadAll()
	if err != nil || rows[1][slices.Index(rows[0], "model_answer")] != "" {
		t.Errorf("%q, %v", rows, err)
	}
}

func TestCell(t *testing.T) {
	for _, tt := range [][2]string{
		{"", ""}, {"431", "431"}, {"-5", "-5"}, {"+1.5e-3", "+1.5e-3"}, {"North Marrow", "North Marrow"}, {"a=b", "a=b"},
		{"=1+1", "'=1+1"}, {"+1+cmd|' /C calc'!A0", "'+1+cmd|' /C calc'!A0"}, {"-2+3", "'-2+3"}, {"@SUM(A1)", "'@SUM(A1)"},
		{"\t=1", `\u0009=1`}, {"\n=1", `\u000a=1`}, {"\r=1", `\u000d=1`}, {"＝1+1", "'＝1+1"}, {"-", "'-"}, {"-5%", "'-5%"},
		{" =1", " '=1"}, {"\u00a0\u3000@SUM(A1)", "\u00a0\u3000'@SUM(A1)"}, {"\u200b\ufeff=1", `\u200b\ufeff=1`}, {"\u2028=1", `\u2028=1`}, {`"=1"`, `"'=1"`},
		{"\u202e=1", `\u202e=1`}, {" -5", " '-5"}, {"a ;b; c", "a ;b; c"}, {"a;=1+1", "a;'=1+1"}, {"1; -5;\u200b+6", "1; '-5;\\u200b+6"}, {`a;"=1"`, `a;"'=1"`},
		{"a;;=1;=2", "a;;'=1;'=2"}, {";=1", ";'=1"}, {"a\t=1", `a\u0009=1`}, {"a\n=1", `a\u000a=1`}, {"==1", "'==1"}, {"=1;", "'=1;"},
		{"\x1b[2Jgone", `\u001b[2Jgone`}, {"\u009b31m", `\u009b31m`}, {"\u202eexe.png", `\u202eexe.png`}, {"two\nlines", `two\u000alines`},
		{"'=1", "'=1"}, {`=HYPERLINK("http://a.example/")`, `'=HYPERLINK("http://a.example/")`},
	} {
		if got := cell(tt[0]); got != tt[1] {
			t.Errorf("cell(%q) is %q, not %q", tt[0], got, tt[1])
		}
	}
}

// TestHostileRows: a text stays in its cell, and where a person reads the table
// with another separator, no cell begins a formula.
func TestHostileRows(t *testing.T) {
	const answer = `=1",true,"x;=2;"@3";a	=4`
	s := open(t, parse(t, "-- task "+task+" --\nquestion: Which?\ngold: Ostrel\n-- answer "+answer+" --\nNo.\n"))
	table := csvOf(t, s)
	rows, err := csv.NewReader(strings.NewReader(table)).ReadAll()
	if want := `'=1",true,"x;'=2;"'@3";a\u0009=4`; err != nil || len(rows) != 2 || rows[1][slices.Index(rows[0], "model_answer")] != want {
		t.Errorf("%q, %v", rows, err)
	}
	for _, separator := range ";\t|" {
		other := csv.NewReader(strings.NewReader(table))
		other.Comma, other.LazyQuotes, other.FieldsPerRecord = separator, true, -1
		rows, err := other.ReadAll()
		if err != nil || len(rows) != 2 {
			t.Errorf("%q: %q, %v", separator, rows, err)
		}
		for _, row := range rows {
			for _, cell := range row {
				if strings.IndexAny(strings.TrimLeft(cell, "\" "), "=+-@") == 0 {
					t.Errorf("%q: %q begins a formula", separator, cell)
				}
			}
		}
	}
}
