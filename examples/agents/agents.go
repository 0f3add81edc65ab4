// Package agents holds recipes: folders that make an agent of another project solve the tasks of a run, recorded from
// outside. A recipe is a few small files. [Copy] writes them into a folder of the user's, whose script install then
// fetches the agent itself, in the versions that the recipe names. docs/agents.md has what such a folder must hold.
package agents

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/view"
)

// Only the files of the recipes, not what an install script may have left beside them.
//
//go:embed */agent */install */README.md */*.py */*.txt */*.json */*.yaml
var files embed.FS

// SettingsFile has the settings of a recipe that needs some.
const SettingsFile = "gaia.yaml"

// Recipe is one of the recipes: its name, and the first sentence of its README.md.
type Recipe struct {
	Name    string `json:"name"`
	Summary string `json:"summary"`
}

// List returns the recipes by name.
func List() ([]Recipe, error) {
	folders, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, err
	}
	var all []Recipe
	for _, folder := range folders {
		readme, err := fs.ReadFile(files, folder.Name()+"/README.md")
		if err != nil {
			return nil, err
		}
		_, text, _ := strings.Cut(string(readme), "\n\n")
		summary, _, _ := strings.Cut(text, "\n")
		all = append(all, Recipe{folder.Name(), summary})
	}
	return all, nil
}

// Copy writes the files of a recipe into a folder, which it creates, and returns the commands that come next. It is an error
// of usage where there is no such recipe, or where the folder exists and is not empty.
func Copy(name, folder string) (next string, err error) {
	all, err := List()
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(all, func(r Recipe) bool { return r.Name == name }) {
		return "", exit.Usagef("'gaia agent list' has the names", "no recipe is named %q", name)
	}
	switch entries, err := os.ReadDir(folder); {
	case len(entries) > 0:
		return "", exit.Usagef("name another folder: gaia agent init "+name+" DIR", "%s is there, and not empty", view.Quote(folder))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	entries, err := fs.ReadDir(files, name)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		text, err := fs.ReadFile(files, name+"/"+e.Name())
		if err != nil {
			return "", err
		}
		mode := fs.FileMode(0o644)
		if e.Name() == "agent" || e.Name() == "install" { // embedding loses the bit
			mode = 0o755
		}
		if err := os.WriteFile(filepath.Join(folder, e.Name()), text, mode); err != nil {
			return "", err
		}
	}
	path := filepath.Clean(folder)
	if !filepath.IsAbs(path) && !strings.HasPrefix(path, ".") {
		path = "./" + path
	}
	path = view.Quote(path)
	with := path
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == SettingsFile }) {
		with += " --settings " + path + "/" + SettingsFile
	}
	return fmt.Sprintf("next:\n  %s/install\n  gaia agent try %s\n  gaia run --agent %s\n", path, with, with), nil
}
