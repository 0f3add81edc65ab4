package rundir

import (
	"fmt"

	"github.com/gaia-harness/gaia/trajectory"
)

// The codes of failed model calls that are counted here, as package llm names them (TestPaths in
// internal/run).
const (
	CodeTooLong      = "context_length_exceeded"
	CodeToolsRefused = "tools_not_supported"
)

// serverCounts are what the replies in an attempt say of the server behind the model.
type serverCounts struct {
	replies int
	tooLong int  // requests that were refused because the conversation does not fit the model
	refused int  // requests that were refused because they offer tools
	noRoom  bool // the last request was one of tooLong
}

func (c *serverCounts) add(p trajectory.ModelCallCompleted) {
	c.noRoom = false
	switch {
	case p.Error == nil:
		c.replies++
	case p.Error.Code == CodeTooLong:
		c.tooLong++
		c.noRoom = true
	case p.Error.Code == CodeToolsRefused:
		c.refused++
	}
}

// ServerNotes returns what the journal says of a server that was set up for something else: a name and a
// line for a context that is too small, and for tools that are refused or never called. None of it changes
// a score.
func (f *Fold) ServerNotes() [][2]string {
	var tasks, noRoom, replies, calls, refused int
	for _, t := range f.Tasks {
		tooLong := 0
		for _, a := range t.Attempts {
			tooLong += a.server.tooLong
			refused += a.server.refused
			replies += a.server.replies
			calls += a.ToolCalls
			if a.server.noRoom && a.Ended != nil && a.Ended.Outcome == trajectory.NoAnswer {
				noRoom++
			}
		}
		if tooLong > 0 {
			tasks++
		}
	}
	var out [][2]string
	if tasks > 0 {
		line := fmt.Sprintf("the endpoint refused a conversation as too long in %d of %s", tasks, counted(len(f.Tasks), "task"))
		if noRoom > 0 {
			line += fmt.Sprintf(", and %s ended without an answer for it", counted(noRoom, "attempt"))
		}
		out = append(out, [2]string{"context", line + ": start the server with a larger context, or give its size with --context-window"})
	}
	switch {
	case refused > 0:
		out = append(out, [2]string{"tools", fmt.Sprintf("the endpoint refused tools in %s: name a model that calls tools, or start the server with tool calling on", counted(refused, "request"))})
	case len(f.Manifest.Tools) > 0 && replies > 0 && calls == 0:
		line := fmt.Sprintf("%s offered in %s, none called", counted(len(f.Manifest.Tools), "tool"), counted(replies, "model call"))
		switch p := f.Preflight(); {
		case p == nil || p.Tool == "": // it was not tried
			out = append(out, [2]string{"tools", line + ": the model or its server may ignore tools; 'gaia doctor' tries one"})
		case p.Tool == trajectory.ToolCalled:
			out = append(out, [2]string{"tools", line + ", though the model called the one of the preflight"})
		} // else the summary of the preflight says it
	}
	return out
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
