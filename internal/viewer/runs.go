package viewer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/internal/page"
)

// Bounds on what is held of runs.
const (
	maxKnown = 20_000 // ids that are remembered, so that a removed run is called removed
	maxOpen  = 8      // runs that stay open though no one is shown them just now
)

// How often the server looks, and how long it waits.
const (
	followEvery = 250 * time.Millisecond // whether a journal has grown
	listEvery   = time.Second            // which runs there are
	surveyEvery = time.Second            // whether a run was removed or changed
	tidyEvery   = 5 * time.Second
	idleFor     = 2 * time.Minute // then a run is closed
)

var (
	errUnknown = errors.New("there is no such run")
	errRemoved = errors.New("the run was removed")
)

// runSet is the runs that there are, and those that are open.
type runSet struct {
	s    *Server
	jobs chan struct{} // holds a value while a run is verified: one at a time

	listing sync.Mutex // held while the list is read
	listed  time.Time

	mu      sync.Mutex
	rows    []page.RunRow     // with paths
	version uint64            // of rows and err
	err     error             // of the last listing
	places  map[string]string // of the runs by id
	known   map[string]bool   // every id that there was
	open    map[string]*opened
	serial  uint64
}

// list returns the runs that there are, and a number that grows when they change.
func (r *runSet) list() ([]page.RunRow, uint64, error) {
	r.listing.Lock()
	defer r.listing.Unlock()
	if time.Since(r.listed) >= listEvery {
		rows, err := r.s.c.Runs()
		rows, places := identify(rows)
		r.mu.Lock()
		if !reflect.DeepEqual(rows, r.rows) || (err == nil) != (r.err == nil) || r.version == 0 {
			r.version++
		}
		r.rows, r.places, r.err = rows, places, err
		if len(r.known) < maxKnown {
			for id := range places {
				r.known[id] = true
			}
		}
		r.mu.Unlock()
		r.listed = time.Now()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rows, r.version, r.err
}

// identify gives each run its path. One without a good id, and one that has the id of another, as the package of a run
// has, gets an id by its place.
func identify(given []page.RunRow) (rows []page.RunRow, places map[string]string) {
	rows, places = slices.Clone(given), map[string]string{}
	path := func(id, dir string) string {
		if _, taken := places[id]; taken || !isID.MatchString(id) {
			sum := sha256.Sum256([]byte(dir))
			id = "at-" + hex.EncodeToString(sum[:10])
		}
		places[id] = dir
		return pathOf(id)
	}
	for i := range rows {
		rows[i].Path = path(rows[i].ID, rows[i].Dir)
		rows[i].Workers = slices.Clone(rows[i].Workers)
		for n, w := range rows[i].Workers {
			rows[i].Workers[n].Path = path("", w.Dir)
		}
	}
	return rows, places
}

// isID matches what can be an id in a path as it is.
var isID = regexp.MustCompile(`^[0-9A-Za-z]{1,64}$`)

// at returns the id of the run at a place.
func (r *runSet) at(place string) (id string, ok bool) {
	r.list()
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, p := range r.places {
		if p == place {
			return id, true
		}
	}
	return "", false
}

// rowOf returns the row of a run or worker in the list, and those of the other runs that have pages to compare.
func (r *runSet) rowOf(id string) (row page.RunRow, others []page.RunRow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.rows {
		switch {
		case one.Path == pathOf(id):
			row = one
		case one.Workers == nil:
			others = append(others, one)
		}
		for _, worker := range one.Workers {
			if worker.Path == pathOf(id) {
				row = page.RunRow{State: worker.State, Problem: worker.Problem}
			}
		}
	}
	return row, others
}

// use returns the run of an id, opened, for a request or a stream that calls release at its end.
func (r *runSet) use(ctx context.Context, id string) (o *opened, release func(), err error) {
	r.mu.Lock()
	place, ok := r.places[id]
	r.mu.Unlock()
	if !ok {
		r.list()
		r.mu.Lock()
		place, ok = r.places[id]
		known := r.known[id]
		r.mu.Unlock()
		switch {
		case !ok && known:
			return nil, nil, errRemoved
		case !ok:
			return nil, nil, errUnknown
		}
	}
	if _, err := os.Lstat(place); errors.Is(err, fs.ErrNotExist) {
		r.mu.Lock()
		r.drop(r.open[id])
		r.mu.Unlock()
		return nil, nil, errRemoved
	}
	r.mu.Lock()
	o = r.open[id]
	if o != nil && o.hasChanged() {
		r.drop(o)
		o = nil
	}
	if o == nil {
		r.serial++
		o = &opened{s: r.s, id: id, place: place, serial: r.serial, ready: make(chan struct{}), caughtUp: make(chan struct{})}
		o.ctx, o.cancel = context.WithCancel(r.s.ctx)
		r.open[id] = o
		// Drop runs that no one uses until maxOpen are left, those that were used long ago first.
		unused := slices.DeleteFunc(slices.Collect(maps.Values(r.open)), func(o *opened) bool { return o.users > 0 || o.used.IsZero() })
		slices.SortFunc(unused, func(a, b *opened) int { return a.used.Compare(b.used) })
		for _, o := range unused[:max(0, min(len(unused), len(r.open)-maxOpen))] {
			r.drop(o)
		}
		r.s.group.Go(o.read)
	}
	o.users++
	r.mu.Unlock()
	release = sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		o.users--
		o.used = time.Now()
		if r.open[id] != o {
			o.closeIfUnused()
		}
	})
	select {
	case <-o.ready:
		return o, release, nil
	case <-ctx.Done():
		release()
		return nil, nil, ctx.Err()
	}
}

// drop forgets an open run, which is closed when no one uses it. r.mu is held.
func (r *runSet) drop(o *opened) {
	if o != nil && r.open[o.id] == o {
		delete(r.open, o.id)
		o.closeIfUnused()
	}
}

// tidy closes what is idle, until the server ends.
func (r *runSet) tidy() {
	t := time.NewTicker(tidyEvery)
	defer t.Stop()
	for {
		select {
		case <-r.s.ctx.Done():
			return
		case <-t.C:
			r.closeIdle(idleFor)
		}
	}
}

// closeIdle closes the runs that no one has used for a time.
func (r *runSet) closeIdle(most time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.open {
		if o.users == 0 && !o.used.IsZero() && time.Since(o.used) > most {
			r.drop(o)
		}
	}
}

// stale reports whether an open run was removed, or is read from files that have changed since.
func (r *runSet) stale(o *opened) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open[o.id] != o || o.hasChanged()
}
