package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/rundir"
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
	p, err := openJournal(dir)
	if err != nil {
		return audit.Report{}, nil, err
	}
	defer p.Close()
	o := audit.Options{AuditedAt: f.auditedAt, Only: f.only}
	if p.packaged {
		o.Summary = submit.MetadataFile
	}
	gold := f.gold
	switch {
	case gold == goldPrivate && p.packaged:
		return audit.Report{}, nil, usage("give the dataset: hub, hub:OWNER/NAME, dir:PATH or fixtures", "%q is a package, which holds no gold answers", dir)
	case gold == "" && p.packaged:
		gold = goldNone
	case gold == "":
		gold = goldPrivate
	}
	if p.packaged {
		of, err := p.verify(submit.Options{Once: true})
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
		o.Gold, err = a.publishedGold(ctx, p.files, gold)
	}
	if err != nil {
		return audit.Report{}, nil, err
	}
	report, found, err := audit.Run(p.files, o)
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
		if !slices.Contains(report.Inputs.Bodies, body.sha256) {
			return audit.Report{}, nil, body.stray("run")
		}
	}
	return report, found, nil
}

// How large files can be that are read for an audit, in bytes.
const (
	maxReport = 64 << 20
	maxBody   = 256 << 20
)

// body is a file with a whole document.
type body struct{ path, sha256 string }

// stray is the error of a document that nothing in the run or report of a package has.
func (b body) stray(of string) error {
	return usage("a document is known by its digest: it must be what the tool got, byte for byte, or what 'gaia show DIR --body DIGEST' writes", "%q is no document of this %s", b.path, of)
}

// readBodies reads files with whole documents.
func readBodies(paths []string) (all map[string][]byte, given []body, err error) {
	all = map[string][]byte{}
	for _, path := range paths {
		b, err := readUpTo(path, maxBody)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the document %q: %w", path, err)
		}
		digest := canonical.Digest(b)
		all[digest] = b
		given = append(given, body{path, digest})
	}
	return all, given, nil
}

// documents reads the files that are to be held against the run.
func (f auditing) documents(o *audit.Options) (given []body, err error) {
	if o.Bodies, given, err = readBodies(f.bodies); err != nil {
		return nil, err
	}
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
