package run

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/loader"
)

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
			c.Set, c.Gold, err = loader.Load(context.Background(), loader.Dir(os.DirFS(root), "directory", loader.Unpinned), loader.Validation, loader.Filter{IDs: []string{id}})
			if err != nil {
				t.Fatal(err)
			}
			r, err := Create(t.TempDir(), c)
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
