package equip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/gaia-harness/gaia/audit"
	"github.com/gaia-harness/gaia/internal/cli"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/hubenv"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runflags"
	"github.com/gaia-harness/gaia/internal/settings"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/spf13/cobra"
)

// Rehearses reports whether the built-in tasks are meant: they are named, or
// nothing here and in the environment speaks for others.
func (u *User) Rehearses(t runflags.Tasks) bool {
	return t.Source == runflags.SourceFixtures ||
		t.Source == "" && t.Revision == "" && u.Getenv("OPENAI_API_KEY") == "" && u.Getenv("OPENAI_BASE_URL") == ""
}

// LoadTasks reads the tasks that the flags name, and their answers.
func (u *User) LoadTasks(ctx context.Context, t runflags.Tasks) (loader.Set, loader.Gold, error) {
	split, err := loader.ParseSplit(t.Split)
	if err != nil {
		return loader.Set{}, loader.Gold{}, exit.Usagef("give --split validation or --split test", "%s", err)
	}
	source, err := u.OpenSource(t)
	if err != nil {
		return loader.Set{}, loader.Gold{}, err
	}
	set, gold, err := loader.Load(ctx, source, split, t.Filter)
	if filter := (*loader.FilterError)(nil); errors.As(err, &filter) {
		err = exit.Usagef("see --split, --level, --task, --sample and --limit in the help; 'gaia tasks list' shows what there is", "%s", filter)
	} else if err != nil && strings.HasPrefix(t.Source, runflags.SourceDir) {
		err = fmt.Errorf("%s: %w", t.Source, err)
	}
	return set, gold, err
}

// LocalTasks returns what a shell completes a task by, each with a tab and its level: those of the dataset that the flags of a
// command or gaia.yaml name, or the built-in ones. It is empty for a dataset of the hub, which is asked for nothing.
func (u *User) LocalTasks(cmd *cobra.Command) (ids []string) {
	t := runflags.Tasks{Source: runflags.SourceFixtures, Split: string(loader.Validation)}
	if f := cmd.Flags().Lookup("dataset"); f != nil {
		file, err := settings.Open("")
		if err != nil || cli.TakeOldNames(cmd.Flags()) != nil {
			return nil
		}
		t.Source = cmp.Or(f.Value.String(), file.Value("dataset"), file.Value("source"))
		t.Split = cmp.Or(cmd.Flags().Lookup("split").Value.String(), t.Split)
	}
	if u.Rehearses(t) {
		t.Source = runflags.SourceFixtures
	}
	if t.Source == "" || runflags.IsHub(t.Source) {
		return nil
	}
	set, _, err := u.LoadTasks(cmd.Context(), t)
	if err != nil {
		return nil
	}
	for _, task := range set.Tasks {
		ids = append(ids, fmt.Sprintf("%s\tlevel %d", view.Line(task.ID), task.Level))
	}
	return ids
}

// OpenSource returns the source that the flags name.
func (u *User) OpenSource(t runflags.Tasks) (loader.Source, error) {
	env := u.Hub()
	if runflags.IsHub(t.Source) {
		token, from, err := env.Token()
		if err != nil {
			return nil, err
		}
		source, err := loader.Hub(loader.HubConfig{Endpoint: env.Endpoint(), Repo: t.Repo(), Revision: cmp.Or(t.Revision, loader.MainBranch), Token: token, TokenFrom: from,
			Cache: env.Cache(), Offline: env.IsSet("HF_HUB_OFFLINE") || env.IsSet("TRANSFORMERS_OFFLINE"),
			Transport: http.DefaultTransport, Notice: t.Notice, Progress: t.Progress})
		if wrong := (*loader.SourceError)(nil); errors.As(err, &wrong) {
			err = &exit.Error{Code: exit.Usage, Err: err, Hints: wrong.Remedies}
		}
		return source, err
	}
	path, ok := strings.CutPrefix(t.Source, runflags.SourceDir)
	if path = env.InHome(path); !ok {
		return loader.Dir(u.Builtin.Dataset(), u.Builtin.Name, u.Builtin.Revision), nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, exit.Usagef("give the directory that holds 2023/", "reading the dataset %q: %v", path, regular.Cause(err))
	}
	if !info.IsDir() {
		return nil, exit.Usagef("give the directory that holds 2023/", "the dataset %q is not a directory", path)
	}
	// What the directory holds is for its digests to say, not for its name.
	return loader.Dir(os.DirFS(path), "directory", loader.Unpinned), nil
}

// Hub is the environment as the hub's own tools read it.
func (u *User) Hub() hubenv.Environment {
	return hubenv.Environment{Getenv: u.Getenv, Caches: u.XDG("XDG_CACHE_HOME", ".cache")}
}

// News prints what the hub is about, a line each.
type News struct {
	mu  sync.Mutex
	out io.Writer
}

// TellNews prints what the hub is about to standard error, until it is told to
// say it elsewhere.
func (u *User) TellNews(t *runflags.Tasks) *News {
	n := &News{out: u.Stderr}
	t.Notice = func(s string) { n.print(s) }
	t.Progress = func(p loader.Progress) {
		if p.Kept {
			n.print(fmt.Sprintf("fetched %s, %d bytes", p.Path, p.Size))
		}
	}
	return n
}

func (n *News) print(s string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprintf(n.out, "gaia: hub: %s\n", view.Line(s))
}

// Say prints elsewhere from now on: above a progress bar.
func (n *News) Say(out io.Writer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.out = out
}

// GoldFor compares a plan with a dataset, written as --dataset writes it, at the
// plan's revision, and returns the gold answers of the plan's tasks; nil for a plan
// without gold answers. A difference is a *trajectory.Fault that names the dataset's
// metadata file or the plan. Attachments that cannot be read are an error.
func (u *User) GoldFor(ctx context.Context, source string, m plan.Plan) (*audit.Gold, error) {
	set, gold, err := u.PlannedSplit(ctx, source, m.Dataset)
	if err != nil {
		return nil, err
	}
	if err := grading.ComparePlan(ctx, source, m, set, false, u.Warn); err != nil {
		return nil, err
	}
	return grading.GoldOf(source, m, set, gold)
}

// Splits are whole splits of datasets that were loaded, by source, split and revision.
type Splits struct{ loaded map[[3]string]split }

type split struct {
	set  loader.Set
	gold loader.Gold
}

// PlannedSplit loads the whole split that a plan names, once for several plans. Its
// metadata file must have the plan's digest.
func (u *User) PlannedSplit(ctx context.Context, source string, d plan.Dataset) (loader.Set, loader.Gold, error) {
	t := runflags.Tasks{Source: source, Split: d.Split}
	if source == "" {
		return loader.Set{}, loader.Gold{}, cli.EmptyFlag("dataset")
	}
	if err := t.CheckSource(); err != nil {
		return loader.Set{}, loader.Gold{}, err
	}
	if d.Hub != "" && t.Repo() == d.Name {
		t.Revision = d.Revision
	}
	key := [3]string{t.Source, t.Split, t.Revision}
	loaded, there := u.Splits.loaded[key]
	if !there {
		u.TellNews(&t)
		set, gold, err := u.LoadTasks(ctx, t)
		if err != nil {
			return set, gold, err
		}
		if u.Splits.loaded == nil {
			u.Splits.loaded = map[[3]string]split{}
		}
		loaded = split{set, gold}
		u.Splits.loaded[key] = loaded
	}
	set, gold, err := loaded.set, loaded.gold, error(nil)
	if set.Digest != d.MetadataSHA256 {
		err = exit.New(exit.Evidence, trajectory.Faultf(set.MetadataFile, "of %s is %s, but the plan's tasks are from %s", source, set.Digest, d.MetadataSHA256),
			fmt.Sprintf("give the dataset that the run was planned from: %q at revision %q", d.Name, d.Revision))
	}
	return set, gold, err
}

// CompareQuestions compares what a run asked with the dataset that goldFor has read.
func (u *User) CompareQuestions(ctx context.Context, source string, of *rundir.Run) error {
	set, _, err := u.PlannedSplit(ctx, source, of.Manifest.Dataset)
	if err != nil {
		return err
	}
	return grading.CompareQuestions(source, set, of)
}
