package board

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
)

// run makes a board of a folder, and fails the test if that fails.
func run(t testing.TB, folder, rules string) (Result, map[string]string) {
	t.Helper()
	put(t, filepath.Join(folder, RulesFile), rules)
	out := filepath.Join(t.TempDir(), "site")
	r, err := Run(context.Background(), Config{Packages: folder, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	return r, site(t, out)
}

func codeOf(err error) int {
	if err == nil {
		return exit.OK
	}
	return exit.Of(err).Code
}

// TestSameRun: of a run that one key vouches for twice, or that two keys vouch for, no package counts, whatever its
// date; a key that is not trusted takes no package its rank.
func TestSameRun(t *testing.T) {
	second := otherKey(t, 2)
	one := made{about: "Lamps.", right: 2, tasks: 3}
	other := one
	other.forge, other.date = "shift 3600", "2031-02-04"
	theirs := one
	theirs.key, theirs.date = second, "2031-02-05"
	folder := t.TempDir()
	a, b, c := filepath.Base(one.pack(t, folder).Path), filepath.Base(other.pack(t, folder).Path), filepath.Base(theirs.pack(t, folder).Path)
	r, _ := run(t, folder, onBoard+trusting(runs.Key()))
	got := reasonsOf(r)
	equivocation := fmt.Sprintf("equivocation: the key %s signed another ", runs.Key().Public().ID())
	if !strings.HasPrefix(got[a], equivocation) || got[a] != got[b] || !strings.Contains(got[a], " at "+a+", ") || !strings.HasPrefix(got[c], "its signer is not trusted") || len(r.Data.Packages) != 0 {
		t.Errorf("one key twice: %v", got)
	}
	if err := os.RemoveAll(filepath.Join(folder, b)); err != nil {
		t.Fatal(err)
	}
	if r, _ = run(t, folder, onBoard+trusting(runs.Key())); len(r.Data.Packages) != 1 || r.Data.Packages[0].File != a {
		t.Errorf("an untrusted key took the rank of a package: %v", reasonsOf(r))
	}
	r, _ = run(t, folder, onBoard+trusting(runs.Key(), *second))
	got = reasonsOf(r)
	if got[a] != fmt.Sprintf("the key %s signed a run of the same id: %s", second.Public().ID(), c) || got[c] != fmt.Sprintf("the key %s signed a run of the same id: %s", runs.Key().Public().ID(), a) {
		t.Errorf("two keys: %v", got)
	}
	// Of full and public packages of a run a full one counts, also an older one, and the others are no failures.
	full := made{about: "Both.", right: 2, tasks: 3}
	public := full
	public.public, public.date = true, "2031-02-04"
	folder = t.TempDir()
	a, b = filepath.Base(full.pack(t, folder).Path), filepath.Base(public.pack(t, folder).Path)
	r, _ = run(t, folder, onBoard+trusting(runs.Key()))
	if got := reasonsOf(r); got[a] != "" || got[b] != a+" of the same run counts in its place" {
		t.Errorf("full and public: %v", got)
	}
	for _, rules := range []string{"", "full-only: true\n"} {
		put(t, filepath.Join(folder, RulesFile), onBoard+trusting(runs.Key())+rules)
		if _, err := Run(context.Background(), Config{Packages: folder, Check: true}); err != nil {
			t.Errorf("%q: the check of a run that is there twice: %v", rules, err)
		}
	}
	// Where the full one does not count, neither does what the public one says.
	put(t, filepath.Join(folder, RulesFile), onBoard+trusting(runs.Key())+"exclude:\n  - package: "+a+"\n    reason: It was withdrawn.\n")
	r, err := Run(context.Background(), Config{Packages: folder, Check: true})
	if got := reasonsOf(r); err != nil || len(r.Data.Packages) != 0 || got[b] != "the full package of the same run does not count: "+a {
		t.Errorf("a run that is left out counts by its public package: %v, %v", got, err)
	}
	refused, twin := &entry{file: "full", row: &Row{RunID: "1"}}, &entry{file: "twin", row: &Row{RunID: "1", Public: true}}
	refused.reject(exit.Findings, "check AUD-4 has the status fail, and is required")
	chooseOfRun([]*entry{twin, refused}, Rules{})
	if l := twin.line(); l.Counts || l.ExitCode != exit.Findings {
		t.Errorf("the public package of a run that is refused: %+v", l)
	}
}

// TestRequired: rules of board.yaml that packages do not meet, and a check that ends well once they are excluded.
func TestRequired(t *testing.T) {
	folder := t.TempDir()
	p := made{about: "Public.", right: 2, tasks: 3, public: true}.pack(t, folder)
	name := filepath.Base(p.Path)
	full := filepath.Base(made{about: "Full.", right: 2, tasks: 3}.pack(t, folder).Path)
	revision := "it is of revision " + p.Run.Manifest.Dataset.Revision + " of the dataset, not main"
	const split, selected = "it is of split validation of invented-tasks, not of split test of invented-tasks", `its tasks are "all", not "level=1"`
	for _, tc := range []struct{ rules, public, full string }{
		{"full-only: true\n", "it is a public package, and only full ones count", ""},
		{"revision: main\n", revision, revision},
		{"split: test\n", split, split},
		{"selection: level=1\n", selected, selected},
		{"exclude:\n  - package: " + p.AttestationSHA256 + "\n    reason: It is a copy.\n", "excluded by board.yaml: It is a copy.", ""},
		{"exclude:\n  - package: " + p.Name + "\n    reason: It is a copy.\n", "excluded by board.yaml: It is a copy.", ""},
		{"checks: []\n", "", ""},
	} {
		r, _ := run(t, folder, onBoard+trusting(runs.Key())+tc.rules)
		if got := reasonsOf(r); got[name] != tc.public || got[full] != tc.full {
			t.Errorf("%q: %v", tc.rules, got)
		}
		_, err := Run(context.Background(), Config{Packages: folder, Check: true})
		want := exit.Findings
		if tc.public == "" || strings.HasPrefix(tc.public, "excluded") {
			want = exit.OK
		}
		if code := codeOf(err); code != want {
			t.Errorf("%q: the check ends with %d, want %d: %v", tc.rules, code, want, err)
		}
	}
	put(t, filepath.Join(folder, RulesFile), onBoard+trusting(runs.Key())+"exclude:\n  - package: none\n    reason: x\n")
	if _, err := Run(context.Background(), Config{Packages: folder, Check: true}); codeOf(err) != exit.Usage || !strings.Contains(err.Error(), `the exclusion of "none"`) {
		t.Errorf("an exclusion that matches nothing: %v", err)
	}
	e := &entry{row: &Row{}, tasks: make([]stats.Scored, 1), checks: []submit.CheckResult{{ID: "AUD-1", Status: audit.Pass}, {ID: "AUD-2", Status: audit.NotApplicable},
		{ID: "AUD-3", Status: audit.Review}, {ID: "AUD-4", Status: audit.Skip}, {ID: "AUD-5", Status: audit.Fail}}}
	e.decide(Rules{Checks: []string{"AUD-1", "AUD-2", "AUD-3", "AUD-4", "AUD-5", "AUD-6"}})
	var got []string
	for _, r := range e.reasons {
		got = append(got, r.text)
	}
	if want := []string{"check AUD-3 has the status review, and is required", "check AUD-4 has the status skip, and is required", "check AUD-5 has the status fail, and is required",
		"its audit has no check AUD-6"}; !slices.Equal(got, want) {
		t.Errorf("checks: %q", got)
	}
}

// TestIgnored: what is no package is named, and is no failure; a package that lost files is never taken for another
// folder.
func TestIgnored(t *testing.T) {
	folder := t.TempDir()
	p := made{about: "Alone.", right: 2, tasks: 3}.pack(t, folder)
	put(t, filepath.Join(folder, RulesFile), onBoard+trusting(runs.Key()))
	put(t, filepath.Join(folder, "alice.pub"), "ssh-ed25519")
	for _, name := range []string{"notes", "\x1b[31m", ".git"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(folder, name, "results.txt"), "text")
	}
	var said strings.Builder
	r, err := Run(context.Background(), Config{Packages: folder, Check: true, Progress: &said})
	if err != nil || len(r.Lines) != 1 || !strings.HasPrefix(said.String(), "not packages, and ignored: ") ||
		!strings.Contains(said.String(), "alice.pub, notes\n") || strings.ContainsAny(said.String(), "\x1b") || strings.Contains(said.String(), ".git") {
		t.Errorf("%v, %+v: %q", err, r.Lines, said.String())
	}
	for range maxIgnored + 2 {
		if err := os.MkdirAll(filepath.Join(folder, fmt.Sprint("b", len(site(t, folder)))), 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(folder, fmt.Sprint("b", len(site(t, folder))), "x"), "")
	}
	said.Reset()
	if _, err := Run(context.Background(), Config{Packages: folder, Check: true, Progress: &said}); err != nil || strings.Count(said.String(), ",") != maxIgnored+1 || !strings.Contains(said.String(), ", …\n") {
		t.Errorf("%v: %q", err, said.String())
	}
	for _, left := range []string{"", "manifest.json", trajectory.JournalFile, submit.SumsFile} {
		name := "renamed"
		if left == "" {
			name = p.Name + "-2"
		}
		damaged := filepath.Join(folder, name)
		if err := os.Mkdir(damaged, 0o755); err != nil {
			t.Fatal(err)
		}
		if left != "" {
			put(t, filepath.Join(damaged, left), "")
		}
		if r, err := Run(context.Background(), Config{Packages: folder, Check: true}); codeOf(err) != exit.Evidence || len(r.Lines) != 2 {
			t.Errorf("a package that kept only %q: %v, %+v", left, err, r.Lines)
		}
		if err := os.RemoveAll(damaged); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNotWritten: a site that cannot be written is not said to be.
func TestNotWritten(t *testing.T) {
	folder, out := t.TempDir(), filepath.Join(t.TempDir(), "site")
	if _, err := Run(context.Background(), Config{Packages: folder, Check: true}); codeOf(err) != exit.Usage {
		t.Errorf("the check of a folder without packages: %v", err)
	}
	if r, err := Run(context.Background(), Config{Packages: folder, Out: out}); err != nil || r.Out != out {
		t.Fatalf("%+v, %v", r, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	put(t, file, "")
	for _, tc := range []Config{{Packages: folder, Out: filepath.Join(file, "site")}, {Packages: folder, Out: "/proc/site"}} {
		r, err := Run(context.Background(), tc)
		var said strings.Builder
		if failed := r.Print(&said, false); err == nil || r.Out != "" || failed != nil || strings.Contains(said.String(), "written") {
			t.Errorf("%s: %v, %q", tc.Out, err, said.String())
		}
	}
}

// TestListed: a page lists what was found by rule and place, with the reason of a decision that closed it.
func TestListed(t *testing.T) {
	var r audit.Report
	for n := range maxFindings + 5 {
		f := audit.Finding{ID: fmt.Sprint(n), RuleID: "AUD-1.uuid-with-answer", Severity: audit.High, Seq: int64(n), Got: "text of a task"}
		if n == 1 {
			f.Closed, f.TaskID = audit.Void, "task"
		}
		r.Checks = append(r.Checks, audit.CheckReport{Findings: []audit.Finding{f}})
	}
	r.Adjudications = []audit.Adjudicated{{Finding: "1", Reason: "It was told."}, {Finding: "2", Reason: "Not heard."}}
	got := listed(r)
	if len(got) != maxFindings || got[1] != (Finding{Closed: "void", Line: 2, Reason: "It was told.", Rule: "AUD-1.uuid-with-answer", Severity: "HIGH", TaskID: "task"}) || got[2].Reason != "" {
		t.Errorf("%d findings: %+v", len(got), got[:3])
	}
}

// TestDefaults: without board.yaml only GAIA counts, by the keys of the reader, and the page says so.
func TestDefaults(t *testing.T) {
	folder, out := t.TempDir(), filepath.Join(t.TempDir(), "site")
	name := filepath.Base(made{about: "Lamps.", right: 2, tasks: 3}.pack(t, folder).Path)
	r, err := Run(context.Background(), Config{Packages: folder, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	if got := reasonsOf(r)[name]; !strings.Contains(got, "its signer is not trusted") || !strings.Contains(got, "not of split validation of gaia-benchmark/GAIA") {
		t.Errorf("%q", got)
	}
	files := site(t, out)
	checkSite(t, files)
	for _, want := range []string{"has no board.yaml", "the keys of whoever made this board", "none is trusted", "No package counts."} {
		if !strings.Contains(files["index.html"], want) {
			t.Errorf("index.html does not say %q", want)
		}
	}
	for what, folder := range map[string]string{"a package": filepath.Join(folder, name), "no folder": filepath.Join(folder, "none"), "a file": filepath.Join(out, "data.json")} {
		if _, err := Run(context.Background(), Config{Packages: folder, Check: true}); codeOf(err) != exit.Usage {
			t.Errorf("%s: %v", what, err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, err := Run(ctx, Config{Packages: folder, Out: out}); codeOf(err) != exit.Interrupted || !maps.Equal(site(t, out), files) {
		t.Errorf("interrupted: %v", err)
	}
}

// TestPlaces: a site replaces nothing but a site.
func TestPlaces(t *testing.T) {
	folder := t.TempDir()
	place := func(name string, files ...string) string {
		out := filepath.Join(t.TempDir(), name)
		for _, f := range files {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(out, f)), 0o755); err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(out, f), `{"schema":"gaia.board/1"}`)
		}
		return out
	}
	linked := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), linked); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	put(t, file, "text")
	strange := place("site", "data.json")
	put(t, filepath.Join(strange, "data.json"), `{"schema":"another"}`)
	for what, tc := range map[string]struct {
		out  string
		good bool
	}{
		"new":                         {place("site"), true},
		"below what is not there":     {filepath.Join(place("a"), "b", "site"), true},
		"a site":                      {place("site", "data.json", "index.html", "packages/"+strings.Repeat("0", 32)+".html"), true},
		"an empty folder":             {t.TempDir(), true},
		"no data":                     {place("site", "index.html"), false},
		"the data of another program": {strange, false},
		"a file of the user's":        {place("site", "data.json", "index.html", "CNAME"), false},
		"a folder of the user's":      {place("site", "data.json", ".git/config"), false},
		"among the pages":             {place("site", "data.json", "packages/notes.txt"), false},
		"a link":                      {linked, false},
		"a file":                      {file, false},
		"with the packages":           {filepath.Join(folder, "site"), false},
		"the packages":                {folder, false},
	} {
		before := map[string]string{}
		if info, err := os.Lstat(tc.out); err == nil && info.IsDir() {
			before = site(t, tc.out)
		}
		_, err := Run(context.Background(), Config{Packages: folder, Out: tc.out})
		if tc.good {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			} else if files := site(t, tc.out); len(files) != 3 {
				t.Errorf("%s: the site has %d files", what, len(files))
			}
			if left, err := filepath.Glob(filepath.Join(filepath.Dir(tc.out), ".board-*")); err != nil || len(left) > 0 {
				t.Errorf("%s: left behind: %v, %v", what, left, err)
			}
			continue
		}
		if codeOf(err) != exit.Usage {
			t.Errorf("%s: %v", what, err)
		}
		if info, err := os.Lstat(tc.out); err == nil && info.IsDir() && !maps.Equal(site(t, tc.out), before) {
			t.Errorf("%s: it was changed", what)
		}
	}
}

// TestHostileTexts: whatever models, folders, signers, submitters and reasons are called is text on every page.
func TestHostileTexts(t *testing.T) {
	quoted := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	folder := t.TempDir()
	var texts []string
	for _, p := range runs.Payloads {
		if utf8.ValidString(p) && len(p) < 200 && !strings.Contains(p, "\x00") {
			texts = append(texts, p)
		}
	}
	if len(texts) < 12 {
		t.Fatalf("%d payloads", len(texts))
	}
	const most = 6 // packages
	for i := range most {
		hostile := texts[i*len(texts)/most]
		m := made{about: fmt.Sprintf("Hostile %d.", i), right: 1, tasks: 2, plan: `"model":{"name":` + quoted(hostile) + `}`, own: i%2 == 1}
		if s := (submit.Submitter{Organisation: strings.TrimSpace(hostile), Contact: "a@b.example"}); s.Check() == nil {
			m.by = &s
		}
		p := m.pack(t, folder)
		if err := os.Rename(p.Path, filepath.Join(folder, fmt.Sprint(i)+" "+strings.ReplaceAll(hostile, "/", " "))); err != nil {
			t.Fatal(err)
		}
	}
	// Damaged packages, and reasons for them.
	rules := "title: " + quoted(strings.TrimFunc(texts[1], unicode.IsControl)) + "\ndescription: <script>alert(1)</script>\ndataset: invented-tasks\ntrusted-keys:\n  - " +
		quoted(runs.Key().Public().Line()+" <img src=x onerror=alert(1)>") + "\nexclude:\n"
	for i, text := range texts {
		name := fmt.Sprintf("x%d %s", i, strings.ReplaceAll(text, "/", " "))
		if err := os.Mkdir(filepath.Join(folder, name), 0o755); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		put(t, filepath.Join(folder, name, submit.SumsFile), "")
		if !strings.ContainsFunc(text, unicode.IsControl) {
			rules += "  - package: " + quoted(name) + "\n    reason: " + quoted("because "+text) + "\n"
		}
	}
	r, files := run(t, folder, rules)
	if len(r.Data.Packages) != most || len(r.Data.Excluded) != len(texts) {
		t.Errorf("%d ranked, %d not: %v", len(r.Data.Packages), len(r.Data.Excluded), r.Data.Excluded)
	}
	checkSite(t, files)
	tag := regexp.MustCompile(`<([a-zA-Z]+)`)
	known := map[string]bool{}
	for _, m := range tag.FindAllStringSubmatch(mustRead(t, "templates/board.html")+mustRead(t, "../page/templates/base.html"), -1) {
		known[m[1]] = m[1] != "script"
	}
	for _, name := range strings.Fields("svg title desc rect path g text line circle") {
		known[name] = true
	}
	for name, text := range files {
		if !strings.HasSuffix(name, ".html") && !strings.HasSuffix(name, ".svg") {
			continue
		}
		for _, m := range tag.FindAllStringSubmatch(text, -1) {
			if !known[m[1]] {
				t.Errorf("%s has an element %s", name, m[1])
			}
		}
		if m := regexp.MustCompile(`<[^>]*\s(on[a-z]+|style|srcdoc)=`).FindString(text); m != "" {
			t.Errorf("%s has %q", name, m)
		}
	}
	if !strings.Contains(files["index.html"], "&lt;img src=x onerror=alert(1)&gt;") {
		t.Error("the name of the signer is not on the board")
	}
}

func mustRead(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
