package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/outfile"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stop"
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

// Submission is a package to build. The key, the gold answers and the program of its configuration are found by
// [Env.Submit], and so are the documents and the submitter.
type Submission struct {
	submit.Config
	By        submit.Submitter
	BodyFiles []string // with whole documents
}

// Submit builds a package of a run; key returns the user's own.
func (e Env) Submit(ctx context.Context, s Submission, key func() (sign.Key, error)) (none submit.Package, err error) {
	if s.Date == "" {
		s.Date = time.Now().UTC().Format(time.DateOnly)
	} else if submit.CheckDate(s.Date, false) != nil {
		return none, exit.Usagef("give it as 2026-01-02", "--date %q is not a date", s.Date)
	}
	if err := submit.CheckDate(s.Date, s.Archive); err != nil {
		return none, exit.Usagef("give a date from 1970-01-01 to 2242-03-16, or leave --archive out", "%v", err)
	}
	if err := IsRun(s.Run); err != nil {
		return none, err
	}
	if err := NotWithin("the package", s.Run, s.Out); err != nil {
		return none, err
	}
	bodies, err := ReadBodies(s.BodyFiles)
	if err != nil {
		return none, err
	}
	s.Bodies = bodies.ByDigest()
	if s.By != (submit.Submitter{}) {
		if err := s.By.Check(); err != nil {
			return none, exit.Usagef("give --organisation and --contact as one line each", "%v", err)
		}
		s.Submitter = &s.By
	}
	if s.Key, err = key(); err != nil {
		return none, e.withoutKey(s.Run, err)
	}
	if s.Gold, err = grading.PrivateGold(s.Run); err != nil {
		return none, err
	}
	if s.Harness, err = e.Harness(); err != nil {
		return none, err
	}
	ctx, release := stop.Context(ctx)
	defer release()
	p, err := submit.Build(ctx, s.Config)
	var refusal *submit.Refusal
	var stray *submit.StrayBody
	switch {
	case errors.As(err, &stray):
		return none, bodies.Stray(stray.SHA256, "run")
	case errors.As(err, &refusal):
		return none, s.refused(refusal)
	case errors.Is(err, audit.ErrIncomplete):
		found, err := RunAt(s.Run)
		if err == nil && found.Complete { // it was finished in the meantime
			err = exit.New(exit.Incomplete, audit.ErrIncomplete, "it has just been finished: submit it again")
		}
		if err != nil {
			return none, err
		}
		return none, e.Incomplete(s.Run, found)
	case errors.Is(err, submit.ErrTaken):
		return none, exit.New(exit.Failure, err, "remove it, or choose another --out or --date")
	case durable.NoPlace(err):
		return none, exit.New(exit.Failure, err, outfile.Remedy(err))
	case err != nil:
		return none, grading.PrivateFault(err)
	}
	return p, nil
}

// refused returns the error of a run that is not packaged.
func (s Submission) refused(r *submit.Refusal) error {
	f := &exit.Error{Code: exit.Findings, Err: errors.New("the run is not packaged"), Reasons: r.Reasons}
	if r.PlanKey != "" {
		f.Hints = append(f.Hints, givePlanKey(r.PlanKey))
	}
	if r.Audit {
		f.Hints = append(f.Hints, "gaia audit "+view.Quote(s.Run))
	}
	switch {
	case r.Final:
	case r.Strict:
		f.Hints = append(f.Hints, "without --strict it is packaged")
	case s.Strict:
		f.Hints = append(f.Hints, "--allow-dirty instead of --strict packages it all the same, marked as not for a leaderboard")
	default:
		f.Hints = append(f.Hints, "--allow-dirty packages it all the same, marked as not for a leaderboard")
	}
	return f
}

func givePlanKey(id string) string {
	return "give the key that the run was planned with by --key: " + id
}

// withoutKey returns the error of packaging with a key that cannot be used, or an error of the run, if it has one. No new
// key could sign for its plan.
func (e Env) withoutKey(dir string, unusable error) error {
	found, err := RunAt(dir)
	if err != nil {
		return err
	}
	if !found.Complete {
		return e.Incomplete(dir, found)
	}
	given, hints := exit.Of(unusable), []string{givePlanKey(found.Key.ID())}
	var open *sign.PermissionError
	switch {
	case errors.As(unusable, &open):
		hints = given.Hints
	case errors.Is(unusable, sign.ErrPassphrase):
		hints = append([]string{"take the passphrase off a copy of the file: ssh-keygen -p -f COPY"}, hints...)
	case errors.Is(unusable, sign.ErrPublicHalf):
		hints = append([]string{"give the private key file"}, hints...)
	}
	return exit.New(exit.Findings, given.Err, hints...)
}
