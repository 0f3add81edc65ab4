package runlist

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/verify"
	"github.com/gaia-harness/gaia/internal/view"
)

// Latest names the run that began last, whatever its state.
const Latest = "latest"

const (
	idLength = 26
	minName  = 4  // characters of the start of an id
	maxNamed = 10 // runs that an error lists
)

// ids are ULIDs: 26 digits of Crockford's base 32, of which the first is at most 7.
var idStart = regexp.MustCompile(`^[0-7][0-9A-HJKMNP-TV-Z]{0,25}$`)

func isID(s string) bool { return len(s) == idLength && idStart.MatchString(s) }

// Find returns the path of the run directory in folders that name means: "latest", a run id, or the start of one of at least
// four characters, in capitals or not. A path that exists wins over both, and is returned as it is, as is a name that is
// neither: the command that reads it says what it is not. Folders that do not exist have no runs. Folders of shards, which
// have the id of their run, count where there is no other run of the name. That no run or several have the name is an error
// of usage.
func Find(name string, folders []string) (dir string, err error) {
	if _, err := os.Lstat(name); err == nil || name == "" {
		return name, nil
	}
	start := strings.ToUpper(name)
	if name != Latest && !idStart.MatchString(start) {
		return name, nil
	}
	in := strings.Join(folders, " and ")
	found := named(folders)
	if name != Latest {
		found = slices.DeleteFunc(found, func(at place) bool { return !strings.HasPrefix(at.id, start) })
	}
	if slices.ContainsFunc(found, func(at place) bool { return !at.part }) {
		found = slices.DeleteFunc(found, func(at place) bool { return at.part })
	}
	switch {
	case name == Latest && len(found) == 0:
		return "", exit.Usagef("'gaia run' makes one, and 'gaia runs' lists them", "there is no run in %s", view.Quote(in))
	case name == Latest:
		return found[0].dir, nil
	case len(name) < minName:
		return "", exit.Usagef("'gaia runs' lists the runs; give at least four characters of an id, or a path", "%q is no path, and too short for the start of a run id", name)
	}
	switch len(found) {
	case 0:
		return "", exit.Usagef("'gaia runs' lists the runs; a path works, too", "%q is no path, and the start of no run id in %s", name, view.Quote(in))
	case 1:
		return found[0].dir, nil
	}
	e := &exit.Error{Code: exit.Usage, Err: fmt.Errorf("%q is the start of the ids of %s", name, view.Count(len(found), "run")), Hints: []string{"give more of the id, or a path"}}
	for _, at := range found {
		e.Reasons = append(e.Reasons, strings.TrimSpace(at.dir+"  "+at.started))
	}
	e.Reasons = view.First(maxNamed, e.Reasons)
	return "", e
}

// named returns the run directories in folders, the newest first.
func named(folders []string) (found []place) {
	for i, folder := range folders {
		if !slices.ContainsFunc(folders[:i], func(f string) bool { return filepath.Clean(f) == filepath.Clean(folder) }) {
			in, _ := scan(folder)
			found = append(found, in...)
		}
	}
	newestFirst(found)
	return found
}

// Tasks returns what a shell completes a task of a run or package by: the ids of its plan, each with a tab and its level.
func Tasks(name string, folders []string) (ids []string) {
	dir, err := Find(name, folders)
	if err != nil {
		return nil
	}
	m, err := verify.ReadPlan(dir)
	if err != nil {
		return nil
	}
	for _, t := range m.Tasks {
		ids = append(ids, fmt.Sprintf("%s\tlevel %d", view.Line(t.TaskID), t.Level))
	}
	return ids
}

// Names returns what a shell completes a run by: "latest" and the ids of the runs in folders, the newest first, each with a tab
// and when it began.
func Names(folders []string) []string {
	found := named(folders)
	if len(found) == 0 {
		return nil
	}
	names := []string{Latest + "\tthe run that began last"}
	for _, at := range found {
		if isID(at.id) && !at.part {
			names = append(names, at.id+"\t"+view.Line(at.started))
		}
	}
	return names
}
