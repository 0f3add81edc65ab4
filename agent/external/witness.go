package external

import (
	"github.com/gaia-harness/gaia/internal/origin"
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

// witness is a tools.Witness. A result of files that the agent may have written is not added to what it was given: as far as
// it was, it is known.
func (a Agent) witness(args string, out tools.Output, foreign bool) *trajectory.Probes {
	rest := a.Origins.Rest(args)
	switch {
	case !foreign:
		a.Origins.Add(origin.Result, out.Document, rest)
		a.Origins.Add(origin.Result, out.Shown, rest)
	case out.Shown == out.Document:
		rest = a.Origins.Rest(args, out.Document)
	default:
		rest = a.Origins.Rest(args, out.Document, out.Shown)
	}
	if rest == "" || a.Probe == nil {
		return nil
	}
	own := a.Probe.Probe(rest, "", nil)
	return &own
}
