package loader

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// Limits of what a metadata file may unfold to. They are far above the published ones (301 tasks, under a megabyte of
// text) and keep a hostile file from filling the memory.
const (
	maxRows      = 100_000
	maxTextBytes = 256 << 20
)

// openParquet opens the file without its indexes, which nothing here needs. The library allocates as much as the
// footer claims to be long before it reads it, hence the look beforehand.
func openParquet(data []byte) (*parquet.File, error) {
	const magic = "PAR1"
	if len(data) < 12 || string(data[:4]) != magic || string(data[len(data)-4:]) != magic {
		return nil, errors.New("not a parquet file, or cut short")
	}
	if footer := int64(binary.LittleEndian.Uint32(data[len(data)-8:])); footer > int64(len(data)-12) {
		return nil, fmt.Errorf("a footer of %d bytes in a file of %d", footer, len(data))
	}
	return parquet.OpenFile(bytes.NewReader(data), int64(len(data)), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
}

// readTable checks the whole schema, then reads the columns as text. Null is "". The answers may be missing on test.
func readTable(file *parquet.File, split Split) (map[string][]string, error) {
	names := [...]string{colID, colQuestion, colLevel, colGold, colFileName, colFilePath}
	var columns [len(names)]*parquet.Column
	for i, name := range names {
		col, err := findColumn(file.Root(), name)
		if err != nil {
			return nil, err
		}
		columns[i] = col
		if col == nil && (name != colGold || split != Test) {
			return nil, fmt.Errorf("column %q is missing: this is not GAIA's metadata, or not this version of it", name)
		}
	}
	if n := file.NumRows(); n < 0 || n > maxRows {
		return nil, fmt.Errorf("%d rows: want at most %d", n, maxRows)
	}
	table := make(map[string][]string, len(names))
	budget := maxTextBytes
	for i, name := range names {
		if columns[i] == nil {
			continue
		}
		values, err := readColumn(file, columns[i], &budget)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", name, err)
		}
		if int64(len(values)) != file.NumRows() {
			return nil, fmt.Errorf("column %q has %d values where the file declares %d rows: fetch the file again",
				name, len(values), file.NumRows())
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
				return nil, fmt.Errorf("column %q is there twice", name)
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
		return nil, fmt.Errorf("column %q is nested or repeated: want %s", name, want)
	}
	if t := found.Type(); !isNull(t) && !isText(t) && (name != colLevel || !isInteger(t)) {
		return nil, fmt.Errorf("column %q is of physical type %s (%s): want %s", name, t.Kind(), t, want)
	}
	return found, nil
}

// isNull recognises the type that writers give to a column in which nothing but null was seen.
func isNull(t parquet.Type) bool {
	_, ok := logicalValue(t).(*format.NullType)
	return ok
}

// isText accepts byte arrays without a logical type too: older writers leave it out.
func isText(t parquet.Type) bool {
	if t.Kind() != parquet.ByteArray {
		return false
	}
	logical := logicalValue(t)
	_, ok := logical.(*format.StringType)
	return ok || logical == nil && t.ConvertedType() == nil
}

func isInteger(t parquet.Type) bool {
	if t.Kind() != parquet.Int32 && t.Kind() != parquet.Int64 {
		return false
	}
	logical := logicalValue(t)
	_, ok := logical.(*format.IntType)
	return ok || logical == nil && t.ConvertedType() == nil
}

func logicalValue(t parquet.Type) format.LogicalTypeValue {
	if l := t.LogicalType(); l != nil {
		return l.Value
	}
	return nil
}

// readColumn reads a column over all row groups. budget is what text may still be taken.
func readColumn(file *parquet.File, col *parquet.Column, budget *int) ([]string, error) {
	if isNull(col.Type()) {
		return make([]string, file.NumRows()), nil
	}
	var values []string
	for _, group := range file.RowGroups() {
		chunks := group.ColumnChunks()
		if col.Index() >= len(chunks) {
			return nil, errors.New("a row group lacks it: fetch the file again")
		}
		var err error
		if values, err = readChunk(values, chunks[col.Index()], budget); err != nil {
			return nil, err
		}
	}
	return values, nil
}

func readChunk(values []string, chunk parquet.ColumnChunk, budget *int) (_ []string, err error) {
	pages := chunk.Pages()
	defer func() {
		if cerr := pages.Close(); err == nil && cerr != nil {
			err = cerr
		}
	}()
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return nil, fmt.Errorf("malformed parquet: %w: fetch the file again", err)
		}
		values, err = readPage(values, page.Values(), budget)
		parquet.Release(page)
		if err != nil {
			return nil, err
		}
	}
}

func readPage(values []string, r parquet.ValueReader, budget *int) ([]string, error) {
	buf := make([]parquet.Value, 128)
	for {
		n, err := r.ReadValues(buf)
		if n == 0 && err == nil {
			err = io.ErrNoProgress
		}
		for _, v := range buf[:n] {
			s, terr := valueText(v, budget)
			if terr == nil && len(values) == maxRows {
				terr = fmt.Errorf("more than %d values", maxRows)
			}
			if terr != nil {
				return nil, fmt.Errorf("row %d: %w", len(values)+1, terr)
			}
			values = append(values, s)
		}
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return nil, fmt.Errorf("malformed parquet: %w: fetch the file again", err)
		}
	}
}

func valueText(v parquet.Value, budget *int) (string, error) {
	switch {
	case v.IsNull():
		return "", nil
	case v.Kind() == parquet.Int32:
		return strconv.FormatInt(int64(v.Int32()), 10), nil
	case v.Kind() == parquet.Int64:
		return strconv.FormatInt(v.Int64(), 10), nil
	}
	b := v.ByteArray()
	if *budget -= len(b); *budget < 0 {
		return "", fmt.Errorf("the file unfolds to more than %d bytes of text", maxTextBytes)
	}
	if !utf8.Valid(b) {
		return "", errors.New("text that is not UTF-8")
	}
	return string(b), nil
}
