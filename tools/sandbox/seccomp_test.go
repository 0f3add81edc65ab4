//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// attempts tries each closed system call, all socket families, and calls of the
// other ABIs. Its arguments are the numbers of calls, "number=name".
const attempts = `
import ctypes, errno, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
for call in sys.argv[1:]:
    ctypes.set_errno(0)
    code = libc.syscall(ctypes.c_long(int(call)), *[ctypes.c_long(n) for n in (1, 1, 0, 0, 0, 0)])
    if code != -1 or ctypes.get_errno() != errno.ENOSYS:
        print('ESCAPED', call, code, os.strerror(ctypes.get_errno()))
open_families = []
for family in range(1, 64):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
        try:
            socket.socket(family, kind).close()
            open_families.append(family)
        except OSError as e:
            if e.errno != errno.EAFNOSUPPORT and family not in (1, 2, 10, 16): print('reached', family, e)
print(sorted(set(open_families) - {10}))
print(len(socket.socketpair()), socket.getaddrinfo('127.0.0.1', 80)[0][4])
import tempfile, multiprocessing.shared_memory as m
s = m.SharedMemory(create=True, size=4096); s.close(); s.unlink()
@ctypes.CFUNCTYPE(ctypes.c_int)
def callback(): return 7
print(callback())
`

// TestCallFilter: in a real sandbox every closed call fails as if the kernel did
// not have it, no other family of sockets is there, and ordinary code works.
func TestCallFilter(t *testing.T) {
	s, i := sandbox(t), interpreter(t)
	var calls []string
	for _, c := range closedCalls {
		calls = append(calls, fmt.Sprint(c), fmt.Sprint(c|x32Call))
	}
	calls = append(calls, fmt.Sprint(unix.SYS_GETPID|x32Call))
	for network, families := range map[bool]string{false: "[1, 2]", true: "[1, 2, 16]"} {
		var out strings.Builder
		cmd := s.Command(t.Context(), Jail{ReadOnly: i.Required, Network: network}, i.Path, append([]string{"-I", "-c", attempts}, calls...)...)
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil || out.String() != families+"\n2 ('127.0.0.1', 80)\n7\n" {
			t.Errorf("network %v: %v\n%s", network, err, out.String())
		}
	}
}

// What the kernel would do with a call of another machine's ABI, the filter's own
// program says: no compiler of it is needed.
func TestCallFilterOfOtherABIs(t *testing.T) {
	filter, err := callFilter(false)
	must(t, err)
	var raw []bpf.RawInstruction
	for i := range slices.Chunk(filter, 8) {
		raw = append(raw, bpf.RawInstruction{Op: uint16(i[0]) | uint16(i[1])<<8, Jt: i[2], Jf: i[3],
			K: uint32(i[4]) | uint32(i[5])<<8 | uint32(i[6])<<16 | uint32(i[7])<<24})
	}
	program, all := bpf.Disassemble(raw)
	if !all {
		t.Fatal("the filter is not a program")
	}
	vm, err := bpf.NewVM(program)
	must(t, err)
	own := uint32(unix.AUDIT_ARCH_X86_64)
	if unix.SYS_GETPID == 172 {
		own = unix.AUDIT_ARCH_AARCH64
	}
	for _, c := range []struct {
		arch, call, argument uint32
		want                 int
	}{
		{own, unix.SYS_GETPID, 0, unix.SECCOMP_RET_ALLOW},
		{own, unix.SYS_KEYCTL, 0, unix.SECCOMP_RET_ERRNO | int(unix.ENOSYS)},
		{own, unix.SYS_GETPID | x32Call, 0, unix.SECCOMP_RET_ERRNO | int(unix.ENOSYS)},
		{own, unix.SYS_SOCKET, unix.AF_INET6, unix.SECCOMP_RET_ALLOW},
		{own, unix.SYS_SOCKET, unix.AF_VSOCK, unix.SECCOMP_RET_ERRNO | int(unix.EAFNOSUPPORT)},
		{own, unix.SYS_SOCKETPAIR, unix.AF_NETLINK, unix.SECCOMP_RET_ERRNO | int(unix.EAFNOSUPPORT)},
		{unix.AUDIT_ARCH_I386, 20, 0, unix.SECCOMP_RET_ERRNO | int(unix.ENOSYS)},
		{unix.AUDIT_ARCH_ARM, 20, 0, unix.SECCOMP_RET_ERRNO | int(unix.ENOSYS)},
	} {
		// The VM loads big-endian, as from a packet; the kernel as the machine does.
		data := make([]byte, 64)
		for at, v := range map[int]uint32{callNumber: c.call, callArch: c.arch, callArgument: c.argument} {
			copy(data[at:], []byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
		}
		if got, err := vm.Run(data); err != nil || got != c.want {
			t.Errorf("%+v: %#x, %v", c, got, err)
		}
	}
}

// The keyring that programs in the sandbox inherit cannot be read from inside.
func TestKeyringClosed(t *testing.T) {
	s, i := sandbox(t), interpreter(t)
	const secret = "gaia-keyring-canary"
	id, err := unix.AddKey("user", secret, []byte(secret), unix.KEY_SPEC_SESSION_KEYRING)
	if err != nil {
		t.Skipf("this kernel keeps no keys: %v", err)
	}
	defer func() { _, _ = unix.KeyctlInt(unix.KEYCTL_UNLINK, id, unix.KEY_SPEC_SESSION_KEYRING, 0, 0) }()
	read := fmt.Sprintf(`
import ctypes
libc = ctypes.CDLL(None)
b = ctypes.create_string_buffer(99)
print('read', libc.syscall(%d, %d, %d, b, 99, 0), b.value)`, unix.SYS_KEYCTL, unix.KEYCTL_READ, id)
	var out strings.Builder
	cmd := s.Command(t.Context(), Jail{ReadOnly: i.Required}, i.Path, "-I", "-c", read)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil || out.String() != "read -1 b''\n" {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// A probe that was killed leaves a folder, which the next one removes.
func TestProbeFoldersAreRemoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	old, recent := filepath.Join(dir, probeFolder+"1"), filepath.Join(dir, probeFolder+"2")
	for _, d := range []string{old, recent} {
		must(t, os.MkdirAll(filepath.Join(d, "workspace"), 0o700))
	}
	other := filepath.Join(dir, "kept")
	must(t, os.Mkdir(other, 0o700))
	must(t, os.Symlink(other, filepath.Join(dir, probeFolder+"3")))
	long := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(old, long, long))
	sandbox(t)
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	if want := []string{recent, filepath.Join(dir, probeFolder+"3"), other}; !slices.Equal(left, want) {
		t.Errorf("there are %v, not %v", left, want)
	}
}
