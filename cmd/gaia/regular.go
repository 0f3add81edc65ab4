package main

import (
	"os"

	"github.com/gaia-harness/gaia/internal/regular"
)

func openRegular(path string) (*os.File, error)           { return regular.Open(path) }
func readAtMost(path string, limit int64) ([]byte, error) { return regular.Read(path, limit) }
func readUpTo(path string, limit int64) ([]byte, error)   { return regular.ReadUpTo(path, limit) }
func unwrapPath(err error) error                          { return regular.Cause(err) }
