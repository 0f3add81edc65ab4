package document_test

import "github.com/gaia-harness/gaia/tools/internal/tooltest"

var (
	mustHold  = tooltest.Holds
	use       = tooltest.Use
	workspace = tooltest.Workspace
)

type object = tooltest.Object
