package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
)

// lamps is an honest run of two tasks, which are all of their split.
const lamps = `Two tasks: one looked up and right, one without an answer.
-- split validation --
carried gold
fab1e901-0000-4000-8000-000000000001
fab1e901-0000-4000-8000-000000000002
-- task fab1e901-0000-4000-8000-000000000001 --
question: How many lamps did the lighthouse of Ostrel have in 1871, by the almanac?
gold: 14
-- call web_fetch {"url":"http://almanac.example/heights.html"} --
The lamps of Ostrel were fourteen in number, and were put out one by one.
-- answer 14 --
The almanac counts fourteen lamps.
-- task fab1e901-0000-4000-8000-000000000002 --
question: Which harbour closed first?
gold: Tolmey
level: 2
-- no answer --
I do not know.
`

// packageOf writes a run and packages it, dirty if need be.
func packageOf(t *testing.T, text, date string) submit.Package {
	t.Helper()
	return madeOf(t, text, date, false)
}

func madeOf(t *testing.T, text, date string, public bool) submit.Package {
	t.Helper()
	c, err := runs.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := c.Write(filepath.Join(dir, "run")); err != nil {
		t.Fatal(err)
	}
	p, err := submit.Build(context.Background(), submit.Config{Run: filepath.Join(dir, "run"), Out: dir, Key: runs.Key(), Date: date, AllowDirty: true, Public: public,
		Gold: &audit.Gold{Answers: c.Gold(), Salt: c.Salt()}, Harness: trajectory.Harness{ExecutableSHA256: canonical.Digest([]byte("program")), Version: "v1.0.0"}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// edits change a package's folder.
type edits struct {
	*testing.T
	dir string
}

func (e edits) read(name string) []byte {
	e.Helper()
	data, err := os.ReadFile(filepath.Join(e.dir, name))
	e.must(err)
	return data
}

func (e edits) write(name string, data []byte) {
	e.Helper()
	e.must(os.WriteFile(filepath.Join(e.dir, name), data, 0o644))
}

func (e edits) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// replace changes a text that must be there, in one place.
func (e edits) replace(name, old, with string) {
	e.Helper()
	data := e.read(name)
	if !bytes.Contains(data, []byte(old)) {
		e.Fatalf("%s does not hold %q", name, old)
	}
	e.write(name, bytes.Replace(data, []byte(old), []byte(with), 1))
}

// from puts another package's files in.
func (e edits) from(other string, names ...string) {
	e.Helper()
	for _, name := range names {
		e.write(name, edits{e.T, other}.read(name))
	}
}

// attest signs the files that the folder now holds by key, as a program does that
// does not look at what it signs.
func (e edits) attest(key sign.Key) {
	e.Helper()
	payload, err := sign.Unseal(e.read(submit.AttestationFile), submit.PayloadType, runs.Key().Public())
	e.must(err)
	var s submit.Statement
	e.must(canonical.Decode(payload, &s))
	var sums strings.Builder
	for i, subject := range s.Subject {
		if subject.Name != submit.SumsFile {
			hex := strings.TrimPrefix(canonical.Digest(e.read(subject.Name)), "sha256:")
			s.Subject[i].Digest.SHA256 = hex
			fmt.Fprintf(&sums, "%s  %s\n", hex, subject.Name)
		}
	}
	e.write(submit.SumsFile, []byte(sums.String()))
	for i, subject := range s.Subject {
		if subject.Name == submit.SumsFile {
			s.Subject[i].Digest.SHA256 = strings.TrimPrefix(canonical.Digest([]byte(sums.String())), "sha256:")
		}
	}
	s.Predicate.Audit.ReportSHA256 = canonical.Digest(e.read(audit.ReportFile))
	payload, err = s.Encode()
	e.must(err)
	e.envelope(key, submit.PayloadType, payload)
}

// envelope seals a payload as the attestation, in both forms.
func (e edits) envelope(key sign.Key, payloadType string, payload []byte) {
	e.Helper()
	envelope, err := sign.Seal(key, payloadType, payload)
	e.must(err)
	e.write(submit.AttestationFile, envelope)
	e.write(submit.BundleFile, fmt.Appendf(nil, `{"dsseEnvelope":%s,"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"publicKey":{"hint":%q}}}`, envelope, key.Public().ID()))
}

// TestPackageAttacks: each attack on a package's folder is exit 4, and one line
// that names the file and says what is wrong with it.
func TestPackageAttacks(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	good := packageOf(t, lamps, "2031-02-03")
	older := packageOf(t, lamps, "2031-02-02").Path
	other := packageOf(t, strings.ReplaceAll(lamps, "fourteen lamps", "14 lamps"), "2031-02-03").Path
	unclean := packageOf(t, "Without intent.\n-- plan --\n{\"submit_intent\":false}\n"+lamps[strings.IndexByte(lamps, '\n')+1:], "2031-02-03").Path
	mine, theirs := runs.Key(), strangersKey(t)
	trusted := filepath.Join(t.TempDir(), "key.pub")
	if err := os.WriteFile(trusted, []byte(mine.Public().Line()+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	signed := func(id string) string { return fmt.Sprintf("signed by %q, not by %s", id, mine.Public().ID()) }
	const foreign = "is not what attestation.dsse.json signs"

	tests := []struct {
		name string
		of   string // the package that is attacked; the good one if ""
		edit func(e edits)
		want string
	}{
		{"a bit of the journal", "", func(e edits) { e.replace("events.jsonl", "turn_started", "uurn_started") }, "events.jsonl: " + foreign},
		{"a file added", "", func(e edits) { e.write("notes.txt", nil) }, "notes.txt: is not part of a package"},
		{"a hidden file added", "", func(e edits) { e.write(".notes", nil) }, ".notes: is not part of a package"},
		{"an empty folder added", "", func(e edits) { e.must(os.Mkdir(filepath.Join(e.dir, "bodies"), 0o755)) }, "bodies: is not part of a package"},
		{"a file removed", "", func(e edits) { e.must(os.Remove(filepath.Join(e.dir, "results.jsonl"))) }, "results.jsonl: is missing"},
		{"a file renamed", "", func(e edits) {
			e.must(os.Rename(filepath.Join(e.dir, "metadata.json"), filepath.Join(e.dir, "summary.json")))
		}, "summary.json: is not part of a package"},
		{"a name in other letters", "", func(e edits) {
			e.must(os.Rename(filepath.Join(e.dir, "README.md"), filepath.Join(e.dir, "Readme.md")))
		}, "Readme.md: is not part of a package"},
		{"a second file whose name differs by case", "", func(e edits) { e.write("EVENTS.jsonl", e.read("events.jsonl")) }, "EVENTS.jsonl: is not part of a package"},
		{"a file name that steers the terminal", "", func(e edits) { e.write("\x1b[2J\u202emd.x\nok", nil) }, `"\x1b[2J\u202emd.x\nok": is not part of a package`},
		{"a file of another run's package", "", func(e edits) { e.from(other, "results.jsonl") }, "results.jsonl: " + foreign},
		{"a file of an older package of the run", "", func(e edits) { e.from(older, "README.md") }, "README.md: " + foreign},
		{"the attestation of an older package of the run", "", func(e edits) { e.from(older, submit.AttestationFile, submit.BundleFile) }, "README.md: " + foreign},
		{"one form of an older attestation", "", func(e edits) { e.from(older, submit.BundleFile) }, "attestation.sigstore.json: is not the bundle of attestation.dsse.json"},
		{"the attestation of another run's package", "", func(e edits) { e.from(other, submit.AttestationFile, submit.BundleFile) }, "README.md: " + foreign},
		{"the report replaced by a clean one", unclean, func(e edits) { e.from(good.Path, audit.ReportFile) }, "audit-report.json: " + foreign},
		{"the report replaced by a clean one and signed by another key", unclean, func(e edits) { e.from(good.Path, audit.ReportFile); e.attest(theirs) },
			"attestation.dsse.json: " + signed(theirs.Public().ID())},
		{"the report replaced by a clean one and signed by the run's key", unclean, func(e edits) { e.from(good.Path, audit.ReportFile); e.attest(mine) },
			"audit-report.json: is about another run: \"" + good.Run.Manifest.RunID + "\""},
		{"another conclusion of the report, signed by the run's key", "", func(e edits) { e.replace(audit.ReportFile, `"clean":true`, `"clean":false`); e.attest(mine) },
			"audit-report.json: the attestation does not follow from the checks"},
		{"the signature stripped", "", func(e edits) {
			data := e.read(submit.AttestationFile)
			e.write(submit.AttestationFile, append(data[:bytes.Index(data, []byte(`"signatures":[`))], `"signatures":[]}`...))
		}, "attestation.dsse.json: 0 signatures, not one"},
		{"the signature doubled", "", func(e edits) {
			data := string(e.read(submit.AttestationFile))
			at := strings.Index(data, `{"keyid"`)
			one := data[at : len(data)-2]
			e.write(submit.AttestationFile, []byte(data[:at]+one+","+one+"]}"))
		}, "attestation.dsse.json: 2 signatures, not one"},
		{"signed again by another key", "", func(e edits) { e.attest(theirs) }, "attestation.dsse.json: " + signed(theirs.Public().ID())},
		{"another key's signature under the run's key id", "", func(e edits) {
			e.attest(theirs)
			for _, name := range []string{submit.AttestationFile, submit.BundleFile} {
				e.replace(name, theirs.Public().ID(), mine.Public().ID())
			}
		}, "attestation.dsse.json: the signature is not good"},
		{"a key id that steers the terminal", "", func(e edits) {
			e.replace(submit.AttestationFile, mine.Public().ID(), "\x1b[2J\u202e\u009b")
		}, "attestation.dsse.json: not the canonical JSON of its type"},
		{"a key id of another alphabet", "", func(e edits) { e.replace(submit.AttestationFile, mine.Public().ID(), "\u202e\u009b") },
			`attestation.dsse.json: signed by "\u202e\u009b", not by ` + mine.Public().ID()},
		{"the plan's envelope as attestation", "", func(e edits) { e.write(submit.AttestationFile, e.read(plan.EnvelopeFile)) },
			`attestation.dsse.json: payload type is "` + plan.ManifestType + `", not "` + submit.PayloadType + `"`},
		{"the statement signed as another type", "", func(e edits) {
			payload, err := sign.Unseal(e.read(submit.AttestationFile), submit.PayloadType, mine.Public())
			e.must(err)
			e.envelope(mine, "text/plain", payload)
		}, `attestation.dsse.json: payload type is "text/plain", not "` + submit.PayloadType + `"`},
		{"the plan signed as a statement", "", func(e edits) { e.envelope(mine, submit.PayloadType, e.read(plan.ManifestFile)) }, "attestation.dsse.json: its statement is not the canonical JSON of its type"},
		{"a key shipped along", "", func(e edits) { e.write("key.pub", []byte(theirs.Public().Line())) }, "key.pub: is not part of a package"},
		{"results in another order, signed by the run's key", "", func(e edits) {
			lines := slices.Collect(bytes.Lines(e.read("results.jsonl")))
			slices.Reverse(lines)
			e.write("results.jsonl", bytes.Join(lines, nil))
			e.attest(mine)
		}, "results.jsonl: line 1: is not what the journal gives"},
		{"a symlinked file", "", func(e edits) {
			aside := filepath.Join(e.TempDir(), "aside")
			e.must(os.Rename(filepath.Join(e.dir, "README.md"), aside))
			e.must(os.Symlink(aside, filepath.Join(e.dir, "README.md")))
		}, "README.md: is not a regular file"},
		{"a pipe", "", func(e edits) {
			e.must(os.Remove(filepath.Join(e.dir, "events.jsonl")))
			e.must(syscall.Mkfifo(filepath.Join(e.dir, "events.jsonl"), 0o644))
		}, "events.jsonl: is not a regular file"},
		{"lines that end as on Windows", "", func(e edits) {
			e.write(submit.SumsFile, bytes.ReplaceAll(e.read(submit.SumsFile), []byte("\n"), []byte("\r\n")))
		}, "SHA256SUMS: " + foreign},
	}
	attack := func(name string, edit func(e edits), want string) {
		tests = append(tests, struct {
			name string
			of   string
			edit func(e edits)
			want string
		}{name, "", edit, want})
	}
	for name, line := range map[string]string{"results.jsonl": "line 2: ", "leaderboard.jsonl": "", "trajectories.jsonl": "line 2: "} {
		attack("a line of "+name+" twice, signed by the run's key", func(e edits) {
			lines := slices.Collect(bytes.Lines(e.read(name)))
			e.write(name, bytes.Join(slices.Insert(lines, 1, lines[0]), nil))
			e.attest(mine)
		}, name+": "+line+"is not what the journal gives")
	}
	limits := map[string]int64{"manifest.json": 32 << 20, "manifest.dsse.json": 64 << 20, "attestation.dsse.json": 16 << 20, "attestation.sigstore.json": 32 << 20,
		"events.jsonl": 4 << 30, "trajectories.jsonl": 4 << 30, "SHA256SUMS": 2 << 20, "audit-report.json": 32 << 20,
		"checkpoint": 4 << 10, "constitution.json": 1 << 20, "scorecard.json": 4 << 10, "metadata.json": 16 << 20, "README.md": 16 << 20}
	for _, name := range submit.Files() {
		limit := cmp.Or(limits[name], 256<<20)
		attack(name+" that is as large as a disk", func(e edits) { e.must(os.Truncate(filepath.Join(e.dir, name), 1<<40)) }, fmt.Sprintf("%s: is larger than %d bytes", name, limit))
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			of := good.Path
			if tt.of != "" {
				of = tt.of
			}
			dir := filepath.Join(t.TempDir(), "package")
			if err := os.CopyFS(dir, os.DirFS(of)); err != nil {
				t.Fatal(err)
			}
			args := []string{"verify", "--trusted-key", trusted, dir}
			if code, _, stderr := command(t, args...); code != exit.OK {
				t.Fatalf("before: exit code %d\n%s", code, stderr)
			}
			tt.edit(edits{t, dir})
			for _, json := range []string{"--json=false", "--json"} {
				code, stdout, stderr := command(t, append(args, json)...)
				first, rest, _ := strings.Cut(stderr, "\n")
				if code != exit.Evidence || stdout != "" || rest != "" || first != "gaia: error: "+tt.want {
					t.Errorf("exit code %d, %s%q\nwant %s", code, stdout, stderr, tt.want)
				}
				steers(t, "stderr", stderr)
			}
		})
	}
}

func strangersKey(t *testing.T) sign.Key {
	t.Helper()
	key, err := sign.NewKey(rand.NewChaCha8([32]byte{9}))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// unseen are characters of several kinds that a reader does not see.
const unseen = "\u00ad\u034f\u115f\u180e\u200b\u2800\u3164\ufe0f\ufeff\U000e0041\U000e0100"

// steers refuses text that a terminal does not just show, or shows nothing of.
func steers(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && r != '\t' && visible.Hidden(r) {
			t.Errorf("%s holds %U:\n%q", what, r, text)
			return
		}
	}
}

// TestHostileTexts: what a run is named by, and who says so, is shown and steers
// no terminal.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	const trap = "\x1b[2J\u202e\u009b31m\x7f\u2066" + unseen
	const quoted = `\u001b[2J\u202e\u009b31m\u007f\u2066\n` + unseen
	text := "Hostile names.\n-- plan --\n" + `{"model":{"name":"model` + quoted + `"},"dataset":{"revision":"rev` + quoted + `","split":"split` + quoted + `"},"submit_intent":false}` +
		"\n-- task " + trap + " --\nquestion: " + trap + "\ngold: 14\n-- call " + trap + " {} --\n" + trap + "\n-- answer 14" + trap + " --\n" + trap + "\n"
	p, public := packageOf(t, text, "2031-02-03"), madeOf(t, text, "2031-02-03", true)
	dir, keys, bundle := p.Path, filepath.Join(t.TempDir(), "keys"), filepath.Join(t.TempDir(), "bundle.json")
	discloser := filepath.Join(t.TempDir(), "discloser")
	theirs, err := sign.CreateKey(discloser, rand.NewChaCha8([32]byte{8}))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(keys, []byte(runs.Key().Public().Line()+" alice "+trap+"\n"), 0o644),
		os.WriteFile(keys+"2", []byte(theirs.Public().Line()+" bob "+trap+"\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	a := &app{stdout: &out, stderr: &errs}
	for _, asJSON := range []bool{false, true} {
		if err := errors.Join(a.printPackage(p, asJSON), a.printPackage(public, asJSON)); err != nil {
			t.Fatal(err)
		}
	}
	said := map[string]string{"submit": out.String() + errs.String()}
	for _, args := range [][]string{{"verify"}, {"verify", "--json"}, {"verify", "--trusted-key", keys}, {"verify", "--json", "--trusted-key", keys}, {"audit"}, {"disclose"}} {
		_, stdout, stderr := command(t, append(args, dir)...)
		said[strings.Join(args, " ")] = stdout + stderr
	}
	for _, args := range [][]string{{"verify", "--trusted-key", keys}, {"verify", "--json", "--trusted-key", keys}} {
		code, stdout, stderr := command(t, append(args, public.Path)...)
		if code != exit.OK {
			t.Errorf("%q of a public package: exit code %d\n%s", args, code, stderr)
		}
		said["public "+strings.Join(args[:len(args)-2], " ")] = stdout + stderr
	}
	code, stdout, stderr := trusting(t, "disclose", dir, "--task", trap, "--key", discloser, "-o", bundle)
	if code != exit.OK {
		t.Errorf("disclose: exit code %d\n%s", code, stderr)
	}
	said["disclose --task"] = stdout + stderr
	for what, of := range map[string]string{"full": dir, "public": public.Path} {
		for _, json := range []string{"--json=false", "--json"} {
			code, stdout, stderr := command(t, "verify", bundle, "--trusted-key", keys, "--trusted-key", keys+"2", "--package", of, json)
			if code != exit.OK {
				t.Errorf("a bundle against the %s package: exit code %d\n%s", what, code, stderr)
			}
			said["verify --package "+what+" "+json] = stdout + stderr
		}
	}
	for format, code := range map[string]int{"leaderboard": exit.OK, "csv": exit.OK, "inspect": exit.Failure} { // which takes no such task id
		got, stdout, stderr := trusting(t, "export", dir, "--format", format, "-o", filepath.Join(t.TempDir(), trap))
		if got != code {
			t.Errorf("export --format %s: exit code %d\n%s", format, got, stderr)
		}
		said["export --format "+format] = stdout + stderr
	}
	_, said["export --format csv to standard output"], _ = command(t, "export", dir, "--format", "csv")
	for what, of := range map[string]string{submit.ReadmeFile: dir, "public " + submit.ReadmeFile: public.Path} {
		readme, err := os.ReadFile(filepath.Join(of, submit.ReadmeFile))
		if err != nil {
			t.Fatal(err)
		}
		said[what] = string(readme)
	}
	for what, text := range said {
		steers(t, what, text)
	}
	for _, what := range []string{"submit", "verify", "verify --json", submit.ReadmeFile, "public verify", "public verify --json", "public " + submit.ReadmeFile,
		"verify --package public --json", "export --format inspect", "export --format csv", "export --format csv to standard output"} {
		if !strings.Contains(said[what], `[2J\u202e`) {
			t.Errorf("%s does not show what the run is named by:\n%s", what, said[what])
		}
	}
}

// TestPlacesOfPackages: a link to a package is the package. A whole older package
// of the same run verifies as well: date and name tell them apart.
func TestPlacesOfPackages(t *testing.T) {
	t.Parallel()
	p, older := packageOf(t, lamps, "2031-02-03"), packageOf(t, lamps, "2031-02-02")
	keys, link := filepath.Join(t.TempDir(), "key.pub"), filepath.Join(t.TempDir(), "link")
	if err := os.WriteFile(keys, []byte(runs.Key().Public().Line()+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(older.Path, link); err != nil {
		t.Fatal(err)
	}
	for dir, date := range map[string]string{p.Path: "2031-02-03", link: "2031-02-02"} {
		code, stdout, stderr := command(t, "verify", "--json", "--trusted-key", keys, dir)
		if code != exit.OK || !strings.Contains(stdout, `"date":"`+date+`"`) || !strings.Contains(stdout, `"name":"submission-`+date+"-") {
			t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
		}
	}
}
