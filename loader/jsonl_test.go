package loader

import (
	"context"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/google/go-cmp/cmp"
)

// Lines as older revisions of the dataset have them.
const (
	lineA     = `{"task_id": "a", "Question": "How many gulls?", "Level": 1, "Final answer": "four", "file_name": "", "Annotator Metadata": {"Steps": "count them", "Number of tools": 0}}` + "\n"
	lineDummy = `{"task_id": "0-0-0-0-0", "Question": "", "Level": 0, "Final answer": "", "file_name": ""}` + "\n"
	lineB     = `{"file_name": "b.csv", "Level": "2", "task_id": "b", "Final answer": "Quay \u004eine", "Question": "Which port is deepest?", "file_path": "2023/validation/b.csv", "extra": [null, {"k": 1.5}]}` + "\n"
	lineC     = `{"task_id": "c", "Question": "And the ferry?", "Level": 1, "Final answer": "17", "file_name": null, "file_path": null}` + "\n"
)

func loadLines(split Split, lines string, f Filter) (Set, Gold, error) {
	root := fstest.MapFS{"2023/" + string(split) + "/metadata.jsonl": {Data: []byte(lines)}}
	return Load(context.Background(), Dir(root, "invented", "r1"), split, f)
}

// TestLines holds the two formats to mean the same.
func TestLines(t *testing.T) {
	want, wantGold, err := load(Validation, encode(t, threeTasks()), Filter{})
	if err != nil {
		t.Fatal(err)
	}
	whole := lineA + lineDummy + lineB + lineC
	for name, text := range map[string]string{"whole": whole, "without the last newline": strings.TrimSuffix(whole, "\n")} {
		set, gold, err := loadLines(Validation, text, Filter{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(want.Tasks, set.Tasks, cmp.AllowUnexported(Task{})); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if d := cmp.Diff(wantGold.Map(), gold.Map()); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if set.MetadataFile != "2023/validation/metadata.jsonl" || set.Digest != canonical.Digest([]byte(text)) || set.Levels != want.Levels || !set.CarriedGold {
			t.Errorf("%s: got %+v", name, set)
		}
	}
}

func TestParquetCounts(t *testing.T) {
	data := encode(t, threeTasks())
	root := fstest.MapFS{
		"2023/validation/metadata.parquet": {Data: data},
		"2023/validation/metadata.jsonl":   {Data: []byte(lineA)},
		"2023/test/metadata.jsonl":         {Data: []byte(lineB)},
	}
	set, _, err := Load(context.Background(), Dir(root, "invented", "r1"), Validation, Filter{})
	if err != nil || len(set.Tasks) != 3 || set.MetadataFile != "2023/validation/metadata.parquet" || set.Digest != canonical.Digest(data) {
		t.Errorf("got %+v, %v", set, err)
	}
	if want := []Other{{Split: Test, Digest: canonical.Digest([]byte(lineB)), IDs: []string{"b"}, CarriedGold: true}}; !reflect.DeepEqual(set.Others, want) {
		t.Errorf("others %+v, want %+v", set.Others, want)
	}
}

func TestLinesOfTest(t *testing.T) {
	cases := map[string]struct {
		line    string
		carried bool
	}{
		"key missing": {strings.Replace(lineA, `"Final answer": "four", `, "", 1), false},
		"null":        {strings.Replace(lineA, `"four"`, "null", 1), false},
		"placeholder": {strings.Replace(lineA, `"four"`, `"?"`, 1), false},
		"leaked copy": {lineA, true},
	}
	for name, c := range cases {
		set, gold, err := loadLines(Test, c.line, Filter{})
		if err != nil || len(set.Tasks) != 1 || set.CarriedGold != c.carried || gold.Len() != 0 {
			t.Errorf("%s: %+v, %v, %v", name, set, gold, err)
		}
	}
}

func TestLineRefusals(t *testing.T) {
	swap := func(old, with string) string {
		if !strings.Contains(lineB, old) {
			t.Fatalf("the line has no %s", old)
		}
		return lineA + strings.Replace(lineB, old, with, 1)
	}
	cases := []struct{ name, text, want string }{
		{"byte order mark", "\ufeff" + lineA, "line 1: starts with a byte order mark: save the file as UTF-8 without one"},
		{"UTF-16", "\xff\xfe{\x00", "line 1: starts with a byte order mark"},
		{"CR LF", lineA + strings.Replace(lineB, "\n", "\r\n", 1) + lineC, "line 2: ends in CR LF: give the file LF line ends"},
		{"empty line", lineA + "\n" + lineB, "line 2: empty: delete the line"},
		{"blank line", lineA + " \t\n" + lineB, "line 2: empty: delete the line"},
		{"two newlines at the end", lineA + "\n", "line 2: empty: delete the line"},
		{"text", "version https://git-lfs.example/spec\n", "line 1: not a JSON object: "},
		{"array", lineA + "[" + strings.TrimSpace(lineB) + "]\n", "line 2: not a JSON object: "},
		{"null", lineA + "null\n", "line 2: not a JSON object: "},
		{"cut in a string", lineA + lineB[:70], `line 2 (task "b"): cut short: `},
		{"cut before its end", lineA + strings.TrimSuffix(lineB, "}\n"), `line 2 (task "b"): cut short: `},
		{"cut before the id", lineA + lineB[:20], "line 2: cut short: "},
		{"over two lines", swap(`, "task_id"`, ",\n\"task_id\""), "line 2: ends within a JSON object: give each object one whole line"},
		{"bare newline in text", swap("deepest", "deep\nest"), `line 2 (task "b"): `},
		{"two objects", lineA + strings.TrimSpace(lineB) + lineC, `line 2 (task "b"): more follows the JSON object`},
		{"comma after it", lineA + strings.TrimSpace(lineB) + ",\n", `line 2 (task "b"): more follows the JSON object`},
		{"key twice", swap(`"extra"`, `"Level"`), `line 2 (task "b"): the key "Level" is there twice`},
		{"other key twice", swap(`"k": 1.5`, `"k": 1.5, "k": 2`), `line 2 (task "b"): the key "k" is there twice`},
		{"not UTF-8", swap("deepest", "deep\xffest"), `line 2 (task "b"): not JSON after byte `},
		{"half a surrogate pair", swap(`\u004e`, `\ud800`), `line 2 (task "b"): not JSON after byte `},
		{"single quotes", swap(`"b.csv"`, `'b.csv'`), "line 2: not JSON after byte 14: invalid character"},
		{"NaN", swap("1.5", "NaN"), `line 2 (task "b"): not JSON after byte `},

		{"id missing", swap(`"task_id": "b", `, ""), `line 2, key "task_id": missing`},
		{"question missing", swap(`"Question"`, `"question"`), `line 2 (task "b"), key "Question": missing`},
		{"level missing", swap(`"Level": "2", `, ""), `line 2 (task "b"), key "Level": missing`},
		{"answer missing", swap(`"Final answer"`, `"Final Answer"`), `line 2 (task "b"), key "Final answer": missing`},
		{"name missing", swap(`"file_name": "b.csv", `, ""), `line 2 (task "b"), key "file_name": missing`},
		{"id null", swap(`"task_id": "b"`, `"task_id": null`), `line 2, key "task_id": null`},
		{"question null", swap(`"Which port is deepest?"`, "null"), `line 2 (task "b"), key "Question": null`},
		{"level null", swap(`"2"`, "null"), `line 2 (task "b"), key "Level": null`},
		{"answer null", swap(`"Quay \u004eine"`, "null"), `line 2 (task "b"), key "Final answer": null`},
		{"id as number", swap(`"task_id": "b"`, `"task_id": 7`), `line 2, key "task_id": a JSON number: want text`},
		{"question as list", swap(`"Which port is deepest?"`, `["q"]`), `line 2 (task "b"), key "Question": a JSON array: want text`},
		{"level as boolean", swap(`"2"`, "true"), `line 2 (task "b"), key "Level": a JSON boolean: want text or an integer`},
		{"answer as number", swap(`"Quay \u004eine"`, "17"), `line 2 (task "b"), key "Final answer": a JSON number: want text`},
		{"name as boolean", swap(`"b.csv"`, "false"), `line 2 (task "b"), key "file_name": a JSON boolean: want text`},
		{"path as object", swap(`"2023/validation/b.csv"`, `{}`), `line 2 (task "b"), key "file_path": a JSON object: want text`},

		{"level 1.0", swap(`"2"`, "1.0"), `line 2 (task "b"), key "Level": unknown level "1.0": want 1, 2 or 3`},
		{"level 1e0", swap(`"2"`, "1e0"), `unknown level "1e0"`},
		{"level 01", swap(`"2"`, `"01"`), `unknown level "01"`},
		{"level 4", swap(`"2"`, "4"), `unknown level "4"`},
		{"level empty", swap(`"2"`, `""`), `unknown level ""`},
		{"id with path", swap(`"task_id": "b"`, `"task_id": "../b"`), `line 2, key "task_id": task id "../b"`},
		{"no question", swap("Which port is deepest?", " "), `line 2 (task "b"), key "Question": empty`},
		{"no answer", swap(`Quay \u004eine`, " ? "), `line 2 (task "b"), key "Final answer": no answer`},
		{"same id", lineB + lineC + lineB, `lines 1 and 3 have the same task id "b"`},
		{"path without name", swap(`"b.csv"`, "null"), `line 2 (task "b"): file_path is "2023/validation/b.csv" though file_name is empty`},
		{"path climbs", swap("2023/validation/b.csv", "../b.csv"), `line 2 (task "b"): file_path "../b.csv" is not a path inside the dataset`},
		{"metadata as attachment", swap(`"b.csv", "Level"`, `"metadata.jsonl", "Level"`), `line 2 (task "b"): file_path`},

		{"empty file", "", "no tasks in it"},
		{"dummy only", lineDummy, "no tasks in it"},
		{"too many", strings.Repeat(lineDummy, maxRows+1), "more than 100000 lines"},
	}
	for _, c := range cases {
		set, gold, err := loadLines(Validation, c.text, Filter{})
		if err == nil {
			t.Errorf("%s: accepted", c.name)
			continue
		}
		const where = "reading 2023/validation/metadata.jsonl of invented at r1: "
		if !strings.HasPrefix(err.Error(), where+c.want) && !(strings.HasPrefix(c.want, "unknown") && strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %q, want %q", c.name, err, c.want)
		}
		checkRemedy(t, c.name, err)
		if set.Tasks != nil || gold.Len() != 0 {
			t.Errorf("%s: handed out %d tasks and %v beside the error", c.name, len(set.Tasks), gold)
		}
	}
}

// Attachments may be shared, and names may differ in case only.
func TestSharedAttachments(t *testing.T) {
	text := lineB + strings.Replace(lineB, `"task_id": "b"`, `"task_id": "d"`, 1) +
		strings.NewReplacer(`"task_id": "b"`, `"task_id": "e"`, "b.csv", "B.csv").Replace(lineB)
	set, _, err := loadLines(Validation, text, Filter{})
	if err != nil || len(set.Tasks) != 3 || set.Tasks[0].filePath != set.Tasks[1].filePath || set.Tasks[2].filePath != "2023/validation/B.csv" {
		t.Errorf("got %+v, %v", set.Tasks, err)
	}
}

// An attachment is found beside a metadata file that names no path.
func TestAttachmentOfLines(t *testing.T) {
	root := fstest.MapFS{
		"2023/validation/metadata.jsonl": {Data: []byte(strings.Replace(lineB, `"file_path": "2023/validation/b.csv", `, "", 1))},
		"2023/validation/b.csv":          {Data: []byte("port,depth\n")},
	}
	ctx := context.Background()
	set, _, err := Load(ctx, Dir(root, "invented", "r1"), Validation, Filter{})
	if err != nil {
		t.Fatal(err)
	}
	rc, err := set.Attachment(ctx, set.Tasks[0])
	if err != nil {
		t.Fatal(err)
	}
	if info, err := rc.(fs.File).Stat(); err != nil || info.Name() != "b.csv" {
		t.Errorf("got %v, %v", info, err)
	}
	if err := rc.Close(); err != nil {
		t.Error(err)
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte(lineA + lineDummy + lineB + lineC))
	f.Add([]byte(lineB[:60]))
	f.Add([]byte("\ufeff" + lineA))
	f.Add([]byte(strings.ReplaceAll(lineA+lineB, "\n", "\r\n")))
	f.Add([]byte(strings.Replace(lineA, `"Final answer": "four", `, "", 1)))
	fuzzMetadata(f, "metadata.jsonl")
}
