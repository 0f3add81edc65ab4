package tools

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// A fileList is what lies in a workspace, by name.
type fileList map[string]fileState

type fileState struct {
	size     int64
	mode     fs.FileMode
	modified time.Time
}

// listing lists a workspace, up to twice as many files as it may have. It is for words
// alone: what cannot be read is left out.
func listing(root *os.Root) fileList {
	list, seen := fileList{}, 0
	walkFiles(root, func(name string, info fs.FileInfo) bool {
		if !info.IsDir() {
			list[name] = fileState{info.Size(), info.Mode(), info.ModTime()}
		}
		seen++
		return seen <= 2*pythonFiles
	})
	return list
}

// changed words what is new or other in now.
func (l fileList) changed(now fileList) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if now[name] == l[name] {
			continue
		}
		size := count(int(now[name].size), "byte")
		if !now[name].mode.IsRegular() {
			size = "not a regular file"
		}
		out = append(out, plainName(name)+" ("+size+")")
	}
	return out
}

// walkFiles visits what is in root, until visit returns false, not much deeper
// than folders may lie.
// Folders that code has closed to their owner are opened again: nothing is to
// be hidden in them, and whoever clears them away must get in.
func walkFiles(root *os.Root, visit func(string, fs.FileInfo) bool) {
	if root == nil {
		return
	}
	var opened []string
	walk := func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) && (name == "." || entry.IsDir()) && !slices.Contains(opened, name) && len(opened) < pythonFiles {
			if reopen(root, name) == nil {
				opened = append(opened, name)
			}
			return fs.SkipDir
		}
		if err != nil || name == "." {
			return nil
		}
		info, err := entry.Info()
		if err == nil && !visit(name, info) {
			return fs.SkipAll
		}
		if entry.IsDir() && strings.Count(name, "/") >= maxDepth {
			return fs.SkipDir
		}
		return nil
	}
	_ = fs.WalkDir(root.FS(), ".", walk) // what goes away meanwhile is not there
	for i := 0; i < len(opened); i++ {   // which may open more
		_ = fs.WalkDir(root.FS(), opened[i], walk)
	}
}

// reopen opens a folder to its owner. The top one is reached by its place, which
// only this process has a say in; what is below it only through the root, since
// what it was may be a link by now.
func reopen(root *os.Root, name string) error {
	if name == "." {
		return os.Chmod(root.Name(), 0o755)
	}
	return root.Chmod(name, 0o755)
}
