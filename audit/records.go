package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
)

// Where the signed records about a finished run are: in a run directory each in a file below AttestationsDir; in a
// package all decisions with their countersignatures in AdjudicationsFile, and all later judgments in
// RejudgmentsFile, one envelope in a line.
const (
	AttestationsDir   = "attestations"
	AdjudicationsFile = "adjudications.jsonl"
	RejudgmentsFile   = "rejudgments.jsonl"
)

// Limits, in bytes, of one record and of all of a kind. A reason of 2 KiB makes an envelope of 8 KiB; a verdict
// takes some 400 bytes, of which base64 makes 540.
const (
	MaxReason        = 2 << 10
	maxAdjudication  = 64 << 10
	maxRejudgment    = 32 << 20
	MaxAdjudications = 32 << 20
	MaxRejudgments   = 32 << 20
)

// The names of the files below AttestationsDir: a prefix, 16 hexadecimal digits, the suffix.
const (
	adjudicationPrefix     = "adjudication-"
	countersignaturePrefix = "countersignature-"
	rejudgmentPrefix       = "judgment-"
	attestationSuffix      = ".dsse.json"
)

// About ties a signed record to one finished run.
type About struct {
	Created        string `json:"created"` // trajectory.TimeFormat, by the clock of its author
	Events         int64  `json:"events"`  // lines of the run's journal
	Head           string `json:"head"`    // digest of the journal's last line
	ManifestSHA256 string `json:"manifest_sha256"`
	Rehearsal      bool   `json:"rehearsal,omitzero"`
	RunID          string `json:"run_id"`
	Schema         string `json:"schema"`
}

func about(run *rundir.Run, schema, created string) About {
	return About{Created: created, Events: run.End.Events, Head: run.End.Head, ManifestSHA256: run.ManifestSHA256,
		Rehearsal: run.Manifest.Rehearsal, RunID: run.Manifest.RunID, Schema: schema}
}

// check returns an error if a record of a schema is not about this run, or is older than it.
func (a About) check(run *rundir.Run, schema string) error {
	want := about(run, schema, a.Created)
	if a.Schema != schema {
		return fmt.Errorf("schema is %q, not %q", a.Schema, schema)
	}
	if a.RunID != want.RunID || a.ManifestSHA256 != want.ManifestSHA256 || a.Rehearsal != want.Rehearsal {
		return fmt.Errorf("is about another run: %q", a.RunID)
	}
	if a != want {
		return fmt.Errorf("is about a journal of %d events with another head than this one of %d", a.Events, want.Events)
	}
	if why := BadTime(run, a.Created); why != "" {
		return fmt.Errorf("created is %s", why)
	}
	return nil
}

// ClockSkew is how far two clocks may differ before their order counts.
const ClockSkew = 5 * time.Minute

// BadTime says what is wrong with the time of a signed record about a finished run, "" if nothing is: it is no
// time, or before the end of the run.
func BadTime(run *VerifiedRun, created string) string {
	at, err := time.Parse(trajectory.TimeFormat, created)
	if err != nil || at.Format(trajectory.TimeFormat) != created {
		return fmt.Sprintf("%q, which is no time", created)
	}
	if end, err := time.Parse(trajectory.TimeFormat, run.CompletedAt()); err == nil && at.Before(end.Add(-ClockSkew)) {
		return fmt.Sprintf("%s, which is before the end of the run, %s", created, run.CompletedAt())
	}
	return ""
}

// BadReason says what is wrong with the form of a reason, "" if nothing is.
func BadReason(reason string) string {
	switch {
	case strings.TrimSpace(reason) == "":
		return "is empty"
	case len(reason) > MaxReason:
		return fmt.Sprintf("has %d bytes, more than %d", len(reason), MaxReason)
	case !utf8.ValidString(reason):
		return "is not UTF-8"
	case strings.ContainsFunc(reason, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }):
		return "holds a control character or a line break"
	}
	return ""
}

// seal returns a DSSE envelope over the canonical form of a value.
func seal(key sign.Key, payloadType string, value any) ([]byte, error) {
	payload, err := canonical.Encode(value)
	if err != nil {
		return nil, err
	}
	return sign.Seal(key, payloadType, payload)
}

// unseal reads the value in an envelope that the key of the run's plan signed.
func unseal[T any](envelope []byte, payloadType string, run *rundir.Run) (value T, err error) {
	payload, err := sign.Unseal(envelope, payloadType, run.Key)
	if err != nil {
		return value, err
	}
	if err := canonical.Decode(payload, &value); err != nil {
		return value, fmt.Errorf("its payload is %w", err)
	}
	return value, nil
}

// record is the envelope of a signed record, with the file and the line that it is in.
type record struct {
	file     string
	line     int64 // 0: the file has this record alone, and its name
	envelope []byte
}

// fault returns err as a fault of the record.
func (r record) fault(err error) error {
	return &trajectory.Fault{File: r.file, Line: r.line, Reason: err.Error()}
}

// collect reads the records of a run directory whose names have a prefix, in the order of these. A file with the
// prefix and suffix that cannot be one is a *trajectory.Fault; other files are ignored.
func collect(dir fs.FS, prefix, kind string, limit int64) (all []record, err error) {
	info, err := fs.Lstat(dir, AttestationsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && !info.IsDir() {
		return nil, trajectory.Faultf(AttestationsDir, "is not a directory")
	}
	var entries []fs.DirEntry
	if err == nil {
		entries, err = fs.ReadDir(dir, AttestationsDir)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", AttestationsDir, err)
	}
	named, whole := regexp.MustCompile(`^[0-9a-f]{16}$`), 0
	for _, e := range entries {
		rest, is := strings.CutPrefix(e.Name(), prefix)
		hex, ends := strings.CutSuffix(rest, attestationSuffix)
		if !is || !ends {
			continue
		}
		name := path.Join(AttestationsDir, e.Name())
		if !named.MatchString(hex) {
			return nil, trajectory.Faultf(fmt.Sprintf("%q", name), "is not the name of %s", kind)
		}
		envelope, err := rundir.ReadFile(dir, name, limit)
		if err != nil {
			return nil, err
		}
		if bytes.ContainsRune(envelope, '\n') {
			return nil, trajectory.Faultf(name, "holds more than one line")
		}
		if whole += len(envelope); whole > MaxAdjudications {
			return nil, trajectory.Faultf(AttestationsDir, "holds more than %d bytes of %s files", MaxAdjudications, strings.TrimSuffix(prefix, "-"))
		}
		all = append(all, record{file: name, envelope: envelope})
	}
	return all, nil
}

// decisions reads the decisions of a run directory and their countersignatures, each behind its decision.
func decisions(dir fs.FS) ([]record, error) {
	decided, err := collect(dir, adjudicationPrefix, "an adjudication", maxAdjudication)
	if err != nil {
		return nil, err
	}
	agreed, err := collect(dir, countersignaturePrefix, "a countersignature", maxAdjudication)
	all := append(decided, agreed...)
	slices.SortStableFunc(all, func(a, b record) int {
		_, x, _ := strings.Cut(a.file, "-")
		_, y, _ := strings.Cut(b.file, "-")
		return strings.Compare(x, y)
	})
	return all, err
}

func rejudgments(dir fs.FS) ([]record, error) {
	return collect(dir, rejudgmentPrefix, "a later judgment", maxRejudgment)
}

// CollectAdjudications reads the decisions of a run directory and their countersignatures as they are: the names of
// their files, in the order of a package's lines, and their envelopes.
func CollectAdjudications(dir fs.FS) (files []string, envelopes [][]byte, err error) {
	return filesOf(decisions(dir))
}

// CollectRejudgments reads the later judgments of a run directory as they are.
func CollectRejudgments(dir fs.FS) (files []string, envelopes [][]byte, err error) {
	return filesOf(rejudgments(dir))
}

func filesOf(all []record, err error) (files []string, envelopes [][]byte, _ error) {
	for _, r := range all {
		files, envelopes = append(files, r.file), append(envelopes, r.envelope)
	}
	return files, envelopes, err
}

// recordsIn splits a package's file into its records, of which there is at least one.
func recordsIn(file string, data []byte) (all []record, err error) {
	for line := range bytes.Lines(data) {
		r := record{file, int64(len(all)) + 1, bytes.TrimSuffix(line, []byte("\n"))}
		if len(r.envelope) == len(line) {
			return nil, r.fault(errors.New("has no newline at its end"))
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		return nil, trajectory.Faultf(file, "is empty")
	}
	return all, nil
}

// readRecords reads the decisions and the later judgments where an audit finds them: a package has the file of either only
// if there are any.
func (o Options) readRecords(dir fs.FS, run *rundir.Run) (decided []Adjudication, later []SealedRejudgment, err error) {
	if o.Summary == "" || o.Summary == rundir.SummaryFile {
		if decided, err = ReadAdjudications(dir, run); err == nil {
			later, err = ReadRejudgments(dir, run)
		}
		return decided, later, err
	}
	packaged := func(name string, limit int64) ([]record, error) {
		if _, err := fs.Lstat(dir, name); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		data, err := rundir.ReadFile(dir, name, limit)
		if err != nil {
			return nil, err
		}
		return recordsIn(name, data)
	}
	decisions, errDecided := packaged(AdjudicationsFile, MaxAdjudications)
	judgments, errLater := packaged(RejudgmentsFile, MaxRejudgments)
	if err := errors.Join(errDecided, errLater); err != nil {
		return nil, nil, err
	}
	decided, errDecided = decodeDecisions(decisions, run)
	later, errLater = decodeRejudgments(judgments, run)
	return decided, later, errors.Join(errDecided, errLater)
}
