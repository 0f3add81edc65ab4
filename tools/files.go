package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/regular"
)

type listFilesArgs struct{}

// NewListFiles makes list_files, which lists the workspace.
func NewListFiles() Tool {
	return Define(Definition[listFilesArgs]{Name: "list_files",
		Description: "Lists the files of the workspace.",
		Run:         listFiles})
}

func listFiles(ctx context.Context, env *Env, _ listFilesArgs) (Output, error) {
	var b strings.Builder
	seen, files := 0, 0
	env.foreign.Store(env.start != nil) // a name can say anything
	err := env.Root.Walk(func(name string, info fs.FileInfo, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && name == ".":
			return err
		}
		if seen++; seen > MaxNames {
			return fs.SkipAll
		}
		if err == nil && info.IsDir() && !TooDeep(name) {
			return nil
		}
		if files++; files <= MaxEntries {
			about := ""
			switch {
			case err != nil:
				about = "cannot be looked at: " + whyNot(err).Error()
			case info.IsDir():
				about = "a folder too deep to look into"
			case !info.Mode().IsRegular():
				about = "not a regular file"
			default:
				about = Count(int(info.Size()), "byte")
			}
			b.WriteString(PlainName(name) + "\t" + about + "\n")
		}
		return fs.SkipDir
	})
	switch {
	case ctx.Err() != nil:
		return Output{}, ctx.Err()
	case err != nil:
		return Failed("cannot list the workspace: %v", whyNot(err)), nil
	case seen > MaxNames:
		b.WriteString("and more: not all folders were looked into\n")
	case files == 0:
		b.WriteString("the workspace is empty\n")
	case files > MaxEntries:
		fmt.Fprintf(&b, "and %d more\n", files-MaxEntries)
	}
	return Output{Document: b.String(), Shown: b.String()}, nil
}

// ReadFile reads a regular file of the workspace. The root keeps links inside;
// the text of the error is for the model.
func (env *Env) ReadFile(name string) ([]byte, error) {
	if !filepath.IsLocal(name) {
		return nil, errors.New("the path must be relative and inside the workspace; list_files shows what is there")
	}
	if env.Root == nil {
		if filepath.Clean(name) == "." {
			return nil, errFolder
		}
		return nil, whyNot(fs.ErrNotExist)
	}
	// A pipe may lie there by now, whatever it was before: opening one must not wait
	// for its writer.
	f, err := env.Root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, whyNot(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, whyNot(err)
	}
	switch {
	case info.IsDir():
		return nil, errFolder
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case info.Size() > MaxFile:
		return nil, errTooLarge
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, whyNot(err)
	}
	if len(data) > MaxFile {
		return nil, errTooLarge
	}
	if digest := canonical.Digest(data); env.start != nil && !slices.ContainsFunc(env.start, func(e entry) bool { return e.SHA256 == digest }) {
		env.foreign.Store(true)
	}
	return data, nil
}

var errFolder = errors.New("it is a directory; list_files shows what is in it")

var errTooLarge = fmt.Errorf("it is larger than %d MiB", MaxFile>>20)

// whyNot words an error of the file system without paths of this machine.
func whyNot(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("there is no such file; list_files shows what is there")
	}
	return regular.Cause(err) // also for links that lead out: "path escapes from parent"
}
