package loader

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// The columns this package reads; in JSON lines they are keys.
const (
	colID       = "task_id"
	colQuestion = "Question"
	colLevel    = "Level"
	colGold     = "Final answer"
	colFileName = "file_name"
	colFilePath = "file_path"
)

// How the names of metadata files end.
const (
	extParquet = ".parquet"
	extLines   = ".jsonl"
)

// What a person can do about a metadata file that is not as it should be.
const (
	fetchAgain   = "fetch the file again"
	repairCopy   = "fetch the file again, or repair this copy of the dataset"
	otherVersion = "this is not GAIA's metadata, or not a version of it that can be read here: choose another revision or copy"
)

// A row is one task of the file, its answer still with it.
type row struct {
	place place
	task  Task
	gold  string // "" = withheld
}

// A place is where a row stands in its file, for errors.
type place struct {
	unit   string // unitRow or unitLine
	number int    // from 1, as stored
}

// What a file counts in.
const (
	unitRow  = "row"
	unitLine = "line"
)

// of names the row, its task where the id is known, and a column of it where one is given.
func (p place) of(id, column string) string {
	s := fmt.Sprintf("%s %d", p.unit, p.number)
	if id != "" {
		s += fmt.Sprintf(" (task %q)", id)
	}
	if column == "" {
		return s
	}
	if p.unit == unitLine {
		return s + fmt.Sprintf(", key %q", column)
	}
	return s + fmt.Sprintf(", column %q", column)
}

// fields are what a file says of one task. What is null is "".
type fields struct{ id, question, level, gold, fileName, filePath string }

// decodeMetadata reads the metadata file of that name whole.
func decodeMetadata(name string, data []byte, split Split) ([]row, error) {
	decode := decodeParquet
	if path.Ext(name) == extLines {
		decode = decodeLines
	}
	rows, err := decode(data, split)
	if err != nil {
		return nil, err
	}
	if err := checkRows(rows, split); err != nil {
		return nil, err
	}
	return rows, nil
}

// row makes a row of fields, or says what keeps it from being one.
func (f fields) row(at place, split Split) (row, error) {
	r := row{place: at, task: Task{ID: f.id, Question: f.question, FileName: f.fileName}, gold: unlessWithheld(f.gold)}
	if err := checkID(f.id); err != nil {
		return row{}, fmt.Errorf("%s: %w: %s", at.of("", colID), err, repairCopy)
	}
	if strings.TrimSpace(f.question) == "" {
		return row{}, fmt.Errorf("%s: empty: %s", at.of(f.id, colQuestion), repairCopy)
	}
	var err error
	if r.task.Level, err = parseLevel(f.level); err != nil {
		return row{}, fmt.Errorf("%s: %w: %s", at.of(f.id, colLevel), err, repairCopy)
	}
	if r.task.filePath, err = attachmentPath(split, f.fileName, f.filePath); err != nil {
		return row{}, fmt.Errorf("%s: %w: %s", at.of(f.id, ""), err, repairCopy)
	}
	return r, nil
}

// checkRows refuses what no single row can show.
func checkRows(rows []row, split Split) error {
	if len(rows) == 0 {
		return fmt.Errorf("no tasks in it: %s", fetchAgain)
	}
	seen := make(map[string]int, len(rows))
	for _, r := range rows {
		if first, ok := seen[r.task.ID]; ok {
			return fmt.Errorf("%ss %d and %d have the same task id %q: %s", r.place.unit, first, r.place.number, r.task.ID, repairCopy)
		}
		seen[r.task.ID] = r.place.number
		if r.gold == "" && split == Validation {
			return fmt.Errorf("%s: no answer, and split %s has one for every task: %s", r.place.of(r.task.ID, colGold), split, repairCopy)
		}
	}
	return nil
}

// checkID keeps ids to what can be a file name, an argument and part of a URL everywhere. GAIA's are UUIDs.
func checkID(id string) error {
	const most = 128
	if id == "" || len(id) > most {
		return fmt.Errorf("a task id of %d bytes: want 1 to %d", len(id), most)
	}
	for _, c := range []byte(id) {
		if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return fmt.Errorf("task id %q: want letters, digits, - and _ only", id)
		}
	}
	return nil
}

func parseLevel(s string) (int, error) {
	level, err := strconv.Atoi(s)
	if err != nil || level < 1 || level > 3 || strconv.Itoa(level) != s {
		return 0, fmt.Errorf("unknown level %q: want 1, 2 or 3", s)
	}
	return level, nil
}

// unlessWithheld returns "" for the placeholders that stand where an answer is kept back.
func unlessWithheld(answer string) string {
	if s := strings.TrimSpace(answer); s == "" || s == "?" {
		return ""
	}
	return answer
}

// errTooManyRows is of a file that is far larger than any split.
func errTooManyRows(unit string) error {
	return fmt.Errorf("more than %d %ss: %s", maxRows, unit, otherVersion)
}
