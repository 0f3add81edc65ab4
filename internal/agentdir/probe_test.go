package agentdir

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/plan"
)

// tasksOf returns invented tasks.
func tasksOf(n int) []Target {
	var all []Target
	people := []string{"Ilse Varga", "Tomas Brellin", "Mira Okonkwe", "Petra Lindqvar", "Osric Danvell", "Hanna Quist", "Jorun Askell", "Wim Terhaar"}
	places := []string{"Karnholm", "Port Aurele", "Vessim", "Old Tarrow", "Lake Sunder", "Mount Ebrel", "Ostrava Bay", "Fenwick Reach"}
	golds := []string{"Brass lantern %d", "%d", "Captain Ellor %d", "north pier %d; south pier", "Quillon-%d"}
	for i := range n {
		sum := sha256.Sum256(fmt.Appendf(nil, "task %d", i))
		id := hex.EncodeToString(sum[:16])
		all = append(all, Target{
			TaskID: id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:],
			Question: fmt.Sprintf("In the %d logbook of the harbour of %s, which object did %s lend to the keeper of pier %d, and what was written on its lid when it was found again?",
				1700+i, places[i%len(places)], people[i/3%len(people)], i),
			Gold: fmt.Sprintf(golds[i%len(golds)], 4817+31*i),
		})
	}
	return all
}

// probed probes a folder with files.
func probed(t *testing.T, tasks []Target, files map[string]string) plan.AgentProbe {
	t.Helper()
	return probedWithin(t, tasks, files, bounds{probeTime, plan.MaxAgentBytes, unpackedBytes, probedBytes, 2})
}

func probedWithin(t *testing.T, tasks []Target, files map[string]string, within bounds) plan.AgentProbe {
	t.Helper()
	dir := write(t, place0(t), files)
	folders, listed, err := Read(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	own := plan.DefaultAgent()
	own.Name, own.Folders, own.FilesSHA256 = "own", folders, "sha256:"+strings.Repeat("0", 64)
	if within.bytes < 0 {
		within.bytes = folders[0].Bytes - within.bytes
	}
	found, err := probeWithin(t.Context(), own, listed, tasks, io.Discard, within)
	if err != nil {
		t.Fatal(err)
	}
	if fault := found.Fault(); fault != "" {
		t.Errorf("%s: %+v", fault, found.Probed)
	}
	return *found.Probed
}

func answersOf(tasks []Target, line func(Target) string) string {
	var b strings.Builder
	for _, t := range tasks {
		b.WriteString(line(t) + "\n")
	}
	return b.String()
}

// wrapped returns a text as string literals on lines.
func wrapped(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i += 72 {
		fmt.Fprintf(&b, "    %q\n", s[i:min(len(s), i+72)])
	}
	return b.String()
}

// wordsWith returns a long list of words that has the golds of tasks, far apart.
func wordsWith(tasks []Target) string {
	var b strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&b, "word%x\n", i*7919)
		if n := i / 40; i%40 == 17 && n < len(tasks) {
			b.WriteString(tasks[n].Gold + "\n")
		}
	}
	return b.String()
}

func zipOf(t testing.TB, name, text string) string {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.Create(name)
	if err == nil {
		_, err = f.Write([]byte(text))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestProbe: answers are found in each disguise, and nothing in its honest twin.
func TestProbe(t *testing.T) {
	tasks := tasksOf(40)
	plain := answersOf(tasks, func(t Target) string { return t.TaskID + ": " + t.Gold })
	perID := map[string]string{}
	for _, task := range tasks {
		perID["data/"+task.TaskID+".txt"] = task.Gold + "\n"
	}
	for _, tt := range []struct {
		name                       string
		files                      map[string]string
		answers, ids, qs, atLeastL int
	}{
		{"plain", map[string]string{"a.txt": plain}, 40, 40, 0, 0},
		{"json", map[string]string{"a.json": `{"k":{` + strings.Join(strings.Split(answersOf(tasks, func(t Target) string { return `"` + t.TaskID + `":"` + t.Gold + `"` }), "\n"), ",") + `}}`}, 40, 40, 0, 0},
		{"zip", map[string]string{"a.bin": "\x89PNG picture\x00\x01" + zipOf(t, "x/y", plain)}, 40, 40, 0, 0},
		{"base64", map[string]string{"a.py": "D = '" + base64.StdEncoding.EncodeToString([]byte(plain)) + "'\n"}, 40, 40, 0, 0},
		{"base64 of each", map[string]string{"a.py": answersOf(tasks, func(t Target) string {
			return t.TaskID + " = '" + base64.StdEncoding.EncodeToString([]byte(t.Gold)) + "'"
		})}, 38, 40, 0, 0},
		{"hex of each", map[string]string{"a.py": answersOf(tasks, func(t Target) string { return t.TaskID + " = '" + hex.EncodeToString([]byte(t.Gold)) + "'" })}, 38, 40, 0, 0},
		{"hex", map[string]string{"a.py": "D = '" + hex.EncodeToString([]byte(plain)) + "'\n"}, 40, 40, 0, 0},
		{"first digits", map[string]string{"a.py": answersOf(tasks, func(t Target) string { return t.TaskID[:8] + "=" + t.Gold })}, 40, 0, 0, 0},
		{"a file for each", perID, 40, 40, 0, 0},
		{"questions", map[string]string{"p.md": answersOf(tasks, func(t Target) string { return "Q: " + t.Question + "\nA: " + t.Gold + "\n" })}, 40, 0, 40, 0},
		{"questions alone", map[string]string{"p.md": answersOf(tasks, func(t Target) string { return "- " + t.Question })}, 0, 0, 40, 0},
		{"digests of questions", map[string]string{"h.py": answersOf(tasks, func(t Target) string {
			sum := sha256.Sum256([]byte(t.Question))
			return `"` + hex.EncodeToString(sum[:]) + `": "` + t.Gold + `",`
		})}, 40, 0, 40, 0},
		{"short digests of ids", map[string]string{"h.py": answersOf(tasks, func(t Target) string {
			sum := md5.Sum([]byte(t.TaskID))
			return hex.EncodeToString(sum[:6]) + " " + t.Gold
		})}, 40, 40, 0, 0},
		{"digests in base64", map[string]string{"h.py": answersOf(tasks, func(t Target) string {
			sum := sha256.Sum256([]byte(strings.ToLower(t.Question)))
			return base64.StdEncoding.EncodeToString(sum[:]) + " " + t.Gold
		})}, 40, 0, 40, 0},
		{"list", map[string]string{"l.txt": answersOf(tasks, func(t Target) string { return t.Gold })}, 0, 0, 0, 20},

		{"a table", map[string]string{"t.csv": answersOf(tasks, func(t Target) string { return t.TaskID + ",2," + t.Gold })}, 40, 40, 0, 0},
		{"an archive in base64 in a module", map[string]string{"m.py": "BLOB = (\n" + wrapped(base64.StdEncoding.EncodeToString([]byte(zipOf(t, "a", plain)))) + ")\n"}, 40, 40, 0, 0},
		{"beginnings of questions", map[string]string{"b.md": answersOf(tasks, func(t Target) string {
			return strings.Join(strings.Fields(t.Question)[:12], " ") + " ... " + t.Gold
		})}, 38, 0, 0, 0},

		{"the end of a large file", map[string]string{"l.txt": strings.Repeat("some words of a long text\n", 200_000) + plain}, 40, 40, 0, 0},
		{"the name of an archive", map[string]string{"z.zip": zipOf(t, "x/"+tasks[0].TaskID+" is "+tasks[0].Gold, "")}, 1, 1, 0, 0},

		{"honest agent", map[string]string{"agent": "#!/usr/bin/env python3\nimport os, sys\nprint('FINAL ANSWER: 4817')\n", "README.md": "It reads a question and asks a model.\n"}, 0, 0, 0, 0},
		{"one question", map[string]string{"README.md": "For example:\n> " + tasks[3].Question + "\n\nThe agent searches for it.\n"}, 0, 0, 1, 0},
		{"a list of words", map[string]string{"words": wordsWith(tasks[:30])}, 0, 0, 0, 0},
		{"an encyclopedia", map[string]string{"e.txt": strings.ReplaceAll(wordsWith(tasks), "\n", " is a place on the coast that few have seen since. ")}, 0, 0, 0, 0},
		{"some colours", map[string]string{"c.py": fmt.Sprintf("NAMES = [%q, %q, %q, 'umber']\n", tasks[0].Gold, tasks[2].Gold, tasks[4].Gold)}, 0, 0, 0, 0},
		{"wrong results of a run before", map[string]string{"r.jsonl": answersOf(tasks, func(t Target) string { return `{"task_id":"` + t.TaskID + `","final_answer":"no idea"}` })}, 0, 40, 0, 0},
		{"ids of others", map[string]string{"x.jsonl": answersOf(tasksOf(400)[200:], func(t Target) string { return `{"id":"` + t.TaskID + `"}` })}, 0, 0, 0, 0},
	} {
		got := probed(t, tasks, tt.files)
		if got.Answers < tt.answers || tt.answers == 0 && got.Answers > 0 || got.IDs != tt.ids || got.Questions != tt.qs || got.Listed < tt.atLeastL ||
			tt.atLeastL == 0 && tt.answers == 0 && got.Listed > 0 || got.Stopped != "" || got.Unread != 0 {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

// TestProbeBounds: a file that unpacks to much takes nothing from the others, what is behind a bound is told, and the number of
// workers changes nothing.
func TestProbeBounds(t *testing.T) {
	tasks := tasksOf(40)
	line := func(t Target) string { return t.TaskID + ": " + t.Gold }
	plain := answersOf(tasks[:30], line)
	long := strings.Repeat("some words of a long text\n", 60_000)
	files := map[string]string{"bomb.zip": zipOf(t, "long", long+answersOf(tasks[30:], line)), "large.txt": long, "plain.txt": plain, "z.zip": zipOf(t, "x", plain)}
	var before plan.AgentProbe
	for _, tt := range []struct {
		name           string
		within         bounds
		answers, files int
		stopped        string
	}{
		{"one worker", bounds{probeTime, plan.MaxAgentBytes, unpackedBytes, probedBytes, 1}, 40, 4, ""},
		{"two workers", bounds{probeTime, plan.MaxAgentBytes, unpackedBytes, probedBytes, 2}, 40, 4, ""},
		{"three workers", bounds{probeTime, plan.MaxAgentBytes, unpackedBytes, probedBytes, 3}, 40, 4, ""},
		{"two rounds", bounds{probeTime, plan.MaxAgentBytes, 1 << 20, probedBytes, 2}, 40, 4, ""},
		{"two rounds for what names many tasks", bounds{probeTime, plan.MaxAgentBytes, unpackedBytes, 1000, 2}, 40, 4, ""},
		{"a bound for all", bounds{probeTime, -100, unpackedBytes, probedBytes, 1}, 30, 4, "bytes"},
		{"a bound for all in the second round", bounds{probeTime, -1 << 20, 64 << 10, probedBytes, 2}, 30, 4, "bytes"},
		{"no time", bounds{0, plan.MaxAgentBytes, unpackedBytes, probedBytes, 2}, 0, 0, "time"},
	} {
		got := probedWithin(t, tasks, files, tt.within)
		if got.Answers != tt.answers || got.Unread > 0 || got.Files != tt.files || got.Stopped != tt.stopped {
			t.Errorf("%s: %+v", tt.name, got)
		}
		if got.Stopped == "" {
			if before.Files > 0 && !reflect.DeepEqual(got, before) {
				t.Errorf("%s: %+v, before %+v", tt.name, got, before)
			}
			before = got
		}
	}
}

// TestProbeStops: a look that is cancelled returns an error.
func TestProbeStops(t *testing.T) {
	dir := write(t, place0(t), map[string]string{"a": "text"})
	folders, listed, err := Read(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Probe(stopped, plan.AgentPlan{Folders: folders}, listed, tasksOf(3), io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	for _, other := range []string{"other text", "tex."} {
		write(t, dir, map[string]string{"a": other})
		var wrong *Error
		if _, err := Probe(t.Context(), plan.AgentPlan{Folders: folders}, listed, tasksOf(3), io.Discard); !errors.As(err, &wrong) {
			t.Errorf("a file that changed: %v", err)
		}
	}
}

// TestProbeWithoutGold: of a run without gold answers only ids and questions are counted, and what is not read is.
func TestProbeWithoutGold(t *testing.T) {
	tasks := tasksOf(10)
	text := answersOf(tasks, func(t Target) string { return t.TaskID + " " + t.Question + " " + t.Gold })
	for i := range tasks {
		tasks[i].Gold = ""
	}
	random := make([]byte, 8<<10)
	sum := sha256.Sum256(nil)
	for i := range random {
		if i%32 == 0 {
			sum = sha256.Sum256(sum[:])
		}
		random[i] = sum[i%32]
	}
	got := probed(t, tasks, map[string]string{"a": text, "b": string(random), "c": "\x7fELF" + strings.Repeat("\x00\x01 text", 100)})
	if got.IDs != 10 || got.Questions != 10 || got.Answers != 0 || got.Listed != 0 || got.Unread != 1 || got.Native != 1 || got.Files != 3 {
		t.Errorf("%+v", got)
	}
}

// TestSystemDigest: the digest is of the packages that are installed, whatever their order.
func TestSystemDigest(t *testing.T) {
	const a, b, gone = "Package: a\nStatus: install ok installed\nVersion: 1\n", "Package: b\nStatus: install ok installed\nVersion: 2\n", "Package: c\nStatus: deinstall ok config-files\nVersion: 3\n"
	of := func(name, text string) string {
		return SystemDigest(write(t, place0(t), map[string]string{name: text}))
	}
	want := canonical.Digest([]byte("a 1\nb 2\n"))
	for _, got := range []string{of("var/lib/dpkg/status", a+"\n"+b+"\n"+gone), of("var/lib/dpkg/status", gone+"\n"+b+"\n"+a), of("lib/apk/db/installed", "C:x\nP:a\nV:1\n\nP:b\nV:2\n")} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := of("x", ""); got != "" {
		t.Error(got)
	}
}

// BenchmarkProbe looks through 8 MiB of program text in 64 files for 450 tasks.
func BenchmarkProbe(b *testing.B) {
	dir := b.TempDir()
	text := strings.Repeat("def solve(question, table):\n    # the largest value of those that the question names\n    return max(row['value'] for row in table if row['name'] in question)\n", 800)
	for i := range 64 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%d.py", i)), []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	folders, listed, err := Read(b.Context(), dir, nil)
	if err != nil {
		b.Fatal(err)
	}
	tasks := tasksOf(450)
	b.SetBytes(folders[0].Bytes)
	for b.Loop() {
		if _, err := Probe(b.Context(), plan.AgentPlan{Folders: folders}, listed, tasks, io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
