package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnswerKeys(t *testing.T) {
	for _, tc := range []struct {
		tool, argument, value string
		want                  []string
	}{
		{"read_file", "path", "answers.json", []string{"answers.json"}},
		{"read_file", "path", "../eval/Ground-Truth.CSV.gz", []string{"../eval/Ground-Truth.CSV.gz"}},
		{"read_file", "path", `..\gold.xlsx`, []string{`..\gold.xlsx`}},
		{"read_file", "path", "validation_answer_key.txt", []string{"validation_answer_key.txt"}},
		{"read_file", "path", "expected_output.txt", []string{"expected_output.txt"}},
		{"read_file", "path", "2023/validation/metadata.level1.parquet", []string{"2023/validation/metadata.level1.parquet"}},
		{"read_file", "path", "answer key.txt", []string{"answer key.txt"}},
		{"python", "code", "open('answer key.txt')", []string{"answer key.txt"}},
		{"read_file", "path", "gold_labels.csv", []string{"gold_labels.csv"}},
		{"read_file", "path", "answers1.json", []string{"answers1.json"}},
		{"read_file", "path", "answers_final_v2.json", []string{"answers_final_v2.json"}},
		{"read_file", "path", "answersheet.csv", []string{"answersheet.csv"}},
		{"read_file", "path", "Answer Sheet 2.xlsx", []string{"Answer Sheet 2.xlsx"}},
		{"read_file", "path", "gold.xml", []string{"gold.xml"}},
		{"read_file", "path", "gt.json", []string{"gt.json"}},
		{"read_file", "path", "gt3.json.gz", []string{"gt3.json.gz"}},
		{"read_file", "path", "golden_gate_labels.csv", nil},
		{"read_file", "path", "answers.v2.json.bz2", []string{"answers.v2.json.bz2"}},
		{"read_file", "path", "gold2.sqlite3", []string{"gold2.sqlite3"}},
		{"read_file", "path", "v2.json", nil},
		{"read_file", "path", "label.json", nil},
		{"read_file", "path", "gtk.json", nil},
		{"read_file", "path", "goldfish2.csv", nil},
		{"read_file", "path", "museum/metadata.jsonl", nil},
		{"read_file", "path", "results.csv", nil},
		{"read_file", "path", "labels.csv", nil},
		{"read_file", "path", "gold_prices_1980.csv", nil},
		{"read_file", "path", "solution.py", nil},
		{"read_file", "path", "answers", nil},
		{"read_file", "path", "unanswered_letters.txt", nil},
		{"python", "code", "import json\njson.load(open('/data/' + 'answers.json'))", []string{"/data/answers.json"}},
		{"python", "code", "import os\nopen(os.path.join('/data', 'solutions.json'))", []string{"/data/solutions.json", "solutions.json"}},
		{"python", "code", "print('answers')  # open('/data/answers.json')", nil},
		{"notes__read", "path", "file:///data/gold%2Ejson", []string{"file:///data/gold.json"}},
		{"notes__run", "command", "cat /data/solutions.txt", []string{"/data/solutions.txt"}},
		{"notes__read", "url", "https://school.example/answers.json", nil},
		{"web_fetch", "url", "https://school.example/answers.json", nil},
		{"web_search", "query", "answers.json", nil},
	} {
		got := AnswerKeys(Read(CallOf(tc.tool, map[string]string{tc.argument: tc.value})))
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s %q: %s", tc.tool, tc.value, diff)
		}
	}
}
