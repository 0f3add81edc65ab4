package loader

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The columns this package reads.
const (
	colID       = "task_id"
	colQuestion = "Question"
	colLevel    = "Level"
	colGold     = "Final answer"
	colFileName = "file_name"
	colFilePath = "file_path"
)

// A row is one task of the file, its answer still with it.
type row struct {
	number int // from 1, as stored
	task   Task
	gold   string // "" = withheld
}

// decodeMetadata reads a metadata file. The parquet library panics on some malformed files.
func decodeMetadata(data []byte, split Split) (rows []row, err error) {
	defer func() {
		if p := recover(); p != nil {
			rows, err = nil, fmt.Errorf("malformed parquet: %v: fetch the file again", p)
		}
	}()
	file, err := openParquet(data)
	if err != nil {
		return nil, fmt.Errorf("malformed parquet: %w: fetch the file again", err)
	}
	table, err := readTable(file, split)
	if err != nil {
		return nil, err
	}
	for i, id := range table[colID] {
		if id == dummyID {
			continue
		}
		r := row{number: i + 1, task: Task{ID: id, Question: table[colQuestion][i], FileName: table[colFileName][i]}}
		if err := checkID(id); err != nil {
			return nil, fmt.Errorf("row %d, column %q: %w", r.number, colID, err)
		}
		if strings.TrimSpace(r.task.Question) == "" {
			return nil, fmt.Errorf("row %d (task %q), column %q: empty", r.number, id, colQuestion)
		}
		if r.task.Level, err = parseLevel(table[colLevel][i]); err != nil {
			return nil, fmt.Errorf("row %d (task %q), column %q: %w", r.number, id, colLevel, err)
		}
		if r.task.filePath, err = attachmentPath(split, r.task.FileName, table[colFilePath][i]); err != nil {
			return nil, fmt.Errorf("row %d (task %q): %w", r.number, id, err)
		}
		if gold, ok := table[colGold]; ok {
			r.gold = unlessWithheld(gold[i])
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// checkRows refuses what no single row can show.
func checkRows(rows []row, split Split) error {
	if len(rows) == 0 {
		return errors.New("no tasks in it: fetch the file again")
	}
	seen := make(map[string]int, len(rows))
	for _, r := range rows {
		if first, ok := seen[r.task.ID]; ok {
			return fmt.Errorf("rows %d and %d have the same task id %q: repair the copy of the dataset", first, r.number, r.task.ID)
		}
		seen[r.task.ID] = r.number
		if r.gold == "" && split == Validation {
			return fmt.Errorf("row %d (task %q), column %q: no answer, and split %s has one for every task: fetch the file again",
				r.number, r.task.ID, colGold, split)
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
