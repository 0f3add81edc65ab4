package audit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
)

// RejudgmentType is the DSSE payload type of a later judgment.
const RejudgmentType = "application/vnd.gaia-harness.rejudgment+json"

const rejudgmentSchema = "gaia.rejudgment/1"

// Rejudgment is what another judge said about the answers of a finished run: the payload of an envelope that the
// key of the run's plan signs. It changes nothing of the run. It holds no gold answer, no digest of one and no text
// of the judge.
type Rejudgment struct {
	About
	Battery  *trajectory.JudgeBattery `json:"battery"` // null: no answer was short enough for a judge
	Judge    plan.JudgePlan           `json:"judge"`
	Totals   rundir.JudgeSummary      `json:"totals"`
	Verdicts []LaterVerdict           `json:"verdicts"` // on each answer of Rejudged, in its order
}

// LaterVerdict is the verdict on the answer of one attempt.
type LaterVerdict struct {
	Attempt  int                 `json:"attempt"`
	Judgment trajectory.Judgment `json:"judgment"`
	TaskID   string              `json:"task_id"`
}

// SealedRejudgment is a later judgment with the digest of its envelope.
type SealedRejudgment struct {
	Rejudgment
	SHA256 string
}

// NewRejudgment returns what a judge said about the answers of a finished run, with its totals.
func NewRejudgment(run *VerifiedRun, plan JudgePlan, b *trajectory.JudgeBattery, verdicts []LaterVerdict, created string) Rejudgment {
	r := Rejudgment{About: about(run, rejudgmentSchema, created), Battery: b, Judge: plan, Verdicts: verdicts}
	r.Totals = r.totals()
	return r
}

func (r Rejudgment) totals() rundir.JudgeSummary {
	all := make([]trajectory.Judgment, len(r.Verdicts))
	for i, v := range r.Verdicts {
		all[i] = v.Judgment
	}
	return rundir.CountJudgments(r.Judge.Model, r.Battery, all)
}

// RejudgmentFile returns the name of the file in a run directory that holds what a judge said: one for each model,
// place, prompt and null battery.
func RejudgmentFile(plan JudgePlan) string {
	plan.Cache = false // which is not of the judge
	id, err := canonical.Encode(plan)
	if err != nil {
		id = nil // a name that is no UTF-8, which cannot be sealed
	}
	return path.Join(AttestationsDir, rejudgmentPrefix+canonical.Digest(id)[len("sha256:"):][:16]+attestationSuffix)
}

// Judgments returns how many judgments a run has: its own, if it has a judge and gold answers, and the later ones.
func Judgments(m Plan, later int) int {
	if m.Judge != nil && m.Scored() {
		return later + 1
	}
	return later
}

// SameJudge reports whether a judge is the one of the run's plan.
func SameJudge(plan JudgePlan, m Plan) bool {
	return m.Judge != nil && RejudgmentFile(plan) == RejudgmentFile(*m.Judge)
}

// Rejudged returns the answers that another judge is asked about, in plan order and by attempt: those that the
// run's own judge would have been asked about. An answer was graded, not credited by the official scorer, and says
// something.
func Rejudged(run *VerifiedRun) (tasks []*rundir.Task, attempts []*rundir.Attempt) {
	for _, t := range run.Tasks {
		for _, a := range t.Attempts {
			if a.Answer != nil && a.Judgment != nil && !a.Judgment.Official && !judge.Blank(a.Answer.Answer) {
				tasks, attempts = append(tasks, t), append(attempts, a)
			}
		}
	}
	return tasks, attempts
}

// Seal returns the envelope.
func (r Rejudgment) Seal(key Key) ([]byte, error) {
	return seal(key, RejudgmentType, r)
}

// Score returns how many of the planned tasks count as correct by this judge: an official yes, or a yes of the
// judge on the answer that counts; nil where none of its verdicts counts.
func (r Rejudgment) Score(run *VerifiedRun) *Rate {
	if !r.Totals.Counts() || r.Battery == nil {
		return nil
	}
	yes := map[string]map[int]bool{}
	for _, v := range r.Verdicts {
		if v.Judgment.Judged != nil && *v.Judgment.Judged {
			if yes[v.TaskID] == nil {
				yes[v.TaskID] = map[int]bool{}
			}
			yes[v.TaskID][v.Attempt] = true
		}
	}
	correct := 0
	for _, t := range run.Tasks {
		if a := t.Counted(); a != nil && a.Judgment != nil && (a.Judgment.Official || yes[t.Plan.TaskID][a.Number]) {
			correct++
		}
	}
	return new(stats.NewRate(correct, len(run.Tasks)))
}

// check returns an error if a later judgment does not fit the run or itself.
func (r Rejudgment) check(run *rundir.Run) error {
	if err := r.About.check(run, rejudgmentSchema); err != nil {
		return err
	}
	if why := r.invalid(run); why != "" {
		return errors.New(why)
	}
	return nil
}

func (r Rejudgment) invalid(run *rundir.Run) string {
	switch j := r.Judge; {
	case !isName(j.Model) || !isName(j.Origin) || !isName(j.Prompt):
		return "names no judge, place and prompt, each on one line"
	case !canonical.IsDigest(j.PromptSHA256) || !canonical.IsDigest(j.Battery) || j.Endpoint != "" && !canonical.IsDigest(j.Endpoint):
		return "has a prompt, a null battery or an endpoint without a digest"
	case SameJudge(j, run.Manifest):
		return "is of the run's own judge, whose first judgment stays the run's"
	}
	tasks, attempts := Rejudged(run)
	if len(r.Verdicts) != len(attempts) {
		return fmt.Sprintf("has %d verdicts; %d answers of the run are for a judge", len(r.Verdicts), len(attempts))
	}
	if len(attempts) == 0 {
		return "has no verdict"
	}
	if r.Battery != nil {
		if why := r.invalidBattery(); why != "" {
			return why
		}
	}
	for i, v := range r.Verdicts {
		if v.TaskID != tasks[i].Plan.TaskID || v.Attempt != attempts[i].Number {
			return fmt.Sprintf("has a verdict on attempt %d at task %q in the place of attempt %d at task %q", v.Attempt, v.TaskID, attempts[i].Number, tasks[i].Plan.TaskID)
		}
		if why := r.invalidVerdict(v.Judgment); why != "" {
			return fmt.Sprintf("has a verdict on task %q that %s", v.TaskID, why)
		}
	}
	said, err := canonical.Encode(r.Totals)
	given, failed := canonical.Encode(r.totals())
	if err != nil || failed != nil || !bytes.Equal(said, given) {
		return "has totals that its verdicts do not give"
	}
	return ""
}

// invalidBattery says what is wrong with the null battery, "" if nothing is. One that could not be asked in full
// leaves a later judgment only where the judge had accepted an item.
func (r Rejudgment) invalidBattery() string {
	b := *r.Battery
	if why := r.Judge.Refuses(b); why != "" {
		return why
	}
	known := map[string]bool{}
	for _, n := range judge.Battery() {
		known[n.Name] = true
	}
	for _, list := range [][]string{b.Accepted, b.Refused, b.Unreadable} {
		for _, name := range list {
			if !isName(name) || r.Judge.Battery == judge.BatteryDigest() && !known[name] {
				return fmt.Sprintf("names %q, which is no item of its null battery", name)
			}
		}
	}
	switch {
	case b.Problem != "" && (len(b.Accepted) == 0 || !slices.Contains(judge.Problems(), b.Problem)):
		return "is of a judge that was not asked the whole null battery"
	case !plausible(b.TokensIn, b.TokensOut, b.LatencyMs, b.CostMicroUSD):
		return "counts what no null battery takes"
	}
	return ""
}

// invalidVerdict says what is wrong with one verdict, "" if nothing is.
func (r Rejudgment) invalidVerdict(j trajectory.Judgment) string {
	passed, asked := r.Battery != nil && r.Battery.Passed, j.Tries > 0
	spoke := asked || j.Cached
	switch {
	case !consistent(j, &r.Judge) || j.Path == judge.PathNoJudge || j.Path == judge.PathNoAnswer || j.Official:
		return "does not go with its path " + j.Path
	case j.Cached && !r.Judge.Cache:
		return "comes from a cache that was not used"
	case j.Path == judge.PathError && !asked, j.Tries < 0 || j.Tries > mostAsked:
		return "the judge was not asked for, or too often"
	case spoke && !passed:
		return "is of a judge that did not pass its self-test"
	case j.Path == judge.PathWithheld && (passed || r.Battery == nil):
		return "was withheld from a judge that passed its self-test"
	case spoke && (j.Model != r.Judge.Model || j.Prompt != r.Judge.Prompt), !spoke && (j.Model != "" || j.Prompt != ""):
		return "is of another judge or prompt"
	case !asked && (j.TokensIn != 0 || j.TokensOut != 0 || j.LatencyMs != 0 || j.CostMicroUSD == nil || *j.CostMicroUSD != 0 || j.RequestID != "" || j.ResponseModel != ""):
		return "took something although the judge was not asked"
	case j.ErrorStatus != 0 && j.Path != judge.PathError || j.ErrorStatus < 0 || j.ErrorStatus > 599:
		return "has a status of an error that there was not"
	case !plausible(j.TokensIn, j.TokensOut, j.LatencyMs, j.CostMicroUSD):
		return "counts what no verdict takes"
	case j.RequestID != "" && !isName(j.RequestID) || j.ResponseModel != "" && !isName(j.ResponseModel):
		return "has a request id or a model that is not one line of text"
	}
	return ""
}

// plausible reports whether counts are of what one verdict, or a null battery, takes, so that the sum of all is a
// number that JSON holds.
func plausible(tokensIn, tokensOut, latencyMs int64, cost *int64) bool {
	const most = 1 << 33
	for _, n := range []int64{tokensIn, tokensOut, latencyMs, *cmp.Or(cost, new(int64))} {
		if n < 0 || n > most {
			return false
		}
	}
	return true
}

// isName reports whether a text is one line that says something, of at most 1 KiB.
func isName(s string) bool { return len(s) <= 1<<10 && BadReason(s) == "" }

// ReadRejudgments reads the later judgments of a run directory, by the names of their files. One that the key of
// the plan did not sign, or that does not fit the run, its name or itself, is a *trajectory.Fault.
func ReadRejudgments(dir fs.FS, run *VerifiedRun) ([]SealedRejudgment, error) {
	all, err := rejudgments(dir)
	if err != nil {
		return nil, err
	}
	return decodeRejudgments(all, run)
}

// DecodeRejudgments reads the file of later judgments in a package. Anything but good ones about this run, one a
// judge and in the order of their files' names, is a *trajectory.Fault.
func DecodeRejudgments(data []byte, run *VerifiedRun) ([]SealedRejudgment, error) {
	all, err := recordsIn(RejudgmentsFile, data)
	if err != nil {
		return nil, err
	}
	return decodeRejudgments(all, run)
}

func decodeRejudgments(records []record, run *rundir.Run) (all []SealedRejudgment, err error) {
	last := ""
	for _, r := range records {
		j, err := unseal[Rejudgment](r.envelope, RejudgmentType, run)
		if err == nil {
			err = j.check(run)
		}
		name := RejudgmentFile(j.Judge)
		switch {
		case err != nil:
		case r.line == 0 && r.file != name:
			err = fmt.Errorf("is of the judge %q, which its name is not of", j.Judge.Model)
		case last >= name:
			err = errors.New("is not in the order of the judges' file names, each once")
		}
		if err != nil {
			return nil, r.fault(err)
		}
		all, last = append(all, SealedRejudgment{Rejudgment: j, SHA256: canonical.Digest(r.envelope)}), name
	}
	return all, nil
}
