package media

import "github.com/gaia-harness/gaia/tools/internal/tooltest"

var (
	must      = tooltest.Must
	mustHold  = tooltest.Holds
	use       = tooltest.Use
	callTool  = tooltest.Call
	admits    = tooltest.Admits
	workspace = tooltest.Workspace
)

type object = tooltest.Object
