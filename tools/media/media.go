// Package media has the tools that ask a model about pictures and recordings,
// describe_image and transcribe_audio, and reads the headers of such files.
//
// A picture is bounded in bytes, pixels and passes before it is decoded, and a decoder
// that panics has met a damaged file. A result says what the requests used; the Gate
// decides beforehand by [NeedOfLook] and [NeedOfRecording] whether they fit the budgets.
package media

import (
	"encoding/binary"
	"fmt"
	"image/color"
	"iter"
	"strings"

	"github.com/gabriel-vasile/mimetype"
	"github.com/gaia-harness/gaia/tools"
)

// Kinds of documents that describe a file whose content is no text.
const (
	KindPicture   = "picture"
	KindRecording = "recording"
)

// IsMedia reports whether a file is a picture or a recording. It goes by the
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

// AboutMedia describes a picture or a recording by its header, and names the tool that
// reads its content.
func AboutMedia(data []byte, detected *mimetype.MIME) (tools.Document, error) {
	if f, known := FormatOf(data); known {
		return f.about(data)
	}
	text := "type: " + kindOf(detected) + "\n" + aboutWave(data) + "transcribe_audio, where it is offered, writes down what is said in it.\n"
	return tools.Document{Kind: KindRecording, Text: text}, nil
}

func (f imageFormat) about(data []byte) (tools.Document, error) {
	config, err := f.header(data)
	if err != nil {
		return tools.Document{}, err
	}
	text := fmt.Sprintf("type: %s\nwidth: %d pixels\nheight: %d pixels\n%s", f.name, config.Width, config.Height, colors(config.ColorModel))
	if n, what := f.frames(data); n > 0 {
		text += fmt.Sprintf("%s: %d\n", what, n)
	}
	return tools.Document{Kind: KindPicture, Text: text + "describe_image, where it is offered, says what it shows.\n"}, nil
}

// colors says how a picture keeps its colours; "" if it is not known.
func colors(m color.Model) string {
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
	var perSecond int64
	for c := range riffChunks(data, "WAVE") {
		switch {
		case c.id == "fmt " && perSecond == 0:
			if len(c.body) < 16 || binary.LittleEndian.Uint16(c.body) != 1 {
				return 0, false
			}
			channels, rate, bits := int64(binary.LittleEndian.Uint16(c.body[2:])), int64(binary.LittleEndian.Uint32(c.body[4:])), int64(binary.LittleEndian.Uint16(c.body[14:]))
			perSecond = channels * rate * bits / 8
		case c.id == "data": // all that follows counts, whatever the header says of its size
			return min(int64(len(c.rest))/max(perSecond, 1), maxSeconds), perSecond > 0
		}
	}
	return 0, false
}

// aboutWave describes the header of a wav file: channels, rate, and how
// long it is, no longer than there are bytes; "" for other files.
func aboutWave(data []byte) (text string) {
	var perSecond uint32
	for c := range riffChunks(data, "WAVE") {
		switch {
		case c.id == "fmt " && len(c.body) >= 16:
			perSecond = binary.LittleEndian.Uint32(c.body[8:])
			text = fmt.Sprintf("channels: %d\nrate: %d samples a second\nbits of a sample: %d\n",
				binary.LittleEndian.Uint16(c.body[2:]), binary.LittleEndian.Uint32(c.body[4:]), binary.LittleEndian.Uint16(c.body[14:]))
		case c.id == "data" && perSecond > 0:
			return text + fmt.Sprintf("length: %.1f seconds\n", float64(len(c.body))/float64(perSecond))
		}
	}
	return text
}

// riffChunk is a part of a wav or webp file; rest is the file from this part on.
type riffChunk struct {
	id         string
	body, rest []byte
}

// riffChunks yields the parts of a RIFF file of a kind, none for other files.
func riffChunks(data []byte, kind string) iter.Seq[riffChunk] {
	return func(yield func(riffChunk) bool) {
		if !begins(data, "RIFF????"+kind) {
			return
		}
		for rest := data[12:]; len(rest) >= 8; {
			size := int64(binary.LittleEndian.Uint32(rest[4:]))
			body := rest[8:min(8+size, int64(len(rest)))]
			if !yield(riffChunk{string(rest[:4]), body, rest}) {
				return
			}
			rest = skipped(rest[8:], len(body)+len(body)%2)
		}
	}
}

func skipped(data []byte, n int) []byte { return data[min(n, len(data)):] }
