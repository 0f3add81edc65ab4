package history

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
)

// statsAt is the stats of a run, its tasks written as "a solved" or "b failed ?" for a price that is
// unknown; each costs 1000 and takes 100 tokens and one retry.
func statsAt(id, started string, tasks ...string) rundir.RunStats {
	s := rundir.RunStats{Dataset: plan.Dataset{CarriedGold: true}, GuidanceHash: "g1", Model: "m", RunID: id, Started: started + "T12:00:00.000Z"}
	for _, line := range tasks {
		words := strings.Fields(line)
		cost := int64(1000)
		t := rundir.TaskStats{CostMicroUSD: &cost, Level: 2, Outcome: words[1], Retries: 1, TaskID: words[0], Tokens: 100}
		if len(words) > 2 {
			t.CostMicroUSD = nil
		}
		s.Tasks = append(s.Tasks, t)
	}
	return s
}

// shownBuckets writes buckets as lines.
func shownBuckets(buckets []TrendBucket) []string {
	var out []string
	for _, b := range buckets {
		number := func(n *int64) string {
			if n == nil {
				return "-"
			}
			return fmt.Sprint(*n)
		}
		line := fmt.Sprintf("%s from %s: runs %d, tasks %d, unscored %d, solved %d, retries %d, cost %s, tokens %s, %v %v", b.Name, b.Start, b.Runs, b.Tasks, b.Unscored, b.Solved,
			b.Retries, number(b.CostPerSolveMicroUSD), number(b.TokensPerSolve), b.GuidanceHashes, b.Models)
		if b.GuidanceChanged {
			line += " changed"
		}
		if b.PolicyChanged {
			line += fmt.Sprintf(" policy changed %v", b.PolicyHashes)
		}
		if b.Rehearsal {
			line += " rehearsal"
		}
		for _, r := range b.Regressions {
			line += fmt.Sprintf("; %s of level %d %s in %s, solved in %s", r.TaskID, r.Level, r.Outcome, r.RunID, r.Before)
		}
		out = append(out, line)
	}
	return out
}

func TestTrend(t *testing.T) {
	with := func(s rundir.RunStats, change func(*rundir.RunStats)) rundir.RunStats { change(&s); return s }
	for _, c := range []struct {
		name, by string
		runs     []rundir.RunStats
		want     []string
	}{
		{"nothing", ByDay, nil, nil},
		{"days", ByDay, []rundir.RunStats{statsAt("r1", "2031-02-03", "a solved", "b failed", "c solved"), statsAt("r2", "2031-02-03", "a solved"), statsAt("r3", "2031-02-05", "b failed")}, []string{
			"2031-02-03 from 2031-02-03: runs 2, tasks 4, unscored 0, solved 3, retries 4, cost 1333, tokens 133, [g1] [m]",
			"2031-02-05 from 2031-02-05: runs 1, tasks 1, unscored 0, solved 0, retries 1, cost -, tokens -, [g1] [m]"}},
		{"weeks begin on Monday, and the year is the week's", ByWeek, []rundir.RunStats{statsAt("r1", "2026-12-27"), statsAt("r2", "2026-12-28"), statsAt("r3", "2027-01-03"), statsAt("r4", "2027-01-04")}, []string{
			"2026-W52 from 2026-12-21: runs 1, tasks 0, unscored 0, solved 0, retries 0, cost -, tokens -, [g1] [m]",
			"2026-W53 from 2026-12-28: runs 2, tasks 0, unscored 0, solved 0, retries 0, cost -, tokens -, [g1] [m]",
			"2027-W01 from 2027-01-04: runs 1, tasks 0, unscored 0, solved 0, retries 0, cost -, tokens -, [g1] [m]"}},
		{"an unknown price", ByDay, []rundir.RunStats{statsAt("r1", "2031-02-03", "a solved", "b failed ?")}, []string{
			"2031-02-03 from 2031-02-03: runs 1, tasks 2, unscored 0, solved 1, retries 2, cost -, tokens 200, [g1] [m]"}},
		{"solved before, not now, whatever became of it", ByDay, []rundir.RunStats{
			statsAt("r1", "2031-02-03", "a solved", "b solved", "c solved", "d solved", "e failed"),
			statsAt("r2", "2031-02-04", "d solved"),
			statsAt("r3", "2031-02-05", "a failed", "b skipped", "c error", "d failed", "e failed"),
			statsAt("r4", "2031-02-06", "a failed", "b solved"),
			statsAt("r5", "2031-02-06", "a failed", "b failed")}, []string{
			"2031-02-03 from 2031-02-03: runs 1, tasks 5, unscored 0, solved 4, retries 5, cost 1250, tokens 125, [g1] [m]",
			"2031-02-04 from 2031-02-04: runs 1, tasks 1, unscored 0, solved 1, retries 1, cost 1000, tokens 100, [g1] [m]",
			"2031-02-05 from 2031-02-05: runs 1, tasks 5, unscored 0, solved 0, retries 5, cost -, tokens -, [g1] [m]" +
				"; a of level 2 failed in r3, solved in r1; b of level 2 skipped in r3, solved in r1; c of level 2 error in r3, solved in r1; d of level 2 failed in r3, solved in r2",
			"2031-02-06 from 2031-02-06: runs 2, tasks 4, unscored 0, solved 1, retries 4, cost 4000, tokens 400, [g1] [m]; b of level 2 failed in r5, solved in r4"}},
		{"a run without gold says nothing of a task", ByDay, []rundir.RunStats{
			statsAt("r1", "2031-02-03", "a solved", "b solved"), statsAt("r2", "2031-02-03", "a unscored", "b skipped"),
			with(statsAt("r3", "2031-02-03", "a skipped"), func(s *rundir.RunStats) { s.Dataset.CarriedGold = false }), statsAt("r4", "2031-02-03", "a failed")}, []string{
			"2031-02-03 from 2031-02-03: runs 4, tasks 6, unscored 3, solved 2, retries 6, cost 1500, tokens 150, [g1] [m]; a of level 2 failed in r4, solved in r1"}},
		{"guidance and models", ByDay, []rundir.RunStats{
			statsAt("r1", "2031-02-03"), with(statsAt("r2", "2031-02-04"), func(s *rundir.RunStats) { s.Model = "n" }),
			with(statsAt("r3", "2031-02-04"), func(s *rundir.RunStats) { s.Events = []rundir.RunEvent{{GuidanceHash: "g1"}, {GuidanceHash: "g2"}} }),
			with(statsAt("r4", "2031-02-05"), func(s *rundir.RunStats) { s.GuidanceHash = "g2" })}, []string{
			"2031-02-03 from 2031-02-03: runs 1, tasks 0, unscored 0, solved 0, retries 0, cost -, tokens -, [g1] [m]",
			"2031-02-04 from 2031-02-04: runs 2, tasks 0, unscored 0, solved 0, retries 0, cost -, tokens -, [g1 g2] [n m] changed",
			"2031-02-05 from 2031-02-05: runs 1, tasks 0, unscored 0, solved 0, retries 0, cost -, tokens -, [g2] [m]"}},
		{"policies", ByDay, []rundir.RunStats{
			with(statsAt("r1", "2031-02-03"), func(s *rundir.RunStats) { s.PolicyHash = "p1" }),
			with(statsAt("r2", "2031-02-04"), func(s *rundir.RunStats) { s.PolicyHash = "p2" }), with(statsAt("r3", "2031-02-05"), func(s *rundir.RunStats) { s.PolicyHash = "p2" })}, []string{
			"2031-02-03 from 2031-02-03: runs 1, tasks 0, unscored 0, solved 0, retries 0, cost -, tokens -, [g1] [m]",
			"2031-02-04 from 2031-02-04: runs 1, tasks 0, unscored 0, solved 0, retries 0, cost -, tokens -, [g1] [m] policy changed [p2]",
			"2031-02-05 from 2031-02-05: runs 1, tasks 0, unscored 0, solved 0, retries 0, cost -, tokens -, [g1] [m]"}},
		{"rehearsals are no scores", ByDay, []rundir.RunStats{
			with(statsAt("r1", "2031-02-03", "a solved"), func(s *rundir.RunStats) { s.Rehearsal, s.GuidanceHash = true, "g0" }), statsAt("r2", "2031-02-03", "a failed"),
			with(statsAt("r3", "2031-02-03", "a failed"), func(s *rundir.RunStats) { s.Rehearsal, s.GuidanceHash = true, "g0" })}, []string{
			"2031-02-03 from 2031-02-03: runs 1, tasks 1, unscored 0, solved 0, retries 1, cost -, tokens -, [g1] [m]",
			"2031-02-03 from 2031-02-03: runs 2, tasks 2, unscored 0, solved 1, retries 2, cost 2000, tokens 200, [g0] [m] rehearsal; a of level 2 failed in r3, solved in r1"}},
	} {
		trend := Trend{By: c.by}
		for _, s := range c.runs {
			if err := trend.Add(s); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		got := shownBuckets(trend.Buckets())
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.name, strings.Join(got, "\n     "), strings.Join(c.want, "\n     "))
		}
		if again := trend.Buckets(); !reflect.DeepEqual(shownBuckets(again), got) {
			t.Errorf("%s: the second time the buckets are other", c.name)
		}
	}
}

func TestTrendRefusals(t *testing.T) {
	endless := statsAt("r2", "2031-02-03", "a solved", "b solved")
	endless.Tasks[0].Tokens, endless.Tasks[1].Tokens = math.MaxInt64, 1
	bad := statsAt("r2", "2031-02-03")
	bad.Started = "yesterday"
	for _, c := range []struct {
		by   string
		then rundir.RunStats
		want string
	}{
		{ByDay, statsAt("r2", "2031-02-02"), "in the order in which they began"},
		{ByDay, bad, `began at "yesterday"`},
		{ByDay, endless, "too many to be added up"},
		{"month", statsAt("r2", "2031-02-03"), `by day or week, not "month"`},
	} {
		trend := Trend{By: c.by, last: "2031-02-03"}
		if err := trend.Add(c.then); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.want, err)
		}
	}
}

func BenchmarkTrend(b *testing.B) {
	stats := make([]rundir.RunStats, 100)
	for i := range stats {
		stats[i] = statsAt(fmt.Sprint("run", i), fmt.Sprintf("2031-%02d-%02d", 1+i/28, 1+i%28))
		for n := range 466 {
			outcome := trajectory.Solved
			if (n+i)%7 == 0 {
				outcome = trajectory.Failed
			}
			stats[i].Tasks = append(stats[i].Tasks, rundir.TaskStats{CostMicroUSD: new(int64), Outcome: outcome, TaskID: fmt.Sprint("task", n)})
			stats[i].Events = append(stats[i].Events, rundir.RunEvent{GuidanceHash: "g1"})
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		trend := Trend{By: ByDay}
		for _, s := range stats {
			if err := trend.Add(s); err != nil {
				b.Fatal(err)
			}
		}
		trend.Buckets()
	}
}
