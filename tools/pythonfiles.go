package tools

import (
	"io/fs"
	"maps"
	"slices"
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
func listing(root *folder) fileList {
	list, seen := fileList{}, 0
	_ = root.walk(func(name string, info fs.FileInfo, err error) error {
		if seen++; seen > maxNames {
			return fs.SkipAll
		}
		switch {
		case err != nil || info.IsDir() && tooDeep(name):
			return fs.SkipDir
		case !info.IsDir():
			list[name] = fileState{info.Size(), info.Mode(), info.ModTime()}
		}
		return nil
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
