package policy

import (
	"slices"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// seekingWindow is how many words on either side of gaia belong to it. A page that is handed on may
// speak of everything somewhere.
const seekingWindow = 20

// seekingWords are the words, and words in a row, by which R001 recognises a text that looks for the
// benchmark's answers.
type seekingWords struct {
	Answers   []string `json:"answers"`   // what is wanted
	Exact     []string `json:"exact"`     // of them, those that other things called gaia hardly have
	Materials []string `json:"materials"` // what may be wanted of other things, too
	Certain   []string `json:"certain"`   // by which no other gaia is meant
	Benchmark []string `json:"benchmark"` // by which another may be meant
	Splits    []string `json:"splits"`    // the same, where no other name is next to gaia
	Dataset   []string `json:"dataset"`   // the same, and other things have them often: only with answers
	Weak      []string `json:"weak"`      // only where nothing else is said, or two of them with answers
	Others    []string `json:"others"`    // by which another is meant
	Plain     []string `json:"plain"`     // words of any search, which say nothing of another gaia
	Names     []string `json:"names"`     // what else the benchmark is called
	Joined    []string `json:"joined"`    // what may be written in one word with gaia
	Strong    []string `json:"strong"`    // by which no other is meant when answers are wanted, whatever is said besides
	Excused   []string `json:"excused"`   // of which Strong is a part and another thing
	Foreign   []string `json:"foreign"`   // words of languages without spaces, each followed by the English one

	plainWords map[string]bool
	translate  *strings.Replacer
}

// seekingLists are the lists, made ready at first use and never changed.
var seekingLists = sync.OnceValue(func() seekingWords {
	s := seeking()
	s.plainWords = map[string]bool{}
	for _, phrase := range slices.Concat(s.Answers, s.Materials, s.Certain, s.Benchmark, s.Splits, s.Weak, s.Plain, s.Strong) {
		for word := range strings.FieldsSeq(phrase) {
			s.plainWords[word] = true
		}
	}
	pairs := slices.Clone(s.Foreign)
	for i := 1; i < len(pairs); i += 2 {
		pairs[i] = " " + pairs[i] + " "
	}
	s.translate = strings.NewReplacer(pairs...)
	return s
})

// seeking returns the lists.
func seeking() seekingWords {
	exact := []string{"annotator metadata", "answer key", "answer keys", "answer sheet", "answer sheets", "expected answer", "expected answers", "final answer", "final answers",
		"gold answer", "gold answers", "gold labels", "ground truth", "groundtruth", "leaked", "metadata jsonl", "metadata parquet", "reference answer", "reference answers", "set gold", "split gold"}
	return seekingWords{
		Answers: append([]string{"answer list", "answers", "antworten", "cheat sheet", "correct answer", "correct response", "correct responses", "musterlösung", "musterlösungen",
			"q a pairs", "respostas", "respuestas", "risposte", "réponses", "solved examples", "solved questions", "solved tasks", "solutionnaire", "worked solutions", "ответы"}, exact...),
		Exact:     exact,
		Materials: []string{"answer", "lösung", "lösungen", "metadata", "soluciones", "solution", "solutions", "soluzioni"},
		Certain:   []string{"2023 all", "2023 level1", "2023 level2", "2023 level3", "annotator metadata", "ai assistant", "ai assistants", "hf dataset", "hf datasets", "hugging face", "huggingface", "mialon", "smolagents"},
		Benchmark: []string{"benchmark", "benchmarks"},
		Splits:    []string{"dev set", "dev split", "leaderboard", "leaderboards", "test split", "validation question", "validation questions", "validation set", "validation split", "validation task", "validation tasks"},
		Dataset:   []string{"ai agent", "ai agents", "data set", "data sets", "dataset", "datasets", "jsonl", "llm agent", "llm agents", "parquet", "test set"},
		Weak:      []string{"165", "dev", "level 1", "level 2", "level 3", "level1", "level2", "level3", "validation"},
		Others: []string{"adql", "agis", "aip", "amd", "asteroid", "asteroids", "astrometric", "astrometry", "astroml", "astronomy", "b2g", "blockchain", "board game", "catalog", "catalogs", "catalogue", "catalogues", "cosmos",
			"data release", "dpac", "dr1", "dr2", "dr3", "dr4", "dr5", "edr3", "esa", "gaia online", "gaia project", "gaia x", "galaxy", "girona", "goddess", "hotel", "hypothesis", "illusion of", "lindegren", "lovelock", "medal", "milky way",
			"mission", "mythology", "nss", "parallax", "photometric", "photometry", "satellite", "spacecraft", "spectra", "speedrun", "star", "stars", "stellar",
			"telescope", "terranigma", "unistra", "vila nova de", "vizier"},
		Plain: []string{"a", "access", "agent", "agents", "ai", "all", "an", "and", "annotated", "annotator", "any", "are", "assistant", "assistants", "column", "com", "complete",
			"contains", "containing", "copy", "correct", "csv", "dataset", "datasets", "der", "des", "die", "do", "download", "each", "eval", "evaluation", "every", "field", "file", "files", "find", "for",
			"free", "from", "full", "general", "get", "gist", "github", "gold", "have", "hf", "how", "i", "in", "is", "json", "jsonl", "key", "labels", "las", "le", "leak", "les", "list", "llm",
			"llms", "los", "me", "mirror", "model", "my", "of", "official", "on", "open", "or", "pairs", "paper", "parquet", "pdf", "per", "please", "private", "public", "q", "question", "questions",
			"raw", "reference", "repo", "repository", "response", "responses", "results", "scores", "scoring", "set", "show", "solved", "split", "steps", "submission", "submissions",
			"task", "tasks", "test", "the", "their", "these", "this", "to", "trace", "traces", "true", "txt", "und", "uploaded", "was", "what", "where", "which", "with", "zip"},
		Names:   []string{"general ai assistant", "general ai assistants"},
		Joined:  []string{"2023", "answers", "benchmark", "dataset", "dev", "leaderboard", "level1", "level2", "level3", "test", "validation"},
		Strong:  []string{"benchmark gaia", "gaia benchmark", "gaia validation answers"},
		Excused: []string{"gaia benchmark catalog", "gaia benchmark catalogue", "gaia benchmark sample", "gaia benchmark star", "gaia benchmark stars"},
		Foreign: []string{"答案", "answers", "解答", "answers", "正解", "answers", "회답", "answers", "정답", "answers", "基准", "benchmark", "基準", "benchmark", "ベンチマーク", "benchmark", "벤치마크", "benchmark",
			"排行榜", "leaderboard", "数据集", "dataset", "數據集", "dataset", "验证集", "validation set", "驗證集", "validation set"},
	}
}

// Seeks says whether a text, a query or an address, looks for this benchmark's answers: within 20 words
// of gaia, or of what else the benchmark is called, it names the benchmark and what would be had there, in
// any order. Percent encoding, base64 and hex hide nothing. Weak words, such as a level, count only beside words for a
// benchmark, its splits or its data, or where the text says nothing that another gaia could be told by.
func Seeks(text string) bool {
	lists := seekingLists()
	for _, form := range forms(text) {
		form = lists.translate.Replace(form)
		if !strings.Contains(form, "gaia") && !strings.Contains(form, "general") {
			continue
		}
		if lists.seeks(form) {
			return true
		}
		if !strings.Contains(form, "://") {
			continue
		}
		for value := range strings.FieldsFuncSeq(form, func(r rune) bool { return strings.ContainsRune("?&=#", r) }) {
			if strings.Contains(value, "gaia") && lists.seeks(value) { // a query in an address
				return true
			}
		}
	}
	return false
}

// seeks says whether one form of a text looks for the answers.
func (s seekingWords) seeks(form string) bool {
	all := s.words(form)
	for i := range all {
		from, to := max(0, i-seekingWindow), min(len(all), i+seekingWindow+1)
		if all[i] == "gaia" && s.sought(all[from:to], i-from) || all[i] == "general" && s.named(all[i:]) && s.soughtByName(all[from:to]) {
			return true
		}
	}
	return false
}

// words are the words of a text, with gaia as one of its own where it is written together with another.
func (s seekingWords) words(text string) []string {
	var all []string
	for _, word := range words(text) {
		if rest, found := strings.CutPrefix(word, "gaia"); found && slices.Contains(s.Joined, rest) {
			all = append(all, "gaia", rest)
			continue
		}
		all = append(all, word)
	}
	return all
}

// named says whether words begin with another name of the benchmark.
func (s seekingWords) named(all []string) bool {
	return slices.ContainsFunc(s.Names, func(name string) bool {
		want := strings.Fields(name)
		return len(want) <= len(all) && slices.Equal(want, all[:len(want)])
	})
}

// phrasesIn returns a function that counts which of some phrases are among words.
func phrasesIn(words []string) func(phrases []string) int {
	near := " " + strings.Join(words, " ") + " "
	return func(phrases []string) (n int) {
		for _, p := range phrases {
			if strings.Contains(near, " "+p+" ") {
				n++
			}
		}
		return n
	}
}

// soughtByName says whether words around another name of the benchmark, which may be words like others, look for
// its answers.
func (s seekingWords) soughtByName(around []string) bool {
	count := phrasesIn(around)
	return count(s.Answers) > 0 && count(s.Benchmark)+count(s.Splits)+count(s.Weak) > 0
}

// sought says whether words around gaia, which is at place at, look for the benchmark's answers.
func (s seekingWords) sought(around []string, at int) bool {
	count := phrasesIn(around)
	answers := count(s.Answers) > 0
	if !answers && count(s.Materials) == 0 {
		return false
	}
	others, weak := count(s.Others) > 0, count(s.Weak)
	strong := count(s.Strong) > 0 && count(s.Excused) == 0
	bare := s.plain(around[max(0, at-1):min(len(around), at+2)]) // no part of another name, such as Gaia Sky or Villa Gaia
	switch {
	case count(s.Certain) > 0 && (bare || answers && !others):
		return true
	case answers && strong, count(s.Exact) > 0 && s.weakNext(around[at+1:]):
		return true
	case others:
		return false
	case count(s.Benchmark) > 0 && (answers || strong || bare):
		return true
	case bare && (count(s.Splits) > 0 || answers && (count(s.Dataset) > 0 || weak > 1) || count(s.Exact) > 0 && weak > 0):
		return true
	}
	if answers && weak > 0 && count(s.Dataset) > 0 && s.plain(around[at:min(len(around), at+2)]) {
		return true
	}
	return (weak > 0 || count(s.Exact) > 0 && count([]string{"question", "questions", "task", "tasks"}) > 0) && s.plain(around)
}

// weakNext says whether words begin with a weak one, as where gaia is followed by level 2.
func (s seekingWords) weakNext(words []string) bool {
	next := strings.Join(words[:min(len(words), 2)], " ") + " "
	return slices.ContainsFunc(s.Weak, func(p string) bool { return strings.HasPrefix(next, p+" ") })
}

// plain says whether all words are ones that say nothing of another gaia: numbers, the benchmark's own
// words and those of any search.
func (s seekingWords) plain(all []string) bool {
	return !slices.ContainsFunc(all, func(word string) bool {
		return !s.plainWords[word] && strings.Trim(word, "0123456789") != ""
	})
}

// NamesTask says whether a text, a query or an address, holds the id of a task, told by its letters and
// digits alone. Of an id of 32 or more there may be other signs and spaces between them, and all that follows the
// first 20 may be missing, as where the last group of a UUID is left out. An id that says nothing, of fewer
// than 8 of them or without a digit, is held by none.
func NamesTask(text, id string) bool {
	want := bareID(strings.ToLower(id))
	if len(want) < 8 || !strings.ContainsAny(want, "0123456789") {
		return false
	}
	for _, form := range forms(text) {
		for run := range strings.FieldsFuncSeq(form, func(r rune) bool { return !inID(r) }) {
			if len(run) < len(want) {
				continue
			}
			bare := bareID(run)
			if bare == want || len(want) >= 32 && strings.Contains(bare, want) { // no such run is there by chance
				return true
			}
		}
		if len(want) >= 32 && namesGroups(words(form), want) {
			return true
		}
	}
	return false
}

// mostOfID is how many letters and digits of a long id name it: all but the last group of a UUID.
const mostOfID = 20

// namesGroups says whether words, one after another, are an id, or most of it with nothing behind that would make
// it another one.
func namesGroups(all []string, want string) bool {
	for i, word := range all {
		if !strings.HasPrefix(want, word) {
			continue
		}
		rest, next := want, i
		for next < len(all) && rest != "" {
			after, found := strings.CutPrefix(rest, all[next])
			if !found {
				break
			}
			rest, next = after, next+1
		}
		other := next < len(all) && len(all[next]) >= len(rest) && strings.Trim(all[next], "0123456789abcdef") == ""
		if len(want)-len(rest) >= mostOfID && (rest == "" || !other) {
			return true
		}
	}
	return false
}

func inID(r rune) bool { return r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

func bareID(s string) string { return strings.NewReplacer("-", "", "_", "").Replace(s) }

// forms are a text as those see it who undo its encoding, in lower case and in one form of each character.
func forms(text string) []string {
	all := decodings(text)
	for i, form := range all {
		all[i] = strings.ToLower(norm.NFKC.String(strings.ReplaceAll(form, "+", " ")))
	}
	return all
}

// Searched returns what of a call says what somebody else is to look for: queries and addresses, and
// all that a server's tool is given.
func (c Call) Searched() []string {
	if c.Tool == "web_search" || !slices.Contains(BuiltinTools(), c.Tool) {
		return slices.Concat(c.Texts, c.URLs)
	}
	return c.URLs
}

// Asked returns what of Searched cannot be about a file of the workspace, which may be named by the
// task's id: queries of a search, and addresses elsewhere.
func (c Call) Asked() []string {
	var all []string
	if c.Tool == "web_search" {
		all = append(all, c.Texts...)
	}
	server := !slices.Contains(BuiltinTools(), c.Tool)
	for _, url := range c.URLs {
		if server && (strings.HasPrefix(strings.ToLower(url), "file:") || strings.ContainsFunc(url, betweenWords)) {
			continue // text with an address in it, which stands there once more by itself
		}
		all = append(all, url)
	}
	return all
}

// Told returns what of a call others are given that need not be about what they are to look for: all
// that a server's tool is given, and what a fetch has besides its address.
func (c Call) Told() []string {
	switch {
	case !slices.Contains(BuiltinTools(), c.Tool):
		return c.Texts
	case c.Tool == "web_fetch":
		return slices.DeleteFunc(slices.Clone(c.Texts), func(text string) bool { return slices.Contains(c.URLs, text) })
	}
	return nil
}

// seeks returns how a call looks for the answers without leading to a known source of them, or "".
func seeks(c Call) string {
	switch {
	case slices.ContainsFunc(c.Searched(), Seeks):
		return "this looks for the benchmark's answers"
	case slices.ContainsFunc(c.Asked(), func(text string) bool { return NamesTask(text, c.TaskID) }):
		return "this looks for the task by its id"
	}
	return ""
}
