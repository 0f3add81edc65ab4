package rundir

import (
	"crypto/sha256"
	"os/exec"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
)

// TestQuestionDigest: openssl gives the same salt and digest, as docs/formats.md says.
func TestQuestionDigest(t *testing.T) {
	secret, question := strings.Repeat("c4", 32), "How tall is the lighthouse of Branmoor – in ells?"
	salt, err := plan.TaskSalt(secret, "fab1e925-0000")
	if err != nil {
		t.Fatal(err)
	}
	digest, err := plan.QuestionDigest(salt, question)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "00", strings.Repeat("zz", 32), secret + "00"} {
		_, errSalt := plan.TaskSalt(bad, "a")
		_, errDigest := plan.QuestionDigest(bad, "a")
		if errSalt == nil || errDigest == nil {
			t.Errorf("%q is taken as 32 bytes: %v, %v", bad, errSalt, errDigest)
		}
	}
	if other, err := plan.TaskSalt(secret, "fab1e925-0001"); err != nil || other == salt {
		t.Errorf("another task has the same salt, or none: %v", err)
	}
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	for want, script := range map[string]string{
		salt:                                  `printf %s fab1e925-0000 | openssl dgst -sha256 -mac HMAC -macopt hexkey:` + secret,
		strings.TrimPrefix(digest, "sha256:"): `printf %s "` + question + `" | openssl dgst -sha256 -binary | openssl dgst -sha256 -mac HMAC -macopt hexkey:` + salt,
	} {
		out, err := exec.Command("sh", "-c", script).CombinedOutput()
		if fields := strings.Fields(string(out)); err != nil || len(fields) == 0 || fields[len(fields)-1] != want {
			t.Errorf("openssl gives %s (%v), want %s", out, err, want)
		}
	}
}

// TestAsks: a sealed task tells its question to who guesses it, a begun one has it, of
// another nothing is known. The plan alone confirms no guess.
func TestAsks(t *testing.T) {
	for script, sealed := range map[string]bool{oneSolved: true, "run started\na.1 begin\n": false} {
		f, _ := mustFollow(t, planOf(t, "a"), script)
		a := f.Task("a")
		if !a.Asks(question("a")) || a.Asks(question("b")) || (a.Sealed != nil) != sealed {
			t.Errorf("sealed %v: asks a: %v, asks b: %v", sealed, a.Asks(question("a")), a.Asks(question("b")))
		}
	}
	f, _ := mustFollow(t, planOf(t, "a"), "run started\n")
	if !f.Task("a").Asks("anything") {
		t.Error("a task that was not begun is said to ask something else")
	}
	asked := sha256.Sum256([]byte(question("a")))
	digest := f.Task("a").Plan.QuestionSHA256
	for name, guess := range map[string]string{"no salt": plan.SaltedQuestion(nil, asked), "the id as salt": plan.SaltedQuestion([]byte("a"), asked),
		"the digest alone": canonical.Digest([]byte(question("a")))} {
		if guess == digest {
			t.Errorf("%s: the plan alone confirms a guess", name)
		}
	}
}
