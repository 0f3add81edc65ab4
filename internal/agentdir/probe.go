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
)

// errStopped ends the look at a file when the time is over.
var errStopped = errors.New("the time is over")

// Probe looks through the files of an own agent's folders, which listed names, for traces of the tasks of a run: ids, questions,
// digests of both, and gold answers by them or in lists ([probe.Survey] has the rules). Archives, compressed files, databases
// and what [unpack.Walk] knows else are looked through, and so are the names of files and the targets of links. All packages are
// looked through alike, also those that a lock file pins.
//
// It stops when it has looked through plan.MaxAgentBytes, unpacked, or after five minutes. It returns the plan with counts alone. Several
// files are read at once; within the bounds the result does not depend on their order. A file that is not as it is listed is an
// *Error. Large folders are announced to notice.
func Probe(ctx context.Context, own plan.AgentPlan, listed []byte, tasks []Target, notice io.Writer) (*plan.AgentPlan, error) {
	var files []plan.AgentFile
	size := int64(0)
	for line := range bytes.Lines(listed) {
		var f plan.AgentFile
		if err := canonical.Decode(bytes.TrimSuffix(line, []byte("\n")), &f); err != nil {
			return nil, fmt.Errorf("%s: %w", plan.AgentFilesFile, err)
		}
		files, size = append(files, f), size+f.Bytes
	}
	if size > noticeBytes {
		fmt.Fprintf(notice, "gaia: looking for the tasks in the agent's folders: %s, %d MiB\n", view.Count(len(files), "file"), size>>20)
	}
	p := &prober{survey: probe.NewSurvey(tasks), all: probe.NewSightings(), left: plan.MaxAgentBytes}
	for _, f := range own.Folders {
		root, err := os.OpenRoot(f.Path)
		if err != nil {
			return nil, &Error{f.Path, fmt.Sprintf("cannot be read: %v", regular.Cause(err)), "let yourself read it"}
		}
		defer root.Close()
		p.roots = append(p.roots, root)
	}
	timed, stop := context.WithTimeoutCause(ctx, probeTime, errStopped)
	defer stop()
	group, timed := errgroup.WithContext(timed)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, f := range files {
		if timed.Err() != nil {
			break
		}
		group.Go(func() error {
			err := p.file(timed, i+1, f)
			if err == nil || errors.Is(err, errStopped) {
				return nil
			}
			return err
		})
	}
	err := group.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	if errors.Is(context.Cause(timed), errStopped) {
		p.out.Stopped = "time"
	}
	own.Probed = p.result()
	return &own, nil
}

// prober gathers what is found in all files.
type prober struct {
	survey *probe.Survey
	roots  []*os.Root

	mu   sync.Mutex
	all  probe.Sightings
	left int64
	out  plan.AgentProbe
}

// file looks through one file, whose line of the list has a number.
func (p *prober) file(ctx context.Context, line int, f plan.AgentFile) (err error) {
	check := func() error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return nil
	}
	p.mu.Lock()
	left := p.left
	if left <= 0 {
		p.out.Stopped = "bytes"
	}
	p.mu.Unlock()
	if left <= 0 || check() != nil {
		return check()
	}
	found, told := probe.NewSightings(), unpack.Told{}
	if err := p.survey.Look(f.Path+"\n"+f.Link+"\n", found, check); err != nil {
		return err
	}
	if f.Link == "" && f.Bytes > 0 {
		place := filepath.Join(p.roots[f.Folder].Name(), f.Path)
		data, release, err := open(p.roots[f.Folder], f)
		if err != nil {
			return &Error{place, fmt.Sprintf("cannot be read: %v", regular.Cause(err)), "let yourself read it, or take it out of the folder"}
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
		told, err = unpack.Walk(f.Path, data, unpack.Limits{Bytes: left, Entries: plan.MaxAgentFiles, Whole: heldBytes, Check: check}, func(at, text string) error {
			if err := check(); err != nil {
				return err
			}
			return p.survey.Look(named(f.Path, at)+"\n"+text, found, check)
		})
		if err != nil && !errors.Is(err, errStopped) {
			return err
		}
	}
	p.add(line, found, told)
	return check()
}

// named returns the name of a file, or of the file in an archive, in which a text stands: a name may be the id of a task, and
// the text the answer.
func named(file, at string) string {
	if at == file {
		return file
	}
	return path.Base(at)
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

// add takes in what a file has.
func (p *prober) add(line int, found probe.Sightings, told unpack.Told) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left -= told.Bytes
	p.out.Files++
	p.out.Bytes = min(p.out.Bytes+told.Bytes, plan.MaxAgentBytes)
	p.out.Unread += told.Unread
	if told.Native {
		p.out.Native++
	}
	if told.Stopped != "" && p.out.Stopped == "" {
		p.out.Stopped = "bytes"
	}
	p.all.Add(found)
	f := plan.AgentFound{Answers: len(found.Answers), IDs: len(found.IDs), Line: line, Listed: len(found.Listed), Questions: len(found.Questions)}
	if f != (plan.AgentFound{Line: line}) {
		p.out.Found = append(p.out.Found, f)
	}
}

// result counts the tasks, and keeps the files that have most of them.
func (p *prober) result() *plan.AgentProbe {
	out := p.out
	out.Answers, out.IDs, out.Listed, out.Questions = len(p.all.Answers), len(p.all.IDs), len(p.all.Listed), len(p.all.Questions)
	slices.SortFunc(out.Found, func(a, b plan.AgentFound) int {
		return cmp.Or(cmp.Compare(b.Answers, a.Answers), cmp.Compare(b.Listed, a.Listed), cmp.Compare(b.Questions, a.Questions), cmp.Compare(b.IDs, a.IDs), a.Line-b.Line)
	})
	out.Found = out.Found[:min(len(out.Found), plan.MostAgentFound)]
	slices.SortFunc(out.Found, func(a, b plan.AgentFound) int { return a.Line - b.Line })
	return &out
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
