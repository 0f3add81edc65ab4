package canonical

import (
	"encoding"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

// This file reads and writes the values of a type without a second pass. The members of a struct have one order, and
// each value has one form, so what was read needs no comparison with its encoding. The general way (encodeAny,
// decodeAny) takes the types that have no codec. TestCodecAgrees and FuzzCodec compare the two.

// A codec reads and writes the values of one type. decode is given a zero value to fill. encode reports false for strings that are not UTF-8 and numbers that
// are out of range. decode is nil for a type that holds an interface.
type codec struct {
	decode func(s *Scanner, v reflect.Value)
	encode func(b []byte, v reflect.Value) ([]byte, bool)
}

// codecs holds the *codec of each type, nil for a type that has none.
var codecs sync.Map

// codecOf returns the codec of a type, nil if the general way must take it.
func codecOf(t reflect.Type) *codec {
	if c, ok := codecs.Load(t); ok {
		return c.(*codec)
	}
	c := newCodec(t, nil)
	codecs.Store(t, c)
	return c
}

// specialized lists the interfaces of types that determine their own JSON.
var specialized = []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.MarshalerTo](), reflect.TypeFor[json.Unmarshaler](),
	reflect.TypeFor[json.UnmarshalerFrom](), reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
	reflect.TypeFor[encoding.TextAppender](), reflect.TypeFor[interface{ IsZero() bool }]()}

// newCodec makes a codec. within holds the types that contain t: a recursive type has no codec.
func newCodec(t reflect.Type, within []reflect.Type) *codec {
	for _, i := range specialized {
		if t.Implements(i) || reflect.PointerTo(t).Implements(i) {
			return nil
		}
	}
	if t == reflect.TypeFor[time.Duration]() || slices.Contains(within, t) {
		return nil
	}
	within = append(within[:len(within):len(within)], t)
	switch t.Kind() {
	case reflect.String:
		return &codec{
			func(s *Scanner, v reflect.Value) { v.SetString(s.Recent()) },
			func(b []byte, v reflect.Value) ([]byte, bool) { return appendString(b, v.String()) }}
	case reflect.Bool:
		return &codec{
			func(s *Scanner, v reflect.Value) { v.SetBool(s.Bool()) },
			func(b []byte, v reflect.Value) ([]byte, bool) { return strconv.AppendBool(b, v.Bool()), true }}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &codec{decodeInt, encodeInt}
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return nil
		}
		return &codec{nil, encodeInterface}
	case reflect.Struct:
		return structCodec(t, within)
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		elem := newCodec(t.Elem(), within)
		if elem == nil || t.Elem().Kind() == reflect.Uint8 || t.Kind() == reflect.Map && t.Key() != reflect.TypeFor[string]() {
			return nil
		}
		return elem.of(t)
	}
	return nil
}

// of returns the codec of a type with these elements.
func (elem *codec) of(t reflect.Type) *codec {
	c := new(codec)
	switch t.Kind() {
	case reflect.Pointer:
		*c = codec{elem.decodePointer, elem.encodePointer}
	case reflect.Slice:
		*c = codec{elem.decodeSlice, elem.encodeList}
	case reflect.Array:
		*c = codec{elem.decodeArray, elem.encodeList}
	case reflect.Map:
		*c = codec{elem.decodeMap, elem.encodeMap}
	}
	if elem.decode == nil {
		c.decode = nil
	}
	return c
}

// Value reads a value into v, a pointer; what v points to is replaced. It panics if the general way must take the type.
func (s *Scanner) Value(v any) {
	p := reflect.ValueOf(v).Elem()
	p.SetZero()
	codecOf(p.Type()).decode(s, p)
}

func decodeInt(s *Scanner, v reflect.Value) {
	n := s.Int()
	if v.OverflowInt(n) {
		s.Fail()
	}
	v.SetInt(n)
}

func encodeInt(b []byte, v reflect.Value) ([]byte, bool) {
	n := v.Int()
	return strconv.AppendInt(b, n, 10), n <= MaxInt && n >= -MaxInt
}

// decodeQuoted reads an integer that is written as a string, which has no other bounds than those of its type.
func decodeQuoted(s *Scanner, v reflect.Value) {
	text := string(s.string())
	n, err := strconv.ParseInt(text, 10, v.Type().Bits())
	if err != nil || strconv.FormatInt(n, 10) != text {
		s.Fail()
	}
	v.SetInt(n)
}

func encodeQuoted(b []byte, v reflect.Value) ([]byte, bool) {
	return append(strconv.AppendInt(append(b, '"'), v.Int(), 10), '"'), true
}

func encodeInterface(b []byte, v reflect.Value) ([]byte, bool) {
	if v.IsNil() {
		return append(b, "null"...), true
	}
	v = v.Elem()
	c := codecOf(v.Type())
	if c == nil {
		return b, false
	}
	return c.encode(b, v)
}

func (elem *codec) decodePointer(s *Scanner, v reflect.Value) {
	if s.Has("null") {
		v.SetZero()
		return
	}
	v.Set(reflect.New(v.Type().Elem()))
	elem.decode(s, v.Elem())
}

func (elem *codec) encodePointer(b []byte, v reflect.Value) ([]byte, bool) {
	if v.IsNil() {
		return append(b, "null"...), true
	}
	return elem.encode(b, v.Elem())
}

func (elem *codec) decodeSlice(s *Scanner, v reflect.Value) {
	s.Expect("[")
	if s.next(']') {
		v.Set(reflect.MakeSlice(v.Type(), 0, 0)) // not nil
		return
	}
	for n := 0; ; n++ {
		if n == v.Cap() {
			v.Grow(max(n, 2))
		}
		v.SetLen(n + 1)
		elem.decode(s, v.Index(n))
		if !s.next(',') {
			s.Expect("]")
			return
		}
	}
}

func (elem *codec) decodeArray(s *Scanner, v reflect.Value) {
	s.Expect("[")
	for n := range v.Len() {
		if n > 0 {
			s.Expect(",")
		}
		elem.decode(s, v.Index(n))
	}
	s.Expect("]")
}

func (elem *codec) encodeList(b []byte, v reflect.Value) ([]byte, bool) {
	b = append(b, '[')
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		var ok bool
		if b, ok = elem.encode(b, v.Index(i)); !ok {
			return b, false
		}
	}
	return append(b, ']'), true
}

func (elem *codec) decodeMap(s *Scanner, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	value := reflect.New(v.Type().Elem()).Elem()
	s.Expect("{")
	if s.next('}') {
		return
	}
	texts, _ := v.Interface().(map[string]string) // without reflection
	for before := ""; ; {
		name := s.Recent()
		if v.Len() > 0 && compareUTF16(before, name) >= 0 {
			s.Fail()
		}
		before = name
		s.Expect(":")
		if texts != nil {
			texts[name] = s.Recent()
		} else {
			value.SetZero()
			elem.decode(s, value)
			v.SetMapIndex(reflect.ValueOf(name), value)
		}
		if !s.next(',') {
			s.Expect("}")
			return
		}
	}
}

func (elem *codec) encodeMap(b []byte, v reflect.Value) ([]byte, bool) {
	if texts, ok := v.Interface().(map[string]string); ok {
		return encodeTexts(b, texts)
	}
	names := v.MapKeys()
	slices.SortFunc(names, func(x, y reflect.Value) int { return compareUTF16(x.String(), y.String()) })
	b = append(b, '{')
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		var ok bool
		if b, ok = appendString(b, name.String()); !ok {
			return b, false
		}
		if b, ok = elem.encode(append(b, ':'), v.MapIndex(name)); !ok {
			return b, false
		}
	}
	return append(b, '}'), true
}

// encodeTexts is encodeMap without reflection, for the map that most events of tools have.
func encodeTexts(b []byte, texts map[string]string) ([]byte, bool) {
	var room [8]string
	names := room[:0]
	for name := range texts {
		names = append(names, name)
	}
	slices.SortFunc(names, compareUTF16)
	b = append(b, '{')
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		var ok, also bool
		b, ok = appendString(b, name)
		if b, also = appendString(append(b, ':'), texts[name]); !ok || !also {
			return b, false
		}
	}
	return append(b, '}'), true
}

// compareUTF16 orders names as RFC 8785 does, by UTF-16 code units. That differs from the order of their UTF-8 bytes
// for characters above U+FFFF: they begin with a surrogate, which is below U+E000.
func compareUTF16(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			if a[i] >= 0xee && b[i] >= 0xee && (a[i] >= 0xf0) != (b[i] >= 0xf0) {
				return int(b[i]) - int(a[i])
			}
			return int(a[i]) - int(b[i])
		}
	}
	return len(a) - len(b)
}

// members are the members of a struct by name.
type members []member

// A member is one member of a struct.
type member struct {
	name      string // after a comma, with its quotes and the colon
	field     int
	omitZero  bool
	omitEmpty bool
	codec     *codec
}

// structCodec makes the codec of a struct; nil if the general way must take one of its members.
func structCodec(t reflect.Type, within []reflect.Type) *codec {
	var all members
	c := &codec{decode: func(s *Scanner, v reflect.Value) { all.decode(s, v) }, encode: func(b []byte, v reflect.Value) ([]byte, bool) { return all.encode(b, v) }}
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("json") == "-" {
			continue
		}
		m, ok := newMember(t.Field(i), i, within)
		if !ok || slices.ContainsFunc(all, func(other member) bool { return other.name == m.name }) {
			return nil
		}
		if m.codec.decode == nil {
			c.decode = nil
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b member) int { return strings.Compare(a.name, b.name) })
	return c
}

// newMember returns the member of a field; false if the general way must take it.
func newMember(f reflect.StructField, i int, within []reflect.Type) (m member, ok bool) {
	options := strings.Split(f.Tag.Get("json"), ",")
	name := options[0]
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
	if !f.IsExported() || f.Anonymous || name == "" || strings.Trim(name, letters) != "" {
		return m, false
	}
	m = member{name: `,"` + name + `":`, field: i, codec: newCodec(f.Type, within)}
	for _, option := range options[1:] {
		switch k := f.Type.Kind(); {
		case option == "omitzero":
			m.omitZero = true
		case option == "string" && m.codec != nil && k >= reflect.Int && k <= reflect.Int64:
			m.codec = &codec{decodeQuoted, encodeQuoted}
		case option == "omitempty" && (k == reflect.Slice || k == reflect.Map || k == reflect.String):
			m.omitEmpty = true
		default:
			return m, false
		}
	}
	return m, m.codec != nil
}

func (all members) decode(s *Scanner, v reflect.Value) {
	s.Expect("{")
	comma := 1 // bytes of a name that are left out: no comma stands before the first member
	for i := range all {
		m := &all[i]
		if !s.Has(m.name[comma:]) {
			if !m.omitZero && !m.omitEmpty {
				s.Fail()
			}
			continue
		}
		comma = 0
		f := v.Field(m.field)
		m.codec.decode(s, f)
		if m.omits(f) {
			s.Fail()
		}
	}
	s.Expect("}")
}

func (all members) encode(b []byte, v reflect.Value) ([]byte, bool) {
	open := len(b)
	for i := range all {
		m := &all[i]
		f := v.Field(m.field)
		if m.omits(f) {
			continue
		}
		var ok bool
		if b, ok = m.codec.encode(append(b, m.name...), f); !ok {
			return b, false
		}
	}
	if len(b) == open {
		b = append(b, '{')
	}
	b[open] = '{' // for the first comma
	return append(b, '}'), true
}

// omits reports whether a value of the member is left out.
func (m *member) omits(v reflect.Value) bool {
	return m.omitZero && v.IsZero() || m.omitEmpty && v.Len() == 0
}
