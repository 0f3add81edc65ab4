package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/equip"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/internal/testkit/pages"
	"github.com/gaia-harness/gaia/tools/sandbox"
	"github.com/spf13/cobra"
)

// Blocks of commands in a page are fenced, and the words after the fence say what tests do with them:
//
//	sh             run, all blocks of a page in order in one empty folder with an empty home. "exit code 3" in the
//	               comment of a line is the exit code that the line must have
//	sh needs-X     not run, since it needs X: a key, a network, a service, a terminal. With X "sandbox" it is run where
//	               the sandbox works
//	sh tested-by T not run, since the test T runs it
//	shell          a script to save as a file, which another test runs
//	text output    what the commands before it print; "…" is any text, a line "…" any lines
//
// Every command of gaia, in whatever block, must be one that the program itself parses.

// shellCommands returns the simple commands of a script, each as its words. Quotes are removed, variables stay, and what
// is in $( ) is a command like the others. Comments, redirections and here-documents are left out.
func shellCommands(script string) (commands [][]string) {
	var words []string
	var word strings.Builder
	inWord, skip := false, false // skip leaves out the next word, which is the file of a redirection
	endWord := func() {
		if inWord && !skip {
			words = append(words, word.String())
		}
		skip = skip && !inWord
		word.Reset()
		inWord = false
	}
	endCommand := func() {
		endWord()
		if len(words) > 0 {
			commands = append(commands, words)
		}
		words, skip = nil, false
	}
	end := "" // of the here-document that begins with the next line
	for i := 0; i < len(script); i++ {
		rest := script[i:]
		switch c := script[i]; {
		case strings.HasPrefix(rest, "\\\n"):
			i++
		case c == '\\' && i+1 < len(script):
			i++
			word.WriteByte(script[i])
			inWord = true
		case c == '\'' || c == '"':
			quoted, _, _ := strings.Cut(rest[1:], string(c))
			i += len(quoted) + 1
			word.WriteString(quoted)
			inWord = true
			if inner, is := strings.CutPrefix(quoted, "$("); is && c == '"' {
				commands = append(commands, shellCommands(strings.TrimSuffix(inner, ")"))...)
			}
		case strings.HasPrefix(rest, "$(") && !strings.HasPrefix(rest, "$(("):
			depth, j := 1, 2
			for ; j < len(rest) && depth > 0; j++ {
				depth += strings.Count(rest[j:j+1], "(") - strings.Count(rest[j:j+1], ")")
			}
			commands = append(commands, shellCommands(rest[2:j-1])...)
			word.WriteString("$x")
			inWord = true
			i += j - 1
		case c == '#' && !inWord:
			comment, _, _ := strings.Cut(rest, "\n")
			i += len(comment) - 1
		case c == '\n' && end != "":
			body, _, _ := strings.Cut(rest, "\n"+end+"\n")
			i += len(body) + len(end) + 1
			end = ""
			endCommand()
		case strings.HasPrefix(rest, "<<"):
			line, _, _ := strings.Cut(rest, "\n")
			end = strings.Trim(strings.Fields(strings.TrimLeft(line, "<-"))[0], `'"`)
			endWord()
			skip = true
			i++
		case c == '>' || c == '<':
			if strings.Trim(word.String(), "012") == "" {
				word.Reset()
				inWord = false
			}
			endWord()
			skip = true
			if i++; i < len(script) && (script[i] == '&' || script[i] == '>') {
				i++
			}
			i--
		case strings.IndexByte("\n;|&(){}", c) >= 0 && (strings.IndexByte("{}", c) < 0 || !inWord && !strings.HasPrefix(rest, "{{")):
			endCommand()
		case c == ' ' || c == '\t':
			endWord()
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	endCommand()
	return commands
}

// before are words that stand before the command of a line, and are no command.
var before = regexp.MustCompile(`^(if|then|else|elif|while|until|do|!|time|exec|command|env|[A-Za-z_]+=.*)$`)

// gaiaArgs returns the arguments that a simple command of a shell gives to gaia; nothing where it starts another program.
func gaiaArgs(words []string) (args []string, is bool) {
	for len(words) > 0 && before.MatchString(words[0]) {
		words = words[1:]
	}
	if len(words) > 2 && words[0] == "go" && words[1] == "run" && words[2] == "./cmd/gaia" {
		return words[3:], true
	}
	if len(words) > 0 && (words[0] == "xargs" || words[0] == "timeout" || words[0] == "srun") {
		if i := slices.Index(words, "gaia"); i > 0 {
			return append(slices.Clone(words[i+1:]), "$x"), true // the lines that xargs reads
		}
	}
	if len(words) > 0 && path.Base(words[0]) == "gaia" {
		return words[1:], true
	}
	return nil, false
}

// expression is an expression of a workflow, variable what a shell expands: values that are not known here.
var (
	expression = regexp.MustCompile(`\$\{\{[^}]*\}\}`)
	variable   = regexp.MustCompile(`\$[A-Za-z_]+|\$\{[A-Za-z_]+\}`)
)

// parse returns why gaia would refuse the command line by itself, without looking at a file: an unknown command or flag,
// a value of another kind, or too many arguments. Flags under an earlier name are refused, too.
func parse(args []string) error {
	args = slices.Clone(args)
	for i, arg := range args {
		args[i] = variable.ReplaceAllString(arg, "1")
	}
	root := (&app{getenv: func(string) string { return "" }}).root()
	defer forget(root)
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	for _, arg := range rest {
		name, is := strings.CutPrefix(arg, "--")
		name, _, _ = strings.Cut(name, "=")
		if f := cmd.Flags().Lookup(name); is && f != nil && f.Hidden {
			return fmt.Errorf("--%s is hidden: it is an earlier name", name)
		}
	}
	if help, err := cmd.Flags().GetBool("help"); err == nil && help {
		return nil
	}
	return errors.Join(cmd.ValidateArgs(cmd.Flags().Args()), cmd.ValidateRequiredFlags(), cmd.ValidateFlagGroups())
}

var shared struct {
	sync.Mutex
	root *cobra.Command
}

// sharedCommands returns the commands to look at, which nothing may change, and what to call after that: to make them takes
// milliseconds.
func sharedCommands() (root *cobra.Command, done func()) {
	shared.Lock()
	if shared.root == nil {
		shared.root = (&app{}).root()
	}
	return shared.root, shared.Unlock
}

// parseMention returns what is wrong with a command that a sentence mentions. It may lack arguments and values.
func parseMention(args []string) error {
	root, done := sharedCommands()
	defer done()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	if len(rest) > 0 && cmd.HasSubCommands() && regexp.MustCompile(`^[a-z]+$`).MatchString(rest[0]) {
		return fmt.Errorf("%s has no command %q", cmd.CommandPath(), rest[0])
	}
	for _, arg := range rest {
		name, is := strings.CutPrefix(strings.TrimRight(arg, ",.…"), "--")
		name, _, _ = strings.Cut(name, "=")
		switch f := cmd.Flags().Lookup(name); {
		case !is || name == "":
		case f == nil && cmd.InheritedFlags().Lookup(name) == nil:
			return fmt.Errorf("%s has no flag --%s", cmd.CommandPath(), name)
		case f != nil && f.Hidden:
			return fmt.Errorf("--%s is hidden: it is an earlier name", name)
		}
	}
	return nil
}

// TestPageCommands: every command of gaia in a block of a page is one that the program parses, and stands in a block of
// commands. A command that a sentence or a table mentions exists, and so do its flags.
func TestPageCommands(t *testing.T) {
	t.Parallel()
	tests := declaredTests(t)
	inline := regexp.MustCompile("`((?:go run ./cmd/)?gaia [^`]+)`")
	step := regexp.MustCompile(`^(- )?(run: |command: |\$ )?(gaia [a-z].*)`)
	commands, mentions := 0, 0
	for _, p := range pages.All(t, root(t)) {
		check := func(line int, script string) {
			for _, words := range shellCommands(script) {
				args, is := gaiaArgs(words)
				if !is {
					continue
				}
				commands++
				if err := parse(args); err != nil {
					t.Errorf("%s:%d: gaia %s: %v", p.Name, line, strings.Join(args, " "), err)
				}
			}
		}
		for _, b := range p.Blocks {
			kind, of, _ := strings.Cut(b.Info, " ")
			switch test, isTested := strings.CutPrefix(of, "tested-by "); {
			case kind == "sh" && isTested:
				if found := slices.Collect(keysOf(tests, "."+test)); len(found) != 1 {
					t.Errorf("%s:%d: the test %q is %q", p.Name, b.Line, test, found)
				}
				check(b.Line, b.Text)
			case kind == "sh" && (of == "" || regexp.MustCompile(`^(needs-[a-z]+ ?)+$`).MatchString(of)):
				check(b.Line, b.Text)
			case b.Info == "shell":
			case kind == "sh" || kind == "bash" || kind == "shell" || kind == "console":
				t.Errorf("%s:%d: the block of commands is %q; the comment in cmd/gaia/pages_test.go lists what it may be", p.Name, b.Line, b.Info)
			default:
				n := b.Line - 1
				for line := range strings.Lines(b.Text) {
					n++
					m := step.FindStringSubmatch(strings.TrimSpace(line))
					switch {
					case m == nil:
					case kind != "yaml" && kind != "dockerfile":
						t.Errorf("%s:%d: a command in a block that is not one of commands", p.Name, n)
					default:
						check(n, expression.ReplaceAllString(m[3], "1"))
					}
				}
			}
		}
		n := 0
		for line := range strings.Lines(p.Prose) {
			n++
			if command, is := strings.CutPrefix(line, "    "); is && regexp.MustCompile(`^(\./)?(gaia|go run \./cmd/gaia|go build) [a-z-]`).MatchString(command) {
				t.Errorf("%s:%d: commands stand in a fenced block, not indented", p.Name, n)
			}
			for _, m := range inline.FindAllStringSubmatch(line, -1) {
				if strings.HasPrefix(p.Name, "docs/requirements.md") {
					continue // TestRequirements
				}
				for _, words := range shellCommands(m[1]) {
					if args, is := gaiaArgs(words); is {
						mentions++
						if err := parseMention(args); err != nil {
							t.Errorf("%s:%d: %s: %v", p.Name, n, m[1], err)
						}
					}
				}
			}
		}
	}
	t.Logf("%d commands, %d mentions", commands, mentions)
	if commands < 50 || mentions < 200 {
		t.Errorf("found only %d commands and %d mentions", commands, mentions)
	}
}

// keysOf yields the keys of m that end in suffix.
func keysOf[V any](m map[string]V, suffix string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if strings.HasSuffix(k, suffix) && !yield(k) {
				return
			}
		}
	}
}

// TestExampleCommands: each example in the help of a command is one that the program parses.
func TestExampleCommands(t *testing.T) {
	t.Parallel()
	var visit func(*cobra.Command)
	examples := 0
	check := func(where, script string) {
		for _, words := range shellCommands(script) {
			if args, is := gaiaArgs(words); is {
				examples++
				if err := parse(args); err != nil {
					t.Errorf("%s: gaia %s: %v", where, strings.Join(args, " "), err)
				}
			}
		}
	}
	apart := regexp.MustCompile(`\s{2,}[^\s\\|].*$`) // what the example does
	visit = func(cmd *cobra.Command) {
		var script strings.Builder
		for line := range strings.Lines(cmd.Example) {
			fmt.Fprintln(&script, apart.ReplaceAllString(strings.TrimSpace(line), ""))
		}
		check("help of "+cmd.CommandPath(), script.String())
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit((&app{}).root())
	if examples < 60 {
		t.Errorf("only %d examples", examples)
	}
}

// TestCommandsInFiles: each command in the files of examples, workflows and packaging is one that the program parses. Commands
// that messages of the program and comments name, as in 'gaia verify', exist, and so do their flags.
func TestCommandsInFiles(t *testing.T) {
	t.Parallel()
	step := regexp.MustCompile(`^(?:#   +)?(?:- )?(?:run: |exec )?(gaia [a-z].*)`)
	quoted := regexp.MustCompile(`'gaia ([a-z][^'"\n]*)['"]`)
	commands, mentions := 0, 0
	err := fs.WalkDir(os.DirFS(root(t)), ".", func(name string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() && (e.Name() == "testdata" || e.Name() == ".git") {
			return fs.SkipDir
		}
		code := path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go")
		if err != nil || !e.Type().IsRegular() || !code && !strings.HasPrefix(name, "examples/") && !strings.HasPrefix(name, ".github/") {
			return err
		}
		n := 0
		for line := range strings.Lines(readFile(t, name)) {
			n++
			for _, m := range quoted.FindAllStringSubmatch(line, -1) {
				mentions++
				if err := parseMention(strings.Fields(m[1])); err != nil {
					t.Errorf("%s:%d: 'gaia %s': %v", name, n, m[1], err)
				}
			}
			m := step.FindStringSubmatch(strings.TrimSpace(line))
			if code || m == nil || path.Ext(name) == ".md" {
				continue
			}
			for _, words := range shellCommands(expression.ReplaceAllString(m[1], "1")) {
				if args, is := gaiaArgs(words); is {
					commands++
					if err := parse(args); err != nil {
						t.Errorf("%s:%d: gaia %s: %v", name, n, strings.Join(args, " "), err)
					}
				}
			}
		}
		return nil
	})
	if err != nil || commands < 10 || mentions < 50 {
		t.Errorf("%d commands, %d mentions, %v", commands, mentions, err)
	}
	t.Logf("%d commands, %d mentions", commands, mentions)
}

// TestShellCommands: the words of commands are found where a page could have them.
func TestShellCommands(t *testing.T) {
	for script, want := range map[string]string{
		"gaia run --model 'a b' # note\ngaia audit latest": `[["gaia" "run" "--model" "a b"] ["gaia" "audit" "latest"]]`,
		"gaia export x \\\n  -o y >out 2>&1 <in | jq .a":   `[["gaia" "export" "x" "-o" "y"] ["jq" ".a"]]`,
		"cat >f <<'EOF'\ngaia nonsense\nEOF\ngaia runs &":  `[["cat"] ["gaia" "runs"]]`,
		"if x=$(gaia runs --json); then echo \"$x\"; fi":   `[["gaia" "runs" "--json"] ["if" "x=$x"] ["then" "echo" "$x"] ["fi"]]`,
		"(cd a && gaia verify a#b.{c,d})":                  `[["cd" "a"] ["gaia" "verify" "a#b.{c,d}"]]`,
	} {
		if got := fmt.Sprintf("%q", shellCommands(script)); got != want {
			t.Errorf("%q:\n%s, want\n%s", script, got, want)
		}
	}
}

// TestPagesRun runs the commands of each page, as the comment at the top of this file says.
func TestPagesRun(t *testing.T) {
	long.OnlyThorough(t)
	long.NotRaced(t)
	_, err := sandbox.New(t.Context(), sandbox.Config{Bwrap: equip.OnPath("bwrap")})
	confined := err == nil
	for _, p := range pages.All(t, root(t)) {
		script, outputs := blocksToRun(p, confined)
		if script == "" {
			continue
		}
		t.Run(strings.ReplaceAll(p.Name, "/", "-"), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			home := filepath.Join(dir, "home")
			work := filepath.Join(dir, "work")
			for _, d := range []string{home, work} {
				if err := os.Mkdir(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "bash", "-c", script)
			cmd.Dir = work
			cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "HF_ENDPOINT=" + noHub, "GOGC=400", "LANG=C.UTF-8"}
			cmd.WaitDelay = 10 * time.Second
			var said strings.Builder
			cmd.Stderr = &said
			out, err := cmd.Output()
			if err != nil {
				lines := strings.Split(strings.TrimSpace(string(out)), "\n")
				t.Fatalf("%v, after\n%s\nand on standard error\n%s", err, strings.Join(lines[max(0, len(lines)-12):], "\n"), said.String())
			}
			shown := strings.Split(string(out), separator+"\n")[1:]
			for i, want := range outputs {
				if want != "" && !outputMatches(want, shown[i]) {
					t.Errorf("the page shows this output:\n%s\nthe commands print:\n%s", want, shown[i])
				}
			}
		})
	}
}

// separator is printed before each block of commands.
const separator = "=== next block ==="

// blocksToRun returns a script of the blocks of a page that can be run, and the output that the page shows for each; "" for none.
func blocksToRun(p pages.Page, confined bool) (script string, outputs []string) {
	var s strings.Builder
	exits := regexp.MustCompile(`^(\s*)(\S.*?)\s+#.*exit code (\d+)`)
	ran := false
	for _, b := range p.Blocks {
		switch {
		case b.Info == "text output":
			if ran {
				outputs[len(outputs)-1] = b.Text
			}
			continue
		case b.Info == "sh", b.Info == "sh needs-sandbox" && confined:
		default:
			ran = false
			continue
		}
		ran = true
		outputs = append(outputs, "")
		fmt.Fprintf(&s, "echo '%s'\n", separator)
		for line := range strings.Lines(b.Text) {
			line = strings.Replace(line, "go run ./cmd/gaia ", "gaia ", 1)
			if strings.HasPrefix(line, "go test ") { // .ci/run
				continue
			}
			if m := exits.FindStringSubmatch(line); m != nil {
				line = fmt.Sprintf("if %s; then echo 'the exit code is 0, not %s'; exit 1; else test $? = %s; fi\n", m[2], m[3], m[3])
			}
			s.WriteString(line)
		}
	}
	if s.Len() == 0 {
		return "", nil
	}
	return "set -Eeuo pipefail\ntrap 'echo \"exit code $? of: $BASH_COMMAND\" >&2' ERR\n" + s.String(), outputs
}

// outputMatches reports whether text is what a page shows: "…" stands for any text of a line, and a line "…" for any lines.
func outputMatches(shown, text string) bool {
	var pattern strings.Builder
	pattern.WriteString(`(?s)^\s*`)
	for line := range strings.Lines(shown) {
		line = strings.TrimRight(line, " \n")
		if line == "…" {
			pattern.WriteString(`(.*\n)??`)
			continue
		}
		for i, part := range strings.Split(line, "…") {
			if i > 0 {
				pattern.WriteString(`[^\n]*`)
			}
			pattern.WriteString(regexp.MustCompile(` {2,}`).ReplaceAllString(regexp.QuoteMeta(part), ` +`))
		}
		pattern.WriteString(`[ \t]*\n`)
	}
	pattern.WriteString(`$`)
	return regexp.MustCompile(pattern.String()).MatchString(strings.TrimRight(text, "\n") + "\n")
}

// TestOutputMatches: what a page leaves out may be anything, and nothing else may.
func TestOutputMatches(t *testing.T) {
	for _, tt := range []struct {
		shown, text string
		want        bool
	}{
		{"score 21 of 29\n", "score  21 of 29\n", false},
		{"score   21 of 29\n", "score     21 of 29\n", true},
		{"a\n…\nz\n", "a\nb\nc\nz\n", true},
		{"a\n…\nz\n", "a\nz\n", true},
		{"a\n…\nz\n", "a\nb\n", false},
		{"run 01J… ok\n", "run 01JABC ok\n", true},
		{"run 01J… ok\n", "run 01J\nABC ok\n", false},
		{"a\n…\n", "a\nb", true},
		{"a\n", "a\nb", false},
	} {
		if got := outputMatches(tt.shown, tt.text); got != tt.want {
			t.Errorf("%q shows %q: %t", tt.shown, tt.text, got)
		}
	}
}
