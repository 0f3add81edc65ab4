package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
)

func (a *app) keyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make signing keys, and say whose signatures you trust",
		Long: `Keys are Ed25519 keys in OpenSSH files. They lie in $XDG_CONFIG_HOME/gaia/keys
(else ~/.config/gaia/keys): your own as "signing", those you trust as NAME.pub
or as lines of allowed_signers. docs/keys.md says how a key is found and when
one is trusted.`,
		Example: `  gaia key init
  gaia key export -o me.pub                           to hand out
  gaia key trust alice.pub
  gaia key init --rotate --until 2027-01-31`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.keyInitCommand(), a.keyShowCommand(), a.keyListCommand(), a.keyTrustCommand(), a.keyExportCommand())
	return cmd
}

func (a *app) keyShowCommand() *cobra.Command {
	var flag string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the key that a run would be signed with",
		Long: `Show prints the key that the next run would be signed with, where it was found,
and whether you trust it. The order is --key, GAIA_SIGNING_KEY (the key itself),
GAIA_SIGNING_KEY_FILE, and "signing" in the key directory. It makes no key.`,
		Example: `  gaia key show
  gaia key show --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd, "key"); err != nil {
				return err
			}
			return a.keyShow(flag, asJSON)
		},
	}
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
and the lines of allowed_signers with what limits them.`,
		Example: `  gaia key list
  gaia key list --json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return a.keyList(asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

func (a *app) keyExportCommand() *cobra.Command {
	var flag, out string
	var asPEM bool
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the public half of your key, to hand out",
		Long: `Export writes the public half of the key that a run would be signed with. The
private half never leaves its file.`,
		Example: `  gaia key export -o me.pub         an OpenSSH line, for 'gaia key trust'
  gaia key export --pem -o me.pem   for openssl and cosign`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd, "key", "out"); err != nil {
				return err
			}
			return a.keyExport(cmd.Context(), flag, out, asPEM)
		},
	}
	cmd.Flags().StringVar(&flag, "key", "", "signing key file")
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write, which must not exist (default: standard output)")
	cmd.Flags().BoolVar(&asPEM, "pem", false, "as a PEM block (SubjectPublicKeyInfo) instead of an OpenSSH line")
	return cmd
}

// ownKey finds the key to show or export.
func (a *app) ownKey(flag string) (foundKey, error) {
	found, err := a.findKey(flag)
	if errors.Is(err, errNoKey) {
		return foundKey{}, fail(exitFailure, err, "gaia key init")
	}
	return found, err
}

// shownKey is what key show prints with --json.
type shownKey struct {
	KeyID     string `json:"key_id"`
	Path      string `json:"path,omitzero"` // none if it came as content
	PublicKey string `json:"public_key"`
	Reason    string `json:"reason,omitzero"` // why it is not trusted
	Source    string `json:"source"`
	Trust     string `json:"trust"` // as verify says it
}

func (a *app) keyShow(flag string, asJSON bool) error {
	found, err := a.ownKey(flag)
	if err != nil {
		return err
	}
	t, err := a.ownTrust("")
	if err != nil {
		return err
	}
	key := found.key.Public()
	word, _ := t.of(key)
	k := shownKey{KeyID: key.ID(), Path: found.path, PublicKey: key.Line(), Source: found.source, Trust: word}
	if _, outdated := t.listed.Lookup(key, t.now); outdated != nil {
		k.Reason = outdated.Error()
	}
	if asJSON {
		return a.printJSON(k)
	}
	rows := [][2]string{{"key", k.KeyID}, {"public", k.PublicKey}, {"from", k.Source}}
	if k.Path != "" {
		rows = append(rows, [2]string{"file", k.Path})
	}
	if k.Reason != "" {
		word += ": " + k.Reason
	}
	return a.printRows(append(rows, [2]string{"trust", word}))
}

// listedKey is one of what key list prints with --json.
type listedKey struct {
	KeyID       string `json:"key_id"`
	Name        string `json:"name"`
	PublicKey   string `json:"public_key"`
	Reason      string `json:"reason,omitzero"` // why it is not trusted
	Source      string `json:"source"`
	Trusted     bool   `json:"trusted"`
	ValidAfter  string `json:"valid_after,omitzero"`
	ValidBefore string `json:"valid_before,omitzero"`
}

func (a *app) keyList(asJSON bool) error {
	dir, err := a.keyDir()
	if err != nil {
		return err
	}
	t, err := a.ownTrust("")
	if err != nil {
		return err
	}
	keys := []listedKey{}
	for _, k := range t.keys {
		l := listedKey{KeyID: k.ID(), Name: k.name, PublicKey: k.Line(), Source: k.source, Trusted: true}
		if _, outdated := t.listed.Lookup(k.PublicKey, t.now); outdated != nil {
			l.Trusted, l.Reason = false, outdated.Error()
		}
		keys = append(keys, l)
	}
	for _, s := range t.listed {
		l := listedKey{KeyID: s.Key.ID(), Name: s.Principals, PublicKey: s.Key.Line(), Source: fmt.Sprintf("%s:%d", allowedFile, s.Row),
			Trusted: true, ValidAfter: moment(s.ValidAfter), ValidBefore: moment(s.ValidBefore)}
		if !s.Applies() {
			l.Trusted, l.Reason = false, "for other namespaces: "+s.Namespaces
		} else if err := s.At(t.now); err != nil {
			l.Trusted, l.Reason = false, err.Error()
		}
		keys = append(keys, l)
	}
	if asJSON {
		return a.printJSON(map[string][]listedKey{"keys": keys})
	}
	return a.printKeys(dir, keys)
}

func (a *app) printKeys(dir string, keys []listedKey) error {
	if len(keys) == 0 {
		return a.printRows([][2]string{{"no keys in", dir}})
	}
	t := newTable()
	t.AppendHeader(table.Row{"key", "name", "from", "trust"})
	for _, k := range keys {
		state := trustOK
		if k.ValidBefore != "" {
			state += " until " + k.ValidBefore
		}
		if !k.Trusted {
			state = "no: " + k.Reason
		}
		t.AppendRow(table.Row{k.KeyID, oneLine(k.Name), oneLine(k.Source), oneLine(state)})
	}
	_, err := fmt.Fprintln(a.stdout, visible.Text(t.Render()))
	return err
}

// moment is how a bound is shown; "" if there is none.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func (a *app) keyExport(ctx context.Context, flag, out string, asPEM bool) error {
	found, err := a.ownKey(flag)
	if err != nil {
		return err
	}
	text := []byte(found.key.Public().Line() + "\n")
	if asPEM {
		if text, err = found.key.Public().PEM(); err != nil {
			return err
		}
	}
	if out == "" || out == "-" {
		_, err = a.stdout.Write(text)
		return err
	}
	return writeNew(ctx, []newFile{{out, text}})
}
