package board

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/audit/render"
	"github.com/gaia-harness/gaia/internal/page"
	"github.com/gaia-harness/gaia/internal/plot"
	"github.com/gaia-harness/gaia/internal/stats"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

//go:embed templates/board.html
var templates embed.FS

var writePage = page.With(templates, "templates/board.html")

// index is the model of index.html.
type index struct {
	page.Head
	Data
	Plots []plot.Plot
}

// one is the model of a package's page.
type one struct {
	page.Head
	Row    Row
	Counts bool
}

// files returns the files of the site by their names, with slashes.
func (d Data) files() (map[string][]byte, error) {
	data, err := json.Marshal(d, jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", dataFile, err)
	}
	files := map[string][]byte{dataFile: []byte(visible.JSON(string(data)) + "\n"), styleFile: page.Style}
	var points []plot.CostPoint
	for _, r := range d.Packages {
		points = append(points, plot.CostPoint{Label: visible.Line(r.Model + ", " + r.Package), CostMicroUSD: r.CostMicroUSD, Rate: *r.Score})
	}
	at := index{Head: page.Head{Title: d.Title, Static: "./", Site: true, Notices: d.notices()}, Data: d}
	if len(points) > 0 {
		at.Plots = []plot.Plot{plot.AccuracyAgainstCost(points)}
	}
	for _, p := range at.Plots {
		files[p.Name+".csv"] = p.CSV()
		files[p.Name+".svg"] = []byte(p.SVG)
	}
	write := func(name, template string, model any) error {
		var b bytes.Buffer
		err := writePage(&b, template, model)
		files[name] = b.Bytes()
		return err
	}
	if err := write(indexFile, "board", at); err != nil {
		return nil, fmt.Errorf("writing %s: %w", indexFile, err)
	}
	// A package that is there twice has one page: that of the one that counts, else of the first.
	pages := []one{}
	for _, e := range slices.Backward(d.Excluded) {
		if e.Row != nil {
			pages = append(pages, one{Row: *e.Row, Head: page.Head{Notices: []page.Notice{{Kind: page.NoticeWarn, Text: "Not ranked: " + strings.Join(e.Reasons, "; ")}}}})
		}
	}
	for _, r := range d.Packages {
		pages = append(pages, one{Row: r, Counts: true})
	}
	for _, p := range pages {
		p.Title, p.Static, p.Site = p.Row.Package, "../", true
		p.Trail = []page.Link{{Text: d.Title, Path: "../" + indexFile}}
		if err := write(p.Row.Page(), "package", p); err != nil {
			return nil, fmt.Errorf("writing %s: %w", p.Row.Page(), err)
		}
	}
	return files, nil
}

// notices say what a reader must know before the ranking.
func (d Data) notices() (all []page.Notice) {
	if d.Rules.Rehearsal {
		all = append(all, page.Notice{Kind: page.NoticeNote, Text: "Rehearsals count on this board: invented tasks and scripted models. Their scores say nothing about a model."})
	}
	if d.Rules.Default {
		all = append(all, page.Notice{Kind: page.NoticeNote, Text: "The folder of packages has no " + RulesFile + ": what counts is the default below."})
	}
	if d.Rules.Keyring {
		all = append(all, page.Notice{Kind: page.NoticeNote, Text: "Trusted are the keys of whoever made this board: " + RulesFile + " names none."})
	}
	for _, name := range d.Unmatched {
		all = append(all, page.Notice{Kind: page.NoticeWarn, Text: "The exclusion of " + strconv.Quote(name) + " matches no package."})
	}
	return all
}

// RuleFacts describe the rules.
func (d Data) RuleFacts() [][2]string {
	r := d.Rules
	var rows view.List
	rows.Addf("dataset", "%s, split %s, tasks: %s", r.Dataset, r.Split, r.Selection)
	rows.AddNonEmpty("revision", r.Revision)
	rows.Add("audit", "clean, so that a package is made without --allow-dirty")
	if len(r.Checks) > 0 {
		rows.Add("checks", "passed, or with closed findings only: "+strings.Join(r.Checks, ", "))
	}
	rows.Add("packages", map[bool]string{true: "full ones only", false: "full and public ones"}[r.FullOnly])
	rows.Add("rehearsals", map[bool]string{true: "count", false: "do not count"}[r.Rehearsal])
	rows.Add("keys", cmp.Or(strings.Join(r.KeyIDs, "\n"), "none is trusted"))
	rows.Add("same run", "of several packages of a run a full one counts, and of these the latest")
	return rows
}

// LevelNames returns the levels of the tasks, ascending.
func (d Data) LevelNames() (all []int) {
	for _, r := range d.Packages {
		for _, l := range r.Levels {
			all = append(all, l.Level)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Text returns the range of ranks.
func (r Rank) Text() string {
	if r.First == r.Last {
		return strconv.Itoa(r.First)
	}
	return fmt.Sprintf("%d–%d", r.First, r.Last)
}

// Page returns the name of the package's page, in the site.
func (r Row) Page() string {
	return packagesName + "/" + strings.TrimPrefix(r.AttestationSHA256, "sha256:")[:32] + ".html"
}

// Title says what a pass of the check says.
func (c Check) Title() string {
	known, _ := render.CheckOf(c.ID) // none of a check that this program does not have
	return known.Title
}

// Short returns the start of a digest, enough to tell those of a board apart.
func (Row) Short(digest string) string {
	return digest[:min(len(digest), len("sha256:")+12)]
}

// At returns the score of a level; nil if there are no such tasks.
func (r Row) At(level int) *stats.Rate {
	for _, l := range r.Levels {
		if l.Level == level {
			return &l.Score
		}
	}
	return nil
}

// Left returns in words what the audit left open, and what was decided.
func (r Row) Left() string {
	var parts []string
	if n := len(r.Reviews); n > 0 {
		parts = append(parts, "to review: "+strings.Join(r.Reviews, ", "))
	}
	if r.Dismissed > 0 {
		parts = append(parts, strconv.Itoa(r.Dismissed)+" dismissed")
	}
	if r.Void > 0 {
		parts = append(parts, view.Count(r.Void, "void task"))
	}
	return cmp.Or(strings.Join(parts, "; "), "none")
}

// Witnessed returns the share of the bytes of an own agent's prompts that are witnessed, rounded down.
func (r Row) Witnessed() string {
	tenths := r.Prompts.Witnessed * 1000 / max(r.Prompts.Bytes, 1) // of numbers up to 2⁵³
	return fmt.Sprintf("%d.%d %%", tenths/10, tenths%10)
}

// Spent describes what the run cost.
func (r Row) Spent() [][2]string {
	return [][2]string{{"cost", view.Dollars(r.CostMicroUSD)}, {"tokens", strconv.FormatInt(r.Tokens, 10)},
		{"time", (time.Duration(r.DurationMs) * time.Millisecond).Truncate(time.Second).String()}, {"attempts per task", strconv.Itoa(r.VotingAttempts)}}
}

// Commands returns the commands by which a reader verifies the package.
func (r Row) Commands() []string {
	file := view.Quote("./" + r.File)
	all := []string{"printf '%s\\n' " + view.Quote(r.Signer.PublicKey) + " > signer.pub",
		"gaia verify --trusted-key signer.pub " + file}
	if !r.Public {
		all = append(all, "gaia audit --trusted-key signer.pub "+file)
	}
	for i, c := range all {
		all[i] = visible.Line(c)
	}
	return append(all, "# its attestation.dsse.json has the digest "+r.AttestationSHA256)
}

// Facts describe the package, as far as nothing else on its page does.
func (r Row) Facts() [][2]string {
	rows := view.List{{"file", r.File}, {"digest", r.AttestationSHA256}, {"run", r.RunID}, {"manifest", r.ManifestSHA256},
		{"model", r.Model + " at " + r.Origin}, {"agent", r.Agent}}
	if a := r.OwnAgent; a != nil {
		rows.Add("agent files", a.FilesSHA256)
		rows.Addf("confined", "network %s, tools %s", a.Network, a.Tools)
		if a.Unconfined {
			rows.Add("unconfined", "it ran outside of the sandbox")
		}
		rows.Add("prompts", r.Prompts.String())
	}
	rows.Addf("dataset", "%s, split %s, tasks: %s (%d)", r.Dataset, r.Split, r.Selection, r.Planned)
	rows.Add("revision", r.Revision)
	rows.Add("signed by", strings.TrimSpace(r.Signer.Name+" "+r.Signer.KeyID))
	if s := r.Submitter; s != nil {
		rows.AddNonEmpty("organisation", s.Organisation)
		rows.AddNonEmpty("contact", s.Contact)
	}
	rows.Add("findings", r.Left())
	rows.Add("exceptions", r.Exceptions.String())
	if r.Judged != nil {
		rows.Addf("with the judge", "%d of %d, %s, which does not rank", r.Judged.Correct, r.Judged.Planned, view.Percent(r.Judged.AccuracyPPM))
	}
	rows.AddNonEmpty("audit", prefixed("not run again: ", r.NotRerun))
	rows.AddNonEmpty("README.md", prefixed("not rebuilt: ", r.NotRebuilt))
	return rows
}

// prefixed returns a text after another one, "" if it is empty.
func prefixed(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}
