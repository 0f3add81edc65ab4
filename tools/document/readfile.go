package document

import (
	"context"
	"errors"
	"path"
	"path/filepath"

	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/media"
)

type readFileArgs struct {
	Path   string `json:"path"`
	Inside string `json:"inside,omitzero" jsonschema:"member of an archive or office file; . lists them"`
	Page   int    `json:"page,omitzero"`
	Find   string `json:"find,omitzero"`
}

// NewReadFile makes read_file, which reads a file of the workspace.
func NewReadFile(reader Reader) tools.Tool {
	return tools.Define(tools.Definition[readFileArgs]{Name: "read_file",
		Description: "Reads a file as text: spreadsheets with formulas, documents, slides, pdf, any text; lists archives.",
		Run: func(ctx context.Context, env *tools.Env, a readFileArgs) (tools.Output, error) {
			data, err := env.ReadFile(a.Path)
			if err != nil {
				return tools.Failed("cannot read %q: %v", a.Path, err), nil
			}
			title := tools.PlainName(a.Path)
			doc, err := reader.Read(ctx, Source{Name: path.Base(filepath.ToSlash(a.Path)), Inside: a.Inside, Data: data})
			if a.Inside != "" {
				title += ", inside it " + tools.PlainName(a.Inside)
			}
			if u, is := errors.AsType[*tools.Unreadable](err); is {
				return tools.Failed("cannot read %q: %v", a.Path, u), nil
			}
			if err != nil {
				return tools.Output{}, err
			}
			return doc.Show(title, a.Page, a.Find), nil
		}})
}

// Text returns what read_file makes of a file's bytes; where it makes nothing of
// them, the bytes as they are. An error means that the machinery broke.
func (r Reader) Text(ctx context.Context, name string, data []byte) (string, error) {
	doc, err := r.Read(ctx, Source{Name: name, Data: data})
	if errors.As(err, new(*tools.Unreadable)) || doc.Kind == media.KindPicture || doc.Kind == media.KindRecording {
		return string(data), nil
	}
	return doc.Text, err
}

// Picture returns what in a file is to be looked at: the file, a member of it, or a page
// of a pdf, which is drawn. An *unreadable is for the model.
func (r Reader) Picture(ctx context.Context, data []byte, inside string, page int) ([]byte, error) {
	if inside != "" {
		var err error
		if _, data, _, err = memberOf(data, inside); err != nil {
			return nil, &tools.Unreadable{Why: tools.Plain(err)}
		}
	}
	switch {
	case isPDF(data):
		return r.page(ctx, data, max(page, 1))
	case page != 0:
		return nil, tools.Unreadablef("it is no pdf file, so it has no pages: leave page out")
	}
	return data, nil
}
