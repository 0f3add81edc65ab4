package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// usage is what a program took.
type usage struct {
	cpu, wall time.Duration
	peak      int64 // bytes; of the largest process
}

// A program is a command in a folder, which is its home too.
type program struct {
	dir  string
	env  []string
	args []string
}

// searched is where programs look for others.
const searched = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// run runs a program to its end and returns what it printed.
func (p program) run() (usage, string, error) { return p.runUntil(nil) }

// runUntil runs a program until it ends, or, if stop is given, until stop returns: then the program and its children are
// killed by a signal that cannot be caught. A program that ends before stop returns is an error.
func (p program) runUntil(stop func() error) (usage, string, error) {
	cmd := exec.Command(p.args[0], p.args[1:]...)
	var out, log bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, &out, &log
	cmd.Env = append([]string{"HOME=" + p.dir, "PATH=" + searched, "LANG=C.UTF-8", "OPENAI_API_KEY=none"}, p.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return usage{}, "", err
	}
	killed := make(chan error, 1)
	if stop != nil {
		go func() { killed <- cmp.Or(stop(), syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)) }()
	}
	err := cmd.Wait()
	u := usage{wall: time.Since(start), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.peak = int64(r.Maxrss) << 10 // KiB on Linux
	}
	if stop != nil && !cmd.ProcessState.Exited() {
		return u, out.String(), <-killed
	}
	if stop != nil && err == nil {
		err = errors.New("ended too early")
	}
	if err != nil {
		return u, "", fmt.Errorf("%q: %w\n%s%s", p.args, err, out.String(), log.String())
	}
	return u, out.String(), nil
}

// size is the number of bytes in the files below a folder, or of a file.
func size(path string) (n int64, err error) {
	err = filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}

// one returns the only path that matches.
func one(pattern string) (string, error) {
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("%d paths match %s, %v", len(found), pattern, err)
	}
	return found[0], nil
}

// fresh makes an empty folder.
func fresh(dir string) error {
	return errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700))
}

// median returns the median of each figure.
func median(all []usage) usage {
	return usage{
		cpu:  middle(all, func(u usage) time.Duration { return u.cpu }),
		wall: middle(all, func(u usage) time.Duration { return u.wall }),
		peak: middle(all, func(u usage) int64 { return u.peak }),
	}
}

func middle[T time.Duration | int64](all []usage, of func(usage) T) T {
	if len(all) == 0 {
		return 0
	}
	var values []T
	for _, u := range all {
		values = append(values, of(u))
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}
