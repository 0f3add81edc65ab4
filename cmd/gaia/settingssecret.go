package main

import (
	"errors"
	"regexp"
	"strings"

	"github.com/gaia-harness/gaia/trajectory"
)

// masked shows of the line of a mistake only what is given of it: the rest may
// be a secret.
func masked(err error, known string) error {
	var f *failure
	if errors.As(err, &f) && len(f.Excerpt) > 0 {
		head, _, _ := strings.Cut(f.Excerpt[0], " | ")
		f.Excerpt = []string{head + " | " + known + "…", strings.Repeat(" ", len(head)) + " | ^"}
	}
	return err
}

// Keys are known by how they begin, however short, and by the name that a URL
// gives them.
const (
	keyText  = `(?:sk-|hf_)[A-Za-z0-9_-]{8,}`
	keyInURL = `(?i)[?&][^=&\s]*(?:key|token|secret|password)[^=&\s]*=`
)

// isSecret reports whether a value is, or holds, what looks like a key.
func isSecret(value string) bool {
	return regexp.MustCompile(`^`+keyText+`$`).MatchString(value) || hasKey(value)
}

// holdsSecret is isSecret of a line, which is not shown then. It is wrong
// sooner than isSecret, which refuses.
func holdsSecret(line string) bool {
	return regexp.MustCompile(`(?:^|[^A-Za-z0-9_-])`+keyText).MatchString(line) || hasKey(line)
}

func hasKey(s string) bool {
	s = regexp.MustCompile(credentials).ReplaceAllString(s, "//…@") // which is told apart
	_, hidden := trajectory.Redactor{}.Redact(s)
	return hidden > 0 || regexp.MustCompile(keyInURL).MatchString(s)
}
