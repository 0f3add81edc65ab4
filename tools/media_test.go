package tools

import (
	"bytes"
	"image"
	"image/color"
	"strings"
	"testing"

	"github.com/gabriel-vasile/mimetype"
)

// read_file says what a picture or a recording is, and who knows more.
func TestReadFileOfMedia(t *testing.T) {
	wave := makeWAV(12_000)
	seen, heard := "describe_image, where it is offered, says what it shows.\n", "transcribe_audio, where it is offered, writes down what is said in it.\n"
	for _, tc := range []struct {
		name string
		data []byte
		want string
	}{
		{"a.png", asPNG(t, quarters(40, 30)), "[a.png: picture; page 1 of 1]\ntype: png\nwidth: 40 pixels\nheight: 30 pixels\ncolours: 8 bits each\n" + seen},
		{"grey.png", asPNG(t, image.NewGray16(image.Rect(0, 0, 3, 2))), "colours: grey, 16 bits\n"},
		{"clear.png", asPNG(t, image.NewNRGBA(image.Rect(0, 0, 3, 2))), "colours: 8 bits each, with transparency\n"},
		{"a.gif", asGIF(t, quarters(40, 30)), "type: gif\nwidth: 40 pixels\nheight: 30 pixels\nframes: 2\n" + seen},
		{"palette.bmp", asBMP(t, image.NewPaletted(image.Rect(0, 0, 3, 2), color.Palette{red, green})), "colours: a palette of "},
		{"a.jpg", asJPEG(t, quarters(40, 30)), "type: jpeg\nwidth: 40 pixels\nheight: 30 pixels\ncolours: 8 bits each\n" + seen},
		{"a.bmp", asBMP(t, quarters(40, 30)), "type: bmp\nwidth: 40 pixels\n"},
		{"a.tiff", asTIFF(t, quarters(40, 30)), "type: tiff\nwidth: 40 pixels\n"},
		{"a.webp", asWebP(40, 30), "type: webp\nwidth: 40 pixels\n"},
		{"huge.png", pngOf(50_000, 50_000), "type: png\nwidth: 50000 pixels\n"},
		{"named.pdf", asPNG(t, quarters(4, 4)), "[named.pdf: picture, in spite of its name; page"},
		{"a.wav", wave, "[a.wav: recording; page 1 of 1]\ntype: audio/wav\nchannels: 1\nrate: 8000 samples a second\nbits of a sample: 8\nlength: 1.5 seconds\n" + heard},
		{"cut.wav", wave[:44+4000], "length: 0.5 seconds\n"},
		{"head.wav", wave[:36], "type: audio/wav\nchannels: 1\nrate: 8000 samples a second\nbits of a sample: 8\n" + heard},
		{"a.mp3", []byte("ID3\x04\x00\x00\x00\x00\x00\x0a" + strings.Repeat("\x00", 20)), "[a.mp3: recording; page 1 of 1]\ntype: audio/mpeg\n" + heard},
		{"cut.png", asPNG(t, quarters(40, 30))[:20], `error: cannot read "cut.png": it is a png picture that is cut off or damaged: `},
		{"drawing.svg", []byte(`<svg xmlns="http://www.w3.org/2000/svg"><text>1</text></svg>`), "[drawing.svg: text; page 1 of 1]\n<svg"},
	} {
		out := use(t, NewReadFile(Reader{}), workspace(t, map[string][]byte{tc.name: tc.data}), object{"path": tc.name})
		mustHold(t, tc.name, out.Shown, tc.want)
		if text, err := (Reader{}).Text(t.Context(), tc.name, tc.data); tc.name != "drawing.svg" && (text != string(tc.data) || err != nil) {
			t.Errorf("%s: what is probed is not the file, but %.100q, %v", tc.name, text, err)
		}
	}
	// The tools that know more cannot reach what is not in the workspace.
	web, mux := site(t, WebConfig{})
	serve(mux, "/gate.png", "image/png", 200, asPNG(t, quarters(4, 4)))
	mustHold(t, "a fetched picture", use(t, NewWebFetch(web), workspace(t, nil), object{"url": "http://almanac.example/gate.png"}).Shown, "it is of type image/png, which cannot be read")
}

func TestGIFFrames(t *testing.T) {
	whole := asGIF(t, quarters(40, 30))
	for n := range whole {
		if got := gifFrames(whole[:n]); got > 2 {
			t.Errorf("cut at %d: %d frames", n, got)
		}
	}
	frame := []byte("\x2c\x00\x00\x00\x00\xff\xff\xff\xff\x00\x02\x00")
	if got := gifFrames(append(append([]byte("GIF89a\xff\xff\xff\xff\x00\x00\x00"), bytes.Repeat(frame, 1000)...), ';')); got != 1000 {
		t.Errorf("%d frames", got)
	}
}

func FuzzAboutMedia(f *testing.F) {
	m := quarters(4, 4)
	for _, seed := range [][]byte{asPNG(f, m), asGIF(f, m), asJPEG(f, m), asBMP(f, m), asTIFF(f, m), asWebP(4, 4), makeWAV(8), []byte("RIFF\x00\x00\x00\x00WAVEfmt \xff\xff\xff\xff"), nil} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := aboutMedia(data, mimetype.Detect(data))
		if (err == nil) != strings.HasSuffix(doc.text, ".\n") || doc.text != strings.ToValidUTF8(doc.text, "") {
			t.Errorf("%q, %v", doc.text, err)
		}
	})
}
