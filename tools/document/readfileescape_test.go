//go:build unix

package document

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gaia-harness/gaia/internal/llm"
	"github.com/gaia-harness/gaia/internal/testkit/files"
	"github.com/gaia-harness/gaia/tools"
	"github.com/gaia-harness/gaia/tools/media"
)

const canary = "brellin-canary-4711"

// unasked is a model that no file from outside may reach.
type unasked struct{ t *testing.T }

func (u unasked) Chat(context.Context, llm.Request, llm.Observer) (llm.Response, error) {
	u.t.Error("a model was shown a file from outside")
	return llm.Response{}, context.Canceled
}

func (u unasked) Transcribe(context.Context, llm.Transcription, llm.Observer) (llm.Transcript, error) {
	u.t.Error("a model heard a file from outside")
	return llm.Transcript{}, context.Canceled
}

// plantOutside lays out a run as it lies on a machine, with what an agent must
// not read around its workspace, and returns the folder and the workspace.
func plantOutside(t *testing.T) (dir string, env *tools.Env) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{
		"home/.config/gaia/keys/signing", "home/.cache/gaia/judge/verdict.json", "home/.ssh/id_ed25519", "home/.cache/huggingface/token",
		"data/2023/validation/metadata.jsonl", "runs/r1/events.jsonl", "runs/r1/judgments.jsonl", "runs/r1/manifest.dsse.json",
		"runs/r1/results.jsonl", "runs/r1/attempts/a2/notes.txt", "runs/r1/attempts/a1/dir/own.txt",
	} {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(canary+"\n"), 0o644))
	}
	must(t, os.WriteFile(filepath.Join(dir, "data", "gold.zip"), files.ZipOf(t, files.Raw{Name: "gold.txt", Data: canary}), 0o644))
	// What the senses would send on, if they got at it.
	must(t, os.WriteFile(filepath.Join(dir, "data", "gold.png"), onePixel(t), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "data", "gold.wav"), []byte("RIFF\x24\x00\x00\x00WAVEfmt "+canary), 0o644))
	workspace := filepath.Join(dir, "runs", "r1", "attempts", "a1")
	must(t, os.WriteFile(filepath.Join(workspace, "dir", "own.txt"), []byte("its own\n"), 0o644))
	root, err := os.OpenRoot(workspace)
	must(t, err)
	t.Cleanup(func() { must(t, root.Close()) })
	return dir, &tools.Env{Root: &tools.Folder{Root: root}, Kept: &tools.Kept{}}
}

func onePixel(t *testing.T) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
	must(t, err)
	return b
}

// TestReadFileEscapes: whatever a path says, and whatever lies in the workspace,
// no tool that reads files gets at one outside of it, or waits for one.
func TestReadFileEscapes(t *testing.T) {
	dir, env := plantOutside(t)
	workspace := env.Root.Name()
	for name, target := range map[string]string{
		"gold.jsonl": filepath.Join(dir, "data/2023/validation/metadata.jsonl"), "gold.zip": filepath.Join(dir, "data/gold.zip"),
		"gold.png": filepath.Join(dir, "data/gold.png"), "gold.wav": filepath.Join(dir, "data/gold.wav"),
		"out": dir, "up.txt": "../a2/notes.txt", "chain.txt": "up.txt", "loop": "loop", "dir/up": "../..",
		"environ": "/proc/self/environ", "zero": "/dev/zero", "keys": filepath.Join(dir, "home/.config/gaia/keys"),
	} {
		must(t, os.Symlink(target, filepath.Join(workspace, name)))
	}
	must(t, syscall.Mkfifo(filepath.Join(workspace, "pipe"), 0o600))
	paths := map[string]string{
		"gold file": filepath.Join(dir, "data/2023/validation/metadata.jsonl"), "gold, upwards": "../../../../data/2023/validation/metadata.jsonl",
		"judge cache": filepath.Join(dir, "home/.cache/gaia/judge/verdict.json"), "judge cache, upwards": "../../../../home/.cache/gaia/judge/verdict.json",
		"signing key": filepath.Join(dir, "home/.config/gaia/keys/signing"), "signing key, from home": "~/.config/gaia/keys/signing",
		"ssh key": "../../../../home/.ssh/id_ed25519", "token": filepath.Join(dir, "home/.cache/huggingface/token"),
		"journal": "../../events.jsonl", "judgments": "dir/../../../judgments.jsonl", "results": filepath.Join(dir, "runs/r1/results.jsonl"),
		"manifest": "./../../manifest.dsse.json", "another attempt": "../a2/notes.txt", "a URL": "file://" + filepath.Join(dir, "runs/r1/events.jsonl"),
		"environment": "/proc/self/environ", "a process's root": "/proc/self/root/etc/passwd", "a process's folder": "/proc/self/cwd", "system": "/etc/passwd",
		"device": "/dev/zero", "standard input": "/dev/stdin", "nothing": "", "the workspace": ".", "above": "..", "the root": "/", "a NUL": "dir/own.txt\x00",
		"link to gold": "gold.jsonl", "link to an archive": "gold.zip", "link to a picture": "gold.png", "link to a recording": "gold.wav",
		"link upwards": "up.txt", "link to a link": "chain.txt", "link to itself": "loop", "link to the environment": "environ", "link to a device": "zero",
		"through a link to a folder": "out/runs/r1/events.jsonl", "through a link to keys": "keys/signing", "through a link upwards": "dir/up/events.jsonl",
		"through a link, then up": "out/../a2/notes.txt", "pipe": "pipe",
	}
	if err := syscall.Mknod(filepath.Join(workspace, "device"), syscall.S_IFCHR|0o666, 1<<8|5); err != nil {
		t.Logf("no device is tried in the workspace: %v", err)
	} else {
		paths["device in the workspace"] = "device"
	}
	readers := map[string]struct {
		tool tools.Tool
		args object
	}{
		"read_file":        {NewReadFile(Reader{}), object{}},
		"inside":           {NewReadFile(Reader{}), object{"inside": "gold.txt"}},
		"inside, upwards":  {NewReadFile(Reader{}), object{"inside": "../gold.txt"}},
		"members":          {NewReadFile(Reader{}), object{"inside": "."}},
		"describe_image":   {media.NewDescribeImage(unasked{t}, "seeing-model", Reader{}), object{"question": "What is it?"}},
		"transcribe_audio": {media.NewTranscribe(unasked{t}, "hearing-model"), object{}},
	}
	for name, path := range paths {
		for reader, r := range readers {
			r.args["path"] = path
			out := use(t, r.tool, env, r.args)
			if !out.IsError || strings.Contains(out.Shown+out.Document, canary) {
				t.Errorf("%s by %s: %+v", name, reader, out)
			}
			if strings.Contains(strings.ReplaceAll(out.Shown, path, ""), dir) && path != "" {
				t.Errorf("%s by %s names a path of this machine: %s", name, reader, out.Shown)
			}
		}
	}
	out := use(t, NewReadFile(Reader{}), env, object{"path": "/etc/passwd"})
	mustHold(t, "an absolute path", out.Shown, "the path must be relative and inside the workspace; list_files shows what is there")
	mustHold(t, "a pipe", use(t, NewReadFile(Reader{}), env, object{"path": "pipe"}).Shown, "error: cannot read \"pipe\": it is not a regular file")
	mustHold(t, "its own file", use(t, NewReadFile(Reader{}), env, object{"path": "dir/own.txt"}).Shown, "its own\n")
	out = use(t, tools.NewListFiles(), env, object{})
	mustHold(t, "the listing", out.Shown, "dir/own.txt\t8 bytes\n", "gold.jsonl\tnot a regular file\n", "out\tnot a regular file\n", "pipe\tnot a regular file\n")
	for _, name := range []string{canary, "events.jsonl", "signing", "notes.txt"} {
		if strings.Contains(out.Shown, name) {
			t.Errorf("the listing goes through links: %s", out.Shown)
		}
	}
}
