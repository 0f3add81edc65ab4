package submit

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gaia-harness/gaia/trajectory"
)

// TestInteropNode runs the script of docs/verifying.md.
func TestInteropNode(t *testing.T) {
	p := interopPackage(t)
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("SKIPPED: there is no node here, so its script was not tried")
	}
	files, above := load(t, p.Path), filepath.Dir(p.Path)
	script := filepath.Join(above, "verify.mjs")
	put(t, script, []byte(documented(t, "### Node", "```js")))
	check := func(key string) (bool, string) {
		return accepts(t, exec.Command("node", script, filepath.Join(above, key), p.Path))
	}
	refused := func(what, key, reason string) {
		t.Helper()
		if ok, out := check(key); ok || strings.Contains(out, "accepted") || !strings.Contains(out, reason) {
			t.Errorf("%s: accepted is %t, and not for the reason %q\n%s", what, ok, reason, out)
		}
	}
	accepted := func() {
		t.Helper()
		if ok, out := check("KEY.pub"); !ok || !strings.HasSuffix(out, "accepted\n") {
			t.Errorf("the package is refused: %s", out)
		}
	}
	accepted()
	for _, args := range [][]string{{script}, {script, "KEY.pub"}, {script, "KEY.pub", p.Path, p.Path}} {
		if ok, out := accepts(t, exec.Command("node", args...)); ok || out != "usage: node verify.mjs KEY.pub FOLDER\n" {
			t.Errorf("%q: accepted is %t\n%s", args[1:], ok, out)
		}
	}
	refused("another key", "OTHER.pub", "attestation.dsse.json is not signed by this key")
	for _, name := range Files() {
		places := []int{0, len(files[name]) / 2, len(files[name]) - 1}
		if name == AttestationFile || name == BundleFile || name == trajectory.CheckpointFile {
			for at := 1; at < len(files[name]); at += 1 + len(files[name])/16 {
				places = append(places, at)
			}
			for at, b := range files[name] { // the last letters of base64, and what fills them up
				if b == '=' {
					places = append(places, at-1, at)
				}
			}
		}
		slices.Sort(places)
		for _, at := range slices.Compact(places) {
			put(t, filepath.Join(p.Path, name), flipped(files[name], at))
			refused(name+" changed", "KEY.pub", "")
		}
		put(t, filepath.Join(p.Path, name), files[name])
	}
	accepted()
	path := filepath.Join(p.Path, trajectory.CheckpointFile)
	for what, data := range map[string][]byte{
		"the note's text":      bytes.Replace(files[trajectory.CheckpointFile], []byte("\n2\n"), []byte("\n3\n"), 1),
		"the note's signature": flipped(files[trajectory.CheckpointFile], len(files[trajectory.CheckpointFile])-20),
		"no signature":         files[trajectory.CheckpointFile][:bytes.Index(files[trajectory.CheckpointFile], []byte("— "))],
	} {
		put(t, path, data)
		refused(what, "KEY.pub", "checkpoint is not signed by this key")
	}
	put(t, path, files[trajectory.CheckpointFile])
	put(t, filepath.Join(p.Path, "notes.txt"), nil)
	refused("a file added", "KEY.pub", "there are other files than the statement is about")
	if err := os.Remove(filepath.Join(p.Path, "notes.txt")); err != nil {
		t.Fatal(err)
	}
	accepted()
	elsewhere := filepath.Join(above, "elsewhere")
	for _, name := range Files() {
		path := filepath.Join(p.Path, name)
		if err := os.Rename(path, elsewhere); err != nil {
			t.Fatal(err)
		}
		for kind, make := range map[string]func() error{
			"a link to the same bytes": func() error { return os.Symlink(elsewhere, path) },
			"a link to a device":       func() error { return os.Symlink("/dev/zero", path) },
			"a pipe":                   func() error { return syscall.Mkfifo(path, 0o600) },
			"a folder":                 func() error { return os.Mkdir(path, 0o700) },
		} {
			if err := make(); err != nil {
				t.Fatal(err)
			}
			reason := name + " is not a regular file"
			if kind == "a folder" { // for what it is, or for the file that is not there
				reason = "refused: "
			}
			refused(name+" is "+kind, "KEY.pub", reason)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		put(t, path, nil)
		if err := os.Truncate(path, 1<<30+1); err != nil { // a sparse file
			t.Fatal(err)
		}
		refused(name+" is large", "KEY.pub", name+" is larger than 1 GiB")
		if err := os.Rename(elsewhere, path); err != nil {
			t.Fatal(err)
		}
	}
	accepted()
}
