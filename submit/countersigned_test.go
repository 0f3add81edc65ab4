package submit

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

const countersignedAt = "2031-02-03T05:00:00.000Z"

// countersignature returns the agreement of a key to a decision about a run.
func countersignature(t testing.TB, r audit.Ruling, key sign.Key) audit.Countersignature {
	t.Helper()
	return audit.NewCountersignature(audit.Adjudication{Ruling: r, SHA256: canonical.Digest(sealed(t, r, runs.Key()))}, key.Public(), countersignedAt)
}

func sealedBy(t testing.TB, c audit.Countersignature, key sign.Key) []byte {
	t.Helper()
	envelope, err := c.Seal(key)
	if err != nil {
		t.Fatal(err)
	}
	return envelope
}

// countersign writes a dismissal and its countersignature into the run.
func countersign(t testing.TB, c Config, r audit.Ruling, key sign.Key) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(c.Run, audit.AttestationsDir), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{r.File(): sealed(t, r, runs.Key()), r.CountersignatureFile(): sealedBy(t, countersignature(t, r, key), key)} {
		if err := os.WriteFile(filepath.Join(c.Run, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// bothDismissed is a run whose two CRITICAL findings are dismissed, countersigned by
// two keys.
func bothDismissed(t testing.TB) (c Config, first, second audit.Ruling) {
	t.Helper()
	c = config(t, leaked)
	first, second = ruling(t, c, audit.Dismiss, leakRule, firstTask), ruling(t, c, audit.Dismiss, leakRule, secondTask)
	countersign(t, c, first, runs.OtherKey())
	countersign(t, c, second, otherKey(t))
	return c, first, second
}

// TestCountersigned packages a run whose CRITICAL findings are dismissed: the findings
// stay open in report and statement, and are closed only for a reader who trusts all
// countersigners.
func TestCountersigned(t *testing.T) {
	c, first, second := bothDismissed(t)
	one, other := runs.OtherKey().Public(), otherKey(t).Public()
	p := mustBuild(t, c)
	s := p.Statement.Predicate
	if s.Dirty || s.NotForLeaderboard != s.Rehearsal || s.Audit.Clean || !s.Audit.CountersignedClean || s.Audit.StrictClean || len(s.Audit.CriticalFailures) != 1 ||
		s.Scores.Official.Correct != 3 || s.VoidTasks != nil || s.Dismissed != 2 || p.NotRerun != "" {
		t.Errorf("%+v", s)
	}
	own := runs.Key().Public().ID()
	want := []Dismissal{{Check: "AUD-1", CountersignedBy: one.ID(), KeyID: own, Severity: audit.Critical, TaskID: firstTask},
		{Check: "AUD-1", CountersignedBy: other.ID(), KeyID: own, Severity: audit.Critical, TaskID: secondTask}}
	if first.Finding > second.Finding {
		slices.Reverse(want)
	}
	if !slices.Equal(s.Dismissals, want) {
		t.Errorf("%+v, want %+v", s.Dismissals, want)
	}
	r := p.Report
	if r.Totals.Critical != 2 || r.Totals.Closed != 0 || r.Totals.Clean.Correct != 1 || len(r.Inputs.Countersignatures) != 2 {
		t.Errorf("%+v, %+v", r.Totals, r.Inputs)
	}
	for name, tt := range map[string]struct {
		keys     []sign.PublicKey
		critical int
	}{
		"no one":           {nil, 2},
		"the run's key":    {[]sign.PublicKey{runs.Key().Public()}, 2},
		"one of two":       {[]sign.PublicKey{one}, 1},
		"both":             {[]sign.PublicKey{one, other}, 0},
		"both and another": {[]sign.PublicKey{other, one, runs.Key().Public()}, 0},
	} {
		trusting := r.Trusting(func(k sign.PublicKey) bool { return slices.ContainsFunc(tt.keys, k.Equal) })
		if trusting.Totals.Critical != tt.critical || trusting.Totals.Closed != 2-tt.critical || trusting.Attestation.Clean != (tt.critical == 0) || trusting.Attestation.StrictClean && tt.critical > 0 {
			t.Errorf("%s: %+v, %+v", name, trusting.Totals, trusting.Attestation)
		}
		var results []rundir.Result
		for _, task := range p.Run.Tasks {
			results = append(results, p.Run.Result(task))
		}
		if _, clean, _ := audit.Rescore(slices.Values(results), trusting.Checks); clean.Correct != 3-tt.critical {
			t.Errorf("%s: %d correct", name, clean.Correct)
		}
	}
	if encoded, err := r.Encode(); err != nil || r.Totals.Critical != 2 {
		t.Errorf("the report has changed: %s, %v", encoded, err)
	}
	readme := string(load(t, p.Path)[ReadmeFile])
	for _, want := range []string{"\nNot clean.", "**Clean after 2 dismissals for a reader who trusts every key that countersigned one.**", "`dismiss`, countersigned by `" + one.ID() + "`; `a page held"} {
		if !strings.Contains(readme, want) {
			t.Errorf("README.md lacks %q", want)
		}
	}
	for name, change := range map[string]func(*Predicate){
		"clean":                   func(p *Predicate) { p.Audit.Clean = true },
		"not countersigned":       func(p *Predicate) { p.Audit.CountersignedClean = false },
		"by another":              func(p *Predicate) { p.Dismissals[0].CountersignedBy = own },
		"no dismissal counted":    func(p *Predicate) { p.Dismissed = 0 },
		"no dismissal listed":     func(p *Predicate) { p.Dismissals = nil },
		"one dismissal left out":  func(p *Predicate) { p.Dismissals = p.Dismissals[1:] },
		"a dismissal of a friend": func(p *Predicate) { p.Dismissals[0].KeyID = one.ID() },
	} {
		pkg := memory(load(t, p.Path))
		resign(t, pkg, runs.Key(), func(s *Statement) { change(&s.Predicate) })
		wantFault(t, name, pkg, "does not say what the package's files give", AttestationFile)
	}
}

// TestCountersignedRefusals: what a countersigned dismissal does not do.
func TestCountersignedRefusals(t *testing.T) {
	refused := func(t *testing.T, c Config, want string) {
		t.Helper()
		_, err := Build(context.Background(), c)
		if r := (*Refusal)(nil); !errors.As(err, &r) || r.Final || !strings.Contains(strings.Join(r.Reasons, "; "), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	t.Run("strict", func(t *testing.T) {
		c, _, _ := bothDismissed(t)
		c.Strict = true
		refused(t, c, "is countersigned, and --strict was given")
	})
	t.Run("pending", func(t *testing.T) {
		c, first, _ := bothDismissed(t)
		if err := os.Remove(filepath.Join(c.Run, first.CountersignatureFile())); err != nil {
			t.Fatal(err)
		}
		refused(t, c, "AUD-1 answer-leakage fails (CRITICAL): task \""+firstTask)
		c.AllowDirty = true
		if s := mustBuild(t, c).Statement.Predicate; s.Dismissed != 1 || s.Audit.CountersignedClean || !s.Dirty {
			t.Errorf("%+v", s)
		}
	})
	t.Run("public", func(t *testing.T) {
		c, _, _ := bothDismissed(t)
		full := mustBuild(t, c)
		c.Public = true
		refused(t, c, "AUD-1 answer-leakage fails (CRITICAL)")
		c.AllowDirty, c.Out = true, t.TempDir()
		p := mustBuild(t, c)
		pkg := memory(load(t, p.Path))
		public, err := VerifyPublic(pkg, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if s := public.Statement.Predicate; !s.Dirty || s.Audit.Clean || s.Audit.CountersignedClean || s.Dismissed != 2 {
			t.Errorf("%+v", s)
		}
		if err := public.IsOf(full.Verified); err != nil {
			t.Error(err)
		}
		for name, change := range map[string]func(*Dismissal){
			"a text":           func(d *Dismissal) { d.CountersignedBy = "Brellin" },
			"no countersigner": func(d *Dismissal) { d.CountersignedBy = "" },
			"the same key":     func(d *Dismissal) { d.CountersignedBy = d.KeyID },
			"another signer":   func(d *Dismissal) { d.KeyID = runs.OtherKey().Public().ID() },
			"another severity": func(d *Dismissal) { d.Severity = audit.ToReview },
			"another task":     func(d *Dismissal) { d.TaskID = "Brellin" },
			"the whole run":    func(d *Dismissal) { d.TaskID = "" },
			"another check":    func(d *Dismissal) { d.Check = "AUD-2" },
			"no check":         func(d *Dismissal) { d.Check = "Brellin" },
		} {
			pkg := memory(load(t, p.Path))
			republish(t, pkg, func(s *Statement) { change(&s.Predicate.Dismissals[0]) })
			_, err := VerifyPublic(pkg, Options{})
			if fault := (*trajectory.Fault)(nil); !errors.As(err, &fault) || !strings.Contains(fault.Reason, "that cannot be") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestForgedCountersignatures: in a run directory, what is no countersignature of a
// decision by another key is no evidence.
func TestForgedCountersignatures(t *testing.T) {
	long.NotRaced(t)
	key := runs.OtherKey()
	saying := func(change func(*audit.Countersignature)) func(*testing.T, Config, audit.Ruling) string {
		return func(t *testing.T, c Config, r audit.Ruling) string {
			one := countersignature(t, r, key)
			change(&one)
			put(t, filepath.Join(c.Run, r.CountersignatureFile()), sealedBy(t, one, key))
			return r.CountersignatureFile()
		}
	}
	tests := []struct {
		name string
		put  func(t *testing.T, c Config, r audit.Ruling) string // what is to be blamed
		why  string
	}{
		{"by the key of the run and its plan", func(t *testing.T, c Config, r audit.Ruling) string {
			countersign(t, c, r, runs.Key())
			return r.CountersignatureFile()
		}, "by the key of the run and its plan"},
		{"by a key that it does not name", saying(func(s *audit.Countersignature) { s.PublicKey = otherKey(t).Public().Line() }), "signed by"},
		{"by a key of another type", saying(func(s *audit.Countersignature) { s.PublicKey = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQC7" }), "not one ssh-ed25519 key"},
		{"by a key with a comment", saying(func(s *audit.Countersignature) { s.PublicKey += " me" }), "not one ssh-ed25519 key"},
		{"without a key", saying(func(s *audit.Countersignature) { s.PublicKey = "" }), "not one ssh-ed25519 key"},
		{"of another decision", saying(func(s *audit.Countersignature) { s.AdjudicationSHA256 = canonical.Digest(nil) }), "countersigns another decision"},
		{"of another finding", saying(func(s *audit.Countersignature) { s.Finding = canonical.Digest(nil) }), "countersigns another decision"},
		{"of another run", saying(func(s *audit.Countersignature) { s.RunID = "01J00000000000000000000000" }), "countersigns another decision"},
		{"of another schema", saying(func(s *audit.Countersignature) { s.Schema = "gaia.countersignature/2" }), "schema is"},
		{"of no time", saying(func(s *audit.Countersignature) { s.Created = "yesterday" }), "is no time"},
		{"after the reason has changed", func(t *testing.T, c Config, r audit.Ruling) string {
			put(t, filepath.Join(c.Run, r.CountersignatureFile()), sealedBy(t, countersignature(t, r, key), key))
			r.Reason = "it was allowed"
			put(t, filepath.Join(c.Run, r.File()), sealed(t, r, runs.Key()))
			return r.CountersignatureFile()
		}, "countersigns another decision"},
		{"after the decision has become void", func(t *testing.T, c Config, r audit.Ruling) string {
			r.Decision = audit.Void
			countersign(t, c, r, key)
			return r.CountersignatureFile()
		}, "only a dismissal can be countersigned"},
		{"under the name of another", func(t *testing.T, c Config, r audit.Ruling) string {
			other := ruling(t, c, audit.Dismiss, leakRule, secondTask)
			put(t, filepath.Join(c.Run, other.File()), sealed(t, other, runs.Key()))
			put(t, filepath.Join(c.Run, other.CountersignatureFile()), sealedBy(t, countersignature(t, r, key), key))
			return other.CountersignatureFile()
		}, "countersigns another decision"},
		{"under the name of a decision", func(t *testing.T, c Config, r audit.Ruling) string {
			name := strings.Replace(r.File(), path16(r), strings.Repeat("f", 16), 1)
			put(t, filepath.Join(c.Run, name), sealedBy(t, countersignature(t, r, key), key))
			return name
		}, "which its name is not of"},
		{"without a decision", func(t *testing.T, c Config, r audit.Ruling) string {
			countersign(t, c, r, key)
			if err := os.Remove(filepath.Join(c.Run, r.File())); err != nil {
				t.Fatal(err)
			}
			return r.CountersignatureFile()
		}, "countersigns a decision that is not there"},
		{"a bit changed", func(t *testing.T, c Config, r audit.Ruling) string {
			put(t, filepath.Join(c.Run, r.CountersignatureFile()), flipped(sealedBy(t, countersignature(t, r, key), key), 400))
			return r.CountersignatureFile()
		}, ""},
		{"a decision as countersignature", func(t *testing.T, c Config, r audit.Ruling) string {
			put(t, filepath.Join(c.Run, r.CountersignatureFile()), sealed(t, r, runs.Key()))
			return r.CountersignatureFile()
		}, ""},
		{"empty", func(t *testing.T, c Config, r audit.Ruling) string {
			put(t, filepath.Join(c.Run, r.CountersignatureFile()), nil)
			return r.CountersignatureFile()
		}, "not the canonical JSON"},
		{"of another name", func(t *testing.T, c Config, r audit.Ruling) string {
			name := audit.AttestationsDir + "/countersignature-x.dsse.json"
			put(t, filepath.Join(c.Run, name), sealedBy(t, countersignature(t, r, key), key))
			return `"` + name + `"`
		}, "is not the name of a countersignature"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := config(t, leaked)
			r := ruling(t, c, audit.Dismiss, leakRule, firstTask)
			decide(t, c, r)
			want := tt.put(t, c, r)
			c.AllowDirty = true
			_, built := Build(context.Background(), c)
			_, _, seen := audit.Run(os.DirFS(c.Run), audit.Options{Gold: c.Gold})
			for what, err := range map[string]error{"packaged": built, "audited": seen} {
				var fault *trajectory.Fault
				if !errors.As(err, &fault) || fault.File != want || !strings.Contains(fault.Reason, tt.why) {
					t.Errorf("%s: %v, want %s: %s", what, err, want, tt.why)
				}
			}
		})
	}
}

func path16(r audit.Ruling) string { return strings.TrimPrefix(r.Finding, "sha256:")[:16] }

// TestPackagedCountersignatures is what can be done to countersignatures in a package: by
// anyone, and by the holder of the key, who signs everything again.
func TestPackagedCountersignatures(t *testing.T) {
	c, _, _ := bothDismissed(t)
	files := load(t, mustBuild(t, c).Path)
	lines := slices.Collect(bytes.Lines(files[audit.AdjudicationsFile])) // decision, countersignature, twice
	if len(lines) != 4 {
		t.Fatalf("%d lines", len(lines))
	}
	of := func(at ...int) []byte {
		var all []byte
		for _, i := range at {
			all = append(all, lines[i]...)
		}
		return all
	}
	tests := []struct {
		name string
		data []byte
		file string // blamed when all is signed again
		why  string
	}{
		{"the last removed", of(0, 1, 2), audit.ReportFile, "what 2 adjudications decide"},
		{"the first removed", of(0, 2, 3), audit.ReportFile, "what 2 adjudications decide"},
		{"both removed", of(0, 2), audit.ReportFile, "what 2 adjudications decide"},
		{"swapped", of(0, 3, 2, 1), audit.AdjudicationsFile, "countersigns another decision"},
		{"before its decision", of(1, 0, 2, 3), audit.AdjudicationsFile, "that is not there"},
		{"twice", of(0, 1, 1, 2, 3), audit.AdjudicationsFile, "a second countersignature"},
		{"alone", of(1), audit.AdjudicationsFile, "that is not there"},
		{"a bit changed", append(of(0, 1, 2), flipped(lines[3], 300)...), audit.AdjudicationsFile, ""},
	}
	for _, tt := range tests {
		pkg := memory(files)
		pkg[audit.AdjudicationsFile].Data = tt.data
		wantFault(t, tt.name, pkg, "is not what attestation.dsse.json signs", audit.AdjudicationsFile)
		signAll(t, pkg)
		wantFault(t, tt.name+", signed again", pkg, tt.why, tt.file)
	}
}

// TestOpensslVerifiesCountersignature: openssl verifies a line of adjudications.jsonl by
// the key of the countersigner, and no other.
func TestOpensslVerifiesCountersignature(t *testing.T) {
	for _, program := range []string{"openssl", "jq", "base64"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not on PATH: countersignatures are not verified with openssl", program)
		}
	}
	c, first, _ := bothDismissed(t)
	dir := mustBuild(t, c).Path
	line := sealedBy(t, countersignature(t, first, runs.OtherKey()), runs.OtherKey())
	put(t, filepath.Join(dir, "..", "COUNTERSIGNER.pub"), []byte(runs.OtherKey().Public().Line()+"\n"))
	put(t, filepath.Join(dir, "..", "RUN.pub"), []byte(runs.Key().Public().Line()+"\n"))
	put(t, filepath.Join(dir, "..", "check"), []byte(documented(t, "### Countersignatures", "```shell")))
	for _, tt := range []struct {
		name, key, task string
		damage, want    bool
	}{
		{"the countersigner's key", "COUNTERSIGNER.pub", first.Finding, false, true},
		{"the run's key", "RUN.pub", first.Finding, false, false},
		{"a changed line", "COUNTERSIGNER.pub", first.Finding, true, false},
	} {
		if tt.damage {
			all, err := os.ReadFile(filepath.Join(dir, audit.AdjudicationsFile))
			if err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(dir, audit.AdjudicationsFile), bytes.Replace(all, line[20:30], []byte("AAAAAAAAAA"), 1))
		}
		cmd := exec.Command("sh", "../check", "../"+tt.key, tt.task)
		cmd.Dir = dir
		if ok, out := accepts(t, cmd); ok != tt.want {
			t.Errorf("%s: accepted %t\n%s", tt.name, ok, out)
		}
	}
}
