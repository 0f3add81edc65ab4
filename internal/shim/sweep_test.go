package shim

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestSweeper: when the process that started it is gone, the sweeper ends what has something of the folder among its
// arguments, and nothing else, and removes the folder. Where that process ends in order, it ends nothing.
func TestSweeper(t *testing.T) {
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		t.Skip("there is no /proc here, and no sandbox to be swept")
	}
	self, err := os.Executable()
	must(t, err)
	start := func(dir string) (cmd *exec.Cmd, ended chan error) {
		cmd = exec.Command("sh", "-c", "sleep 600; :", filepath.Join(dir, "s"))
		must(t, cmd.Start())
		ended = make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd, ended
	}
	dir, other := filepath.Join(t.TempDir(), "1"), filepath.Join(t.TempDir(), "12")
	must(t, os.Mkdir(dir, 0o700))
	s, err := StartSweeper(self, dir)
	must(t, err)
	_, ended := start(dir)
	kept, keptEnded := start(other)
	must(t, s.alive.Close()) // as the kernel does for a process that is killed
	<-ended
	must(t, s.cmd.Wait())
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder is left: %v", err)
	}
	must(t, os.Mkdir(dir, 0o700))
	s, err = StartSweeper(self, dir)
	must(t, err)
	own, ownEnded := start(dir)
	must(t, s.Close())
	for cmd, ended := range map[*exec.Cmd]chan error{kept: keptEnded, own: ownEnded} {
		select {
		case err := <-ended:
			t.Errorf("a process that was to be left ended: %v", err)
		default:
			must(t, cmd.Process.Kill())
			<-ended
		}
	}
}
