package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/audit/render"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/spf13/cobra"
)

// auditing are the flags of audit.
type auditing struct {
	verify.AuditRequest
	format, explain string
	schema, asJSON  bool
	trusted         trustFlags
}

// reportFormats are the forms of a report.
var reportFormats = []string{"text", "json", "sarif", "markdown", "github"}

func (a *app) auditCommand() *cobra.Command {
	var flags auditing
	cmd := &cobra.Command{
		Use:   "audit DIR|PACKAGE|REPORT.json",
		Short: "Look for known ways of gaming the benchmark",
		Long: `Audit verifies a run or a package and then looks for known ways of earning a score
without solving the tasks. It uses no network except for --gold hub; the same run
gives the same report. REPORT.json is a report from an earlier audit: it is checked
against its own findings and shown, but only an audit shows that it is the run's.

A check that could not see its subject reports a gap, which is never a pass.
  - --body gives a whole document of which the journal has an excerpt
  - --usage-export gives the provider's list of requests
  - --gold reads the gold answers of the plan's dataset: a package has none

The report counts no countersigned dismissal. The text and the exit code count
those whose countersigner you trust; --strict counts none.

Exit code 0: clean, no check of the gate failed or had a gap. 3: not clean, or
--strict found something to review, or --only ran some of the checks. 6: the report
is printed, but you do not trust the run's signer.`,
		Example: `  gaia audit --gold hub submission-2026-01-02-5XK9QZ7M
  gaia audit --body page.html --usage-export activity.csv --format sarif runs/01J…
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
	f := cmd.Flags()
	f.Var(cli.Choice(&flags.format, strings.Join(reportFormats, "|")), "format", "form of the report (default: text)")
	f.BoolVar(&flags.asJSON, "json", false, "print the report as JSON, like --format json")
	f.StringVar(&flags.Gold, "gold", "", "where the gold answers are: private (of a run directory, the default), none, or the plan's dataset as --source writes it")
	f.StringSliceVar(&flags.Only, "only", nil, "run only these checks, such as AUD-1,AUD-5; the result is never clean")
	f.StringArrayVar(&flags.Bodies, "body", nil, "file with a whole document of which the run recorded an excerpt; repeatable")
	f.StringVar(&flags.Usage, "usage-export", "", "file with the provider's list of requests, to compare with the journal")
	f.BoolVar(&flags.Strict, "strict", false, "also fail if there is something to review")
	f.StringVar(&flags.AuditedAt, "audited-at", "", "time that the report gives, by RFC 3339 (default: when the run was completed)")
	f.StringVar(&flags.explain, "explain", "", "explain a check, such as AUD-5, or a rule, instead of auditing")
	f.BoolVar(&flags.schema, "schema", false, "print the JSON Schema of a report, instead of auditing")
	flags.trusted.register(cmd)
	cli.Complete(cmd, "format", reportFormats...)
	cli.CompleteList(cmd, "only", render.CheckIDs()...)
	cli.Complete(cmd, "explain", render.CheckIDs()...)
	cli.CompletePrefixes(cmd, "gold", verify.GoldPrivate, verify.GoldNone, sourceHub, sourceRepo, sourceDir, sourceFixtures)
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
				return usage("leave one of them out", "--%s does not apply to --%s", other, alone)
			}
		}
	}
	f.format = cmp.Or(f.format, "text")
	if !slices.Contains(reportFormats, f.format) {
		return usage("give text, json, sarif, markdown or github", "--format is %q", f.format)
	}
	if f.asJSON {
		if given("format") && f.format != "json" {
			return usage("leave one of them out", "--json is --format json, not --format %s", f.format)
		}
		f.format = "json"
	}
	if f.Gold != "" && f.Gold != verify.GoldPrivate && f.Gold != verify.GoldNone {
		if err := (&taskFlags{source: f.Gold}).checkSource(); err != nil {
			return usage("give private, none, hub, hub:OWNER/NAME, dir:PATH or fixtures", "--gold is %q", f.Gold)
		}
	}
	return f.Check()
}

func (a *app) audit(ctx context.Context, place string, f auditing) error {
	f.Place, f.Trust = place, func() (keyring.Trust, error) { return a.trustedKeys(f.trusted) }
	found, err := a.verifyEnv(ctx).Audit(f.AuditRequest)
	if err != nil {
		return err
	}
	switch report, dir := found.Report, filepath.ToSlash(found.Dir); f.format {
	case "text":
		err = render.Text(a.stdout, render.Place{Path: place, Packaged: verify.IsPackage(place), Run: found.Run}, found.Counted)
	case "sarif":
		err = a.write(render.SARIF(report, dir))
	case "markdown":
		err = a.write(render.Markdown(report, dir), nil)
	case "github":
		err = a.write(render.GitHub(report, dir), nil)
	default:
		b, encodeErr := report.Encode()
		err = a.write(append(b, '\n'), encodeErr)
	}
	if err != nil {
		return err
	}
	if found.Run == nil {
		fmt.Fprintln(a.stderr, "gaia: a report from an earlier audit: the run itself was not examined")
	}
	return exit.First(found.Signer, found.Err(f.AuditRequest))
}

// write prints bytes, unless there was an error in making them.
func (a *app) write(b []byte, err error) error {
	if err == nil {
		_, err = a.stdout.Write(b)
	}
	return err
}
