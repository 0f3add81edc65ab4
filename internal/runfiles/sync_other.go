//go:build !linux

package runfiles

import "os"

// DataSync is a journal file; this system has no cheaper way to sync it.
type DataSync struct{ *os.File }
