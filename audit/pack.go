package audit

import (
	"encoding/binary"
	"encoding/hex"
	"reflect"
	"slices"

	"github.com/gaia-harness/gaia/internal/canonical"
)

// packer writes values in a compact form, which only it reads. What is known of an attempt takes a tenth of its memory
// so, and the garbage collector has nothing to look at in it; BenchmarkAudit shows it. A struct is its members that are
// not zero, behind a bit for each; what is not exported is left out. A text that is a digest is its 32 bytes. One that
// the value has before is its number among those, and one of the few that stand everywhere, such as the name of a tool,
// its number among these.
//
// Nil and empty stay apart, as do a nil pointer and one to zero (TestPack).
type packer struct {
	numbers map[string]uint64
	texts   []string // by number
	fields  map[reflect.Type][]int
	seen    []string // the whole texts of the value
}

// The kinds of texts.
const (
	textWhole = iota
	textDigest
	textSeen
	textNumbered // and what numbers follow
)

// Bounds of the texts that have numbers: how many there are, how long each is, in bytes, and how many of one value.
const (
	mostNumbered    = 1 << 10
	longestNumbered = 64
	mostSeen        = 64
)

func newPacker() *packer {
	return &packer{numbers: map[string]uint64{}, fields: map[reflect.Type][]int{}}
}

// exported returns the numbers of the exported members of a struct.
func (p *packer) exported(t reflect.Type) []int {
	all, known := p.fields[t]
	if !known {
		for i := range t.NumField() {
			if t.Field(i).IsExported() {
				all = append(all, i)
			}
		}
		p.fields[t] = all
	}
	return all
}

// pack returns the compact form of what a pointer points to.
func (p *packer) pack(v any) []byte {
	p.seen = p.seen[:0]
	return p.append(nil, reflect.ValueOf(v))
}

// unpack sets what a pointer points to, which is zero, to what pack has returned, and returns what follows that.
func (p *packer) unpack(b []byte, v any) []byte {
	p.seen = p.seen[:0]
	return p.read(b, reflect.ValueOf(v).Elem())
}

// append appends the compact form of a value, which is not a nil pointer.
func (p *packer) append(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Struct:
		fields, bits := p.exported(v.Type()), len(b)
		b = append(b, make([]byte, (len(fields)+7)/8)...)
		for n, i := range fields {
			if f := v.Field(i); !f.IsZero() {
				b[bits+n/8] |= 1 << (n % 8)
				b = p.append(b, f)
			}
		}
		return b
	case reflect.Pointer:
		return p.append(b, v.Elem())
	case reflect.Slice:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		for i := range v.Len() {
			b = p.append(b, v.Index(i))
		}
		return b
	case reflect.String:
		return p.appendText(b, v.String())
	case reflect.Bool:
		if v.Bool() {
			return append(b, 1)
		}
		return append(b, 0)
	case reflect.Int, reflect.Int64:
		return binary.AppendVarint(b, v.Int())
	}
	panic("audit: nothing packs a " + v.Type().String()) // TestPack has all that an attempt has
}

func (p *packer) appendText(b []byte, s string) []byte {
	if canonical.IsDigest(s) {
		b = append(b, textDigest)
		b, _ = hex.AppendDecode(b, []byte(s[len("sha256:"):])) // which it is
		return b
	}
	n, known := p.numbers[s]
	if !known && len(s) <= longestNumbered && len(p.texts) < mostNumbered {
		n, known = uint64(len(p.texts)), true
		p.numbers[s], p.texts = n, append(p.texts, s)
	}
	if known {
		return binary.AppendUvarint(b, textNumbered+n)
	}
	if n := slices.Index(p.seen, s); n >= 0 {
		return binary.AppendUvarint(append(b, textSeen), uint64(n))
	}
	if len(p.seen) < mostSeen {
		p.seen = append(p.seen, s)
	}
	return append(binary.AppendUvarint(append(b, textWhole), uint64(len(s))), s...)
}

// read sets v, which is zero, to what append has written, and returns what follows.
func (p *packer) read(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Struct:
		fields := p.exported(v.Type())
		bits := b
		b = b[(len(fields)+7)/8:]
		for n, i := range fields {
			if bits[n/8]&(1<<(n%8)) != 0 {
				b = p.read(b, v.Field(i))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		b = p.read(b, v.Elem())
	case reflect.Slice:
		n, size := binary.Uvarint(b)
		b = b[size:]
		v.Set(reflect.MakeSlice(v.Type(), int(n), int(n)))
		for i := range int(n) {
			b = p.read(b, v.Index(i))
		}
	case reflect.String:
		var s string
		s, b = p.readText(b)
		v.SetString(s)
	case reflect.Bool:
		v.SetBool(b[0] != 0)
		b = b[1:]
	default:
		n, size := binary.Varint(b)
		v.SetInt(n)
		b = b[size:]
	}
	return b
}

func (p *packer) readText(b []byte) (string, []byte) {
	kind, size := binary.Uvarint(b)
	b = b[size:]
	switch kind {
	case textDigest:
		const size = 32
		return "sha256:" + hex.EncodeToString(b[:size]), b[size:]
	case textWhole:
		n, size := binary.Uvarint(b)
		b = b[size:]
		s := string(b[:n])
		if len(p.seen) < mostSeen {
			p.seen = append(p.seen, s)
		}
		return s, b[n:]
	case textSeen:
		n, size := binary.Uvarint(b)
		return p.seen[n], b[size:]
	}
	return p.texts[kind-textNumbered], b
}
