package rundir

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/trajectory"
)

// manyTasks is a plan of n tasks, t0 to the last, and a script in which every third
// is skipped and the others are tried twice or solved; each says something that
// no other says.
func manyTasks(t testing.TB, n int) (plan.Plan, string) {
	t.Helper()
	var ids []string
	script, solved, skipped := "run started\n", 0, 0
	for i := range n {
		id := fmt.Sprintf("t%d", i)
		ids = append(ids, id)
		salt := fmt.Sprintf("salt=%064x", 1<<20+i)
		switch i % 3 {
		case 0:
			script += fmt.Sprintf("%[1]s.1 begin\n%[1]s.1.1 turn\n%[1]s.1.1 propose tool-of-%[1]s.\n%[1]s.1.1 refuse rule-of-%[1]s.\n%[1]s.1.1 done\n%[1]s.1 answer answer-of-%[1]s.\n%[1]s.1 ended answered\n%[1]s.1 graded right\n%[1]s sealed solved 1/1 %[2]s\n", id, salt)
			solved++
		case 1:
			script += fmt.Sprintf("%[1]s.1 begin\n%[1]s.1 error\n%[1]s.1 ended error\n%[1]s.2 begin\n%[1]s.2.1 turn\n%[1]s.2.1 propose tool-of-%[1]s.\n%[1]s.2.1 allow\n%[1]s.2.1 executed tool-of-%[1]s.\n%[1]s.2.1 done\n%[1]s.2 answer answer-of-%[1]s.\n%[1]s.2 ended answered\n%[1]s.2 graded right\n%[1]s sealed solved 2/2 %[2]s\n", id, salt)
			solved++
		default:
			script += id + " sealed skipped 0/0 " + salt + "\n"
			skipped++
		}
	}
	m := planOf(t, ids...)
	for i, id := range ids {
		var err error
		if m.Tasks[i].QuestionSHA256, err = plan.QuestionDigest(fmt.Sprintf("%064x", 1<<20+i), question(id)); err != nil {
			t.Fatal(err)
		}
	}
	return m, script + fmt.Sprintf("run completed solved=%d skipped=%d\n", solved, skipped)
}

// interleaved moves the lines of a script's tasks among each other, as tasks
// that run at once do.
func interleaved(script string) string {
	lines := strings.Split(strings.TrimSpace(script), "\n")
	of := map[string][]string{}
	var ids, out []string
	for _, line := range lines[1 : len(lines)-1] {
		id, _, _ := strings.Cut(strings.Fields(line)[0], ".")
		if of[id] == nil {
			ids = append(ids, id)
		}
		of[id] = append(of[id], line)
	}
	for more := true; more; {
		more = false
		for _, id := range ids {
			if len(of[id]) > 0 {
				out, of[id], more = append(out, of[id][0]), of[id][1:], true
			}
		}
	}
	return lines[0] + "\n" + strings.Join(out, "\n") + "\n" + lines[len(lines)-1] + "\n"
}

func verified(t testing.TB, dir fs.FS) *Run {
	t.Helper()
	run, err := Verify(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// disclosed is the bundle of a task, or of the run, by the run's key.
func disclosed(t testing.TB, m plan.Plan, script, task string) []byte {
	t.Helper()
	dir := memory(files(t, m, script))
	data, err := verified(t, dir).Disclose(dir, task, testKey(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func contents(t testing.TB, data []byte) trajectory.Contents {
	t.Helper()
	b, err := trajectory.DecodeBundle(data)
	if err != nil {
		t.Fatal(err)
	}
	return b.Contents
}

// TestDiscloseTask: the lines of a task and nothing of the others, whatever
// their number.
func TestDiscloseTask(t *testing.T) {
	long.NotRaced(t)
	for _, n := range []int{1, 2, 3, 5, 26} {
		m, script := manyTasks(t, n)
		all := files(t, m, interleaved(script))
		dir := memory(all)
		run := verified(t, dir)
		leaves := run.Leaves()
		for i, leaf := range leaves {
			data, err := run.Disclose(dir, leaf.TaskID, testKey(t, 1))
			if err != nil {
				t.Fatal(err)
			}
			d, err := VerifyBundle(data)
			if err != nil {
				t.Fatalf("task %d of %d: %v", i, n, err)
			}
			var want []string
			for line := range bytes.Lines(all[trajectory.JournalFile]) {
				if bytes.Contains(line, []byte(`"task_id":"`+leaf.TaskID+`"`)) {
					want = append(want, string(bytes.TrimSuffix(line, []byte("\n"))))
				}
			}
			if !slices.Equal(d.Bundle.Events, want) || canonical.Digest([]byte(strings.Join(want, "\n")+"\n")) != d.Bundle.Leaf.Digest {
				t.Errorf("task %d of %d: events are not the lines of the task", i, n)
			}
			if d.Task.Plan.TaskID != leaf.TaskID || *d.Bundle.Leaf != leaf || d.Bundle.Inclusion.Index != int64(i) || d.Bundle.Checkpoint != string(all[trajectory.CheckpointFile]) ||
				d.Head.Root.String() != run.RootHash || !d.Key.Equal(run.Key) || d.Signer.KeyID() != run.Key.ID() || len(d.Task.Attempts) != leaf.Attempts {
				t.Errorf("task %d of %d: %+v", i, n, d)
			}
			for j, other := range leaves {
				if j == i {
					continue
				}
				foreign := []string{question(other.TaskID), "-of-" + other.TaskID + ".", other.Salt}
				if other.Lines > 1 { // of a single line the digest is the next one's parent_hash
					foreign = append(foreign, other.Digest)
				}
				for _, planted := range foreign {
					if bytes.Contains(data, []byte(planted)) {
						t.Errorf("the bundle of %s holds %q", leaf.TaskID, planted)
					}
				}
			}
		}
	}
}

func TestDiscloseRun(t *testing.T) {
	m := mixedPlan(t)
	all := files(t, m, mixed)
	d, err := VerifyBundle(disclosed(t, m, mixed, ""))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(d.Bundle.Events, "\n") + "\n"; got != string(all[trajectory.JournalFile]) {
		t.Error("the events are not the journal")
	}
	if d.Task != nil || d.Completed == nil || d.Bundle.WorkflowID != testRunID || d.Bundle.Leaf != nil || d.Bundle.Inclusion != nil || !d.Bundle.Rehearsal {
		t.Errorf("%+v", d)
	}
	types := func(list []trajectory.Projection) (out []string) {
		for _, p := range list {
			out = append(out, string(p.Type))
			if !strings.Contains(d.Bundle.Events[p.Seq], `"payload":`+string(p.Payload)+`,`) {
				t.Errorf("event %d does not say %s", p.Seq, p.Payload)
			}
		}
		return slices.Compact(out)
	}
	if got := types(d.Bundle.PolicyVerdicts); !slices.Equal(got, []string{"policy_decision"}) {
		t.Errorf("policy_verdicts are %v", got)
	}
	if got := types(d.Bundle.Proposals); !slices.Equal(got, []string{"tool_proposed"}) || len(d.Bundle.Approvals) != 0 {
		t.Errorf("proposals are %v", got)
	}
}

func TestDiscloseRefuses(t *testing.T) {
	m := mixedPlan(t)
	dir := memory(files(t, m, mixed))
	run := verified(t, dir)
	if _, err := run.Disclose(dir, "unplanned", testKey(t, 1)); err == nil || err.Error() != `the run has no task "unplanned"` {
		t.Errorf("a task that is not planned: %v", err)
	}
	cut := mixed[:strings.LastIndex(mixed, "run completed")]
	unfinished := memory(files(t, m, cut))
	if _, err := verified(t, unfinished).Disclose(unfinished, "", testKey(t, 1)); !errors.Is(err, ErrIncomplete) {
		t.Errorf("an unfinished run: %v", err)
	}
	m2, script := manyTasks(t, 5)
	other := memory(files(t, m2, script))
	var fault *trajectory.Fault
	if _, err := run.Disclose(other, "solved", testKey(t, 1)); !errors.As(err, &fault) || fault.File != trajectory.JournalFile {
		t.Errorf("the files of another run: %v", err)
	}
}

// TestVerifyBundleEveryByte: no other bytes pass for the bundle. It changes a byte in 50 places, in the thorough run in 400.
func TestVerifyBundleEveryByte(t *testing.T) {
	long.NotRaced(t)
	m, script := manyTasks(t, 3)
	for _, task := range []string{"t1", ""} {
		good := disclosed(t, m, interleaved(script), task)
		if _, err := VerifyBundle(good); err != nil {
			t.Fatal(err)
		}
		step := 1 + long.Step(8)*len(good)/400
		for i := 0; i < len(good); i += step {
			for _, b := range [][]byte{
				slices.Concat(good[:i], []byte{good[i] ^ 1}, good[i+1:]),
				slices.Concat(good[:i], good[i+1:]),
				slices.Concat(good[:i], []byte{good[i]}, good[i:]),
			} {
				var fault *trajectory.Fault
				var unknown *UnknownSignerError // the key id was changed
				if _, err := VerifyBundle(b); !bytes.Equal(b, good) && !errors.As(err, &fault) && !errors.As(err, &unknown) {
					t.Fatalf("byte %d changed, near %q: %v", i, b[max(0, i-20):min(len(b), i+20)], err)
				}
			}
		}
	}
}

// TestVerifyBundleForged: who holds the run's key can sign a bundle that says
// something else, but not one that fits the checkpoint.
func TestVerifyBundleForged(t *testing.T) {
	long.NotRaced(t)
	m, script := manyTasks(t, 5)
	script = interleaved(script)
	key := testKey(t, 1)
	foreign, _ := manyTasks(t, 5)
	foreign.Created = "2031-02-03T04:05:07.000Z"
	task, other, whole := contents(t, disclosed(t, m, script, "t1")), contents(t, disclosed(t, m, script, "t4")), contents(t, disclosed(t, m, script, ""))
	alien := contents(t, disclosed(t, foreign, script, "t1"))
	type forgery struct {
		name   string
		from   trajectory.Contents
		change func(*trajectory.Contents)
		member string
	}
	note := func(change func(*trajectory.Checkpoint)) func(*trajectory.Contents) {
		return func(c *trajectory.Contents) {
			head, err := trajectory.ParseCheckpoint([]byte(c.Checkpoint))
			if err != nil {
				t.Fatal(err)
			}
			change(&head)
			data, err := head.Sign(key)
			if err != nil {
				t.Fatal(err)
			}
			c.Checkpoint = string(data)
		}
	}
	tests := []forgery{
		{"nothing", task, func(c *trajectory.Contents) {}, ""},
		{"nothing of the run", whole, func(c *trajectory.Contents) {}, ""},
		{"no events", task, func(c *trajectory.Contents) { c.Events = nil }, "events"},
		{"an event left out", task, func(c *trajectory.Contents) { c.Events = slices.Delete(c.Events, 2, 3) }, "events"},
		{"the first attempt left out", task, func(c *trajectory.Contents) { c.Events = c.Events[3:] }, "events"},
		{"the seal left out", task, func(c *trajectory.Contents) { c.Events = c.Events[:len(c.Events)-1] }, "events"},
		{"two events swapped", task, func(c *trajectory.Contents) { c.Events[4], c.Events[5] = c.Events[5], c.Events[4] }, "events"},
		{"an event twice", task, func(c *trajectory.Contents) { c.Events = slices.Insert(c.Events, 4, c.Events[4]) }, "events"},
		{"an event of another task", task, func(c *trajectory.Contents) { c.Events = append(c.Events, other.Events[0]) }, "events"},
		{"an event of another run", task, func(c *trajectory.Contents) { c.Events[0] = alien.Events[0] }, "leaf"},
		{"an event of the run", task, func(c *trajectory.Contents) { c.Events = slices.Insert(c.Events, 0, whole.Events[0]) }, "events"},
		{"two lines in one", task, func(c *trajectory.Contents) {
			c.Events = append([]string{c.Events[0] + "\n" + c.Events[1]}, c.Events[2:]...)
		}, "events"},
		{"an edited event", task, func(c *trajectory.Contents) {
			c.Events[0] = strings.Replace(c.Events[0], `"attempt":1`, `"attempt":2`, 1)
		}, "events"},
		{"a line too long", task, func(c *trajectory.Contents) { c.Events[0] = strings.Repeat("x", trajectory.MaxLine) }, "events"},
		{"a proposal left out", task, func(c *trajectory.Contents) { c.Proposals = nil }, "proposals"},
		{"a verdict changed", task, func(c *trajectory.Contents) { c.PolicyVerdicts[0].Turn++ }, "policy_verdicts"},
		{"a verdict's payload changed", task, func(c *trajectory.Contents) { c.PolicyVerdicts[0].Payload = []byte(`{}`) }, "policy_verdicts"},
		{"an approval made up", task, func(c *trajectory.Contents) { c.Approvals = c.Proposals }, "approvals"},
		{"another salt", task, func(c *trajectory.Contents) { c.Leaf.Salt = strings.Repeat("00", 32) }, "leaf"},
		{"fewer attempts", task, func(c *trajectory.Contents) { c.Leaf.Attempts-- }, "leaf"},
		{"no leaf", task, func(c *trajectory.Contents) { c.Leaf = nil }, "leaf"},
		{"no proof", task, func(c *trajectory.Contents) { c.Inclusion = nil }, "inclusion"},
		{"another place", task, func(c *trajectory.Contents) { c.Inclusion.Index = 2 }, "inclusion"},
		{"another size", task, func(c *trajectory.Contents) { c.Inclusion.Size = 4 }, "inclusion"},
		{"another proof", task, func(c *trajectory.Contents) { c.Inclusion.Hashes = other.Inclusion.Hashes }, "inclusion"},
		{"a proof cut", task, func(c *trajectory.Contents) { c.Inclusion.Hashes = c.Inclusion.Hashes[1:] }, "inclusion"},
		{"a proof with more", task, func(c *trajectory.Contents) { c.Inclusion.Hashes = append(c.Inclusion.Hashes, c.Inclusion.Hashes[0]) }, "inclusion"},
		{"another task", task, func(c *trajectory.Contents) { c.WorkflowID = other.WorkflowID }, "events"},
		{"a task not planned", task, func(c *trajectory.Contents) { c.WorkflowID = testRunID + "/t9" }, "workflow_id"},
		{"another run", task, func(c *trajectory.Contents) { c.WorkflowID = "01JZ0000000000000000000000/t1" }, "workflow_id"},
		{"an empty task", whole, func(c *trajectory.Contents) { c.WorkflowID += "/" }, "workflow_id"},
		{"no rehearsal", task, func(c *trajectory.Contents) { c.Rehearsal = false }, "rehearsal"},
		{"another version", task, func(c *trajectory.Contents) { c.Version = 2 }, "version"},
		{"a chain", task, func(c *trajectory.Contents) { c.ChainTransactions = make([]struct{}, 1) }, "chain_transactions"},
		{"another plan", task, func(c *trajectory.Contents) { c.Manifest, c.ManifestEnvelope = alien.Manifest, alien.ManifestEnvelope }, "checkpoint"},
		{"no plan", task, func(c *trajectory.Contents) { c.Manifest = "{}" }, "manifest"},
		{"another envelope", task, func(c *trajectory.Contents) { c.ManifestEnvelope = alien.ManifestEnvelope }, "manifest"},
		{"no envelope", task, func(c *trajectory.Contents) { c.ManifestEnvelope = "" }, "manifest_envelope"},
		{"another checkpoint", task, func(c *trajectory.Contents) { c.Checkpoint = alien.Checkpoint }, "checkpoint"},
		{"no checkpoint", task, func(c *trajectory.Contents) { c.Checkpoint = "" }, "checkpoint"},
		{"a checkpoint with a bad signature", task, func(c *trajectory.Contents) {
			c.Checkpoint = c.Checkpoint[:strings.LastIndex(c.Checkpoint, " ")+1] + base64.StdEncoding.EncodeToString(make([]byte, 68)) + "\n"
		}, "checkpoint"},
		{"a checkpoint of another root", task, note(func(c *trajectory.Checkpoint) { c.Root[0] ^= 1 }), "inclusion"},
		{"a checkpoint of fewer tasks", task, note(func(c *trajectory.Checkpoint) { c.Size-- }), "checkpoint"},
		{"a checkpoint of a shorter journal", task, note(func(c *trajectory.Checkpoint) { c.Journal.Events = 9 }), "checkpoint"},
		{"a checkpoint that is no rehearsal's", task, note(func(c *trajectory.Checkpoint) { c.Rehearsal = false }), "checkpoint"},
		{"a run's event left out", whole, func(c *trajectory.Contents) { c.Events = slices.Delete(c.Events, 3, 4) }, "events"},
		{"a run's end left out", whole, func(c *trajectory.Contents) { c.Events = c.Events[:len(c.Events)-1] }, "events"},
		{"a run's lines joined", whole, func(c *trajectory.Contents) {
			c.Events = append([]string{c.Events[0] + "\n" + c.Events[1]}, c.Events[2:]...)
		}, "events"},
		{"a run with no events", whole, func(c *trajectory.Contents) { c.Events = nil }, "events"},
		{"a run with a leaf", whole, func(c *trajectory.Contents) { c.Leaf = task.Leaf }, "leaf"},
		{"a run with a proof", whole, func(c *trajectory.Contents) { c.Inclusion = task.Inclusion }, "inclusion"},
		{"a run's proposal left out", whole, func(c *trajectory.Contents) { c.Proposals = c.Proposals[1:] }, "proposals"},
		{"a run's checkpoint of another root", whole, note(func(c *trajectory.Checkpoint) { c.Root[0] ^= 1 }), "checkpoint"},
		{"a run's checkpoint of another journal", whole, note(func(c *trajectory.Checkpoint) { c.Journal.Head = canonical.Digest(nil) }), "checkpoint"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := deepCopy(t, tt.from)
			tt.change(&c)
			data, err := c.Seal(key)
			if err != nil {
				t.Fatal(err)
			}
			_, err = VerifyBundle(data)
			if tt.member == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var fault *trajectory.Fault
			if !errors.As(err, &fault) || fault.File != tt.member {
				t.Errorf("%v, want a fault in %s", err, tt.member)
			}
		})
	}
}

func deepCopy(t *testing.T, c trajectory.Contents) (out trajectory.Contents) {
	t.Helper()
	b, err := canonical.Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := canonical.Decode(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestBundleSigners: the bundle's own signature may be by another key than the
// run's, which the reader must then have.
func TestBundleSigners(t *testing.T) {
	m, script := manyTasks(t, 2)
	dir := memory(files(t, m, script))
	run := verified(t, dir)
	stranger := testKey(t, 9)
	shared, err := sign.NewHMACKey(bytes.Repeat([]byte("s"), 32))
	if err != nil {
		t.Fatal(err)
	}
	second, err := sign.NewHMACKey(bytes.Repeat([]byte("t"), 32))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		signer sign.Signer
		good   sign.Verifier
		bad    []sign.Verifier
	}{
		{stranger, stranger.Public(), []sign.Verifier{shared}},
		{shared, shared, []sign.Verifier{stranger.Public(), second}},
	}
	for _, tt := range tests {
		data, err := run.Disclose(dir, "t1", tt.signer)
		if err != nil {
			t.Fatal(err)
		}
		d, err := VerifyBundle(data, append(tt.bad, tt.good)...)
		if err != nil || d.Signer.KeyID() != tt.good.KeyID() || d.Bundle.Signature.Alg != tt.good.Alg() {
			t.Errorf("%s: %v", tt.signer.Alg(), err)
		}
		var unknown *UnknownSignerError
		if d, err := VerifyBundle(data, tt.bad...); d == nil || d.Signer != nil || !errors.As(err, &unknown) || *unknown != (UnknownSignerError{tt.signer.Alg(), tt.signer.KeyID()}) {
			t.Errorf("%s: %v", tt.signer.Alg(), err)
		}
		// under a name of a key that is at hand, it is a bad signature
		b, err := trajectory.DecodeBundle(data)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range append(tt.bad, run.Key) {
			b.Signature.Alg, b.Signature.KeyID = v.Alg(), v.KeyID()
			claimed, err := canonical.Encode(b)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := VerifyBundle(claimed, append(tt.bad, tt.good)...); err == nil || err.Error() != "signature: the signature is not good" {
				t.Errorf("%s said to be %s: %v", tt.signer.Alg(), v.Alg(), err)
			}
		}
	}
}

// TestBundleHashFirst: a wrong hash is found before any signature is looked at.
func TestBundleHashFirst(t *testing.T) {
	m, script := manyTasks(t, 2)
	b, err := trajectory.DecodeBundle(disclosed(t, m, script, "t0"))
	if err != nil {
		t.Fatal(err)
	}
	b.ContentHash, b.Signature.Value, b.ManifestEnvelope = canonical.Digest(nil), "", ""
	data, err := canonical.Encode(b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyBundle(data); err == nil || err.Error() != "content_hash: is not that of the contents" {
		t.Error(err)
	}
}

// FuzzVerifyBundle: without the key no one makes another bundle that verifies.
func FuzzVerifyBundle(f *testing.F) {
	m, script := manyTasks(f, 2)
	known := map[string]bool{}
	for _, task := range []string{"t0", "t1", ""} {
		data := disclosed(f, m, script, task)
		known[string(data)] = true
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := VerifyBundle(data); err == nil && !known[string(data)] {
			t.Fatalf("accepted %q", data)
		}
	})
}
