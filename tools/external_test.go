package tools_test

import "github.com/gaia-harness/gaia/tools/internal/tooltest"

var (
	must      = tooltest.Must
	mustHold  = tooltest.Holds
	use       = tooltest.Use
	callTool  = tooltest.Call
	workspace = tooltest.Workspace
	admits    = tooltest.Admits
)

type object = tooltest.Object
