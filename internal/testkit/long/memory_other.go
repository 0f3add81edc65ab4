//go:build !linux

package long

func usable(string) bool { return false }
