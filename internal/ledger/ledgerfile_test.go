package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"
)

// ledgerEvent is the nth of events that a reader accepts.
func ledgerEvent(n int) RunEvent {
	ms := uint64(1767225600000 + n)
	id := func(last byte) string {
		var u ulid.ULID
		if err := u.SetTime(ms); err != nil {
			panic(err) // it is within the times of a ULID
		}
		u[15] = last
		return u.String()
	}
	accepted, cost := true, int64(n)
	return RunEvent{Attempt: 1, CostMicroUSD: &cost, Counted: true, DiffSummary: DiffSummary{Files: 1}, DurationMs: 5, FilesTouched: []string{"a<b>"}, GuidanceHash: "0123456789abcdef", ID: id(1),
		Intent: "web", Level: 1 + n%3, ManifestSHA256: sign.Digest(nil), Mode: "approved", Model: "m", Outcome: trajectory.Answered, OutcomeAccepted: &accepted, PolicyHash: "fedcba9876543210", RetrievedRuleIDs: []string{"R001", "R002"},
		RunID: id(2), Schema: runEventSchema, Session: id(3), SignedBy: "SHA256:x", TaskID: fmt.Sprint("task ", n), TestResults: TestCounts{Passed: 1, Ran: 1, Skipped: 1},
		Timestamp: trajectoryTime(ms), ToolsUsed: []string{"python", "web_fetch"}, TriggeredRuleIDs: []string{"R001"}, Denials: trajectory.Denials{Rule: 1}, Violations: []Violation{{Class: "rule", Description: "d", Location: "l", RuleID: "R001", Severity: "critical"}}}
}

func trajectoryTime(ms uint64) string { return ulid.Time(ms).UTC().Format(trajectory.TimeFormat) }

// ledgerOf writes a ledger file of events.
func ledgerOf(t testing.TB, key sign.Key, events ...RunEvent) []byte {
	t.Helper()
	var out bytes.Buffer
	w := NewLedgerWriter(&out)
	for _, e := range events {
		if err := w.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Seal(key); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// readLedger verifies a ledger file called f and reads it again.
func readLedger(data []byte, strict bool, atOnce int) (events []RunEvent, err error) {
	seal, _, err := VerifyLedger("f", bytes.NewReader(data), strict)
	if err != nil {
		return nil, err
	}
	return again(data, seal, atOnce)
}

// again gives the events of a ledger file that was verified, up to an error.
func again(data []byte, seal LedgerSeal, atOnce int) (events []RunEvent, err error) {
	for e, err := range LedgerEvents("f", bytes.NewReader(data), seal, atOnce) {
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
	return events, nil
}

func TestLedgerRoundTrip(t *testing.T) {
	key := testKey(t, 1)
	long := ledgerEvent(3)
	for i := range 2000 { // longer than any buffer
		long.FilesTouched = append(long.FilesTouched, fmt.Sprintf("folder/%064d", i))
		long.DiffSummary.Files++
	}
	for _, want := range [][]RunEvent{nil, {ledgerEvent(1)}, {ledgerEvent(1), ledgerEvent(2), long, ledgerEvent(4)}} {
		data := ledgerOf(t, key, want...)
		seal, signer, err := VerifyLedger("f", bytes.NewReader(data), false)
		if err != nil || seal.Events != int64(len(want)) || !signer.Equal(key.Public()) {
			t.Errorf("%+v, %v", seal, err)
		}
		for atOnce := range 3 {
			got, err := readLedger(data, atOnce == 0, atOnce)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%d at once: %v: %s", atOnce, err, diff)
			}
		}
	}
}

// TestLedgerEvents: many events come in order, for as long as they are wanted, and
// what others wrote into the file since it was verified is found out.
func TestLedgerEvents(t *testing.T) {
	var events []RunEvent
	for i := range 1000 {
		events = append(events, ledgerEvent(i))
	}
	key := testKey(t, 1)
	data := ledgerOf(t, key, events...)
	seal, _, err := VerifyLedger("f", bytes.NewReader(data), true)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for e, err := range LedgerEvents("f", bytes.NewReader(data), seal, 2) {
		if err != nil || e.ID != events[n].ID {
			t.Errorf("event %d is %s: %v", n, e.ID, err)
		}
		if n++; n == 300 {
			break
		}
	}
	edit := func(old, now string) []byte { return bytes.Replace(data, []byte(old), []byte(now), 1) }
	const changed = "f: was changed while it was read"
	for name, c := range map[string]struct {
		data []byte
		n    int
		want string
	}{
		"another task":        {edit(`"task_id":"task 700"`, `"task_id":"task 7x0"`), -1, changed},
		"white space":         {edit(`{"attempt":1`, `{"attempt": 1`), -1, changed},
		"none":                {edit(`"task_id":"task 700"`, `"task_id":7`), 700, "f: line 701: is not a run event"},
		"none that a run has": {edit(`"task_id":"task 700"`, `"task_id":""`), 700, "f: line 701: task_id, intent or signed_by is missing"},
		"twice":               {edit("\n", "\n"+string(data[:bytes.IndexByte(data, '\n')+1])), 1, "f: line 2: does not come after the event before it"},
		"cut off":             {data[:len(data)-2], -1, "f: line 1001: ends without a seal"},
		"other events":        {ledgerOf(t, key, events[:999]...), -1, changed},
		"another's":           {ledgerOf(t, testKey(t, 2), events...), -1, changed},
	} {
		for atOnce := range 3 {
			got, err := again(c.data, seal, atOnce)
			if err == nil || err.Error() != c.want || c.n >= 0 && len(got) != c.n {
				t.Errorf("%s, %d at once: %d events, %v, want %s", name, atOnce, len(got), err, c.want)
			}
		}
	}
}

// TestLedgerRefuses: every other file is refused, with the line that is wrong.
func TestLedgerRefuses(t *testing.T) {
	key := testKey(t, 1)
	good := string(ledgerOf(t, key, ledgerEvent(1), ledgerEvent(2)))
	lines := strings.SplitAfter(good, "\n")
	first, second, seal := lines[0], lines[1], lines[2]
	other := strings.SplitAfter(string(ledgerOf(t, key, ledgerEvent(1))), "\n")[1]
	foreign := strings.SplitAfter(string(ledgerOf(t, testKey(t, 2), ledgerEvent(1), ledgerEvent(2))), "\n")[2]
	member := func(s, name string) string {
		_, rest, _ := strings.Cut(s, `"`+name+`":"`)
		value, _, _ := strings.Cut(rest, `"`)
		return value
	}
	for name, c := range map[string]struct{ data, want string }{
		"empty":                    {"", "f: line 1: ends without a seal"},
		"no seal":                  {first + second, "f: line 3: ends without a seal"},
		"no newline":               {strings.TrimSuffix(good, "\n"), "f: line 3: ends without a seal"},
		"more behind it":           {good + "\n", "f: line 3: is a seal before the end"},
		"two files":                {good + good, "f: line 3: is a seal before the end"},
		"seal alone":               {seal, "f: line 1: is the seal of other events"},
		"seal of other events":     {first + second + other, "f: line 3: is the seal of other events"},
		"an event is missing":      {second + seal, "f: line 2: is the seal of other events"},
		"other order":              {second + first + seal, "f: line 2: does not come after the event before it"},
		"twice":                    {first + first + seal, "f: line 2: does not come after the event before it"},
		"white space":              {strings.Replace(good, `"attempt":1`, `"attempt": 1`, 1), "f: line 1: is not the canonical JSON of a run event"},
		"another member":           {strings.Replace(good, `{"attempt":1`, `{"a":1,"attempt":1`, 1), "f: line 1: is not the canonical JSON of a run event"},
		"null list":                {strings.Replace(good, `["a<b>"]`, `null`, 1), "f: line 1: is not the canonical JSON of a run event"},
		"another task":             {strings.Replace(good, "task 1", "task 9", 1), "f: line 3: is the seal of other events"},
		"seal with white space":    {first + second + strings.Replace(seal, `,"key"`, `, "key"`, 1), "f: line 3: is not the canonical JSON of a seal of the schema gaia.ledger/1"},
		"another schema":           {first + second + strings.Replace(seal, "ledger/1", "ledger/2", 1), "f: line 3: is not the canonical JSON of a seal of the schema gaia.ledger/1"},
		"no signature":             {first + second + strings.Replace(seal, `,"signature":"`+member(seal, "signature")+`"`, "", 1), "f: line 3: its signature is not good"},
		"signature no base64":      {first + second + strings.Replace(seal, member(seal, "signature"), "x", 1), "f: line 3: its signature is not base64"},
		"another's key":            {first + second + strings.Replace(seal, member(seal, "key"), member(foreign, "key"), 1), "f: line 3: its signature is not good"},
		"another's signature":      {first + second + strings.Replace(seal, member(seal, "signature"), member(foreign, "signature"), 1), "f: line 3: its signature is not good"},
		"no key":                   {first + second + strings.Replace(seal, member(seal, "key"), "x", 1), "f: line 3: its key is not one ssh-ed25519 key"},
		"key with another comment": {first + second + strings.Replace(seal, member(seal, "key"), member(seal, "key")+" me", 1), "f: line 3: its key is not one ssh-ed25519 key"},
		"endless line":             {strings.Repeat("x", maxLedgerLine+2), "f: line 1: is longer than 1048576 bytes"},
	} {
		_, _, err := VerifyLedger("f", strings.NewReader(c.data), true)
		var fault *trajectory.Fault
		if !errors.As(err, &fault) || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		if c.data == good {
			t.Errorf("%s: nothing was changed", name)
		}
	}
	if _, _, err := VerifyLedger("f", strings.NewReader(strings.Replace(good, "task 1", "task 9", 1)), false); err == nil {
		t.Error("a changed event is accepted as it was sealed")
	}
}

// TestLedgerRefusesEvents: an event that no run can have given is neither written nor read.
func TestLedgerRefusesEvents(t *testing.T) {
	const (
		small = "a count of it is too small or its level none"
		large = "a count of it is larger than an attempt's can be"
		text  = "a text of it has more than 65536 bytes"
		list  = "a list of it has more than 4096 members"
		set   = "retrieved_rule_ids, triggered_rule_ids or tools_used is not sorted, each once"
	)
	many := make([]string, 4097)
	for i := range many {
		many[i] = fmt.Sprintf("%04d", i)
	}
	for name, c := range map[string]struct {
		change func(*RunEvent)
		want   string
	}{
		"schema":          {func(e *RunEvent) { e.Schema = "gaia.run_event/3" }, "its schema is not gaia.run_event/2"},
		"earlier schema":  {func(e *RunEvent) { e.Schema = "gaia.run_event/1" }, "its schema is gaia.run_event/1, which gaia 0.1.0 reads and this version does not"},
		"policy":          {func(e *RunEvent) { e.PolicyHash = "0123" }, "policy_hash is no digest, or mode none"},
		"mode":            {func(e *RunEvent) { e.Mode = "free" }, "policy_hash is no digest, or mode none"},
		"triggered":       {func(e *RunEvent) { e.TriggeredRuleIDs = []string{"b", "a"} }, set},
		"many triggered":  {func(e *RunEvent) { e.TriggeredRuleIDs = many }, list},
		"run":             {func(e *RunEvent) { e.RunID = strings.ToLower(e.RunID) }, "id, run_id and session are not ULIDs"},
		"timestamp":       {func(e *RunEvent) { e.Timestamp = "2026-01-01T00:00:00Z" }, "its timestamp is not the time of its id"},
		"another time":    {func(e *RunEvent) { e.Timestamp = trajectoryTime(1) }, "its timestamp is not the time of its id"},
		"guidance":        {func(e *RunEvent) { e.GuidanceHash = "0123456789ABCDEF" }, "guidance_hash or manifest_sha256 is no digest"},
		"no task":         {func(e *RunEvent) { e.TaskID = "" }, "task_id, intent or signed_by is missing"},
		"outcome":         {func(e *RunEvent) { e.Outcome = "solved" }, "its outcome is none that an attempt has"},
		"tools":           {func(e *RunEvent) { e.ToolsUsed = []string{"a", "a"} }, set},
		"rules":           {func(e *RunEvent) { e.RetrievedRuleIDs = []string{"b", "a"} }, set},
		"file":            {func(e *RunEvent) { e.FilesTouched = []string{strings.Repeat("x", 1<<16+1)} }, text},
		"description":     {func(e *RunEvent) { e.Violations[0].Description = strings.Repeat("x", 1<<16+1) }, text},
		"many files":      {func(e *RunEvent) { e.FilesTouched = many }, list},
		"many rules":      {func(e *RunEvent) { e.RetrievedRuleIDs = many }, list},
		"many tools":      {func(e *RunEvent) { e.ToolsUsed = many }, list},
		"many violations": {func(e *RunEvent) { e.Violations = slices.Repeat(e.Violations, 4097) }, list},
		"lines below 0":   {func(e *RunEvent) { e.DiffSummary.LinesRemoved = -1 }, small},
		"cost below 0":    {func(e *RunEvent) { *e.CostMicroUSD = -1 }, small},
		"level":           {func(e *RunEvent) { e.Level = 4 }, small},
		"lines":           {func(e *RunEvent) { e.DiffSummary.LinesAdded = 1<<32 + 1 }, large},
		"rework":          {func(e *RunEvent) { e.ReworkLines = 1<<53 - 1 }, large},
		"attempt":         {func(e *RunEvent) { e.Attempt = 1<<32 + 1 }, large},
		"duration":        {func(e *RunEvent) { e.DurationMs = 1<<53/1000 + 1 }, large},
		"tokens":          {func(e *RunEvent) { e.Tokens = 1<<43 + 1 }, large},
		"cost":            {func(e *RunEvent) { *e.CostMicroUSD = 1<<43 + 1 }, large},
		"files":           {func(e *RunEvent) { e.DiffSummary.Files = 2 }, "its diff_summary counts other files than those touched"},
		"checks":          {func(e *RunEvent) { e.TestResults.Ran = 2 }, "its test_results do not add up"},
		"severity":        {func(e *RunEvent) { e.Violations[0].Severity = "" }, "a violation is of no class, of no rule, or of no severity"},
		"class":           {func(e *RunEvent) { e.Violations[0].Class = "other" }, "a violation is of no class, of no rule, or of no severity"},
		"rule":            {func(e *RunEvent) { e.Violations[0].RuleID = "" }, "a violation is of no class, of no rule, or of no severity"},
		"other class":     {func(e *RunEvent) { e.Violations[0].Class = "mode" }, "its denials do not count its violations"},
		"more denials":    {func(e *RunEvent) { e.Denials.Rule++ }, "its denials do not count its violations"},
		"denial by mode":  {func(e *RunEvent) { e.Denials.Mode++ }, "its denials do not count its violations"},
		"refusals":        {func(e *RunEvent) { e.PersonRefusals = -1 }, "a count of it is too small or its level none"},
	} {
		e := ledgerEvent(1)
		c.change(&e)
		if err := NewLedgerWriter(io.Discard).Add(e); err == nil || err.Error() != fmt.Sprintf("the event %q: %s", e.ID, c.want) {
			t.Errorf("%s, written: %v, want %s", name, err, c.want)
		}
		line, err := sign.Canonical(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := VerifyLedger("f", bytes.NewReader(append(line, '\n')), true); err == nil || err.Error() != "f: line 1: "+c.want {
			t.Errorf("%s, read: %v, want %s", name, err, c.want)
		}
	}
	w := NewLedgerWriter(io.Discard)
	if err := errors.Join(w.Add(ledgerEvent(2)), w.Add(ledgerEvent(2))); err == nil {
		t.Error("an event was written twice")
	}
	e := ledgerEvent(1)
	for range 17 {
		e.FilesTouched = append(e.FilesTouched, strings.Repeat("x", 1<<16))
		e.DiffSummary.Files++
	}
	if err := NewLedgerWriter(io.Discard).Add(e); err == nil || err.Error() != fmt.Sprintf("the event %q takes more than 1048576 bytes", e.ID) {
		t.Errorf("too long a line: %v", err)
	}
}

// TestEventVerdict: an event's checks are those that a journal can give with its
// outcome; counts are failed, passed, ran and skipped.
func TestEventVerdict(t *testing.T) {
	const adds, contradicts = "its test_results do not add up", "its outcome and test_results contradict outcome_accepted"
	yes, no := new(true), new(false)
	for _, c := range []struct {
		outcome  string
		accepted *bool
		counts   TestCounts
		want     string
	}{
		{trajectory.Answered, yes, TestCounts{0, 1, 1, 0}, ""}, // without a judge
		{trajectory.Answered, yes, TestCounts{0, 1, 1, 1}, ""}, // which is not asked
		{trajectory.Answered, yes, TestCounts{0, 2, 2, 0}, ""}, // who agrees
		{trajectory.Answered, yes, TestCounts{1, 1, 2, 0}, ""}, // who does not
		{trajectory.Answered, yes, TestCounts{0, 0, 0, 1}, contradicts},
		{trajectory.Answered, yes, TestCounts{1, 0, 1, 0}, contradicts},
		{trajectory.Answered, yes, TestCounts{2, 0, 2, 0}, contradicts},
		{trajectory.Answered, no, TestCounts{1, 0, 1, 0}, ""},
		{trajectory.Answered, no, TestCounts{1, 0, 1, 1}, ""},
		{trajectory.Answered, no, TestCounts{1, 1, 2, 0}, ""},
		{trajectory.Answered, no, TestCounts{2, 0, 2, 0}, ""},
		{trajectory.Answered, no, TestCounts{0, 1, 1, 0}, contradicts},
		{trajectory.Answered, no, TestCounts{0, 2, 2, 0}, contradicts},
		{trajectory.Answered, no, TestCounts{0, 0, 0, 2}, contradicts},
		{trajectory.Answered, nil, TestCounts{0, 0, 0, 1}, ""},
		{trajectory.Answered, nil, TestCounts{0, 0, 0, 2}, ""},
		{trajectory.Answered, nil, TestCounts{0, 1, 1, 0}, contradicts},
		{trajectory.NoAnswer, no, TestCounts{0, 0, 0, 1}, ""},
		{trajectory.Errored, no, TestCounts{0, 0, 0, 2}, ""},
		{trajectory.NoAnswer, nil, TestCounts{0, 0, 0, 1}, ""},
		{trajectory.NoAnswer, yes, TestCounts{0, 1, 1, 0}, contradicts},
		{trajectory.NoAnswer, yes, TestCounts{0, 0, 0, 1}, contradicts},
		{trajectory.Errored, no, TestCounts{1, 0, 1, 0}, contradicts},
		{trajectory.Errored, nil, TestCounts{1, 0, 1, 1}, contradicts},
		{trajectory.Answered, nil, TestCounts{}, adds},
		{trajectory.Answered, yes, TestCounts{0, 1, 1, 2}, adds},
		{trajectory.Answered, yes, TestCounts{0, 2, 1, 0}, adds},
	} {
		e := ledgerEvent(1)
		e.Outcome, e.OutcomeAccepted, e.TestResults = c.outcome, c.accepted, c.counts
		got := ""
		if err := CheckRunEvent(e); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s, %v, %+v: %q, want %q", c.outcome, e.OutcomeAccepted, c.counts, got, c.want)
		}
	}
}

// TestEventSums: what a million events count can be added up, and a duration be shown.
func TestEventSums(t *testing.T) {
	e := ledgerEvent(0)
	e.ReworkLines, e.DurationMs, e.Tokens, e.CostMicroUSD = maxEventCount, maxEventMs, maxEventSpent, new(int64(maxEventSpent))
	if err := NewLedgerWriter(io.Discard).Add(e); err != nil {
		t.Fatal(err)
	}
	for _, most := range []int64{int64(e.ReworkLines), e.DurationMs, e.Tokens, *e.CostMicroUSD} {
		if most > math.MaxInt64/1_000_000 {
			t.Errorf("a million of %d overflow", most)
		}
	}
	if e.DurationMs > math.MaxInt64/int64(time.Millisecond) {
		t.Errorf("%d ms are no duration", e.DurationMs)
	}
	var meter Meter
	for range 3000 {
		meter.Add(e)
	}
	if all, _ := meter.Metrics(); all.ReworkLines != 3000<<32 {
		t.Errorf("%d lines reworked", all.ReworkLines)
	}
}

// TestLedgerBatches: what is held of a file is bounded in bytes, however long its lines
// are.
func TestLedgerBatches(t *testing.T) {
	var events []RunEvent
	for i := range 10 {
		e := ledgerEvent(i)
		e.FilesTouched = slices.Repeat([]string{strings.Repeat("x", 1<<16)}, 9)
		e.DiffSummary.Files = 9
		events = append(events, e)
	}
	data := ledgerOf(t, testKey(t, 1), events...)
	seal, _, err := VerifyLedger("f", bytes.NewReader(data), true)
	if err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int]string{1: "1 1 1 1 1 1 1 1 1 1 0", maxBatchBytes: "2 2 2 2 2 0"} {
		r := newLedgerReader("f", bytes.NewReader(data))
		var got []string
		for over := false; !over; {
			var b lineBatch
			if b, over, err = r.batch(most, seal); err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(len(b.ends)))
		}
		if batches := strings.Join(got, " "); batches != want {
			t.Errorf("at most %d bytes: batches of %s lines, not %s", most, batches, want)
		}
	}
}

// FuzzLedgerReader: what is accepted is what the writer gives of the same events, and
// of what never verified nothing panics.
func FuzzLedgerReader(f *testing.F) {
	key := testKey(f, 1)
	f.Add(ledgerOf(f, key))
	f.Add(ledgerOf(f, key, ledgerEvent(1), ledgerEvent(2)))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = again(data, LedgerSeal{}, 1) // whatever comes, it ends
		_, signer, err := VerifyLedger("f", bytes.NewReader(data), true)
		if err != nil {
			var fault *trajectory.Fault
			if !errors.As(err, &fault) {
				t.Errorf("%v is no fault", err)
			}
			return
		}
		events, err := readLedger(data, true, 2)
		if again := ledgerOf(t, key, events...); err != nil || signer.Equal(key.Public()) && !bytes.Equal(again, data) {
			t.Errorf("%v: two files of the same events: %q and %q", err, data, again)
		}
	})
}
