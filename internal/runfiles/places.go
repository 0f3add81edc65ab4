package runfiles

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// WithoutPlaces returns the text of an error with the names of files alone: readers of the evidence need not know where
// they are on this machine.
func WithoutPlaces(err error) string {
	var paths []string
	for queue := []error{err}; len(queue) > 0; queue = queue[1:] {
		switch e := queue[0].(type) {
		case *fs.PathError:
			paths = append(paths, e.Path)
		case *os.LinkError:
			paths = append(paths, e.Old, e.New)
		case *exec.Error:
			paths = append(paths, e.Name)
		}
		switch e := queue[0].(type) {
		case interface{ Unwrap() error }:
			queue = append(queue, e.Unwrap())
		case interface{ Unwrap() []error }:
			queue = append(queue, e.Unwrap()...)
		}
	}
	text := err.Error()
	slices.SortFunc(paths, func(a, b string) int { return len(b) - len(a) }) // a path can begin as another does
	for _, path := range paths {
		if filepath.IsAbs(path) {
			text = strings.ReplaceAll(text, path, filepath.Base(path))
		}
	}
	return text
}
