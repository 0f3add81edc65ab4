package merge

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/planfolder"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

const salt = "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"

// site is a signed plan and the folders of its shards.
type site struct {
	testing.TB
	dir    string
	key    sign.Key
	folder *planfolder.Folder
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newKey(t testing.TB, seed int) sign.Key {
	t.Helper()
	key, err := sign.NewKey(rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}))
	check(t, err)
	return key
}

func question(task string) string { return "What is " + task + "?" }

// newSite signs a plan of invented tasks whose answers are not known.
func newSite(t testing.TB, runID string, tasks, shards int) *site {
	t.Helper()
	m := plan.New()
	m.RunID, m.Created, m.Rehearsal, m.Shards = runID, "2031-02-03T04:05:06.789Z", true, shards
	m.Dataset = plan.Dataset{Name: "invented", Revision: "r1", Selection: "all", Split: "validation", SplitSize: tasks, Levels: [3]int{tasks, 0, 0}}
	m.Govern(policy.Policy{Mode: policy.Restricted})
	m.Harness = trajectory.Harness{Version: "v0.1.0", ExecutableSHA256: canonical.Digest([]byte("program"))}
	m.Model = plan.ModelPlan{Name: "scripted-model", Origin: "http://127.0.0.1"}
	m.Voting = plan.VotingPlan{Attempts: 1, Rule: plan.VoteFirst}
	for i := range tasks {
		id := fmt.Sprintf("task-%06d", i)
		digest, err := plan.QuestionDigest(salt, question(id))
		check(t, err)
		m.Tasks, m.SplitIDs = append(m.Tasks, plan.PlannedTask{Level: 1, QuestionSHA256: digest, TaskID: id}), append(m.SplitIDs, id)
	}
	var err error
	m.Dataset.IDsSHA256, err = plan.IDsDigest(m.SplitIDs)
	check(t, err)
	m.Splits = []plan.SplitPlan{{IDsSHA256: m.Dataset.IDsSHA256, Name: "validation", Size: tasks}}
	key := newKey(t, 1)
	m.SigningKey = key.Public().Line()
	manifest, err := m.Encode()
	check(t, err)
	envelope, err := sign.Seal(key, plan.ManifestType, manifest)
	check(t, err)
	return &site{t, t.TempDir(), key, &planfolder.Folder{Dir: "plan", Plan: m, Manifest: manifest, Envelope: envelope,
		ManifestSHA256: canonical.Digest(manifest), Key: key.Public()}}
}

// told is what a shard's journal is made of.
type told struct {
	seed     int           // of its ids
	after    time.Duration // its clock, after the time of the plan
	turns    int           // of each task
	skipped  int           // last tasks, for which there was no money
	cost     int64         // of each turn, in micro-USD
	undone   int           // tasks at the end that nothing is of
	noHead   bool          // there is no checkpoint
	delegate *sign.Key     // signs the delegation, if not the key of the plan
	of       *int          // shards that the delegation names, if others than the plan's
}

// file is a file that nobody waits for.
type file struct{ *bufio.Writer }

func (file) Sync() error { return nil }

func (s *site) create(path string) file {
	f, err := os.Create(path)
	check(s, err)
	s.Cleanup(func() { f.Close() })
	return file{bufio.NewWriterSize(f, 1<<20)}
}

// shard writes the folder of a shard and returns its path.
func (s *site) shard(name string, index int, o told) string {
	s.Helper()
	dir := filepath.Join(s.dir, name)
	check(s, os.MkdirAll(dir, 0o755))
	put := func(name string, data []byte) { check(s, os.WriteFile(filepath.Join(dir, name), data, 0o644)) }
	m, key := s.folder.Plan, newKey(s, 100+index)
	place := trajectory.Shard{Index: index, Key: key.Public().Line(), Of: m.Shards}
	if o.of != nil {
		place.Of = *o.of
	}
	by := s.key
	if o.delegate != nil {
		by = *o.delegate
	}
	d := m.NewDelegation(s.folder.ManifestSHA256, place)
	envelope, err := d.Sign(by)
	check(s, err)
	put(plan.ManifestFile, s.folder.Manifest)
	put(plan.EnvelopeFile, s.folder.Envelope)
	put(plan.ConstitutionFile, policy.Constitution(m.Policy))
	put(plan.DelegationFile, envelope)
	journal, records := s.create(filepath.Join(dir, trajectory.JournalFile)), s.create(filepath.Join(dir, rundir.TrajectoriesFile))
	fold := rundir.NewFold(m, s.folder.ManifestSHA256, func(r rundir.Trajectory) error {
		line, err := r.Encode()
		if err == nil {
			_, err = records.Write(line)
		}
		return err
	})
	fold.OfShard(d)
	clock := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC).Add(o.after)
	log, err := trajectory.NewLog(journal, trajectory.End{Head: s.folder.ManifestSHA256}, trajectory.LogConfig{RunID: m.RunID,
		Rand: rand.NewChaCha8([32]byte{byte(index), byte(o.seed), 1}), Now: func() time.Time { return clock }, Mono: func() time.Duration { return 0 }, Recorded: fold.Add})
	check(s, err)
	add := func(d ...trajectory.Draft) {
		_, err := log.Append(d...)
		check(s, err)
	}
	add(trajectory.Draft{Payload: trajectory.RunStarted{GuidanceHash: m.GuidanceHash, Harness: m.Harness, ManifestSHA256: s.folder.ManifestSHA256,
		PolicyHash: m.PolicyHash, PolicyMode: m.PolicyMode, Rehearsal: true, Shard: place}})
	for i, t := range fold.Tasks[:len(fold.Tasks)-o.undone] {
		if i < len(fold.Tasks)-o.undone-o.skipped {
			add(attempt(m, t.Plan.TaskID, o)...)
		}
		add(trajectory.Draft{TaskID: t.Plan.TaskID, Payload: fold.Commit(t)})
	}
	check(s, journal.Flush())
	check(s, records.Flush())
	if !o.noHead {
		head, err := fold.ShardCheckpoint(log.End())
		check(s, err)
		note, err := head.Sign(key)
		check(s, err)
		put(trajectory.CheckpointFile, note)
	}
	return dir
}

// attempt returns the events of an attempt that answers: turns of a model call, of which all but the last call a tool.
func attempt(m plan.Plan, id string, o told) []trajectory.Draft {
	head := strings.Repeat("The harbour of Branmoor was dredged twice. ", 9)
	digest, bytes := canonical.Digest([]byte(head)), int64(len(head))
	var drafts []trajectory.Draft
	at := func(turn int, payloads ...trajectory.Payload) {
		for _, p := range payloads {
			drafts = append(drafts, trajectory.Draft{TaskID: id, Attempt: 1, Turn: turn, Payload: p})
		}
	}
	at(0, trajectory.TaskStarted{Question: question(id), Workspace: []trajectory.File{}})
	for turn := 1; turn <= max(o.turns, 1); turn++ {
		call := fmt.Sprint("call-", turn)
		at(turn, trajectory.TurnStarted{},
			trajectory.ContextCompiled{Bytes: bytes, ContentSHA256: digest, Head: head, Kept: turn - 1, Messages: []trajectory.Message{{Bytes: bytes, Role: "user", SHA256: digest, Source: "task"}}},
			trajectory.ModelCallStarted{RequestedModel: m.Model.Name, Try: 1},
			trajectory.ModelCallCompleted{Bytes: bytes, CostMicroUSD: &o.cost, Head: head, OutputSHA256: digest, RequestedModel: m.Model.Name, Tokens: trajectory.Tokens{In: 900, Out: 30}, Try: 1, UsageReported: true})
		if turn < o.turns {
			at(turn, trajectory.ToolProposed{Args: map[string]string{"expression": "6*7"}, ArgsSHA256: digest, CallID: call, Name: "calculate"},
				trajectory.PolicyDecision{CallID: call, Decision: "allow", Mode: m.PolicyMode, PolicyHash: m.PolicyHash},
				trajectory.ToolExecuted{Bytes: bytes, CallID: call, Head: head, Name: "calculate", OutputSHA256: digest, Probes: &trajectory.Probes{}, ShownBytes: bytes, ShownSHA256: digest})
		}
		at(turn, trajectory.TurnCompleted{ToolCalls: min(1, max(o.turns-turn, 0))})
	}
	at(0, trajectory.AnswerCommitted{Answer: "42", Rule: "final-answer.v1"}, trajectory.AttemptEnded{Outcome: trajectory.Answered})
	return drafts
}
