package document

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/tools"
)

// peakOf is the most memory that a process has used, in bytes, by its status.
func peakOf(pid string) int64 {
	status, _ := os.ReadFile("/proc/" + pid + "/status")
	for line := range strings.Lines(string(status)) {
		if text, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, _ := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// hostileTexts are texts that took the process that read them up to 1.7 GB.
func hostileTexts() map[string]func() []byte {
	const size = 16 << 20
	deep := strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000)
	return map[string]func() []byte{
		"fields.csv":  func() []byte { return bytes.Repeat([]byte("a,"), size/2) },
		"quoted.csv":  func() []byte { return bytes.Repeat([]byte("\"\n\","), size/4) },
		"nested.json": func() []byte { return []byte("[" + strings.Repeat(deep+",", 800) + "0]") },
		"wide.json":   func() []byte { return []byte("[" + strings.Repeat("[],", size/3) + "0]") },
		"utf16.txt":   func() []byte { return append([]byte("\xff\xfe"), bytes.Repeat([]byte("a\x00\r\x00"), size/4)...) },
	}
}

func init() {
	maps.Copy(parents, map[string]func() error{"parent": parent, "parent-of-sleep": parentOfSleep})
}

// parent is what a process does that reads a document of its first argument, for
// TestTextInChild: it writes its peak beyond that of the document.
func parent() error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	data, before := hostileTexts()[os.Args[2]](), peakOf("self")
	_, err = Reader{Child: []string{executable, "child-convert"}}.Read(context.Background(), Source{Name: os.Args[2], Data: data})
	var why *tools.Unreadable
	if err != nil && !errors.As(err, &why) {
		return err
	}
	_, err = fmt.Print((peakOf("self") - before) >> 20)
	return err
}

// TestTextInChild: what reading a large text takes is taken by a child.
func TestTextInChild(t *testing.T) {
	long.NotRaced(t)
	t.Parallel()
	for i, name := range slices.Sorted(maps.Keys(hostileTexts())) {
		if i%long.Step(3) != 0 {
			continue
		}
		cmd := exec.CommandContext(t.Context(), childReader(t).Child[0], "parent", name)
		out, err := cmd.Output()
		must(t, err)
		grew, err := strconv.Atoi(string(out))
		must(t, err)
		t.Logf("%s: %d MiB", name, grew)
		if grew > 200 { // of the reply: 16 MiB of text, as JSON and decoded
			t.Errorf("%s takes %d MiB in the process that has it read", name, grew)
		}
	}
}

// TestParentKilled: a child ends with the process that started it, and what the child
// started ends too.
func TestParentKilled(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), childReader(t).Child[0], "parent-of-sleep")
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var reader, program int
	if _, err := fmt.Fscan(out, &reader, &program); err != nil {
		t.Fatal(err)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	for _, pid := range []int{reader, program} {
		for tries := 0; isRunning(pid); tries++ {
			if tries == 1000 {
				t.Fatalf("process %d runs on", pid)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// isRunning reports whether a process is there and is no zombie.
func isRunning(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// parentOfSleep has a child run a program in place of poppler that does not end, and
// writes the ids of both.
func parentOfSleep() error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	r := Reader{Child: []string{executable, "child-convert"}}
	q := request{Format: formatPage, Program: []string{"/bin/sleep", "1000"}}
	go func() { _, _ = r.attempts(context.Background(), q) }()
	reader, program := 0, 0
	for program == 0 {
		time.Sleep(10 * time.Millisecond)
		if reader = childOf(os.Getpid()); reader != 0 {
			program = childOf(reader)
		}
	}
	fmt.Println(reader, program)
	select {}
}

// childOf is the id of a child of a process, 0 if it has none.
func childOf(pid int) int {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		if all := strings.Fields(string(text)); len(all) > 0 {
			id, _ := strconv.Atoi(all[0])
			return id
		}
	}
	return 0
}

// TestPopplerLimited: a process of poppler has a limit of memory lower than the child's.
func TestPopplerLimited(t *testing.T) {
	t.Parallel()
	program, err := (&Poppler{}).command("/bin/sh", "-c", "ulimit -v")
	must(t, err)
	out := beginning{limit: 100}
	_, err = filter(t.Context(), time.Minute, program, nil, &out)
	if got := strings.TrimSpace(string(out.kept)); err != nil || got != strconv.Itoa(popplerMemory>>10) {
		t.Errorf("%q, %v", got, err)
	}
}

// TestReadOnce: a document is read once, also one that cannot be read.
func TestReadOnce(t *testing.T) {
	t.Parallel()
	r, calls := Reader{Memory: new(Memory)}, 0
	for range 3 {
		for _, want := range []error{nil, errExhausted} {
			q := request{Format: formatFile, Source: Source{Name: fmt.Sprint(want), Data: []byte("data")}}
			doc, err := r.Memory.recall(q, func() (tools.Document, error) {
				calls++
				return tools.Document{Kind: "text", Text: "a"}, want
			})
			if err != want || doc.Text != "a" {
				t.Errorf("%v, %q", err, doc.Text)
			}
		}
	}
	if calls != 2 {
		t.Errorf("read %d times", calls)
	}
	for i := range 2 * maxRemembered {
		_, _ = r.Memory.recall(request{Source: Source{Data: fmt.Append(nil, i)}}, func() (tools.Document, error) { return tools.Document{Text: strings.Repeat("a", maxMemory/100)}, nil })
	}
	if len(r.Memory.known) != len(r.Memory.order) || r.Memory.bytes > maxMemory || len(r.Memory.known) > maxRemembered {
		t.Errorf("%d documents, %d bytes", len(r.Memory.known), r.Memory.bytes)
	}
	ends := request{Source: Source{Data: []byte("ends")}}
	_, err := r.Memory.recall(ends, func() (tools.Document, error) { return tools.Document{}, context.Canceled })
	if _, again := r.Memory.recall(ends, func() (tools.Document, error) { return tools.Document{}, nil }); err == nil || again != nil {
		t.Errorf("an end is remembered: %v, %v", err, again)
	}
}
