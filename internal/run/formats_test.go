package run

import (
	"archive/zip"
	"bytes"
	"context"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/tools/document"
	sandboxtools "github.com/gaia-harness/gaia/tools/sandbox"
)

// sensing adds the scripted eyes and ears to a rehearsal.
func sensing(t *testing.T, c setup) setup {
	t.Helper()
	client, ok := c.env.Model.(*llm.Client)
	if !ok {
		t.Fatalf("the client is a %T", c.env.Model)
	}
	c.env.Viewer, c.plan.Vision = client, &plan.VisionPlan{Model: fixtures.VisionModel, Origin: "builtin:vision"}
	c.env.Transcriber, c.plan.Transcription = client, &plan.TranscriptionPlan{Model: fixtures.TranscriptionModel, Origin: "builtin:transcription"}
	return c
}

// answers are what a rehearsal says to each of its tasks.
func (a account) answers() map[string]string {
	all := map[string]string{}
	for _, task := range a.Tasks {
		if r := a.Result(task); r.ModelAnswer != nil {
			all[r.TaskID] = *r.ModelAnswer
		}
	}
	return all
}

// replaced is a change to an attachment: in text, or in all that is in an archive.
func replaced(old, by string) func(*testing.T, []byte) []byte {
	return func(t *testing.T, data []byte) []byte {
		t.Helper()
		changed := substitute(t, data, old, by)
		if bytes.Equal(changed, data) {
			t.Fatalf("the attachment does not hold %q", old)
		}
		return changed
	}
}

func substitute(t *testing.T, data []byte, old, by string) []byte {
	t.Helper()
	if !bytes.HasPrefix(data, []byte("PK\x03\x04")) {
		return bytes.Replace(data, []byte(old), []byte(by), 1)
	}
	in, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range in.File {
		part, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		to, err := w.CreateHeader(&zip.FileHeader{Name: f.Name, Method: zip.Store})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := to.Write(substitute(t, body, old, by)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// repainted is a change to the fifth tile of the third row.
func repainted(t *testing.T, data []byte) []byte {
	t.Helper()
	was, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	m := image.NewRGBA(was.Bounds())
	draw.Draw(m, m.Rect, was, image.Point{}, draw.Src)
	draw.Draw(m, image.Rect(64, 32, 80, 48), image.NewUniform(color.RGBA{0xf0, 0x88, 0x18, 0xff}), image.Point{}, draw.Src)
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// rekeyed is a change to the message: its two digits, which are of one length, change places.
func rekeyed(t *testing.T, data []byte) []byte {
	t.Helper()
	const header, dot = 44, 120                    // bytes
	const first, digit = header + 99*dot, 16 * dot // "ALMA LANDS " and the silence before it take 99 dots
	out := slices.Clone(data)
	copy(out[first:], data[first+digit:first+2*digit])
	copy(out[first+digit:], data[first:first+digit])
	return out
}

// TestAnswersFollowAttachments: the answer to a task with a file is the one that the file
// holds. When a value in it changes, the answer is another.
func TestAnswersFollowAttachments(t *testing.T) {
	long.NotRaced(t)
	for _, c := range []struct {
		file   string
		change func(*testing.T, []byte) []byte
		want   string
	}{
		{"fab1e002-0000-4000-8000-000000000002.csv", replaced("6.35", "7.05"), "7.05"},
		{"fab1e003-0000-4000-8000-000000000003.txt", replaced("Ottoline Brask", "Ottoline Stone"), "Ottoline Stone"},
		{"fab1e004-0000-4000-8000-000000000004.json", replaced("12.5", "13.5"), "13.5"},
		{"fab1e011-0000-4000-8000-000000000011.pdf", replaced("against: 17", "against: 19"), "19"},
		{"fab1e018-0000-4000-8000-000000000018.xlsx", replaced("212.5", "200.5"), "427.75"},
		{"fab1e027-0000-4000-8000-000000000027.docx", replaced(">148<", ">158<"), "149"},
		{"fab1e027-0000-4000-8000-000000000027.docx", replaced("Veyra 9 were", "Veyra 8 were"), "140"},
		{"fab1e028-0000-4000-8000-000000000028.pptx", replaced("412 kilograms", "413 kilograms"), "413"},
		{"fab1e028-0000-4000-8000-000000000028.pptx", replaced(`id="257" r:id="rId1"`, `id="257" r:id="rId2"`), "265"},
		{"fab1e029-0000-4000-8000-000000000029.odt", replaced("7.5", "8.5"), "25.5"},
		{"fab1e030-0000-4000-8000-000000000030.png", repainted, "orange"},
		{"fab1e031-0000-4000-8000-000000000031.zip", replaced("Rock,7.25", "Rock,8.25"), "2.5"},
		{"fab1e031-0000-4000-8000-000000000031.zip", replaced("Rock,5.75", "Rock,5.25"), "2"},
		{"fab1e032-0000-4000-8000-000000000032.xml", replaced("12.5", "10.0"), "18.288"},
		{"fab1e033-0000-4000-8000-000000000033.html", replaced("20:10", "20:40"), "20:40"},
		{"fab1e034-0000-4000-8000-000000000034.py", replaced("watches = 9", "watches = 8"), "392"},
		{"fab1e035-0000-4000-8000-000000000035.wav", rekeyed, "73"},
		{"fab1e036-0000-4000-8000-000000000036.pdb", replaced("15.000", " 3.000"), "5"},
		{"fab1e037-0000-4000-8000-000000000037.jsonld", replaced(`"keeper:23"}`, `"keeper:30"}`), "Corwin Tull"},
		{"fab1e038-0000-4000-8000-000000000038.xlsx", replaced("2E8B57", "123456"), "not found"},
		{"fab1e038-0000-4000-8000-000000000038.xlsx", func(t *testing.T, data []byte) []byte {
			return replaced("B22222", "2E8B57")(t, replaced("2E8B57", "123456")(t, data))
		}, "B4"},
	} {
		id, _, _ := strings.Cut(c.file, ".")
		name := "2023/validation/" + c.file
		root := fstest.MapFS{}
		err := fs.WalkDir(fixtures.Dataset(), ".", func(at string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := fs.ReadFile(fixtures.Dataset(), at)
			root[at] = &fstest.MapFile{Data: data}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		root[name] = &fstest.MapFile{Data: c.change(t, root[name].Data)}
		cfg := sensing(t, config(t, id))
		cfg.env.Set, cfg.env.Gold, err = loader.Load(context.Background(), loader.Dir(root, fixtures.Name, fixtures.Revision), loader.Validation, loader.Filter{IDs: []string{id}})
		if err == nil {
			err = cfg.env.Set.HashAttachments(context.Background())
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, execute(t, t.TempDir(), cfg).Dir).answers()[id]; got != c.want {
			t.Errorf("%s changed: answered %q, want %q", c.file, got, c.want)
		}
	}
}

// TestAnswersWithoutPrograms: what is installed makes no difference to an answer, be it
// poppler, which reads pdf files, or bubblewrap, without which no code is run.
func TestAnswersWithoutPrograms(t *testing.T) {
	path := func(name string) string {
		found, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("%s is not installed: there is nothing to compare", name)
		}
		return found
	}
	ids := []string{"fab1e011-0000-4000-8000-000000000011", "fab1e021-0000-4000-8000-000000000021", "fab1e034-0000-4000-8000-000000000034"}
	without := read(t, execute(t, t.TempDir(), config(t, ids...)).Dir).answers()
	if len(without) != len(ids) {
		t.Fatalf("without programs: %q", without)
	}

	sandbox, err := sandboxtools.New(t.Context(), sandboxtools.Config{Bwrap: path("bwrap")})
	if err != nil {
		t.Skipf("bubblewrap does not work here: %v", err)
	}
	interpreter, err := sandboxtools.FindInterpreter(t.Context(), path("python3"), []string{"PATH=" + os.Getenv("PATH")})
	if err != nil {
		t.Skipf("python3 does not work here: %v", err)
	}
	c := config(t, ids...)
	reader := document.Reader{Poppler: &document.Poppler{Text: path("pdftotext"), Sandbox: sandbox}}
	c.env.Tools[0] = document.NewReadFile(reader)
	c.env.Tools = append(c.env.Tools, sandboxtools.NewPython(sandbox, interpreter))
	a := read(t, execute(t, t.TempDir(), c).Dir)
	with, ran := a.answers(), false
	for _, e := range a.executed {
		ran = ran || e.Name == "python" && strings.Contains(e.Head, with[ids[2]])
	}
	if !ran {
		t.Error("python did not print the answer")
	}
	for _, id := range ids {
		if with[id] != without[id] || with[id] == "not found" {
			t.Errorf("task %s: %q with poppler and bubblewrap, %q without", id, with[id], without[id])
		}
	}
}
