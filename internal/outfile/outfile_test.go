package outfile

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
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
			var files []File
			for _, name := range tt.files {
				files = append(files, File{filepath.Join(dir, name), []byte(name)})
			}
			err := WriteNew(tt.ctx, files)
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

// TestWriteStream: a file appears whole or not at all, and over nothing.
func TestWriteStream(t *testing.T) {
	broken := errors.New("the source broke")
	write := func(w io.Writer) error {
		_, err := io.WriteString(w, "whole")
		return err
	}
	stopped, stop := context.WithCancel(context.Background())
	stop()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "there"), []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		ctx   context.Context
		write func(io.Writer) error
		want  string
	}{
		{"new", context.Background(), write, ""},
		{"there", context.Background(), write, "already exists and is not overwritten"},
		{"broken", context.Background(), func(w io.Writer) error { return errors.Join(write(w), broken) }, broken.Error()},
		{"raced", context.Background(), func(w io.Writer) error {
			return errors.Join(write(w), os.WriteFile(filepath.Join(dir, "raced"), []byte("before"), 0o644))
		}, "already exists and is not overwritten"},
		{"stopped", stopped, write, context.Canceled.Error()},
	} {
		err := WriteStream(tt.ctx, filepath.Join(dir, tt.name), tt.write)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Name()+"="+string(data))
	}
	if want := "new=whole raced=before there=before"; strings.Join(got, " ") != want {
		t.Errorf("the folder holds %q", got)
	}
}
