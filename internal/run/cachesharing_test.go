package run

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/rundir"
	"github.com/google/go-cmp/cmp"
)

// TestAnotherEndpointAsksAgain: verdicts are of one judge at one endpoint. What
// another one said is neither used nor held against anybody, and lies beside it.
func TestAnotherEndpointAsksAgain(t *testing.T) {
	before := earlierRun(t)
	for _, c := range []struct {
		origin      string
		asked, kept int
	}{{lenient, 3, 0}, {"", 0, 3}, {lenient, 0, 3}} {
		config, server := judged(t, before.dir)
		if c.origin != "" {
			config.env.Judge.Origin = c.origin
		}
		events, sum := checked(t, execute(t, t.TempDir(), config).Dir)
		if n := askedAbout(server, config); n != c.asked || sum.Judge.Cached != c.kept || len(events) != 0 || sum.JudgeCacheIntegrityEvents != 0 {
			t.Errorf("%q: %d answers were asked about, %+v, judge %+v", c.origin, n, events, sum.Judge)
		}
	}
}

// TestTwoRunsOneCache: runs that fill one cache at once do not hurt each other,
// and leave what serves a third one.
func TestTwoRunsOneCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "judgments")
	cold := earlierRun(t).cold
	var both sync.WaitGroup
	var runs [2]*Run
	for i := range runs {
		c, _ := judged(t, dir)
		c.plan.SubmitIntent = false // which grades as it goes
		c.env.Warn = func(err error) { t.Errorf("warned: %v", err) }
		runs[i] = create(t, c)
	}
	for _, r := range runs {
		both.Go(func() {
			if err := r.Execute(t.Context(), nil); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	c, server := judged(t, dir)
	third := create(t, c)
	if err := third.Execute(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for i, r := range slices.Concat(runs[:], []*Run{third}) {
		events, sum := checked(t, r.Dir)
		if len(events) != 0 || sum.JudgeCacheIntegrityEvents != 0 {
			t.Errorf("run %d: %+v", i, events)
		}
		if diff := cmp.Diff(cold.Scores, sum.Scores); diff != "" {
			t.Errorf("run %d: other scores:\n%s", i, diff)
		}
		if r == third && (sum.Judge.Cached != 3 || sum.Judge.TokensIn != 0 || askedAbout(server, c) != 0) {
			t.Errorf("the third run: %+v", sum.Judge)
		}
	}
	if swept := c.env.Cache.Sweep(); len(swept.Bad) != 0 {
		t.Errorf("left behind: %+v", swept)
	}
}

func create(t *testing.T, c setup) *Run {
	t.Helper()
	r, err := Create(t.TempDir(), c.plan, c.env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// TestCacheCannotBeWritten: verdicts that cannot be kept are reported, and are
// verdicts all the same. TestCacheOnFullDisk has a full disk.
func TestCacheCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "judgments")
	cold := earlierRun(t).cold
	c, server := judged(t, dir)
	away := func() { // a mode would not keep every user from writing
		if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	writing := 0
	for _, warning := range unkept(t, c, server, away, cold) {
		if strings.HasPrefix(warning, "writing the judge cache: ") {
			writing++
		} else if !strings.HasPrefix(warning, "reading the judge cache: ") {
			t.Errorf("warned: %s", warning)
		}
	}
	if writing != 4 {
		t.Errorf("three verdicts and how the judge stood the null battery are lost, %d are warned of", writing)
	}
}

// unkept runs with a cache that cannot keep every verdict, wants the scores to be
// the same, and returns what the run warns of.
func unkept(t *testing.T, c setup, server *fixtures.Server, begun func(), cold rundir.Summary) (warned []string) {
	t.Helper()
	c.env.Warn = func(err error) { warned = append(warned, err.Error()) }
	r := create(t, c)
	begun()
	if err := r.Execute(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	events, sum := checked(t, r.Dir)
	if len(events) != 0 || sum.JudgeCacheIntegrityEvents != 0 {
		t.Errorf("recorded %+v", events)
	}
	if n := askedAbout(server, c); n != 3 || sum.Judge.Judged != 3 || sum.Judge.Cached != 0 {
		t.Errorf("%d answers were asked about, judge %+v", n, sum.Judge)
	}
	if diff := cmp.Diff(cold.Scores, sum.Scores); diff != "" {
		t.Errorf("other scores:\n%s", diff)
	}
	return warned
}
