package runfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"testing"
)

func TestWithoutPlaces(t *testing.T) {
	full := errors.New("no space left on device")
	for _, tt := range []struct {
		err  error
		want string
	}{
		{full, "no space left on device"},
		{&fs.PathError{Op: "mkdir", Path: "/srv/runs/01/0001-1", Err: full}, "mkdir 0001-1: no space left on device"},
		{&fs.PathError{Op: "openat", Path: "a.csv", Err: full}, "openat a.csv: no space left on device"},
		{fmt.Errorf("copying: %w", errors.Join(&os.LinkError{Op: "rename", Old: "/srv/ada/a", New: "/srv/ada/b", Err: full}, &exec.Error{Name: "/srv/ada/bin/python3", Err: full})),
			"copying: rename a b: no space left on device\nexec: \"python3\": no space left on device"},
	} {
		if got := WithoutPlaces(tt.err); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
