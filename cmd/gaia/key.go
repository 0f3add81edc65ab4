package main

import (
	"fmt"
	"slices"

	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/outfile"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/spf13/cobra"
)

func (a *app) keyCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "key",
		Short: "Create signing keys, and choose the keys you trust",
		Long: `Keys are Ed25519 keys in OpenSSH files. They are in $XDG_CONFIG_HOME/gaia/keys
(else ~/.config/gaia/keys): your own as "signing", those you trust as NAME.pub
or as lines of allowed_signers. docs/keys.md describes how a key is found and
when it is trusted.`,
		Example: `  gaia key init --rotate --until 2027-01-31
  gaia key export -o me.pub                           to give to others
  gaia key trust alice.pub`,
	}, a.keyInitCommand(), a.keyShowCommand(), a.keyListCommand(), a.keyTrustCommand(), a.keyExportCommand())
}

func (a *app) keyInitCommand() *cobra.Command {
	var name, path, until string
	var rotate, asJSON bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Create a signing key, or replace yours",
		Long: `Init creates an Ed25519 key in an OpenSSH private key file, mode 0600, without a
passphrase, and its public half beside it as .pub. It never overwrites a file.

--rotate replaces the key. The old private file stays under a name with its
fingerprint. If you trust the old key, allowed_signers lists it from then on:
without end, or until the first second of the date that --until gives. Resume
and package a run that the old key planned with --key and that file.`,
		Example: `  gaia key init
  gaia key init --name ci              keys/ci, to be used with --key
  gaia key init --rotate --until 2027-01-31`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path != "" && cmd.Flags().Changed("name") {
				return usage("--name is for the key directory, --key for any place", "--name and --key both give a place")
			}
			ring := a.user().Keyring()
			if path == "" {
				var err error
				if path, err = ring.Path(name); err != nil {
					return err
				}
			}
			if !rotate && until != "" {
				return usage("", "--until needs --rotate")
			}
			end, err := cli.ParseTime("until", until)
			if err != nil {
				return err
			}
			var created keyring.Created
			if rotate {
				created, err = ring.Rotate(path, end)
			} else {
				created, err = ring.Create(path)
			}
			return a.printRows(created, asJSON, err)
		},
	}
	cli.RejectEmpty(cmd, "key", "until")
	f := cmd.Flags()
	f.StringVar(&name, "name", keyring.DefaultKey, "name of the file in the key directory")
	f.StringVar(&path, "key", "", "file to create instead, anywhere")
	f.BoolVar(&rotate, "rotate", false, "replace the key, and keep the old one trusted")
	f.StringVar(&until, "until", "", "with --rotate: trust the old key until this time, such as 2027-01-31, the first second of that day")
	f.BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

// printRows prints a result with rows for a person, or as JSON, unless there was an error in making it.
func (a *app) printRows(result interface{ Rows() [][2]string }, asJSON bool, err error) error {
	if err != nil {
		return err
	}
	return view.Result(a.stdout, asJSON, result, view.RowsText(result.Rows()))
}

func (a *app) keyShowCommand() *cobra.Command {
	var flag string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the key that a run would be signed with",
		Long: `Show prints the key that the next run would be signed with, where it was found,
and whether you trust it. The order is --key, GAIA_SIGNING_KEY (the key itself),
GAIA_SIGNING_KEY_FILE, and "signing" in the key directory. It creates no key.`,
		Example: `  gaia key show
  gaia key show --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			k, err := a.user().Keyring().Show(flag)
			return a.printRows(k, asJSON, err)
		},
	}
	cli.RejectEmpty(cmd, "key")
	cmd.Flags().StringVar(&flag, "key", "", "signing key file")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

func (a *app) keyListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the keys that you trust, and until when",
		Long: `List prints the public keys in the key directory: your own, the files NAME.pub,
and the lines of allowed_signers with their limits.`,
		Example: `  gaia key list
  gaia key list --json`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			ring := a.user().Keyring()
			dir, err := ring.Directory()
			if err != nil {
				return err
			}
			keys, err := ring.List()
			if err != nil {
				return err
			}
			if asJSON {
				return view.JSON(a.stdout, map[string][]keyring.Listed{"keys": keys})
			}
			if len(keys) == 0 {
				return view.Rows(a.stdout, [][2]string{{"no keys in", dir}})
			}
			_, err = fmt.Fprintln(a.stdout, keyring.Table(keys))
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

func (a *app) keyExportCommand() *cobra.Command {
	var flag, out string
	var asPEM bool
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the public half of your key",
		Long: `Export writes the public half of the key that a run would be signed with. The
private half never leaves its file.`,
		Example: `  gaia key export -o me.pub         an OpenSSH line, for 'gaia key trust'
  gaia key export --pem -o me.pem   for openssl and cosign`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := a.user().Keyring().Find(flag)
			if err != nil {
				return err
			}
			text := []byte(found.Key.Public().Line() + "\n")
			if asPEM {
				if text, err = found.Key.Public().PEM(); err != nil {
					return err
				}
			}
			if out == "" || out == "-" {
				return a.write(text, nil)
			}
			return outfile.WriteNew(cmd.Context(), []outfile.File{{Path: out, Data: text}})
		},
	}
	cli.RejectEmpty(cmd, "key", "out")
	cmd.Flags().StringVar(&flag, "key", "", "signing key file")
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write, which must not exist (default: standard output)")
	cmd.Flags().BoolVar(&asPEM, "pem", false, "as a PEM block (SubjectPublicKeyInfo) instead of an OpenSSH line")
	return cmd
}

func (a *app) keyTrustCommand() *cobra.Command {
	var name, after, before string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "trust FILE|-",
		Short: "Trust the signatures of a key",
		Long: `Trust adds a public key, an OpenSSH line or a PEM block, to allowed_signers in
the key directory. Take the key from its holder, not from a package, and compare
the fingerprint that is printed.

A date is 2026-01-02 or 2026-01-02T15:04:05Z; without a zone it is UTC, and
without a time the day's first second.`,
		Example: `  gaia key trust alice.pub
  gaia key trust --name alice@lab.example --valid-before 2027-01-31 alice.pub
  ssh-keygen -y -f other-key | gaia key trust --name me -`,
		Args: cli.OneArg("the public key file, or - for standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s := sign.AllowedSigner{Principals: name, Namespaces: sign.Namespace}
			var err error
			if s.ValidAfter, err = cli.ParseTime("valid-after", after); err != nil {
				return err
			}
			if s.ValidBefore, err = cli.ParseTime("valid-before", before); err != nil {
				return err
			}
			if !s.ValidBefore.IsZero() && !s.ValidAfter.Before(s.ValidBefore) {
				return usage("", "--valid-before is not later than --valid-after")
			}
			added, err := a.user().Keyring().Add(args[0], cmd.InOrStdin(), s)
			return a.printRows(added, asJSON, err)
		},
	}
	cli.RejectEmpty(cmd, "name", "valid-after", "valid-before")
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "name of its holder (default: the file's name, or the fingerprint)")
	f.StringVar(&after, "valid-after", "", "trust it from this date on")
	f.StringVar(&before, "valid-before", "", "trust it until this date, the first second of that day")
	f.BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

// trustFlags are the flags of commands that check signers.
type trustFlags struct {
	keys    []string // --trusted-key
	allowed []string // --allowed-signers
	own     string   // file of the user's own signing key; "" for the default
}

func (f *trustFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.keys, "trusted-key", nil, "another public key `file` to trust, OpenSSH line or PEM")
	cmd.Flags().StringArrayVar(&f.allowed, "allowed-signers", nil, "another allowed_signers `file` of OpenSSH to read")
}

// trustedKeys returns whom the user trusts with the files of the flags.
func (a *app) trustedKeys(f trustFlags) (keyring.Trust, error) {
	if slices.Contains(f.keys, "") {
		return keyring.Trust{}, cli.EmptyFlag("trusted-key")
	}
	if slices.Contains(f.allowed, "") {
		return keyring.Trust{}, cli.EmptyFlag("allowed-signers")
	}
	t, err := a.user().Keyring().Own(f.own)
	if err != nil {
		return keyring.Trust{}, err
	}
	return t.With(f.keys, f.allowed)
}

// checkSigner returns an error with exit code Untrusted if the user does not trust the
// signer of a verified run. Commands call it after they have printed their result.
func (a *app) checkSigner(found *rundir.Run) error {
	trusted, err := a.user().OwnTrust()
	if err == nil {
		_, err = trusted.Of(found.Key)
	}
	return err
}
