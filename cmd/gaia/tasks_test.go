package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/tasklist"
	"github.com/gaia-harness/gaia/internal/testkit/hub"
	"github.com/gaia-harness/gaia/loader"
	"github.com/go-json-experiment/json"
)

func builtin(t *testing.T, split loader.Split, source loader.Source) (loader.Set, loader.Gold) {
	t.Helper()
	set, gold, err := loader.Load(context.Background(), source, split, loader.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return set, gold
}

func builtinSource() loader.Source {
	return loader.Dir(fixtures.Dataset(), fixtures.Name, fixtures.Revision)
}

// output is what the program prints in an empty environment.
func output(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{stdout: &out, stderr: &errs, getenv: func(string) string { return "" }, began: time.Now()}
	if err := a.executeHere(args...); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return out.String(), errs.String()
}

// TestTasksKeepGold: no answer leaves any of the commands unless it is asked for.
func TestTasksKeepGold(t *testing.T) {
	t.Parallel()
	set, gold := builtin(t, loader.Validation, builtinSource())
	var questions strings.Builder
	ids := []string{}
	for _, task := range set.Tasks {
		questions.WriteString(task.Question + "\n")
		ids = append(ids, task.ID)
	}
	// An answer that stands in a question, or could stand in a time or a
	// digest, would tell nothing.
	var telling []string
	for _, answer := range gold.Map() {
		if strings.ContainsFunc(answer, unicode.IsUpper) && !strings.Contains(questions.String(), answer) {
			telling = append(telling, answer)
		}
	}
	if len(telling) < 7 {
		t.Fatalf("only %d answers to look for", len(telling))
	}
	show := append([]string{"show"}, ids...)
	for _, c := range [][]string{{"list"}, show, {"stats"}, {"download"}} {
		for _, flags := range [][]string{nil, {"--json"}} {
			args := slices.Concat([]string{"tasks"}, c, flags)
			stdout, stderr := output(t, args...)
			for _, answer := range telling {
				if strings.Contains(stdout+stderr, answer) {
					t.Errorf("%q prints %q", args[:2], answer)
				}
			}
			if c[0] != "list" && c[0] != "show" {
				continue
			}
			stdout, stderr = output(t, append(args, "--gold")...)
			for _, answer := range telling {
				if !strings.Contains(stdout, answer) || strings.Contains(stderr, answer) {
					t.Errorf("%q --gold does not print %q, or not where it should", args[:2], answer)
				}
			}
			if !strings.Contains(stderr, "gaia: warning: ") {
				t.Errorf("%q --gold does not warn: %q", args[:2], stderr)
			}
		}
	}
}

func TestTasksJSON(t *testing.T) {
	t.Parallel()
	set, gold := builtin(t, loader.Validation, builtinSource())
	strict := func(into any, args ...string) {
		t.Helper()
		stdout, _ := output(t, append(args, "--json")...)
		if err := json.Unmarshal([]byte(stdout), into, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("%q: %v", args, err)
		}
	}
	var list, golden tasklist.List
	strict(&list, "tasks", "list", "--level", "1,3")
	want := tasklist.Dataset{Name: fixtures.Name, Revision: fixtures.Revision, Split: loader.Validation, SplitSize: 40, Selection: "level=1,3",
		MetadataFile: set.MetadataFile, MetadataSHA256: set.Digest}
	if list.Dataset != want || len(list.Tasks) != 23 {
		t.Errorf("list: %+v", list)
	}
	strict(&golden, "tasks", "list", "--gold")
	for i, task := range golden.Tasks {
		of := set.Tasks[i]
		if want := (tasklist.Task{TaskID: of.ID, Level: of.Level, Question: of.Question, FileName: of.FileName, Gold: gold.Map()[of.ID]}); task != want {
			t.Errorf("task %d: %+v", i, task)
		}
	}
	var shown tasklist.List
	strict(&shown, "tasks", "show", "fab1e021", "fab1e005")
	if len(shown.Tasks) != 2 || shown.Tasks[0].TaskID[:8] != "fab1e021" || shown.Tasks[1].TaskID[:8] != "fab1e005" {
		t.Errorf("show: %+v", shown.Tasks)
	}
	var stats tasklist.Stats
	strict(&stats, "tasks", "stats", "--level", "2")
	if l := stats.Levels; len(l) != 3 || l[0].Tasks != 0 || l[0].SplitSize != 14 || l[1].Tasks != 17 || l[1].Files(".pdf") != 1 || !stats.CarriedGold ||
		!slices.Equal(stats.OtherSplits, []tasklist.Split{{Name: loader.Test, Size: 6}}) {
		t.Errorf("stats: %+v", stats)
	}
	var fetched tasklist.Downloaded
	strict(&fetched, "tasks", "download", "--split", "test")
	if fetched.Files != 4 || fetched.Bytes == 0 || fetched.Failed == nil || len(fetched.Failed) > 0 {
		t.Errorf("download: %+v", fetched)
	}
}

// trouble is the built-in dataset with attachments that cannot be had.
type trouble struct {
	loader.Source
	open func(ctx context.Context, name string) (io.ReadCloser, error) // nil, nil: as it is
}

func (s trouble) Open(ctx context.Context, revision, name string) (io.ReadCloser, error) {
	if !strings.Contains(name, "metadata") {
		if rc, err := s.open(ctx, name); rc != nil || err != nil {
			return rc, err
		}
	}
	return s.Source.Open(ctx, revision, name)
}

func TestDownloadFailures(t *testing.T) {
	refused := &loader.SourceError{Reason: "the hub refuses it", Remedies: []string{"accept the terms"}}
	broken := false
	set, _ := builtin(t, loader.Validation, trouble{builtinSource(), func(_ context.Context, name string) (io.ReadCloser, error) {
		switch {
		case !broken:
			return nil, nil
		case strings.Contains(name, "fab1e002"), strings.Contains(name, "fab1e003"):
			return nil, refused
		case strings.Contains(name, "fab1e004"):
			return io.NopCloser(io.MultiReader(strings.NewReader("{"), cut{})), nil
		}
		return nil, nil
	}})
	var out, errs bytes.Buffer
	a := &app{stdout: &out, stderr: &errs, getenv: func(name string) string { return map[string]string{"HF_HUB_CACHE": "/cache"}[name] }}
	q := &taskQuery{Tasks: runflags.Tasks{Source: runflags.SourceHub}}
	broken = true
	code := a.exit(a.download(context.Background(), q, set, &tasklist.Download{Out: a.stderr}))
	if code != exit.Failure || out.String() != "20 of 23 attachments are there (134.9 KB), in /cache\n" {
		t.Errorf("exit %d, %q", code, out.String())
	}
	_, list, _ := strings.Cut(errs.String(), "gaia: error: ")
	want := `3 of 23 attachments could not be read
gaia: reason: opening "2023/validation/fab1e002-0000-4000-8000-000000000002.csv", the attachment of task "fab1e002-0000-4000-8000-000000000002": the hub refuses it
gaia: reason: opening "2023/validation/fab1e003-0000-4000-8000-000000000003.txt", the attachment of task "fab1e003-0000-4000-8000-000000000003": the hub refuses it
gaia: reason: reading "fab1e004-0000-4000-8000-000000000004.json", the attachment of task "fab1e004-0000-4000-8000-000000000004": connection lost
gaia: hint: accept the terms
gaia: hint: the same command fetches what is missing, and only that
`
	if list != want {
		t.Errorf("got\n%s\nwant\n%s", list, want)
	}
	broken = false
	out.Reset()
	if err := a.download(context.Background(), q, set, &tasklist.Download{Out: a.stderr}); err != nil || out.String() != "nothing to download: 23 attachments are there (135.8 KB), in /cache\n" {
		t.Errorf("again: %v, %q", err, out.String())
	}
}

// cut is a body that ends too early.
type cut struct{}

func (cut) Read([]byte) (int, error) { return 0, errors.New("connection lost") }

// TestDownloadInterrupted: an interrupt ends the transfers under way, begins no
// further one, and says how far it came.
func TestDownloadInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	var mu sync.Mutex
	opened := 0
	set, _ := builtin(t, loader.Validation, trouble{builtinSource(), func(ctx context.Context, _ string) (io.ReadCloser, error) {
		mu.Lock()
		opened++
		first, last := opened == 1, opened == 5
		mu.Unlock()
		if first {
			return nil, nil
		}
		if last {
			interrupt()
		}
		<-ctx.Done()
		return nil, fmt.Errorf("fetching: %w", ctx.Err())
	}})
	var out, errs bytes.Buffer
	a := &app{stdout: &out, stderr: &errs}
	code := a.exit(a.download(ctx, &taskQuery{Tasks: runflags.Tasks{Source: runflags.SourceHub}}, set, &tasklist.Download{Out: a.stderr}))
	if code != exit.Interrupted || out.Len() > 0 || opened != 5 {
		t.Errorf("exit %d, %d opened, %q", code, opened, out.String())
	}
	if _, list, _ := strings.Cut(errs.String(), "gaia: error: "); !regexp.MustCompile(`^interrupted; 1 of 23 attachments are there \(.*\)\ngaia: hint: the same command continues with the rest\n$`).MatchString(list) || strings.Contains(errs.String(), "failed") {
		t.Errorf("%s", errs.String())
	}
}

// hubOfTasks serves the built-in tasks as a dataset of a hub.
func hubOfTasks(t *testing.T) (server *hub.Server, repo, commit string) {
	t.Helper()
	repo, commit = "invented/tasks", "0123456789abcdef0123456789abcdef01234567"
	server, err := hub.Serve(hub.Config{Repo: repo, Commits: map[string]fs.FS{commit: fixtures.Dataset()}, Refs: map[string]string{"main": commit}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server, repo, commit
}

// attachmentsAsked are the attachments whose bytes were asked for, but for the
// first requests.
func attachmentsAsked(server *hub.Server, but int) (names []string) {
	for _, r := range server.Requests()[but:] {
		if name := path.Base(r.File); r.Method == http.MethodGet && strings.HasPrefix(name, "fab1e") && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// TestDownloadSignal: Ctrl-C ends a transfer that hangs, with its own exit code,
// and the same command goes on with that file alone.
func TestDownloadSignal(t *testing.T) {
	t.Parallel()
	server, repo, _ := hubOfTasks(t)
	const hanging = "fab1e008-0000-4000-8000-000000000008.xlsx"
	server.Fail(hub.Match{CDN: true, Path: hanging}, 1, hub.Stall(5000))
	p := newProgram(t)
	download := func() *exec.Cmd {
		cmd := p.command("tasks", "download", "--dataset", "hub:"+repo)
		cmd.Env = append(cmd.Env, "HF_ENDPOINT="+server.URL)
		return cmd
	}
	cmd := download()
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	there := 0
	for in := bufio.NewScanner(pipe); in.Scan(); {
		stderr.WriteString(in.Text() + "\n")
		if strings.Contains(in.Text(), "attachment is there") {
			there++
		}
		if there == 22 {
			there++
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != exit.Interrupted || !strings.Contains(stderr.String(), "gaia: error: interrupted; 22 of 23 attachments are there (") {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	before := len(server.Requests())
	out, err := download().Output()
	if asked := attachmentsAsked(server, before); err != nil || !strings.HasPrefix(string(out), "23 attachments are there (135.8 KB), in /") || !slices.Equal(asked, []string{hanging}) {
		t.Errorf("again: %v, %q, asked for %q", err, out, asked)
	}
}

// TestTasksSignal: Ctrl-C also ends the wait for the metadata.
func TestTasksSignal(t *testing.T) {
	server, repo, _ := hubOfTasks(t)
	server.Fail(hub.Match{}, -1, hub.Hang())
	cmd := newProgram(t).command("tasks", "list", "--dataset", "hub:"+repo)
	cmd.Env = append(cmd.Env, "HF_ENDPOINT="+server.URL)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for len(server.Requests()) == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != exit.Interrupted || out.String() != "gaia: error: interrupted\n" {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestDownloadFromHub: a damaged file fails alone, the second run fetches it
// alone, and the third fetches nothing.
func TestDownloadFromHub(t *testing.T) {
	server, repo, commit := hubOfTasks(t)
	env := map[string]string{"HF_ENDPOINT": server.URL, "HF_HUB_CACHE": t.TempDir(), "OPENAI_API_KEY": "invented"}
	run := func(args ...string) (code int, stdout, stderr string, fetched []string) {
		t.Helper()
		var out, errs bytes.Buffer
		a := &app{stdout: &out, stderr: &errs, getenv: func(name string) string { return env[name] }, began: time.Now()}
		before := len(server.Requests())
		code = a.exit(a.executeHere(append([]string{"tasks"}, args...)...))
		return code, out.String(), errs.String(), attachmentsAsked(server, before)
	}
	source := "hub:" + repo
	code, stdout, stderr, fetched := run("list", "--dataset", source)
	if code != exit.OK || strings.Count(stdout, "\n fab1e") != 40 || !strings.Contains(stdout, "\ndataset  "+repo+", revision "+commit+"\nhub      "+server.URL+"\n") ||
		strings.Count(stderr, "gaia: hub: fetched 2023/") != 2 || len(fetched) > 0 {
		t.Errorf("list: exit %d\n%s%s%q", code, stdout, stderr, fetched)
	}
	code, stdout, _, fetched = run("show", "--dataset", source, "fab1e011")
	if code != exit.OK || !strings.Contains(stdout, "attachment: fab1e011-0000-4000-8000-000000000011.pdf\n") || len(fetched) > 0 {
		t.Errorf("show: exit %d\n%s%q", code, stdout, fetched)
	}
	const damaged = "fab1e008-0000-4000-8000-000000000008.xlsx"
	server.Fail(hub.Match{CDN: true, Path: damaged}, 1, hub.Garble())
	code, stdout, stderr, fetched = run("download", "--dataset", source)
	if code != exit.Failure || !strings.HasPrefix(stdout, "22 of 23 attachments are there (") || len(fetched) != 23 {
		t.Errorf("first: exit %d, %q, %q", code, stdout, fetched)
	}
	for _, want := range []string{"gaia: error: 1 of 23 attachments could not be read\n", damaged, "gaia: hint: try again later", "gaia: hint: the same command fetches what is missing, and only that\n"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in\n%s", want, stderr)
		}
	}
	code, stdout, _, fetched = run("download", "--dataset", source)
	if code != exit.OK || stdout != "23 attachments are there (135.8 KB), in "+env["HF_HUB_CACHE"]+"\n" || !slices.Equal(fetched, []string{damaged}) {
		t.Errorf("second: exit %d, %q, %q", code, stdout, fetched)
	}
	code, stdout, _, fetched = run("download", "--dataset", source)
	if code != exit.OK || stdout != "nothing to download: 23 attachments are there (135.8 KB), in "+env["HF_HUB_CACHE"]+"\n" || len(fetched) > 0 {
		t.Errorf("third: exit %d, %q, %q", code, stdout, fetched)
	}
	// With a key in the environment, GAIA is meant, which this hub lacks.
	code, stdout, stderr, _ = run("stats")
	if code != exit.Failure || stdout != "" || strings.Contains(stderr, "built-in") || !strings.Contains(stderr, "gaia: hint: ") {
		t.Errorf("stats of GAIA: exit %d, %q\n%s", code, stdout, stderr)
	}
}
