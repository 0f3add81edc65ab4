package submit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gaia-harness/gaia/internal/rundir"

	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/trajectory"
)

func decodeLoosely(t testing.TB, data []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatal(err)
	}
}

// shellBlock takes the one block of shell lines out of a page.
func shellBlock(t *testing.T, page []byte) string {
	t.Helper()
	_, after, ok := strings.Cut(string(page), "```sh\n")
	block, rest, closed := strings.Cut(after, "```\n")
	if !ok || !closed || strings.Contains(rest, "```sh") {
		t.Fatal("the page has not one block of shell lines")
	}
	return block
}

// TestShell runs the README's shell lines on packages, as a reader would who
// does not have this program.
func TestShell(t *testing.T) {
	long.NotRaced(t)
	for _, program := range []string{"sh", "openssl", "jq", "sha256sum"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: there is no %s here, so the shell lines of the README were not tried", program)
		}
	}
	p := mustBuild(t, config(t, two))
	files := load(t, p.Path)
	aside := t.TempDir()
	script, key := filepath.Join(aside, "check.sh"), filepath.Join(aside, "key.pub")
	put(t, script, []byte(shellBlock(t, files[ReadmeFile])))
	check := func() (string, error) {
		cmd := exec.Command("sh", script, key)
		cmd.Dir = p.Path
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	put(t, key, []byte(runs.Key().Public().Line()+" someone@harbour.example\n"))
	if out, err := check(); err != nil || !strings.HasSuffix(out, "accepted\n") {
		t.Fatalf("the package is not accepted: %v\n%s", err, out)
	}
	for _, args := range [][]string{{script}, {script, key + ".gone"}} {
		if ok, out := accepts(t, exec.Command("sh", args...)); ok || !strings.HasPrefix(out, "usage") || strings.Count(out, "\n") != 1 {
			t.Errorf("%q: the lines say %q", args[1:], out)
		}
	}
	refused := func(what string) {
		t.Helper()
		out, err := check()
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || strings.Contains(out, "accepted") {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
	}
	for i, name := range Files() {
		if i%long.Step(6) != 0 { // each costs a dozen processes
			continue
		}
		put(t, filepath.Join(p.Path, name), flipped(files[name], len(files[name])/2))
		refused(name + " changed")
		put(t, filepath.Join(p.Path, name), files[name])
	}
	for _, part := range []string{`"hint":"`, `bundle.v0.`} {
		put(t, filepath.Join(p.Path, BundleFile), flipped(files[BundleFile], bytes.Index(files[BundleFile], []byte(part))+len(part)))
		refused(BundleFile + " changed after " + part)
	}
	put(t, filepath.Join(p.Path, BundleFile), files[BundleFile])
	envelope := string(files[AttestationFile])
	for what, changed := range map[string]string{
		"payload changed":   strings.Replace(envelope, `"payload":"eyJf`, `"payload":"eyJe`, 1),
		"signature changed": strings.Replace(envelope, `"sig":"`, `"sig":"AAAA`, 1),
		"signature removed": envelope[:strings.Index(envelope, `"signatures"`)] + `"signatures":[]}`,
		"another type":      strings.Replace(envelope, `"payloadType":"application/vnd.`, `"payloadType":"application/vne.`, 1),
		"another key id":    strings.Replace(envelope, `"keyid":"SHA256:`, `"keyid":"SHA257:`, 1),
		"another member":    strings.Replace(envelope, `"payload":`, `"extra":1,"payload":`, 1),
		"a payload more":    strings.Replace(envelope, `"payload":`, `"payload":"","payload":`, 1),
		"a signer more":     strings.Replace(envelope, `"}]}`, `"},{"keyid":"mallory","sig":""}]}`, 1),
		"a newline more":    envelope + "\n",
		"no JSON":           envelope[1:],
		"empty":             "",
	} {
		if changed == envelope {
			t.Fatalf("%s: nothing was changed", what)
		}
		put(t, filepath.Join(p.Path, AttestationFile), []byte(changed)) // and the other form of it to fit
		put(t, filepath.Join(p.Path, BundleFile), bytes.Replace(files[BundleFile], files[AttestationFile], []byte(changed), 1))
		refused(what)
	}
	put(t, filepath.Join(p.Path, AttestationFile), files[AttestationFile])
	put(t, filepath.Join(p.Path, BundleFile), files[BundleFile])
	results := filepath.Join(p.Path, rundir.ResultsFile)
	if err := errors.Join(os.Rename(results, filepath.Join(aside, "results")), os.Symlink(filepath.Join(aside, "results"), results)); err != nil {
		t.Fatal(err)
	}
	refused("a link in place of a file")
	if err := os.Remove(results); err != nil {
		t.Fatal(err)
	}
	put(t, results, files[rundir.ResultsFile])
	put(t, filepath.Join(p.Path, "notes.txt"), nil)
	refused("a file added")
	for _, name := range []string{"notes.txt", rundir.ResultsFile} {
		if err := os.Remove(filepath.Join(p.Path, name)); err != nil {
			t.Fatal(err)
		}
	}
	refused("a file removed")
	put(t, filepath.Join(p.Path, rundir.ResultsFile), files[rundir.ResultsFile])
	put(t, key, []byte(otherKey(t).Public().Line()+"\n"))
	refused("another key")
	put(t, key, []byte(runs.Key().Public().Line()+"\n"))
	if out, err := check(); err != nil {
		t.Errorf("the package is no longer accepted: %v\n%s", err, out)
	}
}

// TestDocumentedShell: docs/verifying.md has the same lines.
func TestDocumentedShell(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "verifying.md"))
	if err != nil {
		t.Fatal(err)
	}
	if documented(t, "## Without gaia", "```shell") != checkScript {
		t.Error("docs/verifying.md has other shell lines than a package's README.md")
	}
	for _, name := range Files() {
		if !bytes.Contains(page, []byte("| `"+name+"` |")) {
			t.Errorf("docs/verifying.md does not name %s", name)
		}
	}
}

// TestReadmeIsInert: what the run says can neither steer a terminal nor pass
// for the README's own words.
func TestReadmeIsInert(t *testing.T) {
	const trap = "x\\u001b[2J\\u202e\\u200b\\ufe0f\\u3164`](http://a.example)\\n\\n# Scores\\n<img src=x> | \\u0000"
	text := planned(unlisted(t), `{"model":{"name":"`+trap+`","origin":"`+trap+`"},
		"search":{"engine":"`+trap+`","origin":"`+trap+`"},"dataset":{"revision":"`+trap+`"}}`)
	text = strings.ReplaceAll(text, firstTask, firstTask+"\x1b[31m`|")
	for _, public := range []bool{false, true} {
		c := config(t, text)
		c.AllowDirty, c.Public = true, public
		c.Submitter = &Submitter{Organisation: "Harbour`](http://a.example)<img src=x> |", Contact: "`\"# Scores"}
		p := mustBuild(t, c)
		readme, _, _ := strings.Cut(string(load(t, p.Path)[ReadmeFile]), "```sh\n")
		for _, r := range readme {
			if r != '\n' && r != '\t' && visible.Hidden(r) {
				t.Errorf("README.md holds %U", r)
			}
		}
		outside := ""
		for i, part := range strings.Split(readme, "`") {
			if i%2 == 0 {
				outside += part
			}
		}
		if strings.Count(readme, "\n# ") != 0 || strings.Contains(outside, "<img") || strings.Contains(outside, "a.example") ||
			!strings.Contains(readme, `x\u001b[2J\u202e\u200b\ufe0f\u3164\x60](http://a.example)\u000a\u000a# Scores`) || !strings.Contains(readme, `Harbour\x60](http://a.example)`) {
			t.Errorf("README.md:\n%s", readme)
		}
	}
}

// TestReadmeShows: what the holder of the key writes into README.md is refused, in a
// full package and in a public one. What another program writes can at least be shown.
func TestReadmeShows(t *testing.T) {
	c := config(t, two)
	full, public := both(t, c)
	same := func() (trajectory.Harness, error) { return c.Harness, nil }
	gone := func() (trajectory.Harness, error) { return trajectory.Harness{}, errors.New("it is gone") }
	unsure := map[string]string{"another program": "it was written by another program, gaia v1.0.0",
		"one that does not know itself": "whether it was written by this program cannot be told: it is gone"}
	for what, tt := range map[string]struct {
		edit func([]byte) []byte
		why  string
		line int64 // from 1; -1: the last
	}{
		"an escape":         {func(b []byte) []byte { return append(b, "\x1b[2J"...) }, "holds U+001B", -1},
		"a carriage return": {func(b []byte) []byte { return append([]byte("\r"), b...) }, "holds U+000D", 1},
		"a delete":          {func(b []byte) []byte { return append([]byte("\n\x7f"), b...) }, "holds U+007F", 2},
		"a C1 control":      {func(b []byte) []byte { return append([]byte("\u009b"), b...) }, "holds U+009B", 1},
		"an override":       {func(b []byte) []byte { return append([]byte("\u202e"), b...) }, "holds U+202E", 1},
		"an isolate":        {func(b []byte) []byte { return append([]byte("\u2067"), b...) }, "holds U+2067", 1},
		"a mark":            {func(b []byte) []byte { return append([]byte("\ufeff"), b...) }, "holds U+FEFF", 1},
		"bytes":             {func(b []byte) []byte { return append([]byte("\xff"), b...) }, "is not UTF-8", 1},
		"what it has not":   {func([]byte) []byte { return []byte("# Ostrel\n\tprints \ufffd…\n") }, "is not what the package's files give", 0},
	} {
		for dir, verify := range map[string]func(fstest.MapFS, Options) (string, error){
			full.Path: func(pkg fstest.MapFS, o Options) (string, error) {
				listed(pkg)
				resign(t, pkg, runs.Key(), nil)
				v, err := Verify(pkg, o)
				if err != nil {
					return "", err
				}
				return v.NotRebuilt, nil
			},
			public.Path: func(pkg fstest.MapFS, o Options) (string, error) {
				republish(t, pkg, nil)
				p, err := VerifyPublic(pkg, o)
				if err != nil {
					return "", err
				}
				return p.NotRebuilt, nil
			},
		} {
			pkg := memory(load(t, dir))
			pkg[ReadmeFile].Data = tt.edit(pkg[ReadmeFile].Data)
			line := tt.line
			if line < 0 {
				line = int64(bytes.Count(pkg[ReadmeFile].Data, []byte("\n"))) + 1
			}
			for program, o := range map[string]Options{"the same program": {Harness: same}, "no program": {}, "another program": byAnother(), "one that does not know itself": {Harness: gone}} {
				notRebuilt, err := verify(pkg, o)
				var fault *trajectory.Fault
				if why := unsure[program]; line == 0 && why != "" {
					if err != nil || notRebuilt != why {
						t.Errorf("%s in %s, by %s: %v, %q; want %q", what, filepath.Base(dir), program, err, notRebuilt, why)
					}
				} else if !errors.As(err, &fault) || fault.File != ReadmeFile || fault.Line != line || !strings.HasPrefix(fault.Reason, tt.why) {
					t.Errorf("%s in %s, by %s: %v; want line %d: %s", what, filepath.Base(dir), program, err, line, tt.why)
				}
			}
		}
	}
}

// editedLater is a package whose README.md is another when it is opened again.
type editedLater struct {
	fstest.MapFS
	then  []byte
	opens *int
}

func (e editedLater) Open(name string) (fs.File, error) {
	if name == ReadmeFile {
		if *e.opens++; *e.opens > 1 {
			return fstest.MapFS{name: &fstest.MapFile{Data: e.then}}.Open(name)
		}
	}
	return e.MapFS.Open(name)
}

// TestReadmeChanges: what is looked at is what was signed.
func TestReadmeChanges(t *testing.T) {
	files := load(t, mustBuild(t, config(t, two)).Path)
	wantFault(t, "a README.md that changes", editedLater{memory(files), []byte("# Ostrel\n"), new(int)}, "changed while it was read", ReadmeFile)
}

func TestText(t *testing.T) {
	long := strings.Repeat("é", longest)
	tests := []struct{ got, want string }{
		{code(""), "(none)"},
		{code("sample-model v1 é"), "`sample-model v1 é`"},
		{code("a`b|c\n"), "`a\\x60b\\x7cc\\u000a`"},
		{plain("\x1b[0m\u202e\u00a0\xff"), `\u001b[0m\u202e\u00a0` + "\ufffd"},
		{plain(long), long},
		{plain(long + "x"), long + "…"},
		{quote(`a "b"` + "\r"), `"a \"b\"\r"`},
		{quote(long + "x"), `"` + long + `…"`},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s, want %s", tt.got, tt.want)
		}
	}
}

// TestPrivacyNote: the package says that it can hold texts of the web, which are others'.
func TestPrivacyNote(t *testing.T) {
	pkg := load(t, mustBuild(t, config(t, two)).Path)
	_, note, found := strings.Cut(string(pkg[ReadmeFile]), "\n## Privacy\n")
	note, _, _ = strings.Cut(note, "\n## ")
	for _, want := range []string{"The journal, the trajectories and the\nanswers are in this package", "excerpts of web pages and documents that the agent fetched, with their addresses", "under copyright"} {
		if !found || !strings.Contains(note, want) {
			t.Errorf("the privacy note lacks %q: %s", want, note)
		}
	}
}
