package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
)

func (a *app) runCommand() *cobra.Command {
	var s settings
	var out string
	var asJSON, record, bodies bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Plan, solve, grade, seal and sign a run",
		Long: `Run plans the tasks of one split, signs the plan, lets the agent solve them
behind the Gate, grades the committed answers, and seals and signs the run.

With --submit-intent all answers are committed before the first is graded.
Without a key, base URL, model or source it rehearses with built-in tasks and a
built-in scripted model, offline.

The first Ctrl-C finishes the tasks under way, the second stops at once; both
leave a run that "gaia resume" takes up.

Everything the agent does is recorded before it has an effect. If that fails, on
a full disk say, the run is marked as not submittable for good, and goes on
without evidence or stops, as --on-unsubmittable says.`,
		Example: `  gaia run --submit-intent
  gaia run --level 1 --limit 3
  OPENAI_API_KEY=… HF_TOKEN=… gaia run --submit-intent --model gpt-4o --judge-model gpt-4o-mini
  OPENAI_API_KEY=… gaia run --source dir:GAIA --sample 20 --seed 7 --model gpt-4o`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd, "key"); err != nil {
				return err
			}
			if err := s.taskFlags.check(cmd); err != nil {
				return err
			}
			if err := a.complete(&s); err != nil {
				return err
			}
			if err := s.evidenceOf(record, bodies); err != nil {
				return err
			}
			if err := s.check(); err != nil {
				return err
			}
			return a.startRun(cmd.Context(), s, out, asJSON)
		},
	}
	f := cmd.Flags()
	s.taskFlags.add(cmd)
	f.StringVar(&s.model, "model", "", "model that answers")
	f.StringVar(&s.judge, "judge-model", "", "model that judges what the official scorer calls wrong (default: none)")
	f.StringVar(&s.baseURL, "base-url", "", "OpenAI-compatible endpoint (default: OPENAI_BASE_URL, else https://api.openai.com/v1)")
	f.StringVar(&s.searxng, "searxng-url", "", "SearXNG search endpoint with JSON enabled (default: no web_search tool)")
	f.IntVar(&s.maxTurns, "max-turns", 20, "turns of an attempt, the last one kept for the answer")
	f.IntVar(&s.maxTokens, "max-tokens", 0, "tokens of one completion (default: the endpoint's)")
	f.IntVar(&s.toolCalls, "max-tool-calls", 0, "tool calls of a task (default: the policy's, 500)")
	f.StringVar(&s.taskCost, "max-task-cost", "", `US dollars a task may cost, or "off" (default: the policy's, 1.00)`)
	f.BoolVar(&s.submitIntent, "submit-intent", false, "commit all answers before grading: needed for a submission")
	f.IntVar(&s.concurrency, "concurrency", 4, "tasks at once")
	f.StringVar(&s.key, "key", "", "signing key file (default: GAIA_SIGNING_KEY, GAIA_SIGNING_KEY_FILE, else made on first need)")
	f.BoolVar(&s.noJudgeCache, "no-judge-cache", false, "ask the judge about every answer, also those it has judged before")
	f.BoolVar(&record, "record-evidence", true, "record the beginnings of prompts, replies and results, and arguments; false records their digests only, for local runs")
	f.BoolVar(&bodies, "evidence-full-bodies", false, "also keep prompts, replies, arguments and results whole, beside the journal")
	lostFlag(cmd, &s)
	f.StringVar(&out, "out", "runs", "directory for run directories")
	f.StringVar(&s.prices, "prices", "", "price table to count cost by (default: built in)")
	f.BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

func lostFlag(cmd *cobra.Command, s *settings) {
	cmd.Flags().StringVar(&s.onLost, "on-unsubmittable", goOn, `when evidence cannot be recorded: "continue" without it, results marked, or "stop", to be resumed`)
}

func (s settings) checkLost() error {
	if s.onLost != goOn && s.onLost != stopRun {
		return usage(`give "continue" or "stop"`, "--on-unsubmittable is %q", s.onLost)
	}
	return nil
}

// evidenceOf sets what is recorded of bodies.
func (s *settings) evidenceOf(record, bodies bool) error {
	switch {
	case !record && s.submitIntent:
		return usage("leave out --record-evidence=false, or --submit-intent", "a run without evidence cannot be submitted")
	case !record && bodies:
		return usage("leave one of them out", "--evidence-full-bodies keeps what --record-evidence=false leaves out")
	case !record:
		s.evidence = ledger.EvidenceHashes
	case bodies:
		s.evidence = ledger.EvidenceBodies
	default:
		s.evidence = ledger.EvidenceHeads
	}
	return nil
}

// check refuses settings no run can have.
func (s settings) check() error {
	if err := s.checkLost(); err != nil {
		return err
	}
	switch {
	case s.maxTurns < 1:
		return usage("", "--max-turns is %d, which leaves no turn", s.maxTurns)
	case s.concurrency < 1:
		return usage("", "--concurrency is %d, which runs no task", s.concurrency)
	case s.maxTokens < 0 || s.toolCalls < 0:
		return usage("", "--max-tokens and --max-tool-calls cannot be negative")
	}
	return nil
}

func (a *app) startRun(ctx context.Context, s settings, out string, asJSON bool) error {
	stop := a.catchSignals(ctx)
	defer stop.release()
	news := a.tellNews(&s.taskFlags)
	w, err := a.configure(stop.ctx, s)
	if err != nil {
		return err
	}
	defer w.Close()
	if !isHub(s.source) {
		if err := allThere(stop.ctx, w.Set); err != nil {
			return err
		}
	}
	progress := a.newProgress(len(w.Set.Tasks), s.rehearsal)
	stop.say(progress)
	stop.begun.Store(true)
	news.say(progress)
	w.Watch, w.Warn = progress.watch, progress.trouble
	r, err := run.Create(out, w.Config)
	if cache := (*run.CacheError)(nil); errors.As(err, &cache) {
		return a.badCache(cache, exitFindings, "nothing was asked of a model; mend that and start again")
	}
	if err != nil {
		return fail(exitFailure, err, "choose another place with --out")
	}
	defer r.Close()
	a.announce(r, s)
	return a.finish(stop, r, s, progress, asJSON)
}

// allThere looks whether a copy of the dataset has every attachment, before
// anything is spent. What a hub has is fetched when it is needed.
func allThere(ctx context.Context, set loader.Set) error {
	for _, t := range set.Tasks {
		if t.FileName == "" {
			continue
		}
		rc, err := set.Attachment(ctx, t)
		if err != nil {
			return err
		}
		_ = rc.Close()
	}
	return nil
}

// announce says what was planned, before anything is asked of a model: the
// digest can be published right now.
func (a *app) announce(r *run.Run, s settings) {
	if s.rehearsal {
		fmt.Fprintln(a.stderr, rehearsalNotice)
	}
	fmt.Fprintf(a.stderr, "gaia: run %s\ngaia: plan signed: %s\n", r.Dir, r.ManifestSHA256())
	if m := r.State().Manifest.Dataset.Mismatch(); m != "" {
		fmt.Fprintf(a.stderr, "gaia: warning: %s\n", m)
	}
}

const rehearsalNotice = "gaia: rehearsal: built-in tasks and a scripted model; this is not a GAIA score"

// finish executes a run to its end and prints the result.
func (a *app) finish(stop *stopper, r *run.Run, s settings, progress *progress, asJSON bool) error {
	err := r.Execute(stop.ctx, stop.drain)
	interrupted := stop.ctx.Err() != nil
	stop.release()
	progress.done()
	var lost *run.UnrecordedError
	switch {
	case err == nil:
		return a.printRun(r.Dir, asJSON)
	case errors.As(err, &lost):
		if err := a.printResult(r.Dir, r.State(), asJSON); err != nil {
			return err
		}
		return fail(exitIncomplete, lost, "the run is marked as not submittable; to make up for what is missing, mend the disk, then: "+s.resumeCommand(r.Dir))
	case errors.Is(err, trajectory.ErrNotRecorded):
	case errors.Is(err, run.ErrDrained) || interrupted:
		return fail(exitInterrupted, errors.New("interrupted; the state is saved"), s.resumeCommand(r.Dir))
	}
	return unfinished(err, s.resumeCommand(r.Dir))
}

// unfinished is the failure of a run that can be resumed.
func unfinished(err error, resume string) error {
	if errors.Is(err, run.ErrUnmarked) {
		return fail(exitIncomplete, err, "mend the disk, then: "+resume)
	}
	if errors.Is(err, trajectory.ErrNotRecorded) {
		return fail(exitIncomplete, err, "the run is marked as not submittable", "mend the disk, then: "+resume)
	}
	hints := []string{}
	if source := (*loader.SourceError)(nil); errors.As(err, &source) {
		hints = append(hints, source.Remedies...)
	}
	return fail(exitIncomplete, fmt.Errorf("the run stopped: %w", err), append(hints, "mend that, then: "+resume)...)
}

// printRun verifies a finished run, as anyone would, and prints its summary.
func (a *app) printRun(dir string, asJSON bool) error {
	found, err := ledger.Verify(os.DirFS(dir), ledger.Options{})
	if err != nil {
		return err
	}
	if !found.Complete {
		return incomplete(dir, found)
	}
	return a.printFinished(dir, found, asJSON)
}

// printFinished prints a finished run, and fails if it was meant to be
// submitted and cannot be.
func (a *app) printFinished(dir string, found *ledger.Run, asJSON bool) error {
	if err := a.printResult(dir, found, asJSON); err != nil {
		return err
	}
	return submittable(found)
}

func (a *app) printResult(dir string, found *ledger.Run, asJSON bool) error {
	if !asJSON {
		return a.printSummary(dir, found)
	}
	return a.printJSON(runResult{ManifestSHA256: found.ManifestSHA256, Rehearsal: found.Manifest.Rehearsal, RunDir: dir,
		Summary: found.Summary(), Unsubmittable: unsubmittable(found)})
}

// submittable fails for a run that was meant to be submitted and cannot be.
func submittable(found *ledger.Run) error {
	why := unsubmittable(found)
	if why == "" || !found.Manifest.SubmitIntent {
		return nil
	}
	return fail(exitFindings, fmt.Errorf("not submittable: %s", why), "that cannot be made up for: start a new run")
}

// unsubmittable says why a run cannot be submitted, as far as can be said
// without an audit; "" if nothing speaks against it.
func unsubmittable(found *ledger.Run) string {
	if n := found.IntegrityEvents(); found.Marked == "" && n > 0 {
		return counted(n, "entry") + " of the judge cache did not verify"
	}
	return found.Marked
}

// incomplete is the failure of reading a run that is not finished.
func incomplete(dir string, found *ledger.Run) error {
	resume := "gaia resume " + quoteArg(dir)
	if !found.Manifest.Rehearsal {
		if found.Manifest.Dataset.Hub == "" {
			resume += " --source dir:PATH"
		}
		if origin := found.Manifest.Model.Origin; !strings.HasPrefix(defaultBaseURL, origin+"/") {
			resume += " --base-url URL (at " + oneLine(origin) + ")"
		}
	}
	return fail(exitIncomplete, fmt.Errorf("the run is not complete: %s", found.Missing), resume)
}

// runResult is what run and resume print with --json.
type runResult struct {
	ManifestSHA256 string         `json:"manifest_sha256"`
	Rehearsal      bool           `json:"rehearsal,omitzero"`
	RunDir         string         `json:"run_dir"`
	Summary        ledger.Summary `json:"summary"`
	Unsubmittable  string         `json:"unsubmittable,omitzero"` // why, if recording failed
}

func (a *app) printJSON(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s\n", b)
	return err
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("see 'gaia "+cmd.Name()+" --help'", "%s takes no argument, not %q", cmd.Name(), args[0])
	}
	return nil
}
