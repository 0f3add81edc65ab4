package media

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	xdraw "golang.org/x/image/draw"

	"github.com/gaia-harness/gaia/internal/testkit/files"
	"github.com/gaia-harness/gaia/internal/testkit/long"
)

// picture is NewPicture in parts.
func picture(data []byte) (media string, sent []byte, ok bool) {
	p, err := NewPicture(data)
	if err != nil {
		return "", nil, false
	}
	return p.MediaType, p.Data, true
}

func TestPictureAsItIs(t *testing.T) {
	turned := files.WithExif(files.AsJPEG(t, files.Quarters(60, 40)), files.Tags(binary.BigEndian, [][2]int{{0x112, 6}}, ""))
	for media, files := range map[string][][]byte{
		"image/png":  {files.AsPNG(t, files.Quarters(40, 40)), files.AsPNG(t, files.Quarters(maxSide, 1)), append(files.AsPNG(t, files.Quarters(2, 2)), "and more"...)},
		"image/jpeg": {files.AsJPEG(t, files.Quarters(40, 40)), turned},
		"image/webp": {files.AsWebP(1, 1), files.AsWebP(maxSide, 16)},
	} {
		for i, data := range files {
			got, sent, ok := picture(data)
			if !ok || got != media || !bytes.Equal(sent, data) {
				t.Errorf("%s %d: %q, %d bytes of %d, %v", media, i, got, len(sent), len(data), ok)
			}
		}
	}
}

func TestPictureEncodedAgain(t *testing.T) {
	long.NotRaced(t)
	const inOrder = "red green blue yellow"
	for _, tc := range []struct {
		name, media string
		data        []byte
		w, h        int
		want        string
	}{
		{"gif that moves", "image/png", files.AsGIF(t, files.Quarters(40, 30)), 40, 30, inOrder},
		{"bmp", "image/png", files.AsBMP(t, files.Quarters(40, 30)), 40, 30, inOrder},
		{"tiff", "image/png", files.AsTIFF(t, files.Quarters(40, 30)), 40, 30, inOrder},
		{"wide png", "image/png", files.AsPNG(t, files.Quarters(4096, 64)), 2048, 32, inOrder},
		{"tall jpeg", "image/jpeg", files.AsJPEG(t, files.Quarters(100, 3000)), 68, 2048, inOrder},
		{"large webp", "image/png", files.AsWebP(5000, 50), 2048, 20, "red red red red"},
		{"large gif", "image/png", files.AsGIF(t, files.Quarters(3000, 30)), 2048, 20, inOrder},
		{"16 bits", "image/png", files.AsPNG(t, deep(files.Quarters(2049, 30))), 2048, 29, inOrder},
		{"grey", "image/png", files.AsPNG(t, image.NewGray16(image.Rect(0, 0, 3000, 30))), 2048, 20, "? ? ? ?"},
		{"thread", "image/png", files.AsPNG(t, files.Quarters(1, 9000)), 1, 2048, ""},
		{"many bytes", "image/png", append(files.AsPNG(t, files.Quarters(40, 30)), make([]byte, maxSent)...), 40, 30, inOrder},
		{"jpeg of many bytes", "image/jpeg", append(files.AsJPEG(t, files.Quarters(64, 64)), make([]byte, maxSent)...), 64, 64, inOrder},
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
			if got := files.Seen(m); tc.want != "" && got != tc.want {
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
	m := fit(files.Noise(64, 64))
	draw.Draw(m, image.Rect(0, 0, 32, 32), image.Transparent, image.Point{}, draw.Src)
	sizes := map[int]int{}
	for _, quality := range []int{90, 75, 50} {
		flat := image.NewRGBA(m.Rect)
		draw.Draw(flat, flat.Rect, image.White, image.Point{}, draw.Src)
		draw.Draw(flat, flat.Rect, m, image.Point{}, draw.Over)
		sizes[quality] = len(files.Encoded(t, func(b *bytes.Buffer) error { return jpeg.Encode(b, flat, &jpeg.Options{Quality: quality}) }))
	}
	whole := len(files.AsPNG(t, m))
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
			if shown, err := jpeg.Decode(bytes.NewReader(sent)); err != nil || !strings.HasPrefix(files.Seen(shown), "white ") {
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

// A jpeg or tiff that is encoded again loses what it said of its orientation, so
// it is turned.
func TestPictureOrientation(t *testing.T) {
	long.NotRaced(t)
	large := files.AsJPEG(t, files.Quarters(4096, 32))
	for o, want := range []string{
		0: "red green blue yellow", 1: "red green blue yellow", 2: "green red yellow blue", 3: "yellow blue green red", 4: "blue yellow red green",
		5: "red blue green yellow", 6: "blue red yellow green", 7: "yellow green blue red", 8: "green yellow red blue", 9: "red green blue yellow",
	} {
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			media, sent, ok := picture(files.WithExif(large, files.Tags(order, [][2]int{{0x10f, 7}, {0x112, o}, {0x128, 2}}, "")))
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
			if got := files.Seen(m); got != want || m.Bounds().Size() != size {
				t.Errorf("orientation %d, %s: %v shows %s, want %s", o, order, m.Bounds(), got, want)
			}
		}
	}

	// Two pixels beside each other, black and white, to be turned clockwise.
	entries := [][2]int{{256, 2}, {257, 1}, {258, 8}, {259, 1}, {262, 1}, {273, 0}, {274, 6}, {278, 1}, {279, 2}}
	entries[5][1] = 8 + 2 + 12*len(entries) + 4
	_, sent, ok := picture(files.Tags(binary.LittleEndian, entries, "\x00\xff"))
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
	good := files.Tags(binary.LittleEndian, [][2]int{{0x112, 3}}, "")
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
	jpeg := files.AsJPEG(t, files.Quarters(8, 8))
	for name, data := range map[string][]byte{
		"far away": far, "another type": long, "no jpeg": []byte("\xff\xd8"), "without": jpeg,
		"behind the pixels": append(bytes.Clone(jpeg), files.WithExif(jpeg, good)[2:]...),
		"cut segment":       files.WithExif(jpeg, good)[:20],
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
	small := files.Quarters(8, 8)
	huge := bytes.Repeat([]byte{0x7f}, 8)
	frame := files.AsJPEG(t, small)
	sof := bytes.Index(frame, []byte("\xff\xc0")) + 5
	for name, data := range map[string][]byte{
		"nothing":          nil,
		"text":             []byte("a picture, it says"),
		"svg":              []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`),
		"only a name":      []byte("\x89PNG\r\n\x1a\n"),
		"png of damage":    grow(files.AsPNG(t, small), 45, huge),
		"webp bomb":        files.AsWebP(16384, 16384),
		"webp, just over":  files.AsWebP(10000, 5001),
		"gif bomb":         grow(files.AsGIF(t, small), 6, []byte{0xff, 0xff, 0xff, 0xff}),
		"bmp bomb":         grow(files.AsBMP(t, small), 18, []byte{0, 0, 1, 0, 0, 0, 1, 0}),
		"jpeg bomb":        grow(frame, sof, []byte{0xff, 0xff, 0xff, 0xff}),
		"jpeg, many scans": append(bytes.Clone(frame), strings.Repeat("\xff\xda", maxScans)...),
		"tiff bomb":        files.Tags(binary.LittleEndian, [][2]int{{256, 60000}, {257, 60000}, {258, 8}, {259, 1}, {262, 1}, {273, 8}, {278, 60000}, {279, 8}}, ""),
		"png bomb":         files.PngOf(50_000, 50_000),
	} {
		if media, sent, ok := picture(data); ok || media != "" || sent != nil {
			t.Errorf("%s: %q, %d bytes", name, media, len(sent))
		}
		if strings.HasSuffix(name, "bomb") {
			f, _ := FormatOf(data)
			if c, err := f.config(data); err != nil || c.Width*c.Height <= maxPixels {
				t.Errorf("%s is none: %v, %+v", name, err, c)
			}
		}
	}
	for name, data := range map[string][]byte{
		"png": files.AsPNG(t, small), "jpeg": frame, "gif": files.AsGIF(t, small)[:80], "bmp": files.AsBMP(t, small), "tiff": files.AsTIFF(t, small), "webp": files.AsWebP(8, 8),
	} {
		if _, _, ok := picture(data[:len(data)/2]); ok {
			t.Errorf("half a %s is shown", name)
		}
	}
}

func TestPictureSurvivesDecoders(t *testing.T) {
	f, ok := FormatOf(files.AsPNG(t, files.Quarters(8, 8)))
	if !ok {
		t.Fatal("a png is not known")
	}
	f.decode = func([]byte) (image.Image, error) { panic("index out of range") }
	if sent, err := f.prepare(files.AsPNG(t, files.Quarters(8, 8))); err == nil || sent != nil {
		t.Errorf("%+v", sent)
	}
	f.config = func([]byte) (image.Config, error) { panic("index out of range") }
	if c, err := f.header(files.AsPNG(t, files.Quarters(8, 8))); err == nil || c.Width != 0 {
		t.Errorf("%+v", c)
	}
}

// What is shown can be decoded by anyone, within the limits.
func FuzzPicture(f *testing.F) {
	m := files.Quarters(20, 16)
	jpeg := files.WithExif(files.AsJPEG(f, m), files.Tags(binary.BigEndian, [][2]int{{0x112, 6}}, ""))
	for _, seed := range [][]byte{files.AsPNG(f, m), jpeg, files.AsGIF(f, m), files.AsBMP(f, m), files.AsTIFF(f, m), files.AsWebP(20, 16), files.AsWebP(2100, 2),
		files.Tags(binary.LittleEndian, [][2]int{{256, 2}, {257, 1}, {258, 8}, {259, 1}, {262, 1}, {273, 122}, {274, 6}, {278, 1}, {279, 2}}, "\x00\xff"), nil} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if format, ok := FormatOf(data); ok {
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
