// Package audit is a red team of a finished run: deterministic, offline, at no
// cost. It verifies the evidence first; bytes that do not verify are an error
// of package trajectory, not a finding. Then it gathers facts from the journal
// ([Evidence]) and lets each check of [Checks] look at them.
//
// A check fails with findings that prove themselves, or says what it could not
// see: a gap, which is never a pass. What the gate's checks (AUD-1 to AUD-7,
// AUD-11, AUD-12) need was recorded for them: the probes of whole documents,
// the digests of every message, the decision before every call. Where the
// journal shows a thing itself, no count of it is taken on trust: what a head
// shows of a document is probed again, calls and answers are held against the
// replies they come from, a template that stands for a result is filled in again,
// and a body counts as whole by its size and digest.
//
// The report is a function of the evidence, of the decisions about its findings
// ([Adjudication]), and of what [Options] bring besides, if it is at hand: the gold
// answers, whole documents (Bodies) and the provider's list of requests
// ([UsageExport]). No clock, network or randomness is read, and the same input
// gives the same bytes (TestReportIsDeterministic). Findings hold no gold. A report
// is canonical JSON; [DecodeReport] accepts one only if it has all checks, its
// findings are by their rules, and its conclusions follow from them. TestCorpus shows every rule on a run that it fires on, one that
// is near and, where evidence can be missing, one where it is.
//
// Adding a check is one file with one record, and its line in [Checks].
package audit

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/gaia-harness/gaia/internal/ledger"
	"github.com/gaia-harness/gaia/trajectory"
)

// Gold is the answers of the planned tasks, with what shows that they are those
// of the plan: the salt that it commits to them with, or, where there is none, the
// digest of the metadata file that they were read from.
type Gold struct {
	Answers        map[string]string // by task id
	Salt           string
	MetadataSHA256 string // of the plan's dataset, split and revision
}

// Options say what an audit has besides the run. The zero value is a run
// directory without its gold answers.
type Options struct {
	Gold      *Gold  // nil: not at hand, which leaves gaps in a scored run
	Summary   string // name of the summary: ledger.SummaryFile, of a run directory, if ""
	Marked    string // why recording failed, of a run whose marker is not beside it
	AuditedAt string // trajectory.TimeFormat; when the run was completed if ""

	Adjudications []Adjudication    // of this run, besides those that the directory holds
	Bodies        map[string][]byte // whole documents from outside of the run, by their digests ("sha256:…"); nil for one that a report names and that is not at hand, which the run must have the digest of
	Usage         *UsageExport      // the provider's; nil: not at hand
	Only          []string          // ids of checks: to ask no others

	off string // a rule that finds nothing: what tests switch off
}

// ErrGold means that the answers given to an audit are not those that the plan
// commits to.
var ErrGold = errors.New("the gold answers are not those that the plan commits to")

// ErrIncomplete means that a run is not finished. What is there verifies.
var ErrIncomplete = errors.New("the run is not complete")

// Run verifies a run and audits it. The run is returned with ErrIncomplete, too.
// Evidence that does not verify is a *trajectory.Fault.
func Run(dir fs.FS, o Options) (Report, *ledger.Run, error) {
	m, digest, _, err := ledger.ReadPlan(dir)
	if err != nil {
		return Report{}, nil, err
	}
	answers, err := o.Gold.Of(m)
	if err != nil {
		return unfinished(dir, o, err)
	}
	g := newGatherer(m, answers)
	g.bodies = newBodies(o.Bodies)
	run, err := ledger.Verify(dir, ledger.Options{Summary: o.Summary, Event: g.add})
	if err != nil {
		return Report{}, nil, err
	}
	if run.ManifestSHA256 != digest {
		return Report{}, nil, trajectory.Faultf(ledger.ManifestFile, "changed while it was read")
	}
	if digest := g.bodies.missing(); digest != "" {
		return Report{}, nil, trajectory.Faultf(ReportFile, "names a body %s among its inputs, which nothing in the run has", digest)
	}
	decided, later, err := o.held(dir, run)
	if err != nil {
		return Report{}, nil, err
	}
	o.Adjudications = slices.Concat(o.Adjudications, decided)
	if !run.Complete {
		return Report{}, run, ErrIncomplete
	}
	if run.Marked == "" {
		run.Marked = o.Marked
	}
	r := Judge(g.evidence(run), o)
	r.AuditedAt = o.AuditedAt
	if r.AuditedAt == "" {
		r.AuditedAt = run.Summary().Completed
	}
	summary := o.Summary
	if summary == "" {
		summary = ledger.SummaryFile
	}
	r.Inputs.Bodies = g.bodies.matched()
	for _, l := range later {
		r.Inputs.Rejudgments = append(r.Inputs.Rejudgments, l.SHA256)
	}
	r.Inputs.EventsSHA256, r.Inputs.MetadataSHA256 = run.Files[trajectory.JournalFile], run.Files[summary]
	r.Inputs.ResultsSHA256, r.Inputs.TrajectoriesSHA256 = run.Files[ledger.ResultsFile], run.Files[ledger.TrajectoriesFile]
	return r, run, nil
}

// unfinished tells answers that are not all there yet, since the run is not
// finished, from wrong ones.
func unfinished(dir fs.FS, o Options, wrong error) (Report, *ledger.Run, error) {
	run, err := ledger.Verify(dir, ledger.Options{Summary: o.Summary})
	switch {
	case err != nil:
		return Report{}, nil, err
	case !run.Complete:
		return Report{}, run, ErrIncomplete
	}
	return Report{}, nil, wrong
}

// Of returns the answers by task id if they are those that the plan committed to,
// else ErrGold; nil where there are none, in g or by the plan.
func (g *Gold) Of(m ledger.Manifest) (map[string]string, error) {
	if g == nil || m.GoldCommitment == "" {
		return nil, nil
	}
	if g.Salt == "" && g.MetadataSHA256 != "" {
		return g.published(m)
	}
	commitment, err := ledger.Commitment(g.Answers, g.Salt)
	if err != nil || commitment != m.GoldCommitment {
		return nil, ErrGold
	}
	return g.Answers, nil
}

// published returns the answers if they are from the file that the plan's tasks
// are from, one for each task.
func (g *Gold) published(m ledger.Manifest) (map[string]string, error) {
	if g.MetadataSHA256 != m.Dataset.MetadataSHA256 {
		return nil, ErrGold
	}
	answers := make(map[string]string, len(m.Tasks))
	for _, t := range m.Tasks {
		answer, known := g.Answers[t.TaskID]
		if !known {
			return nil, ErrGold
		}
		answers[t.TaskID] = answer
	}
	return answers, nil
}

// Judge lets the checks look at the evidence. AuditedAt and the digests of the
// run's files are the caller's to fill in.
func Judge(e *Evidence, o Options) Report {
	r := Report{RunID: e.Manifest.RunID, Rehearsal: e.Manifest.Rehearsal, Schema: Schema, ThreatModel: ThreatModel}
	solved := slices.ContainsFunc(e.Tasks, (*TaskEvidence).correct)
	e.Usage = o.Usage
	if o.Usage != nil {
		r.Inputs.UsageExportSHA256 = o.Usage.SHA256
	}
	for _, c := range Checks() {
		if len(o.Only) > 0 && !slices.Contains(o.Only, c.ID) {
			continue
		}
		n := newNotes(c)
		n.solved, n.off = solved, o.off
		c.Run(e, n)
		r.Checks = append(r.Checks, n.report())
		if len(o.Only) > 0 {
			r.Only = append(r.Only, c.ID)
		}
	}
	r.adjudicate(o.Adjudications)
	r.Attestation = r.attest()
	r.Totals = e.totals(r.Checks)
	return r
}
