// Package unpack visits the texts in files of any kind: plain text of several encodings, the runs of text in binary files,
// and what archives, compressed files, databases, git packs, base64 and hex hold, one in another.
//
// Its bytes come from outside and are hostile. Everything is within the [Limits]; a decoder of a library that panics costs the
// file that it reads and no more. Nothing depends on a clock, a name outside of the data, or the order of a map.
//
// A file is looked through from its first byte to its last. Where the beginning of a compressed stream or of a file in a zip
// archive stands, it is unpacked and the look goes on behind it, so that an archive is found behind a picture, in a program or
// in a database, too, and also a file that its directory does not name. What lies between gives its runs of text, each on a
// line: those that stand next to each other come out next to each other.
package unpack

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Limits bound a walk. One that is 0 is that of [Default].
type Limits struct {
	Bytes   int64        // of the data and of all that is unpacked from it
	Depth   int          // of files in files
	Entries int          // files in archives, rows and objects
	Whole   int          // bytes of what is unpacked that are held at once; more is looked through in parts
	Check   func() error // asked often; an error ends the walk and is returned
}

// Default are the limits of a body or a file of which nothing else is known.
var Default = Limits{Bytes: 256 << 20, Depth: 8, Entries: 200_000, Whole: 32 << 20}

// Told says what a walk saw.
type Told struct {
	Bytes   int64  // that it looked through, unpacked ones included
	Unread  int    // files, and files in archives, that are locked, damaged, too deep, or packed in a known way that is not read here
	Opaque  int    // files whose bytes are packed or encrypted, and nothing says how
	Media   bool   // there are pictures, sound, video or letters, which have no text
	Native  bool   // there is a program for a machine, of which only the texts were looked at
	Stopped string // "bytes" or "entries": which bound was reached; "" for none
}

const (
	pieceBytes   = 256 << 10 // of a text that is visited at once
	overlapBytes = 8 << 10   // that a piece shares with the one before
	shortestRun  = 4         // bytes of text in a binary file
	plainRatio   = 1200      // deflate packs no better
	freeRatio    = 64 << 20  // bytes that may be packed better
	heldBytes    = 64 << 20  // that are made of a file at once, such as its text in UTF-8
	largeNative  = 32 << 20  // of a larger program for a machine only the texts and a zip archive are looked at
	packedBits   = 7.7       // of entropy of a byte; what has more is packed or encrypted
	fewestPacked = 1 << 10   // bytes that tell it
)

// Walk calls visit with the texts of a file. A path begins with name and goes on with "!/" and the name of what is in it. It
// returns the error of visit or of Check, which ends it, and no other.
func Walk(name string, data []byte, l Limits, visit func(path, text string) error) (Told, error) {
	l.Bytes, l.Depth = cmp.Or(max(l.Bytes, 0), Default.Bytes), cmp.Or(max(l.Depth, 0), Default.Depth)
	l.Entries, l.Whole = cmp.Or(max(l.Entries, 0), Default.Entries), cmp.Or(max(l.Whole, 0), Default.Whole)
	w := &walker{l: l, visit: visit}
	if int64(len(data)) > l.Bytes {
		data, w.told.Stopped = data[:l.Bytes], "bytes"
	}
	w.content(name, data, 0)
	return w.told, w.err
}

// panicked is called in tests with what a panic was that Walk goes on behind.
var panicked func(any)

type walker struct {
	l     Limits
	visit func(path, text string) error
	told  Told
	err   error
	asked int
	tries int64 // bytes that what may be a stream costs, also if it is none
	inflate
}

// live reports whether the walk was not ended.
func (w *walker) live() bool {
	if w.asked++; w.err == nil && w.l.Check != nil && w.asked%16 == 1 {
		w.err = w.l.Check()
	}
	return w.err == nil
}

// ok reports whether more may be unpacked.
func (w *walker) ok() bool {
	if w.left() <= 0 && w.told.Stopped == "" {
		w.told.Stopped = "bytes"
	}
	return w.live() && w.left() > 0
}

func (w *walker) left() int64 { return w.l.Bytes - w.told.Bytes - w.tries }

// spend counts bytes that are looked through.
func (w *walker) spend(n int) {
	if w.told.Bytes += int64(n); w.told.Bytes >= w.l.Bytes {
		w.told.Bytes = w.l.Bytes
	}
}

// entry counts a file in an archive and reports whether it may be looked at.
func (w *walker) entry() bool {
	if w.l.Entries--; w.l.Entries < 0 {
		w.told.Stopped = "entries"
		return false
	}
	return w.ok()
}

// emit visits a text that is short.
func (w *walker) emit(path, text string) {
	if w.err == nil {
		w.err = w.visit(path, text)
	}
}

// content looks through the bytes of a file. What a library makes of hostile bytes may panic: the file counts as not read.
func (w *walker) content(path string, data []byte, depth int) {
	if len(data) == 0 || !w.ok() {
		return
	}
	if depth > w.l.Depth {
		w.told.Unread++
		return
	}
	w.spend(len(data))
	defer func() {
		if r := recover(); r != nil {
			if err, ok := r.(error); ok && isFault(err) {
				panic(r) // a page of a mapped file that is gone is the caller's
			}
			w.told.Unread++
			if panicked != nil {
				panicked(r)
			}
		}
	}()
	if text, ok := decodeWide(data); ok {
		w.text(path, text, depth)
	} else if isText(data) {
		w.text(path, data, depth)
	} else {
		w.binary(path, data, depth)
	}
}

// isFault reports whether a panic is of memory that cannot be read.
func isFault(err error) bool {
	_, ok := err.(interface{ Addr() uintptr })
	return ok
}

// stream looks through what a reader gives, which packed bytes are unpacked to. It returns how many bytes came, and the
// reader's error, which is nil at its end. Bytes behind a bound are not looked at.
func (w *walker) stream(path string, r io.Reader, packed, depth int) (n int64, err error) {
	most := min(w.left(), freeRatio+plainRatio*int64(packed))
	var buf bytes.Buffer
	whole := false // the first part is of a file that has to be read as a whole
	for w.ok() {
		size, err := io.CopyN(&buf, &checked{r, w}, min(int64(w.l.Whole-buf.Len()), most-n))
		if n += size; whole && size > 0 {
			w.told.Unread++
			whole = false
		}
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			if size > 0 { // not only what two parts share
				w.content(path, buf.Bytes(), depth)
			}
			return n, err
		}
		// What is in some kinds of files is found only if all of it is read at once.
		whole = n == size && n < most && (begin(buf.Bytes(), "SQLite format 3\x00", "PAR1", "PACK\x00\x00\x00") || isTar(buf.Bytes()))
		w.content(path, buf.Bytes(), depth)
		if n >= most {
			if n >= w.left() {
				w.told.Stopped = "bytes"
			}
			return n, fmt.Errorf("more than %d bytes", most)
		}
		shared := bytes.Clone(buf.Bytes()[max(0, buf.Len()-min(overlapBytes, w.l.Whole/2)):])
		buf.Reset()
		buf.Write(shared)
	}
	return n, w.err
}

// begin reports whether data begins with one of some texts.
func begin(data []byte, texts ...string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return bytes.HasPrefix(data, []byte(text)) })
}

// checked asks whether the walk goes on with each read.
type checked struct {
	r io.Reader
	w *walker
}

func (c *checked) Read(b []byte) (int, error) {
	if !c.w.ok() {
		return 0, io.ErrUnexpectedEOF
	}
	return c.r.Read(b)
}

// isPicture reports whether the dense parts of a file are known to be pictures, sound or letters.
func isPicture(data []byte) bool {
	return begin(data, "\x89PNG", "\xff\xd8\xff", "GIF8", "RIFF", "wOFF", "wOF2", "OggS", "ID3", "fLaC", "\x1aE\xdf\xa3", "\x00\x00\x01\x00") ||
		len(data) > 12 && string(data[4:8]) == "ftyp"
}

// isMedia reports whether bytes begin as pictures, sound, video or letters do.
func isMedia(data []byte) bool {
	if isPicture(data) || begin(data, "II*\x00", "MM\x00*", "\x00\x00\x00\x0cjP  ", "\xff\x4f\xff\x51", "\x00\x00\x00\x0cJXL ", "FLV\x01", "0&\xb2\x75\x8e\x66\xcf\x11",
		"\x00\x00\x01\xba", "\x00\x00\x01\xb3", "#!AMR", "OTTO\x00", "ttcf\x00", "\x00\x01\x00\x00\x00", "true\x00") {
		return true
	}
	switch {
	case len(data) < fewestPacked:
	case data[0] == 0xff && data[1]&0xe6 == 0xe2, data[0] == 0xff && data[1]&0xf6 == 0xf0: // frames of MP3 and AAC
		return bytes.Contains(data[4:fewestPacked], data[:2])
	case data[0] == 'G': // packets of MPEG
		return data[188] == 'G' && data[376] == 'G' && data[564] == 'G'
	}
	return len(data) > 12 && (string(data[4:8]) == "moof" || string(data[4:8]) == "styp" || string(data[4:8]) == "sidx")
}

// isPDF reports whether a file is a PDF.
func isPDF(data []byte) bool { return bytes.Contains(data[:min(len(data), 1<<10)], []byte("%PDF-")) }

// imageFilter is what a PDF names pictures with that are not in deflate.
var imageFilter = regexp.MustCompile(`/(DCT|JPX|CCITTFax|JBIG2)Decode|/(DCT|CCF)\b`)

// isLocked reports whether a file whose bytes are dense says that it is packed or encrypted in a way that is not read here, or
// begins as one that is read and is damaged.
func isLocked(data []byte) bool {
	return begin(data, "7z\xbc\xaf\x27\x1c", "Rar!\x1a\x07", "MSCF", "Salted__", "age-encryption.org/") || isPDF(data) && bytes.Contains(data, []byte("/Encrypt")) || nextMagic(data[:min(len(data), 64)], 0) == 0 ||
		bytes.HasPrefix(data, []byte("\xd0\xcf\x11\xe0")) && bytes.Contains(data, []byte("E\x00n\x00c\x00r\x00y\x00p\x00t\x00e\x00d\x00P\x00a\x00c\x00k\x00a\x00g\x00e\x00"))
}

// isNative reports whether a file is a program for a machine.
func isNative(data []byte) bool {
	if len(data) < 64 {
		return false
	}
	at := int(data[60]) | int(data[61])<<8 | int(data[62])<<16
	return begin(data, "\x7fELF", "\xfe\xed\xfa\xce", "\xfe\xed\xfa\xcf", "\xce\xfa\xed\xfe", "\xcf\xfa\xed\xfe") ||
		begin(data, "\xca\xfe\xba\xbe\x00\x00\x00") && data[7] < 30 || // a class file has its version here
		begin(data, "MZ") && at+4 <= len(data) && begin(data[at:], "PE\x00\x00")
}

// inside names what is in a file.
func inside(outer, name string) string {
	const longest = 4 << 10
	name = path.Clean("/" + strings.ToValidUTF8(name, "\ufffd"))
	if len(name) > longest {
		name = strings.ToValidUTF8(name[:longest], "")
	}
	if len(outer) > 2*longest {
		outer = strings.ToValidUTF8(outer[:longest], "")
	}
	return outer + "!" + name
}
