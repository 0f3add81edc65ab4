package media

import (
	"bytes"
	"image"
	"image/png"
	"strings"
	"testing"

	"golang.org/x/image/tiff"
)

// TestFrames: pictures say of how many they are, by their structure.
func TestFrames(t *testing.T) {
	var still, page bytes.Buffer
	must(t, png.Encode(&still, image.NewGray(image.Rect(0, 0, 2, 2))))
	must(t, tiff.Encode(&page, image.NewGray(image.Rect(0, 0, 2, 2)), nil))
	moving := still.String()[:33] + "\x00\x00\x00\x08acTL\x00\x00\x00\x05\x00\x00\x00\x00crc!" + still.String()[33:]
	chunk := "ANMF\x03\x00\x00\x00abc\x00"
	directory := func(next string) string { return "\x00\x00" + next }
	for _, test := range []struct {
		name, data string
		want       int
	}{
		{"png", still.String(), 0}, {"png", moving, 5}, {"png", moving[:40], 0}, {"png", "", 0},
		{"webp", "RIFF\x00\x00\x00\x00WEBPVP8X\x02\x00\x00\x00ab" + chunk + chunk, 2}, {"webp", "RIFF", 0}, {"webp", "RIFF\x00\x00\x00\x00WEBPANMF\xff\xff\xff\xff", 1},
		{"tiff", page.String(), 0}, {"tiff", "II*\x00\x08\x00\x00\x00" + directory("\x0e\x00\x00\x00") + directory("\x14\x00\x00\x00") + directory("\x00\x00\x00\x00"), 3},
		{"tiff", "MM\x00*\x00\x00\x00\x08" + directory("\x00\x00\x00\x0e") + directory("\x00\x00\x00\x08"), 2}, {"tiff", "II*\x00\xff\xff\xff\xff", 0}, {"tiff", "II*", 0},
	} {
		if got, _ := (imageFormat{name: test.name}).frames([]byte(test.data)); got != test.want {
			t.Errorf("%s %q: %d, want %d", test.name, test.data, got, test.want)
		}
	}
	f, _ := FormatOf([]byte(moving))
	doc, err := f.about([]byte(moving))
	must(t, err)
	mustHold(t, "a png that moves", doc.Text, "frames: 5\n")
	if err := f.damaged(tiff.UnsupportedError("compression value 7")); !strings.Contains(err.Error(), "of a kind that cannot be decoded") {
		t.Error(err)
	}
}
