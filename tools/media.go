package tools

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image/color"
	"strings"

	"github.com/gabriel-vasile/mimetype"
)

// Kinds of documents that say of a file what it is, since its content is no text.
const (
	KindPicture   = "picture"
	KindRecording = "recording"
)

// isMedia reports whether a file is a picture or a recording. It goes by the
// content.
func IsMedia(data []byte, detected *mimetype.MIME) bool {
	_, picture := FormatOf(data)
	return picture || isRecording(detected)
}

// isRecording accepts sound, and containers that can hold nothing but sound.
func isRecording(m *mimetype.MIME) bool {
	kind := kindOf(m)
	return strings.HasPrefix(kind, "audio/") || strings.HasPrefix(kind, "video/") || kind == "application/ogg"
}

// kindOf is a detected type without its parameters.
func kindOf(m *mimetype.MIME) string {
	kind, _, _ := strings.Cut(m.String(), ";")
	return kind
}

// aboutMedia says what a picture or a recording is, by its header, and which
// tool tells what is in it.
func AboutMedia(data []byte, detected *mimetype.MIME) (Document, error) {
	if f, known := FormatOf(data); known {
		return f.about(data)
	}
	text := "type: " + kindOf(detected) + "\n" + aboutWave(data) + "transcribe_audio, where it is offered, writes down what is said in it.\n"
	return Document{Kind: KindRecording, Text: text}, nil
}

func (f imageFormat) about(data []byte) (Document, error) {
	config, err := f.header(data)
	if err != nil {
		return Document{}, err
	}
	text := fmt.Sprintf("type: %s\nwidth: %d pixels\nheight: %d pixels\n%s", f.name, config.Width, config.Height, colours(config.ColorModel))
	if n, what := f.frames(data); n > 0 {
		text += fmt.Sprintf("%s: %d\n", what, n)
	}
	return Document{Kind: KindPicture, Text: text + "describe_image, where it is offered, says what it shows.\n"}, nil
}

// colours says how a picture keeps its colours; "" if it is not known.
func colours(m color.Model) string {
	if p, ok := m.(color.Palette); ok && len(p) > 0 {
		return fmt.Sprintf("colours: a palette of %d\n", len(p))
	}
	for _, known := range []struct {
		model color.Model
		name  string
	}{
		{color.RGBAModel, "8 bits each"}, {color.RGBA64Model, "16 bits each"}, {color.NRGBAModel, "8 bits each, with transparency"},
		{color.NRGBA64Model, "16 bits each, with transparency"}, {color.YCbCrModel, "8 bits each"}, {color.NYCbCrAModel, "8 bits each, with transparency"},
		{color.GrayModel, "grey, 8 bits"}, {color.Gray16Model, "grey, 16 bits"}, {color.CMYKModel, "four inks, 8 bits each"},
	} {
		if m == known.model {
			return "colours: " + known.name + "\n"
		}
	}
	return ""
}

// gifFrames counts the frames of a gif without decoding them: its decoder would
// take the memory of all. What is cut off counts as far as it goes.
func gifFrames(data []byte) (frames int) {
	if len(data) < 13 {
		return 0
	}
	rest := skipped(data[13:], paletteSize(data[10]))
	for len(rest) > 0 {
		switch rest[0] {
		case 0x21: // an extension: its label, then blocks
			rest = afterBlocks(skipped(rest, 2))
		case 0x2c: // a frame: where it lies, its colours, the size of its codes, then blocks
			if len(rest) < 10 {
				return frames
			}
			frames++
			rest = afterBlocks(skipped(rest, 10+paletteSize(rest[9])+1))
		default:
			return frames
		}
	}
	return frames
}

// paletteSize is how many bytes of colours follow, by the flags before them.
func paletteSize(flags byte) int {
	if flags&0x80 == 0 {
		return 0
	}
	return 3 << (flags&7 + 1)
}

// afterBlocks skips blocks, each led by its size, and the empty one behind them.
func afterBlocks(data []byte) []byte {
	for len(data) > 0 && data[0] > 0 {
		data = skipped(data, 1+int(data[0]))
	}
	return skipped(data, 1)
}

// maxSeconds bounds how long a recording is taken to be: eleven days.
const maxSeconds = 1_000_000 - 1

// waveSeconds returns how long a wav file of plain samples is, rounded down; false
// for other files. Whoever plays it goes by the same header.
func waveSeconds(data []byte) (int64, bool) {
	if !begins(data, "RIFF????WAVE") {
		return 0, false
	}
	var perSecond int64
	for rest := data[12:]; len(rest) >= 8; {
		size := int64(binary.LittleEndian.Uint32(rest[4:]))
		body := rest[8:min(8+size, int64(len(rest)))]
		switch {
		case bytes.HasPrefix(rest, []byte("fmt ")) && perSecond == 0:
			if len(body) < 16 || binary.LittleEndian.Uint16(body) != 1 {
				return 0, false
			}
			perSecond = int64(binary.LittleEndian.Uint16(body[2:])) * int64(binary.LittleEndian.Uint32(body[4:])) * int64(binary.LittleEndian.Uint16(body[14:])) / 8
		case bytes.HasPrefix(rest, []byte("data")):
			// all that follows counts, whatever the header says of its size
			return min(int64(len(rest))/max(perSecond, 1), maxSeconds), perSecond > 0
		}
		rest = skipped(rest[8:], len(body)+len(body)%2)
	}
	return 0, false
}

func skipped(data []byte, n int) []byte { return data[min(n, len(data)):] }

// aboutWave says what the header of a wav file does: channels, rate, and how
// long it is, no longer than there are bytes; "" for other files.
func aboutWave(data []byte) string {
	if !begins(data, "RIFF????WAVE") {
		return ""
	}
	var text string
	var perSecond uint32
	for rest := data[12:]; len(rest) >= 8; {
		size := int64(binary.LittleEndian.Uint32(rest[4:]))
		body := rest[8:min(8+size, int64(len(rest)))]
		switch {
		case bytes.HasPrefix(rest, []byte("fmt ")) && len(body) >= 16:
			perSecond = binary.LittleEndian.Uint32(body[8:])
			text = fmt.Sprintf("channels: %d\nrate: %d samples a second\nbits of a sample: %d\n",
				binary.LittleEndian.Uint16(body[2:]), binary.LittleEndian.Uint32(body[4:]), binary.LittleEndian.Uint16(body[14:]))
		case bytes.HasPrefix(rest, []byte("data")) && perSecond > 0:
			return text + fmt.Sprintf("length: %.1f seconds\n", float64(len(body))/float64(perSecond))
		}
		rest = skipped(rest[8:], len(body)+len(body)%2)
	}
	return text
}
