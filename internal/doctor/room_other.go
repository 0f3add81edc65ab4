//go:build !linux && !darwin

package doctor

import "errors"

// FreeBytes would be what the user may still write where dir is.
func FreeBytes(string) (int64, error) { return 0, errors.ErrUnsupported }
