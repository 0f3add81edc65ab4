package workers

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/gaia-harness/gaia/internal/queue"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// Counts say what the workers of a run did.
type Counts struct {
	Claimed    int `json:"claimed"`    // tasks, once each
	Lost       int `json:"lost"`       // tasks that a worker finished and never claimed; others did them again
	Superseded int `json:"superseded"` // tasks that a worker finished after another had claimed them
	Workers    int `json:"workers"`    // whose journals are in the run
}

// Counts returns what was done so far.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := Counts{Claimed: len(s.state.claims) - s.state.open}
	for i, c := range s.copies {
		c.mu.Lock()
		lost, superseded := s.state.lost(i+1, c.committed, s.second[i+1])
		if c.head != nil {
			n.Workers++
		}
		c.mu.Unlock()
		n.Lost, n.Superseded = n.Lost+lost, n.Superseded+superseded
	}
	return n
}

// parting is how long the server waits for its workers to leave, once all is claimed.
const parting = 5 * time.Second

// farewell waits until the workers that are there have heard that all is done, or for a while.
func (s *Server) farewell(ctx context.Context) {
	for end := time.Now().Add(parting); ctx.Err() == nil && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		s.mu.Lock()
		waits := false
		for w, a := range s.limits.accounts {
			waits = waits || !s.left[w] && !a.seen.IsZero() && s.c.Now().Sub(a.seen) < parting
		}
		s.mu.Unlock()
		if !waits {
			return
		}
	}
}

// Finish ends the copies, each at its newest head, when all tasks are claimed. It returns what a merged run is made of:
// the list of the journals and the folder of each.
func (s *Server) Finish() (rundir.Shards, []string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.open > 0 || s.failed != nil {
		return rundir.Shards{}, nil, errors.Join(fmt.Errorf("%d tasks are not claimed", s.state.open), s.failed)
	}
	var merged []trajectory.ShardMerged
	var folders []string
	place := make([]int, len(s.copies)+1) // of a worker in the list, from 1
	for i, c := range s.copies {
		headed, err := c.cut() // from here on the worker is refused
		if err != nil {
			return rundir.Shards{}, nil, fmt.Errorf("closing the journal of worker %d: %w", i+1, err)
		}
		if !headed { // it finished nothing
			continue
		}
		lost, _ := s.state.lost(i+1, c.committed, s.second[i+1])
		merged = append(merged, trajectory.ShardMerged{Events: c.headEnd.Events, Head: c.headEnd.Head, Lost: lost, Shard: c.shard})
		folders = append(folders, c.dir)
		place[i+1] = len(merged)
	}
	counted := make([]int, len(s.state.claims))
	for i, c := range s.state.claims {
		counted[i] = place[c.Worker]
	}
	if slices.Contains(counted, 0) {
		return rundir.Shards{}, nil, errors.New("a claim rests on a journal without a head")
	}
	return rundir.NewShards(s.signed.Plan, merged, counted), folders, nil
}

// Run serves the plan until all tasks are claimed and the workers have heard it, or ctx ends. The queue is that of o,
// whose store is in the server's folder; ready is called with its address.
func (s *Server) Run(ctx context.Context, o queue.Options, ready func(url string)) (err error) {
	if o.Plan, err = s.Plan(); err != nil {
		return err
	}
	o.StoreDir = filepath.Join(s.dir, "queue")
	q, err := queue.Start(ctx, o)
	if err != nil {
		return hinted(err)
	}
	defer q.Close()
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- q.Serve(serving, s) }()
	defer func() {
		stop()
		if err == nil {
			err = <-served
		}
	}()
	ready(q.URL())
	tick := time.NewTicker(silent / 4)
	defer tick.Stop()
	for {
		select {
		case <-s.ended:
			if err := s.Err(); err != nil {
				return err
			}
			s.farewell(ctx)
			return nil
		case err := <-served:
			served <- nil
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			s.reportSilent()
		}
	}
}
