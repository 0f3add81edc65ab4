package export

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// attempt is what an attempt did, as far as the journal was read, and what its model was sent and
// replied: the messages of all requests, each once, in the order in which they came.
type attempt struct {
	bodies
	prefix   string // of the ids of messages
	question string
	file     string
	first    time.Time
	last     time.Time
	working  int64 // milliseconds that models and tools took
	events   []any
	output   modelOutput // the last one
	usage    usage
	own      bool                // of an own agent, whose turns overlap and whose messages are its own
	proposed map[string]proposal // by call id, of the turn; of an own agent: of the attempt
	rest     []*chatMessage      // results since the last request

	texts   []string       // what messages say that are not the model's or a tool's
	pool    []*chatMessage // what model events refer to
	replies map[string]int // place in the pool of replies that no request held yet, by digest
	listed  []trajectory.Message
	request []int         // places of the last request's messages
	sent    map[int][]int // likewise, of the requests of open turns
	reply   *chatMessage
	tools   map[string]string       // name of the tool, by call id
	results map[string]*chatMessage // of calls, by the digest of the message that showed them, or its source
}

// proposal is a call that waits for its result.
type proposal struct {
	name string
	args map[string]string
	at   time.Time
}

// pooled puts a message into the pool and returns its place.
func (a *attempt) pooled(m *chatMessage) int {
	m.ID = fmt.Sprintf("%s-m%d", a.prefix, len(a.pool))
	a.pool = append(a.pool, m)
	return len(a.pool) - 1
}

// compile takes a request. Its text has a line for each message that is new, or
// another than it was in its place, in their order.
func (a *attempt) compile(p trajectory.ContextCompiled, text string, whole bool) {
	lines := strings.Split(text, "\n") // the last may be cut
	if n := len(lines); whole && lines[n-1] == "" {
		lines = lines[:n-1]
	}
	request := make([]int, len(p.Messages))
	for i, listed := range p.Messages {
		if i < len(a.listed) && a.listed[i].SHA256 == listed.SHA256 {
			request[i] = a.request[i]
			continue
		}
		line, end := "", false
		if len(lines) > 0 {
			line, end, lines = lines[0], whole || len(lines) > 1, lines[1:]
		}
		at, replied := a.replies[listed.SHA256]
		if !replied {
			request[i] = a.pooled(a.made(listed, line, end, p.Redactions > 0))
			continue
		}
		delete(a.replies, listed.SHA256)
		request[i] = at
		reply := a.pool[at] // it may be shown in full here, where less was recorded when it came
		if sent, parsed := message(line); reply.Metadata.Cut && parsed && exact(line, listed.SHA256) {
			reply.Content, reply.Metadata.Cut = shorten(sent.Content, maxText)
		}
	}
	a.listed, a.request, a.reply = p.Messages, request, nil
}

// made returns a listed message of which the line is the canonical form; end says
// whether all of that is there.
func (a *attempt) made(listed trajectory.Message, line string, end, redacted bool) *chatMessage {
	roles := map[string]string{"system": "system", "developer": "system", "assistant": "assistant", "tool": "tool"}
	m := &chatMessage{Role: cmp.Or(roles[listed.Role], "user"), Source: "input",
		Metadata: textOrigin{Bytes: listed.Bytes, Image: listed.Image.Path, Redacted: redacted && !exact(line, listed.SHA256),
			SHA256: listed.SHA256, Source: listed.Source}}
	sent, parsed := message(line)
	if parsed && sent.Role != listed.Role {
		sent, parsed = trajectory.SentMessage{}, false
	}
	m.Content, m.Metadata.Cut = shorten(sent.Content, maxText)
	m.Metadata.Cut = m.Metadata.Cut || !end || !parsed
	if listed.Role == "tool" {
		callID := cmp.Or(sent.ToolCallID, strings.TrimPrefix(listed.Source, "tool:"))
		m.ToolCallID, m.Function, m.Source = callID, a.tools[callID], ""
		if result := cmp.Or(a.results[listed.SHA256], a.results[listed.Source]); result != nil {
			m.ToolCallID, m.Function, m.Error = result.ToolCallID, result.Function, result.Error
			if m.Metadata.Cut && len(result.Content) > len(m.Content) { // less of the message is recorded than of what the tool gave
				m.Content, m.Metadata.Document, m.Metadata.Redacted = result.Content, result.Metadata.Document, result.Metadata.Redacted
			}
		}
		return m
	}
	picture := trajectory.SentImage{MediaType: listed.Image.MediaType, SHA256: listed.Image.SHA256}
	for _, text := range a.texts { // what the harness is known to say: a template, or the question
		said := trajectory.SentMessage{Content: text, Image: picture, Role: listed.Role}
		if m.Metadata.Cut && len(text) <= maxText && exact(string(said.Canonical()), listed.SHA256) {
			m.Content, m.Metadata.Cut, m.Metadata.Redacted = text, false, false
		}
	}
	return m
}

// add takes the next event of the attempt.
func (a *attempt) add(e trajectory.Event) error {
	a.last = e.Time()
	switch p := e.Payload.(type) {
	case trajectory.TaskStarted:
		a.question, a.file = p.Question, p.FileName
		a.texts = append(a.texts, prompt.Question(p.Question, p.FileName))
		init := initEvent{eventBase: a.base("sample_init", e, 0)}
		init.Sample.Input, init.Sample.ID = p.Question, e.TaskID
		a.events = append(a.events, init)
	case trajectory.TurnStarted:
		if !a.own { // whose call ids are of the attempt
			a.proposed, a.sent = map[string]proposal{}, nil
		}
	case trajectory.TurnCompleted:
		delete(a.sent, e.Turn)
	case trajectory.ContextCompiled:
		text, whole, err := a.text(p.BodySHA256, p.Head, p.Truncated)
		if err != nil {
			return err
		}
		a.compile(p, text, whole)
		if a.rest = nil; a.sent == nil {
			a.sent = map[int][]int{}
		}
		a.sent[e.Turn] = a.request
	case trajectory.ModelCallCompleted:
		return a.called(e, p)
	case trajectory.ToolProposed:
		return a.asked(e, p)
	case trajectory.PolicyDecision:
		if p.Shown != "" {
			origin := textOrigin{Bytes: int64(len(p.Shown)), Source: "tool:" + p.CallID}
			a.result(e, p.CallID, a.proposed[p.CallID].name, p.Shown, "approval", origin, 0, "")
		}
	case trajectory.ToolExecuted:
		return a.executed(e, p)
	case trajectory.PolicyViolation, trajectory.ContextCondensed, trajectory.Rollback, trajectory.RequestRefused,
		trajectory.ExchangeStarted, trajectory.ExchangeCompleted:
		a.events = append(a.events, infoEvent{a.base("info", e, 0), "gaia:" + string(e.Payload.Type()), e.Payload})
	case trajectory.Error:
		a.events = append(a.events, errorEvent{a.base("error", e, 0), evalError{Message: p.Message}})
	}
	return nil
}

// base returns what all events share, of one that began ms milliseconds before
// it was recorded, as it says, but not before the attempt.
func (a *attempt) base(kind string, e trajectory.Event, ms int64) eventBase {
	began := e.Time()
	if ms > 0 {
		began = began.Add(-time.Duration(min(ms, began.Sub(a.first).Milliseconds())) * time.Millisecond)
	}
	return eventBase{Event: kind, UUID: e.ID, Timestamp: began.Format(trajectory.TimeFormat), Start: began.Sub(a.first).Seconds()}
}

// called takes a try of a model call.
func (a *attempt) called(e trajectory.Event, p trajectory.ModelCallCompleted) error {
	a.working += p.LatencyMs
	refs := [][2]int{} // the last request as ranges of places in the pool
	for _, at := range a.sent[e.Turn] {
		if n := len(refs); n > 0 && refs[n-1][1] == at {
			refs[n-1][1]++
		} else {
			refs = append(refs, [2]int{at, at + 1})
		}
	}
	m := modelEvent{eventBase: a.base("model", e, p.LatencyMs), Model: p.RequestedModel, InputRefs: refs, Choice: "auto",
		Completed: e.Timestamp, Working: seconds(p.LatencyMs)}
	stopReasons := map[string]string{"stop": "stop", "tool_calls": "tool_calls", "content_filter": "content_filter", "length": "max_tokens"}
	m.Output = modelOutput{Model: p.ResponseModel, Choices: []choice{}, Time: seconds(p.LatencyMs), ResponseID: p.RequestID}
	if p.Error != nil {
		m.Error = p.Error.Message
		if p.Error.Status != 0 {
			m.Error = fmt.Sprintf("%d: %s", p.Error.Status, p.Error.Message)
		}
	}
	if p.OutputSHA256 != "" {
		text, whole, err := a.text(p.BodySHA256, p.Head, p.Truncated)
		if err != nil {
			return err
		}
		sent, parsed := message(text) // of its canonical form, or the beginning of that
		reply := &chatMessage{Role: "assistant", Source: "generate", Model: p.ResponseModel,
			Metadata: textOrigin{Bytes: p.Bytes, Redacted: p.Redactions > 0, SHA256: p.OutputSHA256, Source: "model"}}
		reply.Content, reply.Metadata.Cut = shorten(sent.Content, maxText)
		reply.Metadata.Cut = reply.Metadata.Cut || !whole || !parsed
		for i := 0; a.own && i < len(sent.ToolCalls); i++ { // the built-in agent's are proposed next
			reply.ToolCalls = append(reply.ToolCalls, sentCall(sent.ToolCalls[i]))
		}
		a.replies[p.OutputSHA256], a.reply = a.pooled(reply), reply
		paid := spent{p.Tokens, p.CostMicroUSD}
		a.usage.add(p.RequestedModel, paid)
		m.Output.Usage, m.Output.Completion = new(paid.usage()), reply.Content
		m.Output.Choices = append(m.Output.Choices, choice{reply, cmp.Or(stopReasons[p.FinishReason], "unknown")})
		a.output = m.Output
	}
	a.events = append(a.events, m)
	return nil
}

// asked takes a call that the model asked for.
func (a *attempt) asked(e trajectory.Event, p trajectory.ToolProposed) error {
	args, cut, err := a.arguments(p)
	if err != nil {
		return err
	}
	a.tools[p.CallID] = p.Name
	if a.proposed == nil {
		a.proposed = map[string]proposal{}
	}
	a.proposed[p.CallID] = proposal{p.Name, args, e.Time()}
	call := toolCall{ID: p.CallID, Function: p.Name, Arguments: args, Type: "function"}
	if p.Malformed != "" {
		call.ParseError = "the arguments are no JSON object: " + p.Malformed
	}
	if a.reply != nil && !a.own {
		a.reply.ToolCalls = append(a.reply.ToolCalls, call)
		for _, name := range cut {
			a.reply.Metadata.CutArguments = append(a.reply.Metadata.CutArguments, p.CallID+"."+name)
		}
	}
	return nil
}

// sentCall returns a call as a message of the model has it.
func sentCall(c trajectory.SentCall) toolCall {
	call := toolCall{ID: c.ID, Function: c.Name, Arguments: map[string]string{}, Type: "function"}
	args, err := policy.Arguments([]byte(c.Arguments))
	if err != nil {
		call.ParseError = "the arguments are no JSON object: " + c.Arguments
	}
	maps.Copy(call.Arguments, args)
	return call
}

// executed takes what a tool gave.
func (a *attempt) executed(e trajectory.Event, p trajectory.ToolExecuted) error {
	text, whole, err := a.text(p.BodySHA256, p.Head, p.Truncated)
	if err != nil {
		return err
	}
	text, cut := shorten(text, maxText)
	a.working += p.LatencyMs
	if p.Model != nil {
		a.usage.add(p.Model.RequestedModel, spent{p.Model.Tokens, p.Model.CostMicroUSD})
	}
	kind := ""
	if p.IsError {
		kind = "unknown"
	}
	origin := textOrigin{Bytes: p.Bytes, Cut: cut || !whole, Document: true, Redacted: p.Redactions > 0, SHA256: p.OutputSHA256, Source: "tool:" + p.CallID}
	a.result(e, p.CallID, p.Name, text, kind, origin, p.LatencyMs, p.ShownSHA256)
	return nil
}

// result adds what came of a call; kind is that of the error, "" for none, and
// shown the digest of the message in which the next request has it, if recorded.
func (a *attempt) result(e trajectory.Event, callID, name, text, kind string, origin textOrigin, ms int64, shown string) {
	m := &chatMessage{ID: a.prefix + "-r" + e.ID, Role: "tool", Content: text, ToolCallID: callID, Function: name, Metadata: origin}
	if kind != "" {
		m.Error = &toolCallError{Type: kind}
		m.Error.Message, _ = shorten(text, maxShort)
	}
	args := a.proposed[callID].args
	if args == nil {
		args = map[string]string{}
	}
	a.events = append(a.events, toolEvent{eventBase: a.base("tool", e, ms), Type: "function", ID: callID, Function: name, Arguments: args,
		Result: text, Metadata: origin, Error: m.Error, Completed: e.Timestamp, Working: seconds(ms)})
	if !a.own {
		a.rest = append(a.rest, m)
	}
	a.results[cmp.Or(shown, origin.Source)] = m
}

func seconds(ms int64) float64 { return float64(ms) / 1000 }

// spent is what was spent on a model; nil is an unknown price.
type spent struct {
	tokens   trajectory.Tokens
	microUSD *int64
}

// usage is what was spent, by the names of models.
type usage map[string]spent

func (u usage) add(model string, more spent) {
	if before, known := u[model]; known {
		more.tokens = more.tokens.Add(before.tokens)
		if more.microUSD != nil && before.microUSD != nil {
			more.microUSD = new(*more.microUSD + *before.microUSD)
		} else {
			more.microUSD = nil
		}
	}
	u[model] = more
}

// models returns the usage as a log has it.
func (u usage) models() map[string]modelUsage {
	all := map[string]modelUsage{}
	for model, s := range u {
		all[model] = s.usage()
	}
	return all
}

func (s spent) usage() modelUsage {
	t := s.tokens
	u := modelUsage{Input: max(t.In-t.Cached, 0), Output: t.Out, Total: t.In + t.Out, Cached: t.Cached, Reasoning: t.Reasoning}
	if s.microUSD != nil {
		u.Cost = new(float64(*s.microUSD) / 1e6)
	}
	return u
}

// maxText is how much of one text a log shows, in bytes. The journal shows some
// KiB; only of a run that keeps whole bodies can it be more.
const maxText = 1 << 20

// textOrigin says what a text in the log is of.
type textOrigin struct {
	Bytes        int64    `json:"bytes"`                   // of the whole in its canonical form
	Cut          bool     `json:"cut,omitzero"`            // the text is the beginning of it, or not recorded at all
	CutArguments []string `json:"cut_arguments,omitempty"` // call ids and names of arguments that are beginnings
	Document     bool     `json:"document,omitzero"`       // the text is of the document that the tool made, of which the message showed a part
	Image        string   `json:"image,omitzero"`          // path of the picture that the message carried; it is not in the log
	Redacted     bool     `json:"redacted,omitzero"`       // secrets were taken out of it, or of what was recorded with it
	SHA256       string   `json:"sha256,omitzero"`         // of the whole in its canonical form
	Source       string   `json:"source,omitzero"`         // where the harness had the message from
}

// bodies reads the whole of what the journal shows the heads of, where the run
// keeps it.
type bodies struct{ dir fs.FS }

// text returns the body of a digest, or the head of it if the run does not keep
// it, and whether that is all of it.
func (b bodies) text(digest, head string, truncated bool) (text string, whole bool, err error) {
	if digest == "" {
		return head, !truncated, nil
	}
	data, err := rundir.ReadBody(b.dir, digest)
	if errors.Is(err, fs.ErrNotExist) { // a package does not have them
		return head, !truncated, nil
	}
	if err != nil {
		return "", false, err
	}
	return strings.ToValidUTF8(string(data), "\ufffd"), true, nil
}

// shorten cuts a text to limit bytes, not inside a character.
func shorten(text string, limit int) (short string, cut bool) {
	short = trajectory.CutUTF8(text, limit)
	return short, len(short) < len(text)
}

// message reads a message, or as much of its content as the beginning of its
// canonical form shows.
func message(line string) (m trajectory.SentMessage, whole bool) {
	if json.Unmarshal([]byte(line), &m) == nil {
		return m, true
	}
	return trajectory.SentMessage{Content: contentOf(line)}, false
}

// contentOf returns what the beginning of a message's canonical form, in which
// content is the first member, shows of the content.
func contentOf(line string) string {
	rest, found := strings.CutPrefix(line, `{"content":`)
	if !found || !strings.HasPrefix(rest, `"`) {
		return ""
	}
	end := 1
	for end < len(rest) && rest[end] != '"' {
		size := 1
		if rest[end] == '\\' {
			size = 2
			if strings.HasPrefix(rest[end+1:], "u") {
				size = 6
			}
		}
		if end+size > len(rest) {
			break
		}
		end += size
	}
	content, err := jsontext.AppendUnquote(nil, rest[:end]+`"`)
	if err != nil {
		return ""
	}
	return string(content)
}

// exact reports whether a line is the very message of a digest.
func exact(line, digest string) bool { return canonical.Digest([]byte(line)) == digest }

// arguments returns the arguments of a call as the journal has them, strings as
// they are and other values as their JSON text, and the names of those that are cut.
func (b bodies) arguments(p trajectory.ToolProposed) (args map[string]string, cut []string, err error) {
	all := map[string]string{}
	maps.Copy(all, p.Args)
	if len(p.ArgsTruncated) > 0 {
		text, whole, err := b.text(p.BodySHA256, "", true)
		if err != nil {
			return nil, nil, err
		}
		cut = slices.Clone(p.ArgsTruncated)
		var values map[string]jsontext.Value
		if whole && json.Unmarshal([]byte(text), &values) == nil {
			cut = nil
			for name, value := range values {
				var s string
				if json.Unmarshal(value, &s) != nil {
					s = string(value)
				}
				all[name] = s
			}
		}
	}
	args = map[string]string{}
	for name, value := range all {
		short, shortened := shorten(value, maxText)
		if args[name] = short; shortened {
			cut = append(cut, name)
		}
	}
	slices.Sort(cut)
	return args, slices.Compact(cut), nil
}
