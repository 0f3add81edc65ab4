package loader

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

// pythonWith is the Python of GAIA_PYTHON, which must have the modules.
func pythonWith(t *testing.T, modules string) string {
	t.Helper()
	if os.Getenv("GAIA_INTEROP") != "1" {
		t.Skip("not compared with Python: set GAIA_INTEROP=1, and GAIA_PYTHON to a python3 that has " + modules)
	}
	program := os.Getenv("GAIA_PYTHON")
	if program == "" {
		program = "python3"
	}
	if err := exec.Command(program, "-c", "import "+modules).Run(); err != nil {
		t.Skip("SKIPPED: " + program + " cannot import " + modules + ", so nothing was compared with it")
	}
	return program
}

// python runs a script of testdata in a separate home.
func python(t *testing.T, modules string, env []string, stdin io.Reader, script string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(pythonWith(t, modules), append([]string{filepath.Join("testdata", script)}, args...)...)
	cmd.Env = append([]string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "PYTHONDONTWRITEBYTECODE=1"}, env...)
	cmd.Stdin = stdin
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, stderr.String())
	}
	return out
}

// lines encodes values as JSON, one a line.
func lines[T any](t *testing.T, values []T) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	for _, v := range values {
		line, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return &b
}

// pyRow is a row as write_metadata.py takes it.
type pyRow struct {
	ID       string  `json:"id"`
	Question string  `json:"question"`
	Level    int     `json:"level"`
	Gold     string  `json:"gold"`
	FileName *string `json:"file_name"`
	FilePath *string `json:"file_path"`
}

// pyRows are rows with everything that a writer may treat in its own way: null and empty names, repeated and long
// texts, line breaks, NUL, letters of four bytes, and the dummy row.
func pyRows() (rows []pyRow, tasks []Task, gold map[string]string) {
	gold = map[string]string{}
	for i := range 257 {
		r := pyRow{ID: fmt.Sprintf("fab1e%03d", i), Question: fmt.Sprintf("How many gulls\r\n sat on post %d? 🪶\x00é", i), Level: i%3 + 1, Gold: fmt.Sprint(i * i)}
		task := Task{ID: r.ID, Level: r.Level}
		switch i % 5 {
		case 0:
			r.FileName, r.FilePath = new(fmt.Sprintf("%s.csv", r.ID)), new("2023/validation/"+r.ID+".csv")
			task.FileName, task.filePath = *r.FileName, *r.FilePath
		case 1:
			r.FileName, r.FilePath = new(""), new("")
		case 2:
			r.Question, r.Gold = "the same", "the same"
		case 3:
			r.Question = strings.Repeat(fmt.Sprintf("long %d ", i), 400)
		}
		task.Question = r.Question
		rows, tasks, gold[r.ID] = append(rows, r), append(tasks, task), r.Gold
		if i == 100 {
			rows = append(rows, pyRow{ID: dummyID, Level: 1})
		}
	}
	return rows, tasks, gold
}

func TestInteropMetadata(t *testing.T) {
	rows, tasks, answers := pyRows()
	dir := t.TempDir()
	python(t, "pandas, pyarrow", nil, lines(t, rows), "write_metadata.py", dir)
	n := loadEach(t, filepath.Join(dir, "good"), func(name string, set Set, gold Gold, err error) {
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if diff := cmp.Diff(tasks, set.Tasks, cmp.AllowUnexported(Task{})); diff != "" {
			t.Errorf("%s: %.2000s", name, diff)
		}
		if diff := cmp.Diff(answers, gold.Map()); diff != "" {
			t.Errorf("%s: %.2000s", name, diff)
		}
	})
	t.Logf("%d ways of writing %d rows", n, len(rows))
	if n < 52 {
		t.Errorf("only %d files were written", n)
	}
}

// loadEach loads every file of dir as the metadata of split validation, and returns how many there are.
func loadEach(t *testing.T, dir string, loaded func(name string, set Set, gold Gold, err error)) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		root := fstest.MapFS{"2023/validation/metadata" + filepath.Ext(file): {Data: data}}
		set, gold, err := Load(context.Background(), Dir(root, "invented", "r1"), Validation, Filter{})
		loaded(filepath.Base(file), set, gold, err)
	}
	return len(files)
}

func TestInteropRefusals(t *testing.T) {
	rows, _, _ := pyRows()
	dir := t.TempDir()
	python(t, "pandas, pyarrow", nil, lines(t, rows), "write_metadata.py", dir)
	want := map[string]string{
		"no task_id":                   `column "task_id" is missing: this is not GAIA's metadata`,
		"no Question":                  `column "Question" is missing`,
		"no Level":                     `column "Level" is missing`,
		"no Final answer":              `column "Final answer" is missing`,
		"no file_name":                 `column "file_name" is missing`,
		"no file_path":                 `column "file_path" is missing`,
		"level double":                 `column "Level" is of physical type DOUBLE`,
		"level decimal":                `column "Level" is of physical type FIXED_LEN_BYTE_ARRAY`,
		"level date":                   `column "Level" is of physical type INT32 (DATE): want text or an integer`,
		"level bool":                   `column "Level" is of physical type BOOLEAN`,
		"level null":                   `row 1 (task "fab1e000"), column "Level": unknown level ""`,
		"level one null":               `row 1 (task "fab1e000"), column "Level": unknown level ""`,
		"id number":                    `column "task_id" is of physical type INT64`,
		"question bytes of one length": `column "Question" is of physical type FIXED_LEN_BYTE_ARRAY`,
		"question null":                `row 1 (task "fab1e000"), column "Question": empty`,
		"answer list":                  `column "Final answer" is nested or repeated: want text`,
		"answer struct":                `column "Final answer" is nested or repeated: want text`,
		"answer number":                `column "Final answer" is of physical type DOUBLE`,
		"file_name bool":               `column "file_name" is of physical type BOOLEAN`,
		"question twice":               `column "Question" is there twice`,
		"no rows":                      `no tasks in it`,
		"line ends":                    `line 1: ends in CR LF`,
		"byte order mark":              `line 1: starts with a byte order mark`,
		"another encoding":             `line 1: starts with a byte order mark`,
		"level not a number":           `line 1 (task "fab1e000"): not JSON after byte 107`,
		"level with a point":           `line 1 (task "fab1e000"), key "Level": unknown level "1.0"`,
		"over several lines":           `line 1: ends within a JSON object`,
	}
	n := loadEach(t, filepath.Join(dir, "bad"), func(name string, _ Set, gold Gold, err error) {
		name = strings.TrimSuffix(name, filepath.Ext(name))
		if err == nil || want[name] == "" || !strings.Contains(err.Error(), want[name]) || gold.Len() != 0 {
			t.Errorf("%s: error %v, want %q", name, err, want[name])
		}
	})
	if n != len(want) {
		t.Errorf("%d files for %d errors", n, len(want))
	}
}
