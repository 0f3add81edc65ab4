//go:build !linux

package run

import "os"

// dataSync is a journal; this system has no cheaper way to sync it.
type dataSync struct{ *os.File }
