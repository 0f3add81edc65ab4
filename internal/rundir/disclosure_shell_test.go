package rundir

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/trajectory"
)

// disclosureShell writes the shell lines of docs/disclosure.md to a file.
func disclosureShell(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"sh", "openssl", "jq", "sha256sum", "base64"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: there is no %s here, so the shell lines of docs/disclosure.md were not tried", program)
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "disclosure.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(page), "```shell\n")
	block, rest, closed := strings.Cut(after, "```\n")
	if !ok || !closed || strings.Contains(rest, "```shell") {
		t.Fatal("docs/disclosure.md has not one block of shell lines")
	}
	script := filepath.Join(t.TempDir(), "check.sh")
	if err := os.WriteFile(script, []byte(block), 0o644); err != nil {
		t.Fatal(err)
	}
	return script
}

// shellSays runs the lines on a bundle as a reader would who does not have this
// program; keys are public keys' lines.
func shellSays(t *testing.T, script string, bundle []byte, keys ...string) (accepted bool, out string) {
	t.Helper()
	dir := t.TempDir()
	args := []string{script, "task.json"}
	for i, key := range keys {
		args = append(args, fmt.Sprint("key", i))
		if err := os.WriteFile(filepath.Join(dir, args[i+2]), []byte(key), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range map[string][]byte{"task.json": bundle} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", args...)
	cmd.Dir = dir
	text, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if said := strings.HasSuffix(string(text), "accepted\n"); said != (err == nil) {
		t.Errorf("the lines say %q and end with %v", text, err)
	}
	return err == nil, string(text)
}

// TestDisclosureShell: every task of runs of 1, 2, 3, 5 and 26 tasks is
// accepted; all but the first and the last are tried in the thorough run alone.
func TestDisclosureShell(t *testing.T) {
	script := disclosureShell(t)
	key := testKey(t, 1).Public().Line() + " ada@harbour.example\n"
	for _, n := range []int{1, 2, 3, 5, 26} {
		m, story := manyTasks(t, n)
		dir := memory(files(t, m, interleaved(story)))
		run := verified(t, dir)
		for i, task := range run.Tasks {
			if !long.Thorough() && i != 0 && i != n-1 {
				continue
			}
			keys, signer := []string{key}, testKey(t, 1)
			if i%2 == 1 { // disclosed by someone else
				signer = testKey(t, 9)
				keys = append(keys, signer.Public().Line())
			}
			bundle, err := run.Disclose(dir, task.Plan.TaskID, signer)
			if err != nil {
				t.Fatal(err)
			}
			t.Run(fmt.Sprint(task.Plan.TaskID, " of ", n), func(t *testing.T) {
				t.Parallel()
				if ok, out := shellSays(t, script, bundle, keys...); !ok {
					t.Errorf("refused: %s", out)
				}
				if i >= 2 {
					return
				}
				if ok, out := shellSays(t, script, bundle, key, testKey(t, 2).Public().Line()); ok {
					t.Errorf("accepted from another signer: %s", out)
				}
			})
		}
	}
}

// TestDisclosureShellRefuses changes a byte, or a little more, of everything that the lines look at; outside of the
// thorough run of a quarter of it, since each change starts the shell, jq and openssl.
func TestDisclosureShellRefuses(t *testing.T) {
	long.NotRaced(t)
	script := disclosureShell(t)
	m, story := manyTasks(t, 5)
	good := disclosed(t, m, interleaved(story), "t1")
	b, err := trajectory.DecodeBundle(good)
	if err != nil {
		t.Fatal(err)
	}
	key := testKey(t, 1).Public().Line() + "\n"
	if ok, out := shellSays(t, script, good, key); !ok {
		t.Fatalf("the bundle is refused: %s", out)
	}
	if ok, out := shellSays(t, script, good); ok || !strings.HasPrefix(out, "usage: ") {
		t.Errorf("without a key the lines say %q", out)
	}
	other := contents(t, disclosed(t, m, interleaved(story), "t3"))
	signature := b.Checkpoint[strings.LastIndex(b.Checkpoint, " ")+1 : len(b.Checkpoint)-1]
	raw, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		t.Fatal(err)
	}
	flipped := func(at int) string {
		c := bytes.Clone(raw)
		c[at] ^= 1
		return base64.StdEncoding.EncodeToString(c)
	}
	hash := b.Inclusion.Hashes[1].String()
	tests := []struct{ name, old, new string }{
		{"an event", "answer-of-t1", "answer-of-t2"},
		{"an event's end", `turn_completed\"}`, `turn_completed\" }`},
		{"the leaf's digest", `"digest":"` + b.Leaf.Digest, `"digest":"` + other.Leaf.Digest},
		{"the leaf's salt", `"salt":"00`, `"salt":"01`},
		{"the leaf's lines", `"lines":`, `"lines":1`},
		{"the leaf's attempts", `"leaf":{"attempts":2`, `"leaf":{"attempts":1`},
		{"the leaf's task", `"task_id":"t1"},"manifest"`, `"task_id":"t2"},"manifest"`},
		{"the leaf's run", `"run_id":"` + testRunID, `"run_id":"01JZ0000000000000000000RVM`},
		{"a hash", hash, "A" + strings.Replace(hash[1:], "A", "B", 1)},
		{"a hash's unused bits", hash, hash[:42] + string(hash[42]+1) + "="},
		{"a hash more", `"hashes":[`, `"hashes":["` + hash + `",`},
		{"a hash less", `"` + hash + `",`, ``},
		{"no hashes", `"` + hash + `"`, `""`},
		{"the index", `"index":1`, `"index":2`},
		{"an index outside", `"index":1`, `"index":5`},
		{"an index below", `"index":1`, `"index":-1`},
		{"an index that is a program", `"index":1`, `"index":"a[$(echo accepted >&2)]"`},
		{"the size", `"size":5`, `"size":6`},
		{"the checkpoint's origin", `"checkpoint":"gaia-harness/` + testRunID, `"checkpoint":"gaia-harness/01JZ0000000000000000000RVM`},
		{"the checkpoint's size", `\n5\n`, `\n6\n`},
		{"the checkpoint's root", b.Checkpoint[strings.Index(b.Checkpoint, "\n5\n")+3:][:40], strings.Repeat("A", 40)},
		{"the checkpoint's plan", `manifest sha256:`, `manifest sha256:0`},
		{"the checkpoint's journal", `journal `, `journal 1`},
		{"the checkpoint's rehearsal", `\nrehearsal\n\n`, `\n\n`},
		{"the signature's key hash", signature, flipped(0)},
		{"the signature", signature, flipped(40)},
		{"the signature's name", `\n\n— gaia-harness`, `\n\n— gaia-Harness`},
		{"a second signature", `— gaia-harness`, `— a b\n— gaia-harness`},
		{"the plan", `\"submit_intent\":`, `\"submit_intent\" :`},
		{"what repeats the events", `"policy_verdicts":[`, `"policy_verdicts":[{},`},
		{"the content hash", `"content_hash":"` + b.ContentHash[:70], `"content_hash":"` + b.ContentHash[:69] + string(b.ContentHash[69]^1)},
		{"the bundle's signature", b.Signature.Value, "A" + b.Signature.Value[1:]},
		{"the bundle's signature's unused bits", `=="},"version`, `="},"version`},
		{"the signer", b.Signature.KeyID, "SHA256:A" + b.Signature.KeyID[8:]},
		{"the algorithm", `"alg":"ed25519"`, `"alg":"ed25518"`},
		{"a pattern for a signature", b.Signature.Value, ".*"},
		{"the version", `"version":1`, `"version":2`},
		{"the workflow", `"workflow_id":"`, `"workflow_id":"0`},
		{"a newline more", `"workflow_id":"` + b.WorkflowID + `"}`, `"workflow_id":"` + b.WorkflowID + "\"}\n"},
		{"no bundle", string(good), `{}`},
		{"no JSON", string(good), `no`},
		{"nothing", string(good), ``},
	}
	for i, tt := range tests {
		if i%long.Step(4) != 0 {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			changed := strings.Replace(string(good), tt.old, tt.new, 1)
			if changed == string(good) {
				t.Fatalf("%q is not there", tt.old)
			}
			if ok, out := shellSays(t, script, []byte(changed), key); ok {
				t.Errorf("accepted: %s", out)
			}
		})
	}
	blob, _, _ := strings.Cut(strings.TrimPrefix(key, "ssh-ed25519 "), "\n")
	wire, err := base64.StdEncoding.DecodeString(blob)
	if err != nil {
		t.Fatal(err)
	}
	wire[len(wire)-1] ^= 1
	for name, line := range map[string]string{"another key": testKey(t, 2).Public().Line(), "a bit of the key": "ssh-ed25519 " + base64.StdEncoding.EncodeToString(wire), "no key": ""} {
		if ok, out := shellSays(t, script, good, line); ok {
			t.Errorf("%s: accepted: %s", name, out)
		}
	}
	foreign := testKey(t, 2)
	head, err := trajectory.ParseCheckpoint([]byte(b.Checkpoint))
	if err != nil {
		t.Fatal(err)
	}
	note, err := head.Sign(foreign)
	if err != nil {
		t.Fatal(err)
	}
	// a second signer, whose signature is good, cannot say what the run does not
	for name, change := range map[string]func(*trajectory.Contents){
		"no rehearsal":       func(c *trajectory.Contents) { c.Rehearsal = false },
		"another workflow":   func(c *trajectory.Contents) { c.WorkflowID = testRunID + "/t2" },
		"another event":      func(c *trajectory.Contents) { c.Events = append([]string{"another"}, c.Events...) },
		"a transaction":      func(c *trajectory.Contents) { c.ChainTransactions = []struct{}{{}} },
		"another version":    func(c *trajectory.Contents) { c.Version = 2 },
		"no leaf":            func(c *trajectory.Contents) { c.Leaf = nil },
		"another checkpoint": func(c *trajectory.Contents) { c.Checkpoint = string(note) },
	} {
		c := deepCopy(t, b.Contents)
		change(&c)
		data, err := c.Seal(foreign)
		if err != nil {
			t.Fatal(err)
		}
		if ok, out := shellSays(t, script, data, key, foreign.Public().Line()); ok || !strings.HasSuffix(out, "refused\n") {
			t.Errorf("%s: %s", name, out)
		}
	}
	c := deepCopy(t, b.Contents)
	c.Checkpoint = string(note)
	data, err := c.Seal(foreign)
	if err != nil {
		t.Fatal(err)
	}
	if ok, out := shellSays(t, script, data, key); ok {
		t.Errorf("a stranger's checkpoint: accepted: %s", out)
	}
}
