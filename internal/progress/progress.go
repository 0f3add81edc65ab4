// Package progress follows a run by its events and shows how far it is.
//
// On a terminal it draws a bar with counts, cost and time; elsewhere it writes one log line per task. It shows
// no verdict, because a verdict would allow a run to be stopped and repeated.
// The clock and the redraw timer live here, so that the packages that describe a run stay pure.
package progress

import (
	"fmt"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gaia-harness/gaia/internal/prompt"
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
	mu    sync.Mutex
	total int
	votes int             // attempts a task is voted on with; 1: there is no vote
	tries int             // failures by which a task is given up; 0: not known
	made  map[string]int  // attempts of each task that gave an answer or none
	lost  map[string]int  // attempts of each task that failed, other than with the run
	ended map[string]bool // tasks for which no further attempt is made
	turns map[string]int  // of each task's open attempt
	seals int             // tasks graded and sealed
	cost  int64
	known bool            // all costs so far are known
	limit int             // requests at once, of the endpoint that changed last; 0: it never did
	told  map[string]bool // warnings that are given once
	asked []string        // kinds of preflight that were answered
	sent  int             // requests of it

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
	p := &Progress{total: total, votes: max(votes, 1), made: map[string]int{}, lost: map[string]int{}, ended: map[string]bool{}, turns: map[string]int{}, told: map[string]bool{}, known: true, out: w}
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
	if cost, requests := trajectory.Cost(e.Payload); requests > 0 && e.Turn > 0 { // the judge's is told apart, at the end
		p.charge(cost)
	}
	switch payload := e.Payload.(type) {
	case trajectory.Preflight:
		p.charge(payload.CostMicroUSD)
		p.preflight(payload)
	case trajectory.TaskStarted:
		p.mu.Lock()
		p.turns[e.TaskID] = 0
		p.mu.Unlock()
		p.begun()
	case trajectory.TurnStarted:
		p.mu.Lock()
		p.turns[e.TaskID] = e.Turn
		p.mu.Unlock()
	case trajectory.ModelCallCompleted:
		for _, channel := range payload.UnrecordedChannels {
			p.WarnOnce("the endpoint did on its own what nothing records ("+view.Line(channel)+"): the run will not be submittable", "task", e.TaskID, "model", payload.ResponseModel)
		}
	case trajectory.ToolExecuted:
		p.searched(payload)
	case trajectory.LimitChanged:
		p.limited(payload)
	case trajectory.AttemptEnded:
		p.attempt(e.TaskID, payload)
	case trajectory.Judgment:
		if payload.Path == judge.PathError {
			p.notJudged(e.TaskID, payload.ErrorStatus)
		}
	case trajectory.JudgeBattery:
		p.battery(payload)
	case trajectory.SecurityEvent:
		for _, b := range payload.Entries {
			if b.Name == judgecache.Place {
				p.Warn("the judge cache is not used; the audit will count it", "reason", b.Reason)
				continue
			}
			p.Warn("a judge cache entry does not verify; the audit will count it", "entry", b.Name, "reason", b.Reason)
		}
	case trajectory.TaskSealed:
		p.settled(e.TaskID)
		p.sealed()
	case trajectory.Error:
		p.Warn("attempt failed", "task", e.TaskID, "stage", payload.Stage, "error", view.Line(payload.Message))
	}
}

// preflight warns of what the models did not do that were asked before the tasks.
func (p *Progress) preflight(e trajectory.Preflight) {
	p.mu.Lock()
	p.sent += e.Requests
	if e.Error == nil {
		p.asked = append(p.asked, e.Kind)
	}
	p.mu.Unlock()
	if note := runview.ToolNote(e.Tool); note != "" {
		p.Warn("preflight: "+note, "model", e.Model)
	}
	if e.Error != nil {
		p.Warn("preflight: no answer", "kind", e.Kind, "model", e.Model, "status", e.Error.Status, "code", e.Error.Code)
	}
}

// begun says with the first task that the models answered.
func (p *Progress) begun() {
	p.mu.Lock()
	asked, sent := p.asked, p.sent
	p.asked = nil
	p.mu.Unlock()
	if p.log != nil && len(asked) > 0 {
		p.log.Info("preflight passed", "asked", strings.Join(asked, ","), "requests", sent)
	}
}

// notJudged warns of an answer that the judge could not be asked about; the status
// is that of HTTP, 0 where there was none.
func (p *Progress) notJudged(task string, status int) {
	pairs := []any{"task", task}
	if status > 0 {
		pairs = append(pairs, "status", status)
	}
	p.Warn("answer not judged: the judge could not be asked", pairs...)
}

// battery warns of a judge whose verdicts do not count. One that could only not be
// asked is told of by the answers that are not judged.
func (p *Progress) battery(e trajectory.JudgeBattery) {
	if why := runview.ExplainBattery(&rundir.BatterySummary{Accepted: e.Accepted, Asked: e.Asked, Refused: e.Refused, Cached: e.Cached, Unreadable: e.Unreadable}); why != "" && !e.Passed {
		p.Warn("no verdict of the judge counts: "+why, "judge", e.Model)
	}
}

// searched warns of a search engine that refuses its key or wants to be paid: the
// model goes on without it, and only the user can fix that.
func (p *Progress) searched(e trajectory.ToolExecuted) {
	if e.Name != "web_search" || !e.IsError {
		return
	}
	for _, u := range e.URLs { // all of the engine
		switch u.Status {
		case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, 432, 433: // the latter of Tavily, for used-up plans
			p.WarnOnce(fmt.Sprintf("the search engine refuses to answer (status %d), so the model goes without web_search: look at its key and what is left of its quota", u.Status))
		}
	}
}

// UnderWay returns how many tasks have an open attempt.
func (p *Progress) UnderWay() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.turns)
}

// charge adds up what a call cost; nil is unknown.
func (p *Progress) charge(microUSD *int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if microUSD == nil {
		p.known = false
		return
	}
	p.cost += *microUSD
}

// limited follows how many requests an endpoint is given at once.
func (p *Progress) limited(c trajectory.LimitChanged) {
	p.mu.Lock()
	p.limit = c.To
	p.mu.Unlock()
	if p.log != nil {
		p.log.Info(fmt.Sprintf("concurrency %d → %d: %s", c.From, c.To, view.Line(c.Reason)))
	}
}

func (p *Progress) attempt(task string, ended trajectory.AttemptEnded) {
	if strings.HasPrefix(ended.Reason, prompt.RunMoneySpent) {
		p.WarnOnce("the budget of the whole run (--max-cost) is spent: an attempt ended without an answer")
	}
	p.mu.Lock()
	p.count(task, ended)
	settled := p.made[task] >= p.votes || p.tries > 0 && p.lost[task] >= p.tries
	p.mu.Unlock()
	if settled {
		p.settled(task)
	}
	p.mu.Lock()
	n, turns := len(p.ended), p.turns[task]
	delete(p.turns, task)
	p.mu.Unlock()
	if p.log == nil {
		return
	}
	p.log.Info("attempt ended", "task", task, "outcome", ended.Outcome, "turns", turns, "tasks", fmt.Sprintf("%d/%d", n, p.total), "cost", p.spent())
}

// count counts how an attempt ended as the plan's limits do.
func (p *Progress) count(task string, ended trajectory.AttemptEnded) {
	switch {
	case ended.Outcome != trajectory.Errored:
		p.made[task]++
	case !ended.Lost():
		p.lost[task]++
	}
}

// Planned takes from the plan what makes an end of a task that keeps failing.
func (p *Progress) Planned(m plan.Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tries = m.Retry.AttemptsPerTask
}

// settled counts a task for which no further attempt is made.
func (p *Progress) settled(task string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil && !p.ended[task] {
		p.bar.Increment()
	}
	p.ended[task] = true
}

// Warn says what went wrong, above the bar if there is one.
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
	before := p.told[message]
	p.told[message] = true
	p.mu.Unlock()
	if !before {
		p.Warn(message, pairs...)
	}
}

// Trouble says what went wrong without harm to the run.
func (p *Progress) Trouble(err error) { p.Warn(view.Line(err.Error())) }

// sealed counts a task that is graded. It says that grading goes on, not how.
func (p *Progress) sealed() {
	p.mu.Lock()
	p.seals++
	first := p.seals == 1
	p.mu.Unlock()
	if first && p.log != nil {
		p.log.Info("grading")
	}
}

// state is what stands behind the bar.
func (p *Progress) state(decor.Statistics) string {
	p.mu.Lock()
	seals, limit := p.seals, p.limit
	p.mu.Unlock()
	state := " " + p.spent()
	if limit > 0 {
		state += fmt.Sprintf(", %d at once", limit)
	}
	if seals > 0 {
		state += fmt.Sprintf(", %d sealed", seals)
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

// CatchUp counts what a run had done before it was interrupted.
func (p *Progress) CatchUp(f *rundir.Fold) {
	p.Planned(f.Manifest)
	if before := f.Preflight(); before != nil {
		p.charge(before.CostMicroUSD)
	}
	for _, t := range f.Tasks {
		if t.Sealed != nil || f.Settled(t) {
			p.settled(t.Plan.TaskID)
		}
		if t.Sealed != nil {
			p.seals++
		}
		for _, a := range t.Attempts {
			if a.Ended != nil {
				p.count(t.Plan.TaskID, *a.Ended)
			}
			if a.CostMicroUSD == nil {
				p.known = false
				continue
			}
			p.cost += *a.CostMicroUSD
		}
	}
}

func (p *Progress) spent() string {
	p.mu.Lock()
	defer p.mu.Unlock()
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

// Release lets the bar be drawn after Hold.
func (p *Progress) Release() { p.still.Store(false) }

// Held reports whether the bar is kept still.
func (p *Progress) Held() bool { return p.still.Load() }
