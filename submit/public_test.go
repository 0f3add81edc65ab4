package submit

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// variedConfig is how to package the first of the two runs in which everything
// happens; what is found at single tasks was decided about.
func variedConfig(t *testing.T, c runs.Case) Config {
	t.Helper()
	config := configOf(t, c)
	config.AllowDirty = true
	report, run := audited(t, config)
	for _, check := range report.Checks {
		for _, f := range check.Findings {
			if audit.Void.Refuses(f) == "" {
				decide(t, config, audit.NewRuling(run, f, audit.Void, "it was tried", "2031-02-03T04:05:06.789Z"))
			}
		}
	}
	return config
}

// both packages a run in full and in public.
func both(t *testing.T, c Config) (full, public Package) {
	t.Helper()
	full = mustBuild(t, c)
	c.Public = true
	return full, mustBuild(t, c)
}

// TestPublic: what a public package has and says, beside the full one of the same
// run.
func TestPublic(t *testing.T) {
	first, _ := runs.Varied()
	for what, c := range map[string]Config{"a clean run": config(t, two), "a run with findings": variedConfig(t, first)} {
		full, public := both(t, c)
		whole, files := load(t, full.Path), load(t, public.Path)
		if names := slices.Sorted(maps.Keys(files)); !slices.Equal(names, publicPackageFiles(nil)) || !slices.IsSorted(publicPackageFiles(nil)) {
			t.Errorf("%s: the files are %q", what, names)
		}
		for _, name := range []string{plan.ManifestFile, plan.EnvelopeFile, trajectory.CheckpointFile, MetadataFile} {
			if !bytes.Equal(whole[name], files[name]) {
				t.Errorf("%s: %s is not the full package's", what, name)
			}
		}
		p, err := VerifyPublic(os.DirFS(public.Path), Options{})
		if err != nil {
			t.Fatal(what, err)
		}
		said, of := p.Statement.Predicate, full.Statement.Predicate
		if public.Name != full.Name+"-public" || said.Name != public.Name || filepath.Base(public.Path) != public.Name || !said.Public || of.Public {
			t.Errorf("%s: %q and %q", what, full.Name, public.Name)
		}
		for _, w := range said.Withheld {
			want := ""
			if w.Name == trajectory.JournalFile {
				want = canonical.Digest(whole[w.Name])
			}
			if whole[w.Name] == nil || files[w.Name] != nil || w.SHA256 != want {
				t.Errorf("%s: %+v is withheld", what, w)
			}
		}
		if hidden := len(whole) + 1 - len(files); len(said.Withheld) != hidden {
			t.Errorf("%s: %d files are withheld, of %d", what, len(said.Withheld), hidden)
		}
		checks := said.Audit.Checks
		said.Audit.Checks, of.Audit.ReportSHA256 = nil, ""
		if form(said.Audit) != form(of.Audit) || form(said.Scores) != form(of.Scores) || said.Dirty != of.Dirty || form(said.VoidTasks) != form(of.VoidTasks) {
			t.Errorf("%s: %+v, in full %+v", what, said, of)
		}
		for i, c := range full.Report.Checks {
			if checks[i].ID != c.ID || checks[i].Status != c.Status || checks[i].Findings != len(c.Findings) || checks[i].Gaps != len(c.Gaps) {
				t.Errorf("%s: %+v", what, checks[i])
			}
		}
		for _, claim := range said.Claims {
			if claim.Status != BySigner && claim.Status != Absent {
				t.Errorf("%s: %s is %s in the statement", what, claim.Claim, claim.Status)
			}
		}
		if got := verifiedClaims(p.Claims(Given{Questions: true})); !slices.Equal(got, []string{"plan", "tree"}) {
			t.Errorf("%s: verified: %q", what, got)
		}
		for i, r := range p.Results {
			if recorded := full.Run.Result(full.Run.Tasks[i]); form(newPublicResult(recorded)) != form(r) || r.Answered != (recorded.ModelAnswer != nil) {
				t.Errorf("%s: %+v", what, r)
			}
		}
		c.Public, c.Out = true, t.TempDir()
		for name, data := range load(t, mustBuild(t, c).Path) {
			if !bytes.Equal(data, files[name]) {
				t.Errorf("%s: %s differs from one time to the next", what, name)
			}
		}
	}
}

// TestPublicRefuses: what is refused as a full package is refused as a public one,
// and why recording failed is not told.
func TestPublicRefuses(t *testing.T) {
	c := config(t, subset(t))
	c.Public = true
	var refusal *Refusal
	if _, err := Build(context.Background(), c); !errors.As(err, &refusal) || refusal.Final {
		t.Errorf("an unlabelled subset: %v", err)
	}
	nothingLeft(t, c.Out)
	c = config(t, planned(two, `{"submit_intent":false}`))
	c.AllowDirty, c.Public = true, true
	if p := mustBuild(t, c); !strings.HasSuffix(p.Name, "-dirty-public") {
		t.Errorf("%q", p.Name)
	}
	c = config(t, change(t, two, "-- task "+secondTask+" --", "-- event run_resumed --\n{\"unsubmittable\":\"writing /srv/ostrel/run: no space\"}\n-- task "+secondTask+" --"))
	c.AllowDirty, c.Public = true, true
	if _, err := Build(context.Background(), c); !errors.As(err, &refusal) || !refusal.Final || strings.Contains(refusal.Reasons[0], "/srv") {
		t.Errorf("a summary that tells why recording failed: %v", err)
	}
	nothingLeft(t, c.Out)
	c.Public = false
	mustBuild(t, c)
	for patch, why := range map[string]string{
		`{"path":"later_path"}`:             `line 1 of results.jsonl ends as "solved", which the rest of it does not give: `,
		`{"path":"too_long","judged":null}`: `line 1 of results.jsonl ends as "solved", which the rest of it does not give: `,
		`{"path":"judge","official":false}`: "summary.json miscounts what the journal tells: ",
	} {
		c := config(t, change(t, two, "-- answer 14 --\n", "-- patch judgment --\n"+patch+"\n-- answer 14 --\n"))
		c.AllowDirty, c.Public = true, true
		if _, err := Build(context.Background(), c); !errors.As(err, &refusal) || !refusal.Final || !strings.HasPrefix(refusal.Reasons[0], why) {
			t.Errorf("a judgment that no run makes, %s: %v", patch, err)
		}
		nothingLeft(t, c.Out)
	}
}

// TestPublicHoldsNoText plants words that stand nowhere else, and looks for them in
// a public package, and for digests that who knows all but an answer could try
// guesses on: those of the withheld files, and all that stand in these.
func TestPublicHoldsNoText(t *testing.T) {
	text := strings.NewReplacer("In which town did the clockmaker", "In qwestplant which town did the clockmaker", "gold: Brellin", "gold: Ansplantus",
		`"Final answer": "Brellin"`, `"Final answer": "Ansplantus"`, "answer Brellin", "answer Ansplantus", "gold: Tolmey", "gold: Goldplantus",
		"The record says so.", "The reasonplant says so.", "notes.example/first", "notes.example/urlplant").Replace(leaked)
	c := config(t, text)
	c.AllowDirty = true
	r := ruling(t, c, audit.Void, leakRule, firstTask)
	r.Reason = "a page rulingplant held the record"
	decide(t, c, r)
	put(t, filepath.Join(c.Run, rundir.MarkerFile), []byte("writing /home/hostplant/runs/events.jsonl: no space left"))
	full, public := both(t, c)
	run, err := rundir.Verify(os.DirFS(c.Run), rundir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	words := []string{"qwestplant", "Ansplantus", "Goldplantus", "reasonplant", "urlplant", "rulingplant", "hostplant", c.Gold.Salt, filepath.Dir(c.Run),
		"Final answer", hex.EncodeToString(run.Tasks[0].Salt[:]), canonical.Digest([]byte("Ansplantus"))}
	var all [2]bytes.Buffer
	for i, dir := range []string{full.Path, public.Path} {
		for name, data := range load(t, dir) {
			all[i].WriteString(name + "\n")
			all[i].Write(data)
			if name == AttestationFile {
				var envelope struct {
					Payload []byte `json:"payload"`
				}
				decodeLoosely(t, data, &envelope)
				all[i].Write(envelope.Payload)
			}
		}
	}
	// A guess at a question needs the salt of its task, which a public package withholds.
	const question = "In qwestplant which town did the clockmaker Odile Varn build the tower clock of the harbour museum in the year 1852?"
	if !run.Tasks[0].Asks(question) || run.Tasks[0].Asks(question+" ") {
		t.Errorf("the salt of a task does not confirm its question")
	}
	words = append(words, canonical.Digest([]byte(question)))
	whole, files := load(t, full.Path), load(t, public.Path)
	// What the plan tells, the files that are there, and the journal, which has the salts.
	known := []string{string(files[plan.ManifestFile]), full.Statement.Predicate.Journal.Head, canonical.Digest(whole[trajectory.JournalFile])}
	for _, data := range files {
		known = append(known, canonical.Digest(data))
	}
	for name, data := range whole {
		if _, there := files[name]; there && name != rundir.ResultsFile {
			continue
		}
		if salt := []byte(hex.EncodeToString(run.Tasks[0].Salt[:])); bytes.Contains(data, salt) != (name == trajectory.JournalFile) {
			t.Errorf("%s: that it has the salts is not so, or not of the journal alone", name)
		}
		for _, digest := range append(regexp.MustCompile(`[0-9a-f]{64}`).FindAllString(string(data), -1), strings.TrimPrefix(canonical.Digest(data), "sha256:")) {
			if slices.ContainsFunc(known, func(s string) bool { return strings.Contains(s, digest) }) {
				continue
			}
			sum, err := hex.DecodeString(digest)
			if err != nil {
				t.Fatal(err)
			}
			words = append(words, digest, strings.ToUpper(digest), base64.RawStdEncoding.EncodeToString(sum), base64.RawURLEncoding.EncodeToString(sum))
		}
	}
	if len(words) < 200 {
		t.Errorf("only %d words to look for", len(words))
	}
	for i, word := range words {
		if i < 7 && word != "Goldplantus" && !bytes.Contains(all[0].Bytes(), []byte(word)) {
			t.Errorf("%q was not planted", word)
		}
		if bytes.Contains(all[1].Bytes(), []byte(word)) {
			t.Errorf("the public package holds %q", word)
		}
	}
	if !bytes.Contains(all[1].Bytes(), []byte(`AUD-1 answer-leakage fails (CRITICAL): task \"`+secondTask+`\", line `)) {
		t.Error("the public package does not say why the run would have been refused")
	}
}

// TestPublicTexts: what a plan tells that is not this program's.
func TestPublicTexts(t *testing.T) {
	m := plan.New()
	m.Tools = []plan.ToolPlan{{Name: "calculate"}}
	if texts := PublicTexts(m); len(texts) > 0 {
		t.Errorf("%q", texts)
	}
	m.Tools = append(m.Tools, plan.ToolPlan{Name: "notes__add", Server: "mcp:notes", Env: []string{"A", "B"}}, plan.ToolPlan{Name: "notes__find", Server: "mcp:notes", Env: []string{"A", "B"}},
		plan.ToolPlan{Name: "tide__at", Server: "mcp:tide http://tide.example"})
	m.Policy.AnswerSources, m.Policy.Commands, m.Policy.Packages = []string{"ostrel.example"}, []string{"tide"}, []string{"tides"}
	want := []string{`the name of the MCP server "notes" and its description of 2 tools`, `the name of the MCP server "tide http://tide.example" and its description of 1 tool`,
		`the names of 2 variables that the MCP server "notes" is given`,
		"what the policy file has under answer_sources", "what the policy file has under commands", "what the policy file has under packages"}
	if texts := PublicTexts(m); !slices.Equal(texts, want) {
		t.Errorf("%q", texts)
	}
}

// disclosed verifies a bundle of a task, or of the whole run.
func disclosed(t testing.TB, run *rundir.Run, dir, task string) *rundir.Disclosure {
	t.Helper()
	data, err := run.Disclose(os.DirFS(dir), task, runs.Key())
	if err != nil {
		t.Fatal(err)
	}
	d, err := rundir.VerifyBundle(data)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDisclosedAgainst: every task of every honest run, and the run as a whole, is
// shown to be what its package says, the public one and the full one. Of the drawn
// runs it takes a few, in the thorough run more.
func TestDisclosedAgainst(t *testing.T) {
	long.NotRaced(t)
	cases := runs.Good()
	first, _ := runs.Varied()
	cases["varied"] = first
	seeds := uint64(3)
	if long.Thorough() {
		seeds = 12
	}
	for seed := range seeds {
		cases["honest "+string(rune('a'+seed))] = runs.Honest(seed)
	}
	const resumed = "-- event run_resumed --\n{}\n-- event attempt_ended --\n"
	for what, text := range map[string]string{
		"cut off":             "-- call web_fetch {\"url\":\"http://almanac.example/harbours.html\"} --\nTolmey\n" + resumed + `{"outcome":"error","reason":"interrupted"}`,
		"cut off with answer": "-- patch attempt_ended --\nnull\n-- answer Ostrel --\nIt says so.\n" + resumed + `{"outcome":"answered","reason":"interrupted"}`,
	} {
		c, err := runs.Parse(change(t, two, "-- no answer --\nI do not know.\n", text+"\n"))
		if err != nil {
			t.Fatal(what, err)
		}
		cases[what] = c
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := configOf(t, c)
			config.AllowDirty = true
			full, public := both(t, config)
			p, err := VerifyPublic(os.DirFS(public.Path), Options{})
			if err != nil {
				t.Fatal(err)
			}
			tasks := []string{""}
			for _, task := range full.Run.Tasks {
				tasks = append(tasks, task.Plan.TaskID)
			}
			for _, task := range tasks {
				d := disclosed(t, full.Run, config.Run, task)
				if err := p.Shows(d); err != nil {
					t.Errorf("task %q against the public package: %v", task, err)
				}
				if err := full.Shows(os.DirFS(full.Path), d); err != nil {
					t.Errorf("task %q against the full package: %v", task, err)
				}
			}
		})
	}
}

// TestDisclosedOther: bundles of another run, and packages that say other than
// what happened.
func TestDisclosedOther(t *testing.T) {
	c := config(t, two)
	full, public := both(t, c)
	other := mustBuild(t, config(t, change(t, two, "gold: 14", "gold: 15")))
	p, err := VerifyPublic(os.DirFS(public.Path), Options{})
	if err != nil {
		t.Fatal(err)
	}
	files := load(t, public.Path)
	lying := func(edit func(fstest.MapFS), change func(*Statement)) *Public {
		t.Helper()
		pkg := memory(files)
		edit(pkg)
		republish(t, pkg, change)
		p, err := VerifyPublic(pkg, byAnother())
		if err != nil {
			t.Fatalf("what only a disclosure shows: %v", err)
		}
		return p
	}
	liar := lying(func(p fstest.MapFS) {
		for _, name := range []string{rundir.ResultsFile, MetadataFile} {
			p[name].Data = bytes.Replace(files[name], []byte(`"tool_calls":1`), []byte(`"tool_calls":0`), 1)
		}
	}, nil)
	retried := lying(func(p fstest.MapFS) {
		p[MetadataFile].Data = bytes.Replace(files[MetadataFile], []byte(`"retried_calls":0`), []byte(`"retried_calls":1`), 1)
	}, func(s *Statement) { s.Predicate.Exceptions.RetriedCalls = 1 })
	elsewhere := lying(func(fstest.MapFS) {}, func(s *Statement) {
		w := s.Predicate.Withheld
		w[slices.IndexFunc(w, isJournal)].SHA256 = s.Predicate.Journal.Head
	})
	longer := lying(func(fstest.MapFS) {}, func(s *Statement) { s.Predicate.Prompts.Bytes++; s.Predicate.Prompts.Witnessed++ })
	silent := lying(func(fstest.MapFS) {}, func(s *Statement) { s.Predicate.Prompts = nil })
	for _, share := range []rundir.Share{{Bytes: 10, Witnessed: 9}, {Bytes: 10, Witnessed: 11}, {Bytes: -1, Witnessed: -1}, {}} {
		pkg := memory(files)
		republish(t, pkg, func(s *Statement) { s.Predicate.Prompts = &share })
		_, err := VerifyPublic(pkg, byAnother())
		wantFaultIn(t, "inputs of no run of the built-in agent", err, AttestationFile)
	}
	unrecorded := config(t, change(t, two, "-- task "+secondTask+" --", "-- event run_resumed --\n{\"unsubmittable\":\"no space\"}\n-- task "+secondTask+" --"))
	unrecorded.AllowDirty = true
	whole := mustBuild(t, unrecorded)
	hushed, err := VerifyPublic(hush(t, whole), byAnother())
	if err != nil {
		t.Fatalf("what only a disclosure shows: %v", err)
	}
	older := disclosed(t, full.Run, c.Run, firstTask)
	older.Bundle.Checkpoint += " "
	leaf := disclosed(t, full.Run, c.Run, firstTask)
	leaf.Leaf[0] ^= 1
	tests := []struct {
		name string
		err  error
		file string
	}{
		{"another run", p.Shows(disclosed(t, other.Run, other.Path, firstTask)), "manifest"},
		{"another run, whole", p.Shows(disclosed(t, other.Run, other.Path, "")), "manifest"},
		{"another run, in full", full.Shows(os.DirFS(full.Path), disclosed(t, other.Run, other.Path, firstTask)), "manifest"},
		{"another checkpoint", p.Shows(older), trajectory.CheckpointFile},
		{"another leaf", p.Shows(leaf), "leaf"},
		{"another record", liar.Shows(disclosed(t, full.Run, c.Run, firstTask)), rundir.ResultsFile},
		{"another record, whole", liar.Shows(disclosed(t, full.Run, c.Run, "")), rundir.ResultsFile},
		{"another summary, whole", retried.Shows(disclosed(t, full.Run, c.Run, "")), MetadataFile},
		{"another summary", retried.Shows(disclosed(t, full.Run, c.Run, firstTask)), ""},
		{"another journal, whole", elsewhere.Shows(disclosed(t, full.Run, c.Run, "")), AttestationFile},
		{"another journal", elsewhere.Shows(disclosed(t, full.Run, c.Run, firstTask)), ""},
		{"other inputs, whole", longer.Shows(disclosed(t, full.Run, c.Run, "")), AttestationFile},
		{"other inputs", longer.Shows(disclosed(t, full.Run, c.Run, firstTask)), ""},
		{"no inputs, as of an earlier version", silent.Shows(disclosed(t, full.Run, c.Run, "")), ""},
		{"no word of failed recording", hushed.Shows(disclosed(t, whole.Run, unrecorded.Run, "")), AttestationFile},
		{"a record that is right", liar.Shows(disclosed(t, full.Run, c.Run, secondTask)), ""},
	}
	for _, tt := range tests {
		wantFaultIn(t, tt.name, tt.err, tt.file)
	}
}

// hush returns the public package of a run whose recording failed, by a person who
// does not say so.
func hush(t *testing.T, whole Package) fstest.MapFS {
	t.Helper()
	said := whole.Statement.Predicate.says()
	said.RecordingFailed = ""
	e, err := newEvidence(whole.Run, whole.Report, len(whole.Later), said)
	if err != nil {
		t.Fatal(err)
	}
	for i := range e.summary.Interruptions {
		e.summary.Interruptions[i].Unsubmittable = ""
	}
	pkg := memory(load(t, whole.Path))
	derived, err := publicFiles(whole.Run)
	if err != nil {
		t.Fatal(err)
	}
	if derived[MetadataFile], err = e.summary.Encode(); err != nil {
		t.Fatal(err)
	}
	for name, data := range derived {
		pkg[name] = &fstest.MapFile{Data: data, Mode: 0o644}
	}
	maps.DeleteFunc(pkg, func(name string, _ *fstest.MapFile) bool { return !slices.Contains(publicPackageFiles(nil), name) })
	republish(t, pkg, func(s *Statement) {
		subject := s.Subject
		*s = e.published(whole.Run, whole.Report).statement()
		s.Subject = subject
	})
	return pkg
}

// TestPublicShell runs the lines of a public package's README, and with
// GAIA_INTEROP=1 the script for Node.
func TestPublicShell(t *testing.T) {
	c := config(t, two)
	c.Public = true
	p := mustBuild(t, c)
	files, aside := load(t, p.Path), t.TempDir()
	key := filepath.Join(aside, "key.pub")
	put(t, key, []byte(runs.Key().Public().Line()+" someone@harbour.example\n"))
	put(t, filepath.Join(aside, "check.sh"), []byte(shellBlock(t, files[ReadmeFile])))
	put(t, filepath.Join(aside, "verify.mjs"), []byte(documented(t, "### Node", "```js")))
	commands := map[string]func() *exec.Cmd{}
	add := func(programs []string, args ...string) {
		for _, program := range programs {
			if _, err := exec.LookPath(program); err != nil {
				t.Logf("SKIPPED: there is no %s here", program)
				return
			}
		}
		commands[programs[0]] = func() *exec.Cmd {
			cmd := exec.Command(programs[0], args...)
			cmd.Dir = p.Path
			return cmd
		}
	}
	add([]string{"sh", "openssl", "jq", "sha256sum"}, filepath.Join(aside, "check.sh"), key)
	if os.Getenv("GAIA_INTEROP") == "1" {
		add([]string{"node"}, filepath.Join(aside, "verify.mjs"), key, p.Path)
	}
	if len(commands) == 0 {
		t.Skip("SKIPPED: neither shell lines nor script could be tried")
	}
	for program, command := range commands {
		if ok, out := accepts(t, command()); !ok || !strings.HasSuffix(out, "accepted\n") {
			t.Errorf("%s refuses the package: %s", program, out)
		}
		refused := func(what string) {
			t.Helper()
			if ok, out := accepts(t, command()); ok || strings.Contains(out, "accepted") {
				t.Errorf("%s accepts %s: %s", program, what, out)
			}
		}
		for _, name := range publicPackageFiles(nil) {
			put(t, filepath.Join(p.Path, name), flipped(files[name], len(files[name])/2))
			refused(name + " changed")
			put(t, filepath.Join(p.Path, name), files[name])
		}
		put(t, filepath.Join(p.Path, trajectory.JournalFile), nil)
		refused("a journal")
		if err := os.Remove(filepath.Join(p.Path, trajectory.JournalFile)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDocumentedPublic: docs/formats.md names every file.
func TestDocumentedPublic(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "formats.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n### Public package ")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, name := range publicPackageFiles(nil) {
		if !strings.Contains(section, "`"+name+"`") {
			t.Errorf("docs/formats.md does not name %s", name)
		}
	}
}

// byAnother has another program verify than the one that packaged, so that README.md
// is not rebuilt.
func byAnother() Options {
	return Options{Harness: func() (trajectory.Harness, error) {
		return trajectory.Harness{ExecutableSHA256: canonical.Digest(nil)}, nil
	}}
}

// republish lists and signs what a public package now holds; change, if not nil,
// changes what is said of it.
func republish(t testing.TB, pkg fstest.MapFS, change func(*Statement)) {
	t.Helper()
	var envelope struct {
		Payload []byte `json:"payload"`
	}
	decodeLoosely(t, pkg[AttestationFile].Data, &envelope)
	var s Statement
	if err := canonical.Decode(envelope.Payload, &s); err != nil {
		t.Fatal(err)
	}
	digests := map[string]string{}
	for _, name := range signedFiles(slices.Sorted(maps.Keys(pkg))) {
		if name != SumsFile {
			digests[name] = canonical.Digest(pkg[name].Data)
		}
	}
	pkg[SumsFile] = &fstest.MapFile{Data: sums(newSubjects(digests)), Mode: 0o644}
	digests[SumsFile] = canonical.Digest(pkg[SumsFile].Data)
	s.Subject = newSubjects(digests)
	if change != nil {
		change(&s)
	}
	if err := seal(runs.Key(), s, func(name string, data []byte) error {
		pkg[name] = &fstest.MapFile{Data: data, Mode: 0o644}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
