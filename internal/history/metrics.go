package history

import (
	"cmp"
	"maps"
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
