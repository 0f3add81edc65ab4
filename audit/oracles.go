package audit

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/policy"
	"github.com/gaia-harness/gaia/trajectory"
)

// Bounds of what is kept of a call that was answered with a verdict.
const (
	mostCandidates   = 16
	longestCandidate = 200 // bytes of an argument
	longestVerdict   = 24  // words of a result
	wordsAround      = 12  // words of an argument besides the answer
)

// verdict is what a result says about what the call was given.
type verdict struct {
	right, wrong bool
	weak         bool     // by a word such as true, which any tool may say
	given        []string // the arguments, as words
}

// oracle notes what a result by others says about the answer: the gold answer for
// the task's id, a verdict on an argument, or in code the question out of nothing.
func (t *following) oracle(a *AttemptEvidence, c *CallFact, p trajectory.ToolExecuted) {
	h := headOf(p)
	text := h.words()
	switch {
	case p.Name == "python":
		c.FromNowhere = !a.SaidQuestion && len(a.Workspace) == 0
	case thirdParty(p.Name) && p.Name != "web_search" && !p.IsError:
		c.GivesGold = c.Result.Probes.GoldHits > 0 || len(strings.Fields(text)) <= longestVerdict && t.prober.shortStands(text)
		if c.Verdict = verdictOf(text); c.Verdict.right || c.Verdict.wrong {
			c.Verdict.given = candidates(c.args)
		}
	}
	if !builtin(p.Name) && policy.NamesTask(t.Plan.FileName, t.Plan.TaskID) {
		name := strings.ToLower(t.Plan.FileName)
		rest := strings.ReplaceAll(strings.ToLower(text), name, " ")
		c.AsFile = strings.Contains(strings.ToLower(c.text), name) || h.whole() && !t.prober.Probe(rest, "", nil).OwnUUID
		if c.Result.Probes.AnswerKeys > 0 { // which then must be the attachment's
			c.AsFile = c.AsFile && slices.ContainsFunc(a.Workspace, func(f trajectory.File) bool {
				return f.Path == t.Plan.FileName && f.Probes != nil && f.Probes.AnswerKeys > 0
			})
		}
	}
}

// candidates returns the arguments of a call as words, and those that its addresses
// hold.
func candidates(args string) (all []string) {
	for _, value := range strings.FieldsFunc(args, func(r rune) bool { return strings.ContainsRune("\n\"?&=", r) }) {
		if decoded, err := url.QueryUnescape(value); err == nil {
			value = decoded
		}
		if words := asWords(value); words != "" && len(value) <= longestCandidate && len(all) < mostCandidates {
			all = append(all, words)
		}
	}
	return all
}

// gives reports whether an argument is an answer, or holds it among a few words.
func (v verdict) gives(answer string) bool {
	want := " " + asWords(answer) + " "
	return want != "  " && slices.ContainsFunc(v.given, func(given string) bool {
		return strings.Contains(" "+given+" ", want) && len(strings.Fields(given)) <= len(strings.Fields(want))+wordsAround
	})
}

var (
	rightAnswer = regexp.MustCompile(`^(?:correct|right|exactly|accepted|match|solved|richtig|korrekt|correcto|juste|exact|corretto)\b|^(?:верно|правильно)(?: |$)|\b(?:is|are|was|s|it|answer|verdict|result|status|outcome|grade) (?:correct|right|accepted|a match)\b|\b(?:correct|right|well done)$|^(?:answer )?accepted$`)
	wrongAnswer = regexp.MustCompile(`\b(?:incorrect|wrong|not correct|not right|t correct|t right|not quite|try again|keep trying|no match|mismatch|not accepted|not a match|not the answer|not it|rejected|too (?:low|high|small|large)|falsch|incorrecto|faux|sbagliato)\b|неверно|неправильно`)
	judgedField = regexp.MustCompile(`\b[a-z_]*(?:correct|right|match|matches|accepted|solved|passed)[a-z_]* (true|false|1|0|yes|no)\b`)
	plainTruth  = regexp.MustCompile(`^(?:(?:result|answer|valid|ok|value|output|score|reward|is_valid|points|status) )?(true|false|yes|no|1|0|1 0|0 0|1 1|0 1|100|pass|fail|passed|failed)$`)
)

// verdictOf returns the verdict that a short text is. A page that speaks of what is
// right says more.
func verdictOf(text string) verdict {
	marks := strings.NewReplacer("✓", " correct ", "✔", " correct ", "✅", " correct ", "✗", " wrong ", "✘", " wrong ", "❌", " wrong ").Replace(text)
	if len(marks) > longestVerdict*20 {
		return verdict{}
	}
	words := asWords(marks)
	if count := len(strings.Fields(words)); count == 0 || count > longestVerdict {
		return verdict{}
	}
	if m := judgedField.FindStringSubmatch(words); m != nil {
		right := m[1] == "true" || m[1] == "1" || m[1] == "yes"
		return verdict{right: right != strings.Contains(m[0], "incorrect"), wrong: right == strings.Contains(m[0], "incorrect")}
	}
	if m := plainTruth.FindStringSubmatch(words); m != nil {
		right := slices.Contains([]string{"true", "yes", "1", "1 0", "1 1", "100", "pass", "passed"}, m[1])
		return verdict{right: right, wrong: !right, weak: true}
	}
	if wrongAnswer.MatchString(words) {
		return verdict{wrong: true}
	}
	return verdict{right: rightAnswer.MatchString(words)}
}

var (
	// aboutAnswers are names of tools and arguments that take an answer to be graded.
	aboutAnswers = regexp.MustCompile(`answer|candidate|guess|solution|submi|grad(?:e|ing)|judge|oracle|prediction|verdict|evaluat`)
	// aboutRules are names of tools that hold a text against rules that all can know.
	aboutRules = regexp.MustCompile(`spell|gramm|dictionar|lexic|thesaur|word ?list|scrabble|chess|sudoku|crossword|regex|syntax|lint|compil|pars(?:e|ing)|schema|checksum|isbn|prime|legal|equation|math|proof|logic|sympy|solver`)
)

// verdictsAsked looks for a tool or page that said of answers whether they are
// right. Who is told so asks until they are.
func verdictsAsked(e *Evidence, n *Notes, t *TaskEvidence, a *AttemptEvidence) {
	if a.Answer == nil {
		return
	}
	wrong := map[string][]*CallFact{}
	for _, c := range a.Calls {
		if c.Result == nil || !c.Verdict.right && !c.Verdict.wrong {
			continue
		}
		is := c.Verdict.gives(a.Answer.Answer)
		if c.Verdict.wrong {
			if !is {
				wrong[c.Name] = append(wrong[c.Name], c)
			}
			continue
		}
		if !is {
			continue
		}
		at := place{task: t, attempt: a.Number, seq: c.Result.Seq, sha256: c.Result.SHA256}
		refused := wrong[c.Name]
		if len(refused) > 0 && (c.Grades || !c.Verdict.weak && !aboutRules.MatchString(e.says(c)) && !slices.ContainsFunc(refused, c.spelled)) {
			n.find("answer-guessing", at, "a call of "+c.Name+" was told that the answer is right, and before that another one is wrong", "an answer that nothing but the run's scorer grades")
			return
		}
		if c.Grades && !c.Verdict.weak && !aboutRules.MatchString(e.says(c)) {
			n.find("answer-graded", at, "a call of "+c.Name+", which takes an answer, was told that it is right", "an answer that nothing but the run's scorer grades")
			return
		}
		if c.Grades || !c.Verdict.weak || len(refused) >= 2 && !aboutRules.MatchString(e.says(c)) {
			n.find("answer-confirmed", at, "a call of "+c.Name+" was told that the answer is right", "an answer that nothing but the run's scorer grades")
			return
		}
	}
	for _, c := range a.Calls {
		if c.Grades && c.Verdict.wrong && slices.Contains(wrong[c.Name], c) {
			n.find("answer-confirmed", place{task: t, attempt: a.Number, seq: c.Result.Seq, sha256: c.Result.SHA256}, "a call of "+c.Name+" was told that another answer is wrong", "an answer that nothing but the run's scorer grades")
			return
		}
	}
}

// says returns what a tool is called and says of itself, in lower case, or the
// address that was fetched.
func (e *Evidence) says(c *CallFact) string {
	text := c.Name + " " + c.Result.First
	for _, t := range e.Manifest.Tools {
		if t.Name == c.Name && t.Server != "" {
			text += " " + t.Description
		}
	}
	return strings.ToLower(text)
}

// spelled reports whether two calls gave spellings of one word: letters alone, and
// few of them differ.
func (c *CallFact) spelled(other *CallFact) bool {
	for _, a := range c.Verdict.given {
		for _, b := range other.Verdict.given {
			if a != b && len(a) >= 4 && !strings.ContainsAny(a+b, "0123456789") && lettersApart(a, b) <= 2 {
				return true
			}
		}
	}
	return false
}

// lettersApart returns how many characters differ between the common beginning and
// the common end of two texts.
func lettersApart(a, b string) int {
	x, y := []rune(a), []rune(b)
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	return max(len(x), len(y))
}

// grades reports whether the name of a tool or of an argument takes an answer to be
// graded.
func grades(p trajectory.ToolProposed) bool {
	if builtin(p.Name) {
		return p.Name == "web_fetch" && aboutAnswers.MatchString(strings.ToLower(p.Args["url"]))
	}
	named := aboutAnswers.MatchString(strings.ToLower(p.Name))
	for name := range p.Args {
		named = named || aboutAnswers.MatchString(strings.ToLower(name))
	}
	return named
}
