package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
)

func (a *app) auditCommand() *cobra.Command {
	var format, explain string
	cmd := &cobra.Command{
		Use:   "audit DIR",
		Short: "Look for the known ways of earning a score without solving the tasks",
		Long: `Audit verifies a run or a package and then looks for the known ways of earning
a score without solving the tasks. It reads what is there and asks nobody: the
same run gives the same report.

A check that could not see says what it could not see: a gap, which is never a
pass. The gold answers come from the run's private file, held against the
plan's commitment; a package has none, so that what needs them stays a gap.

Exit code 0: clean, no check of the gate failed or had a gap. 3: it did.`,
		Example: `  gaia audit runs/01J…
  gaia audit --format json runs/01J… | jq .attestation.harness_gaps
  gaia audit --explain AUD-5`,
		Args: func(cmd *cobra.Command, args []string) error {
			if explain != "" {
				return noArgs(cmd, args)
			}
			return oneArg("the run directory or package")(cmd, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return usage("", "--format is text or json, not %q", format)
			}
			if explain != "" {
				return a.explain(explain)
			}
			return a.audit(args[0], format == "json")
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "text or json")
	cmd.Flags().StringVar(&explain, "explain", "", "say what a check is for, such as AUD-5, instead of auditing")
	return cmd
}

func (a *app) audit(dir string, asJSON bool) error {
	report, found, err := auditRun(dir)
	if err != nil {
		return err
	}
	if asJSON {
		b, err := report.Encode()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.stdout, "%s\n", b)
		if err != nil {
			return err
		}
	} else if err := a.printReport(dir, report, found); err != nil {
		return err
	}
	a.noticeTrust(found)
	return clean(dir, report)
}

// auditRun audits a run directory with the gold answers of its private file, or
// a package without.
func auditRun(dir string) (audit.Report, *ledger.Run, error) {
	if err := isRunOrPackage(dir); err != nil {
		return audit.Report{}, nil, err
	}
	o := audit.Options{}
	if submit.IsPackage(os.DirFS(dir)) {
		o.Summary = submit.MetadataFile
	} else {
		gold, err := privateGold(dir)
		if err != nil {
			return audit.Report{}, nil, err
		}
		o.Gold = gold
	}
	report, found, err := audit.Run(os.DirFS(dir), o)
	if errors.Is(err, audit.ErrIncomplete) {
		return report, found, incomplete(dir, found)
	}
	return report, found, privateFault(err)
}

// privateFault says which file holds the gold answers that an audit was given.
func privateFault(err error) error {
	if errors.Is(err, audit.ErrGold) {
		return trajectory.Faultf(run.PrivateFile, "%v", err)
	}
	return err
}

// privateGold reads the gold answers of a run; nil if it has kept none.
func privateGold(dir string) (*audit.Gold, error) {
	answers, salt, err := run.ReadGold(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &audit.Gold{Answers: answers, Salt: salt}, nil
}

// clean fails for a report that keeps its run from being submitted.
func clean(dir string, r audit.Report) error {
	if r.Attestation.Clean {
		return nil
	}
	var why []string
	if n := len(r.Attestation.CriticalFailures) + len(r.Attestation.WarnFailures); n > 0 {
		why = append(why, "failed: "+strings.Join(slices.Concat(r.Attestation.CriticalFailures, r.Attestation.WarnFailures), ", "))
	}
	var gaps []string
	for _, g := range r.Attestation.HarnessGaps {
		if !slices.Contains(gaps, g.Check) {
			gaps = append(gaps, g.Check)
		}
	}
	if len(gaps) > 0 {
		why = append(why, "could not see: "+strings.Join(gaps, ", "))
	}
	hint := "gaia audit --explain " + first(r)
	if submit.IsPackage(os.DirFS(dir)) {
		hint = "a package holds no gold answers, which some checks need; its own " + audit.ReportFile + " was made with them"
	}
	return fail(exitFindings, errors.New("the audit is not clean: "+strings.Join(why, "; ")), hint)
}

// first returns the id of the first check that is not clean.
func first(r audit.Report) string {
	for _, c := range r.Checks {
		if c.Status == audit.Fail || len(c.Gaps) > 0 {
			return c.ID
		}
	}
	return ""
}

func (a *app) explain(id string) error {
	var ids []string
	for _, c := range audit.Checks() {
		if strings.EqualFold(c.ID, id) {
			return a.printRows([][2]string{{"check", c.ID + " " + c.Name}, {"pass means", c.Title}, {"why", c.Why}, {"severity", string(c.Severity)}, {"what to do", c.Fix}})
		}
		ids = append(ids, c.ID)
	}
	return usage("the checks are "+strings.Join(ids, ", "), "there is no check %q", id)
}

func (a *app) printReport(dir string, r audit.Report, found *ledger.Run) error {
	t := newTable()
	t.AppendHeader(table.Row{"check", "", "status", "", ""})
	var notes []string
	for _, c := range r.Checks {
		says := c.Title
		if c.Status != audit.Pass {
			says = fmt.Sprintf("%s; %s", counted(len(c.Findings), "finding"), counted(len(c.Gaps), "gap"))
		}
		t.AppendRow(table.Row{c.ID, c.Name, c.Status, c.Severity, says})
		for _, f := range c.Findings {
			notes = append(notes, finding(f))
		}
		for _, g := range c.Gaps {
			notes = append(notes, fmt.Sprintf("%s could not see: %s", c.ID, g))
		}
	}
	var out strings.Builder
	if r.Rehearsal {
		out.WriteString("rehearsal: " + rehearsalNote + "\n\n")
	}
	out.WriteString(t.Render() + "\n\n")
	for _, n := range notes {
		out.WriteString(oneLine(n) + "\n")
	}
	if len(notes) > 0 {
		out.WriteString("\n")
	}
	if _, err := fmt.Fprint(a.stdout, printable(out.String())); err != nil {
		return err
	}
	return a.printRows(conclusion(dir, r, found))
}

func conclusion(dir string, r audit.Report, found *ledger.Run) [][2]string {
	t := r.Totals
	rows := append([][2]string{{"run", r.RunID}}, chosen(found.Manifest)...)
	rows = append(rows, [2]string{"tasks", fmt.Sprintf("%d planned, %d attempts, %d events", t.Planned, t.Attempts, t.Events)})
	rows = append(rows, judgeRows(found.Summary().Judge)...)
	for _, score := range []struct {
		name, means string
		rate        *ledger.Rate
	}{{"raw score", "official, as recorded", t.Raw}, {"clean score", "void tasks counted wrong", t.Clean}, {"worst score", "void and review tasks counted wrong", t.Worst}} {
		if score.rate != nil {
			rows = append(rows, [2]string{score.name, fmt.Sprintf("%d of %d, %s (%s)", score.rate.Correct, score.rate.Planned, percent(score.rate.AccuracyPPM), score.means)})
		}
	}
	if !r.Attestation.Clean {
		return append(rows, [2]string{"clean", "no"})
	}
	rows = append(rows, [2]string{"clean", "yes: no open CRITICAL or HIGH finding, no gap in the gate"})
	if found.Manifest.SubmitIntent && !submit.IsPackage(os.DirFS(dir)) {
		rows = append(rows, [2]string{"next", "gaia submit " + quoteArg(dir)})
	}
	return rows
}

func finding(f audit.Finding) string {
	where := "the run"
	if f.TaskID != "" {
		where = "task " + f.TaskID
	}
	if f.Attempt > 0 {
		where += fmt.Sprintf(", attempt %d", f.Attempt)
	}
	if f.Severity == audit.Info {
		return fmt.Sprintf("%s %s, %s: %s; %s", f.Severity, f.RuleID, where, f.Got, f.Want)
	}
	what := string(f.Severity) + " " + f.RuleID
	if f.Outcome != "" {
		what += " (" + string(f.Outcome) + ")"
	}
	return fmt.Sprintf("%s, %s, line %d of the journal: %s; expected: %s", what, where, f.Seq+1, f.Got, f.Want)
}

// counted is a number of things in words.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	if stem, ok := strings.CutSuffix(thing, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
