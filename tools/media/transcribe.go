package media

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gabriel-vasile/mimetype"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/tools"
)

// maxRecording is the most that OpenAI's transcription endpoint takes, in bytes.
const maxRecording = 25 << 20

// Transcriber transcribes a recording, as *llm.Client does.
type Transcriber interface {
	Transcribe(context.Context, llm.Transcription, llm.Observer) (llm.Transcript, error)
}

type transcribeArgs struct {
	Path string `json:"path"`
	Page int    `json:"page,omitzero"`
	Find string `json:"find,omitzero"`
}

// NewTranscribe makes transcribe_audio, which has a recording of the workspace
// written down by model. What the model refuses is a result that says so; a
// model that cannot be asked at all, or not after many tries, is an error.
func NewTranscribe(ask Transcriber, model string) tools.Tool {
	return tools.Define(tools.Definition[transcribeArgs]{Name: "transcribe_audio",
		Description: "Writes down the speech in an audio or video file.",
		Run: func(ctx context.Context, env *tools.Env, a transcribeArgs) (tools.Output, error) {
			data, err := env.ReadFile(a.Path)
			detected := mimetype.Detect(data)
			switch {
			case err != nil:
			case len(data) == 0:
				err = errors.New("it is empty (0 bytes)")
			case len(data) > maxRecording:
				err = fmt.Errorf("it is larger than %d MiB", maxRecording>>20)
			case !isRecording(detected):
				err = fmt.Errorf("it is of type %s, not a recording", kindOf(detected))
			}
			if err != nil {
				return tools.Failed("cannot transcribe %q: %v", a.Path, err), nil
			}
			// The name in the task is not passed on, and its extension may be wrong.
			recording := llm.Transcription{Model: model, FileName: "audio" + detected.Extension(), Audio: data}
			asked := env.Asking(model)
			if !asked.Covers(NeedOfRecording(recording)) { // a program has changed it meanwhile
				return tools.Failed("cannot transcribe %q: it has grown since the call was allowed; ask again", a.Path), nil
			}
			heard, err := ask.Transcribe(ctx, recording, asked)
			if err != nil {
				return asked.Failure(err, fmt.Sprintf("cannot transcribe %q", a.Path), "the transcription model")
			}
			doc := tools.Document{Kind: "transcript", Text: heard.Text}
			if heard.Milliseconds > 0 {
				doc.Notes = append(doc.Notes, fmt.Sprintf("%.1f seconds", float64(heard.Milliseconds)/1000))
			}
			if strings.TrimSpace(heard.Text) == "" {
				doc.Notes = append(doc.Notes, "no words were heard")
			}
			out := doc.Clipped().Show(tools.PlainName(a.Path), a.Page, a.Find)
			return asked.Mark(out, heard.RequestID, heard.ResponseModel), nil
		},
		Need: func(env *tools.Env, a transcribeArgs) tools.Need {
			data, _ := env.ReadFile(a.Path) // what cannot be read is never asked about
			return NeedOfRecording(llm.Transcription{Model: model, Audio: data})
		}})
}

// What a recording has at least and at most in a second: bytes, of the leanest
// encoding of speech in use, and tokens, which models bill instead of time.
const (
	bytesPerSecond  = 1000
	tokensPerSecond = 50
)

// NeedOfRecording bounds a request to transcribe a recording by how long it can be.
func NeedOfRecording(t llm.Transcription) tools.Need {
	seconds := int64(len(t.Audio))/bytesPerSecond + 1
	if exact, ok := waveSeconds(t.Audio); ok {
		seconds = exact + 1
	}
	return tools.Need{Model: t.Model, In: tokensPerSecond * seconds, Out: tokensPerSecond * seconds, Millis: 1000 * seconds}
}
