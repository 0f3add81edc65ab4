package submit

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/trajectory"
)

// TestSelectionOfPackages: a signed plan whose tasks are not those that its label gives
// is evidence that does not verify, and no flag makes a package of it.
func TestSelectionOfPackages(t *testing.T) {
	for _, label := range []string{"all", "limit=2", "level=1", "sample=2 seed=8", "task=" + firstTask} {
		for _, public := range []bool{false, true} {
			c := config(t, planned(unlisted(t), `{"dataset":{"selection":"`+label+`"}}`))
			c.AllowDirty, c.Public = true, public
			_, err := Build(context.Background(), c)
			var fault *trajectory.Fault
			if !errors.As(err, &fault) || !strings.Contains(fault.Reason, `the planned tasks are not those of selection "`+label+`": `) {
				t.Errorf("%s, public %t: %v", label, public, err)
			}
			nothingLeft(t, c.Out)
		}
	}
}
