package submit

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"github.com/gaia-harness/gaia/internal/rundir"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/trajectory"
)

// encodings are ways to write the same JSON otherwise.
func encodings(data []byte) map[string][]byte {
	out := map[string][]byte{
		"a space before":            append([]byte(" "), data...),
		"a newline after":           append(bytes.Clone(data), '\n'),
		"a NUL after":               append(bytes.Clone(data), 0),
		"a byte order mark":         append([]byte("\ufeff"), data...),
		"lines as on Windows":       bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n")),
		"a space after colons":      bytes.Replace(data, []byte(`":`), []byte(`": `), 1),
		"a space after commas":      bytes.Replace(data, []byte(`,"`), []byte(`, "`), 1),
		"a member twice":            regexp.MustCompile(`^\{("[a-zA-Z_]+":("[^"]*"|\d+|true|false|null)),`).ReplaceAll(data, []byte(`{$1,$1,`)),
		"an escaped letter":         regexp.MustCompile(`"[a-z]`).ReplaceAllFunc(data, onceOf(func(b []byte) []byte { return fmt.Appendf(nil, `"\u%04x`, b[1]) })),
		"an escaped slash":          bytes.Replace(data, []byte("/"), []byte(`\/`), 1),
		"a number as a float":       regexp.MustCompile(`:\d+`).ReplaceAllFunc(data, onceOf(func(b []byte) []byte { return append(b, ".0"...) })),
		"a number with an exponent": regexp.MustCompile(`:\d+`).ReplaceAllFunc(data, onceOf(func(b []byte) []byte { return append(b, "e0"...) })),
		"a negative nothing":        bytes.Replace(data, []byte(":0"), []byte(":-0"), 1),
		"a comma at the end":        regexp.MustCompile(`\}(\n?)$`).ReplaceAll(data, []byte(`,}$1`)),
		"a comment":                 regexp.MustCompile(`^\{`).ReplaceAll(data, []byte(`{/**/`)),
		"a member last":             regexp.MustCompile(`^\{("[a-zA-Z_]+":("[^"]*"|\d+|true|false|null)),(.*)\}(\n?)$`).ReplaceAll(data, []byte(`{$3,$1}$4`)),
	}
	return out
}

// onceOf edits the first of what is found.
func onceOf(edit func([]byte) []byte) func([]byte) []byte {
	done := false
	return func(b []byte) []byte {
		if done {
			return b
		}
		done = true
		return edit(bytes.Clone(b))
	}
}

// TestEncodings: one value has one encoding in a package. The holder of the key
// lists and signs another one in vain where it derives from the journal.
func TestEncodings(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	pkg, _ := varied(t)
	tried := map[string]int{}
	for _, name := range Files(audit.AdjudicationsFile) {
		if !strings.Contains(name, ".json") {
			continue
		}
		blamed := []string{name}
		if name == plan.EnvelopeFile || name == plan.ManifestFile {
			blamed = []string{plan.EnvelopeFile, plan.ManifestFile}
		}
		for how, data := range encodings(pkg[name]) {
			if bytes.Equal(data, pkg[name]) {
				continue // there is nothing to write so
			}
			tried[how]++
			changed := memory(pkg)
			changed[name].Data = data
			wantFault(t, name+" with "+how, changed, "", blamed...)
			if name == AttestationFile || name == BundleFile {
				continue
			}
			listed(changed)
			resign(t, changed, runs.Key(), nil)
			wantFault(t, name+" with "+how+", signed again", changed, "", blamed...)
		}
	}
	for how := range encodings(nil) {
		if tried[how] < 3 {
			t.Errorf("%s was tried with %d files", how, tried[how])
		}
	}
}

// TestEncodedPayloads: one payload and one signature have one encoding in an
// envelope, also within the other form of the attestation.
func TestEncodedPayloads(t *testing.T) {
	t.Parallel()
	files := load(t, mustBuild(t, config(t, two)).Path)
	text := regexp.MustCompile(`"(payload|sig)":"([A-Za-z0-9+/]+)(=*)"`)
	for _, name := range []string{AttestationFile, BundleFile, plan.EnvelopeFile} {
		n := 0
		for how, edit := range map[string]func(s string) string{
			"no padding":    func(s string) string { return strings.TrimRight(s, "=") },
			"more padding":  func(s string) string { return s + "====" },
			"url alphabet":  func(s string) string { return strings.NewReplacer("+", "-", "/", "_").Replace(s) },
			"a line break":  func(s string) string { return s[:4] + `\n` + s[4:] },
			"a real break":  func(s string) string { return s[:4] + "\n" + s[4:] },
			"a space":       func(s string) string { return s + " " },
			"an escape":     func(s string) string { return fmt.Sprintf(`\u%04x`, s[0]) + s[1:] },
			"stray bits":    strayBits,
			"hexadecimal":   func(s string) string { b, _ := base64.StdEncoding.DecodeString(s); return fmt.Sprintf("%x", b) },
			"nothing":       func(string) string { return "" },
			"twice as long": func(s string) string { return s + s },
		} {
			for _, at := range text.FindAllSubmatchIndex(files[name], -1) {
				old := string(files[name][at[4]:at[7]])
				if edit(old) == old {
					continue
				}
				n++
				pkg := memory(files)
				pkg[name].Data = slices.Concat(files[name][:at[4]], []byte(edit(old)), files[name][at[7]:])
				file := name
				wantFault(t, fmt.Sprintf("%s: %s in %s", name, how, files[name][at[2]:at[3]]), pkg, "", file)
			}
		}
		if n < 18 {
			t.Errorf("%s: only %d encodings", name, n)
		}
	}
}

// strayBits sets bits of the last letter before padding that mean nothing.
func strayBits(s string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	end := len(strings.TrimRight(s, "="))
	if end == len(s) {
		return s
	}
	return s[:end-1] + string(alphabet[strings.IndexByte(alphabet, s[end-1])|1]) + s[end:]
}

// TestMixedPackages puts each file, and each two, of one package of a run into
// another of the same run, and so of a different run: all are good, and signed by
// the same key.
func TestMixedPackages(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	c := config(t, two)
	files := load(t, mustBuild(t, c).Path)
	c.Date = "2031-02-02"
	older := load(t, mustBuild(t, c).Path)
	other := load(t, mustBuild(t, config(t, change(t, two, "The almanac counts fourteen lamps.", "Fourteen."))).Path)
	if _, err := Verify(memory(older), Options{Gold: c.Gold}); err != nil {
		t.Fatalf("the older package by itself: %v", err)
	}
	n := 0
	for what, from := range map[string]map[string][]byte{"an older package": older, "another run": other} {
		for i, first := range Files() {
			for _, second := range Files()[i:] {
				pkg := memory(files)
				pkg[first].Data, pkg[second].Data = from[first], from[second]
				if bytes.Equal(from[first], files[first]) && bytes.Equal(from[second], files[second]) {
					continue
				}
				n++
				_, err := Verify(pkg, Options{})
				var fault *trajectory.Fault
				if !errors.As(err, &fault) || fault.File == "" || fault.Reason == "" {
					t.Errorf("%s and %s of %s: %v", first, second, what, err)
				}
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d packages", n)
	}
}

// growing is a package of which a file grows while it is read.
type growing struct {
	fstest.MapFS
	name string
}

func (g growing) Open(name string) (fs.File, error) {
	f, err := g.MapFS.Open(name)
	if name != g.name || err != nil {
		return f, err
	}
	return endless{f}, nil
}

// endless is a file that a person appends to faster than it is read.
type endless struct{ fs.File }

func (f endless) Read(b []byte) (int, error) {
	if n, err := f.File.Read(b); err == nil {
		return n, nil
	}
	for i := range b {
		b[i] = '\n'
	}
	return len(b), nil
}

// TestGrowing: what grows while it is read is refused, and takes no more memory
// than its limit allows.
func TestGrowing(t *testing.T) {
	long.NotRaced(t)
	files := load(t, mustBuild(t, config(t, two)).Path)
	for _, name := range Files() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		wantFault(t, name, growing{memory(files), name}, "", name)
		if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 2<<30 {
			t.Errorf("%s: %d bytes were taken", name, after.TotalAlloc-before.TotalAlloc)
		}
	}
}

// meddler is a run that another process changes while it is packaged: before the
// nth read of a file, what edit does.
type meddler struct {
	fs.FS
	left *int
	edit func()
}

func (m meddler) tick() {
	if *m.left--; *m.left == 0 {
		m.edit()
	}
}

func (m meddler) Open(name string) (fs.File, error) {
	m.tick()
	f, err := m.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return slow{f, m}, nil
}

func (m meddler) Lstat(name string) (fs.FileInfo, error) {
	m.tick()
	return fs.Lstat(m.FS, name)
}

func (m meddler) ReadDir(name string) ([]fs.DirEntry, error) {
	m.tick()
	return fs.ReadDir(m.FS, name)
}

func (m meddler) ReadLink(name string) (string, error) { return fs.ReadLink(m.FS, name) }

// slow gives few bytes at a time, so that there is much room between.
type slow struct {
	fs.File
	m meddler
}

func (s slow) Read(b []byte) (int, error) {
	s.m.tick()
	return s.File.Read(b[:min(len(b), 2048)])
}

// TestRunIsEdited has another process change the run at moments of the
// packaging, in the thorough run at each: in place, by another good run's file and by none. Either the package
// holds what verifies, or there is none and nothing is left.
func TestRunIsEdited(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	c := config(t, two)
	other := load(t, config(t, change(t, two, "The almanac counts fourteen lamps.", "Fourteen.")).Run)
	original := load(t, c.Run)
	put := func(name string, data []byte) func() {
		return func() {
			if err := os.WriteFile(filepath.Join(c.Run, name), data, 0o644); err != nil {
				t.Error(err)
			}
		}
	}
	flip := func(data []byte) []byte {
		out := bytes.Clone(data)
		out[len(out)/2] ^= 1
		return out
	}
	edits := map[string]func(){
		"the journal of another run": put(trajectory.JournalFile, other[trajectory.JournalFile]),
		"a bit of the journal":       put(trajectory.JournalFile, flip(original[trajectory.JournalFile])),
		"the journal cut":            put(trajectory.JournalFile, original[trajectory.JournalFile][:len(original[trajectory.JournalFile])/2]),
		"another summary":            put(rundir.SummaryFile, other[rundir.SummaryFile]),
		"a bit of the summary":       put(rundir.SummaryFile, flip(original[rundir.SummaryFile])),
		"other results":              put(rundir.ResultsFile, other[rundir.ResultsFile]),
		"another plan":               put(plan.ManifestFile, other[plan.ManifestFile]),
		"a whole other run": func() {
			for _, name := range copied() {
				put(name, other[name])()
			}
		},
		"a marker":      put(rundir.MarkerFile, []byte("the disk was full")),
		"no checkpoint": func() { _ = os.Remove(filepath.Join(c.Run, trajectory.CheckpointFile)) },
		"a decision": func() {
			_ = os.MkdirAll(filepath.Join(c.Run, "attestations"), 0o755)
			put("attestations/adjudication-1.dsse.json", []byte("{}"))()
		},
		"a linked journal": func() {
			_ = os.Remove(filepath.Join(c.Run, trajectory.JournalFile))
			_ = os.Symlink(rundir.ResultsFile, filepath.Join(c.Run, trajectory.JournalFile))
		},
	}
	made, refusedTo := 0, 0
	for what, edit := range edits {
		for moment := 1; ; moment++ {
			if !long.Walk(moment-1, 37) {
				continue
			}
			if err := os.RemoveAll(c.Run); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(c.Run, 0o755); err != nil {
				t.Fatal(err)
			}
			for name, data := range original {
				put(name, data)()
			}
			left := moment
			c.Out = t.TempDir()
			p, err := buildFrom(context.Background(), c, meddler{os.DirFS(c.Run), &left, edit})
			if err != nil {
				refusedTo++
				nothingLeft(t, c.Out)
				if err.Error() == "" {
					t.Errorf("%s at moment %d: nothing is said", what, moment)
				}
			} else {
				made++
				found, err := Verify(os.DirFS(p.Path), Options{Gold: c.Gold})
				if err != nil || found.Statement.Predicate.Dirty {
					t.Errorf("%s at moment %d: %v", what, moment, err)
				}
			}
			if left > 0 {
				break // it was done before the moment came
			}
			if moment > 2000 {
				t.Fatalf("%s: there is no end to the moments", what)
			}
		}
	}
	if made < 5 || refusedTo < 10 {
		t.Errorf("%d packages were made and %d refused", made, refusedTo)
	}
	t.Logf("%d packages were made and %d refused", made, refusedTo)
}
