package export

import (
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
)

// spec returns what was planned.
func (s Source) spec() evalSpec {
	m := s.Run.Manifest
	spec := evalSpec{EvalID: m.RunID, RunID: m.RunID, Created: m.Created, Task: "gaia-" + m.Dataset.Split, TaskID: "gaia-" + m.RunID,
		Dataset: evalDataset{Name: m.Dataset.Name, Location: m.Dataset.Hub, Samples: len(m.Tasks)},
		Model:   m.Model.Name, ModelBaseURL: m.Model.Origin, ModelArgs: map[string]any{}, Packages: map[string]string{"gaia": m.Harness.Version},
		Config: evalConfig{Epochs: m.Voting.Attempts, TokenLimit: m.Budgets.Tokens, TurnLimit: m.Budgets.Turns,
			TimeLimit: m.Budgets.WallMs / 1000, CostLimit: float64(m.Budgets.CostMicroUSD) / 1e6},
		Generate: generateConfig{MaxTokens: m.Model.MaxTokens}, Metadata: s.aboutRun()}
	for _, t := range m.Tasks {
		spec.Dataset.SampleIDs = append(spec.Dataset.SampleIDs, t.TaskID)
	}
	if !m.Model.NoTemperature {
		spec.Generate.Temperature = new(float64(m.Model.TemperatureMilli) / 1000)
	}
	if m.Model.API != "" {
		spec.ModelArgs["api"] = m.Model.API
	}
	if m.Model.ContextWindow > 0 {
		spec.ModelArgs["context_window"] = m.Model.ContextWindow
	}
	if m.Harness.Commit != "" {
		spec.Revision = &evalRevision{Type: "git", Commit: m.Harness.Commit, Dirty: m.Harness.Dirty}
	}
	if s.votes() {
		spec.Config.EpochsReducer = []string{m.Voting.Rule}
	}
	if m.Rehearsal {
		spec.Task, spec.Tags = "rehearsal-"+m.Dataset.Split, append(spec.Tags, "rehearsal")
	}
	if m.Cassette == plan.CassetteReplay {
		spec.Tags = append(spec.Tags, "replay")
	}
	if s.Run.Scored() {
		for _, name := range s.scorers() {
			spec.Scorers = append(spec.Scorers, evalScorer{name})
		}
	}
	return spec
}

// aboutRun returns what is said of the run besides.
func (s Source) aboutRun() map[string]any {
	m := s.Run.Manifest
	about := map[string]any{"rehearsal": m.Rehearsal, "target": noGold, "gaia_split": m.Dataset.Split, "selection": m.Dataset.Selection,
		"dataset_revision": m.Dataset.Revision, "evidence": m.Evidence, "voting_rule": m.Voting.Rule, "policy_mode": m.PolicyMode, "policy_hash": m.PolicyHash,
		"guidance_hash": m.GuidanceHash, "manifest_sha256": s.Run.ManifestSHA256, "root": s.Run.RootHash, "signing_key": s.Run.Key.ID(),
		"submit_intent": m.SubmitIntent, "void_tasks": len(s.Void)}
	if m.Judge != nil {
		about["judge_model"] = m.Judge.Model
	}
	if s.Run.Marked != "" {
		about["unsubmittable"] = s.Run.Marked
	}
	return about
}

func (s Source) votes() bool { return s.Run.Manifest.Voting.Rule == plan.VoteMajority }

// counted returns the verdicts on the answer of a task that counts.
func (s Source) counted(t *rundir.Task) verdicts { return s.verdicts(t, t.Counted()) }

// results returns the scores over the planned tasks: those of the answers that
// count, void tasks wrong.
func (s Source) results(samples []placed) evalResults {
	m := s.Run.Manifest
	out := evalResults{Total: len(m.Tasks) * m.Voting.Attempts, Scores: []evalScore{}}
	for _, one := range samples {
		if one.Error == "" {
			out.Completed++
		}
	}
	if !s.Run.Scored() {
		return out
	}
	for _, name := range s.scorers() {
		of := evalScore{Name: name, Scorer: name}
		if s.votes() {
			of.Reducer = m.Voting.Rule
		}
		correct := 0
		for _, t := range s.Run.Tasks {
			switch verdict := s.counted(t).by(name); {
			case verdict == nil:
				of.Unscored++
			case *verdict:
				correct++
				of.Scored++
			default:
				of.Scored++
			}
		}
		of.Metrics = map[string]evalMetric{"accuracy": {Name: "accuracy", Value: float64(correct) / float64(len(m.Tasks))}}
		out.Scores = append(out.Scores, of)
	}
	return out
}

// reductions returns what the vote made of the attempts, task by task.
func (s Source) reductions() []reduction {
	all := []reduction{}
	if !s.Run.Scored() {
		return all
	}
	for _, name := range s.scorers() {
		of := reduction{Scorer: name, Reducer: s.Run.Manifest.Voting.Rule, Samples: []reducedScore{}}
		for _, t := range s.Run.Tasks {
			verdict := s.counted(t).by(name)
			if verdict == nil {
				continue
			}
			one := reducedScore{SampleID: t.Plan.TaskID}
			if *verdict {
				one.Value = 1
			}
			if a := t.Counted(); a != nil && a.Answer != nil {
				one.Answer = &a.Answer.Answer
			}
			of.Samples = append(of.Samples, one)
		}
		all = append(all, of)
	}
	return all
}
