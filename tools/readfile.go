package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

type readFileArgs struct {
	Path   string `json:"path" jsonschema:"name of the file in the workspace, as list_files gives it"`
	Inside string `json:"inside,omitzero" jsonschema:"in an archive or office file: the name of the member to read, such as folder/x.csv, or a.zip/x.csv for one in an archive inside; . lists the members of an office file"`
	Page   int    `json:"page,omitzero" jsonschema:"which page of a long document to show, from 1; the first if left out"`
	Find   string `json:"find,omitzero" jsonschema:"show only the lines that hold this text, in any case, with their neighbours"`
}

// NewReadFile makes read_file, which reads a file of the workspace.
func NewReadFile(reader Reader) Tool {
	return define("read_file",
		"Reads a file of the workspace as text: csv, tsv, xlsx and ods (every sheet, with formulas), pdf, docx and odt (with notes and comments), pptx and odp (with speaker notes), html, xml, json, program source and other text in any encoding. Lists zip, tar and gz archives, and reads what is inside them. Long ones come in pages; find looks inside.",
		func(ctx context.Context, env *Env, a readFileArgs) (Output, error) {
			data, err := readInside(env, a.Path)
			if err != nil {
				return failed("cannot read %q: %v", a.Path, err), nil
			}
			title := plainName(a.Path)
			doc, err := reader.file(ctx, source{name: path.Base(filepath.ToSlash(a.Path)), data: data}, a.Inside)
			if a.Inside != "" {
				title += ", inside it " + plainName(a.Inside)
			}
			var u *unreadable
			if errors.As(err, &u) {
				return failed("cannot read %q: %v", a.Path, u), nil
			}
			if err != nil {
				return Output{}, err
			}
			return doc.show(title, a.Page, a.Find), nil
		})
}

// Text returns what read_file makes of a file's bytes; where it makes nothing of
// them, the bytes as they are. An error means that the machinery broke.
func (r Reader) Text(ctx context.Context, name string, data []byte) (string, error) {
	doc, err := r.convert(ctx, source{name: name, data: data})
	var u *unreadable
	if errors.As(err, &u) || doc.kind == kindPicture || doc.kind == kindRecording {
		return string(data), nil
	}
	return doc.text, err
}

// readInside reads a regular file of the workspace. The root keeps links inside;
// the text of the error is for the model.
func readInside(env *Env, name string) ([]byte, error) {
	if !filepath.IsLocal(name) {
		return nil, errors.New("the path must be relative and inside the workspace; list_files shows what is there")
	}
	if env.Root == nil {
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
	if err := readableFile(info); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, whyNot(err)
	}
	if len(data) > maxFile {
		return nil, errTooLarge
	}
	return data, nil
}

var errTooLarge = fmt.Errorf("it is larger than %d MiB", maxFile>>20)

func readableFile(info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return errors.New("it is a directory; list_files shows what is in it")
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file")
	case info.Size() > maxFile:
		return errTooLarge
	}
	return nil
}

// whyNot words an error of the file system without paths of this machine.
func whyNot(err error) error {
	var p *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("there is no such file; list_files shows what is there")
	case errors.As(err, &p):
		return p.Err // also for links that lead out: "path escapes from parent"
	}
	return err
}
