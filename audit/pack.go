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
// not zero, behind a bit for each, which is all of one that is true; what is not exported is left out. A text that is a digest is its 32 bytes. One that
// the value has before is its number among those, and one of the few that stand everywhere, such as the name of a tool,
// its number among these.
//
// Nil and empty stay apart, as do a nil pointer and one to zero (TestPack). What a pointer or a slice that is unpacked leads
// to lies in memory that release takes back: who keeps more of a value than its texts and numbers copies it.
type packer struct {
	numbers map[string]uint64
	texts   []string // by number
	coders  map[reflect.Type]*coder
	seen    []string // the whole texts of the value
	packed  []byte
	lent    []*coder // of the types that there are unpacked values of
}

// coder is what a packer knows of a type.
type coder struct {
	kind   reflect.Kind
	fields []int    // of a struct: the numbers of its exported members
	of     []*coder // of these; of a pointer or a slice, that of what it points to or holds
	typ    reflect.Type

	rooms []reflect.Value // values of the type, that are zero but for those that are lent: the first ones
	used  int             // how many these are
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
	c := &coder{kind: t.Kind(), typ: t}
	switch c.kind {
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() {
				c.fields, c.of = append(c.fields, i), append(c.of, p.coder(t.Field(i).Type))
			}
		}
	case reflect.Pointer, reflect.Slice:
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
func (p *packer) unpack(b string, v any) string {
	p.seen = p.seen[:0]
	at := reflect.ValueOf(v).Elem()
	return p.read(b, at, p.coder(at.Type()))
}

// slice returns a slice of a type, of so many zero values, which are the caller's until release.
func (p *packer) slice(c *coder, n int) reflect.Value {
	if p.lends(c); c.used > len(c.rooms) {
		c.rooms = append(c.rooms, reflect.MakeSlice(c.typ, n, n))
	}
	room := &c.rooms[c.used-1]
	if room.Len() < n {
		*room = reflect.MakeSlice(c.typ, n, n)
	}
	return *room
}

// value returns a zero value that a pointer can lead to, which is the caller's until release.
func (p *packer) value(c *coder) reflect.Value {
	if p.lends(c); c.used > len(c.rooms) {
		c.rooms = append(c.rooms, reflect.New(c.typ).Elem())
	}
	return c.rooms[c.used-1]
}

// lends counts what is lent of a type.
func (p *packer) lends(c *coder) {
	if c.used++; c.used == 1 {
		p.lent = append(p.lent, c)
	}
}

// release takes back what was unpacked.
func (p *packer) release() {
	for _, c := range p.lent {
		for _, room := range c.rooms[:c.used] {
			if c.kind == reflect.Slice {
				room.Clear()
			} else {
				room.SetZero()
			}
		}
		c.used = 0
	}
	p.lent = p.lent[:0]
}

// append appends the compact form of a value, which is not a nil pointer.
func (p *packer) append(b []byte, v reflect.Value, c *coder) []byte {
	switch c.kind {
	case reflect.Struct:
		bits := len(b)
		b = append(b, make([]byte, (len(c.fields)+7)/8)...)
		for n, i := range c.fields {
			f, of, set := v.Field(i), c.of[n], false
			switch of.kind {
			case reflect.Bool:
				set = f.Bool()
			case reflect.String:
				if s := f.String(); s != "" {
					b, set = p.appendText(b, s), true
				}
			case reflect.Int, reflect.Int64:
				if i := f.Int(); i != 0 {
					b, set = binary.AppendVarint(b, i), true
				}
			default:
				if set = !f.IsZero(); set {
					b = p.append(b, f, of)
				}
			}
			if set {
				b[bits+n/8] |= 1 << (n % 8)
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
func (p *packer) read(b string, v reflect.Value, c *coder) string {
	switch c.kind {
	case reflect.Struct:
		there := b[:(len(c.fields)+7)/8]
		b = b[len(there):]
		for i := range len(there) {
			for set := there[i]; set != 0; set &= set - 1 {
				n := 8*i + bits.TrailingZeros8(set)
				if f := v.Field(c.fields[n]); c.of[n].kind == reflect.Bool {
					f.SetBool(true)
				} else {
					b = p.read(b, f, c.of[n])
				}
			}
		}
	case reflect.Pointer:
		to := p.value(c.of[0])
		v.Set(to.Addr())
		b = p.read(b, to, c.of[0])
	case reflect.Slice:
		length, rest := uvarint(b)
		b = rest
		if length == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
			break
		}
		v.Set(p.slice(c, int(length)))
		v.SetLen(int(length))
		v.SetCap(int(length))
		for i := range int(length) {
			b = p.read(b, v.Index(i), c.of[0])
		}
	case reflect.String:
		var s string
		s, b = p.readText(b)
		v.SetString(s)
	case reflect.Bool:
		v.SetBool(b[0] != 0)
		b = b[1:]
	default:
		n, rest := uvarint(b)
		v.SetInt(int64(n>>1) ^ -int64(n&1))
		b = rest
	}
	return b
}

func (p *packer) readText(b string) (string, string) {
	kind, b := uvarint(b)
	switch kind {
	case textDigest:
		const prefix, size = "sha256:", 32
		var text [len(prefix) + 2*size]byte
		hex.Encode(text[copy(text[:], prefix):], []byte(b[:size]))
		return string(text[:]), b[size:]
	case textWhole:
		n, b := uvarint(b)
		if len(p.seen) < mostSeen {
			p.seen = append(p.seen, b[:n])
		}
		return b[:n], b[n:]
	case textSeen:
		n, b := uvarint(b)
		return p.seen[n], b
	}
	return p.texts[kind-textNumbered], b
}

// uvarint is binary.Uvarint of the beginning of a text, and what follows it.
func uvarint(b string) (n uint64, rest string) {
	for i := 0; ; i++ {
		n |= uint64(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return n, b[i+1:]
		}
	}
}
