package rundir

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/trajectory"
)

// network is what the journal says of the recorded network of an open attempt: the exchanges that are not completed, by
// number.
type network struct {
	begun int
	open  map[int]trajectory.ExchangeStarted
	last  *trajectory.ExchangeStarted // the request of the exchange that was completed last
}

// Bounds of what is recorded of an exchange besides its head.
const (
	maxMethod   = 256
	mostRules   = 64
	maxPassage  = 128
	maxReported = 64 << 10 // of an address
)

// start takes the request of an exchange. Exchanges are numbered 1, 2, 3 …, and none begins when there is an answer.
func (n *network) start(p trajectory.ExchangeStarted, answered bool) (reason string) {
	switch {
	case p.Number != n.begun+1:
		return fmt.Sprintf("exchange %d cannot begin here", p.Number)
	case answered:
		return fmt.Sprintf("exchange %d begins after the answer was committed", p.Number)
	case p.Method == "" || len(p.Method) > maxMethod || len(p.URL) > maxReported ||
		!strings.HasPrefix(p.URL, "http://") && !strings.HasPrefix(p.URL, "https://"):
		return fmt.Sprintf("exchange %d does not say what was asked for", p.Number)
	case p.Redactions < 0 || badBody(p.Bytes, p.SHA256, p.BodySHA256):
		return fmt.Sprintf("the body of the request of exchange %d has a size or digest that none has", p.Number)
	}
	if n.open == nil {
		n.open = map[int]trajectory.ExchangeStarted{}
	}
	n.begun, n.open[p.Number] = p.Number, p
	return ""
}

// complete takes the reply of an exchange that is open.
func (n *network) complete(p trajectory.ExchangeCompleted) (reason string) {
	started, open := n.open[p.Number]
	switch {
	case !open:
		return fmt.Sprintf("exchange %d is not open", p.Number)
	case p.Status != 0 && (p.Status < 100 || p.Status > 999), p.Status == 0 && (p.Error == "" || p.SHA256 != ""):
		return fmt.Sprintf("exchange %d has the status %d, which no such reply has", p.Number, p.Status)
	case min(p.LatencyMs, p.Unprobed) < 0, min(p.Redactions, p.Opaque) < 0, badBody(p.Bytes, p.SHA256, p.BodySHA256):
		return fmt.Sprintf("the body of the reply of exchange %d has a size or digest that none has", p.Number)
	case len(p.Head) > trajectory.ExchangeHead, p.SHA256 == "" && (p.Head != "" || p.Truncated || p.Unprobed > 0 || p.Media || p.Opaque > 0), p.Status == 0 && p.Probes != nil:
		return fmt.Sprintf("exchange %d shows more of its reply than there is", p.Number)
	}
	delete(n.open, p.Number)
	n.last = &started
	return ""
}

// badBody reports whether a body cannot have a size and digests. One that is empty has none.
func badBody(size int64, sha256, bodySHA256 string) bool {
	return size < 0 || (size == 0) != (sha256 == "") || sha256 != "" && !canonical.IsDigest(sha256) ||
		bodySHA256 != "" && (sha256 == "" || !canonical.IsDigest(bodySHA256))
}

// firstOpen returns the first exchange that is not completed.
func (n *network) firstOpen() int { return slices.Min(slices.Collect(maps.Keys(n.open))) }

// sources are where an answer of an own agent can have stood before, as package origin names them.
var sources = []string{"exchange", "question", "reply", "result", "workspace"}

// badOrigins says what no request of a run with a number of tasks can have of where its messages come from.
func badOrigins(o *trajectory.Origins, tasks int) string {
	switch {
	case min(o.Agent, o.Exchange, o.Forgotten, o.Question, o.Reply, o.Result, o.Workspace) < 0:
		return "counts less than nothing of where its messages come from"
	case o.Agent == 0 && len(o.Passages) > 0: // probes can be of what was sent before, in another order
		return "shows something of the agent's in messages that have nothing of it"
	case len(o.Passages) > trajectory.MostPassages:
		return fmt.Sprintf("lists %d passages of the agent's", len(o.Passages))
	}
	for _, p := range o.Passages {
		if p.Key == "" || len(p.Key) > maxPassage || p.Tasks < 0 || p.Tasks >= tasks {
			return "lists a passage of the agent's that none can be"
		}
	}
	return ""
}
