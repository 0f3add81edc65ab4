package run

import (
	"context"
	"fmt"
	"os"

	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// The files that a run leaves when it came to its end without evidence. They
// have the forms of results.jsonl and summary.json, and say what they are.
const (
	UnrecordedResults = "results.unrecorded.jsonl"
	UnrecordedSummary = "summary.unrecorded.json"
)

// UnrecordedError means that a run came to its end, but that its evidence ends
// after Events events: the answers and scores that follow rest on nothing.
type UnrecordedError struct {
	Events int64
	Cause  error
}

func (e *UnrecordedError) Error() string {
	return fmt.Sprintf("the results are not evidence: recording ended after event %d: %v", e.Events, e.Cause)
}

func (e *UnrecordedError) Unwrap() error { return e.Cause }

// nowhere takes the lines of a run that cannot record any longer.
type nowhere struct{}

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) Sync() error                 { return nil }

// goOn takes a run to its end that could not record any longer, from where its
// evidence ends: as if it were resumed there, but without writing a line.
// Attempts whose events were lost are made again.
func (r *Run) goOn(ctx context.Context, drain <-chan struct{}, cause error) error {
	end := r.log.Durable()
	lost := &UnrecordedError{end.Events, cause}
	r.warn(fmt.Errorf("the run goes on without evidence after event %d", end.Events))
	work, err := os.MkdirTemp(r.cfg.Scratch, "gaia-work-")
	if err != nil {
		return fmt.Errorf("%w; and there is no place to go on without evidence: %w", cause, err)
	}
	defer os.RemoveAll(work)
	r.work, r.lost, r.swept, r.fold.Unrecorded = work, lost, nil, cause.Error()
	r.log, err = trajectory.NewLog(nowhere{}, end, trajectory.LogConfig{
		RunID: r.fold.Manifest.RunID, Now: r.cfg.Now, Mono: r.cfg.Mono, Rand: r.cfg.Rand, Recorded: r.recorded,
	})
	if err == nil && r.fold.Completed == nil {
		err = r.takeUp(end, nil, cause.Error())
	}
	if err == nil {
		err = r.execute(ctx, drain)
	}
	if err != nil { // what was done without evidence is gone
		return fmt.Errorf("%w; and going on without evidence: %w", cause, err)
	}
	return lost
}

// leave writes the marked results of a run whose evidence is not whole. The
// disk may be the reason: what cannot be written is told, and is still printed.
func (r *Run) leave() error {
	results, err := r.fold.Results()
	if err != nil {
		return err
	}
	summary, err := r.fold.Summary().Encode()
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{UnrecordedResults: results, UnrecordedSummary: summary} {
		if err := r.writeFile(name, data); err != nil {
			r.warn(fmt.Errorf("writing %s: %w", name, err))
		}
	}
	return nil
}

// State returns the run as its events give it, for showing one that cannot be
// read back because its evidence is not whole.
func (r *Run) State() *rundir.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &rundir.Run{Fold: r.fold, End: r.log.End(), Marked: r.fold.Unrecorded}
}
