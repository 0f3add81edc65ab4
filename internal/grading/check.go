package grading

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runview"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/judge"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Stored results of a self-test.
const (
	outcomeWithstood = "withstood"
	outcomePaid      = "paid"
)

// Remembered is the stored result of an earlier self-test of a judge. The zero value stores nothing.
type Remembered struct {
	cache   *judgecache.Cache
	key     judgecache.BatteryContext
	File    string // of the cache, in which the result is stored
	Outcome string // outcomeWithstood, outcomePaid, or "" for none
}

// Recall looks up the result of an earlier self-test of a judge. It returns an error for an entry that does not verify,
// and for a cache in which no result could be stored.
func Recall(cache *judgecache.Cache, j Judge) (Remembered, error) {
	r := Remembered{cache: cache, key: j.SelfTestKey()}
	var err error
	if r.File, err = cache.File(r.key); err != nil {
		return r, err
	}
	passed, found, bad, err := cache.Get(r.key)
	switch {
	case err != nil:
		return r, fmt.Errorf("reading the judge cache: %w", err)
	case bad != nil:
		e := CacheError{cache.Dir(), judgecache.Sweep{Checked: 1, Bad: []judgecache.Bad{*bad}}}
		f := &exit.Error{Code: exit.Evidence, Err: errors.New("the stored result of an earlier self-test of this judge does not verify"),
			Reasons: e.Reasons(), Hints: append(e.Hints(), "the judge was not asked; --no-judge-cache tests it without the cache")}
		if bad.Name == judgecache.Place {
			f.Err, f.Reasons = fmt.Errorf("the judge cache %q is %s", e.Dir, bad.Reason), nil
		}
		return r, f
	case found && passed:
		r.Outcome = outcomeWithstood
	case found:
		r.Outcome = outcomePaid
	}
	return r, nil
}

// Keep stores a result for runs: that a judge passed its self-test, or that it accepted an item. That it accepted one
// earlier is not replaced. Anything else is tried again.
func (r Remembered) Keep(t SelfTest) error {
	passed := t.Passed()
	if r.cache == nil || !t.Lasts() || passed && r.Outcome == outcomePaid {
		return nil
	}
	return r.cache.Put(r.key, passed)
}

// maxNamed bounds the entries that a message lists.
const maxNamed = 10

// Reasons says of the first bad entries what is wrong with them.
func (e *CacheError) Reasons() []string {
	var reasons []string
	for _, b := range e.Sweep.Bad {
		name := b.Name
		if name == judgecache.Place {
			name = e.Dir
		}
		reasons = append(reasons, view.Quote(name)+": "+b.Reason)
	}
	return view.First(maxNamed, reasons)
}

// Hints says what can be done about the bad entries.
func (e *CacheError) Hints() []string {
	dir, strangers := view.Quote(e.Dir), 0
	for _, b := range e.Sweep.Bad {
		switch b.Reason {
		case judgecache.Untrusted:
			strangers++
		case judgecache.Writable:
			return []string{"chmod 700 " + dir, "gaia judge cache verify then says whether anybody has changed an entry"}
		case judgecache.NotMade, judgecache.NotRead, judgecache.NotPrivate:
			return []string{"see to it that you can read and write " + dir + " and what it lies in; or set XDG_CACHE_HOME to another place"}
		case judgecache.Linked, judgecache.NotOwned, judgecache.NotDirectory:
			return []string{"find out who put " + dir + " there, then remove it: the next run makes a directory of your own; or set XDG_CACHE_HOME to another place"}
		}
	}
	var hints []string
	if strangers < len(e.Sweep.Bad) {
		hints = append(hints, "find out who changed these entries, then delete the cache: rm -r "+dir)
	}
	if strangers > 0 {
		hints = append(hints, "entries by a key of your own are trusted once its public line lies in your key directory as a file NAME.pub, or while gaia.yaml names it as key",
			"if you do not know the key, delete the cache: rm -r "+dir)
	}
	return hints
}

// Ends returns the failure of what the cache keeps from beginning or going on, with what to do then.
func (e *CacheError) Ends(code int, then string) error {
	return &exit.Error{Code: code, Err: e, Reasons: e.Reasons(), Hints: append(e.Hints(), then)}
}

// WithoutCache adds the way around to an error that is of the judge cache, or of the key that signs what is in it.
func WithoutCache(err error) error {
	f := *exit.Of(err)
	if !slices.ContainsFunc(f.Hints, func(h string) bool { return strings.Contains(h, "--no-judge-cache") }) {
		f.Hints = append(slices.Clone(f.Hints), "fix that, or give --no-judge-cache")
	}
	return &f
}

// CacheCheck is what is found of every entry of a judge cache; its members are what 'gaia judge cache verify' prints with --json.
type CacheCheck struct {
	Bad       []judgecache.Bad `json:"bad"`     // the name of the directory is "."
	Checked   int              `json:"checked"` // with the bad ones and those of the old form
	Dir       string           `json:"dir"`
	Legacy    int              `json:"legacy"`
	Leftovers int              `json:"leftovers"`
	Present   bool             `json:"present"`

	shut string // why the directory is not used
}

// CheckCache checks every entry of a judge cache, which may be missing.
func CheckCache(dir string, trusted []sign.PublicKey) (CacheCheck, error) {
	c := CacheCheck{Bad: []judgecache.Bad{}, Dir: dir}
	cache, err := judgecache.Look(dir, trusted)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	cache.Each(func(e judgecache.Entry) {
		switch {
		case e.Leftover:
			c.Leftovers++
			return
		case e.Legacy:
			c.Legacy++
		case e.Reason != "":
			c.Bad = append(c.Bad, judgecache.Bad{Name: e.Name, Reason: e.Reason})
		}
		c.Checked++
	})
	c.Present, c.shut = true, cache.Shut()
	return c, nil
}

// Text describes the check for a person; a directory that is not used is left to Err.
func (c CacheCheck) Text() string {
	switch {
	case !c.Present:
		return fmt.Sprintf("there is no judge cache yet: %s\n", view.Line(view.Quote(c.Dir)))
	case c.shut == "":
		return fmt.Sprintf("%s checked: %d good, %d bad, %d of the old form, which no run uses\n",
			view.Count(c.Checked, "entry"), c.Checked-len(c.Bad)-c.Legacy, len(c.Bad), c.Legacy)
	}
	return ""
}

// Err returns the error that entries do not verify, nil if all do.
func (c CacheCheck) Err() error {
	if len(c.Bad) == 0 {
		return nil
	}
	e := &CacheError{c.Dir, judgecache.Sweep{Bad: c.Bad}}
	f := &exit.Error{Code: exit.Evidence, Reasons: e.Reasons(), Hints: e.Hints()}
	f.Err = fmt.Errorf("%d of %s in the judge cache do not verify", len(c.Bad), view.Count(c.Checked, "entry"))
	if c.shut != "" {
		f.Err, f.Reasons = fmt.Errorf("the judge cache %q is %s", c.Dir, c.shut), nil
	}
	return f
}

// Report is the result of a self-test for people and programs.
type Report struct {
	Battery      string `json:"battery_sha256"`
	CostMicroUSD *int64 `json:"cost_microusd"` // null where the price is unknown
	Items        []Item `json:"items"`
	Model        string `json:"model"`
	Origin       string `json:"origin"`
	Problem      string `json:"problem,omitzero"` // why not all items were asked
	Rehearsal    bool   `json:"rehearsal,omitzero"`
	Remembered   string `json:"remembered"` // of an earlier self-test: outcomeWithstood, outcomePaid, or "" for none
	TokensIn     int64  `json:"tokens_in"`
	TokensOut    int64  `json:"tokens_out"`
	Withstood    bool   `json:"withstood"` // this one
}

// Item is an answer of the self-test, and what the judge says of it.
type Item struct {
	Candidate string `json:"candidate"`
	Name      string `json:"name"`
	Verdict   string `json:"verdict"` // incorrect, as it should be; or correct, unreadable, refused (by the endpoint), "not asked"
}

// NewReport returns the report of a self-test.
func NewReport(j Judge, t SelfTest, remembered string, rehearsal bool) Report {
	r := Report{Battery: judge.BatteryDigest(), CostMicroUSD: t.CostMicroUSD, Model: j.Name, Origin: j.Origin, Problem: t.Err, Rehearsal: rehearsal,
		Remembered: remembered, TokensIn: t.TokensIn, TokensOut: t.TokensOut, Withstood: t.Passed()}
	for i, n := range judge.Battery() {
		verdict := "incorrect"
		switch {
		case i >= t.Asked:
			verdict = "not asked"
		case slices.Contains(t.Accepted, n.Name):
			verdict = "correct"
		case slices.Contains(t.Unreadable, n.Name):
			verdict = "unreadable"
		case slices.Contains(t.Refused, n.Name):
			verdict = "refused"
		}
		r.Items = append(r.Items, Item{n.Candidate, n.Name, verdict})
	}
	return r
}

// Text returns the report for people.
func (r Report) Text() string {
	const width = 60 // of a candidate, before it is quoted
	rows := view.NewTable("item", "verdict", "candidate")
	for _, i := range r.Items {
		rows.Row(i.Name, i.Verdict, strconv.QuoteToGraphic(text.Snip(i.Candidate, width, "…")))
	}
	outcome := "failed its self-test"
	switch {
	case r.Withstood:
		outcome = "passed its self-test"
	case r.Problem != "":
		outcome = "was not asked its whole self-test"
	}
	return fmt.Sprintf("%s\n\n%s at %s: %s; %d tokens in, %d out, cost %s\n", rows,
		view.Line(r.Model), view.Line(r.Origin), outcome, r.TokensIn, r.TokensOut, view.Dollars(r.CostMicroUSD))
}

// Err returns the error of a judge whose verdicts no run uses, or that could not be asked; nil if it passed its
// self-test. entry is the file of an earlier result.
func (r Report) Err(t SelfTest, entry string) error {
	const another = "take another model with --judge-model: without a judge the official scores stand alone"
	switch {
	case r.Withstood && r.Remembered == outcomePaid:
		return exit.New(exit.Findings, errors.New("this judge failed an earlier self-test, and that result counts until its entry is deleted"),
			"rm "+view.Quote(entry), another)
	case r.Withstood:
		return nil
	case t.Err != "" && len(t.Accepted) == 0:
		err := errors.New(t.Err)
		if t.Why != nil {
			err = t.Why
		}
		return exit.New(exit.Failure, fmt.Errorf("asking the judge: %w", err), Remedies(t.Why)...)
	}
	why := runview.ExplainBattery(&rundir.BatterySummary{Accepted: t.Accepted, Asked: t.Asked, Refused: t.Refused, Unreadable: t.Unreadable})
	if len(t.Accepted) == 0 && r.Remembered == outcomeWithstood {
		return exit.New(exit.Findings, errors.New("this judge failed its self-test: "+why),
			"runs use the earlier result, which it passed, until you delete it: rm "+view.Quote(entry))
	}
	return exit.New(exit.Findings, errors.New("no verdict of this judge counts: "+why), another)
}

// Remedies says what can be done about a request to a judge that failed, where more is known than the endpoint's reply.
func Remedies(e *llm.Error) []string {
	switch {
	case e == nil:
	case e.Hint != "":
		return []string{e.Hint}
	case e.Code == "unreachable":
		return []string{"check --base-url, and that the server is running there"}
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		return []string{"set OPENAI_API_KEY to a key of the endpoint"}
	case e.Status == http.StatusNotFound:
		return []string{"name a model that the endpoint has with --judge-model, or look at the path of --base-url"}
	}
	return nil
}
