package board

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/build"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
	"golang.org/x/sync/errgroup"
)

// Limits of a folder of packages. They bound what an hour of verification, and the comparison of all pairs, cost.
const (
	maxPackages  = 1000
	maxVerifiers = 8 // packages that are verified at once
)

// entry is something in the folder that is, or should be, a package.
type entry struct {
	file    string
	row     *Row     // nil: it does not verify
	reasons []reason // why it does not count; empty: it does

	// Of one that verifies:
	dataset  plan.Dataset
	rejected []string // reasons that the package gives against itself
	checks   []submit.CheckResult
	signed   rundir.Signed
	tasks    []stats.Scored // in plan order; void ones have failed
	untrust  error          // the signer is not trusted
}

// reason is why a package does not count. Its code is what gaia board --check ends with; exit.OK says that board.yaml
// leaves the package out, or that another one of its run counts.
type reason struct {
	code int
	text string
}

func (e *entry) reject(code int, format string, args ...any) {
	e.reasons = append(e.reasons, reason{code, fmt.Sprintf(format, args...)})
}

// verify verifies what is in the folder, several packages at once. The entries are in the order of their names. The
// error is one of this machine; that of a package is a reason of its entry.
func (c Config) verify(ctx context.Context, trust keyring.Trust) ([]*entry, error) {
	all, err := c.list()
	if err != nil {
		return nil, err
	}
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(min(runtime.GOMAXPROCS(0), maxVerifiers))
	var mutex sync.Mutex
	done, shown := make([]bool, len(all)), 0
	for at, e := range all {
		workers.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			err := e.verify(filepath.Join(c.Packages, e.file), trust)
			mutex.Lock()
			defer mutex.Unlock()
			for done[at] = true; shown < len(all) && done[shown]; shown++ { // in their order
				if c.Progress != nil {
					word := map[bool]string{true: "verifies", false: "does not verify"}[all[shown].row != nil]
					fmt.Fprintf(c.Progress, "%d of %d: %s %s\n", shown+1, len(all), view.Line(all[shown].file), word)
				}
			}
			return err
		})
	}
	return all, workers.Wait()
}

// list returns what is, or should be, a package in the folder: folders and archives that are one, whole or damaged, or
// are called so, run directories, and what is neither a folder nor a regular file. Names that begin with a dot are not
// looked at; a note names whatever else is there.
func (c Config) list() ([]*entry, error) {
	info, err := os.Stat(c.Packages)
	if err == nil && !info.IsDir() {
		err = errors.New("is not a folder")
	}
	if err != nil {
		return nil, exit.Usagef("give a folder with packages that 'gaia submit' made", "reading the packages in %q: %v", c.Packages, regular.Cause(err))
	}
	if verify.IsPackage(c.Packages) {
		return nil, exit.Usagef("give the folder that it is in", "%q is itself a package", c.Packages)
	}
	dir, err := os.Open(c.Packages)
	if err != nil {
		return nil, fmt.Errorf("reading the packages in %q: %w", c.Packages, regular.Cause(err))
	}
	defer dir.Close()
	var all []*entry
	var ignored []string
	for {
		some, err := dir.ReadDir(maxPackages)
		for _, f := range some {
			name := f.Name()
			switch {
			case strings.HasPrefix(name, "."), name == RulesFile:
			case (f.IsDir() || f.Type().IsRegular()) && !isPackage(filepath.Join(c.Packages, name)):
				if len(ignored) <= maxIgnored {
					ignored = append(ignored, name)
				}
			default:
				all = append(all, &entry{file: name})
			}
		}
		if len(all) > maxPackages {
			return nil, exit.Usagef("divide them", "%q holds more than %d packages", c.Packages, maxPackages)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading the packages in %q: %w", c.Packages, regular.Cause(err))
		}
	}
	slices.SortFunc(all, func(a, b *entry) int { return strings.Compare(a.file, b.file) })
	if len(ignored) > 0 && c.Progress != nil {
		slices.Sort(ignored)
		names := make([]string, 0, maxIgnored+1)
		for _, name := range ignored {
			if names = append(names, view.Line(view.Quote(name))); len(names) > maxIgnored {
				names[maxIgnored] = "…"
			}
		}
		fmt.Fprintf(c.Progress, "not packages, and ignored: %s\n", strings.Join(names, ", "))
	}
	return all, nil
}

// maxIgnored bounds the names that a note lists.
const maxIgnored = 10

// isPackage reports whether a folder or file is, or should be, a package. One that lost files still is: by its name, or
// by any file that it shares with a run directory. What cannot be looked into is one, too, so that reading it fails.
func isPackage(path string) bool {
	name := filepath.Base(path)
	return strings.HasPrefix(name, submit.NamePrefix) || strings.HasSuffix(name, submit.ArchiveSuffix) || strings.HasSuffix(name, ".tgz") ||
		verify.IsPackage(path) || verify.IsRun(path) == nil
}

// verify verifies the package at path. The error is one of this machine, which says nothing about the package.
func (e *entry) verify(path string, trust keyring.Trust) error {
	info, err := os.Lstat(path)
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		e.reject(exit.Evidence, "it is neither a folder nor a file, but a link or a device")
		return nil
	}
	if err == nil {
		err = e.read(path, trust)
	}
	switch scratch := (*submit.ScratchError)(nil); {
	case err == nil:
		return nil
	case errors.As(err, &scratch), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE),
		errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EIO), errors.Is(err, syscall.ENOMEM):
		return err
	}
	e.row = nil
	code := exit.Of(err).Code
	if code == exit.Usage { // what is there is no package
		code = exit.Evidence
	}
	// A page names no folder of this machine.
	text := strings.NewReplacer(strconv.Quote(path), strconv.Quote(e.file), path, e.file).Replace(err.Error())
	e.reject(code, "it does not verify: %s", text)
	return nil
}

// read verifies the package at path and fills the entry.
func (e *entry) read(path string, trust keyring.Trust) error {
	p, err := verify.Open(path)
	if err != nil {
		return err
	}
	defer p.Close()
	if !p.Packaged {
		return exit.Usagef("", "it is a run directory, of which 'gaia submit' makes a package")
	}
	o := submit.Options{Harness: build.Harness}
	if p.IsPublic() {
		of, err := p.VerifyPublic(o)
		if err != nil {
			return err
		}
		e.public(of, trust)
	} else {
		of, err := p.Verify(o)
		if err != nil {
			return err
		}
		e.full(of, trust)
	}
	envelope, err := rundir.ReadFile(p.Files, submit.AttestationFile, maxAttestation)
	e.row.AttestationSHA256 = canonical.Digest(envelope)
	return err
}

// maxAttestation bounds, in bytes, the file whose digest is a package's, as its verification does.
const maxAttestation = 16 << 20

// full fills the entry from a full package.
func (e *entry) full(of *submit.Verified, trust keyring.Trust) {
	report := of.Report.Trusting(trust.Trusts)
	for _, c := range report.Checks {
		e.checks = append(e.checks, submit.CheckResult{ID: c.ID, Status: c.Status, Findings: len(c.Findings), Gaps: len(c.Gaps), Severity: c.Severity})
	}
	m, summary := of.Run.Manifest, of.Run.Summary()
	p := of.Statement.Predicate
	e.rejected = p.DirtyReasons
	if p.Audit.CountersignedClean && !report.Attestation.Clean {
		e.rejected = append(e.rejected, "the dismissal of a CRITICAL finding is countersigned by a key that is not trusted")
	}
	if scored, err := of.Run.ScoredTasks(); err == nil { // else it is unscored
		e.tasks = scored
	}
	e.signed = of.Run.Signed()
	e.fill(m, p, of.Key, trust)
	e.row.CostMicroUSD, e.row.DurationMs, e.row.Tokens = summary.CostMicroUSD, summary.DurationMs, summary.Tokens.In+summary.Tokens.Out
	e.row.Claims = of.Claims(submit.Given{Trusted: e.untrust == nil})
	e.row.NotRebuilt, e.row.NotRerun = of.NotRebuilt, of.NotRerun
	e.row.Findings = listed(report)
}

// listed returns the findings of a report, with the reasons of those who closed them.
func listed(report audit.Report) (all []Finding) {
	reasons := map[string]string{}
	for _, a := range report.Adjudications {
		reasons[a.Finding] = a.Reason
	}
	for _, c := range report.Checks {
		for _, f := range c.Findings {
			one := Finding{Closed: string(f.Closed), Line: f.Seq + 1, Rule: f.RuleID, Severity: string(f.Severity), TaskID: f.TaskID}
			if f.Closed != "" {
				one.Reason = reasons[f.ID]
			}
			all = append(all, one)
		}
	}
	return all[:min(len(all), maxFindings)]
}

// public fills the entry from a public package.
func (e *entry) public(of *submit.Public, trust keyring.Trust) {
	p := of.Statement.Predicate
	e.checks, e.rejected = p.Audit.Checks, p.DirtyReasons
	if p.Scores != nil {
		for i, r := range of.Results {
			e.tasks = append(e.tasks, stats.Scored{CostMicroUSD: r.CostMicroUSD, FileName: of.Manifest.Tasks[i].FileName, Level: r.Level,
				MetadataSHA256: of.Manifest.Dataset.MetadataSHA256, Outcome: r.Outcome, TaskID: r.TaskID, Tokens: r.Tokens.In + r.Tokens.Out})
		}
	}
	e.signed = rundir.Signed{Complete: true, Events: p.Journal.Events, Head: p.Journal.Head, KeyID: of.Key.ID(), ManifestSHA256: p.ManifestSHA256,
		Root: p.Root, RunID: p.RunID}
	e.fill(of.Manifest, p, of.Key, trust)
	e.row.CostMicroUSD, e.row.DurationMs, e.row.Tokens = of.Summary.CostMicroUSD, of.Summary.DurationMs, of.Summary.Tokens.In+of.Summary.Tokens.Out
	e.row.Claims = of.Claims(submit.Given{Trusted: e.untrust == nil})
	e.row.NotRebuilt = of.NotRebuilt
}

// fill fills the entry with what both kinds of packages have.
func (e *entry) fill(m plan.Plan, p submit.Predicate, key sign.PublicKey, trust keyring.Trust) {
	e.dataset = m.Dataset
	_, e.untrust = trust.Of(key)
	by := p.AnsweredBy
	r := Row{Agent: by.Agent, Date: p.Date, Dataset: m.Dataset.Name, Exceptions: p.Exceptions, File: e.file, Levels: []Level{}, ManifestSHA256: p.ManifestSHA256, Model: by.Model,
		Origin: by.Origin, Package: p.Name, Planned: p.TasksPlanned, Proven: SelfAttested, Public: p.Public, Rehearsal: p.Rehearsal,
		Reviews: []string{}, Revision: m.Dataset.Revision, RunID: p.RunID, Selection: m.Dataset.Selection, Split: m.Dataset.Split,
		Signer: Signer{KeyID: key.ID(), Name: trust.NameOf(key), PublicKey: key.Line(), Trusted: e.untrust == nil}, Void: len(p.VoidTasks),
		Submitter: p.Submitter, Dismissed: p.Dismissed, VotingAttempts: p.VotingAttempts}
	if by.Own != nil {
		r.OwnAgent, r.Prompts = by.Own, p.Prompts
	}
	for _, c := range e.checks {
		if c.Status == audit.Review {
			r.Reviews = append(r.Reviews, c.ID)
		}
		r.Checks = append(r.Checks, Check{c.ID, c.Findings, c.Gaps, string(c.Status)})
	}
	solved, of := map[int]int{}, map[int]int{} // by level
	for i, t := range e.tasks {
		if slices.Contains(p.VoidTasks, t.TaskID) && t.Outcome == trajectory.Solved {
			e.tasks[i].Outcome = trajectory.Failed
		}
		of[t.Level]++
		if e.tasks[i].Outcome == trajectory.Solved {
			solved[t.Level]++
		}
	}
	if len(e.tasks) > 0 {
		correct := 0
		for level := 1; level <= maxLevel; level++ {
			if of[level] > 0 {
				correct += solved[level]
				r.Levels = append(r.Levels, Level{level, stats.NewRate(solved[level], of[level])})
			}
		}
		r.Score = new(stats.NewRate(correct, len(e.tasks)))
		if p.Scores == nil || p.Scores.Official.Correct != correct || p.Scores.Official.Planned != len(e.tasks) { // which verification rules out
			e.rejected = append(e.rejected, "its tasks do not give the score of its statement")
		}
	}
	if p.Scores != nil && p.Scores.Judged != nil {
		r.Judged = new(stats.NewRate(p.Scores.Judged.Correct, p.Scores.Judged.Planned))
	}
	e.row = &r
}

// maxLevel is the highest level of a task.
const maxLevel = 3
