package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/gaia-harness/gaia/internal/approve"
	"github.com/gaia-harness/gaia/internal/budget"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/equip"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/planfolder"
	"github.com/gaia-harness/gaia/internal/progress"
	"github.com/gaia-harness/gaia/internal/remote"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runenv"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/internal/stop"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/spf13/cobra"
)

func (a *app) runCommand() *cobra.Command {
	s := &runflags.Settings{}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Solve tasks, grade the answers and sign the run",
		Long: `Run plans the tasks of one split, signs the plan, lets the agent solve them
behind the Gate, grades the committed answers, and seals and signs the run. With
--agent DIR your own agent solves them, recorded from outside.

With --submit-intent all answers are committed before the first is graded.
Without a key, base URL, model or dataset it rehearses with built-in tasks and a
built-in scripted model, offline.

Flags that are not given are read from the environment, then from gaia.yaml, if it
exists: one line each, such as "model: gpt-4o". --like repeats the plan of
another run; --dry-run plans, estimates the cost, and ends. --plan runs or resumes
one shard of a run that 'gaia plan' has planned.

The first Ctrl-C finishes the active tasks, the second stops at once; 'gaia resume'
continues after both. Everything the agent does is recorded before it has an
effect. If recording fails, the run is marked as not submittable for good, and
continues without evidence or stops (--on-unsubmittable).`,
		Example: `  OPENAI_API_KEY=… HF_TOKEN=… gaia run --submit-intent --model gpt-4o \
      --judge-model gpt-4o-mini --max-cost 50
  OPENAI_API_KEY=… gaia run --dataset dir:GAIA --model gpt-4o --dry-run
  gaia run --like runs/01J… --only-errors`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.PlanDir+s.Shard+s.ShardKey != "" {
				return a.runShard(cmd, s)
			}
			file, err := settings.Open(s.File)
			if err != nil {
				return err
			}
			return file.Point(a.run(cmd, s, file))
		},
	}
	cli.RejectEmpty(cmd, unemptied()...)
	s.AddRunFlags(cmd)
	s.AddShardFlags(cmd)
	return cmd
}

// unemptied returns the flags of run whose value must not be empty.
func unemptied() []string {
	return []string{"agent", "key", "settings", "like", "cassette", "policy", "approve", "vision-model", "served-as", "plan", "shard", "shard-key"}
}

func (a *app) run(cmd *cobra.Command, s *runflags.Settings, file *settings.File) error {
	if err := a.settle(cmd, s, file); err != nil {
		return err
	}
	if s.Dry {
		return a.dryRun(cmd.Context(), s)
	}
	return a.begin(cmd.Context(), s, func(w equip.World) (*run.Run, error) {
		r, err := run.Create(s.Runs, s.Plan, w.Env)
		if cache := (*grading.CacheError)(nil); errors.As(err, &cache) {
			return nil, cache.Ends(exit.Findings, "no model was asked; fix that and start again")
		}
		if err != nil {
			if refused := runflags.NotPlanned(err, s.Plan.Budgets.RunCostMicroUSD); refused != nil {
				return nil, refused
			}
			return nil, fail(exit.Failure, err, "choose another place with --out")
		}
		return r, nil
	})
}

// begin configures a run, creates or resumes it, and executes it.
func (a *app) begin(ctx context.Context, s *runflags.Settings, begin func(equip.World) (*run.Run, error)) error {
	stopper := stop.Catch(ctx, a.stderr)
	defer stopper.Release()
	news := a.user().TellNews(&s.Tasks)
	w, err := a.user().Configure(stopper.Context, s)
	if err != nil {
		return err
	}
	defer w.Close()
	tasks := len(w.Set.Tasks)
	if s.Folder != nil {
		tasks = planfolder.Tasks(s.Folder.Plan, s.Part.Shard)
	}
	progress := progress.New(a.stderr, a.tty, tasks, s.Plan.Voting.Attempts, s.Plan.Rehearsal)
	progress.Verbose = s.Verbose
	stopper.Begin(progress, progress.UnderWay)
	news.Say(progress)
	w.Watch, w.Warn, w.Resumed = progress.Watch, progress.Trouble, progress.CatchUp
	w.Approver = approve.New(s.Approve, a.stdin, progress)
	if !a.asks { // there is no person
		w.Approver = approve.New(s.Approve, nil, progress)
	}
	r, err := begin(w)
	if err != nil {
		return err
	}
	defer r.Close()
	m := r.State().Manifest
	progress.Planned(m)
	// Printed before a model is asked: the digest can be published right now.
	fmt.Fprintf(a.stderr, "gaia: run %s\ngaia: plan signed: %s\n", r.Dir, r.State().ManifestSHA256)
	if a.tty {
		fmt.Fprintf(a.stderr, "gaia: to see it in a browser: gaia view %s\n", view.Quote(r.Dir))
	}
	a.announcePlan(m, s)
	if err := a.compareWith(s, m); err != nil {
		return err
	}
	return a.finish(stopper, r, s, progress)
}

// announcePlan prints what a reader of the plan should know.
func (a *app) announcePlan(m plan.Plan, s *runflags.Settings) {
	if m.Rehearsal {
		fmt.Fprintln(a.stderr, rehearsalNotice)
	}
	if m.Cassette == plan.CassetteReplay {
		fmt.Fprintf(a.stderr, "gaia: replay: %s\n", runview.ReplayNote)
	}
	if of := m.Dataset.ErrorsOf.RunID; of != "" {
		fmt.Fprintf(a.stderr, "gaia: %s: %s\n", runview.ErrorsKey, runview.ErrorsNote(of))
	}
	if m.Agent != nil {
		fmt.Fprintf(a.stderr, "gaia: agent: %s\n", view.Line(runview.Agent(m.Agent)))
	}
	if !s.Plan.Rehearsal && !s.Resumed { // else nothing can be done about it
		fmt.Fprintf(a.stderr, "gaia: %s\n", view.Line(runview.Tools(m)))
	}
	if !s.Plan.Rehearsal && !m.SubmitIntent {
		fmt.Fprintf(a.stderr, "gaia: %s\n", runview.NotForSubmission)
	}
	if b := m.Budgets.RunCostMicroUSD; b > 0 {
		fmt.Fprintf(a.stderr, "gaia: the run may cost %s; completions are bounded to %d tokens\n", view.Dollars(&b), m.Model.MaxTokens)
	}
	if other := m.Dataset.Mismatch(); other != "" {
		a.warn(other)
	}
}

const rehearsalNotice = "gaia: rehearsal: built-in tasks and a scripted model; this is not a GAIA score"

func (a *app) resumeCommand() *cobra.Command {
	s := &runflags.Settings{}
	cmd := &cobra.Command{
		Use:   "resume DIR",
		Short: "Continue an interrupted run",
		Long: `Resume verifies the evidence of a run and continues where it stopped, by the run's
own plan. Committed answers are graded, never replaced; an attempt without one
counts as an error and a new one begins. On a finished run there is nothing to do.`,
		Example: `  gaia resume runs/01J…
  gaia resume --dataset dir:GAIA --base-url http://localhost:11434/v1 runs/01J…
  gaia resume --concurrency 2 --on-unsubmittable stop runs/01J…`,
		Args: cli.OneArg("the run directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.resume(cmd.Context(), args[0], s)
		},
	}
	cli.RejectEmpty(cmd, "key", "cassette", "settings", "approve")
	s.AddResumeFlags(cmd)
	return cmd
}

func (a *app) resume(ctx context.Context, dir string, s *runflags.Settings) error {
	if err := s.CheckGoing(); err != nil {
		return err
	}
	plan, err := openPlan(dir)
	if errors.Is(err, run.ErrComplete) {
		return a.nothingToDo(dir, s)
	}
	if err != nil {
		return err
	}
	if err := a.goOn(s, plan); err != nil {
		return err
	}
	s.Runs = filepath.Dir(filepath.Clean(dir))
	err = a.begin(ctx, s, func(w equip.World) (*run.Run, error) {
		r, err := run.Resume(dir, s.Plan, w.Env)
		return r, a.notResumed(err, s.ResumeLine(dir))
	})
	if errors.Is(err, run.ErrComplete) { // since it was read
		return a.nothingToDo(dir, s)
	}
	return err
}

// notResumed returns the error of a run or shard that could not be continued; resume is the command that tries again.
func (a *app) notResumed(err error, resume string) error {
	var other *run.PlanError
	var cache *grading.CacheError
	switch {
	case errors.As(err, &cache):
		return cache.Ends(exit.Incomplete, "fix that, then: "+resume)
	case errors.As(err, &other):
		return fail(exit.Failure, err, "resume with the dataset, endpoint and key that the run was planned with, or start a new run")
	case errors.Is(err, trajectory.ErrNotRecorded), err != nil && classify(err).Code == exit.Failure && !errors.Is(err, runfiles.ErrBusy) && !errors.Is(err, run.ErrComplete):
		return unfinished(err, resume)
	}
	return err
}

func (a *app) nothingToDo(dir string, s *runflags.Settings) error {
	what := "run"
	if s.Folder != nil {
		what = "shard"
	}
	fmt.Fprintf(a.stderr, "gaia: nothing to do: the %s is complete\n", what)
	return a.printRun(dir, nil, s)
}

// goOn takes the settings of a run from its plan. Only the user knows where directories, endpoints and servers are.
func (a *app) goOn(s *runflags.Settings, m plan.Plan) error {
	s.Take(m)
	s.TakeTasks(m)
	s.Resumed = true
	if err := settlePolicy(s); err != nil {
		return err
	}
	switch {
	case !slices.ContainsFunc(m.Tools, func(t plan.ToolPlan) bool { return t.Name == runflags.PythonName }):
		s.Python = runflags.PythonNo
	case slices.Contains(m.Unconfined, runflags.PythonName):
		s.Python = runflags.PythonUnconfined
	default:
		s.Python = runflags.PythonConfined
	}
	switch c, err := s.Tape(); {
	case err != nil:
		return err
	case c.Mode == m.Cassette:
	case m.Cassette == "":
		return usage("leave it out", "the run was planned without --cassette")
	default:
		return usage("give the directory that the run was started with", "the run was planned with --cassette %s:DIR", view.Line(m.Cassette))
	}
	if err := s.CheckSource(); err != nil {
		return err
	}
	if m.Rehearsal {
		if s.Source != "" && s.Source != runflags.SourceFixtures || s.BaseURL != "" || s.SearXNG != "" || s.Prices != "" {
			return usage("leave out --dataset, --base-url, --searxng-url and --prices", "a rehearsal continues with the built-in tasks and model alone")
		}
		s.Source = runflags.SourceFixtures
	} else {
		if err := s.PlannedSource(m.Dataset, a.user().Hub().Endpoint()); err != nil {
			return err
		}
		s.BaseURL = cmp.Or(s.BaseURL, a.getenv("OPENAI_BASE_URL"), runflags.DefaultBaseURL)
		if err := a.user().SettleMessages(s); err != nil {
			return err
		}
		if s.HasTools() {
			if err := a.user().SettleSearch(s); err != nil {
				return err
			}
		}
	}
	if !slices.ContainsFunc(m.Tools, func(t plan.ToolPlan) bool { return t.Server != "" }) {
		if s.File != "" {
			return usage("leave it out", "the run was planned without MCP servers, and --settings is read for nothing else")
		}
		return nil
	}
	file, err := s.SettingsFile()
	if err != nil {
		return err
	}
	if s.TakeServers(file); len(s.Servers) == 0 {
		return usage("give the file that the run was started with as --settings", "the run was planned with MCP servers, and there are no settings that name them")
	}
	return nil
}

// openPlan reads the plan of a run to resume; the error is run.ErrComplete if there is nothing to do. The journal is read once,
// when the run is resumed.
func openPlan(dir string) (plan.Plan, error) {
	if err := verify.IsRun(dir); err != nil {
		return plan.Plan{}, err
	}
	// The file that is written last exists: most likely the run is finished.
	if _, err := os.Lstat(filepath.Join(dir, trajectory.CheckpointFile)); err == nil {
		found, err := verify.RunAt(dir)
		if err == nil && found.Complete {
			err = run.ErrComplete
		}
		if err != nil {
			return plan.Plan{}, err
		}
	}
	if err := planfolder.NoResume(dir); err != nil {
		return plan.Plan{}, err
	}
	m, _, _, err := rundir.ReadPlan(os.DirFS(dir))
	return m, err
}

// finish executes a run to its end and prints the result.
func (a *app) finish(stopper *stop.Stopper, r *run.Run, s *runflags.Settings, progress *progress.Progress) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(run.Procs()))
	err := r.Execute(stopper.Context, stopper.Drain)
	interrupted := stopper.Context.Err() != nil
	stopper.Release()
	progress.Done()
	var lost *run.UnrecordedError
	var unfit *runenv.UnfitError
	var stopped *run.StopError
	var fault *trajectory.Fault
	switch {
	case err == nil && s.Recheck:
		return a.printRun(r.Dir, r.Unfit(), s)
	case err == nil:
		found, err := r.Finished()
		if err != nil {
			return err
		}
		return a.printFinished(r.Dir, found, r.Unfit(), s)
	case errors.As(err, &lost):
		state := r.State()
		if err := a.printResult(r.Dir, state, verify.Unsubmittable(state), s); err != nil {
			return err
		}
		return fail(exit.Incomplete, lost, "make room or repair the disk, then: "+s.ResumeLine(r.Dir),
			"it finishes the tasks whose evidence is missing; the run stays not submittable, so start a new one for a submission")
	case errors.Is(err, trajectory.ErrNotRecorded):
	case errors.As(err, &fault):
		return fail(exit.Evidence, err, "another program has changed the run; what it is now: gaia verify "+view.Quote(r.Dir))
	case errors.As(err, &unfit):
		if err := a.printPartial(s.AsJSON, r.Dir, r.State(), partial{Missing: "the run stopped before its end", Unsubmittable: unfit.Reason}); err != nil {
			return err
		}
		s.OnLost = runflags.GoOn
		return fail(exit.Incomplete, unfit, "that cannot be made up for: start a new run; to bring this one to its end all the same: "+s.ResumeLine(r.Dir))
	case errors.Is(err, run.ErrDrained) || interrupted:
		return fail(exit.Interrupted, errors.New("interrupted; the state is saved"), s.ResumeLine(r.Dir))
	case errors.As(err, &stopped):
		if err := a.printPartial(s.AsJSON, r.Dir, r.State(), partial{Missing: "a model cannot be asked", Stopped: trajectory.StoppedByEndpoint}); err != nil {
			return err
		}
		return fail(exit.Incomplete, fmt.Errorf("the run stopped: %w", err), s.StopHints(stopped.Asked, stopped, r.Dir)...)
	}
	return unfinished(err, s.ResumeLine(r.Dir))
}

// unfinished returns the error of a run that can be resumed.
func unfinished(err error, resume string) error {
	if errors.Is(err, runfiles.ErrUnmarked) {
		return fail(exit.Incomplete, err, "make room or repair the disk, then: "+resume)
	}
	if errors.Is(err, trajectory.ErrNotRecorded) {
		return fail(exit.Incomplete, err, "the run stays not submittable", "make room or repair the disk, then: "+resume)
	}
	var hints []string
	if source := (*loader.SourceError)(nil); errors.As(err, &source) {
		hints = append(hints, source.Remedies...)
	}
	known := ""
	if asked := (*llm.Error)(nil); errors.As(err, &asked) {
		known = remote.Remedy(asked, resume)
	}
	return fail(exit.Incomplete, fmt.Errorf("the run stopped: %w", err), append(hints, cmp.Or(known, "fix that, then: "+resume))...)
}

// printRun verifies a finished run and prints its summary; unfit is why it turned out unfit for submission, nil if it did not.
func (a *app) printRun(dir string, unfit *runenv.UnfitError, s *runflags.Settings) error {
	found, err := rundir.Verify(os.DirFS(dir), rundir.Options{})
	if err != nil {
		return err
	}
	if !found.Complete && !found.ShardDone {
		return incomplete(dir, found)
	}
	return a.printFinished(dir, found, unfit, s)
}

// printFinished prints a finished run, and returns an error if it was meant to be submitted and cannot be.
func (a *app) printFinished(dir string, found *rundir.Run, unfit *runenv.UnfitError, s *runflags.Settings) error {
	why := verify.Unsubmittable(found)
	if why == "" && unfit != nil {
		why = unfit.Reason
	}
	if err := a.printResult(dir, found, why, s); err != nil {
		return err
	}
	if s.Folder == nil && runview.AllFailed(found.Fold) { // a shard has done its part
		return fail(exit.Findings, errors.New("every attempt ended in an error: the result says nothing about the model"),
			"see what failed: gaia show "+view.Quote(dir), "then start a new run: gaia run --like "+view.Quote(dir)+runflags.Unplanned(found.Manifest))
	}
	return verify.Submittable(found, why)
}

// printResult prints a run, and why it cannot be submitted, "" if it can.
func (a *app) printResult(dir string, found *rundir.Run, why string, s *runflags.Settings) error {
	if s.Folder != nil {
		r := s.Folder.ShardResult(dir, s.PlanDir, found, why)
		return view.Result(a.stdout, s.AsJSON, r, r.Text())
	}
	if !s.AsJSON {
		return runview.Summary(a.stdout, dir, found, why)
	}
	return view.JSON(a.stdout, runResult{ManifestSHA256: found.ManifestSHA256, Rehearsal: found.Manifest.Rehearsal, RunDir: dir,
		Summary: found.Summary(), Tasks: s.Listed, Unsubmittable: why})
}

// incomplete returns the error of reading a run that is not finished.
func incomplete(dir string, found *rundir.Run) error {
	hint := "gaia resume " + view.Quote(dir) + runflags.Unplanned(found.Manifest)
	if s := found.Shard; s != nil && s.Shard.Of == 0 {
		hint = "'gaia serve' merges the journals of its workers"
	} else if s != nil && found.ShardDone {
		hint = "merge it with the other shards: gaia merge SHARD… -o runs"
	} else if s != nil {
		hint = fmt.Sprintf("gaia run --plan PLAN --shard %d/%d --out %s", s.Shard.Index, s.Shard.Of, view.Quote(filepath.Dir(filepath.Clean(dir))))
	}
	return fail(exit.Incomplete, fmt.Errorf("the run is not complete: %s", found.Missing), hint)
}

// runResult is what run and resume print with --json.
type runResult struct {
	ManifestSHA256 string         `json:"manifest_sha256"`
	Rehearsal      bool           `json:"rehearsal,omitzero"`
	RunDir         string         `json:"run_dir"`
	Summary        rundir.Summary `json:"summary"`
	Tasks          *runview.List  `json:"tasks,omitzero"`         // of show with a filter
	Unsubmittable  string         `json:"unsubmittable,omitzero"` // why, as far as it is known without an audit
}

// dryRun plans a run as it would be planned, and prints that with an estimate.
func (a *app) dryRun(ctx context.Context, s *runflags.Settings) error {
	a.user().TellNews(&s.Tasks)
	w, err := a.user().Configure(ctx, s)
	if err != nil {
		return err
	}
	defer w.Close()
	m, err := runenv.Complete(s.Plan, w.Env)
	if err == nil {
		err = runenv.Affords(m, w.Env)
	}
	if err != nil {
		return cmp.Or(runflags.NotPlanned(err, m.Budgets.RunCostMicroUSD), err)
	}
	found, unread, err := budget.UsageUnder(s.Runs, m)
	if err != nil {
		return fail(exit.Failure, err, "choose another place with --out")
	}
	if unread > 0 {
		a.warn(view.Count(unread, "summary") + " under " + view.Quote(s.Runs) + " cannot be read, and count for nothing")
	}
	p := s.DryPlan(m, budget.NewEstimate(m, found, w.Prices))
	if e := p.Estimate; e.CostMicroUSD != nil && e.RunBoundMicroUSD != nil && *e.CostMicroUSD > *e.RunBoundMicroUSD {
		a.warn("the estimate, " + view.Dollars(e.CostMicroUSD) + ", is above --max-cost, " + view.Dollars(e.RunBoundMicroUSD) + ": tasks may be left out, and count as wrong")
	}
	if d := m.Dataset.Mismatch(); d != "" {
		a.warn(d)
	}
	if err := a.compareWith(s, m); err != nil {
		return err
	}
	return view.Result(a.stdout, s.AsJSON, p, p.Text(m))
}
