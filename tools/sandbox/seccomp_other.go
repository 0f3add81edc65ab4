//go:build !linux || !(amd64 || arm64)

package sandbox

import (
	"fmt"
	"runtime"
)

// callFilter returns an error: the filter is for Linux on amd64 and arm64 only.
func callFilter(bool) ([]byte, error) {
	return nil, fmt.Errorf("there is no system-call filter for %s/%s", runtime.GOOS, runtime.GOARCH)
}
