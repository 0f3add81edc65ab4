package unpack

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/bzip2"
	"compress/flate"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/gaia-harness/gaia/internal/secret"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/ulikunitz/xz/lzma"
)

// maxWindow bounds what a stream may ask to remember.
const maxWindow = 64 << 20

// mostTried bounds the bytes that come of what may be no stream, before it is taken for one.
const mostTried = 64

// What the try to read a stream costs, in bytes that are looked through: a file of nothing but their beginnings ends at a bound.
const (
	tryCost    = 256
	readerCost = 64 << 10 // of a reader that is made for it
	windowCost = 8        // bytes of what it remembers that cost one
)

// inflate keeps what unpacks deflate and zstd for the next stream: one in another is unpacked while the other waits.
type inflate struct {
	free  []io.ReadCloser
	zstds []*zstd.Decoder
}

// zstandard looks through what a reader has in zstd, as tried does.
func (w *walker) zstandard(name string, in io.Reader, packed, depth int) (n int, whole bool) {
	var d *zstd.Decoder
	if last := len(w.zstds) - 1; last >= 0 {
		d, w.zstds = w.zstds[last], w.zstds[:last]
	} else {
		var err error
		if d, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(maxWindow)); err != nil {
			return 0, false
		}
	}
	if err := d.Reset(in); err != nil {
		return 0, false
	}
	n, whole = w.tried(name, d, packed, depth)
	w.zstds = append(w.zstds, d)
	return n, whole
}

// inflater returns what unpacks deflate. It is given back to free.
func (w *walker) inflater(in io.Reader) io.ReadCloser {
	last := len(w.free) - 1
	if last < 0 {
		return flate.NewReader(in)
	}
	r := w.free[last]
	w.free = w.free[:last]
	_ = r.(flate.Resetter).Reset(in, nil)
	return r
}

// deflated looks through what a reader has in deflate, as tried does.
func (w *walker) deflated(name string, in io.Reader, packed, depth int) (n int, whole bool) {
	r := w.inflater(in)
	n, whole = w.tried(name, r, packed, depth)
	w.free = append(w.free, r)
	return n, whole
}

// binary looks through data that is no text as a whole.
func (w *walker) binary(name string, data []byte, depth int) {
	switch {
	case bytes.HasPrefix(data, []byte("PACK\x00\x00\x00")) && w.gitPack(name, data, depth):
		return
	case isTar(data) && w.tar(name, data, depth):
		return
	case bytes.HasPrefix(data, []byte("SQLite format 3\x00")):
		w.sqlite(name, data, depth)
	case bytes.HasPrefix(data, []byte("PAR1")) && bytes.HasSuffix(data, []byte("PAR1")):
		if w.parquet(name, data, depth) {
			return
		}
	case strings.EqualFold(path.Ext(name), ".br"):
		if n, err := w.stream(name+"!", brotli.NewReader(bytes.NewReader(data)), len(data), depth+1); n > 0 && err == nil {
			return
		}
	case bytes.HasPrefix(data, []byte("\x5d\x00\x00")), strings.EqualFold(path.Ext(name), ".lzma"):
		w.tries += maxWindow / windowCost
		if r, err := (lzma.ReaderConfig{DictCap: maxWindow}).NewReader(bytes.NewReader(data)); err == nil {
			if n, err := w.stream(name+"!", r, len(data), depth+1); n > 0 && err == nil {
				return
			}
		}
	}
	w.told.Native = w.told.Native || isNative(data)
	large := isNative(data) && len(data) > largeNative
	files, unread := w.zipDirectory(name, data, depth)
	opaque := false
	from := 0 // what lies before is looked through
	var text []byte
	gap := func(to int) {
		if to <= from {
			return
		}
		part := data[from:to]
		for start := 0; start < len(part) && w.live(); {
			end := runsUntil(part, start)
			if text = runs(text[:0], part[start:end]); len(text) > 0 {
				w.text(name, text, depth)
			}
			if end == len(part) {
				break
			}
			start = end - windowShared
		}
		switch {
		case large:
		case isMedia(data), isMedia(part):
			w.told.Media = true
		case to-from < fewestPacked || unread || opaque:
		case !w.dense(name, part, depth):
		case isLocked(data):
			unread = true
		case isPDF(data) && imageFilter.Match(part):
			w.told.Media = true
		default:
			opaque = true
		}
	}
	for i := 0; i < len(data) && w.ok(); {
		next := nextMagic(data, i)
		if next == len(data) {
			break
		}
		n := 0
		if file, ok := files[next]; ok {
			n = file
		} else if !large {
			var bad bool
			n, bad = w.unpackAt(name, data, next, depth)
			unread = unread || bad
		}
		if n > 0 {
			gap(next)
			from = next + n
		}
		i = next + max(n, 1)
	}
	gap(len(data))
	switch {
	case unread:
		w.told.Unread++
	case opaque:
		w.told.Opaque++
	}
}

// dense looks at bytes in which no beginning of a stream is known, and reports whether they are packed or encrypted all the same.
func (w *walker) dense(name string, data []byte, depth int) bool {
	const step = 64 << 10
	for part := range slices.Chunk(data, step) {
		if len(part) < fewestPacked || secret.Entropy(part) <= packedBits {
			continue
		}
		if len(part) == min(len(data), step) && &part[0] == &data[0] { // deflate without a head has none that could be found
			if n, _ := w.deflated(name+"!", bytes.NewReader(data), len(data), depth); n > len(data)/2 {
				return false
			}
		}
		return true
	}
	return false
}

// magics are the bytes that streams begin with which are looked for anywhere.
var magics = [256]bool{0x1f: true, 0x78: true, 'P': true, 'B': true, 0x28: true, 0xfd: true, 0x04: true}

// nextMagic returns where the next beginning of a stream may be, from i on, or the end of data.
func nextMagic(data []byte, i int) int {
	for ; i+4 <= len(data); i++ {
		if !magics[data[i]] && i > 0 {
			continue
		}
		b := data[i:]
		switch {
		case b[0]&0x0f == 8 && (b[0] == 0x78 || i == 0 && b[0] < 0x78) && b[1]&0x20 == 0 && (int(b[0])<<8|int(b[1]))%31 == 0:
			return i
		case b[0] == 0x1f && b[1] == 0x8b && b[2] == 8,
			b[0] == 'P' && b[1] == 'K' && b[2] == 3 && b[3] == 4,
			b[0] == 'B' && b[1] == 'Z' && b[2] == 'h' && '1' <= b[3] && b[3] <= '9' && len(b) > 10 && (string(b[4:10]) == "1AY&SY"),
			b[0] == 0x28 && b[1] == 0xb5 && b[2] == 0x2f && b[3] == 0xfd,
			b[0] == 0xfd && len(b) > 12 && string(b[1:6]) == "7zXZ\x00",
			b[0] == 0x04 && b[1] == 0x22 && b[2] == 0x4d && b[3] == 0x18:
			return i
		}
	}
	return len(data)
}

// unpackAt looks through the stream that may begin at a place. It returns how many bytes it has, 0 if there is none, and
// whether there is one that cannot be read.
func (w *walker) unpackAt(name string, data []byte, at, depth int) (n int, unread bool) {
	in := bytes.NewReader(data[at:])
	used := func() int { return len(data) - at - in.Len() }
	if w.tries += tryCost; data[at] == 'B' || data[at] == 0xfd || data[at] == 0x04 {
		w.tries += readerCost
	}
	inner := name + "!"
	if at > 0 {
		inner = name + "!" + strconv.Itoa(at)
	}
	try := func(r io.Reader) int {
		if got, whole := w.tried(inner, r, len(data)-at, depth); got > 0 && whole {
			return used()
		}
		return 0
	}
	switch data[at] {
	case 'P':
		return w.zipEntry(name, data, at, depth)
	case 0x1f:
		size, named := gzipHead(data[at:])
		if size == 0 {
			return 0, false
		}
		if named != "" {
			inner = inside(name, named)
		}
		in.Seek(int64(size), io.SeekStart)
		if got, whole := w.deflated(inner, in, in.Len(), depth); got > 0 && whole {
			n = min(used()+8, len(data)-at) // checksum and size
		}
	case 'B':
		n = try(bzip2.NewReader(in))
	case 0x28:
		if got, whole := w.zstandard(inner, in, in.Len(), depth); got > 0 && whole {
			n = used()
		}
	case 0xfd:
		n = try(&xzReader{w: w, in: in})
	case 0x04:
		n = try(lz4.NewReader(in))
	default:
		in.Seek(2, io.SeekStart)
		if got, whole := w.deflated(inner, in, in.Len(), depth); got > 0 && whole {
			n = min(used()+4, len(data)-at) // checksum
		}
	}
	return n, false
}

// tried looks through what a reader gives, if it is a stream: it comes to its end, or gives several bytes before it fails.
func (w *walker) tried(name string, r io.Reader, packed, depth int) (n int, whole bool) {
	var head [mostTried]byte
	size, err := io.ReadFull(&checked{r, w}, head[:])
	switch {
	case size == 0:
		return 0, false
	case err == io.ErrUnexpectedEOF && w.ok():
		// Also an error of the reader that is that of an end which was not expected: only at its end it says so again.
		if _, err := r.Read(make([]byte, 1)); err != io.EOF {
			return 0, false
		}
		w.content(name, bytes.Clone(head[:size]), depth+1)
		return size, true
	case err != nil:
		return 0, false
	}
	all, err := w.stream(name, io.MultiReader(bytes.NewReader(bytes.Clone(head[:])), r), packed, depth+1)
	return int(all), err == nil
}

const mostName = 4 << 10

// gzipHead returns the length of the header of a gzip file and the name in it; 0 if there is none.
func gzipHead(b []byte) (size int, name string) {
	if len(b) < 18 || b[3]&0xe0 != 0 {
		return 0, ""
	}
	flags, at := b[3], 10
	if flags&4 != 0 {
		at += 2 + int(binary.LittleEndian.Uint16(b[10:]))
	}
	for _, bit := range []byte{8, 16} {
		if flags&bit == 0 || at >= len(b) {
			continue
		}
		end := bytes.IndexByte(b[at:min(len(b), at+mostName)], 0)
		if end < 0 {
			return 0, ""
		}
		if bit == 8 {
			name = utf8Text(b[at : at+end])
		}
		at += end + 1
	}
	if flags&2 != 0 {
		at += 2
	}
	if at >= len(b) {
		return 0, ""
	}
	return at, name
}

// xzReader reads the blocks of an xz stream. A library that reads all of the format would reserve what their headers claim.
type xzReader struct {
	w       *walker
	in      *bytes.Reader
	block   io.Reader
	begun   bool
	ended   bool
	checked int // bytes of the checksum
	start   int // bytes left when the block began
}

func (x *xzReader) Read(b []byte) (int, error) {
	if !x.begun {
		var head [12]byte
		if _, err := io.ReadFull(x.in, head[:]); err != nil || binary.LittleEndian.Uint32(head[8:]) != crc32.ChecksumIEEE(head[6:8]) || head[7] > 15 {
			return 0, errors.New("no xz stream")
		}
		x.begun, x.checked = true, [16]int{0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64}[head[7]]
	}
	for {
		if x.ended {
			return 0, io.EOF
		}
		if x.block == nil {
			if err := x.next(); err != nil {
				x.ended = err == io.EOF
				return 0, err
			}
		}
		n, err := x.block.Read(b)
		if err != io.EOF {
			return n, err
		}
		x.block = nil
		padding := -(x.start - x.in.Len()) & 3
		if _, err := x.in.Seek(int64(padding+x.checked), io.SeekCurrent); err != nil || n > 0 {
			return n, err
		}
	}
}

// next reads the header of a block; io.EOF if there is none more.
func (x *xzReader) next() error {
	size, err := x.in.ReadByte()
	if err != nil {
		return err
	}
	if size == 0 { // the index: four bytes a stream at least
		return io.EOF
	}
	head := make([]byte, int(size)*4+3)
	if _, err := io.ReadFull(x.in, head); err != nil {
		return err
	}
	at := 1
	if head[0]&3 != 0 {
		return errors.New("filters that are not known")
	}
	for _, bit := range []byte{0x40, 0x80} {
		if head[0]&bit != 0 {
			_, n := binary.Uvarint(head[at:])
			at += max(n, 1)
		}
	}
	if at+3 > len(head) || head[at] != 0x21 || head[at+1] != 1 || head[at+2] > 40 {
		return errors.New("filters that are not known")
	}
	window, err := lzma.DecodeDictCap(head[at+2])
	if err != nil || window > maxWindow {
		return errors.New("a window that is too large")
	}
	x.w.tries += window / windowCost
	x.start = x.in.Len()
	x.block, err = lzma.Reader2Config{DictCap: int(max(window, lzma.MinDictCap))}.NewReader2(x.in)
	return err
}

// isTar reports whether a file begins with the header of a tar archive.
func isTar(data []byte) bool {
	if len(data) < 512 {
		return false
	}
	sum := 0
	for i, c := range data[:512] {
		if 148 <= i && i < 156 {
			c = ' '
		}
		sum += int(c)
	}
	want, err := strconv.ParseInt(strings.Trim(string(data[148:156]), " \x00"), 8, 32)
	return err == nil && int(want) == sum && data[0] != 0
}

// tar looks through a tar archive, and reports whether it is one. Behind it may lie more.
func (w *walker) tar(name string, data []byte, depth int) bool {
	in := bytes.NewReader(data)
	r := tar.NewReader(in)
	for found := false; ; found = true {
		h, err := r.Next()
		if err != nil {
			if err != io.EOF && found {
				w.told.Unread++
			}
			if rest := data[len(data)-in.Len():]; found && err == io.EOF && len(bytes.Trim(rest, "\x00")) > 0 {
				w.content(name, rest, depth+1)
			}
			return found
		}
		if !w.entry() {
			return true
		}
		inner := inside(name, h.Name)
		w.emit(inner, h.Linkname)
		if h.Typeflag == tar.TypeReg {
			if _, err := w.stream(inner, r, len(data), depth+1); err != nil && w.ok() {
				w.told.Unread++
				return true
			}
		}
		for _, key := range slices.Sorted(maps.Keys(h.PAXRecords)) {
			w.emit(inner, key+"="+h.PAXRecords[key])
		}
	}
}

// The methods of zip that are known besides that of package zip.
const (
	zipBzip2 = 12
	zipLZMA  = 14
	zipZstd  = 93
	zipXZ    = 95
)

// zipDirectory reads the files that the directory at the end of a zip archive names, wherever that begins. It returns those
// that were read: how long their headers and they are, by where their headers begin.
func (w *walker) zipDirectory(name string, data []byte, depth int) (files map[int]int, unread bool) {
	files = map[int]int{}
	if bytes.LastIndex(data[max(0, len(data)-(1<<16)-22):], []byte("PK\x05\x06")) < 0 {
		return files, false
	}
	if bytes.Count(data, []byte("PK\x01\x02")) > w.l.Entries { // the reader takes in all that are there at once
		return files, true
	}
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return files, false
	}
	w.l.Entries -= len(r.File)
	starts := zipStarts(data, r.File)
	if r.Comment != "" {
		w.emit(name, utf8Text([]byte(r.Comment)))
	}
	ends := 0
	for _, f := range r.File {
		if !w.ok() {
			return files, unread
		}
		inner := inside(name, utf8Text([]byte(f.Name)))
		w.emit(inner, utf8Text([]byte(f.Comment)))
		at, err := f.DataOffset()
		size := int64(f.CompressedSize64)
		if err != nil || at < 30 || at > int64(len(data)) || size < 0 || size > int64(len(data))-at {
			unread = true
			continue
		}
		if strings.HasSuffix(f.Name, "/") && size == 0 {
			continue
		}
		if f.Flags&1 != 0 || !w.zipped(inner, f.Method, data[at:at+size], depth) {
			w.told.Unread++
		}
		if start := starts[int(at)] - 1; start >= ends {
			files[start] = int(at+size) - start
			ends = int(at + size)
		}
	}
	return files, unread
}

// zipStarts returns where the headers begin, plus 1, of files that begin at the keys.
func zipStarts(data []byte, files []*zip.File) map[int]int {
	starts := make(map[int]int, len(files))
	for _, f := range files {
		if at, err := f.DataOffset(); err == nil {
			starts[int(at)] = 0
		}
	}
	for i := 0; i+30 <= len(data); i += 4 {
		next := bytes.Index(data[i:], []byte("PK\x03\x04"))
		if i += next; next < 0 || i+30 > len(data) {
			break
		}
		at := i + 30 + int(binary.LittleEndian.Uint16(data[i+26:])) + int(binary.LittleEndian.Uint16(data[i+28:]))
		if _, ok := starts[at]; ok {
			starts[at] = i + 1
		}
	}
	return starts
}

// zipEntry looks through the file in a zip archive whose header is at a place, and returns its length with the header.
func (w *walker) zipEntry(name string, data []byte, at, depth int) (n int, unread bool) {
	if len(data)-at < 30 || !w.entry() {
		return 0, false
	}
	h := data[at:]
	flags, method := binary.LittleEndian.Uint16(h[6:]), binary.LittleEndian.Uint16(h[8:])
	size, named := int(binary.LittleEndian.Uint32(h[18:])), int(binary.LittleEndian.Uint16(h[26:]))
	head := 30 + named + int(binary.LittleEndian.Uint16(h[28:]))
	if head > len(h) || method > 99 {
		return 0, false
	}
	body, inner := h[head:], inside(name, utf8Text(h[30:30+named]))
	w.emit(inner, "")
	switch {
	case flags&1 != 0:
		return 0, true
	case method == zip.Deflate: // its end is known
		in := bytes.NewReader(body)
		if got, whole := w.deflated(inner, in, len(body), depth); got > 0 && whole {
			return head + len(body) - in.Len(), false
		}
		return 0, false
	case flags&8 != 0 && size == 0: // its length is behind it
		if size = bytes.Index(body, []byte("PK\x07\x08")); size < 0 {
			w.tries += int64(len(body))
			return 0, false
		}
	}
	if size > len(body) {
		return 0, false
	}
	if !w.zipped(inner, method, body[:size], depth) {
		return 0, true
	}
	return head + size, false
}

// zipped looks through a file in a zip archive and reports whether it could be read.
func (w *walker) zipped(name string, method uint16, body []byte, depth int) bool {
	var r io.Reader = bytes.NewReader(body)
	switch method {
	case zip.Store:
		w.content(name, body, depth+1)
		return true
	case zip.Deflate:
		n, whole := w.deflated(name, r, len(body), depth)
		return whole || n == 0 && len(body) < 16 || !w.ok() // nothing packed is some bytes, too
	case zipBzip2:
		r = bzip2.NewReader(r)
	case zipZstd:
		n, whole := w.zstandard(name, r, len(body), depth)
		return whole || n == 0 && len(body) < 16 || !w.ok()
	case zipXZ:
		r = &xzReader{w: w, in: bytes.NewReader(body)}
	case zipLZMA: // the head of zip has no size
		if len(body) < 9 {
			return false
		}
		w.tries += maxWindow / windowCost
		head := slices.Concat(body[4:9], bytes.Repeat([]byte{0xff}, 8))
		d, err := (lzma.ReaderConfig{DictCap: maxWindow}).NewReader(io.MultiReader(bytes.NewReader(head), bytes.NewReader(body[9:])))
		if err != nil {
			return false
		}
		r = d
	default:
		return false
	}
	_, err := w.stream(name, r, len(body), depth+1)
	return err == nil || !w.ok()
}
