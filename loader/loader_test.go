package loader

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
)

// annotator has the shape of the column that must never be decoded.
type annotator struct {
	Steps    string `parquet:"Steps"`
	NumSteps string `parquet:"Number of steps"`
	Took     string `parquet:"How long did this take?"`
}

// record is GAIA's own layout, with text as Level.
type record struct {
	ID        string    `parquet:"task_id"`
	Question  string    `parquet:"Question"`
	Level     string    `parquet:"Level"`
	Gold      *string   `parquet:"Final answer,optional"`
	FileName  *string   `parquet:"file_name,optional"`
	FilePath  *string   `parquet:"file_path,optional"`
	Annotator annotator `parquet:"Annotator Metadata"`
}

func encode[T any](t testing.TB, rows []T, opts ...parquet.WriterOption) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := parquet.NewGenericWriter[T](&buf, opts...)
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func load(split Split, metadata []byte, f Filter) (Set, Gold, error) {
	root := fstest.MapFS{
		"2023/" + string(split) + "/metadata.parquet": {Data: metadata},
		"2023/" + string(split) + "/b.csv":            {Data: []byte("port,depth\n")},
		"2023/" + string(split) + "/folder/x":         {Data: []byte("x")},
	}
	return Load(context.Background(), Dir(root, "invented", "r1"), split, f)
}

func threeTasks() []record {
	return []record{
		{ID: "a", Question: "How many gulls?", Level: "1", Gold: new("four"), Annotator: annotator{Steps: "count them"}},
		{ID: dummyID, Question: "", Level: "0", Gold: new("")},
		{ID: "b", Question: "Which port is deepest?", Level: "2", Gold: new("Quay Nine"), FileName: new("b.csv"), FilePath: new("2023/validation/b.csv")},
		{ID: "c", Question: "And the ferry?", Level: "1", Gold: new("17"), FileName: new("")},
	}
}

func TestLoad(t *testing.T) {
	data := encode(t, threeTasks())
	set, gold, err := load(Validation, data, Filter{})
	if err != nil {
		t.Fatal(err)
	}
	want := []Task{
		{ID: "a", Question: "How many gulls?", Level: 1},
		{ID: "b", Question: "Which port is deepest?", Level: 2, FileName: "b.csv", filePath: "2023/validation/b.csv"},
		{ID: "c", Question: "And the ferry?", Level: 1},
	}
	if d := cmp.Diff(want, set.Tasks, cmp.AllowUnexported(Task{})); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]string{"a": "four", "b": "Quay Nine", "c": "17"}, gold.Map()); d != "" {
		t.Error(d)
	}
	if set.Dataset != "invented" || set.Revision != "r1" || len(set.IDs) != 3 || !set.CarriedGold || set.Digest != canonical.Digest(data) {
		t.Errorf("got %+v", set)
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(set.IDs, want) {
		t.Errorf("ids %q, want %q", set.IDs, want)
	}
}

func TestLevelAsInteger(t *testing.T) {
	type narrow struct {
		ID       string  `parquet:"task_id"`
		Question string  `parquet:"Question"`
		Level    int32   `parquet:"Level"`
		Gold     string  `parquet:"Final answer"`
		FileName *string `parquet:"file_name,optional"`
		FilePath string  `parquet:"file_path"`
	}
	type wide struct {
		ID       string `parquet:"task_id"`
		Question string `parquet:"Question"`
		Level    *int64 `parquet:"Level,optional"`
		Gold     []byte `parquet:"Final answer"`
		FileName string `parquet:"file_name,dict"`
		FilePath string `parquet:"file_path,snappy"`
	}
	files := map[string][]byte{
		"int32": encode(t, []narrow{{ID: "a", Question: "q", Level: 3, Gold: "g"}}),
		"int64": encode(t, []wide{{ID: "a", Question: "q", Level: new(int64(3)), Gold: []byte("g"), FileName: "b.csv"}}),
	}
	for name, data := range files {
		set, gold, err := load(Validation, data, Filter{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if set.Tasks[0].Level != 3 || gold.Map()["a"] != "g" {
			t.Errorf("%s: got %+v", name, set.Tasks[0])
		}
	}
}

func TestManyRowGroups(t *testing.T) {
	var rows []record
	for i := range 700 {
		rows = append(rows, record{ID: fmt.Sprint("t", i), Question: "q", Level: "2", Gold: new("g")})
	}
	set, gold, err := load(Validation, encode(t, rows, parquet.MaxRowsPerRowGroup(150)), Filter{Limit: 650})
	if err != nil || len(set.Tasks) != 650 || len(set.IDs) != 700 || gold.Len() != 650 || set.Tasks[649].ID != "t649" {
		t.Errorf("got %d of %d tasks, %v, %v", len(set.Tasks), len(set.IDs), gold, err)
	}
}

func TestTestSplitHandsOutNoGold(t *testing.T) {
	type withoutGold struct {
		ID       string `parquet:"task_id"`
		Question string `parquet:"Question"`
		Level    string `parquet:"Level"`
		FileName string `parquet:"file_name"`
		FilePath string `parquet:"file_path"`
	}
	cases := map[string]struct {
		data    []byte
		carried bool
	}{
		"column missing": {encode(t, []withoutGold{{ID: "a", Question: "q", Level: "1"}}), false},
		"null":           {encode(t, []record{{ID: "a", Question: "q", Level: "1"}}), false},
		"placeholder":    {encode(t, []record{{ID: "a", Question: "q", Level: "1", Gold: new("?")}}), false},
		"leaked copy":    {encode(t, []record{{ID: "a", Question: "q", Level: "1", Gold: new("?")}, {ID: "b", Question: "q", Level: "1", Gold: new("42")}}), true},
	}
	for name, c := range cases {
		set, gold, err := load(Test, c.data, Filter{IDs: []string{"a"}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if set.CarriedGold != c.carried || gold.Len() != 0 || len(gold.Map()) != 0 {
			t.Errorf("%s: carried %v, gold %v", name, set.CarriedGold, gold)
		}
	}
}

func TestParseSplit(t *testing.T) {
	for _, s := range []string{"validation", "test"} {
		if got, err := ParseSplit(s); err != nil || string(got) != s {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	}
	for s, want := range map[string]string{
		"":      `no split given: want "validation" or "test"`,
		"Test":  `unknown split "Test": want "validation" or "test"`,
		"../..": `unknown split "../..": want "validation" or "test"`,
	} {
		if _, err := ParseSplit(s); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", s, err, want)
		}
		if _, _, err := load(Split(s), nil, Filter{}); err == nil || err.Error() != want {
			t.Errorf("Load %q: %v, want %s", s, err, want)
		}
	}
}

func TestGoldIsNotShown(t *testing.T) {
	const secret = "Quay Nine"
	_, gold, err := load(Validation, encode(t, threeTasks()), Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if gold.Map()["b"] != secret {
		t.Fatal("the answer under test is not there")
	}
	holder := struct {
		hidden Gold
		list   []any
	}{gold, []any{gold, &gold}}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%t"} {
		for _, v := range []any{gold, &gold, holder, &holder} {
			if s := fmt.Sprintf(verb, v); strings.Contains(s, secret) || strings.Contains(s, fmt.Sprintf("%x", secret)) {
				t.Errorf("%s of %T shows an answer: %s", verb, v, s)
			}
		}
	}
	if b, err := json.Marshal(map[string]any{"g": gold}); err == nil {
		t.Errorf("encoded as %s", b)
	}
	gold.Map()["b"] = "changed"
	if gold.Map()["b"] != secret {
		t.Error("Map hands out the map itself")
	}
	if zero := (Gold{}); zero.Len() != 0 || len(zero.Map()) != 0 || zero.String() != "0 gold answers (not shown)" {
		t.Errorf("zero value: %v", zero)
	}
}

// The published size: 165 and 301 tasks, both splits read by each Load.
func BenchmarkLoad(b *testing.B) {
	type line struct {
		ID        string            `json:"task_id"`
		Question  string            `json:"Question"`
		Level     int               `json:"Level"`
		Gold      string            `json:"Final answer"`
		FileName  string            `json:"file_name"`
		Annotator map[string]string `json:"Annotator Metadata"`
	}
	dirs := map[string]string{"parquet": b.TempDir(), "jsonl": b.TempDir()}
	for split, size := range map[Split]int{Validation: 165, Test: 301} {
		var rows []record
		var lines bytes.Buffer
		for i := range size {
			steps := strings.Repeat(fmt.Sprintf("%d. Look up the depth of quay %d.\n", i, i), 45)
			r := record{
				ID: fmt.Sprintf("fab1e%03d-%s", i, split), Question: strings.Repeat(fmt.Sprintf("How deep is quay %d at low tide? ", i), 12),
				Level: fmt.Sprint(1 + i%3), Gold: new(fmt.Sprint(i, " m")), FileName: new(""),
				Annotator: annotator{Steps: steps, NumSteps: "45", Took: "5 minutes"},
			}
			rows = append(rows, r)
			text, err := json.Marshal(line{r.ID, r.Question, 1 + i%3, *r.Gold, "",
				map[string]string{"Steps": steps, "Number of steps": "45", "How long did this take?": "5 minutes"}})
			if err != nil {
				b.Fatal(err)
			}
			lines.Write(append(text, '\n'))
		}
		for ext, data := range map[string][]byte{"parquet": encode(b, rows, parquet.Compression(&parquet.Snappy)), "jsonl": lines.Bytes()} {
			folder := filepath.Join(dirs[ext], "2023", string(split))
			if err := os.MkdirAll(folder, 0o755); err != nil {
				b.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, "metadata."+ext), data, 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, ext := range []string{"parquet", "jsonl"} {
		b.Run(ext, func(b *testing.B) {
			src := Dir(os.DirFS(dirs[ext]), "invented", "r1")
			for b.Loop() {
				set, _, err := Load(context.Background(), src, Validation, Filter{})
				if err != nil || len(set.Tasks) != 165 || len(set.Others) != 1 || len(set.Others[0].IDs) != 301 {
					b.Fatalf("got %d tasks, %v", len(set.Tasks), err)
				}
			}
		})
	}
}
