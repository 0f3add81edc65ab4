package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
)

// finish executes a run to its end and prints the result.
func (a *app) finish(stop *stopper, r *run.Run, s settings, progress *progress, asJSON bool) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(run.Procs()))
	err := r.Execute(stop.ctx, stop.drain)
	interrupted := stop.ctx.Err() != nil
	stop.release()
	progress.Done()
	var lost *run.UnrecordedError
	var unfit *run.UnfitError
	var stopped *run.StopError
	switch {
	case err == nil:
		return a.printRun(r.Dir, r.Unfit(), asJSON)
	case errors.As(err, &lost):
		state := r.State()
		if err := a.printResult(r.Dir, state, verify.Unsubmittable(state), asJSON); err != nil {
			return err
		}
		return fail(exitIncomplete, lost, "make room or repair the disk, then: "+s.resumeCommand(r.Dir),
			"it finishes the tasks whose evidence is missing; the run stays not submittable, so start a new one for a submission")
	case errors.Is(err, trajectory.ErrNotRecorded):
	case errors.As(err, &unfit):
		if asJSON {
			state := r.State()
			if err := a.printJSON(partial{Missing: "the run stopped before its end", Planned: len(state.Tasks), Rehearsal: state.Manifest.Rehearsal,
				RunDir: r.Dir, Settled: settled(state.Fold), Unsubmittable: unfit.Reason}); err != nil {
				return err
			}
		}
		s.onLost = goOn
		return fail(exitIncomplete, unfit, "that cannot be made up for: start a new run; to bring this one to its end all the same: "+s.resumeCommand(r.Dir))
	case errors.Is(err, run.ErrDrained) || interrupted:
		return fail(exitInterrupted, errors.New("interrupted; the state is saved"), s.resumeCommand(r.Dir))
	case errors.As(err, &stopped):
		state := r.State()
		if asJSON {
			if err := a.printJSON(partial{Missing: "a model cannot be asked", Planned: len(state.Tasks), Rehearsal: state.Manifest.Rehearsal,
				RunDir: r.Dir, Settled: settled(state.Fold), Stopped: trajectory.StoppedByEndpoint}); err != nil {
				return err
			}
		}
		return fail(exitIncomplete, fmt.Errorf("the run stopped: %w", err), s.stopHints(stopped, r.Dir)...)
	}
	return unfinished(err, s.resumeCommand(r.Dir))
}

// unfinished is the failure of a run that can be resumed.
func unfinished(err error, resume string) error {
	if errors.Is(err, run.ErrUnmarked) {
		return fail(exitIncomplete, err, "make room or repair the disk, then: "+resume)
	}
	if errors.Is(err, trajectory.ErrNotRecorded) {
		return fail(exitIncomplete, err, "the run stays not submittable", "make room or repair the disk, then: "+resume)
	}
	hints := []string{}
	if source := (*loader.SourceError)(nil); errors.As(err, &source) {
		hints = append(hints, source.Remedies...)
	}
	return fail(exitIncomplete, fmt.Errorf("the run stopped: %w", err), append(hints, remedy(err, resume))...)
}

// stopHints says what helps a run that a model's endpoint stopped. Another name
// for the model is another plan.
func (s settings) stopHints(stopped *run.StopError, dir string) []string {
	resume := s.resumeCommand(dir)
	otherwise := "when the endpoint answers: " + resume
	var asked *llm.Error
	if !errors.As(stopped, &asked) || asked.Retryable || asked.Status == http.StatusPaymentRequired || asked.Status == http.StatusTooManyRequests {
		return []string{otherwise}
	}
	if known := knownRemedy(asked, resume); known != "" {
		return []string{known}
	}
	flag := map[string]string{trajectory.PreflightJudge: "--judge-model", trajectory.PreflightVision: "--vision-model",
		trajectory.PreflightTranscription: "--transcription-model"}[stopped.Asked]
	return []string{"to name another model: " + s.command("gaia", "run", "--like", quoteArg(dir), cmp.Or(flag, "--model"), "NAME"), otherwise}
}

// remedy says what helps a run that stopped.
func remedy(err error, resume string) string {
	var asked *llm.Error
	if errors.As(err, &asked) {
		if known := knownRemedy(asked, resume); known != "" {
			return known
		}
	}
	return "fix that, then: " + resume
}

// knownRemedy says what helps after some failures of a request, "" for others. What
// the plan itself is to blame for, resuming cannot change.
func knownRemedy(asked *llm.Error, resume string) string {
	switch {
	case asked.Hint != "":
		return asked.Hint
	case asked.Code == "not_on_cassette":
		return "start a new run with the settings that the recording was made with: tasks, model, budgets and tools"
	case asked.Code == "responses_api_required", asked.Code == "not_a_chat_model":
		return "start a new run with --api responses: resume keeps to the interface of the plan"
	case asked.Status == http.StatusUnauthorized:
		return "set OPENAI_API_KEY to a key of the endpoint, then: " + resume
	}
	return ""
}

// printRun verifies a finished run, as anyone would, and prints its summary;
// unfit is what was found in it as it was recorded, nil if nothing.
func (a *app) printRun(dir string, unfit *run.UnfitError, asJSON bool) error {
	found, err := rundir.Verify(os.DirFS(dir), rundir.Options{})
	if err != nil {
		return err
	}
	if !found.Complete {
		return incomplete(dir, found)
	}
	return a.printFinished(dir, found, unfit, asJSON)
}

// printFinished prints a finished run, and fails if it was meant to be
// submitted and cannot be.
func (a *app) printFinished(dir string, found *rundir.Run, unfit *run.UnfitError, asJSON bool) error {
	why := verify.Unsubmittable(found)
	if why == "" && unfit != nil {
		why = unfit.Reason
	}
	if err := a.printResult(dir, found, why, asJSON); err != nil {
		return err
	}
	if !completed(found) {
		return fail(exitFindings, errors.New("every attempt ended in an error: the result says nothing about the model"),
			"see what failed: gaia show "+quoteArg(dir), "then start a new run: gaia run --like "+quoteArg(dir)+unplanned(found.Manifest))
	}
	return verify.Submittable(found, why)
}

// completed reports whether an attempt of a run ended otherwise than in an error, or
// none was made at all.
func completed(found *rundir.Run) bool {
	attempts := 0
	for _, t := range found.Tasks {
		for _, a := range t.Attempts {
			if attempts++; a.Ended == nil || a.Ended.Outcome != trajectory.Errored {
				return true
			}
		}
	}
	return attempts == 0
}

// printResult prints a run, and why it cannot be submitted, "" if nothing speaks
// against it.
func (a *app) printResult(dir string, found *rundir.Run, why string, asJSON bool) error {
	if !asJSON {
		return runview.Summary(a.stdout, dir, found, why)
	}
	return a.printJSON(runResult{ManifestSHA256: found.ManifestSHA256, Rehearsal: found.Manifest.Rehearsal, RunDir: dir,
		Summary: found.Summary(), Unsubmittable: why})
}

// incomplete is the failure of reading a run that is not finished.
func incomplete(dir string, found *rundir.Run) error {
	return fail(exitIncomplete, fmt.Errorf("the run is not complete: %s", found.Missing), "gaia resume "+quoteArg(dir)+unplanned(found.Manifest))
}

// unplanned is the flags for what a run needs and its plan does not hold.
func unplanned(m plan.Plan) (flags string) {
	if m.Rehearsal {
		return ""
	}
	if m.Dataset.Hub == "" {
		flags += " --source dir:PATH"
	}
	if !strings.HasPrefix(defaultBaseURL, m.Model.Origin+"/") {
		flags += " --base-url URL (at " + oneLine(m.Model.Origin) + ")"
	}
	return flags
}

// runResult is what run and resume print with --json.
type runResult struct {
	ManifestSHA256 string         `json:"manifest_sha256"`
	Rehearsal      bool           `json:"rehearsal,omitzero"`
	RunDir         string         `json:"run_dir"`
	Summary        rundir.Summary `json:"summary"`
	Unsubmittable  string         `json:"unsubmittable,omitzero"` // why, as far as can be said without an audit
}

func (a *app) printJSON(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	// What could steer a terminal stands in strings, where its escape is the same.
	_, err = fmt.Fprintf(a.stdout, "%s\n", visible.JSON(string(b)))
	return err
}
