package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/outfile"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/stop"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/submit/export"
	"github.com/spf13/cobra"
)

// An exportFormat is a format that a run is written in.
type exportFormat struct {
	name   string
	help   string
	ending string // of the file to write if none is named; "": the format may go to standard output
	json   bool   // on a terminal, characters that steer it are escaped
	write  func(io.Writer, export.Source) error
}

var exportFormats = []exportFormat{
	{"leaderboard", "the lines that the GAIA leaderboard takes, as a package has them", "", true, func(w io.Writer, s export.Source) error {
		lines, err := submit.Leaderboard(s.Run, s.Void)
		if err == nil {
			_, err = w.Write(lines)
		}
		return err
	}},
	{"inspect", "a log of Inspect AI, for 'inspect view' and read_eval_log", ".eval", false, export.Inspect},
	{"csv", "one row per task; a leading ' disables formulas", "", false, export.CSV},
}

func (a *app) exportCommand() *cobra.Command {
	var name, out string
	var names []string
	var help strings.Builder
	for _, f := range exportFormats {
		names = append(names, f.name)
		fmt.Fprintf(&help, "  %-12s %s\n", f.name, f.help)
	}
	listed := strings.Join(names, ", ")
	cmd := &cobra.Command{
		Use:   "export DIR --format " + strings.Join(names, "|"),
		Short: "Write a run for the leaderboard, Inspect or a spreadsheet",
		Long: `Export verifies a finished run or a full package, folder or archive, and writes it in
the format of another tool, without gold answers:

` + help.String() + `
Void tasks have no answer for the leaderboard, and count wrong for Inspect. An export
is not evidence. Do not publish the leaderboard's file or a log of GAIA where crawlers
find it.`,
		Example: `  gaia export runs/01J… --format leaderboard > leaderboard.jsonl
  gaia export submission-2026-01-02-5XK9QZ7M --format inspect -o run.eval
  gaia export runs/01J… --format csv -o run.csv`,
		Args: cli.OneArg("the run directory, package or archive"),
		RunE: func(cmd *cobra.Command, args []string) error {
			i := slices.Index(names, name)
			switch {
			case name == "":
				return usage("give one by --format: "+listed, "no format is given")
			case i < 0:
				return usage("the formats are "+listed, "--format is %q", name)
			case exportFormats[i].ending != "" && out == "-":
				return usage("give the name of a file", "the format %s is not written to standard output", name)
			}
			return a.export(cmd.Context(), args[0], exportFormats[i], out)
		},
	}
	cli.RejectEmpty(cmd, "format", "out")
	f := cmd.Flags()
	f.StringVar(&name, "format", "", listed)
	f.StringVarP(&out, "out", "o", "", "file to write, which must not exist (default: standard output; inspect: <run>.eval here)")
	cli.Complete(cmd, "format", names...)
	return cmd
}

func (a *app) export(ctx context.Context, dir string, format exportFormat, out string) error {
	given, err := verify.OpenJournal(dir)
	if err != nil {
		return err
	}
	defer given.Close()
	ctx, release := stop.Context(ctx)
	defer release()
	var source export.Source
	if given.Packaged {
		var p *submit.Verified
		if p, err = given.Verify(submit.Options{Once: true}); err == nil {
			source = export.Source{Dir: given.Files, Summary: submit.MetadataFile, Run: p.Run, Void: audit.Voided(p.Report.Checks)}
		}
	} else {
		source, err = a.runSource(dir)
	}
	if err != nil {
		return err
	}
	if out == "" && format.ending != "" {
		out = source.Run.Manifest.RunID + format.ending
	}
	write := func(w io.Writer) error { return format.write(w, source) }
	toFile := out != "" && out != "-"
	if !toFile {
		shown := a.stdout
		if screen, is := shown.(*view.Screen); is { // as it is: what looks like a table is none
			if shown = screen.File; format.json {
				shown = printing{screen.File}
			}
		}
		err = write(outfile.Interruptible(ctx, shown))
	} else if err = verify.NotWithin("the export", dir, filepath.Dir(out)); err == nil {
		err = outfile.WriteStream(ctx, out, write)
	}
	if err != nil {
		return err
	}
	a.noticeExport(source)
	if toFile {
		fmt.Fprintf(a.stderr, "gaia: wrote %s\n", view.Line(view.Quote(out)))
	}
	return a.checkSigner(source.Run)
}

// printing is a writer of whole lines that makes them printable.
type printing struct{ to io.Writer }

func (w printing) Write(b []byte) (int, error) {
	_, err := io.WriteString(w.to, visible.JSON(string(b)))
	return len(b), err
}

// runSource verifies a run directory to be exported. Only of a run about which
// something was decided must the audit tell what that makes void.
func (a *app) runSource(dir string) (export.Source, error) {
	run := os.DirFS(dir)
	found, _, err := verify.Run(run)
	if err != nil {
		return export.Source{}, err
	}
	if !found.Complete {
		return export.Source{}, exit.First(a.checkSigner(found), incomplete(dir, found))
	}
	source := export.Source{Dir: run, Run: found, Void: map[string]bool{}}
	decided, _, err := audit.CollectAdjudications(run)
	if err != nil || len(decided) == 0 {
		return source, err
	}
	gold, err := grading.PrivateGold(dir)
	if err != nil {
		return export.Source{}, err
	}
	report, again, err := audit.Run(run, audit.Options{Gold: gold, Marked: found.Marked})
	if errors.Is(err, audit.ErrIncomplete) {
		return export.Source{}, incomplete(dir, again)
	}
	if err != nil {
		return export.Source{}, grading.PrivateFault(err)
	}
	source.Run, source.Void = again, audit.Voided(report.Checks)
	return source, nil
}

// noticeExport says what an export must not be taken for.
func (a *app) noticeExport(s export.Source) {
	m := s.Run.Manifest
	for _, notice := range runview.NoticeLines(m) {
		fmt.Fprintf(a.stderr, "gaia: %s\n", notice)
	}
	if why := verify.Unsubmittable(s.Run); why != "" {
		fmt.Fprintf(a.stderr, "gaia: unsubmittable: %s\n", view.Line(why))
	}
	if n := len(s.Void); n > 0 {
		fmt.Fprintf(a.stderr, "gaia: void: %s by adjudication\n", view.Count(n, "task"))
	}
	if planned, split := len(m.Tasks), m.Dataset.SplitSize; planned < split {
		fmt.Fprintf(a.stderr, "gaia: subset: %d of the %d tasks of the split\n", planned, split)
	}
}
