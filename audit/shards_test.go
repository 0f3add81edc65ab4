package audit

import (
	"testing"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestCheckShards: what is found of who merged, and of workers.
func TestCheckShards(t *testing.T) {
	own := trajectory.Harness{Commit: "0a1b", ExecutableSHA256: "sha256:aa", Version: "v1.0.0"}
	arm, newer := own, own
	arm.ExecutableSHA256, newer.Version = "sha256:bb", "v1.1.0"
	unknown := trajectory.Harness{ExecutableSHA256: "sha256:aa", Version: trajectory.Devel}
	another := unknown
	another.ExecutableSHA256 = "sha256:bb"
	worker := trajectory.Shard{Index: 2, Key: "k"}
	tests := []struct {
		name    string
		merged  trajectory.ShardMerged
		shard   trajectory.Harness
		merger  trajectory.Harness
		planned int
		want    []string
		plan    trajectory.Harness
	}{
		{"as planned", trajectory.ShardMerged{Shard: worker}, own, own, 20, nil, own},
		{"machines of another kind", trajectory.ShardMerged{Shard: worker}, arm, arm, 20, nil, own},
		{"another version merged", trajectory.ShardMerged{Shard: worker}, own, newer, 20, []string{"merged-by-another-version"}, own},
		{"one program of no version", trajectory.ShardMerged{Shard: worker}, unknown, unknown, 20, nil, unknown},
		{"another program of no version merged", trajectory.ShardMerged{Shard: worker}, unknown, another, 20, []string{"merged-by-another-version"}, unknown},
		{"tasks of a worker were made again", trajectory.ShardMerged{Shard: worker, Lost: 9}, own, own, 20, []string{"tasks-made-again"}, own},
		{"a shard of 1 in 20 is gone", trajectory.ShardMerged{Shard: trajectory.Shard{Index: 1, Of: 2}, Lost: 1}, own, own, 20, []string{"shard-lost"}, own},
		{"a shard of more is gone", trajectory.ShardMerged{Shard: trajectory.Shard{Index: 1, Of: 2}, Lost: 1}, own, own, 19, []string{"shard-lost", "shards-lost"}, own},
	}
	for _, tt := range tests {
		e := &evidence{Manifest: plan.Plan{Harness: tt.plan, Tasks: make([]plan.PlannedTask, tt.planned)}, Shards: &rundir.Shards{Shards: []rundir.ShardFile{{ShardMerged: tt.merged}}},
			Journals: []*journalFact{{Started: trajectory.RunStarted{Harness: tt.shard, Shard: worker}}, {Began: 9, Started: trajectory.RunStarted{Harness: tt.merger}}}}
		n := newNotes(votingDisclosure)
		checkShards(e, n)
		var got []string
		for _, f := range n.findings {
			got = append(got, f.RuleID[len("AUD-6."):])
		}
		if len(got) != len(tt.want) {
			t.Fatalf("%s: %v, want %v", tt.name, got, tt.want)
		}
		for i := range got {
			if got[i] != tt.want[i] {
				t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
			}
		}
	}
}

// TestShardBudget: a shard is held to its part of the money of the run, a worker to all of it.
func TestShardBudget(t *testing.T) {
	cost := int64(30)
	for name, tt := range map[string]struct {
		shard trajectory.Shard
		want  int64
	}{
		"the run": {trajectory.Shard{}, 0}, "a worker": {trajectory.Shard{Index: 3, Key: "k"}, 0},
		"a shard of 4": {trajectory.Shard{Index: 1, Key: "k", Of: 4}, 1},
	} {
		g := newGatherer(plan.Plan{Budgets: plan.Budgets{RunCostMicroUSD: 100}, Shards: 4, Tasks: make([]plan.PlannedTask, 8)}, nil)
		g.begin(trajectory.Event{}, trajectory.RunStarted{Shard: tt.shard})
		for seq := range int64(3) {
			g.spend(trajectory.Event{Seq: seq + 1, Payload: trajectory.ModelCallCompleted{CostMicroUSD: &cost, OutputSHA256: "sha256:"}})
		}
		if got := g.e.Journals[0].Spent; got != tt.want {
			t.Errorf("%s: spent in line %d, want %d", name, got, tt.want)
		}
	}
}

// TestSupersede: what was asked for attempts that do not count was paid for.
func TestSupersede(t *testing.T) {
	reply := trajectory.ModelCallCompleted{OutputSHA256: "sha256:", RequestID: "a", Tokens: trajectory.Tokens{In: 9000, Out: 10}, UsageReported: true}
	seen := trajectory.ToolExecuted{Model: &trajectory.ModelUse{RequestID: "b", Tokens: trajectory.Tokens{In: 8000}, Tries: 1, UsageReported: true}}
	for _, superseded := range []bool{true, false} {
		g := newGatherer(plan.Plan{}, nil)
		g.begin(trajectory.Event{}, trajectory.RunStarted{})
		if superseded {
			g.supersede(trajectory.Event{Seq: 1, Payload: reply})
			g.supersede(trajectory.Event{Seq: 2, Payload: seen})
		}
		g.e.Usage = &UsageExport{Requests: []ExportedRequest{{IDs: []string{"a"}, In: 9000, Out: 10}, {IDs: []string{"b"}, In: 8000}}}
		n := newNotes(usageReconciliation)
		usageReconciliation.run(g.e, n)
		if got := len(n.findings) + len(n.gaps); (got == 0) != superseded {
			t.Errorf("superseded %v: %+v %v", superseded, n.findings, n.gaps)
		}
	}
}
