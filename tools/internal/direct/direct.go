// Package direct holds the key to calling a tool without the Gate.
//
// Package tools takes the key as an argument of the methods that run a tool directly. Go lets only the folders below tools
// import this package, and of them only tooltest does, which only tests import (TestGateIsTheOnlyWay). So every call that
// is made outside of tests passes the Gate and is recorded.
package direct

// Key opens tools.CallDirectly.
type Key struct{ _ struct{} }
