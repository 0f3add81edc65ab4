//go:build !linux && !darwin

package main

import "errors"

// freeBytes would be what the user may still write where dir is.
func freeBytes(string) (int64, error) { return 0, errors.ErrUnsupported }
