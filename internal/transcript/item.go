package transcript

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
)

// Bounds of an item, in bytes, and of its lists. maxTitle is the longest title, maxFact the longest value of a fact.
const (
	maxTitle    = 400
	maxFact     = 2 << 10
	maxText     = 64 << 10
	maxFacts    = 40
	maxListed   = 20 // of one list, among the facts
	maxPictures = 20
)

// kindOf returns the kind of the items of a type.
func kindOf(t trajectory.Type) string {
	switch t {
	case trajectory.TypeTaskStarted:
		return KindTask
	case trajectory.TypeContextCompiled, trajectory.TypeContextCondensed, trajectory.TypeModelCallStarted:
		return KindPrompt
	case trajectory.TypeModelCallCompleted:
		return KindReply
	case trajectory.TypeToolProposed:
		return KindCall
	case trajectory.TypePolicyDecision, trajectory.TypePolicyViolation, trajectory.TypeApprovalRequested, trajectory.TypeApprovalResolved,
		trajectory.TypeCheckpointSaved, trajectory.TypeRollback, trajectory.TypeRequestRefused:
		return KindDecision
	case trajectory.TypeToolExecuted:
		return KindResult
	case trajectory.TypeExchangeStarted, trajectory.TypeExchangeCompleted:
		return KindExchange
	case trajectory.TypeAnswerCommitted:
		return KindAnswer
	case trajectory.TypeJudgment:
		return KindVerdict
	case trajectory.TypeError, trajectory.TypeAttemptEnded, trajectory.TypeTaskCommitted, trajectory.TypeTaskSealed:
		return KindEnd
	}
	return KindOther
}

// item describes an event. Rules has the texts of rules, tool is the name of the tool of a call.
func item(e trajectory.Event, rules map[string]string, tool string) Item {
	i := Item{Line: e.Seq + 1, Time: e.Timestamp, Turn: e.Turn, Kind: kindOf(e.Payload.Type()), Title: cut(runview.Title(e.Payload), maxTitle),
		Facts: facts(e.Payload, rules), Bad: isBad(e.Payload), Call: cut(callOf(e.Payload), maxTitle), Tool: cut(tool, maxTitle), BodyOf: bodyOf(e.Payload), Pictures: pictures(e.Payload)}
	text, recorded := textOf(e.Payload)
	i.Text = trajectory.CutUTF8(text, maxText)
	if len(i.Text) < len(text) {
		recorded = int64(len(text))
	}
	if recorded > int64(len(i.Text)) {
		i.Cut = fmt.Sprintf("the first %d of %d bytes", len(i.Text), recorded)
	}
	if end, ok := e.Payload.(trajectory.AttemptEnded); ok && end.Workspace != nil {
		i.Diff = i.Text != ""
		if end.Workspace.Truncated {
			i.Cut = "the journal has no more of it"
		}
	}
	return i
}

// cut returns a text of at most limit bytes, with a sign that it was longer.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return trajectory.CutUTF8(s, limit-len("…")) + "…"
}

// textOf returns what an event has of a text, and how long that is: 0 if it is not known to be longer.
func textOf(payload trajectory.Payload) (text string, bytes int64) {
	switch p := payload.(type) {
	case trajectory.TaskStarted:
		return p.Question, 0
	case trajectory.ContextCompiled:
		return prompt(p), 0
	case trajectory.ModelCallCompleted:
		var m trajectory.SentMessage
		if err := json.Unmarshal([]byte(p.Head), &m); err != nil {
			return p.Head, longer(p.Truncated, p.Bytes)
		}
		return said(m), 0
	case trajectory.ToolProposed:
		if p.Malformed != "" {
			return p.Malformed, 0
		}
		return arguments(p.Args), 0
	case trajectory.PolicyDecision:
		return p.Shown, 0
	case trajectory.ToolExecuted:
		return p.Head, longer(p.Truncated, p.Bytes)
	case trajectory.ExchangeCompleted:
		return p.Head, longer(p.Truncated, p.Bytes)
	case trajectory.AnswerCommitted:
		return p.ReasoningTrace, 0
	case trajectory.AttemptEnded:
		if p.Workspace != nil {
			return p.Workspace.Diff, 0
		}
	}
	return "", 0
}

// prompt returns what a request has of its new messages.
func prompt(p trajectory.ContextCompiled) string {
	lines := slices.Collect(strings.Lines(p.Head))
	for _, h := range p.MessageHeads {
		lines = append(lines, h.Head)
	}
	var b strings.Builder
	for _, line := range lines {
		if b.WriteString(message(line)); b.Len() > maxText {
			break
		}
	}
	return b.String()
}

// message returns what a line with a message says, under its role; another line as it is.
func message(line string) string {
	var m trajectory.SentMessage
	if err := json.Unmarshal([]byte(line), &m); err != nil || m.Role == "" {
		return line
	}
	return visible.Line(m.Role) + ":\n" + view.Indent(said(m)) + "\n"
}

// said returns the text and the calls of a message.
func said(m trajectory.SentMessage) string {
	parts := slices.DeleteFunc([]string{m.Content}, func(s string) bool { return s == "" })
	for _, c := range m.ToolCalls {
		parts = append(parts, fmt.Sprintf("calls %s: %s", visible.Line(c.Name), c.Arguments))
	}
	return strings.Join(parts, "\n")
}

// longer returns the length of a text that is longer than its head, else 0.
func longer(truncated bool, bytes int64) int64 {
	if truncated {
		return bytes
	}
	return 0
}

// arguments returns the arguments of a call: one alone as it is, each of several under its name.
func arguments(args map[string]string) string {
	names := slices.Sorted(maps.Keys(args))
	if len(names) == 1 {
		return args[names[0]]
	}
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "%s:\n%s", visible.Line(name), view.Indent(args[name]))
	}
	return b.String()
}

// callOf returns the id of the call that an event is of.
func callOf(payload trajectory.Payload) string {
	switch p := payload.(type) {
	case trajectory.ToolProposed:
		return p.CallID
	case trajectory.PolicyDecision:
		return p.CallID
	case trajectory.PolicyViolation:
		return p.CallID
	case trajectory.ApprovalRequested:
		return p.CallID
	case trajectory.ApprovalResolved:
		return p.CallID
	case trajectory.CheckpointSaved:
		return p.CallID
	case trajectory.Rollback:
		return p.CallID
	case trajectory.ToolExecuted:
		return p.CallID
	}
	return ""
}

// bodyOf returns the digest of the whole text of an event, "" if the run does not keep it.
func bodyOf(payload trajectory.Payload) string {
	switch p := payload.(type) {
	case trajectory.ContextCompiled:
		return p.BodySHA256
	case trajectory.ModelCallStarted:
		if p.Request != nil {
			return p.Request.BodySHA256
		}
	case trajectory.ModelCallCompleted:
		if p.BodySHA256 == "" && p.Reply != nil {
			return p.Reply.BodySHA256
		}
		return p.BodySHA256
	case trajectory.ToolProposed:
		return p.BodySHA256
	case trajectory.ToolExecuted:
		return p.BodySHA256
	case trajectory.ExchangeStarted:
		return p.BodySHA256
	case trajectory.ExchangeCompleted:
		return p.BodySHA256
	}
	return ""
}

// isBad reports whether an event is an error, a refusal, a violation or the hit of a probe.
func isBad(payload trajectory.Payload) bool {
	switch p := payload.(type) {
	case trajectory.PolicyViolation, trajectory.Rollback, trajectory.RequestRefused, trajectory.Error:
		return true
	case trajectory.PolicyDecision:
		return p.Decision == "deny"
	case trajectory.ApprovalResolved:
		return !p.Approved
	case trajectory.TaskStarted:
		return slices.ContainsFunc(p.Workspace, func(f trajectory.File) bool { return hits(f.Probes) })
	case trajectory.ContextCompiled:
		return p.Origins != nil && hits(p.Origins.Probes)
	case trajectory.ModelCallCompleted:
		return p.Error != nil || p.Reply != nil && hits(p.Reply.Probes)
	case trajectory.ToolExecuted:
		return p.IsError || hits(p.Probes) || hits(p.Own)
	case trajectory.ExchangeStarted:
		return hits(p.Own)
	case trajectory.ExchangeCompleted:
		return p.Error != "" || p.Status == 0 || hits(p.Probes)
	case trajectory.AttemptEnded:
		return p.Outcome == trajectory.Errored || p.Agent != nil && hits(p.Agent.Given)
	case trajectory.TaskSealed:
		return p.Outcome == trajectory.Errored
	case trajectory.Judgment:
		return p.ErrorStatus != 0
	case trajectory.RunCompleted:
		return p.Stopped != ""
	case trajectory.RunResumed:
		return p.Unsubmittable != ""
	case trajectory.SecurityEvent:
		return p.Bad > 0
	case trajectory.JudgeBattery:
		return !p.Passed
	case trajectory.Preflight:
		return p.Error != nil
	}
	return false
}

// hits reports whether probes found what honest work seldom meets. That a document has words of the question or the
// gold answer, or a table with the benchmark's columns, is not such a sign by itself.
func hits(p *trajectory.Probes) bool {
	if p == nil {
		return false
	}
	q := *p
	q.AnswerKeys, q.GoldHits, q.ListedAnswers, q.QCov, q.QCovNoEcho, q.QEdge, q.SchemaKeys = 0, 0, 0, 0, 0, false, 0
	return q != trajectory.Probes{}
}

// pictureTypes are the media types of pictures by the ending of their files.
var pictureTypes = map[string]string{".gif": "image/gif", ".jpeg": "image/jpeg", ".jpg": "image/jpeg", ".png": "image/png", ".webp": "image/webp"}

// pictureType returns the media type of a picture by the name of its file, "" for another file.
func pictureType(name string) string { return pictureTypes[strings.ToLower(path.Ext(name))] }

// pictures returns the pictures of an event: of the workspace, and those that a model was sent.
func pictures(payload trajectory.Payload) []Picture {
	var all []Picture
	add := func(name, sha256, typ string) {
		if slices.Contains(slices.Collect(maps.Values(pictureTypes)), typ) && len(all) < maxPictures {
			all = append(all, Picture{Name: cut(name, maxFact), SHA256: cut(sha256, maxTitle), Type: typ})
		}
	}
	for _, f := range workspaceOf(payload) {
		add(f.Path, f.SHA256, pictureType(f.Path))
	}
	if p, ok := payload.(trajectory.ContextCompiled); ok {
		for _, m := range p.Messages {
			add(cmp.Or(m.Image.Path, m.Source), m.Image.SHA256, m.Image.MediaType)
		}
	}
	return all
}

// workspaceOf returns the files of a workspace that an event lists.
func workspaceOf(payload trajectory.Payload) []trajectory.File {
	switch p := payload.(type) {
	case trajectory.TaskStarted:
		return p.Workspace
	case trajectory.CheckpointSaved:
		return p.Workspace
	}
	return nil
}
