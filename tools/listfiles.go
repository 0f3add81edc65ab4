package tools

import (
	"context"
	"fmt"
	"io/fs"
	"strings"

	"github.com/gaia-harness/gaia/internal/visible"
)

type listFilesArgs struct{}

// NewListFiles makes list_files, which lists the workspace.
func NewListFiles() Tool {
	return define("list_files",
		"Lists the files of the workspace with their sizes.",
		func(ctx context.Context, env *Env, _ listFilesArgs) (Output, error) { return listFiles(ctx, env) })
}

func listFiles(ctx context.Context, env *Env) (Output, error) {
	var b strings.Builder
	seen, files := 0, 0
	err := env.Root.walk(func(name string, info fs.FileInfo, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && name == ".":
			return err
		}
		if seen++; seen > maxNames {
			return fs.SkipAll
		}
		if err == nil && info.IsDir() && !tooDeep(name) {
			return nil
		}
		if files++; files <= maxEntries {
			b.WriteString(plainName(name) + "\t" + describe(info, err) + "\n")
		}
		return fs.SkipDir
	})
	switch {
	case ctx.Err() != nil:
		return Output{}, ctx.Err()
	case err != nil:
		return failed("cannot list the workspace: %v", whyNot(err)), nil
	case seen > maxNames:
		b.WriteString("and more: not all folders were looked into\n")
	case files == 0:
		b.WriteString("the workspace is empty\n")
	case files > maxEntries:
		fmt.Fprintf(&b, "and %d more\n", files-maxEntries)
	}
	return Output{Document: b.String(), Shown: b.String()}, nil
}

func describe(info fs.FileInfo, err error) string {
	switch {
	case err != nil:
		return "cannot be looked at: " + whyNot(err).Error()
	case info.IsDir():
		return "a folder too deep to look into"
	case !info.Mode().IsRegular():
		return "not a regular file"
	}
	return count(int(info.Size()), "byte")
}

// plainName quotes a name that would not stay on its line.
func plainName(name string) string {
	if strings.ContainsFunc(name, visible.Hidden) {
		return visible.Quote(name)
	}
	return name
}
