package tools

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/image/bmp"
	xdraw "golang.org/x/image/draw"
	"golang.org/x/image/tiff"

	"github.com/gaia-harness/gaia/internal/testkit/long"
)

var (
	red    = color.RGBA{220, 30, 30, 255}
	green  = color.RGBA{30, 200, 30, 255}
	blue   = color.RGBA{30, 30, 220, 255}
	yellow = color.RGBA{230, 220, 40, 255}
)

// quarters is a picture whose quarters are red, green, blue and yellow, in
// reading order.
func quarters(w, h int) *image.RGBA {
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for i, c := range []color.Color{red, green, blue, yellow} {
		x, y := i%2*(w/2), i/2*(h/2)
		draw.Draw(m, image.Rect(x, y, w, h), image.NewUniform(c), image.Point{}, draw.Src)
	}
	return m
}

// seen names the colours in the middle of each quarter, in reading order.
func seen(m image.Image) string {
	var names []string
	b := m.Bounds()
	for i := range 4 {
		x, y := b.Min.X+b.Dx()*(1+i%2*2)/4, b.Min.Y+b.Dy()*(1+i/2*2)/4
		got, name := color.RGBAModel.Convert(m.At(x, y)).(color.RGBA), "?"
		for n, c := range map[string]color.RGBA{"red": red, "green": green, "blue": blue, "yellow": yellow, "white": {255, 255, 255, 255}} {
			if near(got.R, c.R) && near(got.G, c.G) && near(got.B, c.B) && got.A == 255 {
				name = n
			}
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func near(a, b uint8) bool { return max(a, b)-min(a, b) < 12 }

func encoded(t testing.TB, write func(*bytes.Buffer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func asPNG(t testing.TB, m image.Image) []byte {
	return encoded(t, func(b *bytes.Buffer) error { return png.Encode(b, m) })
}

func asJPEG(t testing.TB, m image.Image) []byte {
	return encoded(t, func(b *bytes.Buffer) error { return jpeg.Encode(b, m, nil) })
}

func asBMP(t testing.TB, m image.Image) []byte {
	return encoded(t, func(b *bytes.Buffer) error { return bmp.Encode(b, m) })
}

func asTIFF(t testing.TB, m image.Image) []byte {
	return encoded(t, func(b *bytes.Buffer) error { return tiff.Encode(b, m, &tiff.Options{Compression: tiff.Deflate}) })
}

// asGIF is a gif that moves: the picture, and then nothing but red.
func asGIF(t testing.TB, m image.Image) []byte {
	colours := color.Palette{red, green, blue, yellow}
	first, second := image.NewPaletted(m.Bounds(), colours), image.NewPaletted(m.Bounds(), colours)
	draw.Draw(first, first.Bounds(), m, image.Point{}, draw.Src)
	return encoded(t, func(b *bytes.Buffer) error {
		return gif.EncodeAll(b, &gif.GIF{Image: []*image.Paletted{first, second}, Delay: []int{1, 1}})
	})
}

// asWebP is a lossless webp of one colour (red), of any size in 27 bytes.
func asWebP(w, h int) []byte {
	var bits []byte
	n := 0
	put := func(v uint32, count int) {
		for i := range count {
			if n%8 == 0 {
				bits = append(bits, 0)
			}
			bits[n/8] |= byte(v>>i&1) << (n % 8)
			n++
		}
	}
	put(0x2f, 8)
	put(uint32(w-1), 14)
	put(uint32(h-1), 14)
	put(0, 4) // alpha is not used; version 0
	put(0, 3) // no transform, no colour cache, one group of codes
	for _, v := range []uint8{red.G, red.R, red.B, 255} {
		put(0b101, 3) // a code of one symbol, which takes no bits
		put(uint32(v), 8)
	}
	put(0b001, 4) // distances: the symbol 0
	if len(bits)%2 == 1 {
		bits = append(bits, 0)
	}
	b := append([]byte("RIFF"), binary.LittleEndian.AppendUint32(nil, uint32(12+len(bits)))...)
	b = append(b, "WEBPVP8L"...)
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(bits))), bits...)
}

// noise is a picture that no encoder makes small.
func noise(w, h int) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	_, _ = rand.NewChaCha8([32]byte{}).Read(m.Pix)
	for i := 3; i < len(m.Pix); i += 4 {
		m.Pix[i] = 255
	}
	return m
}

// withExif is a jpeg that says how it is to be turned.
func withExif(jpeg []byte, tiff []byte) []byte {
	segment := append([]byte("Exif\x00\x00"), tiff...)
	b := append([]byte("\xff\xd8\xff\xff\xe1"), binary.BigEndian.AppendUint16(nil, uint16(2+len(segment)))...)
	return append(append(b, segment...), jpeg[2:]...)
}

// tags is the head of a tiff with entries of one number each, and behind it rest.
func tags(order binary.AppendByteOrder, entries [][2]int, rest string) []byte {
	b := []byte("II*\x00")
	if order.String() == binary.BigEndian.String() {
		b = []byte("MM\x00*")
	}
	b = order.AppendUint32(b, 8)
	b = order.AppendUint16(b, uint16(len(entries)))
	for _, e := range entries {
		b = order.AppendUint16(b, uint16(e[0]))
		b = order.AppendUint16(b, 3)
		b = order.AppendUint32(b, 1)
		b = order.AppendUint16(b, uint16(e[1]))
		b = append(b, 0, 0)
	}
	return append(append(b, 0, 0, 0, 0), rest...)
}

// picture is NewPicture in parts.
func picture(data []byte) (media string, sent []byte, ok bool) {
	p, err := NewPicture(data)
	if err != nil {
		return "", nil, false
	}
	return p.MediaType, p.Data, true
}

func TestPictureAsItIs(t *testing.T) {
	turned := withExif(asJPEG(t, quarters(60, 40)), tags(binary.BigEndian, [][2]int{{0x112, 6}}, ""))
	for media, files := range map[string][][]byte{
		"image/png":  {asPNG(t, quarters(40, 40)), asPNG(t, quarters(maxSide, 1)), append(asPNG(t, quarters(2, 2)), "and more"...)},
		"image/jpeg": {asJPEG(t, quarters(40, 40)), turned},
		"image/webp": {asWebP(1, 1), asWebP(maxSide, 16)},
	} {
		for i, data := range files {
			got, sent, ok := picture(data)
			if !ok || got != media || !bytes.Equal(sent, data) {
				t.Errorf("%s %d: %q, %d bytes of %d, %v", media, i, got, len(sent), len(data), ok)
			}
		}
	}
}

func TestPictureEncodedAnew(t *testing.T) {
	long.NotRaced(t)
	const inOrder = "red green blue yellow"
	for _, tc := range []struct {
		name, media string
		data        []byte
		w, h        int
		want        string
	}{
		{"gif that moves", "image/png", asGIF(t, quarters(40, 30)), 40, 30, inOrder},
		{"bmp", "image/png", asBMP(t, quarters(40, 30)), 40, 30, inOrder},
		{"tiff", "image/png", asTIFF(t, quarters(40, 30)), 40, 30, inOrder},
		{"wide png", "image/png", asPNG(t, quarters(4096, 64)), 2048, 32, inOrder},
		{"tall jpeg", "image/jpeg", asJPEG(t, quarters(100, 3000)), 68, 2048, inOrder},
		{"large webp", "image/png", asWebP(5000, 50), 2048, 20, "red red red red"},
		{"large gif", "image/png", asGIF(t, quarters(3000, 30)), 2048, 20, inOrder},
		{"16 bits", "image/png", asPNG(t, deep(quarters(2049, 30))), 2048, 29, inOrder},
		{"grey", "image/png", asPNG(t, image.NewGray16(image.Rect(0, 0, 3000, 30))), 2048, 20, "? ? ? ?"},
		{"thread", "image/png", asPNG(t, quarters(1, 9000)), 1, 2048, ""},
		{"many bytes", "image/png", append(asPNG(t, quarters(40, 30)), make([]byte, maxSent)...), 40, 30, inOrder},
		{"jpeg of many bytes", "image/jpeg", append(asJPEG(t, quarters(64, 64)), make([]byte, maxSent)...), 64, 64, inOrder},
	} {
		t.Run(tc.name, func(t *testing.T) {
			media, sent, ok := picture(tc.data)
			if !ok || media != tc.media || len(sent) > maxSent {
				t.Fatalf("%q, %d bytes, %v", media, len(sent), ok)
			}
			m, format, err := image.Decode(bytes.NewReader(sent))
			if err != nil || "image/"+format != media {
				t.Fatalf("%s: %v", format, err)
			}
			if m.Bounds().Dx() != tc.w || m.Bounds().Dy() != tc.h {
				t.Errorf("%v, want %d×%d", m.Bounds(), tc.w, tc.h)
			}
			if got := seen(m); tc.want != "" && got != tc.want {
				t.Errorf("it shows %s", got)
			}
		})
	}
}

func deep(m *image.RGBA) *image.RGBA64 {
	out := image.NewRGBA64(m.Bounds())
	draw.Draw(out, out.Bounds(), m, image.Point{}, draw.Src)
	return out
}

// What is too large as png becomes jpeg, on white, as bad as it must be.
func TestEncodeLimit(t *testing.T) {
	m := fit(noise(64, 64))
	draw.Draw(m, image.Rect(0, 0, 32, 32), image.Transparent, image.Point{}, draw.Src)
	sizes := map[int]int{}
	for _, quality := range []int{90, 75, 50} {
		flat := image.NewRGBA(m.Rect)
		draw.Draw(flat, flat.Rect, image.White, image.Point{}, draw.Src)
		draw.Draw(flat, flat.Rect, m, image.Point{}, draw.Over)
		sizes[quality] = len(encoded(t, func(b *bytes.Buffer) error { return jpeg.Encode(b, flat, &jpeg.Options{Quality: quality}) }))
	}
	whole := len(asPNG(t, m))
	for _, tc := range []struct {
		limit, size int
		lossy       bool
		media       string
	}{
		{whole, whole, false, "image/png"}, {whole - 1, sizes[90], false, "image/jpeg"}, {whole, sizes[90], true, "image/jpeg"},
		{sizes[90] - 1, sizes[75], false, "image/jpeg"}, {sizes[75] - 1, sizes[50], true, "image/jpeg"}, {sizes[50] - 1, 0, false, ""},
	} {
		media, sent, ok := encode(m, tc.lossy, tc.limit)
		if media != tc.media || len(sent) != tc.size || ok != (tc.media != "") {
			t.Errorf("within %d: %q, %d bytes, %v, want %d", tc.limit, media, len(sent), ok, tc.size)
		}
		if media == "image/jpeg" {
			if shown, err := jpeg.Decode(bytes.NewReader(sent)); err != nil || !strings.HasPrefix(seen(shown), "white ") {
				t.Errorf("within %d: not on white, %v", tc.limit, err)
			}
		}
	}
}

// Strips leave no seams: it is as if the picture were scaled at once.
func TestFitHasNoSeams(t *testing.T) {
	m := image.NewRGBA(image.Rect(3, 5, 2203, 205))
	for y := 5; y < 205; y++ {
		for x := 3; x < 2203; x++ {
			m.SetRGBA(x, y, color.RGBA{uint8(x / 12), uint8(y * 37), uint8((x + y) / 15), 255})
		}
	}
	got, want := fit(m), image.NewRGBA(image.Rect(0, 0, 2048, 186))
	xdraw.CatmullRom.Scale(want, want.Rect, m, m.Rect, draw.Src, nil)
	if got.Rect != want.Rect {
		t.Fatalf("size %v", got.Rect)
	}
	for i := range want.Pix {
		if d := max(got.Pix[i], want.Pix[i]) - min(got.Pix[i], want.Pix[i]); d > 3 { // rounding, twice
			t.Fatalf("pixel %d, %d differs by %d", i/4%2048, i/4/2048, d)
		}
	}
}

// A jpeg or tiff that is encoded anew loses what it said of its orientation, so
// it is turned.
func TestPictureOrientation(t *testing.T) {
	long.NotRaced(t)
	large := asJPEG(t, quarters(4096, 32))
	for o, want := range []string{
		0: "red green blue yellow", 1: "red green blue yellow", 2: "green red yellow blue", 3: "yellow blue green red", 4: "blue yellow red green",
		5: "red blue green yellow", 6: "blue red yellow green", 7: "yellow green blue red", 8: "green yellow red blue", 9: "red green blue yellow",
	} {
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			media, sent, ok := picture(withExif(large, tags(order, [][2]int{{0x10f, 7}, {0x112, o}, {0x128, 2}}, "")))
			if !ok || media != "image/jpeg" {
				t.Fatalf("orientation %d: %q, %v", o, media, ok)
			}
			m, err := jpeg.Decode(bytes.NewReader(sent))
			if err != nil {
				t.Fatal(err)
			}
			size := image.Pt(2048, 16)
			if o >= 5 && o <= 8 {
				size = image.Pt(16, 2048)
			}
			if got := seen(m); got != want || m.Bounds().Size() != size {
				t.Errorf("orientation %d, %s: %v shows %s, want %s", o, order, m.Bounds(), got, want)
			}
		}
	}

	// Two pixels beside each other, black and white, to be turned clockwise.
	entries := [][2]int{{256, 2}, {257, 1}, {258, 8}, {259, 1}, {262, 1}, {273, 0}, {274, 6}, {278, 1}, {279, 2}}
	entries[5][1] = 8 + 2 + 12*len(entries) + 4
	_, sent, ok := picture(tags(binary.LittleEndian, entries, "\x00\xff"))
	if !ok {
		t.Fatal("the tiff is refused")
	}
	m, err := png.Decode(bytes.NewReader(sent))
	if err != nil {
		t.Fatal(err)
	}
	if above, _, _, _ := m.At(0, 0).RGBA(); m.Bounds() != image.Rect(0, 0, 1, 2) || above != 0 {
		t.Errorf("%v, above is %d", m.Bounds(), above)
	}
}

// Directions that are not to be believed are no directions.
func TestOrientationDamaged(t *testing.T) {
	good := tags(binary.LittleEndian, [][2]int{{0x112, 3}}, "")
	if got := orientation(good); got != 3 {
		t.Fatalf("orientation %d", got)
	}
	for n := range len(good) {
		if got := orientation(good[:n]); got != 1 && n < 20 {
			t.Errorf("cut at %d: orientation %d", n, got)
		}
	}
	far := bytes.Clone(good)
	binary.LittleEndian.PutUint32(far[4:], 1<<32-1)
	long := bytes.Clone(good)
	long[8+2+2] = 4 // a number of another type
	jpeg := asJPEG(t, quarters(8, 8))
	for name, data := range map[string][]byte{
		"far away": far, "another type": long, "no jpeg": []byte("\xff\xd8"), "without": jpeg,
		"behind the pixels": append(bytes.Clone(jpeg), withExif(jpeg, good)[2:]...),
		"cut segment":       withExif(jpeg, good)[:20],
		"no size":           []byte("\xff\xd8\xff\xe1\x00\x01Exif\x00\x00"),
	} {
		if got := orientation(data); got != 1 {
			t.Errorf("%s: orientation %d", name, got)
		}
	}
}

// A few bytes can claim any size, and no decoder is asked for it.
func TestPictureRefuses(t *testing.T) {
	grow := func(data []byte, at int, size []byte) []byte {
		out := bytes.Clone(data)
		copy(out[at:], size)
		return out
	}
	small := quarters(8, 8)
	huge := bytes.Repeat([]byte{0x7f}, 8)
	frame := asJPEG(t, small)
	sof := bytes.Index(frame, []byte("\xff\xc0")) + 5
	for name, data := range map[string][]byte{
		"nothing":          nil,
		"text":             []byte("a picture, it says"),
		"svg":              []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`),
		"only a name":      []byte("\x89PNG\r\n\x1a\n"),
		"png of damage":    grow(asPNG(t, small), 45, huge),
		"webp bomb":        asWebP(16384, 16384),
		"webp, just over":  asWebP(10000, 5001),
		"gif bomb":         grow(asGIF(t, small), 6, []byte{0xff, 0xff, 0xff, 0xff}),
		"bmp bomb":         grow(asBMP(t, small), 18, []byte{0, 0, 1, 0, 0, 0, 1, 0}),
		"jpeg bomb":        grow(frame, sof, []byte{0xff, 0xff, 0xff, 0xff}),
		"jpeg, many scans": append(bytes.Clone(frame), strings.Repeat("\xff\xda", maxScans)...),
		"tiff bomb":        tags(binary.LittleEndian, [][2]int{{256, 60000}, {257, 60000}, {258, 8}, {259, 1}, {262, 1}, {273, 8}, {278, 60000}, {279, 8}}, ""),
		"png bomb":         pngOf(50_000, 50_000),
	} {
		if media, sent, ok := picture(data); ok || media != "" || sent != nil {
			t.Errorf("%s: %q, %d bytes", name, media, len(sent))
		}
		if strings.HasSuffix(name, "bomb") {
			f, _ := formatOf(data)
			if c, err := f.config(data); err != nil || c.Width*c.Height <= maxPixels {
				t.Errorf("%s is none: %v, %+v", name, err, c)
			}
		}
	}
	for name, data := range map[string][]byte{
		"png": asPNG(t, small), "jpeg": frame, "gif": asGIF(t, small)[:80], "bmp": asBMP(t, small), "tiff": asTIFF(t, small), "webp": asWebP(8, 8),
	} {
		if _, _, ok := picture(data[:len(data)/2]); ok {
			t.Errorf("half a %s is shown", name)
		}
	}
}

// pngOf is the head of a png that claims a size.
func pngOf(w, h uint32) []byte {
	b := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR")
	b = binary.BigEndian.AppendUint32(b, w)
	b = binary.BigEndian.AppendUint32(b, h)
	b = append(b, 8, 0, 0, 0, 0)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[12:]))
}

func TestPictureSurvivesDecoders(t *testing.T) {
	f, ok := formatOf(asPNG(t, quarters(8, 8)))
	if !ok {
		t.Fatal("a png is not known")
	}
	f.decode = func([]byte) (image.Image, error) { panic("index out of range") }
	if sent, err := f.prepare(asPNG(t, quarters(8, 8))); err == nil || sent != nil {
		t.Errorf("%+v", sent)
	}
	f.config = func([]byte) (image.Config, error) { panic("index out of range") }
	if c, err := f.header(asPNG(t, quarters(8, 8))); err == nil || c.Width != 0 {
		t.Errorf("%+v", c)
	}
}

// What is shown can be decoded by anyone, within the limits.
func FuzzPicture(f *testing.F) {
	m := quarters(20, 16)
	jpeg := withExif(asJPEG(f, m), tags(binary.BigEndian, [][2]int{{0x112, 6}}, ""))
	for _, seed := range [][]byte{asPNG(f, m), jpeg, asGIF(f, m), asBMP(f, m), asTIFF(f, m), asWebP(20, 16), asWebP(2100, 2),
		tags(binary.LittleEndian, [][2]int{{256, 2}, {257, 1}, {258, 8}, {259, 1}, {262, 1}, {273, 122}, {274, 6}, {278, 1}, {279, 2}}, "\x00\xff"), nil} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if format, ok := formatOf(data); ok {
			if c, err := format.config(data); err == nil && c.Width > 0 && c.Height > 1<<20/c.Width {
				t.Skip("takes long")
			}
		}
		media, sent, ok := picture(data)
		if !ok {
			if media != "" || sent != nil {
				t.Errorf("%q, %d bytes", media, len(sent))
			}
			return
		}
		shown, format, err := image.Decode(bytes.NewReader(sent))
		if err != nil || "image/"+format != media || len(sent) > maxSent {
			t.Fatalf("%q, %d bytes: %s, %v", media, len(sent), format, err)
		}
		if b := shown.Bounds(); b.Empty() || b.Dx() > maxSide || b.Dy() > maxSide {
			t.Errorf("size %v", b)
		}
		if again, same, ok := picture(sent); !ok || again != media || !bytes.Equal(same, sent) {
			t.Errorf("what is sent is not fit to be sent: %q, %v", again, ok)
		}
	})
}

// TestJPEGBytes: a jpeg counts by what its decoder lays out, not by its pixels alone.
func TestJPEGBytes(t *testing.T) {
	header := func(marker byte, side uint16, components ...byte) []byte {
		b := []byte{0xff, 0xd8, 0xff, 0xff, 0xe0, 0, 4, 1, 2, 0xff, marker, 0, byte(8 + 3*len(components)), 8, byte(side >> 8), byte(side), byte(side >> 8), byte(side), byte(len(components))}
		for i, sampling := range components {
			b = append(b, byte(i+1), sampling, 0)
		}
		return append(b, 0xff, 0xda, 0, 2)
	}
	const worst = 24
	for _, test := range []struct {
		name string
		data []byte
		want int64 // of 100 pixels
	}{
		{"grey", header(0xc0, 10, 0x11), 100}, {"usual", header(0xc0, 10, 0x22, 0x11, 0x11), 150}, {"fine", header(0xc1, 10, 0x11, 0x11, 0x11), 300},
		{"progressive", header(0xc2, 10, 0x22, 0x11, 0x11), 750}, {"progressive ink", header(0xc2, 10, 0x11, 0x11, 0x11, 0x11), 2400}, {"ink", header(0xc0, 10, 0x11, 0x11, 0x11, 0x11), 800},
		{"no sampling", header(0xc2, 10, 0, 0, 0), 100 * worst}, {"no frame", []byte("\xff\xd8\xff\xda"), 100 * worst}, {"cut off", header(0xc2, 10, 0x11)[:15], 100 * worst}, {"nothing", nil, 100 * worst},
	} {
		if got := jpegBytes(test.data, 100); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
	_, err := NewPicture(header(0xc2, 7000, 0x11, 0x11, 0x11, 0x11))
	if err == nil || !strings.Contains(err.Error(), "7000 × 7000 pixels, which is too large to decode") {
		t.Error(err)
	}
	var photograph bytes.Buffer
	must(t, jpeg.Encode(&photograph, image.NewYCbCr(image.Rect(0, 0, 64, 64), image.YCbCrSubsampleRatio420), nil))
	if got := jpegBytes(photograph.Bytes(), 64*64); got != 64*64*3/2 {
		t.Errorf("an encoded picture counts as %d bytes", got)
	}
}
