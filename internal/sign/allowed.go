package sign

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"
)

// Namespace is the name that the namespaces option of an allowed_signers line must match for the line to apply to what
// gaia signs.
const Namespace = "gaia"

// AllowedSigner is a line of an OpenSSH allowed_signers file: a key, and between which two moments, both included, it
// is to be trusted.
type AllowedSigner struct {
	Principals  string    // patterns, separated by commas; a name, and no more to gaia
	Namespaces  string    // patterns, separated by commas; "" is any
	ValidAfter  time.Time // UTC, whole seconds; zero is no bound
	ValidBefore time.Time // likewise
	Key         PublicKey
	Comment     string
	Row         int // line of the file, from 1
}

// AllowedSigners are the lines of one or more allowed_signers files.
type AllowedSigners []AllowedSigner

// ParseAllowedSigners reads an allowed_signers file as ssh-keygen(1) describes it, but for what it says of dates
// without a zone: they are UTC here, since whether a key is trusted must not depend on the time zone of a machine. A
// line that cannot be honoured in full is an error that names it: a list that is passed over in part could trust a key
// that it means to limit.
func ParseAllowedSigners(content []byte) (AllowedSigners, error) {
	if strings.HasPrefix(string(content), "\ufeff") {
		return nil, errors.New("line 1: it begins with a byte order mark")
	}
	var list AllowedSigners
	row := 0
	for line := range strings.Lines(string(content)) {
		row++
		line = strings.Trim(strings.TrimRight(line, "\r\n"), " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		s, err := parseAllowedSigner(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", row, err)
		}
		s.Row = row
		list = append(list, s)
	}
	return list, nil
}

func parseAllowedSigner(line string) (AllowedSigner, error) {
	if !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return r != '\t' && unicode.IsControl(r) }) {
		return AllowedSigner{}, errors.New("it holds characters that are no text")
	}
	end := strings.IndexAny(line, " \t")
	if end < 0 {
		return AllowedSigner{}, errors.New("not an allowed_signers line")
	}
	s := AllowedSigner{Principals: line[:end]}
	if err := CheckPrincipals(s.Principals); err != nil {
		return AllowedSigner{}, err
	}
	rest := strings.TrimLeft(line[end:], " \t")
	wire, comment, options, _, err := ssh.ParseAuthorizedKey([]byte(rest))
	if err != nil {
		return AllowedSigner{}, errors.New("not an allowed_signers line")
	}
	// The library drops empty options, so what it read is held against the line.
	after, ok := strings.CutPrefix(rest, strings.Join(options, ","))
	if !ok || !strings.HasPrefix(strings.TrimLeft(after, " \t"), wire.Type()) {
		return AllowedSigner{}, errors.New("not an allowed_signers line")
	}
	if s.Key, err = publicKeyOf(wire); err != nil {
		return AllowedSigner{}, err
	}
	s.Comment = strings.TrimSpace(comment)
	if err := s.setOptions(options); err != nil {
		return AllowedSigner{}, err
	}
	return s, nil
}

// CheckPrincipals refuses what cannot be in the first column of an allowed_signers file as it is, and what cannot be
// seen there: a mark that shows as nothing before a # would make a comment a signer.
func CheckPrincipals(principals string) error {
	if principals == "" || strings.ContainsAny(principals, "\"'\\") || principals[0] == '#' || !utf8.ValidString(principals) ||
		strings.ContainsFunc(principals, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) }) {
		return fmt.Errorf("%q is no name of a signer", principals)
	}
	return nil
}

func (s *AllowedSigner) setOptions(options []string) error {
	seen := map[string]bool{}
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		name = strings.ToLower(name)
		if seen[name] {
			return fmt.Errorf("the option %s occurs twice", name)
		}
		seen[name] = true
		var err error
		switch name {
		case "namespaces":
			s.Namespaces, err = unquote(name, value)
		case "valid-after":
			s.ValidAfter, err = parseBound(name, value)
		case "valid-before":
			s.ValidBefore, err = parseBound(name, value)
		case "cert-authority":
			err = errors.New("cert-authority is not supported: give the signer's own key")
		default:
			err = fmt.Errorf("unknown option %q", name)
		}
		if err != nil {
			return err
		}
	}
	if !s.ValidBefore.IsZero() && !s.ValidAfter.Before(s.ValidBefore) {
		return errors.New("valid-before is not later than valid-after")
	}
	return nil
}

// unquote takes the quotes off an option's value.
func unquote(name, value string) (string, error) {
	inner, ok := strings.CutPrefix(value, `"`)
	inner, closed := strings.CutSuffix(inner, `"`)
	if !ok || !closed || inner == "" || strings.ContainsAny(inner, `"\[] `+"\t") {
		return "", fmt.Errorf("%s requires a value in double quotes", name)
	}
	return inner, nil
}

func parseBound(name, value string) (time.Time, error) {
	inner, err := unquote(name, value)
	if err != nil {
		return time.Time{}, err
	}
	t, err := ParseBound(inner)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// ParseBound reads a time as allowed_signers files have it: YYYYMMDD or YYYYMMDDHHMM[SS], with or without a Z. It is
// UTC either way, and after 1970: OpenSSH takes the first second of that year for no bound.
func ParseBound(s string) (time.Time, error) {
	digits := strings.TrimSuffix(s, "Z")
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if t, err := time.Parse(layout, digits); err == nil && len(layout) == len(digits) && t.Unix() > 0 {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time of the form YYYYMMDD or YYYYMMDDHHMMSS, both with or without Z", s)
}

// Line returns the line in the one form in which gaia writes it, without a newline: times to the second, with the Z
// that tells ssh-keygen they are UTC.
func (s AllowedSigner) Line() string {
	var options []string
	add := func(name, value string) { options = append(options, name+`="`+value+`"`) }
	if s.Namespaces != "" {
		add("namespaces", s.Namespaces)
	}
	if !s.ValidAfter.IsZero() {
		add("valid-after", s.ValidAfter.UTC().Format("20060102150405Z"))
	}
	if !s.ValidBefore.IsZero() {
		add("valid-before", s.ValidBefore.UTC().Format("20060102150405Z"))
	}
	fields := []string{s.Principals}
	if len(options) > 0 {
		fields = append(fields, strings.Join(options, ","))
	}
	fields = append(fields, s.Key.Line())
	if s.Comment != "" {
		fields = append(fields, s.Comment)
	}
	return strings.Join(fields, " ")
}

// Applies reports whether the line applies to what gaia signs.
func (s AllowedSigner) Applies() bool {
	if s.Namespaces == "" {
		return true
	}
	found := false
	for _, pattern := range strings.Split(s.Namespaces, ",") {
		pattern, negated := strings.CutPrefix(pattern, "!")
		if ok, err := path.Match(pattern, Namespace); ok && err == nil {
			if negated {
				return false
			}
			found = true
		}
	}
	return found
}

// At returns nil if the key is to be trusted at now, else why not.
func (s AllowedSigner) At(now time.Time) error {
	if !s.ValidBefore.IsZero() && now.After(s.ValidBefore) {
		return fmt.Errorf("it was valid until %s", s.ValidBefore.UTC().Format(time.RFC3339))
	}
	if now.Before(s.ValidAfter) {
		return fmt.Errorf("it is not valid before %s", s.ValidAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// Lookup says whether a line that applies names the key, and if so, whether one of these lines holds at now: if not,
// the error is the last line's reason.
func (l AllowedSigners) Lookup(key PublicKey, now time.Time) (listed bool, err error) {
	for _, s := range slices.Backward(l) {
		if !s.Key.Equal(key) || !s.Applies() {
			continue
		}
		refusal := s.At(now)
		if refusal == nil {
			return true, nil
		}
		if !listed {
			listed, err = true, refusal
		}
	}
	return listed, err
}
