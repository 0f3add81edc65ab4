package workers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gaia-harness/gaia/internal/build"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/planfolder"
	"github.com/gaia-harness/gaia/internal/progress"
	"github.com/gaia-harness/gaia/internal/queue"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stop"
	"github.com/gaia-harness/gaia/internal/view"
)

// Terminal is where progress is shown.
type Terminal struct {
	Out     io.Writer
	TTY     bool
	Verbose bool // changes of the concurrency, too
}

func (t Terminal) progress(f *planfolder.Folder) *progress.Progress {
	p := progress.New(t.Out, t.TTY, len(f.Plan.Tasks), f.Plan.Voting.Attempts, f.Plan.Rehearsal)
	p.Planned(f.Plan)
	p.Verbose = t.Verbose
	return p
}

// Serve has the tasks of a plan done by workers, and shows progress and cost of all. It returns what a merged run is made
// of, and what removes the copies once that run is sealed.
func Serve(ctx context.Context, f *planfolder.Folder, key sign.Key, out string, n Network, t Terminal) (list rundir.Shards, folders []string, remove func() error, err error) {
	options, err := n.Server()
	if err != nil {
		return list, nil, nil, err
	}
	ctx, release := stop.Context(ctx)
	defer release()
	shown := t.progress(f)
	defer shown.Done()
	s, err := NewServer(Config{Folder: f, Key: key, Out: out, Now: time.Now, Watch: shown.Watch, Resumed: shown.CatchUp,
		Told: progress.NewLogger(shown, f.Plan.Rehearsal).Info, Warn: shown.Warn})
	if err != nil {
		return list, nil, nil, err
	}
	defer s.Close()
	options.Log = func(text string) { shown.Warn(view.Line(text)) }
	if err := s.Run(ctx, options, func(url string) {
		fmt.Fprintf(shown, "gaia: plan %s of run %s\ngaia: on each machine: %s\ngaia: to see all workers: gaia view %s\n", f.ManifestSHA256, f.Plan.RunID,
			n.JoinLine(url), view.Quote(s.dir))
	}); err != nil {
		return list, nil, nil, err
	}
	counts := s.Counts()
	list, folders, err = s.Finish()
	fmt.Fprintf(shown, "gaia: %s, %d superseded, %d done again; merging\n", view.Count(counts.Workers, "worker"), counts.Superseded, counts.Lost)
	return list, folders, func() error { return os.RemoveAll(s.dir) }, err
}

// Work joins a server and does tasks until none is left or a signal ends it, and shows progress. Trusted and Env are as in
// [Joining].
func Work(ctx context.Context, n Network, t Terminal, out string, trusted func(sign.PublicKey) error,
	env func(context.Context, *planfolder.Folder) (plan.Plan, run.Env, func() error, error)) (Report, error) {
	options, err := n.Client()
	if err != nil {
		return Report{}, err
	}
	harness, err := build.Harness()
	if err != nil {
		return Report{}, err
	}
	stopper := stop.Catch(ctx, t.Out)
	defer stopper.Release()
	options.Log = func(text string) { fmt.Fprintf(t.Out, "gaia: warning: %s\n", view.Line(text)) }
	client, err := queue.Dial(stopper.Context, options)
	if err != nil {
		return Report{}, hinted(err)
	}
	defer client.Close()
	name, _ := os.Hostname() // only shown
	var shown *progress.Progress
	r, err := Join(stopper.Context, Joining{Client: client, Out: out, Runs: "runs", Name: name, Trusted: trusted, Harness: harness, Rand: rand.Reader, Drain: stopper.Drain,
		Env: func(ctx context.Context, f *planfolder.Folder) (plan.Plan, run.Env, func() error, error) {
			m, e, done, err := env(ctx, f)
			if err == nil {
				shown = t.progress(f)
				stopper.Begin(shown, shown.UnderWay)
				e.Watch, e.Warn = shown.Watch, shown.Trouble
			}
			return m, e, done, err
		},
		Joined: func(f *planfolder.Folder, number int, dir string) {
			fmt.Fprintf(shown, "gaia: worker %d of run %s; journal: %s\n", number, f.Plan.RunID, dir)
		}})
	if shown != nil {
		shown.Done()
	}
	var refused *queue.Refusal
	if errors.As(err, &refused) {
		err = exit.New(exit.Failure, fmt.Errorf("the server refuses this worker: %w", refused), "see that both are the gaia that the plan was made with: gaia version")
	}
	return r, err
}

// Text describes what a worker did for a person.
func (r Report) Text() string {
	return view.RowsText([][2]string{{"run", r.RunID}, {"worker", fmt.Sprint(r.Worker)}, {"claimed", view.Count(r.Claimed, "task")},
		{"superseded", view.Count(r.Superseded, "task")}, {"journal", r.Dir}})
}
