package run

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gaia-harness/gaia/fixtures"
	"github.com/gaia-harness/gaia/internal/canonical"
	"github.com/gaia-harness/gaia/internal/grading"
	"github.com/gaia-harness/gaia/internal/testkit/long"
	"github.com/gaia-harness/gaia/judgecache"
	"github.com/gaia-harness/gaia/trajectory"
	"github.com/google/go-cmp/cmp"
)

const (
	lenient   = "https://lenient.example"
	elsewhere = "0000000000000000000000000000000000000000000000000000000000000000.json"
	theDir    = "."
)

// cacheAttack is one thing that someone does to a judge cache.
type cacheAttack struct {
	title  string
	do     func(site)
	reason string // why there is a bad entry; "" = there is none, or it is the directory
	name   string // of what is bad; "" = the entry under attack
	again  int    // answers that the judge is asked about again, if it was done before the start
}

// silent tells that no one needs to hear of it.
func (a cacheAttack) silent() bool { return a.reason == "" && a.name == "" }

// found tells whether an entry is the one that is bad, for the right reason.
func (a cacheAttack) found(s site, name, reason string) bool {
	want := a.name
	if want == "" {
		want = s.target()
	}
	return name == want && reason != "" && (a.reason == "" || reason == a.reason)
}

// cacheAttacks says what is done to the entry of lostTask, which the judge found
// against, or to its directory.
var cacheAttacks = []cacheAttack{
	{"nothing done", untouched, "", "", 0},
	{"signature by a rotated but trusted key", func(s site) { s.write(s.target(), s.made(keyOf(s.T, 98), s.lost, false)) }, "", "", 0},
	{"legacy unsigned entry", func(s site) { s.write(s.target(), []byte(`{"key":"0af3","verdict":"correct"}`)) }, "", "", 1},
	{"entry deleted", func(s site) { s.remove(s.target()) }, "", "", 1},
	{"entry of another endpoint beside it", func(s site) { s.instead(s.anotherContext(lenient, "")) }, "", "", 1},
	{"entry of another prompt beside it", func(s site) { s.instead(s.anotherContext("", canonical.Digest(nil))) }, "", "", 1},

	{"verdict flipped", func(s site) { s.replace(`"incorrect"`, `"correct"`) }, "under a signature that is not good", "", 1},
	{"signature removed", func(s site) {
		data := s.read(s.target())
		at := bytes.Index(data, []byte(`"signature":`))
		s.write(s.target(), append(data[:at:at], `"verdict":"correct"}`...))
	}, "not signed", "", 1},
	{"signature of another key", func(s site) { s.write(s.target(), s.made(keyOf(s.T, 99), s.lost, true)) }, judgecache.Untrusted, "", 1},
	{"entry moved to another name", func(s site) {
		s.write(elsewhere, s.read(s.target()))
		s.remove(s.target())
	}, "under another name than its own", elsewhere, 1},
	{"another task's entry copied in", func(s site) { s.write(s.target(), s.read(entryName(s.T, s.paid))) }, "under another name than its own", "", 1},
	{"entry of another endpoint copied in", func(s site) {
		s.write(s.target(), s.made(s.key, s.anotherContext(lenient, ""), true))
	}, "under another name than its own", "", 1},
	{"entry of another prompt copied in", func(s site) {
		s.write(s.target(), s.made(s.key, s.anotherContext("", canonical.Digest(nil)), true))
	}, "under another name than its own", "", 1},
	{"truncated", func(s site) { s.write(s.target(), s.read(s.target())[:200]) }, "not the canonical JSON of a judgment", "", 1},
	{"duplicate keys", func(s site) { s.replace(`"verdict":"incorrect"`, `"verdict":"incorrect","verdict":"correct"`) }, "not the canonical JSON of a judgment", "", 1},
	{"extra field", func(s site) { s.replace(`"incorrect"}`, `"incorrect","zeal":1}`) }, "not the canonical JSON of a judgment", "", 1},
	{"symlink", func(s site) {
		aside := filepath.Join(s.TempDir(), "aside") // to a good entry, even
		if err := errors.Join(os.Rename(filepath.Join(s.dir, s.target()), aside), os.Symlink(aside, filepath.Join(s.dir, s.target()))); err != nil {
			s.Fatal(err)
		}
	}, "not a regular file", "", 1},
	{"world-writable directory", func(s site) {
		if err := os.Chmod(s.dir, 0o777); err != nil {
			s.Fatal(err)
		}
	}, "", theDir, 3},
	{"symlink in place of the directory", func(s site) {
		aside := filepath.Join(s.TempDir(), "aside")
		if err := errors.Join(os.Rename(s.dir, aside), os.Symlink(aside, s.dir)); err != nil {
			s.Fatal(err)
		}
	}, "", theDir, 3},
}

// TestCacheAttacks: whatever someone writes into the judge cache, no score is
// another. What a run that is meant to be submitted finds when it starts keeps it
// from starting; another run, and what is found later, goes on and counts it.
func TestCacheAttacks(t *testing.T) {
	long.NotRaced(t)
	before := earlierRun(t)
	for _, a := range cacheAttacks {
		t.Run(a.title+", meanwhile", func(t *testing.T) {
			s := before.copied(t)
			c, server := judged(t, s.dir)
			events, later := 0, a
			if a.reason != "" && a.name == "" { // other names are not read
				events = 1
			}
			if a.name == theDir { // it was looked at when it was opened; the entries verify
				later.again = 0
			}
			later.wantRun(s, c, server, a.do, trajectory.JudgeCacheRead, events)
		})
		t.Run(a.title, func(t *testing.T) {
			s := before.copied(t)
			a.do(s)
			c, server := judged(t, s.dir)
			if a.silent() {
				a.wantRun(s, c, server, untouched, trajectory.JudgeCacheSweep, 0)
				return
			}
			a.wantRefused(s, c, server)
			c.plan.SubmitIntent = false
			a.wantRun(s, c, server, untouched, trajectory.JudgeCacheSweep, 1)
			swept := c.env.Cache.Sweep()
			if repaired := a.name == ""; (len(swept.Bad) == 0) != repaired {
				t.Errorf("afterwards: %+v", swept)
			}
		})
	}
}

// wantRefused wants a run not to begin: nothing is asked, nothing is left.
func (a cacheAttack) wantRefused(s site, c setup, server *fixtures.Server) {
	s.Helper()
	out := s.TempDir()
	var refused *grading.CacheError
	if _, err := Create(out, c.plan, c.env); !errors.As(err, &refused) {
		s.Errorf("creating the run: %v", err)
	} else if bad := refused.Sweep.Bad; len(bad) != 1 || !a.found(s, bad[0].Name, bad[0].Reason) || !strings.Contains(err.Error(), bad[0].Reason) || a.name != theDir && !strings.Contains(err.Error(), bad[0].Name) {
		s.Errorf("it is refused with %v", err)
	}
	if left, err := os.ReadDir(out); err != nil || len(left) != 0 {
		s.Errorf("it left %v, %v", left, err)
	}
	if n := len(server.Requests()); n != 0 {
		s.Errorf("%d requests were made", n)
	}
}

func untouched(site) {}

// wantRun wants a run to have the scores of the one before, whatever is done once
// it has begun, and to record and to tell of so many events of a kind.
func (a cacheAttack) wantRun(s site, c setup, server *fixtures.Server, begun func(site), kind string, want int) {
	s.Helper()
	var told []trajectory.SecurityEvent
	c.env.Watch = func(e trajectory.Event) {
		if p, ok := e.Payload.(trajectory.SecurityEvent); ok && p.Bad > 0 {
			told = append(told, p)
		}
	}
	var warned []string
	c.env.Warn = func(err error) { warned = append(warned, err.Error()) }
	r := create(s.T, c)
	begun(s)
	if err := r.Execute(s.Context(), nil); err != nil {
		s.Fatal(err)
	}
	events, sum := checked(s.T, r.Dir)
	if diff := cmp.Diff(events, told); diff != "" {
		s.Errorf("the run tells of other events than it records:\n%s", diff)
	}
	if len(events) != want || sum.JudgeCacheIntegrityEvents != want {
		s.Errorf("%d integrity events, %+v, want %d", sum.JudgeCacheIntegrityEvents, events, want)
	}
	for _, e := range events {
		if e.Kind != kind || e.Bad != 1 || len(e.Entries) != 1 || !a.found(s, e.Entries[0].Name, e.Entries[0].Reason) {
			s.Errorf("recorded %+v", e)
		}
	}
	// That it will not be submitted is worth a warning where it was meant to be.
	if unfit := want > 0 && c.plan.SubmitIntent; unfit && (len(warned) != 1 || !strings.Contains(warned[0], s.target())) || !unfit && len(warned) > 0 {
		s.Errorf("warned: %q", warned)
	}
	if n := askedAbout(server, c); n != a.again || sum.Judge.Asked != 3 || sum.Judge.Cached != 3-a.again || sum.Judge.Judged != 3 {
		s.Errorf("%d answers were asked about, judge %+v, want %d", n, sum.Judge, a.again)
	}
	if diff := cmp.Diff(s.cold.Scores, sum.Scores); diff != "" {
		s.Errorf("other scores:\n%s", diff)
	}
}
