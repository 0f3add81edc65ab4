package sandbox

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gaia-harness/gaia/internal/shim"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestMain has the test binary serve as the shim.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == shim.Command {
		os.Exit(shim.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// agentBench runs own agents that are texts of a shell.
type agentBench struct {
	sandbox        *Sandbox
	agent          AgentCommand
	stdout, stderr *bytes.Buffer
}

// newAgentBench returns a bench of which the socket is served by h.
func newAgentBench(t testing.TB, s *Sandbox, h http.Handler) *agentBench {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	b := &agentBench{sandbox: s, stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}
	b.agent = AgentCommand{Shim: self, Workspace: t.TempDir(), Stdout: b.stdout, Stderr: b.stderr,
		Limits: AgentLimits{Memory: 1 << 30, Disk: 64 << 20, Processes: 64}, Grace: 10 * time.Second}
	if h != nil {
		b.agent.Socket = filepath.Join(t.TempDir(), "socket")
		l, err := net.Listen("unix", b.agent.Socket)
		must(t, err)
		server := &http.Server{Handler: h}
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { _ = server.Close() })
	}
	return b
}

// run runs a text of the shell with arguments.
func (b *agentBench) run(t testing.TB, ctx context.Context, script string, args ...string) AgentResult {
	t.Helper()
	b.stdout.Reset()
	b.stderr.Reset()
	b.agent.Command = append([]string{"/bin/sh", "-c", script, "agent"}, args...)
	r, err := b.sandbox.RunAgent(ctx, b.agent)
	must(t, err)
	return r
}

func TestAgent(t *testing.T) {
	b := newAgentBench(t, sandbox(t), nil)
	b.agent.Stdin, b.agent.Env = []byte("what is it?\n"), []string{"GAIA_MODEL=m", "PATH=/nowhere"}
	for script, want := range map[string]string{
		"cat; pwd; echo $HOME $TMPDIR $PATH $GAIA_MODEL": "what is it?\n/work\n/tmp/home /tmp /usr/local/bin:/usr/bin:/bin m\n",
		"echo answer >ANSWER; ls":                        "ANSWER\n",
	} {
		r := b.run(t, t.Context(), script)
		if r != (AgentResult{trajectory.AgentExited, 0, "it exited with code 0"}) || b.stdout.String() != want {
			t.Errorf("%s: %+v, %q, %q", script, r, b.stdout, b.stderr)
		}
	}
	text, err := os.ReadFile(filepath.Join(b.agent.Workspace, "ANSWER"))
	if err != nil || string(text) != "answer\n" {
		t.Errorf("%q, %v", text, err)
	}
}
