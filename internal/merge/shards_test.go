package merge

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/planfolder"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
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
	key := runs.Key()
	m.SigningKey = key.Public().Line()
	manifest, err := m.Encode()
	check(t, err)
	envelope, err := sign.Seal(key, plan.ManifestType, manifest)
	check(t, err)
	return &site{t, t.TempDir(), key, &planfolder.Folder{Dir: "plan", Plan: m, Manifest: manifest, Envelope: envelope,
		ManifestSHA256: canonical.Digest(manifest), EnvelopeSHA256: canonical.Digest(envelope), Key: key.Public()}}
}

// told is what a shard's journal is made of, and how it is delegated.
type told struct {
	runs.Told
	delegate *sign.Key // signs the delegation; nil: the key of the plan
	worker   bool      // it is the folder of a worker
}

// shard writes the folder of a shard and returns its path.
func (s *site) shard(name string, index int, o told) string {
	s.Helper()
	dir, f, key, by := filepath.Join(s.dir, name), s.folder, runs.ShardKey(index), &s.key
	place := trajectory.Shard{Index: index, Key: key.Public().Line(), Of: f.Plan.Shards}
	if o.worker {
		place.Of, o.Undone = 0, 0
	}
	if o.delegate != nil {
		by = o.delegate
	}
	d := f.Plan.NewDelegation(f.ManifestSHA256, place)
	envelope, err := d.Sign(*by)
	check(s, err)
	for _, t := range f.Plan.Tasks {
		o.Questions = append(o.Questions, question(t.TaskID))
	}
	check(s, runs.WriteShard(dir, f.Plan, f.Manifest, f.Envelope, d, envelope, key, o.Told))
	return dir
}
