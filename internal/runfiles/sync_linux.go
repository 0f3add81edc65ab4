package runfiles

import (
	"os"
	"syscall"
)

// DataSync is a journal file. It syncs the data and not the metadata that reading it back does not need, such as the
// time of the last change.
type DataSync struct{ *os.File }

// Sync implements trajectory.Sink.
func (f DataSync) Sync() error {
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
