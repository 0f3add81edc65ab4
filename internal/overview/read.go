package overview

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/transcript"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/submit"
)

// Read opens the run or package at a place, reads its journal to its end, and verifies and audits it. What does not verify is
// in the Check of the source, which can be shown. The error is that there is nothing to show. The caller calls done when it
// needs the source no longer.
func Read(place string, env verify.Env, trust func() (keyring.Trust, error)) (s Source, done func(), err error) {
	given, err := verify.Open(place)
	if err != nil {
		return s, nil, err
	}
	defer func() {
		if err != nil {
			given.Close()
		}
	}()
	s = Source{Place: place, Packaged: given.Packaged, Check: Check{Done: true}}
	if given.IsPublic() {
		s.Check, err = PublicCheck(given, env)
		return s, given.Close, err
	}
	// What was read before the damage is shown, so the journal is read also where verification will fail.
	if s.Journal, err = transcript.Open(given.Files); err != nil {
		return s, nil, err
	}
	_ = s.Journal.Follow(func() error { return io.EOF }) // its state has the fault
	s.Check = NewCheck(place, given, env, trust)
	return s, given.Close, nil
}

// PublicCheck verifies the public package that is open as given. That it does not verify is in the check; the error is
// one of this machine, which says nothing about the package.
func PublicCheck(given *verify.Evidence, env verify.Env) (Check, error) {
	of, err := given.VerifyPublic(submit.Options{Harness: env.Harness})
	if err != nil && exit.Of(err).Code != exit.Evidence {
		return Check{}, err
	}
	return Check{Done: true, Public: of, Err: err}, nil
}

// NewCheck verifies and audits what is at a place, and is open as given, with the expected answers that it has.
func NewCheck(place string, given *verify.Evidence, env verify.Env, trust func() (keyring.Trust, error)) Check {
	r, c := verify.AuditRequest{Place: place, Trust: trust, Opened: given}, Check{Done: true}
	// Expected answers are beside the run that the reader made, and in no package.
	if _, err := os.Lstat(filepath.Join(place, rundir.PrivateFile)); !given.Packaged && errors.Is(err, fs.ErrNotExist) {
		r.Gold = verify.GoldNone
	}
	c.Audited, c.Err = env.Audit(r)
	return c
}
