package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
)

// DefaultRuns is the folder of runs if none is named.
const DefaultRuns = "runs"

// clearHint says how to get rid of imported events that cannot be used.
const clearHint = "gaia ledger clear removes what was imported, to be imported again"

// Selection says which events are read.
type Selection struct {
	Paths      []string // of runs; empty: DefaultRuns, if it is there
	NoImported bool
	Verify     bool // verify all runs, whatever was kept
	Live       bool // leave out runs that were removed

	Task, ID string    // the start of a task's id, of an event's
	From, To time.Time // zero: no bound; To is not part of the range
	Last     int       // events, the newest; 0: all
}

// Takes reports whether an event is among those that were asked for.
func (s Selection) Takes(e rundir.RunEvent) bool {
	return strings.HasPrefix(e.TaskID, s.Task) && strings.HasPrefix(e.ID, s.ID) &&
		(s.From.IsZero() || e.Timestamp >= s.From.Format(trajectory.TimeFormat)) && (s.To.IsZero() || e.Timestamp < s.To.Format(trajectory.TimeFormat))
}

// Event is a run event with what a reader has to know of its run.
type Event struct {
	rundir.RunEvent
	Imported        bool `json:"imported,omitzero"`
	GuidanceChanged bool `json:"guidance_changed,omitzero"` // since the event listed before it
	PolicyChanged   bool `json:"policy_changed,omitzero"`   // likewise: the policy or its mode
	Pruned          bool `json:"pruned,omitzero"`           // its run was removed

	Unrecorded string `json:"-"` // why its run went on without evidence; "" if it did not
}

// EventsRead is the result of reading events.
type EventsRead struct {
	Runs      int  `json:"runs"`     // that were read, but for those of Outside
	Imported  int  `json:"imported"` // imported events that were taken
	Rehearsal bool `json:"rehearsal,omitzero"`
	Skipped   int  `json:"skipped"`          // imported events of runs that were read
	Outside   int  `json:"outside,omitzero"` // runs of which no event was asked for
	Shortfall

	Read Read `json:"-"`
}

// Imported opens the imported events, whose signer the user has to trust.
func (r *Reader) Imported() (history.Imported, error) {
	m, err := history.OpenImported(r.Store.Dir, func(key sign.PublicKey) error {
		_, err := r.Trust.Of(key)
		return err
	})
	if err != nil {
		e := *exit.Of(err)
		e.Hints = append(e.Hints, clearHint)
		return m, &e
	}
	return m, nil
}

// Events gives the events that were asked for: those of a run together, then the imported ones in the order of their
// times; with Last all in that order. ended, if not nil, is called after each run and at the end.
func (r *Reader) Events(s Selection, give func(Event) error, ended func()) (read EventsRead, err error) {
	imported := history.Imported{}
	if !s.NoImported {
		if imported, err = r.Imported(); err != nil {
			return EventsRead{}, err
		}
	}
	if ended == nil {
		ended = func() {}
	}
	var last []Event
	taken := 0
	take := func(e Event) error {
		if !s.Takes(e.RunEvent) {
			return nil
		}
		taken++
		read.Rehearsal = read.Rehearsal || e.Rehearsal
		if s.Last == 0 {
			return give(e)
		}
		if last = append(last, e); len(last) >= 2*s.Last {
			last = newest(last, s.Last)
		}
		return nil
	}
	paths := s.Paths
	if _, err := os.Stat(DefaultRuns); len(paths) == 0 && !errors.Is(err, fs.ErrNotExist) {
		paths = []string{DefaultRuns}
	}
	here := map[string]bool{}
	var unrecorded []string
	read.Read, err = r.Runs(paths, Query{Verify: s.Verify, Empty: len(s.Paths) == 0, Live: s.Live}, func(run Run) error {
		here[run.RunID] = true
		before := taken
		for _, e := range run.Events {
			if err := take(Event{RunEvent: e, Pruned: run.Pruned, Unrecorded: run.RecordingFailed}); err != nil {
				return err
			}
		}
		switch {
		case taken == before && len(run.Events) > 0:
			read.Outside++
		case run.RecordingFailed != "":
			unrecorded = append(unrecorded, run.RunID)
		}
		ended()
		return nil
	})
	if err != nil {
		return EventsRead{}, err
	}
	read.Shortfall, read.Runs = read.Read.Shortfall, read.Read.Runs-read.Outside
	fromRuns := taken
	for e, err := range imported.Each() {
		switch {
		case err != nil:
			return read, err
		case here[e.RunID]:
			read.Skipped++
		default:
			if err := take(Event{RunEvent: e, Imported: true}); err != nil {
				return read, err
			}
		}
	}
	read.Imported = taken - fromRuns
	last = newest(last, s.Last)
	for _, e := range last {
		if err := give(e); err != nil {
			return read, err
		}
	}
	ended()
	if s.Last > 0 {
		unrecorded = slices.DeleteFunc(unrecorded, func(id string) bool {
			return !slices.ContainsFunc(last, func(e Event) bool { return e.RunID == id })
		})
	}
	read.RecordingFailed = unrecorded
	if read.Skipped > 0 {
		fmt.Fprintf(r.Log, "gaia: left out: %s of runs that are read\n", view.Count(read.Skipped, "imported event"))
	}
	switch {
	case taken > 0 || s.Task == "" && s.ID == "":
		return read, nil
	case read.Read.FailedErr != nil:
		return read, read.Read.FailedErr // which may have it
	}
	return read, exit.Usagef("'gaia ledger list' lists all", "there is no event whose task or id starts with %q", cmp.Or(s.Task, s.ID))
}

// newest returns the n last events, in order.
func newest(events []Event, n int) []Event {
	slices.SortFunc(events, func(a, b Event) int { return strings.Compare(a.ID, b.ID) })
	return slices.Delete(events, 0, max(0, len(events)-n))
}

// Metrics counts events, of all attempts and by guidance and policy.
func (r *Reader) Metrics(s Selection) (all history.Metrics, guidances []history.GuidanceMetrics, read EventsRead, err error) {
	var meter history.Meter
	read, err = r.Events(s, func(e Event) error {
		meter.Add(e.RunEvent)
		return nil
	}, meter.EndRun)
	all, guidances = meter.Metrics()
	return all, guidances, read, err
}

// Rank ranks the rules that events broke.
func (r *Reader) Rank(s Selection) ([]history.RankedRule, EventsRead, error) {
	var ranking history.Ranking
	read, err := r.Events(s, func(e Event) error {
		ranking.Add(e.RunEvent)
		return nil
	}, nil)
	return ranking.Rules(), read, err
}

// Count is how often an evaluator passed.
type Count struct {
	Failed int    `json:"failed"`
	Name   string `json:"name"`
	Passed int    `json:"passed"`
}

// evaluatedAtOnce is how many events are evaluated at once.
const evaluatedAtOnce = 4

// Evaluate runs evaluators on events and gives each event with the results, in their order. When it returns, no
// evaluator runs.
func (r *Reader) Evaluate(ctx context.Context, s Selection, by []history.Evaluator, give func(Event, []history.Evaluation) error) ([]Count, EventsRead, error) {
	counts := make([]Count, len(by))
	for i, e := range by {
		counts[i].Name = e.Name()
	}
	var batch []Event
	evaluate := func() error {
		results := make([][]history.Evaluation, len(batch))
		var all sync.WaitGroup
		for i, e := range batch {
			all.Go(func() {
				for _, one := range by {
					results[i] = append(results[i], one.Evaluate(e.RunEvent))
				}
			})
		}
		all.Wait()
		for i, e := range batch {
			for k, result := range results[i] {
				if result.Pass {
					counts[k].Passed++
				} else {
					counts[k].Failed++
				}
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := give(e, results[i]); err != nil {
				return err
			}
		}
		batch = batch[:0]
		return nil
	}
	read, err := r.Events(s, func(e Event) error {
		if batch = append(batch, e); len(batch) < evaluatedAtOnce {
			return nil
		}
		return evaluate()
	}, nil)
	if err == nil {
		err = evaluate()
	}
	return counts, read, err
}
