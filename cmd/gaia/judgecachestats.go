package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/judgecache"
	"github.com/spf13/cobra"
)

func (a *app) cacheStatsCommand() *cobra.Command {
	q := &cacheQuery{}
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count what is in the judge cache",
		Long: `Stats says what is kept: verdicts and outcomes of null batteries, of which models
and by whose keys, since when and how many bytes, and what there is beside them:
entries that do not verify, entries of the old form, which no run uses, and what
writes left that were killed.`,
		Example: `  gaia judge cache stats
  gaia judge cache stats --json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := notEmpty(cmd, "settings"); err != nil {
				return err
			}
			return a.cacheStats(q)
		},
	}
	q.add(cmd)
	return cmd
}

// cacheCounts is what stats prints with --json. All but Bytes, Bad, Legacy and
// Leftovers is of good entries only.
type cacheCounts struct {
	Bad       []badCount    `json:"bad"` // in the order of their reasons
	Batteries batteryCounts `json:"batteries"`
	Bytes     int64         `json:"bytes"` // of all files
	Dir       string        `json:"dir"`
	Entries   int           `json:"entries"`
	Keys      []keyCount    `json:"keys"`
	Leftovers int           `json:"leftovers"`
	Legacy    int           `json:"legacy"`
	Models    []modelCount  `json:"models"`
	Newest    string        `json:"newest,omitzero"` // RFC 3339
	Oldest    string        `json:"oldest,omitzero"`
	Present   bool          `json:"present"`
	Verdicts  judgeCounts   `json:"verdicts"`
}

type badCount struct {
	Entries int    `json:"entries"`
	Reason  string `json:"reason"`
}

type batteryCounts struct {
	Paid      int `json:"paid"`
	Withstood int `json:"withstood"`
}

type judgeCounts struct {
	Correct   int `json:"correct"`
	Incorrect int `json:"incorrect"`
}

type keyCount struct {
	Entries int    `json:"entries"`
	KeyID   string `json:"key_id"`
	Name    string `json:"name"` // "you" for your signing key
}

type modelCount struct {
	Correct   int    `json:"correct"`
	Entries   int    `json:"entries"`
	Incorrect int    `json:"incorrect"`
	Model     string `json:"model"`
	Paid      int    `json:"paid"`
	Withstood int    `json:"withstood"`
}

func (m *modelCount) add(e judgecache.Entry) {
	m.Entries++
	switch e.Verdict {
	case "correct":
		m.Correct++
	case "incorrect":
		m.Incorrect++
	case "paid":
		m.Paid++
	case "withstood":
		m.Withstood++
	}
}

// cacheTally counts entries.
type cacheTally struct {
	models                     map[string]*modelCount
	keys, bad                  map[string]int
	bytes                      int64
	entries, legacy, leftovers int
	oldest, newest             time.Time
}

func (t *cacheTally) add(e judgecache.Entry) {
	t.bytes += e.Bytes
	switch {
	case e.Leftover:
		t.leftovers++
	case e.Legacy:
		t.legacy++
	case e.Reason != "":
		t.bad[e.Reason]++
	default:
		t.entries++
		if t.models[e.Model] == nil {
			t.models[e.Model] = &modelCount{Model: e.Model}
		}
		t.models[e.Model].add(e)
		t.keys[e.Key]++
		if t.oldest.IsZero() || e.Created.Before(t.oldest) {
			t.oldest = e.Created
		}
		if e.Created.After(t.newest) {
			t.newest = e.Created
		}
	}
}

func (a *app) cacheStats(q *cacheQuery) error {
	c, err := a.lookAtCache(q)
	if err != nil {
		return err
	}
	t := &cacheTally{models: map[string]*modelCount{}, keys: map[string]int{}, bad: map[string]int{}}
	c.Each(t.add)
	counts := t.counts(c)
	switch {
	case q.asJSON:
		return a.printJSON(counts)
	case !counts.Present:
		return a.noCache(c)
	case c.Shut() != "":
		return a.printRows([][2]string{{"place", quoteArg(c.dir)}, {"bad", "it is " + c.Shut() + ": no run reads or writes it"}})
	}
	return a.printRows(counts.rows())
}

func (t *cacheTally) counts(c openedCache) cacheCounts {
	counts := cacheCounts{
		Bad: []badCount{}, Keys: []keyCount{}, Models: []modelCount{}, Dir: c.dir, Present: c.Reader != nil,
		Bytes: t.bytes, Entries: t.entries, Leftovers: t.leftovers, Legacy: t.legacy, Newest: moment(t.newest), Oldest: moment(t.oldest),
	}
	for _, reason := range slices.Sorted(maps.Keys(t.bad)) {
		counts.Bad = append(counts.Bad, badCount{t.bad[reason], reason})
	}
	for _, model := range slices.Sorted(maps.Keys(t.models)) {
		m := *t.models[model]
		counts.Models = append(counts.Models, m)
		counts.Verdicts = judgeCounts{counts.Verdicts.Correct + m.Correct, counts.Verdicts.Incorrect + m.Incorrect}
		counts.Batteries = batteryCounts{counts.Batteries.Paid + m.Paid, counts.Batteries.Withstood + m.Withstood}
	}
	for _, id := range slices.Sorted(maps.Keys(t.keys)) {
		counts.Keys = append(counts.Keys, keyCount{t.keys[id], id, c.trust.nameOf(id)})
	}
	return counts
}

func (c cacheCounts) rows() [][2]string {
	files := c.Entries + c.Legacy + c.Leftovers
	for _, b := range c.Bad {
		files += b.Entries
	}
	rows := [][2]string{
		{"place", fmt.Sprintf("%s: %s, %s", quoteArg(c.Dir), counted(files, "file"), strings.TrimSpace(size(c.Bytes)))},
		{"verdicts", fmt.Sprintf("%d correct, %d incorrect", c.Verdicts.Correct, c.Verdicts.Incorrect)},
		{"batteries", fmt.Sprintf("%d withstood, %d paid", c.Batteries.Withstood, c.Batteries.Paid)},
	}
	for _, m := range c.Models {
		rows = append(rows, [2]string{"model", fmt.Sprintf("%s: %d correct, %d incorrect; null battery withstood %d, paid %d",
			quoteArg(m.Model), m.Correct, m.Incorrect, m.Withstood, m.Paid)})
	}
	for _, k := range c.Keys {
		rows = append(rows, [2]string{"key", fmt.Sprintf("%s (%s): %s", k.KeyID, k.Name, entriesOf(k.Entries))})
	}
	if c.Entries > 0 {
		rows = append(rows, [2]string{"written", c.Oldest + " to " + c.Newest})
	}
	for _, b := range c.Bad {
		rows = append(rows, [2]string{"bad", fmt.Sprintf("%d %s", b.Entries, b.Reason)})
	}
	if c.Legacy > 0 {
		rows = append(rows, [2]string{"old form", fmt.Sprintf("%s without a signature, which no run uses", entriesOf(c.Legacy))})
	}
	if c.Leftovers > 0 {
		rows = append(rows, [2]string{"leftovers", fmt.Sprintf("%s of writes that were killed or are going on", counted(c.Leftovers, "file"))})
	}
	return rows
}

// nameOf returns what the user calls the trusted key of an id.
func (t trust) nameOf(id string) string {
	for _, k := range t.keys {
		if k.ID() == id {
			return k.name
		}
	}
	for _, s := range t.listed {
		if s.Key.ID() == id {
			return s.Principals
		}
	}
	return ""
}
