package runs

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// LongTask is the task of the run that Long makes, and LongRound how many events a round of its attempt has.
const (
	LongTask  = "fab1e951-0000-4000-8000-000000000777"
	LongRound = 10
)

// Long returns a run of an own agent that is under way: its one attempt has so many rounds so far, each a turn with a
// request and its reply, and a turn with a tool call and its result. The run verifies.
func Long(rounds int) (map[string][]byte, error) {
	c, err := Parse("A long attempt.\n\n-- plan --\n{\"agent\":{\"calls\":100000}}\n\n-- task " + LongTask + " --\nquestion: How many posts has the pier of Tolmey?\ngold: 14\n\n-- reply --\nAll were counted.\n\n-- gives answer-file.v1 14 --\n")
	if err != nil {
		return nil, err
	}
	whole, err := c.Files()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{rundir.TrajectoriesFile: {}, rundir.MarkerFile: []byte(rundir.MarkerOpen + "\n")}
	for _, name := range []string{plan.ManifestFile, plan.EnvelopeFile, plan.ConstitutionFile, plan.AgentFilesFile} {
		files[name] = whole[name]
	}
	m, err := plan.Decode(files[plan.ManifestFile])
	if err != nil {
		return nil, err
	}
	journal := &memory{}
	end := trajectory.End{}
	if _, _, err = trajectory.ReadJournal(bytes.NewReader(whole[trajectory.JournalFile]), m.RunID, canonical.Digest(files[plan.ManifestFile]), func(e trajectory.Event, line []byte) error {
		if e.Turn == 0 && e.Seq == end.Events && (e.TaskID == "" || e.Payload.Type() == trajectory.TypeTaskStarted) {
			journal.Write(line)
			end = trajectory.End{Events: e.Seq + 1, Head: canonical.Digest(line), LastID: e.ID}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	now := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	elapsed := time.Duration(0)
	log, err := trajectory.NewLog(journal, end, trajectory.LogConfig{RunID: m.RunID, Rand: rand.NewChaCha8([32]byte{7}),
		Now: func() time.Time { elapsed += 40 * time.Millisecond; return now.Add(elapsed) }, Mono: func() time.Duration { return elapsed }})
	if err != nil {
		return nil, err
	}
	var drafts []trajectory.Draft
	for round := range rounds {
		for i, p := range longRound(round, m) {
			drafts = append(drafts, trajectory.Draft{TaskID: LongTask, Attempt: 1, Turn: 2*round + 1 + i/5, Payload: p})
		}
		if round%100 == 99 || round == rounds-1 {
			if _, err := log.Append(drafts...); err != nil {
				return nil, err
			}
			drafts = drafts[:0]
		}
	}
	files[trajectory.JournalFile] = journal.Bytes()
	return files, nil
}

// longRound returns the events of two turns.
func longRound(round int, m plan.Plan) []trajectory.Payload {
	call, cost := fmt.Sprint("call-", round), int64(40)
	page := fmt.Sprintf("Sheet %d of the harbour book. ", round) + strings.Repeat("The pier of Tolmey has posts of oak. ", 20)
	reply := string(trajectory.SentMessage{Content: fmt.Sprintf("I read sheet %d.", round), Role: "assistant",
		ToolCalls: []trajectory.SentCall{{Arguments: `{"path":"sheet.txt"}`, ID: call, Name: "read_file"}}}.Canonical())
	shown := trajectory.SentMessage{Content: page, Role: "tool", ToolCallID: call}.Canonical()
	digest := canonical.Digest(shown)
	message := func(role string, text []byte) trajectory.Message {
		return trajectory.Message{Bytes: int64(len(text)), Role: role, SHA256: canonical.Digest(text), Source: plan.AgentSource}
	}
	decision := trajectory.PolicyDecision{CallID: call, Decision: "allow", Mode: m.PolicyMode, PolicyHash: m.PolicyHash}
	if round%50 == 49 {
		decision.Decision, decision.Reason, decision.RuleIDs, decision.Shown = "deny", "this names the run's own records", []string{"R002"}, "refused: this names the run's own records"
	}
	return []trajectory.Payload{
		trajectory.TurnStarted{},
		trajectory.ContextCompiled{Bytes: int64(len(shown)), ContentSHA256: digest, Kept: 2 * round, Origins: &trajectory.Origins{Result: int64(len(page)), Reply: 20},
			Messages: []trajectory.Message{message("assistant", []byte(reply)), message("tool", shown)}},
		trajectory.ModelCallStarted{Request: &trajectory.AgentRequest{Bytes: int64(2000 + round), Dialect: "chat", SHA256: canonical.Digest([]byte(call))}, RequestedModel: m.Model.Name, Try: 1},
		trajectory.ModelCallCompleted{Bytes: int64(len(reply)), CostMicroUSD: &cost, FinishReason: "tool_calls", Head: reply, LatencyMs: 800, OutputSHA256: canonical.Digest([]byte(reply)),
			Reply:     &trajectory.AgentReply{Bytes: 700, SHA256: digest, Status: 200},
			RequestID: fmt.Sprint("req-", round), RequestedModel: m.Model.Name, ResponseModel: m.Model.Name, Tokens: trajectory.Tokens{In: 900, Out: 30}, Try: 1, UsageReported: true},
		trajectory.TurnCompleted{LatencyMs: 850},

		trajectory.TurnStarted{},
		trajectory.ToolProposed{Args: map[string]string{"path": "sheet.txt"}, ArgsSHA256: canonical.Digest([]byte(`{"path":"sheet.txt"}`)), CallID: call, Name: "read_file"},
		decision,
		trajectory.ToolExecuted{Bytes: int64(len(page)), CallID: call, Head: page, LatencyMs: 20, Name: "read_file", OutputSHA256: canonical.Digest([]byte(page)),
			Probes: &trajectory.Probes{}, ShownBytes: int64(len(page)), ShownSHA256: digest},
		trajectory.TurnCompleted{LatencyMs: 30, ToolCalls: 1}}
}

// Told is what [WriteShard] puts into the journal of a shard.
type Told struct {
	Questions []string      // of the tasks of the plan
	Answers   []string      // likewise; nil: 42
	Seed      int           // of ids
	After     time.Duration // its clock, after a fixed time
	Turns     int           // of each task, at least 1; all but the last one call a tool
	Cost      int64         // of each turn, in micro-USD
	Skipped   int           // tasks at the end that are committed without an attempt, as if there was no money
	Undone    int           // tasks at the very end of which nothing is there
	NoHead    bool          // there is no tree head
}

// buffered is a file that no one waits for.
type buffered struct{ *bufio.Writer }

func (buffered) Sync() error { return nil }

// WriteShard writes the folder of a shard of a signed plan, event by event: of many tasks it holds little in memory.
func WriteShard(dir string, m plan.Plan, manifest, manifestEnvelope []byte, d plan.Delegation, delegation []byte, key sign.Key, o Told) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	digest := canonical.Digest(manifest)
	files := map[string][]byte{plan.ManifestFile: manifest, plan.EnvelopeFile: manifestEnvelope, plan.ConstitutionFile: policy.Constitution(m.Policy), plan.DelegationFile: delegation}
	journalFile, err := os.Create(filepath.Join(dir, trajectory.JournalFile))
	if err != nil {
		return err
	}
	defer journalFile.Close()
	recordsFile, err := os.Create(filepath.Join(dir, rundir.TrajectoriesFile))
	if err != nil {
		return err
	}
	defer recordsFile.Close()
	journal, records := buffered{bufio.NewWriterSize(journalFile, 1<<20)}, bufio.NewWriterSize(recordsFile, 1<<20)
	fold := rundir.NewFold(m, digest, func(r rundir.Trajectory) error {
		line, err := r.AppendTo(nil)
		if err == nil {
			_, err = records.Write(line)
		}
		return err
	})
	fold.OfShard(d)
	clock := epoch().Add(o.After)
	log, err := trajectory.NewLog(journal, trajectory.End{Head: digest}, trajectory.LogConfig{RunID: m.RunID, Rand: rand.NewChaCha8(sha256.Sum256(fmt.Appendf(nil, "shard %d, %d", d.Shard.Index, o.Seed))),
		Now: func() time.Time { return clock }, Mono: func() time.Duration { return 0 }, Recorded: fold.Add})
	if err != nil {
		return err
	}
	drafts := []trajectory.Draft{{Payload: trajectory.RunStarted{GuidanceHash: m.GuidanceHash, Harness: m.Harness, ManifestSHA256: digest,
		PolicyHash: m.PolicyHash, PolicyMode: m.PolicyMode, Rehearsal: m.Rehearsal, Shard: d.Shard, SubmitIntent: m.SubmitIntent}}}
	done := len(fold.Tasks) - o.Undone
	for i, t := range fold.Tasks[:done] {
		if i < done-o.Skipped {
			drafts = append(drafts, o.attempt(m, t)...)
		}
		if len(drafts) > 0 {
			if _, err := log.Append(drafts...); err != nil {
				return err
			}
		}
		if _, err := log.Append(trajectory.Draft{TaskID: t.Plan.TaskID, Payload: fold.Commit(t)}); err != nil {
			return err
		}
		drafts = drafts[:0]
	}
	if err := errors.Join(journal.Flush(), records.Flush()); err != nil {
		return err
	}
	if !o.NoHead {
		head, err := fold.ShardCheckpoint(log.End())
		if err != nil {
			return err
		}
		if files[trajectory.CheckpointFile], err = head.Sign(key); err != nil {
			return err
		}
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// attempt returns the events of an attempt that answers.
func (o Told) attempt(m plan.Plan, t *rundir.Task) (drafts []trajectory.Draft) {
	head := strings.Repeat("The harbour of Branmoor was dredged twice. ", 9)
	digest, bytes, answer := canonical.Digest([]byte(head)), int64(len(head)), "42"
	if o.Answers != nil {
		answer = o.Answers[t.Index]
	}
	at := func(turn int, payloads ...trajectory.Payload) {
		for _, p := range payloads {
			drafts = append(drafts, trajectory.Draft{TaskID: t.Plan.TaskID, Attempt: 1, Turn: turn, Payload: p})
		}
	}
	at(0, trajectory.TaskStarted{Question: o.Questions[t.Index], Workspace: []trajectory.File{}})
	last := max(o.Turns, 1)
	for turn := 1; turn <= last; turn++ {
		call := fmt.Sprint("call-", turn)
		at(turn, trajectory.TurnStarted{},
			trajectory.ContextCompiled{Bytes: bytes, ContentSHA256: digest, Head: head, Kept: turn - 1, Messages: []trajectory.Message{{Bytes: bytes, Role: "user", SHA256: digest, Source: "task"}}},
			trajectory.ModelCallStarted{RequestedModel: m.Model.Name, Try: 1},
			trajectory.ModelCallCompleted{Bytes: bytes, CostMicroUSD: &o.Cost, Head: head, OutputSHA256: digest, RequestedModel: m.Model.Name, Tokens: trajectory.Tokens{In: 900, Out: 30}, Try: 1, UsageReported: true})
		if turn < last {
			at(turn, trajectory.ToolProposed{Args: map[string]string{"expression": "6*7"}, ArgsSHA256: digest, CallID: call, Name: "calculate"},
				trajectory.PolicyDecision{CallID: call, Decision: "allow", Mode: m.PolicyMode, PolicyHash: m.PolicyHash},
				trajectory.ToolExecuted{Bytes: bytes, CallID: call, Head: head, Name: "calculate", OutputSHA256: digest, Probes: &trajectory.Probes{}, ShownBytes: bytes, ShownSHA256: digest})
		}
		at(turn, trajectory.TurnCompleted{ToolCalls: min(1, last-turn)})
	}
	at(0, trajectory.AnswerCommitted{Answer: answer, Rule: "final-answer.v1"}, trajectory.AttemptEnded{Outcome: trajectory.Answered})
	return drafts
}
