package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestLine: lines are those of the file, indented, within bounds on both sides.
func TestLine(t *testing.T) {
	files := varied(t)
	j := read(t, os.DirFS(write(t, files)))
	raw := bytes.Split(files[trajectory.JournalFile], []byte("\n"))
	for _, tt := range []struct {
		n                int64
		around           int
		first, last, err int64
	}{{1, 0, 1, 1, 0}, {1, 3, 1, 4, 0}, {40, 2, 38, 42, 0}, {79, 5, 74, 79, 0}, {40, 1000, 20, 60, 0}, {40, -1, 40, 40, 0}, {0, 1, 0, 0, 1}, {80, 1, 0, 0, 1}, {-1 << 60, 1, 0, 0, 1}} {
		lines, err := j.Line(tt.n, tt.around)
		if tt.err != 0 {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("line %d: %v", tt.n, err)
			}
			continue
		}
		if err != nil || lines[0].Number != tt.first || lines[len(lines)-1].Number != tt.last || len(lines) != int(tt.last-tt.first+1) {
			t.Fatalf("line %d, %d around: %d lines, %v", tt.n, tt.around, len(lines), err)
		}
		for _, l := range lines {
			var compact bytes.Buffer
			if err := json.Compact(&compact, []byte(l.Text)); err != nil || !bytes.Equal(compact.Bytes(), raw[l.Number-1]) || l.Bad != "" || l.Cut != "" {
				t.Errorf("line %d: %+v, %v", l.Number, l, err)
			}
		}
	}
}

// TestLineAtFault: the fault is named at its line, and what is behind it is shown as it is in the file, within bounds.
func TestLineAtFault(t *testing.T) {
	files := varied(t)
	journal := files[trajectory.JournalFile]
	hostile := []string{"\x00\x1b[31m\xff\xfe no JSON", strings.Repeat("[", 100_000), `{"a":"` + strings.Repeat("x", maxLineText) + `"}`, "", "the torn end"}
	files[trajectory.JournalFile] = append(cutLines(journal, 40), strings.Join(hostile, "\n")...)
	j, err := Open(os.DirFS(write(t, files)))
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Follow(noWriter); err == nil {
		t.Fatal("the journal has no fault")
	}
	lines, err := j.Line(42, 10)
	if err != nil || len(lines) != 14 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	for _, l := range lines {
		want := ""
		switch {
		case l.Number == 41:
			want = j.State().Fault.Error()
		case l.Number > 41:
			want = lineUnchecked
		}
		if l.Bad != want || !utf8.ValidString(l.Text) || len(l.Text) > maxLineText+100 {
			t.Errorf("line %d: bad %q, want %q", l.Number, l.Bad, want)
		}
	}
	if l := lines[9]; !strings.Contains(l.Text, "no JSON") {
		t.Errorf("line 41: %q", l.Text)
	}
	if lines[10].Cut == "" || lines[11].Cut == "" || lines[13].Text != "the torn end" || lines[13].Cut != "" {
		t.Errorf("cuts %q and %q, the last line %+v", lines[10].Cut, lines[11].Cut, lines[13])
	}
	if _, err := j.Line(47, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a line behind the end: %v", err)
	}
}

// FuzzIndent: any bytes are shown within the bound, and all of JSON that is short enough.
func FuzzIndent(f *testing.F) {
	for _, text := range []string{"", `{}`, `{"a":[1,{"b":"\"x,{"},[]],"c":null}`, "\xff\x00", "]]]]", `{"a`, strings.Repeat("[", 3000)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		shown, used := indent(text, 4096)
		if len(shown) > 4096+2*maxIndent+2 || used > len(text) {
			t.Errorf("%d bytes, %d used of %d", len(shown), used, len(text))
		}
		var want, got bytes.Buffer
		if used == len(text) && json.Compact(&want, text) == nil && (json.Compact(&got, []byte(shown)) != nil || !bytes.Equal(want.Bytes(), got.Bytes())) {
			t.Errorf("%q is shown as %q", text, shown)
		}
	})
}

// TestBody: what the run keeps is found by its digest and nothing else is; its type is that of its content.
func TestBody(t *testing.T) {
	png, page, fake := "\x89PNG\r\n\x1a\nrest", "<svg onload=alert(1)>", "not a picture"
	text := fmt.Sprintf("Pictures.\n\n-- task fab1e951-0000-4000-8000-000000000453 --\nquestion: What is in the picture?\ngold: a pier\n\n-- workspace plan.png --\n%s\n\n-- workspace other.png --\n%s\n\n-- workspace linked/third.png --\n%s\n\n-- answer a pier --\nIt is a pier.\n", "PNG", fake, "elsewhere")
	files := parsed(t, text)
	dir := write(t, files)
	put := func(name, data string) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(data), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	digest := func(text string) string { return canonical.Digest([]byte(text)) }
	for _, body := range []string{png, page, "GIF89a", "\xff\xd8\xff\xe0", "RIFF1234WEBP", ""} {
		put(trajectory.BodyFile(digest(body)), body)
	}
	put(trajectory.BodyFile(digest("changed")), "is changed")
	put("work/0001-1/plan.png", "PNG")
	put("work/0001-1/other.png", "changed")
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "work", "0001-1", "linked")); err != nil {
		t.Fatal(err)
	}
	j := read(t, os.DirFS(dir))
	for _, tt := range []struct{ body, mediaType string }{{png, "image/png"}, {page, "text/plain"}, {"GIF89a", "image/gif"}, {"\xff\xd8\xff\xe0", "image/jpeg"}, {"RIFF1234WEBP", "image/webp"}, {"", "text/plain"}, {"PNG", "text/plain"}} {
		if data, mediaType, err := j.Body(digest(tt.body)); err != nil || string(data) != tt.body || mediaType != tt.mediaType {
			t.Errorf("%q: %q, %s, %v", tt.body, data, mediaType, err)
		}
	}
	var fault *trajectory.Fault
	for _, changed := range []string{"changed", fake} {
		if _, _, err := j.Body(digest(changed)); !errors.As(err, &fault) {
			t.Errorf("%q: %v", changed, err)
		}
	}
	for _, missing := range []string{digest("no such body"), digest("elsewhere")} {
		if _, _, err := j.Body(missing); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", missing, err)
		}
	}
	if _, _, err := j.Body("../../manifest.json"); err == nil {
		t.Error("a path is taken for a digest")
	}
	items := all(t, j, "fab1e951-0000-4000-8000-000000000453", 1, Filter{Kind: KindTask})
	kept := map[string]bool{}
	for _, p := range items[0].Pictures {
		kept[p.Name] = p.Kept
	}
	if len(kept) != 3 || !kept["plan.png"] || !kept["other.png"] || kept["linked/third.png"] {
		t.Errorf("kept %v", kept)
	}
}
