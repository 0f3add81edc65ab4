package tools

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unicode"
)

const maxListed = 1000 // entries

type listFilesArgs struct{}

// NewListFiles makes list_files, which lists the workspace.
func NewListFiles() Tool {
	return define("list_files",
		"Lists the files of the workspace with their sizes.",
		func(ctx context.Context, env *Env, _ listFilesArgs) (Output, error) { return listFiles(ctx, env) })
}

func listFiles(ctx context.Context, env *Env) (Output, error) {
	var b strings.Builder
	files := 0
	var err error
	if env.Root != nil {
		err = fs.WalkDir(env.Root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil || entry.IsDir() {
				return err
			}
			files++
			if files <= maxListed {
				b.WriteString(plainName(name) + describe(entry))
			}
			return nil
		})
	}
	if ctx.Err() != nil {
		return Output{}, ctx.Err()
	}
	if err != nil {
		return failed("cannot list the workspace: %v", whyNot(err)), nil
	}
	switch {
	case files == 0:
		b.WriteString("the workspace is empty\n")
	case files > maxListed:
		fmt.Fprintf(&b, "and %d more\n", files-maxListed)
	}
	return Output{Document: b.String(), Shown: b.String()}, nil
}

func describe(entry fs.DirEntry) string {
	if !entry.Type().IsRegular() {
		return "\tnot a regular file\n"
	}
	info, err := entry.Info()
	if err != nil {
		return "\n"
	}
	return "\t" + count(int(info.Size()), "byte") + "\n"
}

// plainName quotes a name that would not stay on its line.
func plainName(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}
