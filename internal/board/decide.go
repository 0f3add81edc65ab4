package board

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/submit"
)

// publicOnly is why a public package does not count on a board of full ones.
const publicOnly = "it is a public package, and only full ones count"

// decide adds to each entry why it does not count, and returns the exclusions that match none.
func decide(all []*entry, rules Rules) (unmatched []string) {
	matched := map[int]bool{}
	for _, e := range all {
		names := []string{e.file, strings.TrimSuffix(e.file, submit.ArchiveSuffix)}
		if e.row != nil {
			names = append(names, e.row.Package, e.row.AttestationSHA256)
		}
		for i, x := range rules.Exclude {
			if slices.Contains(names, x.Package) {
				matched[i] = true
				e.reject(exit.OK, "excluded by %s: %s", RulesFile, x.Reason)
			}
		}
		if e.row != nil {
			e.decide(rules)
		}
	}
	// Reject the packages by which one key vouches for two histories of a run, and those of a run that
	// two keys signed. A package of an untrusted signer is held against no other.
	for i, a := range all {
		for _, b := range all[:i] {
			if a.row == nil || b.row == nil || a.untrust != nil || b.untrust != nil || a.row.RunID != b.row.RunID {
				continue
			}
			if a.row.Signer.KeyID != b.row.Signer.KeyID {
				a.reject(exit.Evidence, "the key %s signed a run of the same id: %s", b.row.Signer.KeyID, b.file)
				b.reject(exit.Evidence, "the key %s signed a run of the same id: %s", a.row.Signer.KeyID, a.file)
				continue
			}
			// Both are complete, so no journal is read.
			if err := verify.Equivocation(b.signed, a.signed, [2]string{b.file, a.file}); err != nil {
				a.reject(exit.Evidence, "equivocation: %v", err)
				b.reject(exit.Evidence, "equivocation: %v", err)
			}
		}
	}
	chooseOfRun(all, rules)
	for i, e := range rules.Exclude {
		if !matched[i] {
			unmatched = append(unmatched, e.Package)
		}
	}
	return unmatched
}

// decide adds why a package that verifies does not count by the rules.
func (e *entry) decide(rules Rules) {
	d := e.dataset
	if e.untrust != nil {
		e.reject(exit.Untrusted, "its signer is not trusted: %v", e.untrust)
	}
	if e.row.Rehearsal && !rules.Rehearsal {
		e.reject(exit.Findings, "it is a rehearsal")
	}
	if d.Name != rules.Dataset || d.Split != rules.Split {
		e.reject(exit.Findings, "it is of split %s of %s, not of split %s of %s", d.Split, d.Name, rules.Split, rules.Dataset)
	}
	if rules.Revision != "" && d.Revision != rules.Revision {
		e.reject(exit.Findings, "it is of revision %s of the dataset, not %s", d.Revision, rules.Revision)
	}
	if d.Selection != rules.Selection {
		e.reject(exit.Findings, "its tasks are %q, not %q", d.Selection, rules.Selection)
	}
	if why := d.Mismatch(); why != "" {
		e.reject(exit.Findings, "%s", why)
	}
	if len(e.tasks) == 0 {
		e.reject(exit.Findings, "it is unscored")
	}
	for _, why := range e.rejected {
		e.reject(exit.Findings, "it would not be packaged without --allow-dirty: %s", why)
	}
	for _, id := range rules.Checks {
		at := slices.IndexFunc(e.checks, func(c submit.CheckResult) bool { return c.ID == id })
		switch {
		case at < 0:
			e.reject(exit.Findings, "its audit has no check %s", id)
		case e.checks[at].Status != audit.Pass && e.checks[at].Status != audit.NotApplicable:
			e.reject(exit.Findings, "check %s has the status %s, and is required", id, e.checks[at].Status)
		}
	}
}

// chooseOfRun rejects of the packages of a run all but one: a full one before a public one, then the latest by its
// date, and then by its digest. That another one of the run counts in its place is no failure.
func chooseOfRun(all []*entry, rules Rules) {
	refused := map[string]*entry{} // full packages of trusted signers that do not count, by run
	for _, e := range all {
		if e.row != nil && !e.row.Public && e.untrust == nil && len(e.reasons) > 0 {
			refused[e.row.RunID] = e
		}
	}
	of := map[string][]*entry{}
	for _, e := range all {
		if len(e.reasons) == 0 {
			of[e.row.RunID] = append(of[e.row.RunID], e)
		} else if e.row != nil && e.row.Public && rules.FullOnly {
			e.reject(exit.Findings, publicOnly)
		}
	}
	full := func(e *entry) int {
		if e.row.Public {
			return 1
		}
		return 0
	}
	for run, same := range of {
		slices.SortFunc(same, func(a, b *entry) int {
			return cmp.Or(cmp.Compare(full(a), full(b)), cmp.Compare(b.row.Date, a.row.Date), cmp.Compare(a.row.AttestationSHA256, b.row.AttestationSHA256),
				cmp.Compare(a.file, b.file))
		})
		// What the audit of the full package found counts more than what the public one says of it.
		if by := refused[run]; same[0].row.Public && (by != nil || rules.FullOnly) {
			for _, e := range same {
				if by != nil {
					e.reject(by.line().ExitCode, "the full package of the same run does not count: %s", by.file)
				}
				if rules.FullOnly {
					e.reject(exit.Findings, publicOnly)
				}
			}
			continue
		}
		for _, e := range same[1:] {
			if first := same[0]; e.row.AttestationSHA256 == first.row.AttestationSHA256 {
				e.reject(exit.OK, "it is the same package as %s", first.file)
			} else {
				e.reject(exit.OK, "%s of the same run counts in its place", first.file)
			}
		}
	}
}
