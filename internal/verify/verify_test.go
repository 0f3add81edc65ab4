package verify

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/submit"
)

// TestRequest: flags that do not apply to a run or package are errors of usage.
func TestRequest(t *testing.T) {
	hmac := func() (sign.HMACKey, error) { return sign.HMACKey{}, nil }
	run, full := &Evidence{path: "run"}, &Evidence{path: "full", Packaged: true, Source: &submit.Source{Files: fstest.MapFS{}}}
	for _, c := range []struct {
		name string
		of   *Evidence
		v    Request
		want string // "": no error
	}{
		{"a run", run, Request{Checkpoint: []byte("x")}, ""},
		{"HMAC", run, Request{HMAC: hmac}, "--hmac-key-file is for evidence bundles"},
		{"dataset of a run", run, Request{Dataset: "hub"}, "--dataset is for packages"},
		{"body of a run", run, Request{Bodies: []string{"x"}}, "--body is for packages"},
		{"package beside a run", run, Request{Packaged: "p"}, `"run" is a run`},
		{"dataset of a package", full, Request{Dataset: "hub", Bodies: []string{"x"}, Packaged: "p"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.v.check(c.of)
			if c.want == "" && err != nil || c.want != "" && (err == nil || exit.Of(err).Code != exit.Usage || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestDismissals: a countersigned dismissal is open unless the countersigner is trusted.
func TestDismissals(t *testing.T) {
	signed := func(trust string) dismissal {
		return dismissal{Dismissal: submit.Dismissal{Check: "AUD-1", Severity: "CRITICAL", CountersignedBy: "SHA256:x", TaskID: "t"}, Trust: trust}
	}
	plain := dismissal{Dismissal: submit.Dismissal{Check: "AUD-2", Severity: "HIGH"}}
	p := submit.Predicate{Dismissed: 1}
	p.Audit.CountersignedClean = true
	for _, c := range []struct {
		d         dismissal
		open      bool
		row, text string
	}{
		{plain, false, "clean after 1 dismissal", "HIGH AUD-2, by "},
		{signed(keyring.OK), false, "clean after 1 dismissal", "countersigned by SHA256:x (ok)"},
		{signed(keyring.Unknown), true, "not clean; clean after 1 dismissal for verifiers who trust every countersigner", "(unknown key): open"},
		{signed(keyring.Expired), true, "not clean; clean after", "(expired key): open"},
	} {
		all := []dismissal{c.d}
		if err := uncounted(all); (err != nil) != c.open || err != nil && exit.Of(err).Code != exit.Findings {
			t.Errorf("%+v: %v", c.d, err)
		}
		if got := auditRow(p, all); !strings.HasPrefix(got, c.row) {
			t.Errorf("the audit is %q, want %q", got, c.row)
		}
		rows := packageRows(p, "", all)
		if got := rows[2]; got[0] != "dismissed" || !strings.Contains(got[1], c.text) {
			t.Errorf("the row is %q, want %q", got, c.text)
		}
	}
}

// TestSubmittable: only a run that is meant to be submitted fails for a reason against it.
func TestSubmittable(t *testing.T) {
	for _, c := range []struct {
		intent, fails bool
		why           string
	}{{false, false, "why"}, {true, false, ""}, {true, true, "why"}} {
		run := &rundir.Run{Fold: &rundir.Fold{}}
		run.Manifest.SubmitIntent = c.intent
		if err := Submittable(run, c.why); (err != nil) != c.fails {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestLooksLikeBundle: what is no bundle is named by its first bytes.
func TestLooksLikeBundle(t *testing.T) {
	tar := strings.Repeat("\x00", 257) + "ustar"
	for data, want := range map[string]string{`{"a":1}`: "", "PK\x03\x04": "is a zip archive", tar: "is a tar archive", "": "is not an evidence bundle", "text": "is not an evidence bundle"} {
		err := looksLikeBundle("b.json", []byte(data))
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || exit.Of(err).Code != exit.Evidence) {
			t.Errorf("%q: %v, want %q", data, err, want)
		}
	}
}

// TestFuture: a signed time is in the future by more than the clocks may differ, and a date by more than a day.
func TestFuture(t *testing.T) {
	got := inFuture([2]string{"plan", "2001-01-01T00:00:00.000Z"}, [2]string{"journal", "2999-01-01T00:00:00.000Z"}, [2]string{"package", "2999-01-01"}, [2]string{"none", ""})
	if len(got) != 2 || got[0] != "journal 2999-01-01T00:00:00.000Z" || got[1] != "package 2999-01-01" {
		t.Errorf("%q", got)
	}
}
