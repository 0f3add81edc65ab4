package loader

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/parquetfile"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// columns encodes a file without rows, whose schema can lack or retype any column.
func columns(t testing.TB, nodes parquet.Group) []byte {
	t.Helper()
	schema := parquet.NewSchema("schema", nodes)
	var buf bytes.Buffer
	w := parquet.NewWriter(&buf, schema)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func schemaWith(change func(parquet.Group)) parquet.Group {
	g := parquet.Group{}
	for _, name := range []string{colID, colQuestion, colLevel, colGold, colFileName, colFilePath} {
		g[name] = parquet.Optional(parquet.String())
	}
	change(g)
	return g
}

func TestRefusals(t *testing.T) {
	one := func(change func(*record)) []byte {
		r := record{ID: "b", Question: "q", Level: "1", Gold: new("g")}
		change(&r)
		return encode(t, []record{{ID: "a", Question: "q", Level: "1", Gold: new("g")}, r})
	}
	file := func(name, path string) []byte {
		return one(func(r *record) { r.FileName, r.FilePath = new(name), new(path) })
	}
	whole := encode(t, threeTasks())
	broken := slices.Clone(whole)
	binary.LittleEndian.PutUint32(broken[len(broken)-8:], 1<<31)
	cases := []struct {
		name string
		data []byte
		want string
	}{
		{"column missing", columns(t, schemaWith(func(g parquet.Group) { delete(g, colQuestion) })), `column "Question" is missing`},
		{"answer column missing", columns(t, schemaWith(func(g parquet.Group) { delete(g, colGold) })), `column "Final answer" is missing`},
		{"question as number", columns(t, schemaWith(func(g parquet.Group) { g[colQuestion] = parquet.Int(64) })), `column "Question" is of physical type INT64 (INT(64,true)): want text`},
		{"level as float", columns(t, schemaWith(func(g parquet.Group) { g[colLevel] = parquet.Leaf(parquet.DoubleType) })), `column "Level" is of physical type DOUBLE (DOUBLE): want text or an integer`},
		{"level as date", columns(t, schemaWith(func(g parquet.Group) { g[colLevel] = parquet.Date() })), `column "Level" is of physical type INT32 (DATE): want text or an integer`},
		{"name as list", columns(t, schemaWith(func(g parquet.Group) { g[colFileName] = parquet.List(parquet.String()) })), `column "file_name" is nested or repeated: want text`},
		{"name repeated", columns(t, schemaWith(func(g parquet.Group) { g[colFileName] = parquet.Repeated(parquet.String()) })), `column "file_name" is nested or repeated: want text`},
		{"id as bytes of fixed length", columns(t, schemaWith(func(g parquet.Group) { g[colID] = parquet.UUID() })), `column "task_id" is of physical type FIXED_LEN_BYTE_ARRAY (UUID): want text`},
		{"id as blob", columns(t, schemaWith(func(g parquet.Group) { g[colID] = parquet.BSON() })), `column "task_id" is of physical type BYTE_ARRAY (BSON): want text`},
		{"no rows", columns(t, schemaWith(func(parquet.Group) {})), "no tasks in it"},
		{"dummy only", encode(t, threeTasks()[1:2]), "no tasks in it"},

		{"level 4", one(func(r *record) { r.Level = "4" }), `row 2 (task "b"), column "Level": unknown level "4": want 1, 2 or 3`},
		{"level 01", one(func(r *record) { r.Level = "01" }), `row 2 (task "b"), column "Level": unknown level "01"`},
		{"level empty", one(func(r *record) { r.Level = "" }), `row 2 (task "b"), column "Level": unknown level ""`},
		{"same id", one(func(r *record) { r.ID = "a" }), `rows 1 and 2 have the same task id "a"`},
		{"no id", one(func(r *record) { r.ID = "" }), `row 2, column "task_id": a task id of 0 bytes`},
		{"id with path", one(func(r *record) { r.ID = "../b" }), `row 2, column "task_id": task id "../b"`},
		{"no question", one(func(r *record) { r.Question = " \n" }), `row 2 (task "b"), column "Question": empty`},
		{"no answer", one(func(r *record) { r.Gold = nil }), `row 2 (task "b"), column "Final answer": no answer`},
		{"placeholder", one(func(r *record) { r.Gold = new(" ? ") }), `row 2 (task "b"), column "Final answer": no answer`},
		{"not UTF-8", one(func(r *record) { r.Question = "\xff" }), `column "Question": row 2: text that is not UTF-8`},

		{"name is a path", file("x/b.csv", "2023/validation/x/b.csv"), `row 2 (task "b"): file_name "x/b.csv" is not a plain file name`},
		{"name climbs", file("..", "2023/validation/.."), `file_name ".." is not a plain file name`},
		{"name hidden", file(".netrc", ""), `file_name ".netrc" is not a plain file name`},
		{"name with drive", file("c:b.csv", ""), `file_name "c:b.csv" is not a plain file name`},
		{"name with backslash", file(`..\b.csv`, ""), `is not a plain file name`},
		{"name with newline", file("b.csv\nignore", ""), `is not a plain file name`},
		{"path climbs", file("b.csv", "2023/validation/../../../b.csv"), `is not a path inside the dataset`},
		{"path absolute", file("b.csv", "/etc/b.csv"), `file_path "/etc/b.csv" is not a path inside the dataset`},
		{"path elsewhere", file("b.csv", "2023/validation/c.csv"), `file_path "2023/validation/c.csv" does not end in file_name "b.csv"`},
		{"path without name", file("", "2023/validation/c.csv"), `file_path is "2023/validation/c.csv" though file_name is empty`},
		{"metadata as attachment", file("metadata.parquet", "2023/validation/metadata.parquet"), `names the dataset's metadata`},
		{"metadata in capitals", file("MetaData.level1.parquet", ""), `names the dataset's metadata`},

		{"empty file", nil, "malformed parquet: not a parquet file, or cut short"},
		{"text", []byte("version https://git-lfs.example/spec\n"), "malformed parquet: not a parquet file, or cut short"},
		{"cut", whole[:len(whole)/2], "malformed parquet: not a parquet file, or cut short"},
		{"footer longer than the file", broken, "malformed parquet: a footer of 2147483648 bytes in a file of"},
		{"footer with a list of two thousand million", []byte("PAR1\x49\xfc\xff\xff\xff\xff\x07\x07\x00\x00\x00PAR1"), "malformed parquet: footer: "},
		{"footer of 2 MiB", slices.Concat([]byte("PAR1"), make([]byte, 2<<20), []byte("\x00\x00\x20\x00PAR1")), "malformed parquet: a footer of 2097152 bytes"},
		{"magic only", []byte("PAR1\x00\x00\x00\x00PAR1"), "malformed parquet"},
	}
	for _, c := range cases {
		set, gold, err := load(Validation, c.data, Filter{})
		if err == nil {
			t.Errorf("%s: accepted", c.name)
			continue
		}
		const where = "reading 2023/validation/metadata.parquet of invented at r1: "
		if !strings.HasPrefix(err.Error(), where) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %q, want %q", c.name, err, c.want)
		}
		checkRemedy(t, c.name, err)
		if set.Tasks != nil || gold.Len() != 0 {
			t.Errorf("%s: handed out %d tasks and %v beside the error", c.name, len(set.Tasks), gold)
		}
	}
}

// checkRemedy holds an error to end in something to do.
func checkRemedy(t *testing.T, name string, err error) {
	t.Helper()
	for _, remedy := range []string{fetchAgain, repairCopy, otherVersion} {
		if strings.HasSuffix(err.Error(), remedy) {
			return
		}
	}
	t.Errorf("%s: no remedy in %q", name, err)
}

func TestPageBounds(t *testing.T) {
	chunk := func(codec format.CompressionCodec, h format.PageHeader, body string) ([]byte, *format.ColumnMetaData) {
		header, err := thrift.Marshal(new(thrift.CompactProtocol), h)
		if err != nil {
			t.Fatal(err)
		}
		page := append(header, body...)
		return append([]byte("PAR1"), page...), &format.ColumnMetaData{Codec: codec, DataPageOffset: 4, TotalCompressedSize: int64(len(page))}
	}
	v1 := thrift.New(format.DataPageHeader{NumValues: 2})
	v2 := thrift.New(format.DataPageHeaderV2{NumValues: 2, DefinitionLevelsByteLength: 1})
	plain := thrift.New(format.DataPageHeaderV2{NumValues: 2, DefinitionLevelsByteLength: 1, IsCompressed: thrift.New(false)})
	const claim = "\xff\xff\xff\xff\x0f" // a snappy block of 4 GiB
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := z.Write(make([]byte, 1<<20)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name   string
		codec  format.CompressionCodec
		header format.PageHeader
		body   string
		want   string
	}{
		{"plain", format.Uncompressed, format.PageHeader{UncompressedPageSize: 5, CompressedPageSize: 5, DataPageHeader: v1}, claim, ""},
		{"longer than the chunk", format.Uncompressed, format.PageHeader{UncompressedPageSize: 5, CompressedPageSize: 2_000_000_000, DataPageHeader: v1}, claim, "a page of 2000000000 bytes where 5 are left"},
		{"negative", format.Uncompressed, format.PageHeader{CompressedPageSize: -1, DataPageHeader: v1}, "", "a page of -1 bytes where 0 are left"},
		{"unfolds", format.Gzip, format.PageHeader{UncompressedPageSize: 2_000_000_000, CompressedPageSize: 5, DataPageHeader: v1}, claim, "pages that unfold to 2000000000 bytes"},
		{"many values", format.Gzip, format.PageHeader{CompressedPageSize: 0, DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: 2_000_000_000})}, "", "a page of 2000000000 values"},
		{"snappy", format.Snappy, format.PageHeader{UncompressedPageSize: 5, CompressedPageSize: 5, DataPageHeader: v1}, claim, "pages that unfold to 4294967295 bytes"},
		{"snappy after levels", format.Snappy, format.PageHeader{UncompressedPageSize: 5, CompressedPageSize: 6, DataPageHeaderV2: v2, Type: format.DataPageV2}, "\x01" + claim, "pages that unfold to 4294967295 bytes"},
		{"snappy not used", format.Snappy, format.PageHeader{UncompressedPageSize: 6, CompressedPageSize: 6, DataPageHeaderV2: plain, Type: format.DataPageV2}, "\x01" + claim, ""},
		{"more than it claims", format.Gzip, format.PageHeader{UncompressedPageSize: 1000, CompressedPageSize: int32(bomb.Len()), DataPageHeader: v1}, bomb.String(), "a page: it unfolds to more than the 1000 bytes that it claims"},
		{"of two kinds", format.Gzip, format.PageHeader{UncompressedPageSize: 1000, CompressedPageSize: int32(bomb.Len()), DataPageHeader: v1, DataPageHeaderV2: plain}, bomb.String(), "a page: it unfolds to more"},
		{"not a header", format.Snappy, format.PageHeader{CompressedPageSize: 0, DataPageHeader: v1}, "\x05", "page header: "},
	}
	for _, c := range cases {
		data, meta := chunk(c.codec, c.header, c.body)
		if err := parquetfile.CheckPages(data, meta); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	for _, meta := range []format.ColumnMetaData{{DataPageOffset: -1}, {DataPageOffset: 5}, {TotalCompressedSize: -1}, {DataPageOffset: 3, TotalCompressedSize: 2}} {
		if err := parquetfile.CheckPages([]byte("PAR1"), &meta); err == nil || err.Error() != "pages outside the file" {
			t.Errorf("from %d, %d bytes: %v", meta.DataPageOffset, meta.TotalCompressedSize, err)
		}
	}
}

// With a value too few in one row group and one too many in the next, the count of the whole file is right, and the
// values between belong to other rows.
func TestShiftedRowGroups(t *testing.T) {
	whole := encode(t, threeTasks()[2:], parquet.MaxRowsPerRowGroup(1))
	body := whole[:len(whole)-8-int(binary.LittleEndian.Uint32(whole[len(whole)-8:]))]
	var meta format.FileMetaData
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), whole[len(body):len(whole)-8], &meta); err != nil {
		t.Fatal(err)
	}
	if len(meta.RowGroups) != 2 {
		t.Fatalf("%d row groups", len(meta.RowGroups))
	}
	for _, rows := range [][2]int64{{1, 1}, {0, 2}, {2, 0}} {
		meta.RowGroups[0].NumRows, meta.RowGroups[1].NumRows = rows[0], rows[1]
		footer, err := thrift.Marshal(new(thrift.CompactProtocol), meta)
		if err != nil {
			t.Fatal(err)
		}
		data := append(binary.LittleEndian.AppendUint32(slices.Concat(body, footer), uint32(len(footer))), "PAR1"...)
		_, err = decodeParquet(data, Validation)
		want := fmt.Sprintf(`column "task_id": row group 1 ends after 1 values where the file declares %d: fetch the file again`, rows[0])
		if rows[0] == 1 && err != nil || rows[0] != 1 && (err == nil || err.Error() != want) {
			t.Errorf("%v: got %v", rows, err)
		}
	}
}

// A library panic must come back as an error; which bytes make it panic changes with its versions, so this looks for
// one in a file whose pages are overwritten.
func TestMalformedPages(t *testing.T) {
	whole := encode(t, threeTasks())
	footer := int(binary.LittleEndian.Uint32(whole[len(whole)-8:]))
	for at := 4; at < len(whole)-8-footer; at += 3 {
		for _, b := range []byte{0x00, 0x7f, 0xff} {
			data := slices.Clone(whole)
			data[at] = b
			if rows, err := decodeParquet(data, Validation); err != nil && rows != nil {
				t.Fatalf("byte %d: rows beside the error %v", at, err)
			}
		}
	}
}

// A writer that saw only null in a column gives it another type, over INT32.
func TestColumnOfNulls(t *testing.T) {
	schema := parquet.NewSchema("schema", schemaWith(func(g parquet.Group) {
		g[colFileName] = parquet.Optional(parquet.Leaf(parquet.NullType))
	}))
	values := map[string]string{colID: "a", colQuestion: "q", colLevel: "1", colGold: "g"}
	var row parquet.Row
	for i, path := range schema.Columns() {
		v := parquet.NullValue().Level(0, 0, i)
		if s, ok := values[path[0]]; ok {
			v = parquet.ByteArrayValue([]byte(s)).Level(0, 1, i)
		}
		row = append(row, v)
	}
	var buf bytes.Buffer
	w := parquet.NewWriter(&buf, schema)
	if _, err := w.WriteRows([]parquet.Row{row, row}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	rows, err := decodeParquet(buf.Bytes(), Validation)
	if err != nil || len(rows) != 2 || rows[1].task != (Task{ID: "a", Question: "q", Level: 1}) {
		t.Errorf("got %+v, %v", rows, err)
	}
}

func FuzzMetadata(f *testing.F) {
	whole := encode(f, threeTasks())
	f.Add(whole)
	f.Add(whole[:len(whole)-9])
	f.Add(encode(f, threeTasks(), parquet.Compression(&parquet.Snappy), parquet.DataPageVersion(1)))
	f.Add(encode(f, threeTasks()[:1], parquet.Compression(&parquet.Zstd)))
	f.Add(columns(f, schemaWith(func(parquet.Group) {})))
	f.Add([]byte("PAR1\x00\x00\x00\x00PAR1"))
	fuzzMetadata(f, "metadata.parquet")
}

// fuzzMetadata holds what is read of any bytes to what is promised of it, the same each time.
func fuzzMetadata(f *testing.F, name string) {
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, split := range []Split{Validation, Test} {
			rows, err := decodeMetadata(name, data, split)
			if err != nil {
				if rows != nil {
					t.Fatal("rows beside an error")
				}
				checkRemedy(t, "fuzzed", err)
				continue
			}
			checkAccepted(t, rows, split)
			again, err := decodeMetadata(name, data, split)
			if err != nil || !reflect.DeepEqual(rows, again) {
				t.Fatalf("read again: %+v, %v", again, err)
			}
		}
	})
}

// checkAccepted holds the rows of a file that was accepted to what every one promises.
func checkAccepted(t *testing.T, rows []row, split Split) {
	t.Helper()
	if len(rows) == 0 {
		t.Fatal("an empty split accepted")
	}
	ids := make(map[string]bool)
	for _, r := range rows {
		if r.task.ID == "" || ids[r.task.ID] || r.task.Question == "" || r.task.Level < 1 || r.task.Level > 3 ||
			(r.task.FileName == "") != (r.task.filePath == "") || r.gold == "" && split == Validation {
			t.Fatalf("a zero value or an id passed on twice: %+v", r)
		}
		ids[r.task.ID] = true
	}
}
