package media

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"iter"
	"slices"

	"github.com/gabriel-vasile/mimetype"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/tools"
	"golang.org/x/image/bmp"
	"golang.org/x/image/draw"
	"golang.org/x/image/tiff"
	"golang.org/x/image/webp"
)

// Limits of a picture. Endpoints take more bytes than are sent, and look at no
// more pixels: they scale to about 2,000 a side, or fewer.
const (
	maxSent   = 4 << 20    // bytes of a picture that is sent
	maxSide   = 2048       // pixels of one that is sent
	maxPixels = 50_000_000 // of one that is decoded; of one with 16 bits a colour, half as many
	maxLength = 32_768     // pixels of a side of one that is decoded: the scaler has weights for each
	maxJPEG   = 400 << 20  // bytes that decoding a jpeg lays out: a progressive one keeps four for each sample
	maxScans  = 100        // of a jpeg that is decoded: each is a pass over all of its pixels
)

// MaxPicture bounds the files, in bytes, that are looked at as pictures.
const MaxPicture = 32 << 20

// NewPicture makes a file fit to be shown to a model that sees, as a png, a jpeg
// or a webp. It goes by what the bytes are. A png, a jpeg or a webp within the
// limits is sent as it is, with its metadata. What is larger, and
// every gif, bmp or tiff, is decoded, turned the way up that a jpeg or a tiff
// asks for, scaled to fit and encoded again: a jpeg as jpeg, all else as png if
// that is not too large. Of a picture that moves, the first frame is sent. The
// text of an error, on why there is nothing to show, is for the model. A large
// photograph takes a few hundred megabytes for a moment.
func NewPicture(data []byte) (*llm.Image, error) {
	format, known := FormatOf(data)
	switch {
	case len(data) == 0:
		return nil, tools.Unreadablef("it is empty (0 bytes)")
	case !known:
		return nil, tools.Unreadablef("it is of type %s, not a picture that can be shown; such are %s", kindOf(mimetype.Detect(data)), pictures)
	case len(data) > MaxPicture:
		return nil, tools.Unreadablef("it is larger than %d MiB", MaxPicture>>20)
	}
	return format.prepare(data)
}

// pictures are the kinds that can be shown, for messages.
const pictures = "png, jpeg, gif, webp, bmp and tiff"

// imageFormat is a kind of picture. magic is how it begins, where "?" is
// any byte; asIs says that it may be sent as it is.
type imageFormat struct {
	magic, name string
	asIs        bool
	config      func([]byte) (image.Config, error)
	decode      func([]byte) (image.Image, error)
}

// FormatOf recognises a picture by its first bytes. Some endpoints refuse a gif that
// moves, so none is sent as it is.
func FormatOf(data []byte) (imageFormat, bool) {
	for _, f := range []imageFormat{
		{"\x89PNG\r\n\x1a\n", "png", true, reading(png.DecodeConfig), reading(png.Decode)},
		{"\xff\xd8\xff", "jpeg", true, reading(jpeg.DecodeConfig), reading(jpeg.Decode)},
		{"RIFF????WEBPVP8", "webp", true, reading(webp.DecodeConfig), reading(webp.Decode)},
		{"GIF8?a", "gif", false, reading(gif.DecodeConfig), reading(gif.Decode)},
		{"BM????\x00\x00\x00\x00", "bmp", false, reading(bmp.DecodeConfig), reading(bmp.Decode)},
		{"II*\x00", "tiff", false, reading(tiff.DecodeConfig), reading(tiff.Decode)},
		{"MM\x00*", "tiff", false, reading(tiff.DecodeConfig), reading(tiff.Decode)},
	} {
		if begins(data, f.magic) {
			return f, true
		}
	}
	return imageFormat{}, false
}

// prepare is NewPicture for data of this kind.
func (f imageFormat) prepare(data []byte) (sent *llm.Image, err error) {
	defer func() {
		if recover() != nil {
			sent, err = nil, f.damaged(nil)
		}
	}()
	config, err := f.header(data)
	if err != nil {
		return nil, err
	}
	if f.name == "jpeg" && bytes.Count(data, []byte("\xff\xda")) > maxScans {
		return nil, tools.Unreadablef("it is a jpeg picture of more than %d scans, which is too much to decode", maxScans)
	}
	pixels := int64(config.Width) * int64(config.Height)
	switch config.ColorModel {
	case color.RGBA64Model, color.NRGBA64Model, color.Gray16Model, color.Alpha16Model:
		pixels *= 2
	}
	if pixels > maxPixels || f.name == "jpeg" && jpegBytes(data, pixels) > maxJPEG || max(config.Width, config.Height) > maxLength {
		return nil, tools.Unreadablef("it is a %s picture of %d × %d pixels, which is too large to decode", f.name, config.Width, config.Height)
	}
	// Also what is sent as it is: an endpoint refuses a damaged picture, and the question with it.
	decoded, err := f.decode(data)
	if err != nil {
		return nil, f.damaged(err)
	}
	if f.asIs && len(data) <= maxSent && config.Width <= maxSide && config.Height <= maxSide {
		return &llm.Image{MediaType: "image/" + f.name, Data: data}, nil
	}
	media, small, ok := encode(upright(fit(decoded), orientation(data)), f.name == "jpeg", maxSent)
	if !ok {
		return nil, tools.Unreadablef("it is a %s picture that cannot be made small enough", f.name)
	}
	return &llm.Image{MediaType: media, Data: small}, nil
}

// header reads the part of a picture before its pixels. A decoder that
// panics has met a damaged file like any other.
func (f imageFormat) header(data []byte) (config image.Config, err error) {
	defer func() {
		if recover() != nil {
			err = f.damaged(nil)
		}
	}()
	config, err = f.config(data)
	if err == nil && (config.Width <= 0 || config.Height <= 0) {
		err = errors.New("it has no pixels")
	}
	if err != nil {
		return image.Config{}, f.damaged(err)
	}
	return config, nil
}

func (f imageFormat) damaged(err error) error {
	why := ""
	if err != nil {
		why = ": " + tools.Plain(err)
	}
	if errors.As(err, new(tiff.UnsupportedError)) || errors.As(err, new(jpeg.UnsupportedError)) || errors.As(err, new(png.UnsupportedError)) || errors.Is(err, bmp.ErrUnsupported) {
		return tools.Unreadablef("it is a %s picture of a kind that cannot be decoded%s", f.name, why)
	}
	return tools.Unreadablef("it is a %s picture that is cut off or damaged%s", f.name, why)
}

func reading[T any](from func(io.Reader) (T, error)) func([]byte) (T, error) {
	return func(data []byte) (T, error) { return from(bytes.NewReader(data)) }
}

func begins(data []byte, magic string) bool {
	if len(data) < len(magic) {
		return false
	}
	for i := range len(magic) {
		if magic[i] != '?' && magic[i] != data[i] {
			return false
		}
	}
	return true
}

// fit copies a picture, scaled down if a side is longer than maxSide. It scales
// across and then down, a strip at a time: the scaler takes 32 bytes for each
// pixel of what it has done half, which is a lot for a whole photograph.
func fit(m image.Image) *image.RGBA {
	from := m.Bounds()
	w, h := from.Dx(), from.Dy()
	if longest := max(w, h); longest > maxSide {
		w, h = max(1, w*maxSide/longest), max(1, h*maxSide/longest)
	}
	out := image.NewRGBA(image.Rect(0, 0, w, h))
	if out.Rect.Size() == from.Size() {
		draw.Draw(out, out.Rect, m, from.Min, draw.Src)
		return out
	}
	const strip = 64
	narrow := image.NewRGBA(image.Rect(0, 0, w, from.Dy()))
	for y := 0; y < from.Dy(); y += strip {
		rows := image.Rect(0, y, w, min(y+strip, from.Dy()))
		draw.CatmullRom.Scale(narrow, rows, m, image.Rect(from.Min.X, from.Min.Y+rows.Min.Y, from.Max.X, from.Min.Y+rows.Max.Y), draw.Src, nil)
	}
	for x := 0; x < w; x += strip {
		to := min(x+strip, w)
		draw.CatmullRom.Scale(out, image.Rect(x, 0, to, h), narrow, image.Rect(x, 0, to, from.Dy()), draw.Src, nil)
	}
	return out
}

// encode writes m in at most limit bytes: as png, or as jpeg on white if that is
// asked for or the png is too large.
func encode(m *image.RGBA, lossy bool, limit int) (media string, sent []byte, ok bool) {
	var b bytes.Buffer
	if !lossy {
		if err := png.Encode(&b, m); err == nil && b.Len() <= limit {
			return "image/png", b.Bytes(), true
		}
	}
	if !m.Opaque() {
		flat := image.NewRGBA(m.Rect)
		draw.Draw(flat, flat.Rect, image.White, image.Point{}, draw.Src)
		draw.Draw(flat, flat.Rect, m, image.Point{}, draw.Over)
		m = flat
	}
	for _, quality := range []int{90, 75, 50} {
		b.Reset()
		if err := jpeg.Encode(&b, m, &jpeg.Options{Quality: quality}); err == nil && b.Len() <= limit {
			return "image/jpeg", b.Bytes(), true
		}
	}
	return "", nil, false
}

// frames counts what a picture of this kind shows one after the other, by its
// structure, and says what they are; 0 where it is one picture.
func (f imageFormat) frames(data []byte) (count int, what string) {
	switch f.name {
	case "gif":
		return gifFrames(data), "frames"
	case "png":
		return pngFrames(data), "frames"
	case "webp":
		for c := range riffChunks(data, "WEBP") {
			if c.id == "ANMF" {
				count++
			}
		}
		return count, "frames"
	case "tiff":
		if n := tiffPages(data); n > 1 {
			return n, "pages"
		}
	}
	return 0, ""
}

// pngFrames is what a png that moves says before its pixels.
func pngFrames(data []byte) int {
	for rest := skipped(data, 8); len(rest) >= 12; {
		size := int64(binary.BigEndian.Uint32(rest))
		switch kind := string(rest[4:8]); {
		case kind == "acTL":
			return int(binary.BigEndian.Uint32(rest[8:]))
		case kind == "IDAT" || size > int64(len(rest)):
			return 0
		}
		rest = skipped(rest, int(size)+12)
	}
	return 0
}

// tiffStart returns the byte order of a tiff and the place of its first directory;
// 0 for other files.
func tiffStart(data []byte) (order binary.ByteOrder, at int64) {
	order = binary.LittleEndian
	switch {
	case len(data) < 8:
		return order, 0
	case bytes.HasPrefix(data, []byte("MM\x00*")):
		order = binary.BigEndian
	case !bytes.HasPrefix(data, []byte("II*\x00")):
		return order, 0
	}
	return order, int64(order.Uint32(data[4:]))
}

// tiffPages counts the directories of a tiff, each of which leads to the next.
// Those that lead back end it.
func tiffPages(data []byte) (pages int) {
	seen := map[int64]bool{}
	for order, at := tiffStart(data); at > 0 && at+2 <= int64(len(data)); pages++ {
		next := at + 2 + 12*int64(order.Uint16(data[at:]))
		if seen[at] {
			return pages
		}
		if next+4 > int64(len(data)) {
			return pages + 1
		}
		seen[at] = true
		at = int64(order.Uint32(data[next:]))
	}
	return pages
}

// jpegBytes is what decoding a jpeg of that many pixels lays out, by its header:
// its samples, the coefficients of all of them if it is progressive, and its
// pixels once more if it is of four inks. A header that is not understood counts
// as the worst.
func jpegBytes(data []byte, pixels int64) int64 {
	worst := pixels * (4*5 + 4)
	for marker, frame := range jpegSegments(data) {
		if marker < 0xc0 || marker > 0xc2 {
			continue
		}
		if len(frame) < 6 || len(frame) < 6+3*int(frame[5]) {
			return worst
		}
		var all, most int64 // samples of a block of pixels, and of its finest component
		for c := frame[6 : 6+3*int(frame[5])]; len(c) > 0; c = c[3:] {
			samples := int64(c[1]>>4) * int64(c[1]&15)
			all, most = all+samples, max(most, samples)
		}
		if most == 0 {
			return worst
		}
		bytes := pixels * all / most
		if marker == 0xc2 { // progressive
			bytes = pixels * all * 5 / most
		}
		if frame[5] == 4 {
			bytes += 4 * pixels
		}
		return bytes
	}
	return worst
}

// jpegSegments yields the marker and the body of each part of a jpeg before its
// pixels, as far as it is whole.
func jpegSegments(data []byte) iter.Seq2[byte, []byte] {
	return func(yield func(byte, []byte) bool) {
		for rest := skipped(data, 2); len(rest) >= 4 && rest[0] == 0xff; {
			marker := rest[1]
			switch {
			case marker == 0xff: // filling
				rest = rest[1:]
				continue
			case marker == 0x01 || marker >= 0xd0 && marker <= 0xd7: // has no body
				rest = rest[2:]
				continue
			}
			size := int(binary.BigEndian.Uint16(rest[2:]))
			if marker == 0xda || size < 2 || len(rest) < 2+size || !yield(marker, rest[4:2+size]) {
				return
			}
			rest = rest[2+size:]
		}
	}
}

// orientation reads how the pixels of a jpeg (from its Exif data, which has the form of
// a tiff) or of a tiff are to be turned: 1 to 8 as in the TIFF specification, 1 for not
// at all. That of other formats is not read.
func orientation(data []byte) int {
	if bytes.HasPrefix(data, []byte("\xff\xd8")) {
		jpeg := data
		data = nil
		for marker, body := range jpegSegments(jpeg) {
			if exif, found := bytes.CutPrefix(body, []byte("Exif\x00\x00")); found && marker == 0xe1 {
				data = exif
				break
			}
		}
	}
	order, at := tiffStart(data)
	if at == 0 || at+2 > int64(len(data)) {
		return 1
	}
	const tag, short = 0x0112, 3
	entries := data[at+2:]
	for range order.Uint16(data[at:]) {
		if len(entries) < 12 {
			return 1
		}
		if order.Uint16(entries) == tag && order.Uint16(entries[2:]) == short {
			if o := int(order.Uint16(entries[8:])); o >= 1 && o <= 8 {
				return o
			}
			return 1
		}
		entries = entries[12:]
	}
	return 1
}

// upright turns and mirrors m as its orientation says.
func upright(m *image.RGBA, orientation int) *image.RGBA {
	if orientation <= 1 || orientation > 8 {
		return m
	}
	right, low := m.Bounds().Dx()-1, m.Bounds().Dy()-1
	turned := orientation >= 5
	mirrored := slices.Contains([]int{2, 3, 7, 8}, orientation)
	upsideDown := slices.Contains([]int{3, 4, 6, 7}, orientation)
	size := image.Rect(0, 0, right+1, low+1)
	if turned {
		size = image.Rect(0, 0, low+1, right+1)
	}
	out := image.NewRGBA(size)
	for y := range size.Dy() {
		for x := range size.Dx() {
			fromX, fromY := x, y
			if turned {
				fromX, fromY = y, x
			}
			if mirrored {
				fromX = right - fromX
			}
			if upsideDown {
				fromY = low - fromY
			}
			out.SetRGBA(x, y, m.RGBAAt(fromX, fromY))
		}
	}
	return out
}
