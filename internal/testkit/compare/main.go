// Command compare measures whole programs on invented tasks, and prints Markdown tables. Each run has a fresh server of
// package endpoint, as a separate process, and a fresh home folder.
//
//	compare three  -gaia FILE -inspect PYTHON -smolagents PYTHON  three programs on the same tasks, also killed and resumed
//	compare pair   OLD NEW                                        two builds of gaia, in turn; medians of all stages
//	compare waits  FILE...                                        builds of gaia at an endpoint that takes 200 ms
//	compare growth FILE                                           one build of gaia at several numbers of tasks
//
// CPU time is user and system time of a program and of the children it waited for. Peak memory is the largest resident
// set of a single process. docs/performance.md has the results.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// options are what the modes share.
type options struct {
	tasks       int
	concurrency int
	rounds      int
	sizes       []int
	commit      string // of the new build
	gaia        string
	inspect     string // python of an environment with inspect-ai; "" = skipped
	smolagents  string // likewise
	short       string // file that gets the short form of the comparison; "" = none
	work        string // folder for everything; removed at the end
}

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("no mode: three, pair, waits or growth"))
	}
	mode, args := os.Args[1], os.Args[2:]
	if mode == "serve" {
		if err := serve(args, os.Stdin, os.Stdout); err != nil {
			fail(err)
		}
		return
	}
	var o options
	flags := flag.NewFlagSet(mode, flag.ExitOnError)
	flags.IntVar(&o.tasks, "tasks", 1000, "number of tasks")
	flags.IntVar(&o.concurrency, "concurrency", 20, "requests at once")
	flags.IntVar(&o.rounds, "rounds", 3, "measurements of each build, of which the median is printed")
	flags.StringVar(&o.commit, "commit", "", "name of the measured state, for the heading")
	flags.StringVar(&o.gaia, "gaia", "", "program gaia")
	flags.StringVar(&o.inspect, "inspect", "", "python with inspect-ai")
	flags.StringVar(&o.smolagents, "smolagents", "", "python with smolagents")
	flags.StringVar(&o.short, "short", "", "file in which mode three replaces the short form of its tables")
	sizes := flags.String("sizes", "100,1000,10000", "numbers of tasks")
	under := flags.String("work", "", "folder in which a temporary folder is made (default: the system's)")
	out := flags.String("o", "", "file that gets the tables too, in the place of those of the same mode")
	_ = flags.Parse(args) // it exits
	if err := o.run(mode, flags.Args(), *sizes, *under, *out); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "compare:", err)
	os.Exit(1)
}

// run does what a mode says, with the tables on standard output and in the file out, if it is named.
func (o options) run(mode string, args []string, sizes, under, out string) (err error) {
	for size := range strings.SplitSeq(sizes, ",") {
		n, err := strconv.Atoi(size)
		if err != nil {
			return fmt.Errorf("-sizes: %w", err)
		}
		o.sizes = append(o.sizes, n)
	}
	if o.work, err = os.MkdirTemp(under, "compare-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(o.work) }()
	for _, path := range append([]*string{&o.work, &o.gaia, &o.inspect, &o.smolagents}, pointers(args)...) {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	var tables bytes.Buffer
	if err := o.measure(io.MultiWriter(os.Stdout, &tables), mode, args); err != nil || out == "" {
		return err
	}
	return insert(out, mode, tables.Bytes())
}

// measure runs a mode.
func (o options) measure(w io.Writer, mode string, args []string) error {
	switch {
	case mode == "three" && o.gaia != "":
		return o.three(w)
	case mode == "pair" && len(args) == 2:
		return o.pair(w, args[0], args[1])
	case mode == "waits" && len(args) > 0:
		return o.waits(w, args)
	case mode == "growth" && len(args) == 1:
		return o.growth(w, args[0])
	}
	return fmt.Errorf("%s with %d arguments: see the comment of this package", mode, len(args))
}

// insert puts tables into a Markdown file, between two comments that name the mode. If there is no file, it makes one.
func insert(path, mode string, tables []byte) error {
	begin, end := "<!-- compare "+mode+" -->\n", "<!-- end of "+mode+" -->"
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = []byte(begin+end+"\n"), nil
	}
	if err != nil {
		return err
	}
	before, rest, begins := bytes.Cut(text, []byte(begin))
	_, after, ends := bytes.Cut(rest, []byte(end))
	if !begins || !ends {
		return fmt.Errorf("%s has no %sand %s", path, begin, end)
	}
	return os.WriteFile(path, slices.Concat(before, []byte(begin), tables, []byte(end), after), 0o644)
}

func pointers(texts []string) (p []*string) {
	for i := range texts {
		p = append(p, &texts[i])
	}
	return p
}
