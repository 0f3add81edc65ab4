package export

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/trajectory"
)

// Inspect writes a run as a log of Inspect AI. Bytes that are not those that the
// run was verified in are a *trajectory.Fault.
func Inspect(w io.Writer, s Source) error {
	for _, t := range s.Run.Tasks {
		if strange(t.Plan.TaskID) {
			return fmt.Errorf("the task id %q cannot be part of a file name, which Inspect makes of it", t.Plan.TaskID)
		}
	}
	out, err := newArchive(w)
	if err != nil {
		return err
	}
	spec := s.spec()
	plan := evalPlan{Name: "plan", Steps: []struct{}{}, Config: spec.Generate}
	if err := out.put("_journal/start.json", logStart{logVersion, spec, plan}); err != nil {
		return err
	}
	log := newWalk(s, out)
	again, err := rundir.Verify(s.Dir, rundir.Options{Summary: s.Summary, Event: log.add})
	if err != nil {
		return err
	}
	if again.ManifestSHA256 != s.Run.ManifestSHA256 || again.End != s.Run.End || !again.Complete {
		return trajectory.Faultf(trajectory.JournalFile, "changed while it was read")
	}
	if err := log.unattempted(); err != nil {
		return err
	}
	if err := out.put("summaries.json", log.sorted()); err != nil {
		return err
	}
	if s.votes() {
		if err := out.put("reductions.json", s.reductions()); err != nil {
			return err
		}
	}
	header := logHeader{Version: logVersion, Status: "success", Eval: spec, Plan: plan, Results: s.results(log.summaries), Stats: log.stats(),
		Tags: spec.Tags, Metadata: spec.Metadata}
	if err := out.put("header.json", header); err != nil {
		return err
	}
	return out.close()
}

// strange reports whether a task id could lead out of the folder that its file
// is in, or is not printable.
func strange(id string) bool {
	return len(id) > 200 || strings.ContainsAny(id, `/\:`) || strings.ContainsFunc(id, visible.Hidden)
}

// walk makes samples of the attempts as the journal has them.
type walk struct {
	source    Source
	out       *archive
	texts     []string                 // what the harness says
	epochs    map[string]map[int]epoch // of attempts that have a sample, by task and number
	open      map[string]*attempt      // by task, which has one at a time
	usage     usage
	summaries []placed
}

// placed is a summary with the place of its task in the plan.
type placed struct {
	index int
	sampleSummary
}

func newWalk(s Source, out *archive) *walk {
	w := &walk{source: s, out: out, epochs: map[string]map[int]epoch{}, open: map[string]*attempt{}, usage: usage{},
		texts: []string{prompt.System(), prompt.Reminder()}}
	for _, reason := range prompt.LastTurnReasons() {
		w.texts = append(w.texts, prompt.LastTurn(reason))
	}
	for _, p := range s.Run.Manifest.Prompts {
		w.texts = append(w.texts, p.Text)
	}
	for _, t := range s.Run.Tasks {
		of := map[int]epoch{}
		for _, e := range epochs(t) {
			if e.attempt != nil {
				of[e.attempt.Number] = e
			}
		}
		w.epochs[t.Plan.TaskID] = of
	}
	return w
}

// add takes the next event of the journal.
func (w *walk) add(e trajectory.Event) error {
	if p, judged := e.Payload.(trajectory.Judgment); judged && p.Model != "" {
		w.usage.add(p.Model, spent{trajectory.Tokens{In: p.TokensIn, Out: p.TokensOut}, p.CostMicroUSD})
		return nil
	}
	if e.Attempt == 0 {
		return nil
	}
	if _, begins := e.Payload.(trajectory.TaskStarted); begins {
		m := w.source.Run.Manifest
		w.open[e.TaskID] = newAttempt(fmt.Sprintf("%s-%d-%d", m.RunID, w.source.Run.Task(e.TaskID).Index, e.Attempt), w.texts, bodies{w.source.Dir}, e.Time())
	}
	did := w.open[e.TaskID]
	if did == nil { // judged after its end
		return nil
	}
	if err := did.add(e); err != nil {
		return err
	}
	if _, ends := e.Payload.(trajectory.AttemptEnded); !ends {
		return nil
	}
	delete(w.open, e.TaskID)
	w.usage.addAll(did.usage)
	of, has := w.epochs[e.TaskID][e.Attempt]
	if !has {
		return nil
	}
	return w.put(w.source.Run.Task(e.TaskID), of, did)
}

// put writes a sample.
func (w *walk) put(t *rundir.Task, e epoch, did *attempt) error {
	made := w.source.sample(t, e, did)
	w.summaries = append(w.summaries, placed{t.Index, made.summary()})
	return w.out.put(fmt.Sprintf("samples/%s_epoch_%d.json", t.Plan.TaskID, e.number), made)
}

// unattempted writes the samples of the tasks that have no attempt.
func (w *walk) unattempted() error {
	for _, t := range w.source.Run.Tasks {
		if len(t.Attempts) == 0 {
			if err := w.put(t, epoch{number: 1}, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// sorted returns the summaries in plan order.
func (w *walk) sorted() []sampleSummary {
	slices.SortFunc(w.summaries, func(a, b placed) int {
		if a.index != b.index {
			return a.index - b.index
		}
		return a.Epoch - b.Epoch
	})
	all := make([]sampleSummary, len(w.summaries))
	for i, s := range w.summaries {
		all[i] = s.sampleSummary
	}
	return all
}

func (w *walk) stats() evalStats {
	s := w.source.Run.Summary()
	return evalStats{Started: s.Started, Completed: s.Completed, Usage: w.usage.models()}
}
