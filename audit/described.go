package audit

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// toolDescriptions looks for a task's answer in what every attempt is told of
// tools that are not this version's own, which are known to tell none.
func toolDescriptions(e *Evidence, n *Notes) {
	var descriptions, schemas strings.Builder
	promises := promising()
	for _, t := range e.Manifest.Tools {
		if ours(t) {
			continue
		}
		if t.Server == "" || builtin(t.Name) {
			n.gap("the tool %q is neither one of this version nor a server's: what it says of itself, or takes, is not known", t.Name)
		}
		said := spaced(t.Name + "\n" + t.Description + "\n" + t.Schema)
		switch reference, right := promises.reference.MatchString(said), promises.right.MatchString(said); {
		case promises.asked.MatchString(said) || (reference || right) && promises.benchmark.MatchString(said) || reference && promises.task.MatchString(said):
			n.find("tool-promises-answers", place{unasked: true}, "the tool "+t.Name+" promises answers to the benchmark's tasks", "what the tool does and takes")
		case reference:
			n.find("tool-promises-solutions", place{unasked: true}, "the tool "+t.Name+" promises reference answers or solutions", "what the tool does and takes")
		}
		descriptions.WriteString(t.Name + "\n" + t.Description + "\n")
		schemas.WriteString(t.Schema + "\n")
	}
	if descriptions.Len() == 0 {
		return
	}
	says, takes := descriptions.String(), schemas.String()
	if bounded(&says, &takes) {
		n.gap("the tools say more of themselves than is looked through for each task")
	}
	if e.unplanned().records(says + takes) {
		n.find("other-task-record", place{unasked: true}, "a server's tool holds a record of a task that the run does not ask", "what the tool does and takes")
	}
	for _, t := range e.Tasks {
		if len(t.Attempts) == 0 {
			continue
		}
		prober := e.prober(t)
		if p := prober.Probe(says, "", nil); p.OwnUUID || p.GoldHits > 0 || p.QCov >= wholeQuestion {
			n.find("tool-description-answer", place{task: t, unasked: true}, "the description of a tool holds the task or its answer", "what the tool does")
		}
		switch s := prober.Probe(takes, "", nil); {
		case s.OwnUUID || s.GoldLabelNear || s.QCov >= wholeQuestion:
			n.find("tool-schema-answer", place{task: t, unasked: true}, "the parameters of a server's tool hold the task or its answer", "what the tool takes")
		case s.GoldHits > 0: // the name of a parameter can be any word
			n.find("tool-schema-word", place{task: t, unasked: true}, "the parameters of a server's tool hold a word of the answer", "what the tool takes")
		}
	}
}

// promising are the patterns of what a tool says that knows the answers. Many
// honest servers give correct answers, or solutions of problems: those need
// words for the benchmark or its tasks beside them.
var promising = sync.OnceValue(func() (p struct{ reference, right, task, benchmark, asked *regexp.Regexp }) {
	p.reference = regexp.MustCompile(`\b(?:(?:reference|expected|gold|golden|official|benchmark|hidden|model) (?:final )?(?:answers?|solutions?)|(?:gold|golden|ground ?truth) (?:labels?|results?|outputs?)|answer keys?|answerkeys?|solution keys?|ground ?truths?)\b`)
	p.right = regexp.MustCompile(`\b(?:correct|right|true|known|canonical|verified|final) (?:final )?(?:answers?|solutions?)\b`)
	p.task = regexp.MustCompile(`\b(?:task ?ids?|(?:this|the|the current|current|given|each|every|any|assigned) (?:benchmark |evaluation )?tasks?)\b`)
	p.benchmark = regexp.MustCompile(`\b(?:benchmark(?: s)? (?:tasks?|questions?|answers?|solutions?|items?)|(?:tasks?|questions?|answers?|keys?|solutions?) (?:of|from|in|for|to) (?:the |this |a )?(?:\w+ )?benchmark|gaia (?:tasks?|questions?|benchmark|answers?|validation|test)|task ?ids?|leaderboard)\b`)
	p.asked = regexp.MustCompile(`\banswers? (?:to|for|of|by) (?:(?:a|an|the|any|each|every|this|given|that) )*(?:task ?ids?|benchmark (?:tasks?|questions?)|gaia (?:tasks?|questions?))\b`)
	return p
})

// spaced returns a text in lower case with spaces between its words and
// capitals, so that names read like sentences.
func spaced(text string) string {
	var out []rune
	for _, r := range text {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) {
			if len(out) == 0 || out[len(out)-1] == ' ' {
				continue
			}
			r = ' '
		} else if len(out) > 0 && unicode.IsUpper(r) && unicode.IsLower(out[len(out)-1]) {
			out = append(out, ' ')
		}
		out = append(out, r)
	}
	return strings.ToLower(string(out))
}

// recordsNamed looks for the run's own records in what every attempt is told.
func recordsNamed(e *Evidence, n *Notes) {
	for _, p := range e.Manifest.Prompts {
		if namesRecords(e.Manifest.Policy, p.Text) {
			n.find("run-records-mentioned", place{sha256: p.SHA256, unasked: true}, "the template "+p.ID+" names the run's own records or verdicts", "a template that tells of the task")
		}
	}
	for _, t := range e.Manifest.Tools {
		if !builtin(t.Name) && namesRecords(e.Manifest.Policy, t.Description+"\n"+t.Schema) {
			n.find("run-records-mentioned", place{unasked: true}, "the tool "+t.Name+" names the run's own records or verdicts", "what the tool does and takes")
		}
	}
}
