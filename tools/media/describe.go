package media

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/prompt"
	"github.com/gaia-harness/gaia/tools"
)

// Viewer answers what it is asked about a picture, as *llm.Client does.
type Viewer interface {
	Chat(context.Context, llm.Request, llm.Observer) (llm.Response, error)
}

type describeArgs struct {
	Path     string `json:"path"`
	Inside   string `json:"inside,omitzero"`
	Question string `json:"question" jsonschema:"the model knows nothing else"`
	Page     int    `json:"page,omitzero"`
}

// Pictures finds pictures in files, as document.Reader does. Picture returns the bytes of
// the picture: data, the member of it that inside names, or a page of a pdf,
// from 1 (0: no page was asked for). An *unreadable is for the model.
type Pictures interface {
	Picture(ctx context.Context, data []byte, inside string, page int) ([]byte, error)
}

// NewDescribeImage makes describe_image, which has model answer a question about
// a picture of the workspace, or about a picture that files finds in another file. What
// the model refuses is a result that says so; a model that cannot be asked at
// all, or not after many tries, is an error.
func NewDescribeImage(ask Viewer, model string, files Pictures) tools.Tool {
	v := &viewing{ask: ask, model: model, files: files}
	return tools.Define(tools.Definition[describeArgs]{Name: "describe_image", Need: v.need,
		Description: "Asks a model about a picture, also inside a file, or a pdf page.",
		Run:         v.run})
}

type viewing struct {
	ask      Viewer
	model    string
	files    Pictures
	decoding sync.Mutex // one at a time, since a large picture takes much memory
}

// picture returns what is looked at. An *unreadable is for the model.
func (v *viewing) picture(ctx context.Context, env *tools.Env, a describeArgs) (*llm.Image, error) {
	if strings.TrimSpace(a.Question) == "" {
		return nil, tools.Unreadablef("say in question what to look for")
	}
	data, err := env.ReadFile(a.Path)
	if err != nil {
		return nil, &tools.Unreadable{Why: err.Error()}
	}
	if data, err = v.files.Picture(ctx, data, a.Inside, a.Page); err != nil {
		return nil, err
	}
	v.decoding.Lock()
	defer v.decoding.Unlock()
	return NewPicture(data)
}

// request is the request to the model.
func (v *viewing) request(a describeArgs, picture *llm.Image) llm.Request {
	return llm.Request{Model: v.model, Messages: []llm.Message{{Role: "user", Content: prompt.Describe(a.Question), Image: picture}}}
}

// need bounds what the model counts. A file that is no picture itself may give one of
// any size.
func (v *viewing) need(env *tools.Env, a describeArgs) tools.Need {
	picture := &llm.Image{}
	data, err := env.ReadFile(a.Path)
	if err != nil { // it is never asked
		return tools.Need{Model: v.model}
	}
	if a.Inside == "" {
		picture.Data = data
	}
	return NeedOfLook(v.request(a, picture))
}

// NeedOfLook bounds a request about pictures: a token for two bytes of text, and
// for each picture what the usual endpoints count: some 300 for any, and one for 350
// pixels, tools.PictureTokens at most.
func NeedOfLook(r llm.Request) tools.Need {
	n := tools.Need{Model: r.Model}
	for _, m := range r.Messages {
		n.In += int64(len(m.Content)+1) / 2 // no text in earnest has more
		if m.Image == nil {
			continue
		}
		tokens := int64(tools.PictureTokens)
		if f, known := FormatOf(m.Image.Data); known {
			if c, err := f.header(m.Image.Data); err == nil && max(c.Width, c.Height) <= maxSide {
				tokens = min(tokens, 300+int64(c.Width)*int64(c.Height)/350)
			}
		}
		n.In += tokens
	}
	return n
}

// run asks the model.
func (v *viewing) run(ctx context.Context, env *tools.Env, a describeArgs) (tools.Output, error) {
	cannot := fmt.Sprintf("cannot look at %q", a.Path)
	picture, err := v.picture(ctx, env, a)
	if u, is := errors.AsType[*tools.Unreadable](err); is {
		return tools.Failed("%s: %v", cannot, u), nil
	}
	if err != nil {
		return tools.Output{}, err
	}
	asked := env.Asking(v.model)
	request := v.request(a, picture)
	request.MaxTokens = asked.MaxTokens()
	if !asked.Covers(NeedOfLook(request)) { // a program has changed it meanwhile
		return tools.Failed("%s: it has grown since the call was allowed; ask again", cannot), nil
	}
	answer, err := v.ask.Chat(ctx, request, asked)
	if mute, is := errors.AsType[*llm.Error](err); is && mute.Code == "empty_completion" { // after every try: it has no answer about this picture
		out := tools.Failed("%s: the model that looks says nothing of it; ask otherwise, or go on without it", cannot)
		return asked.Mark(out, mute.RequestID, ""), nil
	}
	if err != nil {
		return asked.Failure(err, cannot, "the model that looks")
	}
	out := v.description(a, answer)
	if len(answer.Channels) > 0 { // what it read there is recorded nowhere
		out = tools.Failed("%s: the endpoint did more than look at it (%s), so its answer is not used",
			cannot, strings.Join(answer.Channels, ", "))
	}
	return asked.Mark(out, answer.RequestID, answer.ResponseModel), nil
}

// description shows an answer: the beginning, as much as a page of a document.
func (v *viewing) description(a describeArgs, answer llm.Response) tools.Output {
	about := tools.PlainName(a.Path)
	if a.Inside != "" {
		about += ", inside it " + tools.PlainName(a.Inside)
	}
	if a.Page > 0 {
		about += fmt.Sprintf(", page %d", a.Page)
	}
	about += ": description by " + tools.PlainName(v.model)
	text := answer.Message.Content
	end := tools.RuneOffset(text, tools.PageRunes)
	switch {
	case end < len(text):
		about += fmt.Sprintf(", its first %d characters: ask for less", tools.PageRunes)
	case answer.FinishReason == "length":
		about += ", cut off: ask for less"
	}
	return tools.Output{Document: text, Shown: "[" + about + "]\n" + text[:end]}
}
