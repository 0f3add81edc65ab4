package agentdir

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/gaia-harness/gaia/audit/probe"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/gaia-harness/gaia/internal/unpack"
	"github.com/gaia-harness/gaia/internal/view"
	"golang.org/x/sync/errgroup"
)

// Target is a task of the run whose traces are looked for: its id, question and gold.
type Target = probe.Target

const (
	probeTime   = 5 * time.Minute
	mappedBytes = 4 << 20  // a larger file is not read into memory
	heldBytes   = 16 << 20 // of what is unpacked, in each file in a file
	noticeBytes = 64 << 20 // folders of more are announced

	unpackedBytes = 64 << 20 // that may be unpacked from a file in the first round, whatever its size
	unpackedTimes = 32       // or so many times its size, where that is more
	probedBytes   = 4 << 20  // that are probed for single tasks because of one text, in the first round
)

// bounds are those of a look through all folders.
type bounds struct {
	time    time.Duration
	bytes   int64 // files as they are and what is unpacked from them
	each    int64 // that may be unpacked from a file in the first round, whatever its size
	probed  int   // that are probed for single tasks because of one text in the first round
	workers int
}

// errStopped ends the look at a file when the time is over.
var errStopped = errors.New("the time is over")

// errCostly ends the look at a text in the first round.
var errCostly = errors.New("it names too many tasks too often")

// Probe looks through the files of an own agent's folders, which listed names, for traces of the tasks of a run: ids, questions,
// digests of both, and gold answers by them or in lists ([probe.Survey] has the rules). Archives, compressed files, databases
// and what [unpack.Walk] knows else are looked through, and so are the names of files and the targets of links. All packages are
// looked through alike, also those that a lock file pins.
//
// It stops after five minutes, or when it has looked through plan.MaxAgentBytes, unpacked. Of these every file has its own size.
// A file that unpacks to more than 32 times its size, and more than 64 MiB, is looked through again when all others are done,
// with all that is left: what it unpacks to takes nothing from them. So is one that names many tasks over and over. It returns the plan with counts alone. Several files, and several
// parts of a file, are looked through at once; within the bounds the result does not depend on their order. A file that has not
// the size and digest that are listed when its look begins is an *Error. Large folders are announced to notice.
func Probe(ctx context.Context, own plan.AgentPlan, listed []byte, tasks []Target, notice io.Writer) (*plan.AgentPlan, error) {
	return probeWithin(ctx, own, listed, tasks, notice, bounds{probeTime, plan.MaxAgentBytes, unpackedBytes, probedBytes, runtime.GOMAXPROCS(0)})
}

func probeWithin(ctx context.Context, own plan.AgentPlan, listed []byte, tasks []Target, notice io.Writer, within bounds) (*plan.AgentPlan, error) {
	var files []*look
	size := int64(0)
	for line := range bytes.Lines(listed) {
		var f plan.AgentFile
		if err := canonical.Decode(bytes.TrimSuffix(line, []byte("\n")), &f); err != nil {
			return nil, fmt.Errorf("%s: %w", plan.AgentFilesFile, err)
		}
		files, size = append(files, &look{AgentFile: f, line: len(files) + 1}), size+f.Bytes
	}
	if size > noticeBytes {
		fmt.Fprintf(notice, "gaia: looking for the tasks in the agent's folders: %s, %d MiB\n", view.Count(len(files), "file"), size>>20)
	}
	slices.SortStableFunc(files, func(a, b *look) int { return cmp.Compare(b.Bytes, a.Bytes) }) // the longest work first
	p := &prober{survey: probe.NewSurvey(tasks), all: probe.NewSightings(), left: within.bytes - size, bounds: within, workers: make(chan struct{}, within.workers)}
	for _, f := range own.Folders {
		root, err := os.OpenRoot(f.Path)
		if err != nil {
			return nil, &Error{f.Path, fmt.Sprintf("cannot be read: %v", regular.Cause(err)), "let yourself read it"}
		}
		defer root.Close()
		p.roots = append(p.roots, root)
	}
	timed, stop := context.WithTimeoutCause(ctx, within.time, errStopped)
	defer stop()
	round := func(files []*look, workers int) error {
		group, ctx := errgroup.WithContext(timed)
		group.SetLimit(workers)
		for _, l := range files {
			group.Go(func() error {
				if err := p.file(ctx, l); !errors.Is(err, errStopped) {
					return err
				}
				return nil
			})
		}
		return group.Wait()
	}
	err := round(files, within.workers)
	if again := p.again; err == nil {
		p.last = true
		err = round(again, 1)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	if errors.Is(context.Cause(timed), errStopped) {
		p.out.Stopped = "time"
	}
	// Count the tasks, and keep the files that have most of them.
	out := p.out
	out.Answers, out.IDs, out.Listed, out.Questions = len(p.all.Answers), len(p.all.IDs), len(p.all.Listed), len(p.all.Questions)
	slices.SortFunc(out.Found, func(a, b plan.AgentFound) int {
		return cmp.Or(cmp.Compare(b.Answers, a.Answers), cmp.Compare(b.Listed, a.Listed), cmp.Compare(b.Questions, a.Questions), cmp.Compare(b.IDs, a.IDs), a.Line-b.Line)
	})
	out.Found = out.Found[:min(len(out.Found), plan.MostAgentFound)]
	slices.SortFunc(out.Found, func(a, b plan.AgentFound) int { return a.Line - b.Line })
	own.Probed = &out
	return &own, nil
}

// prober gathers what is found in all files.
type prober struct {
	survey  *probe.Survey
	roots   []*os.Root
	bounds  bounds
	workers chan struct{} // that are at work, at most its capacity
	last    bool          // the second round

	mu    sync.Mutex
	all   probe.Sightings
	left  int64   // bytes that may be unpacked
	again []*look // of the second round
	out   plan.AgentProbe
}

// look is that at one file, whose line of the list has a number.
type look struct {
	plan.AgentFile
	line   int
	check  func() error
	told   unpack.Told
	others errgroup.Group // parts that other workers look at

	mu     sync.Mutex
	found  probe.Sightings
	unread int
	costly bool
}

// file looks through one file.
func (p *prober) file(ctx context.Context, l *look) error {
	p.workers <- struct{}{}
	defer func() { <-p.workers }()
	l.check = func() error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return nil
	}
	err := l.check()
	if err != nil && !p.last {
		return err
	}
	if !p.last {
		l.found = probe.NewSightings()
	}
	again := false
	if err == nil {
		err = p.text(l, l.Path+"\n"+l.Link+"\n")
	}
	if err == nil && l.Link == "" && l.Bytes > 0 {
		again, err = p.content(l)
	}
	if later := l.others.Wait(); err == nil {
		err = later
	}
	if err != nil && !errors.Is(err, errStopped) {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if again || l.costly {
		p.again, l.unread, l.costly = append(p.again, l), 0, false
	} else {
		p.left -= max(0, l.told.Bytes-l.Bytes)
		p.add(l, err == nil)
		l.found = probe.Sightings{}
	}
	return err
}

// content looks through the bytes of a file. Again says that it unpacks to too much for the first round.
func (p *prober) content(l *look) (again bool, err error) {
	place := filepath.Join(p.roots[l.Folder].Name(), l.Path)
	p.mu.Lock()
	left := max(0, p.left)
	p.mu.Unlock()
	data, release, err := open(p.roots[l.Folder], l.AgentFile)
	if err != nil {
		return false, &Error{place, fmt.Sprintf("cannot be read: %v", regular.Cause(err)), "let yourself read it, or take it out of the folder"}
	}
	defer release()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			if _, fault := r.(interface{ Addr() uintptr }); !fault {
				panic(r)
			}
			err = &Error{place, "cannot be read: it changes while it is read", "let nothing write to it"}
		}
	}()
	if canonical.Digest(data) != l.SHA256 {
		return false, &Error{place, "is not as it was listed", "let nothing write to it"}
	}
	most := left
	if !p.last {
		most = min(left, max(p.bounds.each, unpackedTimes*l.Bytes))
	}
	l.told, err = unpack.Walk(l.Path, data, unpack.Limits{Bytes: l.Bytes + most, Entries: plan.MaxAgentFiles, Whole: heldBytes, Check: l.check}, func(at, text string) error {
		if err := l.check(); err != nil {
			return err
		}
		name := at // the name of a file, or of one in an archive, may be the id of a task, and the text the answer
		if at != l.Path {
			name = path.Base(at)
		}
		text = name + "\n" + text
		select {
		case p.workers <- struct{}{}:
			l.others.Go(func() error {
				defer func() { <-p.workers }()
				return p.text(l, text)
			})
			return nil
		default:
			return p.text(l, text)
		}
	})
	switch {
	case l.told.Stopped == "bytes" && most < left:
		return true, err
	case l.told.Stopped == "bytes":
		p.mu.Lock()
		defer p.mu.Unlock()
		p.out.Stopped = "bytes"
	case l.told.Stopped != "":
		l.told.Unread++
	}
	return false, err
}

// text looks at a text. It looks as if there were no other, so that it is the same whatever was found before. A panic costs the text.
func (p *prober) text(l *look, text string) error {
	found := probe.NewSightings()
	defer func() {
		r := recover()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.found.Add(found)
		if r != nil {
			l.unread++
		}
	}()
	probed := 0
	err := p.survey.Look(text, found, func(n int) error {
		if probed += n; probed > p.bounds.probed && !p.last {
			return errCostly
		}
		return l.check()
	})
	if errors.Is(err, errCostly) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.costly = true
		return nil
	}
	return err
}

// open returns the bytes of a file, which must be as they were listed. They are in memory or mapped, until release.
func open(root *os.Root, f plan.AgentFile) (data []byte, release func(), err error) {
	in, err := root.OpenFile(filepath.FromSlash(f.Path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() || info.Size() != f.Bytes {
		return nil, nil, errors.New("it is not as it was listed")
	}
	if f.Bytes > mappedBytes {
		data, err = syscall.Mmap(int(in.Fd()), 0, int(f.Bytes), syscall.PROT_READ, syscall.MAP_PRIVATE)
		return data, func() { _ = syscall.Munmap(data) }, err
	}
	data = make([]byte, f.Bytes)
	_, err = io.ReadFull(in, data)
	return data, func() {}, err
}

// add takes in what a file has, also one that was not looked through to its end.
func (p *prober) add(l *look, whole bool) {
	p.out.Bytes = min(p.out.Bytes+l.told.Bytes, plan.MaxAgentBytes)
	p.out.Unread += l.told.Unread + l.told.Opaque + l.unread
	if whole {
		p.out.Files++
		if l.told.Native {
			p.out.Native++
		}
	}
	p.all.Add(l.found)
	f := plan.AgentFound{Answers: len(l.found.Answers), IDs: len(l.found.IDs), Line: l.line, Listed: len(l.found.Listed), Questions: len(l.found.Questions)}
	if f != (plan.AgentFound{Line: l.line}) {
		p.out.Found = append(p.out.Found, f)
	}
}

// SystemDigest returns the digest of the names and versions of the packages of a machine, a line each, sorted; "" where it has no
// list of dpkg or apk. Root is "/" but in tests.
func SystemDigest(root string) string {
	for file, keys := range map[string][3]string{"var/lib/dpkg/status": {"Package: ", "Version: ", "Status: install ok installed"}, "lib/apk/db/installed": {"P:", "V:", ""}} {
		list, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			continue
		}
		var lines []string
		for block := range bytes.SplitSeq(list, []byte("\n\n")) {
			name, version, installed := "", "", keys[2] == ""
			for line := range bytes.Lines(block) {
				line = bytes.TrimSpace(line)
				if rest, ok := bytes.CutPrefix(line, []byte(keys[0])); ok {
					name = string(rest)
				} else if rest, ok := bytes.CutPrefix(line, []byte(keys[1])); ok {
					version = string(rest)
				}
				installed = installed || string(line) == keys[2]
			}
			if name != "" && installed {
				lines = append(lines, name+" "+version+"\n")
			}
		}
		slices.Sort(lines)
		var all bytes.Buffer
		for _, line := range slices.Compact(lines) {
			all.WriteString(line)
		}
		return canonical.Digest(all.Bytes())
	}
	return ""
}
