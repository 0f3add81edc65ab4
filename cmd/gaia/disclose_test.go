package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestWriteNew: all files appear, or none does and nothing else is left.
func TestWriteNew(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name  string
		ctx   context.Context
		files []string
		want  []string
	}{
		{"two files", t.Context(), []string{"a", "b"}, []string{"a", "b", "old"}},
		{"one is there", t.Context(), []string{"a", "old"}, []string{"old"}},
		{"one appears in the meantime", t.Context(), []string{"a", "b", "a"}, []string{"old"}},
		{"no such directory", t.Context(), []string{"a", "none/b"}, []string{"old"}},
		{"interrupted", canceled, []string{"a", "b"}, []string{"old"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "old"), []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			var files []newFile
			for _, name := range tt.files {
				files = append(files, newFile{filepath.Join(dir, name), []byte(name)})
			}
			err := writeNew(tt.ctx, files)
			if (err == nil) != (len(tt.want) > 1) || tt.name == "interrupted" && !errors.Is(err, context.Canceled) {
				t.Errorf("writeNew: %v", err)
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != len(tt.want) {
				t.Fatalf("there are %v, %v; want %v", entries, err, tt.want)
			}
			for i, e := range entries {
				data, err := os.ReadFile(filepath.Join(dir, e.Name()))
				if err != nil || e.Name() != tt.want[i] || string(data) != e.Name() {
					t.Errorf("%s holds %q, %v", e.Name(), data, err)
				}
			}
		})
	}
}
