package run

import (
	"context"
	"fmt"

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

// sweep checks the judge cache before anything is spent; nil if the run uses
// none.
func (c Config) sweep() (*judgecache.Sweep, error) {
	if c.Verdicts == nil || c.Judge == nil {
		return nil, nil
	}
	swept, err := c.Verdicts.Sweep()
	if err != nil {
		return nil, fmt.Errorf("checking the judge cache: %w", err)
	}
	if len(swept.Bad) > 0 && c.SubmitIntent {
		return nil, &CacheError{c.Verdicts.Dir(), swept}
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

// earlier are the verdicts that the judge gave before, in this run or another.
type earlier struct {
	run *Run
	err error // evidence that could not be recorded
}

func (e *earlier) context(it judge.Item) judgecache.Context {
	j := e.run.fold.Manifest.Judge
	return judgecache.Context{TaskID: it.TaskID, Answer: *it.Answer, Expected: it.Gold, Model: j.Model, Origin: j.Origin, PromptDigest: j.PromptSHA256}
}

// known implements judge.Judge's Known. An entry that does not verify is a miss
// and an event.
func (e *earlier) known(it judge.Item) (correct, found bool) {
	if e.run.cfg.Verdicts == nil {
		return false, false
	}
	correct, found, bad, err := e.run.cfg.Verdicts.Get(e.context(it))
	if err != nil {
		e.run.warn(fmt.Errorf("reading the judge cache: %w", err))
		return false, false
	}
	e.tell(bad)
	return correct, found
}

// tell records an entry that does not verify; nil is none.
func (e *earlier) tell(bad *judgecache.Bad) {
	if bad == nil {
		return
	}
	_, e.err = e.run.log.Append(trajectory.Draft{Payload: trajectory.SecurityEvent{Bad: 1, Checked: 1, Kind: trajectory.JudgeCacheRead,
		Entries: []trajectory.BadEntry{{Name: bad.Name, Reason: bad.Reason}}}})
}

// fit implements judge.Judge's Fit.
func (e *earlier) fit(ctx context.Context) (withstood bool) {
	withstood, e.err = e.run.fit(ctx)
	return withstood
}

// remember keeps a verdict for later runs. This one does not depend on it.
func (e *earlier) remember(it judge.Item, correct bool) {
	if e.run.cfg.Verdicts == nil || e.run.lost != nil { // no journal has what it rests on
		return
	}
	if err := e.run.cfg.Verdicts.Put(e.context(it), correct); err != nil {
		e.run.warn(fmt.Errorf("writing the judge cache: %w", err))
	}
}

func (r *Run) warn(err error) {
	if r.cfg.Warn != nil {
		r.cfg.Warn(err)
	}
}
