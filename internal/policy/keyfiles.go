package policy

import (
	"slices"
	"strings"
)

// keyFiles describes how files with answers are named, whatever benchmark they belong to. Labels alone
// are none: honest tables are called that.
func keyFiles() answerFiles {
	return answerFiles{
		Names: []string{"answer key*", "answerkey*", "answer sheet*", "answersheet*", "answer", "answers", "expected", "gold", "golden", "ground truth", "groundtruth", "gt", "solution", "solutions"},
		Fillers: []string{"all", "benchmark", "correct", "data", "dataset", "dev", "eval", "file", "final", "for", "full", "gaia", "hidden", "key", "keys", "label", "labels",
			"level", "level1", "level2", "level3", "of", "official", "output", "outputs", "private", "question", "questions", "reference", "result", "results",
			"set", "split", "task", "tasks", "test", "the", "to", "true", "v", "val", "validation", "version"},
		Endings: []string{"arrow", "csv", "db", "feather", "json", "jsonl", "md", "ndjson", "npy", "npz", "parquet", "pickle", "pkl", "sqlite", "sqlite3", "tsv", "txt",
			"xls", "xlsx", "xml", "yaml", "yml", "zip"},
		Packed: []string{"bz2", "gz", "xz", "zst"},
	}
}

// AnswerKeys returns what a call would open that is named like a key of answers, such as answers.json,
// gold_labels.csv or validation/metadata.jsonl: of its paths, its addresses of files, and the strings of
// its code, in their order and each once.
func AnswerKeys(c Call) []string {
	var found []string
	seen := map[string]bool{}
	look := func(path string) bool {
		named := namesKey(path)
		if named && !seen[path] {
			seen[path] = true
			found = append(found, path)
		}
		return named
	}
	for _, path := range c.Paths {
		look(path)
	}
	for _, url := range c.URLs {
		look(percentDecode(url))
	}
	for _, r := range readings(c) {
		for _, text := range r.literals {
			named := false
			for word := range strings.FieldsFuncSeq(text, betweenWords) {
				named = look(word) || named
			}
			if !named { // it may be a name with a space in it
				look(text)
			}
		}
	}
	return found
}

// namesKey says whether a path is of a file that is named like a key of answers. An address elsewhere
// is no path.
func namesKey(path string) bool {
	path = strings.ToLower(strings.ReplaceAll(path, `\`, "/"))
	if strings.Contains(path, "://") && !strings.HasPrefix(path, "file:") || strings.ContainsAny(path, "\n\r") {
		return false
	}
	folder, base := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		folder, base = path[:i], path[i+1:]
	}
	for _, form := range []string{base, uncounted(base)} {
		if ok, _ := keyFiles().match(form); ok {
			return true
		}
	}
	metadata := answerFiles{Names: []string{"metadata"}, Fillers: []string{"level1", "level2", "level3"}, Endings: []string{"csv", "jsonl", "parquet"}}
	split := folder[strings.LastIndexByte(folder, '/')+1:]
	ok, _ := metadata.match(base)
	return ok && (split == "validation" || split == "val" || split == "dev" || split == "test")
}

// uncounted is the name of a file without the numbers at the ends of its words: answers1.json and
// answers.v2.json. Endings keep theirs.
func uncounted(base string) string {
	files := keyFiles()
	all := words(base)
	for i, word := range all {
		bare := strings.TrimRight(word, "0123456789")
		if bare != "" && !slices.Contains(files.Endings, word) && !slices.Contains(files.Packed, word) {
			all[i] = bare
		}
	}
	return strings.Join(all, ".")
}
