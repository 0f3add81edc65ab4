// Package canonical encodes and decodes canonical JSON and writes digests. Every signed byte of a run is canonical
// JSON.
//
// # Canonical JSON
//
// Values are encoded as RFC 8785 (JSON Canonicalization Scheme) with two restrictions that keep all readers in
// agreement: numbers are integers, and they lie within ±2⁵³. [Decode] accepts a document only if encoding the decoded
// value gives the same bytes. It rejects duplicate members, unknown members, another order, another escape, white
// space, floats and invalid UTF-8. A signed document has exactly one acceptable form (TestDecodeRefuses, FuzzDecode).
//
// # Digests
//
// A digest is written "sha256:" and 64 lower-case hexadecimal digits.
package canonical

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"reflect"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ErrMalformed is returned for all bytes that are not the canonical encoding of a value of the expected type. It has no
// detail: nothing may depend on what is wrong with hostile input.
var ErrMalformed = errors.New("not the canonical JSON of its type")

// Encode returns the canonical JSON of v. It fails on numbers that are not integers within ±2⁵³ and on strings that are
// not UTF-8.
func Encode(v any) ([]byte, error) { return encode(v, false) }

// EncodeLossy is Encode, but writes U+FFFD for bytes that are not UTF-8: for records of what others sent, which must
// not fail because of it.
func EncodeLossy(v any) ([]byte, error) { return encode(v, true) }

// Append appends what Encode returns to b.
func Append(b []byte, v any) ([]byte, error) { return appendValue(b, v, false) }

// AppendLossy appends what EncodeLossy returns to b.
func AppendLossy(b []byte, v any) ([]byte, error) { return appendValue(b, v, true) }

// buffers of up to maxRoom bytes are kept to be used again.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

const maxRoom = 1 << 20

func encode(v any, lossy bool) ([]byte, error) {
	room := buffers.Get().(*[]byte)
	defer buffers.Put(room)
	b, err := appendValue((*room)[:0], v, lossy)
	if err != nil || cap(b) > maxRoom {
		return b, err
	}
	*room = b
	return bytes.Clone(b), nil
}

func appendValue(b []byte, v any, lossy bool) ([]byte, error) {
	if v == nil {
		return append(b, "null"...), nil
	}
	if c := codecOf(reflect.TypeOf(v)); c != nil {
		if all, ok := c.encode(b, reflect.ValueOf(v)); ok {
			return all, nil
		}
	}
	general, err := encodeAny(v, lossy)
	if err != nil {
		return nil, err
	}
	return append(b, general...), nil
}

// encodeAny encodes a value of any type. If lossy, it replaces bytes that are not UTF-8.
func encodeAny(v any, lossy bool) ([]byte, error) {
	b, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(lossy))
	if err != nil {
		return nil, err
	}
	integers, done := inspect(b)
	if !integers {
		return nil, errors.New("a number is not an integer within ±2⁵³")
	}
	if done {
		return b, nil
	}
	c := jsontext.Value(b)
	if err := c.Canonicalize(); err != nil {
		return nil, err
	}
	return c, nil
}

// Decode reads canonical JSON into v, which must be a pointer; what v points to is replaced. Any other bytes give
// ErrMalformed; v is then to be thrown away.
func Decode(data []byte, v any) error {
	p := reflect.ValueOf(v).Elem()
	if c := codecOf(p.Type()); c == nil || c.decode == nil {
		p.SetZero()
		return decodeAny(data, v)
	}
	s := Scan(data)
	defer s.Close()
	s.Value(v)
	return s.End()
}

// decodeAny decodes into a value of any type.
func decodeAny(data []byte, v any) error {
	if err := json.Unmarshal(data, v, json.RejectUnknownMembers(true)); err != nil {
		return ErrMalformed
	}
	again, err := encodeAny(v, false)
	if err != nil || !bytes.Equal(again, data) {
		return ErrMalformed
	}
	return nil
}

// Digest returns the digest of b.
func Digest(b []byte) string { return DigestText(sha256.Sum256(b)) }

// DigestText returns a SHA-256 as a digest is written.
func DigestText(sum [sha256.Size]byte) string {
	d := written(sum)
	return string(d[:])
}

// AppendDigest appends the digest of data to b.
func AppendDigest(b, data []byte) []byte {
	d := written(sha256.Sum256(data))
	return append(b, d[:]...)
}

// HasDigest reports whether d is the digest of b.
func HasDigest[T string | []byte](b []byte, d T) bool {
	want := written(sha256.Sum256(b))
	return string(want[:]) == string(d)
}

func written(sum [sha256.Size]byte) (d [DigestSize]byte) {
	copy(d[:], digestPrefix)
	for i, b := range sum { // in half the time of hex.Encode
		binary.LittleEndian.PutUint16(d[len(digestPrefix)+2*i:], hexOf[b])
	}
	return d
}

// hexOf has the two digits of each byte, the first in the lower byte.
var hexOf = func() (of [256]uint16) {
	for b := range of {
		of[b] = binary.LittleEndian.Uint16(hex.AppendEncode(nil, []byte{byte(b)}))
	}
	return of
}()

const digestPrefix = "sha256:"

// DigestSize is the length of a digest.
const DigestSize = len(digestPrefix) + 2*sha256.Size

// DigestOf returns the digest of what was written to a SHA-256 so far.
func DigestOf(h hash.Hash) string { return digestPrefix + hex.EncodeToString(h.Sum(nil)) }

// IsDigest reports whether s is a digest as [Digest] writes it: "sha256:" and 64 hex digits in lower case.
func IsDigest(s string) bool {
	digits, ok := strings.CutPrefix(s, digestPrefix)
	return ok && len(s) == DigestSize && strings.Trim(digits, "0123456789abcdef") == ""
}
