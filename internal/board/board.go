// Package board makes a static leaderboard of packages: a site of files that any host can serve and that opens from a
// folder, without a script.
//
// Run verifies every package of a folder and asks board.yaml which of them count. A package that does not verify, that
// is signed by an untrusted key or that the rules leave out is listed with its reasons, and never ranked. Nothing here
// proves more than a package does: a score stays its signer's word, and the site says so.
//
// The same packages, rules and trusted keys give the same bytes. The clock decides only whether a key has expired.
package board

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
)

// Config says what board to make.
type Config struct {
	Packages string        // folder with packages, and board.yaml
	Rules    string        // file in the place of its board.yaml; "" that one, if there is one
	Out      string        // folder of the site; not used with Check
	Check    bool          // verify, and write nothing
	Own      keyring.Trust // whom the reader trusts; counts where the rules name no key
	Progress io.Writer     // gets a line for each package that was verified; nil: none
}

// Line says what became of a package.
type Line struct {
	AttestationSHA256 string   `json:"attestation_sha256,omitzero"` // the digest of the package; left out where it does not verify
	Counts            bool     `json:"counts"`                      // it has a rank
	ExitCode          int      `json:"exit_code"`                   // 0 where it counts, another one of its run does, or board.yaml leaves it out
	File              string   `json:"file"`                        // its name in the folder
	Package           string   `json:"package,omitzero"`            // its name; left out where it does not verify
	Reasons           []string `json:"reasons,omitempty"`           // why it does not count
}

// Text returns the line of a package that does not count, for a person.
func (l Line) Text() string {
	return view.Line(view.Quote(l.File) + ": does not count: " + strings.Join(l.Reasons, "; "))
}

// Result is what Run did.
type Result struct {
	Lines []Line // of all packages, by the names of their files
	Data  Data   // what the site shows
	Out   string // the site that was written; "" for none
}

// Run verifies the packages of a folder and writes the site, or with Check returns an error if a package does not count
// and board.yaml does not leave it out. The error has the exit code that has precedence; the result is complete then.
func Run(ctx context.Context, c Config) (Result, error) {
	if !c.Check { // before an hour of verification
		if err := exit.First(verify.NotWithin("the site", c.Packages, c.Out), replaceable(filepath.Clean(c.Out))); err != nil {
			return Result{}, err
		}
	}
	texts, rules, trust, err := readRules(c.Packages, c.Rules, c.Own)
	if err != nil {
		return Result{}, err
	}
	all, err := c.verify(ctx, trust)
	if err != nil {
		return Result{}, err
	}
	unmatched := decide(all, rules)
	r := Result{Data: newData(texts, rules, all, unmatched)}
	for _, e := range all {
		r.Lines = append(r.Lines, e.line())
	}
	if c.Check {
		if len(all) == 0 { // a check of a wrong folder must not end well
			return r, exit.Usagef("give a folder with packages that 'gaia submit' made", "there is no package in %q", c.Packages)
		}
		return r, r.checked()
	}
	files, err := r.Data.files()
	if err != nil {
		return r, err
	}
	if err := writeSite(ctx, c.Out, files); err != nil {
		return r, err
	}
	r.Out = c.Out
	return r, nil
}

// checked returns an error for the first of the gravest lines.
func (r Result) checked() error {
	var worst *Line
	failed := 0
	for i, l := range r.Lines {
		if l.ExitCode == exit.OK {
			continue
		}
		if failed++; worst == nil || exit.Compare(l.ExitCode, worst.ExitCode) < 0 {
			worst = &r.Lines[i]
		}
	}
	switch {
	case worst != nil:
		return exit.New(worst.ExitCode, fmt.Errorf("not counted: %d of %s, and %s names no reason; the gravest: %s", failed,
			view.Count(len(r.Lines), "package"), RulesFile, worst.Text()),
			"gaia verify shows more of one; to leave it out, write its name and a reason below exclude in "+RulesFile)
	case len(r.Data.Unmatched) > 0:
		return exit.Usagef("remove it, or correct the name", "the exclusion of %q in %s matches no package", r.Data.Unmatched[0], RulesFile)
	}
	return nil
}

// Print writes what became of the packages: a table of those that count, a line for each of the others, and where the
// site is; or a line of JSON for each.
func (r Result) Print(w io.Writer, asJSON bool) error {
	var text strings.Builder
	if n := len(r.Data.Packages); n > 0 {
		table := view.NewTable("rank", "official", "95 % interval", "cost", "package")
		for _, p := range r.Data.Packages {
			table.Row(p.Rank.Text(), fmt.Sprintf("%d of %d", p.Score.Correct, p.Score.Planned),
				view.Percent(p.Score.WilsonLowPPM)+" – "+view.Percent(p.Score.WilsonHighPPM), view.Dollars(p.CostMicroUSD), p.File)
		}
		fmt.Fprintf(&text, "%s\n\n", table)
	}
	for _, l := range r.Lines {
		if asJSON {
			if err := view.JSON(w, l); err != nil {
				return err
			}
		} else if !l.Counts {
			fmt.Fprintln(&text, l.Text())
		}
	}
	if asJSON {
		return nil
	}
	if r.Out != "" {
		fmt.Fprintf(&text, "written to %s: ", view.Line(r.Out))
	}
	fmt.Fprintf(&text, "%s, %d ranked\n", view.Count(len(r.Lines), "package"), len(r.Data.Packages))
	_, err := io.WriteString(w, text.String())
	return err
}

// line says what became of a package.
func (e *entry) line() Line {
	l := Line{File: e.file, Counts: len(e.reasons) == 0}
	if e.row != nil {
		l.AttestationSHA256, l.Package = e.row.AttestationSHA256, e.row.Package
	}
	left := false // board.yaml leaves it out, or another package of its run counts
	for _, r := range e.reasons {
		l.Reasons = append(l.Reasons, r.text)
		left = left || r.code == exit.OK
		if l.ExitCode == exit.OK || exit.Compare(r.code, l.ExitCode) < 0 {
			l.ExitCode = r.code
		}
	}
	if left {
		l.ExitCode = exit.OK
	}
	return l
}
