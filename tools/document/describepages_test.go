package document

import (
	"bytes"
	"github.com/gaia-harness/gaia/internal/testkit/files"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/tools/media"
	"image/png"
	"testing"
)

// A page of a pdf is drawn as it looks.
func TestDescribeImageOfPages(t *testing.T) {
	long.NotRaced(t)
	for where, r := range popplers(t) {
		eyes := &viewer{answer: "Red, with a blue corner."}
		tool := media.NewDescribeImage(eyes, "seeing-model", r)
		env := workspace(t, map[string][]byte{"scan.pdf": files.Scanned(t), "text.pdf": files.MakePDF("a", "b"), "locked.pdf": files.LockedPDF()})
		mustHold(t, where, use(t, tool, env, object{"path": "scan.pdf", "question": "Which colours?"}).Shown, "[scan.pdf: description by seeing-model]\nRed, with")
		mustHold(t, where, use(t, tool, env, object{"path": "text.pdf", "question": "?", "page": 2}).Shown, "[text.pdf, page 2: description by seeing-model]\n")
		mustHold(t, where, use(t, tool, env, object{"path": "text.pdf", "question": "?", "page": 3}).Shown, `error: cannot look at "text.pdf": there is no page 3: the last one is 2`)
		mustHold(t, where, use(t, tool, env, object{"path": "locked.pdf", "question": "?"}).Shown, "it is an encrypted pdf file")
		if len(eyes.sent) != 2 {
			t.Fatalf("%s: sent %d pictures", where, len(eyes.sent))
		}
		page, err := png.Decode(bytes.NewReader(eyes.sent[0]))
		must(t, err)
		for _, p := range []struct{ x, y, red, blue int }{{pageSide / 4, pageSide / 4, 255, 0}, {pageSide * 3 / 4, pageSide * 3 / 4, 0, 255}} {
			if r, _, b, _ := page.At(p.x, p.y).RGBA(); !files.Near(uint8(r>>8), uint8(p.red)) || !files.Near(uint8(b>>8), uint8(p.blue)) {
				t.Errorf("%s: at %d,%d it is red %d, blue %d", where, p.x, p.y, r>>8, b>>8)
			}
		}
	}
}
