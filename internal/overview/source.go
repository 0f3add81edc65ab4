// Package overview makes the pages of runs from verified evidence: a run, a task, its audit, two runs compared, and
// what many runs did.
//
// Facts come from where the commands have them: package runview, the audit's report, package ledger. It reads no
// environment and writes nothing. A run that is being written, damaged, or packaged without its texts is shown with a
// notice that says so; a page never hides what does not verify.
package overview

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/page"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/transcript"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
)

// Source is a run to be shown. Either Journal or Check.Public is set, unless the run cannot be opened.
type Source struct {
	Place    string              // of the run or package, as a person writes it
	Paths    page.Paths          // of its pages; the zero value for a file
	Packaged bool                // it is a package
	Journal  *transcript.Journal // nil: it is a public package, whose journal is withheld
	Check    Check
	State    string            // of a run that has not ended: page.Interrupted if no process writes it; anything else is page.Running
	Listed   error             // why the list of runs calls it damaged: it looks at files that a follower does not; nil: it does not
	Gold     map[string]string // answers by task; nil: they are not shown
	Compare  []page.Link       // other runs to compare with

	Trail   []page.Link // from the list of runs to this one
	Live    string      // path of the events that say when a page has changed; "": it does not change
	Static  string      // path of the folder with style sheet and script; "": page.Head has it
	Program string      // and version, that shows the run

	textless bool              // no text of the run is shown: see Report
	seen     *transcript.State // how far the journal was read when the page was begun; nil: it is asked
}

// begin returns the source of a page that is made of what is read so far. Within Journal.Read nothing else may be asked
// of the journal: who waits to write would keep both from going on.
func (s Source) begin() Source {
	if s.seen == nil {
		s.seen = new(s.state())
	}
	return s
}

// text returns a text of the run, a tool, an endpoint or a person; where none may be shown, what stands instead.
func (s Source) text(of, instead string) string {
	if s.textless {
		return instead
	}
	return of
}

// Check is what the verification and the audit of a run found.
type Check struct {
	Done    bool           // false: they wait, or are under way
	Audited verify.Audited // its Run is nil where there is no audit
	Public  *submit.Public // of a public package that verifies
	Err     error          // that the run does not verify or cannot be audited; nil: it verifies
}

// ErrNoTask is that a run has no task of an id.
var ErrNoTask = errors.New("the run has no such task")

// report returns the audit as the reader's trust counts it; nil if there is none.
func (s Source) report() *audit.Report {
	if s.Check.Audited.Run == nil || s.Check.Err != nil {
		return nil
	}
	return &s.Check.Audited.Counted
}

// incomplete reports whether the check ended because the run has not. Where the signer is not trusted either, the error
// is about that alone.
func (s Source) incomplete() bool {
	run := s.Check.Audited.Run
	return s.Check.Err != nil && (exit.Of(s.Check.Err).Code == exit.Incomplete || exit.Of(s.Check.Err).Code == exit.Untrusted && run != nil && !run.Complete)
}

// state is how far the journal was read; of a public package that is all.
func (s Source) state() transcript.State {
	if s.seen != nil {
		return *s.seen
	}
	if s.Journal == nil {
		return transcript.State{Complete: s.Check.Public != nil}
	}
	return s.Journal.State()
}

// damage is why the evidence is not what was signed; nil if nothing is known of that.
func (s Source) damage() error {
	if err := s.state().Fault; err != nil {
		return err
	}
	if s.Check.Err != nil && exit.Of(s.Check.Err).Code == exit.Evidence {
		return s.Check.Err
	}
	return s.Listed
}

// head returns what is on every page of the run.
func (s Source) head(title string, m plan.Plan, marked string) page.Head {
	return page.Head{Title: title, Trail: s.Trail, Live: s.Live, File: s.Paths.Run == "", Static: s.Static, Program: s.Program, Notices: s.notices(m, marked)}
}

// under returns the way from the list of runs to a page below the page of the run.
func (s Source) under(run string) []page.Link {
	if s.Paths.Run == "" {
		return nil
	}
	return append(slices.Clone(s.Trail), page.Link{Text: "Run " + run, Path: s.Paths.Run})
}

// notices say what a reader must know before the numbers, the gravest first.
func (s Source) notices(m plan.Plan, marked string) []page.Notice {
	var all []page.Notice
	add := func(kind, format string, args ...any) {
		all = append(all, page.Notice{Kind: kind, Text: fmt.Sprintf(format, args...)})
	}
	state := s.state()
	switch damage := s.damage(); {
	case errors.Is(damage, rundir.ErrRemoved):
		add(page.NoticeBad, "the run was removed; what was read of it before is shown")
	// A fault of the journal was found while it was read; the others by verification, which reads all files.
	case damage != nil && state.Fault != nil:
		add(page.NoticeBad, "damaged: %s. What was read before that is shown, and is not verified", s.text(damage.Error(), faultOf(damage)))
	case damage != nil:
		add(page.NoticeBad, "does not verify: %s", s.text(damage.Error(), faultOf(damage)))
	case s.Check.Err != nil && !s.incomplete():
		add(page.NoticeBad, "could not be audited%s", s.text(": "+s.Check.Err.Error(), ""))
	}
	if marked != "" {
		add(page.NoticeBad, "recording failed, and the run went on without evidence%s", s.text(": "+marked, ""))
	}
	switch {
	case s.damage() != nil:
	case s.Journal != nil && s.Journal.Part() != "":
		add(page.NoticeWarn, "this is %s of the run. No task is graded here: 'gaia merge' makes a run of all shards, and grades it", s.Journal.Part())
	case s.Journal != nil && !state.Complete:
		add(page.NoticeWarn, "not finished: it is verified and audited when it is complete. Scores are of the tasks that have ended")
	case !s.Check.Done:
		add(page.NoticeWarn, "not verified yet")
	case s.incomplete(): // it crashed after its last event, before all files were written
		add(page.NoticeWarn, "not complete: the journal is, but not all that is written from it. 'gaia resume' completes it")
	}
	// Whom the reader trusts does not matter where the bytes are not what anyone signed.
	if s.damage() == nil && s.Check.Audited.Signer != nil {
		add(page.NoticeWarn, "%s", s.text(s.Check.Audited.Signer.Error(), "signed by a key that the reader does not trust"))
	}
	if s.Check.Public != nil {
		add(page.NoticeWarn, "a public package: no text of the run but its plan is in it, and no journal. The records add up and are signed; that they are what happened is the signer's word")
	}
	if m.Rehearsal {
		add(page.NoticeNote, "rehearsal: %s", runview.RehearsalNote)
	}
	if m.Cassette == plan.CassetteReplay {
		add(page.NoticeNote, "replay: %s", runview.ReplayNote)
	}
	if of := m.Dataset.ErrorsOf.RunID; of != "" {
		add(page.NoticeWarn, "%s: %s", runview.ErrorsKey, runview.ErrorsNote(of))
	}
	return all
}

// row returns the run as a list of runs has it, without its counts and scores.
func (s Source) row(m plan.Plan) page.RunRow {
	r := page.RunRow{ID: m.RunID, Path: s.Paths.Run, Dir: s.text(s.Place, ""), Model: m.Model.Name, Rehearsal: m.Rehearsal, OnlyErrors: m.Dataset.ErrorsOf.RunID != "",
		Dataset: m.Dataset.Name + ", " + m.Dataset.Split, Planned: len(m.Tasks), Verified: s.Check.Done && s.Check.Err == nil && s.damage() == nil, State: page.Complete}
	if m.Agent != nil {
		r.Agent = m.Agent.Label()
	}
	// Without an audit nothing is said of findings: that there are none is a result.
	if report := s.report(); report != nil {
		r.FindingsText = open(report.Totals)
	}
	if damage := s.damage(); damage != nil {
		r.State, r.Problem = page.Damaged, s.text(damage.Error(), faultOf(damage))
	}
	return r
}

// open counts open findings by severity.
func open(t audit.Totals) string {
	text := ""
	for _, n := range []struct {
		count int
		of    audit.Severity
	}{{t.Critical, audit.Critical}, {t.High, audit.High}, {t.Review, audit.ToReview}} {
		if n.count > 0 {
			text += fmt.Sprintf(", %d %s", n.count, n.of)
		}
	}
	if text == "" {
		return "no open finding"
	}
	return text[2:]
}

// faultOf describes evidence that does not verify without a text of the run: the file and the line.
func faultOf(err error) string {
	fault := (*trajectory.Fault)(nil)
	if !errors.As(err, &fault) {
		return "it could not be read"
	}
	where := cmp.Or(fault.File, "a file")
	if fault.Line > 0 {
		where += fmt.Sprintf(", line %d", fault.Line)
	}
	return where + " is not what was signed, or does not follow from it"
}

// copyOf returns a copy of a number that can be nil.
func copyOf[T any](v *T) *T {
	if v == nil {
		return nil
	}
	return new(*v)
}

// answerOf returns the answer as one line of a list.
func answerOf(a *rundir.Attempt) string {
	const most = 200
	if a == nil || a.Answer == nil {
		return ""
	}
	if line := []rune(view.Line(a.Answer.Answer)); len(line) > most {
		return string(line[:most]) + "…"
	}
	return view.Line(a.Answer.Answer)
}
