package submit

import (
	"bytes"
	"errors"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/rundir"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// wantFault checks that a package is refused by a fault in one of the files,
// and that the fault says why.
func wantFault(t *testing.T, what string, pkg fs.FS, why string, files ...string) {
	t.Helper()
	_, err := Verify(pkg, Options{})
	var fault *trajectory.Fault
	switch {
	case !errors.As(err, &fault):
		t.Errorf("%s: %v is no fault", what, err)
	case !slices.Contains(files, fault.File):
		t.Errorf("%s: the fault is said to be in %s: %v; want %v", what, fault.File, err, files)
	case !strings.Contains(fault.Reason, why):
		t.Errorf("%s: %v; want %q", what, err, why)
	}
}

// TestEveryBit changes single bits of every file: in the thorough run some 1,500 of a file, and all of the checkpoint,
// of the sums and of the ends of the signed envelopes; otherwise some 60 of a file. The steps are odd, so that every bit
// comes round. A digest covers each file, so that no byte is special.
func TestEveryBit(t *testing.T) {
	long.NotRaced(t)
	files := load(t, mustBuild(t, config(t, two)).Path)
	if _, err := Verify(memory(files), Options{}); err != nil {
		t.Fatal(err)
	}
	blamed := map[string][]string{
		plan.ManifestFile: {plan.ManifestFile, plan.EnvelopeFile},
		plan.EnvelopeFile: {plan.EnvelopeFile, plan.ManifestFile},
	}
	for _, name := range Files() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := blamed[name]
			if want == nil {
				want = []string{name}
			}
			data := files[name]
			ends, step := 0, len(data)/1500|1
			switch name {
			case AttestationFile, BundleFile, plan.EnvelopeFile:
				ends = 16
			case trajectory.CheckpointFile, SumsFile:
				ends = len(data)
			}
			if !long.Thorough() {
				ends, step = min(ends, 3), len(data)/60|1
			}
			pkg := memory(files)
			for i := range data {
				for bit := range 8 {
					if i >= ends && i < len(data)-ends && (i%step != 0 || bit != i%8) {
						continue
					}
					changed := bytes.Clone(data)
					changed[i] ^= 1 << bit
					pkg[name] = &fstest.MapFile{Data: changed, Mode: 0o644}
					_, err := Verify(pkg, Options{})
					var fault *trajectory.Fault
					if !errors.As(err, &fault) || !slices.Contains(want, fault.File) {
						t.Fatalf("byte %d, bit %d: %v", i, bit, err)
					}
				}
			}
		})
	}
}

// TestCuts cuts each file short and lets each go on.
func TestCuts(t *testing.T) {
	files := load(t, mustBuild(t, config(t, two)).Path)
	for name, data := range files {
		for what, changed := range map[string][]byte{
			"emptied": nil, "cut by a byte": data[:len(data)-1], "a newline more": append(bytes.Clone(data), '\n'),
			"a byte order mark": append([]byte("\ufeff"), data...), "twice": append(bytes.Clone(data), data...),
		} {
			pkg := memory(files)
			pkg[name] = &fstest.MapFile{Data: changed}
			wantFault(t, name+" "+what, pkg, "", name)
		}
	}
}

// TestTampering is what a person does to a package who does not hold its key.
func TestTampering(t *testing.T) {
	long.NotRaced(t)
	files := load(t, mustBuild(t, config(t, two)).Path)
	older := config(t, two)
	older.Date = "2031-02-02"
	old := load(t, mustBuild(t, older).Path)
	other := load(t, mustBuild(t, config(t, change(t, two, "gold: 14", "gold: 15"))).Path)
	unclean := load(t, buildUnclean(t).Path)

	tests := []struct {
		name string
		edit func(pkg fstest.MapFS)
		file string
		why  string
	}{
		{"a file added", func(p fstest.MapFS) { p["notes.txt"] = &fstest.MapFile{} }, "notes.txt", "is not part of a package"},
		{"a key shipped along", func(p fstest.MapFS) { p["key.pub"] = &fstest.MapFile{} }, "key.pub", "is not part of a package"},
		{"a file added whose name is a trap", func(p fstest.MapFS) { p["\x1b[2J"] = &fstest.MapFile{} }, `"\x1b[2J"`, "is not part of a package"},
		{"the run's marker", func(p fstest.MapFS) { p[rundir.MarkerFile] = &fstest.MapFile{} }, rundir.MarkerFile, "is not part of a package"},
		{"a folder added", func(p fstest.MapFS) { p["work/a"] = &fstest.MapFile{} }, "work", "is not part of a package"},
		{"a file renamed", func(p fstest.MapFS) { p["summary.json"] = p[MetadataFile]; delete(p, MetadataFile) }, "summary.json", "is not part of a package"},
		{"a link", func(p fstest.MapFS) { p[ReadmeFile] = &fstest.MapFile{Data: []byte(SumsFile), Mode: fs.ModeSymlink} }, ReadmeFile, "is not a regular file"},
		{"a folder in place of a file", func(p fstest.MapFS) { delete(p, ReadmeFile); p["README.md/a"] = &fstest.MapFile{} }, ReadmeFile, "is not a regular file"},
		{"two files swapped", func(p fstest.MapFS) { p[MetadataFile], p[ReadmeFile] = p[ReadmeFile], p[MetadataFile] }, ReadmeFile, "is not what attestation.dsse.json signs"},
		{"the attestation's two files swapped", func(p fstest.MapFS) {
			p[AttestationFile], p[BundleFile] = p[BundleFile], p[AttestationFile]
		}, AttestationFile, ""},
		{"an older attestation of the same run", func(p fstest.MapFS) {
			p[AttestationFile].Data, p[BundleFile].Data = old[AttestationFile], old[BundleFile]
		}, ReadmeFile, "is not what attestation.dsse.json signs"},
		{"another run's attestation", func(p fstest.MapFS) {
			p[AttestationFile].Data, p[BundleFile].Data = other[AttestationFile], other[BundleFile]
		}, ReadmeFile, "is not what attestation.dsse.json signs"},
		{"another run's plan", func(p fstest.MapFS) {
			p[plan.ManifestFile].Data, p[plan.EnvelopeFile].Data = other[plan.ManifestFile], other[plan.EnvelopeFile]
		}, plan.EnvelopeFile, "is not what attestation.dsse.json signs"},
		{"signature stripped", edited(AttestationFile, func(s string) string {
			return s[:strings.Index(s, `"signatures":[`)] + `"signatures":[]}`
		}), AttestationFile, "0 signatures, not one"},
		{"signature doubled", edited(AttestationFile, func(s string) string {
			at := strings.Index(s, `{"keyid"`)
			one := s[at : len(s)-2]
			return s[:at] + one + "," + one + "]}"
		}), AttestationFile, "2 signatures, not one"},
		{"signed by another key", func(p fstest.MapFS) { resign(t, p, otherKey(t), nil) }, AttestationFile, "signed by"},
		{"key id left out", edited(AttestationFile, func(s string) string {
			return strings.Replace(s, runs.Key().Public().ID(), "", 1)
		}), AttestationFile, "signed by"},
		{"another encoding of the same JSON", edited(AttestationFile, func(s string) string {
			return strings.Replace(s, `"payload":`, `"payload": `, 1)
		}), AttestationFile, ""},
		{"another encoding of the same base64", edited(AttestationFile, func(s string) string {
			return strings.Replace(s, `"payload":"`, `"payload":"\n`, 1)
		}), AttestationFile, ""},
	}
	for _, name := range Files() {
		tests = append(tests, struct {
			name string
			edit func(pkg fstest.MapFS)
			file string
			why  string
		}{name + " removed", func(p fstest.MapFS) { delete(p, name) }, name, "is missing"})
		same := bytes.Equal(unclean[name], files[name])
		if same && name != scorecardFile && name != plan.ConstitutionFile { // the two cost the same, under the same rules
			t.Fatalf("%s is the same in both packages", name)
		}
		// Of the files that sign or are signed by twos, the other one is blamed.
		if !slices.Contains([]string{plan.ManifestFile, plan.EnvelopeFile, BundleFile}, name) && !same {
			tests = append(tests, struct {
				name string
				edit func(pkg fstest.MapFS)
				file string
				why  string
			}{name + " swapped with another package's", func(p fstest.MapFS) { p[name].Data = unclean[name] }, name, ""})
		}
	}
	for _, tt := range tests {
		pkg := memory(files)
		tt.edit(pkg)
		if strings.HasSuffix(tt.name, AttestationFile+" swapped with another package's") {
			tt.file = BundleFile // the envelope is good, but not of this bundle
		}
		wantFault(t, tt.name, pkg, tt.why, tt.file)
	}
	pkg := memory(unclean)
	pkg[audit.ReportFile].Data = files[audit.ReportFile]
	wantFault(t, "the report replaced by a clean one", pkg, "is not what attestation.dsse.json signs", audit.ReportFile)
}

// buildUnclean packages a run that is like two and would be refused.
func buildUnclean(t testing.TB) Package {
	t.Helper()
	c := config(t, planned(change(t, two, "The almanac counts fourteen lamps.", "Fourteen, it says."), `{"submit_intent":false}`))
	c.AllowDirty = true
	return mustBuild(t, c)
}

func edited(name string, edit func(string) string) func(fstest.MapFS) {
	return func(p fstest.MapFS) { p[name].Data = []byte(edit(string(p[name].Data))) }
}

func otherKey(t testing.TB) sign.Key {
	t.Helper()
	key, err := sign.NewKey(rand.NewChaCha8([32]byte{9}))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// resign makes the attestation again for what the package now holds, by a
// program that does not care. change, if not nil, changes what it says.
func resign(t testing.TB, pkg fstest.MapFS, key sign.Key, change func(*Statement)) {
	t.Helper()
	var envelope struct {
		Payload []byte `json:"payload"`
	}
	decodeLoosely(t, pkg[AttestationFile].Data, &envelope)
	var s Statement
	if err := canonical.Decode(envelope.Payload, &s); err != nil {
		t.Fatal(err)
	}
	digests := digestsOf(pkg)
	s.Subject, s.Predicate.Audit.ReportSHA256 = newSubjects(digests), digests[audit.ReportFile]
	if change != nil {
		change(&s)
	}
	err := seal(key, s, func(name string, data []byte) error {
		pkg[name] = &fstest.MapFile{Data: data, Mode: 0o644}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// digestsOf returns the digests of what an attestation is about.
func digestsOf(pkg fstest.MapFS) map[string]string {
	digests := map[string]string{}
	with := slices.DeleteFunc(additions(), func(name string) bool { return pkg[name] == nil })
	for _, name := range signedFiles(Files(with...)) {
		digests[name] = canonical.Digest(pkg[name].Data)
	}
	return digests
}

// listed makes SHA256SUMS again.
func listed(pkg fstest.MapFS) {
	digests := digestsOf(pkg)
	pkg[SumsFile].Data = sums(newSubjects(digests))
}

// TestDishonestSigner is what the holder of the key does: everything is signed
// well, but does not follow.
func TestDishonestSigner(t *testing.T) {
	long.NotRaced(t)
	files := load(t, mustBuild(t, config(t, two)).Path)
	other := load(t, mustBuild(t, config(t, change(t, two, "gold: 14", "gold: 15"))).Path)
	unclean := load(t, buildUnclean(t).Path)
	says := func(change func(*Predicate)) func(fstest.MapFS) {
		return func(p fstest.MapFS) { resign(t, p, runs.Key(), func(s *Statement) { change(&s.Predicate) }) }
	}
	holds := func(name string, edit func(string) string) func(fstest.MapFS) {
		return func(p fstest.MapFS) {
			p[name].Data = []byte(edit(string(p[name].Data)))
			listed(p)
			resign(t, p, runs.Key(), nil)
		}
	}
	reversed := func(s string) string {
		lines := slices.Collect(strings.Lines(s))
		slices.Reverse(lines)
		return strings.Join(lines, "")
	}
	tests := []struct {
		name  string
		files map[string][]byte
		edit  func(pkg fstest.MapFS)
		file  string
		why   string
	}{
		{"a higher score", files, says(func(p *Predicate) { p.Scores.Official.Correct = 2 }), AttestationFile, "see scores"},
		{"a better rate", files, says(func(p *Predicate) { p.Scores.Official.PPM++ }), AttestationFile, "see scores"},
		{"no score", files, says(func(p *Predicate) { p.Scores = nil }), AttestationFile, "see scores"},
		{"fewer tasks", files, says(func(p *Predicate) { p.TasksPlanned = 1 }), AttestationFile, "see tasks_planned"},
		{"another split", files, says(func(p *Predicate) { p.GaiaSplit = "test" }), AttestationFile, "see gaia_split"},
		{"no rehearsal", files, says(func(p *Predicate) { p.Rehearsal = false }), AttestationFile, "see rehearsal"},
		{"fit for a leaderboard", files, says(func(p *Predicate) { p.NotForLeaderboard = false }), AttestationFile, "see not_for_leaderboard"},
		{"a stronger claim", files, says(func(p *Predicate) { p.Claims[len(p.Claims)-1].Status = ByCheck }), AttestationFile, "see claims"},
		{"a claim left out", files, says(func(p *Predicate) { p.Claims = p.Claims[1:] }), AttestationFile, "see claims"},
		{"another name", files, says(func(p *Predicate) { p.Name += "x" }), AttestationFile, "see name"},
		{"no date", files, says(func(p *Predicate) { p.Date = "soon" }), AttestationFile, "is not a date"},
		{"a version of words", files, says(func(p *Predicate) { p.Harness.Version = "task 2: Tolmey" }), AttestationFile, "its harness"},
		{"no version", files, says(func(p *Predicate) { p.Harness.Version = "" }), AttestationFile, "its harness"},
		{"a version of no number and a word", files, says(func(p *Predicate) { p.Harness.Version = "devel Tolmey" }), AttestationFile, "its harness"},
		{"a commit of words", files, says(func(p *Predicate) { p.Harness.Commit = "Tolmey" }), AttestationFile, "its harness"},
		{"an executable of words", files, says(func(p *Predicate) { p.Harness.ExecutableSHA256 = "Tolmey" }), AttestationFile, "its harness"},
		{"another schema", files, says(func(p *Predicate) { p.Schema = "gaia.submission/2" }), AttestationFile, "not of this version"},
		{"another predicate", files, func(p fstest.MapFS) {
			resign(t, p, runs.Key(), func(s *Statement) { s.PredicateType = "https://slsa.dev/provenance/v1" })
		}, AttestationFile, "not of this version"},
		{"a subject left out", files, func(p fstest.MapFS) {
			resign(t, p, runs.Key(), func(s *Statement) { s.Subject = s.Subject[1:] })
		}, AttestationFile, "is not about exactly the package's files"},
		{"a subject twice", files, func(p fstest.MapFS) {
			resign(t, p, runs.Key(), func(s *Statement) { s.Subject = append(s.Subject, s.Subject[0]) })
		}, AttestationFile, "is not about exactly the package's files"},
		{"a subject more", files, func(p fstest.MapFS) {
			resign(t, p, runs.Key(), func(s *Statement) {
				s.Subject = append(s.Subject, Subject{Digest: s.Subject[0].Digest, Name: "../README.md"})
			})
		}, AttestationFile, "is not about exactly the package's files"},
		{"not dirty", unclean, says(func(p *Predicate) { p.Dirty, p.DirtyReasons, p.NotForLeaderboard = false, []string{}, false }), AttestationFile,
			"see dirty, dirty_reasons, not_for_leaderboard"},
		{"a reason less", unclean, says(func(p *Predicate) { p.DirtyReasons = p.DirtyReasons[1:] }), AttestationFile, "see dirty_reasons"},
		{"another answer for the leaderboard", files, holds(LeaderboardFile, func(s string) string {
			return strings.Replace(s, `"model_answer":""`, `"model_answer":"Tolmey"`, 1)
		}), LeaderboardFile, "is not what the journal gives"},
		{"a line of the leaderboard twice", files, holds(LeaderboardFile, func(s string) string { return s + s }), LeaderboardFile, "is not what the journal gives"},
		{"the leaderboard in another order", files, holds(LeaderboardFile, reversed), LeaderboardFile, "is not what the journal gives"},
		{"another scorecard", files, holds(scorecardFile, func(s string) string { return strings.Replace(s, `"policy_violations":0`, `"policy_violations":1`, 1) }), scorecardFile, "is not what the journal gives"},
		{"a scorecard without its newline", files, holds(scorecardFile, func(s string) string { return strings.TrimSuffix(s, "\n") }), scorecardFile, "is not what the journal gives"},
		{"another run's scorecard", files, holds(scorecardFile, func(string) string { return string(other[scorecardFile]) }), scorecardFile, "is not what the journal gives"},
		{"results in another order", files, holds(rundir.ResultsFile, reversed), rundir.ResultsFile, "is not what the journal gives"},
		{"another run's report", files, holds(audit.ReportFile, func(string) string { return string(other[audit.ReportFile]) }), audit.ReportFile, "is about another run"},
		{"a report that concludes what it does not find", files, holds(audit.ReportFile, func(s string) string {
			return strings.Replace(s, `"clean":true`, `"clean":false`, 1)
		}), audit.ReportFile, "does not follow"},
		{"a report about other files", files, holds(audit.ReportFile, func(s string) string {
			at := strings.Index(s, `"events_sha256":"sha256:`) + len(`"events_sha256":"sha256:`)
			return s[:at] + strings.Repeat("0", 64) + s[at+64:]
		}), audit.ReportFile, "is about other files"},
		{"a report that counts other tasks", files, holds(audit.ReportFile, func(s string) string {
			at := strings.Index(s, `"totals":`)
			return s[:at] + strings.Replace(s[at:], `"critical":0,"events":`, `"critical":0,"events":1`, 1)
		}), audit.ReportFile, "counts"},
		{"a report of a better score", files, holds(audit.ReportFile, func(s string) string {
			at := strings.Index(s, `"raw":`)
			return s[:at] + strings.Replace(s[at:], `"correct":1`, `"correct":2`, 1)
		}), audit.ReportFile, "gives other scores than the run and the findings"},
		{"a report of an unscored run", files, holds(audit.ReportFile, func(s string) string {
			at := strings.Index(s, `"raw":`) + len(`"raw":`)
			return s[:at] + "null" + s[at+strings.Index(s[at:], "}")+1:]
		}), audit.ReportFile, "gives other scores than the run and the findings"},
		{"sums that leave out a file", files, func(p fstest.MapFS) {
			_, p[SumsFile].Data, _ = bytes.Cut(p[SumsFile].Data, []byte("\n"))
			resign(t, p, runs.Key(), nil)
		}, SumsFile, "does not list"},
		{"a journal that was cut", files, holds(trajectory.JournalFile, func(s string) string {
			return s[:strings.LastIndexByte(strings.TrimSuffix(s, "\n"), '\n')+1]
		}), trajectory.JournalFile, "its end is missing"},
	}
	for _, tt := range tests {
		pkg := memory(maps.Clone(tt.files))
		tt.edit(pkg)
		wantFault(t, tt.name, pkg, tt.why, tt.file)
	}
	pkg := memory(files)
	resign(t, pkg, runs.Key(), nil)
	if _, err := Verify(pkg, Options{}); err != nil {
		t.Errorf("signed again without a change: %v", err)
	}
}

// TestLarge: what is read whole is bounded before it is read.
func TestLarge(t *testing.T) {
	files := load(t, mustBuild(t, config(t, two)).Path)
	for name, limit := range map[string]int{AttestationFile: 16 << 20, BundleFile: 32 << 20} {
		pkg := memory(files)
		pkg[name] = &fstest.MapFile{Data: bytes.Repeat([]byte(" "), limit+1)}
		wantFault(t, name, pkg, "is larger than", name)
	}
	pkg := memory(files)
	pkg[audit.ReportFile] = &fstest.MapFile{Data: bytes.Repeat([]byte(" "), 32<<20+1)}
	listed(pkg)
	resign(t, pkg, runs.Key(), nil)
	wantFault(t, audit.ReportFile, pkg, "is larger than", audit.ReportFile)
}

// swapped is a package that another process changes for another one, as soon as
// the plan has been opened for the last time.
type swapped struct {
	fstest.MapFS
	then  fstest.MapFS
	opens *int
}

func (s swapped) Open(name string) (fs.File, error) {
	if name == plan.ManifestFile {
		*s.opens++
	}
	if *s.opens > 2 {
		return s.then.Open(name)
	}
	return s.MapFS.Open(name)
}

func (s swapped) Lstat(name string) (fs.FileInfo, error) {
	if *s.opens > 2 {
		return s.then.Lstat(name)
	}
	return s.MapFS.Lstat(name)
}

// TestChanging: what is verified is what was signed, also when both are good
// but not the same.
func TestChanging(t *testing.T) {
	first := load(t, mustBuild(t, config(t, two)).Path)
	second := load(t, buildUnclean(t).Path)
	wantFault(t, "a package that changes", swapped{memory(first), memory(second), new(int)}, "is not what attestation.dsse.json signs",
		trajectory.JournalFile, rundir.TrajectoriesFile, rundir.ResultsFile, MetadataFile)
}

// FuzzStatement has the right key sign whatever comes: a package verifies with
// no other statement than its own, but for what the statement alone declares.
func FuzzStatement(f *testing.F) {
	p := mustBuild(f, config(f, two))
	files := load(f, p.Path)
	own, err := p.Statement.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(own)
	f.Add(bytes.Replace(own, []byte(`"correct":1`), []byte(`"correct":2`), 1))
	f.Add(bytes.Replace(own, []byte(`"date":"2031-02-03"`), []byte(`"date":"2031-02-30"`), 1))
	f.Add(bytes.Replace(own, []byte(`"gold_at_hand":true`), []byte(`"gold_at_hand":false`), 1))
	f.Add([]byte(`{"_type":"` + StatementType + `","predicate":null}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		pkg := memory(files)
		envelope, err := sign.Seal(runs.Key(), PayloadType, payload)
		if err != nil {
			t.Fatal(err)
		}
		sigstore, err := sigstoreBundle(envelope, runs.Key().Public())
		if err != nil {
			t.Fatal(err)
		}
		pkg[AttestationFile].Data, pkg[BundleFile].Data = envelope, sigstore
		v, err := Verify(pkg, Options{})
		var fault *trajectory.Fault
		if err != nil && (!errors.As(err, &fault) || fault.File == "") {
			t.Fatalf("%v names no file", err)
		}
		if err != nil {
			return
		}
		s := v.Statement
		want := mustEvidence(t, p.Run, p.Report, s.Predicate.says())
		want.digests = p.Statement.digests()
		if again, err := want.statement().Encode(); err != nil || !bytes.Equal(again, payload) {
			t.Fatalf("accepted %s (%v)", payload, err)
		}
	})
}

// TestVerifyOnDisk: a link in a real folder is not followed.
func TestVerifyOnDisk(t *testing.T) {
	p := mustBuild(t, config(t, two))
	aside := filepath.Join(t.TempDir(), "journal")
	path := filepath.Join(p.Path, trajectory.JournalFile)
	if err := os.Rename(path, aside); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(aside, path); err != nil {
		t.Fatal(err)
	}
	wantFault(t, "a link to the same bytes", os.DirFS(p.Path), "is not a regular file", trajectory.JournalFile)
	if _, err := Verify(os.DirFS(filepath.Join(p.Path, "nowhere")), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such folder: %v", err)
	}
}

// TestAuditOfPackage: an audit of a package by options of one's own reports what an audit of its files does, and of a
// changed package what its verification does.
func TestAuditOfPackage(t *testing.T) {
	files := load(t, mustBuild(t, config(t, two)).Path)
	o := audit.Options{Only: []string{"AUD-12"}}
	report, run, err := (&Source{Files: memory(files)}).Audit(o)
	if err != nil || !run.Complete {
		t.Fatal(err)
	}
	o.Summary = MetadataFile
	want, _, err := audit.Run(memory(files), o)
	if err != nil || len(want.Checks) != 1 {
		t.Fatal(err)
	}
	if form(report) != form(want) {
		t.Errorf("%s\nwant %s", form(report), form(want))
	}
	for name, data := range files {
		changed := maps.Clone(files)
		changed[name] = flipped(data, len(data)/2)
		_, verified := Verify(memory(changed), Options{})
		if _, run, err := (&Source{Files: memory(changed)}).Audit(o); verified == nil || err == nil || err.Error() != verified.Error() || run != nil {
			t.Errorf("%s changed: %v, verified: %v", name, err, verified)
		}
	}
}
