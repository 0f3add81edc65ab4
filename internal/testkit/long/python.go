package long

import (
	"os"
	"os/exec"
	"path/filepath"
)

// plainPython puts the system's python3 first in PATH, where there is one and another is found before it. Tests start
// it hundreds of times: through a shim of a version manager, with its packages installed, each start takes ten times
// as long.
func plainPython() {
	const system = "/usr/bin/python3"
	if _, err := os.Stat(system); err != nil {
		return
	}
	if found, err := exec.LookPath("python3"); err == nil && found != system {
		_ = os.Setenv("PATH", filepath.Dir(system)+string(os.PathListSeparator)+os.Getenv("PATH")) // fails for no valid name
	}
}
