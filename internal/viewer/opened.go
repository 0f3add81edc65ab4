package viewer

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gaia-harness/gaia/internal/overview"
	"github.com/gaia-harness/gaia/internal/transcript"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/visible"
	"github.com/gaia-harness/gaia/trajectory"
)

// opened is a run that is read for those who look at it.
type opened struct {
	s         *Server
	id, place string
	serial    uint64 // distinguishes it from the same run opened earlier
	ctx       context.Context
	cancel    context.CancelFunc
	users     int       // runs.mu
	used      time.Time // runs.mu; zero while it was never used

	ready    chan struct{} // closed when what follows is set
	evidence *verify.Evidence
	files    fs.FS
	journal  *transcript.Journal // nil: err says why, or the package is public
	err      error               // it cannot be read at all
	caughtUp chan struct{}       // closed when the journal was read to its end, or cannot be

	mu       sync.Mutex
	check    overview.Check
	changes  uint64 // of check
	followed bool   // the journal is not read any more
	seen     stamp  // of what was read, once followed
	surveyed time.Time
	changed  bool

	golden sync.Mutex // held while expected answers are read
	gold   map[string]string
	goldOf string // version of the run that they were read for
	goldAt time.Time
	noGold error // why there are none
}

// read reads the run, and keeps its files until it is closed.
func (o *opened) read() {
	o.err = o.guarded(o.begin)
	close(o.ready)
	o.follow()
	if o.evidence != nil {
		<-o.ctx.Done()
		o.evidence.Close()
	}
}

// follow follows the run until it ends, and then verifies and audits it.
func (o *opened) follow() {
	caughtUp := sync.OnceFunc(func() { close(o.caughtUp) })
	defer caughtUp()
	if o.err != nil {
		o.end(overview.Check{})
		return
	}
	if o.journal == nil { // it was verified
		o.end(o.check)
		return
	}
	err := o.guarded(func() error {
		return o.journal.Follow(func() error {
			caughtUp()
			t := time.NewTimer(followEvery)
			defer t.Stop()
			select {
			case <-o.ctx.Done():
				return o.ctx.Err()
			case <-t.C:
				return nil
			}
		})
	})
	c := overview.Check{}
	if errors.Is(err, errPanic) {
		c = overview.Check{Done: true, Err: err}
	}
	o.end(c)
	caughtUp()
	if err == nil { // else the journal has the fault
		o.verify()
	}
}

// errPanic says that a mistake of this program kept a run from being read.
var errPanic = errors.New("reading the run failed: a defect of gaia, which the viewer has logged")

// guarded calls f, and reports a panic of it as errPanic: a run is from outside, and one that was not foreseen must not
// end the server of all others.
func (o *opened) guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errPanic
			o.s.c.Log(visible.Text(fmt.Sprintf("reading %s: panic: %v\n%s", o.place, p, debug.Stack())))
		}
	}()
	return f()
}

// begin opens the files.
func (o *opened) begin() (err error) {
	if o.evidence, err = verify.Open(o.place); err != nil {
		o.evidence = nil
		return err
	}
	o.evidence.Files = until{o.ctx, o.evidence.Files}
	o.files = o.evidence.Files
	if o.evidence.IsPublic() {
		o.check, err = overview.PublicCheck(o.evidence, o.s.c.Verify)
		return err
	}
	o.journal, err = transcript.Open(o.files)
	return err
}

// end notes that the journal is not read any more.
func (o *opened) end(c overview.Check) {
	seen := stampOf(o.place)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.followed, o.seen, o.check = true, seen, c
	o.changes++
}

// How long a run that has recorded its end may take to write what derives from its journal.
const sealTime = 10 * time.Second

// verify verifies and audits a complete run, when no other one is being verified.
func (o *opened) verify() {
	if !o.evidence.Packaged && !o.await(trajectory.CheckpointFile, sealTime) {
		return
	}
	select {
	case o.s.runs.jobs <- struct{}{}:
	case <-o.ctx.Done():
		return
	}
	defer func() { <-o.s.runs.jobs }()
	seen := stampOf(o.place)
	c := overview.Check{Done: true}
	if err := o.guarded(func() error {
		c = overview.NewCheck(o.place, o.evidence, o.s.c.Verify, o.s.c.Trust)
		return nil
	}); err != nil {
		c.Err = err
	}
	if o.ctx.Err() != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.check, o.seen = c, seen
	o.changes++
}

// await waits until the run has a file, at most for a time. It reports false if the run was closed meanwhile.
func (o *opened) await(name string, most time.Duration) bool {
	for end := time.Now().Add(most); time.Now().Before(end); {
		if _, err := fs.Stat(o.files, name); err == nil {
			return true
		}
		select {
		case <-o.ctx.Done():
			return false
		case <-time.After(followEvery):
		}
	}
	return true
}

// answers returns the expected answers, nil if the server shows none. A run that is being written gets more of them.
func (o *opened) answers() (map[string]string, error) {
	if o.s.c.Gold == nil || o.journal == nil {
		return nil, nil
	}
	version, _ := o.version()
	o.golden.Lock()
	defer o.golden.Unlock()
	if o.goldOf != version && time.Since(o.goldAt) > listEvery {
		o.gold, o.noGold = o.s.c.Gold(o.place)
		o.goldOf, o.goldAt = version, time.Now()
	}
	return o.gold, o.noGold
}

// version is a word that changes with what pages show of the run; over says that it will not change any more, unless
// someone changes the files.
func (o *opened) version() (v string, over bool) {
	read, complete := uint64(0), false
	if o.journal != nil {
		state := o.journal.State()
		read, complete = state.Version, state.Complete
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return fmt.Sprintf("%d.%d.%d", o.serial, read, o.changes), o.followed && (o.check.Done || !complete)
}

// hasChanged reports whether the run was removed, or its files are others than those that were read to their end. It
// looks once in a while.
func (o *opened) hasChanged() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.changed && time.Since(o.surveyed) > surveyEvery {
		o.surveyed = time.Now()
		_, err := os.Lstat(o.place)
		o.changed = errors.Is(err, fs.ErrNotExist) || o.followed && stampOf(o.place) != o.seen
	}
	return o.changed
}

// closeIfUnused ends the reader. runs.mu is held.
func (o *opened) closeIfUnused() {
	if o.users == 0 {
		o.cancel()
	}
}

// stamp changes with the names, sizes and times of what lies in a folder.
type stamp uint64

var stampSeed = maphash.MakeSeed()

func stampOf(place string) stamp {
	var h maphash.Hash
	h.SetSeed(stampSeed)
	add := func(info fs.FileInfo, err error) {
		if err != nil {
			h.WriteString("error")
			return
		}
		fmt.Fprintf(&h, "%q %d %d %v", info.Name(), info.Size(), info.ModTime().UnixNano(), info.Mode())
	}
	add(os.Lstat(place))
	entries, _ := os.ReadDir(place) // none: it is an archive, or gone
	for _, e := range entries {
		add(e.Info())
	}
	return stamp(h.Sum64())
}

// until gives the files of a run until a context ends, so that a reader of a large one ends with it.
type until struct {
	ctx context.Context
	fs  fs.FS
}

func (u until) Open(name string) (fs.File, error) {
	if err := u.ctx.Err(); err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	f, err := u.fs.Open(name)
	if d, ok := f.(fs.ReadDirFile); ok && err == nil {
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return d, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return untilFile{f, u.ctx}, nil
}

func (u until) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(u.fs, name) }
func (u until) ReadLink(name string) (string, error)   { return fs.ReadLink(u.fs, name) }
func (u until) Stat(name string) (fs.FileInfo, error)  { return fs.Stat(u.fs, name) }

type untilFile struct {
	fs.File
	ctx context.Context
}

func (f untilFile) Read(p []byte) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	return f.File.Read(p)
}

func (f untilFile) Seek(offset int64, whence int) (int64, error) {
	s, ok := f.File.(io.Seeker)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return s.Seek(offset, whence)
}
