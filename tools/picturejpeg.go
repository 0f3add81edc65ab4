package tools

import "encoding/binary"

// jpegBytes is what decoding a jpeg of that many pixels lays out, by its header:
// its samples, the coefficients of all of them if it is progressive, and its
// pixels once more if it is of four inks. A header that is not understood counts
// as the worst.
func jpegBytes(data []byte, pixels int64) int64 {
	frame, progressive := jpegFrame(data)
	if len(frame) < 6 || len(frame) < 6+3*int(frame[5]) {
		return pixels * (4*5 + 4)
	}
	components := frame[6 : 6+3*int(frame[5])]
	var all, most int64 // samples of a block of pixels, and of its finest component
	for ; len(components) > 0; components = components[3:] {
		samples := int64(components[1]>>4) * int64(components[1]&15)
		all, most = all+samples, max(most, samples)
	}
	if most == 0 {
		return pixels * (4*5 + 4)
	}
	each := int64(1)
	if progressive {
		each += 4
	}
	bytes := pixels * all * each / most
	if frame[5] == 4 {
		bytes += 4 * pixels
	}
	return bytes
}

// jpegFrame is the body of a jpeg's frame header; nil if there is none.
func jpegFrame(data []byte) (body []byte, progressive bool) {
	for rest := skipped(data, 2); len(rest) >= 4 && rest[0] == 0xff; {
		marker := rest[1]
		switch {
		case marker == 0xff: // filling
			rest = rest[1:]
			continue
		case marker == 0xda:
			return nil, false
		case marker == 0x01 || marker >= 0xd0 && marker <= 0xd7: // stands alone
			rest = rest[2:]
			continue
		}
		size := int(binary.BigEndian.Uint16(rest[2:]))
		if size < 2 || len(rest) < 2+size {
			return nil, false
		}
		if marker >= 0xc0 && marker <= 0xc2 {
			return rest[4 : 2+size], marker == 0xc2
		}
		rest = rest[2+size:]
	}
	return nil, false
}
