package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/rundir"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/spf13/cobra"
)

func (a *app) resumeCommand() *cobra.Command {
	var s settings
	var asJSON bool
	var file string
	cmd := &cobra.Command{
		Use:   "resume DIR",
		Short: "Go on with an interrupted run",
		Long: `Resume takes up a run where it stopped. The plan is the run's own; the evidence
must verify first. Committed answers are graded, never replaced; an attempt
without one counts as an error and a new one begins. On a finished run there is
nothing to do.`,
		Example: "  gaia resume runs/01J…",
		Args:    oneArg("the run directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := notEmpty(cmd, "key", "cassette", "settings", "approve"); err != nil {
				return err
			}
			return a.resumeRun(cmd.Context(), args[0], file, s, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.source, "source", "", "where the tasks are, if it was dir:PATH (default: the plan's dataset on the hub, or the built-in one)")
	f.StringVar(&s.baseURL, "base-url", "", "endpoint of the plan's model (default: OPENAI_BASE_URL, else https://api.openai.com/v1)")
	f.StringVar(&s.searxng, "searxng-url", "", "SearXNG search endpoint, if the plan searches with it (default: SEARXNG_URL)")
	s.addRateFlags(cmd)
	s.addApprove(cmd)
	f.Lookup("key").Usage = "signing key file, the one the run was planned with"
	f.StringVar(&file, "settings", "", "file of settings, if the plan has tools of MCP servers, which alone are read (default: gaia.yaml)")
	f.BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

func (a *app) resumeRun(ctx context.Context, dir, file string, s settings, asJSON bool) error {
	if err := s.checkGoing(); err != nil {
		return err
	}
	plan, err := a.openPlan(dir)
	if errors.Is(err, run.ErrComplete) {
		return a.nothingToDo(dir, asJSON)
	}
	if err != nil {
		return err
	}
	if err := a.planned(&s, plan); err != nil {
		return err
	}
	s.runs = filepath.Dir(filepath.Clean(dir))
	if err := s.plannedServers(file, plan); err != nil {
		return err
	}
	stop := a.catchSignals(ctx)
	defer stop.release()
	news := a.tellNews(&s.taskFlags)
	w, err := a.configure(stop.ctx, s)
	if err != nil {
		return err
	}
	defer w.Close()
	progress := a.newProgress(len(w.Set.Tasks), w.Attempts, s.rehearsal)
	stop.say(progress)
	stop.begun.Store(true)
	news.say(progress)
	w.Watch, w.Warn, w.Resumed, w.Approver = progress.Watch, progress.Trouble, progress.CatchUp, a.approver(s, progress)
	r, err := run.Resume(dir, w.Config)
	var other *run.PlanError
	var cache *run.CacheError
	switch {
	case errors.As(err, &cache):
		return a.badCache(cache, exitIncomplete, "fix that, then: "+s.resumeCommand(dir))
	case errors.Is(err, run.ErrComplete): // since it was read
		return a.nothingToDo(dir, asJSON)
	case errors.As(err, &other):
		return fail(exitFailure, err, "resume with the dataset, endpoint and key that the run was planned with, or start a new run")
	case errors.Is(err, trajectory.ErrNotRecorded):
		return unfinished(err, s.resumeCommand(dir))
	case err != nil && classify(err).Code == exitFailure && !errors.Is(err, run.ErrBusy):
		return unfinished(err, s.resumeCommand(dir))
	case err != nil:
		return err
	}
	defer r.Close()
	a.announce(r, s)
	return a.finish(stop, r, s, progress, asJSON)
}

func (a *app) nothingToDo(dir string, asJSON bool) error {
	fmt.Fprintln(a.stderr, "gaia: nothing to do: the run is complete")
	return a.printRun(dir, nil, asJSON)
}

// resumeCommand is what takes a run up again that these settings began.
func (s settings) resumeCommand(dir string) string {
	words := []string{"gaia", "resume", quoteArg(dir)}
	if s.onLost == stopRun {
		words = append(words, "--on-unsubmittable", stopRun)
	}
	if s.cassette != "" {
		words = append(words, "--cassette", quoteArg(s.cassette))
	}
	if s.concurrency != autoConcurrency {
		words = append(words, "--concurrency", quoteArg(s.concurrency))
	}
	for _, rate := range []counter{{"rpm", s.rpm}, {"tpm", s.tpm}} {
		if rate.value > 0 {
			words = append(words, "--"+rate.flag, strconv.FormatInt(rate.value, 10))
		}
	}
	if len(s.approve) > 0 {
		words = append(words, "--approve", quoteArg(strings.Join(s.approve, ",")))
	}
	if s.serversFrom != "" {
		words = append(words, "--settings", quoteArg(s.serversFrom))
	}
	return s.command(words...)
}

// command is a command for a shell, with the flags by which it finds what these
// settings do.
func (s settings) command(words ...string) string {
	if s.rehearsal {
		return strings.Join(words, " ")
	}
	source := s.source
	if isHub(source) {
		source = "" // the plan names it
	}
	for _, flag := range [][2]string{{"--source", source}, {"--base-url", s.baseURL}, {"--searxng-url", s.searxng}, {"--prices", s.prices}, {"--key", s.key}} {
		if flag[1] != "" {
			words = append(words, flag[0], quoteArg(flag[1]))
		}
	}
	return strings.Join(words, " ")
}

// planned takes the settings of a run from its manifest.
func (a *app) planned(s *settings, m plan.Plan) error {
	s.resumed, s.evidence, s.governance.planned = true, m.Evidence, &m.Policy
	s.split, s.submitIntent, s.rehearsal = m.Dataset.Split, m.SubmitIntent, m.Rehearsal
	s.model, s.maxTokens, s.window, s.noTemperature = m.Model.Name, m.Model.MaxTokens, m.Model.ContextWindow, m.Model.NoTemperature
	s.servedAs = m.Model.ServedAs
	s.api, s.images = cmp.Or(m.Model.API, llm.APIChat), imagesFlag(m.Model.Images)
	s.maxTurns, s.toolCalls, s.taskTokens = m.Budgets.Turns, m.Budgets.ToolCalls, m.Budgets.Tokens
	s.taskTime = time.Duration(m.Budgets.WallMs) * time.Millisecond
	s.taskCost, s.runCost = taskBudget(m.Budgets.CostMicroUSD), dollarsFlag(m.Budgets.RunCostMicroUSD)
	s.attempts, s.noPreflight = m.Voting.Attempts, m.NoPreflight
	if m.Judge != nil {
		s.judge, s.noJudgeCache = m.Judge.Model, !m.Judge.Cache
	}
	if m.Transcription != nil {
		s.transcription = m.Transcription.Model
	}
	s.vision = visionFlag(m.Vision)
	s.search = plannedSearch(m)
	for _, t := range m.Tasks {
		s.filter.IDs = append(s.filter.IDs, t.TaskID)
	}
	s.selected = &m.Dataset
	s.plannedPython(m)
	if err := s.plannedCassette(m); err != nil {
		return err
	}
	if err := s.checkSource(); err != nil {
		return err
	}
	if s.rehearsal {
		if s.source != "" && s.source != sourceFixtures || s.baseURL != "" || s.searxng != "" || s.prices != "" {
			return usage("leave out --source, --base-url, --searxng-url and --prices", "a rehearsal goes on with the built-in tasks and model alone")
		}
		s.source = sourceFixtures
		return nil
	}
	if err := a.plannedSource(s, m.Dataset); err != nil {
		return err
	}
	s.baseURL = cmp.Or(s.baseURL, a.getenv("OPENAI_BASE_URL"), defaultBaseURL)
	return a.settleSearch(s)
}

// plannedCassette wants --cassette as the plan has it: only the user knows
// the directory.
func (s settings) plannedCassette(m plan.Plan) error {
	switch mode, _, err := s.tape(); {
	case err != nil || mode == m.Cassette:
		return err
	case m.Cassette == "":
		return usage("leave it out", "the run was planned without --cassette")
	default:
		return usage("give the directory that the run was started with", "the run was planned with --cassette %s:DIR", oneLine(m.Cassette))
	}
}

// plannedSource settles where a run that goes on has its tasks from: the hub's
// dataset that the plan names, or the directory that only the user knows.
func (a *app) plannedSource(s *settings, d plan.Dataset) error {
	if d.Hub == "" {
		if !strings.HasPrefix(s.source, sourceDir) {
			return usage("give --source dir:PATH, as the run was started with", "the source of the tasks is not recorded in the run")
		}
		return nil
	}
	planned := sourceRepo + d.Name
	if s.source != "" && s.source != planned && (s.source != sourceHub || d.Name != loader.GAIA) {
		return usage("leave --source out", "the run is of %s on the hub, not of %s", d.Name, s.source)
	}
	// What is no URL, or holds credentials, is refused with the source.
	if at, err := url.Parse(a.hubEndpoint()); err == nil && at.User == nil && at.Scheme+"://"+at.Host != d.Hub {
		return usage("set HF_ENDPOINT to it, if you trust it with your token", "the run is of a dataset of the hub %s, not of %s://%s", d.Hub, at.Scheme, at.Host)
	}
	s.source, s.revision = planned, d.Revision
	return nil
}

// openPlan reads the plan of a run that is to go on. The journal is read, once,
// when the run is taken up; run.ErrComplete says that there is nothing to do.
func (a *app) openPlan(dir string) (plan.Plan, error) {
	if err := verify.IsRun(dir); err != nil {
		return plan.Plan{}, err
	}
	// What is written last is there: most likely the run is finished.
	if _, err := os.Lstat(filepath.Join(dir, trajectory.CheckpointFile)); err == nil {
		found, err := a.openRun(dir)
		if err == nil && found.Complete {
			err = run.ErrComplete
		}
		if err != nil {
			return plan.Plan{}, err
		}
	}
	m, _, _, err := rundir.ReadPlan(os.DirFS(dir))
	return m, err
}

// openRun verifies a run directory; one that is not there or is no run is a
// matter of usage.
func (a *app) openRun(dir string) (*rundir.Run, error) {
	if err := verify.IsRun(dir); err != nil {
		return nil, err
	}
	return rundir.Verify(os.DirFS(dir), rundir.Options{})
}
