package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/spf13/cobra"
)

func (a *app) keyInitCommand() *cobra.Command {
	var name, path, until string
	var rotate, asJSON bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make a signing key, or replace yours by a new one",
		Long: `Init makes an Ed25519 key in an OpenSSH private key file, mode 0600, without a
passphrase, and its public half beside it as .pub. A file that exists is never
overwritten.

With --rotate the key is replaced: the old private file is kept under a name
with its fingerprint, and the old public half, if you trust it, stays trusted
through allowed_signers, until the first second of the date that --until says,
or without end. A run that the old key planned is resumed and packaged with
--key and that file.`,
		Example: `  gaia key init
  gaia key init --name ci              keys/ci, to be used with --key
  gaia key init --rotate --until 2027-01-31`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd, "key", "until"); err != nil {
				return err
			}
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
				return a.keyInit(path, asJSON)
			}
			end, err := parseMoment("until", until)
			if err != nil {
				return err
			}
			return a.keyRotate(path, end, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&name, "name", defaultKey, "name of the file in the key directory")
	f.StringVar(&path, "key", "", "file to make instead, anywhere")
	f.BoolVar(&rotate, "rotate", false, "replace the key by a new one and keep the old one trusted")
	f.StringVar(&until, "until", "", "with --rotate: trust the old key until this time, such as 2027-01-31, the first second of that day")
	f.BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

// newKeyPath is where a key is to be made.
func (a *app) newKeyPath(name, path string) (string, error) {
	if path != "" {
		return path, nil
	}
	if name == "" || name != filepath.Base(name) || name[0] == '.' || name[0] == filepath.Separator || name == allowedFile || strings.HasSuffix(name, ".pub") {
		return "", usage("--name is a file's name in the key directory; --key takes a path", "--name %q is no name for a key", name)
	}
	dir, err := a.keyDir()
	return filepath.Join(dir, name), err
}

// newKey is what key init prints with --json.
type newKey struct {
	KeyID      string `json:"key_id"`
	OldKeyID   string `json:"old_key_id,omitzero"` // with --rotate, as all that is old
	OldPath    string `json:"old_path,omitzero"`
	OldReason  string `json:"old_reason,omitzero"` // why it is not trusted now
	OldTrusted string `json:"old_trusted,omitzero"`
	Path       string `json:"path"`
	PublicKey  string `json:"public_key"`
	PublicPath string `json:"public_path"`
	Reason     string `json:"reason,omitzero"` // why it is not trusted by lying there
}

func (a *app) newKey(path string, key sign.PublicKey) newKey {
	k := newKey{KeyID: key.ID(), Path: path, PublicKey: key.Line(), PublicPath: path + ".pub"}
	if dir, err := a.keyDir(); err != nil || !samePlace(filepath.Dir(path), dir) {
		k.Reason = "it lies outside the key directory: gaia key trust " + quoteArg(k.PublicPath)
	}
	return k
}

// samePlace reports whether two names lead to one file or directory.
func samePlace(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

func (a *app) printNewKey(k newKey, asJSON bool) error {
	if asJSON {
		return a.printJSON(k)
	}
	rows := [][2]string{{"key", k.KeyID}, {"private half", k.Path}, {"public half", k.PublicPath}, {"public", k.PublicKey}}
	if k.Reason != "" {
		rows = append(rows, [2]string{"not trusted", k.Reason})
	}
	if k.OldKeyID != "" {
		rows = append(rows, [2]string{"old key", k.OldKeyID}, [2]string{"kept as", k.OldPath}, [2]string{"trusted", k.OldTrusted})
	}
	if k.OldReason != "" {
		rows = append(rows, [2]string{"but not now", k.OldReason})
	}
	return a.printRows(rows)
}

func (a *app) keyInit(path string, asJSON bool) error {
	key, err := sign.CreateKey(path, rand.Reader)
	if errors.Is(err, fs.ErrExist) {
		if _, err := sign.LoadKey(path); err == nil { // whoever made it may have died before its .pub
			if err := a.mendPublic(path); err != nil {
				return fmt.Errorf("writing the public half of the signing key: %w", err)
			}
		}
		return fail(exitFailure, fmt.Errorf("there is a file at %q already, and it is not overwritten", path),
			"gaia key show shows your key, gaia key init --rotate replaces it")
	}
	if err != nil {
		return notMade(path, err)
	}
	return a.printNewKey(a.newKey(path, key.Public()), asJSON)
}

// keyRotate lists the old key as trusted before the new one takes its place, so
// that whenever a process dies there is a key, and what either signed is
// trusted; and after the new one is made, so that a failure limits no key that
// stays in use.
// Done again it goes on where it was cut, or rotates once more.
func (a *app) keyRotate(path string, until time.Time, asJSON bool) error {
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
	t, err := a.ownTrust("")
	if err != nil {
		return err
	}
	// The start of the fingerprint, in letters that a file name may hold.
	id := strings.NewReplacer("SHA256:", "", "+", "-", "/", "_").Replace(public.ID())
	aside := path + "." + id[:8]
	if !until.IsZero() { // before anything is changed
		if _, err := already(t.listed, sign.AllowedSigner{ValidBefore: until, Key: public}, filepath.Join(dir, allowedFile)); err != nil {
			return err
		}
	}
	kept := "no: it was not before"
	key, err := sign.RenewKey(path, aside, rand.Reader, func() (err error) {
		if word, _ := t.of(public); word != trustUnknown {
			kept, err = keepTrusted(dir, filepath.Base(path), public, until)
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("replacing the signing key: %w", err)
	}
	if errors.Is(err, fs.ErrExist) {
		return fail(exitFailure, err, "move that file away; nothing has changed")
	}
	if err != nil {
		return err
	}
	a.noticeOtherSigner(path)
	made := a.newKey(path, key.Public())
	made.OldKeyID, made.OldPath, made.OldTrusted = public.ID(), aside, kept
	listed, err := ownList(dir)
	if err != nil {
		return err
	}
	if _, outdated := listed.Lookup(public, t.now); outdated != nil {
		made.OldReason = outdated.Error()
	}
	return a.printNewKey(made, asJSON)
}

// noticeOtherSigner says so if the key that was changed is not the one that
// runs are signed with.
func (a *app) noticeOtherSigner(path string) {
	source := fromContent
	if a.getenv(source) == "" {
		source = fromFile
	}
	if file := a.getenv(source); file == "" || source == fromFile && samePlace(file, path) {
		return
	}
	fmt.Fprintf(a.stderr, "gaia: %s is set: without --key, runs go on being signed with that key\n", source)
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
