package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/runs"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/trajectory"
)

// maxPassing bounds how many forgeries by a key holder pass.
const maxPassing = 6

// forgeries returns the forgeries of testdata/forgeries, by name.
func forgeries(t *testing.T) (all []runs.Forgery) {
	t.Helper()
	files, err := filepath.Glob("testdata/forgeries/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no forgeries: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		f, err := runs.ParseForgery(strings.TrimSuffix(filepath.Base(file), ".txt"), string(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}

// isVerdict tells the commands that say what becomes of a forgery: CODE is the exit
// code, and what follows the colon are the arguments of gaia.
//
//	refused CODE "part of the output": ARGS
//	flagged "part of the output": ARGS
//	flagged "AUD-13.token-totals": audit RUN
//	passes: ARGS
func isVerdict(command string) (kind string, ok bool) {
	kind, _, _ = strings.Cut(strings.TrimSuffix(strings.Fields(command)[0], ":"), " ")
	return kind, slices.Contains([]string{"refused", "flagged", "passes"}, kind)
}

// verdictOf returns the last verdict of a forgery, which counts.
func verdictOf(f runs.Forgery) string {
	for _, c := range slices.Backward(f.Commands) {
		if _, ok := isVerdict(c); ok {
			return c
		}
	}
	return ""
}

// TestForgeries carries out every forgery, signed by the run's key, and checks what
// becomes of it.
func TestForgeries(t *testing.T) {
	long.NotRaced(t)
	passing, shared := 0, &bases{dir: t.TempDir(), all: map[string]*base{}}
	for i, f := range forgeries(t) {
		kind, _ := isVerdict(cmp.Or(verdictOf(f), "none"))
		switch {
		case kind == "none":
			t.Errorf("%s has no verdict", f.Name)
		case kind == "passes":
			passing++
			if f.About["reason"] == "" {
				t.Errorf("%s passes without a reason", f.Name)
			}
		}
		if i%long.Step(3) != 0 {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			b := bench{T: t, dir: t.TempDir(), bases: shared}
			for _, c := range f.Commands {
				b.do(c)
			}
		})
	}
	if passing > maxPassing {
		t.Errorf("%d forgeries pass, at most %d may", passing, maxPassing)
	}
}

// forgeryTables returns what docs/verifying.md says of the forgeries: how many there are
// of each kind, and a table of those that are shown, of those that only a published
// checkpoint shows, and of those that nothing shows.
func forgeryTables(all []runs.Forgery) string {
	var shown, dated, unseen strings.Builder
	refused, flagged, checkpoint, hidden := 0, 0, 0, 0
	for _, f := range all {
		c := verdictOf(f)
		kind, _ := isVerdict(c)
		words := c[strings.LastIndex(c, ": ")+2:]
		command := words[:strings.IndexByte(words+" ", ' ')]
		for _, flag := range []string{"--dataset", "--package", "--checkpoint"} {
			if strings.Contains(words, flag) {
				command += " " + flag
			}
		}
		if kind == "passes" {
			hidden++
			fmt.Fprintf(&unseen, "| %s | %s | %s | %s | `%s` |\n", f.About["attack"], f.About["who"], f.About["reason"], f.About["shown"], f.Name)
			continue
		}
		result, rows := kind, &shown
		switch said, _, ok := strings.Cut(c, `": `); {
		case ok && kind == "flagged" && strings.Contains(said, "AUD-"):
			result += ", " + strings.TrimPrefix(said, `flagged "`)
			flagged++
		case kind == "flagged":
			flagged++
		case strings.Contains(words, "--checkpoint"):
			rows = &dated
			checkpoint++
		default:
			refused++
		}
		fmt.Fprintf(rows, "| %s | %s | `gaia %s`: %s | %s | `%s` |\n", f.About["attack"], f.About["who"], command, result, f.About["shown"], f.Name)
	}
	const head = "| attack | who | result | what shows it | test |\n|---|---|---|---|---|\n"
	return fmt.Sprintf("Of %d forgeries %d are refused and %d flagged. Only a published checkpoint shows %d more, and %d are not visible.\n\n", len(all), refused, flagged, checkpoint, hidden) +
		"### Refused or flagged\n\n" + head + shown.String() + "\n### With a published checkpoint\n\n" + head + dated.String() +
		"\n### Not visible\n\n" + strings.Replace(head, "result", "why", 1) + unseen.String()
}

var update = flag.Bool("update", false, "write the tables of forgeries in docs/verifying.md")

// TestForgeryTable: each forgery is a row of docs/verifying.md, each row is one, and the
// counts are theirs.
func TestForgeryTable(t *testing.T) {
	doc := readFile(t, "docs/verifying.md")
	before, rest, found := strings.Cut(doc, "\n## Forgeries\n")
	start, end := strings.Index(rest, "\nOf "), strings.Index(rest, "\n\n## ")
	if !found || start < 0 || end < start {
		t.Fatal("docs/verifying.md has no tables of forgeries")
	}
	want := forgeryTables(forgeries(t))
	if *update {
		doc = before + "\n## Forgeries\n" + rest[:start+1] + want + rest[end+1:]
		if err := os.WriteFile(filepath.Join(root(t), "docs/verifying.md"), []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if rest[start+1:end+1] != want {
		t.Errorf("the tables of docs/verifying.md are not these (write them with -update):\n%s", want)
	}
}

// TestForgeryBases: what the forgeries change is honest, and can be verified and packaged.
func TestForgeryBases(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	files, err := filepath.Glob("testdata/forgeries/base/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		b := bench{T: t, dir: t.TempDir()}
		for _, c := range []string{"base " + strings.TrimSuffix(filepath.Base(file), ".txt"), "passes: verify RUN", "submit", "passes: verify --dataset DATASET PACKAGE"} {
			b.do(c)
		}
	}
}

// bench is where a forgery is made. RUN, PACKAGE, PUBLIC and DATASET in a command are
// the paths of what it made.
type bench struct {
	*testing.T
	keeper
	dir    string
	forger *runs.Forger
	at     string        // the directory that the forger edits
	bases  *bases        // nil: not shared with others
	honest func() string // JSON report of the audit of the honest run, "" where there is none
}

// bases are the starting points of forgeries, which are made once.
type bases struct {
	dir string
	sync.Mutex
	all map[string]*base // by the words of the command base
}

type base struct {
	made   sync.Once
	dir    string
	honest func() string
}

// get returns the base that a command describes.
func (all *bases) get(t *testing.T, words string) *base {
	t.Helper()
	all.Lock()
	b := all.all[words]
	if b == nil {
		b = &base{dir: filepath.Join(all.dir, strconv.Itoa(len(all.all)))}
		all.all[words] = b
	}
	all.Unlock()
	b.made.Do(func() {
		maker := bench{T: t, dir: b.dir}
		maker.must(os.Mkdir(b.dir, 0o755))
		maker.base(words)
		b.honest = sync.OnceValue(maker.honest)
	})
	return b
}

// copyTree copies a folder, with the permissions of its files.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		target := to + strings.TrimPrefix(path, from)
		if e.IsDir() {
			return os.MkdirAll(target, info.Mode().Perm())
		}
		data, err := os.ReadFile(path)
		return cmp.Or(err, os.WriteFile(target, data, info.Mode().Perm()))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// do carries out a command of a forgery.
//
//	base NAME OLD NEW …   an honest run, its story with texts replaced, and its dataset
//	submit ARGS           package the run, or what else gaia is asked for, by name; must not fail with a fault
//	gaia ARGS             any other command, which must succeed
//	save NAME             keep a copy of the run or package as it is now
//	edit NAME             go on with another directory: RUN, PACKAGE or a copy
//	write                 write the files as they are, with nothing signed again
//	judge yes|no          what another judge says later of each answer of the run
//	stranger              from here on gaia has no key and trusts none
//	pack NAME CHANGE FILE an archive of the package, COPY/NAME, with a FILE added, left out, twice or as a link
func (b *bench) do(c string) {
	b.Helper()
	word, rest, _ := strings.Cut(c, " ")
	switch _, verdict := isVerdict(c); {
	case verdict:
		b.verdict(c)
	case word == "base":
		b.base(rest)
	case word == "submit":
		b.submit(rest)
	case word == "gaia":
		if code, stdout, stderr := b.command(b.args(rest)...); code != exit.OK {
			b.Fatalf("%s: exit code %d\n%s%s", c, code, stdout, stderr)
		}
	case word == "save":
		b.must(os.CopyFS(b.path(rest), os.DirFS(b.at)))
	case word == "write":
		b.write()
	case word == "stranger":
		b.env["HOME"] = b.TempDir()
	case word == "judge":
		b.judge(rest == "yes")
	case word == "pack":
		b.pack(strings.Fields(rest))
	case word == "edit":
		b.edit(b.args(rest)[0])
	default:
		if err := b.forger.Do(c); err != nil {
			b.Fatalf("%s: %v", c, err)
		}
		if word == "sign" || word == "seal" || word == "envelope" {
			b.write()
		}
	}
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// edit lets the forger edit a directory.
func (b *bench) edit(dir string) {
	b.Helper()
	f, err := runs.NewForger(dir)
	b.must(err)
	b.forger, b.at = f, dir
}

// write writes what the forger made.
func (b *bench) write() {
	b.Helper()
	b.must(filepath.WalkDir(b.at, func(path string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(b.at, path)
		if err == nil && e.Type().IsRegular() && b.forger.Files[filepath.ToSlash(name)] == nil {
			err = os.Remove(path)
		}
		return err
	}))
	for name, data := range b.forger.Files {
		mode := os.FileMode(0o644)
		if name == "judgments.jsonl" {
			mode = 0o600
		}
		b.must(os.WriteFile(filepath.Join(b.at, name), data, mode))
	}
}

// base writes an honest run and its dataset.
func (b *bench) base(words string) {
	b.Helper()
	home, run := b.path("home"), b.path("run")
	env := map[string]string{"HOME": home, "HF_ENDPOINT": noHub}
	if b.bases != nil {
		made := b.bases.get(b.T, words)
		copyTree(b.T, made.dir, b.dir)
		b.keeper, b.honest = keeper{home, run, env}, made.honest
		b.edit(run)
		return
	}
	name, replaced, _ := strings.Cut(words, " ")
	text, err := os.ReadFile("testdata/forgeries/base/" + name + ".txt")
	b.must(err)
	story := string(text)
	if replaced != "" {
		old, now, ok := strings.Cut(strings.ReplaceAll(replaced, `\n`, "\n"), " => ")
		if !ok || !strings.Contains(story, old) {
			b.Fatalf("the story does not have %q", old)
		}
		story = strings.ReplaceAll(story, old, now)
	}
	b.keeper = newKeeper(b.T, story)
	_, err = sign.CreateKey(b.path("other.key"), rand.NewChaCha8([32]byte{'o', 't', 'h', 'e', 'r'})) // runs.OtherKey
	b.must(err)
	b.must(os.Rename(b.keeper.dir, run))
	b.must(os.Rename(b.keeper.home, home))
	b.keeper = keeper{home, run, env}
	honest, err := runs.Parse(string(text))
	b.must(err)
	files, metadata, err := honest.Dataset()
	b.must(err)
	for name, data := range files {
		path := filepath.Join(b.path("dataset"), name)
		b.must(os.MkdirAll(filepath.Dir(path), 0o755))
		b.must(os.WriteFile(path, data, 0o644))
	}
	b.edit(b.keeper.dir)
	for _, c := range []string{`plan set dataset.metadata_file "` + metadata + `"`, `plan set dataset.metadata_sha256 "` + canonical.Digest(files[metadata]) + `"`, "sign"} {
		b.do(c)
	}
	if name != "leak" { // whose finding no forgery hides
		copyTree(b.T, run, b.path("honest"))
	}
	b.honest = func() string {
		_, report, _ := keeper{home, run, env}.command("audit", b.path("honest"), "--format", "json")
		return report
	}
}

// submit packages the run, dirty if need be.
func (b *bench) submit(flags string) {
	b.Helper()
	public := strings.Contains(flags, "--public")
	name := map[bool]string{false: "package", true: "public"}[public]
	b.must(os.MkdirAll(b.path(name), 0o755))
	args := append([]string{"submit", "--allow-dirty", "--date", "2026-03-04", "--out", b.path(name), b.path("run")}, strings.Fields(flags)...)
	if code, stdout, stderr := b.command(args...); code != exit.OK {
		b.Fatalf("submit: exit code %d\n%s%s", code, stdout, stderr)
	}
	made, err := filepath.Glob(b.path(name) + "/submission-*")
	b.must(err)
	b.edit(made[0])
}

// judge writes a later judgment of the run, signed by its key.
func (b *bench) judge(says bool) {
	b.Helper()
	run, err := rundir.Verify(os.DirFS(b.path("run")), rundir.Options{})
	b.must(err)
	digest := canonical.Digest([]byte("x"))
	plan := plan.JudgePlan{Battery: judge.BatteryDigest(), Endpoint: digest, Model: "another-judge", Origin: "https://judge.example", Prompt: "judge.v1", PromptSHA256: digest}
	n := len(judge.Battery())
	battery := trajectory.JudgeBattery{CostMicroUSD: new(int64(n)), Model: plan.Model, Prompt: plan.Prompt, Asked: n, SHA256: plan.Battery, TokensIn: int64(n), TokensOut: int64(n), Tries: n, Passed: true}
	var verdicts []audit.LaterVerdict
	tasks, attempts := audit.Rejudged(run)
	for i, a := range attempts {
		verdicts = append(verdicts, audit.LaterVerdict{Attempt: a.Number, TaskID: tasks[i].Plan.TaskID, Judgment: trajectory.Judgment{CostMicroUSD: new(int64(5)), Judged: &says, LatencyMs: 7,
			Model: plan.Model, Path: judge.PathJudge, Prompt: plan.Prompt, RequestID: "r", ResponseModel: plan.Model, TokensIn: 30, TokensOut: 3, Tries: 1}})
	}
	envelope, err := audit.NewRejudgment(run, plan, &battery, verdicts, run.CompletedAt()).Seal(runs.Key())
	b.must(err)
	b.must(os.MkdirAll(b.path("run/"+audit.AttestationsDir), 0o755))
	b.must(os.WriteFile(b.path("run/"+audit.RejudgmentFile(plan)), envelope, 0o644))
}

// pack writes an archive of the package.
func (b *bench) pack(words []string) {
	b.Helper()
	name, how, file := words[0], words[1], words[2]
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	add := func(h tar.Header, data []byte) {
		h.Mode, h.Size = 0o644, int64(len(data))
		b.must(w.WriteHeader(&h))
		_, err := w.Write(data)
		b.must(err)
	}
	for _, n := range slices.Sorted(maps.Keys(b.forger.Files)) {
		switch {
		case n == file && how == "without":
		case n == file && how == "linked":
			add(tar.Header{Name: n, Linkname: "README.md", Typeflag: tar.TypeSymlink}, nil)
		case n == file && how == "twice":
			add(tar.Header{Name: n}, b.forger.Files[n])
			fallthrough
		default:
			add(tar.Header{Name: n}, b.forger.Files[n])
		}
	}
	if how == "with" {
		add(tar.Header{Name: file}, []byte("hello"))
	}
	b.must(w.Close())
	b.must(z.Close())
	b.must(os.WriteFile(b.path(name), out.Bytes(), 0o644))
}

// args returns the arguments of a command, with the paths in the place of names.
func (b *bench) args(words string) (args []string) {
	place := map[string]string{"RUN": b.path("run"), "DATASET": "dir:" + b.path("dataset"), "OTHER": b.path("other.key")}
	for _, name := range []string{"package", "public"} {
		if made, _ := filepath.Glob(b.path(name) + "/submission-*"); len(made) > 0 {
			place[strings.ToUpper(name)] = made[0]
		}
	}
	for word := range strings.FieldsSeq(words) {
		for _, name := range slices.Sorted(maps.Keys(place)) {
			if word == name || strings.HasPrefix(word, name+"/") {
				word = place[name] + strings.TrimPrefix(word, name)
			}
		}
		if after, copied := strings.CutPrefix(word, "COPY/"); copied {
			word = b.path(after)
		}
		if rule, found := strings.CutPrefix(word, "FINDING/"); found {
			word = b.id(b.T, rule)
		}
		args = append(args, word)
	}
	return args
}

// verdict checks what a command says of the forgery.
func (b *bench) verdict(c string) {
	b.Helper()
	kind, _ := isVerdict(c)
	said, words, ok := strings.Cut(c, `": `)
	if said += `"`; kind == "passes" {
		said, words, ok = strings.Cut(c, ": ")
	}
	if !ok {
		b.Fatalf("%s has no arguments of gaia after a colon", c)
	}
	var want int
	var part string
	switch kind {
	case "refused":
		if _, err := fmt.Sscanf(said, "refused %d %q", &want, &part); err != nil {
			b.Fatalf("%s: %v", c, err)
		}
	case "flagged":
		if _, err := fmt.Sscanf(said, "flagged %q", &part); err != nil {
			b.Fatalf("%s: %v", c, err)
		}
	}
	args := b.args(words)
	if kind == "flagged" && args[0] == "audit" {
		args, part = append(args, "--format", "json"), `"rule_id":"`+part+`"`
		if strings.Contains(strings.ReplaceAll(b.honest(), `"rule_id": "`, `"rule_id":"`), part) {
			b.Errorf("%s: the honest run has that finding, too", c)
		}
	}
	code, stdout, stderr := b.command(args...)
	stdout = strings.ReplaceAll(stdout, `"rule_id": "`, `"rule_id":"`)
	text := strings.Join(strings.Fields(stdout+" "+stderr), " ")
	if kind != "flagged" && code != want || kind == "flagged" && code != exit.OK && code != exit.Findings || !strings.Contains(text, part) {
		if kind == "flagged" && args[0] == "audit" {
			stdout = strings.Join(regexp.MustCompile(`"rule_id": ?"[^"]+"`).FindAllString(stdout, -1), "\n") + "\n"
		}
		b.Errorf("%s\nexit code %d\n%s%s", c, code, stdout, stderr)
	}
}

// TestClockBehind: nothing is decided about a run by a clock that is before its end.
func TestClockBehind(t *testing.T) {
	b := bench{T: t, dir: t.TempDir()}
	for _, c := range []string{"base leak", "shift 9000000000", "sign",
		`refused 1 "the time of this machine is ": adjudicate RUN --finding FINDING/AUD-1.uuid-with-answer --decision void --reason seen`} {
		b.do(c)
	}
	if _, err := os.Stat(b.path("run/attestations")); err == nil {
		t.Error("a decision was written")
	}
}

// TestSubmitDate: no package is dated before the end of its run, but for time zones.
func TestSubmitDate(t *testing.T) {
	t.Parallel()
	b := bench{T: t, dir: t.TempDir()}
	for _, c := range []string{"base harbour", "refused 3 \"the package is dated 2026-03-02, which is before the end of the run, 2026-03-04T\": submit --allow-dirty --out COPY/out --date 2026-03-02 RUN",
		"submit --date 2026-03-03", "passes: verify PACKAGE"} {
		b.do(c)
	}
}
