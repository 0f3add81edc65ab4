package external

import (
	"github.com/gaia-harness/gaia/internal/origin"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

// Witness is a prober that adds each document to what an attempt was given.
type Witness struct {
	tools.Prober
	Origins *origin.Index
	Source  origin.Source
}

// Probe implements tools.Prober.
func (w Witness) Probe(document, args string, urls []string) trajectory.Probes {
	w.Origins.Add(w.Source, document)
	return w.Prober.Probe(document, args, urls)
}
