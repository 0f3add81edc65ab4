package policy

import "slices"

// reHosts tells re-hosts of the benchmark from folders of other things called gaia; the note in denylist.json says how.
type reHosts struct {
	Note      string   `json:"note"`
	Sure      []string `json:"sure"`
	Weak      []string `json:"weak"`
	Benchmark []string `json:"benchmark"`
	Splits    []string `json:"splits"`
	Endings   []string `json:"endings"`
	Plain     []string `json:"plain"`
	Astronomy []string `json:"astronomy"`
}

// has says whether a part, or a word of it, is on a list.
func (r reHosts) has(list []string, part string) bool {
	return slices.Contains(list, part) || slices.ContainsFunc(words(part), func(word string) bool { return slices.Contains(list, word) })
}

// ordinary says whether a part says nothing of what gaia is.
func (r reHosts) ordinary(part string) bool {
	return !slices.ContainsFunc(words(part), func(word string) bool {
		return !slices.Contains(r.Plain, word) && !slices.Contains(r.Splits, word) && !counter(word)
	})
}

// lies returns the class of an answer file that lies below gaia, with parts between. benchmark says whether a word of it
// stands before the file, astronomy whether the host is named for it.
func (l denylist) lies(file string, between []string, benchmark, astronomy bool) Class {
	r := l.ReHosts
	stem, ending := l.AnswerFiles.unpacked(file)
	split := func(part string) bool { return r.has(r.Splits, part) }
	weak := !slices.ContainsFunc(words(stem), func(word string) bool {
		return !slices.Contains(r.Weak, word) && !slices.Contains(l.AnswerFiles.Fillers, word) && !counter(word)
	})
	switch {
	case r.has(r.Sure, stem):
		return ClassA
	case slices.ContainsFunc(between, func(part string) bool { return r.has(r.Astronomy, part) }):
		return ClassNone
	case !weak:
		return ClassA
	case astronomy:
		return ClassB
	case benchmark:
		return ClassA
	case slices.ContainsFunc(between, func(part string) bool { return !r.ordinary(part) }):
		return ClassB
	case split(stem) || slices.Contains(r.Endings, ending) || slices.ContainsFunc(between, split):
		return ClassA
	}
	return ClassB
}
