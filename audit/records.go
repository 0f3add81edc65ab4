package audit

import (
	"bytes"
	"cmp"
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
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/judge"
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

// RejudgmentType is the DSSE payload type of a later judgment.
const RejudgmentType = "application/vnd.gaia-harness.rejudgment+json"

const rejudgmentSchema = "gaia.rejudgment/1"

// Rejudgment is what another judge said about the answers of a finished run: the payload of an envelope that the
// key of the run's plan signs. It changes nothing of the run. It holds no gold answer, no digest of one and no text
// of the judge.
type Rejudgment struct {
	About
	Battery  *trajectory.JudgeBattery `json:"battery"` // null: no answer was short enough for a judge
	Judge    plan.JudgePlan           `json:"judge"`
	Totals   rundir.JudgeSummary      `json:"totals"`
	Verdicts []LaterVerdict           `json:"verdicts"` // on each answer of Rejudged, in its order
}

// LaterVerdict is the verdict on the answer of one attempt.
type LaterVerdict struct {
	Attempt  int                 `json:"attempt"`
	Judgment trajectory.Judgment `json:"judgment"`
	TaskID   string              `json:"task_id"`
}

// SealedRejudgment is a later judgment with the digest of its envelope.
type SealedRejudgment struct {
	Rejudgment
	SHA256 string
}

// NewRejudgment returns what a judge said about the answers of a finished run, with its totals.
func NewRejudgment(run *VerifiedRun, plan JudgePlan, b *trajectory.JudgeBattery, verdicts []LaterVerdict, created string) Rejudgment {
	r := Rejudgment{About: about(run, rejudgmentSchema, created), Battery: b, Judge: plan, Verdicts: verdicts}
	r.Totals = r.totals()
	return r
}

func (r Rejudgment) totals() rundir.JudgeSummary {
	all := make([]trajectory.Judgment, len(r.Verdicts))
	for i, v := range r.Verdicts {
		all[i] = v.Judgment
	}
	return rundir.CountJudgments(r.Judge.Model, r.Battery, all)
}

// RejudgmentFile returns the name of the file in a run directory that holds what a judge said: one for each model,
// place, prompt and null battery.
func RejudgmentFile(plan JudgePlan) string {
	plan.Cache = false // which is not of the judge
	id, err := canonical.Encode(plan)
	if err != nil {
		id = nil // a name that is no UTF-8, which cannot be sealed
	}
	return path.Join(AttestationsDir, rejudgmentPrefix+canonical.Digest(id)[len("sha256:"):][:16]+attestationSuffix)
}

// Judgments returns how many judgments a run has: its own, if it has a judge and gold answers, and the later ones.
func Judgments(m Plan, later int) int {
	if m.Judge != nil && m.Scored() {
		return later + 1
	}
	return later
}

// SameJudge reports whether a judge is the one of the run's plan.
func SameJudge(plan JudgePlan, m Plan) bool {
	return m.Judge != nil && RejudgmentFile(plan) == RejudgmentFile(*m.Judge)
}

// Rejudged returns the answers that another judge is asked about, in plan order and by attempt: those that the
// run's own judge would have been asked about. An answer was graded, not credited by the official scorer, and says
// something.
func Rejudged(run *VerifiedRun) (tasks []*rundir.Task, attempts []*rundir.Attempt) {
	for _, t := range run.Tasks {
		for _, a := range t.Attempts {
			if a.Answer != nil && a.Judgment != nil && !a.Judgment.Official && !judge.Blank(a.Answer.Answer) {
				tasks, attempts = append(tasks, t), append(attempts, a)
			}
		}
	}
	return tasks, attempts
}

// Seal returns the envelope.
func (r Rejudgment) Seal(key Key) ([]byte, error) {
	return seal(key, RejudgmentType, r)
}

// Score returns how many of the planned tasks count as correct by this judge: an official yes, or a yes of the
// judge on the answer that counts; nil where none of its verdicts counts.
func (r Rejudgment) Score(run *VerifiedRun) *Rate {
	if !r.Totals.Counts() || r.Battery == nil {
		return nil
	}
	yes := map[string]map[int]bool{}
	for _, v := range r.Verdicts {
		if v.Judgment.Judged != nil && *v.Judgment.Judged {
			if yes[v.TaskID] == nil {
				yes[v.TaskID] = map[int]bool{}
			}
			yes[v.TaskID][v.Attempt] = true
		}
	}
	correct := 0
	for _, t := range run.Tasks {
		if a := t.Counted(); a != nil && a.Judgment != nil && (a.Judgment.Official || yes[t.Plan.TaskID][a.Number]) {
			correct++
		}
	}
	return new(stats.NewRate(correct, len(run.Tasks)))
}

// check returns an error if a later judgment does not fit the run or itself.
func (r Rejudgment) check(run *rundir.Run) error {
	if err := r.About.check(run, rejudgmentSchema); err != nil {
		return err
	}
	if why := r.invalid(run); why != "" {
		return errors.New(why)
	}
	return nil
}

func (r Rejudgment) invalid(run *rundir.Run) string {
	switch j := r.Judge; {
	case !isName(j.Model) || !isName(j.Origin) || !isName(j.Prompt):
		return "names no judge, place and prompt, each on one line"
	case !canonical.IsDigest(j.PromptSHA256) || !canonical.IsDigest(j.Battery) || j.Endpoint != "" && !canonical.IsDigest(j.Endpoint):
		return "has a prompt, a null battery or an endpoint without a digest"
	case SameJudge(j, run.Manifest):
		return "is of the run's own judge, whose first judgment stays the run's"
	}
	tasks, attempts := Rejudged(run)
	if len(r.Verdicts) != len(attempts) {
		return fmt.Sprintf("has %d verdicts; %d answers of the run are for a judge", len(r.Verdicts), len(attempts))
	}
	if len(attempts) == 0 {
		return "has no verdict"
	}
	if r.Battery != nil {
		if why := r.invalidBattery(); why != "" {
			return why
		}
	}
	for i, v := range r.Verdicts {
		if v.TaskID != tasks[i].Plan.TaskID || v.Attempt != attempts[i].Number {
			return fmt.Sprintf("has a verdict on attempt %d at task %q in the place of attempt %d at task %q", v.Attempt, v.TaskID, attempts[i].Number, tasks[i].Plan.TaskID)
		}
		if why := r.invalidVerdict(v.Judgment); why != "" {
			return fmt.Sprintf("has a verdict on task %q that %s", v.TaskID, why)
		}
	}
	said, err := canonical.Encode(r.Totals)
	given, failed := canonical.Encode(r.totals())
	if err != nil || failed != nil || !bytes.Equal(said, given) {
		return "has totals that its verdicts do not give"
	}
	return ""
}

// invalidBattery says what is wrong with the null battery, "" if nothing is. One that could not be asked in full
// leaves a later judgment only where the judge had accepted an item.
func (r Rejudgment) invalidBattery() string {
	b := *r.Battery
	if why := r.Judge.Refuses(b); why != "" {
		return why
	}
	known := map[string]bool{}
	for _, n := range judge.Battery() {
		known[n.Name] = true
	}
	for _, list := range [][]string{b.Accepted, b.Refused, b.Unreadable} {
		for _, name := range list {
			if !isName(name) || r.Judge.Battery == judge.BatteryDigest() && !known[name] {
				return fmt.Sprintf("names %q, which is no item of its null battery", name)
			}
		}
	}
	switch {
	case b.Problem != "" && (len(b.Accepted) == 0 || !slices.Contains(judge.Problems(), b.Problem)):
		return "is of a judge that was not asked the whole null battery"
	case !plausible(b.TokensIn, b.TokensOut, b.LatencyMs, b.CostMicroUSD):
		return "counts what no null battery takes"
	}
	return ""
}

// invalidVerdict says what is wrong with one verdict, "" if nothing is.
func (r Rejudgment) invalidVerdict(j trajectory.Judgment) string {
	passed, asked := r.Battery != nil && r.Battery.Passed, j.Tries > 0
	spoke := asked || j.Cached
	switch {
	case !consistent(j, &r.Judge) || j.Path == judge.PathNoJudge || j.Path == judge.PathNoAnswer || j.Official:
		return "does not go with its path " + j.Path
	case j.Cached && !r.Judge.Cache:
		return "comes from a cache that was not used"
	case j.Path == judge.PathError && !asked, j.Tries < 0 || j.Tries > mostAsked:
		return "the judge was not asked for, or too often"
	case spoke && !passed:
		return "is of a judge that did not pass its self-test"
	case j.Path == judge.PathWithheld && (passed || r.Battery == nil):
		return "was withheld from a judge that passed its self-test"
	case spoke && (j.Model != r.Judge.Model || j.Prompt != r.Judge.Prompt), !spoke && (j.Model != "" || j.Prompt != ""):
		return "is of another judge or prompt"
	case !asked && (j.TokensIn != 0 || j.TokensOut != 0 || j.LatencyMs != 0 || j.CostMicroUSD == nil || *j.CostMicroUSD != 0 || j.RequestID != "" || j.ResponseModel != ""):
		return "took something although the judge was not asked"
	case j.ErrorStatus != 0 && j.Path != judge.PathError || j.ErrorStatus < 0 || j.ErrorStatus > 599:
		return "has a status of an error that there was not"
	case !plausible(j.TokensIn, j.TokensOut, j.LatencyMs, j.CostMicroUSD):
		return "counts what no verdict takes"
	case j.RequestID != "" && !isName(j.RequestID) || j.ResponseModel != "" && !isName(j.ResponseModel):
		return "has a request id or a model that is not one line of text"
	}
	return ""
}

// plausible reports whether counts are of what one verdict, or a null battery, takes, so that the sum of all is a
// number that JSON holds.
func plausible(tokensIn, tokensOut, latencyMs int64, cost *int64) bool {
	const most = 1 << 33
	for _, n := range []int64{tokensIn, tokensOut, latencyMs, *cmp.Or(cost, new(int64))} {
		if n < 0 || n > most {
			return false
		}
	}
	return true
}

// isName reports whether a text is one line that says something, of at most 1 KiB.
func isName(s string) bool { return len(s) <= 1<<10 && BadReason(s) == "" }

// ReadRejudgments reads the later judgments of a run directory, by the names of their files. One that the key of
// the plan did not sign, or that does not fit the run, its name or itself, is a *trajectory.Fault.
func ReadRejudgments(dir fs.FS, run *VerifiedRun) ([]SealedRejudgment, error) {
	all, err := rejudgments(dir)
	if err != nil {
		return nil, err
	}
	return decodeRejudgments(all, run)
}

// DecodeRejudgments reads the file of later judgments in a package. Anything but good ones about this run, one a
// judge and in the order of their files' names, is a *trajectory.Fault.
func DecodeRejudgments(data []byte, run *VerifiedRun) ([]SealedRejudgment, error) {
	all, err := recordsIn(RejudgmentsFile, data)
	if err != nil {
		return nil, err
	}
	return decodeRejudgments(all, run)
}

func decodeRejudgments(records []record, run *rundir.Run) (all []SealedRejudgment, err error) {
	last := ""
	for _, r := range records {
		j, err := unseal[Rejudgment](r.envelope, RejudgmentType, run)
		if err == nil {
			err = j.check(run)
		}
		name := RejudgmentFile(j.Judge)
		switch {
		case err != nil:
		case r.line == 0 && r.file != name:
			err = fmt.Errorf("is of the judge %q, which its name is not of", j.Judge.Model)
		case last >= name:
			err = errors.New("is not in the order of the judges' file names, each once")
		}
		if err != nil {
			return nil, r.fault(err)
		}
		all, last = append(all, SealedRejudgment{Rejudgment: j, SHA256: canonical.Digest(r.envelope)}), name
	}
	return all, nil
}
