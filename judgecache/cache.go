// Package judgecache is not an API for other programs. It keeps the verdicts of the LLM judge, so that a repeated
// run asks nothing twice, and so that no one without a trusted signing key can
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
// {answer, battery_sha256, expected, model, origin, prompt_digest, task_id}, without
// battery_sha256 if the run that asked knew of no null battery; it is computed again
// from what is asked at every read, so an entry holds no gold answer and fits no
// other question, and none that was asked under another battery. The file is called by context's 64 hexadecimal digits and
// ".json". key is the fingerprint of the key that signed; the key itself comes
// from the set the caller trusts. signature is Ed25519, in padded standard
// base64, over DSSE's pre-authentication encoding of the type
// application/vnd.gaia-harness.judgment+json and the canonical object of every
// other member. verdict is "correct" or "incorrect"; created is a time in UTC
// with milliseconds.
//
// The outcome of a judge's self-test, the null battery (package judge), is an
// entry, too. It differs in these: schema is gaia.null-battery/1; context
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
// # The directory
//
// It has mode 0700, files 0600. It must stay private: whoever can read an entry
// and guess a gold answer can test the guess against context. Open takes read
// access from others again. A directory that others could have written to, that
// is another user's, a symbolic link, no directory at all, or that cannot be made,
// read or closed to others, is bad as a whole: all is missed there, nothing is kept,
// and it is reported once (TestBadDirectory). Several processes may share a
// directory.
package judgecache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/google/renameio/v2"
)

// Context is everything a verdict depends on. PromptDigest is the digest of the
// judge's prompt; Origin is where the endpoint is: its whole base URL. Battery is
// the digest of the null battery that the judge had withstood when it gave the
// verdict; "" for plans older than batteries.
type Context struct {
	TaskID       string `json:"task_id"`
	Answer       string `json:"answer"`
	Expected     string `json:"expected"`
	Model        string `json:"model"`
	Origin       string `json:"origin"`
	PromptDigest string `json:"prompt_digest"`
	Battery      string `json:"battery_sha256,omitzero"`
}

// Digest returns "sha256:…" over the canonical object of all fields. It fails
// where a field is not UTF-8: such a verdict cannot be kept.
func (c Context) Digest() (string, error) {
	b, err := canonical.Encode(c)
	if err != nil {
		return "", errors.New("a judgment's context is not UTF-8") // the encoder's error may quote the gold answer
	}
	return canonical.Digest(b), nil
}

func (c Context) kind() (kind, string) { return judgments(), c.Model }

// Question is what an entry answers: a [Context] or a [BatteryContext].
type Question interface {
	// Digest returns "sha256:…" over the canonical object of all fields. It fails where a field is not UTF-8.
	Digest() (string, error)
	kind() (k kind, model string)
}

// Cache is a directory of judgments. It is safe for concurrent use.
type Cache struct {
	reader *Reader
	key    sign.Key
	now    func() time.Time

	mu       sync.Mutex
	reported map[string]bool // names of the bad entries that were reported
}

// Bad is an entry that must not be there, or, if Name is Place, the directory.
// Name is the file's, as hostile as whoever put it there: quote it. Reason is in
// fixed words.
type Bad struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Sweep is what a look at every entry gave: how many files were checked, and
// the bad ones in the order of their names. A directory that is bad itself
// counts as one file.
type Sweep struct {
	Checked int
	Bad     []Bad
}

// Open takes dir, made if it is not there, as a cache whose new entries key
// signs. Entries by key or by any of trusted are good. A directory of the user's
// is closed to others if they can read it. Where that cannot be, or what lies there
// is not a directory that is the user's alone to write to, it is left as it is: of
// that cache nothing is read and into it nothing is written, and Sweep says why. So
// the only error is that dir is empty.
func Open(dir string, key sign.Key, trusted []sign.PublicKey, now func() time.Time) (*Cache, error) {
	if dir == "" {
		return nil, errors.New("the judge cache has no directory")
	}
	dir = filepath.Clean(dir) // with a slash at its end Lstat would follow a symlink
	r := newReader(dir, append(slices.Clone(trusted), key.Public()))
	r.shut = prepare(dir)
	return &Cache{reader: r, key: key, now: now, reported: map[string]bool{}}, nil
}

// prepare makes a directory, or closes it to others, and says why nothing in it
// counts, "" if it does.
func prepare(dir string) (shut string) {
	info, err := os.Lstat(dir)
	if err != nil {
		if os.MkdirAll(dir, 0o700) != nil {
			return NotMade
		}
		if info, err = os.Lstat(dir); err != nil {
			return NotRead
		}
	}
	if shut := shutFor(info); shut != "" {
		return shut
	}
	mode := info.Mode().Perm()
	if mode != 0o700 && os.Chmod(dir, 0o700) != nil && mode&0o077 != 0 {
		return NotPrivate
	}
	return unlisted(dir)
}

// Dir returns the directory of the cache.
func (c *Cache) Dir() string { return c.reader.dir }

// Sweep checks every entry, also those no question of this run leads to. What
// cannot be read is bad.
func (c *Cache) Sweep() Sweep {
	var s Sweep
	c.reader.Each(func(e Entry) {
		if e.Leftover {
			return
		}
		s.Checked++
		if e.Reason != noReason {
			s.Bad = append(s.Bad, Bad{e.Name, e.Reason})
			c.report(e.Name)
		}
	})
	return s
}

// Get looks a verdict up: whether an answer is correct, or a judge withstood a battery. An entry that is bad, or in
// a bad directory, is not found; bad says so once for every name, and not at all if Sweep has.
func (c *Cache) Get(q Question) (yes, found bool, bad *Bad, err error) {
	yes, found, fault, err := c.lookUp(q)
	if fault != (Bad{}) && c.report(fault.Name) {
		bad = &fault
	}
	return yes, found, bad, err
}

// lookUp is Get, but marks nothing as reported; fault is zero where nothing is bad.
func (c *Cache) lookUp(q Question) (yes, found bool, fault Bad, err error) {
	digest, err := q.Digest()
	if err != nil {
		return false, false, Bad{}, err
	}
	if c.reader.shut != noReason {
		return false, false, Bad{Place, c.reader.shut}, nil
	}
	name := fileName(digest)
	e, _, reason, err := c.reader.read(name)
	if err != nil {
		return false, false, Bad{}, err
	}
	k, model := q.kind()
	found = e != entry{}
	switch {
	case reason != noReason || !found:
	case e.Schema != k.schema:
		reason = anotherKind
	case e.Model != model:
		reason = anotherModel
	}
	if reason != noReason {
		return false, false, Bad{name, reason}, nil
	}
	return found && e.Verdict == k.yes, found, Bad{}, nil
}

// File returns the path of the file that holds the answer to a question.
func (c *Cache) File(q Question) (string, error) {
	digest, err := q.Digest()
	return filepath.Join(c.Dir(), fileName(digest)), err
}

// Put keeps a verdict, in place of the one there is. When it returns without
// an error, the entry is whole and on disk; else the one before is untouched.
// Into a bad directory it writes nothing, without an error.
//
// But that a judge paid for a null battery stays until it is removed: a judge that may pay cannot be tried until
// it does not. So does an entry that is bad, which can have said so; that is an error. Only of two processes that put
// at the same moment, the later wins.
func (c *Cache) Put(q Question, yes bool) error {
	digest, err := q.Digest()
	if err != nil {
		return err
	}
	k, model := q.kind()
	if k == batteries() {
		before, found, fault, err := c.lookUp(q)
		if err != nil {
			return fmt.Errorf("writing a %s: %w", k.name, err) // what is there may say that it paid
		}
		if fault.Reason != noReason && fault.Name != Place {
			return fmt.Errorf("writing a %s: the entry that is there is %s, and stays until it is removed", k.name, fault.Reason)
		}
		if yes && found && !before {
			return nil
		}
	}
	if c.reader.shut != "" {
		return nil
	}
	e := entry{
		Schema: k.schema, Key: c.key.Public().ID(), Context: digest, Verdict: k.no,
		Model: model, Created: c.now().UTC().Format(timeFormat),
	}
	if yes {
		e.Verdict = k.yes
	}
	data, err := e.seal(c.key)
	if err != nil {
		return fmt.Errorf("signing a %s: %w", k.name, err)
	}
	name := fileName(digest)
	reason := tooLarge
	if len(data) <= maxEntry {
		_, reason = parse(data)
	}
	if reason != noReason { // no file is left that a reader would call bad
		return fmt.Errorf("a %s cannot be kept: it would be %s", k.name, reason)
	}
	// The file is replaced whole or not at all, and its name made durable.
	err = renameio.WriteFile(filepath.Join(c.Dir(), name), data, 0o600, renameio.WithTempDir(c.Dir()))
	if err == nil {
		err = durable.SyncDir(c.Dir())
	}
	if err != nil {
		return fmt.Errorf("writing a %s: %w", k.name, err)
	}
	return nil
}

// report marks a bad entry as reported, and reports whether it was not before.
func (c *Cache) report(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reported[name] {
		return false
	}
	c.reported[name] = true
	return true
}

// BatteryContext is everything the outcome of a null battery depends on. Battery is the
// digest of its items; PromptDigest is that of the judge's prompt; Origin is
// where the endpoint is: its whole base URL.
type BatteryContext struct {
	Battery      string `json:"battery_sha256"`
	Model        string `json:"model"`
	Origin       string `json:"origin"`
	PromptDigest string `json:"prompt_digest"`
}

// Digest returns "sha256:…" over the canonical object of all fields. It is the
// digest of no Context, whose object has other members. It fails where a field
// is not UTF-8.
func (t BatteryContext) Digest() (string, error) {
	b, err := canonical.Encode(t)
	if err != nil {
		return "", errors.New("a judge's null battery is not named in UTF-8")
	}
	return canonical.Digest(b), nil
}

func (t BatteryContext) kind() (kind, string) { return batteries(), t.Model }
