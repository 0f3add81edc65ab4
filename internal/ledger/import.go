package ledger

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/history"
	"github.com/gaia-harness/gaia/internal/keyring"
	"github.com/gaia-harness/gaia/internal/outfile"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/sign"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
	"github.com/gofrs/flock"
)

// Export returns the events to be exported, ascending by their ids, of runs that it verifies again. There are none if a
// run does not verify, or if the evidence of one is not complete: no one could check what a signature of its events says.
func (r *Reader) Export(ctx context.Context, s Selection) ([]rundir.RunEvent, EventsRead, error) {
	s.Verify, s.Live = true, true // what was kept of runs is nothing to sign
	var events []rundir.RunEvent
	read, err := r.Events(s, func(e Event) error {
		events = append(events, e.RunEvent)
		return ctx.Err()
	}, nil)
	if err != nil {
		return nil, read, err
	}
	failed := read.Read.FailedErr
	if n := len(read.RecordingFailed); n > 0 && (failed == nil || exit.Of(failed).Code == exit.Failure) { // which does not precede findings
		e := &exit.Error{Code: exit.Findings, Err: fmt.Errorf("the evidence of %s is not complete: nothing is exported", view.Count(n, "run")),
			Hints: []string{"leave them out: name other runs by --runs, or other attempts by --task, --since and --until"}}
		for _, id := range read.RecordingFailed[:min(n, maxNamed)] {
			e.Reasons = append(e.Reasons, "recording failed in the run "+id)
		}
		if n > maxNamed {
			e.Reasons = append(e.Reasons, fmt.Sprintf("and in %d more", n-maxNamed))
		}
		failed = exit.First(e, failed)
	}
	if failed != nil {
		return nil, read, failed
	}
	if len(events) == 0 {
		return nil, read, exit.Usagef("gaia ledger list lists those there are", "there is no event to export")
	}
	slices.SortFunc(events, func(a, b rundir.RunEvent) int { return strings.Compare(a.ID, b.ID) })
	return events, read, nil
}

// linesSuffix ends the name of an export of lines of JSON.
const linesSuffix = ".jsonl"

// WriteExport writes events as lines of JSON to stdout, where out is "" or "-", or to the file out, which must not exist, if its
// name ends in ".jsonl"; to another file as Parquet, with an envelope signed by key beside it. It returns, for people, by whom
// they are signed.
func WriteExport(ctx context.Context, events []rundir.RunEvent, out string, stdout io.Writer, key func() (sign.Key, error)) (signed string, err error) {
	lines := func(w io.Writer) error {
		to := bufio.NewWriter(w)
		for _, e := range events {
			line, err := canonical.Encode(e)
			if err != nil {
				return err
			}
			if _, err := to.Write(append(line, '\n')); err != nil {
				return err
			}
		}
		return to.Flush()
	}
	const unsigned = "without a signature"
	if out == "" || out == "-" {
		return unsigned, lines(outfile.Interruptible(ctx, stdout))
	}
	if err := verify.NotWithin("the export", os.DevNull, filepath.Dir(out)); err != nil { // in no run at all
		return "", err
	}
	if strings.HasSuffix(out, linesSuffix) {
		return unsigned, outfile.WriteStream(ctx, out, lines)
	}
	signer, err := key()
	if err != nil {
		return "", err
	}
	data, envelope, err := history.SealExport(events, signer)
	if err != nil {
		return "", err
	}
	return "signed by " + signer.Public().ID(), outfile.WriteNew(ctx, []outfile.File{{Path: out, Data: data}, {Path: out + history.EnvelopeSuffix, Data: envelope}})
}

// Added is the result of an import.
type Added struct {
	Added   int64  `json:"added"`
	Events  int64  `json:"events"` // that are there now
	Evicted int64  `json:"evicted"`
	Store   string `json:"store"`
}

// Import adds the events of exported files, which one of trusted has to have signed, to the imported ones, and signs
// them with key: all files or none. Of more than most events the oldest are removed; 0 is no bound.
func (r *Reader) Import(ctx context.Context, files []string, trusted keyring.Trust, most int64, key func() (sign.Key, error)) (done Added, err error) {
	if err := os.MkdirAll(r.Store.Dir, 0o700); err != nil {
		return done, fmt.Errorf("making a place for imported events: %w", err)
	}
	unlock, err := lockImported(r.Store.Dir)
	if err != nil {
		return done, err
	}
	defer unlock()
	before, err := r.Imported()
	if err != nil {
		return done, err
	}
	done.Store = before.Path()
	var from []history.Source
	for _, name := range files {
		data, x, err := openExport(name, trusted)
		if err != nil {
			return done, err
		}
		done.Added += x.Events
		from = append(from, history.Source{Name: name, Events: convert(ctx, name, data, x)})
	}
	events, err := before.Add(from)
	if repeated := (*history.RepeatedEvent)(nil); errors.As(err, &repeated) {
		return done, exit.New(exit.Failure, fmt.Errorf("%w: nothing is imported", err),
			"an event is imported once: leave out what was imported, or remove it by gaia ledger clear")
	}
	if err != nil {
		return done, err
	}
	done.Evicted = history.Evicted(int64(len(events)), most)
	events = events[done.Evicted:]
	done.Events = int64(len(events))
	signer, err := key()
	if err != nil {
		return done, err
	}
	if err := before.Replace(events, signer); err != nil {
		return done, fmt.Errorf("writing the imported events: %w", err)
	}
	return done, nil
}

// lockImported keeps other processes from changing the imported events.
func lockImported(dir string) (unlock func(), err error) {
	lock := flock.New(filepath.Join(dir, ".imported.lock"))
	if err := lock.Lock(); err != nil {
		return nil, fmt.Errorf("locking the imported events: %w", err)
	}
	return func() { _ = lock.Close() }, nil // which cannot fail in a way that leaves it locked
}

// openExport reads an export and its envelope, which a key that is trusted has to have signed.
func openExport(name string, trusted keyring.Trust) ([]byte, history.Export, error) {
	data, err := regular.ReadUpTo(name, history.MaxExport)
	var envelope []byte
	if err == nil {
		envelope, err = regular.ReadUpTo(name+history.EnvelopeSuffix, history.MaxEnvelope)
	}
	if err != nil {
		return nil, history.Export{}, exit.Usagef("give Parquet files that 'gaia ledger export' wrote, with their "+history.EnvelopeSuffix+" beside them",
			"reading %q: %v", name, err)
	}
	x, signer, err := history.OpenEnvelope(name+history.EnvelopeSuffix, envelope)
	if err == nil {
		err = x.Check(name, data)
	}
	if err != nil {
		return nil, history.Export{}, err
	}
	if _, err := trusted.Of(signer); err != nil {
		e := *exit.Of(err)
		e.Err = fmt.Errorf("%s: %w", name, e.Err)
		return nil, history.Export{}, &e
	}
	return data, x, nil
}

// ConvertCommand is the command of this program that runs history.Convert with limits of memory.
const ConvertCommand = "convert-attempts"

const convertTime = 2 * time.Minute

// convert gives the events of an export, which a process with limits of memory and time reads.
func convert(ctx context.Context, name string, data []byte, x history.Export) iter.Seq2[rundir.RunEvent, error] {
	return func(yield func(rundir.RunEvent, error) bool) {
		executable, err := os.Executable()
		if err != nil {
			yield(rundir.RunEvent{}, fmt.Errorf("finding the program's own file: %w", err))
			return
		}
		limited, cancel := context.WithTimeout(ctx, convertTime)
		defer cancel()
		cmd := exec.CommandContext(limited, executable, ConvertCommand)
		cmd.Env = []string{}
		cmd.Stdin = bytes.NewReader(data)
		cmd.WaitDelay = time.Second
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			yield(rundir.RunEvent{}, fmt.Errorf("starting the reader of %q: %w", name, err))
			return
		}
		history.Converted(name, out, x)(func(e rundir.RunEvent, err error) bool {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return yield(e, err) && err == nil
		})
		cancel()
		_ = cmd.Wait() // its lines say all
	}
}

// Cleared is the result of removing imported events.
type Cleared struct {
	Removed int64  `json:"removed"` // events; 0 also if they could not be counted
	Store   string `json:"store"`
}

// Clear removes all imported events, also those that do not verify, if sure agrees. It returns nothing in what if sure
// did not, and otherwise what was done.
func (r *Reader) Clear(sure func(do string) (bool, error)) (done Cleared, what string, err error) {
	done.Store = history.Imported{Dir: r.Store.Dir}.Path()
	if _, err := os.Stat(done.Store); r.Store.Dir == "" || errors.Is(err, fs.ErrNotExist) {
		return done, "nothing was imported", nil
	}
	unlock, err := lockImported(r.Store.Dir)
	if err != nil {
		return done, "", err
	}
	defer unlock()
	what = "imported events that do not verify"
	if m, err := r.Imported(); err == nil {
		done.Removed = m.Events
		what = view.Count(int(done.Removed), "imported event")
	}
	if yes, err := sure("remove " + what); err != nil || !yes {
		return done, "", err
	}
	if err := history.ClearImported(r.Store.Dir); err != nil {
		return done, "", fmt.Errorf("removing the imported events: %w", err)
	}
	return done, "removed " + what, nil
}
