package policy

import (
	"cmp"
	"slices"
	"strings"
)

// first returns the first result of f, over values in their order, that is not "".
func first[T any](values []T, f func(T) string) string {
	for _, v := range values {
		if name := f(v); name != "" {
			return name
		}
	}
	return ""
}

// firstWord is first over the words of a text, which between separates.
func firstWord(text string, between func(rune) bool, f func(string) string) string {
	for word := range strings.FieldsFuncSeq(text, between) {
		if name := f(word); name != "" {
			return name
		}
	}
	return ""
}

// find returns the first name of a list that is meant, or "".
func find(list []string, meant func(name string) bool) string {
	if i := slices.IndexFunc(list, meant); i >= 0 {
		return list[i]
	}
	return ""
}

// fileURL returns the path of a file: address in lower case, or "".
func fileURL(url string) string {
	path, found := strings.CutPrefix(strings.ToLower(url), "file:")
	if !found {
		return ""
	}
	return percentDecode(path)
}

// Source returns the known source of answers that a call leads to, or "": the id of the first class A entry that a
// URL, a path, a string of code or one that is passed on matches, the source that the policy names, or the benchmark's
// owner. It is a part of R001.
func Source(p Policy, c ReadCall) string {
	list := builtin()
	// A string of code, or one that is passed on, may be a URL, a path, what a loader of the hub calls a dataset, or text
	// with such words in it. A word counts that is a path or an address with the owner's name as a part, and the name
	// alone: text about the owner names no place.
	inText := func(text string) string {
		id := ""
		if strings.Contains(text, "://") {
			id = sourceOf(p, list, text)
		} else {
			id = list.source(text, true)
		}
		owner, whole := data().Lists.BenchmarkOwner, strings.TrimSpace(text)
		return cmp.Or(id, firstWord(text, betweenWords, func(word string) string {
			return first(views(word), func(parts []string) string {
				if (len(parts) > 1 || word == whole) && slices.Contains(parts, owner) {
					return owner
				}
				return ""
			})
		}))
	}
	return cmp.Or(
		first(c.URLs, func(url string) string { return sourceOf(p, list, url) }),
		first(c.Paths, func(path string) string { return list.source(path, true) }),
		first(c.Strings, inText),
		first(c.read, func(r reading) string { return first(r.literals, inText) }))
}

// sourceOf is answerSource for a URL. The policy names a source by its host, or one above it, and its path.
func sourceOf(p Policy, list *denylist, url string) string {
	if id := list.source(url, false); id != "" || len(p.AnswerSources) == 0 {
		return id
	}
	return first(views(url), func(parts []string) string {
		return find(p.AnswerSources, func(source string) bool {
			want, _ := cut(source)
			for i, host := range parts {
				if len(want) == 0 || host != want[0] && !strings.HasSuffix(host, "."+want[0]) {
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
		})
	})
}

// graderSurface returns the name of the first record of the run that the call names, or "".
func graderSurface(c Call) string {
	opened := func(path string) string { return surface(path, true) }
	return cmp.Or(
		first(c.Paths, opened),
		first(c.URLs, func(url string) string { return opened(fileURL(url)) }),
		first(slices.Concat(c.Texts, c.Code), func(text string) string {
			if !mayNameRecord(text) {
				return ""
			}
			return firstWord(text, betweenPaths, func(word string) string { return surface(word, false) })
		}))
}

// mayNameRecord reports whether a text holds all parts of the name of a record or folder of the run: without them, surface
// finds nothing in its words, and takes longer.
func mayNameRecord(text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(data().Lists.records, func(parts []string) bool {
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
	})
}

// surface returns the record of the run that a path names, or "". A path that a tool would open
// (opened) counts more strictly than a word in a text: there, a URL is not a path, and a leading slash
// proves nothing. Records with common names count only outside the workspace, and in what a tool would
// open below a folder of runs.
func surface(path string, opened bool) string {
	path = strings.ToLower(strings.ReplaceAll(path, `\`, "/"))
	if !opened && strings.Contains(path, "://") && !strings.HasPrefix(path, "file:") {
		return ""
	}
	parts, escapes := resolve(path)
	if len(parts) == 0 {
		return ""
	}
	absolute := path[0] == '/' || path[0] == '~' || strings.HasPrefix(path[1:], ":") || strings.HasPrefix(path, "file:")
	runs := len(parts) > 2 && parts[len(parts)-3] == "runs"
	outside := escapes || absolute && (opened || runs) || opened && runs
	whole, base := "/"+strings.Join(parts, "/")+"/", strings.TrimRight(parts[len(parts)-1], ".")
	l := &data().Lists
	return cmp.Or(
		find(l.OwnFolders, func(name string) bool { return strings.Contains(whole, "/"+name+"/") }),
		find(l.VerdictFolders, func(name string) bool { return slices.Contains(parts, name) && (opened || len(parts) > 1) }),
		find(l.OwnRecords, func(name string) bool { return base == name }),
		find(l.CommonRecords, func(name string) bool { return base == name && outside }))
}

// resolve cuts a path into parts, dots resolved, and reports whether it leads out of where it begins.
func resolve(path string) (parts []string, escapes bool) {
	for part := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == ':' }) {
		switch part {
		case ".":
		case "..":
			escapes = escapes || len(parts) == 0
			parts = parts[:max(len(parts)-1, 0)]
		default:
			parts = append(parts, part)
		}
	}
	return parts, escapes
}

// betweenPaths reports whether a character ends a path in running text or code.
func betweenPaths(r rune) bool {
	return r <= ' ' || strings.ContainsRune("\"'`,;()[]{}<>|=*?!&#@$", r)
}

// secret returns the key material or credentials that the call names, or "".
func secret(c ReadCall) string {
	variables := data().Lists.KeyVariables
	return cmp.Or(
		first(c.Paths, func(path string) string { return cmp.Or(metadataAddress(path), secretPlace(path)) }),
		first(c.URLs, func(url string) string { return cmp.Or(metadataAddress(url), secretPlace(fileURL(url))) }),
		first(c.read, func(r reading) string {
			return cmp.Or(find(r.names, func(name string) bool { return slices.Contains(variables, name) }), first(r.literals, secretInText))
		}))
}

// secretInText looks through a string of code: whole for an address or a variable, and in its words
// for paths and for variables that a shell would expand.
func secretInText(text string) string {
	variables := data().Lists.KeyVariables
	if slices.Contains(variables, text) {
		return text
	}
	if name := metadataAddress(text); name != "" {
		return name
	}
	between := func(r rune) bool { return betweenPaths(r) && r != '{' && r != '}' && r != '$' }
	return firstWord(text, between, func(word string) string {
		lower := strings.ToLower(word)
		page := strings.HasPrefix(lower, "http://") || strings.HasPrefix(lower, "https://") // its path is not a file here
		if name := secretPlace(word); name != "" && !page {
			return name
		}
		for _, after := range strings.Split(word, "$")[1:] {
			name := strings.TrimPrefix(after, "{")
			if i := strings.IndexFunc(name, func(r rune) bool { return !isName(string(r)) }); i >= 0 {
				name = name[:i]
			}
			if slices.Contains(variables, name) {
				return name
			}
		}
		return ""
	})
}

// secretPlace returns the place with secrets that a path leads to, or "".
func secretPlace(path string) string {
	path = strings.ToLower(strings.ReplaceAll(path, `\`, "/"))
	parts, _ := resolve(path)
	same := func(want []string, part string) bool { return want[0] == "*" || slices.Contains(want, part) }
	return first(data().Lists.places, func(want [][]string) string {
		for i := 0; i+len(want) <= len(parts); i++ {
			here := parts[i : i+len(want)]
			if slices.EqualFunc(want, here, same) && (want[0][0] != "proc" || i == 0 && strings.HasPrefix(path, "/") || isProcess(parts[i+1])) {
				return strings.Join(here, "/")
			}
		}
		return ""
	})
}

// isProcess reports whether a part names a process below /proc; {} stands for one in code.
func isProcess(part string) bool {
	return part == "self" || part == "thread-self" || part == "{}" || strings.Trim(part, "0123456789") == ""
}

// metadataAddress returns the cloud's metadata address that a URL holds, or "".
func metadataAddress(url string) string {
	return first(views(url), func(parts []string) string {
		for n, want := range data().Lists.addresses {
			for i := 0; i+len(want) <= len(parts); i++ {
				if slices.Equal(want, parts[i:i+len(want)]) {
					return data().Lists.MetadataAddresses[n]
				}
			}
		}
		return ""
	})
}

// Hook returns the variable that a loader reads, or the module that an interpreter looks for, by which
// a call would have programs load code by themselves; "" if it names none. It is a part of R004.
func Hook(c ReadCall) string {
	hooks := data().Lists.LoaderHooks
	return cmp.Or(first(c.Strings, hookInText), first(c.read, func(r reading) string {
		return cmp.Or(find(r.names, func(name string) bool { return slices.Contains(hooks, name) }), first(r.literals, hookInText), r.pathFile())
	}))
}

// hookInText returns the hook that a string is: its name, a file of this name, or its assignment.
func hookInText(text string) string {
	return find(data().Lists.LoaderHooks, func(hook string) bool {
		before, after, found := strings.Cut(text, hook)
		whole := (before == "" || strings.HasSuffix(before, "/") && !strings.ContainsAny(before, " \n")) && (after == "" || after == ".py")
		return found && (whole || strings.HasPrefix(after, "="))
	})
}

// pathFile returns a .pth file that code writes where packages are installed, whose lines the
// interpreter runs when it starts; "" if it writes none. Models of PyTorch have the same ending, in
// other places or read.
func (r reading) pathFile() string {
	lists := &data().Review
	finds := slices.ContainsFunc(r.names, func(name string) bool { return slices.Contains(lists.PackageFinders, name) }) ||
		slices.ContainsFunc(r.literals, func(text string) bool {
			return text == "purelib" || text == "platlib" || strings.Contains(text, "getsitepackages")
		})
	writes := slices.ContainsFunc(r.names, func(name string) bool { return slices.Contains(lists.FileWriters, name) }) ||
		slices.ContainsFunc(r.commands, func(name string) bool { return slices.Contains([]string{"cp", "install", "ln", "mv", "tee"}, name) }) ||
		slices.ContainsFunc(r.literals, func(text string) bool {
			return text == "w" || text == "a" || text == "x" || text == "wb" || strings.Contains(text, ">")
		})
	if !writes {
		return ""
	}
	between := func(c rune) bool { return betweenPaths(c) && c != '*' && c != '{' && c != '}' && c != '$' }
	return first(r.literals, func(text string) string {
		return firstWord(text, between, func(word string) string {
			folder, base := splitPath(word)
			_, last := splitPath(folder)
			installed := last == "site-packages" || last == "dist-packages" || finds && strings.Trim(last, "{}$") == ""
			if installed && strings.HasSuffix(strings.ToLower(base), ".pth") && !strings.ContainsAny(base, "*?") {
				return base
			}
			return ""
		})
	})
}

// splitPath cuts a path before its last part.
func splitPath(path string) (folder, base string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}
