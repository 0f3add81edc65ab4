package rundir

import (
	"testing"

	planpkg "github.com/gaia-harness/gaia/internal/plan"
	"github.com/gaia-harness/gaia/trajectory"
)

// TestBatteryCounts: a null battery is taken only from the plan's judge, and only
// where what it says goes together.
func TestBatteryCounts(t *testing.T) {
	type battery = trajectory.JudgeBattery
	withstood := func() battery {
		return battery{CostMicroUSD: new(int64(50)), Model: "umpire-1", Prompt: "judge.v1", Asked: 5, SHA256: "sha256:b", TokensIn: 700, TokensOut: 10, Tries: 5, Passed: true}
	}
	plan := func() *planpkg.JudgePlan {
		return &planpkg.JudgePlan{Battery: "sha256:b", Cache: true, Model: "umpire-1", Prompt: "judge.v1"}
	}
	one, two := []string{"colon"}, []string{"colon", "comma"}
	for _, c := range []struct {
		name    string
		change  func(*battery)
		refused bool
	}{
		{"withstood", func(*battery) {}, false},
		{"paid", func(b *battery) { b.Accepted, b.Passed = one, false }, false},
		{"unreadable", func(b *battery) { b.Unreadable, b.Passed = one, false }, false},
		{"refused in part", func(b *battery) { b.Refused = two }, false},
		{"refused by half and more", func(b *battery) { b.Refused, b.Passed = []string{"a", "b", "c"}, false }, false},
		{"not all of it", func(b *battery) {
			b.Asked, b.Problem, b.Passed, b.ErrorStatus = 2, "the judge could not be asked", false, 503
		}, false},
		{"nothing of it", func(b *battery) { b.Asked, b.Tries, b.Problem, b.Passed = 0, 0, "the judge could not be asked", false }, false},
		{"cost unknown", func(b *battery) { b.CostMicroUSD = nil }, false},
		{"remembered", remember, false},
		{"remembered as paid", func(b *battery) { remember(b); b.Passed = false }, false},

		{"another judge", func(b *battery) { b.Model = "umpire-2" }, true},
		{"another prompt", func(b *battery) { b.Prompt = "judge.v0" }, true},
		{"another battery", func(b *battery) { b.SHA256 = "sha256:c" }, true},
		{"paid and withstood", func(b *battery) { b.Accepted = one }, true},
		{"unreadable and withstood", func(b *battery) { b.Unreadable = one }, true},
		{"mostly refused and withstood", func(b *battery) { b.Refused = []string{"a", "b", "c"} }, true},
		{"nothing amiss and not withstood", func(b *battery) { b.Passed = false }, true},
		{"more named than put", func(b *battery) { b.Asked, b.Unreadable, b.Passed = 1, two, false }, true},
		{"named twice", func(b *battery) { b.Accepted, b.Passed = []string{"colon", "colon"}, false }, true},
		{"paid and unreadable", func(b *battery) { b.Accepted, b.Unreadable, b.Passed = one, one, false }, true},
		{"withstood with a problem", func(b *battery) { b.Problem = "gone" }, true},
		{"a status and no problem", func(b *battery) { b.ErrorStatus = 503 }, true},
		{"a status below nothing", func(b *battery) { b.Asked, b.Problem, b.Passed, b.ErrorStatus = 2, "gone", false, -1 }, true},
		{"withstood nothing", func(b *battery) { b.Asked, b.Tries = 0, 0 }, true},
		{"fewer tries than items", func(b *battery) { b.Tries = 4 }, true},
		{"remembered and asked", func(b *battery) { b.Cached = true }, true},
		{"remembered at a price", func(b *battery) { remember(b); b.CostMicroUSD = new(int64(1)) }, true},
		{"less than no tokens", func(b *battery) { b.TokensIn = -1 }, true},
		{"less than no time", func(b *battery) { b.LatencyMs = -1 }, true},
		{"less than no items", func(b *battery) { b.Asked, b.Tries, b.Problem, b.Passed = -1, 0, "gone", false }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := planpkg.New()
			m.Judge = plan()
			f := NewFold(m, "", nil)
			b := withstood()
			c.change(&b)
			if reason := f.battery(b); (reason != "") != c.refused {
				t.Errorf("reason is %q", reason)
			}
			settled := !c.refused && (b.Passed || b.Cached || len(b.Accepted) > 0)
			if _, got := f.Battery(); got != settled {
				t.Errorf("settled %v, want %v", got, settled)
			}
			if settled && f.battery(withstood()) == "" {
				t.Error("what is settled is put to the judge again")
			}
		})
	}
	uncached := plan()
	uncached.Cache = false
	remembered := withstood()
	remember(&remembered)
	for _, c := range []struct {
		name string
		plan *planpkg.JudgePlan
		b    battery
	}{
		{"no judge", nil, withstood()},
		{"a plan older than batteries", &planpkg.JudgePlan{Model: "umpire-1", Prompt: "judge.v1"}, withstood()},
		{"remembered without a cache", uncached, remembered},
	} {
		m := planpkg.New()
		m.Judge = c.plan
		if reason := NewFold(m, "", nil).battery(c.b); reason == "" {
			t.Errorf("%s: taken", c.name)
		}
	}
}

func remember(b *trajectory.JudgeBattery) {
	b.CostMicroUSD, b.Asked, b.Cached, b.TokensIn, b.TokensOut, b.Tries = new(int64), 0, true, 0, 0, 0
}

// TestBatteryAddsUp: every time that the battery was put to the judge is paid for,
// and the last one says how it stood.
func TestBatteryAddsUp(t *testing.T) {
	m := planpkg.New()
	m.Judge = &planpkg.JudgePlan{Battery: "sha256:b", Model: "umpire-1", Prompt: "judge.v1"}
	f := NewFold(m, "", nil)
	for i, put := range []int{2, 5} {
		b := trajectory.JudgeBattery{CostMicroUSD: new(int64(10 * put)), Model: "umpire-1", Prompt: "judge.v1", Asked: put, SHA256: "sha256:b", TokensIn: 100, TokensOut: 1, Tries: put, Passed: i == 1}
		if i == 0 {
			b.Problem = "the judge could not be asked"
		}
		if reason := f.battery(b); reason != "" {
			t.Fatal(reason)
		}
	}
	got := f.Summary().Judge
	if b := got.Battery; !b.Passed || b.Asked != 5 || b.Problem != "" || *b.CostMicroUSD != 70 || b.TokensIn != 200 || b.TokensOut != 2 {
		t.Errorf("battery %+v", b)
	}
	if *got.CostMicroUSD != 70 || got.TokensIn != 200 || got.TokensOut != 2 || got.Asked != 0 || f.Spent(0) != 70 {
		t.Errorf("judge %+v, spent %d", got, f.Spent(0))
	}
}

// TestSpentOnManyRequests: an event that tells of many requests of unknown cost
// counts as so many of the most expensive that is known.
func TestSpentOnManyRequests(t *testing.T) {
	f := NewFold(planpkg.New(), "", nil)
	f.price(trajectory.JudgeBattery{CostMicroUSD: new(int64(50)), Tries: 20}) // 3 each at most
	f.price(trajectory.JudgeBattery{Tries: 26})
	f.price(trajectory.Judgment{Tries: 2})
	f.price(trajectory.JudgeBattery{Tries: -4})
	if got := f.Spent(0); got != 50+28*3 {
		t.Errorf("spent %d", got)
	}
	if got := f.Spent(1000); got != 50+28*1000 {
		t.Errorf("spent %d, where a request may cost 1000", got)
	}
}
