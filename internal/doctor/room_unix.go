//go:build linux || darwin

package doctor

import "syscall"

// FreeBytes is what the user may still write where dir is.
func FreeBytes(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	const most = 1 << 62 // some file systems have no bound, and say so by a number beyond any disk
	block := uint64(s.Bsize)
	if block > 0 && s.Bavail > most/block {
		return most, nil
	}
	return int64(s.Bavail * block), nil
}
