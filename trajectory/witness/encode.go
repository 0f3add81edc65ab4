package witness

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Encode returns the bundle's bytes, signed with key (a sign.HMACKey), or not if key is nil. What was read, and is
// signed with the key that it was signed with, gives the bytes that were read. A value that does not fit its field is
// an error that names it.
func (w Bundle) Encode(key interface{ Sign(msg []byte) []byte }) ([]byte, error) {
	known, ok := sectionFlags(w.Sections)
	if !ok {
		return nil, fmt.Errorf("a witness bundle cannot have two sections of one tag")
	}
	size := witnessHeader
	for _, s := range w.Sections {
		size += witnessSection + len(s.Value)
	}
	flags := w.Flags&^witnessKnown | known
	if key != nil {
		size += witnessMAC
		flags |= Signed
	}
	if size > MaxBundle {
		return nil, fmt.Errorf("a witness bundle of %d bytes: its size is at most %d", size, MaxBundle)
	}
	f := fields{b: make([]byte, 0, size)}
	f.u32("magic", witnessMagic)
	f.u16("version", witnessVersion)
	f.u16("flags", int64(flags))
	f.b = append(f.b, w.TaskID[:]...)
	f.b = append(f.b, w.PolicyHash[:]...)
	f.b = binary.LittleEndian.AppendUint64(f.b, w.CreatedNs)
	f.number("outcome", int64(w.Outcome), int64(Error))
	f.b = append(f.b, w.Outcome)
	f.number("mode", int64(w.Mode), int64(Autonomous))
	f.b = append(f.b, w.Mode)
	f.u16("tool_calls", int64(w.ToolCalls))
	f.u32("cost", w.CostMicroUSD)
	f.u32("latency_ms", w.LatencyMs)
	f.u32("tokens", w.Tokens)
	f.u16("retries", int64(w.Retries))
	f.u16("sections", int64(len(w.Sections)))
	f.u32("size", int64(size))
	for _, s := range w.Sections {
		f.u16("tag", int64(s.Tag))
		f.u32("length", int64(len(s.Value)))
		f.b = append(f.b, s.Value...)
	}
	if f.err != nil {
		return nil, f.err
	}
	if !w.traced() {
		return nil, fmt.Errorf("the trace of a witness bundle is not one of its %d calls", w.ToolCalls)
	}
	if err := w.conducted(); err != nil {
		return nil, err
	}
	if key != nil {
		f.b = append(f.b, key.Sign(f.b)...)
	}
	if len(f.b) != size {
		return nil, fmt.Errorf("a witness bundle is signed with %d bytes, not with %d", len(f.b)-size+witnessMAC, witnessMAC)
	}
	return f.b, nil
}

// EncodeTrace returns the value of a trace section. A value that does not fit its field is an error that names it.
func EncodeTrace(calls []Entry) ([]byte, error) {
	var f fields
	for i, c := range calls {
		f.in = fmt.Sprintf("call %d of the trace: ", i+1)
		f.u16("action", int64(len(c.Action)))
		f.number("policy", int64(c.Policy), int64(Confirm))
		f.b = append(f.b, c.Policy, 0)
		f.b = append(f.b, c.ArgsHash[:]...)
		f.b = append(f.b, c.ResultHash[:]...)
		f.u32("latency_ms", c.LatencyMs)
		f.u32("cost", c.CostMicroUSD)
		f.u32("tokens", c.Tokens)
		f.b = append(f.b, c.Action...)
		if f.err != nil {
			return nil, f.err
		}
	}
	return f.b, nil
}

// fields appends numbers to b and keeps the first that does not fit.
type fields struct {
	b   []byte
	in  string // the place of the field, for the error
	err error
}

func (f *fields) u16(name string, n int64) {
	f.number(name, n, math.MaxUint16)
	f.b = binary.LittleEndian.AppendUint16(f.b, uint16(n))
}

func (f *fields) u32(name string, n int64) {
	f.number(name, n, math.MaxUint32)
	f.b = binary.LittleEndian.AppendUint32(f.b, uint32(n))
}

func (f *fields) number(name string, n, most int64) {
	if f.err == nil && (n < 0 || n > most) {
		f.err = fmt.Errorf("%s%s of a witness bundle is %d: it holds 0 to %d", f.in, name, n, most)
	}
}
