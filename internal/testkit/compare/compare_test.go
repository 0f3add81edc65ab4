package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/testkit/endpoint"
	"github.com/gaia-harness/gaia/internal/testkit/long"
)

// TestMain makes this program a server, or a contender that solves tasks, where it is started as one.
func TestMain(m *testing.M) {
	flag.Parse()
	switch flag.Arg(0) {
	case "serve":
		if err := serve(flag.Args()[1:], os.Stdin, os.Stdout); err != nil {
			panic(err)
		}
	case "solve":
		if err := solve(flag.Arg(1)); err != nil {
			panic(err)
		}
	default:
		os.Exit(long.Main(m))
	}
}

// solve asks for each task that out.jsonl does not have, without a tool, so that the first answer is the last.
func solve(url string) error {
	count, err := strconv.Atoi(flag.Arg(2))
	if err != nil {
		return err
	}
	data, _ := os.ReadFile("out.jsonl") // absent at first
	done, err := answerLines(data)
	if err != nil {
		return err
	}
	out, err := os.OpenFile("out.jsonl", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	for n := range count {
		if _, ok := done[endpoint.ID(n)]; ok {
			continue
		}
		body, err := json.Marshal(map[string]any{"model": endpoint.Model, "messages": []any{map[string]any{"role": "user", "content": endpoint.Tasks{}.Question(n)}}})
		if err != nil {
			return err
		}
		response, err := http.Post(url+"/chat/completions", "application/json", bytes.NewReader(body))
		if err != nil {
			return err
		}
		said, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(out).Encode(map[string]any{"id": endpoint.ID(n), "answer": fmt.Sprint(len(said)), "right": true}); err != nil {
			return err
		}
	}
	return nil
}

func options10(t *testing.T) options {
	t.Helper()
	o := options{tasks: 10, concurrency: 2, rounds: 1, work: t.TempDir()}
	if err := writeTasks(o.work, o.tasks); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestTry: a contender that is killed and resumed repeats what was under way, and has the same answers.
func TestTry(t *testing.T) {
	o := options10(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	begin := func(dir, url string) program { return program{dir: dir, args: []string{self, "solve", url, "10"}} }
	c := contender{name: "self", begin: begin, results: "out.jsonl", answers: answersOfSmolagents,
		resume: func(dir, url string) (program, error) { return begin(dir, url), nil }}
	whole, err := o.try(c, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if whole.counts.Requests != 10 || len(whole.answers) != 10 || right(whole.answers) != 10 || whole.disk == 0 || whole.other != 0 || whole.cpu == 0 || whole.peak < 1<<20 {
		t.Errorf("undisturbed: %+v", whole)
	}
	if whole.counts.Bytes < int64(10*whole.counts.Beside) || whole.counts.Beside < 60 || whole.counts.Beside > 100 {
		t.Errorf("the bodies have %d bytes, %d of one beside its question", whole.counts.Bytes, whole.counts.Beside)
	}
	killed, err := o.try(c, 50*time.Millisecond, 5)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(killed.answers, whole.answers) || killed.counts.Requests < 10 || killed.counts.Requests > 12 {
		t.Errorf("killed after 5 of 10 requests: %d requests, answers %v", killed.counts.Requests, killed.answers)
	}
}

// TestFailedProgram: what a program said is in the error.
func TestFailedProgram(t *testing.T) {
	_, _, err := program{dir: t.TempDir(), args: []string{"sh", "-c", "echo the cause >&2; exit 3"}}.run()
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "the cause") {
		t.Errorf("the error is %v", err)
	}
}

// TestEndsTooEarly: a program that is not there to be killed is an error, not a wait without end.
func TestEndsTooEarly(t *testing.T) {
	s, err := startServer(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = program{dir: t.TempDir(), args: []string{"true"}}.runUntil(func() error {
		_, err := s.counts(1)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "ended too early") {
		t.Errorf("the error is %v", err)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}

// TestMedian: each figure has its own median; of two, it is their mean.
func TestMedian(t *testing.T) {
	all := []usage{{cpu: 9, wall: 1, peak: 5}, {cpu: 2, wall: 7, peak: 6}, {cpu: 3, wall: 2, peak: 1}}
	if got, want := median(all), (usage{cpu: 3, wall: 2, peak: 5}); got != want {
		t.Errorf("median of three: %v, want %v", got, want)
	}
	if got := median(all[:2]); got.wall != 4 {
		t.Errorf("median of two: %v", got)
	}
}

// TestInsert: tables replace those of their mode only; a file with no place for them stays as it is.
func TestInsert(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.md")
	for _, tables := range []string{"| old |\n", "| new |\n"} {
		if err := insert(path, "pair", []byte(tables)); err != nil {
			t.Fatal(err)
		}
	}
	if err := insert(path, "growth", []byte("| other |\n")); err == nil {
		t.Error("a file without the comments got tables")
	}
	want := "<!-- compare pair -->\n| new |\n<!-- end of pair -->\n"
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("the file is %q, %v", got, err)
	}
}
