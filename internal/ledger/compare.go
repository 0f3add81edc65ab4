package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
)

// Comparison is what compare prints with --json.
type Comparison struct {
	stats.Comparison
	A           ComparedRun `json:"a"`
	B           ComparedRun `json:"b"`
	Differences []string    `json:"differences"` // of the plans
	Rehearsal   bool        `json:"rehearsal,omitzero"`

	SignerTrusted bool `json:"signer_trusted"` // of both runs
}

// ComparedRun is one side of a comparison.
type ComparedRun struct {
	stats.Compared
	ErrorsOf        string `json:"errors_of,omitzero"` // id of the run whose errors its tasks are
	Path            string `json:"path"`
	RecordingFailed string `json:"recording_failed,omitzero"` // why, where the run went on without evidence
	GuidanceHash    string `json:"guidance_hash"`
	ManifestSHA256  string `json:"manifest_sha256"`
	Model           string `json:"model"`
	PolicyHash      string `json:"policy_hash"`
	PolicyMode      string `json:"policy_mode"`
	Rehearsal       bool   `json:"rehearsal,omitzero"`
	RunID           string `json:"run_id"`
	SignedBy        string `json:"signed_by"` // id of the key
	Started         string `json:"started"`
	Version         string `json:"version"` // of the program
}

// Compare compares two finished runs task by task; paths names them. Runs of different plans are compared only with
// differentPlans. The error that a run has no gold answers is rundir.ErrUnscored.
func Compare(runs [2]*rundir.Run, paths [2]string, differentPlans bool) (Comparison, error) {
	var tasks [2][]stats.Scored
	for i, run := range runs {
		var err error
		if tasks[i], err = run.ScoredTasks(); errors.Is(err, rundir.ErrUnscored) {
			return Comparison{}, exit.Usagef("compare runs of a split with answers", "%q: %v", paths[i], err)
		} else if err != nil {
			return Comparison{}, err
		}
	}
	if id := runs[0].Manifest.RunID; id == runs[1].Manifest.RunID {
		return Comparison{}, cmp.Or(verify.Equivocation(runs[0].Signed(), runs[1].Signed(), paths), exit.Usagef("give two runs", "both are the run %s", id))
	}
	differences, err := planDifferences(runs[0].Manifest, runs[1].Manifest)
	if err != nil {
		return Comparison{}, err
	}
	if len(differences) > 0 && !differentPlans {
		return Comparison{}, &exit.Error{Code: exit.Usage, Err: errors.New("the runs are of different plans"), Reasons: differences,
			Hints: []string{"--different-plans compares the tasks that both have"}}
	}
	c, err := stats.Compare(tasks[0], tasks[1])
	if err != nil {
		return Comparison{}, exit.New(exit.Failure, err, "'gaia show DIR' lists the tasks of a run, and 'gaia run --task' plans those that are to be compared")
	}
	return Comparison{Comparison: c, A: comparedRun(runs[0], c.A, paths[0]), B: comparedRun(runs[1], c.B, paths[1]),
		Differences: append([]string{}, differences...), Rehearsal: runs[0].Manifest.Rehearsal || runs[1].Manifest.Rehearsal}, nil
}

func comparedRun(r *rundir.Run, c stats.Compared, path string) ComparedRun {
	m := r.Manifest
	return ComparedRun{Compared: c, ErrorsOf: m.Dataset.ErrorsOf.RunID, Path: path, RecordingFailed: r.Marked, GuidanceHash: m.GuidanceHash, ManifestSHA256: r.ManifestSHA256,
		Model: m.Model.Name, PolicyHash: m.PolicyHash, PolicyMode: m.PolicyMode, Rehearsal: m.Rehearsal, RunID: m.RunID, SignedBy: r.Key.ID(),
		Started: r.Summary().Started, Version: m.Harness.Version}
}

// planDifferences returns the members in which two plans differ, but for those that differ in any two runs. Salts differ in any two: of two
// commitments to gold answers, and of two digests of a question, nothing else is known.
func planDifferences(a, b plan.Plan) ([]string, error) {
	b.RunID, b.Created, b.SigningKey, b.Harness = a.RunID, a.Created, a.SigningKey, a.Harness
	if a.Scored() == b.Scored() {
		b.GoldCommitment = a.GoldCommitment
	}
	return plan.Diff(a.Unsalted(), b.Unsalted())
}

// Text returns the comparison for people: the two runs beside each other, what their difference is worth, and each task
// that flipped.
func (c Comparison) Text() string {
	out := &strings.Builder{}
	switch {
	case c.A.Rehearsal && c.B.Rehearsal:
		out.WriteString(RehearsalHeader)
	case c.A.Rehearsal:
		out.WriteString("rehearsal: A is of " + runview.RehearsalNote + "\n\n")
	case c.B.Rehearsal:
		out.WriteString("rehearsal: B is of " + runview.RehearsalNote + "\n\n")
	}
	for i, side := range []ComparedRun{c.A, c.B} {
		if side.ErrorsOf != "" {
			fmt.Fprintf(out, "%s: of %c, %s\n\n", runview.ErrorsKey, 'A'+i, runview.ErrorsNote(side.ErrorsOf))
		}
		if side.RecordingFailed != "" {
			fmt.Fprintf(out, "recording failed: %c went on without evidence: %s\n\n", 'A'+i, view.Line(side.RecordingFailed))
		}
	}
	t := view.NewTable("", "A", "B", "B less A")
	for _, r := range [][3]string{
		{"run", c.A.RunID, c.B.RunID}, {"started", c.A.Started, c.B.Started}, {"model", c.A.Model, c.B.Model},
		{"guidance", c.A.GuidanceHash, c.B.GuidanceHash}, {"policy", c.A.PolicyMode + " " + c.A.PolicyHash, c.B.PolicyMode + " " + c.B.PolicyHash},
	} {
		differs := ""
		if r[0] != "run" && r[0] != "started" && r[1] != r[2] {
			differs = "another"
		}
		t.Row(r[0], view.Line(r[1]), view.Line(r[2]), differs)
	}
	t.Separator()
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	t.Row("solved", c.A.Solved, c.B.Solved, signed(int64(c.B.Solved-c.A.Solved), number))
	t.Row("solve rate", view.Percent(c.A.RatePPM), view.Percent(c.B.RatePPM), signedPercent(c.RatePPM))
	t.Row("cost", view.Dollars(c.A.CostMicroUSD), view.Dollars(c.B.CostMicroUSD), signedDollars(c.CostMicroUSD))
	t.Row("tokens", c.A.Tokens, c.B.Tokens, signed(c.Tokens, number))
	fmt.Fprintf(out, "%s\n\n", t)
	_ = view.Rows(out, c.Rows()) // a strings.Builder takes everything
	if len(c.Flips) > 0 {
		flips := view.NewTable("flipped", "level", "A", "B")
		for _, f := range c.Flips {
			flips.Row(f.TaskID, f.Level, f.From, f.To)
		}
		fmt.Fprintf(out, "\n%s\n", flips)
	}
	return out.String()
}

// Rows returns what the difference of two runs is worth, as names and values.
func (c Comparison) Rows() [][2]string {
	tasks := fmt.Sprintf("%d in both", c.Tasks)
	for _, other := range []struct {
		n    int
		what string
	}{{len(c.A.Only), "only in A"}, {len(c.B.Only), "only in B"}, {len(c.Other), "with another question"}} {
		if other.n > 0 {
			tasks += fmt.Sprintf(", %d %s", other.n, other.what)
		}
	}
	rows := view.List{
		{"tasks", tasks},
		{"outcomes", fmt.Sprintf("%d solved by both, %d only by A, %d only by B, %d by neither", c.Both, c.OnlyA, c.OnlyB, c.Neither)},
		{"difference", fmt.Sprintf("%s of the tasks, 95 %% interval %s to %s (bootstrap over the pairs, exact)", signedPercent(c.RatePPM), signedPercent(c.LowPPM), signedPercent(c.HighPPM))},
		{"McNemar", fmt.Sprintf("p %s (exact, two-sided, of %s)", pValue(c.PPPM), view.Count(c.OnlyA+c.OnlyB, "flipped task"))},
	}
	what := "plans"
	for _, d := range c.Differences {
		rows, what = append(rows, [2]string{what, d}), ""
	}
	if len(c.Differences) == 0 {
		rows.Add("plans", "the same")
	}
	return rows
}

// pValue writes a p-value in parts per million, which is never 0.
func pValue(ppm int64) string {
	if ppm == 0 {
		return "< 0.000001"
	}
	return fmt.Sprintf("= %d.%06d", ppm/1e6, ppm%1e6)
}

func signedPercent(ppm int64) string { return signed(ppm, view.Percent) }

func signedDollars(micro *int64) string {
	if micro == nil {
		return view.Dollars(nil)
	}
	return signed(*micro, func(n int64) string { return view.Dollars(&n) })
}

// signed writes a difference by a function for its size.
func signed(n int64, write func(int64) string) string {
	switch {
	case n < 0:
		return "-" + write(-n)
	case n > 0:
		return "+" + write(n)
	}
	return write(n)
}
