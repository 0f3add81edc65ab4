package tools_test

import "github.com/gaia-harness/gaia/tools/internal/tooltest"

var (
	must      = tooltest.Must
	mustHold  = tooltest.Holds
	callTool  = tooltest.Call
	workspace = tooltest.Workspace
	admits    = tooltest.Admits
)
