package policy

import (
	"slices"
	"strings"
)

// AnswerKeys returns what a call would open that is named like a key of answers, such as answers.json,
// gold_labels.csv or validation/metadata.jsonl: of its paths, its addresses of files, and the strings of
// its code, in their order and each once.
func AnswerKeys(c ReadCall) []string {
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
	for _, r := range c.read {
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

// namesKey reports whether a path is of a file that is named like a key of answers. An address elsewhere
// is no path.
func namesKey(path string) bool {
	path = strings.ToLower(strings.ReplaceAll(path, `\`, "/"))
	if strings.Contains(path, "://") && !strings.HasPrefix(path, "file:") || strings.ContainsAny(path, "\n\r") {
		return false
	}
	folder, base := splitPath(path)
	files := &data().Review.KeyFiles
	all := words(base)
	for i, word := range all { // without numbers at the ends, as in answers1.json and answers.v2.json; endings keep theirs
		bare := strings.TrimRight(word, "0123456789")
		if bare != "" && !slices.Contains(files.Endings, word) && !slices.Contains(files.Packed, word) {
			all[i] = bare
		}
	}
	for _, form := range []string{base, strings.Join(all, ".")} {
		if ok, _ := files.match(form); ok {
			return true
		}
	}
	metadata := answerFiles{Names: []string{"metadata"}, Fillers: []string{"level1", "level2", "level3"}, Endings: []string{"csv", "jsonl", "parquet"}}
	_, split := splitPath(folder)
	ok, _ := metadata.match(base)
	return ok && (split == "validation" || split == "val" || split == "dev" || split == "test")
}
