package sandbox

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gaia-harness/gaia/internal/child"
	"github.com/gaia-harness/gaia/internal/shim"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/trajectory"
)

// Where an own agent finds what it is given.
const (
	AgentAddress      = "127.0.0.1:4180" // of the shim, in the sandbox's own network
	AgentProxyAddress = "127.0.0.1:4181" // of the proxy to the recorded network
	AgentAuthority    = "/run/gaia/ca.pem"
	AgentFolder       = "/work"
	agentShim         = "/run/gaia/gaia"
	agentSocket       = "/run/gaia/socket"
	agentProxySocket  = "/run/gaia/network"
	agentHome         = "/tmp/home"
	agentPath         = "/usr/local/bin:/usr/bin:/bin"
)

// Limits of an own agent besides those of its plan.
const (
	agentThreads = 16      // for each process that it may run
	agentOpen    = 4096    // files open in a process
	agentScratch = 100_000 // temporary files
	ownProcesses = 3       // two of bubblewrap, and the shim

	agentGone  = time.Minute      // after SIGKILL
	agentPipes = 10 * time.Second // for output that is not read
)

// AgentLimits are what all processes of an own agent may use together: bytes of memory, temporary folders included, bytes
// of its working folder, and processes.
type AgentLimits struct {
	Memory, Disk int64
	Processes    int
}

// An AgentCommand is an own agent and what it is given.
type AgentCommand struct {
	Shim      string   // path of the program that is gaia
	Folders   []string // that it can read, at their own places
	Workspace string   // the folder that it can write to, seen as AgentFolder
	Socket    string   // Unix socket that connections to AgentAddress lead to; "": none do

	// Unix socket that connections to AgentProxyAddress lead to, "" if none do, and the certificate, in PEM, of the authority that
	// the agent's clients trust, and no other one. They go without Network.
	ProxySocket string
	Authority   []byte

	Command []string
	Env     []string // "NAME=value", besides HOME, PATH, TMPDIR and LANG
	Stdin   []byte
	Stdout  io.Writer // written to by one goroutine each; it keeps no more than it wants
	Stderr  io.Writer
	Network bool // it has this machine's network, where nothing listens on AgentAddress: the caller serves on a loopback port
	Limits  AgentLimits
	Grace   time.Duration // from SIGTERM to SIGKILL
}

// An AgentResult is how an own agent ended. Ended is one of trajectory.AgentExited and the like, Exit its exit code, or -1
// where a signal ended it, and Why a sentence for people. Confined is what was seen of its sandbox; nil without one, and where
// the agent was not started.
type AgentResult struct {
	Ended    string
	Exit     int
	Why      string
	Confined *trajectory.Confinement
}

// RunAgent runs an own agent and returns when no process is left of the namespace that it ran in. The deadline of ctx is that
// of the agent: it gets SIGTERM, and after c.Grace the whole namespace gets SIGKILL. If ctx is cancelled, it gets that at once.
// An error means that the agent could not be confined or watched, or that ctx was cancelled. The agent is not started unless
// the sandbox is seen to confine it, from inside and from outside.
func (s *Sandbox) RunAgent(ctx context.Context, c AgentCommand) (AgentResult, error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	root, err := os.OpenRoot(c.Workspace)
	if err != nil {
		return AgentResult{}, fmt.Errorf("starting the agent: %w", err)
	}
	defer root.Close()
	control, theirs, err := socketPair()
	if err != nil {
		return AgentResult{}, fmt.Errorf("starting the agent: %w", err)
	}
	defer control.Close()
	program, err := s.agentProgram(own, c, theirs)
	if err != nil {
		return AgentResult{}, fmt.Errorf("starting the agent: %w", err)
	}
	early := &earlyText{to: c.Stderr}
	program.Stderr = early
	if err := program.Start(); err != nil {
		return AgentResult{}, fmt.Errorf("starting the agent: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = program.Wait() // the shim reports how the agent ended
		close(ended)
	}()
	watch := &Watch{pid: program.Process.Pid, confined: true, root: &tools.Folder{Root: root}, CPULeft: math.MaxInt64, own: ownProcesses,
		limits: limits{memory: c.Limits.Memory, disk: c.Limits.Disk, processes: c.Limits.Processes,
			tasks: agentThreads * c.Limits.Processes, files: tools.MaxEntries, scratch: agentScratch}}
	said := bufio.NewReaderSize(control, maxSaid)
	space, err := begin(ctx, control, said, program.Process.Pid, c.Network)
	if err != nil {
		cancel()
		<-ended
		if errors.Is(ctx.Err(), context.Canceled) {
			return AgentResult{Exit: -1}, ctx.Err()
		}
		if text := early.String(); text != "" && !errors.As(err, new(*Unusable)) {
			return AgentResult{}, fmt.Errorf("starting the agent: %w", refused(text, err))
		}
		return AgentResult{}, fmt.Errorf("starting the agent: %w", err)
	}
	defer space.close()

	result := supervise(ctx, c.Grace, ended, watch.look, func() { _, _ = control.Write([]byte{shim.Terminate}) })
	space.kill()
	cancel()
	err = space.gone(agentGone)
	if err == nil {
		err = space.count()
	}
	if err != nil {
		return AgentResult{Ended: cmp.Or(result.Ended, trajectory.AgentExited), Exit: -1, Confined: &space.confined}, err
	}
	<-ended
	_ = control.SetReadDeadline(time.Time{}) // nothing is left that could write to it
	text, _ := said.ReadSlice('\n')
	end := agentEnd(strings.TrimSuffix(string(text), "\n"))
	end.Confined = &space.confined
	if program.exhausted {
		end.Ended, end.Why = trajectory.AgentMemory, "stopped: it used all memory of its control group"
	}
	return end.after(ctx, result)
}

const timeOver = "stopped: its time was over"

// supervise returns once the agent has ended, or is to be killed: then the result says why. It asks look now and then
// whether the agent uses too much, more often where it uses much, and terminate sends SIGTERM.
func supervise(ctx context.Context, grace time.Duration, ended <-chan struct{}, look func() (kind, why string, much bool), terminate func()) (r AgentResult) {
	timer := time.NewTimer(watchEvery)
	defer timer.Stop()
	deadline, kill := ctx.Done(), make(<-chan time.Time)
	for {
		select {
		case <-ended:
			return r
		case <-timer.C:
			kind, why, much := look()
			switch {
			case kind != "" && r.Ended == "":
				return AgentResult{Ended: kind, Why: why}
			case kind != "":
				return r
			case much:
				timer.Reset(watchEvery)
			default:
				timer.Reset(agentEvery)
			}
		case <-deadline:
			r = AgentResult{Ended: trajectory.AgentDeadline, Why: timeOver}
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return r
			}
			terminate()
			deadline, kill = nil, time.After(grace)
		case <-kill:
			r.Why += fmt.Sprintf(", and it did not end within %v of SIGTERM", grace)
			return r
		}
	}
}

// after returns how the agent ended, where it was perhaps killed for a reason before.
func (r AgentResult) after(ctx context.Context, killed AgentResult) (AgentResult, error) {
	if killed.Ended != "" {
		r.Ended, r.Why = killed.Ended, killed.Why
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return r, ctx.Err()
	}
	return r, nil
}

// agentProgram prepares bubblewrap with the shim and the agent. The program has control, which is closed where there is none.
func (s *Sandbox) agentProgram(ctx context.Context, c AgentCommand, control *os.File) (_ *Program, err error) {
	files := []*os.File{control} // after the filter, which is 3
	defer func() {
		if err != nil {
			closeAll(files)
		}
	}()
	if c.Network && (c.ProxySocket != "" || len(c.Authority) > 0) {
		return nil, errors.New("an agent has this machine's network or the recorded one, and not both")
	}
	// The program is started by its descriptor and lies nowhere, since it holds the gold answers of the built-in tasks. To
	// other processes the link leads to a descriptor of their own.
	executable, err := os.Open(c.Shim)
	if err != nil {
		return nil, err
	}
	files = append(files, executable)
	more := []string{"--dir", agentHome, "--symlink", "/proc/self/fd/5", agentShim}
	args := []string{shim.Command, "-control", "4", "-self", "5", "-limits", agentRlimits(c.Limits)}
	if c.Socket != "" {
		more = append(more, "--ro-bind", c.Socket, agentSocket)
		if !c.Network {
			args = append(args, "-port", AgentAddress+"="+agentSocket)
		}
	}
	if c.ProxySocket != "" {
		more = append(more, "--ro-bind", c.ProxySocket, agentProxySocket)
		args = append(args, "-port", AgentProxyAddress+"="+agentProxySocket)
	}
	for _, folder := range append([]string{"/", "/usr"}, c.Folders...) {
		args = append(args, "-folder", folder)
	}
	texts := [][2]string{
		{"/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nagent:x:" + inside + ":" + inside + ":agent:" + agentHome + ":/bin/sh\n"},
		{"/etc/group", "root:x:0:\nagent:x:" + inside + ":\n"},
	}
	if !c.Network {
		texts = append(texts, [2]string{"/etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"})
	}
	switch {
	case len(c.Authority) > 0:
		trusted, links, err := trust(c.Authority)
		if err != nil {
			return nil, err
		}
		texts, more = append(texts, trusted...), append(more, links...)
	case !c.Network:
		for _, p := range authorities() {
			more = append(more, "--ro-bind-try", p, p)
		}
	}
	for _, t := range texts {
		from, err := filled(t[1])
		if err != nil {
			return nil, err
		}
		more = append(more, "--ro-bind-data", strconv.Itoa(4+len(files)), t[0])
		files = append(files, from)
	}
	for name, value := range map[string]string{"HOME": agentHome, "PATH": agentPath, "TMPDIR": "/tmp"} {
		more = append(more, "--setenv", name, value)
	}
	jail := Jail{ReadOnly: c.Folders, workspace: c.Workspace, place: AgentFolder, scratch: c.Limits.Memory,
		Variables: c.Env, Network: c.Network, more: more}
	program := s.Command(ctx, jail, agentShim, append(append(args, "--"), c.Command...)...)
	program.files, program.netlink = files, true
	program.memory, program.tasks = c.Limits.Memory+c.Limits.Memory/16, int64(2*agentThreads*c.Limits.Processes)
	program.Stdin, program.Stdout, program.WaitDelay = bytes.NewReader(c.Stdin), struct{ io.Writer }{c.Stdout}, agentPipes
	return program, nil
}

// filled returns a pipe that holds a text, which is below what a pipe holds.
func filled(text string) (*os.File, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	_, err = to.WriteString(text)
	return from, errors.Join(err, to.Close())
}

// begin waits until the shim is ready, opens the namespace that it is in, and has it start the agent if the sandbox is seen to
// confine it.
func begin(ctx context.Context, control *os.File, said *bufio.Reader, bwrap int, network bool) (*namespace, error) {
	_ = control.SetReadDeadline(time.Now().Add(startTime))
	stop := context.AfterFunc(ctx, func() { _ = control.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	line, err := said.ReadString('\n')
	seen := strings.Fields(line)
	if err == nil && (len(seen) == 0 || seen[0] != shim.Ready) {
		err = fmt.Errorf("the shim says %q", line)
	}
	if err != nil {
		return nil, fmt.Errorf("waiting for the shim: %w", err)
	}
	space, err := openNamespace(bwrap)
	if err == nil {
		err = space.check(seen[1:], network)
	}
	if err == nil {
		_, err = control.Write([]byte{shim.Start})
	}
	if err != nil {
		return nil, errors.Join(err, space.close())
	}
	return space, nil
}

// maxSaid bounds what the shim may say, in bytes.
const maxSaid = 4 << 10

// agentEnd reads what the shim said of the agent's end, "" where it said nothing.
func agentEnd(said string) AgentResult {
	if why, not := strings.CutPrefix(said, shim.NotRun+" "); not {
		return AgentResult{Ended: trajectory.AgentNotStarted, Exit: -1, Why: "its program could not be run: " + tools.Clipped(why)}
	}
	word, rest, _ := strings.Cut(said, " ")
	switch number, err := strconv.Atoi(rest); {
	case word == shim.Exited && err == nil && number >= 0:
		return AgentResult{Ended: trajectory.AgentExited, Exit: number, Why: fmt.Sprintf("it exited with code %d", number)}
	case word == shim.Signalled && err == nil:
		return AgentResult{Ended: trajectory.AgentExited, Exit: -1, Why: fmt.Sprintf("signal %d ended it: %v", number, syscall.Signal(number))}
	}
	return AgentResult{Ended: trajectory.AgentExited, Exit: -1, Why: "it ended the shim that started it"}
}

// earlyText passes on what is written to it, and keeps the beginning: what bubblewrap says where it starts nothing.
type earlyText struct {
	to   io.Writer
	mu   sync.Mutex
	text []byte
}

func (e *earlyText) Write(p []byte) (int, error) {
	e.mu.Lock()
	e.text = append(e.text, p[:min(len(p), maxSaid-len(e.text))]...)
	e.mu.Unlock()
	return e.to.Write(p)
}

func (e *earlyText) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return string(e.text)
}

// RunAgentUnconfined runs an own agent without a sandbox, in a process group that is killed at its end: it has this
// machine's files and network, and only its time is limited. Its working folder is c.Workspace, and it has no shim: c.Env
// says where gaia listens.
func RunAgentUnconfined(ctx context.Context, c AgentCommand) (AgentResult, error) {
	home, err := os.MkdirTemp("", "gaia-agent-")
	if err != nil {
		return AgentResult{}, fmt.Errorf("starting the agent: %w", err)
	}
	defer os.RemoveAll(home)
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	cmd := exec.CommandContext(own, c.Command[0], c.Command[1:]...)
	child.Group(cmd)
	cmd.Env = append([]string{"PATH=" + agentPath, "LANG=C.UTF-8", "HOME=" + home, "TMPDIR=" + home}, c.Env...)
	cmd.Dir, cmd.WaitDelay = filepath.Clean(c.Workspace), 2*time.Second // for pipes that its children hold open
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(c.Stdin), struct{ io.Writer }{c.Stdout}, struct{ io.Writer }{c.Stderr}
	if err := cmd.Start(); err != nil {
		return AgentResult{Ended: trajectory.AgentNotStarted, Exit: -1, Why: "its program could not be run: " + tools.Clipped(err.Error())}, nil
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its state says how it ended
		close(ended)
	}()
	result := supervise(ctx, c.Grace, ended, func() (string, string, bool) { return "", "", false },
		func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) })
	cancel()
	<-ended
	child.Kill(cmd)
	said := fmt.Sprint(shim.Exited, " ", cmd.ProcessState.ExitCode())
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		said = fmt.Sprint(shim.Signalled, " ", int(status.Signal()))
	}
	return agentEnd(said).after(ctx, result)
}

// bundles are the files of certificates that clients read, of several systems. With the recorded network each is a link to
// AgentAuthority.
func bundles() []string {
	return []string{
		"/etc/ssl/certs/ca-certificates.crt",                // Debian
		"/etc/ssl/cert.pem",                                 // Alpine
		"/etc/ssl/ca-bundle.pem",                            // openSUSE
		"/etc/pki/tls/cert.pem",                             // Fedora
		"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora
	}
}

// trust returns the files, with their texts, and the arguments of bubblewrap by which an agent's clients trust an authority and
// no other one. Chromium and Chrome, which read no file of certificates, have it from a policy, which also switches off what
// they would ask by themselves. Debian's Chromium does not start without a file in /etc/chromium.d.
func trust(authority []byte) (texts [][2]string, links []string, err error) {
	block, rest := pem.Decode(authority)
	if block == nil || len(rest) > 0 {
		return nil, nil, errors.New("the certificate authority is not one certificate in PEM")
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return nil, nil, err
	}
	policy, err := json.Marshal(map[string]any{"CACertificates": [][]byte{block.Bytes}, "BrowserNetworkTimeQueriesEnabled": false,
		"ComponentUpdatesEnabled": false, "SpellcheckEnabled": false})
	texts = [][2]string{{AgentAuthority, string(authority)}, {"/etc/chromium.d/gaia", ""}}
	for _, place := range []string{"/etc/chromium", "/etc/opt/chrome"} {
		texts = append(texts, [2]string{place + "/policies/managed/gaia.json", string(policy)})
	}
	links = []string{"--ro-bind-try", "/etc/fonts", "/etc/fonts"}
	for _, p := range bundles() {
		links = append(links, "--symlink", AgentAuthority, p)
	}
	return texts, links, err
}
