package probe

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func always(int) error { return nil }

// TestSurveyUndone: each of two encodings in one text is undone, and one in the other, and what is far from them counts as before.
func TestSurveyUndone(t *testing.T) {
	run := runOf(12)
	s := NewSurvey(run)
	filler := strings.Repeat("some words of a long text that says nothing of any task\n", 1000)
	pairs, percents := func(text string) string {
		return strings.TrimSpace(strings.ReplaceAll(fmt.Sprintf("% x", text), " ", ":"))
	}, func(text string) string {
		var b strings.Builder
		for _, c := range []byte(text) {
			fmt.Fprintf(&b, "%%%02X", c)
		}
		return b.String()
	}
	line := func(i int) string { return run[i].TaskID + " = " + run[i].Gold + "\n" }
	text := line(0) + filler + pairs(line(1)) + "\n" + filler + percents(line(2)) + "\n" + filler + percents(pairs(line(3))) + "\n" + filler + pairs(percents(line(4))) + "\n" +
		filler + percents(run[5].Question) + "\n" + run[5].Gold + "\n" + filler + pairs("nothing but a filler of twenty bytes and more") + "\n"
	found := NewSightings()
	if err := s.Look(text, found, always); err != nil {
		t.Fatal(err)
	}
	for task := range 6 {
		if !found.Answers[task] || found.IDs[task] != (task < 5) || found.Questions[task] != (task == 5) {
			t.Errorf("task %d: %+v", task, found)
		}
	}
	if len(found.Answers) != 6 {
		t.Errorf("%+v", found)
	}
}

// TestSurveyDecoys: what a text repeats of a task is looked at once, and a look ends where its caller says so.
func TestSurveyDecoys(t *testing.T) {
	run := runOf(12)
	s := NewSurvey(run)
	sum := sha256.Sum256([]byte(run[2].TaskID))
	digest := hex.EncodeToString(sum[:])
	for name, decoy := range map[string]string{"first digits": run[0].TaskID[:8] + " ", "id": run[1].TaskID + " ", "digest": digest + " ", "question": run[3].Question + "\n"} {
		found, calls, bytes := NewSightings(), 0, 0
		check := func(probed int) error { calls, bytes = calls+1, bytes+probed; return nil }
		if err := s.Look(strings.Repeat(decoy, 100_000/len(decoy)), found, check); err != nil || calls > 4 || bytes > 200_000 || len(found.Answers) > 0 {
			t.Errorf("%s: %v, %d steps, %+v", name, err, calls, found)
		}
	}
	over := errors.New("over")
	if err := s.Look("0x"+digest+" "+run[2].Gold, NewSightings(), func(int) error { return over }); err != over {
		t.Errorf("%v", err)
	}
	found := NewSightings()
	if err := s.Look("0x"+digest+": "+run[2].Gold, found, always); err != nil || !found.Answers[2] || !found.IDs[2] {
		t.Errorf("%v, %+v", err, found)
	}
}

// BenchmarkSurvey looks through 1 MiB of program text, of prose and of numbers for 450 tasks.
func BenchmarkSurvey(b *testing.B) {
	s := NewSurvey(runOf(450))
	for _, tt := range []struct{ name, text string }{
		{"code", "def solve(question, table):\n    \"\"\"Return the largest value.\"\"\"\n    rows = [row['value'] for row in table if row['name'] in question]\n    return max(rows) if len(rows) > 0 else None  # 0x3f\n\n"},
		{"prose", "In the spring of the year the keeper of the harbour wrote a long letter about the lamp, which no one had lit since the old one was sold. "},
		{"numbers", "1843, 17.25, 0.5, -3, 90210, 1e-3, ffa07a, 42;"},
	} {
		text := strings.Repeat(tt.text, 1<<20/len(tt.text))
		b.Run(tt.name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				found := NewSightings()
				for i := 0; i < len(text); i += 256 << 10 {
					_ = s.Look(text[i:min(len(text), i+256<<10)], found, always)
				}
			}
		})
	}
}
