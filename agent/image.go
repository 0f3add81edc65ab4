package agent

import (
	"bytes"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"

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
	maxScans  = 100        // of a jpeg that is decoded: each is a pass over all of its pixels
)

// MaxPicture bounds the files, in bytes, that are looked at as pictures.
const MaxPicture = 32 << 20

// Picture is what a model that sees is shown with a question.
type Picture struct {
	MediaType string // image/png, image/jpeg or image/webp
	Data      []byte
}

// NewPicture makes a file fit to be shown, or returns nil: see picture. A large
// photograph takes a few hundred megabytes for a moment.
func NewPicture(data []byte) *Picture {
	media, sent, ok := picture(data)
	if !ok {
		return nil
	}
	return &Picture{MediaType: media, Data: sent}
}

// picture makes a file fit to be shown to a model that sees; media is
// image/png, image/jpeg or image/webp. It goes by what the bytes are. A png, a
// jpeg or a webp within the limits is sent as it is, with all that it says of
// itself. What is larger, and every gif, bmp or tiff, is decoded, turned the way
// up that a jpeg or a tiff asks for, scaled to fit and encoded anew: a jpeg as
// jpeg, all else as png if that is not too large. Of a picture that moves, the
// first frame is sent. ok is false for what is no picture, is damaged, or is too
// large to be decoded; then there is nothing to show.
func picture(data []byte) (media string, sent []byte, ok bool) {
	format, known := formatOf(data)
	if !known {
		return "", nil, false
	}
	return format.prepare(data)
}

// imageFormat is a kind of picture. magic is how it begins, where "?" stands
// for any byte; media is "" for one that is never sent as it is.
type imageFormat struct {
	magic, media string
	config       func([]byte) (image.Config, error)
	decode       func([]byte) (image.Image, error)
}

// formatOf tells a picture by its first bytes. Some endpoints refuse a gif that
// moves, so none is sent as it is.
func formatOf(data []byte) (imageFormat, bool) {
	for _, f := range []imageFormat{
		{"\x89PNG\r\n\x1a\n", "image/png", reading(png.DecodeConfig), reading(png.Decode)},
		{"\xff\xd8\xff", "image/jpeg", reading(jpeg.DecodeConfig), reading(jpeg.Decode)},
		{"RIFF????WEBPVP8", "image/webp", reading(webp.DecodeConfig), reading(webp.Decode)},
		{"GIF8?a", "", reading(gif.DecodeConfig), reading(gif.Decode)},
		{"BM????\x00\x00\x00\x00", "", reading(bmp.DecodeConfig), reading(bmp.Decode)},
		{"II*\x00", "", reading(tiff.DecodeConfig), reading(tiff.Decode)},
		{"MM\x00*", "", reading(tiff.DecodeConfig), reading(tiff.Decode)},
	} {
		if begins(data, f.magic) {
			return f, true
		}
	}
	return imageFormat{}, false
}

// prepare is picture for data of this kind. A decoder that panics has met a
// damaged file like any other.
func (f imageFormat) prepare(data []byte) (media string, sent []byte, ok bool) {
	defer func() {
		if recover() != nil {
			media, sent, ok = "", nil, false
		}
	}()
	if f.media == "image/jpeg" && bytes.Count(data, []byte("\xff\xda")) > maxScans {
		return "", nil, false
	}
	config, err := f.config(data)
	if err != nil || config.Width <= 0 || config.Height <= 0 || max(config.Width, config.Height) > maxLength {
		return "", nil, false
	}
	pixels := int64(config.Width) * int64(config.Height)
	switch config.ColorModel {
	case color.RGBA64Model, color.NRGBA64Model, color.Gray16Model, color.Alpha16Model:
		pixels *= 2
	}
	if pixels > maxPixels {
		return "", nil, false
	}
	// Also what is sent as it is: an endpoint refuses a damaged picture, and the question with it.
	decoded, err := f.decode(data)
	if err != nil {
		return "", nil, false
	}
	if f.media != "" && len(data) <= maxSent && config.Width <= maxSide && config.Height <= maxSide {
		return f.media, data, true
	}
	return encode(upright(fit(decoded), orientation(data)), f.media == "image/jpeg", maxSent)
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
