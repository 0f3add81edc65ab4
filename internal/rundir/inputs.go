package rundir

import (
	"fmt"

	"github.com/gaia-harness/gaia/trajectory"
)

// Inputs counts the bytes of the texts that models were sent, each text of an attempt once, and those of them whose
// source was witnessed. Of the built-in agent all are: its messages are templates, the question, replies and results, and
// an audit compares them with those. Of an own agent its requests say where their messages come from.
type Inputs struct {
	PromptBytes    int64
	WitnessedBytes int64
	Unknown        bool // a request of an own agent does not say where its messages come from
}

// add counts a request as the journal has it. It returns false if a sum grows too large.
func (n *Inputs) add(p trajectory.ContextCompiled, own bool) bool {
	var sizes []int64
	var agent int64
	switch o := p.Origins; {
	case o != nil:
		sizes, agent = []int64{o.Agent, o.Exchange, o.Question, o.Reply, o.Result, o.Workspace}, o.Agent
	case own:
		n.Unknown = true
	default:
		for _, m := range p.Messages {
			sizes = append(sizes, m.Bytes)
		}
	}
	for _, size := range sizes {
		if size < 0 || size > maxCounted-n.PromptBytes {
			return false
		}
		n.PromptBytes, n.WitnessedBytes = n.PromptBytes+size, n.WitnessedBytes+size
	}
	n.WitnessedBytes -= agent
	return true
}

// Share says how many of the bytes that models were sent came from a source that was witnessed.
type Share struct {
	Bytes     int64 `json:"bytes"`
	Witnessed int64 `json:"witnessed"`
}

// Share returns the share of a run; nil where models were sent nothing, or requests do not say where it comes from.
func (n Inputs) Share() *Share {
	if n.PromptBytes == 0 || n.Unknown {
		return nil
	}
	return &Share{n.PromptBytes, n.WitnessedBytes}
}

// Plausible reports whether a run can have a share; own says that it is of an own agent. Nil says that it is not known.
func (s *Share) Plausible(own bool) bool {
	return s == nil || s.Bytes > 0 && s.Bytes <= maxCounted && s.Witnessed >= 0 && s.Witnessed <= s.Bytes && (own || s.Witnessed == s.Bytes)
}

// String returns the share in words, rounded down: 100 % is all.
func (s *Share) String() string {
	if s == nil {
		return "not known"
	}
	tenths := s.Witnessed * 1000 / max(s.Bytes, 1) // of numbers up to 2⁵³
	return fmt.Sprintf("%d.%d %% of %d bytes that models were sent are witnessed", tenths/10, tenths%10, s.Bytes)
}
