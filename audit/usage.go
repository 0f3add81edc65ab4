package audit

import (
	"fmt"
	"slices"
)

func usageReconciliation() Check {
	return Check{
		ID: "AUD-13", Name: "usage-reconciliation", Severity: High,
		Title: "the provider was paid for the requests of the journal and for no others",
		Why: "who asks a model outside of the journal can try a task until the answer is right and record that one try; " +
			"the provider's account has all of them",
		Fix: "export the usage of the run's own key, from its first request to its last: an export also holds other work under the same key, and what lies before " +
			"and after the run is yours to cut; void the run if what is left was asked for it",
		Skips:  "the export names requests and the journal none, or none of the same, or requests whose tokens the journal does not have could be what the export has more",
		Absent: "no usage export was given; without one, only tokens that are too few or missing, ids that are missing and costs that differ are found",
		Rules: []Rule{
			{"totals-differ", High, 2, "tokens of an export that differ from the journal's by more than 5 % of the export and by more than 5000, and by more than requests can account for of which the journal has no tokens"},
			{"request-unrecorded", High, 1, "more requests of the export that the journal does not have than the journal has requests without an id, where it has others of the export"},
			{"export-unrelated", ToReview, 1, "an export that names requests of which the journal, which has ids too, has none"},
			{"request-id-missing", ToReview, 2, "replies without the id of their request, where others to the same asker have one; no export is needed"},
			{"token-count-too-low", ToReview, 1, "replies of the agent's model with more than 20 bytes of the request, or of the reply, for each of its tokens, of at least 2000 bytes; no export is needed"},
			{"cost-inconsistent", ToReview, 1, "a reply that cost more than one with as many tokens of each kind or more, or more than 2000 micro-USD a token; no export is needed"},
			{"usage-missing", Info, 1, "replies without a count of their tokens, where others to the same asker have one; no export is needed"},
		},
		Run: func(e *Evidence, n *Notes) {
			tokensTooFew(e, n)
			costsDiffer(e, n)
			missing(e, n, "request-id-missing", "id of their request", "an id", func(u use) bool { return u.id != "" })
			missing(e, n, "usage-missing", "count of their tokens", "one", func(u use) bool { return u.unmeasured == 0 })
			if e.Usage == nil {
				n.absent("no usage export was given; the tokens and costs of the journal agree with its texts")
				return
			}
			totalsDiffer(e, n)
			unrecorded(e, n)
		},
	}
}

// mostOfRequest bounds the tokens of one request: the largest windows of models.
const mostOfRequest = 2_000_000

// totalsDiffer holds the tokens of all that the journal tells of against those of
// the export. What the journal does not know the tokens of may be what the export
// has more: no more than the largest request for each.
func totalsDiffer(e *Evidence, n *Notes) {
	var journal, export, largest, unmeasured int64
	e.uses(func(u use) {
		journal, unmeasured = journal+u.tokens, unmeasured+int64(u.unmeasured)
		largest = max(largest, u.tokens)
	})
	for _, r := range e.Usage.Requests {
		export += r.In + r.Out
		if tokens := r.In + r.Out; len(r.IDs) > 0 && tokens <= mostOfRequest {
			largest = max(largest, tokens)
		}
	}
	differ := func(by int64) bool { return by > 5000 && by > export/20 }
	switch {
	case !differ(max(export-journal, journal-export)):
	case export > journal && unmeasured > 0 && largest == 0,
		export > journal && !differ(export-journal-min(unmeasured, export/max(largest, 1)+1)*largest):
		n.gap("the export has %d tokens and the journal %d, which has none of %d requests: these can be the difference", export, journal, unmeasured)
	default:
		n.find("totals-differ", place{}, fmt.Sprintf("%d tokens in the export", export), fmt.Sprintf("the %d of the journal", journal))
	}
}

// unrecorded looks for requests of the export that the journal does not have. Of
// tries that came to nothing, and of the null battery, it has no ids.
func unrecorded(e *Evidence, n *Notes) {
	known, nameless := map[string]bool{}, 0
	e.uses(func(u use) {
		if u.id != "" {
			known[u.id] = true
		}
		nameless += u.nameless
	})
	var missing []string
	named := 0
	for _, r := range e.Usage.Requests {
		if len(r.IDs) == 0 {
			continue
		}
		if named++; !slices.ContainsFunc(r.IDs, func(id string) bool { return known[id] }) {
			missing = append(missing, r.IDs[0])
		}
	}
	switch {
	case named == 0:
	case len(known) == 0:
		n.gap("the export names requests, and the journal has no ids of them")
	case len(missing) == named:
		n.gap("no request that the export names is in the journal: their ids are of another kind, or the export is of something else")
		n.find("export-unrelated", place{}, fmt.Sprintf("%d requests in the export, such as %q, and none of them in the journal", named, missing[0]), "the export of the key that the run was made with")
	case len(missing) > nameless:
		n.find("request-unrecorded", place{}, fmt.Sprintf("%d of %d requests of the export are not in the journal, such as %q", len(missing), named, missing[0]),
			fmt.Sprintf("at most the %d that the journal has no id of", nameless))
	}
}

// missing looks for replies without something among those with it to whom the same
// asked. A provider that does not say it once says it never.
func missing(e *Evidence, n *Notes, rule, what, want string, has func(use) bool) {
	type replies struct {
		with, without int
		first         place // of those without
	}
	all := map[string]replies{}
	var order []string
	e.uses(func(u use) {
		if !u.answered {
			return
		}
		r, seen := all[u.who]
		if !seen {
			order = append(order, u.who)
		}
		if has(u) {
			r.with++
		} else if r.without++; r.without == 1 {
			r.first = u.at
		}
		all[u.who] = r
	})
	for _, who := range order {
		if r := all[who]; r.with > 0 && r.without > 0 {
			n.find(rule, r.first, fmt.Sprintf("%d of %d replies to %s have no %s", r.without, r.with+r.without, who, what), want+" in every reply, as in the others")
		}
	}
}
