package loader

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/parquetfile"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// Limits of what a metadata file may hold. They are far above the published ones: 301 tasks, under a megabyte of text.
const (
	maxRows      = 100_000
	maxTextBytes = 256 << 20
)

// errMalformed wraps what the library says of a file it cannot read.
func errMalformed(err error) error { return fmt.Errorf("malformed parquet: %w: %s", err, fetchAgain) }

// decodeParquet reads a parquet file. The library panics on some malformed files.
func decodeParquet(data []byte, split Split) (rows []row, err error) {
	defer func() {
		if p := recover(); p != nil {
			rows, err = nil, errMalformed(fmt.Errorf("%v", p))
		}
	}()
	file, err := parquetfile.Open(data)
	if err != nil {
		return nil, errMalformed(err)
	}
	table, err := readTable(data, file, split)
	if err != nil {
		return nil, err
	}
	columns := map[string]string{}
	for i, id := range table[colID] {
		if id == dummyID {
			continue
		}
		for name, values := range table {
			columns[name] = values[i]
		}
		r, err := newRow(columns, place{unit: unitRow, number: i + 1}, split)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// readTable checks the whole schema, then reads the columns as text. Null is "". The answers may be missing on test.
func readTable(data []byte, file *parquet.File, split Split) (map[string][]string, error) {
	names := metadataColumns
	columns := make([]*parquet.Column, len(names))
	for i, name := range names {
		col, err := findColumn(file.Root(), name)
		if err != nil {
			return nil, err
		}
		columns[i] = col
		if col == nil && (name != colGold || split != Test) {
			return nil, fmt.Errorf("column %q is missing: %s", name, otherVersion)
		}
	}
	if n := file.NumRows(); n < 0 || n > maxRows {
		return nil, errTooManyRows(unitRow)
	}
	table := make(map[string][]string, len(names))
	budget := maxTextBytes
	for i, name := range names {
		if columns[i] == nil {
			continue
		}
		values, err := readColumn(data, file, columns[i], &budget)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", name, err)
		}
		if int64(len(values)) != file.NumRows() {
			return nil, fmt.Errorf("column %q has %d values where the file declares %d rows: %s", name, len(values), file.NumRows(), fetchAgain)
		}
		table[name] = values
	}
	return table, nil
}

// findColumn returns the named column of the root, nil where there is none.
func findColumn(root *parquet.Column, name string) (*parquet.Column, error) {
	var found *parquet.Column
	for _, col := range root.Columns() {
		if col.Name() == name {
			if found != nil {
				return nil, fmt.Errorf("column %q is there twice: %s", name, otherVersion)
			}
			found = col
		}
	}
	if found == nil {
		return nil, nil
	}
	want := "text"
	if name == colLevel {
		want = "text or an integer"
	}
	if !found.Leaf() || found.Repeated() {
		return nil, fmt.Errorf("column %q is nested or repeated: want %s: %s", name, want, otherVersion)
	}
	t := found.Type()
	_, text := logicalValue(t).(*format.StringType)
	_, integer := logicalValue(t).(*format.IntType)
	untyped := logicalValue(t) == nil && t.ConvertedType() == nil // as older writers leave it
	switch kind := t.Kind(); {
	case isNull(t), kind == parquet.ByteArray && (text || untyped):
	case name == colLevel && (kind == parquet.Int32 || kind == parquet.Int64) && (integer || untyped):
	default:
		return nil, fmt.Errorf("column %q is of physical type %s (%s): want %s: %s", name, t.Kind(), t, want, otherVersion)
	}
	return found, nil
}

// isNull recognises the type that writers give to a column in which nothing but null was seen.
func isNull(t parquet.Type) bool {
	_, ok := logicalValue(t).(*format.NullType)
	return ok
}

func logicalValue(t parquet.Type) format.LogicalTypeValue {
	if l := t.LogicalType(); l != nil {
		return l.Value
	}
	return nil
}

// readColumn reads a column over all row groups. budget is what text may still be taken.
func readColumn(data []byte, file *parquet.File, col *parquet.Column, budget *int) ([]string, error) {
	if isNull(col.Type()) {
		return make([]string, file.NumRows()), nil
	}
	var values []string
	var rows int64
	for i, group := range file.RowGroups() {
		chunks, meta := group.ColumnChunks(), file.Metadata().RowGroups[i].Columns
		if col.Index() >= min(len(chunks), len(meta)) {
			return nil, fmt.Errorf("a row group lacks it: %s", fetchAgain)
		}
		err := parquetfile.CheckPages(data, &meta[col.Index()].MetaData)
		if err != nil {
			return nil, errMalformed(err)
		}
		if values, err = readChunk(values, chunks[col.Index()], budget); err != nil {
			return nil, err
		}
		// One group with a value too few and one with a value too many would shift what lies between them.
		if rows += group.NumRows(); int64(len(values)) != rows {
			return nil, fmt.Errorf("row group %d ends after %d values where the file declares %d: %s", i+1, len(values), rows, fetchAgain)
		}
	}
	return values, nil
}

// readChunk appends the values of a column chunk.
func readChunk(values []string, chunk parquet.ColumnChunk, budget *int) (_ []string, err error) {
	pages := chunk.Pages()
	defer func() {
		if cerr := pages.Close(); err == nil && cerr != nil {
			err = errMalformed(cerr)
		}
	}()
	buf := make([]parquet.Value, 128)
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return nil, errMalformed(err)
		}
		for r := page.Values(); !errors.Is(err, io.EOF); {
			var n int
			if n, err = r.ReadValues(buf); n == 0 && err == nil {
				err = io.ErrNoProgress
			}
			for _, v := range buf[:n] {
				text, fault := "", error(nil)
				switch {
				case v.IsNull():
				case v.Kind() == parquet.Int32:
					text = strconv.FormatInt(int64(v.Int32()), 10)
				case v.Kind() == parquet.Int64:
					text = strconv.FormatInt(v.Int64(), 10)
				default:
					b := v.ByteArray()
					if *budget -= len(b); *budget < 0 {
						fault = fmt.Errorf("the file unfolds to more than %d bytes of text: %s", maxTextBytes, otherVersion)
					} else if !utf8.Valid(b) {
						fault = errors.New("text that is not UTF-8: " + repairCopy)
					} else {
						text = string(b)
					}
				}
				if fault == nil && len(values) == maxRows {
					fault = errTooManyRows(unitRow)
				}
				if fault != nil {
					parquet.Release(page)
					return nil, fmt.Errorf("row %d: %w", len(values)+1, fault)
				}
				values = append(values, text)
			}
			if err != nil && !errors.Is(err, io.EOF) {
				parquet.Release(page)
				return nil, errMalformed(err)
			}
		}
		parquet.Release(page)
	}
}
