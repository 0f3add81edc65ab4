// Package prune removes old runs, bodies, packages and cassettes, so that no crash leaves half of one that could be
// taken for a whole one: a folder first gets a name that nothing reads, and is then removed below it.
//
// A [Finder] finds only what it recognises and has verified, holds a run while it is removed, and keeps its
// record first. Removal follows no link, and does not remove another file that has taken the place of the one
// that was found. [Rule] chooses among several (TestChoose, TestRemove, prune.txtar).
package prune

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/history"
)

// Rule says which things are to go: those that are older than Age, as far as they are
// not among the Keep newest. A zero Age, and a Keep below zero, are no condition.
type Rule struct {
	Age  time.Duration
	Keep int
}

// Choose returns for each time of creation whether the thing is to go.
func (r Rule) Choose(created []time.Time, now time.Time) []bool {
	order := make([]int, len(created))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return created[b].Compare(created[a]) })
	chosen := make([]bool, len(created))
	for place, i := range order {
		chosen[i] = (r.Age == 0 || now.Sub(created[i]) > r.Age) && (r.Keep < 0 || place >= r.Keep)
	}
	return chosen
}

// ParseAge reads a duration above zero: Go's, or a whole number of days.
func ParseAge(s string) (time.Duration, error) {
	const most = 100 * 365 // days
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 32)
		if err != nil || n == 0 || n > most {
			return 0, errors.New("not a number of days")
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	age, err := time.ParseDuration(s)
	if err != nil || age <= 0 {
		return 0, errors.New("not a duration above zero")
	}
	return age, nil
}

// sizeOf returns the bytes of the regular files at path and below. Links are not followed.
func sizeOf(path string) (n int64, err error) {
	err = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}

// removeAt removes the file or folder at path if it is still the one that was looked at.
// Links in it are removed, not followed. After an error or a crash, what is left has
// its old name and is whole, or is one of unfinished.
func removeAt(path string, was fs.FileInfo) error {
	parent, name := filepath.Dir(path), filepath.Base(path)
	root, err := os.OpenRoot(parent)
	if err != nil {
		return err
	}
	defer root.Close()
	now, err := root.Lstat(name)
	if err != nil {
		return err
	}
	if !os.SameFile(was, now) {
		return fmt.Errorf("%q is another than the one that was looked at", path)
	}
	hidden := history.RemovalPrefix + name
	if err := root.RemoveAll(hidden); err != nil {
		return fmt.Errorf("removing what was left of another: %w", err)
	}
	if err := root.Rename(name, hidden); err != nil {
		return err
	}
	if err := durable.SyncDir(parent); err != nil {
		return err
	}
	return errors.Join(root.RemoveAll(hidden), durable.SyncDir(parent))
}

// unfinished returns the paths of what a removal in a folder has left that did not end.
func unfinished(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	var left []string
	for _, e := range entries {
		if name, ours := strings.CutPrefix(e.Name(), history.RemovalPrefix); ours && name != "" && (e.IsDir() || e.Type().IsRegular()) {
			left = append(left, filepath.Join(folder, e.Name()))
		}
	}
	return left, err
}

// finish removes what unfinished has returned.
func finish(left string) error {
	root, err := os.OpenRoot(filepath.Dir(left))
	if err != nil {
		return err
	}
	defer root.Close()
	return errors.Join(root.RemoveAll(filepath.Base(left)), durable.SyncDir(filepath.Dir(left)))
}
