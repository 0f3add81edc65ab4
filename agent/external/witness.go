package external

import (
	"slices"

	"github.com/gaia-harness/gaia/internal/origin"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

// Given is a prober that adds each document to what an attempt was given.
type Given struct {
	tools.Prober
	Origins *origin.Index
	Source  origin.Source
}

// Probe implements tools.Prober.
func (g Given) Probe(document, args string, urls []string) trajectory.Probes {
	g.Origins.Add(g.Source, document)
	return g.Prober.Probe(document, args, urls)
}

// witness is a tools.Witness. A result of files that the agent may have written, or of a computation that no reply asked for,
// is not added to what the attempt was given: as far as it was, it is known.
func (a Agent) witness(call tools.Call, out tools.Output, foreign bool) *trajectory.Probes {
	if call.Name == policy.SubmitAnswer { // the answer itself says where it was seen
		return nil
	}
	rest := a.Origins.Rest(call.Args)
	switch {
	case !foreign && (!slices.Contains(computing, call.Name) || a.isFromReply(call.Args)):
		a.Origins.Add(origin.Result, out.Document, rest)
		a.Origins.Add(origin.Result, out.Shown, rest)
	case out.Shown == out.Document:
		rest = a.Origins.Rest(call.Args, out.Document)
	default:
		rest = a.Origins.Rest(call.Args, out.Document, out.Shown)
	}
	if rest == "" || a.Probe == nil {
		return nil
	}
	own := a.Probe.Probe(rest, "", nil)
	return &own
}

// computing are the tools whose results follow from their arguments alone.
var computing = []string{"calculate", "python"}

// isFromReply reports whether a model gave all values of a call's arguments.
func (a Agent) isFromReply(args string) bool {
	values, err := policy.Arguments([]byte(args))
	for _, value := range values {
		if err != nil || !a.Origins.Holds(origin.Reply, value) {
			return false
		}
	}
	return err == nil
}
