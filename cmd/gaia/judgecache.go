package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/spf13/cobra"
)

func (a *app) judgeCacheCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "Verify the stored verdicts of the judge",
		Long: `The judge cache holds one signed file per verdict of the LLM judge and per result
of its self-test, in $XDG_CACHE_HOME/gaia/judgments (else ~/.cache/gaia/judgments).
Entries count if your signing key or a key that you trust signed them.

To clear the cache, delete that folder. The next run asks the judge again.`,
		Example: `  gaia judge cache verify
  gaia judge cache verify --json
  rm -r ~/.cache/gaia/judgments    clear the cache`,
		Args:              knownCommand,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.cacheVerifyCommand())
	return cmd
}

// cacheQuery holds the flags of verify.
type cacheQuery struct {
	trusted  trustFlags
	settings string // file
	asJSON   bool
}

func (q *cacheQuery) add(cmd *cobra.Command) {
	q.trusted.register(cmd)
	cmd.Flags().StringVar(&q.settings, "settings", "", "file of settings that names your signing key (default: gaia.yaml, if it is there)")
	cmd.Flags().BoolVar(&q.asJSON, "json", false, "print the result as JSON")
}

// openedCache is a judge cache to be looked through, and whose entries count.
type openedCache struct {
	*judgecache.Reader // nil: there is none
	dir                string
	trust              keyring.Trust
}

// Each is that of the reader; where there is none, nothing is visited.
func (c openedCache) Each(visit func(judgecache.Entry)) {
	if c.Reader != nil {
		c.Reader.Each(visit)
	}
}

// ownKeyFile is the signing key that the settings name, "" where the environment
// or nobody does.
func (a *app) ownKeyFile(q *cacheQuery) (string, error) {
	file, err := openSettings(q.settings)
	if err != nil || a.decides("key") {
		return "", err
	}
	return file.Value("key"), nil
}

// lookAtCache opens the judge cache without making anything.
func (a *app) lookAtCache(q *cacheQuery) (openedCache, error) {
	flags := q.trusted
	var err error
	if flags.own, err = a.ownKeyFile(q); err != nil {
		return openedCache{}, err
	}
	dir, err := a.judgeCacheDir("set one of them")
	if err != nil {
		return openedCache{}, err
	}
	c := openedCache{dir: dir}
	if c.trust, err = a.trustedKeys(flags); err != nil {
		return openedCache{}, err
	}
	c.Reader, err = judgecache.Look(dir, c.trust.Valid())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return openedCache{}, err
	}
	return c, nil
}

// noCache says that there is no cache.
func (a *app) noCache(c openedCache) error {
	_, err := fmt.Fprintf(a.stdout, "there is no judge cache yet: %s\n", oneLine(quoteArg(c.dir)))
	return err
}

// cacheVerification is what verify prints with --json.
type cacheVerification struct {
	Bad       []badEntry `json:"bad"`
	Checked   int        `json:"checked"` // with the bad ones and those of the old form
	Dir       string     `json:"dir"`
	Legacy    int        `json:"legacy"`
	Leftovers int        `json:"leftovers"`
	Present   bool       `json:"present"`
}

// badEntry is one that does not verify; its name is "." for the directory.
type badEntry struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

func (a *app) cacheVerifyCommand() *cobra.Command {
	q := &cacheQuery{}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check every entry of the judge cache",
		Long: `Verify checks form, name and signature of every entry, as each run does before it
begins, and names those that do not verify: nobody but who holds a key that you
trust can have made a good one. A directory that others can write to, that is
another user's, a symbolic link or none at all is bad as a whole. Exit code 4 if
anything is.

Entries of the old form have no signature. They are counted and never used.`,
		Example: `  gaia judge cache verify
  gaia judge cache verify --trusted-key alice.pub --json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd, "settings"); err != nil {
				return err
			}
			return a.verifyCache(q)
		},
	}
	q.add(cmd)
	return cmd
}

func (a *app) verifyCache(q *cacheQuery) error {
	c, err := a.lookAtCache(q)
	if err != nil {
		return err
	}
	v := cacheVerification{Bad: []badEntry{}, Dir: c.dir, Present: c.Reader != nil}
	var bad []judgecache.Bad
	c.Each(func(e judgecache.Entry) {
		switch {
		case e.Leftover:
			v.Leftovers++
			return
		case e.Legacy:
			v.Legacy++
		case e.Reason != "":
			v.Bad = append(v.Bad, badEntry{e.Name, e.Reason})
			bad = append(bad, judgecache.Bad{Name: e.Name, Reason: e.Reason})
		}
		v.Checked++
	})
	switch {
	case q.asJSON:
		err = a.printJSON(v)
	case !v.Present:
		err = a.noCache(c)
	case c.Shut() == "":
		_, err = fmt.Fprintf(a.stdout, "%s checked: %d good, %d bad, %d of the old form, which no run uses\n",
			entriesOf(v.Checked), v.Checked-len(bad)-v.Legacy, len(bad), v.Legacy)
	}
	if err != nil || len(bad) == 0 {
		return err
	}
	f := &failure{Code: exitEvidence, Reasons: badEntries(c.dir, bad), Hints: cacheHints(c.dir, bad)}
	f.Err = fmt.Errorf("%d of %s in the judge cache do not verify", len(bad), entriesOf(v.Checked))
	if c.Shut() != "" {
		f.Err, f.Reasons = shutCache(c), nil
	}
	return f
}

// shutCache is the error that nothing in a cache counts.
func shutCache(c openedCache) error { return fmt.Errorf("the judge cache %q is %s", c.dir, c.Shut()) }

func entriesOf(n int) string { return counted(n, "entry") }

// badEntries says of the first of them what is bad in the cache in dir.
func badEntries(dir string, bad []judgecache.Bad) []string {
	var reasons []string
	for i, b := range bad {
		if i == maxHinted {
			return append(reasons, fmt.Sprintf("and %d more", len(bad)-i))
		}
		name := b.Name
		if name == judgecache.Place {
			name = dir
		}
		reasons = append(reasons, quoteArg(name)+": "+b.Reason)
	}
	return reasons
}

// cacheHints says what can be done about what is bad in a judge cache.
func cacheHints(dir string, bad []judgecache.Bad) []string {
	strangers := 0
	for _, b := range bad {
		switch b.Reason {
		case judgecache.Untrusted:
			strangers++
		case judgecache.Writable:
			return []string{"chmod 700 " + quoteArg(dir), "gaia judge cache verify then says whether anybody has changed an entry"}
		case judgecache.NotMade, judgecache.NotRead, judgecache.NotPrivate:
			return []string{"see to it that you can read and write " + quoteArg(dir) + " and what it lies in; or set XDG_CACHE_HOME to another place"}
		case judgecache.Linked, judgecache.NotOwned, judgecache.NotDirectory:
			return []string{"find out who put " + quoteArg(dir) + " there, then remove it: the next run makes a directory of your own; or set XDG_CACHE_HOME to another place"}
		}
	}
	var hints []string
	if strangers < len(bad) {
		hints = append(hints, "find out who changed these entries, then delete the cache: rm -r "+quoteArg(dir))
	}
	if strangers > 0 {
		hints = append(hints, "entries by a key of your own are trusted once its public line lies in your key directory as a file NAME.pub, or while gaia.yaml names it as key",
			"if you do not know the key, delete the cache: rm -r "+quoteArg(dir))
	}
	return hints
}

// judgeCache opens the signed cache of the judge's verdicts. Those by the user's
// own key and by the keys in the key directory count. A run that goes on cannot
// do without the cache of its plan.
func (a *app) judgeCache(key sign.Key, resumed bool) (*judgecache.Cache, error) {
	instead := "fix that, or give --no-judge-cache"
	if resumed {
		instead = "fix that: the run was planned with a judge cache"
	}
	dir, err := a.judgeCacheDir(instead)
	if err != nil {
		return nil, err
	}
	trusted, err := a.ownTrust()
	if err != nil {
		return nil, err
	}
	return judgecache.Open(dir, key, trusted.Valid(), time.Now)
}

// judgeCacheDir is where the judge's verdicts are kept; hint says what to do
// where there is no such place.
func (a *app) judgeCacheDir(hint string) (string, error) {
	base := a.xdg("XDG_CACHE_HOME", ".cache")
	if base == "" {
		return "", fail(exitFailure, errors.New("no place for the judge cache: neither XDG_CACHE_HOME nor HOME is set"), hint)
	}
	return filepath.Join(base, "gaia", "judgments"), nil
}

// badCache is the failure of a run that a judge cache keeps from beginning or
// going on.
func (a *app) badCache(err *grading.CacheError, code int, then string) error {
	f := &failure{Code: code, Err: err, Reasons: badEntries(err.Dir, err.Sweep.Bad), Hints: cacheHints(err.Dir, err.Sweep.Bad)}
	f.Hints = append(f.Hints, then)
	return f
}
