package submit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/internal/plan"
)

// TestInteropSecuresystemslib runs the script of docs/verifying.md on each envelope of a package.
func TestInteropSecuresystemslib(t *testing.T) {
	p := interopPackage(t)
	python := os.Getenv("GAIA_PYTHON")
	if exec.Command(python, "-c", "import securesystemslib, cryptography").Run() != nil {
		t.Skip("SKIPPED: there is no securesystemslib here, so it verified no envelope")
	}
	files, above := load(t, p.Path), filepath.Dir(p.Path)
	script := filepath.Join(above, "verify.py")
	put(t, script, []byte(documented(t, "### securesystemslib", "```python")))
	check := func(key, envelope string) (bool, string) {
		return accepts(t, exec.Command(python, script, filepath.Join(above, key), envelope))
	}
	for _, name := range []string{AttestationFile, plan.EnvelopeFile} {
		path := filepath.Join(p.Path, name)
		if ok, out := check("KEY.pub", path); !ok || !strings.HasSuffix(out, "accepted\n") {
			t.Errorf("%s is refused: %s", name, out)
		}
		if ok, out := check("OTHER.pub", path); ok {
			t.Errorf("%s is accepted with another key: %s", name, out)
		}
		for at := range 32 { // in the payload, its type, the key id and the signature
			changed := filepath.Join(above, "changed.json")
			put(t, changed, flipped(files[name], 1+at*(len(files[name])-2)/32))
			if ok, out := check("KEY.pub", changed); ok {
				t.Errorf("%s is accepted with byte %d changed: %s", name, 1+at*(len(files[name])-2)/32, out)
			}
		}
	}
}
