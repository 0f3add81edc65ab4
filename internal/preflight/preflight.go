// Package preflight asks each model of a run one short question, before any task
// begins, so that a wrong name, key or address shows before a task is lost to it.
//
// [Models.Probes] lists what is asked: the model that answers, a call of a tool in
// two turns, the judge, and the models that look at pictures and hear recordings; 6
// requests at most, retries apart. [Probe.Run] asks, and adds up what that took.
// No probe belongs to a task: a run records each as an event, and gaia doctor shows
// them without a run (TestProbes).
package preflight

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"
	"slices"
	"time"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json/jsontext"
)

// maxTokens bounds what a model may write: enough for one that thinks before it
// says a word.
const maxTokens = 1024

// Chatter asks a model for a completion.
type Chatter interface {
	Chat(context.Context, llm.Request, llm.Observer) (llm.Response, error)
}

// Transcriber has a recording written down.
type Transcriber interface {
	Transcribe(context.Context, llm.Transcription, llm.Observer) (llm.Transcript, error)
}

// Model is a model and how it is asked.
type Model struct {
	Client Chatter
	Name   string
}

// Hearing is the model that writes down recordings.
type Hearing struct {
	Client Transcriber
	Name   string
}

// Models are those that a run asks.
type Models struct {
	Model         Model // that answers
	Tools         bool  // it is offered tools
	Judge         *Model
	Vision        *Model
	Transcription *Hearing
	MaxTokens     int              // of a completion, if the run bounds it; 0: it does not
	Now           func() time.Time // nil: latencies are 0
}

// Bound returns how many tokens a completion may have.
func (m Models) Bound() int {
	if m.MaxTokens > 0 {
		return min(m.MaxTokens, maxTokens)
	}
	return maxTokens
}

// By returns the models behind the clients that wrap returns of theirs; one of a pair
// is nil.
func (m Models) By(wrap func(Chatter, Transcriber) (Chatter, Transcriber)) Models {
	chat := func(of *Model) *Model {
		if of == nil {
			return nil
		}
		client, _ := wrap(of.Client, nil)
		return &Model{Client: client, Name: of.Name}
	}
	m.Model, m.Judge, m.Vision = *chat(&m.Model), chat(m.Judge), chat(m.Vision)
	if m.Transcription != nil {
		_, client := wrap(nil, m.Transcription.Client)
		m.Transcription = &Hearing{Client: client, Name: m.Transcription.Name}
	}
	return m
}

// Probe is one thing that a model is asked.
type Probe struct {
	Kind  string // trajectory.PreflightModel and so on
	Model string
	now   func() time.Time
	ask   func(context.Context, *Result) error
}

// Result is what came of a probe. Usage and cost are those of all its requests.
type Result struct {
	Kind, Model   string
	Requests      int // that were sent, retries included
	RequestIDs    []string
	ResponseModel string
	Usage         llm.Usage // Reported: by every reply
	CostMicroUSD  *int64    // nil: a price is unknown
	Latency       time.Duration
	Tool          string        // trajectory.ToolCalled and so on; "" where no tool was asked for, or no reply came
	Verdict       judge.Verdict // of the judge
	Last          *llm.Response // nil: there was none
	Err           error         // the request failed
	failed        *llm.Error    // the last try
}

// Run asks. It returns when there is an answer, or an error that another try does
// not help.
func (p Probe) Run(ctx context.Context) Result {
	r := Result{Kind: p.Kind, Model: p.Model, CostMicroUSD: new(int64), Usage: llm.Usage{Reported: true}}
	var began time.Time
	if p.now != nil {
		began = p.now()
	}
	r.Err = p.ask(ctx, &r)
	if p.now != nil {
		r.Latency = p.now().Sub(began)
	}
	r.Usage.Reported = r.Usage.Reported && r.Last != nil
	return r
}

// Event returns the event that records a result, redacted, and the error of the
// model's client that failed it; nil where none did.
func (r Result) Event(redact trajectory.Redactor) (trajectory.Preflight, *llm.Error) {
	e := trajectory.Preflight{CostMicroUSD: r.CostMicroUSD, Kind: r.Kind, LatencyMs: r.Latency.Milliseconds(), Model: r.Model,
		Requests: r.Requests, ResponseModel: redact.Label(r.ResponseModel), Tool: r.Tool, UsageReported: r.Usage.Reported,
		Tokens: trajectory.Tokens{Cached: r.Usage.Cached, In: r.Usage.In, Out: r.Usage.Out, Reasoning: r.Usage.Reasoning}}
	for _, id := range r.RequestIDs {
		e.RequestIDs = append(e.RequestIDs, redact.Label(id))
	}
	var failed *llm.Error
	if errors.As(r.Err, &failed) {
		message, _ := redact.Redact(failed.Message)
		e.Error = &trajectory.CallError{Code: redact.Label(failed.Code), Message: message, Retryable: failed.Retryable, Status: failed.Status}
	}
	return e, failed
}

// After returns r with what an earlier probe of the same model took added.
func (r Result) After(before Result) Result {
	r.Requests += before.Requests
	r.RequestIDs = append(slices.Clone(before.RequestIDs), r.RequestIDs...)
	r.add(before.Usage, before.CostMicroUSD)
	return r
}

// add counts usage and cost; a nil cost is unknown, and so is the sum then.
func (r *Result) add(u llm.Usage, microUSD *int64) {
	r.Usage.Reported = r.Usage.Reported && u.Reported
	r.Usage.In, r.Usage.Out, r.Usage.Cached, r.Usage.Reasoning = r.Usage.In+u.In, r.Usage.Out+u.Out, r.Usage.Cached+u.Cached, r.Usage.Reasoning+u.Reasoning
	if r.CostMicroUSD == nil || microUSD == nil {
		r.CostMicroUSD = nil
		return
	}
	r.CostMicroUSD = new(*r.CostMicroUSD + *microUSD)
}

// Stops reports whether the run cannot go on: the endpoint refused the request for
// good, or gave no reply that can be read. What another try may help, and a reply
// that says nothing, are no reason.
func (r Result) Stops() bool {
	var e *llm.Error
	if !errors.As(r.Err, &e) || e.Unwrap() != nil || e.OneRequest() || e.Code == llm.EmptyCompletion {
		return false
	}
	return !e.Retryable || e.Status >= 200 && e.Status <= 299
}

// CutShort reports whether the last reply ended at the bound.
func (r Result) CutShort() bool { return r.Last != nil && r.Last.FinishReason == "length" }

// TryStarted implements llm.Observer. A reply that says nothing is a reply, and is
// not asked for again.
func (r *Result) TryStarted(n int) error {
	if n > 1 && r.failed != nil && r.failed.Code == llm.EmptyCompletion {
		return r.failed
	}
	r.Requests++
	return nil
}

// TryCompleted implements llm.Observer.
func (r *Result) TryCompleted(t llm.Try) error {
	r.failed = t.Err
	if t.Response == nil {
		if t.Err != nil && (trajectory.CallError{Code: t.Err.Code, Status: t.Err.Status}).Unanswered() {
			r.CostMicroUSD, r.Usage.Reported = nil, false
		}
		return nil
	}
	r.Last = t.Response
	if id := t.Response.RequestID; id != "" {
		r.RequestIDs = append(r.RequestIDs, id)
	}
	if t.Err == nil {
		r.ResponseModel = t.Response.ResponseModel
	}
	r.add(t.Response.Usage, t.Response.CostMicroUSD)
	return nil
}

// toolResult is what the gauge reads.
const toolResult = "212 cm"

// Probes returns what is asked of the models, the model that answers first.
func (m Models) Probes() []Probe {
	var picture bytes.Buffer // of one colour, and large enough for every endpoint
	square := image.NewRGBA(image.Rect(0, 0, 64, 64))
	draw.Draw(square, square.Bounds(), image.NewUniform(color.RGBA{R: 30, G: 60, B: 200, A: 255}), image.Point{}, draw.Src)
	_ = png.Encode(&picture, square) // a buffer takes everything
	look := llm.Message{Role: "user", Content: prompt.PreflightLook, Image: &llm.Image{MediaType: "image/png", Data: picture.Bytes()}}
	probes := []Probe{{trajectory.PreflightModel, m.Model.Name, m.Now, m.say(m.Model, llm.Message{Role: "user", Content: prompt.PreflightQuestion})}}
	if m.Tools {
		probes = append(probes, Probe{trajectory.PreflightTools, m.Model.Name, m.Now, m.askTools})
	}
	if m.Judge != nil {
		probes = append(probes, Probe{trajectory.PreflightJudge, m.Judge.Name, m.Now, m.askJudge})
	}
	if m.Vision != nil {
		probes = append(probes, Probe{trajectory.PreflightVision, m.Vision.Name, m.Now, m.say(*m.Vision, look)})
	}
	if m.Transcription != nil {
		recording := llm.Transcription{Model: m.Transcription.Name, FileName: "tone.wav", Audio: tone()}
		probes = append(probes, Probe{trajectory.PreflightTranscription, m.Transcription.Name, m.Now, func(ctx context.Context, r *Result) error {
			_, err := m.Transcription.Client.Transcribe(ctx, recording, r)
			return err
		}})
	}
	return probes
}

// say returns a probe of one message.
func (m Models) say(to Model, message llm.Message) func(context.Context, *Result) error {
	return func(ctx context.Context, r *Result) error {
		_, err := to.Client.Chat(ctx, llm.Request{Model: to.Name, MaxTokens: m.Bound(), Messages: []llm.Message{message}}, r)
		return err
	}
}

// askTools asks for a call of a tool, and sends back what the tool gives. A model
// that does otherwise is not asked again.
func (m Models) askTools(ctx context.Context, r *Result) error {
	request := llm.Request{Model: m.Model.Name, MaxTokens: m.Bound(), Messages: []llm.Message{{Role: "user", Content: prompt.PreflightToolCall}},
		Tools: []llm.ToolSpec{{Name: prompt.PreflightTool, Description: "Reads a water gauge and returns its level in centimetres.",
			Parameters: []byte(`{"type":"object","properties":{"name":{"type":"string","description":"what the gauge is called"}},"required":["name"],"additionalProperties":false}`)}}}
	reply, err := m.Model.Client.Chat(ctx, request, r)
	if err != nil {
		return err
	}
	r.Tool = trajectory.ToolCalled
	if len(reply.Message.ToolCalls) == 0 {
		r.Tool = trajectory.ToolNone
	}
	for _, c := range reply.Message.ToolCalls {
		if v := jsontext.Value(c.Arguments); c.Name != prompt.PreflightTool || !v.IsValid() || v.Kind() != '{' {
			r.Tool = trajectory.ToolOther
		}
	}
	if r.Tool != trajectory.ToolCalled {
		return nil
	}
	request.Messages = append(request.Messages, reply.Message)
	for _, c := range reply.Message.ToolCalls {
		request.Messages = append(request.Messages, llm.Message{Role: "tool", ToolCallID: c.ID, Content: toolResult})
	}
	_, err = m.Model.Client.Chat(ctx, request, r)
	return err
}

// askJudge shows the judge one answer that says nothing.
func (m Models) askJudge(ctx context.Context, r *Result) error {
	var failed error
	ask := func(ctx context.Context, q judge.Request) (judge.Reply, error) {
		reply, err := m.Judge.Client.Chat(ctx, llm.Request{Model: m.Judge.Name, MaxTokens: m.Bound(), SchemaName: q.SchemaName, Schema: q.Schema,
			Messages: []llm.Message{{Role: "system", Content: q.System}, {Role: "user", Content: q.User}}}, r)
		failed = err
		return judge.Reply{Text: reply.Message.Content, ResponseModel: reply.ResponseModel}, err
	}
	for _, null := range judge.Battery() {
		r.Verdict = (judge.Judge{Asker: askerFunc(ask), MaxTries: 1}).Score(ctx, judge.Item{Question: null.Question, Gold: null.Expected, Answer: &null.Candidate})
		if r.Verdict.Tries > 0 {
			break // the others are nothing to ask about, by their looks alone
		}
	}
	return failed
}

// askerFunc is a function that implements judge.Asker.
type askerFunc func(context.Context, judge.Request) (judge.Reply, error)

func (f askerFunc) Ask(ctx context.Context, q judge.Request) (judge.Reply, error) { return f(ctx, q) }

// tone returns a recording of one second, of 16-bit PCM in a WAV file.
func tone() []byte {
	const rate, hertz, loud = 8000, 440, 8000
	samples := make([]int16, rate)
	for i := range samples {
		samples[i] = int16(loud * math.Sin(2*math.Pi*hertz*float64(i)/rate))
	}
	var b bytes.Buffer
	size := uint32(2 * len(samples))
	for _, part := range []any{[]byte("RIFF"), 36 + size, []byte("WAVEfmt "), uint32(16), uint16(1), uint16(1), uint32(rate), uint32(2 * rate),
		uint16(2), uint16(16), []byte("data"), size, samples} {
		_ = binary.Write(&b, binary.LittleEndian, part) // a buffer takes everything
	}
	return b.Bytes()
}
