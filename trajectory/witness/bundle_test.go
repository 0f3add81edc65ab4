package witness

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// fixed is a MAC that is known already.
type fixed []byte

func (m fixed) Sign([]byte) []byte { return m }

// full is the first vector with all sections, and unsigned what is left of it
// where its signature is taken away.
func full(t testing.TB) (bundle, unsigned []byte) {
	t.Helper()
	bundle, err := os.ReadFile(filepath.Join(vectors, "w027.rvw"))
	if err != nil {
		t.Fatal(err)
	}
	return bundle, strip(bundle)
}

// strip removes the signature from a bundle and its flag.
func strip(bundle []byte) []byte {
	b := bytes.Clone(bundle[:len(bundle)-witnessMAC])
	b[6] &^= byte(Signed)
	binary.LittleEndian.PutUint32(b[60:], uint32(len(b)))
	return b
}

// TestWitnessTampered changes each byte of each signed vector: what can still be
// read does not verify.
func TestWitnessTampered(t *testing.T) {
	key := vectorKey(t)
	index, bundles := readVectors(t)
	for i, v := range index {
		if !v.Signed {
			continue
		}
		for at := range bundles[i] {
			for _, flip := range []byte{0x01, 0x80, 0xff} {
				b := bytes.Clone(bundles[i])
				b[at] ^= flip
				if w, err := Parse(b); err == nil && w.Verify(key) {
					t.Errorf("%s: byte %d changed by %#x verifies", v.File, at, flip)
				}
			}
		}
		w, err := Parse(strip(bundles[i]))
		if err != nil || w.Signed() || w.Verify(key) {
			t.Errorf("%s without its signature: signed %v, verifies %v, %v", v.File, w.Signed(), w.Verify(key), err)
		}
	}
}

// TestWitnessRefuses gives what is not exactly a bundle.
func TestWitnessRefuses(t *testing.T) {
	bundle, unsigned := full(t)
	le := binary.LittleEndian
	at := map[uint16]int{} // where a section begins
	for n, o := 0, witnessHeader; n < 6; n++ {
		at[le.Uint16(unsigned[o:])] = o
		o += witnessSection + int(le.Uint32(unsigned[o+2:]))
	}
	change := func(from []byte, edit func(b []byte) []byte) []byte { return edit(bytes.Clone(from)) }
	sized := func(b []byte) []byte { le.PutUint32(b[60:], uint32(len(b))); return b }
	set := func(o int, v ...byte) func([]byte) []byte {
		return func(b []byte) []byte { copy(b[o:], v); return b }
	}
	large := make([]byte, MaxBundle+1) // one section of another tag, and nothing wrong with it
	copy(large, unsigned[:8])
	large[6], large[58], large[witnessHeader] = 0, 1, 99
	le.PutUint32(large[witnessHeader+2:], uint32(len(large)-witnessHeader-witnessSection))
	sized(large)
	if _, err := Parse(sized(change(large[:MaxBundle], set(witnessHeader+2, 0xba, 0xff, 0xff, 0)))); err != nil {
		t.Fatalf("the largest bundle: %v", err)
	}
	tests := map[string][]byte{
		"empty":                       {},
		"a header cut short":          unsigned[:63],
		"another magic":               change(unsigned, set(0, 'R')),
		"the magic the other way":     change(unsigned, set(0, 'R', 'V', 'W', 'W')),
		"version 0":                   change(unsigned, set(4, 0)),
		"version 2":                   change(unsigned, set(4, 2)),
		"version 257":                 change(unsigned, set(5, 1)),
		"cut by a byte":               unsigned[:len(unsigned)-1],
		"cut, and the size corrected": sized(bytes.Clone(unsigned[:len(unsigned)-1])),
		"a byte more":                 append(bytes.Clone(unsigned), 0),
		"a byte more, size corrected": sized(append(bytes.Clone(unsigned), 0)),
		"signed and a byte more":      sized(append(bytes.Clone(bundle), 0)),
		"size 2³²-1":                  change(unsigned, set(60, 255, 255, 255, 255)),
		"size 0":                      change(unsigned, set(60, 0, 0, 0, 0)),
		"outcome 4":                   change(unsigned, set(40, 4)),
		"mode 3":                      change(unsigned, set(41, 3)),
		"calls without entries":       change(unsigned, set(42, 5)),
		"entries without calls":       change(unsigned, set(42, 3)),
		"a section fewer":             change(unsigned, set(58, 5)),
		"a section more":              change(unsigned, set(58, 7)),
		"2¹⁶-1 sections":              change(unsigned, set(58, 255, 255)),
		"length 2³²-1":                change(unsigned, set(at[5]+2, 255, 255, 255, 255)),
		"length 2³²-6":                change(unsigned, set(at[5]+2, 250, 255, 255, 255)),
		"last section a byte longer":  change(unsigned, set(at[6]+2, 26)),
		"last section a byte shorter": change(unsigned, set(at[6]+2, 24)),
		"the last tag twice":          change(unsigned, set(at[6], 5)),
		"a tag of another's flag":     change(unsigned, set(at[6], 7)),
		"no flag of the plan":         change(unsigned, set(6, 0x7e&^4)),
		"flag of the MAC, no MAC":     change(unsigned, set(6, 0x7f)),
		"MAC without its flag":        change(bundle, set(6, 0x7e)),
		"signed, shorter than a MAC":  change(unsigned[:witnessHeader], func(b []byte) []byte { clear(b[42:60]); b[6] = 1; return sized(b) }),
		"flag of a plan, no plan":     change(unsigned[:witnessHeader], func(b []byte) []byte { clear(b[42:60]); b[6] = 4; return sized(b) }),
		"policy check 3":              change(unsigned, set(at[3]+6+2, 3)),
		"pad 1":                       change(unsigned, set(at[3]+6+3, 1)),
		"an action a byte longer":     change(unsigned, set(at[3]+6, 11)),
		"an action of 2¹⁶-1":          change(unsigned, set(at[3]+6, 255, 255)),
		"the last action longer":      change(unsigned, set(at[4]-witnessEntry-4, 5)),
		"the last action shorter":     change(unsigned, set(at[4]-witnessEntry-4, 3)),
		"larger than a bundle can be": large,
		"another kind of file":        []byte(strings.Repeat("{\"a\":1}\n", 20)),
	}
	for _, b := range [][]byte{unsigned, bundle} {
		if _, err := Parse(b); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range tests {
		if w, err := Parse(data); !errors.Is(err, ErrMalformed) || !reflect.DeepEqual(w, Bundle{}) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for n := range bundle { // also with a size that says so
		for _, b := range [][]byte{bytes.Clone(bundle[:n]), bytes.Clone(unsigned[:min(n, len(unsigned)-1)])} {
			if len(b) >= witnessHeader {
				sized(b)
			}
			if _, err := Parse(b); !errors.Is(err, ErrMalformed) {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
	}
}

// TestWitnessManyTags: a tag that stands there twice is found among many, too.
func TestWitnessManyTags(t *testing.T) {
	w := Bundle{}
	for tag := range 1 << 15 {
		w.Sections = append(w.Sections, Section{Tag: uint16(2*tag + 65)})
	}
	data := encode(t, w, vectorKey(t))
	if got, err := Parse(data); err != nil || len(got.Sections) != 1<<15 {
		t.Fatalf("%d sections, %v", len(got.Sections), err)
	}
	binary.LittleEndian.PutUint16(data[len(data)-witnessSection:], 65)
	if _, err := Parse(data); !errors.Is(err, ErrMalformed) {
		t.Errorf("a tag twice among 2¹⁵: %v", err)
	}
	w.Sections = append(w.Sections, Section{Tag: 65})
	if _, err := w.Encode(nil); err == nil || !strings.Contains(err.Error(), "two sections of one tag") {
		t.Errorf("written with a tag twice: %v", err)
	}
}

// TestWitnessKeepsUnknown: what another version adds survives, and so do the
// largest values that the fields hold.
func TestWitnessKeepsUnknown(t *testing.T) {
	calls, err := EncodeTrace([]Entry{{Action: "\xff\x00", Policy: Confirm, LatencyMs: 1<<32 - 1, CostMicroUSD: 1<<32 - 1, Tokens: 1<<32 - 1},
		{Action: strings.Repeat("a", 1<<16-1)}, {}})
	if err != nil {
		t.Fatal(err)
	}
	w := Bundle{Flags: 0x8080, TaskID: [16]byte{1}, PolicyHash: [8]byte{2}, CreatedNs: 1<<64 - 1, Outcome: Error, Mode: Autonomous, ToolCalls: 3,
		CostMicroUSD: 1<<32 - 1, LatencyMs: 1<<32 - 1, Tokens: 1<<32 - 1, Retries: 1<<16 - 1,
		Sections: []Section{{65535, []byte("a")}, {Diff, []byte{}}, {0, []byte("b")}, {Trace, calls}, {63, []byte{}}, {7, []byte("c")}}}
	data := encode(t, w, vectorKey(t))
	got, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	w.Flags |= HasDiff | HasTrace
	w.Size = len(data)
	if !reflect.DeepEqual(got, w) {
		t.Errorf("read %+v\nwant %+v", got, w)
	}
	if again := encode(t, got, vectorKey(t)); !bytes.Equal(again, data) {
		t.Error("is written again in other bytes")
	}
	if diff, ok := got.Section(Diff); !ok || len(diff) != 0 {
		t.Errorf("an empty diff is read as %q, %v", diff, ok)
	}
	if _, ok := got.Section(Spec); ok || got.EvidenceComplete() {
		t.Error("has a question that it does not have")
	}
}

// TestWitnessEncodeRefuses: nothing is cut to fit its field.
func TestWitnessEncodeRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		w    Bundle
	}{
		{"outcome of a witness bundle is 4", Bundle{Outcome: 4}},
		{"mode of a witness bundle is 3", Bundle{Mode: 3}},
		{"tool_calls of a witness bundle is 65536", Bundle{ToolCalls: 1 << 16}},
		{"tool_calls of a witness bundle is -1", Bundle{ToolCalls: -1}},
		{"cost of a witness bundle is 4294967296: it holds 0 to 4294967295", Bundle{CostMicroUSD: 1 << 32}},
		{"latency_ms of a witness bundle is 4294967296", Bundle{LatencyMs: 1 << 32}},
		{"tokens of a witness bundle is -1", Bundle{Tokens: -1}},
		{"retries of a witness bundle is 65536", Bundle{Retries: 1 << 16}},
		{"two sections of one tag", Bundle{Sections: make([]Section, 2)}},
		{"at most 16777216", Bundle{Sections: []Section{{Tag: Diff, Value: make([]byte, MaxBundle)}}}},
		{"is not one of its 1 calls", Bundle{ToolCalls: 1, Sections: []Section{{Tag: Trace}}}},
		{"is not one of its 0 calls", Bundle{Sections: []Section{{Tag: Trace, Value: []byte("no")}}}},
	} {
		if data, err := tt.w.Encode(nil); data != nil || err == nil || !strings.Contains(err.Error(), tt.name) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	for name, call := range map[string]Entry{
		"call 2 of the trace: action of a witness bundle is 65536": {Action: strings.Repeat("a", 1<<16)},
		"call 2 of the trace: policy of a witness bundle is 3":     {Policy: 3},
		"latency_ms of a witness bundle is -1":                     {LatencyMs: -1},
		"cost of a witness bundle is 4294967296":                   {CostMicroUSD: 1 << 32},
		"tokens of a witness bundle is 4294967296":                 {Tokens: 1 << 32},
	} {
		if data, err := EncodeTrace([]Entry{{}, call}); data != nil || err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if data, err := (Bundle{}).Encode(fixed("short")); data != nil || err == nil {
		t.Errorf("signed with 5 bytes: %v", err)
	}
}

// TestWitnessOutcomes maps the words of a run to the numbers of the format.
func TestWitnessOutcomes(t *testing.T) {
	got := ""
	for _, outcome := range []string{trajectory.Solved, trajectory.Failed, trajectory.Skipped, trajectory.Unscored, trajectory.Errored, "", "won"} {
		n, ok := Outcome(outcome)
		got += fmt.Sprint(n, ok, " ")
	}
	for _, mode := range []string{"restricted", "approved", "autonomous", "", "free"} {
		n, ok := Mode(mode)
		got += fmt.Sprint(n, ok, " ")
	}
	if want := "0 true 1 true 2 true 2 true 3 true 0 false 0 false 0 true 1 true 2 true 0 false 0 false "; got != want {
		t.Errorf("%s", got)
	}
}

// FuzzParseWitness: what is accepted has one form, and is written again in it.
func FuzzParseWitness(f *testing.F) {
	_, bundles := readVectors(f)
	for _, b := range bundles {
		f.Add(b)
		if b[6]&byte(Signed) != 0 {
			f.Add(strip(b))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := Parse(data)
		if err != nil {
			if !errors.Is(err, ErrMalformed) || !reflect.DeepEqual(w, Bundle{}) {
				t.Fatalf("%+v, %v", w, err)
			}
			return
		}
		if len(w.Sections) > len(data)/witnessSection || len(w.Trace()) > len(data)/witnessEntry || w.Denied() > w.ToolCalls {
			t.Fatalf("%d sections, %d entries, %d denied of %d bytes", len(w.Sections), len(w.Trace()), w.Denied(), len(data))
		}
		again, err := w.Encode(nil)
		if w.Signed() {
			again, err = w.Encode(fixed(w.mac))
		}
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("is written again as %x, %v", again, err)
		}
	})
}

// TestWitnessGovernance: our own section reads back, and one that is malformed, counts what
// cannot be or contradicts the trace is refused, by the writer and by the reader.
func TestWitnessGovernance(t *testing.T) {
	zero := `{"denials":{"budget":0,"deny_list":0,"mode":0,"rule":0},"person_refusals":0,"recorded":true,"rollbacks":0,"rollbacks_correct":0}`
	with := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(zero) }
	for _, tt := range []struct {
		name, value string
		trace       []uint8 // what the policy made of each call
		ok          bool
	}{
		{"nothing", zero, nil, true},
		{"not recorded", with("true", "false"), nil, true},
		{"each denied call", with(`"budget":0`, `"budget":1`, `"deny_list":0`, `"deny_list":1`, `"mode":0`, `"mode":1`, `"person_refusals":0`, `"person_refusals":1`), []uint8{1, 1, 1, 1}, true},
		{"spends above a budget", with(`"budget":0`, `"budget":2`), nil, true},
		{"denied for no class", zero, []uint8{1, 1}, true},
		{"redirects of a call that ran", with(`"rule":0`, `"rule":8`, `"rollbacks":0`, `"rollbacks":1`), []uint8{0}, true},
		{"a rule beside a denial", with(`"rule":0`, `"rule":1`, `"mode":0`, `"mode":1`), []uint8{1, 1}, true},
		{"more denials than denied calls", with(`"mode":0`, `"mode":2`), []uint8{1, 0}, false},
		{"a person's refusal of nothing", with(`"person_refusals":0`, `"person_refusals":1`), []uint8{2}, false},
		{"rules of calls that are not there", with(`"rule":0`, `"rule":2`), []uint8{1}, false},
		{"a rollback without a call", with(`"rollbacks":0`, `"rollbacks":1`), nil, false},
		{"more correct than there are", with(`"rollbacks_correct":0`, `"rollbacks_correct":1`), []uint8{0}, false},
		{"below nothing", with(`"rule":0`, `"rule":-1`), []uint8{0}, false},
		{"beyond", with(`"rule":0`, `"rule":4294967296`), []uint8{0}, false},
		{"not canonical", " " + zero, nil, false},
		{"a fraction", with(`"rule":0`, `"rule":0.0`), nil, false},
		{"a member too many", with(`{"denials"`, `{"a":1,"denials"`), nil, false},
		{"a member too few", with(`,"rollbacks_correct":0`, ``), nil, false},
		{"null", "null", nil, false},
		{"empty", "", nil, false},
		{"long", strings.Repeat(" ", 600) + zero, nil, false},
	} {
		var calls []Entry
		for _, check := range tt.trace {
			calls = append(calls, Entry{Action: "python", Policy: check})
		}
		trace, err := EncodeTrace(calls)
		if err != nil {
			t.Fatal(err)
		}
		w := Bundle{ToolCalls: len(calls), Sections: []Section{{Trace, trace}, {Governance + 1, []byte(tt.value)}}}
		data := encode(t, w, sign.HMACKey{})
		at := bytes.Index(data, binary.LittleEndian.AppendUint16(nil, Governance+1))
		data[at] = byte(Governance & 0xff)
		read, err := Parse(data)
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
		if c, says := read.Conduct(); says != tt.ok || tt.ok && !bytes.Equal(encode(t, read, sign.HMACKey{}), data) {
			t.Errorf("%s: reads as %+v, %v", tt.name, c, says)
		}
		w.Sections[1].Tag = Governance
		if _, err := w.Encode(nil); (err == nil) != tt.ok {
			t.Errorf("%s: written: %v", tt.name, err)
		}
		if os.Getenv("GAIA_INTEROP") == "1" {
			readable := pythonReads(t, data)
			if readable != tt.ok {
				t.Errorf("%s: Python reads it: %v", tt.name, readable)
			}
		}
	}
}
