package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/trajectory"
)

// The exit codes of every command. Where several hold, byGravity says which is told.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitFindings    = 3
	exitEvidence    = 4
	exitIncomplete  = 5
	exitUntrusted   = 6
	exitInterrupted = 130
)

// byGravity puts of two exit codes that which is told where both hold first. An
// interruption goes before all, since what it left undone may be anything.
func byGravity(a, b int) int {
	order := []int{exitInterrupted, exitUsage, exitEvidence, exitUntrusted, exitIncomplete, exitFindings, exitFailure, exitOK}
	return slices.Index(order, a) - slices.Index(order, b)
}

const exitHelp = `Exit codes:
  0    ok
  1    failure
  2    usage
  3    findings or gaps, what a run would fail by, a package or card that is
       refused, an evaluation that fails, a run whose attempts all ended in errors,
       or one that is not submittable though it was meant to be
  4    evidence does not verify
  5    run incomplete, also by a model that cannot be asked; can be resumed
  6    evidence is intact, but its signer is not one you trust; it may also be
       incomplete or have findings, which the output says
  130  interrupted (state saved)
`

// failure is an error with its exit code and, if there is something to do,
// hints.
type failure struct {
	code    int
	err     error
	hints   []string
	reasons []string // what the error comes from, where it is several things
	shown   []string // of a file of the user's, to point at the mistake
	also    []string // what else holds, of lower precedence
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func fail(code int, err error, hints ...string) error {
	return &failure{code: code, err: err, hints: hints}
}

func usage(hint, format string, args ...any) error {
	f := &failure{code: exitUsage, err: fmt.Errorf(format, args...)}
	if hint != "" {
		f.hints = []string{hint}
	}
	return f
}

// gravest returns the error whose exit code goes first, which also names the others;
// nil if all are nil. Of errors with the same code the first goes first.
func gravest(errs ...error) error {
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	if len(errs) == 0 {
		return nil
	}
	slices.SortStableFunc(errs, func(a, b error) int { return byGravity(classify(a).code, classify(b).code) })
	if len(errs) == 1 {
		return errs[0]
	}
	f := *classify(errs[0])
	f.also = slices.Clone(f.also)
	for _, err := range errs[1:] {
		less := classify(err)
		f.also = append(append(f.also, fmt.Sprintf("%s (exit code %d)", less.err, less.code)), less.also...)
	}
	return &f
}

// exit prints an error and returns the exit code it means.
func (a *app) exit(err error) int {
	if err == nil {
		return exitOK
	}
	f := classify(err)
	fmt.Fprintf(a.stderr, "gaia: error: %s\n", oneLine(f.err.Error()))
	for _, line := range f.shown {
		fmt.Fprintf(a.stderr, "gaia: %s\n", oneLine(line))
	}
	for _, r := range f.reasons {
		fmt.Fprintf(a.stderr, "gaia: reason: %s\n", oneLine(r))
	}
	for _, other := range f.also {
		fmt.Fprintf(a.stderr, "gaia: also: %s\n", oneLine(other))
	}
	hints := f.hints
	if fault := (*trajectory.Fault)(nil); errors.As(err, &fault) && fault.Hint != "" {
		hints = []string{fault.Hint} // it knows more than the command
	}
	for _, h := range hints {
		fmt.Fprintf(a.stderr, "gaia: hint: %s\n", oneLine(h))
	}
	return f.code
}

// noPlace reports whether an error is that nothing can be made where it was to be:
// a disk that is full or read-only, a limit of files, or no directory for it.
func noPlace(err error) bool {
	var at *fs.PathError
	return errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EFBIG) || errors.Is(err, syscall.ENOTDIR) || errors.As(err, &at) && at.Op == "mkdir"
}

// anotherPlace is what mends that nothing could be written where --out says.
func anotherPlace(err error) string {
	const another = "choose another place with --out"
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EFBIG) {
		return "make room, or " + another
	}
	return another
}

// classify gives errors that the commands did not classify their code.
func classify(err error) *failure {
	var f *failure
	var fault *trajectory.Fault
	var mode *sign.PermissionError
	var source *loader.SourceError
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &source):
		return &failure{code: exitFailure, err: err, hints: source.Remedies}
	case errors.As(err, &fault):
		return &failure{code: exitEvidence, err: err}
	case errors.As(err, &mode):
		return &failure{code: exitFailure, err: err, hints: []string{fmt.Sprintf("chmod 600 %s", quoteArg(mode.Path))}}
	case errors.Is(err, context.Canceled):
		return &failure{code: exitInterrupted, err: errors.New("interrupted")}
	case errors.Is(err, run.ErrBusy):
		return &failure{code: exitFailure, err: err, hints: []string{"wait for it to end, or stop it"}}
	case errors.Is(err, fs.ErrPermission):
		return &failure{code: exitFailure, err: err, hints: []string{"check who owns the file or directory and its mode"}}
	}
	return &failure{code: exitFailure, err: err}
}
