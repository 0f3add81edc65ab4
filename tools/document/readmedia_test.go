package document

import (
	"github.com/gaia-harness/gaia/internal/testkit/files"
	"image"
	"image/color"
	"strings"
	"testing"
)

// read_file says what a picture or a recording is, and who knows more.
func TestReadFileOfMedia(t *testing.T) {
	wave := files.MakeWAV(12_000)
	seen, heard := "describe_image, where it is offered, says what it shows.\n", "transcribe_audio, where it is offered, writes down what is said in it.\n"
	for _, tc := range []struct {
		name string
		data []byte
		want string
	}{
		{"a.png", files.AsPNG(t, files.Quarters(40, 30)), "[a.png: picture; page 1 of 1]\ntype: png\nwidth: 40 pixels\nheight: 30 pixels\ncolours: 8 bits each\n" + seen},
		{"grey.png", files.AsPNG(t, image.NewGray16(image.Rect(0, 0, 3, 2))), "colours: grey, 16 bits\n"},
		{"clear.png", files.AsPNG(t, image.NewNRGBA(image.Rect(0, 0, 3, 2))), "colours: 8 bits each, with transparency\n"},
		{"a.gif", files.AsGIF(t, files.Quarters(40, 30)), "type: gif\nwidth: 40 pixels\nheight: 30 pixels\nframes: 2\n" + seen},
		{"palette.bmp", files.AsBMP(t, image.NewPaletted(image.Rect(0, 0, 3, 2), color.Palette{files.Red, files.Green})), "colours: a palette of "},
		{"a.jpg", files.AsJPEG(t, files.Quarters(40, 30)), "type: jpeg\nwidth: 40 pixels\nheight: 30 pixels\ncolours: 8 bits each\n" + seen},
		{"a.bmp", files.AsBMP(t, files.Quarters(40, 30)), "type: bmp\nwidth: 40 pixels\n"},
		{"a.tiff", files.AsTIFF(t, files.Quarters(40, 30)), "type: tiff\nwidth: 40 pixels\n"},
		{"a.webp", files.AsWebP(40, 30), "type: webp\nwidth: 40 pixels\n"},
		{"huge.png", files.PngOf(50_000, 50_000), "type: png\nwidth: 50000 pixels\n"},
		{"named.pdf", files.AsPNG(t, files.Quarters(4, 4)), "[named.pdf: picture, in spite of its name; page"},
		{"a.wav", wave, "[a.wav: recording; page 1 of 1]\ntype: audio/wav\nchannels: 1\nrate: 8000 samples a second\nbits of a sample: 8\nlength: 1.5 seconds\n" + heard},
		{"cut.wav", wave[:44+4000], "length: 0.5 seconds\n"},
		{"head.wav", wave[:36], "type: audio/wav\nchannels: 1\nrate: 8000 samples a second\nbits of a sample: 8\n" + heard},
		{"a.mp3", []byte("ID3\x04\x00\x00\x00\x00\x00\x0a" + strings.Repeat("\x00", 20)), "[a.mp3: recording; page 1 of 1]\ntype: audio/mpeg\n" + heard},
		{"cut.png", files.AsPNG(t, files.Quarters(40, 30))[:20], `error: cannot read "cut.png": it is a png picture that is cut off or damaged: `},
		{"drawing.svg", []byte(`<svg xmlns="http://www.w3.org/2000/svg"><text>1</text></svg>`), "[drawing.svg: text; page 1 of 1]\n<svg"},
	} {
		out := use(t, NewReadFile(Reader{}), workspace(t, map[string][]byte{tc.name: tc.data}), object{"path": tc.name})
		mustHold(t, tc.name, out.Shown, tc.want)
		if text, err := (Reader{}).Text(t.Context(), tc.name, tc.data); tc.name != "drawing.svg" && (text != string(tc.data) || err != nil) {
			t.Errorf("%s: what is probed is not the file, but %.100q, %v", tc.name, text, err)
		}
	}
	// The tools that know more cannot reach what is not in the workspace.
}
