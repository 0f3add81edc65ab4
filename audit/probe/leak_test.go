package probe

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html"
	"strings"
	"testing"
)

// leakFormat writes a task with its answer as the places do where answers lie.
type leakFormat struct {
	name   string
	render func(Target) string
	schema int  // names of columns that are told
	keys   bool // a name of an answer field is told
}

func leakFormats() []leakFormat {
	return []leakFormat{
		{"json", leakedJSON, 5, true},
		{"json, indented", func(t Target) string {
			var out bytes.Buffer
			if err := json.Indent(&out, []byte(leakedJSON(t)), "", "  "); err != nil {
				panic(err)
			}
			return out.String()
		}, 5, true},
		{"jsonl", func(t Target) string {
			other := Target{TaskID: otherID, Question: "How many steps lead up to the gallery of the north tower?", Gold: "214"}
			return leakedJSON(other) + "\n" + leakedJSON(t) + "\n"
		}, 5, true},
		{"csv", func(t Target) string { return leakedCSV(t, ',') }, 5, true},
		{"tsv", func(t Target) string { return leakedCSV(t, '\t') }, 5, true},
		{"markdown table", func(t Target) string {
			return "| task_id | Question | Final answer | file_name | Level |\n|---|---|---|---|---|\n| " +
				t.TaskID + " | " + t.Question + " | " + t.Gold + " | | 2 |\n"
		}, 5, true},
		{"escaped markdown table", func(t Target) string {
			return `| task\_id | Question | Final answer | file\_name | Level |` + "\n|---|---|---|---|---|\n| " +
				strings.ReplaceAll(t.TaskID, "-", `\-`) + " | " + t.Question + " | " + t.Gold + " | | 2 |\n"
		}, 5, true},
		{"html table", func(t Target) string {
			return "<html><table><tr><th>task_id</th><th>Question</th><th>Final answer</th></tr>\n<tr><td>" + t.TaskID + "</td><td>" +
				strings.ReplaceAll(html.EscapeString(t.Question), "1871", "<em>1871</em>") + "</td><td>" + html.EscapeString(t.Gold) + "</td></tr></table>"
		}, 3, true},
		{"html page", func(t Target) string {
			return "<!doctype html><body class=dark><h1>Task " + t.TaskID + "</h1><p>" + html.EscapeString(t.Question) +
				"</p>\n<details><summary>Answer</summary><b>" + html.EscapeString(t.Gold) + "</b></details></body>"
		}, 0, false},
		{"json in html", func(t Target) string {
			return `<div data-target="Viewer" data-props="` + html.EscapeString(leakedJSON(t)) + strings.Repeat(" ", longestTag) + `"></div>`
		}, 5, true},
		{"json in json in html", func(t Target) string { return "<pre>" + html.EscapeString(jsonText(leakedJSON(t))) + "</pre>" }, 5, true},
		{"html in json", func(t Target) string {
			return `{"status":200,"body":` + jsonText("<p>"+t.TaskID+"</p><p>"+html.EscapeString(t.Question)+"</p><p>Final answer: "+t.Gold+"</p>") + "}"
		}, 1, true},
		{"html in html", func(t Target) string {
			return "<code>" + html.EscapeString("<p>"+t.TaskID+"</p><p>"+html.EscapeString(t.Question)+"</p><p>Final answer: "+t.Gold+"</p>") + "</code>"
		}, 1, true},
		{"python", func(t Target) string {
			return "[{'task_id': '" + t.TaskID + "', 'Question': '" + strings.ReplaceAll(t.Question, "'", `\'`) + "', 'Level': 2, 'Final answer': '" + t.Gold + "'}]"
		}, 4, true},
		{"yaml", func(t Target) string {
			return "- task_id: " + t.TaskID + "\n  Question: " + t.Question + "\n  Level: 2\n  Final answer: " + t.Gold + "\n"
		}, 4, true},
		{"bold labels", func(t Target) string {
			return "**task\\_id:** " + t.TaskID + "\n\n**Question**: " + t.Question + "\n\n**Final answer:** " + t.Gold + "\n"
		}, 3, true},
		{"plain text", func(t Target) string {
			return "Solved tasks, " + t.TaskID + "\n" + t.Question + "\nThe answer is " + t.Gold + ".\n"
		}, 0, false},
		{"two columns", func(t Target) string {
			return "task_id         \t" + t.TaskID + "\nQuestion        \t" + t.Question + "\nFinal answer    \t" + t.Gold + "\n"
		}, 1, true},
	}
}

func leakedRow(t Target, format string) string {
	for _, f := range leakFormats() {
		if f.name == format {
			return f.render(t)
		}
	}
	panic("there is no format " + format)
}

func leakedJSON(t Target) string {
	return fmt.Sprintf(`{"task_id":%q,"Question":%s,"Level":2,"Final answer":%s,"file_name":""}`, t.TaskID, jsonText(t.Question), jsonText(t.Gold))
}

func leakedCSV(t Target, comma rune) string {
	var out strings.Builder
	w := csv.NewWriter(&out)
	w.Comma = comma
	err := w.WriteAll([][]string{{"task_id", "Question", "Final answer", "Level", "file_name"}, {t.TaskID, t.Question, t.Gold, "2", ""}})
	if err != nil {
		panic(err)
	}
	return out.String()
}

func jsonText(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func interleaved(words []string) string { return strings.Join(words, " so ") }

func canonical(s string) string { return string(canonicalText(s).b) }

// A leak is found in every format, for every kind of gold, and what it is
// is told apart: with another gold the gold's findings vanish, without the id
// the id's, with another question the question's.
func TestLeaks(t *testing.T) {
	golds := []struct{ gold, other string }{
		{"Grey Heron", "Great Auk"},
		{"heron", "auk"},
		{"1,234.50", "1234.51"},
		{"$89706", "89707"},
		{"17", "18"},
		{"ash, oak, elm", "ash, oak, yew"},
		{"3, 41; 5", "3, 41; 6"},
		{"Ångström & Söhne", "Ångström & Böhne"},
		{"½ pint", "⅓ pint"},
		{"灯台守", "灯台"},
	}
	for _, format := range leakFormats() {
		for _, g := range golds {
			task := withGold(g.gold)
			document := format.render(task)
			got := New(task).Probe(document, "", nil)
			name := format.name + ", " + g.gold
			if !got.OwnUUID || got.QCov < 950 || got.QCovNoEcho != got.QCov || !got.GoldNear || got.GoldHits == 0 {
				t.Errorf("%s: %+v in %s", name, got, document)
			}
			if got.SchemaKeys < format.schema || (got.AnswerKeys > 0) != format.keys {
				t.Errorf("%s: %d columns and %d answer fields, want %d and %v", name, got.SchemaKeys, got.AnswerKeys, format.schema, format.keys)
			}
			if format.keys && !got.UUIDGoldNear {
				t.Errorf("%s: an answer field stands by the id, but %+v", name, got)
			}

			swapped := New(withGold(g.other)).Probe(document, "", nil)
			if swapped.GoldNear || swapped.GoldHits > 0 || swapped.GoldLabelNear || swapped.UUIDGoldNear && !format.keys {
				t.Errorf("%s: with another gold: %+v", name, swapped)
			}
			unknown := New(withGold("")).Probe(document, "", nil)
			if unknown != swapped {
				t.Errorf("%s: without gold %+v, with another %+v", name, unknown, swapped)
			}
			elsewhere := task
			elsewhere.TaskID, elsewhere.SplitIDs = "fab1e009-7c1d-4e02-9b7a-0123456789ab", NewIDs([]string{ownID})
			if got := New(elsewhere).Probe(document, "", nil); got.OwnUUID || got.UUIDGoldNear || got.OtherUUIDs != 1 {
				t.Errorf("%s: with another id: %+v", name, got)
			}
			elsewhere = task
			elsewhere.Question = "Who carried the oil up to the lamp when the second keeper had left the island for good?"
			if got := New(elsewhere).Probe(document, "", nil); got.QCov > 100 || got.GoldNear {
				t.Errorf("%s: with another question: %+v", name, got)
			}
		}
	}
}

// Where id and gold stand apart, distance decides.
func TestDistances(t *testing.T) {
	p := New(withGold("Grey Heron"))
	short := New(withGold("7"))
	gap := func(n int) string { return strings.Repeat("é", n-2) }
	tests := []struct {
		name             string
		p                *Prober
		document         string
		question, id, at bool // gold near the question, near the id, anywhere
	}{
		{"400 characters behind the question", p, lighthouse.Question + " " + gap(399) + " grey heron", true, false, true},
		{"401 characters behind the question", p, lighthouse.Question + " " + gap(400) + " grey heron", false, false, true},
		{"400 characters before the question", p, "grey heron " + gap(400) + " " + lighthouse.Question[3:], true, false, true},
		{"401 characters before the question", p, "grey heron " + gap(401) + " " + lighthouse.Question[3:], false, false, true},
		{"400 characters behind the id", p, ownID + " " + gap(400) + " grey heron", false, true, true},
		{"401 characters behind the id", p, ownID + " " + gap(401) + " grey heron", false, false, true},
		{"400 characters before the id", p, "grey heron " + gap(400) + " " + ownID, false, true, true},
		{"an answer field 400 characters behind the id", p, ownID + "\n" + gap(398) + " \n" + `"final answer": ""`, false, true, false},
		{"an answer field farther away", p, ownID + "\n" + gap(399) + " \n" + `"final answer": ""`, false, false, false},
		{"short gold beside the question", short, lighthouse.Question + " — **(7)**", true, false, true},
		{"short gold beside the id", short, ownID + `", "7`, false, true, true},
		{"short gold a word away", short, lighthouse.Question + " a 7", false, false, false},
		{"short gold 17 characters away", short, lighthouse.Question + strings.Repeat("!", 16) + "7", false, false, false},
		{"short gold 16 characters away", short, lighthouse.Question + strings.Repeat("!", 15) + "7", true, false, true},
		{"short gold with a label", short, lighthouse.Question + " The answer, we think, is 7", true, false, true},
		{"short gold by the id with a label", short, ownID + " the solution was 7", false, true, true},
		{"short gold on the page", short, lighthouse.Question + strings.Repeat(" and 7 boats", 100), false, false, false},
	}
	for _, tt := range tests {
		got := tt.p.Probe(tt.document, "", nil)
		if got.GoldNear != tt.question || got.UUIDGoldNear != tt.id || got.GoldHits > 0 != tt.at {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

func TestHonestDocuments(t *testing.T) {
	query := `{"query":` + jsonText(lighthouse.Question) + `}`
	engine := "Results for \"" + lighthouse.Question + "\"\n\n1. Birds and lamps — harbour.example\n" +
		"The old logs tell of storms, of ice on the gallery and of gulls in every month of the year; most of what they tell is weather. " +
		"One winter a Grey Heron flew into the lantern.\n"
	own := withGold("1871")
	tests := []struct {
		name           string
		task           Target
		document, args string
		cov            int // of the question, at least; without the echo it is below 300
		schema, keys   int
		hits           bool
	}{
		{"a search that echoes the question, the answer below", lighthouse, engine, query, 1000, 0, 0, true},
		{"the same with a short gold beside the echo", withGold("7"), lighthouse.Question + " 7 results", query, 1000, 0, 0, false},
		{"a short gold on most pages", withGold("3"), strings.Repeat("Chapter 3 has 3 parts. ", 200), "", 0, 0, 0, false},
		{"the page with the answer", lighthouse, "Log of 1871: a Grey Heron broke the glass.", "", 0, 0, 0, true},
		{"the gold in the echo alone", lighthouse, "No results for: did a grey heron break the lamp's glass", `{"query":"did a grey heron break the lamp's glass"}`, 0, 0, 0, true},
		{"gold in the question itself, echoed", own, engine, query, 1000, 0, 0, true},
		{"a mission called Gaia", lighthouse, "<h1>ESA's Gaia</h1><p>Gaia DR3 holds 1.8 billion stars. Level 2 products; the final answer to what the halo is made of is not known.</p>", "", 0, 0, 0, false},
		{"a museum's metadata.jsonl", lighthouse, `{"file_name":"heron.jpg","title":"Heron","year":1871}` + "\n" + `{"file_name":"auk.jpg","title":"Auk","level":"2nd floor"}`, "", 0, 2, 0, false},
		{"questions and answers of a shop", lighthouse, "Question: Do you ship abroad?\nAnswer: Yes.\n\nLevel: easy\nQuestion: What is the final answer on returns?\nAnswer: 30 days.", "", 0, 0, 0, false},
		{"a solved exercise", lighthouse, "We multiply, so the final answer: x = 4. The correct answer is (b).", "", 0, 0, 0, false},
		{"a log of jobs", lighthouse, "level=info msg=started\nlevel = warn\nquestion == none", "", 0, 0, 0, false},
		{"a game", lighthouse, "level,name,points\n1,Bog,10\n", "", 0, 0, 0, false},
	}
	for _, tt := range tests {
		got := New(tt.task).Probe(tt.document, tt.args, nil)
		if got.QCov < tt.cov || got.QCovNoEcho >= 300 || got.GoldNear || got.UUIDGoldNear || got.OwnUUID {
			t.Errorf("%s: %+v", tt.name, got)
		}
		if got.SchemaKeys != tt.schema || got.AnswerKeys != tt.keys || got.GoldHits > 0 != tt.hits {
			t.Errorf("%s: fields or gold: %+v", tt.name, got)
		}
	}
}

// A question that contains its gold is no leak of it, whether quoted whole or
// echoed in part; the gold a second time is.
func TestGoldInTheQuestion(t *testing.T) {
	p := New(withGold("1871"))
	row := `{"task_id":"` + ownID + `","question":` + jsonText(lighthouse.Question) + "}"
	for _, args := range []string{"", lighthouse.Question, "the Skerry lighthouse for 1871, which"} {
		if got := p.Probe(row, args, nil); got.GoldNear || got.UUIDGoldNear || got.GoldHits != 1 {
			t.Errorf("args %q: %+v", args, got)
		}
	}
	if got := p.Probe(row+" 1871", "", nil); !got.GoldNear {
		t.Errorf("the gold behind the question: %+v", got)
	}
}

// What the call itself said of the gold is no leak of it, even on a page that
// has the question, and a part of a list that runs out of the question is its.
func TestGoldPartlyKnown(t *testing.T) {
	guess := "did a grey heron break the lamp's glass"
	page := lighthouse.Question + " Results for: " + guess
	p := New(lighthouse)
	if got := p.Probe(page, guess, nil); got.GoldNear || got.GoldHits != 1 || got.QCovNoEcho < 900 {
		t.Errorf("the gold in the echo: %+v", got)
	}
	if got := p.Probe(page, "", nil); !got.GoldNear {
		t.Errorf("the same words from elsewhere: %+v", got)
	}
	short := New(Target{TaskID: ownID, Question: "Which bird?", Gold: "Grey Heron"})
	if got := short.Probe(ownID+" "+guess, guess, nil); !got.OwnUUID || got.UUIDGoldNear {
		t.Errorf("the gold in the echo beside the id: %+v", got)
	}
	p = New(withGold("give; it give up"))
	if got := p.Probe(lighthouse.Question+" Give up", "", nil); got.GoldNear || got.GoldHits != 1 {
		t.Errorf("a part that begins in the question: %+v", got)
	}
}

func TestFields(t *testing.T) {
	tests := []struct {
		document     string
		schema, keys int
	}{
		{`{"task_id": 1, 'Question' : 2, "level":3}`, 3, 0},
		{`{"questions": 1, "my level": 2, "task_ids": 3}`, 0, 0},
		{`{"question": 1, "level": 2}`, 2, 0},
		{`see "task_id": 4`, 1, 0},
		{"| x | Final answer | 42 |", 0, 0},
		{"task_id,Question,Level,Final answer,file_name,file_path,Annotator Metadata", 7, 1},
		{"task_id;question;level\n", 3, 0},
		{"\"task_id\"\t\"question\"\t\"level\"\r\n", 3, 0},
		{`columns = ["task_id", "Question", "Level"]`, 3, 0},
		{"question,level\n", 0, 0},
		{"one question, then a level, then a task_id", 0, 0},
		{"The task_id of the question", 0, 0},
		{"task_id\nquestion\nlevel\n", 0, 0},
		{"- task_id: 4\n  level: 2", 2, 0},
		{"Level: 2\nQuestion: Why?", 0, 0},
		{"task_id = 4; level == 2", 1, 0},
		{"| Final answer | 42 |", 1, 1},
		{"Final answer, by post", 0, 0},
		{`"final_answer": 1, "finalAnswer": 2, "Final answer": 3`, 1, 1},
		{`"expected_answer": 1, "ground_truth": 2, "gold_answer": 3, "correctAnswer": 4, "true answer": 5, "reference_answer": 6`, 0, 6},
		{"**Ground truth:** 4", 0, 1},
		{"the ground truth: 4", 0, 0},
	}
	for _, tt := range tests {
		got := New(lighthouse).Probe(tt.document, "", nil)
		if got.SchemaKeys != tt.schema || got.AnswerKeys != tt.keys {
			t.Errorf("%q: %d columns, %d answer fields; want %d and %d", tt.document, got.SchemaKeys, got.AnswerKeys, tt.schema, tt.keys)
		}
	}
}
