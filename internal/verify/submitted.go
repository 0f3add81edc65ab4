package verify

import (
	"fmt"

	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/submit"
)

// Submitted describes a package that was just built; its members are what submit prints with --json.
type Submitted struct {
	Attestation string           `json:"attestation_sha256"`
	Bytes       int64            `json:"bytes"` // of all files, or of the archive
	Clean       bool             `json:"clean"`
	KeyID       string           `json:"key_id"`
	Path        string           `json:"path"` // of the package's folder or archive
	Rehearsal   bool             `json:"rehearsal,omitzero"`
	Statement   submit.Predicate `json:"statement"`

	built      submit.Package
	dismissals []dismissal
}

// NewSubmitted describes a package for a user who trusts t.
func NewSubmitted(p submit.Package, t keyring.Trust) Submitted {
	s := p.Statement.Predicate
	return Submitted{Attestation: p.AttestationSHA256, Bytes: p.Bytes, Clean: s.Audit.Clean, Path: p.Path, KeyID: p.Key.ID(),
		Rehearsal: s.Rehearsal, Statement: s, built: p, dismissals: dismissals(t, p.Report, p.Run)}
}

// Warnings returns what others will not see as the user does.
func (s Submitted) Warnings() (all []string) {
	if s.Statement.Public {
		for _, text := range submit.PublicTexts(s.built.Run.Manifest) {
			all = append(all, "the public package shows "+text)
		}
		return all
	}
	for _, d := range s.dismissals {
		if d.CountersignedBy != "" {
			all = append(all, fmt.Sprintf("the CRITICAL finding of %s about task %s is open for verifiers who do not trust the countersigner %s",
				d.Check, d.TaskID, d.CountersignedBy))
		}
	}
	return all
}

// Rows describe the package for a person.
func (s Submitted) Rows() [][2]string {
	rows := append(view.List{{"run", s.Statement.RunID}}, runview.Dataset(s.built.Run.Manifest)...)
	if s.Rehearsal {
		rows.Add("rehearsal", runview.RehearsalNote)
	}
	rows = append(rows, packageRows(s.Statement, "", s.dismissals)...)
	rows.Add("exceptions", s.Statement.Exceptions.String())
	tenths := (s.Bytes + 99_999) / 100_000 // of a million bytes, rounded up
	rows.Addf("written to", "%s, %d.%d MB in %s", s.Path, tenths/10, tenths%10, view.Count(s.built.Files, "file"))
	rows.Add("attestation", s.Attestation)
	rows.Add("signed by", s.KeyID)
	rows.Add("next", "gaia verify "+view.Quote(s.Path))
	return rows
}
