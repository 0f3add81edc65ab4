package tools

import (
	"bytes"
	"encoding/binary"
)

// frames counts what a picture of this kind shows one after the other, by its
// structure, and says what they are; 0 where it is one picture.
func (f imageFormat) frames(data []byte) (count int, what string) {
	switch f.name {
	case "gif":
		return gifFrames(data), "frames"
	case "png":
		return pngFrames(data), "frames"
	case "webp":
		return webpFrames(data), "frames"
	case "tiff":
		if n := tiffPages(data); n > 1 {
			return n, "pages"
		}
	}
	return 0, ""
}

// pngFrames is what a png that moves says before its pixels.
func pngFrames(data []byte) int {
	for rest := skipped(data, 8); len(rest) >= 12; {
		size := int64(binary.BigEndian.Uint32(rest))
		switch kind := string(rest[4:8]); {
		case kind == "acTL":
			return int(binary.BigEndian.Uint32(rest[8:]))
		case kind == "IDAT" || size > int64(len(rest)):
			return 0
		}
		rest = skipped(rest, int(size)+12)
	}
	return 0
}

func webpFrames(data []byte) (frames int) {
	for rest := skipped(data, 12); len(rest) >= 8; {
		if bytes.HasPrefix(rest, []byte("ANMF")) {
			frames++
		}
		size := int64(binary.LittleEndian.Uint32(rest[4:]))
		rest = skipped(rest, int(min(8+size+size%2, int64(len(rest)))))
	}
	return frames
}

// tiffPages counts the directories of a tiff, each of which leads to the next.
// Those that lead back end it.
func tiffPages(data []byte) (pages int) {
	var order binary.ByteOrder = binary.LittleEndian
	if bytes.HasPrefix(data, []byte("MM")) {
		order = binary.BigEndian
	}
	if len(data) < 8 {
		return 0
	}
	seen := map[int64]bool{}
	for at := int64(order.Uint32(data[4:])); at > 0 && at+2 <= int64(len(data)); pages++ {
		next := at + 2 + 12*int64(order.Uint16(data[at:]))
		if seen[at] {
			return pages
		}
		if next+4 > int64(len(data)) {
			return pages + 1
		}
		seen[at] = true
		at = int64(order.Uint32(data[next:]))
	}
	return pages
}
