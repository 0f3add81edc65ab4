package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/rundir"

	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/prune"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/submit"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
)

func (a *app) pruneCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove old runs, bodies, packages and cassettes",
		Long: `Prune removes what is older than --older-than, all but the --keep newest, or what
both say. It removes only what it recognises: runs and packages that verify,
folders of bodies in runs, and cassettes. It follows no link. It shows what would go and asks first; without a terminal it needs --yes.

A run that a process writes is never removed, an unfinished one only with --force.
Of each run and package a row stays in $XDG_DATA_HOME/gaia/history (else
~/.local/share), sealed with your signing key: plan digest, checkpoint, when it was
pruned, and what 'gaia ledger' and 'gaia trend' count of it.`,
		Example: `  gaia prune runs --older-than 90d --dry-run
  gaia prune bodies --keep 5 --yes
  gaia prune packages archive --keep 10`,
		Args:              knownCommand,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, k := range []pruneKind{
		{"runs", "Remove run directories", `Each PATH is a run directory, or a folder that holds some (default: runs). A run
that does not verify, or that holds files that no run makes, is left and named.`,
			"  gaia prune runs --older-than 90d\n  gaia prune runs runs/01J… --keep 0 --force --yes", defaultRuns, (*pruner).runs},
		{"bodies", "Remove the whole bodies that runs keep", `Each PATH is a run directory, or a folder that holds some (default: runs). The runs
stay, and still verify: their journals have the heads and digests of the bodies.`,
			"  gaia prune bodies --older-than 30d\n  gaia prune bodies runs/01J… --keep 0 --yes", defaultRuns, (*pruner).bodies},
		{"packages", "Remove submission packages, folders and archives", `Each PATH is a package, its archive, or a folder that holds some (default: this
one). A package counts as made on the date that its statement says.`,
			"  gaia prune packages --keep 3 --dry-run\n  gaia prune packages submission-2026-01-02-5XK9QZ7M --keep 0", ".", (*pruner).packages},
		{"cassettes", "Remove cassettes of recorded answers", `Each PATH is a cassette, or a folder that holds some. A cassette counts as made when
its newest file was written.`,
			"  gaia prune cassettes cassettes --older-than 30d\n  gaia prune cassettes old-cassette --keep 0", "", (*pruner).cassettes},
	} {
		cmd.AddCommand(a.pruneKindCommand(k))
	}
	return cmd
}

// pruneKind is what a command below prune removes.
type pruneKind struct {
	name, short, long, example string
	folder                     string // where it looks by default; "": a path must be given
	find                       func(*pruner, string) error
}

// pruner finds what is to be removed, and removes it.
type pruner struct {
	*app
	olderThan                  string
	rule                       prune.Rule
	dryRun, force, yes, asJSON bool

	items []*prunable
	left  []leftItem
	half  []string // what a removal that did not end has left
	bad   error    // what does not verify; nil if nothing
	named error    // why something that the user named is left
}

// prunable is something that can be removed.
type prunable struct {
	Bytes      int64  `json:"bytes"`
	Created    string `json:"created"`
	Path       string `json:"path"`
	Unfinished bool   `json:"unfinished,omitzero"`

	row   *history.Record // that stays of it; nil: none
	stats *rundir.RunStats
	run   string // the run directory to be locked; "": none
	named error  // what it is to leave it unfinished, where it was named; nil: it is finished, was not, or may go
	was   fs.FileInfo
	at    time.Time
}

// leftItem is something that is not removed though it is of the kind.
type leftItem struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// pruneResult is what prune prints with --json.
type pruneResult struct {
	Bytes   int64       `json:"bytes"` // of what was removed
	DryRun  bool        `json:"dry_run"`
	Kept    int         `json:"kept"` // that the rules do not choose
	Kind    string      `json:"kind"`
	Left    []leftItem  `json:"left"`
	Removed []*prunable `json:"removed"`
}

func (a *app) pruneKindCommand(k pruneKind) *cobra.Command {
	p := &pruner{app: a}
	cmd := &cobra.Command{
		Use:     k.name + " [PATH…]",
		Short:   k.short,
		Long:    k.short + ".\n\n" + k.long,
		Example: k.example,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check(cmd); err != nil {
				return err
			}
			if len(args) == 0 && k.folder == "" {
				return usage("gaia prune cassettes DIR --keep 0", "prune %s takes the folders to look at", k.name)
			}
			if len(args) == 0 {
				args = []string{k.folder}
			}
			return p.prune(k, args)
		},
	}
	if k.folder == "" {
		cmd.Use = k.name + " PATH…"
	}
	f := cmd.Flags()
	f.StringVar(&p.olderThan, "older-than", "", "remove only what is older than this: 720h, 30d")
	f.IntVar(&p.rule.Keep, "keep", -1, "keep this many of the newest")
	f.BoolVar(&p.dryRun, "dry-run", false, "show what would be removed, and remove nothing")
	f.BoolVar(&p.yes, "yes", false, "do not ask")
	f.BoolVar(&p.asJSON, "json", false, "print the result as JSON")
	if k.name == "runs" || k.name == "bodies" {
		f.BoolVar(&p.force, "force", false, "remove those of unfinished runs, too")
	}
	completeFixed(cmd, "older-than")
	completeFixed(cmd, "keep")
	return cmd
}

func (p *pruner) check(cmd *cobra.Command) error {
	if err := notEmpty(cmd, "older-than"); err != nil {
		return err
	}
	keeps := cmd.Flags().Changed("keep")
	switch {
	case keeps && p.rule.Keep < 0:
		return usage("--keep 0 keeps none", "--keep is %d", p.rule.Keep)
	case !keeps && p.olderThan == "":
		return usage("give --older-than 30d, --keep 10 or both; --keep 0 removes all", "nothing says what is to be removed")
	case p.olderThan == "":
		return nil
	}
	var err error
	if p.rule.Age, err = parseAge(p.olderThan); err != nil {
		return usage("give hours or days, such as 720h or 30d", "--older-than is %q, which is not an age", p.olderThan)
	}
	return nil
}

func (p *pruner) prune(k pruneKind, paths []string) error {
	for _, path := range paths {
		if err := k.find(p, filepath.Clean(path)); err != nil {
			return err
		}
	}
	slices.SortFunc(p.items, func(a, b *prunable) int { return strings.Compare(a.Path, b.Path) })
	p.items = slices.CompactFunc(p.items, func(a, b *prunable) bool { return a.Path == b.Path })
	created := make([]time.Time, len(p.items))
	for i, item := range p.items {
		created[i] = item.at
	}
	chosen := p.rule.Choose(created, time.Now())
	result := pruneResult{DryRun: p.dryRun, Kind: k.name, Left: []leftItem{}, Removed: []*prunable{}}
	for i, item := range p.items {
		switch {
		case !chosen[i]:
			result.Kept++
		case p.inUse(item):
			p.leave(item.Path, "a process writes it", nil)
		case item.Unfinished && !p.force:
			p.leave(item.Path, "unfinished: --force removes it, too", nil)
			p.named = cmp.Or(item.named, p.named)
		default:
			result.Removed = append(result.Removed, item)
			result.Bytes += item.Bytes
		}
	}
	for _, half := range p.half {
		fmt.Fprintf(p.stderr, "gaia: goes too: %s, which a removal that did not end has left\n", oneLine(quoteArg(half)))
	}
	if !p.dryRun && len(result.Removed)+len(p.half) > 0 {
		what := fmt.Sprintf("remove %s of %s", countedKind(len(result.Removed), k.name), strings.TrimSpace(size(result.Bytes)))
		if !p.yes && p.asks {
			if err := p.table(p.stderr, result); err != nil {
				return err
			}
		}
		if sure, err := p.sure(what, p.yes); err != nil || !sure {
			return err
		}
		for _, half := range p.half {
			if err := prune.Finish(half); err != nil {
				return fmt.Errorf("removing what was left of %q: %w", half, err)
			}
		}
		for i, item := range result.Removed {
			if err := p.remove(item); err != nil {
				return fail(exitFailure, fmt.Errorf("%d of %d were removed, and %q was not: %w", i, len(result.Removed), item.Path, err))
			}
		}
	}
	result.Left = append(result.Left, p.left...)
	if err := p.print(result); err != nil {
		return err
	}
	return cmp.Or(p.bad, p.named)
}

// inUse reports whether a process writes the run of an item.
func (p *pruner) inUse(item *prunable) bool {
	if item.run == "" {
		return false
	}
	release, err := run.Hold(item.run)
	if err == nil {
		err = release()
	}
	return errors.Is(err, run.ErrBusy)
}

// remove writes the row that stays of an item, and removes it.
func (p *pruner) remove(item *prunable) error {
	if item.run != "" {
		release, err := run.Hold(item.run)
		if err != nil {
			return err
		}
		defer release()
	}
	if item.row != nil {
		store, err := p.sealingStore()
		if err != nil {
			return err
		}
		item.row.Pruned = time.Now().UTC().Format(trajectory.TimeFormat)
		if err := store.Keep(*item.row, item.stats); err != nil {
			return fmt.Errorf("writing the history: %w", err)
		}
	}
	return prune.Remove(item.Path, item.was)
}

func (p *pruner) leave(path, why string, err error) {
	p.left = append(p.left, leftItem{path, why})
	if err != nil {
		f := *classify(err)
		f.Err = fmt.Errorf("%s: %w", oneLine(quoteArg(path)), f.Err)
		p.bad = cmp.Or(p.bad, error(&f))
	}
}

func (p *pruner) table(w io.Writer, r pruneResult) error {
	t := newTable()
	t.AppendHeader(table.Row{"path", "created", "", ""})
	for _, item := range r.Removed {
		state := ""
		if item.Unfinished {
			state = "unfinished"
		}
		day, _, _ := strings.Cut(item.Created, "T")
		t.AppendRow(table.Row{oneLine(quoteArg(item.Path)), day, strings.TrimSpace(size(item.Bytes)), state})
	}
	_, err := fmt.Fprintln(w, visible.Text(t.Render()))
	return err
}

func (p *pruner) print(r pruneResult) error {
	if p.asJSON {
		return p.printJSON(r)
	}
	if len(r.Removed) > 0 {
		if err := p.table(p.stdout, r); err != nil {
			return err
		}
	}
	for _, l := range r.Left {
		fmt.Fprintf(p.stderr, "gaia: left: %s: %s\n", oneLine(quoteArg(l.Path)), oneLine(l.Why))
	}
	verb := "removed"
	if r.DryRun {
		verb = "would remove"
	}
	_, err := fmt.Fprintf(p.stdout, "%s %s, %s; %d kept, %d left\n", verb, countedKind(len(r.Removed), r.Kind), strings.TrimSpace(size(r.Bytes)), r.Kept, len(r.Left))
	return err
}

// countedKind counts what is pruned by its kind, which is a plural.
func countedKind(n int, kind string) string {
	if kind == "bodies" {
		return counted(n, "folder") + " of bodies"
	}
	return counted(n, strings.TrimSuffix(kind, "s"))
}

// each calls visit with the path if it is one of the kind, else with what is in the
// folder there, links left out.
func (p *pruner) each(path string, is func(string) bool, visit func(path string, named bool) error) error {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return usage("give paths that are there", "reading %q: %v", path, unwrapPath(err))
	case info.Mode()&fs.ModeSymlink != 0:
		return usage("give the path that it leads to", "%q is a link", path)
	case is(path):
		return visit(path, true)
	case !info.IsDir():
		return usage("see 'gaia prune --help'", "%q is not of the kind to be removed", path)
	}
	half, err := prune.Left(path)
	if err != nil {
		return fmt.Errorf("reading %q: %w", path, unwrapPath(err))
	}
	p.half = append(p.half, half...)
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("reading %q: %w", path, unwrapPath(err))
	}
	for _, e := range entries {
		in := filepath.Join(path, e.Name())
		if strings.HasPrefix(e.Name(), ".") || e.Type()&fs.ModeSymlink != 0 || !is(in) {
			continue
		}
		if err := visit(in, false); err != nil {
			return err
		}
	}
	return nil
}

// isRunDir reports whether a folder is a run directory, whole or damaged.
func isRunDir(path string) bool { return verify.IsRun(path) == nil }

func (p *pruner) runs(path string) error {
	return p.each(path, isRunDir, func(dir string, named bool) error {
		item, err := ofRun(dir)
		if err != nil {
			p.leave(dir, "does not verify", err)
			return nil
		}
		if other, err := run.Foreign(dir); err != nil || other != "" {
			p.leave(dir, fmt.Sprintf("holds %q, which no run makes", other), err)
			return nil
		}
		stats, of, err := verifiedStats(dir)
		if err != nil {
			p.leave(dir, "does not verify", err)
			return nil
		}
		if item.row, err = rowOf(os.DirFS(dir), dir, history.KindRun); err != nil {
			return err
		}
		if item.Unfinished = !of.Complete; of.Complete {
			item.stats = &stats
		} else if item.row.Checkpoint = ""; named && !p.force {
			item.named = fail(exitIncomplete, fmt.Errorf("the run %q is not complete: %s", dir, of.Missing), "--force removes it all the same")
		}
		p.items = append(p.items, item)
		return nil
	})
}

// ofRun reads what is at a run directory.
func ofRun(dir string) (*prunable, error) {
	m, _, _, err := rundir.ReadPlan(os.DirFS(dir))
	if err != nil {
		return nil, err
	}
	if abs, err := filepath.Abs(dir); err != nil || filepath.Base(abs) != m.RunID {
		return nil, trajectory.Faultf(plan.ManifestFile, "is of the run %q, and the folder is called otherwise", m.RunID)
	}
	item, err := itemAt(dir, m.Created)
	item.run = dir
	return item, err
}

// itemAt describes what is at a path and was made at a time.
func itemAt(path, created string) (*prunable, error) {
	item := &prunable{Created: created, Path: path}
	var err error
	if item.at, err = time.Parse(trajectory.TimeFormat, created); err != nil {
		return item, fmt.Errorf("%q: %w", path, err)
	}
	if item.was, err = os.Lstat(path); err != nil {
		return item, err
	}
	item.Bytes, err = prune.Size(path)
	return item, err
}

func (p *pruner) bodies(path string) error {
	return p.each(path, isRunDir, func(dir string, _ bool) error {
		top, _, _ := strings.Cut(trajectory.BodiesDir, "/")
		half, err := prune.Left(dir)
		if err != nil {
			return err
		}
		p.half = append(p.half, half...)
		at := filepath.Join(dir, top)
		if info, err := os.Lstat(at); err != nil || !info.IsDir() {
			return nil
		}
		of, err := ofRun(dir)
		if err != nil {
			p.leave(dir, "does not verify", err)
			return nil
		}
		if other, err := foreignBody(at); err != nil || other != "" {
			p.leave(at, fmt.Sprintf("holds %q, which is no body", other), err)
			return nil
		}
		found, _, err := verify.Run(os.DirFS(dir))
		if err != nil {
			p.leave(dir, "does not verify", err)
			return nil
		}
		item, err := itemAt(at, of.Created)
		item.run, item.Unfinished = dir, !found.Complete
		p.items = append(p.items, item)
		return err
	})
}

// foreignBody returns the path of something in a folder of bodies that is none.
func foreignBody(dir string) (other string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		rel, outside := filepath.Rel(filepath.Dir(dir), path)
		switch {
		case err != nil || outside != nil:
			return errors.Join(err, outside)
		case path == dir || filepath.ToSlash(rel) == trajectory.BodiesDir && d.IsDir():
		case d.Type().IsRegular() && filepath.ToSlash(rel) == trajectory.BodyFile("sha256:"+d.Name()):
		default:
			other = filepath.ToSlash(rel)
			return fs.SkipAll
		}
		return nil
	})
	return other, err
}

func (p *pruner) packages(path string) error {
	is := func(path string) bool {
		return strings.HasPrefix(filepath.Base(path), "submission-") && (submit.IsPackage(os.DirFS(path)) || verify.IsArchive(path))
	}
	return p.each(path, is, func(path string, _ bool) error {
		item, err := ofPackage(path)
		if err != nil {
			p.leave(path, "does not verify", err)
			return nil
		}
		p.items = append(p.items, item)
		return nil
	})
}

// ofPackage verifies a package and reads what stays of it.
func ofPackage(path string) (*prunable, error) {
	at, err := verify.Open(path)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	var said submit.Predicate
	var stats *rundir.RunStats
	if at.IsPublic() {
		of, err := at.VerifyPublic(harness)
		if err != nil {
			return nil, err
		}
		said = of.Statement.Predicate
	} else {
		of, err := at.Verify(submit.Options{Once: true})
		if err != nil {
			return nil, err
		}
		said = of.Statement.Predicate
		read, _, err := verifiedStats(path)
		if err != nil {
			return nil, err
		}
		stats = &read
	}
	if name := strings.TrimSuffix(filepath.Base(path), submit.ArchiveSuffix); name != said.Name {
		return nil, trajectory.Faultf(submit.AttestationFile, "is of the package %q, which is called otherwise here", said.Name)
	}
	item, err := itemAt(path, said.Date+"T00:00:00.000Z")
	if err != nil {
		return nil, err
	}
	if item.row, err = rowOf(at.Files, path, history.KindPackage); err == nil {
		item.stats = stats
	}
	return item, err
}

func (p *pruner) cassettes(path string) error {
	is := func(path string) bool {
		_, err := llm.NewPlayer(path)
		return err == nil
	}
	return p.each(path, is, func(dir string, _ bool) error {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		newest := time.Time{}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				return err
			}
			if !e.Type().IsRegular() || !strings.HasSuffix(e.Name(), ".json") {
				p.leave(dir, fmt.Sprintf("holds %q, which no cassette has", e.Name()), nil)
				return nil
			}
			if info.ModTime().After(newest) {
				newest = info.ModTime()
			}
		}
		item, err := itemAt(dir, newest.UTC().Format(trajectory.TimeFormat))
		p.items = append(p.items, item)
		return err
	})
}

// rowOf returns the history row of the run or package at path, without what is counted
// of it.
func rowOf(files fs.FS, path, kind string) (*history.Record, error) {
	m, digest, key, err := rundir.ReadPlan(files)
	if err != nil {
		return nil, err
	}
	row := &history.Record{Created: m.Created, Kind: kind, ManifestSHA256: digest, Rehearsal: m.Rehearsal, RunID: m.RunID, SignedBy: key.ID()}
	if row.Path, err = history.RealPath(path); err != nil {
		return nil, err
	}
	note, err := rundir.ReadFile(files, trajectory.CheckpointFile, verify.MaxPublished)
	var missing *trajectory.Fault
	if errors.As(err, &missing) && missing.Reason == rundir.Missing {
		return row, nil
	}
	row.Checkpoint = string(note)
	return row, err
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
