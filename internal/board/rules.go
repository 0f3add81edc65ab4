package board

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/selection"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/internal/visible"
)

// RulesFile is the file of the folder with packages that says which of them count.
const RulesFile = "board.yaml"

// Limits of board.yaml.
const (
	maxRules = 64 << 10 // bytes
	maxText  = 4000     // bytes of a title, a description or a reason
	maxList  = 1000     // entries of a list
)

// settingsOf is board.yaml as it is written.
type settingsOf struct {
	Title       string      `yaml:"title"`
	Description string      `yaml:"description"`
	Dataset     string      `yaml:"dataset"`
	Revision    string      `yaml:"revision"`
	Split       string      `yaml:"split"`
	Selection   string      `yaml:"selection"`
	Rehearsal   bool        `yaml:"rehearsal"`
	FullOnly    bool        `yaml:"full-only"`
	Checks      []string    `yaml:"checks"`
	TrustedKeys []string    `yaml:"trusted-keys"`
	Allowed     []string    `yaml:"allowed-signers"`
	Exclude     []Exclusion `yaml:"exclude"`
}

// Exclusion leaves packages out, for a reason.
type Exclusion struct {
	Package string `json:"package" yaml:"package"` // name of the package, or of its file, or its digest: sha256:…
	Reason  string `json:"reason" yaml:"reason"`
}

// Rules say which packages count.
type Rules struct {
	Checks    []string    `json:"checks"`             // ids of the checks that must pass, or have closed findings only
	Dataset   string      `json:"dataset"`            // name, as in a plan
	Default   bool        `json:"default,omitzero"`   // there was no board.yaml
	Exclude   []Exclusion `json:"exclude,omitempty"`  // in the order of the file
	FullOnly  bool        `json:"full_only,omitzero"` // no public package counts
	KeyIDs    []string    `json:"key_ids"`            // that are trusted now, sorted
	Keyring   bool        `json:"keyring,omitzero"`   // trusted are the keys of whoever made the board
	Rehearsal bool        `json:"rehearsal,omitzero"` // rehearsals count
	Revision  string      `json:"revision,omitzero"`  // of the dataset; left out: any
	Selection string      `json:"selection"`          // label of the tasks of the split that a plan must have
	Split     string      `json:"split"`
}

// rehearsed is the dataset of a rehearsal.
const rehearsed = "gaia-fixtures"

const rulesHint = "it can have title, description, dataset, revision, split, selection, rehearsal, full-only, checks, trusted-keys, allowed-signers, " +
	"and exclude with package and reason"

// readRules reads the rules of a board, its title and description, and whom it trusts. name is the file that the user
// named, "" for none.
func readRules(folder, name string, own keyring.Trust) (s settingsOf, r Rules, t keyring.Trust, err error) {
	path := cmp.Or(name, filepath.Join(folder, RulesFile))
	data, err := regular.Read(path, maxRules)
	switch {
	case name == "" && errors.Is(err, fs.ErrNotExist):
		if _, lost := os.Lstat(path); lost == nil { // a link to nothing
			return s, r, t, exit.Usagef("remove it, or name another file by --config", "reading the rules %q: %v", path, err)
		}
		r.Default = true
	case err != nil:
		return s, r, t, exit.Usagef("name another file by --config", "reading the rules %q: %v", path, regular.Cause(err))
	}
	d, err := settings.Decode(path, data, &s, rulesHint)
	if err != nil {
		return s, r, t, err
	}
	if err := s.check(d); err != nil {
		return s, r, t, err
	}
	r.Dataset = plan.GaiaName
	if s.Rehearsal {
		r.Dataset = rehearsed
	}
	r.Dataset, r.Split, r.Selection = cmp.Or(s.Dataset, r.Dataset), cmp.Or(s.Split, "validation"), cmp.Or(s.Selection, selection.Filter{}.Rule())
	r.Revision, r.Rehearsal, r.FullOnly, r.Exclude = s.Revision, s.Rehearsal, s.FullOnly, s.Exclude
	r.Checks = []string{}
	for _, c := range audit.Checks() {
		if slices.Contains(s.Checks, c.ID) {
			r.Checks = append(r.Checks, c.ID)
		}
	}
	if t, err = s.trust(d, filepath.Dir(path), own); err != nil {
		return s, r, t, err
	}
	r.Keyring = len(s.TrustedKeys)+len(s.Allowed) == 0
	r.KeyIDs = []string{}
	for _, key := range t.Valid() {
		r.KeyIDs = append(r.KeyIDs, key.ID())
	}
	slices.Sort(r.KeyIDs)
	return s, r, t, nil
}

// check refuses values that say nothing, or cannot be.
func (s settingsOf) check(d settings.Document) error {
	for _, of := range []struct{ key, value string }{{"title", s.Title}, {"description", s.Description}, {"dataset", s.Dataset},
		{"revision", s.Revision}, {"split", s.Split}, {"selection", s.Selection}} {
		if why := badText(of.value); why != "" {
			return d.Wrong("", of.key+" "+why, of.key)
		}
	}
	if s.Dataset != "" {
		if err := plan.CheckDatasetName(s.Dataset); err != nil {
			return d.Wrong("", err.Error(), "dataset")
		}
	}
	if s.Selection != "" {
		if _, err := selection.Parse(s.Selection); err != nil {
			return d.Wrong("write it as plans do: all, or such as level=1,2", err.Error(), "selection")
		}
	}
	for i, id := range s.Checks {
		if !slices.ContainsFunc(audit.Checks(), func(c audit.Check) bool { return c.ID == id }) {
			return d.Wrong("docs/checks.md lists them", fmt.Sprintf("there is no check %q", visible.Line(id)), "checks", i)
		}
	}
	if len(s.Exclude) > maxList || len(s.TrustedKeys) > maxList || len(s.Allowed) > maxList {
		return d.Wrong("", fmt.Sprintf("a list has more than %d entries", maxList))
	}
	for i, e := range s.Exclude {
		why := ""
		switch {
		case e.Package == "":
			why = "package is missing: the name of a package or file, or a digest"
		case strings.HasPrefix(e.Package, "sha256:") && !canonical.IsDigest(e.Package):
			why = "package is no digest: sha256: and 64 hexadecimal digits"
		case strings.TrimSpace(e.Reason) == "":
			why = "reason is missing: the board shows it"
		case badText(e.Reason) != "":
			why = "reason " + badText(e.Reason)
		}
		if why != "" {
			return d.Wrong("an exclusion is a package and a reason", why, "exclude", i)
		}
	}
	return nil
}

// badText says what is wrong with a text of board.yaml, "" if nothing is.
func badText(s string) string {
	switch {
	case len(s) > maxText:
		return fmt.Sprintf("is longer than %d bytes", maxText)
	case !utf8.ValidString(s):
		return "is not UTF-8"
	}
	return ""
}

// trust returns whom the board trusts: the keys that board.yaml names, or if there are none own. Files are named from
// folder.
func (s settingsOf) trust(d settings.Document, folder string, own keyring.Trust) (keyring.Trust, error) {
	if len(s.TrustedKeys)+len(s.Allowed) == 0 {
		return own, nil
	}
	from := func(name string) string {
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(folder, name)
	}
	t := own.None()
	for i, key := range s.TrustedKeys {
		var err error
		if line := strings.TrimSpace(key); strings.HasPrefix(line, "ssh-") {
			t, err = t.WithLine(line)
		} else {
			t, err = t.With([]string{from(key)}, nil)
		}
		if err != nil {
			return t, d.Wrong("give an OpenSSH public key line, ssh-ed25519 AAAA…, or the name of a file with one", err.Error(), "trusted-keys", i)
		}
	}
	for i, name := range s.Allowed {
		var err error
		if t, err = t.With(nil, []string{from(name)}); err != nil {
			return t, d.Wrong("give the name of a file; see ssh-keygen(1), ALLOWED SIGNERS", err.Error(), "allowed-signers", i)
		}
	}
	return t, nil
}
