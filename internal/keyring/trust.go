package keyring

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"

	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/view"
)

// Limits of files, in bytes. A line of either has about a hundred.
const (
	MaxKeyFile = 1 << 16
	MaxAllowed = 16 << 20
)

// Trust is whom the user trusts: keys, and the lists that limit them in time. A listed
// key counts only while one of its lines applies, wherever else it is.
type Trust struct {
	keys   []trustedKey // files, and the user's own
	listed sign.AllowedSigners
	now    time.Time // the clock of the verifier: the times inside a run prove nothing
}

// trustedKey is a key that is trusted for the place it is in.
type trustedKey struct {
	sign.PublicKey
	name   string
	source string
}

// The results of Trust.Of.
const (
	OK      = "ok"
	Unknown = "unknown key"
	Expired = "expired key" // or not yet valid
)

// Of reports whether the user trusts a key, and the error with exit code Untrusted if
// not. The caller has verified the signature.
func (t Trust) Of(key sign.PublicKey) (string, error) {
	listed, outdated := t.listed.Lookup(key, t.now)
	switch {
	case outdated != nil:
		return Expired, exit.New(exit.Untrusted, fmt.Errorf("the bytes are what was signed, but by a key that you do not trust now: %s: %w", key.ID(), outdated),
			"ask for a signature by a key that is valid now: the times inside a run prove nothing")
	case listed || slices.ContainsFunc(t.keys, func(k trustedKey) bool { return k.Equal(key) }):
		return OK, nil
	}
	return Unknown, unknownSigner(key.ID(), key.Line())
}

// OfID is Of for a key of which only the id is known.
func (t Trust) OfID(id string) error {
	all := t.All()
	if at := slices.IndexFunc(all, func(k sign.PublicKey) bool { return k.ID() == id }); at >= 0 {
		_, err := t.Of(all[at])
		return err
	}
	return unknownSigner(id, "")
}

// Trusts reports whether the user trusts a key now.
func (t Trust) Trusts(key sign.PublicKey) bool {
	word, _ := t.Of(key)
	return word == OK
}

// unknownSigner is the error of intact evidence whose signer the user does not trust;
// line is the public key, "" where only its id is known.
func unknownSigner(id, line string) error {
	hint := "if you know who holds that key, put its public line into a file and run: gaia key trust FILE; verify and audit also take --trusted-key FILE"
	if line != "" {
		hint += "; the line is: " + line
	}
	return exit.New(exit.Untrusted, fmt.Errorf("the bytes are what was signed, but by a key you do not trust: %s", id), hint)
}

// Outdated returns why a listed key is not trusted now, "" if it is or is not listed.
func (t Trust) Outdated(key sign.PublicKey) string {
	if _, err := t.listed.Lookup(key, t.now); err != nil {
		return err.Error()
	}
	return ""
}

// All returns the keys that t has something about.
func (t Trust) All() []sign.PublicKey {
	var all []sign.PublicKey
	for _, k := range t.keys {
		all = append(all, k.PublicKey)
	}
	for _, s := range t.listed {
		all = append(all, s.Key)
	}
	return all
}

// Valid returns the keys that are trusted now.
func (t Trust) Valid() []sign.PublicKey {
	var keys []sign.PublicKey
	for _, k := range t.All() {
		if t.Trusts(k) && !slices.ContainsFunc(keys, k.Equal) {
			keys = append(keys, k)
		}
	}
	return keys
}

// With returns t with the public key files and allowed_signers files that the user named.
func (t Trust) With(keyFiles, allowedFiles []string) (Trust, error) {
	t.keys, t.listed = slices.Clone(t.keys), slices.Clone(t.listed)
	const openSSH = "an OpenSSH public key line, ssh-ed25519 AAAA…, or a PEM block"
	for _, file := range keyFiles {
		content, err := regular.ReadUpTo(file, MaxKeyFile)
		if err != nil {
			return Trust{}, exit.Usagef("name a file that holds "+openSSH, "reading the trusted key %q: %v", file, err)
		}
		key, err := sign.ParsePublicFile(content)
		if err != nil {
			return Trust{}, exit.Usagef("a trusted key is "+openSSH, "the trusted key %q: %v", file, err)
		}
		t.keys = append(t.keys, trustedKey{key, strings.TrimSuffix(filepath.Base(file), ".pub"), "--trusted-key"})
	}
	for _, file := range allowedFiles {
		content, err := regular.ReadUpTo(file, MaxAllowed)
		var listed sign.AllowedSigners
		if err == nil {
			listed, err = sign.ParseAllowedSigners(content)
		}
		if err != nil {
			return Trust{}, exit.Usagef("see ssh-keygen(1), ALLOWED SIGNERS", "reading allowed signers %q: %v", file, err)
		}
		t.listed = append(t.listed, listed...)
	}
	return t, nil
}

// None returns trust in no key, by the clock of t.
func (t Trust) None() Trust { return Trust{now: t.now} }

// WithLine returns t with an OpenSSH public key line; its comment names the key.
func (t Trust) WithLine(line string) (Trust, error) {
	key, err := sign.ParsePublicKey(line)
	if err != nil {
		return Trust{}, err
	}
	name := ""
	if words := strings.Fields(line); len(words) > 2 {
		name = strings.Join(words[2:], " ")
	}
	t.keys = append(slices.Clone(t.keys), trustedKey{key, name, "a line"})
	return t, nil
}

// NameOf returns the name that t has for a key: of a list before that of a file; "" for none, and for the user's own.
func (t Trust) NameOf(key sign.PublicKey) string {
	for _, s := range t.listed {
		if s.Key.Equal(key) && s.Applies() {
			return s.Principals
		}
	}
	for _, k := range t.keys {
		if k.Equal(key) && k.name != ownName {
			return k.name
		}
	}
	return ""
}

// ownName is what the list of keys calls the user's own key.
const ownName = "you"

// OwnLeftOut begins the notice that the user's own key cannot be used.
const OwnLeftOut = "your own signing key is left out: "

// Own returns whom the user trusts without further flags: the key directory and the
// user's signing key, which is that of keyFile if that is not empty. A key that cannot
// be read is not trusted, and reported; a list that cannot be read is an error, since
// it may limit a key. A key that came with a run is never trusted.
func (r Ring) Own(keyFile string) (Trust, error) {
	t := Trust{now: time.Now()}
	own, err := r.Find(keyFile)
	if err == nil {
		t.keys = append(t.keys, trustedKey{own.Key.Public(), ownName, "your signing key"})
	} else if !errors.Is(err, ErrNoKey) {
		r.Notice(OwnLeftOut + view.Line(err.Error()))
	}
	if r.Dir == "" {
		return t, nil
	}
	if t.listed, err = ownList(r.Dir); err != nil {
		return Trust{}, err
	}
	entries, err := os.ReadDir(r.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Trust{}, fmt.Errorf("reading the key directory: %w", err)
	}
	for _, e := range entries {
		name, isPublic := strings.CutSuffix(e.Name(), ".pub")
		if !isPublic {
			continue
		}
		key, err := publicFile(filepath.Join(r.Dir, e.Name()))
		if err != nil {
			r.Notice(fmt.Sprintf("%s in the key directory is left out: %s", view.Line(e.Name()), view.Line(err.Error())))
			continue
		}
		if own := len(t.keys) > 0 && t.keys[0].Equal(key); !own { // the public half of the user's own key
			t.keys = append(t.keys, trustedKey{key, name, e.Name()})
		}
	}
	return t, nil
}

// publicFile reads a public key of the key directory. Beside a private key it must be
// the public half of that.
func publicFile(path string) (sign.PublicKey, error) {
	content, err := readOwn(path)
	var open *openError
	if errors.As(err, &open) {
		return sign.PublicKey{}, fmt.Errorf("others can write to it (mode %04o); fix it: %s", open.mode, open.hint())
	}
	if err != nil {
		return sign.PublicKey{}, regular.Cause(err)
	}
	key, err := sign.ParsePublicFile(content)
	if err != nil {
		return sign.PublicKey{}, err
	}
	private := strings.TrimSuffix(path, ".pub")
	if own, err := sign.LoadKey(private); err == nil && !own.Public().Equal(key) {
		return sign.PublicKey{}, fmt.Errorf("it is not the public half of %s beside it, but %s", filepath.Base(private), key.ID())
	}
	return key, nil
}

// openError is the error that others can change what the user's trust depends on.
type openError struct {
	path string
	mode fs.FileMode
}

func (e *openError) Error() string {
	return fmt.Sprintf("others can write to %q (mode %04o), so no key is trusted", e.path, e.mode)
}

func (e *openError) hint() string { return "chmod go-w " + view.Quote(e.path) }

// checkPrivate returns an openError if others can write to a file or directory.
func checkPrivate(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Mode().Perm()&0o022 != 0 {
		return &openError{path, info.Mode().Perm()}
	}
	return err
}

// readOwn reads a file of the key directory.
func readOwn(path string) ([]byte, error) {
	if err := checkPrivate(path); err != nil {
		return nil, err
	}
	return regular.ReadUpTo(path, MaxAllowed)
}

// ownList reads the list in the key directory; nil if there is none.
func ownList(dir string) (sign.AllowedSigners, error) {
	path := filepath.Join(dir, allowedFile)
	err := checkPrivate(dir)
	var content []byte
	if err == nil {
		content, err = readOwn(path)
	}
	var open *openError
	if errors.As(err, &open) {
		return nil, exit.New(exit.Failure, err, open.hint())
	}
	if _, missing := os.Lstat(path); errors.Is(err, fs.ErrNotExist) && missing != nil { // a link to nothing is an error
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading allowed signers %q: %w", path, regular.Cause(err))
	}
	listed, err := sign.ParseAllowedSigners(content)
	if err != nil {
		return nil, exit.New(exit.Failure, fmt.Errorf("reading allowed signers %q: %w", path, err),
			"fix or remove that line: while it cannot be read, no key is trusted")
	}
	return listed, nil
}

// Listed describes a key of the key directory.
type Listed struct {
	KeyID       string `json:"key_id"`
	Name        string `json:"name"`
	PublicKey   string `json:"public_key"`
	Reason      string `json:"reason,omitzero"` // why it is not trusted
	Source      string `json:"source"`
	Trusted     bool   `json:"trusted"`
	ValidAfter  string `json:"valid_after,omitzero"`
	ValidBefore string `json:"valid_before,omitzero"`
}

// List describes the keys of the key directory and of its list.
func (r Ring) List() ([]Listed, error) {
	t, err := r.Own("")
	if err != nil {
		return nil, err
	}
	keys := []Listed{}
	for _, k := range t.keys {
		keys = append(keys, Listed{KeyID: k.ID(), Name: k.name, PublicKey: k.Line(), Source: k.source, Reason: t.Outdated(k.PublicKey)})
	}
	for _, s := range t.listed {
		l := Listed{KeyID: s.Key.ID(), Name: s.Principals, PublicKey: s.Key.Line(), Source: fmt.Sprintf("%s:%d", allowedFile, s.Row),
			ValidAfter: view.Time(s.ValidAfter), ValidBefore: view.Time(s.ValidBefore)}
		if !s.Applies() {
			l.Reason = "for other namespaces: " + s.Namespaces
		} else if err := s.At(t.now); err != nil {
			l.Reason = err.Error()
		}
		keys = append(keys, l)
	}
	for i, k := range keys {
		keys[i].Trusted = k.Reason == ""
	}
	return keys, nil
}

// Table describes the keys of a list for a person.
func Table(keys []Listed) *view.Table {
	t := view.NewTable("key", "name", "from", "trust")
	for _, k := range keys {
		state := OK
		if k.ValidBefore != "" {
			state += " until " + k.ValidBefore
		}
		if !k.Trusted {
			state = "no: " + k.Reason
		}
		t.Row(k.KeyID, k.Name, k.Source, state)
	}
	return t
}

// Added describes a key that was added to the list.
type Added struct {
	Added       bool   `json:"added"` // false: it was listed already
	KeyID       string `json:"key_id"`
	List        string `json:"list"`
	Name        string `json:"name"`
	Reason      string `json:"reason,omitzero"` // why it is not trusted now
	ValidAfter  string `json:"valid_after,omitzero"`
	ValidBefore string `json:"valid_before,omitzero"`
}

// Rows describe the key for a person.
func (a Added) Rows() [][2]string {
	done := "trusted"
	if !a.Added {
		done = "trusted already"
	}
	rows := view.List{{done, a.KeyID}, {"as", a.Name}}
	rows.AddNonEmpty("but not now", a.Reason)
	rows.Add("listed in", a.List)
	return rows
}

// Add adds the public key of a file, or of stdin for "-", to the list. s gives the
// other members of the line; without a name, the key is named after its file or id.
func (r Ring) Add(file string, stdin io.Reader, s sign.AllowedSigner) (Added, error) {
	read := func() ([]byte, error) { return regular.ReadUpTo(file, MaxKeyFile) }
	if file == "-" {
		read = func() ([]byte, error) { return io.ReadAll(io.LimitReader(stdin, MaxKeyFile)) }
	}
	content, err := read()
	if err != nil {
		return Added{}, exit.Usagef("", "reading the public key %q: %v", file, err)
	}
	if s.Key, err = sign.ParsePublicFile(content); err != nil {
		return Added{}, exit.Usagef("gaia key export writes a key to trust: an OpenSSH line, ssh-ed25519 AAAA…, or a PEM block", "the public key %q: %v", file, err)
	}
	if s.Principals == "" {
		base := filepath.Base(file)
		s.Principals = strings.TrimSuffix(base, filepath.Ext(base))
		if file == "-" || sign.CheckPrincipals(s.Principals) != nil {
			s.Principals = s.Key.ID()
		}
	}
	if err := sign.CheckPrincipals(s.Principals); err != nil {
		return Added{}, exit.Usagef("give a name without spaces and quotes, such as alice@lab.example", "--name: %v", err)
	}
	dir, err := r.Directory()
	if err != nil {
		return Added{}, err
	}
	release, err := lock(dir)
	if err != nil {
		return Added{}, err
	}
	defer release()
	added, err := add(dir, s)
	if err != nil {
		return Added{}, err
	}
	a := Added{Added: added, KeyID: s.Key.ID(), List: filepath.Join(dir, allowedFile), Name: s.Principals,
		ValidAfter: view.Time(s.ValidAfter), ValidBefore: view.Time(s.ValidBefore)}
	if err := s.At(time.Now()); err != nil {
		a.Reason = err.Error()
	}
	return a, nil
}

// lock keeps other processes from changing the key directory while this one reads and
// changes it.
func lock(dir string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock := flock.New(filepath.Join(dir, ".lock"))
	if err := lock.Lock(); err != nil {
		return nil, fmt.Errorf("locking the key directory: %w", err)
	}
	return func() { lock.Close() }, nil
}

// add adds a line to the list in the key directory and reports whether it was missing.
// It rejects a key that is listed with other dates: a second line could only remove a
// limit, unseen. The caller holds the lock.
func add(dir string, s sign.AllowedSigner) (bool, error) {
	listed, err := ownList(dir)
	if err != nil {
		return false, err
	}
	path := filepath.Join(dir, allowedFile)
	if found, err := isListed(listed, s, path); found || err != nil {
		return false, err
	}
	content, err := regular.ReadUpTo(path, MaxAllowed)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("reading allowed signers: %w", err)
	}
	if len(content) > 0 && content[len(content)-1] != '\n' {
		content = append(content, '\n')
	}
	content = append(content, s.Line()+"\n"...)
	if _, err := sign.ParseAllowedSigners(content); err != nil { // with such a list no key would be trusted
		return false, fmt.Errorf("writing allowed signers: %w", err)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a link to a list elsewhere stays
	}
	if err := renameio.WriteFile(path, content, 0o644); err != nil {
		return false, fmt.Errorf("writing allowed signers: %w", err)
	}
	return true, durable.SyncDir(filepath.Dir(path))
}

// isListed reports whether the list has a line with the key and dates of s. A line with
// the key and other dates is an error.
func isListed(listed sign.AllowedSigners, s sign.AllowedSigner, path string) (bool, error) {
	for _, l := range listed {
		if !l.Key.Equal(s.Key) || !l.Applies() {
			continue
		}
		if l.ValidAfter.Equal(s.ValidAfter) && l.ValidBefore.Equal(s.ValidBefore) {
			return true, nil
		}
		return false, exit.New(exit.Failure, fmt.Errorf("%s is listed with other dates, in line %d of %q", s.Key.ID(), l.Row, path), "edit or remove that line")
	}
	return false, nil
}
