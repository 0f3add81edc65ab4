package loader

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gaia-harness/gaia/internal/canonical"
)

func TestAttachment(t *testing.T) {
	rows := threeTasks()
	rows[0].FileName = new("gone.pdf")
	rows[3].FileName = new("folder")
	set, _, err := load(Validation, encode(t, rows), Filter{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	rc, err := set.Attachment(ctx, set.Tasks[1])
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(rc)
	if cerr := rc.Close(); err != nil || cerr != nil || string(b) != "port,depth\n" {
		t.Errorf("got %q, %v, %v", b, err, cerr)
	}
	hashed := Set{Revision: set.Revision, Tasks: set.Tasks[1:2], source: set.source}
	if err := hashed.HashAttachments(ctx); err != nil || hashed.Tasks[0].Bytes != 11 || hashed.Tasks[0].SHA256 != canonical.Digest(b) {
		t.Errorf("hashed: %+v, %v", hashed.Tasks[0], err)
	}
	missing := Set{Revision: set.Revision, Tasks: set.Tasks[:1], source: set.source}
	if err := missing.HashAttachments(ctx); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("hashing a missing file: %v", err)
	}
	if _, err := set.Attachment(ctx, set.Tasks[0]); !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), `task "a" is missing: invented at r1 has no file "2023/validation/gone.pdf"`) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := set.Attachment(ctx, set.Tasks[2]); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("folder: %v", err)
	}
	if _, err := set.Attachment(ctx, Task{ID: "x", FileName: "b.csv"}); err == nil || err.Error() != `task "x" has no attachment` {
		t.Errorf("task made by hand: %v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := set.Attachment(cancelled, set.Tasks[1]); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A clone without Git LFS has pointers where the files should be.
func TestPointers(t *testing.T) {
	pointer := []byte("version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("0", 64) + "\nsize 12345\n")
	for name, root := range map[string]fstest.MapFS{
		"metadata":   {"2023/validation/metadata.parquet": {Data: pointer}},
		"attachment": {"2023/validation/metadata.parquet": {Data: encode(t, threeTasks())}, "2023/validation/b.csv": {Data: pointer}},
	} {
		set, _, err := Load(context.Background(), Dir(root, "invented", "r1"), Validation, Filter{IDs: []string{"b"}})
		if name == "attachment" && err == nil {
			_, err = set.Attachment(context.Background(), set.Tasks[0])
		}
		var refused *SourceError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "a Git LFS pointer stands in its place") || !strings.Contains(refused.Remedies[0], "git lfs pull") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMissingMetadata(t *testing.T) {
	for hub, remedy := range map[string]string{
		"":                    "point at the folder that holds 2023/",
		"https://hub.example": "choose a revision that has one of them",
	} {
		src := dir{root: fstest.MapFS{}, origin: Origin{Hub: hub, Dataset: "invented", Revision: "r1"}}
		_, _, err := Load(context.Background(), src, Test, Filter{})
		const want = `invented at r1 has neither "2023/test/metadata.parquet" nor "2023/test/metadata.jsonl"`
		var refused *SourceError
		if !errors.As(err, &refused) || !errors.Is(err, fs.ErrNotExist) || refused.Reason != want || !slices.Equal(refused.Remedies, []string{remedy}) {
			t.Errorf("got %v", err)
		}
	}
}

// A file that is there and cannot be read must not make another one count.
func TestUnreadableMetadata(t *testing.T) {
	root := fstest.MapFS{
		"2023/validation/metadata.parquet/x": {Data: []byte("x")},
		"2023/validation/metadata.jsonl":     {Data: []byte(lineA)},
	}
	_, _, err := Load(context.Background(), Dir(root, "invented", "r1"), Validation, Filter{})
	if err == nil || !strings.Contains(err.Error(), "opening 2023/validation/metadata.parquet of invented at r1: ") {
		t.Errorf("got %v", err)
	}
}
