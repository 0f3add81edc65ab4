package tools

import (
	"context"
	"os/exec"
)

// A Sandbox starts programs that see nothing of this machine but what is given
// to them: no network, an empty environment, a process table, devices and a
// temporary folder of their own. It is bubblewrap's; where that does not work
// there is no Sandbox.
type Sandbox struct {
	bwrap  string
	hidden []string
}

// SandboxConfig says where the program bwrap is, and which files and folders of
// this machine no program may see though they lie below what it is given: the
// dataset's cache, run directories, keys, this program itself.
type SandboxConfig struct {
	Bwrap  string
	Hidden []string
}

// A jail is what a program in the sandbox is given besides the system's own
// programs and libraries.
type jail struct {
	readOnly  []string // files and folders, at the places they have outside
	workspace string   // a folder that it may write to, seen as /workspace; "": it works in a folder that is lost with it
	scratch   int64    // bytes that its temporary folders may hold
}

// command prepares a program to be started in the sandbox, by its path outside.
// It and all that it started end with ctx, and with this process.
func (s *Sandbox) command(ctx context.Context, j jail, path string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, s.bwrap, append(s.arguments(j), append([]string{"--", path}, args...)...)...)
}

// arguments are bwrap's own.
func (s *Sandbox) arguments(j jail) []string {
	args := []string{"--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL",
		"--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"}
	for _, p := range j.readOnly {
		args = append(args, "--ro-bind", p, p)
	}
	if j.workspace != "" {
		args = append(args, "--bind", j.workspace, "/workspace", "--chdir", "/workspace")
	}
	return args
}
