package export

import (
	"archive/zip"
	"bytes"
	"cmp"
	"compress/flate"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/go-json-experiment/json"
)

// Inspect writes a run as a log of Inspect AI. Bytes that are not those that the
// run was verified in are a *trajectory.Fault.
func Inspect(w io.Writer, s Source) error {
	for _, t := range s.Run.Tasks {
		if unsafeID(t.Plan.TaskID) {
			return fmt.Errorf("the task id %q cannot be part of a file name, which Inspect makes of it", t.Plan.TaskID)
		}
	}
	packer, err := flate.NewWriter(io.Discard, flate.DefaultCompression)
	if err != nil {
		return err
	}
	out := &archive{zip: zip.NewWriter(w), flate: packer}
	spec := s.spec()
	plan := evalPlan{Name: "plan", Steps: []struct{}{}, Config: spec.Generate}
	if err := out.put("_journal/start.json", logStart{logVersion, spec, plan}); err != nil {
		return err
	}
	log := &walk{source: s, out: out, epochs: map[string]map[int]epoch{}, open: map[string]*attempt{}, usage: usage{},
		texts: []string{prompt.System(), prompt.Reminder()}}
	for _, reason := range prompt.LastTurnReasons() {
		log.texts = append(log.texts, prompt.LastTurn(reason))
	}
	for _, p := range s.Run.Manifest.Prompts {
		log.texts = append(log.texts, p.Text)
	}
	for _, t := range s.Run.Tasks {
		of := map[int]epoch{}
		for _, e := range epochs(t) {
			if e.attempt != nil {
				of[e.attempt.Number] = e
			}
		}
		log.epochs[t.Plan.TaskID] = of
	}
	again, err := rundir.Verify(s.Dir, rundir.Options{Summary: s.Summary, Event: log.add})
	if err != nil {
		return err
	}
	if again.ManifestSHA256 != s.Run.ManifestSHA256 || again.End != s.Run.End || !again.Complete {
		return trajectory.Faultf(trajectory.JournalFile, "changed while it was read")
	}
	for _, t := range s.Run.Tasks {
		if len(t.Attempts) == 0 {
			if err := log.put(t, epoch{number: 1}, nil); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(log.summaries, func(a, b placed) int { return cmp.Or(a.index-b.index, a.Epoch-b.Epoch) })
	summaries := make([]sampleSummary, len(log.summaries))
	for i, s := range log.summaries {
		summaries[i] = s.sampleSummary
	}
	if err := out.put("summaries.json", summaries); err != nil {
		return err
	}
	results, reductions := s.results(summaries)
	if s.votes() {
		if err := out.put("reductions.json", reductions); err != nil {
			return err
		}
	}
	told := s.Run.Summary()
	header := logHeader{Version: logVersion, Status: "success", Eval: spec, Plan: plan, Results: results,
		Stats: evalStats{Started: told.Started, Completed: told.Completed, Usage: log.usage.models()},
		Tags:  spec.Tags, Metadata: spec.Metadata}
	if err := out.put("header.json", header); err != nil {
		return err
	}
	if err := out.zip.Close(); err != nil {
		return fmt.Errorf("writing the log: %w", err)
	}
	return nil
}

// unsafeID reports whether a task id could lead out of the folder that its file
// is in, or is not printable.
func unsafeID(id string) bool {
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
		w.open[e.TaskID] = &attempt{prefix: fmt.Sprintf("%s-%d-%d", m.RunID, w.source.Run.Task(e.TaskID).Index, e.Attempt),
			own: m.Agent != nil, bodies: bodies{w.source.Dir}, first: e.Time(), last: e.Time(), output: modelOutput{Choices: []choice{}}, usage: usage{},
			texts: slices.Clone(w.texts), replies: map[string]int{}, tools: map[string]string{}, results: map[string]*chatMessage{}}
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
	for model, more := range did.usage {
		w.usage.add(model, more)
	}
	of, has := w.epochs[e.TaskID][e.Attempt]
	if !has {
		return nil
	}
	return w.put(w.source.Run.Task(e.TaskID), of, did)
}

// put writes a sample, and keeps what the log's list of samples says of it.
func (w *walk) put(t *rundir.Task, e epoch, did *attempt) error {
	made := w.source.sample(t, e, did)
	summary := sampleSummary{sampleBase: made.sampleBase, Finished: true, MessageCount: len(made.Messages), Retries: len(made.Retries)}
	summary.Input, _ = shorten(made.Input, maxShort)
	if made.Error != nil {
		summary.Error = made.Error.Message
	}
	summary.Scores = map[string]score{}
	for name, given := range made.Scores {
		if given.Answer != nil {
			short, _ := shorten(*given.Answer, maxShort)
			given.Answer = &short
		}
		summary.Scores[name] = given
	}
	w.summaries = append(w.summaries, placed{t.Index, summary})
	return w.out.put(fmt.Sprintf("samples/%s_epoch_%d.json", t.Plan.TaskID, e.number), made)
}

// maxShort is how much of a text is shown where its beginning is enough, in bytes:
// what Inspect itself keeps in summaries.
const maxShort = 1 << 10

// noGold is what the log says where Inspect expects the target.
const noGold = "gold answers are never exported"

// sample returns an epoch of a task; did is what its attempt did, nil of a task
// that was never attempted.
func (s Source) sample(t *rundir.Task, e epoch, did *attempt) sample {
	id := t.Plan.TaskID
	out := sample{Messages: []*chatMessage{}, Events: []any{}, Attachments: map[string]string{},
		Output: modelOutput{Choices: []choice{}}, Pool: eventsData{Messages: []*chatMessage{}, Calls: []struct{}{}}}
	out.sampleBase = sampleBase{ID: id, Epoch: e.number, Scores: s.scores(t, e.attempt), Metadata: s.about(t, e), Usage: map[string]modelUsage{},
		UUID: fmt.Sprintf("%s-%d-%d", s.Run.Manifest.RunID, t.Index, e.number)}
	for _, lost := range e.lost {
		out.Retries = append(out.Retries, failure(lost))
	}
	if did == nil {
		out.Error = &evalError{Message: "no attempt was made at this task"}
		return out
	}
	if e.attempt.Ended.Outcome == trajectory.Errored {
		out.Error = new(failure(e.attempt))
	}
	out.Input, out.Turns, out.Usage = did.question, e.attempt.Turns, did.usage.models()
	out.Started, out.Completed = did.first.Format(trajectory.TimeFormat), did.last.Format(trajectory.TimeFormat)
	out.Total, out.Working = did.last.Sub(did.first).Seconds(), seconds(did.working)
	if did.file != "" {
		out.Files = []string{did.file}
	}
	for _, at := range did.request {
		out.Messages = append(out.Messages, did.pool[at])
	}
	if did.reply != nil { // and what its calls gave, which no request showed any more
		out.Messages = append(append(out.Messages, did.reply), did.rest...)
	}
	out.Output, out.Events = did.output, did.events
	if len(did.pool) > 0 {
		out.Pool.Messages = did.pool
	}
	for _, name := range s.scorers() {
		if given, scored := out.Scores[name]; scored {
			base := eventBase{Event: "score", UUID: out.UUID + "-" + name, Timestamp: out.Completed, Start: out.Total}
			out.Events = append(out.Events, scoreEvent{eventBase: base, Score: given, Scorer: name})
		}
	}
	cut := 0 // texts of which the log has not all
	for _, m := range did.pool {
		cut += len(m.Metadata.CutArguments)
		if m.Metadata.Cut {
			cut++
		}
	}
	for _, e := range did.events {
		if result, is := e.(toolEvent); is && result.Metadata.Cut {
			cut++
		}
	}
	if cut > 0 {
		out.Metadata["cut_texts"] = cut
	}
	return out
}

// about returns what is said of a sample besides.
func (s Source) about(t *rundir.Task, e epoch) map[string]any {
	about := map[string]any{"level": t.Plan.Level, "outcome": t.Sealed.Outcome, "target": noGold, "attempts": len(t.Attempts),
		"rehearsal": s.Run.Manifest.Rehearsal}
	if t.Plan.FileName != "" {
		about["file_name"] = t.Plan.FileName
	}
	if s.Void[t.Plan.TaskID] {
		about["void"] = true
	}
	if a := e.attempt; a != nil {
		about["attempt"], about["counted"] = a.Number, a.Number == t.Sealed.Attempt
		about["ended"] = a.Ended.Outcome
		if a.Ended.Reason != "" {
			about["reason"] = a.Ended.Reason
		}
		if a.Ended.Agent != nil {
			about["process"] = a.Ended.Agent
		}
	}
	return about
}

// scores returns the verdicts on an attempt that were given.
func (s Source) scores(t *rundir.Task, a *rundir.Attempt) map[string]score {
	given := map[string]score{}
	for _, name := range s.scorers() {
		verdict := s.verdict(name, t, a)
		if verdict == nil {
			continue
		}
		out := score{Value: "I", Explanation: "no answer was graded"}
		if *verdict {
			out.Value = "C"
		}
		if a != nil && a.Answer != nil {
			out.Answer = &a.Answer.Answer
		}
		if a != nil && a.Judgment != nil {
			out.Explanation = "scoring path: " + a.Judgment.Path
			out.Metadata = map[string]any{"scoring_path": a.Judgment.Path}
		}
		if s.Void[t.Plan.TaskID] {
			out.Explanation = "the task is void by adjudication, and counts wrong"
		}
		given[name] = out
	}
	return given
}

// failure says what ended an attempt that was lost.
func failure(a *rundir.Attempt) evalError {
	message := a.Ended.Reason
	if a.Error != nil {
		message = a.Error.Message
	}
	return evalError{Message: cmp.Or(message, "the attempt ended as an error")}
}

// spec returns what was planned.
func (s Source) spec() evalSpec {
	m := s.Run.Manifest
	spec := evalSpec{EvalID: m.RunID, RunID: m.RunID, Created: m.Created, Task: "gaia-" + m.Dataset.Split, TaskID: "gaia-" + m.RunID,
		Dataset: evalDataset{Name: m.Dataset.Name, Location: m.Dataset.Hub, Samples: len(m.Tasks)},
		Model:   m.Model.Name, ModelBaseURL: m.Model.Origin, ModelArgs: map[string]any{}, Packages: map[string]string{"gaia": m.Harness.Version},
		Config: evalConfig{Epochs: m.Voting.Attempts, TokenLimit: m.Budgets.Tokens, TurnLimit: m.Budgets.Turns,
			TimeLimit: m.Budgets.WallMs / 1000, CostLimit: float64(m.Budgets.CostMicroUSD) / 1e6},
		Generate: generateConfig{MaxTokens: m.Model.MaxTokens}, Metadata: map[string]any{
			"rehearsal": m.Rehearsal, "target": noGold, "gaia_split": m.Dataset.Split, "selection": m.Dataset.Selection,
			"dataset_revision": m.Dataset.Revision, "evidence": m.Evidence, "voting_rule": m.Voting.Rule, "policy_mode": m.PolicyMode,
			"policy_hash": m.PolicyHash, "guidance_hash": m.GuidanceHash, "manifest_sha256": s.Run.ManifestSHA256, "root": s.Run.RootHash,
			"signing_key": s.Run.Key.ID(), "submit_intent": m.SubmitIntent, "void_tasks": len(s.Void)}}
	if m.Judge != nil {
		spec.Metadata["judge_model"] = m.Judge.Model
	}
	if m.Agent != nil {
		spec.Metadata["agent"] = m.AnsweredBy().Own
	}
	if share := s.Run.Inputs.Share(); share != nil {
		spec.Metadata["prompts"] = *share
	}
	if s.Run.Marked != "" {
		spec.Metadata["unsubmittable"] = s.Run.Marked
	}
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
	if of := m.Dataset.ErrorsOf; of.RunID != "" {
		spec.Task, spec.Tags = "errors-of-"+of.RunID, append(spec.Tags, "only errors")
		spec.Metadata["errors_of"] = of
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

func (s Source) votes() bool { return s.Run.Manifest.Voting.Rule == plan.VoteMajority }

// results returns the scores over the planned tasks, those of the answers that count and void tasks wrong,
// and what the vote made of the attempts, task by task.
func (s Source) results(samples []sampleSummary) (evalResults, []reduction) {
	m := s.Run.Manifest
	out, reductions := evalResults{Total: len(m.Tasks) * m.Voting.Attempts, Scores: []evalScore{}}, []reduction{}
	for _, one := range samples {
		if one.Error == "" {
			out.Completed++
		}
	}
	if !s.Run.Scored() {
		return out, reductions
	}
	for _, name := range s.scorers() {
		of, correct := evalScore{Name: name, Scorer: name}, 0.0
		voted := reduction{Scorer: name, Reducer: m.Voting.Rule, Samples: []reducedScore{}}
		for _, t := range s.Run.Tasks {
			counted := t.Counted()
			verdict := s.verdict(name, t, counted)
			if verdict == nil {
				of.Unscored++
				continue
			}
			of.Scored++
			one := reducedScore{SampleID: t.Plan.TaskID}
			if *verdict {
				one.Value = 1
			}
			if counted != nil && counted.Answer != nil {
				one.Answer = &counted.Answer.Answer
			}
			correct += one.Value
			voted.Samples = append(voted.Samples, one)
		}
		if s.votes() {
			of.Reducer = m.Voting.Rule
		}
		of.Metrics = map[string]evalMetric{"accuracy": {Name: "accuracy", Value: correct / float64(len(m.Tasks))}}
		out.Scores, reductions = append(out.Scores, of), append(reductions, voted)
	}
	return out, reductions
}

// archive is a zip whose local headers have the sizes of what follows them: zip's
// own Create puts them behind it, which readers by ranges of bytes cannot use.
type archive struct {
	zip    *zip.Writer
	packed bytes.Buffer
	flate  *flate.Writer
}

// How a member of the archive says that its name is UTF-8, which features it needs,
// and that it is of the first day that zip knows.
const (
	utf8Name   = 0x800
	zipVersion = 20
	firstDay   = 1<<5 | 1
)

// put writes a value as a JSON member.
func (a *archive) put(name string, v any) error {
	data, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encoding %s: %w", name, err)
	}
	if uint64(len(data)) >= math.MaxUint32 {
		return fmt.Errorf("%s is larger than a member of the log can be", name)
	}
	a.packed.Reset()
	a.flate.Reset(&a.packed)
	if _, err := a.flate.Write(data); err != nil {
		return fmt.Errorf("compressing %s: %w", name, err)
	}
	if err := a.flate.Close(); err != nil {
		return fmt.Errorf("compressing %s: %w", name, err)
	}
	w, err := a.zip.CreateRaw(&zip.FileHeader{Name: name, Method: zip.Deflate, Flags: utf8Name, CreatorVersion: zipVersion, ReaderVersion: zipVersion,
		ModifiedDate: firstDay, CRC32: crc32.ChecksumIEEE(data), CompressedSize64: uint64(a.packed.Len()), UncompressedSize64: uint64(len(data))})
	if err == nil {
		_, err = w.Write(a.packed.Bytes())
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}
