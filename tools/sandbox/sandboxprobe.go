package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gaia-harness/gaia/tools"
)

// probeTime bounds the probe, which takes a few hundredths of a second.
const probeTime = 20 * time.Second

// probeScript runs inside and reports what it sees, a line each; after probeDone
// comes its environment as the kernel has it. It writes nothing outside of its
// workspace, so that a sandbox that leaks does no harm: whether it could is asked
// of the kernel. Its arguments are paths that it may not see. It starts two
// programs only, since most of the time of a probe is spent on that.
const probeScript = `
readlink /proc/self/ns/pid /proc/self/ns/net /proc/self/ns/ipc /proc/self/ns/uts /proc/self/ns/mnt /proc/self/ns/user
while read -r name rest; do case $name in *:*) echo "interface ${name%%:*}";; esac; done </proc/net/dev
while read -r name value rest; do case $name in Seccomp*) echo "filter $name $value";; esac; done </proc/self/status
for p in / /usr /etc /dev /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname; do [ -w "$p" ] && echo "writable $p"; done
for p do
	if [ -d "$p" ]; then for f in "$p"/* "$p"/.[!.]*; do [ -e "$f" ] && echo "visible $p"; done
	elif [ -f "$p" ]; then echo "visible $p"; fi
done
echo held >/workspace/probe
echo done
cat </proc/self/environ
`

// probeDone is the line that ends the report of the script.
const probeDone = "done\n"

// probeFolder begins the name of the folder of a probe.
const probeFolder = "gaia-probe-"

// probe runs the script and judges what it saw.
func (s *Sandbox) probe(ctx context.Context) error {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), probeFolder+"*")) // of probes that were killed; one of another user stays
	for _, dir := range left {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() && time.Since(info.ModTime()) > 2*probeTime {
			_ = os.RemoveAll(dir)
		}
	}
	dir, err := os.MkdirTemp("", probeFolder)
	if err != nil {
		return fmt.Errorf("trying the sandbox: %w", err)
	}
	defer os.RemoveAll(dir)
	canary, workspace := filepath.Join(dir, "canary"), filepath.Join(dir, "workspace")
	if err := errors.Join(os.WriteFile(canary, []byte("outside\n"), 0o644), os.Mkdir(workspace, 0o700)); err != nil {
		return fmt.Errorf("trying the sandbox: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := s.Command(limited, Jail{workspace: workspace}, "/bin/sh", append([]string{"-c", probeScript, "probe", canary}, s.hidden...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return refused(stderr.String(), err)
	}
	outside := map[string]bool{} // this process's namespaces and number of filters, as lines of the probe
	for _, n := range namespaces() {
		if id, err := os.Readlink("/proc/self/ns/" + n); err == nil {
			outside[id] = true
		}
	}
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "Seccomp_filters:" {
			outside["filter Seccomp_filters: "+fields[1]] = true
		}
	}
	if why := leaks(stdout.String(), outside); why != "" {
		return &Unusable{"bubblewrap does not shut programs in on this machine: " + why,
			"this is no setting that gaia knows of; run without the tools that need it"}
	}
	if _, err := os.Stat(filepath.Join(workspace, "probe")); err != nil {
		return &Unusable{"what is written to a workspace in the sandbox does not arrive",
			"set TMPDIR to a directory on another file system, such as TMPDIR=/var/tmp"}
	}
	return nil
}

// namespaces are those that a program in the sandbox does not share.
func namespaces() []string { return []string{"pid", "net", "ipc", "uts", "mnt", "user"} }

// leaks says what the probe saw that it should not, "" if nothing.
func leaks(saw string, outside map[string]bool) string {
	report, environ, done := strings.Cut(saw, "\n"+probeDone)
	missing, filtered := namespaces(), false
	for line := range strings.SplitSeq(report, "\n") {
		kind, what, _ := strings.Cut(line, " ")
		if name, _, link := strings.Cut(kind, ":["); link {
			if outside[line] {
				return "its " + name + " namespace is this machine's"
			}
			missing = slices.DeleteFunc(missing, func(n string) bool { return n == name })
		}
		switch kind {
		case "filter":
			if outside[line] { // of Seccomp_filters, which older kernels do not have
				return "it has no system-call filter"
			}
			filtered = filtered || what == "Seccomp: 2"
		case "interface":
			if strings.TrimSpace(what) != "lo" {
				return "it has a network"
			}
		case "writable":
			return "it can write to " + what
		case "visible":
			return "it sees files that were not given to it"
		}
	}
	if !done || len(missing) > 0 || environ == "" {
		return "the probe did not come to its end"
	}
	for variable := range strings.SplitSeq(strings.TrimSuffix(environ, "\x00"), "\x00") {
		if name, _, _ := strings.Cut(variable, "="); !slices.Contains([]string{"HOME", "PATH", "LANG", "PWD"}, name) {
			return "it sees variables of the environment"
		}
	}
	if !filtered {
		return "it has no system-call filter"
	}
	return ""
}

// refused is the reason why bubblewrap did not start anything, in its words,
// and what is known to fix that.
func refused(stderr string, err error) error {
	line, _, _ := strings.Cut(strings.TrimSpace(stderr), "\n")
	line = strings.TrimPrefix(tools.Clipped(line), "bwrap: ")
	if line == "" {
		line = tools.Clipped(err.Error())
	}
	u := &Unusable{"bubblewrap cannot make a sandbox: " + line, ""}
	switch {
	case strings.Contains(line, "seccomp") || strings.Contains(line, "SECCOMP") || strings.Contains(line, "system-call filter"):
		u.Remedy = "run gaia on Linux for amd64 or arm64, with a kernel that filters system calls: CONFIG_SECCOMP_FILTER=y"
	case strings.Contains(line, "nknown option"):
		u.Why, u.Remedy = "this bubblewrap is too old: "+line, "install bubblewrap 0.8 or later: apt install bubblewrap"
	case strings.Contains(line, "no such file") || strings.Contains(line, "No such file"):
		u.Remedy = "see whether they are there: ls -l /bin/sh, and the program that is named"
	default:
		u.Remedy = "allow user namespaces: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 or a profile of AppArmor for bwrap, " +
			"sysctl -w kernel.unprivileged_userns_clone=1, user.max_user_namespaces above 0; in a container, a profile that lets it make namespaces"
	}
	return u
}
