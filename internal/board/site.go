package board

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/durable"
	"github.com/gaia-harness/gaia/internal/exit"
	"github.com/gaia-harness/gaia/internal/outfile"
	"github.com/gaia-harness/gaia/internal/regular"
	"github.com/go-json-experiment/json"
)

// Names in a site.
const (
	dataFile     = "data.json"
	indexFile    = "index.html"
	styleFile    = "style.css"
	packagesName = "packages"
)

// siteFile matches the names of files of a site, with slashes.
var siteFile = regexp.MustCompile(`^(data\.json|index\.html|style\.css|[a-z]+(-[a-z]+)*\.(svg|csv)|packages/[0-9a-f]{32}\.html)$`)

// writeSite writes a site into the folder out, which must not exist, be empty, or be a site of this program, which it
// replaces. It is written beside it first, so a failure leaves what was there.
func writeSite(ctx context.Context, out string, files map[string][]byte) (err error) {
	out = filepath.Clean(out)
	if err := replaceable(out); err != nil {
		return err
	}
	parent := filepath.Dir(out)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return notWritten(out, err)
	}
	aside, err := os.MkdirTemp(parent, ".board-*")
	if err != nil {
		return notWritten(out, err)
	}
	defer os.RemoveAll(aside)
	site := filepath.Join(aside, "site")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		path := filepath.Join(site, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return notWritten(out, err)
		}
		if err := os.WriteFile(path, files[name], 0o644); err != nil {
			return notWritten(out, err)
		}
	}
	// Between the two renames there is no site; the old one is put back if the second fails.
	old := filepath.Join(aside, "old")
	switch err := os.Rename(out, old); {
	case errors.Is(err, fs.ErrNotExist):
		old = ""
	case err != nil:
		return notWritten(out, err)
	}
	if err := os.Rename(site, out); err != nil {
		if old != "" {
			err = errors.Join(err, os.Rename(old, out))
		}
		return notWritten(out, err)
	}
	return durable.SyncDir(parent)
}

func notWritten(out string, err error) error {
	return exit.New(exit.Failure, fmt.Errorf("writing the site %q: %w", out, regular.Cause(err)), outfile.Remedy(err))
}

// replaceable returns an error if there is something else than a site of this program, or an empty folder.
func replaceable(out string) error {
	const hint = "give a folder for the site alone by --out: one that is not there, is empty, or is a site that gaia wrote"
	info, err := os.Lstat(out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return notWritten(out, err)
	case !info.IsDir():
		return exit.Usagef(hint, "%q is not a folder, and is not replaced", out)
	}
	strange, marked, some := "", false, false
	err = filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == out {
			return err
		}
		some = true
		name := strings.TrimPrefix(filepath.ToSlash(strings.TrimPrefix(path, out)), "/")
		switch {
		case d.IsDir() && name == packagesName:
		case !d.Type().IsRegular() || !siteFile.MatchString(name):
			strange = name
			return fs.SkipAll
		case name == dataFile:
			data, err := regular.ReadUpTo(path, maxData)
			var of struct {
				Schema string `json:"schema"`
			}
			marked = err == nil && json.Unmarshal(data, &of) == nil && of.Schema == Schema
		}
		return nil
	})
	switch {
	case err != nil:
		return notWritten(out, err)
	case strange != "":
		return exit.Usagef(hint, "%q holds %q, which is of no site, and is not replaced", out, strange)
	case some && !marked:
		return exit.Usagef(hint, "%q has no %s of a site, and is not replaced", out, dataFile)
	}
	return nil
}

// maxData bounds, in bytes, the data of a site that is replaced.
const maxData = 256 << 20
