package unpack

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"io"
	"math"
	"math/bits"
	"strconv"
	"unicode/utf16"

	"github.com/gaia-harness/gaia/internal/parquetfile"
	"github.com/parquet-go/parquet-go"
)

const (
	gitDelta      = 6        // by offset; 7: by the digest of the base
	mostObject    = 16 << 20 // bytes of a git object that a delta is applied to
	mostKept      = 64 << 20 // bytes of objects that are kept for deltas
	mostDeltas    = 64       // one on another
	parquetRows   = 256      // rows that are read at once, of so many values
	parquetValues = 64 << 10
	mostRecord    = 4 << 20 // bytes of a record of SQLite
)

// gitPack looks through the objects of a git pack, with deltas applied, and reports whether it is one.
func (w *walker) gitPack(name string, data []byte, depth int) bool {
	if len(data) < 32 || data[7] != 2 && data[7] != 3 {
		return false
	}
	objects := map[int][]byte{} // by their places
	kinds := map[int]int{}
	chain := map[int]int{}
	digests := map[[sha1.Size]byte]int{}
	kept := 0
	kindNames := []string{"", "commit", "tree", "blob", "tag"}
	at := 12
	for n := binary.BigEndian.Uint32(data[8:]); n > 0 && w.ok(); n-- {
		begin := at
		if at >= len(data)-sha1.Size || !w.entry() {
			break
		}
		c := data[at]
		kind := int(c >> 4 & 7)
		for at++; c&0x80 != 0 && at < len(data); at++ {
			c = data[at]
		}
		base := -1
		switch {
		case kind == gitDelta:
			offset, i := 0, at
			for ; i < len(data) && i < at+9; i++ {
				offset = offset<<7 | int(data[i]&0x7f)
				if data[i]&0x80 == 0 {
					break
				}
				offset++
			}
			at, base = i+1, begin-offset
		case kind == gitDelta+1 && at+sha1.Size <= len(data):
			if found, ok := digests[[sha1.Size]byte(data[at:])]; ok {
				base = found
			}
			at += sha1.Size
		case kind < 1 || kind > 4:
			w.told.Unread++
			w.content(name, data[begin+1:], depth+1)
			return true
		}
		if at+2 > len(data) {
			break
		}
		in, inner := bytes.NewReader(data[at+2:]), name+"!"+strconv.Itoa(begin)
		object, looked, err := w.inflated(inner, in, depth)
		if err != nil || in.Len() > len(data)-at-2-len(object)/plainRatio || at >= len(data) {
			if w.told.Unread++; begin > 12 && w.ok() {
				w.content(name, data[begin:], depth+1) // where the next begins is not known
			}
			return begin > 12
		}
		at = len(data) - in.Len() + 4
		if looked {
			continue
		}
		w.spend(len(object))
		if kind >= gitDelta {
			whole, ok := applyDelta(objects[base], object)
			if chain[begin] = chain[base] + 1; !ok || objects[base] == nil || chain[begin] > mostDeltas {
				w.content(inner, object, depth+1) // what the delta adds
				continue
			}
			object, kind = whole, kinds[base]
		}
		w.content(inner, object, depth+1)
		if kept += len(object); kept <= mostKept {
			objects[begin], kinds[begin] = object, kind
			sum := sha1.New()
			sum.Write([]byte(kindNames[kind] + " " + strconv.Itoa(len(object)) + "\x00"))
			sum.Write(object)
			digests[[sha1.Size]byte(sum.Sum(nil))] = begin
		}
	}
	return true
}

// inflated returns the object of git that deflate holds. One that is too large for a base of deltas is looked through.
func (w *walker) inflated(name string, in *bytes.Reader, depth int) (object []byte, looked bool, err error) {
	r, packed := w.inflater(in), in.Len()
	defer func() { w.free = append(w.free, r) }()
	var b bytes.Buffer
	if _, err := io.CopyN(&b, &checked{r, w}, mostObject+1); err == io.EOF {
		return b.Bytes(), false, nil
	} else if err != nil {
		return nil, false, err
	}
	_, err = w.stream(name, io.MultiReader(&b, r), packed, depth+1)
	return nil, true, err
}

// applyDelta applies a delta of git, which copies from a base and inserts.
func applyDelta(base, delta []byte) ([]byte, bool) {
	var sizes [2]uint64
	for i := range sizes {
		n := 0
		if sizes[i], n = binary.Uvarint(delta); n <= 0 {
			return nil, false
		}
		delta = delta[n:]
	}
	if sizes[0] != uint64(len(base)) || sizes[1] > mostObject {
		return nil, false
	}
	out := make([]byte, 0, min(sizes[1], 1<<20))
	for len(delta) > 0 {
		op := delta[0]
		delta = delta[1:]
		if op&0x80 == 0 {
			if op == 0 || int(op) > len(delta) {
				return nil, false
			}
			out, delta = append(out, delta[:op]...), delta[op:]
			continue
		}
		from, size := 0, 0
		for i := range 7 {
			if op&(1<<i) == 0 {
				continue
			}
			if len(delta) == 0 {
				return nil, false
			}
			if i < 4 {
				from |= int(delta[0]) << (8 * i)
			} else {
				size |= int(delta[0]) << (8 * (i - 4))
			}
			delta = delta[1:]
		}
		if size == 0 {
			size = 0x10000
		}
		if from > len(base) || size > len(base)-from || len(out)+size > mostObject {
			return nil, false
		}
		out = append(out, base[from:from+size]...)
	}
	return out, uint64(len(out)) == sizes[1]
}

// sqlite visits the records of an SQLite database, each with its values on lines. Records may go on over several pages.
func (w *walker) sqlite(name string, data []byte, depth int) {
	if len(data) < 512 {
		return
	}
	size := int(binary.BigEndian.Uint16(data[16:]))
	if size == 1 {
		size = 1 << 16
	}
	usable := size - int(data[20])
	if size < 512 || size&(size-1) != 0 || usable < 480 {
		return
	}
	encoding := binary.BigEndian.Uint32(data[56:])
	var out []byte
	flush := func() {
		if len(out) > 0 {
			w.text(name, out, depth)
			out = nil
		}
	}
	for start := 0; start+size <= len(data) && w.ok(); start += size {
		page, head := data[start:start+size], 0
		if start == 0 {
			head = 100
		}
		kind := page[head]
		if kind != 2 && kind != 10 && kind != 13 {
			continue
		}
		cells, first := int(binary.BigEndian.Uint16(page[head+3:])), head+8
		if kind == 2 {
			first += 4
		}
		for i := 0; i < cells && first+2*i+2 <= len(page); i++ {
			at := int(binary.BigEndian.Uint16(page[first+2*i:]))
			if at < head || at >= usable || !w.ok() {
				continue
			}
			payload := sqlitePayload(data, page[at:usable], kind, size, usable)
			w.tries += int64(len(payload))
			if out = w.appendRecord(out, name, payload, encoding, depth); len(out) > pieceBytes/2 {
				flush()
			}
		}
	}
	flush()
}

// sqlitePayload returns the record of a cell, gathered from overflow pages.
func sqlitePayload(data, cell []byte, kind byte, size, usable int) []byte {
	if kind == 2 { // of an inner page: the number of a child first
		if len(cell) < 4 {
			return nil
		}
		cell = cell[4:]
	}
	length, n := sqliteVarint(cell)
	cell = cell[n:]
	most := (usable-12)*64/255 - 23
	if kind == 13 {
		_, n := sqliteVarint(cell)
		cell, most = cell[n:], usable-35
	}
	if length <= 0 || length > mostRecord {
		return nil
	}
	if length <= most {
		return cell[:min(length, len(cell))]
	}
	least := (usable-12)*32/255 - 23
	local := least + (length-least)%(usable-4)
	if local > most {
		local = least
	}
	if local+4 > len(cell) {
		return cell
	}
	out := append(make([]byte, 0, min(length, 1<<16)), cell[:local]...)
	next := int(binary.BigEndian.Uint32(cell[local:]))
	for next > 0 && len(out) < length && next*size <= len(data) {
		page := data[(next-1)*size : next*size]
		out = append(out, page[4:min(usable, 4+length-len(out))]...)
		next = int(binary.BigEndian.Uint32(page))
	}
	return out
}

// sqliteVarint returns a number of at most nine bytes, and their count.
func sqliteVarint(b []byte) (value, n int) {
	for n < len(b) && n < 9 {
		c := b[n]
		n++
		if n == 9 {
			return value<<8 | int(c), n
		}
		value = value<<7 | int(c&0x7f)
		if c < 0x80 {
			break
		}
	}
	return value, n
}

// appendRecord appends the values of a record, a line each.
func (w *walker) appendRecord(out []byte, name string, record []byte, encoding uint32, depth int) []byte {
	length, n := sqliteVarint(record)
	if length < n || length > len(record) {
		return out
	}
	types, body := record[n:length], record[length:]
	for len(types) > 0 {
		kind, n := sqliteVarint(types)
		types = types[n:]
		size := 0
		switch {
		case kind < 0:
			return out
		case kind < 10:
			size = []int{0, 1, 2, 3, 4, 6, 8, 8, 0, 0}[kind]
		case kind >= 12:
			size = (kind - 12) / 2
		}
		value := body[:min(size, len(body))]
		body = body[len(value):]
		switch {
		case kind >= 1 && kind <= 6:
			number := int64(0)
			if len(value) > 0 && value[0] >= 0x80 {
				number = -1
			}
			for _, c := range value {
				number = number<<8 | int64(c)
			}
			out = strconv.AppendInt(out, number, 10)
		case kind == 8 || kind == 9:
			out = append(out, '0'+byte(kind-8))
		case kind == 7 && len(value) == 8:
			out = strconv.AppendFloat(out, math.Float64frombits(binary.BigEndian.Uint64(value)), 'g', -1, 64)
		case kind >= 13 && kind%2 == 1 && encoding > 1:
			out = append(out, utf16Text(value, encoding == 2)...)
		case kind >= 13 && kind%2 == 1 || isText(value):
			out = append(out, value...)
		case kind >= 12:
			w.content(name+"!blob", value, depth+1)
		}
		out = append(out, '\n')
	}
	return out
}

func utf16Text(b []byte, little bool) string {
	units := make([]uint16, len(b)/2)
	for i := range units {
		if units[i] = binary.BigEndian.Uint16(b[2*i:]); little {
			units[i] = bits.ReverseBytes16(units[i])
		}
	}
	return string(utf16.Decode(units))
}

// parquet looks through the rows of a Parquet file, each with its values on lines, and reports whether it could read all of them.
func (w *walker) parquet(name string, data []byte, depth int) (read bool) {
	defer func() { // the library panics on some malformed files
		if r := recover(); r != nil {
			if err, ok := r.(error); ok && isFault(err) {
				panic(r)
			}
			read = false
		}
	}()
	f, err := parquetfile.Open(data)
	if err != nil {
		return false
	}
	unfolded, err := parquetfile.CheckGroups(data, f)
	if w.tries += unfolded; err != nil || !w.ok() {
		return false
	}
	for _, group := range f.RowGroups() {
		rows := group.Rows()
		read := w.parquetRows(name, rows, len(group.ColumnChunks()), depth)
		rows.Close()
		if !read {
			return false
		}
	}
	return true
}

func (w *walker) parquetRows(name string, rows parquet.Rows, columns, depth int) bool {
	buf := make([]parquet.Row, max(1, min(parquetRows, parquetValues/max(columns, 1))))
	var out []byte
	flush := func() {
		w.spend(len(out))
		w.text(name, out, depth)
		out = out[:0]
	}
	for w.ok() {
		n, err := rows.ReadRows(buf)
		for _, row := range buf[:n] {
			for _, v := range row {
				switch {
				case v.IsNull():
				case v.Kind() != parquet.ByteArray && v.Kind() != parquet.FixedLenByteArray:
					out = append(out, v.String()...)
				case isText(v.ByteArray()):
					out = append(out, v.ByteArray()...)
				default:
					w.content(name+"!blob", v.ByteArray(), depth+1)
				}
				if out = append(out, '\n'); len(out) > 8*pieceBytes {
					flush()
				}
				if !w.live() {
					return true
				}
			}
			if len(out) > pieceBytes/2 {
				flush()
			}
		}
		if err != nil || n == 0 {
			flush()
			return err == nil || err == io.EOF
		}
	}
	return true
}
