// Package witness reads and writes witness bundles (.rvw): one attempt in one file, in a binary format that other
// programs read, too.
//
// A bundle has a header of fixed size, sections with a tag and a length, and optionally an HMAC-SHA256 over everything
// before it. [Parse] accepts exactly the bytes that [Bundle.Encode] writes and returns one flat error for all others
// (TestWitnessVectors, FuzzParseWitness); sections with unknown tags are kept.
package witness

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// MaxBundle bounds a witness bundle, in bytes: the largest of ours holds a question, a diff of at most 64 KiB and
// 65,535 calls.
const MaxBundle = 16 << 20

// ErrMalformed is returned for every file that is not exactly what a writer of witness bundles writes.
var ErrMalformed = errors.New("not a witness bundle, or a damaged one")

// The parts of a witness bundle, in bytes. Integers are little-endian.
//
//	header:  magic u32, version u16, flags u16, task id [16], policy hash [8],
//	         created ns u64, outcome u8, mode u8, tool calls u16, cost µ$ u32,
//	         latency ms u32, tokens u32, retries u16, sections u16, size u32
//	section: tag u16, length u32, value
//	entry of a trace: action length u16, policy check u8, pad u8 = 0,
//	         args hash [8], result hash [8], latency ms u32, cost µ$ u32,
//	         tokens u32, action
//
// Size is of the whole file. The header is followed by the sections and, in a signed bundle, by the MAC over all before
// it.
const (
	witnessHeader  = 64
	witnessSection = 6
	witnessEntry   = 32
	witnessMAC     = 32
	witnessMagic   = 0x52575657
	witnessVersion = 1
)

// The flags of a witness bundle: that it is signed, and which of the sections known here it has. Others are kept and
// mean nothing.
const (
	Signed        uint16 = 0x01
	HasSpec       uint16 = 0x02
	HasPlan       uint16 = 0x04
	HasTrace      uint16 = 0x08
	HasDiff       uint16 = 0x10
	HasTestLog    uint16 = 0x20
	HasPostmortem uint16 = 0x40
)

// The tags of a witness bundle's sections. The flag of section n is 1<<n.
const (
	Spec       uint16 = 1 // what was asked for
	Plan       uint16 = 2 // what the agent planned to do
	Trace      uint16 = 3 // its calls: Entry by Entry
	Diff       uint16 = 4 // unified diff of what it changed; empty where it changed nothing
	TestLog    uint16 = 5 // outcomes of the checks of its result
	Postmortem uint16 = 6 // why it did not succeed
)

// Note is the tag of a section of our own, which other readers keep and do not ask: it holds [Rehearsal] in each bundle
// of a rehearsal, or [ErrorsOf] and the id of a run in each bundle of a run of its errors, and is in no other.
const Note uint16 = 0x4147

// Rehearsal is what Note says of a run of built-in tasks.
const Rehearsal = "rehearsal"

// ErrorsOf begins what Note says of a run whose tasks were chosen because they failed in another, whose id follows.
const ErrorsOf = "errors-of="

const witnessKnown = Signed | HasSpec | HasPlan | HasTrace | HasDiff | HasTestLog | HasPostmortem

// The outcomes of a witness bundle.
const (
	Solved  uint8 = 0
	Failed  uint8 = 1
	Skipped uint8 = 2 // never begun, or without a gold answer to be scored by
	Error   uint8 = 3
)

// Outcome returns the outcome of a witness bundle for that of a task's seal; false if it is none.
func Outcome(sealed string) (outcome uint8, ok bool) {
	outcome, ok = map[string]uint8{trajectory.Solved: Solved, trajectory.Failed: Failed, trajectory.Skipped: Skipped,
		trajectory.Unscored: Skipped, trajectory.Errored: Error}[sealed]
	return outcome, ok
}

// The governance modes of a witness bundle.
const (
	Restricted uint8 = 0
	Approved   uint8 = 1
	Autonomous uint8 = 2
)

// Mode returns the mode of a witness bundle for a policy's; false if there is none of that name.
func Mode(mode string) (number uint8, ok bool) {
	n := slices.Index([]string{Restricted: "restricted", Approved: "approved", Autonomous: "autonomous"}, mode)
	return uint8(max(n, 0)), n >= 0
}

// What a trace says that the policy made of a call.
const (
	Allow   uint8 = 0
	Deny    uint8 = 1
	Confirm uint8 = 2 // it ran because a person approved it
)

// Bundle is a witness bundle (.rvw): one attempt at a task in one file, of a format that other programs write, too. The
// numbers are wider than their fields; Encode refuses what does not fit.
//
// TestWitnessRefuses and FuzzParseWitness show what Parse refuses.
type Bundle struct {
	Flags        uint16 // all, as read; on writing, only those that are not known here
	TaskID       [16]byte
	PolicyHash   [8]byte
	CreatedNs    uint64 // since 1970, UTC
	Outcome      uint8  // Solved, …
	Mode         uint8  // Restricted, …
	ToolCalls    int    // at most 2¹⁶-1, and where there is a trace, its entries
	CostMicroUSD int64  // at most 2³²-1, as LatencyMs and Tokens
	LatencyMs    int64
	Tokens       int64
	Retries      int       // at most 2¹⁶-1
	Sections     []Section // in the file's order, each tag once
	Size         int       // of the file, in bytes; on writing it is counted

	signed, mac []byte // of a bundle that was read and is signed: what the MAC is over, and the MAC
}

// Section is a part of a witness bundle. Tags that are not known here are kept and mean nothing.
type Section struct {
	Tag   uint16
	Value []byte
}

// Entry is a call in a trace.
type Entry struct {
	Action       string  // name of the tool; need not be UTF-8
	Policy       uint8   // Allow, Deny or Confirm
	ArgsHash     [8]byte // the first bytes of a digest of what was asked for
	ResultHash   [8]byte // and of what came back; zero if nothing did
	LatencyMs    int64   // at most 2³²-1, as CostMicroUSD and Tokens
	CostMicroUSD int64   // of a model that the tool asked
	Tokens       int64
}

// Signed reports whether a bundle that was read has a MAC. That does not show whose it is: see Verify.
func (w Bundle) Signed() bool { return w.mac != nil }

// Verify reports whether a bundle that was read has the MAC of key. One that is not signed does not.
func (w Bundle) Verify(key sign.HMACKey) bool { return w.mac != nil && key.Verify(w.signed, w.mac) }

// Section returns the value of a section; false if there is none.
func (w Bundle) Section(tag uint16) (value []byte, ok bool) {
	for _, s := range w.Sections {
		if s.Tag == tag {
			return s.Value, true
		}
	}
	return nil, false
}

// EvidenceComplete reports whether what was asked for, what was changed and the outcomes of the checks are all there.
// An empty diff is one.
func (w Bundle) EvidenceComplete() bool {
	return !slices.ContainsFunc([]uint16{Spec, Diff, TestLog}, func(tag uint16) bool {
		_, there := w.Section(tag)
		return !there
	})
}

// Rehearsal reports whether a bundle says that it is of a rehearsal, whose numbers are no score.
func (w Bundle) Rehearsal() bool {
	note, _ := w.Section(Note)
	return string(note) == Rehearsal
}

// ErrorsOf returns the id of the run whose errors the bundle's run has as its tasks, "" if the bundle does not say so.
func (w Bundle) ErrorsOf() string {
	note, _ := w.Section(Note)
	of, found := strings.CutPrefix(string(note), ErrorsOf)
	if !found {
		return ""
	}
	return of
}

// Denied returns how many calls of the trace the policy denied.
func (w Bundle) Denied() int {
	denied := 0
	for e := range w.entries {
		if e[2] == Deny {
			denied++
		}
	}
	return denied
}

// Trace returns the calls of the trace, none where there is no trace.
func (w Bundle) Trace() []Entry {
	var calls []Entry
	for e := range w.entries {
		call := Entry{Action: string(e[witnessEntry:]), Policy: e[2],
			LatencyMs:    int64(binary.LittleEndian.Uint32(e[20:])),
			CostMicroUSD: int64(binary.LittleEndian.Uint32(e[24:])),
			Tokens:       int64(binary.LittleEndian.Uint32(e[28:]))}
		copy(call.ArgsHash[:], e[4:])
		copy(call.ResultHash[:], e[12:])
		calls = append(calls, call)
	}
	return calls
}

// entries yields the bytes of each entry of the trace, up to one that is none.
func (w Bundle) entries(yield func([]byte) bool) {
	trace, _ := w.Section(Trace)
	for len(trace) > 0 {
		n := entryLen(trace)
		if n == 0 || !yield(trace[:n]) {
			return
		}
		trace = trace[n:]
	}
}

// entryLen returns the length of the entry that a trace begins with, 0 if it begins with none.
func entryLen(trace []byte) int {
	if len(trace) < witnessEntry || trace[2] > Confirm || trace[3] != 0 {
		return 0
	}
	n := witnessEntry + int(binary.LittleEndian.Uint16(trace))
	if n > len(trace) {
		return 0
	}
	return n
}

// Parse reads a bundle. The values of its sections are parts of data, which must not be changed afterwards. It does not
// check whose the MAC is. Its only error is ErrMalformed.
func Parse(data []byte) (Bundle, error) {
	if len(data) < witnessHeader || len(data) > MaxBundle {
		return Bundle{}, ErrMalformed
	}
	le := binary.LittleEndian
	if le.Uint32(data) != witnessMagic || le.Uint16(data[4:]) != witnessVersion || uint64(le.Uint32(data[60:])) != uint64(len(data)) {
		return Bundle{}, ErrMalformed
	}
	w := Bundle{Flags: le.Uint16(data[6:]), CreatedNs: le.Uint64(data[32:]), Outcome: data[40], Mode: data[41],
		ToolCalls: int(le.Uint16(data[42:])), CostMicroUSD: int64(le.Uint32(data[44:])), LatencyMs: int64(le.Uint32(data[48:])),
		Tokens: int64(le.Uint32(data[52:])), Retries: int(le.Uint16(data[56:])), Size: len(data)}
	copy(w.TaskID[:], data[8:])
	copy(w.PolicyHash[:], data[24:])
	if w.Outcome > Error || w.Mode > Autonomous {
		return Bundle{}, ErrMalformed
	}
	end := len(data)
	if w.Flags&Signed != 0 {
		end -= witnessMAC
		if end < witnessHeader {
			return Bundle{}, ErrMalformed
		}
		w.signed, w.mac = data[:end:end], data[end:]
	}
	if !w.parseSections(data[witnessHeader:end], int(le.Uint16(data[58:]))) {
		return Bundle{}, ErrMalformed
	}
	flags, ok := sectionFlags(w.Sections)
	if !ok || flags != w.Flags&witnessKnown&^Signed || !w.traced() || w.conducted() != nil {
		return Bundle{}, ErrMalformed
	}
	return w, nil
}

// parseSections reads n sections, of which body must consist.
func (w *Bundle) parseSections(body []byte, n int) bool {
	if n > len(body)/witnessSection {
		return false
	}
	if n > 0 {
		w.Sections = make([]Section, n)
	}
	for i := range w.Sections {
		if len(body) < witnessSection {
			return false
		}
		tag, length := binary.LittleEndian.Uint16(body), uint64(binary.LittleEndian.Uint32(body[2:]))
		body = body[witnessSection:]
		if length > uint64(len(body)) {
			return false
		}
		w.Sections[i] = Section{tag, body[:length:length]}
		body = body[length:]
	}
	return len(body) == 0
}

// traced reports whether the trace, if there is one, consists of as many entries as there were calls.
func (w *Bundle) traced() bool {
	trace, there := w.Section(Trace)
	calls, size := 0, 0
	for entry := range w.entries {
		calls, size = calls+1, size+len(entry)
	}
	return !there || size == len(trace) && calls == w.ToolCalls
}

// sectionFlags returns the flags of the known ones of sections; false if a tag occurs twice.
func sectionFlags(sections []Section) (flags uint16, ok bool) {
	seen := make(map[uint16]bool, len(sections))
	for _, s := range sections {
		if seen[s.Tag] {
			return 0, false
		}
		seen[s.Tag] = true
		if s.Tag < 16 {
			flags |= 1 << s.Tag
		}
	}
	return flags & witnessKnown &^ Signed, true
}
