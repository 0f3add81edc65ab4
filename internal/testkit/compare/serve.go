package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
)

// serve is the process of a server. It writes its URL, then its counts for each line that it reads: a number of requests,
// for which it waits first.
func serve(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	tasks := flags.Int("tasks", 1, "number of tasks")
	latency := flags.Duration("latency", 0, "time before each answer")
	_ = flags.Parse(args)
	s, err := endpoint.Serve(endpoint.Config{Tasks: endpoint.Tasks{Count: *tasks}, Latency: *latency})
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Fprintln(out, s.URL)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		for s.Counts().Requests < n {
			time.Sleep(time.Millisecond)
		}
		if err := json.NewEncoder(out).Encode(s.Counts()); err != nil {
			return err
		}
	}
	return nil
}

// A server is the driver's side of a server process.
type server struct {
	url string
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startServer starts this program again, as a server.
func startServer(tasks int, latency time.Duration) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "serve", "-tasks", strconv.Itoa(tasks), "-latency", latency.String())
	cmd.Env, cmd.Stderr = []string{}, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{cmd: cmd, in: in, out: bufio.NewReader(out)}
	line, err := s.out.ReadString('\n')
	if err != nil {
		return nil, cmp.Or(err, s.close())
	}
	s.url = strings.TrimSpace(line)
	return s, nil
}

// counts returns what was served, when there were n requests.
func (s *server) counts(n int) (c endpoint.Counts, err error) {
	if _, err := fmt.Fprintln(s.in, n); err != nil {
		return c, err
	}
	line, err := s.out.ReadBytes('\n')
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(line, &c)
}

// close ends the server, which may be waiting for requests.
func (s *server) close() error {
	err := s.cmd.Process.Kill()
	_ = s.cmd.Wait() // it was killed
	return err
}

// writeTasks writes what all programs read: the dataset in GAIA's layout, and the prices.
func writeTasks(dir string, n int) error {
	if err := (endpoint.Tasks{Count: n}).Write(filepath.Join(dir, "data")); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "prices.json"), endpoint.Prices(), 0o644)
}
