package media

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gabriel-vasile/mimetype"
	"github.com/gaia-harness/gaia/internal/testkit/files"
)

func TestGIFFrames(t *testing.T) {
	whole := files.AsGIF(t, files.Quarters(40, 30))
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
	m := files.Quarters(4, 4)
	for _, seed := range [][]byte{files.AsPNG(f, m), files.AsGIF(f, m), files.AsJPEG(f, m), files.AsBMP(f, m), files.AsTIFF(f, m), files.AsWebP(4, 4), files.MakeWAV(8), []byte("RIFF\x00\x00\x00\x00WAVEfmt \xff\xff\xff\xff"), nil} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := AboutMedia(data, mimetype.Detect(data))
		if (err == nil) != strings.HasSuffix(doc.Text, ".\n") || doc.Text != strings.ToValidUTF8(doc.Text, "") {
			t.Errorf("%q, %v", doc.Text, err)
		}
	})
}
