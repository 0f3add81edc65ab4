// Package shim is the program that starts an own agent inside of its sandbox.
//
// It listens on loopback ports and copies each connection to a Unix socket of the attempt, so that an agent needs no more
// than the base URL of an API, and perhaps a proxy. Before it starts the agent it looks how the sandbox confines it, and says
// that. The agent is its child, with the same standard streams and environment, and it exits as the agent did. It holds no
// secret and no authority: what it can do, the agent can do on the sockets itself.
package shim

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Command is the hidden command of gaia that is the shim.
const Command = "agent-shim"

// What is said over the control socket: gaia sends one byte at a time, the shim lines.
const (
	Start     = 'g' // gaia: start the agent
	Terminate = 't' // gaia: send SIGTERM to the agent's process group

	Ready     = "ready"       // the shim: it listens, and waits for Start; with what it sees of its sandbox
	NotRun    = "not started" // with the reason
	Exited    = "exited"      // with the exit code
	Signalled = "signalled"   // with the number of the signal that ended the agent
)

// What the shim can say that it sees of its sandbox.
const (
	Alone        = "alone"         // there are no processes but the first and the shim
	Isolated     = "isolated"      // there is no route to a public address
	Filtered     = "filtered"      // system calls are filtered
	NoPrivileges = "no-privileges" // it has none, and can gain none
	ReadOnly     = "read-only"     // it cannot write to any of its folders
)

// Exit codes of the shim where the agent has none.
const (
	exitUsage  = 125
	exitNotRun = 126
)

// Main runs the shim with the arguments that follow its command and the environment that the agent gets, and returns the exit code of the agent, or 128 and the
// number of the signal that ended it.
func Main(args, env []string) int {
	flags := flag.NewFlagSet(Command, flag.ContinueOnError)
	var ports, folders []string
	flags.Func("port", "loopback address on which to listen, and the path of the Unix socket that connections are copied to: `address=path`; may be repeated", appendTo(&ports))
	flags.Func("folder", "`path` of a folder that must not be writable; may be repeated", appendTo(&folders))
	control := flags.Int("control", -1, "`descriptor` of the socket to gaia; without it the agent starts at once")
	self := flags.Int("self", -1, "`descriptor` of this program, which the agent does not get")
	limits := flags.String("limits", "", "limits of the agent's processes: `number=value,…`, as setrlimit numbers them")
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	shut()
	if *self >= 0 {
		_ = syscall.Close(*self)
	}
	code, err := run(ports, folders, *control, *limits, flags.Args(), env)
	if err != nil {
		fmt.Fprintf(os.Stderr, "gaia %s: %v\n", Command, err)
	}
	return code
}

func appendTo(list *[]string) func(string) error {
	return func(s string) error {
		*list = append(*list, s)
		return nil
	}
}

func run(ports, folders []string, control int, limits string, command, env []string) (int, error) {
	if len(command) == 0 {
		return exitUsage, errors.New("there is no command to run")
	}
	for _, port := range ports {
		address, socket, _ := strings.Cut(port, "=")
		l, err := net.Listen("tcp", address)
		if err != nil {
			return exitUsage, err
		}
		go serve(l, socket)
	}
	var gaia *os.File
	if control >= 0 {
		syscall.CloseOnExec(control)
		gaia = os.NewFile(uintptr(control), "control")
		fmt.Fprintln(gaia, Ready, strings.Join(look(folders), " "))
		b := make([]byte, 1)
		if _, err := gaia.Read(b); err != nil || b[0] != Start {
			return exitUsage, errors.New("gaia does not start the agent")
		}
	}
	if err := limit(limits); err != nil {
		return exitUsage, err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		err = explain(cmd.Path, err)
		fmt.Fprintln(gaia, NotRun, strings.ReplaceAll(err.Error(), "\n", " "))
		return exitNotRun, err
	}
	go func() {
		for range signals {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		}
	}()
	go func() {
		for b := make([]byte, 1); gaia != nil; {
			if _, err := gaia.Read(b); err != nil {
				return
			}
			if b[0] == Terminate {
				signals <- syscall.SIGTERM
			}
		}
	}()
	_ = cmd.Wait() // its streams are files, so all that this can report is how the agent ended
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		fmt.Fprintln(gaia, Signalled, int(status.Signal()))
		return 128 + int(status.Signal()), nil
	}
	fmt.Fprintln(gaia, Exited, cmd.ProcessState.ExitCode())
	return cmd.ProcessState.ExitCode(), nil
}

// look returns what is seen of the sandbox. It sends nothing.
func look(folders []string) (seen []string) {
	if proc, err := os.Open("/proc"); err == nil {
		if names, err := proc.Readdirnames(-1); err == nil && !slices.ContainsFunc(names, otherProcess) {
			seen = append(seen, Alone)
		}
		proc.Close()
	}
	v4 := syscall.SockaddrInet4{Port: 53, Addr: [4]byte{192, 0, 2, 1}}
	v6 := syscall.SockaddrInet6{Port: 53, Addr: [16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 1}}
	if noRoute(syscall.AF_INET, &v4) && noRoute(syscall.AF_INET6, &v6) {
		seen = append(seen, Isolated)
	}
	status, _ := os.ReadFile("/proc/self/status") // what is not there is not seen
	privileges, filtered := Status(string(status))
	if !privileges {
		seen = append(seen, NoPrivileges)
	}
	if filtered {
		seen = append(seen, Filtered)
	}
	if !slices.ContainsFunc(folders, writable) {
		seen = append(seen, ReadOnly)
	}
	return seen
}

// Status reads the status of a process as /proc has it: whether the process has privileges or can gain some, and whether its
// system calls are filtered.
func Status(text string) (privileges, filtered bool) {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		found[name] = strings.TrimSpace(value)
	}
	privileges = found["NoNewPrivs"] != "1"
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		privileges = privileges || found[set] != "0000000000000000"
	}
	return privileges, found["Seccomp"] == "2"
}

// otherProcess reports whether a name in /proc is of a process that is neither the first nor this one.
func otherProcess(name string) bool {
	pid, err := strconv.Atoi(name)
	return err == nil && pid != 1 && pid != os.Getpid()
}

// noRoute reports whether there is no route to an address, which is of those for documentation and reaches no one.
func noRoute(family int, to syscall.Sockaddr) bool {
	fd, err := syscall.Socket(family, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return err == syscall.EAFNOSUPPORT
	}
	defer syscall.Close(fd)
	err = syscall.Connect(fd, to) // a datagram socket sends nothing here
	return err == syscall.ENETUNREACH || err == syscall.EADDRNOTAVAIL && family == syscall.AF_INET6
}

// writable reports whether a folder can be written to, or may be, since it cannot be seen.
func writable(folder string) bool {
	const write = 2
	err := syscall.Access(folder, write)
	return err != syscall.EROFS && err != syscall.EACCES
}

// limit sets limits of this process, which its children have, too, and cannot raise.
func limit(limits string) error {
	for entry := range strings.SplitSeq(limits, ",") {
		if entry == "" {
			continue
		}
		name, text, _ := strings.Cut(entry, "=")
		number, err := strconv.Atoi(name)
		value, err2 := strconv.ParseUint(text, 10, 63)
		if err := errors.Join(err, err2); err != nil {
			return fmt.Errorf("reading the limit %q: %w", entry, err)
		}
		var now syscall.Rlimit
		if err := syscall.Getrlimit(number, &now); err != nil {
			return fmt.Errorf("reading limit %d: %w", number, err)
		}
		value = min(value, now.Max)
		if err := syscall.Setrlimit(number, &syscall.Rlimit{Cur: value, Max: value}); err != nil {
			return fmt.Errorf("setting limit %d to %d: %w", number, value, err)
		}
	}
	return nil
}

// explain adds to the error of a program that cannot be run what its first line says.
func explain(path string, err error) error {
	if !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ENOEXEC) {
		return err
	}
	f, cannot := os.Open(path)
	if cannot != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := io.ReadFull(f, head)
	first, _, _ := strings.Cut(string(head[:n]), "\n")
	switch interpreter, script := strings.CutPrefix(first, "#!"); {
	case !script && errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%w: it is no program for this machine, and has no first line that names its interpreter", err)
	case script:
		return fmt.Errorf("%w: its interpreter is %q", err, strings.TrimSpace(interpreter))
	}
	return fmt.Errorf("%w: the loader or a library that it names is not there", err)
}

// acceptPause is how long serve waits where it cannot accept a connection, because too many are open.
const acceptPause = 10 * time.Millisecond

// serve copies each connection to the socket, until the process ends.
func serve(l net.Listener, socket string) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(acceptPause)
			continue
		}
		go forward(conn.(*net.TCPConn), socket)
	}
}

// forward copies both directions of a connection until both have ended. The end of one is passed on as such; when either
// side breaks the connection off, so does forward.
func forward(agent *net.TCPConn, socket string) {
	defer agent.Close()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	gaia := conn.(*net.UnixConn)
	defer gaia.Close()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		switch _, err := io.Copy(gaia, agent); {
		case err == nil:
			_ = gaia.CloseWrite()
		case errors.Is(err, syscall.EPIPE): // gaia reads no more of the request, but may still answer it
			_, _ = io.Copy(io.Discard, agent)
		default:
			gaia.Close()
		}
	}()
	if _, err := io.Copy(agent, gaia); err != nil {
		return
	}
	_ = agent.CloseWrite()
	<-sent
}
