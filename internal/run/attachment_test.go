package run

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gaia-harness/gaia/agent"
	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/gaia-harness/gaia/internal/runfiles"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/trajectory"
)

// looking is a model that looks into the run directory at every request.
type looking struct {
	agent.Model
	look func()
}

func (l looking) Chat(ctx context.Context, r llm.Request, o llm.Observer) (llm.Response, error) {
	l.look()
	return l.Model.Chat(ctx, r, o)
}

// TestPlanFirst: when the first request reaches the model, the signed plan and
// run_started are on disk, in the run directory under its final name.
func TestPlanFirst(t *testing.T) {
	c := config(t, goldenTask)
	out := t.TempDir()
	seen := 0
	c.env.Model = looking{c.env.Model, func() {
		seen++
		dirs, err := filepath.Glob(filepath.Join(out, "*"))
		if err != nil || len(dirs) != 1 {
			t.Fatalf("%q, %v", dirs, err)
		}
		run, err := rundir.Verify(os.DirFS(dirs[0]), rundir.Options{})
		if err != nil || !run.Key.Equal(c.env.Key.Public()) || run.End.Events == 0 {
			t.Errorf("at request %d the plan is not there: %+v, %v", seen, run, err)
		}
	}}
	r := execute(t, out, c)
	if seen == 0 {
		t.Error("the model was not asked")
	}
	journal, err := os.ReadFile(filepath.Join(r.Dir, trajectory.JournalFile))
	if err != nil || !bytes.Contains(bytes.SplitN(journal, []byte("\n"), 2)[0], []byte(`"type":"run_started"`)) {
		t.Errorf("the first event is not run_started: %v", err)
	}
}

// TestAttachmentsAreCopies: each attempt has its own workspace, with a
// read-only copy of its task's attachment and of no other's.
func TestAttachmentsAreCopies(t *testing.T) {
	names := []string{"fab1e002-0000-4000-8000-000000000002.csv", "fab1e003-0000-4000-8000-000000000003.txt", "fab1e008-0000-4000-8000-000000000008.xlsx"}
	var ids []string
	for _, name := range names {
		ids = append(ids, strings.TrimSuffix(name, filepath.Ext(name)))
	}
	c := config(t, ids...)
	c.env.Concurrency = 1 // else a copy may be under way that another task's request sees
	out := t.TempDir()
	var mu sync.Mutex
	found := map[string]string{} // attachment: folder
	c.env.Model = looking{c.env.Model, func() {
		mu.Lock()
		defer mu.Unlock()
		files, err := filepath.Glob(filepath.Join(out, "*", runfiles.WorkDir, "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			info, err := os.Stat(path)
			if err != nil || info.IsDir() {
				continue // removed meanwhile
			}
			data, err := os.ReadFile(path)
			if err != nil {
				continue
			}
			name := filepath.Base(path)
			original, err := fs.ReadFile(fixtures.Dataset(), "2023/validation/"+name)
			if err != nil || canonical.Digest(data) != canonical.Digest(original) || info.Mode().Perm() != 0o444 {
				t.Errorf("%s has mode %v and %d bytes, the attachment %d: %v", path, info.Mode(), len(data), len(original), err)
			}
			if other, seen := found[name]; seen && other != filepath.Dir(path) {
				t.Errorf("%s is in %s and in %s", name, other, filepath.Dir(path))
			}
			found[name] = filepath.Dir(path)
		}
	}}
	execute(t, out, c)
	folders := map[string]bool{}
	for _, folder := range found {
		folders[folder] = true
	}
	if len(found) != len(names) || len(folders) != len(names) {
		t.Errorf("of %d attachments these were seen: %v", len(names), found)
	}
}

// TestAttachmentAsPlanned: no attempt begins with another attachment than the one
// that the plan has the digest of, and no run goes on with one.
func TestAttachmentAsPlanned(t *testing.T) {
	const id, name = "fab1e003-0000-4000-8000-000000000003", "fab1e003-0000-4000-8000-000000000003.txt"
	root := t.TempDir()
	if err := os.CopyFS(root, fixtures.Dataset()); err != nil {
		t.Fatal(err)
	}
	c := config(t, id)
	load := func() {
		var err error
		c.env.Set, c.env.Gold, err = loader.Load(context.Background(), loader.Dir(os.DirFS(root), "directory", loader.Unpinned), loader.Validation, loader.Filter{IDs: []string{id}})
		if err == nil {
			err = c.env.Set.HashAttachments(context.Background())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	load()
	r, err := Create(t.TempDir(), c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	original, err := fs.ReadFile(fixtures.Dataset(), "2023/validation/"+name)
	if err != nil {
		t.Fatal(err)
	}
	if p := r.State().Manifest.Tasks[0]; p.FileSHA256 != canonical.Digest(original) || p.FileBytes != int64(len(original)) {
		t.Errorf("the plan has %q, %d bytes", p.FileSHA256, p.FileBytes)
	}
	if err := os.WriteFile(filepath.Join(root, "2023", "validation", name), append(original, "one line more\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	err = r.Execute(context.Background(), nil)
	if err == nil || !strings.Contains(err.Error(), "is not the file that the plan has the digest of") || len(r.State().Tasks[0].Attempts) > 0 {
		t.Errorf("with another attachment: %v", err)
	}
	r.Close()
	load()
	differs := (*PlanError)(nil)
	if _, err := Resume(r.Dir, c.plan, c.env); !errors.As(err, &differs) {
		t.Errorf("resumed with another attachment: %v", err)
	}
}

// TestMetadataIsNoAttachment: a copy of the dataset in which an attachment is the metadata, under whatever name, would
// hand the agent the answers.
func TestMetadataIsNoAttachment(t *testing.T) {
	const id = "fab1e008-0000-4000-8000-000000000008"
	for name, put := range map[string]func(metadata, at string) error{
		"a copy": func(metadata, at string) error {
			b, err := os.ReadFile(metadata)
			if err == nil {
				err = os.WriteFile(at, b, 0o644)
			}
			return err
		},
		"a link":                      func(_, at string) error { return os.Symlink("metadata.parquet", at) },
		"a hard link":                 os.Link,
		"a link to the other split's": func(_, at string) error { return os.Symlink("../test/metadata.parquet", at) },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			if err := os.CopyFS(root, fixtures.Dataset()); err != nil {
				t.Fatal(err)
			}
			metadata, at := filepath.Join(root, "2023", "validation", "metadata.parquet"), filepath.Join(root, "2023", "validation", id+".xlsx")
			if err := os.Remove(at); err != nil {
				t.Fatal(err)
			}
			if err := put(metadata, at); err != nil {
				t.Fatal(err)
			}
			c := config(t, id)
			var err error
			c.env.Set, c.env.Gold, err = loader.Load(context.Background(), loader.Dir(os.DirFS(root), "directory", loader.Unpinned), loader.Validation, loader.Filter{IDs: []string{id}})
			if err != nil {
				t.Fatal(err)
			}
			r, err := Create(t.TempDir(), c.plan, c.env)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			err = r.Execute(context.Background(), nil)
			if want := `the attachment of task "` + id + `" is the dataset's metadata, which holds the answers`; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
			if task := r.State().Tasks[0]; len(task.Attempts) > 0 {
				t.Errorf("%d attempts", len(task.Attempts))
			}
		})
	}
}
