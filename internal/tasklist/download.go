package tasklist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/progress"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gaia-harness/gaia/loader"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/sync/errgroup"
)

// Download reads the attachments of tasks to their ends, which fetches and checks what is not on this machine. It shows
// the files as they come: a bar on a terminal, a line for each otherwise.
type Download struct {
	Out      io.Writer
	Terminal bool
	Above    func(io.Writer) // gets the writer for lines above the bar; may be nil

	mu      sync.Mutex
	files   int              // that are there
	bytes   int64            // of them
	fetched map[string]int64 // bytes so far of what was not there, by file; nil before the files are known
}

// Downloaded is the JSON form of a download.
type Downloaded struct {
	Bytes   int64        `json:"bytes"`
	Cache   string       `json:"cache,omitzero"` // of the hub, where they are
	Dataset Dataset      `json:"dataset"`
	Failed  []FailedFile `json:"failed"`
	Files   int          `json:"files"` // that are there
}

// FailedFile is an attachment that could not be read.
type FailedFile struct {
	Error    string `json:"error"`
	FileName string `json:"file_name"`
	TaskID   string `json:"task_id"`
}

// Fetched takes the bytes of a file that is being fetched. What was fetched before the files were known does not count.
func (d *Download) Fetched(p loader.Progress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fetched != nil {
		d.fetched[p.Path] = p.Done
	}
}

// atOnce is how many attachments are read at the same time.
const atOnce = 4

// Run reads the attachments of a set that was selected by a rule and returns the result, a sentence about it, and the
// error of those that could not be read; remote says that fetching them again can help.
func (d *Download) Run(ctx context.Context, set loader.Set, rule string, remote bool) (Downloaded, string, error) {
	wanted := slices.DeleteFunc(slices.Clone(set.Tasks), func(t loader.Task) bool { return t.FileName == "" })
	d.mu.Lock()
	d.fetched = map[string]int64{}
	d.mu.Unlock()
	show, done := d.show(len(wanted))
	errs := make([]error, len(wanted))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, t := range wanted {
		g.Go(func() error {
			var n int64
			if errs[i] = ctx.Err(); errs[i] == nil {
				n, errs[i] = read(ctx, set, t)
			}
			if ctx.Err() != nil && errs[i] != nil { // interrupted
				return nil
			}
			if errs[i] == nil {
				d.mu.Lock()
				d.files++
				d.bytes += n
				d.mu.Unlock()
			}
			show(t, n, errs[i])
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
	done()
	result := Downloaded{Bytes: d.bytes, Dataset: datasetOf(set, rule), Failed: []FailedFile{}, Files: d.files}
	e := &exit.Error{Code: exit.Failure} // with the remedies that the source names
	for i, err := range errs {
		if err == nil {
			continue
		}
		result.Failed = append(result.Failed, FailedFile{Error: err.Error(), FileName: wanted[i].FileName, TaskID: wanted[i].ID})
		e.Reasons = append(e.Reasons, err.Error())
		if source := (*loader.SourceError)(nil); errors.As(err, &source) {
			for _, r := range source.Remedies {
				if !slices.Contains(e.Hints, r) {
					e.Hints = append(e.Hints, r)
				}
			}
		}
	}
	if len(e.Reasons) == 0 {
		return result, d.summary(len(wanted)), nil
	}
	then := "the same command fetches what is missing, and only that"
	if !remote {
		then = "copy the dataset again, whole: attachments lie beside the metadata file"
	}
	e.Hints = append(e.Hints, then)
	e.Err = fmt.Errorf("%d of %s could not be read", len(e.Reasons), view.Count(len(errs), "attachment"))
	return result, d.summary(len(wanted)), e
}

// show returns a function that shows a file of n bytes, or that one could not be read, and one that ends the display.
// The list at the end names the files that could not be read; a bar does not.
func (d *Download) show(total int) (show func(t loader.Task, n int64, err error), done func()) {
	if !d.Terminal || total == 0 {
		var log *slog.Logger = progress.NewLogger(d.Out, false)
		return func(t loader.Task, n int64, err error) {
			if err != nil {
				log.Warn("attachment failed", "task", t.ID, "file", t.FileName)
				return
			}
			log.Info("attachment is there", "task", t.ID, "file", t.FileName, "bytes", n)
		}, func() {}
	}
	all := mpb.New(mpb.WithOutput(d.Out))
	bar := all.AddBar(int64(total),
		mpb.PrependDecorators(decor.Name("gaia"), decor.CountersNoUnit(" %d of %d attachments")),
		mpb.AppendDecorators(decor.Elapsed(decor.ET_STYLE_GO), decor.Any(func(decor.Statistics) string {
			d.mu.Lock()
			defer d.mu.Unlock()
			var fetched int64
			for _, n := range d.fetched {
				fetched += n
			}
			if fetched == 0 {
				return ""
			}
			return " " + view.Bytes(fetched) + " fetched"
		})))
	if d.Above != nil {
		d.Above(all)
	}
	return func(_ loader.Task, _ int64, err error) {
			if err == nil {
				bar.Increment()
			}
		}, func() {
			bar.Abort(false)
			all.Wait()
		}
}

func (d *Download) summary(wanted int) string {
	files, verb := view.Count(wanted, "attachment"), "are"
	if d.files < wanted {
		files = fmt.Sprintf("%d of %s", d.files, files)
	}
	if wanted == 1 {
		verb = "is"
	}
	there := fmt.Sprintf("%s %s there (%s)", files, verb, view.Bytes(d.bytes))
	switch {
	case wanted == 0:
		return "nothing to download: the selected tasks have no attachments"
	case d.files == wanted && len(d.fetched) == 0:
		return "nothing to download: " + there
	}
	return there
}

// read reads an attachment to its end and returns its length.
func read(ctx context.Context, set loader.Set, t loader.Task) (int64, error) {
	rc, err := set.Attachment(ctx, t)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(io.Discard, rc)
	if err = cmp.Or(err, rc.Close()); err != nil {
		return 0, fmt.Errorf("reading %q, the attachment of task %q: %w", t.FileName, t.ID, err)
	}
	return n, nil
}

// maxNamed bounds the ids that a message lists.
const maxNamed = 10

// Find returns the index of the id, of n, that is start or begins with it, -1 if there is none. The start of several is
// an error.
func Find(start string, n int, id func(int) string) (int, error) {
	var found []string
	at := -1
	for i := range n {
		if id(i) == start {
			return i, nil
		}
		if strings.HasPrefix(id(i), start) {
			found, at = append(found, id(i)), i
		}
	}
	if len(found) <= 1 {
		return at, nil
	}
	return 0, &exit.Error{Code: exit.Usage, Err: fmt.Errorf("%q is the start of %d task ids", start, len(found)), Hints: []string{"give more of the id"},
		Reasons: view.First(maxNamed, found)}
}

// OfRun is Find among the tasks of a run, which must have one.
func OfRun(start string, n int, id func(int) string) (int, error) {
	at, err := Find(start, n, id)
	if err == nil && at < 0 {
		err = exit.Usagef("'gaia show DIR' lists the tasks", "the run has no task %q", start)
	}
	return at, err
}

// InRun returns the task of a run whose id is start or begins with it.
func InRun(f *rundir.Fold, start string) (*rundir.Task, error) {
	at, err := OfRun(start, len(f.Tasks), func(i int) string { return f.Tasks[i].Plan.TaskID })
	if err != nil {
		return nil, err
	}
	return f.Tasks[at], nil
}

// Named returns the tasks of a set whose ids are names, or start with them.
func Named(set loader.Set, names []string) ([]loader.Task, error) {
	var found []loader.Task
	for _, name := range names {
		at, err := Find(name, len(set.Tasks), func(i int) string { return set.Tasks[i].ID })
		if err != nil {
			return nil, err
		}
		if at < 0 {
			return nil, exit.Usagef("'gaia tasks list' lists them, with the same flags",
				"there is no task %q among the %d selected ones of split %s", name, len(set.Tasks), set.Split)
		}
		found = append(found, set.Tasks[at])
	}
	return found, nil
}
