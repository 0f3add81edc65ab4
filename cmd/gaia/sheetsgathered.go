package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/exit"
)

// shortfall is what must be said wherever stands what was counted of runs.
type shortfall struct {
	Failed          int      `json:"failed,omitzero"`            // runs that could not be read
	RecordingFailed []string `json:"recording_failed,omitempty"` // ids of runs that went on without evidence
	SignerTrusted   bool     `json:"signer_trusted"`             // of all runs that are counted
}

// unread says of how many runs nothing is counted, after what is; "" if of none.
func (s shortfall) unread() string {
	if s.Failed == 0 {
		return ""
	}
	return fmt.Sprintf(", %s could not be read", counted(s.Failed, "run"))
}

// unrecorded names the runs whose evidence is not whole, on a line; "" if there are none.
func (s shortfall) unrecorded() string {
	n := len(s.RecordingFailed)
	if n == 0 {
		return ""
	}
	names := strings.Join(s.RecordingFailed[:min(n, maxHinted)], ", ")
	if n > maxHinted {
		names += fmt.Sprintf(" and %d more", n-maxHinted)
	}
	return fmt.Sprintf("recording failed: %s went on without evidence: %s\n", counted(n, "run"), oneLine(names))
}

// gathering is what was found out about runs so far.
type gathering struct {
	*sheetReader
	rivals    map[string][]rival
	at        map[string]string // where each run that was given lies, by its id
	signers   map[string]error  // of the runs that are given, by key id: nil, or that the user does not trust the key
	trust     *trust            // nil: not asked yet
	trustless error             // why it cannot be told whom the user trusts
	failures  []*failure

	unrecorded []string // ids of runs that are given and went on without evidence
}

// takes reports whether the sheet that was read is to be given, and says or notes why not.
func (g *gathering) takes(at runAt, got readSheet) bool {
	for _, of := range g.rivals[got.sheet.RunID] {
		signed := got.sheet.Signed()
		if got.err != nil || !conflict(of.signed, signed) {
			continue
		}
		if got.err = equivocation(signed, of.signed, [2]string{at.path, of.path}); got.err == nil { // the keys differ
			got.err = fail(exitEvidence, fmt.Errorf("is called %s as the run at %s is, and has another manifest", got.sheet.RunID, quoteArg(of.path)),
				"'gaia verify' says who signed which; leave out the one that you do not know")
		}
	}
	switch before, twice := g.at[got.sheet.RunID]; {
	case got.err != nil:
		f := *classify(got.err)
		f.Err = fmt.Errorf("%s: %w", oneLine(quoteArg(at.path)), f.Err)
		g.failures = append(g.failures, &f)
		if f.Code == exitIncomplete { // what is there verifies
			g.checkKey(got.sheet.SignedBy)
		}
		return false
	case got.left != "":
		fmt.Fprintf(g.stderr, "gaia: left out: %s: %s\n", oneLine(quoteArg(at.path)), oneLine(got.left))
		return false
	case twice:
		fmt.Fprintf(g.stderr, "gaia: left out: %s: the run %s was read from %s\n", oneLine(quoteArg(at.path)), got.sheet.RunID, oneLine(quoteArg(before)))
		return false
	}
	g.at[got.sheet.RunID] = at.path
	g.checkKey(got.sheet.SignedBy)
	return true
}

// checkKey notes whether the user trusts the key with this id.
func (g *gathering) checkKey(id string) {
	if g.trust == nil {
		own, err := g.ownTrust("")
		g.trust, g.trustless = &own, err
	}
	if _, asked := g.signers[id]; !asked {
		g.signers[id] = g.trust.ofID(id)
	}
}

// untrusted is the failure of runs that are given and signed by keys that the user does
// not trust, nil if there are none.
func (g *gathering) untrusted() error {
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(g.signers)) {
		errs = append(errs, g.signers[id])
	}
	return cmp.Or(g.trustless, firstOf(errs...))
}

// failure is what the runs that could not be read come to together: evidence that does
// not verify before a run that is not complete, that before what could not be read.
func (g *gathering) failure(runs int) error {
	if len(g.failures) == 0 {
		return nil
	}
	if runs == 1 {
		return g.failures[0]
	}
	worst := slices.MinFunc(g.failures, func(a, b *failure) int { return exit.Compare(a.Code, b.Code) })
	what := map[int]string{exitEvidence: "do not verify or cannot be read", exitIncomplete: "are not complete or cannot be read"}
	f := &failure{Code: worst.Code, Hints: worst.Hints,
		Err: fmt.Errorf("%d of %s %s", len(g.failures), counted(runs, "run"), cmp.Or(what[worst.Code], "cannot be read"))}
	for i, one := range g.failures {
		if i == maxHinted {
			f.Reasons = append(f.Reasons, fmt.Sprintf("and %d more", len(g.failures)-i))
			break
		}
		f.Reasons = append(f.Reasons, one.Err.Error())
	}
	return f
}
