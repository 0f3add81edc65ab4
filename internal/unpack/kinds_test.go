package unpack

import (
	"archive/tar"
	"bytes"
	"compress/flate"
	"compress/zlib"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/gaia-harness/gaia/internal/parquetfile"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/pierrec/lz4/v4"
	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"
)

// record is what the files of these tests hold: an id, a long question and an answer.
type record struct {
	ID, Question, Answer string
}

func records(n int) []record {
	r := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("lamp harbour keeper pier lid brass letter clock survey coast bird oil museum spring noon ship knot author year table")
	var all []record
	for i := range n {
		var q strings.Builder
		for q.Len() < 200+i*1300/n {
			q.WriteString(words[r.IntN(len(words))] + " ")
		}
		all = append(all, record{fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", r.Uint32(), i, i, i, r.Uint64N(1<<48)), "Which " + strings.TrimSpace(q.String()) + "?", fmt.Sprintf("Quillon %d of Vessim", 100+i)})
	}
	return all
}

func jsonl(all []record) []byte {
	var b bytes.Buffer
	for _, r := range all {
		fmt.Fprintf(&b, "{\"task_id\": %q, \"Question\": %q, \"answer\": %q}\n", r.ID, r.Question, r.Answer)
	}
	return b.Bytes()
}

// adjacent returns how many records stand in texts with each part whole and the answer within so many bytes of the id and the
// question.
func adjacent(text string, all []record, near int) (n int) {
	for _, r := range all {
		for at := 0; ; {
			i := strings.Index(text[at:], r.Answer)
			if i < 0 {
				break
			}
			at += i
			around := text[max(0, at-near-len(r.Question)):min(len(text), at+near+len(r.Question))]
			if whole(around, r.ID) && whole(around, r.Question) && whole(around, r.Answer) {
				n++
				break
			}
			at++
		}
	}
	return n
}

// whole reports whether a text stands in another with no letter or digit directly before or behind it.
func whole(in, text string) bool {
	letter := func(s string) bool {
		return s != "" && strings.ContainsAny(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
	}
	for at := 0; ; at++ {
		i := strings.Index(in[at:], text)
		if i < 0 {
			return false
		}
		at += i
		end := at + len(text)
		if !letter(in[max(0, at-1):at]) && !letter(in[end:min(len(in), end+1)]) {
			return true
		}
	}
}

func packed(t testing.TB, data []byte, open func(*bytes.Buffer) (interface {
	Write([]byte) (int, error)
	Close() error
}, error)) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := open(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

type writer = interface {
	Write([]byte) (int, error)
	Close() error
}

// TestKinds: what stands in a file of any kind is visited, in one piece.
func TestKinds(t *testing.T) {
	all := records(30)
	text := jsonl(all)
	noise := make([]byte, 3000)
	for i := range noise {
		noise[i] = byte(i * i >> 3)
	}
	zl := packed(t, text, func(b *bytes.Buffer) (writer, error) { return zlib.NewWriter(b), nil })
	gz := gzipped(t, text)
	var tarred bytes.Buffer
	tw := tar.NewWriter(&tarred)
	if err := errors.Join(tw.WriteHeader(&tar.Header{Name: "d/a.jsonl", Size: int64(len(text)), Mode: 0o644}), func() error { _, err := tw.Write(text); return err }(), tw.Close()); err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	pw := parquet.NewGenericWriter[record](&table, parquet.Compression(&parquet.Zstd))
	if _, err := pw.Write(all); err != nil {
		t.Fatal(err)
	}
	if err := pw.Close(); err != nil {
		t.Fatal(err)
	}
	wide := func(little bool) []byte {
		var b []byte
		for _, c := range string(text) {
			if little {
				b = append(b, byte(c), byte(c>>8))
			} else {
				b = append(b, byte(c>>8), byte(c))
			}
		}
		return b
	}
	lines := func(s string, n int, glue string) string {
		var b strings.Builder
		for i := 0; i < len(s); i += n {
			b.WriteString(s[i:min(len(s), i+n)] + glue)
		}
		return b.String()
	}
	literal := "D = b'"
	for _, c := range gz {
		if c < ' ' || c > '~' || c == '\'' || c == '\\' {
			literal += fmt.Sprintf(`\x%02x`, c)
		} else {
			literal += string(rune(c))
		}
	}
	literal += "'\n"
	b64 := base64.StdEncoding.EncodeToString
	png := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00"), slicesOf("\x00\x00\x10\x00zTXtComment\x00\x00", string(zl), "\x00\x00\x00\x00IEND\xaeB`\x82")...)
	for _, tt := range []struct {
		name string
		data []byte
	}{
		{"a.jsonl", text},
		{"bom.jsonl", append([]byte("\xef\xbb\xbf"), text...)},
		{"utf16le.txt", wide(true)},
		{"utf16be.txt", append([]byte{0xfe, 0xff}, wide(false)...)},
		{"latin1.txt", append([]byte("caf\xe9 \n"), text...)},
		{"a.zip", zipped(t, "x/a.jsonl", string(text))},
		{"cut.zip", zipped(t, "x/a.jsonl", string(text))[:6000]},
		{"picture.png", append(bytes.Clone(png[:40]), zipped(t, "a", string(text))...)},
		{"ztxt.png", png},
		{"a.pdf", slicesOf("%PDF-1.7\n1 0 obj\n<</Length 9/Filter/FlateDecode>>\nstream\n", string(zl), "\nendstream\nendobj\n\xff\x00")},
		{"a.gz", gz},
		{"two.gz", append(gzipped(t, []byte("first")), gz...)},
		{"a.tar", tarred.Bytes()},
		{"a.tar.gz", gzipped(t, tarred.Bytes())},
		{"deep", gzipped(t, zipped(t, "in.tar", tarred.String()))},
		{"a.zlib", zl},
		{"a.deflate", packed(t, text, func(b *bytes.Buffer) (writer, error) { return flate.NewWriter(b, 9) })},
		{"a.zst", packed(t, text, func(b *bytes.Buffer) (writer, error) { return zstd.NewWriter(b) })},
		{"a.xz", packed(t, text, func(b *bytes.Buffer) (writer, error) { return xz.NewWriter(b) })},
		{"a.lzma", packed(t, text, func(b *bytes.Buffer) (writer, error) { return lzma.NewWriter(b) })},
		{"a.lz4", packed(t, text, func(b *bytes.Buffer) (writer, error) { return lz4.NewWriter(b), nil })},
		{"a.json.br", packed(t, text, func(b *bytes.Buffer) (writer, error) { return brotli.NewWriter(b), nil })},
		{"a.parquet", table.Bytes()},
		{"b64.py", []byte("DATA = \"" + b64(text) + "\"\n")},
		{"b64lines.py", []byte("DATA = \"\"\"\n" + lines(b64(text), 76, "\n") + "\"\"\"\n")},
		{"b64strings.py", []byte("DATA = (\n" + lines(b64(gz), 60, "\"\n    \"") + "\")\n")},
		{"b64.json", []byte(`{"d": "` + lines(b64(gz), 64, `\n`) + `"}`)},
		{"gz.b64", []byte(b64(gz))},
		{"b64b64", []byte(b64([]byte(b64(text))))},
		{"hex.py", []byte("D = '" + hex.EncodeToString(text) + "'\n")},
		{"hexgz.py", []byte("D = '" + hex.EncodeToString(gz) + "'\n")},
		{"literal.py", []byte(literal)},
		{"middle.bin", slicesOf(string(noise), string(gz), string(noise))},
		{"elf", slicesOf("\x7fELF\x02\x01\x01\x00", string(noise), string(text), string(noise))},
	} {
		got, told := texts(t, tt.name, tt.data, Limits{})
		want := len(all)
		if tt.name == "cut.zip" {
			want = 1
		}
		if n := adjacent(got, all, 600); n < want {
			t.Errorf("%s: %d of %d records: %+v", tt.name, n, want, told)
		}
		if (told.Unread != 0) != (tt.name == "cut.zip") && tt.name != "middle.bin" || told.Native != (tt.name == "elf") || told.Stopped != "" {
			t.Errorf("%s: %+v", tt.name, told)
		}
	}
}

func slicesOf(parts ...string) []byte { return []byte(strings.Join(parts, "")) }

// TestUnread: what is locked or damaged is counted, and what is dense in an unknown way; pictures and sound are told.
func TestUnread(t *testing.T) {
	r := rand.NewChaCha8([32]byte{1})
	random := make([]byte, 64<<10)
	_, _ = r.Read(random)
	for i := range random {
		if random[i] == 0x78 || random[i] == 0x1f {
			random[i] = 1
		}
	}
	locked := zipped(t, "a.txt", "text")
	for at := 0; ; at++ { // both headers
		next := bytes.Index(locked[at:], []byte("PK"))
		if next < 0 {
			break
		}
		at += next
		switch locked[at+2] {
		case 3:
			locked[at+6] |= 1
		case 1:
			locked[at+8] |= 1
		}
	}
	for _, tt := range []struct {
		name string
		data []byte
		want string
	}{
		{"random", random, "opaque"},
		{"in.tar.gz", gzipped(t, zipped(t, "secret.bin", string(random))), "opaque"},
		{"locked.zip", locked, "unread"},
		{"damaged.zip", append([]byte("PK\x03\x04\x14\x00\x00\x00\x63\x00"), random...), "unread"},
		{"a.7z", append([]byte("7z\xbc\xaf\x27\x1c"), random...), "unread"},
		{"locked.pdf", slicesOf("%PDF-1.7\n<</Encrypt 4 0 R>>\nstream\n", string(random)), "unread"},
		{"pictures.pdf", slicesOf("%PDF-1.7\n<</Filter /DCTDecode>>\nstream\n\xff\xd8\xff", string(random)), "media"},
		{"dense.pdf", slicesOf("%PDF-1.7\n<</Filter /Odd>>\nstream\n", string(random)), "opaque"},
		{"sound.mp3", slicesOf("\xff\xfb\x90\x00", string(random[:400]), "\xff\xfb\x90\x00", string(random)), "media"},
		{"picture.tiff", append([]byte("II*\x00"), random...), "media"},
		{"small.png", append([]byte("\x89PNG\r\n\x1a\n\x00"), random[:100]...), "media"},
		{"random.py", []byte("D = '" + base64.StdEncoding.EncodeToString(random) + "'\n"), "opaque"},
		{"key.pem", []byte("D = '" + base64.StdEncoding.EncodeToString(random[:2000]) + "'\n"), ""},
		{"picture.png", append([]byte("\x89PNG\r\n\x1a\n"), random...), "media"},
		{"text", bytes.Repeat([]byte("some text\n"), 1000), ""},
		{"zeros", make([]byte, 1<<20), ""},
	} {
		if _, told := texts(t, tt.name, tt.data, Limits{}); (told.Unread > 0) != (tt.want == "unread") || (told.Opaque > 0) != (tt.want == "opaque") || told.Media != (tt.want == "media") {
			t.Errorf("%s: %+v", tt.name, told)
		}
	}
}

// TestLimits: bombs end at a bound, which is told.
func TestLimits(t *testing.T) {
	zeros := make([]byte, 8<<20)
	bomb := gzipped(t, zeros)
	for range 3 {
		bomb = zipped(t, "a.gz", string(bomb), "b.gz", string(bomb), "c.gz", string(bomb))
	}
	_, told := texts(t, "bomb", bomb, Limits{Bytes: 32 << 20})
	if told.Bytes < 31<<20 || told.Bytes > 32<<20 || told.Stopped != "bytes" {
		t.Errorf("%+v", told)
	}
	if got, told := texts(t, "text", bytes.Repeat([]byte("a line\n"), 1000), Limits{Bytes: 700}); strings.Count(got, "a line") != 100 || told.Stopped != "bytes" {
		t.Errorf("what is within the bound is not visited: %d, %+v", strings.Count(got, "a line"), told)
	}
	nested := []byte("text")
	for range 20 {
		nested = gzipped(t, nested)
	}
	if _, told := texts(t, "nested", nested, Limits{}); told.Unread != 1 {
		t.Errorf("%+v", told)
	}
	var many []string
	for i := range 300 {
		many = append(many, fmt.Sprint(i), "text")
	}
	if _, told := texts(t, "many", zipped(t, many...), Limits{Entries: 100}); told.Stopped != "entries" {
		t.Errorf("%+v", told)
	}
	if _, told := texts(t, "directory", slicesOf(strings.Repeat("PK\x01\x02"+strings.Repeat("\x00", 42), 200), "PK\x05\x06\x00\x00\x00\x00\xc8\x00\xc8\x00\xf0\x23\x00\x00\x00\x00\x00\x00\x00\x00"), Limits{Entries: 100}); told.Unread != 1 {
		t.Errorf("%+v", told)
	}
	large := gzipped(t, jsonl(records(2000)))
	if got, _ := texts(t, "parts", large, Limits{Whole: 64 << 10}); adjacent(got, records(2000), 600) != 2000 {
		t.Error("a text in parts is not whole")
	}
	if _, told := texts(t, "cut", gzipped(t, append([]byte("SQLite format 3\x00"), make([]byte, 100<<10)...)), Limits{Whole: 64 << 10}); told.Unread != 1 {
		t.Errorf("a database in parts: %+v", told)
	}
	gone := errors.New("gone")
	n := 0
	if _, err := Walk("bomb", bomb, Limits{Check: func() error {
		if n++; n > 50 {
			return gone
		}
		return nil
	}}, func(string, string) error { return nil }); err != gone {
		t.Errorf("%v", err)
	}
}

// TestParquet: values are looked through as texts are, and columns that share their pages are refused.
func TestParquet(t *testing.T) {
	type row = struct{ A, B string }
	all := records(20)
	table := func(rows ...row) []byte {
		return packed(t, nil, func(b *bytes.Buffer) (writer, error) {
			w := parquet.NewGenericWriter[row](b, parquet.Compression(&parquet.Gzip))
			_, err := w.Write(rows)
			return tableWriter{w}, err
		})
	}
	got, told := texts(t, "a.parquet", table(row{base64.StdEncoding.EncodeToString(jsonl(all)), "x"}, row{"y", string(gzipped(t, []byte("a lamp of brass")))}), Limits{})
	if adjacent(got, all, 600) != len(all) || !strings.Contains(got, "a lamp of brass") || told.Unread != 0 {
		t.Errorf("%d, %+v", adjacent(got, all, 600), told)
	}
	data := table(row{strings.Repeat("p", 4<<10), "q"})
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := parquetfile.CheckGroups(data, f); err != nil || n < 4<<10 || n > 64<<10 {
		t.Errorf("%d, %v", n, err)
	}
	columns := f.Metadata().RowGroups[0].Columns
	columns[1].MetaData = columns[0].MetaData
	if _, err := parquetfile.CheckGroups(data, f); err == nil || err.Error() != "columns that overlap" {
		t.Error(err)
	}
}

type tableWriter struct {
	*parquet.GenericWriter[struct{ A, B string }]
}

func (tableWriter) Write([]byte) (int, error) { return 0, nil }

// TestPrograms: files that other programs write.
func TestPrograms(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	dir := t.TempDir()
	all := records(40)
	if err := os.WriteFile(filepath.Join(dir, "in.jsonl"), jsonl(all), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c", `
import json, marshal, pickle, py_compile, sqlite3, struct, sys, zlib, lzma, bz2, dbm.dumb
rows = [json.loads(l) for l in open('in.jsonl')]
for size, enc in ((512, 'UTF-8'), (4096, 'UTF-8'), (4096, 'UTF-16le')):
    c = sqlite3.connect('s%d%s.db' % (size, enc))
    c.execute('pragma page_size=%d' % size); c.execute("pragma encoding='%s'" % enc)
    c.execute('create table t(id text primary key, q text, a text) without rowid' if size == 512 else 'create table t(id text, q text, a text)')
    c.executemany('insert into t values(?,?,?)', [(r['task_id'], r['Question'], r['answer']) for r in rows]); c.commit(); c.close()
c = sqlite3.connect('blob.db'); c.execute('create table t(b blob)')
c.executemany('insert into t values(?)', [(zlib.compress(json.dumps(r).encode()),) for r in rows]); c.commit(); c.close()
c = sqlite3.connect('gone.db'); c.execute('pragma secure_delete=0'); c.execute('create table t(x text)')
c.executemany('insert into t values(?)', [(json.dumps(r),) for r in rows]); c.commit(); c.execute('delete from t'); c.commit(); c.close()
d = {r['task_id']: (r['Question'], r['answer']) for r in rows}
for p in range(6): pickle.dump(d, open('p%d.pkl' % p, 'wb'), protocol=p)
for v in (2, 4): open('m%d.marshal' % v, 'wb').write(marshal.dumps(list(d.items()), v))
open('big.py', 'w').write('D = ' + repr({r['task_id']: r['answer'] for r in rows}) + '\n')
py_compile.compile('big.py', 'big.pyc')
open('small.py', 'w').write('D = ' + repr({r['task_id']: r['answer'] for r in rows[:12]}) + '\n')
py_compile.compile('small.py', 'small.pyc')
open('tuple.py', 'w').write('D = [' + ','.join(repr((r['task_id'], r['Question'], r['answer'])) for r in rows) + ']\n')
py_compile.compile('tuple.py', 'tuple.pyc')
def s(x):
    b = x.encode(); n = len(b)
    return (bytes([0xa0 | n]) if n < 32 else bytes([0xd9, n]) if n < 256 else b'\xda' + struct.pack('>H', n)) + b
open('a.msgpack', 'wb').write(b'\xdc' + struct.pack('>H', len(rows)) + b''.join(b'\x93' + s(r['task_id']) + s(r['Question']) + s(r['answer']) for r in rows))
raw = open('in.jsonl', 'rb').read()
open('a.bz2', 'wb').write(bz2.compress(raw)); open('real.xz', 'wb').write(lzma.compress(raw)); open('noname', 'wb').write(zlib.compress(raw, 1))
open('u32.bin', 'wb').write(b'\x93NUMPY\x01\x00v\x00' + raw.decode().encode('utf-32-le'))
`)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "PYTHONDONTWRITEBYTECODE=1"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"s512UTF-8.db", "s4096UTF-8.db", "s4096UTF-16le.db", "blob.db", "gone.db", "p0.pkl", "p1.pkl", "p2.pkl", "p3.pkl", "p4.pkl", "p5.pkl", "m2.marshal", "m4.marshal",
		"big.pyc", "small.pyc", "tuple.pyc", "a.msgpack", "a.bz2", "real.xz", "noname", "u32.bin"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got, told := texts(t, name, data, Limits{})
		least := len(all)
		if name == "gone.db" { // pages of the file are reused
			least = len(all) / 2
		}
		if keyed := map[string]int{"big.pyc": 40, "small.pyc": 12}[name]; keyed > 0 { // an id and an answer alone
			for i, r := range all[:keyed] {
				if !regexp.MustCompile(`(?m)^` + r.ID + `\s+` + r.Answer + `$`).MatchString(got) {
					t.Errorf("%s: record %d is not there", name, i)
				}
			}
			continue
		}
		if n := adjacent(got, all, 600); n < least || told.Unread != 0 {
			t.Errorf("%s: %d of %d records: %+v", name, n, len(all), told)
		}
	}
}

// TestGit: what a history holds is visited, in loose objects and in packs with deltas.
func TestGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	do := func(args ...string) {
		cmd := exec.Command(git, args...)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	all := records(30)
	do("init", "-q")
	for i := range 6 { // each version has five more, and the last none
		if err := os.WriteFile(filepath.Join(dir, "a.jsonl"), append([]byte(strings.Repeat("a line that stays as it is\n", 100)), jsonl(all[:5*(i+1)])...), 0o644); err != nil {
			t.Fatal(err)
		}
		do("add", "a.jsonl")
		do("commit", "-qm", "version")
	}
	do("rm", "-q", "a.jsonl")
	do("commit", "-qm", "no more")
	look := func() (string, Told) {
		var out strings.Builder
		all := Told{}
		err := filepath.WalkDir(filepath.Join(dir, ".git/objects"), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			got, told := texts(t, d.Name(), data, Limits{})
			out.WriteString(got)
			all.Unread += told.Unread
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out.String(), all
	}
	if got, told := look(); adjacent(got, all, 600) != len(all) || told.Unread != 0 {
		t.Errorf("loose: %d, %+v", adjacent(got, all, 600), told)
	}
	do("gc", "-q", "--aggressive", "--prune=now")
	if got, told := look(); adjacent(got, all, 600) != len(all) || told.Unread != 0 {
		t.Errorf("packed: %d, %+v", adjacent(got, all, 600), told)
	}
}

// TestLargeObject: what comes behind a large object of a git pack is visited.
func TestLargeObject(t *testing.T) {
	pack := []byte("PACK\x00\x00\x00\x02\x00\x00\x00\x02")
	zlibbed := func(data []byte) string {
		return string(packed(t, data, func(b *bytes.Buffer) (writer, error) { return zlib.NewWriter(b), nil }))
	}
	large := append(bytes.Repeat([]byte("a line\n"), mostObject/7), "the end of the large one\n"...)
	data := slicesOf(string(pack), "\xb9\x92\xf4\x07", zlibbed(large), "\x3f", zlibbed([]byte("a lamp of brass")), strings.Repeat("\x00", 20))
	if got, told := texts(t, "a.pack", data, Limits{}); !strings.Contains(got, "the end of the large one") || !strings.Contains(got, "a lamp of brass") || told.Unread != 0 {
		t.Errorf("%+v", told)
	}
}

// TestPatterns: files of nothing but what costs a reader time end at their end or at a bound.
func TestPatterns(t *testing.T) {
	zeros := strings.Repeat("\x00", 16)
	for _, pattern := range []string{"PK\x03\x04", "PK\x03\x04\x14\x00\x08\x00\x00\x00" + zeros + "\x01\x00\x00\x00a", "PK\x03\x04\x14\x00\x08\x00\x08\x00" + zeros + "\x01\x00\x00\x00a",
		"\x78\x9c\x00", "\x1f\x8b\x08\x08", "\x1f\x8b\x08\x00" + zeros, "\x28\xb5\x2f\xfd", "\x28\xb5\x2f\xfd\xa4\x00\x00\x00\x04\x00\x00\x00", "\x04\x22\x4d\x18\x64\x40\xa7", "BZh91AY&SY",
		"\xfd7zXZ\x00\x00\x04\xe6\xd6\xb4\x46\x02\x00\x21\x01\x1c\x00\x00\x00", "A", "A\x00", "abcdefghijklmnop\n", "UGFyaXMgaXMgbmljZSBhbmQgZw\n", "'x\\x9c", "-\x00\x05a",
		"00000000-0000-4000-a000-000000000000\n\x00", "aGVsbG8gd29ybGQh ", "aGVsbG8gd29ybGQh" + strings.Repeat(" ", 60), "PACK\x00\x00\x00\x02\x7f\xff\xff\xff\x3f\x78\x9c\x03\x00\x00\x00\x00\x01", "\\n"} {
		told, err := Walk("a", bytes.Repeat([]byte(pattern), 512<<10/len(pattern)), Limits{Bytes: 4 << 20}, func(string, string) error { return nil })
		if err != nil || told.Bytes > 4<<20 {
			t.Errorf("%q: %v, %+v", pattern, err, told)
		}
	}
}

// FuzzWalk: nothing panics, and the bounds hold.
func FuzzWalk(f *testing.F) {
	text := jsonl(records(2))
	f.Add([]byte("SQLite format 3\x00" + strings.Repeat("\x10\x00\x01\x01", 200)))
	f.Add(zipped(f, "a", string(text)))
	f.Add(gzipped(f, text))
	f.Add(packed(f, text, func(b *bytes.Buffer) (writer, error) { return xz.NewWriter(b) }))
	f.Add(packed(f, text, func(b *bytes.Buffer) (writer, error) { return zstd.NewWriter(b) }))
	f.Add([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x03\x9f\x0f" + string(gzipped(f, text)) + strings.Repeat("\x7f", 40)))
	f.Add([]byte("PAR1" + strings.Repeat("\x15\x00", 60) + "PAR1"))
	f.Add([]byte(base64.StdEncoding.EncodeToString(text)))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, name := range []string{"a", "a.br", "a.lzma"} {
			out := int64(0)
			told, err := Walk(name, data, Limits{Bytes: 1 << 20, Entries: 100, Whole: 64 << 10}, func(_, text string) error {
				out += int64(len(text))
				return nil
			})
			if err != nil || told.Bytes > 1<<20 || out > 64<<20 {
				t.Errorf("%v, %+v, %d bytes of text", err, told, out)
			}
		}
	})
}

// BenchmarkWalk looks through 8 MiB of program text and as much of a program for a machine.
func BenchmarkWalk(b *testing.B) {
	text := bytes.Repeat([]byte("def solve(question, table):\n    return max(row['value'] for row in table if row['name'] in question)\n"), 80_000)
	native := bytes.Repeat([]byte("\x7fELF\x02\x48\x89\xe5\x00\x00\x12\x8b\x45\xf8\x01printf failed\x00\xc3\x55"), 200_000)
	for name, data := range map[string][]byte{"text": text, "native": native} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := Walk("a", data, Limits{}, func(string, string) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
