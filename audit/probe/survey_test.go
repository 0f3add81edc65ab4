package probe

import (
	"strings"
	"testing"
)

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
					s.Look(text[i:min(len(text), i+256<<10)], found)
				}
			}
		})
	}
}
