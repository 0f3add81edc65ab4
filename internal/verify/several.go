package verify

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
)

// Line is the line that verify --json prints for each of several packages.
type Line struct {
	AgreesWith     string               `json:"agrees_with,omitzero"`  // path of an earlier package of the same run, one public and one full, of the same files
	DiffersFrom    string               `json:"differs_from,omitzero"` // path of an earlier one that is not of the same audit or decisions
	DuplicateOf    string               `json:"duplicate_of,omitzero"` // path of an earlier one with the same digest
	Equivocation   *rundir.Equivocation `json:"equivocation,omitzero"`
	Error          string               `json:"error,omitzero"` // why the exit code is not 0
	ExitCode       int                  `json:"exit_code"`      // of this one alone
	Kind           string               `json:"kind,omitzero"`  // left out where it does not verify
	Path           string               `json:"path"`
	ResubmissionOf string               `json:"resubmission_of,omitzero"` // path of an earlier package of the same run with another statement
	Result         any                  `json:"result,omitzero"`          // what verify prints of it alone
}

// The words for exit codes in the lines of several packages.
var codeWords = map[int]string{exit.OK: "ok", exit.Failure: "failure", exit.Usage: "usage", exit.Findings: "findings", exit.Evidence: "does not verify",
	exit.Incomplete: "incomplete", exit.Untrusted: "signer not trusted"}

// CheckAll verifies several packages one after another and passes a line about each, and its text for a person, to show. One
// that does not verify stops no other. The error has the exit code that has precedence.
func (e Env) CheckAll(paths []string, v Request, show func(Line, string) error) error {
	seen := map[string][]*Checked{} // by run id
	var worst *exit.Error
	failed := 0
	for _, path := range paths {
		one := v
		if p, err := Open(path); err != nil || !p.Packaged {
			one.Dataset = "" // which is about packages
		} else {
			p.Close()
		}
		c, err := e.Check(path, one)
		line := Line{Path: path}
		if err == nil {
			c.path, line.Kind, line.Result = path, c.kind, c.Result
			err = exit.First(e.compare(seen, c, &line), c.Err)
		}
		if err != nil {
			f := exit.Of(err)
			if f.Code == exit.Interrupted {
				return err
			}
			line.ExitCode, line.Error = f.Code, f.Err.Error()
			if failed++; worst == nil || exit.Compare(f.Code, worst.Code) < 0 {
				worst = f
			}
		}
		if err := show(line, line.text(c)); err != nil {
			return err
		}
	}
	if worst == nil {
		return nil
	}
	hint := "gaia verify PATH shows more of one"
	if found := (*rundir.Equivocation)(nil); errors.As(worst.Err, &found) {
		hint = equivocationHint
	}
	return &exit.Error{Code: worst.Code, Err: fmt.Errorf("%d of %d have another exit code than 0; the gravest: %w", failed, len(paths), worst.Err), Hints: []string{hint}}
}

// text returns the line for a person; c is nil where it does not verify.
func (l Line) text(c *Checked) string {
	text := fmt.Sprintf("%s: %s: ", view.Quote(l.Path), cmp.Or(codeWords[l.ExitCode], fmt.Sprintf("exit code %d", l.ExitCode)))
	if c == nil {
		return text + l.Error
	}
	text += l.Kind + " of run " + c.commitment.RunID
	if p := c.statement; p != nil && p.Scores != nil {
		text += fmt.Sprintf(", official %d of %d", p.Scores.Official.Correct, p.Scores.Official.Planned)
	}
	if v, ok := c.Result.(Verification); ok {
		if v.Package != nil {
			text += ", audit " + auditRow(*v.Package, v.Dismissals)
		}
		if v.Exceptions != (rundir.Exceptions{}) {
			text += "; exceptions: " + v.Exceptions.String()
		}
		if len(v.Future) > 0 {
			text += "; later than the clock of this machine: " + strings.Join(v.Future, ", ")
		}
	}
	for _, other := range [][2]string{{"; agrees with ", l.AgreesWith}, {"; made of another audit or other decisions than ", l.DiffersFrom},
		{", the same as ", l.DuplicateOf}, {", a resubmission of the run of ", l.ResubmissionOf}} {
		if other[1] != "" {
			text += other[0] + view.Quote(other[1])
		}
	}
	if l.Error != "" {
		text += ": " + l.Error
	}
	return text
}

// compare compares a package with the earlier ones of the same run, adds the result to its line, and remembers it. The error
// is an equivocation, or that a public and a full package are not of the same files.
func (e Env) compare(seen map[string][]*Checked, c *Checked, line *Line) error {
	earlier := seen[c.commitment.RunID]
	seen[c.commitment.RunID] = append(earlier, c)
	for _, before := range earlier {
		if before.digest == c.digest && c.digest != "" {
			line.DuplicateOf = cmp.Or(line.DuplicateOf, before.path)
		} else if before.kind == c.kind && strings.HasSuffix(c.kind, "package") {
			line.ResubmissionOf = cmp.Or(line.ResubmissionOf, before.path)
		}
	}
	for _, before := range earlier {
		if err := Equivocation(before.commitment, c.commitment, [2]string{before.path, c.path}); err != nil {
			errors.As(err, &line.Equivocation)
			return err
		}
	}
	for _, before := range earlier {
		if err := e.comparePair(before, c, line); err != nil {
			return err
		}
	}
	return nil
}

// comparePair compares a public package with a full one of the same run, whichever was first, and adds to the line whether
// they are of the same audit and decisions. The error is that they are not of the same files.
func (e Env) comparePair(before, c *Checked, line *Line) error {
	full, posted := before, c
	if full.kind == publicKind {
		full, posted = c, before
	}
	if full.kind != packageKind || posted.kind != publicKind {
		return nil
	}
	p, err := Open(full.path)
	if err != nil {
		return err
	}
	defer p.Close()
	of, err := p.Verify(submit.Options{Harness: e.Harness, Once: true})
	if err != nil {
		return err
	}
	q, err := Open(posted.path)
	if err != nil {
		return err
	}
	defer q.Close()
	_, err = q.isOf(of, e.Harness)
	fault := (*trajectory.Fault)(nil)
	switch {
	case errors.As(err, &fault) && fault.File == submit.AttestationFile:
		line.DiffersFrom = cmp.Or(line.DiffersFrom, before.path)
	case err != nil:
		return err
	default:
		line.AgreesWith = cmp.Or(line.AgreesWith, before.path)
	}
	return nil
}

const equivocationHint = "keep both: together they show that the holder of this key vouches for two histories of one run; trust neither"

// Equivocation returns an error with exit code Evidence where one key vouches for two histories of a run.
func Equivocation(a, b rundir.Signed, paths [2]string) error {
	found, err := rundir.Equivocates(a, b, paths, headAt)
	if err != nil {
		return err
	}
	if found == nil {
		return nil
	}
	return exit.New(exit.Evidence, found, equivocationHint)
}

// headAt returns the head of a journal at path after so many events, "" where there
// is no journal: in a public package or a bundle.
func headAt(path, journal string, events int64) (string, error) {
	if info, err := os.Stat(path); err == nil && !info.IsDir() && !IsArchive(path) {
		return "", nil
	}
	p, err := Open(path)
	if err != nil {
		return "", err
	}
	defer p.Close()
	if p.IsPublic() {
		return "", nil
	}
	head, err := rundir.HeadAt(p.Files, journal, events)
	if fault := (*trajectory.Fault)(nil); errors.As(err, &fault) {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return head, err
}
