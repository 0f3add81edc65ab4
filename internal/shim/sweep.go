package shim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// A Sweeper is a process that outlives a gaia which is killed, and ends what it was just starting. Bubblewrap binds its
// processes to the life of gaia only late in their setup: one that is cut off before waits for ever.
type Sweeper struct {
	cmd   *exec.Cmd
	alive io.WriteCloser
	dir   string
}

// StartSweeper starts the program that is gaia as a sweeper for the sandboxes that are given something below dir, which is
// this process's alone.
func StartSweeper(program, dir string) (*Sweeper, error) {
	cmd := exec.Command(program, Command, "-sweep", dir)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = []string{}, "/", &syscall.SysProcAttr{Setpgid: true} // no signal of a terminal is for it
	alive, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting the sweeper of sandboxes: %w", err)
	}
	return &Sweeper{cmd, alive, dir}, nil
}

// Close ends the sweeper when all sandboxes have ended, and removes their folder. A nil Sweeper does nothing.
func (s *Sweeper) Close() error {
	if s == nil {
		return nil
	}
	_, said := s.alive.Write([]byte{orderly})
	return errors.Join(said, s.alive.Close(), s.cmd.Wait(), os.RemoveAll(s.dir))
}

const (
	orderly    = 'q'                    // gaia: nothing is left to be ended
	sweepEvery = 100 * time.Millisecond // after gaia is gone
	sweepRound = 100                    // at most
)

// sweep waits until in ends, which is when the gaia that started it is gone. Unless it said that all is in order, sweep
// ends all of dir until it finds none twice, and removes dir.
func sweep(in io.Reader, dir string) error {
	if said, err := io.ReadAll(io.LimitReader(in, 1)); err != nil || len(said) > 0 {
		return err
	}
	for round, none := 0, 0; round < sweepRound && none < 2; round++ {
		none++
		if EndAll(dir) {
			none = 0
		}
		time.Sleep(sweepEvery)
	}
	return os.RemoveAll(dir)
}

// EndAll kills the processes that have something below dir in their arguments, and reports whether there were any.
func EndAll(dir string) (found bool) {
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range commands {
		command, err := os.ReadFile(name) // it may have ended
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err == nil && pid != os.Getpid() && bytes.Contains(command, []byte("\x00"+dir+"/")) {
			found = true
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return found
}
