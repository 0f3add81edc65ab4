package verify

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/submit"
)

// addPackage adds what a full package shows beyond its run.
func (v *Verification) addPackage(of *submit.Verified) {
	v.Package, v.Readme = &of.Statement.Predicate, rebuilt(of.NotRebuilt)
	v.Audit, v.Scores = "rerun: the same report", "not re-derived: "+of.NotRescored
	if of.NotRerun != "" {
		v.Audit = "not rerun: " + of.NotRerun
	}
	if s := v.Package.Scores; of.NotRescored == "" {
		v.Scores = fmt.Sprintf("re-derived from the gold answers: %d of %d correct, as recorded", s.Official.Correct, s.Official.Planned)
	}
}

// readmeRebuilt is the state of a README.md that is what the files of its package give.
const readmeRebuilt = "rebuilt"

// rebuilt describes whether README.md was built again; not is why it was not.
func rebuilt(not string) string {
	if not != "" {
		return "not rebuilt: " + not
	}
	return readmeRebuilt
}

// head returns the first rows of a verification.
func (v Verification) head(m plan.Plan, integrity string) view.List {
	rows := view.List{{"run", v.RunID}}
	if m.Cassette == plan.CassetteReplay {
		rows.Add("replay", runview.ReplayNote)
	}
	if v.Rehearsal {
		rows.Add("rehearsal", runview.RehearsalNote)
	}
	rows = append(rows, runview.Dataset(m)...)
	rows.Add("integrity", "ok: "+integrity)
	rows.Add("trust", v.Trust+": "+v.KeyID)
	return rows
}

// rows describes the verification of a run or a full package for a person; source names its dataset.
func (v Verification) rows(m plan.Plan, of *submit.Verified, later [][2]string, source string) [][2]string {
	events := v.Events
	if v.Shards != nil {
		for _, s := range v.Shards.Merged {
			events += s.Events
		}
	}
	rows := v.head(m, fmt.Sprintf("%d events, %s", events, view.Count(v.Tasks, "task")))
	rows.Add("manifest", v.ManifestSHA256)
	rows.Add("journal", v.JournalHead)
	if v.Missing != "" {
		rows.Add("incomplete", v.Missing+"; what is there verifies")
	}
	if v.Complete {
		rows.Add("root", v.Root)
	}
	v.addShards(&rows)
	v.addCheckpoint(&rows)
	if of == nil {
		addDismissals(&rows, v.Dismissals)
	} else {
		audited := auditedBySigner
		if of.NotRerun == "" {
			audited = ", and the same report when it was run again"
		}
		rows = append(rows, packageRows(*v.Package, audited, v.Dismissals)...)
		scores, again := v.Scores, v.Audit
		if give := "; give --dataset " + view.Quote(source); of.Run.Scored() && of.NotRescored != "" {
			scores += give
			if of.NotRerun != "" && v.Package.GoldAtHand {
				again += give
			}
		}
		if n := len(of.Report.Inputs.Bodies); of.NotRerun != "" && n > 0 {
			again += fmt.Sprintf("; give %s of the report's inputs by --body", view.Count(n, "document"))
		}
		rows.Add("scores", scores)
		rows.Add("audit again", again)
	}
	v.addPrompts(&rows, "")
	rows = append(append(rows, later...), v.EvidenceVerdict.Rows()...)
	v.addReadme(&rows)
	if v.PublicPackage != "" {
		rows.Add("public", v.PublicPackage+" is of these files")
	}
	rows.AddNonEmpty("unsubmittable", v.Unsubmittable)
	return rows
}

// shards is what verify says of the journals of a merged run.
type shards struct {
	rundir.ShardsSummary
	Merged []mergedShard `json:"merged"` // in order; "counted" of shards.json by task
}

// mergedShard is an entry of shards.json, with the tasks that count in it.
type mergedShard struct {
	rundir.ShardFile
	TaskIDs []string `json:"task_ids"`
}

// newShards describes the journals of a merged run; nil if it is not one.
func newShards(m plan.Plan, list *rundir.Shards, s *rundir.ShardsSummary) *shards {
	if list == nil || s == nil {
		return nil
	}
	all := &shards{ShardsSummary: *s}
	for _, one := range list.Shards {
		all.Merged = append(all.Merged, mergedShard{one, []string{}})
	}
	for i, n := range list.Counted {
		if n > 0 {
			all.Merged[n-1].TaskIDs = append(all.Merged[n-1].TaskIDs, m.Tasks[i].TaskID)
		}
	}
	return all
}

// addShards adds of what journals a merged run was made; nothing for another run.
func (v Verification) addShards(rows *view.List) {
	if v.Shards != nil {
		rows.Add("shards", v.Shards.String()+"; --json says which tasks count in which")
	}
}

// addPrompts adds how much of what models were sent is witnessed, and by whose word.
func (v Verification) addPrompts(rows *view.List, by string) {
	if v.Prompts != nil {
		rows.Add("inputs", v.Prompts.String()+by)
	}
}

// addCheckpoint adds that the checkpoint is the one given; nothing if none is.
func (v Verification) addCheckpoint(rows *view.List) {
	if v.Checkpoint == checkpointGiven {
		rows.Add("checkpoint", "the one given")
	}
}

// addReadme adds that README.md was not rebuilt; nothing where it was.
func (v Verification) addReadme(rows *view.List) {
	if v.Readme != readmeRebuilt {
		rows.AddNonEmpty("readme", v.Readme)
	}
}

// auditedBySigner follows the result of an audit that was not run again.
const auditedBySigner = ", as reported by the signer"

// auditRow returns the conclusion of a package's audit for a verifier who trusts the countersigners as the dismissals
// have it.
func auditRow(p submit.Predicate, dismissals []dismissal) string {
	after := " after " + view.Count(p.Dismissed, "dismissal")
	switch {
	case p.Audit.Clean && p.Dismissed == 0:
		return "clean"
	case p.Audit.Clean, p.Audit.CountersignedClean && uncounted(dismissals) == nil:
		return "clean" + after
	case !p.Audit.CountersignedClean:
		return "not clean"
	}
	return "not clean; clean" + after + " for verifiers who trust every countersigner"
}

// packageRows returns the statement of a package; audited is who reports the result of the audit, "" where that is
// plain.
func packageRows(p submit.Predicate, audited string, dismissals []dismissal) [][2]string {
	var rows view.List
	by := ""
	if p.Public {
		by = ", self-reported"
		rows.Add("package", p.Name+", all files as attested, without the texts")
	} else {
		rows.Add("package", p.Name+", all files as attested")
	}
	if s := p.Submitter; s != nil {
		var parts []string
		if s.Organisation != "" {
			parts = append(parts, strconv.Quote(s.Organisation))
		}
		if s.Contact != "" {
			parts = append(parts, "contact "+strconv.Quote(s.Contact))
		}
		rows.Add("submitter", strings.Join(parts, ", ")+", as they say")
	}
	rows.Add("audit", auditRow(p, dismissals)+audited)
	addDismissals(&rows, dismissals)
	if n := len(p.VoidTasks); n > 0 {
		rows.Add("void", view.Count(n, "task")+" by adjudication, counted wrong"+by)
	}
	if p.Scores != nil {
		rows.Addf("official", "%d of %d, %s%s", p.Scores.Official.Correct, p.Scores.Official.Planned, view.Percent(p.Scores.Official.PPM), by)
	} else {
		rows.Add("official", "unscored")
	}
	if p.Judgments > 0 {
		rows.Add("judgments", strconv.Itoa(p.Judgments)+by)
	}
	for _, r := range p.DirtyReasons {
		rows.Add("dirty", r)
	}
	if p.NotForLeaderboard {
		rows.Add("leaderboard", "not for one")
	}
	return rows
}

// Rows describe what answered, the exceptions, and the claims by their status.
func (v EvidenceVerdict) Rows() [][2]string {
	by := v.AnsweredBy
	model := by.Model + " at " + by.Origin
	if len(by.ServedAs) > 0 {
		model += ", declared as " + strings.Join(by.ServedAs, ", ")
	}
	replied := strings.Join(by.RepliedAs, ", ")
	switch {
	case by.RepliedOther && replied != "":
		replied += ", other names"
	case by.RepliedOther:
		replied = "other names"
	}
	agent, joint := by.Agent, ", of"
	if o := by.Own; o != nil {
		agent += ", network " + o.Network + ", tools " + o.Tools
		if o.Unconfined {
			agent += ", outside of the sandbox"
		}
		joint = "; run by"
	}
	for _, h := range by.Harnesses {
		agent += joint + " gaia " + h.Version
		joint = "; resumed by"
		switch {
		case h.Commit == "":
			agent += " of an unknown commit"
		case h.Dirty:
			agent += " of commit " + h.Commit + " with changes"
		default:
			agent += " of the clean commit " + h.Commit
		}
	}
	rows := view.List{{"model", model + ", replied as " + cmp.Or(replied, "no name")}, {"agent", agent}}
	if s := by.Search; s != nil && s.Origin != "" {
		rows.Add("search", s.Engine+" at "+s.Origin)
	} else if s != nil {
		rows.Add("search", s.Engine)
	}
	rows.AddNonEmpty("mcp servers", strings.Join(by.MCPServers, ", "))
	rows.Add("exceptions", v.Exceptions.String())
	addFuture(&rows, v.Future)
	for _, status := range []struct {
		submit.Status
		title string
	}{{submit.ByCheck, "verified"}, {submit.Inferred, "inferred"}, {submit.BySigner, "self-reported"}, {submit.Absent, "not shown"}} {
		var names []string
		for _, c := range v.Claims {
			if c.Status == status.Status {
				names = append(names, c.Claim)
			}
		}
		rows.AddNonEmpty(status.title, strings.Join(names, ", "))
	}
	return rows
}
