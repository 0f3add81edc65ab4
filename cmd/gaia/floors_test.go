package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/gaia-harness/gaia/"

// floors has the floor of each package: it imports packages of lower floors only.
var floors = map[string]int{
	"internal/calc": 0, "internal/canonical": 0, "internal/child": 0, "internal/durable": 0, "internal/heap": 0, "internal/origin": 0, "internal/pending": 0, "internal/parquetfile": 0,
	"internal/policy": 0, "internal/regular": 0, "internal/secret": 0, "internal/shim": 0, "internal/selection": 0, "internal/stats": 0,
	"internal/transport": 0, "internal/visible": 0, "tools/internal/direct": 0,
	"internal/queue": 1, "internal/plot": 1, "internal/guard": 1, "internal/llm": 1, "internal/sign": 1, "internal/unpack": 1, "internal/view": 1, "loader": 1,
	"judgecache": 2, "trajectory": 2,
	"audit/probe": 3, "internal/exit": 3, "internal/outage": 3, "internal/plan": 3, "internal/prompt": 3, "trajectory/witness": 3,
	"internal/agentdir": 4, "examples/agents": 4, "internal/keyring": 4, "internal/outfile": 4, "internal/rundir": 4, "judge": 4, "tools": 4,
	"agent": 5, "audit": 5, "internal/history": 5, "internal/preflight": 5,
	"internal/runview": 5, "submit/export": 5, "tools/media": 5, "tools/sandbox": 5,
	"internal/transcript": 6, "audit/render": 6, "internal/doctor": 6, "internal/attachment": 6, "internal/evaluator": 6, "internal/budget": 6, "internal/progress": 6, "internal/stop": 6,
	"internal/intercept": 6, "internal/proxy": 6, "internal/prune": 6, "internal/runfiles": 6, "submit": 6, "tools/document": 6,
	"agent/external": 7, "internal/approve": 7, "internal/trial": 7, "internal/tasklist": 7, "internal/grading": 7, "tools/web": 7,
	"internal/planfolder": 8, "internal/remote": 8, "internal/run": 9, "internal/runenv": 8, "internal/verify": 8, "tools/mcp": 8, "internal/hubenv": 8, "internal/build": 3,
	"internal/merge": 9, "internal/workers": 10, "internal/settings": 9, "internal/witnessfile": 9, "internal/page": 7,
	"internal/cli": 10, "internal/ledger": 10, "internal/policyfile": 10, "internal/servers": 10,
	"internal/overview": 11, "internal/runflags": 11, "internal/board": 11, "internal/runlist": 11, "internal/equip": 12, "internal/viewer": 12,
	"cmd/gaia": 13,
}

// apart are packages on no floor; the tests below restrict who imports them.
var apart = []string{"fixtures", "github.com/gaia-harness/gaia", "internal/testkit/browser", "internal/testkit/compare", "internal/testkit/gen", "internal/testkit/long", "internal/testkit/pages", "internal/testkit/runs", "internal/testkit/hub", "internal/testkit/endpoint", "internal/testkit/files", "tools/internal/tooltest", "internal/secret/gen"}

// pure are the packages that reach no network, start no process, and read no
// clock and no randomness of their own.
var pure = []string{"internal/regular", "internal/exit", "internal/prune", "internal/canonical", "internal/plan", "internal/history", "internal/parquetfile", "internal/stats", "audit", "audit/probe", "audit/render", "trajectory", "trajectory/witness", "judge", "judgecache", "internal/calc", "internal/origin", "internal/rundir", "internal/policy", "internal/prompt", "internal/secret", "internal/selection", "internal/sign", "internal/unpack", "internal/visible", "internal/view", "internal/runview", "internal/plot", "internal/transcript", "internal/page", "submit/export"}

type goPackage struct {
	ImportPath string
	Dir        string
	Imports    []string
	GoFiles    []string
}

func (p goPackage) name() string { return strings.TrimPrefix(p.ImportPath, module) }

// packages lists the module's packages by go list.
func packages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestFloors(t *testing.T) {
	for _, p := range packages(t) {
		floor, known := floors[p.name()]
		if !known {
			if !slices.Contains(apart, p.name()) {
				t.Errorf("%s stands on no floor", p.name())
			}
			continue
		}
		for _, path := range p.Imports {
			name, own := strings.CutPrefix(path, module)
			if !own {
				continue
			}
			if name == "fixtures" && p.name() == "cmd/gaia" {
				continue
			}
			below, known := floors[name]
			if !known || below >= floor {
				t.Errorf("%s (floor %d) imports %s", p.name(), floor, name)
			}
		}
	}
}

// TestGateIsTheOnlyWay: the key to calling a tool without the Gate is named by tools and
// by what only tests import.
func TestGateIsTheOnlyWay(t *testing.T) {
	for _, p := range packages(t) {
		if slices.Contains(p.Imports, module+"tools/internal/direct") && p.name() != "tools" && p.name() != "tools/internal/tooltest" {
			t.Errorf("%s imports the key", p.name())
		}
	}
}

// TestBlindAgent: the agent and its tools cannot name the type that holds a
// gold answer, not even through what they import.
func TestBlindAgent(t *testing.T) {
	imports := map[string][]string{}
	for _, p := range packages(t) {
		imports[p.name()] = p.Imports
	}
	for _, from := range []string{"agent", "agent/external", "internal/guard", "internal/intercept", "internal/proxy", "internal/shim", "tools", "tools/sandbox", "tools/media", "tools/document", "tools/web", "tools/mcp"} {
		if imports[from] == nil {
			t.Fatalf("there is no package %s", from)
		}
		seen := map[string]bool{}
		var visit func(string)
		visit = func(name string) {
			for _, path := range imports[name] {
				if below, own := strings.CutPrefix(path, module); own && !seen[below] {
					seen[below] = true
					visit(below)
				}
			}
		}
		visit(from)
		for _, never := range []string{"loader", "judge", "judgecache", "internal/rundir", "audit", "audit/probe", "fixtures"} {
			if seen[never] {
				t.Errorf("%s can reach %s", from, never)
			}
		}
	}
}

// TestPurePackages: no network, process, clock, environment or randomness, not even through a package that they import.
// internal/durable writes files and is allowed.
func TestPurePackages(t *testing.T) {
	forbidden := regexp.MustCompile(`^(net|net/(http|rpc|smtp|mail|textproto)(/.*)?|os/exec|os/signal|math/rand(/v2)?|crypto/rand|syscall)$`)
	calls := map[string][]string{
		"time": {"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Sleep"},
		"os":   {"Getenv", "LookupEnv", "Environ", "StartProcess", "Getpid", "Hostname"},
		"ulid": {"Make", "Now", "DefaultEntropy"},
	}
	for _, p := range packages(t) {
		if !slices.Contains(pure, p.name()) {
			continue
		}
		for _, path := range p.Imports {
			if forbidden.MatchString(path) {
				t.Errorf("%s imports %s", p.name(), path)
			}
			if name, own := strings.CutPrefix(path, module); own && !slices.Contains(pure, name) && name != "internal/durable" {
				t.Errorf("%s imports %s, which is not pure", p.name(), name)
			}
		}
		eachFile(t, p, func(name string, f *ast.File) {
			ast.Inspect(f, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if x, ok := s.X.(*ast.Ident); ok && slices.Contains(calls[x.Name], s.Sel.Name) {
					t.Errorf("%s uses %s.%s", name, x.Name, s.Sel.Name)
				}
				return true
			})
		})
	}
}

// TestListedPackages: every package that the lists name is there, so that a rule for
// one that was renamed does not hold for nothing.
func TestListedPackages(t *testing.T) {
	var found []string
	for _, p := range packages(t) {
		found = append(found, p.name())
	}
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(floors)), apart, pure) {
		if !slices.Contains(found, name) {
			t.Errorf("there is no package %s", name)
		}
	}
}

// TestEnvironment: only the command reads the environment, and only it and
// internal/workers import internal/run, and only it fixtures.
func TestEnvironment(t *testing.T) {
	for _, p := range packages(t) {
		if slices.Contains([]string{"cmd/gaia", "internal/testkit/browser", "internal/testkit/long", "internal/secret/gen"}, p.name()) { // the last three are for tests and go generate
			continue
		}
		if slices.Contains(p.Imports, module+"internal/run") && p.name() != "internal/workers" {
			t.Errorf("%s imports internal/run", p.name())
		}
		if slices.Contains(p.Imports, module+"fixtures") {
			t.Errorf("%s imports fixtures", p.name())
		}
		eachFile(t, p, func(name string, f *ast.File) {
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := s.X.(*ast.Ident); ok && x.Name == "os" && slices.Contains([]string{"Getenv", "LookupEnv", "Environ", "ExpandEnv"}, s.Sel.Name) {
						t.Errorf("%s reads the environment", name)
					}
				}
				return true
			})
		})
	}
}

// TestProgramsGetAnEnvironment: every program that is started is told what it sees
// of the environment, which holds keys.
func TestProgramsGetAnEnvironment(t *testing.T) {
	starts := 0
	for _, p := range packages(t) {
		eachFile(t, p, func(name string, f *ast.File) {
			for _, d := range f.Decls {
				commands, given := startedIn(d)
				for _, command := range commands {
					if starts++; !slices.Contains(given, command) {
						t.Errorf("%s starts a program, %q, and does not set its Env in the same function", name, command)
					}
				}
			}
		})
	}
	if starts < 5 {
		t.Errorf("only %d starts of programs were found", starts)
	}
}

// startedIn returns the variables of the commands that are made in a declaration,
// "" for one that is not kept in a variable, and those whose Env is set.
func startedIn(d ast.Decl) (commands, given []string) {
	isCommand := func(e ast.Expr) bool {
		call, ok := e.(*ast.CallExpr)
		if !ok {
			return false
		}
		s, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		x, ok := s.X.(*ast.Ident)
		return ok && x.Name == "exec" && (s.Sel.Name == "Command" || s.Sel.Name == "CommandContext")
	}
	named := map[ast.Expr]bool{}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if s, ok := left.(*ast.SelectorExpr); ok && s.Sel.Name == "Env" {
					if x, ok := s.X.(*ast.Ident); ok {
						given = append(given, x.Name)
					}
				}
				if x, ok := left.(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) && isCommand(n.Rhs[i]) {
					commands, named[n.Rhs[i]] = append(commands, x.Name), true
				}
			}
		case ast.Expr:
			if isCommand(n) && !named[n] {
				commands = append(commands, "")
			}
		}
		return true
	})
	return commands, given
}

// TestPackageDocs: every package says what it promises, in one place. One of tests alone promises nothing.
func TestPackageDocs(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) == 0 {
			continue
		}
		var doc string
		places := 0
		eachFile(t, p, func(_ string, f *ast.File) {
			if f.Doc != nil {
				doc = f.Doc.Text()
				places++
			}
		})
		if places != 1 || len(doc) < 300 {
			t.Errorf("%s has a package comment of %d bytes in %d files", p.name(), len(doc), places)
		}
	}
}

// TestHygiene: nothing registers itself, silences a check, or is called after
// nothing in particular.
func TestHygiene(t *testing.T) {
	suppression := regexp.MustCompile(`//\s*(nolint|lint:ignore|lint:file-ignore|#nosec)`)
	for _, p := range packages(t) {
		if base := filepath.Base(p.Dir); slices.Contains([]string{"util", "utils", "common", "types", "helpers", "manager"}, base) {
			t.Errorf("%s is called %s", p.name(), base)
		}
		eachFile(t, p, func(name string, f *ast.File) {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
					t.Errorf("%s has an init function", name)
				}
			}
		})
	}
	err := filepath.WalkDir(root(t), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "floors_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if m := suppression.Find(source); m != nil {
			t.Errorf("%s has a suppression: %s", path, m)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDependenciesDocumented: every direct dependency stands in
// docs/dependencies.md with its version, and nothing else does.
func TestDependenciesDocumented(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{if not .Indirect}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", "all").Output()
	if err != nil {
		t.Fatalf("go list -m: %v", err)
	}
	doc := readFile(t, "docs/dependencies.md")
	direct := 0
	for line := range strings.Lines(string(out)) {
		path, version, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		direct++
		if !strings.Contains(doc, "| `"+path+"` | "+version+" |") {
			t.Errorf("docs/dependencies.md does not name %s %s", path, version)
		}
	}
	if rows := strings.Count(doc, "\n| `"); rows != direct {
		t.Errorf("docs/dependencies.md has %d rows, go.mod %d direct dependencies", rows, direct)
	}
}

// TestReadmeCommands: the README's two commands are the ones .ci/run runs.
func TestReadmeCommands(t *testing.T) {
	readme, ci := readFile(t, "README.md"), readFile(t, ".ci/run")
	ci = regexp.MustCompile(`go test( \./[a-z/]+)+ \./\.\.\.`).ReplaceAllString(ci, "go test ./...") // which names the longest first
	_, after, ok := strings.Cut(readme, "```sh\n")
	block, _, closed := strings.Cut(after, "```")
	if !ok || !closed {
		t.Fatal("README.md has no block of commands")
	}
	commands := 0
	for line := range strings.Lines(block) {
		command, _, _ := strings.Cut(line, "#")
		if command = strings.TrimSpace(command); command == "" {
			continue
		}
		commands++
		if !strings.Contains(ci, command) {
			t.Errorf(".ci/run does not run %q", command)
		}
	}
	if commands != 2 {
		t.Errorf("the README's first block has %d commands, not two", commands)
	}
}

// TestRequirements: each row of docs/requirements.md has the next number, a
// requirement, what shows it, and a state: yes, or partly or no with a reason.
// What it names exists: tests, transcripts, commands with their flags.
func TestRequirements(t *testing.T) {
	tests := declaredTests(t)
	named := regexp.MustCompile("`([^`]*)`")
	rows := 0
	for line := range strings.Lines(readFile(t, "docs/requirements.md")) {
		row, isRow := strings.CutPrefix(strings.TrimSpace(line), "| ")
		if !isRow || strings.HasPrefix(row, "| ") { // the head of a table
			continue
		}
		rows++
		cells := strings.Split(strings.TrimSuffix(row, " |"), " | ")
		if len(cells) != 4 || cells[0] != strconv.Itoa(rows) || !strings.HasSuffix(cells[1], ".") {
			t.Errorf("row %d is no row of four cells, beginning with its number: %s", rows, line)
			continue
		}
		state, reason, _ := strings.Cut(cells[3], ": ")
		if known := state == "yes" || state == "partly" || state == "no"; !known || (state == "yes") != (reason == "") || reason != "" && len(reason) < 10 {
			t.Errorf("row %d has the state %q: want yes, or partly or no with a reason", rows, cells[3])
		}
		shown := named.FindAllStringSubmatch(cells[2], -1)
		if len(shown) == 0 && state != "no" {
			t.Errorf("row %d does not say what shows it", rows)
		}
		for _, s := range shown {
			if why := missing(t, tests, s[1]); why != "" {
				t.Errorf("row %d names %q: %s", rows, s[1], why)
			}
		}
	}
	if rows < 135 {
		t.Errorf("docs/requirements.md has %d rows", rows)
	}
}

// missing says why what a row of docs/requirements.md names does not exist.
func missing(t *testing.T, tests map[string][]string, name string) string {
	t.Helper()
	isFile := func(path string) bool {
		info, err := os.Stat(filepath.Join(root(t), path))
		return err == nil && info.Mode().IsRegular()
	}
	switch command, isGaia := strings.CutPrefix(name, "gaia "); {
	case isGaia:
		words := strings.Fields(command)
		root, done := sharedCommands()
		defer done()
		cmd, rest, err := root.Find(words)
		if err != nil || !cmd.HasParent() {
			return "there is no such command"
		}
		for _, word := range rest {
			if flag, is := strings.CutPrefix(word, "--"); is {
				if flag, _, _ = strings.Cut(flag, "="); cmd.Flags().Lookup(flag) == nil {
					return "the command has no flag --" + flag
				}
			}
		}
	case strings.HasSuffix(name, ".txtar"):
		if !isFile("cmd/gaia/testdata/script/" + name) {
			return "there is no such transcript"
		}
	case strings.HasPrefix(name, "make "):
		if !strings.Contains(readFile(t, "Makefile"), "\n"+strings.TrimPrefix(name, "make ")+":") {
			return "the Makefile has no such target"
		}
	case strings.HasPrefix(name, ".ci/"):
		if !isFile(name) {
			return "there is no such file"
		}
	default:
		if n := len(tests[name]); n != 1 {
			return fmt.Sprintf("%d folders have such a test, benchmark, fuzz target or example", n)
		}
	}
	return ""
}

// declaredTests returns the folders of the module's tests, benchmarks, fuzz
// targets and examples, by the folder's base and their own name, as in
// "run.TestResume".
func declaredTests(t *testing.T) map[string][]string {
	t.Helper()
	test := regexp.MustCompile(`^(Test|Benchmark|Fuzz|Example)[A-Z]`)
	tests := map[string][]string{}
	err := filepath.WalkDir(root(t), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && test.MatchString(fn.Name.Name) {
				name, dir := filepath.Base(filepath.Dir(path))+"."+fn.Name.Name, filepath.Dir(path)
				if !slices.Contains(tests[name], dir) {
					tests[name] = append(tests[name], dir)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

func eachFile(t *testing.T, p goPackage, visit func(string, *ast.File)) {
	t.Helper()
	for _, name := range p.GoFiles {
		path := filepath.Join(p.Dir, name)
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		visit(path, f)
	}
}

// root returns the top of the source tree.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
