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
	"strings"
	"testing"

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
func probed(t testing.TB, tasks []Target, files map[string]string) plan.AgentProbe {
	t.Helper()
	dir := t.TempDir()
	if t, ok := t.(*testing.T); ok {
		dir = write(t, place0(t), files)
	}
	folders, listed, err := Read(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	own := plan.DefaultAgent()
	own.Name, own.Folders, own.FilesSHA256 = "own", folders, "sha256:"+strings.Repeat("0", 64)
	found, err := Probe(t.Context(), own, listed, tasks, io.Discard)
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

		{"honest agent", map[string]string{"agent": "#!/usr/bin/env python3\nimport os, sys\nprint('FINAL ANSWER: 4817')\n", "README.md": "It reads a question and asks a model.\n"}, 0, 0, 0, 0},
		{"one question", map[string]string{"README.md": "For example:\n> " + tasks[3].Question + "\n\nThe agent searches for it.\n"}, 0, 0, 1, 0},
		{"ids of others", map[string]string{"x.jsonl": answersOf(tasksOf(400)[200:], func(t Target) string { return `{"id":"` + t.TaskID + `"}` })}, 0, 0, 0, 0},
	} {
		got := probed(t, tasks, tt.files)
		if got.Answers < tt.answers || tt.answers == 0 && got.Answers > 0 || got.IDs != tt.ids || got.Questions != tt.qs || got.Listed < tt.atLeastL ||
			tt.atLeastL == 0 && tt.answers == 0 && got.Listed > 0 || got.Stopped != "" || got.Unread != 0 {
			t.Errorf("%s: %+v", tt.name, got)
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
	write(t, dir, map[string]string{"a": "other text"})
	var wrong *Error
	if _, err := Probe(t.Context(), plan.AgentPlan{Folders: folders}, listed, tasksOf(3), io.Discard); !errors.As(err, &wrong) {
		t.Errorf("a file that changed: %v", err)
	}
}
