package main

import (
	"github.com/gaia-harness/gaia/internal/regular"
)

func readAtMost(path string, limit int64) ([]byte, error) { return regular.Read(path, limit) }
func readUpTo(path string, limit int64) ([]byte, error)   { return regular.ReadUpTo(path, limit) }
func unwrapPath(err error) error                          { return regular.Cause(err) }
