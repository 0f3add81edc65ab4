package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/spf13/pflag"
)

// maxManifest bounds, in bytes, a plan to repeat.
const maxManifest = 64 << 20

// taskSelection are the flags that choose tasks: one of them given, the plan's
// tasks are not taken.
func taskSelection() []string { return []string{"level", "task", "sample", "seed", "limit"} }

// planFlags are the flags whose values a plan to repeat decides.
func planFlags() []string {
	return append(taskSelection(), "source", "revision", "split", "model", "served-as", "api", "images", "context-window", "judge-model", "no-judge-cache",
		"transcription-model", "vision-model", "search", "max-turns", "max-tokens", "max-tool-calls", "max-task-tokens", "max-task-time", "max-task-cost", "max-cost", "policy",
		"voting-attempts", "no-preflight", "submit-intent", "record-evidence", "evidence-full-bodies")
}

// readLike reads the plan at a path: a manifest, or a run directory or package,
// folder or archive, with one. Nobody's signature is needed to plan the same again.
func readLike(path string) (*plan.Plan, error) {
	const hint = "give a manifest.json, a run directory, or a package, folder or archive"
	info, err := os.Stat(path)
	if err != nil {
		return nil, usage(hint, "reading the plan %q: %v", path, unwrapPath(err))
	}
	dir, name := filepath.Split(path)
	files := os.DirFS(filepath.Clean(dir))
	switch {
	case info.IsDir():
		files, name = os.DirFS(path), plan.ManifestFile
		if _, err := fs.Lstat(files, name); errors.Is(err, fs.ErrNotExist) {
			return nil, usage(hint, "%q holds no %s", path, name)
		}
	case verify.IsArchive(path):
		p, err := verify.OpenArchive(path)
		if err != nil {
			return nil, err
		}
		defer p.Close()
		files, name = p.Files, plan.ManifestFile
	}
	data, err := rundir.ReadFile(files, name, maxManifest)
	if err != nil {
		return nil, err
	}
	m, err := plan.Decode(data)
	return &m, err
}

// like sets the flags that are not given to what a plan says, and takes its
// tasks.
func (a *app) like(s *settings, flags *pflag.FlagSet, m *plan.Plan) error {
	given := func(name string) bool { return flags.Changed(name) }
	otherModel := given("model") && s.model != m.Model.Name
	if err := a.likeTasks(s, given, m); err != nil {
		return err
	}
	values := [][2]string{
		{"split", m.Dataset.Split},
		{"max-turns", strconv.Itoa(m.Budgets.Turns)},
		{"max-task-time", (time.Duration(min(m.Budgets.WallMs, maxTaskTime.Milliseconds()+1)) * time.Millisecond).String()},
		{"max-cost", dollarsFlag(m.Budgets.RunCostMicroUSD)},
		{"max-task-tokens", strconv.FormatInt(m.Budgets.Tokens, 10)},
		{"max-tokens", strconv.Itoa(m.Model.MaxTokens)},
		{"voting-attempts", strconv.Itoa(m.Voting.Attempts)},
		{"no-preflight", strconv.FormatBool(m.NoPreflight)},
		{"submit-intent", strconv.FormatBool(m.SubmitIntent)},
		{"record-evidence", strconv.FormatBool(m.Evidence != plan.EvidenceHashes)},
		{"evidence-full-bodies", strconv.FormatBool(m.Evidence == plan.EvidenceBodies)},
	}
	if !given("policy") { // whose budgets these are
		s.governance.planned = &m.Policy
		values = append(values, [2]string{"max-task-cost", taskBudget(m.Budgets.CostMicroUSD)}, [2]string{"max-tool-calls", strconv.Itoa(m.Budgets.ToolCalls)})
	}
	if !otherModel {
		values = append(values, [2]string{"images", imagesFlag(m.Model.Images)}, [2]string{"context-window", strconv.Itoa(m.Model.ContextWindow)})
	}
	if !otherModel && !given("served-as") {
		s.servedAs = m.Model.ServedAs
	}
	if !m.Rehearsal {
		values = append(values, [2]string{"model", m.Model.Name})
		if !otherModel {
			values = append(values, [2]string{"api", cmp.Or(m.Model.API, llm.APIChat)})
		}
		if !given("searxng-url") {
			values = append(values, [2]string{"search", plannedSearch(*m)})
		}
		if m.Judge != nil {
			values = append(values, [2]string{"judge-model", m.Judge.Model})
		}
		if !otherModel || m.Vision != nil && m.Vision.Model != m.Model.Name {
			values = append(values, [2]string{"vision-model", visionFlag(m.Vision)})
		}
		if m.Transcription != nil {
			values = append(values, [2]string{"transcription-model", m.Transcription.Model})
		}
	}
	if m.Judge != nil {
		values = append(values, [2]string{"no-judge-cache", strconv.FormatBool(!m.Judge.Cache)})
	}
	for _, v := range values {
		if given(v[0]) {
			continue
		}
		if err := flags.Lookup(v[0]).Value.Set(v[1]); err != nil { // it stays not given
			return fmt.Errorf("taking --%s from the plan: %w", v[0], err)
		}
	}
	return nil
}

// likeTasks takes the source and the tasks of a plan, but for what is given.
func (a *app) likeTasks(s *settings, given func(string) bool, m *plan.Plan) error {
	revision := s.revision
	switch {
	case given("source"):
		if isHub(s.source) && revision == "" && (s.source == sourceRepo+m.Dataset.Name || s.source == sourceHub) && m.Dataset.Hub != "" {
			revision = m.Dataset.Revision
		}
	case m.Rehearsal:
		s.source = sourceFixtures
	default:
		if err := a.plannedSource(s, m.Dataset); err != nil {
			return err
		}
	}
	if given("revision") || given("source") {
		s.revision = revision
	}
	if slices.ContainsFunc(taskSelection(), given) || given("split") && s.split != m.Dataset.Split {
		return nil
	}
	s.selected = &m.Dataset
	for _, t := range m.Tasks {
		s.filter.IDs = append(s.filter.IDs, t.TaskID)
	}
	return nil
}

// atPlanned refuses to ask a model elsewhere than the plan did, unless that is
// said in words: the key goes there.
func (s settings) atPlanned(given bool, m *plan.Plan) error {
	if m == nil || given || s.rehearsal || m.Rehearsal || originOf(s.baseURL) == m.Model.Origin {
		return nil
	}
	return usage("give --base-url", "the plan's model is at %s, and the endpoint here is at %s", m.Model.Origin, originOf(s.baseURL))
}

// compareWith prints in what a plan differs from the one it was to be like.
func (a *app) compareWith(old *plan.Plan, now plan.Plan) error {
	same := *old
	same.RunID, same.Created, same.Harness, same.GoldCommitment = now.RunID, now.Created, now.Harness, now.GoldCommitment
	differences, err := run.Differences(same.Unsalted(), now.Unsalted())
	if err != nil {
		return err
	}
	if len(differences) == 0 {
		differences = []string{"nothing"}
	}
	_, err = fmt.Fprintf(a.stderr, "gaia: differs from the plan of %s in: %s\n", old.RunID, oneLine(strings.Join(differences, "; ")))
	return err
}

// imagesFlag is --images of a plan.
func imagesFlag(shown bool) string {
	if shown {
		return imagesOn
	}
	return imagesOff
}
