package submit

import (
	"bytes"
	"crypto/sha256"
	"io"
	"io/fs"
	"slices"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/trajectory"
	"golang.org/x/mod/sumdb/tlog"
)

// record is what a package says of its tasks, to be held against what is disclosed.
type record struct {
	planSHA256 string
	checkpoint []byte
	leaves     []tlog.Hash
	row        func(*rundir.Fold, *rundir.Task) any // as the package has it
	rows       [][]byte                             // canonical, in plan order
}

// Shows checks that a verified evidence bundle is of the run of a verified public
// package, and that the records of the tasks that it discloses follow from its events.
// Those of a whole run have to give the summary, too, and be the journal that is
// withheld. What differs is a *trajectory.Fault that names the bundle's member, or the package's file:
// results.jsonl, metadata.json or attestation.dsse.json.
func (p *Public) Shows(d *rundir.Disclosure) error {
	rows := make([][]byte, len(p.Results))
	for i, r := range p.Results {
		var err error
		if rows[i], err = canonical.Encode(r); err != nil {
			return err
		}
	}
	err := record{planSHA256: p.Statement.Predicate.ManifestSHA256, checkpoint: p.checkpoint, leaves: p.leaves, rows: rows,
		row: func(f *rundir.Fold, t *rundir.Task) any { return newPublicResult(f.Result(t)) }}.shows(d)
	if err != nil || d.Task != nil {
		return err
	}
	said, journal := p.Statement.Predicate, sha256.New()
	for _, line := range d.Bundle.Events {
		io.WriteString(journal, line+"\n")
	}
	if !slices.Contains(said.Withheld, WithheldFile{trajectory.JournalFile, canonical.DigestOf(journal)}) {
		return trajectory.Faultf(AttestationFile, "withholds another %s than the disclosed events are", trajectory.JournalFile)
	}
	if d.NotRecorded != "" && said.RecordingFailed == "" {
		return trajectory.Faultf(AttestationFile, "does not say that recording failed, which the disclosed events do")
	}
	summary, err := d.Summary().Encode()
	if err != nil {
		return err
	}
	if canonical.Digest(summary) != p.Statement.digests()[MetadataFile] {
		return trajectory.Faultf(MetadataFile, "is not what the disclosed events give")
	}
	if share := d.Inputs.Share(); said.Prompts != nil && (share == nil || *share != *said.Prompts) {
		return trajectory.Faultf(AttestationFile, "counts other inputs than the disclosed events give")
	}
	exceptions := d.Exceptions()
	exceptions.Dismissals, exceptions.VoidTasks = said.Exceptions.Dismissals, said.Exceptions.VoidTasks
	if exceptions != said.Exceptions || form(publicAnsweredBy(d.Manifest, d.AnsweredBy())) != form(said.AnsweredBy) {
		return trajectory.Faultf(AttestationFile, "counts other exceptions, or names another model or program, than the disclosed events give")
	}
	return nil
}

// Shows is that of a full package; pkg holds its files.
func (v *Verified) Shows(pkg fs.FS, d *rundir.Disclosure) error {
	r := record{planSHA256: v.Run.ManifestSHA256, row: func(f *rundir.Fold, t *rundir.Task) any { return f.Result(t) }}
	var err error
	if r.checkpoint, err = readSigned(pkg, trajectory.CheckpointFile, v.Statement.digests()); err != nil {
		return err
	}
	for i, leaf := range v.Run.Leaves() {
		hash, err := leaf.Hash()
		if err != nil {
			return err
		}
		row, err := canonical.Encode(v.Run.Result(v.Run.Tasks[i]))
		if err != nil {
			return err
		}
		r.leaves, r.rows = append(r.leaves, hash), append(r.rows, row)
	}
	return r.shows(d)
}

// IsOf checks that the public package is that of the run of a verified full package: as Build makes it of this evidence, this audit and these decisions, on the
// date and by the submitter and program that the public one names, which may be
// others than the full one's. What differs is a *trajectory.Fault that names the
// public package's file. README.md follows from all of this, unless p.NotRebuilt says that this is not known.
func (p *Public) IsOf(v *Verified) error {
	said, run := p.Statement.Predicate.says(), v.Run
	said.GoldAtHand, said.RecordingFailed = v.Statement.Predicate.GoldAtHand, run.Marked
	e, err := newEvidence(run, v.Report, len(v.Later), said)
	if err != nil {
		return err
	}
	files, err := publicFiles(run)
	if err != nil {
		return err
	}
	e.digests = p.Statement.digests()
	want := v.Statement.digests()
	for name, data := range files {
		want[name] = canonical.Digest(data)
	}
	for _, name := range []string{plan.ManifestFile, plan.EnvelopeFile, plan.ConstitutionFile, trajectory.CheckpointFile, leavesFile, rundir.ResultsFile, MetadataFile} {
		if e.digests[name] != want[name] {
			return trajectory.Faultf(name, "is not that of run %q, as the full package has it", run.Manifest.RunID)
		}
	}
	if p.Statement.Predicate.Prompts == nil {
		e.Prompts = nil
	}
	rebuilt := e.published(run, v.Report).statement()
	again, err := rebuilt.Encode()
	if err != nil {
		return err
	}
	payload, err := p.Statement.Encode()
	if err != nil {
		return err
	}
	if bytes.Equal(payload, again) {
		return nil
	}
	// An honest signer may have done something between the two packages of a run.
	public, full, otherwise := p.Statement.Predicate, v.Statement.Predicate, ""
	decided := slices.ContainsFunc(public.Withheld, func(w WithheldFile) bool { return w.Name == audit.AdjudicationsFile })
	inFull := len(v.Report.Adjudications) > 0
	switch {
	case full.GoldAtHand && !public.GoldAtHand:
		otherwise = "was made without the gold answers, and the full package with them; "
	case !full.GoldAtHand && public.GoldAtHand:
		otherwise = "was made with the gold answers, and the full package without them; "
	case !decided && inFull:
		otherwise = "was made before findings were decided about, and the full package after; "
	case decided && !inFull:
		otherwise = "was made after findings were decided about, and the full package before; "
	case public.Judgments < full.Judgments:
		otherwise = "was made before another judge judged the run, and the full package after; "
	case public.Judgments > full.Judgments:
		otherwise = "was made after another judge judged the run, and the full package before; "
	}
	return trajectory.Faultf(AttestationFile, "%sdoes not say what the full package gives: %s", otherwise, difference(p.Statement, rebuilt))
}

func (r record) shows(d *rundir.Disclosure) error {
	if d.ManifestSHA256 != r.planSHA256 {
		return trajectory.Faultf("manifest", "is not the package's: the bundle is of run %q", d.Manifest.RunID)
	}
	if d.Bundle.Checkpoint != string(r.checkpoint) {
		return trajectory.Faultf(trajectory.CheckpointFile, "is not the package's")
	}
	disclosed := d.Tasks
	leaves := []tlog.Hash{d.Leaf}
	if d.Task != nil {
		disclosed = []*rundir.Task{d.Task}
	} else {
		leaves = leaves[:0]
		for _, leaf := range d.Leaves() {
			hash, err := leaf.Hash()
			if err != nil {
				return err
			}
			leaves = append(leaves, hash)
		}
	}
	for i, t := range disclosed {
		if leaves[i] != r.leaves[t.Index] {
			return trajectory.Faultf("leaf", "is not the one that the package has for task %q", t.Plan.TaskID)
		}
		row, err := canonical.Encode(r.row(d.Fold, t))
		if err != nil {
			return err
		}
		if !bytes.Equal(row, r.rows[t.Index]) {
			return &trajectory.Fault{File: rundir.ResultsFile, Line: int64(t.Index + 1), Reason: "is not what the disclosed events give"}
		}
	}
	return nil
}
