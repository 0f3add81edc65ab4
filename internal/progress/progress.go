// Package progress follows a run by its events and shows how far it is.
//
// On a terminal it draws a bar with counts, cost and time; elsewhere it writes one log line per task. It shows
// no verdict, because a verdict would allow a run to be stopped and repeated.
// The clock and the redraw timer live here, so that the packages that describe a run stay pure.
package progress

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// Progress follows a run by its events: a bar on a terminal, a line for each
// task otherwise. It shows no verdict.
type Progress struct {
	// Verbose also prints changes of the concurrency. It is set before the first event.
	Verbose bool

	mu     sync.Mutex
	total  int
	votes  int             // attempts a task is voted on with; 1: there is no vote
	tries  int             // failures by which a task is given up; 0: not known
	made   map[string]int  // attempts of each task, not yet ended, that gave an answer or none
	lost   map[string]int  // likewise, that failed other than with the run
	ended  map[string]bool // tasks for which no further attempt is made
	turns  map[string]int  // of each task's open attempt
	asks   map[string]int  // likewise, requests of an own agent to a model, which count as its turns
	due    int             // tasks by which the bar is behind
	seals  int             // tasks graded and sealed
	cost   int64
	known  bool            // all costs so far are known
	limit  int             // requests at once, of the endpoint that changed last; 0: it never did
	warned map[string]bool // warnings that are printed once
	asked  []string        // kinds of preflight that were answered
	sent   int             // requests of it

	out io.Writer
	log *slog.Logger // without a terminal
	bar *mpb.Bar     // with one
	all *mpb.Progress

	still  atomic.Bool // a person is being asked: the bar is not drawn over what they type
	redraw chan any    // draws the bar
	closed chan struct{}
	finish sync.Once
}

// New returns the progress of a run of total tasks with so many votes each, written
// to w: a bar if w is a terminal, else lines of a log.
func New(w io.Writer, terminal bool, total, votes int, rehearsal bool) *Progress {
	p := &Progress{total: total, votes: max(votes, 1), made: map[string]int{}, lost: map[string]int{}, ended: map[string]bool{}, turns: map[string]int{}, asks: map[string]int{}, warned: map[string]bool{}, known: true, out: w}
	if !terminal {
		p.log = NewLogger(w, rehearsal)
		return p
	}
	name := "gaia"
	if rehearsal {
		name = "rehearsal"
	}
	p.redraw, p.closed = make(chan any), make(chan struct{})
	p.all = mpb.New(mpb.WithOutput(w), mpb.WithManualRefresh(p.redraw))
	p.bar = p.all.AddBar(int64(total),
		mpb.PrependDecorators(decor.Name(name), decor.CountersNoUnit(" %d of %d tasks")),
		mpb.AppendDecorators(decor.Elapsed(decor.ET_STYLE_GO), decor.Any(p.state)))
	go p.animate()
	return p
}

// NewLogger returns a log of text lines, which all say of a rehearsal that it is one.
func NewLogger(w io.Writer, rehearsal bool) *slog.Logger {
	l := slog.New(slog.NewTextHandler(w, nil))
	if rehearsal {
		l = l.With("rehearsal", true)
	}
	return l
}

// Watch takes an event of the run. Events come in order, one at a time.
func (p *Progress) Watch(e trajectory.Event) {
	p.mu.Lock()
	notes := p.take(e)
	p.unlock()
	for _, n := range notes {
		switch {
		case n.warning:
			p.Warn(n.text, n.pairs...)
		case p.log != nil:
			p.log.Info(n.text, n.pairs...)
		case n.detail:
			fmt.Fprintf(p, "gaia: %s\n", n.text)
		}
	}
}

// note is a line about an event. One that is neither a warning nor a detail is for the log alone.
type note struct {
	warning bool
	detail  bool // was asked for by Verbose
	text    string
	pairs   []any
}

// take counts an event, and returns what to print about it. The caller holds the lock.
func (p *Progress) take(e trajectory.Event) (notes []note) {
	info := func(text string, pairs ...any) { notes = append(notes, note{text: text, pairs: pairs}) }
	warn := func(text string, pairs ...any) { notes = append(notes, note{warning: true, text: text, pairs: pairs}) }
	once := func(text string, pairs ...any) {
		if !p.warned[text] {
			warn(text, pairs...)
		}
		p.warned[text] = true
	}
	if _, cost, requests := trajectory.Usage(e.Payload); requests > 0 && e.Turn > 0 { // the judge's is counted apart, at the end
		p.charge(cost)
	}
	switch payload := e.Payload.(type) {
	case trajectory.Preflight:
		p.charge(payload.CostMicroUSD)
		p.sent += payload.Requests
		if note := runview.ToolNote(payload.Tool); note != "" {
			warn("preflight: "+note, "model", payload.Model)
		}
		if err := payload.Error; err != nil {
			warn("preflight: no answer", "kind", payload.Kind, "model", payload.Model, "status", err.Status, "code", err.Code)
		} else {
			p.asked = append(p.asked, payload.Kind)
		}
	case trajectory.TaskStarted:
		p.turns[e.TaskID] = 0
		if len(p.asked) > 0 {
			info("preflight passed", "asked", strings.Join(p.asked, ","), "requests", p.sent)
		}
		p.asked = nil
	case trajectory.TurnStarted:
		p.turns[e.TaskID] = e.Turn
	case trajectory.ModelCallStarted:
		if payload.Request != nil {
			p.asks[e.TaskID]++
		}
	case trajectory.ModelCallCompleted:
		for _, channel := range payload.UnrecordedChannels {
			once("the endpoint did on its own what nothing records ("+view.Line(channel)+"): the run will not be submittable",
				"task", e.TaskID, "model", payload.ResponseModel)
		}
	case trajectory.ToolExecuted:
		if payload.Name != "web_search" || !payload.IsError {
			break
		}
		// The key is refused, or payment required: the model continues without the engine, and only the user can fix that. The last
		// two statuses are of Tavily, for used-up plans.
		refused := []int{http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, 432, 433}
		if i := slices.IndexFunc(payload.URLs, func(u trajectory.URL) bool { return slices.Contains(refused, u.Status) }); i >= 0 {
			once(fmt.Sprintf("the search engine refuses to answer (status %d), so the model goes without web_search: look at its key and what is left of its quota", payload.URLs[i].Status))
		}
	case trajectory.LimitChanged:
		p.limit = payload.To
		if p.Verbose {
			notes = append(notes, note{detail: true, text: fmt.Sprintf("concurrency %d → %d: %s", payload.From, payload.To, view.Line(payload.Reason))})
		}
	case trajectory.AttemptEnded:
		if strings.HasPrefix(payload.Reason, prompt.RunMoneySpent) {
			once("the budget of the whole run (--max-cost) is spent: an attempt ended without an answer")
		}
		p.count(e.TaskID, payload)
		if p.made[e.TaskID] >= p.votes || p.tries > 0 && p.lost[e.TaskID] >= p.tries {
			p.settle(e.TaskID)
		}
		info("attempt ended", "task", e.TaskID, "outcome", payload.Outcome, "turns", cmp.Or(p.asks[e.TaskID], p.turns[e.TaskID]),
			"tasks", fmt.Sprintf("%d/%d", len(p.ended), p.total), "cost", p.spent())
		delete(p.turns, e.TaskID)
		delete(p.asks, e.TaskID)
	case trajectory.Judgment:
		if payload.Path == judge.PathError {
			pairs := []any{"task", e.TaskID}
			if payload.ErrorStatus > 0 {
				pairs = append(pairs, "status", payload.ErrorStatus)
			}
			warn("answer not judged: the judge could not be asked", pairs...)
		}
	case trajectory.JudgeBattery: // a judge that could not be asked leaves answers that are not judged
		if why := runview.ExplainBattery(&rundir.BatterySummary{Accepted: payload.Accepted, Asked: payload.Asked, Refused: payload.Refused, Cached: payload.Cached, Unreadable: payload.Unreadable}); why != "" && !payload.Passed {
			warn("no verdict of the judge counts: "+why, "judge", payload.Model)
		}
	case trajectory.SecurityEvent:
		for _, b := range payload.Entries {
			if b.Name == judgecache.Place {
				warn("the judge cache is not used; the audit will count it", "reason", b.Reason)
				continue
			}
			warn("a judge cache entry does not verify; the audit will count it", "entry", b.Name, "reason", b.Reason)
		}
	case trajectory.TaskCommitted:
		p.settle(e.TaskID)
	case trajectory.TaskSealed: // the verdict is not shown
		p.settle(e.TaskID)
		if p.seals++; p.seals == 1 {
			info("grading")
		}
	case trajectory.Error:
		warn("attempt failed", "task", e.TaskID, "stage", payload.Stage, "error", view.Line(payload.Message))
	}
	return notes
}

// UnderWay returns how many tasks have an open attempt.
func (p *Progress) UnderWay() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.turns)
}

// charge adds the cost of a call; nil is unknown.
func (p *Progress) charge(microUSD *int64) {
	if microUSD == nil {
		p.known = false
		return
	}
	p.cost += *microUSD
}

// count counts an ended attempt as the limits of the plan do.
func (p *Progress) count(task string, ended trajectory.AttemptEnded) {
	switch {
	case ended.Outcome != trajectory.Errored:
		p.made[task]++
	case !ended.Lost():
		p.lost[task]++
	}
}

// Planned takes from the plan after how many failures a task ends.
func (p *Progress) Planned(m plan.Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tries = m.Retry.AttemptsPerTask
}

// settle counts a task for which no further attempt is made. Its attempts need no count then.
func (p *Progress) settle(task string) {
	delete(p.made, task)
	delete(p.lost, task)
	if !p.ended[task] {
		p.due++
	}
	p.ended[task] = true
}

// unlock releases the lock, and moves the bar: drawing it needs the lock.
func (p *Progress) unlock() {
	due := p.due
	p.due = 0
	p.mu.Unlock()
	if p.bar != nil && due > 0 {
		p.bar.IncrBy(due)
	}
}

// Warn prints a warning, above the bar if there is one.
func (p *Progress) Warn(message string, pairs ...any) {
	if p.log != nil {
		p.log.Warn(message, pairs...)
		return
	}
	slog.New(slog.NewTextHandler(p, nil)).Warn(message, pairs...)
}

// WarnOnce is Warn, once for each message.
func (p *Progress) WarnOnce(message string, pairs ...any) {
	p.mu.Lock()
	before := p.warned[message]
	p.warned[message] = true
	p.mu.Unlock()
	if !before {
		p.Warn(message, pairs...)
	}
}

// Trouble warns of an error that does no harm to the run.
func (p *Progress) Trouble(err error) { p.Warn(view.Line(err.Error())) }

// state returns the text behind the bar.
func (p *Progress) state(decor.Statistics) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	state := " " + p.spent()
	if p.limit > 0 {
		state += fmt.Sprintf(", %d at once", p.limit)
	}
	if p.seals > 0 {
		state += fmt.Sprintf(", %d sealed", p.seals)
	}
	return state
}

// Write prints a line above the bar.
func (p *Progress) Write(b []byte) (int, error) {
	if p.all == nil {
		return p.out.Write(b)
	}
	n, err := p.all.Write(b)
	if p.still.Load() {
		p.draw()
	}
	return n, err
}

// CatchUp counts the events of a run before it was interrupted.
func (p *Progress) CatchUp(f *rundir.Fold) {
	p.Planned(f.Manifest)
	p.mu.Lock()
	defer p.unlock()
	if before := f.Preflight(); before != nil {
		p.charge(before.CostMicroUSD)
	}
	for _, t := range f.Tasks {
		for _, a := range t.Attempts {
			if a.Ended != nil {
				p.count(t.Plan.TaskID, *a.Ended)
			}
			p.charge(a.CostMicroUSD)
		}
		if t.Sealed != nil || f.Settled(t) {
			p.settle(t.Plan.TaskID)
		}
		if t.Sealed != nil {
			p.seals++
		}
	}
}

// spent returns the cost so far. The caller holds the lock.
func (p *Progress) spent() string {
	if !p.known {
		return view.Dollars(nil)
	}
	return view.Dollars(&p.cost)
}

// Done takes the bar down.
func (p *Progress) Done() {
	if p.bar == nil {
		return
	}
	p.finish.Do(func() {
		p.draw()
		p.draw() // is taken when the one before it is drawn
		close(p.closed)
	})
	p.bar.Abort(false)
	p.all.Wait()
}

// redrawn is how often the bar is drawn.
const redrawn = 150 * time.Millisecond

// animate draws the bar now and then, until it is taken down. Its library would do
// that by itself, also over what a person types while one is asked.
func (p *Progress) animate() {
	tick := time.NewTicker(redrawn)
	defer tick.Stop()
	for {
		select {
		case <-p.closed:
			return
		case <-tick.C:
			if !p.still.Load() {
				p.draw()
			}
		}
	}
}

func (p *Progress) draw() {
	select {
	case p.redraw <- time.Now():
	case <-p.closed:
	}
}

// Hold keeps the bar still until Release; what is written meanwhile is shown at once.
func (p *Progress) Hold() { p.still.Store(true) }

// Release draws the bar again after Hold.
func (p *Progress) Release() { p.still.Store(false) }

// Held reports whether the bar is kept still.
func (p *Progress) Held() bool { return p.still.Load() }
