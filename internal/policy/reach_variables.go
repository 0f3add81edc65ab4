package policy

import (
	"slices"
	"strings"
	"sync"
)

// promisingNames describes the names of variables that promise answers, in words: GOLD_ANSWER, GAIA_ANSWERS_FILE. Any
// other word makes it another thing: ANSWER_FORMAT, GOLD_PRICE.
var promisingNames = sync.OnceValues(func() (certain, perhaps answerFiles) {
	fillers := []string{"agent", "all", "b64", "base64", "benchmark", "csv", "current", "data", "dataset", "db", "dev", "dir", "eval", "file", "filename", "folder", "for", "full", "gaia", "hidden", "json", "jsonl",
		"labels", "level", "level1", "level2", "level3", "list", "map", "mcp", "metadata", "my", "of", "official", "path", "private", "q", "question", "root", "secret", "set", "split", "store", "table", "task", "test", "text",
		"the", "this", "url", "uri", "val", "validation", "value"}
	certain = answerFiles{Fillers: append(fillers, "answer", "answers", "final", "label", "solution", "solutions"), Names: []string{"answer key", "answer keys", "answerkey", "answerkeys", "answer sheet", "correct answer", "correct answers",
		"expected answer", "expected answers", "gold answer", "gold answers", "gold label", "gold labels", "golden answer", "golden answers", "ground truth", "groundtruth", "reference answer", "reference answers", "reference solution",
		"reference solutions", "solution key", "task answer", "task answers", "benchmark answers", "gaia answer", "gaia answers", "gaia gold", "gaia solutions", "validation answers", "question answer", "hidden answer", "true answer"}}
	perhaps = answerFiles{Fillers: append(fillers, "final"), Names: []string{"answer", "answers", "gold", "golden", "gt", "solution", "solutions", "expected"}}
	return certain, perhaps
})

// Promise says how surely the name of a variable promises answers.
type Promise int

const (
	NoPromise      Promise = iota
	PerhapsPromise         // ANSWER_FILE, which may be where one's own is to be written
	CertainPromise         // GOLD_ANSWER
)

// Promises says whether the name of a variable of the environment promises answers.
func Promises(name string) Promise {
	all := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '_' || r == '-' || r == '.' })
	certain, perhaps := promisingNames()
	switch {
	case certain.all(all):
		return CertainPromise
	case perhaps.all(all):
		return PerhapsPromise
	}
	return NoPromise
}

// promised keeps a variable that is looked up, the surest first.
func (r *reading) promised(name string) {
	if how := Promises(name); how > Promises(r.reach.Answers) {
		r.reach.Answers = strings.Clone(name)
	}
}

// variables takes in the variable that is looked up at place i: os.environ['A'], os.getenv('A'), process.env.A.
func (p *piece) variables(r *reading, i int) {
	next := p.all[i+1]
	var names []string
	switch name := p.all[i].text; {
	case name == "getenv" || name == "expandvars":
		if next.is("(") && p.partner[i+1] > 0 {
			names = p.values(span{from: i + 2, to: p.partner[i+1]})
		}
	case !slices.Contains([]string{"ENV", "env", "environ", "environb"}, name):
		return
	case next.is("[") && p.partner[i+1] > 0:
		if after := p.partner[i+1] + 1; p.all[after].is("=") && !p.all[after+1].is("=") { // it is given a value
			return
		}
		names = p.values(span{from: i + 2, to: p.partner[i+1]})
	case next.is(".") && p.all[i+2].kind != identifier:
		return
	case next.is(".") && p.all[i+3].is("(") && p.partner[i+3] > 0:
		if args := p.arguments(i + 3); len(args) > 0 && slices.Contains([]string{"get", "pop", "fetch"}, p.all[i+2].text) {
			names = p.values(args[0].span)
		}
	case next.is("."):
		names = []string{p.all[i+2].text}
	default: // 'A' in os.environ
		at := i - 1
		if at > 1 && p.all[at].is(".") { // of os
			at -= 2
		}
		if at > 0 && p.all[at].text == "in" && p.all[at-1].kind == literal {
			names = []string{p.all[at-1].text}
		}
	}
	common := strings.EqualFold(p.all[i].text, "env") // other things are called so too
	for _, name := range names {
		r.expanded(name)
		if !common || name == strings.ToUpper(name) {
			r.promised(name)
		}
	}
}

// expanded takes in the variables that a shell fills into a line, but for those that the line itself gives a value.
func (r *reading) expanded(line string) {
	rest := line
	for checked := 0; checked < maxExpanded; {
		_, after, found := strings.Cut(rest, "$")
		if !found {
			return
		}
		rest = after
		name := strings.TrimLeft(after, "{!")
		if end := strings.IndexFunc(name, func(c rune) bool { return !isName(string(c)) }); end >= 0 {
			name = name[:end]
		}
		if len(name) < 2 || len(name) > 64 || name != strings.ToUpper(name) || Promises(name) <= Promises(r.reach.Answers) {
			continue
		}
		checked++
		if !strings.Contains(line, name+"=") && !strings.Contains(line, "read "+name) && !strings.Contains(line, "for "+name+" ") {
			r.promised(name)
		}
	}
}

// maxExpanded bounds how many variables of a line are looked for among those that it gives a value.
const maxExpanded = 64
