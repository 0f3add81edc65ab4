package tools

import (
	"bytes"
	"encoding/binary"
	"image"
)

// orientation reads how the pixels of a jpeg (from its Exif data) or of a tiff
// are to be turned: 1 to 8 as in the TIFF specification, 1 for not at all. That
// of other formats is not read.
func orientation(data []byte) int {
	if bytes.HasPrefix(data, []byte("\xff\xd8")) {
		data = exif(data)
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case bytes.HasPrefix(data, []byte("MM\x00*")):
		order = binary.BigEndian
	case !bytes.HasPrefix(data, []byte("II*\x00")):
		return 1
	}
	if len(data) < 8 {
		return 1
	}
	at := int64(order.Uint32(data[4:]))
	if at+2 > int64(len(data)) {
		return 1
	}
	entries := data[at+2:]
	for range order.Uint16(data[at:]) {
		if len(entries) < 12 {
			return 1
		}
		const tag, short = 0x0112, 3
		if order.Uint16(entries) == tag && order.Uint16(entries[2:]) == short {
			if o := int(order.Uint16(entries[8:])); o >= 1 && o <= 8 {
				return o
			}
			return 1
		}
		entries = entries[12:]
	}
	return 1
}

// exif returns the Exif data of a jpeg, which has the form of a tiff; nil if
// there is none before the pixels.
func exif(data []byte) []byte {
	for rest := data[2:]; len(rest) >= 4 && rest[0] == 0xff; {
		if rest[1] == 0xff { // filling
			rest = rest[1:]
			continue
		}
		size := int(binary.BigEndian.Uint16(rest[2:]))
		if rest[1] == 0xda || size < 2 || len(rest) < 2+size {
			return nil
		}
		if body, found := bytes.CutPrefix(rest[4:2+size], []byte("Exif\x00\x00")); found && rest[1] == 0xe1 {
			return body
		}
		rest = rest[2+size:]
	}
	return nil
}

// upright turns and mirrors m as its orientation says.
func upright(m *image.RGBA, orientation int) *image.RGBA {
	if orientation <= 1 || orientation > 8 {
		return m
	}
	right, low := m.Bounds().Dx()-1, m.Bounds().Dy()-1
	size := image.Rect(0, 0, right+1, low+1)
	if orientation >= 5 {
		size = image.Rect(0, 0, low+1, right+1)
	}
	out := image.NewRGBA(size)
	for y := range size.Dy() {
		for x := range size.Dx() {
			fromX, fromY := x, y
			switch orientation {
			case 2:
				fromX = right - x
			case 3:
				fromX, fromY = right-x, low-y
			case 4:
				fromY = low - y
			case 5:
				fromX, fromY = y, x
			case 6:
				fromX, fromY = y, low-x
			case 7:
				fromX, fromY = right-y, low-x
			case 8:
				fromX, fromY = right-y, x
			}
			out.SetRGBA(x, y, m.RGBAAt(fromX, fromY))
		}
	}
	return out
}
