package rundir

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/gaia-harness/gaia/trajectory/witness"
)

// writeDrafts writes a journal of payloads, a millisecond an event.
func writeDrafts(t testing.TB, m plan.Plan, drafts []trajectory.Draft) []byte {
	t.Helper()
	var out buffer
	var n time.Duration
	l, err := trajectory.NewLog(&out, trajectory.End{Head: canonical.Digest(encodePlan(t, m))}, trajectory.LogConfig{
		RunID: m.RunID,
		Now:   func() time.Time { n++; return time.Date(2031, 2, 3, 4, 5, 7, 0, time.UTC).Add(n * time.Millisecond) },
		Mono:  func() time.Duration { return n * time.Millisecond },
		Rand:  rand.NewChaCha8([32]byte{7}),
	})
	if err != nil {
		t.Fatal(err)
	}
	made := calls{}
	for _, d := range drafts {
		ids, err := l.Append(made.link(d))
		if err != nil {
			t.Fatal(err)
		}
		made.add(d, ids[0])
	}
	return out.Bytes()
}

// drafts reads a script, of which a line that begins with ! takes the next of the
// given payloads.
func drafts(t testing.TB, m plan.Plan, script string, payloads ...trajectory.Payload) []trajectory.Draft {
	t.Helper()
	var all []trajectory.Draft
	digest := canonical.Digest(encodePlan(t, m))
	for line := range strings.Lines(script) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		line, given := strings.CutSuffix(line, " !")
		if given {
			line += " done"
		}
		d, err := parse(m, digest, line)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if given {
			if len(payloads) == 0 {
				t.Fatal("too few payloads")
			}
			d.Payload, payloads = payloads[0], payloads[1:]
		}
		all = append(all, d)
	}
	if len(payloads) > 0 {
		t.Fatalf("%d payloads are left", len(payloads))
	}
	return all
}

// bundlesOf are the bundles that a reader makes of a journal, by task, each as it
// is read again; records are the run's trajectories.
func bundlesOf(t testing.TB, r *WitnessReader, m plan.Plan, journal []byte) (map[string]witness.Bundle, []Trajectory) {
	t.Helper()
	all := map[string]witness.Bundle{}
	r.Each = func(task string, _ witness.Bundle, data []byte) (err error) {
		if _, twice := all[task]; twice {
			t.Errorf("task %q has two bundles", task)
		}
		all[task], err = witness.Parse(data)
		return err
	}
	o := r.Options("")
	digest := canonical.Digest(encodePlan(t, m))
	var records []Trajectory
	f := NewFold(m, digest, func(r Trajectory) error { records = append(records, r); return nil })
	_, _, err := trajectory.ReadJournal(bytes.NewReader(journal), m.RunID, digest, func(e trajectory.Event, line []byte) error {
		if err := f.Add(e, line); err != nil {
			return err
		}
		return o.show(f, e)
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.open) != 0 && r.err == nil {
		t.Errorf("the reader still holds %d tasks", len(r.open))
	}
	return all, records
}

const oneUUID = "0a1b2c3d-0000-4000-8000-00000000ffff"

// TestWitness makes a bundle with everything in it and reads it to the last field.
func TestWitness(t *testing.T) {
	m := planOf(t, oneUUID)
	cost := int64(9)
	propose := func(id, name, args string) trajectory.Payload {
		return trajectory.ToolProposed{Args: map[string]string{}, ArgsSHA256: canonical.Digest([]byte(args)), CallID: id, Name: name}
	}
	allow := func(id string) trajectory.Payload { return trajectory.PolicyDecision{CallID: id, Decision: "allow"} }
	ran := func(id, name, output string, ms int64, model *trajectory.ModelUse) trajectory.Payload {
		return trajectory.ToolExecuted{CallID: id, LatencyMs: ms, Name: name, Model: model, OutputSHA256: canonical.Digest([]byte(output)), URLs: []trajectory.URL{}}
	}
	script := strings.ReplaceAll(`run started
ID.1 begin
ID.1.1 turn
ID.1.1 call error
ID.1.1 !
ID.1.1 !
ID.1.1 !
ID.1.1 !
ID.1.1 !
ID.1.1 !
ID.1.1 !
ID.1.1 !
ID.1.1 !
ID.1.1 !
ID.1.1 !
ID.1.1 !
ID.1.1 done
ID.1.2 turn
ID.1.2 call in=20 out=2 cost=4 retry
ID.1.2 !
ID.1.2 !
ID.1.2 !
ID.1.2 done
ID.1 answer 42
ID.1 !
ID.1 graded judged
ID sealed failed 1/1
run completed failed=1
`, "ID", oneUUID)
	journal := writeDrafts(t, m, drafts(t, m, script,
		trajectory.ModelCallCompleted{CostMicroUSD: &cost, Head: `{"content":"First\nI \"look\"`, OutputSHA256: canonical.Digest([]byte("reply")), Tokens: trajectory.Tokens{In: 10, Out: 5, Reasoning: 3}},
		propose("c", "web_search", "one"), propose("c", "web_search", "two"), propose("d", "python", "three"),
		trajectory.ApprovalRequested{CallID: "d"}, trajectory.ApprovalResolved{Approved: true, By: trajectory.Beforehand, CallID: "d"},
		trajectory.PolicyDecision{CallID: "c", Decision: "deny", RuleIDs: []string{"R001"}, Shown: "refused"}, trajectory.PolicyViolation{CallID: "c", Class: "rule", RuleIDs: []string{"R001"}},
		allow("c"), allow("d"), ran("c", "web_search", "found", 120, &trajectory.ModelUse{CostMicroUSD: &cost, Tokens: trajectory.Tokens{In: 7, Out: 1}}),
		ran("d", "python", "ran", 33, nil),
		propose("c", "read_file", "four"), allow("c"), ran("c", "read_file", "", 0, nil),
		trajectory.AttemptEnded{Outcome: trajectory.Answered, Workspace: &trajectory.WorkspaceChange{Diff: "--- a/x\n", Files: []string{"x"}}},
	))
	var r WitnessReader
	all, records := bundlesOf(t, &r, m, journal)
	got, ok := all[oneUUID]
	if !ok || len(all) != 1 || r.Err() != nil {
		t.Fatalf("%d bundles, %v", len(all), r.Err())
	}
	want := map[uint16]string{
		witness.Spec: question(oneUUID), witness.Plan: "First\nI \"look\"", witness.Diff: "--- a/x\n",
		witness.TestLog:    "exact-match: false\njudge: true\nscoring path: judge\n",
		witness.Postmortem: "outcome: failed\nattempt: 1 of 1, answered\nanswer: given\nrules broken: 1 (R001)\nrollbacks: 0\nretries: 1\n",
	}
	if last := len(got.Sections) - 1; last != 7 || got.Sections[6].Tag != witness.Note || got.Sections[7].Tag != witness.Governance || !got.Rehearsal() {
		t.Fatalf("%d sections, of a rehearsal: %v", last+1, got.Rehearsal())
	}
	if c, says := got.Conduct(); !says || c != (witness.Conduct{Conduct: trajectory.Conduct{Denials: trajectory.Denials{Rule: 1}}, Recorded: true}) {
		t.Errorf("governance is %+v", c)
	}
	for i, s := range got.Sections[:6] {
		if int(s.Tag) != i+1 || s.Tag != witness.Trace && string(s.Value) != want[s.Tag] {
			t.Errorf("section %d is %d, %q", i, s.Tag, s.Value)
		}
	}
	var results []string
	for _, step := range records[0].Steps {
		if s, is := step.(ToolResultStep); is {
			results = append(results, s.OutputSHA256)
		}
	}
	entry := func(action string, policy uint8, args, result string, ms, cost, tokens int64) witness.Entry {
		return witness.Entry{Action: action, Policy: policy, ArgsHash: firstBytes(canonical.Digest([]byte(args))), ResultHash: firstBytes(result),
			LatencyMs: ms, CostMicroUSD: cost, Tokens: tokens}
	}
	trace := []witness.Entry{
		entry("web_search", witness.Deny, "one", results[0], 0, 0, 0),
		entry("web_search", witness.Allow, "two", results[1], 120, 9, 8),
		entry("python", witness.Confirm, "three", results[2], 33, 0, 0),
		entry("read_file", witness.Allow, "four", results[3], 0, 0, 0),
	}
	if !reflect.DeepEqual(got.Trace(), trace) || got.Denied() != 1 {
		t.Errorf("trace %+v\nwant %+v", got.Trace(), trace)
	}
	// From the 2nd to the 25th event, a millisecond each; its time is the last one's.
	head := fmt.Sprintf("%x %x %d %d %d | %d %d %d %d %d | %v %v %#x", got.TaskID, got.PolicyHash, got.CreatedNs, got.Outcome, got.Mode,
		got.ToolCalls, got.CostMicroUSD, got.LatencyMs, got.Tokens, got.Retries, got.Signed(), got.EvidenceComplete(), got.Flags)
	ended := time.Date(2031, 2, 3, 4, 5, 7, 0, time.UTC).Add(25 * time.Millisecond)
	if want := fmt.Sprintf("0a1b2c3d00004000800000000000ffff %s %d 1 0 | 4 22 23 45 1 | false true 0x7e", m.PolicyHash, ended.UnixNano()); head != want {
		t.Errorf("header\n%s\nwant\n%s", head, want)
	}
}

// TestWitnessOutcomes makes bundles of tasks that came to other ends.
func TestWitnessOutcomes(t *testing.T) {
	hashes := func(m *plan.Plan) { m.Evidence = plan.EvidenceHashes }
	bare := func(m *plan.Plan) { m.Judge = nil }
	nothing := func(*plan.Plan) {}
	unscored := func(m *plan.Plan) { m.GoldCommitment, m.Dataset.CarriedGold = "", false }
	approved := func(m *plan.Plan) {
		m.Policy = policy.Policy{Mode: policy.Approved}.Canonical()
		m.PolicyMode, m.PolicyHash = string(policy.Approved), m.Policy.Hash()
	}
	voting := func(m *plan.Plan) { m.Voting = plan.VotingPlan{Attempts: 3, Rule: plan.VoteMajority} }
	begun := "run started\na.1 begin\na.1.1 turn\na.1.1 call in=1 out=2 cost=3\n"
	change := trajectory.AttemptEnded{Outcome: trajectory.Answered, Workspace: &trajectory.WorkspaceChange{Files: []string{"x"}, Truncated: true}}
	unchanged := trajectory.AttemptEnded{Outcome: trajectory.Answered, Workspace: &trajectory.WorkspaceChange{Files: []string{}}}
	for _, tt := range []struct {
		name     string
		plan     func(*plan.Plan)
		script   string
		payloads []trajectory.Payload
		want     string // outcome, mode, calls, cost, tokens, sections without the trace, complete
	}{
		{"solved", nothing, begun + "a.1 answer x\na.1 ended answered\na.1 graded right\na sealed solved 1/1\nrun completed solved=1", nil,
			`0 0 0 3 3 [1 "What is a?"] [4 ""] [5 "exact-match: true\njudge: none (not asked)\nscoring path: official\n"] true`},
		{"without a judge", bare, begun + "a.1 answer x\na.1 ended answered\na.1 graded unjudged\na sealed failed 1/1\nrun completed failed=1", nil,
			`1 0 0 3 3 [1 "What is a?"] [4 ""] [5 "exact-match: false\nscoring path: no_judge\n"] [6 "outcome: failed\nattempt: 1 of 1, answered\nanswer: given\nrules broken: 0\nrollbacks: 0\nretries: 0\n"] true`},
		{"a judge that could not be asked", nothing, begun + "a.1 answer x\na.1 ended answered\na.1 graded failed\na sealed failed 1/1\nrun completed failed=1", nil,
			`1 0 0 3 3 [1 "What is a?"] [4 ""] [5 "exact-match: false\njudge: none (judge_error)\nscoring path: judge_error\n"] [6 "outcome: failed\nattempt: 1 of 1, answered\nanswer: given\nrules broken: 0\nrollbacks: 0\nretries: 0\n"] true`},
		{"a verdict of the cache", nothing, begun + "a.1 answer x\na.1 ended answered\na.1 graded cached\na sealed failed 1/1\nrun completed failed=1", nil,
			`1 0 0 3 3 [1 "What is a?"] [4 ""] [5 "exact-match: false\njudge: true\nscoring path: judge\n"] [6 "outcome: failed\nattempt: 1 of 1, answered\nanswer: given\nrules broken: 0\nrollbacks: 0\nretries: 0\n"] true`},
		{"no answer", nothing, begun + "a.1 ended no_answer\na sealed failed 1/1\nrun completed failed=1", nil,
			`1 0 0 3 3 [1 "What is a?"] [4 ""] [6 "outcome: failed\nattempt: 1 of 1, no_answer\nanswer: none\nrules broken: 0\nrollbacks: 0\nretries: 0\n"] false`},
		{"an error", approved, begun + "a.1 error\na.1 ended error infrastructure\na sealed error 1/1\nrun completed error=1", nil,
			`3 1 0 3 3 [1 "What is a?"] [4 ""] [6 "outcome: error\nattempt: 1 of 1, error (infrastructure)\nfailed: model: no reply\nanswer: none\nrules broken: 0\nrollbacks: 0\nretries: 0\n"] false`},
		{"never begun", nothing, "run started\na sealed skipped 0/0\nrun completed skipped=1", nil, `2 0 0 0 0 false`},
		{"unscored", unscored, begun + "a.1 answer x\na.1 ended answered\na sealed unscored 1/1\nrun completed unscored=1", nil,
			`2 0 0 3 3 [1 "What is a?"] [4 ""] [6 "outcome: unscored\nattempt: 1 of 1, answered\nanswer: given\nrules broken: 0\nrollbacks: 0\nretries: 0\n"] false`},
		{"voted", voting, begun + "a.1 answer x\na.1 ended answered\na.2 begin\na.2.1 turn\na.2.1 call in=10 out=20 cost=30\na.2 answer y\na.2 ended answered\n" +
			"a.3 begin\na.3 answer y\na.3 ended answered\na.1 graded wrong\na.2 graded right\na.3 graded right\na sealed solved 2/3\nrun completed solved=1", nil,
			`0 0 0 30 30 [1 "What is a?"] [4 ""] [5 "exact-match: true\njudge: none (not asked)\nscoring path: official\n"] true`},
		{"a diff that is not recorded", hashes, begun + "a.1 answer x\na.1 !\na.1 graded right\na sealed solved 1/1\nrun completed solved=1", []trajectory.Payload{change},
			`0 0 0 3 3 [1 "What is a?"] [5 "exact-match: true\njudge: none (not asked)\nscoring path: official\n"] false`},
		{"a diff of nothing", hashes, begun + "a.1 answer x\na.1 !\na.1 graded right\na sealed solved 1/1\nrun completed solved=1", []trajectory.Payload{unchanged},
			`0 0 0 3 3 [1 "What is a?"] [4 ""] [5 "exact-match: true\njudge: none (not asked)\nscoring path: official\n"] true`},
		{"a change that was not recorded", nothing, begun + "a.1.1 propose python\na.1.1 allow\na.1.1 !\na.1 answer x\na.1 ended answered\na.1 graded right\na sealed solved 1/1\nrun completed solved=1",
			[]trajectory.Payload{trajectory.CheckpointSaved{CallID: "c", Workspace: []trajectory.File{}}},
			`0 0 1 3 3 [1 "What is a?"] [5 "exact-match: true\njudge: none (not asked)\nscoring path: official\n"] false`},
		{"a path with a line break", nothing, begun + "a.1 answer x\na.1 ended answered\na.1 !\na sealed failed 1/1\nrun completed failed=1",
			[]trajectory.Payload{trajectory.Judgment{CostMicroUSD: new(int64), Path: "x\nexact-match: true\n"}},
			`1 0 0 3 3 [1 "What is a?"] [4 ""] [5 "exact-match: false\njudge: none (x exact-match: true)\nscoring path: x exact-match: true\n"] [6 "outcome: failed\nattempt: 1 of 1, answered\nanswer: given\nrules broken: 0\nrollbacks: 0\nretries: 0\n"] true`},
	} {
		m := planOf(t, "a")
		tt.plan(&m)
		var r WitnessReader
		all, _ := bundlesOf(t, &r, m, writeDrafts(t, m, drafts(t, m, tt.script, tt.payloads...)))
		w := all["a"]
		got := fmt.Sprint(w.Outcome, w.Mode, w.ToolCalls, w.CostMicroUSD, w.Tokens)
		for _, s := range w.Sections {
			if s.Tag != witness.Trace && s.Tag != witness.Note && s.Tag != witness.Governance {
				got += fmt.Sprintf(" [%d %q]", s.Tag, s.Value)
			}
		}
		if got += fmt.Sprint(" ", w.EvidenceComplete()); r.Err() != nil || got != tt.want || !w.Rehearsal() || witness.Check(w) != nil {
			t.Errorf("%s: %v\n%s\nwant\n%s", tt.name, r.Err(), got, tt.want)
		}
		if c, says := w.Conduct(); !says || c != (witness.Conduct{Recorded: true}) {
			t.Errorf("%s: governance is %+v", tt.name, c)
		}
		if log, ok := w.Section(witness.TestLog); ok {
			want := witness.Agrees
			if strings.Contains(tt.name, "a path with a line break") { // which is kept on its line, and makes one wonder
				want = witness.Unchecked
			}
			if m, said := witness.MatchOutcome(w); m != want {
				t.Errorf("%s: the test log %q: %s", tt.name, log, said)
			}
		}
	}
}

// TestWitnessRefuses: what a bundle has no form for is an error, not a guess.
func TestWitnessRefuses(t *testing.T) {
	unknown := "run started\na.1 begin\na.1.1 turn\na.1.1 call in=1 out=2 cost=3\na.1.1 call in=1 out=2 cost=?\na.1 answer x\na.1 ended answered\na.1 graded right\na sealed solved 1/1\nb sealed skipped 0/0\nrun completed solved=1 skipped=1"
	m := planOf(t, "a", "b")
	var r WitnessReader
	all, _ := bundlesOf(t, &r, m, write(t, m, unknown))
	var unpriced *UnpricedError
	if !errors.As(r.Err(), &unpriced) || unpriced.TaskID != "a" || len(all) != 0 {
		t.Errorf("a cost that is not known: %v, %d bundles", r.Err(), len(all))
	}
	r = WitnessReader{UnpricedAsZero: true}
	if all, _ = bundlesOf(t, &r, m, write(t, m, unknown)); r.Err() != nil || r.Unpriced != 1 || all["a"].CostMicroUSD != 3 || len(all) != 2 {
		t.Errorf("a cost that is not known, taken for none: %v, %d, %+v", r.Err(), r.Unpriced, all["a"])
	}
	r = WitnessReader{Task: "b"}
	if all, _ = bundlesOf(t, &r, m, write(t, m, unknown)); r.Err() != nil || len(all) != 1 || all["b"].Outcome != witness.Skipped {
		t.Errorf("of one task: %v, %v", r.Err(), all)
	}
	if sealed := time.Date(2031, 2, 3, 4, 5, 7, 10e6, time.UTC); all["b"].CreatedNs != uint64(sealed.UnixNano()) {
		t.Errorf("a task that was never begun has the time %d, not that of its seal, the tenth event", all["b"].CreatedNs)
	}
	r = WitnessReader{}
	large := strings.NewReplacer("in=1", "in=4294967295", "cost=?", "cost=1").Replace(unknown)
	if all, _ = bundlesOf(t, &r, m, write(t, m, large)); r.Err() == nil || len(all) != 0 ||
		r.Err().Error() != `task "a": tokens of a witness bundle is 8589934594: it holds 0 to 4294967295` {
		t.Errorf("more tokens than fit: %v", r.Err())
	}
	end := errors.New("full")
	r = WitnessReader{Each: func(string, witness.Bundle, []byte) error { return end }}
	f, _ := mustFollow(t, m, unknown)
	r.open = map[string]*witnessTask{"b": {sealed: time.Now()}}
	if err := r.seal(f, f.Task("b")); err != end {
		t.Errorf("an error of whom it is given: %v", err)
	}
}

// TestMatchWitness holds outcomes against test logs: each pair of them is one, the
// other or not told.
func TestMatchWitness(t *testing.T) {
	const (
		yes, no         = "exact-match: true\njudge: true\n", "exact-match: false\r\n"
		ok, bad, unsure = witness.Agrees, witness.Contradicts, witness.Unchecked
	)
	logs := []string{yes, no, yes + no, "judge: true\n", ""}
	garbled := []string{"exact-match: True\n", " exact-match: false\n", "exact-match: true \n", "exact-match:false", "Exact-Match: false", "exact -\u200bmatch : false\n",
		"exact_match: true\n", "judge: true\rexact-match: true\n", "exact-match: maybe"}
	for outcome, want := range [][]witness.Match{
		witness.Solved:  {ok, bad, bad, unsure, unsure},
		witness.Failed:  {bad, ok, bad, unsure, unsure},
		witness.Skipped: {bad, bad, bad, ok, ok},
		witness.Error:   {bad, ok, bad, unsure, unsure},
	} {
		for i, log := range logs {
			w := witness.Bundle{Outcome: uint8(outcome)}
			if log != "" {
				w.Sections = []witness.Section{{Tag: witness.TestLog, Value: []byte(log)}}
			}
			if got, said := witness.MatchOutcome(w); got != want[i] || said == "" {
				t.Errorf("outcome %d with %q: %d, %q", outcome, log, got, said)
			}
			for _, line := range garbled {
				for _, log := range []string{log + line, line + "\n" + log} {
					w.Sections = []witness.Section{{Tag: witness.TestLog, Value: []byte(log)}}
					if got, said := witness.MatchOutcome(w); got != unsure {
						t.Errorf("outcome %d with %q: %d, %q", outcome, log, got, said)
					}
				}
			}
		}
	}
}

func TestWitnessTaskID(t *testing.T) {
	for id, want := range map[string]string{
		"0a1b2c3d-0000-4000-8000-00000000ffff": "0a1b2c3d00004000800000000000ffff",
		"0A1B2C3D-0000-4000-8000-00000000FFFF": "", // of the digest, as the next
		"0a1b2c3d00004000800000000000ffff":     "",
		"0a1b2c3d-00004-000-8000-00000000ffff": "",
		"a":                                    "ca978112ca1bbdcafac231b39a23dc4d",
		"":                                     "e3b0c44298fc1c149afbf4c8996fb924",
	} {
		got := fmt.Sprintf("%x", witness.NewTaskID(id))
		if len(want) < 32 {
			want = strings.TrimPrefix(canonical.Digest([]byte(id)), "sha256:")[:32]
		}
		if got != want {
			t.Errorf("%q: %s, want %s", id, got, want)
		}
	}
	if got := witness.UUID(witness.NewTaskID(oneUUID)); got != oneUUID {
		t.Errorf("%s comes back as %s", oneUUID, got)
	}
}

func TestStatedPlan(t *testing.T) {
	for head, want := range map[string]string{
		"":                                   "",
		`{"content":"","role":"assistant"}`:  "",
		`{"content":"a b","role":"x"}`:       "a b",
		`{"content":"a`:                      "a",
		`{"content":"a\`:                     "a",
		`{"content":"a\n`:                    "a\n",
		`{"content":"a\u00`:                  "a",
		`{"content":"a\u001f`:                "a\x1f",
		`{"content":"a\\`:                    `a\`,
		`{"content":"a\"`:                    `a"`,
		`{"content":"a\ud83d`:                "a",
		`{"content":"a\ud83d\ude00`:          "a😀",
		"{\"content\":\"a\xf0\x9f":           "a",
		`{"contents":"a"}`:                   "",
		`{"image":{},"content":"a"}`:         "",
		`{"content":null,"role":"assistant"`: "",
		`{"content":"a\q"}`:                  "",
	} {
		if got := statedPlan(head); got != want {
			t.Errorf("%s: %q, want %q", head, got, want)
		}
	}
}

// FuzzStatedPlan: of a message that was cut anywhere, what is found is the
// beginning of its text, and all of it where all is there.
func FuzzStatedPlan(f *testing.F) {
	f.Add("First, I \"search\"\n\\ 😀 \x00", 30, `{"content":"\ud83d\`)
	f.Fuzz(func(t *testing.T, text string, cut int, head string) {
		if got := statedPlan(head); !utf8.ValidString(got) || len(got) > len(head) {
			t.Fatalf("%q gives %q", head, got)
		}
		text = strings.ToValidUTF8(text, "?")
		whole := string(trajectory.SentMessage{Content: text, Role: "assistant"}.Canonical())
		if got := statedPlan(whole); got != text {
			t.Fatalf("%q is found as %q", text, got)
		}
		if cut < 0 || cut > len(whole) {
			return
		}
		if got := statedPlan(whole[:cut]); !strings.HasPrefix(text, got) || len(text)-len(got) > max(0, len(whole)-cut) {
			t.Fatalf("%q cut at %d is found as %q", whole, cut, got)
		}
	})
}

// TestCheckWitness: a section that counts otherwise than the postmortem is a contradiction.
func TestCheckWitness(t *testing.T) {
	said := "outcome: failed\nrules broken: 1 (R001)\nrollbacks: 0\nretries: 1\n"
	for _, tt := range []struct {
		name, postmortem string
		conduct          trajectory.Conduct
		want             string
	}{
		{"agrees", said, trajectory.Conduct{Denials: trajectory.Denials{Rule: 1}}, ""},
		{"no postmortem", "", trajectory.Conduct{Denials: trajectory.Denials{Rule: 3}}, ""},
		{"of another writer", "root cause: unknown", trajectory.Conduct{Rollbacks: 1}, ""},
		{"fewer violations", said, trajectory.Conduct{Denials: trajectory.Denials{Mode: 1}}, `its governance section counts 0 where its postmortem has "rules broken: 1 (R001)"`},
		{"more rollbacks", said, trajectory.Conduct{Denials: trajectory.Denials{DenyList: 1}, Rollbacks: 1}, `its governance section counts 1 where its postmortem has "rollbacks: 0"`},
	} {
		value, err := witness.Conduct{Conduct: tt.conduct, Recorded: true}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		w := witness.Bundle{Sections: []witness.Section{{Tag: witness.Postmortem, Value: []byte(tt.postmortem)}, {Tag: witness.Governance, Value: value}}}
		if err := witness.Check(w); (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
