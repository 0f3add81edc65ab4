package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/judgecache"
	"github.com/spf13/cobra"
)

// pruning is what the flags of prune say.
type pruning struct {
	cacheQuery
	olderThan, model string
	all, untrusted   bool
	dryRun           bool
	keep             int // good entries that stay, the newest; below zero: no bound

	before time.Time // good ones that were made before go; zero is no bound
	newest []string  // names of good ones that stay
}

func (a *app) cachePruneCommand() *cobra.Command {
	p := &pruning{}
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove from the judge cache what no run uses, and more if asked to",
		Long: `Prune removes entries that do not verify, entries of the old form, and what writes
left that were killed more than a minute ago. Entries whose only fault is a key that
you do not trust stay, since that key may be your own and lie elsewhere; --untrusted
removes them, too. With --older-than, --model and --keep good entries go, too, that
fit all that is given; with --all every entry, whoever signed it. The judge is asked again where its
verdict is gone.

It removes what is called *.json in the directory of the cache, whoever put it there,
and what writes left (.*.json and digits); nothing else. It follows no symbolic link,
and leaves a directory that is not empty (exit code 1).`,
		Example: `  gaia judge cache prune --dry-run
  gaia judge cache prune --older-than 90d
  gaia judge cache prune --model gpt-4o-mini --older-than 720h
  gaia judge cache prune --all`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.check(cmd, time.Now()); err != nil {
				return err
			}
			return a.pruneCache(p)
		},
	}
	p.add(cmd)
	f := cmd.Flags()
	f.StringVar(&p.olderThan, "older-than", "", "remove good entries of this age, too: 720h, 30d")
	f.IntVar(&p.keep, "keep", -1, "remove good entries but this many of the newest, too")
	f.StringVar(&p.model, "model", "", "remove good entries of this judge, too")
	f.BoolVar(&p.untrusted, "untrusted", false, "remove entries by keys that you do not trust, too")
	f.BoolVar(&p.all, "all", false, "remove every entry")
	f.BoolVar(&p.dryRun, "dry-run", false, "say what would be removed, and remove nothing")
	completeFixed(cmd, "older-than")
	completeFixed(cmd, "keep")
	judges := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return a.completeJudges(&p.cacheQuery)
	}
	if err := cmd.RegisterFlagCompletionFunc("model", judges); err != nil {
		panic(err) // the flag is made above
	}
	return cmd
}

func (p *pruning) check(cmd *cobra.Command, now time.Time) error {
	if err := notEmpty(cmd, "older-than", "model", "settings"); err != nil {
		return err
	}
	if cmd.Flags().Changed("keep") && p.keep < 0 {
		return usage("--keep 0 keeps none", "--keep is %d", p.keep)
	}
	if p.all && (p.olderThan != "" || p.model != "" || p.keep >= 0) {
		return usage("leave --all out, or the other", "--all removes every entry, so --older-than, --model and --keep say nothing")
	}
	if p.olderThan == "" {
		return nil
	}
	age, err := parseAge(p.olderThan)
	if err != nil {
		return usage("give hours or days, such as 720h or 30d; --all removes every entry", "--older-than is %q, which is not an age", p.olderThan)
	}
	p.before = now.Add(-age)
	return nil
}

// parseAge reads a duration above zero: Go's, or a whole number of days.
func parseAge(s string) (time.Duration, error) {
	const most = 100 * 365 // days
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 32)
		if err != nil || n == 0 || n > most {
			return 0, errors.New("not a number of days")
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	age, err := time.ParseDuration(s)
	if err != nil || age <= 0 {
		return 0, errors.New("not a duration above zero")
	}
	return age, nil
}

// leftoverAge is how long a write may go on before what it has made is taken for
// left over.
const leftoverAge = time.Minute

// Why an entry is removed, but for what is bad about it.
const (
	oldForm  = "of the old form"
	leftOver = "left by a write that was killed"
	asked    = "good, but asked for"
)

// why says why an entry is to go, "" if it is to stay.
func (p *pruning) why(e judgecache.Entry, now time.Time) string {
	switch {
	case e.Leftover && now.Sub(e.Modified) > leftoverAge:
		return leftOver
	case e.Legacy:
		return oldForm
	case e.Reason == judgecache.Untrusted && !p.untrusted && !p.all:
		return ""
	case e.Reason != "":
		return e.Reason
	case e.Good() && p.chooses(e):
		return asked
	}
	return ""
}

// chooses reports whether the flags ask for a good entry to go.
func (p *pruning) chooses(e judgecache.Entry) bool {
	if p.model == "" && p.before.IsZero() && p.keep < 0 {
		return p.all
	}
	return (p.model == "" || p.model == e.Model) && (p.before.IsZero() || e.Created.Before(p.before)) && !slices.Contains(p.newest, e.Name)
}

// keepNewest notes the good entries that --keep has stay.
func (p *pruning) keepNewest(c openedCache) {
	if p.keep < 0 {
		return
	}
	var good []judgecache.Entry
	c.Each(func(e judgecache.Entry) {
		if e.Good() && (p.model == "" || p.model == e.Model) {
			good = append(good, e)
		}
	})
	slices.SortStableFunc(good, func(a, b judgecache.Entry) int { return b.Created.Compare(a.Created) })
	for _, e := range good[:min(p.keep, len(good))] {
		p.newest = append(p.newest, e.Name)
	}
}

// pruned is what prune prints with --json.
type pruned struct {
	Bytes     int64         `json:"bytes"` // of what was removed
	Dir       string        `json:"dir"`
	DryRun    bool          `json:"dry_run"`
	Failed    []failedEntry `json:"failed"`
	Kept      int           `json:"kept"` // without the failed ones
	Present   bool          `json:"present"`
	Removed   []prunedEntry `json:"removed"`   // in the order of their names
	Untrusted int           `json:"untrusted"` // of the kept ones, by keys that are not trusted
}

type prunedEntry struct {
	Bytes int64  `json:"bytes"`
	Name  string `json:"name"`
	Why   string `json:"why"`
}

type failedEntry struct {
	Error string `json:"error"`
	Name  string `json:"name"`
}

func (a *app) pruneCache(p *pruning) error {
	own, err := a.ownKeyFile(&p.cacheQuery)
	if err != nil {
		return err
	}
	if _, err := a.existingKey(own); err != nil && !errors.Is(err, errNoKey) {
		return err // without it every entry of the user's own would be a stranger's
	}
	c, err := a.lookAtCache(&p.cacheQuery)
	if err != nil {
		return err
	}
	done := pruned{Dir: c.dir, DryRun: p.dryRun, Present: c.Reader != nil, Removed: []prunedEntry{}, Failed: []failedEntry{}}
	if done.Present && c.Shut() != "" {
		return fail(exitFailure, fmt.Errorf("nothing is removed: %w", shutCache(c)), cacheHints(c.dir, []judgecache.Bad{{Name: judgecache.Place, Reason: c.Shut()}})...)
	}
	p.keepNewest(c)
	now, full := time.Now(), false
	c.Each(func(e judgecache.Entry) {
		why := p.why(e, now)
		if why == "" {
			done.Kept++
			if e.Reason == judgecache.Untrusted {
				done.Untrusted++
			}
			return
		}
		if !p.dryRun {
			if err := c.Remove(e.Name); err != nil {
				full = full || errors.Is(err, fs.ErrExist) // a directory that is not empty
				done.Failed = append(done.Failed, failedEntry{unwrapPath(err).Error(), e.Name})
				return
			}
		}
		done.Bytes += e.Bytes
		done.Removed = append(done.Removed, prunedEntry{e.Bytes, e.Name, why})
	})
	if err := a.printPruned(done, c, p.asJSON); err != nil {
		return err
	}
	return notRemoved(done, full)
}

func (a *app) printPruned(done pruned, c openedCache, asJSON bool) error {
	if asJSON {
		return a.printJSON(done)
	}
	if !done.Present {
		return a.noCache(c)
	}
	verb := "removed"
	if done.DryRun {
		verb = "would remove"
		for _, e := range done.Removed {
			if _, err := fmt.Fprintf(a.stdout, "%s: %s\n", oneLine(quoteArg(e.Name)), e.Why); err != nil {
				return err
			}
		}
	}
	strangers := ""
	if done.Untrusted > 0 {
		strangers = fmt.Sprintf(", %d of them signed by keys that are not trusted: --untrusted removes these", done.Untrusted)
	}
	_, err := fmt.Fprintf(a.stdout, "%s %s%s, %s; %d kept%s\n", verb, entriesOf(len(done.Removed)), sorts(done.Removed), strings.TrimSpace(size(done.Bytes)), done.Kept, strangers)
	return err
}

// sorts says how many entries went for what reason; "" if none did.
func sorts(removed []prunedEntry) string {
	if len(removed) == 0 {
		return ""
	}
	good, old, left := 0, 0, 0
	for _, e := range removed {
		switch e.Why {
		case asked:
			good++
		case oldForm:
			old++
		case leftOver:
			left++
		}
	}
	return fmt.Sprintf(" (%d good, %d bad, %d of the old form, %d left over)", good, len(removed)-good-old-left, old, left)
}

// notRemoved is the failure of what could not be removed, nil if all could; full
// says that a directory with something in it stands in an entry's place.
func notRemoved(done pruned, full bool) error {
	if len(done.Failed) == 0 {
		return nil
	}
	f := &failure{code: exitFailure, err: fmt.Errorf("%s could not be removed", entriesOf(len(done.Failed)))}
	for i, e := range done.Failed {
		if i == maxHinted {
			f.reasons = append(f.reasons, fmt.Sprintf("and %d more", len(done.Failed)-i))
			break
		}
		f.reasons = append(f.reasons, quoteArg(e.Name)+": "+e.Error)
	}
	if f.hints = []string{"see to it that you can write to " + quoteArg(done.Dir)}; full {
		f.hints = []string{"look at what is in " + quoteArg(done.Dir) + ": the cache makes no directories"}
	}
	return f
}

// completeJudges completes the names of the models that entries are of.
func (a *app) completeJudges(q *cacheQuery) ([]string, cobra.ShellCompDirective) {
	c, err := a.lookAtCache(q)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var models []string
	c.Each(func(e judgecache.Entry) {
		if e.Good() && !slices.Contains(models, e.Model) {
			models = append(models, e.Model)
		}
	})
	slices.Sort(models)
	return models, cobra.ShellCompDirectiveNoFileComp
}
