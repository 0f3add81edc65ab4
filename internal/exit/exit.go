// Package exit holds the exit codes of gaia and the error that carries one.
//
// [Error] adds hints, reasons and an excerpt of the user's file to an error; [Print] writes them for a person and returns
// the code. Errors of other packages get their code from their type ([Of]). Where several codes apply, [Compare] orders
// them by precedence (TestCompare). "gaia help exit-codes" lists the codes.
package exit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/trajectory"
)

// The exit codes of every command.
const (
	OK          = 0
	Failure     = 1
	Usage       = 2
	Findings    = 3
	Evidence    = 4
	Incomplete  = 5
	Untrusted   = 6
	Interrupted = 130
)

// Short names the exit codes, for the help of a command.
const Short = `Exit codes: 0 ok, 1 failure, 2 usage, 3 findings, 4 bad evidence, 5 incomplete,
6 untrusted signer, 130 interrupted. For more: gaia help exit-codes
`

// Compare orders exit codes by precedence: it is negative if the program ends with a where
// both apply. An interruption precedes all, since what it left undone may be anything.
func Compare(a, b int) int {
	order := []int{Interrupted, Usage, Evidence, Untrusted, Incomplete, Findings, Failure, OK}
	return slices.Index(order, a) - slices.Index(order, b)
}

// Error is an error with its exit code.
type Error struct {
	Code    int
	Err     error
	Hints   []string // what a person can do, in commands where possible
	Reasons []string // the causes, where there are several
	Excerpt []string // lines of a file of the user's, with the mistake marked
	Also    []string // what else applies, of lower precedence
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// New returns err with its exit code and hints; those that are empty are left out.
func New(code int, err error, hints ...string) error {
	return &Error{Code: code, Err: err, Hints: slices.DeleteFunc(slices.Clone(hints), func(hint string) bool { return hint == "" })}
}

// Usagef returns an error of usage; hint may be empty.
func Usagef(hint, format string, args ...any) error {
	return New(Usage, fmt.Errorf(format, args...), hint)
}

// Of returns err with its exit code: the one it carries, that of its method Exit, or that of its kind.
func Of(err error) *Error {
	var e *Error
	var fault *trajectory.Fault
	var mode *sign.PermissionError
	var own interface {
		error
		Exit() *Error
	}
	var hinted interface {
		error
		Hints() []string
	}
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &own):
		return own.Exit()
	case errors.As(err, &hinted):
		return &Error{Code: Failure, Err: err, Hints: hinted.Hints()}
	case errors.As(err, &fault):
		return &Error{Code: Evidence, Err: err}
	case errors.As(err, &mode):
		return &Error{Code: Failure, Err: err, Hints: []string{"chmod 600 " + view.Quote(mode.Path)}}
	case errors.Is(err, context.Canceled):
		return &Error{Code: Interrupted, Err: errors.New("interrupted")}
	case errors.Is(err, fs.ErrPermission):
		return &Error{Code: Failure, Err: err, Hints: []string{"check who owns the file or directory and its mode"}}
	}
	return &Error{Code: Failure, Err: err}
}

// First returns the error whose exit code has precedence, which also names the others;
// nil if all are nil. Of errors with the same code it is the first.
func First(errs ...error) error {
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	if len(errs) == 0 {
		return nil
	}
	slices.SortStableFunc(errs, func(a, b error) int { return Compare(Of(a).Code, Of(b).Code) })
	if len(errs) == 1 {
		return errs[0]
	}
	e := *Of(errs[0])
	e.Also = slices.Clone(e.Also)
	for _, err := range errs[1:] {
		other := Of(err)
		e.Also = append(append(e.Also, fmt.Sprintf("%s (exit code %d)", other.Err, other.Code)), other.Also...)
	}
	return &e
}

// Print writes err for a person and returns its exit code; OK for nil.
func Print(w io.Writer, err error) int {
	if err == nil {
		return OK
	}
	e := Of(err)
	if fault := (*trajectory.Fault)(nil); errors.As(err, &fault) && fault.Hint != "" {
		e = &Error{Code: e.Code, Err: e.Err, Excerpt: e.Excerpt, Reasons: e.Reasons, Also: e.Also, Hints: []string{fault.Hint}}
	}
	for _, part := range []struct {
		label string
		lines []string
	}{{"error: ", []string{e.Err.Error()}}, {"", e.Excerpt}, {"reason: ", e.Reasons}, {"also: ", e.Also}, {"hint: ", e.Hints}} {
		for _, line := range part.lines {
			fmt.Fprintf(w, "gaia: %s%s\n", part.label, view.Line(line))
		}
	}
	return e.Code
}
