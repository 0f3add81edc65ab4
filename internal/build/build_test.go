package build

import (
	"runtime/debug"
	"testing"

	"github.com/gaia-harness/gaia/trajectory"
)

// TestDescribe: what the go command builds in, in each way to build.
func TestDescribe(t *testing.T) {
	const commit, released, pseudo = "0123456789abcdef0123456789abcdef01234567", "v0.9.9", "v0.9.10-0.20310203040506-0123456789ab"
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "-trimpath", Value: "true"}, {Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: modified}}
	}
	for name, c := range map[string]struct {
		version  string
		settings []debug.BuildSetting
		want     trajectory.Harness
	}{
		"go install of a version":       {released, nil, trajectory.Harness{Version: released}},
		"go install of a commit":        {pseudo, nil, trajectory.Harness{Version: pseudo, Commit: "0123456789ab"}},
		"a checkout of a tag":           {released, vcs("false"), trajectory.Harness{Version: released, Commit: commit}},
		"a checkout of a commit":        {pseudo, vcs("false"), trajectory.Harness{Version: pseudo, Commit: commit}},
		"a checkout with changes":       {pseudo + "+dirty", vcs("true"), trajectory.Harness{Version: pseudo + "+dirty", Commit: commit, Dirty: true}},
		"a changed tag":                 {released + "+dirty", vcs("true"), trajectory.Harness{Version: released + "+dirty", Commit: commit, Dirty: true}},
		"a checkout before the version": {"(devel)", vcs("false"), trajectory.Harness{Version: trajectory.Devel, Commit: commit}},
		"go run, or -buildvcs=false":    {"(devel)", nil, trajectory.Harness{Version: trajectory.Devel}},
		"a test":                        {"", nil, trajectory.Harness{Version: trajectory.Devel}},
	} {
		if got := describe(&debug.BuildInfo{Main: debug.Module{Version: c.version}, Settings: c.settings}); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
