package run

import (
	"os"
	"syscall"
)

// dataSync is a journal that is synced without what its data does not need to
// be read back, such as the time of the last change. A failure is final and is
// not tried again: no one knows then what the disk holds.
type dataSync struct{ *os.File }

// Sync implements trajectory.Sink.
func (f dataSync) Sync() error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		for {
			if failed = syscall.Fdatasync(int(fd)); failed != syscall.EINTR {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return os.NewSyscallError("fdatasync", failed)
}
