package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/audit/render"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
)

// Where the gold answers of an audit are from, besides a source of tasks.
const (
	GoldPrivate = "private"
	GoldNone    = "none"
)

// AuditRequest describes what to audit, and with what.
type AuditRequest struct {
	Place     string                        // of a run directory, a package, or a report from an earlier audit
	Gold      string                        // GoldPrivate, GoldNone, a source of tasks, or "": what the place has
	Bodies    []string                      // files with whole documents
	Usage     string                        // file with the provider's list of requests
	AuditedAt string                        // time that the report gives
	Only      []string                      // ids of the checks to run; empty: all
	Strict    bool                          // no countersigned dismissal counts, and nothing may be left to review
	Trust     func() (keyring.Trust, error) // whom the reader trusts
	Opened    *Evidence                     // what is at Place, if it is open already; it stays open
}

// Check checks the time and the checks of the request, and settles their form.
func (r *AuditRequest) Check() error {
	if r.AuditedAt != "" {
		at, err := time.Parse(time.RFC3339, r.AuditedAt)
		if at = at.UTC(); err != nil || at.Year() < 0 || at.Year() > 9999 {
			return exit.Usagef("give it as 2026-01-02T03:04:05Z", "--audited-at %q is no time", r.AuditedAt)
		}
		r.AuditedAt = at.Format(trajectory.TimeFormat)
	}
	for i, id := range r.Only {
		c, err := render.CheckOf(id)
		if err != nil {
			return err
		}
		r.Only[i] = c.ID
	}
	return nil
}

// Audited is the result of an audit.
type Audited struct {
	Report  audit.Report
	Counted audit.Report // with the countersigned dismissals that the reader trusts
	Run     *rundir.Run  // nil: the report is from an earlier audit
	Dir     string       // of the run or package; "" if a report is beside none
	Signer  error        // that the reader does not trust the signer of the run
}

// Audit verifies and audits a run or a package, or reads a report from an earlier audit.
func (e Env) Audit(r AuditRequest) (a Audited, err error) {
	if info, statErr := os.Stat(r.Place); statErr == nil && info.Mode().IsRegular() && !IsArchive(r.Place) {
		if _, err := os.Stat(filepath.Join(filepath.Dir(r.Place), trajectory.JournalFile)); err == nil {
			a.Dir = filepath.Dir(r.Place)
		}
		a.Report, err = r.stored()
	} else {
		a.Dir = r.Place
		a.Report, a.Run, err = e.auditRun(r)
	}
	if a.Run != nil {
		trusted, err := r.Trust()
		if err != nil {
			return a, err
		}
		_, a.Signer = trusted.Of(a.Run.Key)
	}
	if err != nil {
		return a, exit.First(a.Signer, err)
	}
	a.Counted = a.Report
	pending := func(d audit.Adjudicated) bool { return d.Pending == audit.PendingTrust }
	if r.Strict || !slices.ContainsFunc(a.Report.Adjudications, pending) {
		return a, nil
	}
	trusted, err := r.Trust()
	if err != nil {
		return a, err
	}
	a.Counted = a.Report.Trusting(trusted.Trusts)
	if a.Run != nil { // else the scores stay
		totals := &a.Counted.Totals
		totals.Raw, totals.Clean, totals.Worst = audit.Rescore(a.Run.Rows(), a.Counted.Checks)
	}
	return a, nil
}

// stored reads a report that was printed or packaged before.
func (r AuditRequest) stored() (audit.Report, error) {
	for _, flag := range [][2]string{{"dataset", r.Gold}, {"only", strings.Join(r.Only, ",")}, {"body", strings.Join(r.Bodies, ",")},
		{"usage-export", r.Usage}, {"audited-at", r.AuditedAt}} {
		if flag[1] != "" {
			return audit.Report{}, exit.Usagef("give the run directory or package", "%q is a report from an earlier audit, to which --%s does not apply", r.Place, flag[0])
		}
	}
	const most = 64 << 20 // bytes
	b, err := regular.ReadUpTo(r.Place, most)
	if err != nil {
		return audit.Report{}, fmt.Errorf("reading the report %q: %w", r.Place, err)
	}
	report, err := audit.DecodeReport([]byte(strings.TrimSuffix(string(b), "\n"))) // which printing adds
	if fault := (*trajectory.Fault)(nil); errors.As(err, &fault) {
		return audit.Report{}, trajectory.Faultf(r.Place, "%s", fault.Reason)
	}
	return report, err
}

// auditRun audits a run directory with the gold answers of its private file, or a package without, or either with those of a
// dataset. A package is verified, too: the audit itself reads no more of it than a run has.
func (e Env) auditRun(r AuditRequest) (none audit.Report, _ *rundir.Run, err error) {
	p := r.Opened
	if p == nil {
		if p, err = OpenJournal(r.Place); err != nil {
			return none, nil, err
		}
		defer p.Close()
	}
	o := audit.Options{AuditedAt: r.AuditedAt, Only: r.Only}
	gold := r.Gold
	switch {
	case gold == GoldPrivate && p.Packaged:
		return none, nil, exit.Usagef("give the dataset: hub, hub:OWNER/NAME, dir:PATH or fixtures", "%q is a package, which holds no gold answers", r.Place)
	case gold == "" && p.Packaged:
		gold = GoldNone
	case gold == "":
		gold = GoldPrivate
	}
	bodies, err := ReadBodies(r.Bodies)
	if err == nil {
		o.Bodies = bodies.ByDigest()
		o.Usage, err = readUsage(r.Usage)
	}
	published, run := gold != GoldNone && gold != GoldPrivate, audit.Run
	if p.Packaged && (published || err != nil) { // a broken package is reported first, and before a dataset is read
		of, broken := p.Verify(submit.Options{Once: true})
		if broken != nil {
			return none, nil, broken
		}
		o.Summary, o.Marked = submit.MetadataFile, of.Statement.Predicate.RecordingFailed
	} else if p.Packaged {
		run = func(_ fs.FS, o audit.Options) (audit.Report, *rundir.Run, error) { return p.Audit(o) }
	}
	if err != nil {
		return none, nil, err
	}
	switch {
	case gold == GoldPrivate:
		o.Gold, err = grading.PrivateGold(r.Place)
	case published:
		m, _, _, readErr := rundir.ReadPlan(p.Files)
		if err = readErr; err == nil {
			o.Gold, err = e.Gold(gold, m)
		}
	}
	if err != nil {
		return none, nil, err
	}
	report, found, err := run(p.Files, o)
	if errors.Is(err, audit.ErrIncomplete) {
		return report, found, e.Incomplete(r.Place, found)
	}
	if err == nil && published {
		err = e.Questions(gold, found)
	}
	if err != nil {
		return report, found, grading.PrivateFault(err)
	}
	if err := bodies.Check(report.Inputs.Bodies, "run"); err != nil {
		return none, nil, err
	}
	return report, found, nil
}

func readUsage(file string) (*audit.UsageExport, error) {
	if file == "" {
		return nil, nil
	}
	b, err := regular.ReadUpTo(file, audit.MaxUsageExport)
	if err != nil {
		return nil, fmt.Errorf("reading the usage export %q: %w", file, err)
	}
	u, err := audit.ParseUsageExport(b)
	if err != nil {
		return nil, exit.Usagef("it is JSON, JSON lines or CSV, with an id or the tokens of each request", "the usage export %q: %v", file, err)
	}
	return u, nil
}

// Err returns an error for a report that keeps its run from being submitted, or, where the request is strict, has something
// to review.
func (a Audited) Err(r AuditRequest) error {
	report := a.Counted
	if why := render.Unclean(report); why != "" {
		first := "" // check that keeps the run from being clean
		at := slices.IndexFunc(report.Checks, func(c audit.CheckReport) bool { return c.Status == audit.Fail || c.Gate && len(c.Gaps) > 0 })
		if at >= 0 {
			first = report.Checks[at].ID
		}
		hint := "gaia audit --explain " + first
		switch {
		case first == "": // only some checks ran
			hint = "leave --only out: some of the checks are no audit"
		case (r.Gold == "" || r.Gold == GoldNone) && IsPackage(r.Place):
			hint = "a package holds no gold answers, which some checks need: --dataset hub or dir:PATH reads them; its own " + audit.ReportFile + " was made with them"
		case r.Gold == GoldNone && len(report.Attestation.CriticalFailures)+len(report.Attestation.WarnFailures) == 0:
			hint = "leave --dataset none out: some checks need the gold answers, of the run's private file or of the plan's dataset"
		}
		return exit.New(exit.Findings, errors.New("the audit is not clean: "+why), hint)
	}
	if reviews := render.Reviews(report); r.Strict && !report.Attestation.StrictClean {
		return exit.New(exit.Findings, errors.New("the audit is clean, but not by --strict: to be reviewed: "+strings.Join(reviews, ", ")), "gaia audit --explain "+reviews[0])
	}
	return nil
}
