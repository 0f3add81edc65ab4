package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/trajectory"
)

// CacheError means that the judge cache holds entries that do not verify. A run
// that is meant to be submitted does not begin or go on with them.
type CacheError struct {
	Dir   string
	Sweep judgecache.Sweep
}

func (e *CacheError) Error() string {
	if first := e.Sweep.Bad[0]; first.Name == judgecache.Place {
		return "the judge cache cannot be trusted: it is " + first.Reason
	}
	return fmt.Sprintf("the judge cache cannot be trusted: %d of %d entries do not verify; the first is %s: %s",
		len(e.Sweep.Bad), e.Sweep.Checked, e.Sweep.Bad[0].Name, e.Sweep.Bad[0].Reason)
}

// verdicts is the judge cache; nil if there is none, or if the answers come from a
// cassette: anybody can write one, and nothing of it may pass for the judge's word.
func (c Config) verdicts() *judgecache.Cache {
	if c.Cassette == plan.CassetteReplay {
		return nil
	}
	return c.Verdicts
}

// sweep checks the judge cache before anything is spent; nil if the run uses
// none.
func (c Config) sweep() (*judgecache.Sweep, error) {
	cache := c.verdicts()
	if cache == nil || c.Judge == nil {
		return nil, nil
	}
	swept := cache.Sweep()
	if len(swept.Bad) > 0 && c.SubmitIntent {
		return nil, &CacheError{cache.Dir(), swept}
	}
	return &swept, nil
}

// maxBad bounds the entries that one event names.
const maxBad = 100

// sweepEvents records what the sweep found, also that it found nothing.
func (r *Run) sweepEvents() []trajectory.Draft {
	if r.swept == nil {
		return nil
	}
	e := trajectory.SecurityEvent{Bad: len(r.swept.Bad), Checked: r.swept.Checked, Kind: trajectory.JudgeCacheSweep}
	for _, b := range r.swept.Bad[:min(len(r.swept.Bad), maxBad)] {
		e.Entries = append(e.Entries, trajectory.BadEntry{Name: b.Name, Reason: b.Reason})
	}
	return []trajectory.Draft{{Payload: e}}
}

// judgeMemory is what the judge has said before, in this run or another, for the
// grading of one answer. It records what it finds amiss.
type judgeMemory struct {
	run     *Run
	err     error      // evidence that could not be recorded, or another end of the grading
	proven  bool       // the judge withstood the null battery
	untried *llm.Error // why it could not be put to it, if that is known
}

func (m *judgeMemory) context(it judge.Item) judgecache.Context {
	return judgecache.Context{TaskID: it.TaskID, Answer: *it.Answer, Expected: it.Gold, Model: m.plan().Model, Origin: m.run.cfg.Judge.place(),
		PromptDigest: m.plan().PromptSHA256, Battery: m.plan().Battery}
}

// known implements judge.Judge's Known. An entry that does not verify is a miss
// and an event.
func (m *judgeMemory) known(it judge.Item) (correct, found bool) {
	cache := m.run.cfg.verdicts()
	if cache == nil {
		return false, false
	}
	correct, found, bad, err := cache.Get(m.context(it))
	if err != nil {
		m.run.warn(fmt.Errorf("reading the judge cache: %w", err))
		return false, false
	}
	m.tell(bad)
	return correct, found
}

// tell records an entry that does not verify; nil is none.
func (m *judgeMemory) tell(bad *judgecache.Bad) {
	if bad == nil {
		return
	}
	_, m.err = m.run.log.Append(trajectory.Draft{Payload: trajectory.SecurityEvent{Bad: 1, Checked: 1, Kind: trajectory.JudgeCacheRead,
		Entries: []trajectory.BadEntry{{Name: bad.Name, Reason: bad.Reason}}}})
}

// withstood implements judge.Judge's Withstood. What ends the grading is no
// verdict on the judge.
func (m *judgeMemory) withstood(ctx context.Context) (bool, error) {
	withstood, err := m.run.judgeWithstood(ctx)
	var untried errUntried
	switch {
	case err == nil:
		m.proven = withstood && m.plan().Battery != ""
	case errors.As(err, &untried):
		m.untried = untried.why
	default:
		m.err = err
	}
	return withstood, err
}

// remember keeps a verdict for later runs. This one does not depend on it.
func (m *judgeMemory) remember(it judge.Item, correct bool) {
	cache := m.run.cfg.verdicts()
	if cache == nil || m.run.lost != nil { // no journal has what it rests on
		return
	}
	if err := cache.Put(m.context(it), correct); err != nil {
		m.run.warn(fmt.Errorf("writing the judge cache: %w", err))
	}
}

func (r *Run) warn(err error) {
	if r.cfg.Warn != nil {
		r.cfg.Warn(err)
	}
}
