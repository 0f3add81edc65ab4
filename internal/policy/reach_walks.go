package policy

import (
	"slices"
	"strings"
)

// walker returns the walk through all files of the host that a command of a shell is, "" if it is none. rooted says that the
// shell is at the root.
func walker(command string, words []string, rooted bool) string {
	var plain []string
	recursive, shallow := false, false
	for i, w := range words {
		switch {
		case w == "-maxdepth" || w == "-L" || w == "-d" || w == "--max-depth":
			shallow = shallow || i+1 < len(words) && len(words[i+1]) == 1 && words[i+1] < "3"
		case strings.HasPrefix(w, "--"):
			recursive = recursive || strings.HasSuffix(w, "recursive")
		case strings.HasPrefix(w, "-"):
			recursive = recursive || strings.ContainsAny(w, "rR")
		default:
			plain = append(plain, w)
		}
	}
	everywhere := slices.ContainsFunc(plain, func(w string) bool { return isEverything(w) || rooted && strings.Trim(w, "./*") == "" })
	found := false
	switch command {
	case "locate", "mlocate", "plocate":
		return command
	case "find", "tree", "du":
		found = everywhere || rooted && (command != "find" || len(plain) == 0)
	case "ag", "fd", "fdfind", "rg":
		found = everywhere || rooted && len(plain) < 2
	case "egrep", "fgrep", "grep":
		found = recursive && (everywhere || rooted && len(plain) < 2)
	case "ls":
		found = slices.ContainsFunc(words, func(w string) bool {
			return w == "--recursive" || strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.Contains(w, "R")
		}) && (everywhere || rooted && len(plain) == 0)
	}
	if !found || shallow {
		return ""
	}
	return command + " /"
}

// walks takes in a walk through all files of the host that the call at place i is: os.walk('/'), glob.glob('/**'), Path('/').rglob('*').
func (p *piece) walks(r *reading, i int) {
	t := p.meaning(i)
	if !slices.Contains([]string{"chdir", "fwalk", "glob", "iglob", "rglob", "walk"}, t.name) {
		return
	}
	args := p.arguments(i + 1)
	if t.name == "chdir" && len(args) > 0 {
		r.rooted = r.rooted || slices.ContainsFunc(p.values(args[0].span), func(s string) bool { return strings.Trim(s, "/.") == "" && strings.HasPrefix(s, "/") })
		return
	}
	everything := func(s string) bool { return isEverything(s) || r.rooted && strings.Trim(s, "./") == "" }
	var first []string
	if len(args) > 0 {
		first = p.values(args[0].span)
	}
	if slices.ContainsFunc(first, func(s string) bool {
		if strings.HasSuffix(t.name, "walk") {
			return everything(s)
		}
		return deepPattern(s) && everything(s[:strings.LastIndexByte(s[:strings.IndexAny(s, "*?[")], '/')+1])
	}) {
		keep(&r.reach.Walks, t.name)
		return
	}
	if i < 2 || !p.all[i-1].is(".") || t.name == "glob" && !slices.ContainsFunc(first, func(s string) bool { return strings.Contains(s, "**") }) {
		return
	}
	var of []string // the path whose method it is
	if before := p.all[i-2]; before.kind == identifier {
		of = p.values(span{from: i - 2, to: i - 1})
	} else if open := p.partner[i-2]; before.is(")") && open >= 0 {
		of = p.values(span{from: open + 1, to: i - 2})
	}
	if slices.ContainsFunc(of, everything) {
		keep(&r.reach.Walks, t.name)
	}
}

// deepPattern says whether the pattern of a glob goes through folders of folders.
func deepPattern(s string) bool {
	return strings.Contains(s, "**") || strings.Count(s, "/*") > 2
}

// values returns the strings that an expression may be: its own, and those that its names were given. It reads the
// beginning of a long expression.
func (p *piece) values(s span) []string {
	s.to = min(s.to, s.from+maxAssigned)
	all := p.texts([]argument{{span: s}}, 1)
	followed := map[string]bool{}
	for i := s.from; i < s.to && len(all) <= maxAssigned; i++ {
		switch x := p.all[i]; {
		case x.kind != identifier || followed[x.text]:
		case x.text == "sep":
			all = append(all, "/")
		case len(p.assigned[x.text]) <= maxAssigned:
			followed[x.text] = true
			for _, given := range p.assigned[x.text] {
				if given.to-given.from <= maxAssigned {
					all = append(all, p.texts([]argument{{span: given}}, 1)...)
				}
			}
		}
	}
	return all
}

// maxAssigned bounds what is looked at of an expression and of a name in it: how many lexemes they have, and how often the
// name is given a value.
const maxAssigned = 32
