package ledger

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/gaia-harness/gaia/trajectory"
	"github.com/google/go-cmp/cmp"
)

// vectors is the folder of the bundles that another implementation wrote.
var vectors = filepath.Join("..", "..", "trajectory", "testdata", "witness")

func readVector(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(vectors, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// witnesses are the 168 bundles of the other implementation's set.
func witnesses(t testing.TB) (all []trajectory.Witness) {
	t.Helper()
	for data := readVector(t, "all.bin"); len(data) > 0; {
		if len(data) < 64 || int(binary.LittleEndian.Uint32(data[60:])) > len(data) {
			t.Fatal("the set is cut")
		}
		n := binary.LittleEndian.Uint32(data[60:])
		w, err := trajectory.ParseWitness(data[:n])
		if err != nil {
			t.Fatal(err)
		}
		all, data = append(all, w), data[n:]
	}
	return all
}

func encodeCard(t testing.TB, c Scorecard) string {
	t.Helper()
	data, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestScorecardOfAnother: over the other implementation's set the card is its own, but
// for what bundles do not tell.
func TestScorecardOfAnother(t *testing.T) {
	var tally Tally
	for _, w := range witnesses(t) {
		if err := tally.Add(WitnessCase(w)); err != nil {
			t.Fatal(err)
		}
	}
	theirs := string(readVector(t, "scorecard.json"))
	want := regexp.MustCompile(`"rollback_count":[0-9]+`).ReplaceAllString(theirs, `"rollback_count":null`)
	if got := encodeCard(t, tally.Scorecard()); got != want || want == theirs {
		t.Errorf("the card is\n%s\nand theirs\n%s", got, want)
	}
}

// cases makes a tally of cases.
func tallied(t testing.TB, cases ...Case) *Tally {
	t.Helper()
	var tally Tally
	for _, c := range cases {
		if err := tally.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	return &tally
}

func TestScorecard(t *testing.T) {
	solved := Case{Outcome: "solved", CostMicroUSD: ptr[int64](10), LatencyMs: 30, Tokens: 5, Retries: 2, Rollbacks: ptr(3), RollbacksCorrect: 2, EvidenceComplete: true}
	bare := Case{Outcome: "solved", CostMicroUSD: ptr[int64](1), LatencyMs: 10, Rollbacks: ptr(0), Violations: 4}
	unpriced := Case{Outcome: "error", Rollbacks: ptr(0), LatencyMs: 20, EvidenceComplete: true}
	untold := Case{Outcome: "unscored", CostMicroUSD: ptr[int64](0)}
	for _, tt := range []struct {
		name  string
		cases []Case
		want  string
	}{
		{"nothing", nil, `{"total_tasks":0,"solved":0,"failed":0,"skipped":0,"errors":0,"policy_violations":0,"rollback_count":0,"total_cost_microdollars":0,` +
			`"median_latency_ms":0,"p95_latency_ms":0,"total_tokens":0,"total_retries":0,"evidence_coverage":0,"cost_per_solve_microdollars":0,"solve_rate":0}`},
		{"two solved", []Case{solved, bare, {Outcome: "failed", CostMicroUSD: ptr[int64](0), Rollbacks: ptr(0)}}, `{"total_tasks":3,"solved":2,"failed":1,"skipped":0,"errors":0,` +
			`"policy_violations":4,"rollback_count":3,"total_cost_microdollars":11,"median_latency_ms":10,"p95_latency_ms":30,"total_tokens":5,"total_retries":2,` +
			`"evidence_coverage":0.5,"cost_per_solve_microdollars":5,"solve_rate":0.6666667}`},
		{"a price is unknown", []Case{solved, unpriced}, `{"total_tasks":2,"solved":1,"failed":0,"skipped":0,"errors":1,"policy_violations":0,"rollback_count":3,` +
			`"total_cost_microdollars":null,"median_latency_ms":30,"p95_latency_ms":30,"total_tokens":5,"total_retries":2,"evidence_coverage":1,` +
			`"cost_per_solve_microdollars":null,"solve_rate":0.5}`},
		{"rollbacks are not told", []Case{untold, solved, untold}, `{"total_tasks":3,"solved":1,"failed":0,"skipped":2,"errors":0,"policy_violations":0,"rollback_count":null,` +
			`"total_cost_microdollars":10,"median_latency_ms":0,"p95_latency_ms":30,"total_tokens":5,"total_retries":2,"evidence_coverage":1,` +
			`"cost_per_solve_microdollars":10,"solve_rate":0.33333334}`},
		{"none solved", []Case{untold}, `{"total_tasks":1,"solved":0,"failed":0,"skipped":1,"errors":0,"policy_violations":0,"rollback_count":null,"total_cost_microdollars":0,` +
			`"median_latency_ms":0,"p95_latency_ms":0,"total_tokens":0,"total_retries":0,"evidence_coverage":0,"cost_per_solve_microdollars":0,"solve_rate":0}`},
	} {
		got := encodeCard(t, tallied(t, tt.cases...).Scorecard())
		if diff := cmp.Diff(tt.want+"\n", got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestPercentile(t *testing.T) {
	for _, tt := range []struct{ n, p, want int }{{1, 50, 0}, {1, 95, 0}, {2, 50, 1}, {3, 50, 1}, {4, 50, 2}, {19, 95, 18}, {20, 95, 19}, {21, 95, 19}, {100, 95, 95}, {10, 100, 9}} {
		var sorted []int64
		for i := range tt.n {
			sorted = append(sorted, int64(i))
		}
		if got := percentile(sorted, tt.p); got != int64(tt.want) {
			t.Errorf("p%d of %d is element %d, want %d", tt.p, tt.n, got, tt.want)
		}
	}
}

// TestTallyRefuses: what cannot be added up changes nothing.
func TestTallyRefuses(t *testing.T) {
	good := Case{Outcome: "solved", CostMicroUSD: ptr[int64](1), LatencyMs: 1, Tokens: 1, Rollbacks: ptr(1), Retries: 1, Violations: 1}
	for name, change := range map[string]func(*Case){
		"an unknown outcome":       func(c *Case) { c.Outcome = "won" },
		"tokens below nothing":     func(c *Case) { c.Tokens = -1 },
		"tokens beyond a file":     func(c *Case) { c.Tokens = maxCounted },
		"tokens beyond a number":   func(c *Case) { c.Tokens = math.MaxInt64 },
		"cost below nothing":       func(c *Case) { c.CostMicroUSD = ptr[int64](-1) },
		"cost beyond a file":       func(c *Case) { c.CostMicroUSD = ptr[int64](maxCounted) },
		"cost beyond a number":     func(c *Case) { c.CostMicroUSD = ptr[int64](math.MaxInt64) },
		"retries below nothing":    func(c *Case) { c.Retries = -1 },
		"violations beyond":        func(c *Case) { c.Violations = math.MaxInt },
		"rollbacks below nothing":  func(c *Case) { c.Rollbacks = ptr(-1) },
		"more correct than there":  func(c *Case) { c.RollbacksCorrect = 2 },
		"less correct than none":   func(c *Case) { c.RollbacksCorrect = -1 },
		"rollbacks beyond a count": func(c *Case) { c.Rollbacks = ptr(math.MaxInt) },
	} {
		tally := tallied(t, good)
		before := tally.Scorecard()
		bad := good
		change(&bad)
		if err := tally.Add(bad); err == nil {
			t.Errorf("%s is counted", name)
		}
		if diff := cmp.Diff(before, tally.Scorecard()); diff != "" {
			t.Errorf("%s (-before +after):\n%s", name, diff)
		}
	}
}

// TestRunScorecard: the card of a run is that of its sheet.
func TestRunScorecard(t *testing.T) {
	for name, script := range map[string]struct {
		m      Manifest
		script string
	}{"worked": {plan(t, "a"), worked}, "mixed": {mixedPlan(t), mixed}, "one solved": {plan(t, "a"), oneSolved}} {
		s, run, err := ReadSheet(memory(files(t, script.m, script.script)), Options{})
		if err != nil {
			t.Fatal(err)
		}
		var tally Tally
		for _, task := range s.Tasks {
			if err := tally.Add(task.Case()); err != nil {
				t.Fatal(err)
			}
		}
		c, err := run.Scorecard()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tally.Scorecard(), c); diff != "" {
			t.Errorf("%s (-sheet +run):\n%s", name, diff)
		}
		if name == "mixed" && encodeCard(t, c) != `{"total_tasks":5,"solved":1,"failed":2,"skipped":1,"errors":1,"policy_violations":0,"rollback_count":0,"total_cost_microdollars":null,`+
			`"median_latency_ms":4,"p95_latency_ms":16,"total_tokens":142,"total_retries":1,"evidence_coverage":1,"cost_per_solve_microdollars":null,"solve_rate":0.2}`+"\n" {
			t.Errorf("the card is %s", encodeCard(t, c))
		}
	}
}

func TestAccept(t *testing.T) {
	solved := Case{Outcome: "solved", CostMicroUSD: ptr[int64](1), Rollbacks: ptr(0), EvidenceComplete: true}
	failed := Case{Outcome: "failed", CostMicroUSD: ptr[int64](1), Rollbacks: ptr(0)}
	with := func(c Case, change func(*Case)) Case {
		change(&c)
		return c
	}
	for _, tt := range []struct {
		name  string
		cases []Case
		want  Thresholds
		fails []string
	}{
		{"just enough", []Case{solved, solved, solved, failed, failed}, DefaultThresholds(), nil},
		{"too little", []Case{solved, failed}, DefaultThresholds(), []string{"solve_rate"}},
		{"nothing", nil, DefaultThresholds(), []string{"solve_rate", "evidence_coverage"}},
		{"enough for less", []Case{solved, failed}, Thresholds{SolveRate: 0.5, EvidenceCoverage: 1, RollbackCorrectness: 1}, nil},
		{"a violation", []Case{with(solved, func(c *Case) { c.Violations = 1 })}, DefaultThresholds(), []string{"policy_violations"}},
		{"a violation that is let pass", []Case{with(solved, func(c *Case) { c.Violations = 1 })}, Thresholds{SolveRate: 0.6, Violations: 1, EvidenceCoverage: 1, RollbackCorrectness: 1}, nil},
		{"evidence is missing", []Case{solved, with(solved, func(c *Case) { c.EvidenceComplete = false })}, DefaultThresholds(), []string{"evidence_coverage"}},
		{"a rollback went right", []Case{with(solved, func(c *Case) { c.Rollbacks, c.RollbacksCorrect = ptr(1), 1 })}, DefaultThresholds(), nil},
		{"a rollback went wrong", []Case{with(solved, func(c *Case) { c.Rollbacks, c.RollbacksCorrect = ptr(2), 1 })}, DefaultThresholds(), []string{"rollback_correctness"}},
		{"rollbacks are not told", []Case{solved, with(solved, func(c *Case) { c.Rollbacks = nil })}, DefaultThresholds(), []string{"rollback_correctness"}},
		{"not even where nothing is wanted", []Case{with(solved, func(c *Case) { c.Rollbacks = nil })}, Thresholds{}, []string{"rollback_correctness"}},
	} {
		got := tallied(t, tt.cases...).Accept(tt.want)
		var fails []string
		for _, c := range got.Criteria {
			if !c.Pass {
				fails = append(fails, c.Name)
			}
		}
		if diff := cmp.Diff(tt.fails, fails); diff != "" || got.Pass != (len(fails) == 0) || len(got.Criteria) != 4 {
			t.Errorf("%s: fails (-want +got):\n%s%+v", tt.name, diff, got)
		}
	}
}

// BenchmarkScorecard counts 10,000 bundles that are parsed.
func BenchmarkScorecard(b *testing.B) {
	all := witnesses(b)
	random := rand.New(rand.NewPCG(1, 2))
	cases := make([]trajectory.Witness, 10_000)
	for i := range cases {
		cases[i] = all[random.IntN(len(all))]
	}
	for b.Loop() {
		var tally Tally
		for _, w := range cases {
			if err := tally.Add(WitnessCase(w)); err != nil {
				b.Fatal(err)
			}
		}
		if tally.Scorecard().TotalTasks != len(cases) {
			b.Fatal("not all are counted")
		}
	}
}
