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

// catalogue returns the tools of a run: transcriptions are paid from its money.
func (c Config) catalogue(money func() *purse) []tools.Tool {
	if c.Transcription == nil {
		return c.Tools
	}
	return append(slices.Clone(c.Tools), tools.NewTranscribe(scribe{c.Transcription.Client, money}, c.Transcription.Name))
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
