package main

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/pflag"
)

// notSettings are the flags of run that say where settings come from, or that
// are of one call; and that code may have this machine, which no file that lies
// about is to say.
func notSettings() []string {
	return []string{"help", "settings", "like", "dry-run", "unsafe-local-python"}
}

// apply sets the flags that the file names, except those for which keep says
// that something stronger has decided.
func (f *settingsFile) apply(flags *pflag.FlagSet, keep func(name string) bool) error {
	if f == nil {
		return nil
	}
	var names []string
	flags.VisitAll(func(flag *pflag.Flag) {
		if !slices.Contains(notSettings(), flag.Name) {
			names = append(names, flag.Name)
		}
	})
	for _, e := range f.entries {
		if e.key == mcpKey || e.key == evaluatorsKey {
			continue
		}
		if !slices.Contains(names, e.key) {
			return f.unknown(e, names)
		}
		for _, v := range e.values {
			if isSecret(v.text) {
				return masked(f.wrong(v.at, "set OPENAI_API_KEY or HF_TOKEN in the environment", "%s holds what looks like a key: secrets do not belong into the file", e.key), e.key+": ")
			}
		}
		flag := flags.Lookup(e.key)
		kept := keep(e.key) // what is wrong is said all the same
		if err := f.fits(e, flag.Value.Type()); err != nil {
			return err
		}
		if kept {
			continue
		}
		if err := f.assign(flags, flag, e); err != nil {
			return err
		}
		f.set[e.key] = e.at
		if len(e.values) > 0 {
			f.set[e.key] = e.values[0].at
		}
	}
	return nil
}

// value returns what the file says of a flag that takes one text; "" if nothing.
func (f *settingsFile) value(key string) string {
	if f == nil {
		return ""
	}
	for _, e := range f.entries {
		if e.key == key && !e.list && !isSecret(e.values[0].text) {
			return e.values[0].text
		}
	}
	return ""
}

// assign sets a flag as the command line would.
func (f *settingsFile) assign(flags *pflag.FlagSet, flag *pflag.Flag, e entry) error {
	list, isList := flag.Value.(pflag.SliceValue)
	if !isList {
		if err := flags.Set(e.key, e.values[0].text); err != nil {
			return f.unfit(e, e.values[0], flag.Value.Type(), err)
		}
		return nil
	}
	var all []string
	for _, v := range e.values {
		all = append(all, v.text)
		if err := list.Replace([]string{v.text}); err != nil {
			return f.unfit(e, v, flag.Value.Type(), err)
		}
	}
	flag.Changed = true
	return list.Replace(all)
}

func (f *settingsFile) unfit(e entry, v value, kind string, err error) error {
	if wrong := (*pflag.InvalidValueError)(nil); errors.As(err, &wrong) {
		err = wrong.Unwrap()
	}
	_, reason, found := cutLast(err.Error(), ": ")
	if !found {
		reason = err.Error()
	}
	return f.wrong(v.at, "", "%s is %q, which is not %s: %s", e.key, text.Trim(v.text, shownWidth), described(kind), text.Trim(reason, shownWidth))
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// fits refuses values of another type than the flag's.
func (f *settingsFile) fits(e entry, kind string) error {
	single, isList := strings.CutSuffix(kind, "Slice")
	if e.list && !isList {
		return f.wrong(e.at, "", "%s is a list, and is to be %s", e.key, described(kind))
	}
	if len(e.values) == 0 {
		return f.wrong(e.at, "give it a value, or leave it out", "%s names nothing", e.key)
	}
	for _, v := range e.values {
		fits := false
		switch single {
		case "int", "int64":
			fits = v.kind == ast.IntegerType && regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`).MatchString(v.text)
		case "bool":
			fits = v.kind == ast.BoolType
		case kindDollars, kindAtOnce:
			fits = v.kind == ast.StringType || v.kind == ast.IntegerType || v.kind == ast.FloatType
		default:
			fits = v.kind == ast.StringType
		}
		if !fits {
			hint := ""
			if v.kind != ast.StringType && single == "string" {
				hint = "put it in quotes if it is meant"
			}
			return f.wrong(v.at, hint, "%s is %q, which is not %s", e.key, text.Trim(v.text, shownWidth), described(kind))
		}
	}
	return nil
}

// described says what a type of a flag is written as.
func described(kind string) string {
	switch kind {
	case "int", "int64":
		return "a whole number"
	case "intSlice":
		return "a list of whole numbers"
	case "stringSlice":
		return "a list of texts"
	case "bool":
		return "true or false"
	case "duration":
		return "a time such as 15m"
	case kindDollars:
		return "US dollars"
	case kindFraction:
		return "a fraction from 0 to 1"
	case kindAtOnce:
		return "auto or a number"
	}
	return "text"
}

// unknown refuses a key that is no setting. Its value is not shown: it may be a
// secret.
func (f *settingsFile) unknown(e entry, names []string) error {
	plain := strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(e.key))
	secret := slices.ContainsFunc([]string{"apikey", "token", "secret", "password", "credential"}, func(word string) bool { return strings.Contains(plain, word) })
	hint := "a setting is called as the flag of 'gaia run' is; see its --help"
	near := nearest(e.key, names)
	if near != "" {
		hint = "did you mean " + near + "?"
	}
	format := "there is no setting %q"
	switch {
	case secretVariable(strings.ToUpper(e.key)):
		format, hint = "%q is no setting: secrets do not belong into the file", "set "+strings.ToUpper(e.key)+" in the environment"
	case secret && near == "":
		format, hint = "%q is no setting: secrets do not belong into the file", "set OPENAI_API_KEY or HF_TOKEN in the environment"
	case slices.Contains(notSettings(), e.key):
		format, hint = "%q is for the command line alone", ""
	}
	key := text.Trim(e.key, shownWidth)
	return masked(f.wrong(e.at, hint, format, key), oneLine(key)+": ")
}

// secretVariable reports whether a name is a variable of the environment that holds
// a secret of this program's.
func secretVariable(name string) bool {
	known := []string{"OPENAI_API_KEY", "HF_TOKEN", "GAIA_SIGNING_KEY"}
	for _, k := range searchKeys() {
		known = append(known, k.variables...)
	}
	return slices.Contains(known, name)
}

// nearest returns the name that fewest changes make of key, "" if none is near.
func nearest(key string, names []string) string {
	key = strings.ToLower(strings.ReplaceAll(key, "_", "-"))
	best, found := 2+len(key)/4, ""
	for _, name := range names {
		if d := changes(key, name); d < best {
			best, found = d, name
		}
	}
	return found
}

// changes is the Levenshtein distance of two names, in bytes.
func changes(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

// point adds the place in the file to an error that names a flag set from
// there.
func (f *settingsFile) point(err error) error {
	var found *failure
	if f == nil || !errors.As(err, &found) || found.Code != exitUsage || found.Excerpt != nil {
		return err
	}
	message := found.Err.Error()
	for _, m := range regexp.MustCompile(`(?:--|\bunknown )([a-z][a-z-]*)`).FindAllStringSubmatch(message, -1) {
		at, ours := f.set[m[1]]
		if !ours {
			continue
		}
		pointed := f.wrong(at, "", "%s", strings.ReplaceAll(message, "--"+m[1], m[1])).(*failure)
		pointed.Hints = found.Hints
		return pointed
	}
	return err
}
