package preflight

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"
)

// square returns a picture of one colour that is large enough for every endpoint.
func square() []byte {
	const side = 64
	picture := image.NewRGBA(image.Rect(0, 0, side, side))
	draw.Draw(picture, picture.Bounds(), image.NewUniform(color.RGBA{R: 30, G: 60, B: 200, A: 255}), image.Point{}, draw.Src)
	var b bytes.Buffer
	_ = png.Encode(&b, picture) // a buffer takes everything
	return b.Bytes()
}

// tone returns a recording of one second, of 16-bit PCM in a WAV file.
func tone() []byte {
	const rate, hertz, loud = 8000, 440, 8000
	samples := make([]int16, rate)
	for i := range samples {
		samples[i] = int16(loud * math.Sin(2*math.Pi*hertz*float64(i)/rate))
	}
	var b bytes.Buffer
	size := uint32(2 * len(samples))
	for _, part := range []any{[]byte("RIFF"), 36 + size, []byte("WAVEfmt "), uint32(16), uint16(1), uint16(1), uint32(rate), uint32(2 * rate),
		uint16(2), uint16(16), []byte("data"), size, samples} {
		_ = binary.Write(&b, binary.LittleEndian, part) // a buffer takes everything
	}
	return b.Bytes()
}
