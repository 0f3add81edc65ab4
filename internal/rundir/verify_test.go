package rundir

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/trajectory"
)

// signedFiles are those of a finished run that Verify accounts for.
var signedFiles = []string{plan.ManifestFile, plan.EnvelopeFile, plan.ConstitutionFile, trajectory.JournalFile, TrajectoriesFile, ResultsFile, SummaryFile, trajectory.CheckpointFile}

// files writes everything a run directory holds, by the code that runs use.
// What an unfinished script does not give is left out, and the marker stands.
func files(t testing.TB, m plan.Plan, script string) map[string][]byte {
	t.Helper()
	key := testKey(t, 1)
	manifest := encodePlan(t, m)
	envelope, err := sign.Seal(key, plan.ManifestType, manifest)
	if err != nil {
		t.Fatal(err)
	}
	journal := write(t, m, script)
	f, records, end, err := follow(t, m, journal)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{plan.ManifestFile: manifest, plan.EnvelopeFile: envelope, plan.ConstitutionFile: policy.Constitution(m.Policy), trajectory.JournalFile: journal, TrajectoriesFile: {}}
	if m.Agent != nil {
		_, out[plan.AgentFilesFile] = ownAgent()
	}
	for _, r := range records {
		line, err := r.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		out[TrajectoriesFile] = append(out[TrajectoriesFile], line...)
	}
	if f.Completed == nil {
		out[MarkerFile] = []byte(MarkerOpen + strings.Repeat("\n", 100))
		return out
	}
	var results bytes.Buffer
	if err := f.WriteResults(&results); err != nil {
		t.Fatal(err)
	}
	out[ResultsFile] = results.Bytes()
	if out[SummaryFile], err = f.Summary().Encode(); err != nil {
		t.Fatal(err)
	}
	head, err := f.Checkpoint(end)
	if err != nil {
		t.Fatal(err)
	}
	if out[trajectory.CheckpointFile], err = head.Sign(key); err != nil {
		t.Fatal(err)
	}
	return out
}

// directory puts files into a real directory.
func directory(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// memory is the same for tests that change thousands of bytes.
func memory(files map[string][]byte, change ...string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, data := range files {
		out[name] = &fstest.MapFile{Data: data}
	}
	for i := 0; i < len(change); i += 2 {
		out[change[i]] = &fstest.MapFile{Data: []byte(change[i+1])}
	}
	return out
}

// wantFault checks that a directory is refused by a fault in one of the files.
func wantFault(t *testing.T, what string, dir fs.FS, files ...string) {
	t.Helper()
	_, err := Verify(dir, Options{})
	var fault *trajectory.Fault
	if !errors.As(err, &fault) {
		t.Errorf("%s: %v is no fault", what, err)
	} else if !slices.Contains(files, fault.File) {
		t.Errorf("%s: the fault is said to be in %s: %v; want %v", what, fault.File, err, files)
	}
	if !slices.Contains(files, TrajectoriesFile) {
		return
	}
	if _, compared := Verify(dir, Options{Compare: true}); compared == nil || err != nil && compared.Error() != err.Error() {
		t.Errorf("%s: without a digest of the records the fault is %v, not %v", what, compared, err)
	}
}

func TestVerify(t *testing.T) {
	m := mixedPlan(t)
	all := files(t, m, mixed)
	dir := directory(t, all)
	for _, extra := range []string{"judgments.jsonl", "lock", "notes.txt"} { // not the business of Verify
		if err := os.WriteFile(filepath.Join(dir, extra), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var seen []string
	run, err := Verify(os.DirFS(dir), Options{Ended: func(r Trajectory, _ []byte) error {
		seen = append(seen, r.TaskID)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(all[trajectory.JournalFile], []byte("\n"))
	if !run.Complete || run.Missing != "" || run.Marked != "" || run.Torn != nil || !run.Key.Equal(testKey(t, 1).Public()) ||
		run.End.Events != 55 || run.End.Head != canonical.Digest(lines[54]) || run.ManifestSHA256 != canonical.Digest(all[plan.ManifestFile]) {
		t.Errorf("%+v", run)
	}
	root := strings.Split(string(all[trajectory.CheckpointFile]), "\n")[2]
	if run.RootHash != root {
		t.Errorf("root %s, the checkpoint says %s", run.RootHash, root)
	}
	if got := strings.Join(seen, " "); got != "solved again again silent broken broken" {
		t.Errorf("saw the records of %s", got)
	}
	compared, err := Verify(os.DirFS(dir), Options{Compare: true})
	if err != nil || !compared.Complete {
		t.Fatal(err)
	}
	for _, name := range []string{TrajectoriesFile, trajectory.JournalFile} {
		if _, there := compared.Files[name]; there {
			t.Errorf("%s has a digest that no one wants", name)
		}
		compared.Files[name] = canonical.Digest(all[name])
	}
	if !maps.Equal(compared.Files, run.Files) {
		t.Errorf("the files are %v, and with digests of journal and records %v", compared.Files, run.Files)
	}
	stop := errors.New("enough")
	if _, err := Verify(os.DirFS(dir), Options{Ended: func(Trajectory, []byte) error { return stop }}); !errors.Is(err, stop) {
		t.Errorf("the reader's error: %v", err)
	}
}

func TestVerifyRefuses(t *testing.T) {
	long.NotRaced(t)
	m := mixedPlan(t)
	all := files(t, m, mixed)
	replaced := func(name string, change func([]byte) []byte) fs.FS {
		return os.DirFS(directory(t, map[string][]byte{
			plan.ManifestFile: all[plan.ManifestFile], plan.EnvelopeFile: all[plan.EnvelopeFile], plan.ConstitutionFile: all[plan.ConstitutionFile], trajectory.JournalFile: all[trajectory.JournalFile],
			TrajectoriesFile: all[TrajectoriesFile], ResultsFile: all[ResultsFile], SummaryFile: all[SummaryFile],
			trajectory.CheckpointFile: all[trajectory.CheckpointFile], name: change(bytes.Clone(all[name])),
		}))
	}
	for _, name := range signedFiles {
		dir := directory(t, all)
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		wantFault(t, name+" deleted", os.DirFS(dir), name)
		wantFault(t, name+" emptied", replaced(name, func([]byte) []byte { return nil }), name)
		wantFault(t, name+" cut by a byte", replaced(name, func(b []byte) []byte { return b[:len(b)-1] }), name)
		wantFault(t, name+" with a newline more", replaced(name, func(b []byte) []byte { return append(b, '\n') }), name)
		wantFault(t, name+" with a space more", replaced(name, func(b []byte) []byte { return append(b, ' ') }), name)
		wantFault(t, name+" with a byte order mark", replaced(name, func(b []byte) []byte { return append([]byte("\ufeff"), b...) }), name)
		wantFault(t, name+" twice", replaced(name, func(b []byte) []byte { return append(b, b...) }), name)
	}
	for _, name := range []string{trajectory.JournalFile, TrajectoriesFile, ResultsFile} {
		lines := bytes.SplitAfter(all[name], []byte("\n"))
		lines = lines[:len(lines)-1]
		rebuilt := func(change func([][]byte) [][]byte) fs.FS {
			return replaced(name, func([]byte) []byte { return bytes.Join(change(slices.Clone(lines)), nil) })
		}
		for i := 0; i < len(lines); i += 1 + len(lines)/20 {
			wantFault(t, name+": a line dropped", rebuilt(func(l [][]byte) [][]byte { return slices.Delete(l, i, i+1) }), name)
			wantFault(t, name+": a line duplicated", rebuilt(func(l [][]byte) [][]byte { return slices.Insert(l, i, l[i]) }), name)
			wantFault(t, name+": an empty line", rebuilt(func(l [][]byte) [][]byte { return slices.Insert(l, i, []byte("\n")) }), name)
			if i > 0 {
				wantFault(t, name+": lines swapped", rebuilt(func(l [][]byte) [][]byte { l[i-1], l[i] = l[i], l[i-1]; return l }), name)
				wantFault(t, name+": the end cut off", rebuilt(func(l [][]byte) [][]byte { return l[:i] }), name)
				wantFault(t, name+": the start cut off", rebuilt(func(l [][]byte) [][]byte { return l[i:] }), name)
			}
		}
	}
}

// TestVerifyFlips changes a bit of every byte of the files of a short run, outside of the thorough run of every fifth.
func TestVerifyFlips(t *testing.T) {
	all := files(t, planOf(t, "a"), "run started\na.1 begin\na.1 answer 42\na.1 ended answered\na.1 graded right\na sealed solved 1/1\nrun completed solved=1")
	if run, err := Verify(memory(all), Options{}); err != nil || !run.Complete {
		t.Fatalf("%+v, %v", run, err)
	}
	manifest := string(all[plan.ManifestFile])
	keyAt := strings.Index(manifest, `"signing_key"`)
	journal := all[trajectory.JournalFile]
	lastLine := bytes.LastIndexByte(journal[:len(journal)-1], '\n') + 1
	for _, name := range signedFiles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step := long.Step(15)
			if name == trajectory.JournalFile || name == TrajectoriesFile {
				step *= 5 // odd, so that every bit comes round
			}
			for i := 0; i < len(all[name]); i += step {
				b := bytes.Clone(all[name])
				b[i] ^= 1 << (i % 8)
				want := []string{name}
				switch {
				case name == plan.ManifestFile && i >= keyAt && i < keyAt+120:
					want = append(want, plan.EnvelopeFile) // which another key did not sign
				case name == trajectory.JournalFile && i >= lastLine:
					want = append(want, trajectory.CheckpointFile, SummaryFile) // which say what the last line was
				}
				wantFault(t, name+" changed", memory(all, name, string(b)), want...)
			}
		})
	}
}

// TestVerifyRefusesForeignParts puts whole, well-signed parts of other runs in.
func TestVerifyRefusesForeignParts(t *testing.T) {
	m := planOf(t, "a")
	all := files(t, m, oneSolved)
	other := planOf(t, "a")
	other.RunID = "01JZ0000000000000000000XXX"
	foreign := files(t, other, oneSolved)
	failed := files(t, m, strings.NewReplacer("graded right", "graded wrong", "solved", "failed").Replace(oneSolved))
	wantFault(t, "another run's plan", memory(all, plan.ManifestFile, string(foreign[plan.ManifestFile]), plan.EnvelopeFile, string(foreign[plan.EnvelopeFile])), trajectory.JournalFile)
	for _, name := range signedFiles {
		if name != ResultsFile && name != plan.ConstitutionFile { // which do not say whose they are
			want := []string{name}
			if name == plan.EnvelopeFile {
				want = []string{plan.ManifestFile} // one of the two is not the other's
			}
			wantFault(t, "another run's "+name, memory(all, name, string(foreign[name])), want...)
		}
		if !slices.Contains([]string{plan.ManifestFile, plan.EnvelopeFile, plan.ConstitutionFile, TrajectoriesFile}, name) { // those are the same
			want := []string{name}
			if name == trajectory.JournalFile {
				want = []string{ResultsFile} // it is a good journal
			}
			wantFault(t, "another outcome's "+name, memory(all, name, string(failed[name])), want...)
		}
	}
	// A plan by another key: signed well, but the manifest names the first.
	envelope, err := sign.Seal(testKey(t, 2), plan.ManifestType, all[plan.ManifestFile])
	if err != nil {
		t.Fatal(err)
	}
	wantFault(t, "another key's envelope", memory(all, plan.EnvelopeFile, string(envelope)), plan.EnvelopeFile)
	for what, line := range map[string]string{"a comment": m.SigningKey + " me", "no key": "", "two keys": m.SigningKey + "\n" + m.SigningKey,
		"another type": "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAAQA="} {
		odd := planOf(t, "a")
		odd.SigningKey = line
		wantFault(t, "signing_key with "+what, memory(files(t, odd, oneSolved)), plan.ManifestFile)
	}
	// A checkpoint by another key over the right values.
	f, _, end, err := follow(t, m, all[trajectory.JournalFile])
	if err != nil {
		t.Fatal(err)
	}
	head, err := f.Checkpoint(end)
	if err != nil {
		t.Fatal(err)
	}
	note, err := head.Sign(testKey(t, 2))
	if err != nil {
		t.Fatal(err)
	}
	wantFault(t, "another key's checkpoint", memory(all, trajectory.CheckpointFile, string(note)), trajectory.CheckpointFile)
}

// TestVerifyUnfinished cuts a run after each of its events.
func TestVerifyUnfinished(t *testing.T) {
	long.NotRaced(t)
	m := mixedPlan(t)
	lines := strings.SplitAfter(mixed, "\n")
	for n := 1; n < 55; n++ {
		all := files(t, m, strings.Join(lines[:n], ""))
		run, err := Verify(os.DirFS(directory(t, all)), Options{})
		if err != nil {
			t.Fatalf("after %d events: %v", n, err)
		}
		if run.Complete || run.Missing != "the journal has no run_completed" || run.End.Events != int64(n) || run.RootHash != "" {
			t.Errorf("after %d events: %+v", n, run)
		}
	}
	all := files(t, m, strings.Join(lines[:50], ""))
	records := all[TrajectoriesFile]
	for cut := 0; cut < len(records); cut += 101 {
		run, err := Verify(memory(all, TrajectoriesFile, string(records[:cut])), Options{})
		if err != nil || run.Complete {
			t.Errorf("with %d bytes of records: %v", cut, err)
		}
	}
	for _, tail := range []string{"x", `{"attempt":1,`, "\x00\x00", string(write(t, m, mixed))[:100]} {
		run, err := Verify(memory(all, trajectory.JournalFile, string(all[trajectory.JournalFile])+tail), Options{})
		if err != nil || run.Complete || run.Torn == nil || string(run.Torn.Bytes) != tail || run.Torn.Offset != int64(len(all[trajectory.JournalFile])) {
			t.Errorf("with the torn tail %q: %+v, %v", tail, run, err)
		}
	}
	for cut := 0; cut < len(all[plan.EnvelopeFile]); cut += 97 { // the plan is whole from the start
		wantFault(t, "half an envelope", memory(all, plan.EnvelopeFile, string(all[plan.EnvelopeFile][:cut])), plan.EnvelopeFile)
	}

	finished := files(t, m, mixed)
	for _, name := range []string{ResultsFile, SummaryFile, trajectory.CheckpointFile} {
		wantFault(t, name+" in an unfinished run", memory(all, name, string(finished[name])), name)
		wantFault(t, "an empty "+name+" in an unfinished run", memory(all, name, ""), name)
	}
	wantFault(t, "a finished run without its last event", memory(finished, trajectory.JournalFile, string(all[trajectory.JournalFile])), trajectory.JournalFile)
	wantFault(t, "records of attempts that have not ended", memory(all, TrajectoriesFile, string(finished[TrajectoriesFile])+"{}\n"), TrajectoriesFile)
	wantFault(t, "another record", memory(all, TrajectoriesFile, strings.Replace(string(records), "web_fetch", "web_fetsh", 1)), TrajectoriesFile)
	wantFault(t, "half of another record", memory(all, TrajectoriesFile, string(records[:len(records)-9])+"x"), TrajectoriesFile)
	for _, name := range []string{plan.ManifestFile, plan.EnvelopeFile, plan.ConstitutionFile, trajectory.JournalFile, TrajectoriesFile} {
		dir := memory(all)
		delete(dir, name)
		wantFault(t, name+" missing in an unfinished run", dir, name)
	}
}

// TestVerifyClosing: while the marker stands, files may be missing that are
// written last; what is there must be right all the same.
func TestVerifyClosing(t *testing.T) {
	all := files(t, mixedPlan(t), mixed)
	const open = MarkerOpen + "\n\n\n\n"
	for _, name := range []string{ResultsFile, SummaryFile, trajectory.CheckpointFile, TrajectoriesFile} {
		for marker, want := range map[string]bool{open: true, "the disk is full\n\n": true, "": false} {
			dir := memory(all, MarkerFile, marker)
			if marker == "" {
				delete(dir, MarkerFile)
			}
			if name == TrajectoriesFile {
				dir[name] = &fstest.MapFile{Data: all[name][:len(all[name])-20]}
			} else {
				delete(dir, name)
			}
			run, err := Verify(dir, Options{})
			var fault *trajectory.Fault
			switch {
			case want && (err != nil || run.Complete || !strings.HasPrefix(run.Missing, name)):
				t.Errorf("without %s, marker %q: %v, %+v", name, marker, err, run)
			case !want && (!errors.As(err, &fault) || fault.File != name):
				t.Errorf("without %s and marker: %v", name, err)
			}
		}
		b := bytes.Clone(all[name])
		b[len(b)/2] ^= 1
		wantFault(t, "a wrong "+name+" beside the marker", memory(all, MarkerFile, open, name, string(b)), name)
		if name != TrajectoriesFile {
			wantFault(t, "an empty "+name+" beside the marker", memory(all, MarkerFile, open, name, ""), name)
		}
		wantFault(t, "more than "+name+" beside the marker", memory(all, MarkerFile, open, name, string(all[name])+"\n"), name)
	}
	run, err := Verify(memory(all, MarkerFile, open), Options{})
	if err != nil || run.Complete || run.Missing != "unsubmittable still says open" || run.Marked != "" {
		t.Errorf("all files and the open marker: %v, %+v", err, run)
	}
	run, err = Verify(memory(all, MarkerFile, "the disk is full\n\n\n"), Options{})
	if err != nil || !run.Complete || run.Marked != "the disk is full" {
		t.Errorf("all files and a marker with a reason: %v, %+v", err, run)
	}
	wantFault(t, "bytes after run_completed", memory(all, MarkerFile, open, trajectory.JournalFile, string(all[trajectory.JournalFile])+"x"), trajectory.JournalFile)
}

func TestReadMarker(t *testing.T) {
	for data, want := range map[string]string{
		MarkerOpen: "", MarkerOpen + "\n\n\n": "", "no space left\n\n": "no space left",
		"": "recording failed, and the reason could not be written", "\n\n": "recording failed, and the reason could not be written",
		"opened": "opened", "OPEN\n": "OPEN",
	} {
		if got, err := ReadMarker(memory(nil, MarkerFile, data)); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", data, got, err, want)
		}
	}
	if got, err := ReadMarker(fstest.MapFS{}); err != nil || got != "" {
		t.Errorf("no marker: %q, %v", got, err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, MarkerFile), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadMarker(os.DirFS(dir)); err == nil {
		t.Error("read a directory as a marker")
	}
}

// TestIrregularFiles: a directory, a link and a pipe in a file's place are
// named, and none is followed or waited for.
func TestIrregularFiles(t *testing.T) {
	all := files(t, planOf(t, "a"), oneSolved)
	for _, name := range append(slices.Clone(signedFiles), MarkerFile) {
		for what, put := range map[string]func(path string) error{
			"directory": func(path string) error { return os.Mkdir(path, 0o755) },
			"link":      func(path string) error { return os.Symlink("/dev/zero", path) },
			"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o644) },
		} {
			dir := directory(t, all)
			path := filepath.Join(dir, name)
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			_, err := Verify(os.DirFS(dir), Options{})
			var fault *trajectory.Fault
			if !errors.As(err, &fault) || fault.File != name || fault.Reason != "is not a regular file" {
				t.Errorf("%s is a %s: %v", name, what, err)
			}
		}
	}
}

// unreadable is a directory of which one file cannot be read.
type unreadable struct {
	fs.FS
	name string
}

func (u unreadable) Open(name string) (fs.File, error) {
	if name == u.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("input/output error")}
	}
	return u.FS.Open(name)
}

// TestUnreadableIsNoFault: a file that cannot be read proves nothing.
func TestUnreadableIsNoFault(t *testing.T) {
	all := files(t, planOf(t, "a"), oneSolved)
	for _, name := range signedFiles {
		_, err := Verify(unreadable{memory(all), name}, Options{})
		var fault *trajectory.Fault
		if err == nil || errors.As(err, &fault) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s cannot be read: %v", name, err)
		}
	}
}

// TestVerifyWhileWritten: a run that grows, and is closed, while it is read is
// never taken for a damaged one.
func TestVerifyWhileWritten(t *testing.T) {
	all := files(t, planOf(t, "a"), oneSolved)
	dir := directory(t, all)
	for _, name := range derived(SummaryFile) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	lines := bytes.SplitAfter(all[trajectory.JournalFile], []byte("\n"))
	for n := 1; n < len(lines); n++ {
		if err := os.WriteFile(filepath.Join(dir, trajectory.JournalFile), bytes.Join(lines[:n], nil), 0o644); err != nil {
			t.Fatal(err)
		}
		// Nothing was there when the reading began; when it ends, all is.
		if err := os.WriteFile(filepath.Join(dir, TrajectoriesFile), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		late := growing{os.DirFS(dir).(fs.ReadLinkFS), func() {
			for _, name := range append(derived(SummaryFile), TrajectoriesFile) {
				if err := os.WriteFile(filepath.Join(dir, name), all[name], 0o644); err != nil {
					t.Error(err)
				}
			}
		}}
		if _, err := Verify(late, Options{}); err != nil {
			t.Errorf("after %d of %d lines: %v", n, len(lines)-1, err)
		}
		for _, name := range derived(SummaryFile) {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// growing is a directory to which files are added when the records have been
// opened.
type growing struct {
	fs.ReadLinkFS
	grow func()
}

func (g growing) Open(name string) (fs.File, error) {
	f, err := g.ReadLinkFS.Open(name)
	if name == TrajectoriesFile {
		g.grow()
	}
	return f, err
}

func TestReadPlan(t *testing.T) {
	all := files(t, planOf(t, "a"), oneSolved)
	m, digest, key, err := ReadPlan(memory(all))
	if err != nil || m.RunID != testRunID || digest != canonical.Digest(all[plan.ManifestFile]) || !key.Equal(testKey(t, 1).Public()) {
		t.Errorf("%+v, %s, %v", m, digest, err)
	}
}
