// Package attachment prepares the workspace of an attempt: it copies the file that comes with a question, and reads it.
//
// The copy has the digest that the plan has, and is not the dataset's metadata, which holds the answers
// (TestAttachmentAsPlanned, TestMetadataIsNoAttachment in internal/run). Its text is searched for question and gold.
package attachment

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/loader"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/media"
	"github.com/gaia-harness/gaia/trajectory"
)

// Reader returns the text of a document.
type Reader interface {
	Text(ctx context.Context, name string, data []byte) (string, error)
}

// maxProbed bounds the attachments that are searched, in bytes. A larger one has no probes, which the audit counts as a
// gap.
const maxProbed = 64 << 20

// Prepare makes the folder dir, empty but for a read-only copy of the task's attachment, which is called name there, and
// lists its files as task_started records them. Where there is no attachment and like is given, the folder is not made before
// it is needed. The caller closes the workspace.
func Prepare(ctx context.Context, dir string, set loader.Set, task loader.Task, name string, reader Reader, prober tools.Prober,
	like *tools.Untouched) (*tools.Workspace, []trajectory.File, error) {
	if task.FileName == "" && like != nil {
		return tools.NewWorkspace(dir, like), []trajectory.File{}, nil
	}
	if err := tools.MakeFolder(dir); err != nil {
		return nil, nil, err
	}
	workspace, err := tools.OpenWorkspace(dir)
	if err != nil {
		return nil, nil, err
	}
	files := []trajectory.File{}
	if task.FileName != "" {
		file, err := copyFile(ctx, workspace.Root(), set, task, name, reader, prober)
		if err != nil {
			return nil, nil, errors.Join(err, workspace.Close())
		}
		files = append(files, file)
	}
	return workspace, files, nil
}

func copyFile(ctx context.Context, root *os.Root, set loader.Set, task loader.Task, name string, reader Reader, prober tools.Prober) (trajectory.File, error) {
	in, err := set.Attachment(ctx, task)
	if err != nil {
		return trajectory.File{}, err
	}
	defer in.Close()
	out, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return trajectory.File{}, err
	}
	defer out.Close()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, sum), in)
	if err != nil {
		return trajectory.File{}, fmt.Errorf("copying the attachment of task %q: %w", task.ID, err)
	}
	file := trajectory.File{Bytes: n, Path: name, SHA256: canonical.DigestOf(sum)}
	metadata := func(o loader.Other) bool { return o.Digest == file.SHA256 }
	if file.SHA256 == set.Digest || slices.ContainsFunc(set.Others, metadata) {
		return file, fmt.Errorf("the attachment of task %q is the dataset's metadata, which holds the answers: repair the copy of the dataset", task.ID)
	}
	if task.SHA256 != "" && file.SHA256 != task.SHA256 {
		return file, fmt.Errorf("the attachment of task %q is not the file that the plan has the digest of: repair the copy of the dataset", task.ID)
	}
	if err := out.Close(); err != nil || n > maxProbed {
		return file, err
	}
	data, err := root.ReadFile(name)
	if err != nil {
		return file, err
	}
	text, err := reader.Text(ctx, task.FileName, data)
	if err != nil {
		return file, fmt.Errorf("reading the attachment of task %q: %w", task.ID, err)
	}
	probes := prober.Probe(text, "", nil)
	file.Probes = &probes
	return file, nil
}

// onePicture is held while a picture is prepared, since a large one takes much memory.
var onePicture sync.Mutex

// Picture returns a file of a workspace as a model is shown it, nil if it is not a picture or too large.
func Picture(root *os.Root, name string) (*llm.Image, error) {
	info, err := root.Stat(name)
	if err != nil || info.Size() > media.MaxPicture {
		return nil, err
	}
	data, err := root.ReadFile(name)
	if err != nil {
		return nil, err
	}
	onePicture.Lock()
	defer onePicture.Unlock()
	picture, err := media.NewPicture(data)
	if err != nil {
		return nil, nil // there is nothing to show
	}
	return picture, nil
}
