package submit

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// publicRefused checks that a changed public package is refused, and one of the
// files blamed.
func publicRefused(t *testing.T, what string, pkg fstest.MapFS, why string, files ...string) {
	t.Helper()
	_, err := VerifyPublic(pkg, Options{})
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

// publicly packages a case.
func publicly(t testing.TB, text string) map[string][]byte {
	t.Helper()
	c := config(t, text)
	c.Public, c.AllowDirty = true, true
	return load(t, mustBuild(t, c).Path)
}

// TestPublicEveryBit changes single bits of every file: about 150, an odd number of
// bytes apart, so that every bit comes round; in the thorough run ten times as many.
func TestPublicEveryBit(t *testing.T) {
	long.NotRaced(t)
	files := publicly(t, two)
	if _, err := VerifyPublic(memory(files), Options{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range publicPackageFiles(nil) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blamed := []string{name}
			if name == plan.ManifestFile || name == plan.EnvelopeFile {
				blamed = []string{plan.ManifestFile, plan.EnvelopeFile}
			}
			data := files[name]
			step := len(data)/40 | 1
			if long.Thorough() {
				step = len(data)/1500 | 1
			}
			pkg := memory(files)
			for i := range data {
				for bit := range 8 {
					if i%step != 0 || bit != i%8 {
						continue
					}
					changed := bytes.Clone(data)
					changed[i] ^= 1 << bit
					pkg[name] = &fstest.MapFile{Data: changed, Mode: 0o644}
					_, err := VerifyPublic(pkg, Options{})
					var fault *trajectory.Fault
					if !errors.As(err, &fault) || !slices.Contains(blamed, fault.File) {
						t.Fatalf("byte %d, bit %d: %v", i, bit, err)
					}
				}
			}
		})
	}
}

// TestPublicCoverage: each small change to each file is refused (one in 31 is made,
// in the thorough run all, or a third where commits take turns), files are not exchanged, and no other signature will do.
func TestPublicCoverage(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	var pkg [2]map[string][]byte
	var journal [2][]byte
	first, second := runs.Varied()
	for i, c := range []runs.Case{first, second} {
		config := variedConfig(t, c)
		config.Public = true
		pkg[i] = load(t, mustBuild(t, config).Path)
		if _, err := VerifyPublic(memory(pkg[i]), Options{}); err != nil {
			t.Fatal(err)
		}
		var err error
		if journal[i], err = os.ReadFile(filepath.Join(config.Run, trajectory.JournalFile)); err != nil {
			t.Fatal(err)
		}
	}
	made := 0
	pick := func(_, _ string) bool {
		made++
		return long.Walk(made, thin)
	}
	try := func(m runs.Mutation) {
		delete(m.Dir, trajectory.JournalFile)
		_, err := VerifyPublic(m.FS(), Options{})
		if fault := (*trajectory.Fault)(nil); !errors.As(err, &fault) {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
	if err := runs.Mutate(pkg[0], pick, try); err != nil {
		t.Fatal(err)
	}
	runs.Misplace(pkg[0], pkg[1], try)
	for i := range pkg { // a tree head that another key signs is made from the journal
		pkg[i][trajectory.JournalFile] = journal[i]
	}
	if err := runs.Swap(pkg[0], pkg[1], try); err != nil {
		t.Fatal(err)
	}
	if made < 3000 {
		t.Errorf("only %d changes", made)
	}
}

// TestPublicSigned has the holder of the key make each small change to leaves,
// records, summary and checkpoint, and sign what comes of it. What is taken is what
// the leaves, the plan and the sums do not give, and a disclosure would show.
func TestPublicSigned(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	first, _ := runs.Varied()
	c := variedConfig(t, first)
	c.Public = true
	files := load(t, mustBuild(t, c).Path)
	for name, free := range map[string][]string{
		leavesFile: nil, trajectory.CheckpointFile: nil,
		rundir.ResultsFile: {".latency_ms", ".tools_used", ".attempt"},
		MetadataFile:       {".interruptions", ".judge", ".preflight", ".retried_calls"},
	} {
		n, taken := 0, 0
		pick := func(_, _ string) bool {
			n++
			return long.Walk(n, 9)
		}
		err := runs.Mutate(map[string][]byte{name: files[name]}, pick, func(m runs.Mutation) {
			pkg := memory(files)
			pkg[name].Data = m.Dir[name]
			republish(t, pkg, nil)
			_, err := VerifyPublic(pkg, byAnother())
			var fault *trajectory.Fault
			switch {
			case err == nil && slices.ContainsFunc(free, func(member string) bool { return strings.Contains(m.Name, member) }):
				taken++
			case !errors.As(err, &fault) || fault.File != name && fault.File != MetadataFile && fault.File != AttestationFile:
				t.Errorf("%s: %v", m.Name, err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if n < 10 {
			t.Errorf("%s: %d changes", name, n)
		}
		t.Logf("%s: %d changes, %d taken", name, n, taken)
	}
}

// TestPublicForged is what the holder of the key says against the evidence.
func TestPublicForged(t *testing.T) {
	files := publicly(t, two)
	unclean := publicly(t, leaked)
	c := config(t, leaked)
	decide(t, c, ruling(t, c, audit.Void, leakRule, firstTask))
	c.Public, c.AllowDirty = true, true
	voided := load(t, mustBuild(t, c).Path)
	other := publicly(t, change(t, two, "gold: 14", "gold: 15"))
	says := func(change func(*Predicate)) func(fstest.MapFS) {
		return func(p fstest.MapFS) { republish(t, p, func(s *Statement) { change(&s.Predicate) }) }
	}
	holds := func(name string, edit func(string) string) func(fstest.MapFS) {
		return func(p fstest.MapFS) {
			before := string(p[name].Data)
			after := edit(before)
			if before == after {
				t.Fatalf("%s is not changed", name)
			}
			p[name].Data = []byte(after)
			republish(t, p, nil)
		}
	}
	once := func(old, new string) func(string) string {
		return func(s string) string { return strings.Replace(s, old, new, 1) }
	}
	swapped := func(s string) string {
		lines := slices.Collect(strings.Lines(s))
		lines[0], lines[1] = lines[1], lines[0]
		return strings.Join(lines, "")
	}
	hashes := func(s string) string {
		lines := slices.Collect(strings.Lines(s))
		at := strings.Index(s, `","task_id"`)
		return lines[1][:at] + lines[0][at:] + lines[0][:at] + lines[1][at:]
	}
	tests := []struct {
		name  string
		files map[string][]byte
		edit  func(fstest.MapFS)
		file  string
		why   string
	}{
		{"scores raised in the summary alone", files, holds(MetadataFile, once(`"official":{"accuracy_ppm":500000,"correct":1`, `"official":{"accuracy_ppm":500000,"correct":2`)), MetadataFile, "is not what the plan and results.jsonl give"},
		{"another time that it took", files, holds(MetadataFile, once(`"duration_ms":`, `"duration_ms":1`)), MetadataFile, "is not what"},
		{"a reason in an interruption", files, holds(MetadataFile, once(`"interruptions":[]`, `"interruptions":[{"events":4,"resumed":"x","torn":false,"unsubmittable":"/home/a"}]`)), MetadataFile, "tells why recording failed"},
		{"why the run went on without evidence", files, holds(MetadataFile, once(`"voting_attempts"`, `"unrecorded":"/home/a","voting_attempts"`)), MetadataFile, "tells why recording failed"},
		{"fewer than no retries", files, holds(MetadataFile, once(`"retried_calls":0`, `"retried_calls":-1`)), MetadataFile, "miscounts"},
		{"an outcome", files, holds(rundir.ResultsFile, once(`"outcome":"failed"`, `"outcome":"solved"`)), rundir.ResultsFile, `ends as "solved", which the rest of it does not give`},
		{"an outcome and its verdict", files, holds(rundir.ResultsFile, once(`"answered":false`, `"answered":true`)), rundir.ResultsFile, "ends as"},
		{"fewer tokens", files, holds(rundir.ResultsFile, once(`"turns":2`, `"turns":1`)), MetadataFile, "is not what"},
		{"a tool that there is not", files, holds(rundir.ResultsFile, once(`"web_fetch"`, `"the answer is 14"`)), rundir.ResultsFile, "names tools"},
		{"a path of words", files, holds(rundir.ResultsFile, once(`"scoring_path":"none"`, `"scoring_path":"Tolmey"`)), rundir.ResultsFile, "ends as"},
		{"a member more", files, holds(rundir.ResultsFile, once(`"outcome":`, `"model_answer":"14","outcome":`)), rundir.ResultsFile, "is "},
		{"less withheld in a record", files, holds(rundir.ResultsFile, once(`["model_answer","reasoning_trace"]`, `["model_answer"]`)), rundir.ResultsFile, "not a record of this version"},
		{"records in another order", files, holds(rundir.ResultsFile, swapped), rundir.ResultsFile, "is of task"},
		{"a record left out", files, holds(rundir.ResultsFile, func(s string) string { return s[:strings.Index(s, "\n")+1] }), rundir.ResultsFile, "records are missing"},
		{"a record more", files, holds(rundir.ResultsFile, func(s string) string { return s + s }), rundir.ResultsFile, "more than the plan has tasks"},
		{"records of another run", files, holds(rundir.ResultsFile, func(string) string { return string(other[rundir.ResultsFile]) }), MetadataFile, "miscounts what the journal tells"},
		{"leaves in another order", files, holds(leavesFile, swapped), leavesFile, "is of task"},
		{"hashes exchanged", files, holds(leavesFile, hashes), leavesFile, "does not give the root"},
		{"leaves of another run", files, holds(leavesFile, func(string) string { return string(other[leavesFile]) }), leavesFile, "does not give the root"},
		{"another run's checkpoint", files, holds(trajectory.CheckpointFile, func(string) string { return string(other[trajectory.CheckpointFile]) }), trajectory.CheckpointFile, ""},
		{"less withheld", files, says(func(p *Predicate) { p.Withheld = p.Withheld[1:] }), AttestationFile, "see withheld"},
		{"nothing withheld", files, says(func(p *Predicate) { p.Withheld = nil }), AttestationFile, "does not withhold"},
		{"more withheld", files, says(func(p *Predicate) { p.Withheld = append(p.Withheld, WithheldFile{"usage.json", p.Journal.Head}) }), AttestationFile, "see withheld"},
		{"withheld twice", files, says(func(p *Predicate) { p.Withheld = append(p.Withheld, p.Withheld[0]) }), AttestationFile, "see withheld"},
		{"the leaderboard's digest", files, says(func(p *Predicate) { p.Withheld[2].SHA256 = p.Journal.Head }), AttestationFile, "see withheld"},
		{"the scorecard's digest", files, says(func(p *Predicate) { p.Withheld[3].SHA256 = p.Journal.Head }), AttestationFile, "see withheld"},
		{"the report's digest", files, says(func(p *Predicate) { p.Withheld[0].SHA256 = p.Journal.Head }), AttestationFile, "see withheld"},
		{"the trajectories' digest", files, says(func(p *Predicate) { p.Withheld[4].SHA256 = p.Journal.Head }), AttestationFile, "see withheld"},
		{"the decisions' digest", voided, says(func(p *Predicate) { p.Withheld[0].SHA256 = p.Journal.Head }), AttestationFile, "see withheld"},
		{"a journal without its digest", files, says(func(p *Predicate) { p.Withheld[1].SHA256 = "" }), AttestationFile, "does not withhold"},
		{"the report's digest in the audit", files, says(func(p *Predicate) { p.Audit.ReportSHA256 = p.Journal.Head }), AttestationFile, "see audit"},
		{"void tasks without a decision", voided, says(func(p *Predicate) { p.Withheld = p.Withheld[1:] }), AttestationFile, "has void tasks"},
		{"void tasks without a finding", voided, says(func(p *Predicate) {
			for i, c := range p.Audit.Checks {
				p.Audit.Checks[i] = CheckResult{ID: c.ID, Status: audit.Pass}
			}
		}), AttestationFile, "has 1 void task, and 0 findings"},
		{"findings closed by no decision", files, says(func(p *Predicate) { p.Audit.Checks[0].Findings = 7 }), AttestationFile, "has closed findings of check AUD-1"},
		{"a void task that counts", voided, says(func(p *Predicate) { p.VoidTasks, p.Exceptions.VoidTasks = nil, 0 }), AttestationFile, "see scores"},
		{"a version of words", files, says(func(p *Predicate) { p.Harness.Version = "task 2: Tolmey" }), AttestationFile, "its harness"},
		{"a claim raised", files, says(func(p *Predicate) { p.Claims[3].Status = ByCheck }), AttestationFile, "see claims"},
		{"a claim left out", files, says(func(p *Predicate) { p.Claims = p.Claims[:2] }), AttestationFile, "see claims"},
		{"not public", files, says(func(p *Predicate) { p.Public = false }), AttestationFile, "is not that of a public package"},
		{"a higher score", files, says(func(p *Predicate) { p.Scores.Official.Correct++ }), AttestationFile, "see scores"},
		{"another root", files, says(func(p *Predicate) { p.Root = "x" }), AttestationFile, "see root"},
		{"another journal", files, says(func(p *Predicate) { p.Journal.Events-- }), AttestationFile, "see journal"},
		{"another name", files, says(func(p *Predicate) { p.Name = strings.TrimSuffix(p.Name, "-public") }), AttestationFile, "see name"},
		{"why recording failed", files, says(func(p *Predicate) { p.RecordingFailed = "/home/a" }), AttestationFile, "tells why recording failed"},
		{"not dirty", unclean, says(func(p *Predicate) { p.Dirty, p.DirtyReasons, p.NotForLeaderboard = false, []string{}, false }), AttestationFile, "see dirty"},
		{"another reason", unclean, says(func(p *Predicate) { p.DirtyReasons[0] = "a page said Brellin" }), AttestationFile, "see dirty_reasons"},
		{"called clean", unclean, says(func(p *Predicate) { p.Audit.Clean = true }), AttestationFile, "see audit"},
		{"a check that passes with a grave finding", unclean, says(func(p *Predicate) { p.Audit.Checks[0].Status = audit.Pass }), AttestationFile, "gives check AUD-1 a status"},
		{"a check of words", unclean, says(func(p *Predicate) { p.Audit.Checks[0].ID = "Brellin" }), AttestationFile, "in the place of check AUD-1"},
		{"a severity of words", unclean, says(func(p *Predicate) { p.Audit.Checks[0].Severity = "Brellin" }), AttestationFile, "a status"},
		{"a task of words", unclean, says(func(p *Predicate) { p.Audit.Checks[0].TaskID = "Brellin" }), AttestationFile, "names a place"},
		{"a line behind the journal", unclean, says(func(p *Predicate) { p.Audit.Checks[0].Line = p.Journal.Events + 1 }), AttestationFile, "names a place"},
		{"a check left out", unclean, says(func(p *Predicate) { p.Audit.Checks = p.Audit.Checks[1:] }), AttestationFile, "is not about all checks"},
	}
	for _, tt := range tests {
		pkg := memory(maps.Clone(tt.files))
		tt.edit(pkg)
		publicRefused(t, tt.name, pkg, tt.why, tt.file)
	}
	pkg := memory(files)
	republish(t, pkg, nil)
	if _, err := VerifyPublic(pkg, Options{}); err != nil {
		t.Errorf("signed again without a change: %v", err)
	}
}

// TestPublicAndFull: a package is one or the other.
func TestPublicAndFull(t *testing.T) {
	full, public := both(t, config(t, two))
	whole, files := load(t, full.Path), load(t, public.Path)
	if dir := os.DirFS(public.Path); !isPublic(dir) || !IsPackage(dir) || isPublic(os.DirFS(full.Path)) {
		t.Error("a public and a full package are not told apart")
	}
	wantFault(t, "a public package", memory(files), "", leavesFile)
	publicRefused(t, "a full package", memory(whole), "", audit.ReportFile, trajectory.JournalFile, LeaderboardFile, scorecardFile, rundir.TrajectoriesFile)
	all := maps.Clone(whole)
	maps.Copy(all, files)
	for name, data := range all {
		for public, of := range map[bool]map[string][]byte{false: whole, true: files} {
			pkg, what, why := memory(of), "without "+name, rundir.Missing
			delete(pkg, name)
			if of[name] == nil {
				pkg[name], what, why = &fstest.MapFile{Data: data}, "with "+name, "is not part of a package"
			}
			if isPublic(pkg) != public {
				t.Errorf("%s, which is public %t: it is taken for the other kind", what, public)
			}
			if public {
				publicRefused(t, what, pkg, why, name)
			} else {
				wantFault(t, what, pkg, why, name)
			}
		}
	}
	for _, name := range []string{AttestationFile, BundleFile, SumsFile} {
		mixed := memory(files)
		mixed[name] = &fstest.MapFile{Data: whole[name]}
		publicRefused(t, name+" of the full package", mixed, "", AttestationFile, BundleFile, SumsFile)
	}
}

// FuzzPublic has the right key sign whatever records, leaves and summary come:
// nothing is accepted that is not canonical, or not of the plan's tasks.
func FuzzPublic(f *testing.F) {
	files := publicly(f, two)
	f.Add(files[rundir.ResultsFile], files[leavesFile], files[MetadataFile])
	f.Add(bytes.Replace(files[rundir.ResultsFile], []byte(`"latency_ms":`), []byte(`"latency_ms":1`), 1), files[leavesFile], files[MetadataFile])
	f.Add([]byte("{}\n{}\n"), []byte("\n\n"), []byte("{}"))
	f.Fuzz(func(t *testing.T, rows, leaves, metadata []byte) {
		pkg := memory(files)
		pkg[rundir.ResultsFile].Data, pkg[leavesFile].Data, pkg[MetadataFile].Data = rows, leaves, metadata
		republish(t, pkg, nil)
		p, err := VerifyPublic(pkg, Options{})
		var fault *trajectory.Fault
		if err != nil {
			if !errors.As(err, &fault) || fault.File == "" {
				t.Fatalf("%v names no file", err)
			}
			return
		}
		var again []byte
		for _, r := range p.Results {
			line, err := canonical.Encode(r)
			if err != nil {
				t.Fatal(err)
			}
			again = append(append(again, line...), '\n')
		}
		if !bytes.Equal(again, rows) || !bytes.Equal(leaves, files[leavesFile]) {
			t.Fatalf("accepted %s with %s", rows, leaves)
		}
	})
}
