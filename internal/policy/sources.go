package policy

import (
	"slices"
	"strings"
)

// benchmark is who keeps the benchmark's dataset at the hub, as loaders name it.
const benchmark = "gaia-benchmark"

// Source returns what known source of answers a call leads to, or "". It is a part of R001.
func Source(p Policy, c Call) string { return answerSource(p, c, readings(c)) }

// answerSource returns what known source of answers the call leads to, or "": the id of the first
// class A entry that a URL, a path, a string of code or one that is handed on matches, the source that
// the policy names, or benchmark.
func answerSource(p Policy, c Call, read []reading) string {
	list := builtin()
	for _, url := range c.URLs {
		if id := sourceOf(p, list, url); id != "" {
			return id
		}
	}
	for _, path := range c.Paths {
		if id, class := list.classify(path, true); class == ClassA {
			return id
		}
	}
	for _, text := range c.Strings {
		if id := sourceInText(p, list, text); id != "" {
			return id
		}
	}
	for _, r := range read {
		for _, text := range r.literals {
			if id := sourceInText(p, list, text); id != "" {
				return id
			}
		}
	}
	return ""
}

func sourceOf(p Policy, list denylist, url string) string {
	if id, class := list.classify(url, false); class == ClassA {
		return id
	}
	if len(p.AnswerSources) == 0 {
		return ""
	}
	for _, parts := range views(url) {
		for _, source := range p.AnswerSources {
			if within(source, parts) {
				return source
			}
		}
	}
	return ""
}

// sourceInText looks at a string of code, or one that is handed on: it may be a URL, a path, what a
// loader of the hub calls a dataset, or text with such words in it.
func sourceInText(p Policy, list denylist, text string) string {
	if strings.Contains(text, "://") {
		if id := sourceOf(p, list, text); id != "" {
			return id
		}
	} else if id, class := list.classify(text, true); class == ClassA {
		return id
	}
	if namesBenchmark(text) {
		return benchmark
	}
	return ""
}

// namesBenchmark says whether a text is the name of who keeps the dataset, or has a word that is a path
// or an address with this name as a part. Text that speaks of them does not name a place.
func namesBenchmark(text string) bool {
	text = strings.TrimSpace(text)
	for word := range strings.FieldsFuncSeq(text, betweenWords) {
		for _, parts := range views(word) {
			if (len(parts) > 1 || word == text) && slices.Contains(parts, benchmark) {
				return true
			}
		}
	}
	return false
}

// within says whether parts of a URL name a source: its host or one below it, then its path.
func within(source string, parts []string) bool {
	want, _ := cut(source)
	if len(want) == 0 {
		return false
	}
	for i, host := range parts {
		if host != want[0] && !strings.HasSuffix(host, "."+want[0]) {
			continue
		}
		rest := parts[i+1:]
		if len(want) > 1 && len(rest) > 0 && want[1] != rest[0] && strings.Trim(rest[0], "0123456789") == "" { // a port
			rest = rest[1:]
		}
		if len(rest) >= len(want)-1 && slices.Equal(want[1:], rest[:len(want)-1]) {
			return true
		}
	}
	return false
}

// command returns what the code would run that acts on the host, or "".
func command(p Policy, read []reading) string {
	for _, r := range read {
		if r.tangled {
			return "brackets in more than 200 others"
		}
		for _, c := range r.commands {
			if slices.Contains(hostCommands(), c) || slices.ContainsFunc(p.Commands, func(own string) bool { return strings.EqualFold(own, c) }) || strings.HasPrefix(c, "mkfs.") {
				return c
			}
		}
	}
	return ""
}

// Hook returns what a call names by which programs load code by themselves, "" if nothing: a variable
// that a loader heeds, a module that an interpreter looks for. It is a part of R004.
func Hook(c Call) string { return hook(c, readings(c)) }

func hook(c Call, read []reading) string {
	for _, text := range c.Strings {
		if name := hookInText(text); name != "" {
			return name
		}
	}
	for _, r := range read {
		for _, name := range r.names {
			if slices.Contains(LoaderHooks(), name) {
				return name
			}
		}
		for _, text := range r.literals {
			if name := hookInText(text); name != "" {
				return name
			}
		}
		if name := r.pathFile(); name != "" {
			return name
		}
	}
	return ""
}

// pathFile returns a file with the ending pathEnding, which the interpreter runs at its start, that code writes where packages
// are installed; "" if it writes none. Models of PyTorch have the same ending, in other places or read.
func (r reading) pathFile() string {
	finds := slices.ContainsFunc(r.names, func(name string) bool { return slices.Contains(packageFinders(), name) }) ||
		slices.ContainsFunc(r.literals, func(text string) bool {
			return text == "purelib" || text == "platlib" || strings.Contains(text, "getsitepackages")
		})
	writes := slices.ContainsFunc(r.names, func(name string) bool { return slices.Contains(fileWriters(), name) }) ||
		slices.ContainsFunc(r.commands, func(name string) bool { return slices.Contains([]string{"cp", "install", "ln", "mv", "tee"}, name) }) ||
		slices.ContainsFunc(r.literals, func(text string) bool {
			return text == "w" || text == "a" || text == "x" || text == "wb" || strings.Contains(text, ">")
		})
	for _, text := range r.literals {
		for word := range strings.FieldsFuncSeq(text, func(c rune) bool { return betweenPaths(c) && c != '*' && c != '{' && c != '}' && c != '$' }) {
			folder, base := "", word
			if i := strings.LastIndexByte(word, '/'); i >= 0 {
				folder, base = word[:i], word[i+1:]
			}
			if !strings.HasSuffix(strings.ToLower(base), pathEnding) || strings.ContainsAny(base, "*?") || !writes {
				continue
			}
			last := folder[strings.LastIndexByte(folder, '/')+1:]
			if last == "site-packages" || last == "dist-packages" || finds && strings.Trim(last, "{}$") == "" {
				return base
			}
		}
	}
	return ""
}

// pathEnding is what the names of files end in whose lines the interpreter runs when it starts.
const pathEnding = ".pth"

// packageFinders are names by which code finds the folder of installed packages.
func packageFinders() []string {
	return []string{"USER_SITE", "addsitedir", "get_path", "get_paths", "get_python_lib", "getsitepackages", "getusersitepackages"}
}

// fileWriters are names by which code writes files.
func fileWriters() []string {
	return []string{"copy", "copy2", "copyfile", "link_to", "move", "rename", "replace", "symlink", "symlink_to", "write", "write_bytes", "write_text", "writelines"}
}

// hookInText returns the hook that a string is: its name, a file of this name, or its
// assignment.
func hookInText(text string) string {
	for _, hook := range LoaderHooks() {
		before, after, found := strings.Cut(text, hook)
		if !found {
			continue
		}
		whole := (before == "" || strings.HasSuffix(before, "/") && !strings.ContainsAny(before, " \n")) && (after == "" || after == ".py")
		if whole || strings.HasPrefix(after, "=") {
			return hook
		}
	}
	return ""
}

// forbiddenPackage returns the first package of the code that brings the benchmark or another harness,
// or "".
func forbiddenPackage(p Policy, read []reading) string {
	for _, r := range read {
		for _, name := range r.packages {
			if slices.Contains(harnessPackages(), name) || slices.ContainsFunc(p.Packages, func(own string) bool { return distribution(own) == name }) {
				return name
			}
		}
	}
	return ""
}
