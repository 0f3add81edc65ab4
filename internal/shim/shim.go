// Package shim is the program that starts an own agent inside of its sandbox.
//
// It listens on a loopback port and copies each connection to the Unix socket of the attempt, so that an agent needs no more
// than the base URL of an API. The agent is its child, with the same standard streams and environment, and it exits as the
// agent did. It holds no secret and no authority: what it can do, the agent can do on the socket itself.
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

	Ready     = "ready"       // the shim: it listens, and waits for Start
	NotRun    = "not started" // with the reason
	Exited    = "exited"      // with the exit code
	Signalled = "signalled"   // with the number of the signal that ended the agent
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
	listen := flags.String("listen", "", "loopback `address` on which to listen")
	socket := flags.String("socket", "", "`path` of the Unix socket that connections are copied to")
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
	code, err := run(*listen, *socket, *control, *limits, flags.Args(), env)
	if err != nil {
		fmt.Fprintf(os.Stderr, "gaia %s: %v\n", Command, err)
	}
	return code
}

func run(listen, socket string, control int, limits string, command, env []string) (int, error) {
	if len(command) == 0 {
		return exitUsage, errors.New("there is no command to run")
	}
	if listen != "" {
		l, err := net.Listen("tcp", listen)
		if err != nil {
			return exitUsage, err
		}
		go serve(l, socket)
	}
	var gaia *os.File
	if control >= 0 {
		syscall.CloseOnExec(control)
		gaia = os.NewFile(uintptr(control), "control")
		fmt.Fprintln(gaia, Ready)
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
