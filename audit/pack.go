package audit

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
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
	coders  map[reflect.Type]*coder
	seen    []string // the whole texts of the value
	packed  []byte
}

// coder is what a packer knows of a type.
type coder struct {
	kind   reflect.Kind
	fields []int        // of a struct: the numbers of its exported members
	of     []*coder     // of these; of a pointer or a slice, that of what it points to or holds
	list   reflect.Type // of a pointer: a slice of what it points to
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
	return &packer{numbers: map[string]uint64{}, coders: map[reflect.Type]*coder{}}
}

// coder returns what is known of a type, which does not hold itself.
func (p *packer) coder(t reflect.Type) *coder {
	if c := p.coders[t]; c != nil {
		return c
	}
	c := &coder{kind: t.Kind()}
	switch c.kind {
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() {
				c.fields, c.of = append(c.fields, i), append(c.of, p.coder(t.Field(i).Type))
			}
		}
	case reflect.Pointer:
		c.of, c.list = []*coder{p.coder(t.Elem())}, reflect.SliceOf(t.Elem())
	case reflect.Slice:
		c.of = []*coder{p.coder(t.Elem())}
	}
	p.coders[t] = c
	return c
}

// pack returns the compact form of what a pointer points to, which is good until the next call.
func (p *packer) pack(v any) []byte {
	p.seen = p.seen[:0]
	at := reflect.ValueOf(v).Elem()
	p.packed = p.append(p.packed[:0], at, p.coder(at.Type()))
	return p.packed
}

// unpack sets what a pointer points to, which is zero, to what pack has returned, and returns what follows that.
func (p *packer) unpack(b []byte, v any) []byte {
	p.seen = p.seen[:0]
	at := reflect.ValueOf(v).Elem()
	return p.read(b, at, p.coder(at.Type()))
}

// append appends the compact form of a value, which is not a nil pointer.
func (p *packer) append(b []byte, v reflect.Value, c *coder) []byte {
	switch c.kind {
	case reflect.Struct:
		bits := len(b)
		b = append(b, make([]byte, (len(c.fields)+7)/8)...)
		for n, i := range c.fields {
			if f := v.Field(i); !f.IsZero() {
				b[bits+n/8] |= 1 << (n % 8)
				b = p.append(b, f, c.of[n])
			}
		}
		return b
	case reflect.Pointer:
		return p.append(b, v.Elem(), c.of[0])
	case reflect.Slice:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		for i := range v.Len() {
			b = p.append(b, v.Index(i), c.of[0])
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
func (p *packer) read(b []byte, v reflect.Value, c *coder) []byte {
	switch c.kind {
	case reflect.Struct:
		there := b[:(len(c.fields)+7)/8]
		b = b[len(there):]
		for i, set := range there {
			for ; set != 0; set &= set - 1 {
				n := 8*i + bits.TrailingZeros8(set)
				b = p.read(b, v.Field(c.fields[n]), c.of[n])
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		b = p.read(b, v.Elem(), c.of[0])
	case reflect.Slice:
		length, size := binary.Uvarint(b)
		b = b[size:]
		n, of := int(length), c.of[0]
		if n == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		v.Grow(n)
		v.SetLen(n)
		if of.list != nil { // what pointers point to lies together
			to := reflect.MakeSlice(of.list, n, n)
			for i := range n {
				v.Index(i).Set(to.Index(i).Addr())
				b = p.read(b, to.Index(i), of.of[0])
			}
			break
		}
		for i := range n {
			b = p.read(b, v.Index(i), of)
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
		const prefix, size = "sha256:", 32
		var text [len(prefix) + 2*size]byte
		hex.Encode(text[copy(text[:], prefix):], b[:size])
		return string(text[:]), b[size:]
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
