package submit

import (
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
)

// Claim says how far something that a reader may assume is shown.
type Claim struct {
	Claim  string `json:"claim"`
	Means  string `json:"means"`
	Status Status `json:"status"`
}

// Status is how far a claim is shown.
type Status string

// The statuses. Only a verifier gives ByCheck and Inferred: a statement holds the
// signer's word.
const (
	ByCheck  Status = "verified" // by this verifier, from what it was given
	BySigner Status = "self_reported"
	Inferred Status = "inferred" // by this verifier, from what was recorded
	Absent   Status = "absent"
)

// Given says what a verifier had besides the files, and compared with them.
type Given struct {
	Checkpoint bool // the published checkpoint is that of these files
	Questions  bool // the plan's questions are those of the loaded dataset
	Trusted    bool // the verifier trusts the key
}

// checked says what a verifier checked in the files; the zero value is for a statement,
// which the signer makes.
type checked struct {
	Given
	verifier bool // a verifier asks, not the signer
	journal  bool // the journal was there
	verdicts bool // the official scorer was asked again
	findings bool // the audit was run again
}

// stated is what claims are made about.
type stated struct {
	audited, goldAtHand, public, scored, submitIntent, submitter bool

	judge *rundir.JudgeSummary // nil: none
}

func (e evidence) stated() stated {
	return stated{audited: true, goldAtHand: e.goldAtHand, public: e.public(), scored: e.summary.Scores != nil, submitIntent: e.plan.SubmitIntent,
		submitter: e.submitter != nil, judge: e.summary.Judge}
}

// stated returns what the claims about a verified package are made about.
func (p Predicate) stated(m plan.Plan, s rundir.Summary) stated {
	return stated{audited: true, goldAtHand: p.GoldAtHand, public: p.Public, scored: p.Scores != nil, submitIntent: m.SubmitIntent, submitter: p.Submitter != nil, judge: s.Judge}
}

// Claims returns what the verification of a full package shows.
func (v *Verified) Claims(g Given) []Claim {
	return v.Statement.Predicate.stated(v.Run.Manifest, v.Run.Summary()).claims(
		checked{Given: g, verifier: true, journal: true, verdicts: v.NotRescored == "", findings: v.NotRerun == ""})
}

// Claims returns what the verification of a public package shows.
func (p *Public) Claims(g Given) []Claim {
	g.Questions = false // what the plan says of them cannot be compared with the journal
	return p.Statement.Predicate.stated(p.Manifest, p.Summary).claims(checked{Given: g, verifier: true})
}

// RunClaims returns what the verification of a run directory shows.
func RunClaims(run *rundir.Run, g Given) []Claim {
	s := stated{scored: run.Complete && run.Scored(), submitIntent: run.Manifest.SubmitIntent}
	if run.Complete {
		s.judge = run.Summary().Judge
	}
	return s.claims(checked{Given: g, verifier: true, journal: true})
}

// claims returns every claim with how far it is shown. Of a public package, what rests
// on withheld files is the signer's word.
func (s stated) claims(c checked) []Claim {
	by := func(shown bool) Status {
		if shown {
			return ByCheck
		}
		return BySigner
	}
	only := func(there bool, status Status) Status {
		if there {
			return status
		}
		return Absent
	}
	first := BySigner
	if c.journal {
		first = Inferred
	}
	var all []Claim
	if c.verifier {
		all = append(all,
			Claim{"trusted-signer", "the key that signed is one that this verifier trusts", only(c.Trusted, ByCheck)},
			Claim{"published-checkpoint", "the checkpoint is the published one that this verifier was given", only(c.Checkpoint, ByCheck)})
	}
	if s.public {
		all = append(all,
			Claim{"plan", "the plan is what the holder of the key signed", by(c.verifier)},
			Claim{"tree", "the leaves give the signed root: a task that is disclosed later is of this run, and no other can replace it", by(c.verifier)})
	}
	all = append(all,
		Claim{"evidence-chain", "nothing in the plan, the journal and what derives from them was edited, cut, reordered or dropped since it was signed", by(c.journal)},
		Claim{"scores", "the scores follow from the recorded verdicts, over every planned task", only(s.scored, by(c.journal))},
		Claim{"official-verdicts", "the official scorer gives the recorded verdicts with the gold answers that the plan commits to", only(s.scored && (c.verdicts || s.goldAtHand), by(c.verdicts))})
	if j := s.judge; j != nil {
		all = append(all,
			Claim{"judge-verdicts", "the LLM judge was asked once about each answer that it judged, and verdicts from the cache are the first that it gave", only(j.Judged > 0, BySigner)},
			Claim{"judge-battery", "the LLM judge passed its self-test before a verdict of it counted: it accepted no empty answer", only(j.Battery != nil && j.Battery.Withstood, BySigner)})
	}
	return append(all,
		Claim{"audit-conclusion", "the audit report is about these files, and its conclusion follows from its findings", only(s.audited, by(c.journal))},
		Claim{"audit-findings", "the findings are all that the checks find", only(s.audited, by(c.findings))},
		Claim{"answers-first", "all answers were committed before the first verdict", only(s.submitIntent, first)},
		Claim{"submitter", "the organisation and contact that are named are the submitter's", only(s.submitter, BySigner)},
		Claim{"questions", "the questions are those of the dataset that is named", by(c.Questions)},
		Claim{"model-identity", "the model that answered is the one that is named", BySigner},
		Claim{"clocks", "the recorded times are right", BySigner},
		Claim{"no-other-channel", "the agent reached nothing but what the journal shows", BySigner},
		Claim{"plan-published-first", "the plan was published before the outcome was known", Absent},
		Claim{"no-discarded-run", "no other run of the same plan was thrown away", Absent},
		Claim{"not-fabricated", "the journal was not made up as a whole by whoever signed it", Absent},
		Claim{"not-trained-on", "the model has not seen the answers in training", Absent})
}
