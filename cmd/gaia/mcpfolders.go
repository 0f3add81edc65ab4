package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/run"
	"github.com/gaia-harness/gaia/trajectory"
)

// folderDepth is how far below a folder signs of answers are looked for: what a
// cache of the hub keeps of a dataset lies eight below the folder of all caches.
const folderDepth = 8

// folderOf settles a folder that an MCP server may read, and refuses one in which
// it could find answers: those of other runs, or of the dataset.
func (a *app) folderOf(server, folder, runs string) (string, error) {
	abs, err := filepath.Abs(folder)
	resolved := abs
	if err == nil {
		resolved, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", usage("", "the MCP server %q is to be given the folder %q: %v", server, folder, unwrapPath(err))
	}
	why := ""
	for _, kept := range [][2]string{{a.getenv("HOME"), "your home folder"}, {".", "the current folder"}, {runs, "the folder of the runs"}} {
		if kept[0] != "" && holds(resolved, kept[0]) {
			why = kept[1]
			break
		}
	}
	if why == "" {
		why = answersIn(resolved)
	}
	if why != "" {
		return "", usage("give it a folder that has what it needs, and no runs and no copy of the dataset in it",
			"the MCP server %q is to be given the folder %q, in which is %s", server, folder, why)
	}
	return abs, nil
}

// holds reports whether a path is the folder or lies in it. What does not exist yet
// lies where its nearest folder that exists does.
func holds(folder, path string) bool {
	path, err := filepath.Abs(path)
	if err != nil {
		return true
	}
	for rest := ""; ; {
		if found, err := filepath.EvalSymlinks(path); err == nil {
			path = filepath.Join(found, rest)
			break
		}
		if path == filepath.Dir(path) {
			break
		}
		path, rest = filepath.Dir(path), filepath.Join(filepath.Base(path), rest)
	}
	relative, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(relative)
}

// answersIn says what below a folder tells answers, "" if nothing is found. What
// cannot be read the server cannot read either.
func answersIn(folder string) (found string) {
	_ = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		relative, relErr := filepath.Rel(folder, path)
		if err != nil || relErr != nil {
			return nil
		}
		if entry.IsDir() {
			if relative != "." && strings.Count(relative, string(filepath.Separator))+1 >= folderDepth {
				return filepath.SkipDir
			}
			return nil
		}
		name, dir := filepath.Base(path), filepath.Dir(path)
		switch {
		case name == run.PrivateFile:
			found = "verdicts of a run"
		case name == plan.EnvelopeFile && exists(filepath.Join(dir, trajectory.JournalFile)):
			found = "a run"
		case strings.HasPrefix(name, "metadata.") && filepath.Base(filepath.Dir(dir)) == "2023":
			found = "a copy of the dataset"
		default:
			return nil
		}
		if relative == "." {
			relative = name
		}
		found += " (" + relative + ")"
		return filepath.SkipAll
	})
	return found
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
