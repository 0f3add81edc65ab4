package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDecisions checks that each decision has a number, a title, a status and a date, and its row in the index.
func TestDecisions(t *testing.T) {
	const folder = "../../docs/decisions"
	index, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "[0-9]*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no decisions: %v", err)
	}
	head := regexp.MustCompile(`^# (\d{4}): (\S.*)\n\nStatus: (accepted|superseded by \[\d{4}\]\([\w.-]+\)) · Date: (\d{4}-\d\d-\d\d)\n`)
	for _, file := range files {
		name := filepath.Base(file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m := head.FindStringSubmatch(string(text))
		if m == nil || !strings.HasPrefix(name, m[1]+"-") {
			t.Errorf("%s does not begin with number, title, status and date", name)
			continue
		}
		if row := fmt.Sprintf("| %s | [%s](%s) | %s | %s |\n", m[1], m[2], name, m[3], m[4]); !strings.Contains(string(index), row) {
			t.Errorf("the index lacks %s", row)
		}
	}
	if rows := strings.Count(string(index), "\n| 0"); rows != len(files) {
		t.Errorf("the index has %d rows for %d decisions", rows, len(files))
	}
}
