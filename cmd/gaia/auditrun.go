package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/rundir"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
)

// storedReport reads a report that was printed or packaged before.
func storedReport(path string, f auditing) (audit.Report, error) {
	for _, flag := range [][2]string{{"gold", f.gold}, {"only", strings.Join(f.only, ",")}, {"body", strings.Join(f.bodies, ",")},
		{"usage-export", f.usage}, {"audited-at", f.auditedAt}} {
		if flag[1] != "" {
			return audit.Report{}, usage("give the run directory or package", "%q is a report that was made before, to which --%s says nothing", path, flag[0])
		}
	}
	b, err := readUpTo(path, maxReport)
	if err != nil {
		return audit.Report{}, fmt.Errorf("reading the report %q: %w", path, err)
	}
	r, err := audit.DecodeReport([]byte(strings.TrimSuffix(string(b), "\n"))) // which printing adds
	var fault *trajectory.Fault
	if errors.As(err, &fault) {
		return audit.Report{}, trajectory.Faultf(path, "%s", fault.Reason)
	}
	return r, err
}

// auditRun audits a run directory with the gold answers of its private file, or
// a package without, or either with those of a dataset. A package is verified
// first: the audit itself reads no more of it than what a run has.
func (a *app) auditRun(ctx context.Context, dir string, f auditing) (audit.Report, *rundir.Run, error) {
	p, err := verify.OpenJournal(dir)
	if err != nil {
		return audit.Report{}, nil, err
	}
	defer p.Close()
	o := audit.Options{AuditedAt: f.auditedAt, Only: f.only}
	if p.Packaged {
		o.Summary = submit.MetadataFile
	}
	gold := f.gold
	switch {
	case gold == goldPrivate && p.Packaged:
		return audit.Report{}, nil, usage("give the dataset: hub, hub:OWNER/NAME, dir:PATH or fixtures", "%q is a package, which holds no gold answers", dir)
	case gold == "" && p.Packaged:
		gold = goldNone
	case gold == "":
		gold = goldPrivate
	}
	if p.Packaged {
		of, err := p.Verify(submit.Options{Once: true})
		if err != nil {
			return audit.Report{}, nil, err
		}
		o.Marked = of.Statement.Predicate.RecordingFailed
	}
	given, err := f.documents(&o)
	if err != nil {
		return audit.Report{}, nil, err
	}
	switch gold {
	case goldNone:
	case goldPrivate:
		o.Gold, err = privateGold(dir)
	default:
		o.Gold, err = a.publishedGold(ctx, p.Files, gold)
	}
	if err != nil {
		return audit.Report{}, nil, err
	}
	report, found, err := audit.Run(p.Files, o)
	if errors.Is(err, audit.ErrIncomplete) {
		return report, found, incomplete(dir, found)
	}
	if err == nil && gold != goldNone && gold != goldPrivate {
		err = a.compareQuestions(ctx, gold, found)
	}
	if err != nil {
		return report, found, privateFault(err)
	}
	for _, body := range given {
		if !slices.Contains(report.Inputs.Bodies, body.SHA256) {
			return audit.Report{}, nil, body.Stray("run")
		}
	}
	return report, found, nil
}

// How large files can be that are read for an audit, in bytes.
const (
	maxReport = 64 << 20
	maxBody   = 256 << 20
)

// readBodies reads files with whole documents.
func readBodies(paths []string) (given []verify.Body, err error) {
	for _, path := range paths {
		b, err := readUpTo(path, maxBody)
		if err != nil {
			return nil, fmt.Errorf("reading the document %q: %w", path, err)
		}
		given = append(given, verify.Body{path, canonical.Digest(b), b})
	}
	return given, nil
}

// byDigest returns documents by their digests.
func byDigest(given []verify.Body) map[string][]byte {
	all := map[string][]byte{}
	for _, b := range given {
		all[b.SHA256] = b.Data
	}
	return all
}

// documents reads the files that are to be held against the run.
func (f auditing) documents(o *audit.Options) (given []verify.Body, err error) {
	if given, err = readBodies(f.bodies); err != nil {
		return nil, err
	}
	o.Bodies = byDigest(given)
	if f.usage == "" {
		return given, nil
	}
	b, err := readUpTo(f.usage, audit.MaxUsageExport)
	if err != nil {
		return nil, fmt.Errorf("reading the usage export %q: %w", f.usage, err)
	}
	if o.Usage, err = audit.ParseUsageExport(b); err != nil {
		return nil, usage("it is JSON, JSON lines or CSV, with an id or the tokens of each request", "the usage export %q: %v", f.usage, err)
	}
	return given, nil
}
