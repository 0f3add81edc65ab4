// Package sandbox runs programs that see nothing of this machine but what they are given,
// and the tool python in one of them.
//
// A [Sandbox] is bubblewrap's, tried before it is used; it has a filter of system calls and,
// where one can be made, a control group, and a watch from outside ends what uses too much
// (TestSandboxHides, TestPythonEscapes). Only [NewUnsafePython], which a run has to ask for,
// goes without.
package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/gaia-harness/gaia/internal/child"
)

// A Sandbox starts programs that see nothing of this machine but what is given
// to them: no network unless the jail says so, an empty environment, a process table, devices and a
// temporary folder of their own. It is bubblewrap's; where that does not work
// there is no Sandbox.
//
// A filter closes system calls, and a control group bounds memory and processes where
// one can be made. Who starts a program for long watches it all the same.
type Sandbox struct {
	bwrap     string
	hidden    []string
	cgroups   string // where each program gets a control group; "": nowhere
	noCgroups error  // why
}

// Config says where the program bwrap is, and which files and folders of
// this machine no program may see though they lie below what it is given: the
// dataset's cache, run directories, keys, this program itself. What is
// not there yet is hidden once it is.
type Config struct {
	Bwrap  string
	Hidden []string
}

// A Jail is what a program in the sandbox is given besides the system's own
// programs and libraries.
type Jail struct {
	ReadOnly  []string // files and folders, at the places they have outside
	workspace string   // a folder that it may write to, seen as place; "": it works in a folder that is lost with it
	place     string   // "": /workspace
	scratch   int64    // bytes that each of its temporary folders may hold; 0: scratchSize
	Variables []string // "NAME=value" of its environment, besides the sandbox's own
	Network   bool     // this machine's network, with the files that name hosts and certificate authorities
	more      []string // further arguments of bubblewrap, after those for the folders
}

// scratchSize is what /tmp and /dev/shm hold by default: they are memory.
const scratchSize = 64 << 20

// inside is the user and group that programs believe to be. No user has it, so
// that none takes itself for root.
const inside = "65534"

// Unusable says why something that this program can do without cannot be used
// on this machine, and what would fix it.
type Unusable struct{ Why, Remedy string }

func (u *Unusable) Error() string { return u.Why }

// New finds out by trying whether bubblewrap keeps its promise on this
// machine. An error that is [*Unusable] says why not.
func New(ctx context.Context, c Config) (*Sandbox, error) {
	if c.Bwrap == "" {
		return nil, &Unusable{"bubblewrap is not installed", "install bubblewrap 0.8 or later: apt install bubblewrap"}
	}
	if !filepath.IsAbs(c.Bwrap) {
		return nil, fmt.Errorf("the path of bubblewrap is not absolute: %q", c.Bwrap)
	}
	closeInherited()
	s := &Sandbox{bwrap: c.Bwrap}
	for _, p := range c.Hidden {
		at, err := settled(p)
		if err != nil {
			return nil, fmt.Errorf("finding what the sandbox is to hide: %w", err)
		}
		s.hidden = append(s.hidden, at)
	}
	if s.cgroups, s.noCgroups = findCgroups(); s.noCgroups == nil {
		cmd := exec.CommandContext(ctx, c.Bwrap, "--version")
		cmd.Env = []string{}
		if err := (&Program{Cmd: cmd, cgroups: s.cgroups, memory: groupMemory, tasks: groupTasks}).Run(); err != nil {
			s.cgroups, s.noCgroups = "", fmt.Errorf("starting a program in a control group below %s: %w", s.cgroups, err)
		}
	}
	return s, s.probe(ctx)
}

// Limits returns, for people, which limits hold for programs in the sandbox. An
// error that is [*Unusable] says which of them do not, and why.
func (s *Sandbox) Limits() (string, error) {
	watched := fmt.Sprintf("system-call filter: yes; watch: %d GiB of memory, %d processes, %d threads", limitMemory>>30, limitProcesses, limitTasks)
	if s.noCgroups != nil {
		return "", &Unusable{watched + "; cgroup: no, so memory in socket queues is not counted: " + strings.ReplaceAll(s.noCgroups.Error(), "\n", "; "),
			"start gaia in a cgroup of its user: systemd-run --user --scope gaia …"}
	}
	return watched + "; cgroup: yes, below " + s.cgroups, nil
}

// resolved is a path without links.
func resolved(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// settled is resolved for what may not be there yet.
func settled(path string) (string, error) {
	at, err := resolved(path)
	if !errors.Is(err, os.ErrNotExist) || filepath.Dir(path) == path {
		return at, err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	dir, err := settled(filepath.Dir(abs))
	return filepath.Join(dir, filepath.Base(abs)), err
}

// Command prepares a program to be started in the sandbox, by its path outside.
// It and all that it started end with ctx, and with this process. Its streams
// must be pipes or nothing: a file could be opened again, for more than it was
// handed over for.
func (s *Sandbox) Command(ctx context.Context, j Jail, path string, args ...string) *Program {
	layout, err := s.arguments(j)
	cmd := exec.CommandContext(ctx, s.bwrap, append(layout, append([]string{"--", path}, args...)...)...)
	child.Group(cmd)
	// Not bound to this process before bubblewrap itself does that (--die-with-parent): it would end and leave its child
	// waiting for it for ever. What ends in between is the program: its streams and the shim's control socket are closed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = append([]string{}, j.Variables...) // bubblewrap's own can be read by what it starts; its arguments by everybody
	cmd.Err = cmp.Or(err, cmd.Err)
	return &Program{Cmd: cmd, cgroups: s.cgroups, netlink: j.Network, memory: groupMemory, tasks: groupTasks}
}

// arguments are bubblewrap's own. The order counts: what comes later lies on top.
func (s *Sandbox) arguments(j Jail) ([]string, error) {
	size, place := strconv.FormatInt(cmp.Or(j.scratch, scratchSize), 10), cmp.Or(j.place, "/workspace")
	args := []string{"--seccomp", filterFD, "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent",
		"--new-session", "--cap-drop", "ALL", "--uid", inside, "--gid", inside, "--hostname", "sandbox"}
	if j.Network {
		args = append(args, "--share-net")
	}
	if len(j.Variables) == 0 {
		args = append(args, "--clearenv")
	}
	args = append(args, "--setenv", "HOME", "/tmp", "--setenv", "PATH", "/usr/bin:/bin", "--setenv", "LANG", "C.UTF-8",
		"--ro-bind", "/usr", "/usr")
	for _, p := range SystemFolders() {
		if target, err := os.Readlink(p); err == nil {
			args = append(args, "--symlink", target, p)
		} else if _, err := os.Stat(p); err == nil {
			args = append(args, "--ro-bind", p, p)
		}
	}
	optional := []string{"/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"}
	if j.Network {
		optional = slices.Concat(optional, []string{"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"}, authorities())
	}
	for _, p := range optional {
		args = append(args, "--ro-bind-try", p, p)
	}
	args = append(args, "--proc", "/proc", "--dev", "/dev", "--size", size, "--tmpfs", "/dev/shm", "--size", size, "--tmpfs", "/tmp")
	given := []binding{{"/usr", "/usr"}}
	for _, p := range j.ReadOnly {
		from, err := resolved(p)
		if err != nil {
			return nil, fmt.Errorf("giving a program in the sandbox what it needs: %w", err)
		}
		args = append(args, "--ro-bind", from, p)
		given = append(given, binding{from, p})
	}
	if j.workspace != "" {
		from, err := resolved(j.workspace)
		if err != nil {
			return nil, fmt.Errorf("giving a program in the sandbox its workspace: %w", err)
		}
		args = append(args, "--bind", from, place)
		given = append(given, binding{from, place})
	} else {
		args = append(args, "--size", size, "--tmpfs", place)
	}
	args = append(args, j.more...)
	masks, err := s.masks(given)
	if err != nil {
		return nil, err
	}
	args = append(args, masks...)
	// What the system's tables of /proc/sys may be written by is the user outside, who can be root.
	return append(args, "--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", place), nil
}

// authorities are the files and folders with the certificates of those that sign certificates.
func authorities() []string {
	return []string{"/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ca-certificates", "/etc/pki/tls/certs", "/etc/pki/ca-trust"}
}

// SystemFolders are what programs need outside of /usr; most lead into it.
func SystemFolders() []string {
	return []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}
}

// A binding is a file or folder, without links, and where a program sees it.
type binding struct{ from, to string }

// masks are the arguments that cover what is hidden and lies in what is given.
func (s *Sandbox) masks(given []binding) ([]string, error) {
	var args []string
	for _, hidden := range s.hidden {
		info, err := os.Stat(hidden)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("hiding what programs in the sandbox may not see: %w", err)
		}
		for _, g := range given {
			rest, below := Within(g.from, hidden)
			switch at := filepath.Join(g.to, rest); {
			case !below:
			case info.IsDir():
				args = append(args, "--tmpfs", at, "--remount-ro", at)
			default:
				args = append(args, "--ro-bind", "/dev/null", at)
			}
		}
	}
	return args, nil
}

// Within returns where path lies below dir, "." if it is dir.
func Within(dir, path string) (string, bool) {
	rest, err := filepath.Rel(dir, path)
	return rest, err == nil && rest != ".." && !strings.HasPrefix(rest, "../")
}

// filterFD is the descriptor from which bubblewrap reads its system-call filter.
const filterFD = "3"

// A Program is a command that may be one of bubblewrap. Start and Run hand over
// the filter of system calls, where the command asks for one.
type Program struct {
	*exec.Cmd
	netlink   bool       // its filter lets it list the network's interfaces
	files     []*os.File // that it gets after its filter; Start closes them
	cgroups   string     // directory in which it gets a control group; "": it gets none
	memory    int64      // limits of that group
	tasks     int64
	group     cgroup
	exhausted bool // it ended since its group used all of its memory; set by Wait
}

// Start starts the program, or returns an error where it cannot have its filter
// and its group.
func (p *Program) Start() (err error) {
	defer closeAll(p.files)
	if len(p.Args) > 2 && p.Args[1] == "--seccomp" {
		var from, to *os.File
		filter, err := callFilter(p.netlink)
		if err == nil {
			from, to, err = os.Pipe()
		}
		if err == nil {
			defer from.Close()
			_, err = to.Write(filter) // it is far below what a pipe holds
			err = errors.Join(err, to.Close())
		}
		if err != nil {
			return fmt.Errorf("handing over the system-call filter: %w", err)
		}
		p.ExtraFiles = append([]*os.File{from}, p.files...)
	}
	if p.cgroups != "" {
		if p.group, err = newCgroup(p.cgroups, p.memory, p.tasks); err != nil {
			return err
		}
	}
	if err = p.group.start(p.Cmd); err != nil {
		p.group.remove()
	}
	return err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// Wait waits for the end of the program and removes its group.
func (p *Program) Wait() error {
	err := p.Cmd.Wait()
	p.exhausted = p.group != "" && p.group.exhausted()
	p.group.remove()
	return err
}

// Run starts the program and waits for its end.
func (p *Program) Run() error {
	if err := p.Start(); err != nil {
		return err
	}
	return p.Wait()
}
