package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"
)

func (a *app) keyTrustCommand() *cobra.Command {
	var name, after, before string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "trust FILE|-",
		Short: "Trust somebody's signatures from now on",
		Long: `Trust adds a public key, an OpenSSH line or a PEM block, to allowed_signers in
the key directory. Take the key from its holder, not from a package, and compare
the fingerprint that is printed.

A date is 2026-01-02 or 2026-01-02T15:04:05Z; without a zone it is UTC, and
without a time the day's first second.`,
		Example: `  gaia key trust alice.pub
  gaia key trust --name alice@lab.example --valid-before 2027-01-31 alice.pub
  ssh-keygen -y -f other-key | gaia key trust --name me -`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("see 'gaia key trust --help'", "key trust takes one argument, the public key file, or - for standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := notEmpty(cmd, "name", "valid-after", "valid-before"); err != nil {
				return err
			}
			s := sign.AllowedSigner{Principals: name, Namespaces: sign.Namespace}
			if err := setDates(&s, after, before); err != nil {
				return err
			}
			return a.keyTrust(args[0], cmd.InOrStdin(), s, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "whose key it is (default: the file's name, or the fingerprint)")
	f.StringVar(&after, "valid-after", "", "trust it from this date on")
	f.StringVar(&before, "valid-before", "", "trust it until this date, the first second of that day")
	f.BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

// parseMoment reads a date or time that a flag was given: like a date of
// submit, as RFC 3339, or as allowed_signers files have it.
func parseMoment(flag, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		// A year of five digits, as a zone can make of 9999, no list can hold.
		if t, err := time.Parse(layout, s); err == nil && t.Unix() > 0 && t.Nanosecond() == 0 && t.UTC().Year() <= 9999 {
			return t.UTC(), nil
		}
	}
	t, err := sign.ParseBound(s)
	if err != nil {
		return time.Time{}, usage("give it as 2026-01-02 or 2026-01-02T15:04:05Z", "--%s %q is no date", flag, s)
	}
	return t, nil
}

func setDates(s *sign.AllowedSigner, after, before string) (err error) {
	if s.ValidAfter, err = parseMoment("valid-after", after); err != nil {
		return err
	}
	if s.ValidBefore, err = parseMoment("valid-before", before); err != nil {
		return err
	}
	if !s.ValidBefore.IsZero() && !s.ValidAfter.Before(s.ValidBefore) {
		return usage("", "--valid-before is not later than --valid-after")
	}
	return nil
}

// newTrust is what key trust prints with --json.
type newTrust struct {
	Added       bool   `json:"added"` // false: it was there already
	KeyID       string `json:"key_id"`
	List        string `json:"list"`
	Name        string `json:"name"`
	Reason      string `json:"reason,omitzero"` // why it is not trusted now
	ValidAfter  string `json:"valid_after,omitzero"`
	ValidBefore string `json:"valid_before,omitzero"`
}

// keyTrust lists the key in a file; s is what else the line is to say.
func (a *app) keyTrust(file string, stdin io.Reader, s sign.AllowedSigner, asJSON bool) error {
	content, err := readKeyFile(file, stdin)
	if err != nil {
		return usage("", "reading the public key %q: %v", file, err)
	}
	if s.Key, err = sign.ParsePublicFile(content); err != nil {
		return usage("gaia key export writes a key to trust: an OpenSSH line, ssh-ed25519 AAAA…, or a PEM block", "the public key %q: %v", file, err)
	}
	if s.Principals == "" {
		base := filepath.Base(file)
		s.Principals = strings.TrimSuffix(base, filepath.Ext(base))
		if file == "-" || sign.CheckPrincipals(s.Principals) != nil {
			s.Principals = s.Key.ID()
		}
	}
	if err := sign.CheckPrincipals(s.Principals); err != nil {
		return usage("give a name without spaces and quotes, such as alice@lab.example", "--name: %v", err)
	}
	dir, err := a.keyDir()
	if err != nil {
		return err
	}
	release, err := lockKeys(dir)
	if err != nil {
		return err
	}
	defer release()
	added, err := addAllowed(dir, s)
	if err != nil {
		return err
	}
	out := newTrust{Added: added, KeyID: s.Key.ID(), List: filepath.Join(dir, allowedFile), Name: s.Principals,
		ValidAfter: moment(s.ValidAfter), ValidBefore: moment(s.ValidBefore)}
	if err := s.At(time.Now()); err != nil {
		out.Reason = err.Error()
	}
	if asJSON {
		return a.printJSON(out)
	}
	done := "trusted"
	if !added {
		done = "trusted already"
	}
	rows := [][2]string{{done, out.KeyID}, {"as", out.Name}}
	if out.Reason != "" {
		rows = append(rows, [2]string{"but not now", out.Reason})
	}
	return a.printRows(append(rows, [2]string{"listed in", out.List}))
}

// readKeyFile reads a file, or standard input for "-".
func readKeyFile(file string, stdin io.Reader) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(io.LimitReader(stdin, maxKeyFile))
	}
	return readUpTo(file, maxKeyFile)
}

// lockKeys keeps other processes from changing what the key directory says
// while this one reads and changes it.
func lockKeys(dir string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(dir, ".lock"))
	if err := lock.Lock(); err != nil {
		return nil, fmt.Errorf("locking the key directory: %w", err)
	}
	return func() { lock.Close() }, nil
}

// addAllowed adds a line to the list in the key directory and reports whether
// it was not there yet. A key that stands there with other dates is refused:
// a second line could only take a limit away, and nobody would see it. The
// caller holds the lock.
func addAllowed(dir string, s sign.AllowedSigner) (bool, error) {
	listed, err := ownList(dir)
	if err != nil {
		return false, err
	}
	path := filepath.Join(dir, allowedFile)
	if there, err := already(listed, s, path); there || err != nil {
		return false, err
	}
	content, err := readUpTo(path, maxAllowed)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("reading allowed signers: %w", err)
	}
	if len(content) > 0 && content[len(content)-1] != '\n' {
		content = append(content, '\n')
	}
	content = append(content, s.Line()+"\n"...)
	if _, err := sign.ParseAllowedSigners(content); err != nil { // such a list would lock everybody out
		return false, fmt.Errorf("writing allowed signers: %w", err)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a list that lies elsewhere stays there
	}
	if err := renameio.WriteFile(path, content, 0o644); err != nil {
		return false, fmt.Errorf("writing allowed signers: %w", err)
	}
	return true, durable.SyncDir(filepath.Dir(path))
}

// already reports whether the list says what s does, and refuses an s that says
// something else of a key that stands there.
func already(listed sign.AllowedSigners, s sign.AllowedSigner, path string) (bool, error) {
	for _, l := range listed {
		if !l.Key.Equal(s.Key) || !l.Applies() {
			continue
		}
		if l.ValidAfter.Equal(s.ValidAfter) && l.ValidBefore.Equal(s.ValidBefore) {
			return true, nil
		}
		return false, fail(exitFailure, fmt.Errorf("%s is listed with other dates, in line %d of %q", s.Key.ID(), l.Row, path), "edit that line, or take it out")
	}
	return false, nil
}
