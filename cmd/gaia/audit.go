package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/audit/render"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/spf13/cobra"
)

// auditing is what the flags of audit say.
type auditing struct {
	format, explain string
	bodies          []string // files with whole documents
	usage           string   // file with the provider's usage export
	gold            string   // goldPrivate, goldNone, a source as --source writes it; "": what the directory has
	auditedAt       string
	only            []string
	strict          bool
	schema, asJSON  bool
	trusted         trustFlags
}

// Where the gold answers are from, besides a source of tasks.
const (
	goldPrivate = "private"
	goldNone    = "none"
)

// The forms of a report.
const (
	formatText     = "text"
	formatJSON     = "json"
	formatSARIF    = "sarif"
	formatMarkdown = "markdown"
	formatGitHub   = "github"
)

func (a *app) auditCommand() *cobra.Command {
	var flags auditing
	cmd := &cobra.Command{
		Use:   "audit DIR|PACKAGE|REPORT.json",
		Short: "Look for the known ways of earning a score without solving the tasks",
		Long: `Audit verifies a run or a package and then looks for the known ways of earning
a score without solving the tasks. It uses no network except the hub, with
--gold hub: the same run gives the same report. REPORT.json is a report from an
earlier audit: it is checked against its own findings and shown, with the same
exit codes. Only an audit of the run shows that it is the run's.

A check that could not see something reports a gap, which is never a pass.
  - --body gives a whole document of which the journal has an excerpt
  - --usage-export gives the provider's list of requests
  - the gold answers come from the run's private file, checked against the plan's
    commitment; a package has none, so give --gold to read the plan's dataset

The report counts no countersigned dismissal. The text and the exit code count
those whose countersigner you trust, as 'gaia verify' does; --strict counts none.

Exit code 0: clean, no check of the gate failed or had a gap. 3: it did, or
--strict found something to review, or --only ran some of the checks alone.
6: the report is printed, but you do not trust the run's signer.`,
		Example: `  gaia audit runs/01J…
  gaia audit --gold hub submission-2026-01-02-5XK9QZ7M
  gaia audit --format json runs/01J… | jq .attestation.harness_gaps
  gaia audit --format sarif runs/01J… > gaia.sarif
  gaia audit --format markdown report.json
  gaia audit --body page.html --usage-export activity.csv runs/01J…
  gaia audit --explain AUD-5`,
		Args: func(cmd *cobra.Command, args []string) error {
			if flags.explain != "" || flags.schema {
				return cli.NoArgs(cmd, args)
			}
			return cli.OneArg("the run directory, package or report")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.check(cmd); err != nil {
				return err
			}
			switch {
			case flags.schema:
				b, err := render.Schema()
				return a.write(b, err)
			case flags.explain != "":
				return render.Explain(a.stdout, flags.explain)
			}
			return a.audit(cmd.Context(), args[0], flags)
		},
	}
	formats := []string{formatText, formatJSON, formatSARIF, formatMarkdown, formatGitHub}
	f := cmd.Flags()
	f.Var(cli.Choice(&flags.format, strings.Join(formats, "|")), "format", "form of the report (default: text)")
	f.BoolVar(&flags.asJSON, "json", false, "print the report as JSON, like --format json")
	f.StringVar(&flags.gold, "gold", "", "where the gold answers are: private (of a run directory, the default), none, or the plan's dataset as --source writes it")
	f.StringSliceVar(&flags.only, "only", nil, "run only these checks, such as AUD-1,AUD-5; the result is never clean")
	f.StringArrayVar(&flags.bodies, "body", nil, "file with a whole document of which the run recorded an excerpt; repeatable")
	f.StringVar(&flags.usage, "usage-export", "", "file with the provider's list of requests, to compare with the journal")
	f.BoolVar(&flags.strict, "strict", false, "also fail if there is something to review")
	f.StringVar(&flags.auditedAt, "audited-at", "", "time that the report gives, by RFC 3339 (default: when the run was completed)")
	f.StringVar(&flags.explain, "explain", "", "explain a check, such as AUD-5, or a rule, instead of auditing")
	f.BoolVar(&flags.schema, "schema", false, "print the JSON Schema of a report, instead of auditing")
	flags.trusted.register(cmd)
	cli.Complete(cmd, "format", formats...)
	cli.CompleteList(cmd, "only", render.CheckIDs()...)
	cli.Complete(cmd, "explain", render.CheckIDs()...)
	cli.CompletePrefixes(cmd, "gold", goldPrivate, goldNone, sourceHub, sourceRepo, sourceDir, sourceFixtures)
	return cmd
}

// check refuses what the flags of cmd alone show to be wrong, and settles the
// rest.
func (f *auditing) check(cmd *cobra.Command) error {
	if err := cli.NotEmpty(cmd, "format", "gold", "only", "body", "usage-export", "audited-at", "explain"); err != nil {
		return err
	}
	given := cmd.Flags().Changed
	for _, alone := range []string{"explain", "schema"} {
		for _, other := range []string{"format", "json", "gold", "only", "body", "usage-export", "strict", "audited-at", "explain", "schema"} {
			if given(alone) && given(other) && alone != other {
				return usage("leave one of them out", "--%s audits nothing, so --%s says nothing", alone, other)
			}
		}
	}
	switch f.format {
	case "":
		f.format = formatText
	case formatText, formatJSON, formatSARIF, formatMarkdown, formatGitHub:
	default:
		return usage("give text, json, sarif, markdown or github", "--format is %q", f.format)
	}
	if f.asJSON {
		if given("format") && f.format != formatJSON {
			return usage("leave one of them out", "--json is --format json, not --format %s", f.format)
		}
		f.format = formatJSON
	}
	if f.gold != "" && f.gold != goldPrivate && f.gold != goldNone {
		if err := (&taskFlags{source: f.gold}).checkSource(); err != nil {
			return usage("give private, none, hub, hub:OWNER/NAME, dir:PATH or fixtures", "--gold is %q", f.gold)
		}
	}
	if f.auditedAt != "" {
		at, err := time.Parse(time.RFC3339, f.auditedAt)
		if at = at.UTC(); err != nil || at.Year() < 0 || at.Year() > 9999 {
			return usage("give it as 2026-01-02T03:04:05Z", "--audited-at %q is no time", f.auditedAt)
		}
		f.auditedAt = at.Format(trajectory.TimeFormat)
	}
	for i, id := range f.only {
		c, err := render.CheckOf(id)
		if err != nil {
			return err
		}
		f.only[i] = c.ID
	}
	return nil
}

func (a *app) audit(ctx context.Context, place string, f auditing) error {
	var report audit.Report
	var found *rundir.Run
	dir := place
	info, err := os.Stat(place)
	if err == nil && info.Mode().IsRegular() && !verify.IsArchive(place) {
		dir = besides(place)
		report, err = storedReport(place, f)
	} else {
		report, found, err = a.auditRun(ctx, place, f)
	}
	signer := error(nil)
	if found != nil {
		trusted, err := a.trustedKeys(f.trusted)
		if err != nil {
			return err
		}
		_, signer = trusted.Of(found.Key)
	}
	if err != nil {
		return exit.First(signer, err)
	}
	counted := report
	if !f.strict {
		if counted, err = a.trustingReport(report, found, f.trusted); err != nil {
			return err
		}
	}
	if f.format == formatText {
		err = render.Text(a.stdout, render.Place{Path: place, Packaged: verify.IsPackage(place), Run: found}, counted)
	} else {
		err = a.write(f.rendered(report, filepath.ToSlash(dir)))
	}
	if err != nil {
		return err
	}
	if found == nil {
		fmt.Fprintln(a.stderr, "gaia: a report from an earlier audit: the run itself was not examined")
	}
	return exit.First(signer, clean(place, counted, f))
}

// trustingReport returns the report for a reader who trusts the user's keys, with the
// scores of its run; the scores stay where found is nil.
func (a *app) trustingReport(r audit.Report, found *rundir.Run, f trustFlags) (audit.Report, error) {
	if !slices.ContainsFunc(r.Adjudications, func(d audit.Adjudicated) bool { return d.Pending == audit.PendingTrust }) {
		return r, nil
	}
	trusted, err := a.trustedKeys(f)
	if err != nil {
		return r, err
	}
	r = r.Trusting(trusted.Trusts)
	if found == nil {
		return r, nil
	}
	var results []rundir.Result
	for _, t := range found.Tasks {
		results = append(results, found.Result(t))
	}
	r.Totals.Raw, r.Totals.Clean, r.Totals.Worst = audit.Rescore(results, r.Checks)
	return r, nil
}

// rendered returns a report in a form for programs and pages.
func (f auditing) rendered(r audit.Report, dir string) ([]byte, error) {
	switch f.format {
	case formatSARIF:
		return render.SARIF(r, dir)
	case formatMarkdown:
		return render.Markdown(r, dir), nil
	case formatGitHub:
		return render.GitHub(r, dir), nil
	}
	b, err := r.Encode()
	return append(b, '\n'), err
}

// write prints bytes, unless there was an error in making them.
func (a *app) write(b []byte, err error) error {
	if err == nil {
		_, err = a.stdout.Write(b)
	}
	return err
}

// besides returns the directory whose run a report lies beside, "" if there is
// none.
func besides(report string) string {
	dir := filepath.Dir(report)
	if _, err := os.Stat(filepath.Join(dir, trajectory.JournalFile)); err != nil {
		return ""
	}
	return dir
}

// clean fails for a report that keeps its run from being submitted, or has
// something to review that was not to be there.
func clean(place string, r audit.Report, f auditing) error {
	if why := render.Unclean(r); why != "" {
		hint := "gaia audit --explain " + first(r)
		switch {
		case first(r) == "": // some checks were asked alone
			hint = "leave --only out: a look at some of the checks is no audit"
		case (f.gold == "" || f.gold == goldNone) && verify.IsPackage(place):
			hint = "a package holds no gold answers, which some checks need: --gold reads them from the dataset; its own " + audit.ReportFile + " was made with them"
		case f.gold == goldNone && len(r.Attestation.CriticalFailures)+len(r.Attestation.WarnFailures) == 0:
			hint = "leave --gold none out: some checks need the gold answers, of the run's private file or by --gold of the plan's dataset"
		}
		return fail(exit.Findings, errors.New("the audit is not clean: "+why), hint)
	}
	if reviews := render.Reviews(r); f.strict && !r.Attestation.StrictClean {
		return fail(exit.Findings, errors.New("the audit is clean, but not by --strict: to be reviewed: "+strings.Join(reviews, ", ")), "gaia audit --explain "+reviews[0])
	}
	return nil
}

// first returns the id of the first check that keeps a run from being clean, ""
// if none does.
func first(r audit.Report) string {
	at := slices.IndexFunc(r.Checks, func(c audit.CheckReport) bool { return c.Status == audit.Fail || c.Gate && len(c.Gaps) > 0 })
	if at < 0 {
		return ""
	}
	return r.Checks[at].ID
}

// storedReport reads a report that was printed or packaged before.
func storedReport(path string, f auditing) (audit.Report, error) {
	for _, flag := range [][2]string{{"gold", f.gold}, {"only", strings.Join(f.only, ",")}, {"body", strings.Join(f.bodies, ",")},
		{"usage-export", f.usage}, {"audited-at", f.auditedAt}} {
		if flag[1] != "" {
			return audit.Report{}, usage("give the run directory or package", "%q is a report that was made before, to which --%s says nothing", path, flag[0])
		}
	}
	b, err := regular.ReadUpTo(path, maxReport)
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
		o.Gold, err = grading.PrivateGold(dir)
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
		return report, found, grading.PrivateFault(err)
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
		b, err := regular.ReadUpTo(path, maxBody)
		if err != nil {
			return nil, fmt.Errorf("reading the document %q: %w", path, err)
		}
		given = append(given, verify.Body{Path: path, SHA256: canonical.Digest(b), Data: b})
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
	b, err := regular.ReadUpTo(f.usage, audit.MaxUsageExport)
	if err != nil {
		return nil, fmt.Errorf("reading the usage export %q: %w", f.usage, err)
	}
	if o.Usage, err = audit.ParseUsageExport(b); err != nil {
		return nil, usage("it is JSON, JSON lines or CSV, with an id or the tokens of each request", "the usage export %q: %v", f.usage, err)
	}
	return given, nil
}
