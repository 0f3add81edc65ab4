package submit

// claims says what a package shows and what it does not. Of a public one, what
// rests on files that are withheld is the signer's word, whatever was checked when
// the package was made: its reader cannot.
func (e evidence) claims() []Claim {
	shownIf := func(yes bool, s Status) Status {
		if yes {
			return s
		}
		return Absent
	}
	checked, inferred := ByCheck, Inferred
	var claims []Claim
	if e.public() {
		checked, inferred = BySigner, BySigner
		claims = []Claim{
			{"plan", "the plan is what the holder of the key signed", ByCheck},
			{"tree", "the leaves give the signed root, so that a task that is disclosed later is shown to be of this run, and none can be put in its place", ByCheck},
		}
	}
	scored, judged := e.summary.Scores != nil, e.summary.Judge
	claims = append(claims, []Claim{
		{"evidence-chain", "nothing in the plan, the journal and what derives from them was edited, cut, reordered or dropped since it was signed", checked},
		{"scores", "the scores follow from the recorded verdicts, over every planned task", shownIf(scored, checked)},
		{"official-verdicts", "the audit recomputed the official verdicts from the gold answers that the plan commits to", shownIf(scored && e.goldAtHand, checked)},
	}...)
	if judged != nil {
		claims = append(claims, []Claim{
			{"judge-verdicts", "the LLM judge was asked once about each answer that it judged, and verdicts from the cache are the first that it gave", shownIf(judged.Judged > 0, BySigner)},
			{"judge-battery", "the LLM judge called every answer incorrect that says nothing and that its endpoint let through, before a verdict of it counted", shownIf(judged.Battery != nil && judged.Battery.Withstood, BySigner)},
		}...)
	}
	return append(claims, []Claim{
		{"audit-conclusion", "the audit report is about these files, and its conclusion follows from its findings", checked},
		{"audit-findings", "the findings are all that the checks found", BySigner},
		{"answers-first", "all answers were committed before the first verdict", shownIf(e.plan.SubmitIntent, inferred)},
		{"submitter", "the organisation and contact that are named are the submitter's", shownIf(e.submitter != nil, BySigner)},
		{"questions", "the questions are those of the dataset that is named", BySigner},
		{"model-identity", "the model that answered is the one that is named", BySigner},
		{"clocks", "the recorded times are right", BySigner},
		{"no-other-channel", "the agent reached nothing but what the journal shows", BySigner},
		{"plan-published-first", "the plan was published before the outcome was known", Absent},
		{"no-discarded-run", "no other run of the same plan was thrown away", Absent},
		{"not-fabricated", "the journal was not made up as a whole by whoever signed it", Absent},
		{"not-trained-on", "the model has not seen the answers in training", Absent},
	}...)
}
