package proxy

import (
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/origin"
	"github.com/gaia-harness/gaia/trajectory"
)

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
		o.Result += by[origin.Result]
		o.Workspace += by[origin.Workspace]
		for _, piece := range rest {
			o.Agent += int64(len(piece))
		}
		own = append(own, rest...)
	}
	o.Forgotten = c.attempt.Origins.Forgotten()
	if o.Agent == 0 || c.attempt.Probe == nil {
		return o
	}
	probes := c.attempt.Probe.Probe(origin.Join(own), "", nil)
	o.Probes = &probes
	looked, listed := 0, map[string]bool{}
	for _, piece := range own {
		for passage := range origin.Split(piece) {
			gold := false
			if looked++; probes.GoldHits > 0 && looked <= mostProbed {
				gold = c.attempt.Probe.Probe(passage, "", nil).GoldHits > 0
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

// heard makes what a model said known to the attempt, and says what was found in it.
func (c *call) heard(m llm.Message, reply *trajectory.AgentReply) {
	said := texts(m)
	for _, text := range said {
		c.attempt.Origins.Add(origin.Reply, text)
	}
	for _, asked := range m.ToolCalls { // as tools are sent them
		c.attempt.Origins.Add(origin.Reply, asked.Arguments)
	}
	reply.Code = len(m.ToolCalls) > 0 || origin.Code(m.Content)
	if all := strings.TrimSpace(strings.Join(said, "\n")); all != "" && c.attempt.Probe != nil {
		probes := c.attempt.Probe.Probe(all, "", nil)
		reply.Probes = &probes
	}
}
