package run

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// withoutPlaces returns what an error says with the names of files alone: where they lie on this machine is no one's
// business who reads the evidence.
func withoutPlaces(err error) string {
	var paths []string
	var gather func(error)
	gather = func(err error) {
		switch e := err.(type) {
		case *fs.PathError:
			paths = append(paths, e.Path)
		case *os.LinkError:
			paths = append(paths, e.Old, e.New)
		case *exec.Error:
			paths = append(paths, e.Name)
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			if inner := e.Unwrap(); inner != nil {
				gather(inner)
			}
		case interface{ Unwrap() []error }:
			for _, inner := range e.Unwrap() {
				gather(inner)
			}
		}
	}
	gather(err)
	text := err.Error()
	slices.SortFunc(paths, func(a, b string) int { return len(b) - len(a) }) // a path can begin as another does
	for _, path := range paths {
		if filepath.IsAbs(path) {
			text = strings.ReplaceAll(text, path, filepath.Base(path))
		}
	}
	return text
}
