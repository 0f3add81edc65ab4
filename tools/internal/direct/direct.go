// Package direct holds the key to calling a tool without the Gate. Only the folders below
// tools can name it, and of them only tooltest does, which only tests import (TestGateIsTheOnlyWay).
package direct

// Key opens tools.CallDirectly.
type Key struct{ _ struct{} }
