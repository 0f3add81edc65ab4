package tools

import (
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
)

// What the tests outside of the package use, which also use the tools behind the Gate.
type (
	GateSink  = gateSink
	ProbeArgs = probeArgs
)

var (
	NewSession = newSession
	Recorded   = recorded
	Flushed    = flushed
	Names      = names
	ProbeTool  = probe
	Writer     = writer
	Saves      = saves
)

func (s *Session) TheGate() *Gate              { return s.gate }
func (s *Session) Files() *Workspace           { return s.workspace }
func (s *Session) Record() *trajectory.Attempt { return s.rec }
func (s *Session) SetTask(id string)           { s.rec.TaskID = id }
func (s *Session) SpentMicroUSD() int64        { return s.cost }
func (s *Session) SetSpentMicroUSD(cost int64) { s.cost = cost }
func (s *Session) Asked(c Call) policy.Call    { return s.read(c).asked }

const MaxReason = maxReason

const (
	DefaultCompletion = defaultCompletion
	LeastCompletion   = leastCompletion
)

func Durable(s *GateSink) string { return s.durable() }

// AskedApprover answers in turn; Got returns how often it was asked.
func AskedApprover(sink *GateSink, answers ...Answer) *asked {
	return &asked{sink: sink, answers: answers}
}

func (a *asked) Got() []Approval   { return a.got }
func (a *asked) Durable() []string { return a.durable }
