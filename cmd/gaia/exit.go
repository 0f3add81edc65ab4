package main

import (
	"errors"
	"syscall"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/run"
)

// The exit codes of every command, and the error that carries one: see package exit.
const (
	exitOK          = exit.OK
	exitFailure     = exit.Failure
	exitUsage       = exit.Usage
	exitFindings    = exit.Findings
	exitEvidence    = exit.Evidence
	exitIncomplete  = exit.Incomplete
	exitUntrusted   = exit.Untrusted
	exitInterrupted = exit.Interrupted
)

type failure = exit.Error

func fail(code int, err error, hints ...string) error { return exit.New(code, err, hints...) }

func usage(hint, format string, args ...any) error { return exit.Usagef(hint, format, args...) }

func firstOf(errs ...error) error { return exit.First(errs...) }

// classify returns err with the exit code and the hints that its kind gives.
func classify(err error) *failure {
	e := exit.Of(err)
	if errors.Is(err, run.ErrBusy) && len(e.Hints) == 0 {
		e = &failure{Code: e.Code, Err: e.Err, Hints: []string{"wait for it to end, or stop it"}}
	}
	return e
}

// exit prints an error and returns the exit code it means.
func (a *app) exit(err error) int {
	if err != nil {
		err = classify(err)
	}
	return exit.Print(a.stderr, err)
}

func noPlace(err error) bool { return exit.NoPlace(err) }

// anotherPlace is the hint where nothing could be written to the place of --out.
func anotherPlace(err error) string {
	const another = "choose another place with --out"
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EFBIG) {
		return "make room, or " + another
	}
	return another
}
