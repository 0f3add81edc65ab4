package audit

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
)

// transient are the members of what the audit knows of an attempt that are gone when it has ended.
var transient = map[reflect.Type][]string{
	reflect.TypeFor[callFact](): {"expression", "args", "text", "echo", "argsSHA256", "asks", "broken", "told", "asked", "refusal"},
}

// TestPack fills every member of what is known of an attempt, in turns with nothing, with what is zero but there, and
// with several values, and unpacks it as it was.
func TestPack(t *testing.T) {
	for kind := range 5 {
		n := 0
		var want, got attemptEvidence
		fill(t, reflect.ValueOf(&want).Elem(), kind, &n)
		p := newPacker()
		if rest := p.unpack(string(p.pack(&want))+"\t", &got); rest != "\t" {
			t.Errorf("kind %d: %d bytes are left", kind, len(rest))
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("kind %d:\n%+v\nwant\n%+v", kind, got, want)
		}
		if n < 100 {
			t.Errorf("kind %d: only %d values", kind, n)
		}
	}
}

// fill sets all members of v by kind: to zero or nil, to what is empty but not nil, or to values that differ.
func fill(t *testing.T, v reflect.Value, kind int, n *int) {
	t.Helper()
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if field.IsExported() {
				fill(t, v.Field(i), kind, n)
			} else if !slices.Contains(transient[v.Type()], field.Name) {
				t.Errorf("%s of %s is not exported: it is lost when an attempt is packed", field.Name, v.Type())
			}
		}
	case reflect.Pointer:
		made := reflect.New(v.Type().Elem())
		fill(t, made.Elem(), kind, n)
		if kind > 0 {
			v.Set(made)
		}
	case reflect.Slice:
		length := []int{0, 0, 1, 2, 3}[kind]
		made := reflect.MakeSlice(v.Type(), max(length, 1), max(length, 1))
		for i := range made.Len() {
			fill(t, made.Index(i), kind, n)
		}
		if kind > 0 {
			v.Set(made.Slice3(0, length, length))
		}
	case reflect.String:
		v.SetString([]string{"", "", fmt.Sprint("text ", *n), canonical.Digest([]byte(fmt.Sprint(*n))), fmt.Sprintf("%80d", *n)}[kind])
	case reflect.Bool:
		v.SetBool(kind > 1)
	case reflect.Int, reflect.Int64:
		v.SetInt([]int64{0, 0, 1, -1, 1 << 60}[kind])
	default:
		t.Errorf("a %s cannot be packed", v.Type())
	}
}

// TestPackTexts: what looks like a digest and is none stays as it is.
func TestPackTexts(t *testing.T) {
	digest := canonical.Digest(nil)
	p := newPacker()
	for i := range 2 * mostNumbered {
		for _, want := range []string{"", digest, digest[:70], digest + "0", "sha256:" + digest[:64], fmt.Sprint("id-", i), "\x00\xff"} {
			var got []string
			twice := []string{want, want}
			if rest := p.unpack(string(p.pack(&twice)), &got); !slices.Equal(got, twice) || len(rest) > 0 {
				t.Fatalf("%q is %q", want, got)
			}
		}
	}
	if len(p.texts) > mostNumbered || len(p.numbers) > mostNumbered {
		t.Errorf("%d texts have numbers", len(p.texts))
	}
}
