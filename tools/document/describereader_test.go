package document

import (
	"bytes"
	"context"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/testkit/files"
	"github.com/gaia-harness/gaia/tools/media"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is no picture, or none that can be decoded, is not sent anywhere.
func TestDescribeImageRefuses(t *testing.T) {
	small := files.AsPNG(t, files.Quarters(40, 30))
	env := workspace(t, map[string][]byte{
		"text.png": []byte("These are words.\n"), "empty.png": nil, "cut.png": small[:len(small)/2], "head.png": []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"),
		"bomb.png": files.PngOf(50_000, 50_000), "bomb.webp": files.AsWebP(16384, 16384), "large.png": append(bytes.Clone(small), make([]byte, media.MaxPicture)...),
		"memo.wav": files.MakeWAV(8), "scan.pdf": files.Scanned(t), "dir/a.png": small,
	})
	huge, err := os.Create(filepath.Join(env.Root.Name(), "huge.png"))
	must(t, err)
	must(t, huge.Truncate(2<<30)) // takes no space
	huge.Close()
	eyes := &viewer{answer: "A gate."}
	tool := media.NewDescribeImage(eyes, "seeing-model", Reader{})
	for _, tc := range []struct {
		path, question string
		page           int
		want           string
	}{
		{"text.png", "?", 0, "it is of type text/plain, not a picture that can be shown; such are png, jpeg"},
		{"memo.wav", "?", 0, "it is of type audio/wav, not a picture"},
		{"empty.png", "?", 0, "it is empty (0 bytes)"},
		{"cut.png", "?", 0, "it is a png picture that is cut off or damaged: "},
		{"head.png", "?", 0, "it is a png picture that is cut off or damaged: "},
		{"bomb.png", "?", 0, "it is a png picture of 50000 × 50000 pixels, which is too large to decode"},
		{"bomb.webp", "?", 0, "it is a webp picture of 16384 × 16384 pixels, which is too large to decode"},
		{"large.png", "?", 0, "it is larger than 32 MiB"},
		{"huge.png", "?", 0, "it is larger than 64 MiB"},
		{"missing.png", "?", 0, "there is no such file; list_files shows what is there"},
		{"dir", "?", 0, "it is a directory"},
		{"../a.png", "?", 0, "the path must be relative and inside the workspace"},
		{"dir/a.png", " ", 0, "say in question what to look for"},
		{"dir/a.png", "?", 2, "it is no pdf file, so it has no pages: leave page out"},
		{"scan.pdf", "?", 1, "pages of a pdf file cannot be drawn here, where pdftoppm is missing"},
	} {
		args := object{"path": tc.path, "question": tc.question}
		if tc.page > 0 {
			args["page"] = tc.page
		}
		out := use(t, tool, env, args)
		if !out.IsError || out.Model != nil || !strings.HasPrefix(out.Shown, "error: cannot look at ") {
			t.Errorf("%s: %+v", tc.path, out)
		}
		mustHold(t, tc.path, out.Shown, tc.want)
	}
	if len(eyes.sent) != 0 {
		t.Errorf("sent %d pictures", len(eyes.sent))
	}
}

// A picture in an archive or an office file is looked at where it lies.
func TestDescribeImageInside(t *testing.T) {
	small := files.AsPNG(t, files.Quarters(40, 30))
	deck := files.MakeZip(t, map[string][]byte{"ppt/presentation.xml": []byte("<p/>"), "ppt/media/image1.png": small})
	env := workspace(t, map[string][]byte{"deck.pptx": deck, "all.zip": files.MakeZip(t, map[string][]byte{"deck.pptx": deck, "note.txt": []byte("words")}), "a.png": small})
	for _, tc := range []struct{ path, inside, want string }{
		{"deck.pptx", "ppt/media/image1.png", "[deck.pptx, inside it ppt/media/image1.png: description by seeing-model]\nA gate."},
		{"all.zip", "deck.pptx/ppt/media/image1.png", "]\nA gate."},
		{"all.zip", "note.txt", "it is of type text/plain, not a picture"},
		{"all.zip", "none.png", `there is no member "none.png"`},
		{"all.zip", "../a.png", `there is no member "../a.png"`},
		{"a.png", "x.png", `error: cannot look at "a.png": `},
	} {
		eyes := &viewer{answer: "A gate."}
		tool := media.NewDescribeImage(eyes, "seeing-model", Reader{})
		out := use(t, tool, env, object{"path": tc.path, "inside": tc.inside, "question": "?"})
		mustHold(t, tc.inside, out.Shown, tc.want)
		if out.IsError != (len(eyes.sent) == 0) || len(eyes.sent) > 0 && !bytes.Equal(eyes.sent[0], small) {
			t.Errorf("%s: sent %d pictures", tc.inside, len(eyes.sent))
		}
	}
}

// viewer is a model that answers the same about every picture.
type viewer struct {
	answer string
	sent   [][]byte
}

func (v *viewer) Chat(_ context.Context, r llm.Request, _ llm.Observer) (llm.Response, error) {
	v.sent = append(v.sent, r.Messages[0].Image.Data)
	return llm.Response{Message: llm.Message{Role: "assistant", Content: v.answer}}, nil
}
