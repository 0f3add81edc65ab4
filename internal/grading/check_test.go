package grading

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/judgecache"
)

// TestCacheErrorHints: what can be done depends on what is wrong with the cache.
func TestCacheErrorHints(t *testing.T) {
	for reason, want := range map[string]string{
		judgecache.Untrusted: "are trusted once", judgecache.Writable: "chmod 700 /c", judgecache.NotRead: "see to it that you can read",
		judgecache.Linked: "find out who put /c there", "damaged": "find out who changed these entries",
	} {
		e := &CacheError{"/c", judgecache.Sweep{Checked: 2, Bad: []judgecache.Bad{{Name: "x.json", Reason: reason}}}}
		if hints := strings.Join(e.Hints(), "\n"); !strings.Contains(hints, want) {
			t.Errorf("%s: %q", reason, hints)
		}
	}
	many := &CacheError{Dir: "/c"}
	for range 12 {
		many.Sweep.Bad = append(many.Sweep.Bad, judgecache.Bad{Name: judgecache.Place, Reason: "bad"})
	}
	if got := many.Reasons(); len(got) != 11 || got[0] != "/c: bad" || got[10] != "and 2 more" {
		t.Errorf("%q", got)
	}
}

// TestReport: a report says of each item what the judge did, and ends with the error of a judge that no run uses.
func TestReport(t *testing.T) {
	battery := judge.Battery()
	passed := SelfTest{BatteryResult: judge.BatteryResult{Asked: len(battery)}}
	accepted := SelfTest{BatteryResult: judge.BatteryResult{Asked: len(battery), Accepted: []string{battery[1].Name}}}
	cut := SelfTest{BatteryResult: judge.BatteryResult{Asked: 1, Err: "unreachable"}, Why: &llm.Error{Code: "unreachable"}}
	for name, c := range map[string]struct {
		test       SelfTest
		remembered string
		verdict    string // of the second item
		text       string
		code       int
		err        string
	}{
		"passed":                 {passed, "", "incorrect", ": passed its self-test; ", exit.OK, ""},
		"passed, failed earlier": {passed, outcomePaid, "incorrect", ": passed its self-test; ", exit.Findings, "failed an earlier self-test"},
		"failed":                 {accepted, "", "correct", ": failed its self-test; ", exit.Findings, "no verdict of this judge counts"},
		"not asked":              {cut, "", "not asked", ": was not asked its whole self-test; ", exit.Failure, "asking the judge"},
	} {
		r := NewReport(Judge{Name: "m", Origin: "o"}, c.test, c.remembered, false)
		if r.Items[1].Verdict != c.verdict || !strings.Contains(r.Text(), c.text) {
			t.Errorf("%s: %q\n%s", name, r.Items[1].Verdict, r.Text())
		}
		err := r.Err(c.test, "/c/entry")
		if (err == nil) != (c.err == "") || err != nil && (exit.Of(err).Code != c.code || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	kept := SelfTest{BatteryResult: judge.BatteryResult{Asked: len(battery), Unreadable: []string{battery[0].Name}}}
	e := (*exit.Error)(nil)
	if err := NewReport(Judge{}, kept, outcomeWithstood, false).Err(kept, "/c/entry"); !errors.As(err, &e) || !strings.HasSuffix(e.Hints[0], "rm /c/entry") {
		t.Errorf("%+v", err)
	}
	if err := (Remembered{}).Keep(passed); err != nil {
		t.Errorf("without a cache: %v", err)
	}
}

// TestAdjudicationCheck: a decision has a finding, one of two words and a reason; a countersignature has none of them.
func TestAdjudicationCheck(t *testing.T) {
	for want, d := range map[string]Adjudication{
		"":                                 {Finding: "3fa20b7c", Decision: "void", Reason: "the page held the answer"},
		"needs --finding":                  {Decision: "void", Reason: "x"},
		"--decision is void or dismiss":    {Finding: "3fa20b7c", Decision: "close", Reason: "x"},
		"is not the id of a finding":       {Finding: "3f", Decision: "void", Reason: "x"},
		"--reason ":                        {Finding: "3fa20b7c", Decision: "void", Reason: "two\nlines"},
		"--countersign signs an existing ": {Countersign: "3fa20b7c", Reason: "x"},
	} {
		if err := d.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", d, err, want)
		}
	}
}

// TestCheckCache: a cache that is missing is no error, one by a key that is not trusted is, and so is a directory that others can write to.
func TestCheckCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "judgments")
	key, err := sign.NewKey(rand.NewChaCha8([32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	check := func(want, text string, trusted ...sign.PublicKey) {
		t.Helper()
		c, err := CheckCache(dir, trusted)
		if err != nil || !strings.Contains(c.Text(), text) || (c.Text() == "") != (text == "") {
			t.Errorf("%v, %q", err, c.Text())
		}
		if err := c.Err(); (err == nil) != (want == "") || err != nil && (exit.Of(err).Code != exit.Evidence || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v instead of %q", err, want)
		}
	}
	check("", "there is no judge cache yet")
	cache, err := judgecache.Open(dir, key, []sign.PublicKey{key.Public()}, time.Now)
	if err == nil {
		err = cache.Put(Judge{Name: "m", Origin: "o"}.SelfTestKey(), true)
	}
	if err != nil {
		t.Fatal(err)
	}
	check("", "1 entry checked: 1 good, 0 bad, 0 of the old form", key.Public())
	check("1 of 1 entry in the judge cache do not verify", "1 entry checked: 0 good, 1 bad")
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	check("is "+judgecache.Writable, "", key.Public())
}
