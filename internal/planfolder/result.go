package planfolder

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
)

// Part is what falls to one shard of a plan. Numbers that are left out have no limit.
type Part struct {
	CostMicroUSD int64 `json:"cost_microusd,omitzero"`
	RPM          int64 `json:"rpm,omitzero"`
	Shard        int   `json:"shard"`
	Tasks        int   `json:"tasks"`
	TPM          int64 `json:"tpm,omitzero"`
}

// Result is what gaia plan prints with --json.
type Result struct {
	ManifestSHA256 string   `json:"manifest_sha256"`
	Next           []string `json:"next"`
	PlanDir        string   `json:"plan_dir"`
	PrivateFile    string   `json:"private_file"`
	Rehearsal      bool     `json:"rehearsal,omitzero"`
	RunID          string   `json:"run_id"`
	Shards         []Part   `json:"shards"`
	Tasks          int      `json:"tasks"`
}

// Tasks returns how many tasks of a plan a shard has.
func Tasks(m plan.Plan, s trajectory.Shard) (n int) {
	for i := range m.Tasks {
		if plan.HasTask(s, i) {
			n++
		}
	}
	return n
}

// Result describes the folder, which the user calls dir, and what falls to each shard.
func (f *Folder) Result(dir string) Result {
	m := f.Plan
	r := Result{ManifestSHA256: f.ManifestSHA256, PlanDir: dir, PrivateFile: PrivateFile(dir), Rehearsal: m.Rehearsal, RunID: m.RunID, Tasks: len(m.Tasks)}
	for index := 1; index <= m.Shards; index++ {
		s := trajectory.Shard{Index: index, Of: m.Shards}
		r.Shards = append(r.Shards, Part{m.Part(s, m.Budgets.RunCostMicroUSD), f.Rate(s, f.RPM), index, Tasks(m, s), f.Rate(s, f.TPM)})
	}
	r.Next = []string{fmt.Sprintf("gaia run --plan %s --shard 1/%d", view.Quote(dir), m.Shards), f.MergeLine(dir, "runs")}
	return r
}

// MergeLine returns the command that makes a run of all shards that were run below out.
func (f *Folder) MergeLine(dir, out string) string {
	return "gaia merge --plan " + view.Quote(dir) + " " + view.Quote(filepath.Join(out, f.Plan.RunID)) + ".shard-* -o " + view.Quote(out)
}

// Text is the result for a person. Shards in a row with the same part share a line.
func (r Result) Text() string {
	rows := view.List{{"run", r.RunID}, {"plan", r.PlanDir}, {"salts", r.PrivateFile + ": only merging needs it; keep it from the machines that run shards"}, {"manifest", r.ManifestSHA256}}
	rows.Addf("tasks", "%d in %s", r.Tasks, view.Count(len(r.Shards), "shard"))
	for i, title := range []string{"next", "then"} {
		rows.Add(title, r.Next[i])
	}
	t := view.NewTable("shard", "tasks", "may cost", "requests/min", "tokens/min")
	for first := 0; first < len(r.Shards); {
		last, p, name := first, r.Shards[first], strconv.Itoa(first+1)
		for ; last+1 < len(r.Shards); last++ {
			next := r.Shards[last+1]
			if next.Shard = p.Shard; next != p {
				break
			}
		}
		if last > first {
			name += "–" + strconv.Itoa(last+1)
		}
		t.Row(name, p.Tasks, limit(p.CostMicroUSD, view.Dollars(&p.CostMicroUSD)), limit(p.RPM, p.RPM), limit(p.TPM, p.TPM))
		first = last + 1
	}
	return t.String() + "\n\n" + view.RowsText(rows)
}

// limit returns a limit as it is shown; 0 is none.
func limit(n int64, shown any) string {
	if n == 0 {
		return "no limit"
	}
	return fmt.Sprint(shown)
}

// ShardResult is what gaia run --plan prints of a shard with --json.
type ShardResult struct {
	Attempts       int               `json:"attempts"`
	CostMicroUSD   *int64            `json:"cost_microusd"` // null: the price of a call is unknown
	ManifestSHA256 string            `json:"manifest_sha256"`
	Next           string            `json:"next"`
	Rehearsal      bool              `json:"rehearsal,omitzero"`
	RunDir         string            `json:"run_dir"`
	RunID          string            `json:"run_id"`
	Shard          int               `json:"shard"`
	Shards         int               `json:"shards"`
	Skipped        int               `json:"skipped"` // tasks that were not begun, since the money of the shard was spent
	Tasks          int               `json:"tasks"`
	Tokens         trajectory.Tokens `json:"tokens"`
	Unsubmittable  string            `json:"unsubmittable,omitzero"`
}

// ShardResult describes a shard in the folder dir of the plan folder that the user calls planDir. why is why the run cannot
// be submitted, "" if no reason is known.
func (f *Folder) ShardResult(dir, planDir string, found *rundir.Run, why string) ShardResult {
	s := found.Shard.Shard
	r := ShardResult{CostMicroUSD: new(int64), ManifestSHA256: found.ManifestSHA256, Next: f.MergeLine(planDir, filepath.Dir(dir)), Rehearsal: f.Plan.Rehearsal,
		RunDir: dir, RunID: f.Plan.RunID, Shard: s.Index, Shards: s.Of, Tasks: len(found.Tasks), Unsubmittable: why}
	if before := found.Preflight(); before != nil {
		r.CostMicroUSD = stats.AddCost(r.CostMicroUSD, before.CostMicroUSD)
	}
	for _, t := range found.Tasks {
		if t.Committed != nil && len(t.Attempts) == 0 {
			r.Skipped++
		}
		r.Attempts += len(t.Attempts)
		for _, a := range t.Attempts {
			r.CostMicroUSD, r.Tokens = stats.AddCost(r.CostMicroUSD, a.CostMicroUSD), r.Tokens.Add(a.Tokens)
		}
	}
	return r
}

// Text is the result for a person.
func (r ShardResult) Text() string {
	var rows view.List
	if r.Rehearsal {
		rows.Add("rehearsal", "built-in tasks and a scripted model; not a GAIA score")
	}
	rows.Addf("shard", "%d of %d of run %s", r.Shard, r.Shards, r.RunID)
	rows.Addf("tasks", "%d, with %s; merging grades them", r.Tasks, view.Count(r.Attempts, "attempt"))
	if r.Skipped > 0 {
		rows.Addf("skipped", "%s: the money of the shard was spent", view.Count(r.Skipped, "task"))
	}
	rows.Addf("tokens", "%d in (%d cached), %d out", r.Tokens.In, r.Tokens.Cached, r.Tokens.Out)
	rows.Add("cost", view.Dollars(r.CostMicroUSD))
	rows.AddNonEmpty("unsubmittable", r.Unsubmittable)
	rows.Add("folder", r.RunDir)
	rows.Add("next", "when all shards are done: "+r.Next)
	return view.RowsText(rows)
}
