package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"

	"github.com/gaia-harness/gaia/internal/progress"
	"github.com/gaia-harness/gaia/loader"
	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/sync/errgroup"
)

func (a *app) tasksDownloadCommand() *cobra.Command {
	q := &taskQuery{}
	p := &downloading{out: a.stderr}
	cmd := &cobra.Command{
		Use:   "download",
		Short: "Fetch the attachments of the selected tasks",
		Long: `Download reads every attachment of the selected tasks to its end, which fetches
and checks what is not on this machine yet. A run fetches what it needs by
itself; this does it beforehand, and shows what is missing.

A file that cannot be had does not keep the others from being fetched. What is
there stays, also after Ctrl-C: the same command goes on with the rest.`,
		Example: `  gaia tasks download --source hub
  gaia tasks download --source hub --split test --level 1 --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.news = a.tellNews(&q.taskFlags)
			q.progress = p.came
			return a.withTasks(cmd, q, func(ctx context.Context, set loader.Set, _ loader.Gold) error {
				return a.download(ctx, q, set, p)
			})
		},
	}
	q.add(cmd)
	return cmd
}

// downloadResult is what download prints with --json.
type downloadResult struct {
	Bytes   int64        `json:"bytes"`
	Cache   string       `json:"cache,omitzero"` // of the hub, where they are
	Dataset shownDataset `json:"dataset"`
	Failed  []failedFile `json:"failed"`
	Files   int          `json:"files"` // that are there
}

type failedFile struct {
	Error    string `json:"error"`
	FileName string `json:"file_name"`
	TaskID   string `json:"task_id"`
}

// downloadsAtOnce is how many files are fetched at the same time.
const downloadsAtOnce = 4

func (a *app) download(ctx context.Context, q *taskQuery, set loader.Set, p *downloading) error {
	wanted := slices.DeleteFunc(slices.Clone(set.Tasks), func(t loader.Task) bool { return t.FileName == "" })
	p.begin(len(wanted), a.tty)
	errs := make([]error, len(wanted))
	var g errgroup.Group
	g.SetLimit(downloadsAtOnce)
	for i, t := range wanted {
		g.Go(func() error {
			var n int64
			if errs[i] = ctx.Err(); errs[i] == nil {
				n, errs[i] = readAttachment(ctx, set, t)
			}
			if ctx.Err() == nil || errs[i] == nil {
				p.ended(t, n, errs[i])
			}
			return nil
		})
	}
	_ = g.Wait() // the errors of all are in errs
	p.done()
	if ctx.Err() != nil {
		return fail(exitInterrupted, errors.New("interrupted; "+p.there(len(wanted))), "the same command goes on with the rest")
	}
	result := downloadResult{Bytes: p.bytes, Dataset: datasetOf(q, set), Failed: []failedFile{}, Files: p.files}
	where := ""
	if isHub(q.source) {
		result.Cache = a.hubCache()
		where = ", in " + quoteArg(result.Cache)
	}
	for i, err := range errs {
		if err != nil {
			result.Failed = append(result.Failed, failedFile{Error: err.Error(), FileName: wanted[i].FileName, TaskID: wanted[i].ID})
		}
	}
	if q.asJSON {
		if err := a.printJSON(result); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintln(a.stdout, p.sum(len(wanted))+oneLine(where)); err != nil {
		return err
	}
	return notDownloaded(q, errs)
}

// readAttachment reads an attachment to its end and gives its length.
func readAttachment(ctx context.Context, set loader.Set, t loader.Task) (int64, error) {
	rc, err := set.Attachment(ctx, t)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(io.Discard, rc)
	if cerr := rc.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return 0, fmt.Errorf("reading %q, the attachment of task %q: %w", t.FileName, t.ID, err)
	}
	return n, nil
}

// size prints bytes in the unit that fits.
func size(n int64) string {
	if n < 1000 {
		return counted(int(n), "byte")
	}
	return fmt.Sprintf("% .1f", decor.SizeB1000(n))
}

// notDownloaded is the failure of attachments that could not be had, nil if
// there are none, with what the source says can be done.
func notDownloaded(q *taskQuery, errs []error) error {
	f := &failure{Code: exitFailure}
	for _, err := range errs {
		if err == nil {
			continue
		}
		f.Reasons = append(f.Reasons, err.Error())
		var source *loader.SourceError
		if !errors.As(err, &source) {
			continue
		}
		for _, r := range source.Remedies {
			if !slices.Contains(f.Hints, r) {
				f.Hints = append(f.Hints, r)
			}
		}
	}
	if len(f.Reasons) == 0 {
		return nil
	}
	then := "the same command fetches what is missing, and only that"
	if !isHub(q.source) {
		then = "copy the dataset again, whole: attachments lie beside the metadata file"
	}
	f.Hints = append(f.Hints, then)
	f.Err = fmt.Errorf("%d of %s could not be read", len(f.Reasons), counted(len(errs), "attachment"))
	return f
}

// downloading counts files as they come: a bar on a terminal, a line for each
// otherwise.
type downloading struct {
	mu      sync.Mutex
	files   int              // that are there
	bytes   int64            // of them
	fetched map[string]int64 // bytes so far of what was not there, by file; nil before begin

	out  io.Writer
	news *news        // of the hub
	log  *slog.Logger // without a terminal
	bar  *mpb.Bar     // with one
	all  *mpb.Progress
}

// begin is called once the files are known. What was fetched to know them does
// not count.
func (d *downloading) begin(total int, terminal bool) {
	d.mu.Lock()
	d.fetched = map[string]int64{}
	d.mu.Unlock()
	if !terminal || total == 0 {
		d.log = progress.NewLogger(d.out, false)
		return
	}
	d.all = mpb.New(mpb.WithOutput(d.out))
	d.bar = d.all.AddBar(int64(total),
		mpb.PrependDecorators(decor.Name("gaia"), decor.CountersNoUnit(" %d of %d attachments")),
		mpb.AppendDecorators(decor.Elapsed(decor.ET_STYLE_GO), decor.Any(d.state)))
	d.news.say(d.all)
}

// came takes the bytes of a file that is being fetched.
func (d *downloading) came(p loader.Progress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fetched != nil {
		d.fetched[p.Path] = p.Done
	}
}

// state is what stands behind the bar.
func (d *downloading) state(decor.Statistics) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var fetched int64
	for _, n := range d.fetched {
		fetched += n
	}
	if fetched == 0 {
		return ""
	}
	return " " + size(fetched) + " fetched"
}

// ended counts a file of n bytes, or says that one could not be had; on a
// terminal, the list at the end does that.
func (d *downloading) ended(t loader.Task, n int64, err error) {
	d.mu.Lock()
	if err == nil {
		d.files++
		d.bytes += n
	}
	d.mu.Unlock()
	switch {
	case d.bar != nil && err == nil:
		d.bar.Increment()
	case d.bar != nil:
	case err != nil:
		d.log.Warn("attachment failed", "task", t.ID, "file", t.FileName)
	default:
		d.log.Info("attachment is there", "task", t.ID, "file", t.FileName, "bytes", n)
	}
}

// done takes the bar down.
func (d *downloading) done() {
	if d.bar == nil {
		return
	}
	d.bar.Abort(false)
	d.all.Wait()
}

// sum says what is there of so many files.
func (d *downloading) sum(wanted int) string {
	switch {
	case wanted == 0:
		return "nothing to download: the selected tasks have no attachments"
	case d.files == wanted && len(d.fetched) == 0:
		return "nothing to download: " + d.there(wanted)
	}
	return d.there(wanted)
}

func (d *downloading) there(wanted int) string {
	files, verb := counted(wanted, "attachment"), "are"
	if d.files < wanted {
		files = fmt.Sprintf("%d of %s", d.files, files)
	}
	if wanted == 1 {
		verb = "is"
	}
	return fmt.Sprintf("%s %s there (%s)", files, verb, size(d.bytes))
}
