//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"encoding/binary"
	"runtime"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// closedCalls are the system calls that fail with ENOSYS in the sandbox, as in a
// kernel without them. They hold memory that belongs to no process, reach the
// keys of the user outside, or are a large part of the kernel that no tool needs.
var closedCalls = []uint32{
	unix.SYS_ADD_KEY, unix.SYS_KEYCTL, unix.SYS_REQUEST_KEY,
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SHMDT,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL,
	unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET,
	unix.SYS_USERFAULTFD, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN,
}

// Offsets in the kernel's struct seccomp_data.
const (
	callNumber   = 0
	callArch     = 4
	callArgument = 16 // the low half of the first argument: both machines are little-endian
	callProtocol = 32 // of the third
)

// x32Call marks the calls of the x32 ABI, which amd64 numbers in the same space.
const x32Call = 0x40000000

// callFilter returns the seccomp program of a sandbox, as bubblewrap reads it.
// Sockets are of the local and Internet families; with netlink also of that
// part of netlink which lists interfaces. Calls of another ABI of the machine fail.
func callFilter(netlink bool) ([]byte, error) {
	arch := uint32(unix.AUDIT_ARCH_X86_64)
	if runtime.GOARCH == "arm64" {
		arch = unix.AUDIT_ARCH_AARCH64
	}
	allow := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	noCall := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)}
	noFamily := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)}

	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: callArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: arch, SkipTrue: 1},
		noCall,
		bpf.LoadAbsolute{Off: callNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32Call, SkipTrue: 1},
		noCall,
	}
	for _, call := range closedCalls {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: call, SkipTrue: 1}, noCall)
	}
	program = append(program,
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_SOCKET, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_SOCKETPAIR, SkipTrue: 1},
		allow,
		bpf.LoadAbsolute{Off: callArgument, Size: 4})
	for _, family := range []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6} {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: family, SkipTrue: 1}, allow)
	}
	if netlink {
		program = append(program,
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.AF_NETLINK, SkipTrue: 3},
			bpf.LoadAbsolute{Off: callProtocol, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.NETLINK_ROUTE, SkipTrue: 1},
			allow)
	}
	raw, err := bpf.Assemble(append(program, noFamily))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, i := range raw { // struct sock_filter
		_ = binary.Write(&out, binary.NativeEndian, struct {
			Code   uint16
			Jt, Jf uint8
			K      uint32
		}{i.Op, i.Jt, i.Jf, i.K})
	}
	return out.Bytes(), nil
}
