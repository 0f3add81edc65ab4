// Package judgecache keeps the verdicts of the LLM judge, so that a repeated
// run asks nothing twice, and so that nobody without a trusted signing key can
// slip a verdict in.
//
// # Format
//
// A judgment is one file of canonical JSON (package sign):
//
//	{"context":"sha256:…","created":"2026-01-02T03:04:05.678Z","key":"SHA256:…",
//	 "model":"…","schema":"gaia.judgment/1","signature":"…","verdict":"correct"}
//
// on one line without a newline. context is the digest of the canonical object
// {answer, expected, model, origin, prompt_digest, task_id}; it is computed anew from
// what is asked at every read, so an entry holds no gold answer and fits no
// other question. The file is called by context's 64 hexadecimal digits and
// ".json". key is the fingerprint of the key that signed; the key itself comes
// from the set the caller trusts. signature is Ed25519, in padded standard
// base64, over DSSE's pre-authentication encoding of the type
// application/vnd.gaia-harness.judgment+json and the canonical object of every
// other member. verdict is "correct" or "incorrect"; created is a time in UTC
// with milliseconds.
//
// What became of a null battery (package judge) that was put to a judge is kept
// as an entry, too. It differs in these: schema is gaia.null-battery/1; context
// is the digest of {battery_sha256, model, origin, prompt_digest}; the payload type is
// application/vnd.gaia-harness.null-battery+json; verdict is "withstood" or
// "paid". So neither kind of entry can be read as the other, whatever name it
// lies under (TestKindsApart).
//
// # What is refused
//
// Anything else called *.json is bad: it is never used, and it is reported.
// Only entries of an older form, which had neither schema nor signature, are
// passed over in silence. Names that do not end in .json are not looked at;
// ".<name>.json<digits>" is what a write leaves that was killed. TestAttacks
// holds the list of attacks and what becomes of each; TestEveryBit and FuzzParse
// show that an entry has one form; TestContextsDiffer shows that no two
// questions have one digest. Deleting an entry is not noticed:
// whoever holds the key can have the judge asked until it says yes. That its
// verdicts are the first ones is the signer's word.
//
// The directory has mode 0700, files 0600. Several processes may share it.
package judgecache

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/renameio/v2"

	"github.com/gaia-harness/gaia/internal/sign"
)

// Context is everything a verdict depends on. PromptDigest is the digest of
// the judge's prompt; Origin is scheme and host of the endpoint.
type Context struct {
	TaskID       string `json:"task_id"`
	Answer       string `json:"answer"`
	Expected     string `json:"expected"`
	Model        string `json:"model"`
	Origin       string `json:"origin"`
	PromptDigest string `json:"prompt_digest"`
}

// Digest returns "sha256:…" over the canonical object of all fields. It fails
// where a field is not UTF-8: such a verdict cannot be kept.
func (c Context) Digest() (string, error) {
	b, err := sign.Canonical(c)
	if err != nil {
		return "", errors.New("a judgment's context is not UTF-8") // the encoder's error may quote the gold answer
	}
	return sign.Digest(b), nil
}

// Cache is a directory of judgments. It is safe for concurrent use.
type Cache struct {
	dir     string
	key     sign.Key
	trusted map[string]sign.PublicKey
	now     func() time.Time

	mu       sync.Mutex
	reported map[string]bool // names of the bad entries the caller has been told of
}

// Bad is an entry that must not be there. Name is the file's, as hostile as
// whoever put it there: quote it. Reason is in fixed words.
type Bad struct{ Name, Reason string }

// Sweep is what a look at every entry gave: how many files were checked, and
// the bad ones in the order of their names.
type Sweep struct {
	Checked int
	Bad     []Bad
}

// Open takes dir, made if it is not there, as a cache whose new entries key
// signs. Entries by key or by any of trusted are good. A directory that is a
// symlink or that others can write to is refused.
func Open(dir string, key sign.Key, trusted []sign.PublicKey, now func() time.Time) (*Cache, error) {
	if dir == "" {
		return nil, errors.New("the judge cache has no directory")
	}
	dir = filepath.Clean(dir) // with a slash at its end Lstat would follow a symlink
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the judge cache: %w", err)
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return nil, fmt.Errorf("opening the judge cache: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("judge cache %q is a symbolic link; name the directory itself", dir)
	case info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("judge cache %q can be written by others (mode %04o); chmod 700 mends it", dir, info.Mode().Perm())
	}
	keys := map[string]sign.PublicKey{key.Public().ID(): key.Public()}
	for _, pub := range trusted {
		keys[pub.ID()] = pub
	}
	return &Cache{dir: dir, key: key, trusted: keys, now: now, reported: map[string]bool{}}, nil
}

// Dir returns the directory of the cache.
func (c *Cache) Dir() string { return c.dir }

// Sweep checks every entry, also those no question of this run leads to. An
// error means that the directory could not be read through; a bad entry is none.
func (c *Cache) Sweep() (Sweep, error) {
	files, err := os.ReadDir(c.dir)
	if err != nil {
		return Sweep{}, fmt.Errorf("reading the judge cache: %w", err)
	}
	var s Sweep
	for _, f := range files {
		name := f.Name()
		if !strings.HasSuffix(name, suffix) {
			continue
		}
		_, found, reason, err := c.read(name)
		if err != nil {
			return Sweep{}, err
		}
		if found {
			s.Checked++
		}
		if reason != noReason {
			s.Bad = append(s.Bad, Bad{name, reason})
			c.report(name)
		}
	}
	return s, nil
}

// Get looks a verdict up. An entry that is bad is not found; bad says so once
// for every name, and not at all if Sweep has.
func (c *Cache) Get(ctx Context) (correct, found bool, bad *Bad, err error) {
	digest, err := ctx.Digest()
	if err != nil {
		return false, false, nil, err
	}
	return c.get(judgments(), digest, ctx.Model)
}

// Put keeps a verdict, in place of the one there is. When it returns without
// an error, the entry is whole and on disk; else the one before is untouched.
func (c *Cache) Put(ctx Context, correct bool) error {
	digest, err := ctx.Digest()
	if err != nil {
		return err
	}
	return c.put(judgments(), digest, ctx.Model, correct)
}

func (c *Cache) get(k kind, digest, model string) (yes, found bool, bad *Bad, err error) {
	name := fileName(digest)
	e, _, reason, err := c.read(name)
	if err != nil {
		return false, false, nil, err
	}
	found = e != entry{}
	switch {
	case reason != noReason || !found:
	case e.Schema != k.schema:
		reason = anotherKind
	case e.Model != model:
		reason = anotherModel
	}
	if reason != noReason {
		if c.report(name) {
			bad = &Bad{name, reason}
		}
		return false, false, bad, nil
	}
	return found && e.Verdict == k.yes, found, nil, nil
}

func (c *Cache) put(k kind, digest, model string, yes bool) error {
	e := entry{
		Schema: k.schema, Key: c.key.Public().ID(), Context: digest, Verdict: k.verdict(yes),
		Model: model, Created: c.now().UTC().Format(timeFormat),
	}
	data, err := e.seal(c.key)
	if err != nil {
		return fmt.Errorf("signing a judgment: %w", err)
	}
	name := fileName(digest)
	reason := tooLarge
	if len(data) <= maxEntry {
		_, reason = parse(data)
	}
	if reason != noReason { // no file is left that a reader would call bad
		return fmt.Errorf("a judgment cannot be kept: it would be %s", reason)
	}
	if err := c.write(name, data); err != nil {
		return fmt.Errorf("writing a judgment: %w", err)
	}
	return nil
}

// write replaces a file, whole or not at all, and makes its name durable.
func (c *Cache) write(name string, data []byte) error {
	f, err := renameio.TempFile(c.dir, filepath.Join(c.dir, name))
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.CloseAtomicallyReplace()
	}
	if err != nil {
		return errors.Join(err, f.Cleanup())
	}
	return sign.SyncDir(c.dir)
}

// read reads and checks the file called name. found is false where there is
// none. An entry of the old form comes back as the zero entry, without a reason.
func (c *Cache) read(name string) (e entry, found bool, reason string, err error) {
	data, reason, err := c.content(name)
	switch {
	case errors.Is(err, fs.ErrNotExist): // also a file that went since it was listed
		return entry{}, false, noReason, nil
	case errors.Is(err, fs.ErrPermission):
		return entry{}, true, unreadable, nil
	case err != nil:
		return entry{}, false, noReason, fmt.Errorf("reading a judgment: %w", err)
	case reason != noReason:
		return entry{}, true, reason, nil
	}
	e, reason = verify(name, data, c.trusted)
	if reason == malformed && isLegacy(data) {
		reason = noReason
	}
	return e, true, reason, nil
}

// content reads a regular file of at most maxEntry bytes. It looks before it
// opens: opening a pipe waits for somebody to write to it.
func (c *Cache) content(name string) (data []byte, reason string, err error) {
	path := filepath.Join(c.dir, name)
	info, err := os.Lstat(path)
	if err != nil {
		return nil, noReason, err
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, noReason, err
	}
	defer f.Close()
	data, err = io.ReadAll(io.LimitReader(f, maxEntry+1))
	if err == nil && len(data) > maxEntry {
		reason = tooLarge
	}
	return data, reason, err
}

// report notes that a bad entry is told of, and whether that is news.
func (c *Cache) report(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reported[name] {
		return false
	}
	c.reported[name] = true
	return true
}
