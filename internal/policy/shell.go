package policy

import (
	"path"
	"slices"
	"strings"
	"unicode"
)

// maxWithin is how deep code in code is followed: a shell line that gives code to an interpreter that
// gives a line to a shell.
const maxWithin = 4

// Shapes of commands that have no name of their own.
const (
	forkBomb  = "fork bomb"
	removeAll = "rm -rf /"
)

// shell records the commands of a shell line.
func (r *reading) shell(line string, within int) {
	if within > maxWithin {
		return
	}
	if isForkBomb(line) {
		r.commands = append(r.commands, forkBomb)
	}
	r.expanded(line)
	for _, words := range simpleCommands(line) {
		r.argv(words, within)
	}
}

// simpleCommands cuts a shell line at what separates commands, and these into words without quotes and
// without redirections. Commands within substitutions count too, and so do the lines of a here-document.
// It accepts any text and takes time linear in it: see decision 0070.
func simpleCommands(line string) [][]string {
	var all [][]string
	var words []string
	var word []byte
	inWord, redirected := false, false // redirected: the next word is a file
	flush := func() {
		if inWord && !redirected {
			words = append(words, string(word))
		}
		redirected = redirected && !inWord
		word, inWord = nil, false
	}
	next := func() {
		flush()
		redirected = false
		if len(words) > 0 {
			all = append(all, words)
		}
		words = nil
	}
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote == '\'' && c != '\'':
			word = append(word, c)
		case quote != 0 && (c == quote || quote == '$' && c == '\''):
			quote = 0
		case quote == '$' && c == '\\':
			escaped := &scanner{source: line, at: i}
			word = escaped.escape(word)
			i = escaped.at - 1
		case quote == '$':
			word = append(word, c)
		case quote == 0 && c == '$' && strings.HasPrefix(line[i+1:], "'"):
			i++
			quote, inWord = '$', true
		case quote == 0 && c == '$' && strings.HasPrefix(line[i+1:], `"`):
		case c == '\\' && i+1 < len(line):
			i++
			if line[i] != '\n' {
				word, inWord = append(word, line[i]), true
			}
		case c == '`' || c == '$' && strings.HasPrefix(line[i+1:], "("):
			next()
			quote = 0
		case quote != 0:
			word = append(word, c)
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case c == '#' && !inWord:
			for i+1 < len(line) && line[i+1] != '\n' {
				i++
			}
		case strings.IndexByte(";|&\n()", c) >= 0:
			next()
		case c == '<' || c == '>':
			if strings.Trim(string(word), "0123456789") == "" { // the number of a file
				word, inWord = nil, false
			}
			flush()
			for i+1 < len(line) && strings.IndexByte("<>&|", line[i+1]) >= 0 {
				i++
			}
			redirected = true
		case c <= ' ':
			flush()
		default:
			word, inWord = append(word, c), true
		}
	}
	next()
	return all
}

// argv records what a command of these words runs: itself, and what its arguments have it run.
func (r *reading) argv(words []string, within int) {
	for len(words) > 0 {
		if name, _, ok := strings.Cut(words[0], "="); ok && isName(name) {
			r.names = append(r.names, name)
			words = words[1:]
			continue
		}
		command := strings.ToLower(path.Base(words[0]))
		words = words[1:]
		switch {
		case slices.Contains([]string{"!", "{", "if", "then", "elif", "else", "while", "until", "do"}, command):
			continue
		case strings.HasPrefix(command, "python"):
			r.commands = append(r.commands, command)
			words = r.interpreter(words, within)
			continue
		}
		r.commands = append(r.commands, command)
		keep(&r.reach.Walks, walker(command, words, r.rooted))
		if command == "cd" && len(words) > 0 {
			r.rooted = strings.Trim(words[0], "/.") == "" && strings.HasPrefix(words[0], "/")
		}
		if command == "printenv" && !slices.ContainsFunc(words, func(w string) bool { return !strings.HasPrefix(w, "-") }) {
			keep(&r.reach.Environment, command)
		}
		if wraps, ok := data().Wrappers[command]; ok {
			if command == "env" && len(wraps.command(words)) == 0 {
				keep(&r.reach.Environment, command)
			}
			if words = wraps.command(words); len(words) == 0 || !strings.ContainsAny(words[0], " \t\n") {
				continue
			}
			r.shell(words[0], within+1) // a whole line
			return
		}
		switch command {
		case "ash", "bash", "dash", "ksh", "script", "sh", "zsh":
			i := slices.IndexFunc(words, func(w string) bool {
				return w == "--command" || strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.HasSuffix(w, "c")
			})
			if i >= 0 && i+1 < len(words) {
				r.shell(words[i+1], within+1)
			}
		case "eval":
			r.shell(strings.Join(words, " "), within+1)
		case "declare", "export", "printenv", "unset":
			for _, w := range words {
				name, _, _ := strings.Cut(w, "=")
				r.names = append(r.names, name)
				if command == "printenv" {
					r.promised(name)
				}
			}
		case "find":
			if i := slices.IndexFunc(words, func(w string) bool { return w == "-exec" || w == "-execdir" || w == "-ok" }); i >= 0 {
				words = words[i+1:]
				continue
			}
		case "conda", "mamba", "pip", "pip3", "pipx", "poetry", "uv":
			r.installs(words)
		case "rm":
			recursive := slices.ContainsFunc(words, func(w string) bool {
				return w == "--recursive" || strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.ContainsAny(w, "rR")
			})
			if recursive && slices.ContainsFunc(words, isEverything) {
				r.commands = append(r.commands, removeAll)
			}
		}
		return
	}
}

// interpreter records what a Python interpreter is asked to run, and returns the words of a command
// that it stands for.
func (r *reading) interpreter(words []string, within int) []string {
	for i, w := range words {
		switch {
		case w == "-c" && i+1 < len(words):
			r.code(words[i+1], within+1)
			return nil
		case w == "-m" && i+1 < len(words) && words[i+1] == "pip":
			return words[i+1:]
		case w == "-m" && i+1 < len(words):
			r.imports(words[i+1])
			return nil
		case !strings.HasPrefix(w, "-"):
			return nil
		}
	}
	return nil
}

// installs records the packages that an installer is asked to get.
func (r *reading) installs(words []string) {
	i := slices.IndexFunc(words, func(w string) bool { return w == "install" || w == "add" || w == "download" })
	if i < 0 {
		return
	}
	for _, w := range words[i+1:] {
		if strings.HasPrefix(w, "-") {
			continue
		}
		if base := strings.TrimSuffix(path.Base(w), ".git"); strings.Contains(w, "://") {
			w = base
		}
		r.packages = append(r.packages, distribution(strings.TrimSuffix(w, ".git")))
	}
}

// distribution returns the name of a package in a requirement such as Name[extra]>=1.0, in the form
// in which names are compared.
func distribution(requirement string) string {
	name := requirement
	if i := strings.IndexFunc(name, func(r rune) bool { return strings.ContainsRune("[]()<>=!~;@, ", r) }); i >= 0 {
		name = name[:i]
	}
	return strings.Join(strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("-_.", r) }), "-")
}

// isEverything reports whether a path is the root or a home directory.
func isEverything(p string) bool {
	switch strings.TrimRight(strings.TrimSuffix(p, "*"), "/.") {
	case "":
		return strings.HasPrefix(p, "/")
	case "~", "$HOME", "${HOME}", "/root", "/home":
		return true
	}
	return false
}

// isForkBomb reports whether a line defines a function that starts itself twice.
func isForkBomb(line string) bool {
	line = strings.Join(strings.Fields(line), "")
	for {
		before, after, found := strings.Cut(line, "(){")
		if !found {
			return false
		}
		name := before[strings.LastIndexAny(before, ";&|{}")+1:]
		name = strings.TrimPrefix(name, "function")
		if name != "" && (strings.HasPrefix(after, name+"|"+name+"&") || strings.HasPrefix(after, name+"&"+name+"&")) {
			return true
		}
		line = after
	}
}

// isName reports whether s can be the name of a variable.
func isName(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return r != '_' && (r >= 0x80 || !unicode.IsLetter(r) && !unicode.IsDigit(r)) }) < 0
}

// wrapper is how a program is called that runs the command in its arguments.
type wrapper struct {
	Before int      `json:"before"` // how many arguments come before the command
	Short  string   `json:"short"`  // letters of the options whose value is the next word
	Long   []string `json:"long"`   // those options in words
	Asks   string   `json:"asks"`   // letters of the options with which nothing is run
}

// command returns what of the arguments is the command.
func (w wrapper) command(words []string) []string {
	for before := w.Before; len(words) > 0; words = words[1:] {
		option := words[0]
		switch {
		case strings.HasPrefix(option, "--"):
			if slices.Contains(w.Long, option) {
				words = words[1:]
			}
		case strings.HasPrefix(option, "-"):
			if w.Asks != "" && strings.ContainsAny(option, w.Asks) {
				return nil
			}
			if i := strings.IndexAny(option, w.Short); i > 0 && i == len(option)-1 {
				words = words[1:]
			}
		case strings.HasPrefix(option, ":::"): // of parallel: what comes is commands where none came
		case before > 0:
			before--
		default:
			return words
		}
		if len(words) == 0 {
			break
		}
	}
	return nil
}
