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
		all = append(all, tools.NewDescribeImage(viewer{v.Client, money}, v.Name, c.Reader))
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
	held, enough := p.takeNow(p.request(tools.NeedOfRecording(t), 0)) // the attempt that asks has set money aside, and must not wait for others'
	if !enough {
		return llm.Transcript{}, errNoMoney()
	}
	defer held.close()
	return s.client.Transcribe(ctx, t, payer{o, held})
}

// viewer has pictures looked at, as long as the run's money allows.
type viewer struct {
	client tools.Viewer
	money  func() *purse
}

// Chat implements tools.Viewer. What a look may cost is set aside first, and
// charged whole where nobody says what it did cost.
func (v viewer) Chat(ctx context.Context, r llm.Request, o llm.Observer) (llm.Response, error) {
	p := v.money()
	if p == nil {
		return v.client.Chat(ctx, r, o)
	}
	held, enough := p.takeNow(p.request(tools.NeedOfLook(r), int64(r.MaxTokens))) // as for a recording, others' money is not waited for
	if !enough {
		return llm.Response{}, errNoMoney()
	}
	defer held.close()
	return v.client.Chat(ctx, r, payer{o, held})
}

// request bounds what a request of a tool may cost that writes out tokens at most; 0
// is as many as the run allows.
func (p *purse) request(n tools.Need, out int64) int64 {
	if out <= 0 {
		out = p.maxTokens
	}
	if cost := n.Cost(p.prices, out); cost != nil {
		return *cost
	}
	return p.budget // it was refused before the run began
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
