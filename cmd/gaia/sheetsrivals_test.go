package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSheetsRivals: a run that was signed anew under the id of another does not take
// its place, whichever comes first; neither is given, and others go on. A copy is
// left out.
func TestSheetsRivals(t *testing.T) {
	r := newReading(t, 2)
	runs, failed := r.all("runs")
	if len(runs) != 2 || failed != nil {
		t.Fatalf("%d runs, %v", len(runs), failed)
	}
	path := runs[0].path
	other := filepath.Join(r.dir, "anew", filepath.Base(path))
	must(t, os.CopyFS(other, os.DirFS(path)))
	if copied, failed := r.all("anew", "runs"); failed != nil || len(copied) != 2 {
		t.Errorf("with a copy: %d runs, %v", len(copied), failed)
	}
	if said := r.stderr.String(); strings.Count(said, "gaia: left out: ") != 1 || !strings.Contains(said, "was read from ") {
		t.Errorf("of a copy it is said: %s", said)
	}

	for name, change := range map[string]func(*givenSheet){
		"by another key": func(s *givenSheet) { s.ManifestSHA256, s.SignedBy = "sha256:another", "SHA256:another" },
		"another plan":   func(s *givenSheet) { s.ManifestSHA256 = "sha256:another" },
		"journal":        func(s *givenSheet) { s.JournalHead = "sha256:another" },
		"tree":           func(s *givenSheet) { s.Root = "another" },
	} {
		anew := runs[0]
		anew.path = other
		change(&anew)
		r.mark(anew)
		t.Run(name, func(t *testing.T) { r.rivals(t, name, runs, other) })
	}
}

// rivals wants the first of two runs and the one at other to be refused.
func (r reading) rivals(t *testing.T, name string, runs []givenSheet, other string) {
	path := runs[0].path
	for _, paths := range [][]string{{"runs", "anew"}, {"anew", "runs", "runs"}} {
		left, failed := r.all(paths...)
		if len(left) != 1 || left[0].path != runs[1].path {
			t.Errorf("%q: %d runs are given", paths, len(left))
		}
		f := (*failure)(nil)
		if !errors.As(failed, &f) || f.Code != exitEvidence || len(f.Hints) != 1 {
			t.Fatalf("%q: %v", paths, failed)
		}
		wants := []string{path + ": is called " + runs[0].RunID + " as the run at " + other + " is", other + ": is called " + runs[0].RunID + " as the run at " + path + " is"}
		if name != "by another key" {
			wants = []string{path + ": the key " + runs[0].SignedBy + " signed another ", name + " of the run " + runs[0].RunID + ": ", " at " + other, "another at " + other + ", "}
		}
		for _, want := range wants {
			if !strings.Contains(strings.Join(f.Reasons, "\n"), want) {
				t.Errorf("%q: %q is not among %q", paths, want, f.Reasons)
			}
		}
	}
}

// TestSheetsPassedOver: what may be a run in a folder is not passed over without a word.
func TestSheetsPassedOver(t *testing.T) {
	r := newReading(t, 1)
	run := r.runDir()
	folder := filepath.Join(r.dir, "folder")
	must(t, os.Mkdir(folder, 0o700), os.Symlink(run, filepath.Join(folder, "link")), os.Symlink(folder, filepath.Join(folder, "elsewhere")),
		os.Symlink("gone", filepath.Join(folder, "gone.tar.gz")))
	write(t, filepath.Join(folder, "damaged.tar.gz"), "no\x8b")
	write(t, filepath.Join(folder, "empty.tar.gz"), "")
	write(t, filepath.Join(folder, "notes.txt"), "")
	sheets, failed := r.all("folder", "runs")
	f := (*failure)(nil)
	if len(sheets) != 1 || !errors.As(failed, &f) || f.Code != exitEvidence || len(f.Reasons) != 2 ||
		!strings.HasSuffix(f.Reasons[0], "/damaged.tar.gz: damaged.tar.gz: is called as an archive and does not begin as one") {
		t.Fatalf("%d runs, %+v", len(sheets), f)
	}
	want := "gaia: left out: " + folder + "/gone.tar.gz is a link\ngaia: left out: " + folder + "/link is a link\n"
	if said := r.stderr.String(); said != want {
		t.Errorf("said %q, not %q", said, want)
	}
	if _, failed := r.all("folder/damaged.tar.gz"); classify(failed).Code != exitEvidence {
		t.Errorf("one that is named: %v", failed)
	}
}
