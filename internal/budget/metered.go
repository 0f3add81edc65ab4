package budget

import (
	"context"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/media"
)

// Metered asks models as long as the run's money suffices: what a request may cost is
// reserved first, and charged whole where no reply says what it did cost. An attempt
// that has reserved money itself does not wait for what others have reserved.
type Metered struct {
	Budget func() *Budget
	Waits  bool  // for others: the attempt that asks has reserved nothing
	Spare  int64 // what has to be left besides, in micro-USD
	Viewer media.Viewer
	Hear   media.Transcriber
}

func (m Metered) pay(ctx context.Context, need tools.Need, out int) (*Reservation, error) {
	b := m.Budget()
	cost := b.BoundOf(need, int64(out))
	if m.Spare > 0 { // nothing else is under way
		both, enough := b.Take(cost + m.Spare)
		if !enough {
			return nil, Spent()
		}
		both.Close()
	}
	take := b.Take
	if m.Waits {
		take = func(need int64) (*Reservation, bool) { return b.Wait(ctx, need) }
	}
	held, enough := take(cost)
	if !enough {
		return nil, Spent()
	}
	return held, nil
}

// Chat asks a model for a completion.
func (m Metered) Chat(ctx context.Context, r llm.Request, o llm.Observer) (llm.Response, error) {
	need := media.NeedOfLook(r)
	need.In += int64(len(r.Schema)) / 2
	for _, t := range r.Tools {
		need.In += int64(len(t.Name)+len(t.Description)+len(t.Parameters)) / 2
	}
	held, err := m.pay(ctx, need, r.MaxTokens)
	if err != nil {
		return llm.Response{}, err
	}
	defer held.Close()
	return m.Viewer.Chat(ctx, r, held.Observe(o))
}

// Transcribe has a recording written down.
func (m Metered) Transcribe(ctx context.Context, t llm.Transcription, o llm.Observer) (llm.Transcript, error) {
	held, err := m.pay(ctx, media.NeedOfRecording(t), 0)
	if err != nil {
		return llm.Transcript{}, err
	}
	defer held.Close()
	return m.Hear.Transcribe(ctx, t, held.Observe(o))
}
