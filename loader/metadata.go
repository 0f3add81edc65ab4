package loader

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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

var metadataColumns = []string{colID, colQuestion, colLevel, colGold, colFileName, colFilePath}

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

// A place is where a row is in its file, for errors.
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
	// What no single row can show.
	if len(rows) == 0 {
		return nil, fmt.Errorf("no tasks in it: %s", fetchAgain)
	}
	seen := make(map[string]int, len(rows))
	for _, r := range rows {
		if first, ok := seen[r.task.ID]; ok {
			return nil, fmt.Errorf("%ss %d and %d have the same task id %q: %s", r.place.unit, first, r.place.number, r.task.ID, repairCopy)
		}
		seen[r.task.ID] = r.place.number
		if r.gold == "" && split == Validation {
			return nil, fmt.Errorf("%s: no answer, and split %s has one for every task: %s", r.place.of(r.task.ID, colGold), split, repairCopy)
		}
	}
	return rows, nil
}

// newRow makes a row of what a file has for its columns, "" for null, or says what keeps it from being one.
func newRow(columns map[string]string, at place, split Split) (row, error) {
	id, level := columns[colID], columns[colLevel]
	r := row{place: at, task: Task{ID: id, Question: columns[colQuestion], FileName: columns[colFileName]}, gold: columns[colGold]}
	// An id can be a file name, an argument and part of a URL everywhere. GAIA's are UUIDs.
	const longest = 128
	if id == "" || len(id) > longest {
		return row{}, fmt.Errorf("%s: a task id of %d bytes: want 1 to %d: %s", at.of("", colID), len(id), longest, repairCopy)
	}
	if strings.ContainsFunc(id, func(c rune) bool {
		return c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	}) {
		return row{}, fmt.Errorf("%s: task id %q: want letters, digits, - and _ only: %s", at.of("", colID), id, repairCopy)
	}
	if strings.TrimSpace(r.task.Question) == "" {
		return row{}, fmt.Errorf("%s: empty: %s", at.of(id, colQuestion), repairCopy)
	}
	if !slices.Contains([]string{"1", "2", "3"}, level) {
		return row{}, fmt.Errorf("%s: unknown level %q: want 1, 2 or 3: %s", at.of(id, colLevel), level, repairCopy)
	}
	r.task.Level = int(level[0] - '0')
	if s := strings.TrimSpace(r.gold); s == "" || s == "?" { // placeholders of an answer that is withheld
		r.gold = ""
	}
	var err error
	if r.task.filePath, err = attachmentPath(split, r.task.FileName, columns[colFilePath]); err != nil {
		return row{}, fmt.Errorf("%s: %w: %s", at.of(id, ""), err, repairCopy)
	}
	return r, nil
}

// errTooManyRows is of a file that is far larger than any split.
func errTooManyRows(unit string) error {
	return fmt.Errorf("more than %d %ss: %s", maxRows, unit, otherVersion)
}

// decodeLines reads a file with one JSON object a line. Its text unfolds to less than its own length, so the limit on
// the file is one on the text.
func decodeLines(data []byte, split Split) ([]row, error) {
	for _, mark := range []string{"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"} {
		if bytes.HasPrefix(data, []byte(mark)) {
			return nil, errors.New("line 1: starts with a byte order mark: save the file as UTF-8 without one, or " + fetchAgain)
		}
	}
	var rows []row
	at := place{unit: unitLine}
	for len(data) > 0 {
		at.number++
		if at.number > maxRows {
			return nil, errTooManyRows(at.unit)
		}
		line, rest, ended := bytes.Cut(data, []byte("\n"))
		data = rest
		switch { // what editors and transfers do to line ends
		case bytes.HasSuffix(line, []byte("\r")):
			return nil, fmt.Errorf("%s: ends in CR LF: give the file LF line ends, or %s", at.of("", ""), fetchAgain)
		case len(bytes.TrimSpace(line)) == 0:
			return nil, fmt.Errorf("%s: empty: delete the line, or %s", at.of("", ""), fetchAgain)
		}
		members, err := readMembers(line, ended)
		id := textOf(members[colID])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at.of(id, ""), err)
		}
		if id == dummyID {
			continue
		}
		columns, err := checkMembers(members, at, split)
		if err != nil {
			return nil, err
		}
		r, err := newRow(columns, at, split)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// readMembers reads a line that is one JSON object. ended says that a newline follows. With an error come the members
// before it, which may name the task.
func readMembers(line []byte, ended bool) (map[string]jsontext.Value, error) {
	members := map[string]jsontext.Value{}
	d := jsontext.NewDecoder(bytes.NewBuffer(line))
	if d.PeekKind() != jsontext.KindBeginObject {
		return members, errors.New("not a JSON object: " + repairCopy)
	}
	err := json.UnmarshalDecode(d, &members)
	switch syntax, is := errors.AsType[*jsontext.SyntacticError](err); {
	case err == nil:
	case errors.Is(err, io.ErrUnexpectedEOF) && !ended:
		return members, errors.New("cut short: " + fetchAgain)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return members, errors.New("ends within a JSON object: give each object one whole line, or " + fetchAgain)
	case is && errors.Is(err, jsontext.ErrDuplicateName):
		return members, fmt.Errorf("the key %q is there twice: %s", syntax.JSONPointer.LastToken(), repairCopy)
	case is:
		return members, fmt.Errorf("not JSON after byte %d: %w: %s", syntax.ByteOffset, syntax.Err, repairCopy)
	default:
		return members, fmt.Errorf("%w: %s", err, repairCopy)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return members, errors.New("more follows the JSON object: give each object a separate line, or " + fetchAgain)
	}
	return members, nil
}

// textOf returns a string's text, and of any other value "".
func textOf(value jsontext.Value) string {
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return ""
	}
	return string(text)
}

// checkMembers takes the columns out of members that are all there and of the right type.
func checkMembers(members map[string]jsontext.Value, at place, split Split) (map[string]string, error) {
	fault := func(key, reason string) (map[string]string, error) {
		return nil, fmt.Errorf("%s: %s: %s", at.of(textOf(members[colID]), key), reason, repairCopy)
	}
	text := map[string]string{}
	for _, key := range metadataColumns {
		value, found := members[key]
		withheld := key == colGold && split == Test
		switch kind := value.Kind(); {
		case kind == jsontext.KindString:
			text[key] = textOf(value)
		case kind == jsontext.KindNumber && key == colLevel:
			text[key] = string(value) // as it is spelt
		case !found:
			if !withheld && key != colFilePath {
				return fault(key, "missing")
			}
		case kind == jsontext.KindNull:
			if !withheld && key != colFileName && key != colFilePath {
				return fault(key, "null")
			}
		default:
			want := "text"
			if key == colLevel {
				want = "text or an integer"
			}
			names := map[jsontext.Kind]string{jsontext.KindNumber: "number", jsontext.KindBeginObject: "object", jsontext.KindBeginArray: "array"}
			return fault(key, fmt.Sprintf("a JSON %s: want %s", cmp.Or(names[kind], "boolean"), want))
		}
	}
	return text, nil
}
