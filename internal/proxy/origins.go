package proxy

import (
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/origin"
	"github.com/gaia-harness/gaia/internal/unpack"
	"github.com/gaia-harness/gaia/trajectory"
)

// mostSpelled bounds a message that is read together with those beside it, in bytes.
const mostSpelled = 64

// mostRead bounds what is read in other ways at once, in bytes.
const mostRead = 256 << 10

// mostProbed bounds the passages of a request that are probed one by one.
const mostProbed = 1000

// texts returns what a model reads, or has written, of a message.
func texts(m llm.Message) []string {
	all := []string{m.Content, string(m.Opaque)}
	for _, c := range m.ToolCalls {
		all = append(all, c.Name+"\n"+c.Arguments, string(c.Opaque))
	}
	return all
}

// origins divides the messages that the attempt has not sent before, and the definitions of tools likewise.
func (c *call) origins(messages []llm.Message, tools []byte) *trajectory.Origins {
	var fresh []string
	c.mu.Lock()
	for i, m := range messages {
		if id := c.messages.listed[i].SHA256; !c.divided[id] {
			c.divided[id] = true
			fresh = append(fresh, texts(m)...)
		}
	}
	if id := canonical.Digest(tools); tools != nil && !c.divided[id] {
		c.divided[id] = true
		fresh = append(fresh, string(tools))
	}
	c.mu.Unlock()
	o := &trajectory.Origins{}
	var own []string
	for _, text := range fresh {
		by, rest := c.attempt.Origins.Divide(text)
		o.Exchange += by[origin.Exchange]
		o.Question += by[origin.Question]
		o.Reply += by[origin.Reply]
		o.Result += by[origin.Result] + by[origin.Definition]
		o.Workspace += by[origin.Workspace]
		for _, piece := range rest {
			o.Agent += int64(len(piece))
		}
		own = append(own, rest...)
	}
	o.Forgotten = c.attempt.Origins.Forgotten()
	spelled := c.spelled(messages)
	if o.Agent == 0 && spelled == nil || c.attempt.Probe == nil {
		return o
	}
	probes := c.look(own)
	if probes.GoldHits == 0 && spelled != nil {
		probes = probes.Merge(c.look(spelled))
	}
	o.Probes = &probes
	looked, listed := 0, map[string]bool{}
	for _, piece := range own {
		for passage := range origin.Split(piece) {
			gold := false
			if looked++; probes.GoldHits > 0 && looked <= mostProbed {
				gold = c.look([]string{passage}).GoldHits > 0
			}
			key, tasks, report := c.attempt.Passages.Sent(c.attempt.Rec.TaskID, passage, gold)
			if report && !listed[key] && len(o.Passages) < trajectory.MostPassages {
				listed[key] = true
				o.Passages = append(o.Passages, trajectory.Passage{Key: key, Tasks: tasks})
			}
		}
	}
	return o
}

// spelled returns the short messages one after the other that nothing explains, also those that were sent before: in another
// order they say something else. It returns nil where there are none, or they were looked at before.
func (c *call) spelled(messages []llm.Message) (all []string) {
	for i, m := range messages {
		beside := i > 0 && len(messages[i-1].Content) <= mostSpelled || i+1 < len(messages) && len(messages[i+1].Content) <= mostSpelled
		if !beside || m.Content == "" || len(m.Content) > mostSpelled {
			continue
		}
		if _, rest := c.attempt.Origins.Divide(m.Content); len(rest) == 1 && rest[0] == m.Content {
			all = append(all, m.Content)
		}
	}
	id := canonical.Digest([]byte(strings.Join(all, "\n")))
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(all) < 2 || c.divided[id] {
		return nil
	}
	c.divided[id] = true
	return all
}

// look probes pieces of text. If the answer is not in them as they are, it is looked for in what else they can be read as.
func (c *call) look(pieces []string) trajectory.Probes {
	seen := c.attempt.Probe.Probe(origin.Join(pieces), "", nil)
	var some []string
	size := 0
	for i := 0; i < len(pieces) && seen.GoldHits == 0; i++ {
		for rest := pieces[i]; rest != "" && seen.GoldHits == 0; {
			part := rest[:min(len(rest), mostRead-size)]
			rest = rest[len(part):]
			some, size = append(some, part), size+len(part)
			if size < mostRead && (rest != "" || i+1 < len(pieces)) {
				continue
			}
			if other := c.attempt.Probe.Probe(origin.Join(unpack.Readings(some)), "", nil); other.GoldHits > 0 {
				seen = seen.Merge(other)
			}
			end := part[max(0, len(part)-mostSpelled):] // what begins there
			some, size = []string{end}, len(end)
		}
	}
	return seen
}

// heard makes what a model said known to the attempt, and says what was found in it.
func (c *call) heard(m llm.Message, reply *trajectory.AgentReply) {
	said := texts(m)
	for _, text := range said {
		c.attempt.Origins.Add(origin.Reply, text)
	}
	for _, asked := range m.ToolCalls { // as tools are sent them
		c.attempt.Origins.Add(origin.Reply, asked.Arguments)
	}
	reply.Code = origin.Code(m.Content, c.attempt.Tools) || slices.ContainsFunc(m.ToolCalls, func(asked llm.ToolCall) bool { return !origin.Recorded(asked.Name, c.attempt.Tools) })
	if all := strings.TrimSpace(strings.Join(said, "\n")); all != "" && c.attempt.Probe != nil {
		probes := c.attempt.Probe.Probe(all, "", nil)
		reply.Probes = &probes
	}
}
