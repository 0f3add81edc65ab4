package history

import (
	"cmp"
	"maps"
	"math/big"
	"slices"

	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/stats"
)

// Metrics say of attempts how often they broke rules, and what became of that.
// Rates are 32-bit floats, one division each.
type Metrics struct {
	Attempts             int      `json:"attempts"`
	ReworkLines          int64    `json:"rework_lines"`
	SelfCorrected        int      `json:"self_corrected"`          // violations whose attempt came to an accepted answer
	SelfCorrectionRate   *float32 `json:"self_correction_rate"`    // of the violations; null: there are none
	Tasks                int      `json:"tasks"`                   // of runs: the same task of two runs is two
	Violations           int      `json:"violations"`              // of rules and of the deny list
	ViolationsPer10Tasks *float32 `json:"violations_per_10_tasks"` // null: there are no tasks
}

// GuidanceMetrics are the metrics of the attempts that were made under one guidance
// and policy.
type GuidanceMetrics struct {
	First        string `json:"first"` // when the first of them ended
	GuidanceHash string `json:"guidance_hash"`
	Mode         string `json:"mode"` // of the policy
	PolicyHash   string `json:"policy_hash"`
	Metrics
}

// Meter takes metrics, of all attempts and by guidance and policy. It holds no events, only
// the ids of tasks until EndRun. The zero value is ready to use.
type Meter struct {
	all       metered
	guidances map[governance]*metered
}

// governance is what attempts are grouped by.
type governance struct{ guidance, policy, mode string }

// metered is what was counted so far.
type metered struct {
	Metrics
	first string             // the least id of an event
	when  string             // and its time
	tasks map[[2]string]bool // run and task, of runs that have not ended
}

// Add counts an attempt.
func (t *Meter) Add(e rundir.RunEvent) {
	if t.guidances == nil {
		t.guidances = map[governance]*metered{}
	}
	under := governance{e.GuidanceHash, e.PolicyHash, e.Mode}
	of := t.guidances[under]
	if of == nil {
		of = &metered{}
		t.guidances[under] = of
	}
	of.add(e)
	t.all.add(e)
}

func (t *metered) add(e rundir.RunEvent) {
	if t.tasks == nil {
		t.tasks = map[[2]string]bool{}
	}
	if t.first == "" || e.ID < t.first {
		t.first, t.when = e.ID, e.Timestamp
	}
	t.tasks[[2]string{e.RunID, e.TaskID}] = true
	t.Attempts++
	t.ReworkLines += int64(e.ReworkLines)
	t.Violations += e.Denials.Violations()
	if e.OutcomeAccepted != nil && *e.OutcomeAccepted {
		t.SelfCorrected += e.Denials.Violations()
	}
}

// EndRun says that no further event of the runs so far comes: their tasks need not
// be told apart any longer.
func (t *Meter) EndRun() {
	t.all.end()
	for _, of := range t.guidances {
		of.end()
	}
}

func (t *metered) end() {
	t.Tasks += len(t.tasks)
	clear(t.tasks)
}

// Metrics returns what was counted, of all attempts and by guidance and policy in the
// order of their first use.
func (t *Meter) Metrics() (all Metrics, guidances []GuidanceMetrics) {
	t.EndRun()
	guidances = []GuidanceMetrics{}
	order := slices.SortedFunc(maps.Keys(t.guidances), func(a, b governance) int {
		return cmp.Or(cmp.Compare(t.guidances[a].first, t.guidances[b].first), cmp.Compare(a.guidance, b.guidance), cmp.Compare(a.policy, b.policy), cmp.Compare(a.mode, b.mode))
	})
	for _, under := range order {
		of := t.guidances[under]
		guidances = append(guidances, GuidanceMetrics{First: of.when, GuidanceHash: under.guidance, Mode: under.mode, PolicyHash: under.policy, Metrics: of.rates()})
	}
	return t.all.rates(), guidances
}

func (t *metered) rates() Metrics {
	m := t.Metrics
	if m.Violations > 0 {
		m.SelfCorrectionRate = new(stats.Share(m.SelfCorrected, m.Violations))
	}
	if m.Tasks > 0 {
		m.ViolationsPer10Tasks = new(stats.Share(10*m.Violations, m.Tasks))
	}
	return m
}

// RankedRule says of a rule how often it was broken, and how much work was done again
// in the attempts that broke it.
type RankedRule struct {
	Attempts   int     `json:"attempts"`    // that broke it
	Frequency  int     `json:"frequency"`   // violations
	MeanRework float32 `json:"mean_rework"` // lines reworked, of those attempts
	RuleID     string  `json:"rule_id"`
	Score      float32 `json:"score"` // Frequency × MeanRework
	Severity   string  `json:"severity"`

	rework int64 // lines, of those attempts
}

// Ranking ranks rules by what breaking them cost. It holds no event: its size is
// that of the number of rules. The zero value is ready to use.
type Ranking struct{ rules map[string]*RankedRule }

// Add counts the violations of an attempt.
func (r *Ranking) Add(e rundir.RunEvent) {
	if r.rules == nil {
		r.rules = map[string]*RankedRule{}
	}
	for i, v := range e.Violations {
		if v.RuleID == "" {
			continue
		}
		rule := r.rules[v.RuleID]
		if rule == nil {
			rule = &RankedRule{RuleID: v.RuleID, Severity: v.Severity}
			r.rules[v.RuleID] = rule
		}
		rule.Frequency++
		if !slices.ContainsFunc(e.Violations[:i], func(before rundir.Violation) bool { return before.RuleID == v.RuleID }) {
			rule.Attempts++
			rule.rework += int64(e.ReworkLines)
		}
	}
}

// Rules returns the rules that were broken: those first whose score is higher, of
// equal ones those that were broken more often, of equal ones by id. Scores are
// compared as the fractions that they are.
func (r *Ranking) Rules() []RankedRule {
	ranked := []RankedRule{}
	for _, rule := range r.rules {
		rule := *rule
		rule.MeanRework = float32(rule.rework) / float32(rule.Attempts)
		rule.Score, _ = rule.score().Float32()
		ranked = append(ranked, rule)
	}
	slices.SortFunc(ranked, func(a, b RankedRule) int {
		return cmp.Or(b.score().Cmp(a.score()), cmp.Compare(b.Frequency, a.Frequency), cmp.Compare(a.RuleID, b.RuleID))
	})
	return ranked
}

// score is Frequency × rework ÷ Attempts.
func (r RankedRule) score() *big.Rat {
	sum := new(big.Int).Mul(big.NewInt(int64(r.Frequency)), big.NewInt(r.rework))
	return new(big.Rat).SetFrac(sum, big.NewInt(int64(r.Attempts)))
}
