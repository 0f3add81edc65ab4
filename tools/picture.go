package tools

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"

	"github.com/gabriel-vasile/mimetype"
	"github.com/gaia-harness/gaia/internal/llm"
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

// PictureTokens is more than the usual endpoints count for a picture of the size
// that is sent.
const PictureTokens = 3000

// NewPicture makes a file fit to be shown to a model that sees, as a png, a jpeg
// or a webp. It goes by what the bytes are. A png, a jpeg or a webp within the
// limits is sent as it is, with all that it says of itself. What is larger, and
// every gif, bmp or tiff, is decoded, turned the way up that a jpeg or a tiff
// asks for, scaled to fit and encoded anew: a jpeg as jpeg, all else as png if
// that is not too large. Of a picture that moves, the first frame is sent. The
// text of an error, on why there is nothing to show, is for the model. A large
// photograph takes a few hundred megabytes for a moment.
func NewPicture(data []byte) (*llm.Image, error) {
	format, known := formatOf(data)
	switch {
	case len(data) == 0:
		return nil, unreadablef("it is empty (0 bytes)")
	case !known:
		return nil, unreadablef("it is of type %s, not a picture that can be shown; such are %s", kindOf(mimetype.Detect(data)), pictures)
	case len(data) > MaxPicture:
		return nil, unreadablef("it is larger than %d MiB", MaxPicture>>20)
	}
	return format.prepare(data)
}

// pictures are the kinds that can be shown, for messages.
const pictures = "png, jpeg, gif, webp, bmp and tiff"

// imageFormat is a kind of picture. magic is how it begins, where "?" stands
// for any byte; asIs says that it may be sent as it is.
type imageFormat struct {
	magic, name string
	asIs        bool
	config      func([]byte) (image.Config, error)
	decode      func([]byte) (image.Image, error)
}

// formatOf tells a picture by its first bytes. Some endpoints refuse a gif that
// moves, so none is sent as it is.
func formatOf(data []byte) (imageFormat, bool) {
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
		return nil, unreadablef("it is a jpeg picture of more than %d scans, which is too much to decode", maxScans)
	}
	pixels := int64(config.Width) * int64(config.Height)
	switch config.ColorModel {
	case color.RGBA64Model, color.NRGBA64Model, color.Gray16Model, color.Alpha16Model:
		pixels *= 2
	}
	if pixels > maxPixels || f.name == "jpeg" && jpegBytes(data, pixels) > maxJPEG || max(config.Width, config.Height) > maxLength {
		return nil, unreadablef("it is a %s picture of %d × %d pixels, which is too large to decode", f.name, config.Width, config.Height)
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
		return nil, unreadablef("it is a %s picture that cannot be made small enough", f.name)
	}
	return &llm.Image{MediaType: media, Data: small}, nil
}

// header reads what a picture says of itself before its pixels. A decoder that
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
		why = ": " + plain(err)
	}
	var inTIFF tiff.UnsupportedError
	var inJPEG jpeg.UnsupportedError
	var inPNG png.UnsupportedError
	if errors.As(err, &inTIFF) || errors.As(err, &inJPEG) || errors.As(err, &inPNG) || errors.Is(err, bmp.ErrUnsupported) {
		return unreadablef("it is a %s picture of a kind that cannot be decoded%s", f.name, why)
	}
	return unreadablef("it is a %s picture that is cut off or damaged%s", f.name, why)
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
