package run

import (
	"context"
	"slices"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/tools"
)

// Transcription is the model that writes down recordings.
type Transcription struct {
	Client tools.Transcriber
	Name   string
	Origin string
}

// Vision is the model that looks at pictures and pages, and says what it is asked
// of them.
type Vision struct {
	Client tools.Viewer
	Name   string
	Origin string
}

// catalogue returns the tools of a run: those that ask a model are paid from its
// money.
func (c Config) catalogue(money func() *purse) []tools.Tool {
	all := slices.Clone(c.Tools)
	if t := c.Transcription; t != nil {
		all = append(all, tools.NewTranscribe(scribe{t.Client, money}, t.Name))
	}
	if v := c.Vision; v != nil {
		all = append(all, tools.NewDescribeImage(viewer{v.Client, money, c.MaxTokens}, v.Name, c.Reader))
	}
	return all
}

// scribe has recordings written down, as long as the run's money allows.
type scribe struct {
	client tools.Transcriber
	money  func() *purse
}

// Transcribe implements tools.Transcriber. What a recording may cost is set aside
// first, and charged whole where nobody says what it did cost.
func (s scribe) Transcribe(ctx context.Context, t llm.Transcription, o llm.Observer) (llm.Transcript, error) {
	p := s.money()
	if p == nil {
		return s.client.Transcribe(ctx, t, o)
	}
	held, enough := p.takeNow(p.recording(t)) // the attempt that asks has set money aside, and must not wait for others'
	if !enough {
		return llm.Transcript{}, errNoMoney()
	}
	defer held.close()
	return s.client.Transcribe(ctx, t, payer{o, held})
}

// What a recording has at least and at most in a second: bytes, of the leanest
// encoding of speech in use, and tokens, which models bill instead of time.
const (
	bytesPerSecond  = 1000
	tokensPerSecond = 50
)

// recording bounds what writing one down may cost.
func (p *purse) recording(t llm.Transcription) int64 {
	seconds := int64(len(t.Audio))/bytesPerSecond + 1
	if cost := p.prices.CostOfAudio(t.Model, 1000*seconds); cost != nil {
		return *cost
	}
	return p.bound(t.Model, tokensPerSecond*seconds, tokensPerSecond*seconds)
}

// viewer has pictures looked at, as long as the run's money allows.
type viewer struct {
	client    tools.Viewer
	money     func() *purse
	maxTokens int // of an answer; 0 leaves it to the endpoint
}

// Chat implements tools.Viewer. What a look may cost is set aside first, and
// charged whole where nobody says what it did cost.
func (v viewer) Chat(ctx context.Context, r llm.Request, o llm.Observer) (llm.Response, error) {
	r.MaxTokens = v.maxTokens
	p := v.money()
	if p == nil {
		return v.client.Chat(ctx, r, o)
	}
	held, enough := p.takeNow(p.look(r)) // as for a recording, others' money is not waited for
	if !enough {
		return llm.Response{}, errNoMoney()
	}
	defer held.close()
	return v.client.Chat(ctx, r, payer{o, held})
}

// look bounds what a request about pictures may cost.
func (p *purse) look(r llm.Request) int64 {
	tokens := int64(0)
	for _, m := range r.Messages {
		tokens += int64(len(m.Content)) / 2 // no text in earnest has more
		if m.Image != nil {
			tokens += tools.PictureTokens
		}
	}
	return p.bound(r.Model, tokens, p.maxTokens)
}

// payer charges what each try cost, and tells the observer.
type payer struct {
	llm.Observer
	share *share
}

func (p payer) TryStarted(number int) error {
	if number > 1 && !p.share.again() {
		return errNoMoney()
	}
	return p.Observer.TryStarted(number)
}

func (p payer) TryCompleted(t llm.Try) error {
	p.share.tried(t)
	return p.Observer.TryCompleted(t)
}
