package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/spf13/cobra"
)

func (a *app) keyInitCommand() *cobra.Command {
	var name, path, until string
	var rotate bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make a signing key, or replace yours by a new one",
		Long: `Init makes an Ed25519 key in an OpenSSH private key file, mode 0600, without a
passphrase, and its public half beside it as .pub. A file that exists is never
overwritten.

With --rotate the key is replaced: the old private file is kept under a name
with its fingerprint, and the old public half stays trusted through
allowed_signers, until the date that --until says, or without end. A run that
the old key planned is resumed and packaged with --key and that file.`,
		Example: `  gaia key init
  gaia key init --name ci              keys/ci, to be used with --key
  gaia key init --rotate --until 2027-01-31`,
		Args: noKeyArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path != "" && cmd.Flags().Changed("name") {
				return usage("--name is for the key directory, --key for anywhere", "--name and --key both say where")
			}
			path, err := a.newKeyPath(name, path)
			if err != nil {
				return err
			}
			if !rotate && until != "" {
				return usage("", "--until goes with --rotate")
			}
			if !rotate {
				return a.keyInit(path)
			}
			end, err := parseMoment("until", until)
			if err != nil {
				return err
			}
			return a.keyRotate(path, end)
		},
	}
	f := cmd.Flags()
	f.StringVar(&name, "name", defaultKey, "name of the file in the key directory")
	f.StringVar(&path, "key", "", "file to make instead, anywhere")
	f.BoolVar(&rotate, "rotate", false, "replace the key by a new one and keep the old one trusted")
	f.StringVar(&until, "until", "", "with --rotate: trust the old key until this date, such as 2027-01-31")
	return cmd
}

// newKeyPath is where a key is to be made.
func (a *app) newKeyPath(name, path string) (string, error) {
	if path != "" {
		return path, nil
	}
	if name == "" || name != filepath.Base(name) || name[0] == '.' || name == allowedFile || strings.HasSuffix(name, ".pub") {
		return "", usage("--name is a file's name in the key directory; --key takes a path", "--name %q is no name for a key", name)
	}
	dir, err := a.keyDir()
	return filepath.Join(dir, name), err
}

func (a *app) keyInit(path string) error {
	key, err := sign.CreateKey(path, rand.Reader)
	if errors.Is(err, fs.ErrExist) {
		if key, err := sign.LoadKey(path); err == nil { // whoever made it may have died before its .pub
			if err := sign.WritePublic(path, key.Public()); err != nil {
				return fmt.Errorf("writing the public half of the signing key: %w", err)
			}
		}
		return fail(exitFailure, fmt.Errorf("there is a file at %q already, and it is not overwritten", path),
			"gaia key show shows your key, gaia key init --rotate replaces it")
	}
	if err != nil {
		return fmt.Errorf("making a signing key: %w", err)
	}
	return a.printRows(newKeyRows(path, key.Public()))
}

func newKeyRows(path string, key sign.PublicKey) [][2]string {
	return [][2]string{{"key", key.ID()}, {"private half", path}, {"public half", path + ".pub"}, {"public", key.Line()}}
}

// keyRotate lists the old key as trusted before it makes the new one, so that
// whenever a process dies there is a key, and what either signed is trusted.
// Done again it goes on where it was cut, or rotates once more.
func (a *app) keyRotate(path string, until time.Time) error {
	dir, err := a.keyDir()
	if err != nil {
		return err
	}
	release, err := lockKeys(dir)
	if err != nil {
		return err
	}
	defer release()
	old, err := namedKey(path, fromFlag)
	if err != nil {
		return err
	}
	public := old.key.Public()
	kept, err := keepTrusted(dir, filepath.Base(path), public, until)
	if err != nil {
		return err
	}
	// The start of the fingerprint, in letters that a file name may hold.
	id := strings.NewReplacer("SHA256:", "", "+", "-", "/", "_").Replace(public.ID())
	aside := path + "." + id[:8]
	key, err := sign.RenewKey(path, aside, rand.Reader)
	if err != nil {
		return fmt.Errorf("making the new signing key: %w", err)
	}
	rows := append(newKeyRows(path, key.Public()), [2]string{"old key", public.ID()}, [2]string{"kept as", aside})
	return a.printRows(append(rows, [2]string{"trusted", kept}))
}

// keepTrusted lists a key that is about to be replaced, and says until when it
// is trusted. What the list says of it already holds unless a date is given.
func keepTrusted(dir, name string, key sign.PublicKey, until time.Time) (string, error) {
	listed, err := ownList(dir)
	if err != nil {
		return "", err
	}
	if known, _ := listed.Lookup(key, time.Time{}); known && until.IsZero() {
		return "as " + allowedFile + " says already", nil
	}
	s := sign.AllowedSigner{Principals: name, Namespaces: sign.Namespace, ValidBefore: until, Key: key}
	if sign.CheckPrincipals(name) != nil {
		s.Principals = key.ID()
	}
	if _, err := addAllowed(dir, s); err != nil {
		return "", err
	}
	if until.IsZero() {
		return "without end", nil
	}
	return "until " + moment(until), nil
}
