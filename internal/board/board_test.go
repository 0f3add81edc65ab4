package board

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/browser"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
)

func TestMain(m *testing.M) { os.Exit(long.Main(m)) }

// made says how a run is made and packaged.
type made struct {
	about     string // makes the run another one
	right     int    // of its tasks, which are tasks
	tasks     int
	plan      string // merge patch, of the members
	public    bool
	archive   bool
	date      string
	key       *sign.Key
	own       bool
	forge     string // a command of runs.Forger
	by        *submit.Submitter
	rehearsal bool
	dirty     bool
}

func taskID(n int) string { return fmt.Sprintf("fab1e901-0000-4000-8000-%012d", n) }

// story returns the text of a run.
func (m made) story() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", m.about)
	patch := []string{fmt.Sprintf(`"no_preflight":true,"rehearsal":%t`, m.rehearsal)}
	if m.plan != "" {
		patch = append(patch, m.plan)
	}
	if m.own {
		patch = append(patch, `"agent":{"tools":"none"}`)
	}
	fmt.Fprintf(&b, "-- plan --\n{%s}\n", strings.Join(patch, ","))
	b.WriteString("-- split validation --\ncarried gold\n")
	for n := range m.tasks {
		b.WriteString(taskID(n+1) + "\n")
	}
	for n := range m.tasks {
		answer := fmt.Sprint(1871 + n)
		if n >= m.right {
			answer = "none of them"
		}
		fmt.Fprintf(&b, "-- task %s --\nquestion: In which year was lamp %d of the lighthouse lit?\ngold: %d\nlevel: %d\n-- answer %s --\nThe almanac says so.\n",
			taskID(n+1), n+1, 1871+n, 1+n%3, answer)
	}
	return b.String()
}

// pack makes the package and puts it into the folder under its name.
func (m made) pack(t testing.TB, folder string) submit.Package {
	t.Helper()
	c, err := runs.Parse(m.story())
	if err != nil {
		t.Fatal(err)
	}
	if m.date == "" {
		m.date = "2031-02-03"
	}
	key := runs.Key()
	if m.key != nil {
		key = *m.key
		c = c.SignedBy(key)
	}
	run := filepath.Join(t.TempDir(), "run")
	if err := c.Write(run); err != nil {
		t.Fatal(err)
	}
	if m.forge != "" {
		f, err := runs.NewForger(run)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{m.forge, "sign"} {
			if err := f.Do(command); err != nil {
				t.Fatal(err)
			}
		}
		for name, data := range f.Files {
			put(t, filepath.Join(run, name), string(data))
		}
	}
	p, err := submit.Build(context.Background(), submit.Config{Run: run, Out: folder, Key: key, Date: m.date, Public: m.public, Archive: m.archive,
		AllowDirty: m.dirty, Submitter: m.by, Gold: &audit.Gold{Answers: c.Gold(), Salt: c.Salt()},
		Harness: trajectory.Harness{ExecutableSHA256: canonical.Digest([]byte("program")), Version: "v1.0.0"}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// otherKey is of a second signer.
func otherKey(t testing.TB, letter byte) *sign.Key {
	key, err := sign.NewKey(rand.NewChaCha8([32]byte{letter}))
	if err != nil {
		t.Fatal(err)
	}
	return &key
}

const onBoard = "title: Lamps\ndataset: invented-tasks\n"

// trusting returns the line of board.yaml that trusts keys.
func trusting(keys ...sign.Key) string {
	text := "trusted-keys:\n"
	for i, k := range keys {
		text += fmt.Sprintf("  - %s signer %d\n", k.Public().Line(), i+1)
	}
	return text
}

func put(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// reasonsOf returns the reasons by file.
func reasonsOf(r Result) map[string]string {
	all := map[string]string{}
	for _, l := range r.Lines {
		all[l.File] = strings.Join(l.Reasons, "; ")
	}
	return all
}

// site returns the files of a folder by their names.
func site(t testing.TB, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(folder, path)
		files[filepath.ToSlash(name)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestBoard: one board with a package of each kind. What counts is ranked, and all else is listed with its reason.
func TestBoard(t *testing.T) {
	folder, out := t.TempDir(), filepath.Join(t.TempDir(), "site")
	second, stranger := otherKey(t, 2), otherKey(t, 3)
	put(t, filepath.Join(folder, RulesFile), onBoard+trusting(runs.Key(), *second)+"exclude:\n  - package: left-out.tar.gz\n    reason: The signer asked for it.\n")
	best := made{about: "Best.", right: 12, tasks: 12}.pack(t, folder)
	worst := made{about: "Worst.", right: 0, tasks: 12, key: second}.pack(t, folder)
	public := made{about: "Public.", right: 9, tasks: 12, public: true}.pack(t, folder)
	archive := made{about: "Archive.", right: 10, tasks: 12, archive: true}.pack(t, folder)
	own := made{about: "Own agent.", right: 12, tasks: 12, own: true}.pack(t, folder)
	untrusted := made{about: "Stranger.", right: 12, tasks: 12, key: stranger}.pack(t, folder)
	tampered := made{about: "Tampered.", right: 3, tasks: 12}.pack(t, folder)
	put(t, filepath.Join(tampered.Path, "results.jsonl"), "{}\n")
	elsewhere := made{about: "Elsewhere.", right: 12, tasks: 12, plan: `"dataset":{"name":"other-tasks"}`}.pack(t, folder)
	rehearsal := made{about: "Rehearsal.", right: 12, tasks: 12, rehearsal: true}.pack(t, folder)
	dirty := made{about: "Dirty.", right: 12, tasks: 12, plan: `"submit_intent":false`, dirty: true}.pack(t, folder)
	left := made{about: "Left out.", right: 12, tasks: 12, archive: true}.pack(t, folder)
	if err := os.Rename(left.Path, filepath.Join(folder, "left-out.tar.gz")); err != nil {
		t.Fatal(err)
	}
	// The run of the best, packaged again later, and the archive under another name.
	again := made{about: "Best.", right: 12, tasks: 12, date: "2031-02-04"}.pack(t, folder)
	copied, err := os.ReadFile(archive.Path)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(folder, "zz-copy.tar.gz"), string(copied))
	if err := os.Mkdir(filepath.Join(folder, "notes"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(best.Path, filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(folder, "bomb.tar.gz"), "\x1f\x8bnot an archive")
	put(t, filepath.Join(folder, "README.md"), "no package")

	var progress bytes.Buffer
	r, err := Run(context.Background(), Config{Packages: folder, Out: out, Progress: &progress})
	if err != nil {
		t.Fatal(err)
	}
	name := func(p submit.Package) string { return filepath.Base(p.Path) }
	got := reasonsOf(r)
	for file, want := range map[string]string{
		name(again): "", name(worst): "", name(public): "", name(archive): "", name(own): "",
		name(best):        name(again) + " of the same run counts in its place",
		name(untrusted):   "its signer is not trusted: the bytes are what was signed, but by a key you do not trust: " + stranger.Public().ID(),
		name(tampered):    "it does not verify: results.jsonl: is not what attestation.dsse.json signs",
		name(elsewhere):   "it is of split validation of other-tasks, not of split validation of invented-tasks",
		name(rehearsal):   "it is a rehearsal",
		name(dirty):       "it would not be packaged without --allow-dirty: the run was planned without --submit-intent, so answers could be graded before all were committed",
		"left-out.tar.gz": "excluded by board.yaml: The signer asked for it.",
		"zz-copy.tar.gz":  "it is the same package as " + name(archive),
		"link":            "it is neither a folder nor a file, but a link or a device",
		"bomb.tar.gz":     "it does not verify: bomb.tar.gz: ",
	} {
		if text, there := got[file]; !there || text != want && (want == "" || !strings.HasPrefix(text, want)) {
			t.Errorf("%s: %q (listed: %t), want %q", file, text, there, want)
		}
		delete(got, file)
	}
	if len(got) > 0 {
		t.Errorf("also listed: %v", got)
	}
	var ranks []string
	for _, p := range r.Data.Packages {
		ranks = append(ranks, fmt.Sprintf("%s %s %d", p.Rank.Text(), p.File, p.Score.Correct))
	}
	slices.Sort(ranks[:2]) // they have the same score and cost
	want := []string{"1–4 " + name(again) + " 12", "1–4 " + name(own) + " 12", "1–4 " + name(archive) + " 10", "1–4 " + name(public) + " 9", "5 " + name(worst) + " 0"}
	slices.Sort(want[:2])
	if !slices.Equal(ranks, want) {
		t.Errorf("ranks\n%s\nwant\n%s", strings.Join(ranks, "\n"), strings.Join(want, "\n"))
	}
	if r.Data.Pairs != 10 || r.Data.Paired != 10 {
		t.Errorf("%d pairs, %d paired", r.Data.Pairs, r.Data.Paired)
	}
	for i, l := range r.Lines {
		if start := fmt.Sprintf("%d of %d: %s ", i+1, len(r.Lines), l.File); !strings.Contains(progress.String(), start) {
			t.Errorf("no progress %q", start)
		}
	}
	files := site(t, out)
	checkSite(t, files)
	index := html.UnescapeString(files["index.html"])
	for _, want := range []string{"<h1>Lamps</h1>", "1–4", "self-attested", "signer 2", "The signer asked for it.", stranger.Public().ID()} {
		if !strings.Contains(index, want) {
			t.Errorf("index.html does not contain %q", want)
		}
	}
	for _, folder := range []string{folder, out, os.TempDir()} {
		for name, text := range files {
			if strings.Contains(text, folder) {
				t.Errorf("%s names a folder of this machine", name)
			}
		}
	}
	// The same packages elsewhere give the same bytes, in place of the old site.
	moved := filepath.Join(t.TempDir(), "packages")
	if err := os.Rename(folder, moved); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(context.Background(), Config{Packages: moved, Out: out}); err != nil {
		t.Fatal(err)
	}
	if again := site(t, out); !maps.Equal(again, files) {
		t.Error("the same packages give another site")
	}
	// The check ends with the gravest reason, and writes nothing.
	r, err = Run(context.Background(), Config{Packages: moved, Check: true})
	if exit.Of(err).Code != exit.Evidence || !strings.Contains(err.Error(), "not counted: 7 of 15 packages") {
		t.Errorf("the check ends with %v", err)
	}
	var printed strings.Builder
	if err := r.Print(&printed, false); err != nil || !regexp.MustCompile(`(?m)^ 1–4 +12 of 12 +[0-9.]+ % – 100.0 % .* `+regexp.QuoteMeta(name(again))+` *$`).MatchString(printed.String()) ||
		strings.Count(printed.String(), "\n "+"1–4 ") != 4 || strings.Count(printed.String(), ": does not count: ") != 10 || !strings.HasSuffix(printed.String(), "\n15 packages, 5 ranked\n") {
		t.Errorf("%v, printed:\n%s", err, printed.String())
	}
	codes := map[string]int{name(again): 0, "left-out.tar.gz": 0, name(untrusted): exit.Untrusted, name(tampered): exit.Evidence, name(elsewhere): exit.Findings, name(best): 0, "zz-copy.tar.gz": 0}
	for _, l := range r.Lines {
		if want, there := codes[l.File]; there && l.ExitCode != want {
			t.Errorf("%s has the exit code %d, want %d", l.File, l.ExitCode, want)
		}
	}
}

// checkSite checks what holds for every site: links lead to its files, nothing is asked of elsewhere, nothing is hidden.
func checkSite(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if at := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && visible.Hidden(r) }); at >= 0 {
			t.Errorf("%s has a hidden character: %q", name, text[max(0, at-20):min(len(text), at+20)])
		}
		if !strings.HasSuffix(name, ".html") {
			continue
		}
		if !strings.Contains(text, `<meta http-equiv="Content-Security-Policy" content="default-src &#39;none&#39;; style-src &#39;self&#39;`) || strings.Contains(text, "<script") {
			t.Errorf("%s has no policy, or a script", name)
		}
		for _, m := range regexp.MustCompile(`(?:href|src|action)="([^"]*)"`).FindAllStringSubmatch(text, -1) {
			to := filepath.ToSlash(filepath.Join(filepath.Dir(name), m[1]))
			if strings.HasPrefix(m[1], "#") {
				if !strings.Contains(text, fmt.Sprintf(`id="%s"`, m[1][1:])) {
					t.Errorf("%s: there is no %s", name, m[1])
				}
			} else if _, there := files[to]; !there || strings.Contains(m[1], ":") || strings.HasPrefix(m[1], "/") {
				t.Errorf("%s: the link %q leads to no file", name, m[1])
			}
		}
	}
	var d Data
	if err := json.Unmarshal([]byte(files["data.json"]), &d); err != nil || d.Schema != Schema {
		t.Errorf("data.json: %v", err)
	}
}

// TestBoardInBrowser: pages open from files, without a script, a request or a complaint of the browser.
func TestBoardInBrowser(t *testing.T) {
	long.NotRaced(t)
	b := browser.New(t)
	folder, out := t.TempDir(), filepath.Join(t.TempDir(), "site")
	second := otherKey(t, 2)
	put(t, filepath.Join(folder, RulesFile), onBoard+"description: Years of lamps.\n"+trusting(runs.Key(), *second))
	made{about: "Best.", right: 12, tasks: 12}.pack(t, folder)
	made{about: "Worst.", right: 0, tasks: 12, key: second}.pack(t, folder)
	made{about: "Own agent.", right: 10, tasks: 12, own: true}.pack(t, folder)
	made{about: "Rehearsal.", right: 12, tasks: 12, rehearsal: true}.pack(t, folder)
	r, err := Run(context.Background(), Config{Packages: folder, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []browser.Options{{Width: 400}, {Width: 1600, Dark: true}} {
		p := b.Page(o)
		for name, file := range map[string]string{"board": indexFile, "board-package": r.Data.Packages[0].Page()} {
			p.Open("file://" + filepath.Join(out, file))
			p.Fits()
			if got := browser.Eval[string](p, "getComputedStyle(document.querySelector('.tag')).borderRadius"); got != "4px" {
				t.Errorf("%s: the style sheet does not apply: %q", file, got)
			}
			p.Screenshot(fmt.Sprintf("%s-%d", name, o.Width))
			p.Clean()
			p.Accessible()
			p.Clean("connect-src", "preload assets") // axe-core reads the style sheet
		}
	}
}

var update = flag.Bool("update", false, "write the golden files")

// TestGolden: what the pages of a small board say, without digests, ids and elements.
func TestGolden(t *testing.T) {
	folder, out := t.TempDir(), filepath.Join(t.TempDir(), "site")
	second := otherKey(t, 2)
	put(t, filepath.Join(folder, RulesFile), onBoard+"description: Years of lamps.\n"+trusting(runs.Key(), *second)+"exclude:\n  - package: old.tar.gz\n    reason: Its signer withdrew it.\n  - package: none\n    reason: x\n")
	for name, m := range map[string]made{"best": {about: "Best.", right: 9, tasks: 9, own: true}, "middle": {about: "Middle.", right: 8, tasks: 9, public: true, by: &submit.Submitter{Contact: "lab@example.org", Organisation: "Lamp Lab"}},
		"worst": {about: "Worst.", right: 0, tasks: 9, key: second}, "old.tar.gz": {about: "Old.", right: 7, tasks: 9, archive: true}, "test run": {about: "Rehearsal.", right: 9, tasks: 9, rehearsal: true}} {
		if err := os.Rename(m.pack(t, folder).Path, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Run(context.Background(), Config{Packages: folder, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	text := func(page string) string {
		_, page, _ = strings.Cut(page, "<main")
		page, _, _ = strings.Cut(page, "</main>")
		page = regexp.MustCompile(`(?s)<svg.*?</svg>|<figure.*?</figure>`).ReplaceAllString("<main"+page, "")
		page = regexp.MustCompile(`<(h1|h2|tr|p|pre|li|caption|/?div|dt|figcaption)\b[^>]*>`).ReplaceAllString(page, "\n")
		page = regexp.MustCompile(`</t[dh]>|</dt>`).ReplaceAllString(page, " | ")
		page = html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, " "))
		for _, x := range [][2]string{{`sha256:[0-9a-f]+`, "sha256:…"}, {`SHA256:[A-Za-z0-9+/]+`, "SHA256:…"}, {`AAAA[A-Za-z0-9+/]+`, "AAAA…"}, {`(submission-[-0-9]{11})[0-9A-Z]{8}`, "${1}XXXXXXXX"},
			{`\b01[0-9A-Z]{24}\b`, "01…"}, {`[ \t]+`, " "}, {` ?\n[ \n]*`, "\n"}, {`\d+ bytes that`, "N bytes that"}, {`tokens \| \d+`, "tokens | N"}, {`[0-9.]+ % of (its prompts|N bytes)`, "P % of $1"}} {
			page = regexp.MustCompile(x[0]).ReplaceAllString(page, x[1])
		}
		return strings.TrimSpace(page) + "\n"
	}
	files := site(t, out)
	for name, page := range map[string]string{"index.txt": files[indexFile], "full.txt": files[r.Data.Packages[0].Page()], "public.txt": files[r.Data.Packages[1].Page()]} {
		got, path := text(page), filepath.Join("testdata", name)
		if *update {
			put(t, path, got)
		}
		if want := mustRead(t, path); got != want {
			t.Errorf("%s is another (look at what -update writes):\n%s", name, got)
		}
	}
}
